"""The critical path on the timeline: a track of its pieces, and which marks of other tracks it runs through."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sim.trace import Engine, Trace
from trnprof.critical import CAUSE_WORDS, CAUSES, Segments, critical_path
from trnprof.view.labels import Labels
from trnprof.view.lanes import Columns, Lane
from trnprof.view.palette import NEUTRAL
from trnprof.view.records import WASTE, WORK, Track

ID = "path"


def track(core: int) -> Track:
    """The track of the whole trace; it stands with the regions of the first core."""
    return Track(ID, f"c{core}.regions", "", "critical path", "pth", "path", NEUTRAL, core, height=22)


class Route:
    """Where the critical path of a trace runs; found when it is first asked for."""

    def __init__(self, trace: Trace, labels: Labels):
        self.trace = trace
        self._labels = labels

    @cached_property
    def pieces(self) -> Segments:
        return critical_path(self.trace).segments

    @cached_property
    def lane(self) -> Lane:
        """The pieces; what is not work of an engine is hatched."""
        busy = self.pieces.cause == CAUSES.index("engine")
        flags = np.where(busy, WORK, WORK | WASTE).astype(np.uint8)
        return Lane(Columns(self.pieces.start_ps, self.pieces.end_ps, flags))

    def colour(self, pieces: np.ndarray) -> np.ndarray:
        """Engine of each piece, int8; DMA while a transfer is under way, neutral where nothing is known."""
        row, moved = self.pieces.row[pieces], self.pieces.transfer[pieces]
        engine = self.trace.instructions.engine[np.maximum(row, 0)] if len(self.trace.instructions) else row
        found = np.where(row >= 0, engine, NEUTRAL)
        return np.where(moved >= 0, int(Engine.DMA), found).astype(np.int8)

    def labels(self, pieces: np.ndarray) -> np.ndarray:
        """Codes of what is written on each piece: the instruction at work, else the cause; int32."""
        row, cause = self.pieces.row[pieces], self.pieces.cause[pieces]
        working = (cause == CAUSES.index("engine")) & (row >= 0)
        written = np.empty(pieces.size, np.int32)
        written[working] = self._labels.instructions(row[working])
        codes = np.array([self._labels.intern((CAUSE_WORDS[name], name)) for name in CAUSES], np.int32)
        written[~working] = codes[cause[~working]]
        return written

    def rows(self, pieces: np.ndarray) -> np.ndarray:
        """Instruction of each piece, -1 for none and for no piece."""
        known = self.pieces.row[np.maximum(pieces, 0)] if len(self.pieces) else pieces
        return np.where(pieces >= 0, known, -1)

    @cached_property
    def _members(self) -> dict[str, np.ndarray]:
        """Rows that the path runs through, by kind of track; bool [rows]."""
        pieces, trace = self.pieces, self.trace
        rows, moved = np.zeros(len(trace.instructions), bool), np.zeros(len(trace.transfers) + 1, bool)
        rows[pieces.row[pieces.row >= 0]] = True
        moved[pieces.transfer[pieces.transfer >= 0]] = True
        return {"instructions": rows, "transfers": moved[:-1], "packets": moved[trace.packets.transfer]}

    def through(self, kind: str, lane: Lane, marks: np.ndarray) -> np.ndarray:
        """Whether it runs through each mark of a lane: of a cluster, through half of its work."""
        members = self._members.get(kind)
        if members is None:
            return np.zeros(len(marks), bool)
        rows = lane.rows[members[lane.rows]]
        begin = lane.columns.start[rows]
        spent = np.concatenate(([0], np.cumsum(lane.columns.end[rows] - begin)))
        inside = spent[np.searchsorted(begin, marks[:, 1])] - spent[np.searchsorted(begin, marks[:, 0])]
        return np.where(marks[:, 4] > 1, 2 * inside >= np.maximum(1, marks[:, 5]), members[marks[:, 6]])
