"""What holds up a loop: the circuit of instructions that the critical path goes round, and the period it enforces.

In a loop that repeats, the critical path settles on the circuit with the largest ratio of time to iterations (the
maximum cycle ratio of its dependences): no other circuit can keep up with it. So the circuits of a trace are the walks
that its critical path repeats from an instruction to the next one of the same kind.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

import numpy as np

from sim.trace import NONE, RegionKind, Trace
from trnprof.words import ENGINE_WORDS

LEAST = 3
"""Rounds that make a circuit."""

MOST = 5
"""Circuits listed."""

TELLING = 0.02
"""Circuits that take less of the path are left out."""

ADDRESS = re.compile(r"0x[0-9A-Fa-f]+|\+p\d+")

BASE = np.uint64(0x9E3779B97F4A7C15)
"""An odd number, so that it has an inverse modulo 2^64: walks are compared by polynomial hashes in it."""


@dataclass(frozen=True, slots=True)
class Station:
    """An instruction of a circuit."""

    row: int
    """In the last round that takes the period."""
    engine: str
    opcode: str
    source: str | None
    time_ps: int
    """Its part of the period."""


@dataclass(frozen=True, slots=True)
class Circuit:
    """A walk that the critical path repeats."""

    region: int
    """Innermost loop around all of it, a row of `trace.regions`; -1 when none is known."""
    name: str
    period_ps: int
    """Median time of a round."""
    even: bool
    """Rounds take about the same time, so that they add up to the whole."""
    iterations: float | None
    """How many instances of its instruction a round moves on, on average; None where their order is not the loop's."""
    rounds: int
    start_ps: int
    end_ps: int
    time_ps: int
    """Of all rounds."""
    share: float
    """Of the path."""
    stations: tuple[Station, ...]

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def circuits(trace: Trace, row: np.ndarray, start: np.ndarray, end: np.ndarray) -> tuple[Circuit, ...]:
    """The circuits of a path, the longest first.

    row, start, end : int64[segments]: instruction, times in ps
    """
    visits = _visits(row, start)
    if visits.size < LEAST + 1:
        return ()
    path, since = row[visits], start[visits]
    kind = _kinds(trace, path)
    following = _next_of_kind(kind)
    begin = np.flatnonzero(following >= 0)
    if not begin.size:
        return ()
    walk = _hashes(kind, begin, following[begin])
    found, taken, whole = [], np.zeros(visits.size, bool), int(end[-1] - start[0])
    took = since[following[begin]] - since[begin]
    for group in _ranked(walk, took):
        members = begin[group]
        before = np.concatenate(([0], np.cumsum(taken)))
        known = before[following[members]] - before[members]
        if 2 * known.sum() > (following[members] - members).sum():
            continue
        for first in members.tolist():
            taken[first : following[first]] = True
        if int((since[following[members]] - since[members]).sum()) < TELLING * whole:
            break
        found.append(_circuit(trace, path, since, members, following, whole))
        if len(found) == MOST:
            break
    return tuple(found)


