"""Columns out of typed rows, batch by batch; each distinct value of a field in a batch is looked at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import add, attrgetter
from typing import Any

import numpy as np

from sim.trace import Strings
from trnprof.readers.clock import Clock
from trnprof.readers.draft import Columns, size, take
from trnprof.readers.legacy.rows import Row, storable
from trnprof.readers.receipt import Receipt, total

_LOW, _HIGH = -(1 << 63), (1 << 63) - 1

START, END = "_start", "_end"
"""Columns of times in the file's unit: int64, or Python's numbers where one is a fraction or needs more bits."""


class Gathered:
    """The columns of a table while its batches come in."""

    def __init__(self) -> None:
        self._parts: list[Columns] = []

    def add(self, columns: Columns) -> None:
        if columns:
            self._parts.append(columns)

    def whole(self) -> Columns:
        """All batches in one; empty when there was none."""
        if not self._parts:
            return {}
        parts, self._parts = self._parts, []
        return {name: np.concatenate([part.pop(name) for part in parts]) for name in list(parts[0])}


def timed(rows: list[Any], table: str, receipt: Receipt) -> tuple[list[Any], Columns]:
    """The rows with usable times, and these; the others are set aside with the reason."""
    start, length = values(rows, "timestamp"), values(rows, "duration")
    whole = {*map(type, start), *map(type, length)} <= {int}
    if not whole or min(length, default=0) < 0:
        faults = [_time_fault(row) for row in rows]
        for fault in filter(None, faults):
            receipt.set_aside(table, fault)
        rows = [row for row, fault in zip(rows, faults, strict=True) if not fault]
        start, length = values(rows, "timestamp"), values(rows, "duration")
    return rows, {START: times(start), END: times(list(map(add, start, length)))}


def times(numbers: list[Any]) -> np.ndarray:
    """Times as int64, else as Python's own numbers."""
    if {*map(type, numbers)} <= {int}:
        try:
            return np.array(numbers, np.int64)
        except OverflowError:
            pass
    return np.array(numbers, object)


def within(columns: Columns, table: str, clock: Clock, receipt: Receipt) -> Columns:
    """The rows whose times fit 64-bit ps, with `start_ps` and `end_ps`."""
    if not columns:
        return {}
    fits = clock.fit(columns[START]) & clock.fit(columns[END])
    receipt.set_aside(table, "lie beyond 64-bit picoseconds", int((~fits).sum()))
    kept = columns if fits.all() else take(columns, fits)
    start, end = kept.pop(START), kept.pop(END)
    exact = all(given.dtype != object or {*map(type, given)} <= {int} for given in (start, end))
    kept |= {"start_ps": clock.points(start), "end_ps": clock.points(end)}
    if exact:
        receipt.read_time(table, total(kept["end_ps"] - kept["start_ps"]))
    return kept


def moments(columns: Columns, table: str, clock: Clock, receipt: Receipt) -> Columns:
    """The rows with usable times of a table that is shown row by row."""
    found = within(columns, table, clock, receipt)
    receipt.show(table, size(found))
    receipt.show_time(table, total(found["end_ps"] - found["start_ps"]) if found else 0)
    return found


def values(rows: Sequence[Any], name: str) -> list[Any]:
    return list(map(attrgetter(name), rows))


def ints(rows: Sequence[Any], name: str) -> np.ndarray:
    """An integer field."""
    try:
        return np.fromiter(map(attrgetter(name), rows), np.int64, len(rows))
    except (OverflowError, TypeError, ValueError):
        return np.array([clipped(getattr(row, name)) for row in rows], np.int64)


def floats(rows: Sequence[Any], name: str) -> np.ndarray:
    return np.array(values(rows, name), np.float64)


def clipped(value: Any) -> int:
    """The value within 64 bits; text that is no number counts as 0."""
    try:
        return min(max(int(value), _LOW), _HIGH)
    except (TypeError, ValueError):
        return 0


def texts(rows: Sequence[Any], name: str, strings: Strings) -> np.ndarray:
    """A text field as codes; blank is none."""
    return by_value(rows, name, lambda text: strings.code(storable(text.strip()) or None)).astype(np.int32)


def by_value(rows: Sequence[Any], name: str, function: Callable[[Any], int]) -> np.ndarray:
    """A number for each value of a field that can be a key."""
    found = values(rows, name)
    numbers = {value: function(value) for value in dict.fromkeys(found)}
    return np.fromiter(map(numbers.__getitem__, found), np.int64, len(found))


def _time_fault(row: Row) -> str:
    start, length = row.timestamp, row.duration
    if start is None or length is None:
        return "have no time"
    if not math.isfinite(start) or not math.isfinite(length):
        return "have a time that is not a number"
    return "last less than nothing" if length < 0 else ""


def core_of(subgraph: Any) -> int:
    """Physical core of a subgraph's name: sg00, /sg01/layer."""
    digits = str(subgraph or "").strip("/").partition("/")[0].removeprefix("sg")
    return int(digits) if digits.isdecimal() and len(digits) < 5 else 0


def small(value: Any) -> int:
    """A 16-bit number out of a number or its text."""
    try:
        return min(max(int(value), -1), 32_767)
    except (TypeError, ValueError):
        return -1
