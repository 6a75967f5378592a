"""What a session answers, on traces made by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sim.trace import Engine, Instructions, Meta, Strings, Trace
from tests.synthetic import US, attention, model
from trnprof.view import Session, Viewport
from trnprof.view.palette import BOUNDS

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


# --- the whole ------------------------------------------------------------------------------------------------------


def test_a_screen_starts_at_the_kernel_window_not_at_the_file(session):
    t0, t1 = session.home
    assert session.extent == (0, 28 * US)
    assert (t0, t1) == (10 * US - 225_000, 25 * US + 225_000)


def test_the_facts_say_captured_or_emulated(session):
    assert (session.meta.mark, session.meta.estimated) == ("captured", False)
    emulated = Session(attention(simulated=True)).meta
    assert (emulated.mark, emulated.window.words) == ("emulated", f"~15.0{NARROW}µs")
    assert session.meta.counted == "10 instructions, 2 transfers, 32 packets, 0 dropped"


def test_rows_that_a_reader_set_aside_are_told():
    trace = attention()
    meta = replace(trace.meta, quarantined=3)
    assert Session(replace(trace, meta=meta)).meta.counted.endswith("32 packets, 3 rows set aside")


def test_tracks_come_in_the_order_cause_above_effect(session):
    groups = list(dict.fromkeys(track.group_name for track in session.tracks()))
    assert groups == ["Regions", "Engines", "DMA queues", "Counters"]
    names = [track.name for track in session.tracks() if track.kind == "instructions"]
    assert names == ["TensorE array", "TensorE weights", "VectorE", "ScalarE", "SyncE"]


@pytest.mark.parametrize("rows", [0, 1])
def test_an_empty_and_a_one_instruction_trace_are_shown(rows):
    table = Instructions(id=np.arange(rows), start_ps=np.full(rows, 5), end_ps=np.full(rows, 9), engine=np.zeros(rows))
    session = Session(Trace(Meta(False, "unknown", "tiny"), Strings(), table))
    frame = session.frame(Viewport(*session.home, 100))
    assert frame.count.sum() >= rows
    assert session.verdict.title == ("Compute-bound" if rows else "No verdict")
    assert session.overview(10).busy.shape[1] == 10
    assert session.search("x").count == 0
    assert session.regions() == ()
    json.dumps([session.meta.to_json(), [t.to_json() for t in session.tracks()]])


# --- cards ----------------------------------------------------------------------------------------------------------


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


def test_a_dma_trigger_is_not_held_against_the_rate_of_the_engine_that_gives_it():
    text = Strings()
    opcodes = [text.code("IOTA"), text.code("DMA_DIRECT2D")]
    table = Instructions(
        id=np.arange(2), start_ps=np.array([0, 5 * US]), end_ps=np.array([5 * US, 6 * US]),
        engine=np.full(2, Engine.GPSIMD), opcode=np.array(opcodes), elements=np.full(2, 4096),
    )  # fmt: skip
    session = Session(Trace(Meta(True, "trn2", "two"), text, table))
    assert [bool(session.card(row).achieved) for row in range(2)] == [True, False]


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


# --- going from one to the next -------------------------------------------------------------------------------------


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


# --- finding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "rows"),
    [
        ("activate exp", [6]),
        ("^MATMUL$", [3, 4, 7]),
        ("I-5-0", [5]),
        (r"py:1[67]$", [6, 7]),
        ("row max", [5]),
        ("VectorE", [5]),
        ("transpose", [7]),
        ("nothing here", []),
        ("", []),
    ],
)
def test_search_looks_at_names_opcodes_sources_regions_engines_and_titles(session, pattern, rows):
    assert session.search(pattern).rows.tolist() == rows


def test_search_finds_all_that_lies_in_a_region_of_that_name():
    session = Session(model(ranks=1, layers=3))
    found = session.search("layer 1$")
    assert found.count == found.searched // 3
    assert set(session.trace.instructions.start_ps[found.rows] // (100 * US)) == {1}


def test_a_card_names_the_levels_around_its_region():
    session = Session(model(ranks=1, layers=2))
    row = int(session.search("layer 1$").rows[0])
    region = next(fact for fact in session.card(row).facts if fact.name == "Region")
    assert (region.words, region.note) == ("rms_norm_kernel", "in rms_norm, layer 1, llama-tiny")


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
    [
        ("26.1", -1, 26_100_000),
        ("20.5 µs", -1, 20_500_000),
        ("300 ns", -1, 300_000),
        ("I-6-0", 6, 20_100_000),
        ("attention.py:16", 6, 20_100_000),
        (":16", 6, 20_100_000),
        ("line 16", 6, 20_100_000),
        ("#106", 6, 20_100_000),
        ("106", 6, 20_100_000),
        ("1 000", -1, 1000 * US),
    ],
)
def test_goto_takes_times_ids_names_and_lines(session, text, row, t0):
    target = session.goto(text)
    assert (target.row, target.t0_ps) == (row, t0)


@pytest.mark.parametrize("text", ["", "nowhere", "()", "attention.py:999", "#¹"])
def test_goto_nowhere(session, text):
    assert session.goto(text) is None


def test_a_time_passes_through_no_float(session):
    assert session.goto("12345678901.123456 us").t0_ps == 12_345_678_901_123_456


# --- the answer -----------------------------------------------------------------------------------------------------


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
    assert {row.name: row.instructions for row in session.engine_rows(0, 28 * US)}["SyncE"] == 2
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
    records = [
        session.meta,
        *session.tracks(),
        session.card(6),
        session.transfer_card(0),
        session.gap("c0.scalar", 18 * US),
        session.verdict,
        *session.engine_rows(),
        session.area(12 * US, 20 * US),
        *session.regions(),
        *session.source_lines(),
        *session.dots(),
        session.search("exp"),
        session.goto("26"),
        session.overview(8),
        session.frame(Viewport(10 * US, 12 * US, 20), ["c0.sync"]),
    ]
    assert all(json.dumps(record.to_json(), allow_nan=True) for record in records)


# --- hostile names --------------------------------------------------------------------------------------------------

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202eevil\x00" + "A" * 10_000


def test_hostile_names_come_out_plain_and_short():
    session = Session(attention(names={"MATMUL": HOSTILE}))
    card = session.card(3)
    frame = session.frame(Viewport(*session.home, 1000))
    for text in [card.title, card.spoken, *(t for pair in frame.labels.values() for t in pair)]:
        assert not any(ord(c) < 32 or c == "\u202e" for c in text)
        assert len(text) < 200
    assert session.search("onerror").count == 3
