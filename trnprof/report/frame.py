"""The plot under the dots: axes, roofs, ridges, and the room that their names take."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnprof import words
from trnprof.report.scene import Box, Line, Mark, Polygon, Text, box_of

if TYPE_CHECKING:
    from trnprof.roofline import Axis, Ceiling, Chart

LABEL_GAP = 14
"""Base lines of two names are at least this far apart, px."""

MEMORY_DASHES = ((), (7.0, 3.0), (5.0, 2.0, 1.0, 2.0))
COMPUTE_DASHES = ((), (7.0, 3.0), (2.0, 5.0), (9.0, 3.0, 2.0, 3.0), (4.0, 4.0))
LINK_DASH = (2.0, 6.0)


@dataclass(frozen=True, slots=True)
class Plot:
    """Where the axes lie, px."""

    left: float
    top: float
    right: float
    bottom: float
    x: Axis
    y: Axis

    @property
    def box(self) -> Box:
        return Box(self.left, self.top, self.right, self.bottom)

    def across(self, intensity: float) -> float:
        return self.left + _share(intensity, self.x) * (self.right - self.left)

    def up(self, value: float) -> float:
        return self.bottom - _share(value, self.y) * (self.bottom - self.top)

    @property
    def slope(self) -> float:
        """Pixels up for one pixel to the right on a memory roof."""
        per_x = (self.right - self.left) / math.log10(self.x.high / self.x.low)
        return (self.bottom - self.top) / math.log10(self.y.high / self.y.low) / per_x


def draw_axes(plot: Plot) -> Iterator[Mark]:
    """Grid, ticks and titles."""
    tera = plot.y.low >= 1e10
    for exponent in _decades(plot.x):
        x = plot.across(10.0**exponent)
        yield Line(x, plot.top, x, plot.bottom, "line")
        yield Text(x, plot.bottom + 16, words.digits(10.0**exponent, 1), 11, "text-3", "middle")
    for exponent in _decades(plot.y):
        y = plot.up(10.0**exponent)
        value = 10.0**exponent
        text = words.digits(value / 1e12, 1) if tera else _round(value)
        yield Line(plot.left, y, plot.right, y, "line")
        yield Text(plot.left - 7, y + 4, text, 11, "text-3", "end")
    middle = (plot.left + plot.right) / 2
    yield Text(middle, plot.bottom + 38, plot.x.title, 11, "text-3", "middle")
    title = plot.y.title.replace("FLOP/s", "TFLOP/s") if tera else plot.y.title
    yield Text(plot.left - 48, (plot.top + plot.bottom) / 2, title, 11, "text-3", "middle", angle=90)


def _round(power: float) -> str:
    """A power of ten with its prefix: `10 G`."""
    number, _, unit = words.flops(power).partition(words.NARROW)
    return f"{float(number):g}{words.NARROW}{unit.removesuffix('FLOP/s')}"


def draw_roofs(chart: Chart, plot: Plot) -> tuple[list[Mark], list[Box]]:
    """Roofs with their names, and the boxes that dots' names must keep clear of."""
    compute = [c for c in chart.ceilings if c.kind == "compute"]
    slopes = [c for c in chart.ceilings if c.kind != "compute"]
    marks: list[Mark] = [*_reach(chart, plot)]
    fastest = max((c.value for c in slopes), default=plot.y.low / plot.x.low)
    highest = max((c.value for c in compute), default=plot.y.high)
    for place, roof in enumerate(compute):
        dash = () if roof.id in chart.main else COMPUTE_DASHES[1 + place % (len(COMPUTE_DASHES) - 1)]
        start = max(plot.x.low, roof.value / fastest)
        y = plot.up(roof.value)
        marks.append(Line(plot.across(start), y, plot.right, y, "compute", _weight(chart, roof), dash))
    names, boxes = _slopes(chart, plot, slopes, highest)
    marks += names
    for text in _roof_names(plot, compute):
        marks.append(text)
    ridges, ridge_boxes = _ridge(chart, plot)
    return marks + ridges, boxes + ridge_boxes


def _weight(chart: Chart, roof: Ceiling) -> float:
    return 2.0 if roof.id in chart.main else 1.2


