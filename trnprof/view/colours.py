"""What colours say: for each way of colouring, the index of every row and the legend that filters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np

from sim.trace import NONE, Arrays, Memory, QueueType, RegionKind, Trace
from trnprof.view import format as words
from trnprof.view.labels import direction, distinct
from trnprof.view.lanes import Lane
from trnprof.view.palette import HUES
from trnprof.view.records import WORK, LegendRow
from trnprof.work import collective_transfers

COLOURS = ("engine", "bound", "wait", "path", "opcode", "operator", "line", "dma")
"""What colour can say, in the order in which `c` steps through.

path     : who is on the critical path, which has a track of its own then
operator : the operator, layer or kernel that the work is for, where the trace has these levels; else the innermost
           region
dma      : what a transfer does
"""

HUED = ("opcode", "operator", "line", "dma")
"""Ways of which the values are not known beforehand: the eight with the most time get a hue, the others are neutral."""

COLOUR_WORDS = {
    "engine": "engine",
    "bound": "bound",
    "wait": "what idle engines wait for",
    "path": "critical path",
    "opcode": "opcode",
    "operator": "operator",
    "line": "source line",
    "dma": "DMA kind",
}

OTHERS = NONE
"""Colour of what has no hue."""

_NAME_WIDTH = 60
_KEPT_BEGINS = 64
_LEVELS = (RegionKind.OPERATOR, RegionKind.LAYER, RegionKind.KERNEL)
"""What an operator is, where the trace has several of them."""


def inks(colour: str) -> str:
    """Which colours the indices of a frame mean: engine, bound or hue."""
    return "hue" if colour in HUED else "bound" if colour == "bound" else "engine"


@dataclass(frozen=True, slots=True)
class Scheme:
    """One of `HUED` on one trace."""

    legend: tuple[LegendRow, ...]
    of: dict[str, np.ndarray]
    """By kind of track: the colour of each row, int8; absent where the way says nothing of them."""


class Schemes:
    """The ways of one trace, each made when it is first asked for."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self._made: dict[str, Scheme] = {}
        self._begins: OrderedDict[tuple[str, int, int], np.ndarray] = OrderedDict()
        self._lock = Lock()

    def __getitem__(self, colour: str) -> Scheme:
        if colour not in self._made:
            self._made[colour] = self._dma() if colour == "dma" else self._by_text(colour)
        return self._made[colour]

    def colours(self, colour: str, kind: str, rows: np.ndarray) -> np.ndarray:
        """Colour of each row of a kind of track, int8."""
        of = self[colour].of.get(kind)
        return np.full(len(rows), OTHERS, np.int8) if of is None else of[rows]

    def holds(self, colour: str, kind: str, lane: Lane, marks: np.ndarray, hue: int) -> np.ndarray:
        """Which marks of a lane hold work of one colour, bool [marks]."""
        begin = self._begin(colour, kind, lane, hue)
        after = np.searchsorted(begin, np.maximum(marks[:, 1], marks[:, 0] + 1))
        return np.searchsorted(begin, marks[:, 0]) < after

    def _begin(self, colour: str, kind: str, lane: Lane, hue: int) -> np.ndarray:
        """When the rows of one colour start on a lane, int64, ascending."""
        key = (colour, hue, id(lane))
        begin = self._begins.get(key)
        if begin is None:
            worked = lane.columns.flags[lane.rows] & WORK > 0
            rows = lane.rows[worked & (self.colours(colour, kind, lane.rows) == hue)]
            begin = lane.columns.start[rows]
            with self._lock:
                self._begins[key] = begin
                while len(self._begins) > _KEPT_BEGINS:
                    self._begins.popitem(last=False)
        return begin

    def _by_text(self, colour: str) -> Scheme:
        """Instructions by the code of a text, and what they triggered with them."""
        codes, write = _CODES[colour]

        def rank() -> Arrays:
            table = self.trace.instructions
            took = np.where(table.control, 0, table.end_ps - table.start_ps)
            return _ranked(np.where(table.control, NONE, codes(self)), took, len(self.trace.strings))

        found = self.trace.derive(f"colour.{colour}", rank)
        legend = self._legend(found, lambda code: write(self.trace.strings[code] or ""))
        return Scheme(legend, self._carried(found["index"]))

    def _legend(self, found: Arrays, name: Callable[[int], str]) -> tuple[LegendRow, ...]:
        """Legend rows of what was ranked, those with the most time first."""
        whole, left, rest, others = found["sums"].tolist()
        estimated = self.trace.meta.is_simulation
        rows = [
            legend_row(k, name(code) or "no name", (time, count), whole, estimated)
            for k, (code, time, count) in enumerate(found["first"].tolist())
        ]
        if others:
            said = words.plural(rest, "other") if rest else "not named"
            rows.append(legend_row(OTHERS, said, (left, others), whole, estimated))
        return tuple(rows)

    def _carried(self, index: np.ndarray) -> dict[str, np.ndarray]:
        """Transfers and packets are coloured as the instruction that triggered them."""
        moved = np.append(index, np.int8(OTHERS))[self.trace.transfers.instruction]
        return {"instructions": index, "transfers": moved, "packets": np.append(moved, np.int8(OTHERS))[self._owner]}

    @property
    def _owner(self) -> np.ndarray:
        return self.trace.packets.transfer

    def _dma(self) -> Scheme:
        """Transfers by what they do; where there are none, packets by who made their descriptors."""
        table = self.trace.transfers if len(self.trace.transfers) else self.trace.packets
        names, codes = self._kinds()
        found = _ranked(codes, table.end_ps - table.start_ps, len(names))
        legend, index = self._legend(found, names.__getitem__), found["index"]
        if table is self.trace.packets:
            return Scheme(legend, {"packets": index})
        return Scheme(legend, {"transfers": index, "packets": np.append(index, np.int8(OTHERS))[self._owner]})

    def _kinds(self) -> tuple[list[str], np.ndarray]:
        """Names, and for each transfer (else packet) the place of its name."""
        names: list[str] = []
        moved = self.trace.transfers
        table = moved if len(moved) else self.trace.packets
        known = len(moved) > 0 and (moved.has("source_memory") or moved.has("dest_memory"))
        columns = [table.queue_type, *((moved.source_memory, moved.dest_memory) if known else ())]
        wired = collective_transfers(self.trace) if len(moved) else np.zeros(len(table), bool)
        if not len(table):
            return ["DMA"], np.empty(0, np.int64)
        columns = [column.astype(np.int64) for column in (*columns, wired)]
        first, inverse = distinct(columns)
        place = np.empty(first.size, np.int64)
        for k, (queue, *memories, wire) in enumerate(np.stack([column[first] for column in columns]).T.tolist()):
            name = "collective" if wire else _dma_kind(queue, memories)
            names += [] if name in names else [name]
            place[k] = names.index(name)
        return names, place[inverse]

    def operators(self) -> np.ndarray:
        """For each instruction, the code of the name of what its work is for; int32."""
        regions, table = self.trace.regions, self.trace.instructions
        if not len(regions):
            return np.full(len(table), NONE, np.int32)
        level = next((kind for kind in _LEVELS if np.count_nonzero(regions.kind == kind) > 1), None)
        name = np.full(len(regions) + 1, NONE, np.int32)
        for row, (kind, above) in enumerate(zip(regions.kind.tolist(), regions.parent.tolist(), strict=True)):
            own = kind == level if level is not None else kind != RegionKind.LINE
            name[row] = regions.name[row] if own else name[above]
        return name[table.region]