def _visits(row: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Segments with which the path comes to another instruction."""
    known = np.flatnonzero(row >= 0)
    return known[np.append(True, row[known][1:] != row[known][:-1])] if known.size else known


def _kinds(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """A number for each row, the same for instances of one instruction; uint64."""
    ins = trace.instructions
    shapes = ins.elements if ins.has("source") else _shapes(trace, rows)
    columns = (ins.source, ins.opcode, ins.engine, ins.core, shapes, ins.partitions, ins.function)
    key = np.zeros(rows.size, np.uint64)
    for column in columns:
        key = _mixed(key + column[rows].astype(np.int64).view(np.uint64))
    return key


def _shapes(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """A number for each row of the trace, of those given the same for equal operands at whatever addresses; int64."""
    operands = trace.instructions.operands
    numbers: dict[str, int] = {}
    shapes = np.full(len(trace.strings) + 1, NONE, np.int64)
    for code in np.unique(operands[rows]).tolist():
        shapes[code] = numbers.setdefault(ADDRESS.sub("", trace.strings[code] or ""), len(numbers))
    return shapes[operands]


def _mixed(bits: np.ndarray) -> np.ndarray:
    """Well spread 64-bit numbers, the same on every run (splitmix64)."""
    bits = bits + BASE
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _next_of_kind(kind: np.ndarray) -> np.ndarray:
    """The next visit of the same kind, -1 for the last."""
    order = np.argsort(kind, kind="stable")
    found = np.full(kind.size, NONE, np.int64)
    same = kind[order][1:] == kind[order][:-1]
    found[order[:-1][same]] = order[1:][same]
    return found


def _hashes(kind: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """A hash of the kinds between two visits, whatever comes before them."""
    inverse = np.uint64(pow(int(BASE), -1, 1 << 64))
    power = np.cumprod(np.full(kind.size, BASE, np.uint64))
    undo = np.cumprod(np.full(kind.size, inverse, np.uint64))
    total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(kind * power)))
    return _mixed((total[last] - total[first]) * undo[first] + (last - first).astype(np.uint64))


def _ranked(walk: np.ndarray, took: np.ndarray) -> list[np.ndarray]:
    """Groups of equal walks, the one that takes most of the path first; rotations begin with the earliest."""
    order = np.argsort(walk, kind="stable")
    cuts = np.flatnonzero(walk[order][1:] != walk[order][:-1]) + 1
    groups = [group for group in np.split(order, cuts) if group.size >= LEAST]
    return sorted(groups, key=lambda group: (-int(took[group].sum()), int(group[0])))


def _circuit(
    trace: Trace, path: np.ndarray, since: np.ndarray, members: np.ndarray, following: np.ndarray, whole: int
) -> Circuit:
    last = int(following[members[-1]])
    took = since[following[members]] - since[members]
    period = int(np.sort(took)[(took.size - 1) // 2])
    shown = members[np.flatnonzero(took == period)[-1]]
    places = range(int(shown), int(following[shown]))
    region = _loop_around(trace, path[places.start : places.stop])
    return Circuit(
        region=region,
        name=_name(trace, region, path[places.start : places.stop]),
        period_ps=period,
        even=bool(abs(period * took.size - took.sum()) <= TELLING * took.sum()),
        iterations=_iterations(trace, path[members], path[following[members]]),
        rounds=int(members.size),
        start_ps=int(since[members[0]]),
        end_ps=int(since[last]),
        time_ps=int(took.sum()),
        share=float(took.sum() / whole),
        stations=tuple(_station(trace, int(path[k]), int(since[k + 1] - since[k])) for k in places),
    )


def _station(trace: Trace, row: int, took: int) -> Station:
    ins, text = trace.instructions, trace.text
    return Station(
        row=row,
        engine=ENGINE_WORDS[int(ins.engine[row])],
        opcode=text(ins, "opcode", row) or "",
        source=text(ins, "source", row),
        time_ps=took,
    )


def _iterations(trace: Trace, rows: np.ndarray, then: np.ndarray) -> float | None:
    """How many instances of the same instruction lie between two visits, on average; 1 for each in turn."""
    ins = trace.instructions
    alike = np.flatnonzero((ins.source == ins.source[rows[0]]) & (ins.opcode == ins.opcode[rows[0]]))
    kinds = _kinds(trace, np.append(alike, rows[0]))
    alike = alike[kinds[:-1] == kinds[-1]]
    moved = float((np.searchsorted(alike, then) - np.searchsorted(alike, rows)).mean())
    return moved if moved > 0 else None


def _loop_around(trace: Trace, rows: np.ndarray) -> int:
    """The innermost loop that encloses all of these instructions; -1 without one."""
    table, common = trace.regions, None
    for start in np.unique(trace.instructions.region[rows]).tolist():
        chain, at = [], start
        while at >= 0:
            chain.append(at)
            at = int(table.parent[at])
        common = chain if common is None else [each for each in common if each in chain]
    loops = [at for at in common or () if table.kind[at] == RegionKind.LOOP]
    return loops[0] if loops else NONE


def _name(trace: Trace, region: int, rows: np.ndarray) -> str:
    if region >= 0:
        return trace.text(trace.regions, "name", region) or "loop"
    sources = dict.fromkeys(trace.text(trace.instructions, "source", int(row)) for row in rows)
    places = [source.rpartition("/")[2] for source in sources if source]
    if places:
        return ", ".join(places[:3])
    opcodes = dict.fromkeys(trace.text(trace.instructions, "opcode", int(row)) or "?" for row in rows)
    return ", ".join([*opcodes][:3])
