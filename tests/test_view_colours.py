"""What colours say, their legend, and what a legend leaves out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sim.trace import NONE, Strings, Trace
from tests.synthetic import US, attention, large, model
from trnprof.commands import tui
from trnprof.view import Session, Viewport
from trnprof.view.colours import COLOURS, HUED
from trnprof.view.records import WORK

HOME = Viewport(9 * US, 26 * US, 1700)


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(attention())


def worked(frame) -> np.ndarray:
    """Rows of instructions that are drawn as work."""
    engines = [
        k for k, name in enumerate(frame.tracks) if ".dma." not in name and not name.endswith(("bound", "regions"))
    ]
    shown = np.isin(frame.track, engines) & (frame.flags & WORK > 0)
    return np.unique(frame.row[shown])


@pytest.mark.parametrize(
    ("colour", "first", "name"),
    [
        ("engine", 0, "TensorE"),
        ("bound", 0, "compute"),
        ("wait", 0, "TensorE"),
        ("path", 0, "TensorE"),
        ("opcode", 0, "MATMUL"),
        ("operator", 0, "Q·Kᵀ"),
        ("line", 0, "attention.py:14"),
        ("dma", 0, "load"),
    ],
)
def test_every_way_of_colouring_has_a_legend_whose_shares_add_up(session, colour, first, name):
    rows = session.legend(colour)
    assert (rows[0].colour, rows[0].name) == (first, name)
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert len({row.colour for row in rows}) == len(rows)


def test_time_of_an_opcode_is_that_of_its_instructions(session):
    rows = {row.name: row for row in session.legend("opcode")}
    assert rows["MATMUL"].time_ps == round((2 + 2.5 + 0.6) * US)
    assert rows["MATMUL"].count == 3
    assert "EVENT_SEMAPHORE" not in rows, "control is no work"


def test_beyond_eight_values_the_rest_is_counted_together():
    rows = Session(large(5000)).legend("line")
    assert [row.colour for row in rows] == [*range(8), -1]
    assert rows[-1].name.endswith("others")
    assert all(a.time_ps >= b.time_ps for a, b in pairwise(rows[:8]))


def test_bars_and_transfers_wear_the_hue_of_their_value(session):
    frame = session.frame(HOME, ["c0.tensor", "c0.sync"], "opcode")
    hue = {row: int(colour) for row, colour in zip(frame.row.tolist(), frame.colour, strict=True)}
    by_name = {row.name: row.colour for row in session.legend("opcode")}
    assert hue[3] == hue[4] == hue[7] == by_name["MATMUL"]
    assert hue[1] == by_name["DMA_DIRECT2D"]
    assert hue[9] == NONE, "control has no hue"
    moved = session.frame(HOME, ["c0.dma.q.15", *[t.id for t in session.tracks() if t.kind == "transfers"]], "line")
    lines = {row.name: row.colour for row in session.legend("line")}
    assert moved.colour.tolist() == [lines["attention.py:11"], lines["attention.py:18"]]


@pytest.mark.parametrize(
    ("colour", "name", "rows"),
    [
        ("opcode", "MATMUL", [3, 4, 7]),
        ("engine", "VectorE", [5]),
        ("line", "attention.py:16", [6]),
        ("operator", "store", [8]),
    ],
)
def test_a_legend_leaves_the_rest_as_thin_lines_but_on_the_screen(session, colour, name, rows):
    chosen = next(row.colour for row in session.legend(colour) if row.name == name)
    every, alone = session.frame(HOME, colour=colour), session.frame(HOME, colour=colour, only=[chosen])
    assert worked(alone).tolist() == rows
    assert len(alone) == len(every)
    assert np.array_equal(alone.start_ps, every.start_ps)


def test_a_cluster_shows_the_colour_that_it_holds_however_little_of_it():
    session = Session(large(5000))
    rare = session.legend("opcode")[-1].colour
    far = Viewport(*session.home, 40)
    frame = session.frame(far, colour="opcode", only=[rare])
    shown = (frame.flags & WORK > 0) & (frame.count > 1)
    codes = session.timeline.schemes["opcode"].of["instructions"]
    begin = session.trace.instructions.start_ps
    for k in np.flatnonzero(shown & (frame.colour == rare))[:20]:
        inside = (begin >= frame.start_ps[k]) & (begin < frame.end_ps[k])
        assert (codes[inside] == rare).any()
    assert shown.any()


def test_idle_time_is_narrowed_to_a_cause(session):
    dma = next(row.colour for row in session.legend("wait") if row.name == "DMA")
    frame = session.frame(HOME, colour="wait", only=[dma])
    told = frame.gap_label >= 0
    assert told.any()
    assert set(frame.gap_colour[told].tolist()) == {dma}
    assert len(frame.gap_row) == len(session.frame(HOME, colour="wait").gap_row)


def test_an_operator_is_the_level_that_the_trace_has():
    rows = {row.name: row for row in Session(model(ranks=2, layers=3)).legend("operator")}
    assert set(rows) == {"mlp", "qkv_proj", "attention", "all_reduce", "rms_norm"}
    assert rows["all_reduce"].count == 2 * 3 * 2 * 8, "of every layer and rank, under one colour"


@pytest.mark.parametrize("colour", COLOURS)
def test_traces_with_next_to_nothing_have_a_legend(colour):
    for rows in (0, 1):
        trace = attention()
        trace = Trace(trace.meta, Strings(list(trace.strings)), trace.instructions.take(np.arange(rows)))
        session = Session(trace)
        assert sum(row.share for row in session.legend(colour)) == pytest.approx(1 if session.legend(colour) else 0)
        session.frame(HOME, colour=colour, only=[0])


def test_the_command_line_knows_every_way_of_colouring():
    from argparse import ArgumentParser

    parser = ArgumentParser()
    tui.declare(parser)
    offered = next(action.choices for action in parser._actions if action.dest == "colour")
    assert tuple(offered) == COLOURS
    assert set(HUED) < set(COLOURS)
