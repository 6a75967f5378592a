"""Sets of intervals: compiled sweeps against their slow twins, and the algebra that callers rely on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import intervals as naive
from trnprof import intervals
from trnprof.intervals import Spans
from trnprof.jit import intervals as jit

pytestmark = pytest.mark.jit

pairs = st.lists(st.tuples(st.integers(-40, 60), st.integers(-5, 30)), max_size=12)


def spans(rows: list[tuple[int, int]]) -> Spans:
    start = np.array([low for low, _ in rows], np.int64)
    return start, start + np.array([length for _, length in rows], np.int64)


def points(start: np.ndarray, end: np.ndarray) -> set[int]:
    return {point for low, high in zip(start.tolist(), end.tolist(), strict=True) for point in range(low, high)}


@settings(max_examples=200, deadline=None)
@given(rows=pairs)
def test_merging_agrees_with_the_slow_twin(rows):
    start, end = intervals.by_start(*spans(rows))
    ours, theirs = [np.zeros((2, start.size), np.int64) for _ in range(2)]
    kept = jit.merge_sorted(start, end, ours[0], ours[1])
    assert kept == naive.merge_sorted(start, end, theirs[0], theirs[1])
    np.testing.assert_array_equal(ours[:, :kept], theirs[:, :kept])
    assert jit.union_sorted(start, end) == naive.union_sorted(start, end)
    assert jit.apart(start, end) == naive.apart(start, end) == (np.array_equal(ours[0], start) and kept == start.size)


@settings(max_examples=200, deadline=None)
@given(first=pairs, second=pairs)
def test_overlapping_agrees_with_the_slow_twin(first, second):
    a, b = intervals.merge(*spans(first)), intervals.merge(*spans(second))
    room = a[0].size + b[0].size
    ours, theirs = [np.zeros((2, room), np.int64) for _ in range(2)]
    kept = jit.overlap_merged(*a, *b, ours[0], ours[1])
    assert kept == naive.overlap_merged(*a, *b, theirs[0], theirs[1])
    np.testing.assert_array_equal(ours[:, :kept], theirs[:, :kept])


@settings(max_examples=200, deadline=None)
@given(first=pairs, low=st.integers(0, 40), length=st.integers(1, 40))
def test_overlapping_with_one_interval_is_as_with_many(first, low, length):
    window = np.array([low]), np.array([low + length])
    expected = points(*intervals.merge(*spans(first))) & points(*window)
    for both in ((spans(first), window), (window, spans(first))):
        found = intervals.overlap(*both)
        assert points(*found) == expected
        assert jit.apart(*found)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(-2, 9), st.integers(0, 3)), max_size=30))
def test_unions_of_lanes_agree_with_the_slow_twin(rows):
    rows = np.array(sorted(rows), np.int64).reshape(-1, 3)
    start, end, lane = rows[:, 0].copy(), rows[:, 0] + rows[:, 1], rows[:, 2].copy()
    totals = np.full(4, -1, np.int64)
    jit.lane_unions(start, end, lane, np.full(4, -5), totals)
    assert totals.tolist() == naive.lane_unions(start, end, lane, 4)


@settings(max_examples=200, deadline=None)
@given(rows=pairs)
def test_merged_intervals_cover_the_same_points_once_and_stay_apart(rows):
    start, end = intervals.merge(*spans(rows))
    assert points(start, end) == points(*spans(rows))
    assert (start < end).all()
    assert (start[1:] > end[:-1]).all()
    assert intervals.union_ps(*spans(rows)) == len(points(start, end)) == int((end - start).sum())


@settings(max_examples=200, deadline=None)
@given(first=pairs, second=pairs)
def test_overlap_is_what_both_cover(first, second):
    both = points(*spans(first)) & points(*spans(second))
    assert points(*intervals.overlap(spans(first), spans(second))) == both
    assert intervals.overlap_ps(spans(first), spans(second)) == len(both)


@settings(max_examples=200, deadline=None)
@given(rows=pairs, low=st.integers(-50, 50), length=st.integers(0, 60))
def test_clip_and_gaps_split_a_window(rows, low, length):
    window = set(range(low, low + length))
    start, end = intervals.clip(*spans(rows), low, low + length)
    inside = points(start, end)
    assert ((start < low + length) & (end > low)).all()
    free = points(*intervals.gaps(*spans(rows), low, low + length))
    assert inside == points(*spans(rows)) & window
    assert free == window - inside


@pytest.mark.parametrize(
    ("rows", "merged"),
    [
        ([], []),
        ([(3, 0)], []),
        ([(0, 5), (5, 4)], [(0, 9)]),
        ([(6, 6), (0, 9), (2, 2)], [(0, 12)]),
        ([(9, -3), (0, 1)], [(0, 1)]),
    ],
    ids=["empty", "no length", "touching", "nested, unsorted", "ends before it starts"],
)
def test_merge_of(rows, merged):
    start, end = intervals.merge(*spans(rows))
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == merged


def test_picoseconds_beyond_32_bits_are_exact():
    far = 1 << 60
    assert intervals.union_ps(np.array([far, far + 1]), np.array([far + 2, far + 4])) == 4


def test_the_callers_arrays_are_left_alone():
    start, end = np.array([5, 0], np.int64), np.array([6, 9], np.int64)
    intervals.merge(start, end)
    assert start.tolist() == [5, 0]
    assert end.tolist() == [6, 9]
