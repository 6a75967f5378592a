"""Slow twins of `trnprof.jit.intervals`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def apart(start: np.ndarray, end: np.ndarray) -> bool:
    spans = list(zip(start.tolist(), end.tolist(), strict=True))
    return all(low < high for low, high in spans) and all(b[0] > a[1] for a, b in pairwise(spans))


def merge_sorted(start: np.ndarray, end: np.ndarray, out_start: np.ndarray, out_end: np.ndarray) -> int:
    spans: list[list[int]] = []
    for low, high in zip(start.tolist(), end.tolist(), strict=True):
        if high <= low:
            continue
        if spans and low <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], high)
        else:
            spans.append([low, high])
    for row, (low, high) in enumerate(spans):
        out_start[row], out_end[row] = low, high
    return len(spans)


def union_sorted(start: np.ndarray, end: np.ndarray) -> int:
    covered: set[int] = set()
    for low, high in zip(start.tolist(), end.tolist(), strict=True):
        covered.update(range(low, high))
    return len(covered)


def overlap_merged(
    a_start: np.ndarray,
    a_end: np.ndarray,
    b_start: np.ndarray,
    b_end: np.ndarray,
    out_start: np.ndarray,
    out_end: np.ndarray,
) -> int:
    kept = 0
    for a_low, a_high in zip(a_start.tolist(), a_end.tolist(), strict=True):
        for b_low, b_high in zip(b_start.tolist(), b_end.tolist(), strict=True):
            low, high = max(a_low, b_low), min(a_high, b_high)
            if low < high:
                out_start[kept], out_end[kept] = low, high
                kept += 1
    return kept


def lane_unions(start: np.ndarray, end: np.ndarray, lane: np.ndarray, lanes: int) -> list[int]:
    """Moment by moment; -1 for a lane without intervals."""
    seen: list[set[int] | None] = [None] * lanes
    for low, high, at in zip(start.tolist(), end.tolist(), lane.tolist(), strict=True):
        seen[at] = (seen[at] or set()) | set(range(low, high))
    return [-1 if moments is None else len(moments) for moments in seen]
