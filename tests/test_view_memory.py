"""What lies in SBUF and PSUM at a moment, and the track of the critical path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sim.trace import Memory
from tests.synthetic import attention as captured
from trnprof.critical import CAUSES
from trnprof.view import Session, Viewport
from trnprof.view.memory import memory_card
from trnprof.view.records import WASTE

TRACE = Path(__file__).resolve().parent.parent / "traces" / "attention"


@pytest.fixture(scope="module")
def session() -> Session:
    return Session.open(TRACE)


def test_the_map_holds_exactly_what_lives_at_the_moment(session):
    table = session.trace.allocations
    for at in np.linspace(*session.window, 9, dtype=np.int64).tolist():
        alive = (table.start_ps <= at) & (at < table.end_ps)
        for found in session.memory(at).maps:
            rows = np.flatnonzero(alive & (table.memory == Memory[found.name]))
            assert sorted((t.partition, t.offset, t.bytes) for t in found.tiles) == sorted(
                zip(
                    table.partition[rows].tolist(), table.offset[rows].tolist(), table.bytes[rows].tolist(), strict=True
                )
            )
            assert found.used_bytes == max(_levels(found), default=0)
            assert found.left_out == 0


def _levels(found) -> list[int]:
    """Bytes in each partition, by adding up tile after tile."""
    return [
        sum(t.bytes for t in found.tiles if t.partition <= p < t.partition + t.partitions)
        for p in range(found.partitions)
    ]


def test_the_map_says_its_size_and_what_it_spans(session):
    sbuf, psum = session.memory(30_000_000).maps
    assert (sbuf.name, psum.name, psum.banks) == ("SBUF", "PSUM", 8)
    figures = session.machine.figures
    assert (sbuf.bytes, psum.bytes) == (figures["sbuf_partition_bytes"], figures["psum_partition_bytes"])
    assert sbuf.shown_bytes <= sbuf.bytes and psum.shown_bytes == psum.bytes
    assert all(tile.offset + tile.bytes <= sbuf.shown_bytes for tile in sbuf.tiles)
    assert "a partition, " in sbuf.used_words and "each partition" in sbuf.shown_words


def test_a_trace_without_allocations_says_so():
    card = Session(captured()).memory(15_000_000)
    assert card.maps == () and "names no allocations" in card.missing


def test_a_core_that_holds_nothing_has_no_map(session):
    assert memory_card(session.trace, session.machine, 30_000_000, core=7).maps == ()


def test_the_critical_path_is_a_track_whose_pieces_fill_the_window(session):
    t0, t1 = session.window
    frame = session.frame(Viewport(t0, t1, 4_000), ["path"], "path")
    card = session.critical()
    assert frame.start_ps.min() == t0 and frame.end_ps.max() == t1
    order = np.argsort(frame.start_ps)
    between = frame.start_ps[order][1:] - frame.end_ps[order][:-1]
    assert (np.abs(between) < frame.bucket_ps).all() and frame.count.sum() == len(card.start_ps)
    alone = frame.count == 1
    where = np.searchsorted(card.start_ps, frame.start_ps[alone])
    assert (frame.row[alone] == card.row[where]).all(), "rows are instructions"
    busy = card.cause[where] == CAUSES.index("engine")
    assert ((frame.flags[alone] & WASTE > 0) == ~busy).all(), "what is not work is hatched"


def test_the_path_is_drawn_only_where_colour_tells_it(session):
    assert "path" in [track.id for track in session.tracks()]
    viewport = Viewport(*session.home, 400)
    assert "path" not in session.frame(viewport).tracks
    assert "path" in session.frame(viewport, None, "path").tracks


def test_a_what_if_is_never_taken_for_what_was_measured(session):
    supposed = session.supposed({"buffers": "unlimited"})
    assert (supposed.meta.mark, supposed.meta.estimated) == ("what-if", True)
    assert supposed.supposed_settings == "buffers=unlimited"
    assert session.meta.mark == "emulated"


def test_the_same_instruction_is_found_before_and_after(session):
    after = session.supposed({"buffers": "unlimited"})
    pairs = after.compared_with(session).pairs
    before_row, after_row = (int(row) for row in pairs[len(pairs) // 2])
    there = after.twin(session, before_row, after=False)
    back = after.twin(session, after_row, after=True)
    assert (there.before, there.after) == (back.before, back.after) == (before_row, after_row)
    assert session.card(before_row).title == after.card(after_row).title
    assert there.words.count("~") == 2 and "→" in there.words


def test_an_instruction_without_a_match_is_said_to_have_none(session):
    lonely = next(r for r in range(len(session.trace.instructions)) if session.trace.instructions.control[r])
    found = session.supposed({"buffers": "unlimited"}).twin(session, lonely, after=False)
    assert (found.before, found.after) == (lonely, -1) and found.words == "without a match after"
