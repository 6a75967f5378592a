"""How sure the verdict on an emulated trace is: its margin on machines whose figures are drawn from their spreads.

What the model does not explain may be anything's time, so it widens the margin by as much on either side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sim.figures import SAMPLES
from sim.interval import HELD, Interval
from sim.spread import DISTRIBUTION, ErrorBars, Scenario
from sim.spread import error_bars as times_of
from sim.trace import Trace
from trnprof import words
from trnprof.bounds import Verdict, classify
from trnprof.regions import whole

TOLD = 0.0005
"""Shares of a time below this are shown as none, and left out."""


@dataclass(frozen=True, slots=True)
class Bars:
    """The intervals of a launch, with those of its verdict."""

    times: ErrorBars
    verdict: Verdict
    """On the whole trace, with every figure as it stands."""
    margin: Interval | None
    """None without a verdict; else by how much its bound leads the strongest other one, below 0 where it does not."""
    others: Mapping[str, int]
    """How many scenarios are bound by something else, by what."""
    scenarios: int
    """Samples and decisions taken the other way."""

    @property
    def held(self) -> float:
        """Share of the scenarios with the same bound."""
        return 1 - sum(self.others.values()) / self.scenarios

    @property
    def flips(self) -> bool:
        """Whether the bound may be another one somewhere within the interval."""
        return self.margin is not None and self.margin.low < 0

    @property
    def sentence(self) -> str:
        """How sure the verdict is, in words."""
        if self.verdict.bound is None or self.margin is None:
            return "Nothing works, so there is no verdict."
        bound = words.bound(self.verdict.bound)
        named = " and ".join(f"{words.bound(name).lower()} in {count}" for name, count in self.others.items())
        if not self.flips:
            if not self.others:
                return f"{bound} in each of {self.scenarios} runs with figures drawn from their spreads."
            return f"{bound} in {self.held:.0%} of {self.scenarios} runs; {named}."
        low, high = (words.points(each, 0.0) for each in (self.margin.low, self.margin.high))
        runs = f"; {named} of {self.scenarios} runs" if self.others else ""
        return f"The verdict flips within the error bars: its lead may be {low} to {high} points{runs}."

    @property
    def made(self) -> str:
        """What the interval of the time is made of, in words."""
        bar = self.times.latency_ns
        if bar.parts is None:
            return ""
        reasons = (("figures", bar.parts.figures), ("compiler", bar.parts.decisions), ("model", bar.parts.model))
        parts = [
            f"{name} {words.percent(low)} to {words.percent(high)}"
            for name, (low, high) in reasons
            if max(-low, high) >= TOLD
        ]
        return (
            f"Error bars hold {words.share(HELD)} of what it may be, {words.percent(bar.low / bar.value - 1)} to "
            f"{words.percent(bar.high / bar.value - 1)}: {words.listing(parts) or 'nothing is uncertain'}."
        )

    def to_json(self) -> dict[str, Any]:
        """What a trace's meta keeps of it."""
        times = asdict(self.times)
        return times | {
            "distribution": DISTRIBUTION,
            "figures": list(self.times.figures),
            "sentence": self.made,
            "verdict": {
                "bound": self.verdict.bound,
                "margin": self.margin and asdict(self.margin),
                "held": self.held,
                "others": dict(self.others),
                "sentence": self.sentence,
            },
        }


def error_bars(run: Trace | Any, samples: int = SAMPLES, seed: int = 0) -> Bars:
    """The error bars of a launch's times and of the verdict on it.

    run    : a `sim.Run`, or an emulated trace that holds its program
    raises : UnsupportedError for a trace that holds no program
    """
    trace = run if isinstance(run, Trace) else run.trace
    (verdict,) = classify(trace, (whole(trace),))
    margins: dict[str, list[float]] = {"samples": [], "decisions": []}
    bounds: Counter[str | None] = Counter()

    def judge(scenario: Scenario) -> None:
        (other,) = classify(scenario.trace, (whole(scenario.trace),))
        bounds[other.bound] += 1
        if verdict.bound is not None:
            margins["decisions" if scenario.decision else "samples"].append(_lead(other, verdict.bound))

    times = times_of(trace, samples, seed, judge)
    margin = None
    if verdict.bound is not None:
        sampled = Interval.of(_lead(verdict, verdict.bound), margins["samples"], margins["decisions"])
        margin = sampled.widened(1 - 1 / (1 + times.doubt.unexplained))
    others = {bound: count for bound, count in bounds.most_common() if bound != verdict.bound}
    return Bars(times, verdict, margin, others, bounds.total())


def with_error_bars(trace: Trace, samples: int = SAMPLES, seed: int = 0) -> Trace:
    """The trace, its error bars kept with it."""
    return replace(trace, meta=replace(trace.meta, error_bars=error_bars(trace, samples, seed).to_json()))


def _lead(verdict: Verdict, bound: str) -> float:
    return verdict.scores[bound] - max(score for name, score in verdict.scores.items() if name != bound)
