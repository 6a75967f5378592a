"""Two traces of one kernel laid over each other: which instruction of one is which of the other.

Instructions are the same when engine, opcode, partitions and the sizes of their operands agree. Which of several equal
ones, their order on each engine decides: the alignment that pairs the most, then the first with the first of those left
over. DMA triggers are one sequence whatever engine gives them, for compilers choose it freely. Control instructions are
left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np

from sim.trace import NONE, Engine, Trace
from trnprof.readers.operands import parse_tiles
from trnprof.words import ENGINE_WORDS
from trnprof.work import ENGINES, Index

WEIGHTS = np.array([4, 1], np.int64)
"""What a pair of the same instructions and a pair of one opcode are worth."""

OF_A_KIND, SAME, REORDERED = range(3)
"""What a pair has in common: its opcode; its operands as well; these, but not its place in the order."""

CELLS = 64_000_000
"""Of one alignment; longer sequences are aligned in stretches of equal numbers of instructions."""

COPIES = ("COPY", "IDENTITY")
"""Functions of an ACTIVATE that computes nothing."""

SHOWN = 10
"""Places where the traces drift apart most."""

STREAMS = (*range(ENGINES), int(Engine.DMA), int(Engine.COLLECTIVE))


@dataclass(frozen=True, slots=True)
class ClassError:
    """How the matched instructions of one opcode differ; times in ps, means of all pairs."""

    engine: str
    opcode: str
    matched: int
    before: int
    """Instructions of this opcode in the first trace."""
    after: int
    duration_before_ps: float
    duration_after_ps: float
    duration_error: float | None
    """Mean of |after - before| / before; None where nothing of them lasts."""
    interval_error: float | None
    """The same of the time until the engine's next instruction, where both go on within ten times the duration."""
    wait_before_ps: float
    wait_after_ps: float


@dataclass(frozen=True, slots=True)
class Drift:
    """Where the traces part: a matched instruction that comes so much later in the second than the one before it."""

    row_before: int
    row_after: int
    engine: str
    opcode: str
    source: str | None
    drift_ps: int
    """Change of the lead of the second trace over the first, since the previous matched instruction of the engine."""


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """Pairs of instructions of two traces."""

    before: np.ndarray
    """int64[pairs]: rows of the first trace, by start."""
    after: np.ndarray
    bond: np.ndarray
    """int64[pairs]: OF_A_KIND, SAME or REORDERED."""
    share_before: float | None
    """Matched part of the first trace's instructions; None without any."""
    share_after: float | None
    classes: tuple[ClassError, ...]
    """By time spent in the first trace."""
    drifts: tuple[Drift, ...]
    """The largest first."""

    def to_json(self) -> dict[str, object]:
        return {
            "pairs": len(self.before),
            "same": int((self.bond == SAME).sum()),
            "reordered": int((self.bond == REORDERED).sum()),
            "share_before": self.share_before,
            "share_after": self.share_after,
            "classes": [asdict(each) for each in self.classes],
            "drifts": [asdict(each) for each in self.drifts],
        }


def match(before: Trace, after: Trace) -> Matching:
    """Lay two traces over each other."""
    one, other = _Side(before), _Side(after)
    names: dict[tuple, int] = {}
    kinds: dict[tuple, int] = {}
    found = [part for stream in STREAMS for part in _aligned(one, other, stream, names, kinds)]
    pairs = np.concatenate([np.zeros((0, 3), np.int64), *found])
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    return Matching(
        before=np.ascontiguousarray(pairs[:, 0]),
        after=np.ascontiguousarray(pairs[:, 1]),
        bond=np.ascontiguousarray(pairs[:, 2]),
        share_before=len(pairs) / one.rows.size if one.rows.size else None,
        share_after=len(pairs) / other.rows.size if other.rows.size else None,
        classes=_classes(one, other, pairs),
        drifts=_drifts(one, other, pairs[pairs[:, 2] != REORDERED]),
    )


