"""What a sweep says, in words, and how its grid is laid out as maps of two axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trnprof.sweep.fronts import number, of, ordered, word
from trnprof.sweep.record import Axis, Result, Swept, Turn, Value
from trnprof.view import format as words

UNITS = {"token": "tokens", "sample": "samples", "launch": "launches", "": "units"}


@dataclass(frozen=True, slots=True)
class Map:
    """One combination of the other axes: a cell for each pair of values."""

    title: str
    """The other axes; empty where there are none."""
    cells: tuple[tuple[Result | None, ...], ...]
    """By value of `up`, then of `across`."""


@dataclass(frozen=True, slots=True)
class Maps:
    across: Axis
    up: Axis | None
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    maps: tuple[Map, ...]


def maps(swept: Swept) -> Maps:
    """The grid as maps of two axes; those that the specification names, else the longest ones that have an order."""
    axes = moving(swept)
    across, up = _chosen(axes, swept)
    rest = [axis for axis in axes if axis not in (across, up)]
    columns, rows = _values(across), _values(up) if up else ("",)
    found: dict[str, dict[tuple[str, str], Result]] = {}
    for one in swept.results:
        title = ", ".join(f"{axis.title} {of(axis, one.parameters)}" for axis in rest)
        place = of(up, one.parameters) if up else "", of(across, one.parameters)
        found.setdefault(title, {})[place] = one
    made = tuple(
        Map(title, tuple(tuple(cells.get((row, column)) for column in columns) for row in rows))
        for title, cells in found.items()
    )
    return Maps(across, up, columns, rows, made)


def moving(swept: Swept) -> list[Axis]:
    """Axes of more than one value; the first where there is none."""
    axes = swept.specification.axes
    return [axis for axis in axes if len(axis.values) > 1] or [axes[0]]


def constant(swept: Swept) -> dict[str, Value]:
    """Parameters that are the same at every point."""
    same = {
        name: value
        for axis in swept.specification.axes
        if axis not in moving(swept)
        for name, value in zip(axis.names, axis.values[0], strict=True)
    }
    return {**swept.specification.fixed, **same}


def _chosen(axes: Sequence[Axis], swept: Swept) -> tuple[Axis, Axis | None]:
    said = swept.specification
    named = {axis.title: axis for axis in axes}
    ranked = sorted(axes, key=lambda axis: (not ordered(axis), -len(axis.values)))
    across = named.get(said.across or "")
    up = named.get(said.up or "")
    across = across or next(axis for axis in ranked if axis is not up)
    up = up or next((axis for axis in ranked if axis is not across), None)
    return across, up


def _values(axis: Axis) -> tuple[str, ...]:
    """In rising order where they are numbers."""
    values = sorted(axis.values, key=lambda each: number(each[0])) if ordered(axis) else axis.values
    return tuple(of(axis, dict(zip(axis.names, each, strict=True))) for each in values)


def varying(swept: Swept, parameters: Mapping[str, Value]) -> str:
    """`tp 8, batch 16`: what sets a point apart from the others."""
    names = [name for axis in moving(swept) for name in axis.names if name in parameters]
    parts = (f"{name} {word(parameters[name])}" for name in names)
    return ", ".join(parts)


def turn_words(turn: Turn, swept: Swept) -> str:
    """`memory bandwidth to network between tp 8 and 16 (batch 16)`."""
    rest = varying(swept, turn.parameters)
    before, after = (words.bound_name(bound) for bound in (turn.bound_before, turn.bound_after))
    place = f"between {turn.axis} {turn.before} and {turn.after}"
    return f"{before} to {after} {place}" + (f" ({rest})" if rest else "")


def cost_title(swept: Swept) -> str:
    return f"price of 1M {units(swept)}" if swept.priced else f"chip-hours for 1M {units(swept)}"


def units(swept: Swept) -> str:
    """What the points make: `tokens`; those of several kinds are `units`."""
    return UNITS[swept.unit]


def throughput(result: Result) -> str:
    value = result.outcome.throughput
    if value is None:
        return words.NOT_AVAILABLE
    return f"{words.estimate(words.digits(value))}{words.NARROW}{UNITS[result.outcome.unit]}/s"


def cost(swept: Swept, result: Result) -> str:
    value = swept.cost(result)
    if value is None:
        return words.NOT_AVAILABLE
    return words.estimate(words.digits(value) if 1e-4 <= value < 1e6 or not value else f"{value:.2e}")


def time(result: Result) -> str:
    return words.estimate(words.time(result.outcome.latency_ps))


def bound(result: Result) -> str:
    """`Network 44 %`."""
    found = result.outcome
    if not found.bound:
        return words.NOT_AVAILABLE
    named = words.bound_name(found.bound) + (f" ({found.engine})" if found.engine else "")
    return f"{named} {words.share(found.bound_share)}" if found.bound_share is not None else named


def row_of(swept: Swept, result: Result) -> tuple[str, ...]:
    """Point, latency, throughput, cost, bound, what it needs of HBM."""
    found = result.outcome
    room = f"{words.size(found.held_bytes)} of {words.size(found.room_bytes)}" if found.held_bytes else ""
    point = words.plain(varying(swept, result.parameters), 120)
    return point, time(result), throughput(result), cost(swept, result), bound(result), room
