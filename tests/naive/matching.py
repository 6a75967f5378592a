"""Slow twin of `trnprof.jit.matching`."""

from __future__ import annotations

from functools import cache

import numpy as np


def align(one, other, kind_one, kind_other, weights, steps: np.ndarray) -> int:
    def worth(i: int, j: int) -> int:
        if one[i] == other[j]:
            return int(weights[0])
        return int(weights[1]) if kind_one[i] == kind_other[j] else 0

    @cache
    def best(i: int, j: int) -> int:
        if not i or not j:
            return 0
        pair = best(i - 1, j - 1) + worth(i - 1, j - 1)
        return max(best(i - 1, j), best(i, j - 1), pair)

    for i in range(len(one) + 1):
        for j in range(len(other) + 1):
            if i and j and worth(i - 1, j - 1) and best(i - 1, j - 1) + worth(i - 1, j - 1) == best(i, j):
                steps[i, j] = 3
            elif i and (not j or best(i - 1, j) == best(i, j)):
                steps[i, j] = 1
            elif j:
                steps[i, j] = 2
    return best(len(one), len(other))
