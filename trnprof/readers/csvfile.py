"""Any table of slices as CSV: a column map says which column is the name, the start, the end and the rest.

`start`, `end` and `duration` carry their unit: `start_us`, `duration_ms`. Times are read exactly, digit by digit.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation

from sim.errors import InputError, UsageError
from sim.trace import Meta, Trace
from trnprof.readers.legacy.rows import storable
from trnprof.readers.receipt import Receipt
from trnprof.readers.timeline import COUNTERS, SLICES, Timeline, track_name

UNITS = {"s": 12, "ms": 9, "us": 6, "ns": 3, "ps": 0}
"""Units of time, as powers of ten of ps."""

TEXTS = ("name", "track", "process", "category")
TIMES = tuple(f"{what}_{unit}" for what in ("start", "end", "duration") for unit in UNITS)
DELIMITERS = ",;\t|"
FIELD_LIMIT = 1 << 24

_GUESSES = {
    "name": ("name", "op", "operation", "kernel", "opcode", "event", "function"),
    "track": ("track", "thread", "tid", "stream", "lane", "engine", "device"),
    "process": ("process", "pid", "rank", "core"),
    "category": ("category", "cat", "type", "kind"),
    "start": ("start", "ts", "begin", "timestamp", "start_time", "start_ts", "time"),
    "end": ("end", "stop", "finish", "end_time", "end_ts"),
    "duration": ("duration", "dur", "elapsed", "length", "took"),
}
_UNIT = re.compile(r"[ _(\[]+(s|ms|us|µs|ns|ps)[)\]]?$", re.IGNORECASE)
_LIMIT = 40
"""Digits before the point that a time may have."""


def parse_columns(text: str) -> dict[str, str]:
    """`name=Op,start_us=ts,duration_us=dur` as a map from our fields to the file's columns.

    errors : UsageError names what is wrong with it
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        field, equals, column = part.partition("=")
        field = field.strip()
        if not equals or not column.strip():
            raise UsageError(f"--columns {part}: expected FIELD=COLUMN, such as start_us=ts")
        if field not in TEXTS and field not in TIMES:
            raise UsageError(f"--columns {part}: no field {field}", remedy=f"there are {', '.join((*TEXTS, *TIMES))}")
        if field in found:
            raise UsageError(f"--columns {part}: {field} is given twice")
        found[field] = column.strip()
    _check(found)
    return found


def _check(columns: Mapping[str, str]) -> None:
    """Raise UsageError unless the map says when a slice starts and how long it is."""
    has = {field.partition("_")[0] for field in columns}
    if "start" not in has or not has & {"end", "duration"}:
        raise UsageError("--columns: a start and an end or a duration are needed, such as start_us=ts,duration_us=dur")


def header(head: bytes) -> list[str]:
    """The names in the first line of a CSV file; empty when it is none."""
    try:
        line = head.decode("utf-8-sig").partition("\n")[0].rstrip("\r")
    except UnicodeDecodeError as fault:
        line = head[: fault.start].decode("utf-8-sig", "replace").partition("\n")[0].rstrip("\r")
    if not line or not all(sign.isprintable() or sign == "\t" for sign in line) or b"\n" not in head:
        return []
    names = next(csv.reader([line], delimiter=_delimiter(line)), [])
    return names if len(names) > 1 and all(name.strip() for name in names) else []


def _delimiter(line: str) -> str:
    return max(DELIMITERS, key=line.count)


def guess(names: list[str]) -> dict[str, str] | None:
    """The column map of a header that tells units (`ts_us`, `Duration (ns)`); None when it does not."""
    found: dict[str, str] = {}
    for name in names:
        unit = _UNIT.search(name)
        plain = name[: unit.start()] if unit else name
        plain = plain.strip().lower().replace(" ", "_")
        for field, words in _GUESSES.items():
            if plain not in words:
                continue
            if field in ("start", "end", "duration"):
                if unit:
                    found.setdefault(f"{field}_{unit[1].lower().replace('µ', 'u')}", name)
            else:
                found.setdefault(field, name)
    try:
        _check(found)
    except UsageError:
        return None
    return found


def read(stream: io.RawIOBase, path: str, names: list[str], columns: Mapping[str, str]) -> Trace:
    """The trace of a CSV file; `columns` from our fields to the file's.

    errors : InputError where a named column is not there
    """
    missing = [column for column in columns.values() if column not in names]
    if missing:
        raise InputError(f"{path}: no column {missing[0]!r}", remedy=f"it has {', '.join(names)}")
    receipt = Receipt()
    timeline = Timeline(receipt)
    text = io.TextIOWrapper(io.BufferedReader(stream, 1 << 20), "utf-8-sig", "replace", newline="")
    rows = _rows(text, receipt)
    next(rows, None)
    take = _taker(timeline, names, columns)
    for row in rows:
        receipt.read(SLICES, 1)
        take(row)
    return timeline.trace(Meta(False, "unknown", path, tool="CSV"), COUNTERS)


def _rows(text: io.TextIOBase, receipt: Receipt) -> Iterator[list[str]]:
    """The rows that parse; the others are set aside one by one."""
    first = text.readline()
    text.seek(0) if text.seekable() else None
    lines = _again(first, text)
    before = csv.field_size_limit(FIELD_LIMIT)
    try:
        reader = csv.reader(lines, delimiter=_delimiter(first))
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error:
                receipt.read(SLICES, 1)
                receipt.set_aside(SLICES, "are not CSV")
                continue
            if row:
                yield row
    finally:
        csv.field_size_limit(before)


def _again(first: str, text: io.TextIOBase) -> Iterator[str]:
    """The lines from the first one on."""
    yield first
    yield from text


def _taker(timeline: Timeline, names: list[str], columns: Mapping[str, str]) -> Callable[[list[str]], None]:
    """What puts one row on the timeline, or aside."""
    place = {field: names.index(column) for field, column in columns.items()}
    units = {field.partition("_")[0]: (at, UNITS[field.partition("_")[2]])
             for field, at in place.items() if field in TIMES}  # fmt: skip
    others = [(name, at) for at, name in enumerate(names) if at not in place.values()]
    receipt = timeline.receipt

    def time(row: list[str], what: str) -> int | None:
        at, power = units[what]
        return picoseconds(row[at], power)

    def text(row: list[str], field: str) -> str:
        return storable(row[place[field]]) if field in place else ""

    def take(row: list[str]) -> None:
        if len(row) < len(names):
            receipt.set_aside(SLICES, "have too few columns")
            return
        start = time(row, "start")
        last = time(row, "end") if "end" in units else time(row, "duration")
        if start is None or last is None:
            receipt.set_aside(SLICES, "have no time")
            return
        end = last if "end" in units else start + last
        if end < start:
            receipt.set_aside(SLICES, "end before they start")
            return
        receipt.read_time(SLICES, end - start)
        more = {storable(name): storable(row[at]) for name, at in others if row[at]}
        args = json.dumps(more, ensure_ascii=False) if more else None
        track = track_name(text(row, "process"), text(row, "track")) or "rows"
        timeline.slice(track, text(row, "name"), start, end, text(row, "category") or None, args)

    return take


def picoseconds(text: str, power: int) -> int | None:
    """A decimal number times a power of ten, as whole ps; None when it is none or far beyond 64 bits."""
    text = text.strip()
    try:
        if text.isascii() and text.lstrip("-").isdigit() and len(text) < _LIMIT:
            return int(text) * 10**power
        value = Decimal(text)
        return round(value.scaleb(power)) if value.is_finite() and abs(value.adjusted()) < _LIMIT else None
    except (InvalidOperation, ValueError):
        return None
