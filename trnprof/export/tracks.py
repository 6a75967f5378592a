"""A trace as named tracks of slices that nest, which is what general timelines hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from sim.trace import ENGINE_NAMES, NONE, Engine, RegionKind, Table, Trace
from trnprof.readers.timeline import BETWEEN, EMULATED

WHOLE = "all cores"


@dataclass(frozen=True, slots=True)
class Track:
    """Rows of one table that share a line of the timeline."""

    process: str
    """Empty where the track belongs to none."""
    thread: str
    table: str
    rows: np.ndarray
    """Sorted by start, longer ones first."""


def tracks(trace: Trace) -> Iterator[Track]:
    """Every row of instructions, transfers, packets and regions on its track, by order of first appearance."""
    for name in ("regions", "instructions", "transfers", "packets"):
        table = getattr(trace, name)
        if not len(table):
            continue
        places = _places(name, table)
        _, first, of = np.unique(places, axis=0, return_index=True, return_inverse=True)
        of = of.reshape(-1)
        order = np.lexsort((-table.column("end_ps"), table.column("start_ps")))
        rows = order[np.argsort(of[order], kind="stable")]
        parts = np.split(rows, np.cumsum(np.bincount(of))[:-1])
        for number in np.argsort(first):
            yield Track(*_title(trace, name, places[first[number]].tolist()), name, parts[number])


def _places(name: str, table: Table) -> np.ndarray:
    """What tells the tracks of a table apart, int64[rows, 3]."""
    core = table.column("core")
    finer = {
        "regions": lambda: (np.zeros(len(table)), np.zeros(len(table))),
        "instructions": lambda: (table.column("engine"), table.column("track")),
        "transfers": lambda: (np.zeros(len(table)), table.column("queue")),
        "packets": lambda: (table.column("dma_engine"), table.column("ring")),
    }[name]()
    return np.stack((core, *finer), axis=1).astype(np.int64)


def _title(trace: Trace, name: str, place: list[int]) -> tuple[str, str]:
    """Process and thread of a track."""
    core, one, other = place
    process = _process(trace, core)
    if name == "instructions":
        track = trace.strings[other]
        if one == Engine.OTHER:
            return split(track or "events")
        return process, f"{ENGINE_NAMES[one]} {track}" if track and track != ENGINE_NAMES[one] else ENGINE_NAMES[one]
    if name == "transfers":
        return process, f"queue {trace.strings[other] or 'unknown'}"
    return process, "regions" if name == "regions" else f"DMA engine {one} ring {other}"


def _process(trace: Trace, core: int) -> str:
    """A core's name as a process, which says whether its times are estimates."""
    return (WHOLE if core == NONE else f"core {core}") + (EMULATED if trace.meta.is_simulation else "")


def split(name: str) -> tuple[str, str]:
    """Process and thread of the name of a general track."""
    process, between, thread = name.partition(BETWEEN)
    return (process, thread) if between else ("", name)


def counter_title(trace: Trace, code: int, core: int) -> tuple[str, str]:
    """Process and name of a counter."""
    name = trace.strings[code] or "counter"
    return split(name) if is_general(trace) else (_process(trace, core), name)


def is_general(trace: Trace) -> bool:
    """Whether no row is of a NeuronCore."""
    return not len(trace.transfers) and bool(np.all(trace.instructions.engine == Engine.OTHER))


def nest(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The lane of each slice, so that those of a lane lie inside or beside one another, int32[n].

    start, end : sorted by start, longer ones first
    """
    if not start.size or bool(np.all(start[1:] >= end[:-1])):
        return np.zeros(start.size, np.int32)
    stacks: list[list[int]] = []
    lanes = np.empty(start.size, np.int32)
    for row, (low, high) in enumerate(zip(start.tolist(), end.tolist())):
        lanes[row] = lane = next((k for k, stack in enumerate(stacks) if _fits(stack, low, high)), len(stacks))
        if lane == len(stacks):
            stacks.append([])
        stacks[lane].append(high)
    return lanes


def _fits(stack: list[int], low: int, high: int) -> bool:
    """Whether a slice lies inside the last open one of a lane, those that have ended taken off."""
    while stack and stack[-1] <= low:
        stack.pop()
    return not stack or stack[-1] >= high


class Labels:
    """Name, category and arguments of a row, as a general timeline shows them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._columns: dict[tuple[str, str], list[int]] = {}

    def _text(self, table: str, column: str, row: int) -> str | None:
        return self._trace.strings[self._number(table, column, row)]

    def _number(self, table: str, column: str, row: int) -> int:
        values = self._columns.get((table, column))
        if values is None:
            values = self._columns[table, column] = getattr(self._trace, table).column(column).tolist()
        return values[row]

    def __call__(self, table: str, row: int) -> tuple[str, str | None, str | None]:
        """The arguments are a JSON object."""
        if table == "instructions":
            return self._instruction(row)
        if table == "regions":
            kind = RegionKind(self._number(table, "kind", row)).name.lower()
            return self._text(table, "name", row) or kind, kind, self._args(source=self._text(table, "source", row))
        name = self._text(table, "variable", row) or table.removesuffix("s")
        moved, queue = self._number(table, "bytes", row), self._text(table, "queue", row)
        return name, table, self._args(bytes=moved, queue=queue)

    def _instruction(self, row: int) -> tuple[str, str | None, str | None]:
        table = "instructions"
        opcode, name, operands = (self._text(table, column, row) for column in ("opcode", "name", "operands"))
        if self._number(table, "engine", row) == Engine.OTHER:
            return name or "", opcode, operands if is_object(operands) else self._args(operands=operands)
        texts = {column: self._text(table, column, row) for column in ("function", "kind", "dtype", "source", "group")}
        numbers = {column: self._number(table, column, row) for column in ("id", "flops", "wait_ps")}
        return opcode or name or "instruction", "instruction", self._args(
            name=name, operands=operands, **texts, **{key: value for key, value in numbers.items() if value}
        )  # fmt: skip

    @staticmethod
    def _args(**values: object) -> str | None:
        given = {name: value for name, value in values.items() if value is not None}
        return msgspec.json.encode(given).decode() if given else None


def is_object(text: str | None) -> bool:
    """Whether a text is a JSON object, or absent."""
    if text is None:
        return True
    try:
        return text[:1] == "{" and isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def arrows(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Signalers and waiters of the dependencies that point forward in time, as rows of instructions."""
    edges, start = trace.edges, trace.instructions.start_ps
    known = (edges.signaler != NONE) & (edges.waiter != NONE) & (edges.signaler != edges.waiter)
    signaler, waiter = edges.signaler[known], edges.waiter[known]
    forward = start[signaler] <= start[waiter]
    return signaler[forward], waiter[forward]
