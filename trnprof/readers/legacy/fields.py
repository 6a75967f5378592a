"""Columns out of typed rows; each distinct value of a field is looked at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import add, attrgetter
from typing import Any

import numpy as np

from sim.trace import Strings
from trnprof.readers.clock import Clock
from trnprof.readers.legacy.rows import Row, storable
from trnprof.readers.receipt import Receipt

_LOW, _HIGH = -(1 << 63), (1 << 63) - 1


@dataclass(slots=True)
class Timed:
    """Rows with usable times, in the file's unit."""

    rows: list[Any]
    start: list[float]
    end: list[float]

    def keep(self, kept: Sequence[bool]) -> Timed:
        return Timed(*(list(compress(values, kept)) for values in (self.rows, self.start, self.end)))


def timed(rows: list[Any], table: str, receipt: Receipt) -> Timed:
    """The rows with usable times; the others are set aside with the reason."""
    start, length = values(rows, "timestamp"), values(rows, "duration")
    whole = {*map(type, start), *map(type, length)} <= {int}
    if not whole or min(length, default=0) < 0:
        faults = [_time_fault(row) for row in rows]
        for fault in filter(None, faults):
            receipt.set_aside(table, fault)
        rows = [row for row, fault in zip(rows, faults, strict=True) if not fault]
        start, length = values(rows, "timestamp"), values(rows, "duration")
    return Timed(rows, start, list(map(add, start, length)))


def within(found: Timed, table: str, clock: Clock, receipt: Receipt) -> Timed:
    """The rows whose times fit 64-bit ps."""
    fits = clock.fit(found.start) & clock.fit(found.end)
    receipt.set_aside(table, "lie beyond 64-bit picoseconds", int((~fits).sum()))
    kept = found if fits.all() else found.keep(fits.tolist())
    if {*map(type, kept.start), *map(type, kept.end)} <= {int}:
        receipt.read_time(table, (sum(kept.end) - sum(kept.start)) * clock.unit_ps)
    return kept


def moments(rows: list[Any], table: str, clock: Clock, receipt: Receipt) -> Timed:
    """The rows with usable times of a table that is shown row by row."""
    found = within(timed(rows, table, receipt), table, clock, receipt)
    receipt.show(table, len(found.rows))
    receipt.show_time(table, sum(clock.points(found.end).tolist()) - sum(clock.points(found.start).tolist()))
    return found


def values(rows: Sequence[Any], name: str) -> list[Any]:
    return list(map(attrgetter(name), rows))


def ints(rows: Sequence[Any], name: str) -> np.ndarray:
    """An integer field."""
    try:
        return np.fromiter(map(attrgetter(name), rows), np.int64, len(rows))
    except (OverflowError, TypeError, ValueError):
        return np.array([clipped(getattr(row, name)) for row in rows], np.int64)


def clipped(value: Any) -> int:
    """The value within 64 bits; text that is no number counts as 0."""
    try:
        return min(max(int(value), _LOW), _HIGH)
    except (TypeError, ValueError):
        return 0


def texts(rows: Sequence[Any], name: str, strings: Strings) -> np.ndarray:
    """A text field as codes; blank is none."""
    return by_value(rows, name, lambda text: strings.code(storable(text.strip()) or None))


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
