"""An estimate beside its measurement, and what many of them say together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

CLEAR = 0.05
"""Two variants whose measurements differ by less than this share tell nothing about which is faster."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity, estimated and measured."""

    id: str
    level: str
    """kernel, instruction, interval, packet, bytes, spill, share, count, bound, peer…: like is averaged with like."""
    quantity: str
    measured: float
    estimate: float
    unit: str
    """ns, bytes, share, count, cycles"""
    device: str = ""
    low: float | None = None
    """Of the estimate's interval; None where none was computed."""
    high: float | None = None
    families: tuple[str, ...] = ()
    count: int = 1
    """Measurements that `measured` is the median of."""
    note: str = ""

    @property
    def error(self) -> float | None:
        """estimate / measured - 1, of shares the difference; None against zero, which no share can be taken of."""
        if self.unit == "share":
            return self.estimate - self.measured
        return self.estimate / self.measured - 1 if self.measured else None

    @property
    def covered(self) -> bool | None:
        """Whether the measurement lies inside the estimate's interval."""
        return None if self.low is None or self.high is None else self.low <= self.measured <= self.high

    def to_json(self) -> dict[str, Any]:
        row = {**asdict(self), "error": self.error, "covered": self.covered}
        return {name: value for name, value in row.items() if value not in (None, "", ())}


@dataclass(frozen=True, slots=True)
class Skipped:
    """A measurement that was not compared."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Total:
    """What the comparisons of one kind say together; weights are counts of measurements."""

    name: str
    compared: int
    measurements: int
    mape: float
    bias: float
    worst: str
    worst_error: float
    within_10: float
    """Share of the measurements that are met within 10 %."""
    covered: float | None
    """Share of the comparisons with an interval whose measurement lies inside it."""


def total(name: str, rows: Iterable[Comparison]) -> Total | None:
    """None where nothing can be averaged."""
    kept = [(row, error) for row in rows if (error := row.error) is not None]
    weight = sum(row.count for row, _ in kept)
    if not weight:
        return None
    worst = max(kept, key=lambda pair: abs(pair[1]))
    known = [row.covered for row, _ in kept if row.covered is not None]
    return Total(
        name=name,
        compared=len(kept),
        measurements=weight,
        mape=sum(row.count * abs(error) for row, error in kept) / weight,
        bias=sum(row.count * error for row, error in kept) / weight,
        worst=worst[0].id,
        worst_error=worst[1],
        within_10=sum(row.count for row, error in kept if abs(error) <= 0.1) / weight,
        covered=sum(known) / len(known) if known else None,
    )


@dataclass(frozen=True, slots=True)
class Agreement:
    """Pairs of variants of one computation: which is faster?"""

    pairs: int
    agreed: int
    disagreed: tuple[str, ...]
    """`fast against slow`, as measured, of each pair that the estimates turn round."""


def agreement(rows: Sequence[Comparison]) -> Agreement:
    """Over every pair of one family and quantity whose measurements differ clearly."""
    families: dict[tuple[str, str], list[Comparison]] = {}
    for row in rows:
        for family in row.families:
            families.setdefault((family, row.quantity), []).append(row)
    pairs = {
        tuple(sorted((one, other), key=lambda row: row.measured))
        for members in families.values()
        for one, other in combinations(members, 2)
        if abs(one.measured - other.measured) > CLEAR * min(one.measured, other.measured)
    }
    wrong = sorted(f"{fast.id} against {slow.id}" for fast, slow in pairs if fast.estimate >= slow.estimate)
    return Agreement(len(pairs), len(pairs) - len(wrong), tuple(wrong))
