"""Sets of time as unsorted half-open intervals [start, end) in int64 ps.

An interval that is empty or ends before it starts counts as nothing.
"""

from __future__ import annotations

import numpy as np

Spans = tuple[np.ndarray, np.ndarray]
"""Starts and ends, each int64 [n]."""


def merge(start: np.ndarray, end: np.ndarray) -> Spans:
    """The union as sorted intervals that neither overlap nor touch."""
    from trnprof.jit.intervals import apart, merge_sorted

    start, end = np.ascontiguousarray(start, np.int64), np.ascontiguousarray(end, np.int64)
    if apart(start, end):
        return start, end
    start, end = by_start(start, end)
    out_start, out_end = np.empty_like(start), np.empty_like(end)
    kept = merge_sorted(start, end, out_start, out_end)
    return out_start[:kept].copy(), out_end[:kept].copy()


def union_ps(start: np.ndarray, end: np.ndarray) -> int:
    """Length of the union."""
    from trnprof.jit.intervals import union_sorted

    return int(union_sorted(*by_start(start, end)))


def clip(start: np.ndarray, end: np.ndarray, low: int, high: int) -> Spans:
    """The parts inside [low, high); intervals outside of it are left out."""
    start, end = np.asarray(start, np.int64), np.asarray(end, np.int64)
    inside = (start < high) & (end > low) & (low < high)
    return np.maximum(start[inside], low), np.minimum(end[inside], high)


def overlap(first: Spans, second: Spans) -> Spans:
    """The intersection of two sets, merged."""
    from trnprof.jit.intervals import overlap_merged

    a_start, a_end = merge(*first)
    b_start, b_end = merge(*second)
    if a_start.size == 1:
        return _within(b_start, b_end, int(a_start[0]), int(a_end[0]))
    if b_start.size == 1:
        return _within(a_start, a_end, int(b_start[0]), int(b_end[0]))
    room = a_start.size + b_start.size
    out_start, out_end = np.empty(room, np.int64), np.empty(room, np.int64)
    kept = overlap_merged(a_start, a_end, b_start, b_end, out_start, out_end)
    return out_start[:kept].copy(), out_end[:kept].copy()


def _within(start: np.ndarray, end: np.ndarray, low: int, high: int) -> Spans:
    """What of a merged set lies in [low, high)."""
    inside = slice(np.searchsorted(end, low, "right"), np.searchsorted(start, high))
    return np.maximum(start[inside], low), np.minimum(end[inside], high)


def overlap_ps(first: Spans, second: Spans) -> int:
    """Length of the intersection of two sets."""
    start, end = overlap(first, second)
    return int((end - start).sum())


def gaps(start: np.ndarray, end: np.ndarray, low: int, high: int) -> Spans:
    """What [low, high) has outside of the union."""
    start, end = merge(*clip(start, end, low, high))
    free_start = np.concatenate(([low], end)).astype(np.int64)
    free_end = np.concatenate((start, [high])).astype(np.int64)
    kept = free_end > free_start
    return free_start[kept], free_end[kept]


def by_start(start: np.ndarray, end: np.ndarray) -> Spans:
    """The intervals sorted by start, as contiguous int64; sorted input is passed through."""
    start, end = np.ascontiguousarray(start, np.int64), np.ascontiguousarray(end, np.int64)
    if start.size > 1 and np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    return start, end
