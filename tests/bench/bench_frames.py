"""How long the view-model takes: `pytest -n 0 tests/bench/bench_frames.py`; no timed assertions.

A lane of ten million instructions, back to back on one engine, at four zooms of a 1500 px screen; and whole frames of a
million instructions on five engines with their transfers, as the browser asks for them (three screens wide).
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.synthetic import large
from trnprof.jit import frames
from trnprof.view import Session, Viewport
from trnprof.view.lanes import Columns, Lane
from trnprof.web.wire import pack_frame

LANE_ROWS = 10_000_000
TRACE_ROWS = 1_000_000
COLUMNS = 1500


@pytest.fixture(scope="module")
def lane() -> Lane:
    rng = np.random.default_rng(0)
    start = np.cumsum(rng.integers(50_000, 1_500_000, LANE_ROWS))
    end = start + rng.integers(40_000, 1_200_000, LANE_ROWS)
    found = Lane(Columns(start, end, np.full(LANE_ROWS, frames.WORK, np.uint8)))
    assert found.blocks
    return found


@pytest.fixture(scope="module")
def session() -> Session:
    found = Session(large(TRACE_ROWS))
    found.frame(Viewport(*found.home, COLUMNS))
    return found


@pytest.mark.parametrize("share", [1, 0.1, 0.01, 0.0001])
def test_marks_of_ten_million_rows(benchmark, lane, share):
    end = int(lane.columns.end[-1])
    span = int(end * share)
    bucket = Viewport(0, span, COLUMNS).bucket_ps
    cell = bucket * frames.CELL_BUCKETS
    t0 = (end - span) // 3 // cell * cell
    marks = benchmark(lane.marks, t0, t0 + span, bucket)
    assert 0 < len(marks) <= 3 * COLUMNS


@pytest.mark.parametrize("share", [1, 0.1, 0.01, 0.0001])
def test_a_fresh_frame_of_a_million_rows(benchmark, session, share):
    t0, t1 = session.extent
    span = int((t1 - t0) * share)
    at = t0 + (t1 - t0 - span) // 3

    def fresh():
        session.timeline.forget()
        return session.frame(Viewport(at - span, at + 2 * span, 3 * COLUMNS))

    benchmark.extra_info["bytes"] = len(pack_frame(benchmark(fresh)))


def test_the_overview_of_a_million_rows(benchmark, session):
    def fresh():
        session.timeline.forget()
        return session.overview(COLUMNS // 2)

    assert benchmark(fresh).busy.max() > 0


def test_search_in_a_million_rows(benchmark, session):
    counter = iter(range(10**9))
    assert benchmark(lambda: session.search(f"MATMUL|{next(counter)}")).count > 0


def test_opening_a_million_rows(benchmark):
    trace = large(TRACE_ROWS)
    benchmark.pedantic(lambda: Session(trace).frame(Viewport(0, 10**11, COLUMNS)), rounds=3)
