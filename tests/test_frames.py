"""The level-of-detail kernels against their slow twins, and what they promise a screen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.naive import frames as naive
from trnprof.jit import frames
from trnprof.view.lanes import Columns, Lane

pytestmark = pytest.mark.jit

FIELDS = ("BUSY_WORK", "BUSY_OTHER", "COUNT_WORK", "LONGEST", "BUSY_WASTE", "MAX_GAP")


def lane_of(rows: list[naive.Row]) -> Lane:
    flags = [frames.WORK * row.work + frames.WASTE * row.waste for row in rows]
    return Lane(Columns(*(np.array([r[k] for r in rows], np.int64) for k in (0, 1)), np.array(flags, np.uint8)))


def marks_of(lane: Lane, t0: int, t1: int, bucket: int) -> list[naive.Mark]:
    return [
        naive.Mark(*(int(x) for x in m[:7]), bool(m[7] & frames.WORK), bool(m[7] & frames.WASTE))
        for m in lane.marks(t0, t1, bucket)
    ]


def random_rows(seed: int, n: int, pipelined: bool = False, apart: int = 6) -> list[naive.Row]:
    rng = np.random.default_rng(seed)
    start = np.sort(rng.integers(0, apart * n, n))
    length = rng.choice([0, 1, 2, 5, 9, 40, 200], n, p=[0.05, 0.3, 0.2, 0.2, 0.1, 0.1, 0.05])
    end = start + length
    if pipelined:
        end = np.maximum.accumulate(end)
    kind = rng.random((n, 2))
    return [
        naive.Row(int(s), int(e), bool(k[0] > 0.3), bool(k.min() > 0.5))
        for s, e, k in zip(start, end, kind, strict=True)
    ]


rows_strategy = st.builds(
    random_rows, st.integers(0, 10_000), st.integers(1, 120), st.booleans(), st.sampled_from([6, 30])
)


@settings(max_examples=60, deadline=None)
@given(rows=rows_strategy, bucket=st.sampled_from([1, 2, 4, 16, 64]), first=st.integers(0, 20), span=st.integers(1, 60))
def test_marks_are_what_the_slow_twin_draws(rows, bucket, first, span):
    t0 = first * naive.CELL_BUCKETS * bucket
    t1 = t0 + span * bucket
    assert marks_of(lane_of(rows), t0, t1, bucket) == naive.scan(rows, t0, t1, bucket)


def test_a_row_that_later_ones_cover_where_the_window_begins_is_left_out_of_a_block_too():
    rows = [naive.Row(0, 2, work=False), *(naive.Row(k, k + 9) for k in range(frames.FINE))]
    assert marks_of(lane_of(rows), 0, 256, 64) == naive.scan(rows, 0, 256, 64)
    assert marks_of(lane_of(rows), 0, 256, 64)[0].count == frames.FINE


@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("bucket", [16, 512, 4096])
def test_whole_blocks_change_nothing(pipelined, bucket):
    rows = random_rows(7, 9000, pipelined)
    lane, plain = lane_of(rows), lane_of(rows)
    fine, coarse = plain.blocks
    fine[:, frames.MAX_BODY] = coarse[:, frames.MAX_BODY] = frames.FAR
    assert len(lane.marks(0, 60_000, bucket))
    np.testing.assert_array_equal(lane.marks(0, 60_000, bucket), plain.marks(0, 60_000, bucket))


@pytest.mark.parametrize("apart", [6, 30])
@pytest.mark.parametrize("shortest", [1, 3, 17])
def test_gaps_are_what_the_slow_twin_finds(apart, shortest):
    seen = 0
    for seed in range(40):
        rows = random_rows(seed, 60, seed % 2 == 0, apart)
        for t0, origin in ((0, 0), (97, 60), (400, 500)):
            found = [tuple(int(x) for x in gap) for gap in lane_of(rows).gaps(t0, t0 + 300, shortest, origin)]
            assert found == naive.gaps(rows, t0, t0 + 300, shortest, origin)
            seen += len(found)
    assert seen


def test_whole_blocks_hide_no_gap():
    rows = [naive.Row(2 * i, 2 * i + 1) for i in range(5000)] + [naive.Row(20_000 + i, 20_001 + i) for i in range(5000)]
    assert lane_of(rows).gaps(-60, 40_000, 5, -50).tolist() == [[-50, 0, 0], [9999, 20_000, 5000]]


@settings(max_examples=40, deadline=None)
@given(rows=rows_strategy, t0=st.integers(0, 500), span=st.integers(1, 900), columns=st.integers(1, 30))
def test_coverage_counts_overlap_once(rows, t0, span, columns):
    found = lane_of(rows).coverage(t0, t0 + span, columns)
    np.testing.assert_allclose(found, naive.coverage(rows, t0, t0 + span, columns), atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(rows=rows_strategy)
def test_blocks_say_what_their_rows_come_to(rows):
    fine, _ = lane_of(rows).blocks
    expected = naive.build(rows, frames.FINE)
    for name in FIELDS:
        column = fine[:, getattr(frames, name)]
        assert column.tolist() == [block[name] for block in expected], name
    assert fine[:, frames.MAX_BODY].tolist() == naive.measure_bodies(rows, frames.FINE)


def test_coarse_blocks_are_blocks_of_more_rows():
    rows = random_rows(3, 700)
    _, coarse = lane_of(rows).blocks
    expected = naive.coarsen(rows, frames.COARSE)
    for name in FIELDS:
        assert coarse[:, getattr(frames, name)].tolist() == [block[name] for block in expected], name


@settings(max_examples=40, deadline=None)
@given(
    spans=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(0, 3)), max_size=40),
    limit=st.integers(1, 5),
)
def test_lanes_never_overlap_below_the_last(spans, limit):
    spans = sorted((start, start + length, floor) for start, length, floor in spans)
    start, end, floor = (np.array([s[k] for s in spans], np.int64) for k in range(3))
    out = np.empty(len(spans), np.int32)
    used = frames.lanes(start, end, floor.astype(np.int32), limit, out)
    assert out.tolist() == naive.lanes([s[:2] for s in spans], [s[2] for s in spans], limit)
    assert used == (max(out) + 1 if spans else 0)


def test_nothing_is_hidden_at_any_zoom():
    rows = random_rows(11, 2000)
    lane = lane_of(rows)
    for bucket in (1, 4, 64, 1024, 8192):
        assert sum(m.count for m in marks_of(lane, 0, 16_384 * 8, bucket)) == len(rows)


def test_a_frame_is_bounded_by_the_screen_even_when_rows_pile_up():
    pile = [naive.Row(i, 10_000_000 + i) for i in range(5000)] + [naive.Row(5000, 9_000_000 - i) for i in range(5000)]
    lane = lane_of(pile)
    for t0 in (0, 4096, 8_388_608):
        assert len(lane.marks(t0, t0 + 64 * 100, 64)) <= 3 * 100
    assert marks_of(lane, 8_388_608, 8_388_608 + 6400, 64), "a window inside the pile is not empty"


def test_work_is_not_cut_by_the_control_inside_it():
    rows = [naive.Row(0, 100), naive.Row(10, 12, work=False), naive.Row(80, 180)]
    bar = marks_of(lane_of(rows), 0, 400, 1)[0]
    assert (bar.start, bar.body, bar.end) == (0, 80, 100)


def test_every_moment_is_charged_to_the_first_class_that_is_active():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        classes = []
        for _ in range(4):
            edges = np.unique(rng.integers(0, 120, 2 * rng.integers(0, 8)))
            classes.append([(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=False)])
        start, end = (np.array([span[k] for spans in classes for span in spans], np.int64) for k in (0, 1))
        first = np.cumsum([0, *(len(spans) for spans in classes)])
        out = np.empty((2 * start.size + 1, 3), np.int64)
        filled = frames.charge(start, end, first, np.array([10, 100], np.int64), out)
        assert [tuple(row) for row in out[:filled].tolist()] == naive.charge(classes, 10, 100)
