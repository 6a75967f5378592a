"""What a sweep says: the points that no other beats, where the bound turns, and what changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from trnprof.sweep.record import Axis, Result, Specification, Turn, Value


def best(results: Sequence[Result], cost: Callable[[Result], float | None]) -> set[int]:
    """Numbers of the points on the Pareto front of latency, throughput and cost; equal points are all on it."""
    done = [one for one in results if one.fits and one.outcome.throughput and cost(one) is not None]
    if not done:
        return set()
    table = np.array([(one.outcome.latency_ps, -one.outcome.throughput, cost(one)) for one in done], np.float64)
    front = np.empty((0, 3))
    found = set()
    # Sorted so, no point is beaten by one after it, so that what is on the front stays there.
    for row in np.lexsort(table.T[::-1]):
        here = table[row]
        beaten = (front <= here).all(axis=1) & (front < here).any(axis=1)
        if not beaten.any():
            front = np.vstack((front, here))
            found.add(done[row].number)
    return found


def turns(specification: Specification, results: Sequence[Result]) -> tuple[Turn, ...]:
    """Every pair of neighbours along an axis of numbers that different things bound."""
    return tuple(turn for axis in specification.axes if ordered(axis) for turn in _along(axis, results))


def ordered(axis: Axis) -> bool:
    """Whether its values have an order: numbers, or factors such as 2x."""
    return all(number(values[0]) is not None for values in axis.values) and len(axis.values) > 1


def number(value: Value) -> float | None:
    """What a value is as a number."""
    if isinstance(value, bool):
        return None
    try:
        return float(str(value).lower().removesuffix("x"))
    except ValueError:
        return None


def _along(axis: Axis, results: Sequence[Result]) -> Iterator[Turn]:
    for line in lines(axis, results):
        line.sort(key=lambda one: number(one.parameters[axis.names[0]]))
        for one, two in pairwise(line):
            before, after = one.outcome.bound, two.outcome.bound
            if before and after and before != after:
                rest = {name: value for name, value in one.parameters.items() if name not in axis.names}
                yield Turn(axis.title, said(axis, one), said(axis, two), before, after, rest)


def lines(axis: Axis, results: Sequence[Result]) -> list[list[Result]]:
    """Results that differ in one axis alone."""
    groups: dict[tuple, list[Result]] = {}
    for one in results:
        key = tuple((name, value) for name, value in one.parameters.items() if name not in axis.names)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def said(axis: Axis, result: Result) -> str:
    """The value that a result has on an axis, in words."""
    return of(axis, result.parameters)


def of(axis: Axis, parameters: Mapping[str, Value]) -> str:
    return ", ".join(word(parameters[name]) for name in axis.names)


def word(value: Value) -> str:
    """A value as a specification has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def idle(specification: Specification, results: Sequence[Result]) -> tuple[str, ...]:
    """Axes along which every time that there is stays the same."""
    found = []
    for axis in specification.axes:
        times = [[one.outcome.latency_ps for one in line if one.fits] for line in lines(axis, results)]
        compared = [each for each in times if len(each) > 1]
        if compared and all(len({*each}) == 1 for each in compared):
            found.append(axis.title)
    return tuple(found)
