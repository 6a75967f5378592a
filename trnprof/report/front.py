"""The points of a sweep by latency, throughput and cost; those that no other beats have a ring and a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnprof.report.dots import hatch
from trnprof.report.frame import Plot
from trnprof.report.scene import Box, Circle, Group, Line, Mark, Scene, Text, box_of
from trnprof.view import format as words
from trnprof.view import sweeps as said

if TYPE_CHECKING:
    from trnprof.sweep.record import Result, Swept

WIDTH, HEIGHT = 1120.0, 384.0
PANES = ((88.0, 40.0, 540.0, 340.0), (648.0, 40.0, 1100.0, 340.0))
"""left, top, right, bottom"""
BEST, OTHER = 6.5, 3.5
"""Radii of dots, px."""
SIDES = 24
MOST_TICKS = 7
_FINE = tuple(
    tuple(k * step for k in range(round(1 / step), round(10 / step))) for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
)
"""Steps within a power of ten, for axes that are shorter than one."""
NUMBERED = 60
"""Numbers that a picture may have."""


@dataclass(frozen=True, slots=True)
class Range:
    """A logarithmic axis."""

    low: float
    high: float


Reading = Callable[["Result"], float | None]


def draw(swept: Swept, keys: Mapping[int, int]) -> Scene:
    """Latency against throughput, and against cost.

    keys : number on the page of each point on the front
    """
    done = [one for one in swept.results if one.fits and one.outcome.throughput]
    marks: list[Mark] = []
    panes: tuple[tuple[str, Reading], ...] = (
        (f"{said.units(swept)}/s", lambda one: one.outcome.throughput),
        (said.cost_title(swept), swept.cost),
    )
    for place, (title, reading) in zip(PANES, panes, strict=True):
        shown = [one for one in done if (reading(one) or 0) > 0]
        if shown:
            marks += _pane(swept, shown, place, title, reading, keys)
    label = f"{words.plural(len(done), 'point')} by latency, throughput and cost, {len(keys)} of them on the front"
    return Scene(WIDTH, HEIGHT, label, tuple(marks))


def _pane(
    swept: Swept,
    shown: Sequence[Result],
    place: tuple[float, float, float, float],
    title: str,
    reading: Reading,
    keys: Mapping[int, int],
) -> Iterator[Mark]:
    plot = Plot(*place, _range([one.outcome.latency_ps for one in shown]), _range([reading(one) for one in shown]))
    yield from _axes(plot, title)
    places = {one.number: (plot.across(one.outcome.latency_ps), plot.up(reading(one))) for one in shown}
    taken = [_room(*places[one.number], BEST if one.best else OTHER) for one in shown]
    numbers: list[Mark] = []
    for one in sorted(shown, key=lambda each: each.best):
        yield _dot(swept, one, *places[one.number], keys.get(one.number, 0))
        if one.best and 0 < keys.get(one.number, 0) <= NUMBERED:
            numbers += _number(str(keys[one.number]), *places[one.number], plot.box, taken)
    yield from numbers


def _room(x: float, y: float, r: float) -> Box:
    return Box(x - r, y - r, x + r, y + r)


def _range(values: Sequence[float]) -> Range:
    low, high = min(values), max(values)
    margin = max(0.06 * math.log10(high / low), 0.04)
    return Range(low / 10**margin, high * 10**margin)


def _axes(plot: Plot, title: str) -> Iterator[Mark]:
    for value in ticks(plot.x):
        x = plot.across(value)
        yield Line(x, plot.top, x, plot.bottom, "line")
        yield Text(x, plot.bottom + 16, _short(words.time(value)), 11, "text-3", "middle")
    for value in ticks(plot.y):
        y = plot.up(value)
        yield Line(plot.left, y, plot.right, y, "line")
        yield Text(plot.left - 7, y + 4, _short(words.digits(value)), 11, "text-3", "end")
    yield Line(plot.left, plot.bottom, plot.right, plot.bottom, "line-2")
    yield Line(plot.left, plot.top, plot.left, plot.bottom, "line-2")
    yield Text(plot.left, plot.top - 14, title, 12, "text-2")
    yield Text(plot.right, plot.bottom + 38, "latency", 12, "text-2", "end")


def _short(text: str) -> str:
    """`5.00 ms` as `5 ms`."""
    number, space, unit = text.partition(words.NARROW)
    return (number.rstrip("0").rstrip(".") if "." in number else number) + space + unit


def ticks(axis: Range) -> list[float]:
    """Two to seven round numbers of an axis, or fewer than its powers of ten where these are more."""
    decades = range(math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high)) + 1)
    for steps in (*_FINE, (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        found = [step * 10.0**k for k in decades for step in steps if axis.low <= step * 10.0**k <= axis.high]
        if len(found) <= MOST_TICKS:
            return found
    return found[:: -(-len(found) // MOST_TICKS)]


def _dot(swept: Swept, one: Result, x: float, y: float, key: int) -> Group:
    ink = one.outcome.bound or "neutral"
    if not one.best:
        return Group((Circle(x, y, OTHER, ink, "bg", 0.8, opacity=0.75),), describe(swept, one), 0)
    corners = tuple(
        (x + BEST * math.cos(2 * math.pi * k / SIDES), y + BEST * math.sin(2 * math.pi * k / SIDES))
        for k in range(SIDES)
    )
    marks = (Circle(x, y, BEST, ink), *hatch(ink, corners), Circle(x, y, BEST + 1.5, None, "text", 1.2))
    return Group(marks, describe(swept, one), key)


def _number(text: str, x: float, y: float, frame: Box, taken: list[Box]) -> Iterator[Mark]:
    """Where it is free around the dot; nothing where it is not."""
    for dx, dy, anchor in ((10, 4, "start"), (-10, 4, "end"), (0, -11, "middle"), (0, 19, "middle")):
        mark = Text(x + dx, y + dy, text, 10, "text-2", anchor, halo=True)
        box = box_of(mark)
        if box.inside(frame) and not any(box.overlaps(other) for other in taken):
            taken.append(box)
            yield mark
            return


def describe(swept: Swept, one: Result) -> str:
    """What a pointer over a point says."""
    lines = [said.varying(swept, one.parameters)]
    if one.outcome.error:
        return "\n".join([*lines, words.plain(one.outcome.error, 300)])
    lines += [f"{said.time(one)}, {said.throughput(one)}", f"{said.cost_title(swept)}: {said.cost(swept, one)}"]
    return "\n".join([*lines, said.bound(one)])
