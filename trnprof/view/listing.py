"""What lies in a stretch of time as rows of a table: the timeline for who cannot see it, and for other programs."""

from __future__ import annotations

import csv
import io
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from sim.trace import NONE, Engine, Table
from trnprof.view import format as words
from trnprof.view.labels import title
from trnprof.view.records import Listing, ListingRow

if TYPE_CHECKING:
    from trnprof.view.session import Session

MOST = 500
"""Rows of one page."""

_WRITTEN = 2_000
"""Rows that are written at a time."""
_LEFT_OUT = ("row", "colour", "start", "took")
"""Fields that a file does without: it has the numbers."""


def listing(session: Session, t0_ps: int, t1_ps: int, first: int = 0, most: int = MOST) -> Listing:
    """Instructions and transfers that touch a stretch, by their start; `most` of them from number `first` on."""
    cut = _Cut(session, t0_ps, t1_ps)
    first = max(0, min(first, max(cut.count - 1, 0)))
    rows = tuple(_row(session, kind, row) for kind, row in cut.part(first, first + min(most, MOST)))
    said = f"{words.count(cut.count)} in view"
    if cut.count > len(rows):
        said = f"{words.count(first + 1)} to {words.count(first + len(rows))} of {said}"
    return Listing(rows, first, cut.count, said)


def place(session: Session, t0_ps: int, t1_ps: int, at_ps: int) -> int:
    """How many rows of the table start before a moment."""
    cut = _Cut(session, t0_ps, t1_ps)
    return max(0, min(cut.count - 1, sum(rows.before(at_ps) for rows in cut.rows)))


class _Touching:
    """Rows of a table that begin before the end of a stretch and end after its beginning; those of no length count too.

    Those that start inside are consecutive, so that a page of millions is found without a look at the others.
    """

    def __init__(self, table: Table, t0_ps: int, t1_ps: int):
        self._start = table.start_ps
        self._low, self._high = (int(at) for at in np.searchsorted(self._start, (t0_ps, t1_ps)))
        self._early = np.flatnonzero(table.end_ps[: min(self._low, self._high)] > t0_ps)
        self.size = self._early.size + max(0, self._high - self._low)

    def __getitem__(self, k: int) -> int:
        return int(self._early[k]) if k < self._early.size else self._low + k - self._early.size

    def start(self, k: int) -> int:
        """When number k starts, ps."""
        return int(self._start[self[k]])

    def before(self, time_ps: int) -> int:
        """How many of them start before a moment."""
        at = int(np.searchsorted(self._start, time_ps))
        return int(np.searchsorted(self._early, at)) + max(0, min(at, self._high) - self._low)


class _Cut:
    """The rows of both tables that touch a stretch, as one sequence in order of start."""

    def __init__(self, session: Session, t0_ps: int, t1_ps: int):
        trace = session.trace
        self.rows = [_Touching(table, t0_ps, t1_ps) for table in (trace.instructions, trace.transfers)]
        self.count = sum(rows.size for rows in self.rows)

    def part(self, low: int, high: int) -> Iterator[tuple[str, int]]:
        """Kind and row of those from number `low` to before `high`."""
        i = self._before(low)
        j = low - i
        ins, moved = self.rows
        for _ in range(low, min(high, self.count)):
            if j >= moved.size or (i < ins.size and ins.start(i) <= moved.start(j)):
                yield "instructions", ins[i]
                i += 1
            else:
                yield "transfers", moved[j]
                j += 1

    def _before(self, place: int) -> int:
        """How many of the first `place` are instructions."""
        ins, moved = self.rows
        return bisect_left(range(ins.size), place, key=lambda k: k + moved.before(ins.start(k)))


def _row(session: Session, kind: str, row: int) -> ListingRow:
    return _instruction(session, row) if kind == "instructions" else _transfer(session, row)


def _instruction(session: Session, row: int) -> ListingRow:
    trace = session.trace
    table = trace.instructions
    engine, region = int(table.engine[row]), int(table.region[row])
    return ListingRow(
        kind="instruction",
        row=row,
        id=_plain(trace.text(table, "name", row)) or f"#{int(table.id[row])}",
        title=title(trace, table, row),
        engine=words.ENGINE_WORDS[engine],
        colour=engine,
        core=int(table.core[row]),
        start_ps=int(table.start_ps[row]),
        end_ps=int(table.end_ps[row]),
        start=words.moment(int(table.start_ps[row])),
        took=session.estimate(words.exact(int(table.end_ps[row] - table.start_ps[row]))),
        region=_plain(trace.text(trace.regions, "name", region)) if region != NONE else "",
        source=_plain(trace.text(table, "source", row)),
        bytes=None,
        operands=words.plain(trace.text(table, "operands", row) or "", 400),
    )


def _transfer(session: Session, row: int) -> ListingRow:
    trace = session.trace
    table = trace.transfers
    code = int(session.timeline.labels.transfers(np.array([row]))[0])
    return ListingRow(
        kind="transfer",
        row=row,
        id=f"#{int(table.id[row])}",
        title=session.timeline.labels[code][0],
        engine=_plain(trace.text(table, "queue", row)) or "DMA",
        colour=int(Engine.DMA),
        core=int(table.core[row]),
        start_ps=int(table.start_ps[row]),
        end_ps=int(table.end_ps[row]),
        start=words.moment(int(table.start_ps[row])),
        took=session.estimate(words.exact(int(table.end_ps[row] - table.start_ps[row]))),
        region="",
        source="",
        bytes=int(table.bytes[row]),
        operands="",
    )


def _plain(text: str | None) -> str:
    return words.plain(text or "", 120)


def written(session: Session, t0_ps: int, t1_ps: int) -> Iterator[str]:
    """The same as CSV, all of it, piece by piece: a line of names, then a line a row; times in ps."""
    names = [item.name for item in fields(ListingRow) if item.name not in _LEFT_OUT]
    cut = _Cut(session, t0_ps, t1_ps)
    yield ",".join(names) + "\r\n"
    for low in range(0, cut.count, _WRITTEN):
        text = io.StringIO()
        rows = (_row(session, kind, row) for kind, row in cut.part(low, low + _WRITTEN))
        csv.writer(text).writerows([words.inert(getattr(row, name)) for name in names] for row in rows)
        yield text.getvalue()
