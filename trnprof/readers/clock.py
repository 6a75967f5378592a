"""The time unit of a profile and its placing in 64-bit picoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PS_PER_NS = 1_000
LIMIT_PS = 1 << 62
PS_LOOK_LIKE = 30
"""A profile whose last row is this many times its total time, read as ns, counts in ps (reported for trn3)."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Turns the file's time into ps since the start of the trace."""

    unit_ps: int = PS_PER_NS
    base: float = 0

    def point(self, time: float) -> int:
        """Exact for integers; fractions are rounded to the ps."""
        if isinstance(time, int) and isinstance(self.base, int):
            return (time - self.base) * self.unit_ps
        return round((time - self.base) * self.unit_ps)

    def holds(self, time: float) -> bool:
        """Whether the moment fits 64-bit ps."""
        return abs(time - self.base) * self.unit_ps < LIMIT_PS


def choose_clock(spans: Sequence[tuple[float, float]], total_s: float | None) -> Clock:
    """The clock of a profile with the given (start, end) spans; `total_s` is the total time it reports."""
    if not spans:
        return Clock()
    last = max(end for _, end in spans)
    unit = 1 if total_s and last > PS_LOOK_LIKE * total_s * 1e9 else PS_PER_NS
    first = min(start for start, _ in spans)
    far = last * unit >= LIMIT_PS and (last - first) * unit < LIMIT_PS
    return Clock(unit, first if far else 0)