class _Side:
    """One of the two traces, and what its instructions are called."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.index = index = Index(trace)
        ins = trace.instructions
        self.rows = index.worked[~index.table[index.worked]]
        self.stream = np.where(index.issue, int(Engine.DMA), ins.engine).astype(np.int64)
        self.opcode = ins.opcode
        self.length = self._lengths()
        self.begin = trace.meta.window[0]
        self.interval = self._intervals()
        self.wait = np.maximum(ins.wait_ps, index.idle_ps) if not trace.meta.is_simulation else ins.wait_ps
        self._tokens: dict[tuple, tuple] = {}

    def _lengths(self) -> np.ndarray:
        """How long each instruction lasts; a trigger, as long as its transfers move bytes."""
        ins, moved = self.trace.instructions, self.trace.transfers
        found = ins.end_ps - ins.start_ps
        linked = np.flatnonzero(moved.instruction >= 0)
        owner = moved.instruction[linked]
        first, last = np.full(len(ins), np.iinfo(np.int64).max), np.zeros(len(ins), np.int64)
        np.minimum.at(first, owner, moved.start_ps[linked])
        np.maximum.at(last, owner, moved.end_ps[linked])
        found[owner] = last[owner] - first[owner]
        return found

    def _intervals(self) -> np.ndarray:
        """Until the next instruction of the same engine and core starts, weights apart; -1 for the last."""
        ins = self.trace.instructions
        code = self.trace.strings.find("LDWEIGHTS")
        weights = (ins.opcode[self.rows] == code) & (code >= 0)
        lane = (ins.core[self.rows].astype(np.int64) * len(Engine) + ins.engine[self.rows]) * 2 + weights
        order = self.rows[np.argsort(lane, kind="stable")]
        lane = np.sort(lane, kind="stable")
        found = np.full(len(ins), NONE, np.int64)
        same = lane[1:] == lane[:-1]
        found[order[:-1][same]] = (ins.start_ps[order[1:]] - ins.start_ps[order[:-1]])[same]
        return found

    def of(self, stream: int) -> np.ndarray:
        """Rows of a stream by core and start."""
        rows = self.rows[self.stream[self.rows] == stream]
        return rows[np.argsort(self.trace.instructions.core[rows], kind="stable")]

    def token(self, row: int) -> tuple:
        """What an instruction is, without its place."""
        ins = self.trace.instructions
        if self.stream[row] == Engine.DMA:
            return "DMA", int(self.trace.transfers.bytes[self.index.transfers_of(np.array([row]))].sum())
        key = (int(self.opcode[row]), int(ins.kind[row]), int(ins.operands[row]), int(ins.partitions[row]))
        found = self._tokens.get(key)
        if found is None:
            tiles = parse_tiles(self.trace.text(ins, "operands", row) or "")
            sizes = sorted((tile.written, int(np.prod(tile.sizes))) for tile in tiles)
            found = self._tokens[key] = (self.name(row), int(ins.partitions[row]), *sizes)
        return found

    def name(self, row: int) -> str:
        """The opcode, and whether it transposes; a copy by the activation unit is a copy."""
        ins = self.trace.instructions
        opcode = self.trace.text(ins, "opcode", row) or "?"
        if opcode == "ACTIVATE" and self.trace.text(ins, "function", row) in COPIES:
            opcode = "COPY"
        return f"{opcode}{' transpose' if self.index.transpose[row] else ''}"


def _aligned(
    one: _Side, other: _Side, stream: int, names: dict[tuple, int], kinds: dict[tuple, int]
) -> Iterator[np.ndarray]:
    """Pairs of one stream: int64[p, 3] of (row before, row after, what they have in common)."""
    from trnprof.jit.matching import align

    rows = one.of(stream), other.of(stream)
    if not (rows[0].size and rows[1].size):
        return
    sides = []
    for side, mine in zip((one, other), rows):
        tokens = [side.token(row) for row in mine.tolist()]
        sides.append(
            (
                mine,
                np.array([names.setdefault(token, len(names)) for token in tokens], np.int64),
                np.array([kinds.setdefault(token[:1], len(kinds)) for token in tokens], np.int64),
            )
        )
    pieces = max(1, -(-rows[0].size * rows[1].size // CELLS))
    left: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for part, there in zip(*(_cut(side, pieces) for side in sides)):
        steps = np.zeros((part[0].size + 1, there[0].size + 1), np.uint8)
        align(part[1], there[1], part[2], there[2], WEIGHTS, steps)
        i, j = _trace_back(steps)
        yield np.column_stack((part[0][i], there[0][j], part[1][i] == there[1][j]))
        left[0].append(np.column_stack((np.delete(part[0], i), np.delete(part[1], i))))
        left[1].append(np.column_stack((np.delete(there[0], j), np.delete(there[1], j))))
    yield _reordered(*(np.concatenate(parts) for parts in left))


def _reordered(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """What order left over: equal instructions, the first with the first; int64[p, 3].

    one, other : int64[n, 2] of (row, number of the instruction)
    """
    places: dict[int, list[int]] = {}
    for row, number in other[::-1].tolist():
        places.setdefault(number, []).append(row)
    found = [(row, places[number].pop(), REORDERED) for row, number in one.tolist() if places.get(number)]
    return np.array(found, np.int64).reshape(-1, 3)


def _cut(side: tuple[np.ndarray, ...], pieces: int) -> Iterator[tuple[np.ndarray, ...]]:
    yield from zip(*(np.array_split(column, pieces) for column in side))


def _trace_back(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the pairs in both sequences."""
    from trnprof.jit.matching import GAP_ONE, PAIR

    i, j = steps.shape[0] - 1, steps.shape[1] - 1
    found: list[tuple[int, int]] = []
    while i or j:
        step = steps[i, j]
        if step == PAIR:
            i, j = i - 1, j - 1
            found.append((i, j))
        elif step == GAP_ONE:
            i -= 1
        else:
            j -= 1
    pairs = np.array(found[::-1], np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _classes(one: _Side, other: _Side, pairs: np.ndarray) -> tuple[ClassError, ...]:
    names = [(int(one.stream[row]), one.name(row)) for row in one.rows.tolist()]
    theirs = [(int(other.stream[row]), other.name(row)) for row in other.rows.tolist()]
    place = dict(zip(one.rows.tolist(), names))
    keys = [place[row] for row in pairs[:, 0].tolist()]
    found = []
    for key in dict.fromkeys(names + theirs):
        chosen = pairs[[index for index, each in enumerate(keys) if each == key]]
        found.append(_class(one, other, key, chosen, names.count(key), theirs.count(key)))
    spent = {(each.engine, each.opcode): each.before * each.duration_before_ps for each in found}
    return tuple(sorted(found, key=lambda each: (-spent[each.engine, each.opcode], each.engine, each.opcode)))


def _class(one: _Side, other: _Side, key: tuple[int, str], pairs: np.ndarray, before: int, after: int) -> ClassError:
    mine, theirs = pairs[:, 0], pairs[:, 1]
    took, takes = one.length[mine], other.length[theirs]
    apart, there = one.interval[mine], other.interval[theirs]
    close = (apart > 0) & (there > 0) & (apart <= 10 * np.maximum(1, took)) & (there <= 10 * np.maximum(1, takes))
    return ClassError(
        engine=ENGINE_WORDS[key[0]],
        opcode=key[1],
        matched=len(pairs),
        before=before,
        after=after,
        duration_before_ps=_mean(took),
        duration_after_ps=_mean(takes),
        duration_error=_error(took, takes),
        interval_error=_error(apart[close], there[close]),
        wait_before_ps=_mean(one.wait[mine]),
        wait_after_ps=_mean(other.wait[theirs]),
    )


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else 0.0


def _error(measured: np.ndarray, estimated: np.ndarray) -> float | None:
    known = measured > 0
    if not known.any():
        return None
    return float((np.abs(estimated[known] - measured[known]) / measured[known]).mean())


def _drifts(one: _Side, other: _Side, pairs: np.ndarray) -> tuple[Drift, ...]:
    """Matched instructions with the largest change of lead since the one before them on their engine."""
    mine, theirs = one.trace.instructions, other.trace.instructions
    lead = (theirs.start_ps[pairs[:, 1]] - other.begin) - (mine.start_ps[pairs[:, 0]] - one.begin)
    stream = one.stream[pairs[:, 0]]
    order = np.argsort(stream, kind="stable")
    change = np.diff(lead[order], prepend=0)
    first = np.diff(stream[order], prepend=NONE) != 0
    change[first] = lead[order][first]
    largest = order[np.argsort(-np.abs(change), kind="stable")[:SHOWN]]
    by_pair = dict(zip(order.tolist(), change.tolist()))
    return tuple(_drift(one, other, pairs[k], int(by_pair[k])) for k in largest.tolist() if by_pair[k])


def _drift(one: _Side, other: _Side, pair: np.ndarray, change: int) -> Drift:
    before, after = int(pair[0]), int(pair[1])
    sides = (other.trace, after), (one.trace, before)
    sources = [trace.text(trace.instructions, "source", row) for trace, row in sides]
    return Drift(
        row_before=before,
        row_after=after,
        engine=ENGINE_WORDS[int(one.stream[before])],
        opcode=one.name(before),
        source=next((source for source in sources if source), None),
        drift_ps=change,
    )
