"""What a session answers, on traces made by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sim.trace import Engine, Instructions, Meta, Strings, Trace
from tests.synthetic import US, attention, large
from trnprof.view import Session, Viewport
from trnprof.view.palette import BOUNDS, ENGINE_COLOURS, NEUTRAL
from trnprof.view.records import ESTIMATE, KERNEL, WASTE, WORK

NARROW = "\u202f"


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(attention())


@pytest.fixture(scope="module")
def home(session):
    return session.frame(Viewport(*session.home, 1000))


def marks_on(frame, track: str) -> list[int]:
    return np.flatnonzero(frame.track == frame.tracks.index(track)).tolist()


# --- the whole --------------------------------------------------------------------------------------------------------


def test_a_screen_starts_at_the_kernel_window_not_at_the_file(session):
    t0, t1 = session.home
    assert session.extent == (0, 28 * US)
    assert (t0, t1) == (10 * US - 225_000, 25 * US + 225_000)


def test_the_facts_say_captured_or_emulated(session):
    assert (session.meta.mark, session.meta.estimated) == ("captured", False)
    emulated = Session(attention(simulated=True)).meta
    assert (emulated.mark, emulated.window.words) == ("emulated", f"~15.0{NARROW}µs")
    assert session.meta.counted == "10 instructions, 2 transfers, 32 packets, 0 dropped"


def test_tracks_come_in_the_order_cause_above_effect(session):
    groups = list(dict.fromkeys(track.group_name for track in session.tracks()))
    assert groups == ["Regions", "Engines", "DMA queues", "Counters"]
    names = [track.name for track in session.tracks() if track.kind == "instructions"]
    assert names == ["TensorE array", "TensorE weights", "VectorE", "ScalarE", "SyncE"]


def test_a_core_without_work_is_one_folded_group():
    trace = attention()
    idle = attention(core=1).instructions
    columns = {name: np.concatenate([trace.instructions.column(name), idle.column(name)]) for name in idle.present()}
    columns["control"][len(idle) :] = True
    order = np.argsort(columns["start_ps"], kind="stable")
    both = Instructions(**{name: column[order] for name, column in columns.items()})
    tracks = Session(Trace(trace.meta, trace.strings, both, trace.transfers)).tracks()
    assert {t.group for t in tracks if t.quiet} == {"c1.idle"}
    assert {t.core for t in tracks if not t.quiet} == {0}
    assert not any("core 0" in t.group_name for t in tracks), "one working core needs no number"


@pytest.mark.parametrize("rows", [0, 1])
def test_an_empty_and_a_one_instruction_trace_are_shown(rows):
    table = Instructions(id=np.arange(rows), start_ps=np.full(rows, 5), end_ps=np.full(rows, 9), engine=np.zeros(rows))
    session = Session(Trace(Meta(False, "unknown", "tiny"), Strings(), table))
    frame = session.frame(Viewport(*session.home, 100))
    assert frame.count.sum() >= rows
    assert session.verdict.title.endswith("-bound")
    assert session.overview(10).busy.shape[1] == 10
    assert session.search("x").count == 0
    assert session.regions() == ()
    json.dumps([session.meta.to_json(), [t.to_json() for t in session.tracks()]])


# --- frames -----------------------------------------------------------------------------------------------------------


def test_every_instruction_in_view_is_a_mark_or_in_one(home):
    tracks = [k for k, name in enumerate(home.tracks) if name.split(".")[1] in (*ENGINE_COLOURS, "weights")]
    assert home.count[np.isin(home.track, tracks)].sum() == 9


def test_a_pipelined_bar_keeps_its_tail(home):
    first = marks_on(home, "c0.tensor")[0]
    assert (home.start_ps[first], home.body_ps[first], home.end_ps[first]) == (15 * US, 16.5 * US, 17 * US)


def test_flags_tell_work_waste_control_and_the_kernel_window(home):
    flags = {int(row): int(flag) for row, flag, track in zip(home.row, home.flags, home.track, strict=True)
             if home.tracks[track].split(".")[1] in ENGINE_COLOURS}  # fmt: skip
    assert flags[3] == WORK | KERNEL
    assert flags[7] == WORK | WASTE | KERNEL, "a transpose is work that the algorithm did not ask for"
    whole = Session(attention(simulated=True)).frame(Viewport(0, 28 * US, 1000), ["c0.sync"])
    assert not whole.flags[0] & WORK, "a semaphore is control"
    assert all(flag & ESTIMATE for flag in whole.flags)


def test_idle_time_names_what_it_waited_for(home):
    gaps = {
        home.tracks[t]: (int(a), int(b), int(c), home.labels[int(label)][0])
        for t, a, b, c, label in zip(home.gap_track, home.gap_start_ps, home.gap_end_ps, home.gap_colour, home.gap_label,
                                     strict=True)
    }  # fmt: skip
    assert gaps["c0.scalar"] == (10 * US, 20_100_000, Engine.VECTOR, "waits for VectorE")
    assert gaps["c0.vector"] == (10 * US, 19_034_000, Engine.TENSOR, "waits for TensorE")


def test_a_gap_that_waits_for_a_transfer_is_coloured_dma(session):
    frame = session.frame(Viewport(*session.home, 1000), ["c0.tensor"])
    first = int(np.argmin(frame.gap_start_ps))
    assert frame.gap_colour[first] == Engine.DMA
    assert frame.labels[int(frame.gap_label[first])] == ("waits for DMA", "DMA")


def test_colour_follows_the_question(session):
    by = {how: session.frame(Viewport(*session.home, 1000), ["c0.vector"], how) for how in ("engine", "bound", "wait")}
    assert by["engine"].colour.tolist() == [Engine.VECTOR]
    assert BOUNDS[by["bound"].colour[0]] == "compute"
    assert by["wait"].colour.tolist() == [NEUTRAL]


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
        id=np.arange(3), start_ps=np.array([0, 10, 60]), end_ps=np.array([100, 50, 90]), engine=np.full(3, Engine.OTHER),
        track=text.codes(["main"] * 3), name=text.codes(["outer", "first", "second"]),
    )  # fmt: skip
    session = Session(Trace(Meta(False, "unknown", "chrome"), text, table))
    frame = session.frame(Viewport(0, 100, 100), ["c0.t.0"])
    lanes = {frame.labels[int(label)][0]: int(lane) for label, lane in zip(frame.label, frame.lane, strict=True)}
    assert lanes == {"outer": 0, "first": 1, "second": 1}


# --- the overview and the ribbon ------------------------------------------------------------------------------------------


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


# --- cards ----------------------------------------------------------------------------------------------------------------


def test_a_card_holds_what_is_known_in_words_and_numbers(session):
    card = session.card(6)
    facts = {fact.name: (fact.words, fact.value) for fact in card.facts}
    assert card.title == "ACTIVATE exp"
    assert facts["Duration"] == (f"900{NARROW}ns", 900_000)
    assert facts["Start"] == (f"20.100{NARROW}µs", 20_100_000)
    assert facts["Region"][0] == "exp"
    assert card.source.words == "attention.py:16"
    assert card.operands[0].place == "PSUM bank 4"
    assert card.wait.words == f"10.1{NARROW}µs"
    assert card.track == "c0.scalar"


def test_achieved_compares_with_the_engines_rate(session):
    achieved = session.card(6).achieved
    assert achieved.share == pytest.approx(512 / 1.2 / 900, rel=1e-3)
    assert "512 elements a partition need" in achieved.sentence


def test_the_binding_predecessor_leads_with_its_slack(session):
    first = session.card(5).after[0]
    assert (first.row, first.binding, first.slack_ps, first.words) == (4, True, 34_000, f"+34{NARROW}ns")


def test_a_transfer_is_waited_for_until_its_semaphore(session):
    link = session.card(2).after[0]
    assert (link.row, link.transfer, link.t1_ps, link.track) == (
        1,
        0,
        14 * US,
        session.timeline.track_of(0, "transfers"),
    )


def test_a_transfer_card_tells_way_rate_and_trigger(session):
    card = session.transfer_card(0)
    facts = {fact.name: fact.words for fact in card.facts}
    assert facts["Moved"] == f"256{NARROW}KiB"
    assert facts["Way"] == "HBM to SBUF"
    assert facts["Rate"] == f"131{NARROW}GB/s"
    assert card.trigger.row == 1


def test_an_emulated_card_marks_its_times(session):
    card = Session(attention(simulated=True)).card(6)
    duration = next(fact for fact in card.facts if fact.name == "Duration")
    assert (duration.words, duration.note) == (f"~900{NARROW}ns", "estimated")


@pytest.mark.parametrize("row", [-1, 10])
def test_a_card_of_no_row_is_refused(session, row):
    with pytest.raises(IndexError):
        session.card(row)


def test_a_gap_answers_what_it_waited_for(session):
    gap = session.gap("c0.scalar", 18 * US)
    assert (gap.t0_ps, gap.t1_ps, gap.waited_for.row, gap.then.row) == (10 * US, 20_100_000, 5, 6)
    assert session.gap("c0.weights", 12 * US).engine == Engine.TENSOR, "both tracks of TensorE are one engine"
    assert session.gap("c0.scalar", 20_500_000) is None, "at work"
    assert session.gap("c0.scalar", 27 * US) is None, "outside the kernel window"
    assert session.gap("c0.regions", 12 * US) is None


# --- going from one to the next ---------------------------------------------------------------------------------------------


def test_steps_stay_on_the_track(session):
    assert session.step(3, 1) == 4
    assert session.step(4, 1) == 7
    assert session.step(7, 1) == -1
    assert session.step(0, 1, "transfers") == 1


def test_follow_walks_the_binding_chain(session):
    assert session.follow(6, -1) == 5
    assert session.follow(5, 1) == 6
    assert session.follow(0, -1) == -1


def test_the_nearest_row_of_another_track(session):
    assert session.nearest("c0.tensor", 18 * US) == 4
    assert session.nearest("c0.vector", 0) == 5
    assert session.nearest("c0.bound", 0) == -1


def test_the_first_in_view_is_work(session):
    assert session.first_in(0, 28 * US) == 2
    assert session.first_in(25_500_000, 28 * US) == 9
    assert session.first_in(27 * US, 28 * US) == -1


# --- finding ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "rows"),
    [("activate exp", [6]), ("^MATMUL$", [3, 4, 7]), ("I-5-0", [5]), (r"py:1[67]$", [6, 7]), ("row max", [5]), ("VectorE", [5]),
     ("transpose", [7]), ("nothing here", []), ("", [])],
)  # fmt: skip
def test_search_looks_at_names_opcodes_sources_regions_engines_and_titles(session, pattern, rows):
    assert session.search(pattern).rows.tolist() == rows


def test_search_says_how_much_was_searched(session):
    assert session.search("matmul").words == "3 of 10 match"


@pytest.mark.parametrize("pattern", ["(", "x" * 300])
def test_a_pattern_that_cannot_be_read_finds_nothing_and_says_why(session, pattern):
    hits = session.search(pattern)
    assert hits.count == 0
    assert hits.error


def test_hits_are_stepped_through_around_the_end(session):
    assert [session.hit("matmul", row, 1) for row in (-1, 3, 7)] == [(1, 3), (2, 4), (1, 3)]
    assert [session.hit("matmul", row, -1) for row in (4, 3)] == [(1, 3), (3, 7)]
    assert session.hit("zzz", 0, 1) == (0, -1)


@pytest.mark.parametrize(
    ("text", "row", "t0"),
    [("26.1", -1, 26_100_000), ("20.5 µs", -1, 20_500_000), ("300 ns", -1, 300_000), ("I-6-0", 6, 20_100_000),
     ("attention.py:16", 6, 20_100_000), (":16", 6, 20_100_000), ("line 16", 6, 20_100_000), ("#106", 6, 20_100_000),
     ("106", 6, 20_100_000), ("1 000", -1, 1000 * US)],
)  # fmt: skip
def test_goto_takes_times_ids_names_and_lines(session, text, row, t0):
    target = session.goto(text)
    assert (target.row, target.t0_ps) == (row, t0)


@pytest.mark.parametrize("text", ["", "nowhere", "()", "attention.py:999"])
def test_goto_nowhere(session, text):
    assert session.goto(text) is None


def test_a_time_passes_through_no_float(session):
    assert session.goto("12345678901.123456 us").t0_ps == 12_345_678_901_123_456


# --- the answer -------------------------------------------------------------------------------------------------------------


def test_the_verdict_has_words_shares_and_margin(session):
    verdict = session.verdict
    assert verdict.title == f"{verdict.bound.replace('_', ' ').capitalize()}-bound"
    assert sum(part.share for part in verdict.shares) == pytest.approx(1)
    assert verdict.scores[0].bound == verdict.bound
    assert "ahead of" in verdict.margin
    assert all(line.sentence.endswith((".", "!", "?")) for line in verdict.evidence)


def test_verdicts_cover_the_whole_and_each_region(session):
    assert [v.region for v in session.verdicts()] == [
        "attention",
        "attention",
        "load",
        "Q·Kᵀ",
        "row max",
        "exp",
        "store",
    ]


def test_engines_are_counted_without_control(session):
    rows = {row.name: row for row in session.engine_rows()}
    assert rows["TensorE"].active_ps == 5_600_000
    assert rows["SyncE"].instructions == 2
    assert rows["VectorE"].share_words == f"6{NARROW}%"
    assert rows["DMA, mean of 16"].active_ps == 3_600_000


def test_an_area_knows_its_own_share_bytes_and_waits(session):
    area = session.area(12 * US, 20 * US)
    facts = {fact.name: fact.value for fact in area.facts}
    assert facts["DMA"] == 262_144
    assert facts["Instructions"] == 4
    busy = {row.name: row.share for row in area.engines}
    assert busy["TensorE"] == pytest.approx(5 / 8)
    waits = {wait.words: wait.time_ps for wait in area.waits}
    assert waits["TensorE for DMA"] == 2 * US
    assert area.verdict.bound in BOUNDS
    assert area.dot.kind == "selection"


def test_engines_of_an_area_agree_with_its_verdict(session):
    area = session.area(10 * US, 25 * US)
    assert {row.name: row.active_ps for row in area.engines} == {
        row.name: row.active_ps for row in session.engine_rows()
    }
    assert area.verdict.bound == session.verdict.bound


def test_regions_keep_their_order_and_depth(session):
    assert [(r.depth, r.name) for r in session.regions()][:3] == [(0, "attention"), (1, "load"), (1, "Q·Kᵀ")]


def test_source_lines_come_longest_first(session):
    lines = session.source_lines()
    assert [line.line for line in lines] == sorted(
        (line.line for line in lines), key=lambda n: -next(x.time_ps for x in lines if x.line == n)
    )
    assert lines[0].file == "attention.py"


def test_the_roofline_has_a_dot_for_the_whole_and_says_what_has_none(session):
    dots = session.dots()
    assert (dots[0].name, dots[0].kind, dots[0].missing) == ("attention", "whole", "")
    assert any(dot.missing for dot in dots[1:])


def test_every_record_can_be_handed_on_as_json(session):
    records = [session.meta, *session.tracks(), session.card(6), session.transfer_card(0), session.gap("c0.scalar", 18 * US),
               session.verdict, *session.engine_rows(), session.area(12 * US, 20 * US), *session.regions(),
               *session.source_lines(), *session.dots(), session.search("exp"), session.goto("26"), session.overview(8),
               session.frame(Viewport(10 * US, 12 * US, 20), ["c0.sync"])]  # fmt: skip
    assert all(json.dumps(record.to_json(), allow_nan=True) for record in records)


# --- hostile names ----------------------------------------------------------------------------------------------------------

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202eevil\x00" + "A" * 10_000


def test_hostile_names_come_out_plain_and_short():
    session = Session(attention(names={"MATMUL": HOSTILE}))
    card = session.card(3)
    frame = session.frame(Viewport(*session.home, 1000))
    for text in [card.title, card.spoken, *(t for pair in frame.labels.values() for t in pair)]:
        assert not any(ord(c) < 32 or c == "\u202e" for c in text)
        assert len(text) < 200
    assert session.search("onerror").count == 3
