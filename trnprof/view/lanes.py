"""One lane of the timeline: which rows it has, and how it looks at any zoom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


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

    def __init__(self, columns: Columns, rows: np.ndarray | None = None):
        self.columns = columns
        self.rows = np.arange(columns.start.size, dtype=np.int32) if rows is None else rows.astype(np.int32)

    def __len__(self) -> int:
        return self.rows.size

    @cached_property
    def blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """What 16 and 256 consecutive rows come to, int64 [blocks, fields]."""
        from trnprof.jit import frames

        where = (self.columns.start, self.columns.end, self.columns.flags, self.rows)
        fine = np.zeros((-(-self.rows.size // frames.FINE), frames.FIELDS), np.int64)
        coarse = np.zeros((-(-self.rows.size // frames.COARSE), frames.FIELDS), np.int64)
        frames.build(*where, fine)
        frames.measure_bodies(*where, fine)
        frames.coarsen(fine, coarse)
        return fine, coarse

    def _lane(self) -> tuple[np.ndarray, ...]:
        return (self.columns.start, self.columns.end, self.columns.flags, self.rows, *self.blocks)

    def marks(self, t0_ps: int, t1_ps: int, bucket_ps: int) -> np.ndarray:
        """Bars and clusters of the window, int64 [marks, MARKS]; t0 a multiple of a cell."""
        from trnprof.jit import frames

        # At most one lone bar a bucket, and a cluster beside each and in each cell.
        room = min(len(self), 3 * (-(-(t1_ps - t0_ps) // bucket_ps)) + 8)
        out = np.empty((room + 1, frames.MARKS), np.int64)
        window = np.array([t0_ps, t1_ps, bucket_ps], np.int64)
        return out[: frames.scan(*self._lane(), window, out)]

    def gaps(self, t0_ps: int, t1_ps: int, shortest_ps: int, origin_ps: int) -> np.ndarray:
        """Idle times of the window, int64 [gaps, 3]: start, end, the row that follows; none before the origin."""
        from trnprof.jit import frames

        shortest = max(1, shortest_ps)
        room = min(len(self), (t1_ps - t0_ps) // shortest + 3)
        out = np.empty((room + 1, 3), np.int64)
        return out[: frames.gaps(*self._lane(), np.array([t0_ps, t1_ps, shortest, origin_ps], np.int64), out)]

    def coverage(self, t0_ps: int, t1_ps: int, columns: int = 1) -> np.ndarray:
        """How many ps of each of the columns work covers, float64 [columns]."""
        from trnprof.jit import frames

        out = np.zeros(columns, np.float64)
        if t1_ps > t0_ps and len(self):
            frames.coverage(*self._lane(), np.array([t0_ps, t1_ps], np.int64), out)
        return out

    def position(self, row: int) -> int:
        """Where a row of the columns stands on this lane, -1 when it does not."""
        at = int(np.searchsorted(self.rows, row))
        return at if at < self.rows.size and self.rows[at] == row else -1
