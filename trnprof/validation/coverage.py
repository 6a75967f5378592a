"""How often a measurement lies inside its interval, and what the intervals are made from.

An interval has two ingredients that only measured kernels tell: how often a compiler decides otherwise than we do, and
how far off the model is beyond that. Both are estimated here, and judged without the kernel in question: its interval
is made from the other kernels alone (conformal prediction, each kernel of equal weight: Dunn, Wasserman and Ramdas,
arXiv 1809.07441). Kernels of one source file are one kernel.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.interval import HELD, ROUNDING, UNKNOWN_ODDS, Doubt, Interval, decision, interval

ROUNDS = 50
"""Of expectation maximisation; odds move by less than their last digit long before."""

TELLING = 0.02
"""A decision that changes a time by less tells nothing about how it was taken."""


@dataclass(frozen=True, slots=True)
class Case:
    """A measurement with all that its interval is made from; times in ns."""

    id: str
    kernel: str
    generation: str
    measured: float
    value: float
    drawn: tuple[float, ...]
    others: Mapping[str, float]
    published: Doubt
    """What the device's figures say."""

    @property
    def miss(self) -> float:
        """Logarithm of the measurement over the estimate."""
        return math.log(self.measured / self.value)

    def interval(self, doubt: Doubt) -> Interval:
        return interval(self.value, self.drawn, self.others, doubt)

    def inside(self, doubt: Doubt) -> bool:
        bar = self.interval(doubt)
        return bar.low <= self.measured <= bar.high


@dataclass(frozen=True, slots=True)
class Spread:
    """What the model does not explain of one API generation, as a share of the time."""

    generation: str
    kernels: int
    measurements: int
    published: float
    found: float
    least: float
    """Of the spreads with one kernel left out."""
    most: float


@dataclass(frozen=True, slots=True)
class Odds:
    """How often a decision of the compiler is otherwise than ours."""

    decision: str
    kernels: int
    """Whose time it changes tellingly."""
    published: float | None
    found: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often measurements lie inside their intervals."""

    measurements: int
    claimed: float
    published: float
    """Share inside the intervals that users see."""
    left_out: float
    """Share inside the intervals that the other kernels alone give."""
    outside: tuple[str, ...]
    """Those that are not."""
    spreads: tuple[Spread, ...]
    odds: tuple[Odds, ...]


def coverage(cases: Sequence[Case]) -> Coverage | None:
    """Of all cases together; None where there are too few kernels to leave one out."""
    if len({case.kernel for case in cases}) < 2:
        return None
    others = {
        (kernel, generation): doubt([case for case in cases if case.kernel != kernel], generation)
        for kernel, generation in {(case.kernel, case.generation) for case in cases}
    }
    outside = tuple(case.id for case in cases if not case.inside(others[case.kernel, case.generation]))
    generations = sorted({case.generation for case in cases})
    return Coverage(
        measurements=len(cases),
        claimed=HELD,
        published=sum(case.inside(case.published) for case in cases) / len(cases),
        left_out=1 - len(outside) / len(cases),
        outside=outside,
        spreads=tuple(_spread(cases, others, generation) for generation in generations),
        odds=tuple(_all_odds(cases)),
    )


def doubt(cases: Sequence[Case], generation: str) -> Doubt:
    """What measured kernels say about others of a generation."""
    odds = {name: found for name, (found, _) in odds_of(cases).items()}
    return Doubt(odds, unexplained(cases, generation, odds))


def odds_of(cases: Sequence[Case]) -> dict[str, tuple[float, int]]:
    """(odds to be otherwise, kernels that tell) of each decision; all kernels together where none tells.

    The share of the kernels that makes their measurements likeliest, when misses fall off exponentially with their
    median (expectation maximisation): a time that another choice moves far from its measurement speaks against it.
    """
    told = {name: _ratios(cases, name) for name in sorted({decision(key) for case in cases for key in case.others})}
    every = [kernel for kernels in told.values() for kernel in kernels]
    return {name: (_likeliest(kernels or every), len(kernels)) for name, kernels in told.items()}


def _ratios(cases: Sequence[Case], name: str) -> list[list[float]]:
    """By kernel: how many times likelier each measurement is with the decision taken otherwise."""
    usual = float(np.median([abs(case.miss) for case in cases])) or TELLING
    found: dict[str, list[float]] = {}
    for case in cases:
        moves = [math.log(time / case.value) for key, time in case.others.items() if decision(key) == name]
        if max(map(abs, moves), default=0) >= TELLING:
            nearest = min(abs(case.miss - move) for move in moves)
            found.setdefault(case.kernel, []).append(math.exp((abs(case.miss) - nearest) / usual))
    return list(found.values())


def _likeliest(kernels: Sequence[Sequence[float]]) -> float:
    """Share of the kernels that decide otherwise."""
    odds = 0.5
    for _ in range(ROUNDS):
        shares = [sum(odds * ratio / (1 - odds + odds * ratio) for ratio in each) / len(each) for each in kernels]
        odds = sum(shares) / len(shares) if shares else UNKNOWN_ODDS
    return odds


def unexplained(cases: Sequence[Case], generation: str, odds: Mapping[str, float]) -> float:
    """How much wider than figures and decisions make them intervals must be, to hold the share that they claim.

    The quantile counts one kernel more than there are, which is the next one; with too few, it is the largest.
    """
    own = [case for case in cases if case.generation == generation]
    if not own:
        return 0.0
    beyond = np.array([_beyond(case, Doubt(odds, 0.0)) for case in own])
    sizes = Counter(case.kernel for case in own)
    weights = np.array([1 / sizes[case.kernel] for case in own]) / (len(sizes) + 1)
    order = np.argsort(beyond, kind="stable")
    place = min(int(np.searchsorted(np.cumsum(weights[order]), HELD - ROUNDING)), len(own) - 1)
    return max(0.0, math.expm1(float(beyond[order[place]])))


def _beyond(case: Case, doubt: Doubt) -> float:
    """By what factor a measurement is outside its interval, as a logarithm; below 0 inside."""
    bar = case.interval(doubt)
    return max(math.log(bar.low / case.measured), math.log(case.measured / bar.high))


def _spread(cases: Sequence[Case], others: Mapping[tuple[str, str], Doubt], generation: str) -> Spread:
    own = [case for case in cases if case.generation == generation]
    left_out = [other.unexplained for (_, of), other in others.items() if of == generation]
    return Spread(
        generation=generation,
        kernels=len(left_out),
        measurements=len(own),
        published=own[0].published.unexplained,
        found=doubt(cases, generation).unexplained,
        least=min(left_out),
        most=max(left_out),
    )


def _all_odds(cases: Sequence[Case]) -> Iterator[Odds]:
    published = {name: value for case in cases for name, value in case.published.odds.items()}
    for name, (found, kernels) in odds_of(cases).items():
        yield Odds(name, kernels, published.get(name), found)
