"""Alignment of two sequences of instructions."""

import numpy as np

from sim.jit import njit

GAP_ONE = 1
GAP_OTHER = 2
PAIR = 3


@njit(cache=True)
def align(one, other, kind_one, kind_other, weights, steps):
    """Best alignment in order: which step leads to each cell of the table.

    one, other           : int64[n], int64[m], equal where instructions are the same
    kind_one, kind_other : int64[n], int64[m], equal where they are at least of one kind
    weights              : int64[2], what a pair of the same and a pair of one kind is worth
    steps                : uint8[n + 1, m + 1], filled with GAP_ONE, GAP_OTHER, PAIR; returns the worth of all
    """
    n, m = one.size, other.size
    above = np.zeros(m + 1, np.int64)
    here = np.zeros(m + 1, np.int64)
    for j in range(1, m + 1):
        steps[0, j] = GAP_OTHER
    for i in range(1, n + 1):
        steps[i, 0] = GAP_ONE
        here[0] = 0
        for j in range(1, m + 1):
            best, step = above[j], GAP_ONE
            if here[j - 1] > best:
                best, step = here[j - 1], GAP_OTHER
            worth = 0
            if one[i - 1] == other[j - 1]:
                worth = weights[0]
            elif kind_one[i - 1] == kind_other[j - 1]:
                worth = weights[1]
            if worth > 0 and above[j - 1] + worth >= best:
                best, step = above[j - 1] + worth, PAIR
            here[j], steps[i, j] = best, step
        above, here = here, above
    return above[m]
