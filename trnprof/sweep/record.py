"""What is swept, and what is known of it afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import prod
from typing import Any

from trnprof.bounds import BOUNDS

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Axis:
    """Parameters that change together."""

    names: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    """One value of each name."""

    @property
    def title(self) -> str:
        return ", ".join(self.names)


@dataclass(frozen=True, slots=True)
class Specification:
    """A sweep as its file says it; `trnprof.sweep.read` makes one."""

    source: str
    """The file, as it was named."""
    subject: str
    """model or kernel: what every point has."""
    fixed: Mapping[str, Value]
    """The same at every point."""
    axes: tuple[Axis, ...]
    arguments: Mapping[str, str]
    """Of a kernel; `{name}` stands for a parameter."""
    prices: Mapping[str, float]
    """Of an hour, by device or instance size."""
    work: tuple[str, ...] = ()
    """Parameters that say what is done, not how: points are compared with others of the same."""
    across: str | None = None
    """The axis that heat maps have across; chosen where None."""
    up: str | None = None

    @property
    def size(self) -> int:
        """Points."""
        return prod(len(axis.values) for axis in self.axes)


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of the parameters, ready to be worked on by any process."""

    subject: str
    parameters: Mapping[str, Value]
    arguments: Mapping[str, str]
    """Of a kernel, parameters put in."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a point gave; what does not apply or is not known is None."""

    latency_ps: int | None = None
    """Of a phase, or of a launch."""
    throughput: float | None = None
    """Units a second, of all cores."""
    unit: str = ""
    """token, sample or launch."""
    device: str = ""
    cores: int | None = None
    """Physical ones."""
    chips: float | None = None
    """That the cores fill, in parts."""
    mfu: float | None = None
    mbu: float | None = None
    flops: int | None = None
    moved_bytes: int | None = None
    held_bytes: int | None = None
    """In the HBM of one logical core."""
    room_bytes: int | None = None
    network_ps: int | None = None
    bound: str | None = None
    bound_share: float | None = None
    margin: float | None = None
    runner_up: str | None = None
    engine: str | None = None
    compute: float | None = None
    """Share of the time that is charged to a bound; the five add up to 1."""
    memory_bandwidth: float | None = None
    memory_capacity: float | None = None
    network: float | None = None
    latency: float | None = None
    error: str = ""
    """Why there is no time; empty where there is one."""
    exit_code: int = 0
    """Of the error, as the command line has it: 4 does not fit, 3 is not supported."""


@dataclass(frozen=True, slots=True)
class Result:
    """A point with its outcome."""

    number: int
    """Of the point, in the order of the grid."""
    parameters: Mapping[str, Value]
    outcome: Outcome
    kept: bool
    """From an earlier run."""
    chip_hours_per_million: float | None
    """Of chips, in parts, for a million units."""
    price_per_million: float | None
    """In the currency of the prices; None without one."""
    best: bool = False
    """No other point of the same work is as good in latency, throughput and cost, and better in one."""

    @property
    def fits(self) -> bool:
        """Whether there is a time."""
        return self.outcome.latency_ps is not None

    def to_json(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("number", "kept", "best", *COSTS)}
        return own | {"parameters": dict(self.parameters), **asdict(self.outcome)}


COSTS = ("chip_hours_per_million", "price_per_million")
SHARES = BOUNDS
"""Columns of an outcome that say what the time is charged to."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Two neighbours on an axis between which the bound changes."""

    axis: str
    before: str
    """Value of the axis."""
    after: str
    bound_before: str
    bound_after: str
    parameters: Mapping[str, Value]
    """Of the first, without the axis."""


@dataclass(frozen=True)
class Swept:
    """A sweep that has run."""

    specification: Specification
    results: tuple[Result, ...]
    """In the order of the grid."""
    turns: tuple[Turn, ...]
    idle: tuple[str, ...]
    """Axes on which no time depends."""

    @property
    def front(self) -> tuple[Result, ...]:
        """Points that no other is better than, work by work, the fastest first."""
        best = [result for result in self.results if result.best]
        works = {work: place for place, work in enumerate(dict.fromkeys(map(self.work, self.results)))}
        return tuple(sorted(best, key=lambda one: (works[self.work(one)], one.outcome.latency_ps, one.number)))

    def work(self, result: Result) -> tuple[Value, ...]:
        """What a point does, without how."""
        return tuple(result.parameters[name] for name in self.specification.work)

    @property
    def failed(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.outcome.error)

    @cached_property
    def priced(self) -> bool:
        """Whether every point with a time has a price."""
        done = [result for result in self.results if result.fits]
        return bool(done) and all(result.price_per_million is not None for result in done)

    @cached_property
    def unit(self) -> str:
        """What every point makes; empty where there are several kinds."""
        found = {result.outcome.unit for result in self.results if result.outcome.unit}
        return found.pop() if len(found) == 1 else ""

    def cost(self, result: Result) -> float | None:
        """The price where all points have one, else hours of chips, for a million units."""
        return result.price_per_million if self.priced else result.chip_hours_per_million

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.specification.source,
            "subject": self.specification.subject,
            "axes": [{"names": list(axis.names), "values": [list(each) for each in axis.values]}
                     for axis in self.specification.axes],
            "fixed": dict(self.specification.fixed),
            "points": len(self.results),
            "kept": sum(result.kept for result in self.results),
            "failed": len(self.failed),
            "work": list(self.specification.work),
            "front": [result.number for result in self.front],
            "turns": [asdict(turn) for turn in self.turns],
            "idle": list(self.idle),
            "results": [result.to_json() for result in self.results],
        }  # fmt: skip
