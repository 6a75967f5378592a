"""Places for tiles where memory has been free for longest, as scalar loops.

Memory is cut into grains; `until[g]` is the last instruction that uses the tile that lay in grain g last.
"""

from __future__ import annotations

import numpy as np

from sim.jit import njit


@njit(cache=True)
def broken(until, start, count, now):
    """Whether a grain is in use of the block of `count` grains, at a multiple of it, that holds grain `start`."""
    block = start - start % count
    for g in range(block, min(block + count, until.size)):
        if until[g] >= now:
            return True
    return False


@njit(cache=True)
def longest_free(until, count, step, now, block):
    """First grain of the `count` grains, at multiples of `step`, that have been free for longest; -1 for none.

    block : only places in blocks of so many grains that are in use in part; 0 for any place
    """
    best, best_age = np.int64(-1), np.int64(now)
    for start in range(0, until.size - count + 1, step):
        if block > 0 and not broken(until, start, block, now):
            continue
        age = np.int64(-1)
        for g in range(start, start + count):
            if until[g] > age:
                age = until[g]
                if age >= best_age:
                    break
        if age < best_age:
            best, best_age = np.int64(start), age
    return best


@njit(cache=True)
def place(grains, first, last, until, block, offset):
    """Fill offset[t], in grains, for tiles in the order of their first instruction; the number of tiles placed.

    A tile begins at a multiple of its size if it can, which keeps memory from being cut into odd pieces.
    grains, first, last : int64[n]
    until               : int64[grains of the memory], -1 where nothing lay yet
    block               : smaller tiles go where a block of so many grains is in use in part, if they can; 0: anywhere
    """
    for t in range(grains.size):
        found = np.int64(-1)
        if grains[t] < block:
            found = longest_free(until, grains[t], grains[t], first[t], block)
        if found < 0:
            found = longest_free(until, grains[t], grains[t], first[t], 0)
        if found < 0:
            found = longest_free(until, grains[t], np.int64(1), first[t], 0)
        if found < 0:
            return t
        offset[t] = found
        until[found : found + grains[t]] = last[t]
    return grains.size


@njit(cache=True)
def oldest(until, kind, count, block, now):
    """First grain of the `count` grains that have been free for longest; -1 for none.

    A block of `block` grains takes tiles of one size, `kind[b]`, until it is free again; where that leaves no place,
    any is taken.
    """
    if count >= block:
        found = longest_free(until, np.int64(count), np.int64(block), np.int64(now), 0)
    else:
        found, age = np.int64(-1), np.int64(now)
        for b in range(kind.size):
            first, last = b * block, min((b + 1) * block, until.size)
            if kind[b] != count and until[first:last].max() >= now:
                continue
            for start in range(first, last - count + 1, count):
                own = until[start : start + count].max()
                if own < age:
                    found, age = np.int64(start), own
    if found < 0:
        found = longest_free(until, np.int64(count), np.int64(1), np.int64(now), 0)
    if found >= 0:
        for b in range(found // block, -(-(found + count) // block)):
            kind[b] = count
    return found
