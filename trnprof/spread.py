"""How sure the verdict on an emulated trace is: its margin on machines whose figures are drawn from their spreads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sim.figures import SAMPLES
from sim.spread import DISTRIBUTION, ErrorBars, Interval, Scenario
from sim.spread import error_bars as times_of
from sim.trace import Trace
from trnprof import words
from trnprof.bounds import Verdict, classify
from trnprof.regions import whole


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
        """Whether the bound is another one somewhere within the interval."""
        return bool(self.others)

    @property
    def sentence(self) -> str:
        """How sure the verdict is, in words."""
        if self.verdict.bound is None:
            return "Nothing works, so there is no verdict."
        bound = words.bound(self.verdict.bound)
        if not self.flips:
            return f"{bound} in each of {self.scenarios} runs with figures drawn from their spreads."
        named = " and ".join(f"{words.bound(name).lower()} in {count}" for name, count in self.others.items())
        return f"The verdict flips within the error bars: {named} of {self.scenarios} runs."

    def to_json(self) -> dict[str, Any]:
        """What a trace's meta keeps of it."""
        times = asdict(self.times)
        return times | {
            "distribution": DISTRIBUTION,
            "figures": list(self.times.figures),
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
        margin = Interval.of(_lead(verdict, verdict.bound), margins["samples"], margins["decisions"])
    others = {bound: count for bound, count in bounds.most_common() if bound != verdict.bound}
    return Bars(times, verdict, margin, others, bounds.total())


def with_error_bars(trace: Trace, samples: int = SAMPLES, seed: int = 0) -> Trace:
    """The trace, its error bars kept with it."""
    return replace(trace, meta=replace(trace.meta, error_bars=error_bars(trace, samples, seed).to_json()))


def _lead(verdict: Verdict, bound: str) -> float:
    return verdict.scores[bound] - max(score for name, score in verdict.scores.items() if name != bound)
