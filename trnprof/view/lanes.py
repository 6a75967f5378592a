"""One lane of the timeline: which rows it has, and how it looks at any zoom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.trace import Arrays, Trace
from trnprof.view import levels

NEARLY = 0.95
KEPT_ROWS = 1 << 15
"""Of shorter lanes a picture is made faster than it is read from a file."""
DENSE = 2
"""Rows a column from which all of a lane at one zoom is kept; at the next zoom it is half as much."""


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
        self._levels: dict[int, levels.Level] = {}

    def __len__(self) -> int:
        return self.rows.size

    @cached_property
    def blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """What 16 and 256 consecutive rows come to, int64 [blocks, fields]."""
        found = self.kept("blocks", self._measure)
        return found["fine"], found["coarse"]

    def kept(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """What `make` finds out about the lane, found once for a trace that is kept."""
        return make() if self._trace is None else self._trace.derive(f"{self._name}.{name}", make)

    def _of_most(self, name: str, make: Callable[[], np.ndarray], t0_ps: int, t1_ps: int) -> np.ndarray:
        """What is asked of all of a lane, or nearly, is the first picture of the next opening too."""
        if not self._keeps:
            return make()
        if t1_ps - t0_ps < NEARLY * (self.columns.start[self.rows[-1]] - self.columns.start[self.rows[0]]):
            return make()
        return self.kept(f"{name}.{t0_ps}.{t1_ps}", lambda: {"found": make()})["found"].copy()

    def _measure(self) -> Arrays:
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
        from trnprof.jit.frames import CELL_BUCKETS

        cell = CELL_BUCKETS * bucket_ps
        level = None if t0_ps % cell or t1_ps % cell else self._level(bucket_ps)
        if level is None:
            return self._marks(t0_ps, t1_ps, bucket_ps)
        # Rows that began before the window show in its first cell only.
        first = self._marks(t0_ps, t0_ps + cell, bucket_ps)
        low, high = np.searchsorted(level.start, (t0_ps + cell, t1_ps))
        return np.concatenate((first, level.marks[low:high]))

    def prepare(self) -> None:
        """Find out what the lane comes to at every zoom that shows many rows as one, where it is kept."""
        if self._keeps and not self._levels and len(buckets := self._buckets):
            found = self.kept("levels", lambda: levels.made(self._marks, self._coverage, buckets, self._extent))
            self._levels = levels.told(found, self._extent[0])

    @property
    def _keeps(self) -> bool:
        return self._trace is not None and self._trace.store is not None and len(self) >= KEPT_ROWS

    def _level(self, bucket_ps: int) -> levels.Level | None:
        """The lane at one zoom, if that is there."""
        if not self._levels and self._keeps and self._trace.store.knows(f"{self._name}.levels"):
            self.prepare()
        return self._levels.get(bucket_ps)

    @property
    def _buckets(self) -> list[int]:
        """Widths of a column at which so many rows are shown as one that it is worth keeping, ascending."""
        first, _, start = self._extent
        shortest = max(1, DENSE * (start - first) // len(self))
        return [1 << k for k in range((shortest - 1).bit_length(), (start - first).bit_length())]

    @cached_property
    def _extent(self) -> tuple[int, int, int]:
        """First start, last end and last start, ps."""
        start = self.columns.start
        return int(start[self.rows[0]]), int(self.blocks[1][:, :2].max()), int(start[self.rows[-1]])

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
        bucket = (t1_ps - t0_ps) // columns
        level = None if bucket < 1 or t0_ps % bucket or (t1_ps - t0_ps) % columns else self._level(bucket)
        if level is None:
            name = f"coverage.{columns}"
            return self._of_most(name, lambda: self._coverage(t0_ps, t1_ps, columns), t0_ps, t1_ps)
        return level.coverage(t0_ps // bucket, columns)

    def _coverage(self, t0_ps: int, t1_ps: int, columns: int) -> np.ndarray:
        from trnprof.jit import frames

        out = np.zeros(columns, np.float64)
        if t1_ps > t0_ps and len(self):
            frames.coverage(*self._lane(), np.array([t0_ps, t1_ps], np.int64), out)
        return out

    def position(self, row: int) -> int:
        """Where a row of the columns stands on this lane, -1 when it does not."""
        # A number of another type would make NumPy copy all rows.
        at = int(np.searchsorted(self.rows, self.rows.dtype.type(row)))
        return at if at < self.rows.size and self.rows[at] == row else -1
