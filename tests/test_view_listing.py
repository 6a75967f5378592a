"""What is in view as a table: the same rows, in the same order, however it is cut."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from sim.trace import Trace
from tests.synthetic import US, attention, large
from trnprof.view import Session


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(attention())


def touching(session: Session, t0: int, t1: int) -> list[tuple[int, str, int]]:
    """Start, kind and row of all that touches a stretch; the slow way."""
    found = []
    for kind, table in (("instruction", session.trace.instructions), ("transfer", session.trace.transfers)):
        for row in range(len(table)):
            start, end = int(table.start_ps[row]), int(table.end_ps[row])
            if start < t1 and (end > t0 or start >= t0):
                found.append((start, kind, row))
    return sorted(found, key=lambda item: (item[0], item[1] == "transfer"))


@pytest.mark.parametrize("span", [(0, 28), (14.5, 16.6), (19.5, 19.6), (26.1, 40), (-5, 0)])
def test_it_lists_what_touches_the_stretch_in_order_of_start(session, span):
    t0, t1 = (round(t * US) for t in span)
    found = session.listing(t0, t1)
    expected = touching(session, t0, t1)
    assert [(row.start_ps, row.kind, row.row) for row in found.rows] == expected
    assert found.count == len(expected)


def test_pages_join_to_the_whole():
    session = Session(large(1000))
    whole = touching(session, *session.extent)
    joined = []
    while len(joined) < len(whole):
        page = session.listing(*session.extent, len(joined), 70)
        assert page.first == len(joined)
        joined += [(row.start_ps, row.kind, row.row) for row in page.rows]
    assert joined == whole
    assert session.listing(*session.extent, 10**9).first == len(whole) - 1


def test_a_row_says_what_the_card_says(session):
    rows = {row.row: row for row in session.listing(0, 28 * US).rows if row.kind == "instruction"}
    for number, row in rows.items():
        card = session.card(number)
        assert (row.title, row.id, row.start_ps, row.end_ps) == (card.title, card.id, card.t0_ps, card.t1_ps)
    moved = next(row for row in session.listing(0, 28 * US).rows if row.kind == "transfer")
    assert (moved.title, moved.bytes) == ("load q", 262_144)


def test_a_file_holds_every_row_with_its_numbers(session):
    rows = list(csv.DictReader(io.StringIO("".join(session.written(0, 28 * US)))))
    assert [(int(row["start_ps"]), int(row["end_ps"]), row["title"]) for row in rows] == [
        (row.start_ps, row.end_ps, row.title) for row in session.listing(0, 28 * US).rows
    ]
    assert rows[2]["bytes"] == "262144"


def test_no_cell_runs_as_a_formula():
    session = Session(attention(names={"MATMUL": '=HYPERLINK("http://evil")', "ACTIVATE": '+1\n2,"x'}))
    rows = list(csv.DictReader(io.StringIO("".join(session.written(0, 28 * US)))))
    assert len(rows) == 12
    assert not [cell for row in rows for cell in row.values() if cell[:1] in tuple("=+@")]


@pytest.mark.parametrize("rows", [0, 1])
def test_next_to_nothing_is_listed(rows):
    trace = attention()
    session = Session(Trace(trace.meta, trace.strings, trace.instructions.take(np.arange(rows))))
    assert session.listing(0, 28 * US).count == rows
    assert len("".join(session.written(0, 28 * US)).splitlines()) == rows + 1
    assert session.place(0, 28 * US, 5 * US) == 0
