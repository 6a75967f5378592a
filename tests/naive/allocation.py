"""Slow twin of `sim/jit/allocation.py`: every place is tried."""

from __future__ import annotations

ROTATE, FIRST, BEST = range(3)


def fit(low: int, size: int, bank: int, align: int) -> int:
    def allowed(place: int) -> bool:
        if size > bank > 0:
            return place % bank == 0
        return place % align == 0 and (not bank or place // bank == (place + size - 1) // bank)

    while not allowed(low):
        low += 1
    return low


def blocked_until(low: int, high: int, fixed: list[tuple[int, int, int, int]], first: int, last: int) -> int:
    meets = [end for begin, end, born, dead in fixed if begin < high and low < end and born <= last and first <= dead]
    return meets[0] if meets else low


def find_gap(live: list[tuple[int, int]], begin: int, request: tuple, rules: tuple, fixed: list) -> int:
    """The lowest place from `begin` on, or the lowest one in the tightest gap."""
    size, first, last = request
    strategy, limit, bank, align = rules
    borders = [0, *(border for span in sorted(live) for border in span), limit]
    rooms = []
    for low, high in zip(borders[::2], borders[1::2], strict=True):
        low = max(low, begin)
        for place in range(low, high - size + 1):
            free = blocked_until(place, place + size, fixed, first, last) == place
            if place == fit(place, size, bank, align) and free:
                rooms.append((high - low, place))
                break
    if not rooms:
        return -1
    return min(rooms)[1] if strategy == BEST else rooms[0][1]


def insert(live: list[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    return sorted([*live, (low, high)])


def remove(live: list[tuple[int, int]], low: int) -> list[tuple[int, int]]:
    return [span for span in live if span[0] != low]


def place(size: list[int], first: list[int], last: list[int], rules: tuple, fixed: list) -> list[int]:
    """Places of the tiles, in the order of their first instruction, as far as they fit."""
    found: list[int] = []
    pointer = 0
    for t in range(len(size)):
        live: list[tuple[int, int]] = []
        for other in range(t):
            if last[other] >= first[t]:
                live = insert(live, found[other], found[other] + size[other])
        request = (size[t], first[t], last[t])
        place = find_gap(live, pointer, request, rules, fixed)
        if place < 0 and rules[0] == ROTATE:
            place = find_gap(live, 0, request, rules, fixed)
        if place < 0:
            break
        found.append(place)
        if rules[0] == ROTATE:
            pointer = place + size[t]
    return found
