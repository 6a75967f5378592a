"""Finding instructions: by pattern, and by what people type to go somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from sim.trace import NONE, Arrays, Engine, Trace
from trnprof.patterns import matching
from trnprof.view import format as words
from trnprof.view.labels import instruction_label
from trnprof.view.records import Hits, Target

MAX_PATTERN = 200

_COLUMNS = ("name", "opcode", "operands", "source", "function", "group")

_MOMENT = re.compile(r"^\s*([\d_,. \u2009\u202f]*\d)\s*(ps|ns|us|µs|ms|s)?\s*$")
_UNITS = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12}
_LINE = re.compile(r"^(?:line\s+|:|(?P<file>[^:]+):)(?P<line>\d+)$")


def search(trace: Trace, pattern: str) -> Hits:
    """Instructions of which a name, opcode, operand, source, function, region or engine matches, whatever the case."""
    total = len(trace.instructions)
    try:
        matches = _matcher(pattern)
    except re.error as fault:
        return Hits(pattern, np.empty(0, np.int64), 0, total, "not a pattern yet", str(fault))
    rows = np.flatnonzero(_found(trace, pattern, matches)).astype(np.int64) if pattern else np.empty(0, np.int64)
    text = f"{words.count(len(rows))} of {words.count(total)} match" if pattern else ""
    return Hits(pattern, rows, len(rows), total, text, start_ps=trace.instructions.start_ps[rows])


def _matcher(pattern: str):
    if len(pattern) > MAX_PATTERN:
        raise re.error(f"longer than {MAX_PATTERN} characters")
    return re.compile(pattern, re.IGNORECASE).search


def _found(trace: Trace, pattern: str, matches) -> np.ndarray:
    table = trace.instructions
    # One look at each distinct text; the last entry stands for code -1.
    hit = matching(trace.strings, pattern)
    found = np.zeros(len(table), np.bool_)
    for name in _COLUMNS:
        if table.has(name) and hit[_used(trace, name)].any():
            found |= hit[table.column(name)]
    if len(trace.regions) and table.has("region"):
        found |= np.append(_within(hit[trace.regions.name], trace.regions.parent), False)[table.region]
    engines = np.array([matches(words.ENGINE_WORDS[e]) is not None for e in Engine], np.bool_)
    if engines.any():
        found |= engines[table.engine]
    return _titled(trace, matches, found)


def _within(hit: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Regions that are found, and all that lies in them."""
    while True:
        spread = hit | np.append(hit, False)[parent]
        if np.array_equal(spread, hit):
            return spread
        hit = spread


def _used(trace: Trace, name: str) -> np.ndarray:
    """Codes that a column has."""

    def find() -> Arrays:
        seen = np.zeros(len(trace.strings) + 1, np.bool_)
        seen[trace.instructions.column(name)] = True
        return {"codes": np.flatnonzero(seen[:-1]).astype(np.int32)}

    return trace.derive(f"used.{name}", find)["codes"]


def _titled(trace: Trace, matches, found: np.ndarray) -> np.ndarray:
    """With the rows whose label as shown matches: `ACTIVATE exp` is in no column."""
    table = trace.instructions
    if not (table.has("function") or table.has("kind")):
        return found
    titles = trace.derive("titles", lambda: _titles(trace))
    hit = np.zeros(titles["codes"].shape[0], np.bool_)
    for k, codes in enumerate(titles["codes"].tolist()):
        hit[k] = matches(instruction_label(*(trace.strings[code] for code in codes))[0]) is not None
    return found | hit[titles["title"]] if hit.any() else found


def _titles(trace: Trace) -> Arrays:
    """Which title each row has, and the codes that make it: int32 [rows] and int32 [titles, 3]."""
    table = trace.instructions
    title = np.zeros(len(table), np.int32)
    codes = np.zeros((1, 0), np.int32)
    for name in ("opcode", "function", "kind"):
        mine = np.append(_used(trace, name), np.int32(NONE))
        place = np.zeros(len(trace.strings) + 1, np.int64)
        place[mine] = np.arange(mine.size)
        pair = title * mine.size + place[table.column(name)]
        present, title = _numbered(pair, codes.shape[0] * mine.size)
        codes = np.column_stack((codes[present // mine.size], mine[present % mine.size]))
    return {"title": title, "codes": codes.astype(np.int32)}


def _numbered(keys: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys, and the number of each row's among them."""
    if limit > 4 * keys.size + 1000:
        present, numbers = np.unique(keys, return_inverse=True)
        return present, numbers.astype(np.int32)
    seen = np.zeros(limit, np.bool_)
    seen[keys] = True
    present = np.flatnonzero(seen)
    return present, (np.cumsum(seen, dtype=np.int32) - 1)[keys]


def goto(trace: Trace, text: str) -> Target | None:
    """Where a moment (`26.059 µs`; µs without a unit), an id, a name or a line (`:19`, `attention.py:19`) lies."""
    text = text.strip()
    if not text:
        return None
    for found in _places(trace, text):
        if found is not None:
            return found
    return None


def _places(trace: Trace, text: str) -> Iterator[Target | None]:
    table = trace.instructions
    code = trace.strings.find(text)
    if code != NONE:
        yield _first(trace, (table.name == code) | (table.source == code))
    line = _LINE.match(text)
    if line:
        ending = f"{line['file'] or ''}:{line['line']}"
        known = np.array([t.endswith(ending) for t in trace.strings] + [False], np.bool_)
        yield _first(trace, known[table.source])
    if text.startswith("#") and text[1:].isdecimal():
        yield _first(trace, table.id == int(text[1:]))
    moment = _MOMENT.match(text)
    if moment:
        number = re.sub(r"[_, \u2009\u202f]", "", moment[1])
        at = _picoseconds(number, moment[2] or "us")
        if moment[2] is None and "." not in number:
            yield _first(trace, table.id == int(number)) if int(number) < 2**63 else None
        yield Target(NONE, at, at, words.moment(at))


def _picoseconds(number: str, unit: str) -> int:
    """Decimal text to whole ps without passing through a float."""
    whole, _, part = number.partition(".")
    scale = _UNITS[unit]
    return min(int(whole or 0) * scale + int((part or "0")[:15]) * scale // 10 ** len((part or "0")[:15]), 2**62)


def _first(trace: Trace, mask: np.ndarray) -> Target | None:
    rows = np.flatnonzero(mask)
    if not rows.size:
        return None
    row, table = int(rows[0]), trace.instructions
    text = instruction_label(*(trace.text(table, c, row) for c in ("opcode", "function", "kind")))[0]
    return Target(row, int(table.start_ps[row]), int(table.end_ps[row]), text)
