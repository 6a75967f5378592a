"""Which places of a queue compete: a heap of those that will be ready, a set of those that are."""

import numpy as np

from sim.jit import njit

BARE = {"_nrt": False}
"""All arrays outlive the call: references to them are not counted, which would cost a quarter of the time."""

INLINE = {**BARE, "forceinline": True}

WORD = 5
"""A word of a set holds 1 << WORD places, so does a word of its summary of words."""

BITS = (1 << WORD) - 1

SPREAD = 0x077CB531
"""De Bruijn's: its five bits from any place on are a number of their own."""

LOWEST = np.array([bit for _, bit in sorted(((SPREAD << bit & 0xFFFFFFFF) >> 27, bit) for bit in range(32))])


@njit(cache=True, **INLINE)
def push(heap, base, count, key, value):
    """Add (key, value) to the heap of `count` pairs from heap[base] on, smallest first."""
    hole = count
    while hole > 0:
        above = (hole - 1) >> 1
        up, tie = heap[base + 2 * above], heap[base + 2 * above + 1]
        if up < key or (up == key and tie <= value):
            break
        heap[base + 2 * hole] = up
        heap[base + 2 * hole + 1] = tie
        hole = above
    heap[base + 2 * hole] = key
    heap[base + 2 * hole + 1] = value


@njit(cache=True, **INLINE)
def pop(heap, base, count):
    """Take the smallest pair away from the heap of `count` pairs from heap[base] on."""
    last = count - 1
    key, value = heap[base + 2 * last], heap[base + 2 * last + 1]
    hole = 0
    below = 1
    while below < last:
        down, tie = heap[base + 2 * below], heap[base + 2 * below + 1]
        if below + 1 < last:
            other, other_tie = heap[base + 2 * below + 2], heap[base + 2 * below + 3]
            if other < down or (other == down and other_tie < tie):
                below, down, tie = below + 1, other, other_tie
        if key < down or (key == down and value <= tie):
            break
        heap[base + 2 * hole] = down
        heap[base + 2 * hole + 1] = tie
        hole = below
        below = 2 * hole + 1
    heap[base + 2 * hole] = key
    heap[base + 2 * hole + 1] = value


@njit(cache=True, **INLINE)
def lowest(word):
    """Number of the lowest bit that is set."""
    return LOWEST[((word & -word) * SPREAD & 0xFFFFFFFF) >> 27]


@njit(cache=True, **INLINE)
def mark(marks, words, summary, place):
    """Put a place into the set whose words begin at `words`."""
    word = place >> WORD
    marks[words + word] |= 1 << (place & BITS)
    marks[summary + (word >> WORD)] |= 1 << (word & BITS)


@njit(cache=True, **INLINE)
def take(marks, words, summary, low):
    """Take the smallest place out of the set, which is not empty; no word of its summary before `low` has a mark."""
    while marks[summary + low] == 0:
        low += 1
    above = marks[summary + low]
    word = (low << WORD) + lowest(above)
    bits = marks[words + word]
    place = (word << WORD) + lowest(bits)
    bits &= bits - 1
    marks[words + word] = bits
    if bits == 0:
        marks[summary + low] = above & above - 1
    return place
