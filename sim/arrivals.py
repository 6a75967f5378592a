"""When each rank is done with a collective that ranks come to at different times, over links of different rates.

A step begins when both its sides are ready: max-plus algebra. Where all links of a stage are alike, its steps sum up
to "the last of the group, and the stage's time", which is taken at once; lines with a slow link are walked step by
step. Times are ps in arrays shaped (units of the outermost level, …, chips, ranks of a chip).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

MEMORY = "memory"
"""What of a chip is slow, where it is no link."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A chip whose links, or whose memory, have a part of their rate."""

    rank: int
    """Of the group, one of the chip's."""
    rate: float
    """Share of the rate that is left."""
    where: str | None = None
    """A level's name, or `memory`; None for the links of all levels."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How a stage's time comes about."""

    kind: str
    algorithm: str
    steps: int
    hops_ps: int
    link_ps: int
    memory_ps: int

    @property
    def duration_ps(self) -> int:
        return self.hops_ps + max(self.link_ps, self.memory_ps)

    def costs(self, links: np.ndarray | float, memories: np.ndarray | float) -> np.ndarray | float:
        """Time of the whole stage at each member, were all like it; links, memories: shares of their rates."""
        return self.hops_ps + np.maximum(self.link_ps / links, self.memory_ps / memories)


def at_once(ready: np.ndarray, axes: tuple[int, ...], pace: Pace, root: int = 0) -> np.ndarray:
    """When each member is done, all links alike.

    root : who sends, in a broadcast, along the axes taken together
    """
    if pace.kind == "permute":
        return np.maximum(ready, _before(ready, axes)) + pace.duration_ps
    if pace.kind == "broadcast":
        return np.maximum(ready, _of(ready, axes, root) + pace.duration_ps)
    last = ready.max(axis=axes, keepdims=True) + pace.duration_ps
    return np.broadcast_to(last, ready.shape)


def stepwise(ready: np.ndarray, pace: Pace, costs: np.ndarray, root: int = 0) -> np.ndarray:
    """The same along the last axis, step by step, each member at its own pace.

    costs : ps of the whole stage at each member, as `Pace.costs` gives them
    """
    if pace.kind == "permute":
        return np.maximum(ready, np.roll(ready, 1, -1)) + costs
    if pace.kind == "broadcast":
        return np.maximum(ready, ready[..., root : root + 1] + costs.max())
    if pace.algorithm in ("ring", "kangaring"):
        return _around(ready, pace.steps, costs)
    if pace.algorithm == "rdh" and not ready.shape[-1] & (ready.shape[-1] - 1):
        return _doubling(ready, costs, 2 if pace.kind == "all_reduce" else 1)
    return np.broadcast_to((ready + costs).max(axis=-1, keepdims=True), ready.shape)


def _around(ready: np.ndarray, steps: int, costs: np.ndarray) -> np.ndarray:
    """What a member sends on is what it had from the one before."""
    each, done = costs / steps, ready.astype(float)
    for _ in range(steps):
        done = np.maximum(done, np.roll(done, 1, -1)) + each
    return done


def _doubling(ready: np.ndarray, costs: np.ndarray, passes: int) -> np.ndarray:
    """Members whose numbers differ in one bit exchange, the further the more in halving, the less in doubling."""
    size, done, place = ready.shape[-1], ready.astype(float), np.arange(ready.shape[-1])
    strides = [1 << bit for bit in range(size.bit_length() - 1)]
    for _ in range(passes):
        for stride in strides:
            other = place ^ stride
            part = stride / (size - 1) / passes
            done = np.maximum(done, done[..., other]) + np.maximum(costs, costs[other]) * part
    return done


def _before(ready: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    lines, back = _lines(ready, axes)
    return back(np.roll(lines, 1, -1))


def _of(ready: np.ndarray, axes: tuple[int, ...], member: int) -> np.ndarray:
    lines, back = _lines(ready, axes)
    return back(np.broadcast_to(lines[..., member : member + 1], lines.shape))


def _lines(ready: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """The array with some axes as one, the last; and the way back."""
    ends = tuple(range(-len(axes), 0))
    moved = np.moveaxis(ready, axes, ends)
    shape = moved.shape
    flat = moved.reshape(*shape[: len(shape) - len(axes)], prod(shape[len(shape) - len(axes) :]))
    return flat, lambda lines: np.moveaxis(lines.reshape(shape), ends, axes)


@dataclass(frozen=True, slots=True)
class Leg:
    """A stage and the axes of the group that it goes along."""

    pace: Pace
    level: str
    axes: tuple[int, ...]


def walk(ready: np.ndarray, legs: Sequence[Leg], slow: Sequence[Slow], local: int) -> np.ndarray:
    """When each member is done with all stages.

    ready : float ps [units, …, chips, ranks of a chip]
    local : ranks of a chip, of which one that is slow makes all slow
    """
    done = ready
    for leg in legs:
        links, memories = (_shares(done.shape, slow, names, local) for names in ((leg.level, None), (MEMORY,)))
        alike = links is None and memories is None
        done = at_once(done, leg.axes, leg.pace) if alike else _mixed(done, leg, links, memories)
    return done


def _shares(
    shape: tuple[int, ...], slow: Sequence[Slow], names: tuple[str | None, ...], local: int
) -> np.ndarray | None:
    """The share of its rate that each member has; None where all have the whole."""
    found = [each for each in slow if each.where in names]
    if not found:
        return None
    shares = np.ones(prod(shape))
    for each in found:
        chip = each.rank // local * local
        shares[chip : chip + local] = np.minimum(shares[chip : chip + local], each.rate)
    return shares.reshape(shape)


def _mixed(ready: np.ndarray, leg: Leg, links: np.ndarray | None, memories: np.ndarray | None) -> np.ndarray:
    """Lines that are alike at once, the others step by step."""
    lines, back = _lines(ready, leg.axes)
    size = lines.shape[-1]
    result = np.array(_lines(at_once(ready, leg.axes, leg.pace), leg.axes)[0]).reshape(-1, size)
    shares = [None if each is None else _lines(each, leg.axes)[0].reshape(-1, size) for each in (links, memories)]
    slowed = np.logical_or.reduce([(each < 1).any(axis=-1) for each in shares if each is not None])
    for number in np.flatnonzero(slowed):
        rates = [1.0 if each is None else each[number] for each in shares]
        costs = np.broadcast_to(leg.pace.costs(*rates), size)
        result[number] = stepwise(lines.reshape(-1, size)[number], leg.pace, costs)
    return back(result)
