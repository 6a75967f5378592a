"""The time unit of a profile and its placing in 64-bit picoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PS_PER_NS = 1_000
LIMIT_PS = 1 << 62
PS_LOOK_LIKE = 30
"""A profile whose late rows lie at this many times its total time, read as ns, counts in ps (reported for trn3)."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Turns the file's time into ps since the start of the trace."""

    unit_ps: int = PS_PER_NS
    base: int = 0

    def point(self, time: float) -> int:
        """Exact for integers; fractions are rounded to the ps."""
        if isinstance(time, int):
            return (time - self.base) * self.unit_ps
        return round((time - self.base) * self.unit_ps)

    def points(self, times: np.ndarray) -> np.ndarray:
        """`point` of each; int64, or Python's numbers."""
        if times.dtype.kind == "i":
            return (times - self.base) * self.unit_ps
        return np.array([self.point(time) for time in times], np.int64)

    def fit(self, times: np.ndarray) -> np.ndarray:
        """`holds` of each."""
        return np.abs(times.astype(np.float64) - self.base) < LIMIT_PS / self.unit_ps

    def holds(self, time: float) -> bool:
        """Whether the moment fits 64-bit ps."""
        return abs(time - self.base) * self.unit_ps < LIMIT_PS


def choose_clock(
    starts: Sequence[float], ends: Sequence[float], total_s: float | None, unit_ps: int = PS_PER_NS
) -> Clock:
    """The clock of a profile; `total_s` is the total time it reports. Single rows that lie far off do not decide.

    starts, ends : of all rows, in the file's unit, finite
    unit_ps      : that unit as the profile gives it
    """
    if not len(starts):
        return Clock(unit_ps)
    low, high = np.asarray(starts, np.float64), np.asarray(ends, np.float64)
    unit = 1 if total_s and np.quantile(high, 0.9) > PS_LOOK_LIKE * total_s * 1e9 else unit_ps
    middle = float(np.median(low))
    if abs(middle) * unit < LIMIT_PS / 2:
        return Clock(unit)
    near = np.abs(low - middle) * unit < LIMIT_PS / 2
    first = starts[int(np.argmin(np.where(near, low, np.inf)))]
    return Clock(unit, int(first))
