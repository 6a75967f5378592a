"""Tracks, frames, overview and ribbon at the resolution of a screen."""

from __future__ import annotations

import numpy as np
import pytest

from sim.trace import Engine, Instructions, Meta, Strings, Trace
from tests.synthetic import US, attention, large
from trnprof.view import Session, Viewport
from trnprof.view.palette import BOUNDS, NEUTRAL
from trnprof.view.records import ESTIMATE, KERNEL, WASTE, WORK

NARROW = "\u202f"

INSTRUCTION_TRACKS = ("c0.tensor", "c0.weights", "c0.vector", "c0.scalar", "c0.sync")


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(attention())


@pytest.fixture(scope="module")
def home(session):
    return session.frame(Viewport(*session.home, 1000))


def marks_on(frame, track: str) -> list[int]:
    return np.flatnonzero(frame.track == frame.tracks.index(track)).tolist()


# --- frames ---------------------------------------------------------------------------------------------------------


def both_cores(quiet: bool) -> Session:
    """The kernel on core 0 and again on core 1, there perhaps as mere control."""
    parts = [attention(core=core).instructions for core in (0, 1)]
    columns = {name: np.concatenate([part.column(name) for part in parts]) for name in parts[0].present()}
    if quiet:
        columns["control"][len(parts[0]) :] = True
    columns["wait_for"][len(parts[0]) :] += np.where(columns["wait_for"][len(parts[0]) :] >= 0, len(parts[0]), 0)
    order = np.argsort(columns["start_ps"], kind="stable")
    place = np.argsort(order)
    columns["wait_for"] = np.where(columns["wait_for"] >= 0, place[columns["wait_for"]], -1)
    trace = attention()
    table = Instructions(**{name: column[order] for name, column in columns.items()})
    return Session(Trace(trace.meta, trace.strings, table))


def test_each_core_that_works_has_its_own_tracks():
    session = both_cores(quiet=False)
    names = {track.group_name for track in session.tracks()}
    assert {"Engines, core 0", "Engines, core 1"} <= names
    frame = session.frame(Viewport(*session.home, 1000), ["c0.vector", "c1.vector"])
    assert len(marks_on(frame, "c0.vector")) == len(marks_on(frame, "c1.vector")) == 1
    assert [row.name for row in session.engine_rows()][:2] == ["TensorE, core 0", "VectorE, core 0"]
    assert session.gap("c1.scalar", 18 * US).engine == Engine.SCALAR


def test_a_core_without_work_is_one_folded_group():
    session = both_cores(quiet=True)
    assert {track.group for track in session.tracks() if track.quiet} == {"c1.idle"}
    assert {track.core for track in session.tracks() if not track.quiet} == {0}
    assert not any("core 0" in track.group_name for track in session.tracks()), "one working core needs no number"
    assert not any("core 1" in row.name for row in session.engine_rows())


def test_every_instruction_in_view_is_a_mark_or_in_one(home):
    assert sum(home.count[marks_on(home, name)].sum() for name in INSTRUCTION_TRACKS) == 9


def test_a_pipelined_bar_keeps_its_tail(home):
    first = marks_on(home, "c0.tensor")[0]
    assert (home.start_ps[first], home.body_ps[first], home.end_ps[first]) == (15 * US, 16.5 * US, 17 * US)


def test_flags_tell_work_waste_control_and_the_kernel_window(home):
    flags = {int(home.row[i]): int(home.flags[i]) for name in INSTRUCTION_TRACKS for i in marks_on(home, name)}
    assert flags[3] == WORK | KERNEL
    assert flags[7] == WORK | WASTE | KERNEL, "a transpose is work that the algorithm did not ask for"
    whole = Session(attention(simulated=True)).frame(Viewport(0, 28 * US, 1000), ["c0.sync"])
    assert not whole.flags[0] & WORK, "a semaphore is control"
    assert all(flag & ESTIMATE for flag in whole.flags)


def test_idle_time_names_what_it_waited_for(home):
    gaps = {
        home.tracks[t]: (int(a), int(b), int(c), home.labels[int(label)][0])
        for t, a, b, c, label in zip(
            home.gap_track, home.gap_start_ps, home.gap_end_ps, home.gap_colour, home.gap_label, strict=True
        )
    }
    assert gaps["c0.scalar"] == (10 * US, 20_100_000, Engine.VECTOR, "waits for VectorE")
    assert gaps["c0.vector"] == (10 * US, 19_034_000, Engine.TENSOR, "waits for TensorE")


def test_a_gap_that_waits_for_a_transfer_is_coloured_dma(session):
    frame = session.frame(Viewport(*session.home, 1000), ["c0.tensor"])
    first = int(np.argmin(frame.gap_start_ps))
    assert frame.gap_colour[first] == Engine.DMA
    assert frame.labels[int(frame.gap_label[first])] == ("waits for DMA", "DMA")


def test_colour_follows_the_question(session):
    view = Viewport(*session.home, 1000)
    by = {how: session.frame(view, ["c0.vector"], how) for how in ("engine", "bound", "wait")}
    assert by["engine"].colour.tolist() == [Engine.VECTOR]
    assert BOUNDS[by["bound"].colour[0]] == "compute"
    assert by["wait"].colour.tolist() == [NEUTRAL]


