"""How far an estimate may be off: an interval from what each of its uncertainties does to it.

Three things make it, each told apart: figures drawn from their spreads; decisions of the compiler, each otherwise with
the odds seen on measured kernels; and what the model does not explain, a factor either way. Ratios multiply, so an
effect of two decisions is taken to be the product of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from sim.spec import Device

HELD = 0.8
"""Share of what an estimate may be instead that its interval holds."""

LOW, HIGH = 100 * (1 - HELD) / 2, 100 * (1 + HELD) / 2
"""Percentiles of an interval that is as likely exceeded as undercut."""

ROUNDING = 1e-9
"""Of a sum of probabilities."""

UNKNOWN_ODDS = 0.5
"""Of a decision that no measured kernel tells about."""

NEGLIGIBLE = 1e-6
"""A decision that changes a time by a smaller share does not change it."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How far an interval would reach for one reason alone: shares of the value below and above it."""

    figures: tuple[float, float]
    decisions: tuple[float, float]
    model: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and what it may be instead; in one unit."""

    value: float
    """With every figure as it stands."""
    low: float
    """With `high`, the shortest range that holds 80 % of what it may be, and the value."""
    high: float
    least: float
    """Of the interval and all that was tried, however unlikely."""
    most: float
    parts: Parts | None = None
    """None where the parts do not multiply, as those of a difference."""

    @classmethod
    def of(cls, value: float, samples: Iterable[float], others: Iterable[float] = ()) -> Interval:
        """The interval of a value from its samples; `others` widen the full range only."""
        drawn = np.array([value, *samples], float)
        low, high = np.percentile(drawn[1:] if drawn.size > 1 else drawn, (LOW, HIGH))
        whole = np.concatenate((drawn, np.fromiter(others, float)))
        return cls(value, min(value, float(low)), max(value, float(high)), float(whole.min()), float(whole.max()))

    def widened(self, by: float) -> Interval:
        """With another length on either side of it."""
        low, high = self.low - by, self.high + by
        return Interval(self.value, low, high, min(self.least, low), max(self.most, high), self.parts)


@dataclass(frozen=True, slots=True)
class Doubt:
    """What measured kernels say about estimates of one compiler."""

    odds: Mapping[str, float]
    """Of each decision by its name, to be otherwise."""
    unexplained: float
    """The model's own spread: a factor of 1 + this either way."""

    @classmethod
    def of(cls, device: Device, generation: str) -> Doubt:
        """As the figures of a device have it, for kernels of an API generation."""
        odds = {
            id.removeprefix("decision."): figure.value
            for id, figure in device.figures.items()
            if id.startswith("decision.")
        }
        return cls(odds, device.get(f"model.spread_{generation}") or 0.0)


def interval(value: float, drawn: Iterable[float], others: Mapping[str, float], doubt: Doubt) -> Interval:
    """The interval of a time.

    drawn  : the time on each sampled machine
    others : the time with a decision taken otherwise, by decision and choice: `hoist=off`
    """
    figures = np.log(np.array([*drawn] or [value], float) / value)
    moves, odds = _decided(value, others, doubt.odds)
    even = np.full(figures.size, 1 / figures.size)
    both = _range((figures[:, None] + moves).reshape(-1), (even[:, None] * odds).reshape(-1))
    off = np.log1p(doubt.unexplained)
    low, high = value * np.exp(both[0] - off), value * np.exp(both[1] + off)
    tried = [low, high, value, *(value * np.exp(figures)), *others.values()]
    parts = Parts(*(_shares(each) for each in (_range(figures, even), _range(moves, odds), (-off, off))))
    return Interval(value, float(low), float(high), float(min(tried)), float(max(tried)), parts)


def _decided(value: float, others: Mapping[str, float], odds: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """(logarithm of what all decisions together do to a time, its probability), of every combination."""
    choices: dict[str, list[float]] = {}
    for name, time in others.items():
        choices.setdefault(decision(name), []).append(float(np.log(time / value)))
    moves, weights = np.zeros(1), np.ones(1)
    for name, found in choices.items():
        if max(map(abs, found)) < NEGLIGIBLE:
            continue
        otherwise = odds.get(name, UNKNOWN_ODDS)
        each = np.array([1 - otherwise, *([otherwise / len(found)] * len(found))])
        moves = (moves[:, None] + np.array([0.0, *found])).reshape(-1)
        weights = (weights[:, None] * each).reshape(-1)
    return moves, weights


def decision(name: str) -> str:
    """The decision of which `hoist=off` is a choice."""
    return name.partition("=")[0]


def _range(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The shortest range that holds the claimed share of weighted values, and 0."""
    order = np.argsort(values, kind="stable")
    ordered, reached = values[order], np.cumsum(weights[order])
    last = np.searchsorted(reached, reached - weights[order] + HELD * reached[-1] - ROUNDING)
    first = np.flatnonzero(last < ordered.size)
    low, high = np.minimum(ordered[first], 0.0), np.maximum(ordered[last[first]], 0.0)
    best = np.argmin(high - low)
    return float(low[best]), float(high[best])


def _shares(logs: tuple[float, float]) -> tuple[float, float]:
    return float(np.expm1(logs[0])), float(np.expm1(logs[1]))
