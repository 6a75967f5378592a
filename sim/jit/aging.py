"""Places for tiles where memory has been free for longest, as scalar loops.

Memory is cut into grains; `until[g]` is the last instruction that uses the tile that lay in grain g last.
"""

from __future__ import annotations

from sim.jit import njit

SMALL = 1 << 19
"""Elements of `until` up to which the loops run as Python: most searches end at the first place that nothing used."""


@njit(small=SMALL, cache=True)
def newest(until, start, end, enough):
    """The last use of any of the grains start … end - 1; some use that is `enough` or later once there is one."""
    found = -1
    for g in range(start, end):
        if until[g] > found:
            found = until[g]
        if found >= enough:
            break
    return found


@njit(small=SMALL, cache=True)
def broken(until, start, count, now):
    """Whether a grain is in use of the block of `count` grains, at a multiple of it, that holds grain `start`."""
    block = start - start % count
    return newest(until, block, min(block + count, len(until)), now) >= now


@njit(small=SMALL, cache=True)
def longest_free(until, count, step, now, block):
    """First grain of the `count` grains, at multiples of `step`, that have been free for longest; -1 for none.

    block : only places in blocks of so many grains that are in use in part; 0 for any place
    """
    best, best_age = -1, now
    for start in range(0, len(until) - count + 1, step):
        if block > 0 and not broken(until, start, block, now):
            continue
        age = newest(until, start, start + count, best_age)
        if age < best_age:
            best, best_age = start, age
            if age < 0:
                break
    return best


@njit(small=64, cache=True)
def place(grains, first, last, until, block, offset):
    """Fill offset[t], in grains, for tiles in the order of their first instruction; the number of tiles placed.

    A tile begins at a multiple of its size if it can, which keeps memory from being cut into odd pieces.
    grains, first, last : int64[n]
    until               : int64[grains of the memory], -1 where nothing lay yet
    block               : smaller tiles go where a block of so many grains is in use in part, if they can; 0: anywhere
    """
    for t in range(len(grains)):
        found = -1
        if grains[t] < block:
            found = longest_free(until, grains[t], grains[t], first[t], block)
        if found < 0:
            found = longest_free(until, grains[t], grains[t], first[t], 0)
        if found < 0:
            found = longest_free(until, grains[t], 1, first[t], 0)
        if found < 0:
            return t
        offset[t] = found
        for g in range(found, found + grains[t]):
            until[g] = last[t]
    return len(grains)


@njit(small=SMALL, cache=True)
def oldest(until, kind, count, block, now):
    """First grain of the `count` grains that have been free for longest; -1 for none.

    A block of `block` grains takes tiles of one size, `kind[b]`, until it is free again; where that leaves no place,
    any is taken.
    """
    if count >= block:
        found = longest_free(until, count, block, now, 0)
    else:
        found, age = -1, now
        for b in range(len(kind)):
            first, last = b * block, min((b + 1) * block, len(until))
            if age < 0:
                break
            if kind[b] != count and newest(until, first, last, now) >= now:
                continue
            for start in range(first, last - count + 1, count):
                own = newest(until, start, start + count, age)
                if own < age:
                    found, age = start, own
    if found < 0:
        found = longest_free(until, count, 1, now, 0)
    if found >= 0:
        for b in range(found // block, -(-(found + count) // block)):
            kind[b] = count
    return found
