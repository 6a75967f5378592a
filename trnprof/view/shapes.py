"""What tracks look like in a window before anything is coloured or named; that of the first picture is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from sim.trace import Arrays, Trace
from trnprof.view.counters import Counter
from trnprof.view.lanes import NEARLY
from trnprof.view.tracks import Row

GAP_BUCKETS = 2
"""Idle time shorter than this is not drawn: its share of a cluster shows it."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time cut into columns."""

    bucket_ps: int
    t0_ps: int
    t1_ps: int
    kernel: tuple[int, int]
    """Idle time is told inside of it only: outside nothing is waited for."""

    @property
    def home(self) -> bool:
        """Whether it shows nearly all of the kernel's time, as the first picture does."""
        first, last = self.kernel
        return min(self.t1_ps, last) - max(self.t0_ps, first) >= NEARLY * (last - first)


@dataclass(frozen=True, slots=True)
class Shapes:
    """Of some tracks, in their order."""

    marks: list[np.ndarray]
    """Of each lane, int64 [marks, MARKS] of `trnprof.jit.frames`."""
    gaps: list[np.ndarray]
    """Of each track that tells idle time, int64 [gaps, 3]."""
    levels: list[np.ndarray]
    """Of each step function, float32 [columns]."""


def shapes(trace: Trace, rows: Sequence[Row | Counter], window: Window) -> Shapes:
    """Of these rows in a window; found once for a trace that is kept, where the window is that of a first picture."""
    if trace.store is None or not window.home:
        return _shapes(rows, window)
    ids = blake2b("\0".join(row.track.id for row in rows).encode(), digest_size=8).hexdigest()
    name = f"picture.{window.bucket_ps}.{window.t0_ps}.{window.t1_ps}.{ids}"
    return _told(trace.derive(name, lambda: _packed(_shapes(rows, window))))


def _shapes(rows: Sequence[Row | Counter], window: Window) -> Shapes:
    found = Shapes([], [], [])
    t0, t1, bucket = window.t0_ps, window.t1_ps, window.bucket_ps
    low, high = window.kernel
    inside = max(t0, low), max(min(t1, high), max(t0, low))
    edges = np.arange(t0, t1 + 1, bucket, dtype=np.int64)
    for row in rows:
        if isinstance(row, Counter):
            found.levels.extend(steps.sample(edges) for steps in row.steps)
            continue
        found.marks.extend(lane.marks(t0, t1, bucket) for lane in row.lanes)
        if row.idle is not None:
            found.gaps.append(row.idle.gaps(*inside, GAP_BUCKETS * bucket, low))
    return found


def _packed(found: Shapes) -> Arrays:
    """As few arrays as can be: each is a file."""
    packed: Arrays = {}
    for name, parts in (("marks", found.marks), ("gaps", found.gaps), ("levels", found.levels)):
        packed[name] = np.concatenate(parts) if parts else np.empty(0, np.int64)
        packed[f"{name}_sizes"] = np.array([len(part) for part in parts], np.int64)
    return packed


def _told(packed: Arrays) -> Shapes:
    return Shapes(*(_parts(packed[name].copy(), packed[f"{name}_sizes"]) for name in ("marks", "gaps", "levels")))


def _parts(whole: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    return np.split(whole, sizes.cumsum()[:-1]) if sizes.size else []
