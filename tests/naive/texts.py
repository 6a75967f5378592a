"""Texts numbered by their first appearance, with a dictionary."""


def intern(source, low, high, slots, data, offsets, known, codes):
    numbers = table(data, offsets, known)
    for k, (a, b) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        text = source[a:b].tobytes()
        if text not in numbers:
            numbers[text] = known
            at = offsets[known]
            data[at : at + b - a] = source[a:b]
            known += 1
            offsets[known] = at + b - a
        codes[k] = numbers[text]
    return known


def table(data, offsets, known):
    return {data[offsets[k] : offsets[k + 1]].tobytes(): k for k in range(known)}


def spread(slots, wider):
    wider[: slots.size] = slots


def look_up(slots, data, offsets, sought, places, codes):
    numbers = table(data, offsets, offsets.size - 1)
    for k in range(places.size - 1):
        codes[k] = numbers.get(sought[places[k] : places[k + 1]].tobytes(), -1)
