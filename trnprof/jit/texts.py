"""Numbering texts by their first appearance, as scalar loops over bytes.

A table of texts is `data` (uint8, one text after the other), `offsets` (int64 [texts + 1], where each begins) and
`slots` (int64 [2^n], at most half in use): -1, or a text's hash above the 32 bits of its number.
"""

import numpy as np

from sim.jit import njit

NUMBER = 32
"""Bits of a slot below the hash."""
LOWER = (1 << NUMBER) - 1
START = 0x9747B28C
FACTOR = 0x5BD1E995


@njit(cache=True)
def mixed(data, low, high):
    """31 bits that follow from a text."""
    found = START ^ (high - low)
    p = low
    while p + 4 <= high:
        word = int(data[p]) | int(data[p + 1]) << 8 | int(data[p + 2]) << 16 | int(data[p + 3]) << 24
        found = ((found ^ word) * FACTOR) & LOWER
        found ^= found >> 15
        p += 4
    while p < high:
        found = ((found ^ int(data[p])) * FACTOR) & LOWER
        found ^= found >> 15
        p += 1
    return found >> 1


@njit(cache=True)
def same(one, first, last, other, low, high):
    """Whether two stretches of bytes are alike."""
    if last - first != high - low:
        return False
    for k in range(high - low):
        if one[first + k] != other[low + k]:
            return False
    return True


@njit(cache=True)
def slot_of(slots, wanted, data, offsets, sought, low, high):
    """The slot of a text whose hash is wanted, or the free one that it would take."""
    slot = wanted & (slots.size - 1)
    while slots[slot] >= 0:
        number = slots[slot] & LOWER
        if slots[slot] >> NUMBER == wanted and same(data, offsets[number], offsets[number + 1], sought, low, high):
            break
        slot = (slot + 1) & (slots.size - 1)
    return slot


@njit(cache=True)
def number_all(source, low, high, slots, data, offsets, known, codes):
    """Put the number of each text, whose hashes stand there, into codes; returns which texts were new."""
    fresh = np.empty(low.size, np.int64)
    count = 0
    for k in range(low.size):
        wanted = codes[k]
        slot = wanted & (slots.size - 1)
        found = slots[slot]
        while found >= 0:
            number = found & LOWER
            if found >> NUMBER == wanted:
                if number >= known:
                    twin = fresh[number - known]
                    if same(source, low[twin], high[twin], source, low[k], high[k]):
                        break
                elif same(data, offsets[number], offsets[number + 1], source, low[k], high[k]):
                    break
            slot = (slot + 1) & (slots.size - 1)
            found = slots[slot]
        if found < 0:
            found = wanted << NUMBER | (known + count)
            slots[slot] = found
            fresh[count] = k
            count += 1
        codes[k] = found & LOWER
    return fresh[:count]


@njit(cache=True)
def intern(source, low, high, slots, data, offsets, known, codes):
    """Number texts of a source, new ones behind those of the table; returns how many it has now.

    low, high : int64 [texts], begin and end of each;  codes : int64 [texts], their numbers
    """
    # One thing at a time: a loop that hashes, looks up and copies takes twice as long as three.
    for k in range(low.size):
        codes[k] = mixed(source, low[k], high[k])
    for k in number_all(source, low, high, slots, data, offsets, known, codes):
        at = offsets[known]
        size = high[k] - low[k]
        for p in range(size):
            data[at + p] = source[low[k] + p]
        known += 1
        offsets[known] = at + size
    return known


@njit(cache=True)
def spread(slots, wider):
    """Put what a table's slots hold into more of them."""
    for k in range(slots.size):
        if slots[k] >= 0:
            slot = (slots[k] >> NUMBER) & (wider.size - 1)
            while wider[slot] >= 0:
                slot = (slot + 1) & (wider.size - 1)
            wider[slot] = slots[k]


@njit(cache=True)
def look_up(slots, data, offsets, sought, places, codes):
    """Numbers of other texts, -1 for what the table has not; places are as offsets, of the texts sought."""
    for k in range(places.size - 1):
        wanted = mixed(sought, places[k], places[k + 1])
        slot = slot_of(slots, wanted, data, offsets, sought, places[k], places[k + 1])
        codes[k] = slots[slot] & LOWER if slots[slot] >= 0 else -1
