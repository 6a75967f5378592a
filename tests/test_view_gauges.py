"""Counters that follow from rows: each against the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest

from sim.trace import SemaphoreUpdates, Trace
from tests.naive import gauges as naive
from tests.synthetic import US, attention, large
from trnprof.jit.gauges import OVERLAP
from trnprof.view import Session, Viewport
from trnprof.view.gauges import Flow, semaphores
from trnprof.view.lanes import Columns, Lane

EDGES = np.arange(0, 28 * US + 1, US // 4)


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(attention())


def gauge(session: Session, name: str):
    return session.timeline.rows[f"c0.n.{name}"].steps[0]


def spread(start, end, amount, edges) -> np.ndarray:
    """Amounts by column, each spread evenly over its time; the slow way."""
    found = np.zeros(edges.size - 1)
    for a, b, much in zip(start, end, amount, strict=True):
        inside = np.minimum(edges[1:], b) - np.maximum(edges[:-1], a)
        found += np.clip(inside, 0, None) * (much / max(b - a, 1))
    return found


@pytest.mark.parametrize("engine", ["tensor", "vector", "scalar"])
def test_an_engine_is_busy_as_long_as_the_table_of_engines_says(session, engine):
    t0, t1 = session.window
    row = next(row for row in session.engine_rows() if row.name.lower().startswith(engine))
    busy = gauge(session, f"busy_{engine}").sample(np.linspace(t0, t1, 31).astype(np.int64))
    assert busy.mean() == pytest.approx(row.share, rel=1e-5)
    assert busy.min() >= 0
    assert busy.max() <= 1


def test_dma_engines_are_busy_on_the_mean(session):
    t0, t1 = session.window
    row = next(row for row in session.engine_rows() if row.name.startswith("DMA"))
    assert gauge(session, "busy_dma").sample(np.array([t0, t1])) == pytest.approx(row.share, rel=1e-5)


def test_flops_are_spread_over_the_time_of_their_instructions(session):
    table = session.trace.instructions
    rows = np.flatnonzero(table.flops > 0)
    slow = spread(table.start_ps[rows], table.end_ps[rows], table.flops[rows], EDGES)
    fast = gauge(session, "flops_per_s").sample(EDGES) * np.diff(EDGES) / 1e12
    assert fast == pytest.approx(slow, rel=1e-4, abs=1)


def test_a_flow_is_exact_at_any_zoom_however_its_rows_overlap():
    rng = np.random.default_rng(1)
    start = np.sort(rng.integers(0, 100_000, 400))
    end = start + rng.integers(1, 600, 400)
    deepest = max(int(np.count_nonzero((start <= t) & (end > t))) for t in start)
    assert deepest <= OVERLAP, "the lane of this test is as deep as an engine"
    amount = rng.integers(0, 10**9, 400)
    lane = Lane(Columns(start, end, np.ones(400, np.uint8)))
    flow = Flow(lane, np.concatenate(([0], np.cumsum(amount))), (0, 101_000))
    for edges in (np.arange(0, 101_001, 1000), np.arange(30_000, 31_000, 10), np.array([0, 101_000])):
        found = flow.sample(edges) * np.diff(edges) / 1e12
        assert found == pytest.approx(spread(start, end, amount, edges), rel=1e-3, abs=amount.max() * 1e-4)


def test_what_is_done_by_a_moment_is_what_the_slow_twin_adds_up():
    rng = np.random.default_rng(2)
    start = np.sort(rng.integers(0, 3000, 60))
    end = start + rng.integers(0, 300, 60)
    amount = rng.integers(0, 10**6, 60)
    flow = Flow(Lane(Columns(start, end, np.ones(60, np.uint8))), np.concatenate(([0], np.cumsum(amount))), (0, 1))
    moments = np.arange(-10, 3500, 7)
    spans = list(zip(start.tolist(), end.tolist(), strict=True))
    expected = [float(naive.done(spans, amount.tolist(), int(moment))) for moment in moments]
    assert flow._done(moments) == pytest.approx(expected, abs=1e-3)


def test_rates_end_at_the_roof_of_their_arithmetic(session):
    track = session.timeline.rows["c0.n.flops_per_s"].track
    assert track.top_words.startswith("roof")
    ceiling = next(c for c in session.machine.ceilings if c.id == "tensor.fp32")
    assert track.roof == pytest.approx(ceiling.value / session.machine.cores)


def test_hbm_is_charged_for_what_crosses_it(session):
    steps = gauge(session, "hbm_bytes_per_s")
    moved = steps.sample(EDGES) * np.diff(EDGES) / 1e12
    assert np.nansum(moved) == pytest.approx(2 * 262_144, rel=1e-4)


def test_transfers_are_in_flight_from_trigger_to_semaphore(session):
    steps = gauge(session, "transfers_in_flight")
    assert steps.at(round(11.5 * US)) == 1
    assert steps.at(round(20 * US)) == 0
    assert steps.at(round(24 * US)) == 1


def test_what_is_recorded_goes_before_what_follows(session):
    found = [track.name for track in session.tracks() if track.kind == "counter"]
    assert "SBUF in use" in found
    assert found.index("TensorE busy") < found.index("DMA rate") < found.index("TensorE rate")
    assert len(found) == len(set(found))


def test_semaphores_are_tracks_of_a_folded_group():
    trace = attention()
    signals = SemaphoreUpdates(
        time_ps=np.array([1, 2, 3, 4]) * US, core=np.zeros(4, np.int16), semaphore=np.array([7, 9, 7, 7], np.int32),
        value=np.array([1, 1, 2, 0]),
    )  # fmt: skip
    trace = Trace(trace.meta, trace.strings, trace.instructions, trace.transfers, semaphore_updates=signals)
    session = Session(trace)
    shown = [track for track in session.tracks() if track.group == "c0.semaphores"]
    assert [track.name for track in shown] == ["semaphore 7", "semaphore 9"]
    assert all(track.quiet for track in shown)
    assert session.timeline.rows[shown[0].id].steps[0].at(round(3.5 * US)) == 2
    assert list(semaphores(trace, 0, 1)) == ["semaphore 7"]


def test_a_trace_without_what_a_counter_needs_has_no_such_counter():
    names = {track.id for track in Session(large(1000)).tracks()}
    assert "c0.n.flops_per_s" not in names
    assert "c0.n.hbm_bytes_per_s" not in names
    assert "c0.n.busy_tensor" in names


def test_every_counter_reaches_the_frame(session):
    frame = session.frame(Viewport(0, 28 * US, 560))
    counters = [track.id for track in session.tracks() if track.kind in ("counter", "banks")]
    drawn = {frame.tracks[k] for k in frame.counter_tracks.tolist()}
    assert drawn == set(counters)