def _ranked(codes: np.ndarray, took: np.ndarray, size: int) -> Arrays:
    """The colour of each row, and of each code that has one: int64 [colours, 3], code, time in ps and how many.

    sums : time of all, of rows without a colour of their own; codes without one; these rows
    """
    known = codes >= 0
    time = np.bincount(codes[known], took[known], size).astype(np.int64)
    count = np.bincount(codes[known], minlength=size)
    used = np.flatnonzero(count)
    ranked = used[np.lexsort((used, -time[used]))]
    first, rest = ranked[:HUES], ranked[HUES:]
    whole, others = int(took.sum()), int(count[rest].sum()) + int(np.count_nonzero(~known & (took > 0)))
    hue = np.full(size + 1, OTHERS, np.int8)
    hue[first] = np.arange(first.size)
    return {
        "index": hue[codes],
        "first": np.stack((first, time[first], count[first]), axis=1),
        "sums": np.array([whole, whole - int(time[first].sum()), rest.size, others], np.int64),
    }


def legend_row(colour: int, name: str, found: tuple[int, int], whole: int, estimated: bool) -> LegendRow:
    """A row of a legend. found : time in ps and how many; whole : the time of all rows"""
    time_ps, count = found
    share = time_ps / whole if whole else 0.0
    said = words.estimate(words.time(time_ps), estimated)
    return LegendRow(colour, name, time_ps, said, share, words.share(share), count)


def _dma_kind(queue: int, memories: Sequence[int]) -> str:
    if queue == QueueType.INSTRUCTION:
        return "instruction fetch"
    if len(memories) == 2 and max(memories) >= 0:
        source, dest = memories
        both = Memory.HOST in (source, dest)
        return f"{direction(source, dest)}{', host' if both else ''}"
    return _QUEUES.get(queue, "DMA")


_QUEUES = {
    QueueType.INPUT: "input",
    QueueType.OUTPUT: "output",
    QueueType.DATA: "data",
    QueueType.SOFTWARE_DYNAMIC: "software queue",
    QueueType.HARDWARE_DYNAMIC: "hardware queue",
}


def _plain(text: str) -> str:
    return words.plain(text, _NAME_WIDTH)


_CODES: dict[str, tuple[Callable[[Schemes], np.ndarray], Callable[[str], str]]] = {
    "opcode": (lambda schemes: schemes.trace.instructions.opcode, _plain),
    "line": (lambda schemes: schemes.trace.instructions.source, words.place),
    "operator": (lambda schemes: schemes.operators(), _plain),
}
