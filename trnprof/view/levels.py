"""What all of a lane comes to at each zoom: a window of it is a part, found without looking at rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sim.trace import Arrays


@dataclass(frozen=True, slots=True)
class Level:
    """A lane at one zoom."""

    marks: np.ndarray
    """int64 [marks, MARKS], of the whole lane, as `trnprof.jit.frames.scan` gives them"""
    start: np.ndarray
    """int64 [marks], where each starts, ascending"""
    covered: np.ndarray
    """float64 [columns], ps of each column that work covers"""
    first: int
    """The first of these columns, counted from time 0."""

    def coverage(self, at: int, columns: int) -> np.ndarray:
        """ps of work in columns from one on, counted from time 0; float64 [columns]."""
        out = np.zeros(columns, np.float64)
        low = max(at, self.first)
        high = max(low, min(at + columns, self.first + self.covered.size))
        out[low - at : high - at] = self.covered[low - self.first : high - self.first]
        return out


def made(
    scan: Callable[[int, int, int], np.ndarray],
    cover: Callable[[int, int, int], np.ndarray],
    buckets: Sequence[int],
    extent: tuple[int, int, int],
) -> Arrays:
    """All levels one after another.

    scan, cover : what tells the marks (of columns of a width) and the coverage (of a number of columns) of a window
    buckets     : the width of a column of each level, ps; extent : first start, last end, last start of the lane, ps
    """
    from trnprof.jit.frames import CELL_BUCKETS

    marks, covered = [], []
    for bucket in buckets:
        cell = CELL_BUCKETS * bucket
        # A window holds no row that ends where it begins: one of no length at the very start wants a cell before it.
        marks.append(scan((extent[0] // cell - 1) * cell, extent[2] + 1, bucket).copy())
        low, high = extent[0] // bucket, extent[1] // bucket + 1
        covered.append(cover(low * bucket, high * bucket, high - low))
    found = np.concatenate(marks)
    return {
        "marks": found,
        "start": found[:, 0].copy(),
        "covered": np.concatenate(covered),
        "buckets": np.array(buckets, np.int64),
        "sizes": np.array([[len(part) for part in parts] for parts in (marks, covered)], np.int64),
    }


def told(found: Arrays, begin: int) -> dict[int, Level]:
    """Levels by the width of a column. begin : the first start of the lane, ps"""
    ends = found["sizes"].cumsum(axis=1)
    marks, covered = (zip(np.concatenate(([0], end[:-1])).tolist(), end.tolist(), strict=True) for end in ends)
    return {
        bucket: Level(found["marks"][a:b], found["start"][a:b], found["covered"][c:d], begin // bucket)
        for bucket, (a, b), (c, d) in zip(found["buckets"].tolist(), marks, covered, strict=True)
    }