def test_the_colour_of_the_path_shows_what_the_end_hung_on(session):
    """Two matmuls, a reduction, an exponential and the store follow from one another; the weights came before."""
    frame = session.frame(Viewport(*session.home, 1000), None, "path")
    rows = session.critical().row
    for track in ("c0.tensor", "c0.vector", "c0.scalar", "c0.sync"):
        marks = marks_on(frame, track)
        assert [frame.colour[k] != NEUTRAL for k in marks] == [bool(np.isin(frame.longest[k], rows)) for k in marks]
    assert {frame.colour[k] for k in marks_on(frame, "c0.vector")} == {Engine.VECTOR}
    cluster = session.frame(Viewport(0, 28 * US, 2), ["c0.tensor"], "path")
    assert cluster.count.max() > 1 and set(cluster.colour.tolist()) <= {NEUTRAL, Engine.TENSOR}


def test_labels_have_a_long_and_a_short_form(home):
    texts = set(home.labels.values())
    assert {("ACTIVATE exp", "exp"), ("MATMUL (transpose)", "tr"), ("load q", "q")} <= texts
    assert (f"exp  900{NARROW}ns", "exp") in texts, "a region says how long it took"


def test_counters_are_means_and_unknown_before_the_first_sample(session):
    frame = session.frame(Viewport(-US, 28 * US, 29), ["c0.n.sbuf"])
    t = frame.t0_ps + frame.bucket_ps * np.arange(frame.values.shape[1])
    values = frame.values[0]
    assert np.isnan(values[t + frame.bucket_ps <= 0]).all()
    assert values[(t > 12 * US) & (t + frame.bucket_ps < 25 * US)] == pytest.approx(0.25)
    assert values[t > 25 * US] == pytest.approx(0)


def test_a_counter_that_is_missing_follows_from_the_packets(session):
    frame = session.frame(Viewport(12 * US, 14 * US, 100), ["c0.n.dma_bytes_per_s"])
    moved = np.nansum(frame.values[0]) * frame.bucket_ps * 1e-12
    assert moved == pytest.approx(262_144, rel=1e-3)


def test_the_clock_is_told_in_hertz(session):
    track = next(t for t in session.tracks() if t.id == "c0.n.tensor_clock")
    assert track.top_words == f"max 2.40{NARROW}GHz"


def test_frames_of_neighbouring_views_are_shared(session):
    a = session.frame(Viewport(12 * US, 13 * US, 500))
    assert session.frame(Viewport(12 * US + 50_000, 13 * US + 50_000, 500)) is a
    assert session.frame(Viewport(12 * US, 13 * US, 500), colour="wait") is not a


def test_unknown_tracks_are_left_out(session):
    assert session.frame(Viewport(0, US, 10), ["c0.nothing", "c0.vector"]).tracks == ("c0.vector",)


@pytest.mark.parametrize("columns", [200, 2000])
def test_a_frame_is_bounded_by_columns_and_lanes_however_large_the_trace(columns):
    session = Session(large(50_000))
    lanes = sum(track.lanes for track in session.tracks())
    e0, e1 = session.extent
    for share in (1, 0.1, 0.001):
        frame = session.frame(Viewport(e0, e0 + round((e1 - e0) * share), columns))
        drawn = (frame.t1_ps - frame.t0_ps) // frame.bucket_ps
        assert len(frame) <= 2 * drawn * lanes
        assert frame.gap_row.size <= drawn * lanes


def test_equal_columns_give_equal_rows_to_every_view():
    session = Session(large(5000))
    a = session.frame(Viewport(0, 10**8, 640))
    b = Session(large(5000)).frame(Viewport(0, 10**8, 640))
    np.testing.assert_array_equal(a.row, b.row)


def test_nested_slices_of_a_general_timeline_get_lanes():
    text = Strings()
    table = Instructions(
        id=np.arange(3),
        start_ps=np.array([0, 10, 60]),
        end_ps=np.array([100, 50, 90]),
        engine=np.full(3, Engine.OTHER),
        track=text.codes(["main"] * 3),
        name=text.codes(["outer", "first", "second"]),
    )
    session = Session(Trace(Meta(False, "unknown", "chrome"), text, table))
    frame = session.frame(Viewport(0, 100, 100), ["c0.t.0"])
    lanes = {frame.labels[int(label)][0]: int(lane) for label, lane in zip(frame.label, frame.lane, strict=True)}
    assert lanes == {"outer": 0, "first": 1, "second": 1}


# --- the overview and the ribbon ------------------------------------------------------------------------------------


def test_the_overview_shows_how_busy_each_engine_is(session):
    overview = session.overview(28)
    vector = overview.busy[overview.names.index("VectorE")]
    assert vector[19] == pytest.approx(0.966, abs=1e-3)
    assert vector.sum() == pytest.approx(0.966, abs=1e-3)


def test_the_ribbon_charges_every_moment_once(session):
    ribbon = session.timeline.ribbon()
    assert ribbon.start_ps[0] == 10 * US
    assert ribbon.end_ps[-1] == 25 * US
    np.testing.assert_array_equal(ribbon.end_ps[:-1], ribbon.start_ps[1:])
    held = {name: int(ps) / US for name, ps in zip(BOUNDS, ribbon.shares(0, 28 * US), strict=True)}
    assert held["compute"] == pytest.approx(5.6 + 0.966 + 0.9)
    assert held["memory_bandwidth"] == pytest.approx(4)
    assert sum(held.values()) == pytest.approx(15)
