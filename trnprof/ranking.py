"""What takes the most time, grouped by a column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.errors import InputError
from sim.trace import ENGINE_NAMES, Engine, Instructions, Table, Trace, Wait
from trnprof.intervals import union_ps

KEYS = {
    "name": "instructions",
    "opcode": "instructions",
    "engine": "instructions",
    "track": "instructions",
    "source": "instructions",
    "function": "instructions",
    "group": "instructions",
    "queue": "transfers",
    "variable": "transfers",
}
"""Columns to group by, and their tables."""


@dataclass(frozen=True, slots=True)
class Rank:
    """Rows that share a value."""

    value: str | None
    count: int
    """Of instructions: those that the rows stand for."""
    total_ps: int
    """Durations, summed; of rows that stand for several instructions, the time in which any of them runs."""
    busy_ps: int
    """The union of their intervals."""
    longest_ps: int
    """Of rows that stand for one; of all where none does."""
    share: float | None
    """`busy_ps` of the window, 0-1."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Rows that share a value, in two traces."""

    value: str | None
    count_before: int
    count_after: int
    total_before_ps: int
    total_after_ps: int

    @property
    def change_ps(self) -> int:
        """How much more time they take together."""
        return self.total_after_ps - self.total_before_ps


def shifts(before: Trace, after: Trace, by: str | None = None) -> list[Shift]:
    """Groups of rows whose number or total time differs, the largest change first, then by name.

    by : a key of `KEYS`; `default_key` of the later trace when it is None
    """
    by = by or default_key(after)
    one, other = ({group.value: group for group in rank(trace, by, None)} for trace in (before, after))
    found = [
        Shift(
            value,
            one[value].count if value in one else 0,
            other[value].count if value in other else 0,
            one[value].total_ps if value in one else 0,
            other[value].total_ps if value in other else 0,
        )
        for value in {**one, **other}
    ]
    changed = [each for each in found if each.change_ps or each.count_before != each.count_after]
    return sorted(changed, key=lambda each: (-abs(each.change_ps), each.value or ""))


def default_key(trace: Trace) -> str:
    """The opcode; the name where no row is of a NeuronCore."""
    return "name" if bool(np.all(trace.instructions.engine == Engine.OTHER)) else "opcode"


def rank(trace: Trace, by: str | None = None, limit: int | None = 20) -> list[Rank]:
    """Groups of instructions or transfers, the longest total first, then by name.

    by : a key of `KEYS`; `default_key` when it is None
    """
    by = by or default_key(trace)
    if by not in KEYS:
        raise InputError(f"no column {by} to rank by", remedy=f"there are {', '.join(KEYS)}")
    table = getattr(trace, KEYS[by])
    codes, of = np.unique(table.column(by), return_inverse=True)
    length = table.end_ps - table.start_ps
    order = np.argsort(of, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(of, minlength=codes.size))[:-1]) if codes.size else []
    sums = [(sum(length[rows].tolist()), int(codes[place]), rows) for place, rows in enumerate(parts)]
    largest = sorted(sums, key=lambda entry: (-entry[0], _name(trace, by, entry[1]) or ""))[:limit]
    return [_rank(trace, table, by, entry) for entry in largest]


def _rank(trace: Trace, table: Table, by: str, entry: tuple[int, int, np.ndarray]) -> Rank:
    total, code, rows = entry
    start, end = table.column("start_ps")[rows], table.column("end_ps")[rows]
    window = trace.meta.window[1] - trace.meta.window[0]
    busy = union_ps(start, end)
    share = busy / window if window > 0 else None
    each = table.count[rows] if isinstance(table, Instructions) else np.ones(rows.size, np.int64)
    single = (end - start)[_single(trace, table, rows)]
    longest = single if single.size else end - start
    return Rank(_name(trace, by, code), int(each.sum()), total, busy, int(longest.max()), share)


def _single(trace: Trace, table: Table, rows: np.ndarray) -> np.ndarray:
    """Which rows are one instruction or transfer as it ran: where the others are slices of time, its wait is known."""
    if not (trace.condensed and isinstance(table, Instructions)):
        return np.ones(rows.size, bool)
    return (table.count[rows] == 1) & (table.wait[rows] != Wait.UNKNOWN)


def _name(trace: Trace, by: str, code: int) -> str | None:
    return ENGINE_NAMES[code] if by == "engine" else trace.strings[code]
