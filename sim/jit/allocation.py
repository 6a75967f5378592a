"""Places for tiles in one on-chip memory, as scalar loops.

Every tile takes the same bytes of all partitions, so places are intervals of bytes. `live_lo`, `live_hi` are the
intervals taken at the moment, ascending; `count` of them are valid.
"""

from __future__ import annotations

import numpy as np

from sim.jit import njit

ROTATE = 0
FIRST = 1
BEST = 2


@njit(cache=True)
def fit(low, size, bank, align):
    """The first allowed place at or after `low` for `size` bytes.

    bank : no tile crosses a multiple of it unless it is larger, and then it begins at one; 0 for no banks
    """
    low = -(-low // align) * align
    if bank > 0:
        if size > bank:
            return -(-low // bank) * bank
        if low // bank != (low + size - 1) // bank:
            return -(-low // bank) * bank
    return low


@njit(cache=True)
def blocked_until(low, high, fixed, first, last):
    """End of a fixed interval that [low, high) would meet while alive, `low` when there is none.

    fixed : int64[f, 4] (low byte, high byte, first, last instruction)
    """
    for f in range(fixed.shape[0]):
        if fixed[f, 0] < high and low < fixed[f, 1] and fixed[f, 2] <= last and first <= fixed[f, 3]:
            return fixed[f, 1]
    return low


@njit(cache=True)
def find_gap(live_lo, live_hi, count, begin, request, rules, fixed):
    """Lowest free place at or after `begin`, or the tightest with `rules` BEST; -1 for none.

    request : (bytes, first instruction, last instruction)
    rules   : (strategy, limit in bytes, bank, alignment)
    """
    size, first, last = request
    strategy, limit, bank, align = rules
    best, best_room = -1, limit + 1
    low = begin + 0
    for k in range(count + 1):
        if k < count and live_hi[k] <= low:
            continue
        high = live_lo[k] if k < count else limit
        place = fit(low, size, bank, align)
        while place + size <= high:
            until = blocked_until(place, place + size, fixed, first, last)
            if until == place:
                break
            place = fit(until, size, bank, align)
        if place + size <= high:
            if strategy != BEST:
                return place
            if high - low < best_room:
                best, best_room = place, high - low
        if k < count:
            low = max(low, live_hi[k])
    return best


@njit(cache=True)
def insert(live_lo, live_hi, count, low, high):
    """Add an interval, keeping the order; returns the new count."""
    k = count
    while k > 0 and live_lo[k - 1] > low:
        live_lo[k] = live_lo[k - 1]
        live_hi[k] = live_hi[k - 1]
        k -= 1
    live_lo[k] = low
    live_hi[k] = high
    return count + 1


@njit(cache=True)
def remove(live_lo, live_hi, count, low):
    """Take away the interval that begins at `low`; returns the new count."""
    k = 0
    while live_lo[k] != low:
        k += 1
    for j in range(k, count - 1):
        live_lo[j] = live_lo[j + 1]
        live_hi[j] = live_hi[j + 1]
    return count - 1


@njit(cache=True, small=2000)
def place(size, first, last, by_last, rules, fixed, offset):
    """Fill offset[t] for tiles in the order of their first instruction; the number of tiles placed.

    size, first, last : int64[n], bytes a partition, instructions; sorted by `first`
    by_last           : int64[n], tiles sorted by `last`
    rules             : (strategy, limit in bytes, bank, alignment); ROTATE goes on where the last tile ended
    """
    live_lo = np.empty(len(offset), np.int64)
    live_hi = np.empty(len(offset), np.int64)
    count, dead, pointer = 0, 0, 0
    for t in range(len(size)):
        while last[by_last[dead]] < first[t]:
            count = remove(live_lo, live_hi, count, offset[by_last[dead]])
            dead += 1
        request = (size[t], first[t], last[t])
        found = find_gap(live_lo, live_hi, count, pointer, request, rules, fixed)
        if found < 0 and rules[0] == ROTATE:
            found = find_gap(live_lo, live_hi, count, 0, request, rules, fixed)
        if found < 0:
            return t
        offset[t] = found
        if rules[0] == ROTATE:
            pointer = found + size[t]
        count = insert(live_lo, live_hi, count, found, found + size[t])
    return len(size)
