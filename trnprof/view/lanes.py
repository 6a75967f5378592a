"""One lane of the timeline: which rows it has, and how it looks at any zoom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.trace import Trace

NEARLY = 0.95


@dataclass(frozen=True, slots=True)
class Columns:
    """What a lane's rows point into: intervals sorted by start, each with what kind of time it is."""

    start: np.ndarray
    """int64 [rows], ps"""
    end: np.ndarray
    """int64 [rows], ps"""
    flags: np.ndarray
    """uint8 [rows]: WORK, WASTE of `trnprof.jit.frames`"""


class Lane:
    """Rows that share one line of the screen; in order of start they may overlap."""

    def __init__(self, columns: Columns, rows: np.ndarray | None = None, trace: Trace | None = None, name: str = ""):
        """trace, name : where what is found out about the lane is kept, and under which name"""
        self.columns = columns
        self.rows = np.arange(columns.start.size, dtype=np.int32) if rows is None else rows.astype(np.int32, copy=False)
        self._trace = trace
        self._name = name

    def __len__(self) -> int:
        return self.rows.size

    @cached_property
    def blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """What 16 and 256 consecutive rows come to, int64 [blocks, fields]."""
        found = self._kept("blocks", self._measure)
        return found["fine"], found["coarse"]

    def _kept(self, name: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        return make() if self._trace is None else self._trace.derive(f"{self._name}.{name}", make)

    def _of_most(self, name: str, make: Callable[[], np.ndarray], t0_ps: int, t1_ps: int) -> np.ndarray:
        """What is asked of all of a lane, or nearly, is the first picture of the next opening too."""
        if self._trace is None or not len(self):
            return make()
        if t1_ps - t0_ps < NEARLY * (self.columns.start[self.rows[-1]] - self.columns.start[self.rows[0]]):
            return make()
        return self._kept(f"{name}.{t0_ps}.{t1_ps}", lambda: {"found": make()})["found"].copy()

    def _measure(self) -> dict[str, np.ndarray]:
        from trnprof.jit import frames

        where = (self.columns.start, self.columns.end, self.columns.flags, self.rows)
        fine = np.zeros((-(-self.rows.size // frames.FINE), frames.FIELDS), np.int64)
        coarse = np.zeros((-(-self.rows.size // frames.COARSE), frames.FIELDS), np.int64)
        frames.build(*where, fine)
        frames.measure_bodies(*where, fine)
        frames.coarsen(fine, coarse)
        return {"fine": fine, "coarse": coarse}

    @cached_property
    def starts(self) -> np.ndarray:
        """When each row starts, int64 [rows], ascending."""
        whole = self.rows.size == self.columns.start.size
        return self.columns.start if whole else self.columns.start[self.rows]

    def _lane(self) -> tuple[np.ndarray, ...]:
        return (self.columns.start, self.columns.end, self.columns.flags, self.rows, *self.blocks)

    def marks(self, t0_ps: int, t1_ps: int, bucket_ps: int) -> np.ndarray:
        """Bars and clusters of the window, int64 [marks, MARKS]; t0 a multiple of a cell."""
        return self._of_most(f"marks.{bucket_ps}", lambda: self._marks(t0_ps, t1_ps, bucket_ps), t0_ps, t1_ps)

    def _marks(self, t0_ps: int, t1_ps: int, bucket_ps: int) -> np.ndarray:
        from trnprof.jit import frames

        # At most one lone bar a bucket, and a cluster beside each and in each cell.
        room = min(len(self), 3 * (-(-(t1_ps - t0_ps) // bucket_ps)) + 8)
        out = np.empty((room + 1, frames.MARKS), np.int64)
        window = np.array([t0_ps, t1_ps, bucket_ps], np.int64)
        return out[: frames.scan(*self._lane(), window, out)]

    def gaps(self, t0_ps: int, t1_ps: int, shortest_ps: int, origin_ps: int) -> np.ndarray:
        """Idle times of the window, int64 [gaps, 3]: start, end, the row that follows; none before the origin."""
        name = f"gaps.{shortest_ps}.{origin_ps}"
        return self._of_most(name, lambda: self._gaps(t0_ps, t1_ps, shortest_ps, origin_ps), t0_ps, t1_ps)

    def _gaps(self, t0_ps: int, t1_ps: int, shortest_ps: int, origin_ps: int) -> np.ndarray:
        from trnprof.jit import frames

        shortest = max(1, shortest_ps)
        room = min(len(self), (t1_ps - t0_ps) // shortest + 3)
        out = np.empty((room + 1, 3), np.int64)
        return out[: frames.gaps(*self._lane(), np.array([t0_ps, t1_ps, shortest, origin_ps], np.int64), out)]

    def coverage(self, t0_ps: int, t1_ps: int, columns: int = 1) -> np.ndarray:
        """How many ps of each of the columns work covers, float64 [columns]."""
        return self._of_most(f"coverage.{columns}", lambda: self._coverage(t0_ps, t1_ps, columns), t0_ps, t1_ps)

    def _coverage(self, t0_ps: int, t1_ps: int, columns: int) -> np.ndarray:
        from trnprof.jit import frames

        out = np.zeros(columns, np.float64)
        if t1_ps > t0_ps and len(self):
            frames.coverage(*self._lane(), np.array([t0_ps, t1_ps], np.int64), out)
        return out

    def position(self, row: int) -> int:
        """Where a row of the columns stands on this lane, -1 when it does not."""
        at = int(np.searchsorted(self.rows, row))
        return at if at < self.rows.size and self.rows[at] == row else -1