def _reach(chart: Chart, plot: Plot) -> Iterator[Mark]:
    """The ground that the trace can reach: below its memory roof, then below its compute roof."""
    main = [c for c in chart.ceilings if c.id in chart.main]
    compute = next((c for c in main if c.kind == "compute"), None)
    memory = next((c for c in main if c.kind == "memory"), None)
    if compute is None or memory is None:
        return
    first = max(plot.x.low, plot.y.low / memory.value)
    ridge = compute.value / memory.value
    points = (
        (plot.across(first), plot.bottom),
        (plot.across(first), plot.up(first * memory.value)),
        (plot.across(ridge), plot.up(compute.value)),
        (plot.right, plot.up(compute.value)),
        (plot.right, plot.bottom),
    )
    yield Polygon(points, "text", opacity=0.035)


def _slopes(chart: Chart, plot: Plot, slopes: list[Ceiling], highest: float) -> tuple[list[Mark], list[Box]]:
    marks: list[Mark] = []
    boxes: list[Box] = []
    angle = math.degrees(math.atan(plot.slope))
    ranked = sorted(slopes, key=lambda c: -c.value)
    dashed = iter(MEMORY_DASHES[1:])
    for place, roof in enumerate(ranked):
        first, last = max(plot.x.low, plot.y.low / roof.value), min(plot.x.high, highest / roof.value)
        main = roof.id in chart.main
        dash = LINK_DASH if roof.kind == "network" else () if main else next(dashed, MEMORY_DASHES[-1])
        ink = "network" if roof.kind == "network" else "memory_bandwidth"
        start, end = (plot.across(first), plot.up(first * roof.value)), (plot.across(last), plot.up(last * roof.value))
        marks.append(Line(*start, *end, ink, _weight(chart, roof), dash))
        # The name of the upper of two close roofs stands above it, that of the lower below.
        close = place > 0 and plot.up(roof.value * plot.x.low) - plot.up(ranked[place - 1].value * plot.x.low) < 24
        along = 0.05 + 0.1 * place
        text = _slope_name(roof, start, along * math.dist(start, end), angle, below=close)
        marks.append(text)
        boxes += _rotated(text)
    return marks, boxes


def _slope_name(roof: Ceiling, start: tuple[float, float], along: float, angle: float, below: bool) -> Text:
    turn = math.radians(angle)
    x, y = start[0] + along * math.cos(turn), start[1] - along * math.sin(turn)
    off = 14 if below else -6
    name = f"{roof.name} {words.rate(roof.value)}"
    return Text(x - off * -math.sin(turn), y + off * math.cos(turn), name, 11, "text-2", angle=angle, halo=True)


def _rotated(text: Text) -> list[Box]:
    """Small boxes along a slanted text."""
    turn, boxes, at = math.radians(text.angle), [], 0.0
    while at < text.width:
        x, y = text.x + at * math.cos(turn), text.y - at * math.sin(turn)
        boxes.append(Box(x - 8, y - 14, x + 8, y + 4))
        at += 8
    return boxes


def _roof_names(plot: Plot, compute: list[Ceiling]) -> Iterator[Text]:
    """Names at the right end, those of equal roofs joined, pushed apart where they would touch."""
    heights: dict[float, list[Ceiling]] = {}
    for roof in sorted(compute, key=lambda c: -c.value):
        heights.setdefault(round(roof.value, -9), []).append(roof)
    y = -math.inf
    for roofs in heights.values():
        y = max(y + LABEL_GAP, plot.up(roofs[0].value) + 4)
        names = [roofs[0].name, *(roof.name.removeprefix("TensorE ") for roof in roofs[1:])]
        value = words.quantity(roofs[0].value, roofs[0].unit)
        yield Text(plot.right + 8, y, f"{', '.join(names)}  {value}", 11, "text")


def _ridge(chart: Chart, plot: Plot) -> tuple[list[Mark], list[Box]]:
    if not chart.ridges or not plot.x.low < chart.ridges[0].intensity < plot.x.high:
        return [], []
    ridge = chart.ridges[0]
    x = plot.across(ridge.intensity)
    text = Text(x + 5, plot.bottom - 8, f"ridge {words.intensity(ridge.intensity)}", 11, "text-3", halo=True)
    line = Line(x, plot.up(ridge.value), x, plot.bottom, "text-3", 1, (2, 4))
    return [line, text], [box_of(text)]


def _share(value: float, axis: Axis) -> float:
    return math.log(value / axis.low) / math.log(axis.high / axis.low)


def _decades(axis: Axis) -> range:
    return range(math.ceil(math.log10(axis.low) - 1e-9), math.floor(math.log10(axis.high) + 1e-9) + 1)
