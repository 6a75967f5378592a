"""The trace is cut without losing or counting twice, whatever it is cut into."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.trace import Engine, Memory, QueueType, RegionKind
from tests.handmade import ins, make, matmul, move, packets_of, region, trigger, vector
from trnprof.regions import by_region, by_source_line, selection, whole, window
from trnprof.work import Index, lane_union_ps


def test_the_whole_counts_every_working_row_of_the_window_once():
    rows = [ins(Engine.TENSOR, 0, 50, control=True), matmul(100), matmul(300, kind="TRANSPOSE"), vector(300, 100, 64)]
    work = whole(make(rows, [move(100, 200, 4096)], window=(100, 600))).work
    assert work.time_ps == 500_000
    assert work.instructions == (2, 1, 0, 0, 0)
    assert work.active_ps == (413_000, 100_000, 0, 0, 0)
    assert work.flops == 2 * 128 * 128 * 512
    assert work.hardware_flops == 2 * work.flops
    assert work.transpose_flops == work.flops
    assert work.elements == (0, 128 * 64, 0, 0, 0)
    assert (work.hbm_read_bytes, work.hbm_write_bytes, work.dma_active_ps) == (4096, 0, 200_000)


@pytest.mark.parametrize(
    "rows",
    [
        [{"flops": 400, "adjusted_flops": 800}, {"flops": 400, "adjusted_flops": 800}],
        [{"flops": 400, "adjusted_flops": 0}, {"flops": 400, "adjusted_flops": 0}],
        [{"flops": 200, "adjusted_flops": 800}, {"flops": 200, "adjusted_flops": 800}],
        [{"flops": 800, "adjusted_flops": 1600}],
    ],
    ids=["each pass counts all", "without equivalents", "each pass counts half", "one row for both passes"],
)
def test_an_fp32_product_counts_once_however_the_profile_divides_its_passes(rows):
    made = [ins(Engine.TENSOR, k * 10, 10, "MATMUL", kind="REGULAR", dtype="fp32", **row) for k, row in enumerate(rows)]
    assert whole(make(made)).work.flops == 400


def test_dtypes_are_ranked_by_the_time_they_take():
    work = whole(make([matmul(0, columns=100), matmul(300, columns=60, dtype="fp32")])).work
    assert [dtype for dtype, _ in work.dtypes] == ["fp32", "bf16"]


def test_a_trace_without_a_window_spans_its_work():
    trace = make([ins(Engine.SYNC, 0, 5, control=True), vector(100, 50)], [move(40, 20, 512)])
    bare = make([vector(100, 50)], [move(40, 20, 512)], window=(0, 0))
    assert window(trace) == (0, 150_000)
    assert window(bare) == (40_000, 150_000)
    assert window(make([])) == (0, 0)


def test_regions_hold_their_descendants_and_what_these_triggered():
    regions = [region("kernel", 0, 900, RegionKind.KERNEL), region("outer", 0, 500, parent=0),
               region("inner", 100, 300, parent=1), region("other", 500, 900, parent=0)]  # fmt: skip
    rows = [trigger(0, 50, region=1), vector(120, 80, 4, region=2), vector(600, 100, 4, region=3), vector(800, 50, 4)]
    found = {each.name: each for each in by_region(make(rows, [move(60, 40, 2048, 0)], regions=regions))}
    assert [found[name].rows.tolist() for name in ("kernel", "outer", "inner", "other")] == [
        [0, 1, 2],
        [0, 1],
        [1],
        [2],
    ]
    assert [found[name].depth for name in ("kernel", "outer", "inner", "other")] == [0, 1, 2, 1]
    assert found["outer"].transfers.tolist() == [0]
    assert found["inner"].work.dma_bytes == 0
    assert found["outer"].work.time_ps == 500_000


def test_regions_come_in_tree_order_even_when_siblings_interleave():
    regions = [region("a", 0, 9), region("b", 0, 9), region("a1", 0, 9, parent=0), region("b1", 0, 9, parent=1)]
    assert [each.name for each in by_region(make([vector(0, 9)], regions=regions))] == ["a", "a1", "b", "b1"]


def test_a_source_line_lasts_as_long_as_its_work_and_the_waits_before_it():
    rows = [vector(0, 100, source="k.py:1"), vector(150, 100, source="k.py:2"), vector(250, 50, source="k.py:1"),
            vector(900, 100, source="k.py:2")]  # fmt: skip
    lines = {line.name: line for line in by_source_line(make(rows))}
    assert lines["k.py:1"].work.time_ps == 150_000
    assert lines["k.py:2"].work.time_ps == (50 + 100 + 600 + 100) * 1000
    assert list(lines) == ["k.py:2", "k.py:1"]


def test_a_trace_without_lines_or_regions_has_none():
    trace = make([vector(0, 10)])
    assert by_source_line(trace) == ()
    assert by_region(trace) == ()


def test_a_selection_counts_the_part_inside():
    trace = make([matmul(0, 100), matmul(100, 100)], [move(0, 200, 2000)])
    work = selection(trace, 50_000, 100_000).work
    assert work.time_ps == 50_000
    assert work.flops == 128 * 128 * 512
    assert work.hbm_read_bytes == 500
    assert work.active_ps[0] == 50_000


def test_a_selection_may_be_drawn_backwards_and_may_be_empty():
    trace = make([matmul(0, 100)])
    assert selection(trace, 100_000, 0).work == selection(trace, 0, 100_000).work
    assert selection(trace, 5_000, 5_000).work.time_ps == 0
    assert selection(trace, 500_000, 600_000).rows.size == 0


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(1, 100)), min_size=1, max_size=20), st.integers(1, 499))
def test_two_halves_of_a_window_sum_to_the_whole(spans, cut):
    trace = make([vector(start, length, length) for start, length in spans], window=(0, 500))
    index = Index(trace)
    low, high = selection(trace, 0, cut * 1000, index).work, selection(trace, cut * 1000, 500_000, index).work
    both = selection(trace, 0, 500_000, index).work
    assert low.active_ps[1] + high.active_ps[1] == both.active_ps[1]
    assert low.elements[1] + high.elements[1] == pytest.approx(both.elements[1], abs=1)


def test_bytes_of_instructions_go_before_those_of_transfers():
    rows = [trigger(0, 10, hbm_read_bytes=100), trigger(20, 10, hbm_write_bytes=7)]
    work = whole(make(rows, [move(10, 10, 64, 0), move(30, 10, 64, 1)])).work
    assert (work.hbm_read_bytes, work.hbm_write_bytes) == (100, 7)


def test_transfers_that_stay_on_chip_are_no_hbm_traffic():
    inside = {"source_memory": Memory.SBUF, "dest_memory": Memory.SBUF}
    out = {"source_memory": Memory.SBUF, "dest_memory": Memory.HBM}
    unknown = {"source_memory": -1, "dest_memory": -1}
    work = whole(
        make([vector(0, 99)], [move(0, 9, 10, **inside), move(10, 9, 20, **out), move(20, 9, 40, **unknown)])
    ).work
    assert (work.hbm_read_bytes, work.hbm_write_bytes, work.dma_bytes) == (40, 20, 70)


def test_packets_alone_are_enough_but_fetches_and_semaphores_carry_nothing():
    fetch = [
        {**packets_of(0, 9, 16 * 64)[0], "queue_type": QueueType.INSTRUCTION},
        {**packets_of(0, 9, 64)[0], "bytes": 4},
    ]
    work = whole(make([vector(0, 99)], packets=packets_of(10, 20, 1600) + fetch)).work
    assert (work.hbm_bytes, work.dma_bytes, work.dma_active_ps) == (1600, 1600, 20_000)


def test_cores_are_not_added_up():
    work = whole(make([vector(0, 100, core=0), vector(0, 60, core=1), vector(100, 60, core=1)])).work
    assert work.active_ps[1] == 120_000


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 20)), max_size=30))
def test_unions_by_lane_are_those_of_each_lane_alone(spans):
    lane, start, length = (
        (np.array(column, np.int64) for column in zip(*spans, strict=True)) if spans else [np.empty(0, np.int64)] * 3
    )
    expected = {}
    for key in set(lane.tolist()):
        covered = {t for k, s, n in spans if k == key for t in range(s, s + n)}
        expected[key] = len(covered)
    assert lane_union_ps(start, start + length, lane) == expected
