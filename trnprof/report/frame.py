"""The plot under the dots: axes, roofs, ridges, and the room that their names take."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnprof import words
from trnprof.report.scene import Box, Circle, Line, Mark, Polygon, Text, box_of

if TYPE_CHECKING:
    from trnprof.roofline import Axis, Ceiling, Chart

LABEL_GAP = 14
"""Base lines of two names are at least this far apart, px."""

MEMORY_DASHES = ((), (7.0, 3.0), (5.0, 2.0, 1.0, 2.0))
COMPUTE_DASHES = ((), (7.0, 3.0), (2.0, 5.0), (9.0, 3.0, 2.0, 3.0), (4.0, 4.0))
FURTHER = (0.12, 0.24, 0.36, 0.48, 0.6)
"""Where else along a slope its name may stand."""

Place = tuple[float, float]

LINK_DASH = (2.0, 6.0)
RIVAL_DASHES = ((10.0, 3.0), (3.0, 3.0), (10.0, 3.0, 3.0, 3.0))


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


def draw_roofs(chart: Chart, plot: Plot, dots: Sequence[Box] = ()) -> tuple[list[Mark], list[Box]]:
    """Roofs with their names, and the boxes that dots' names must keep clear of.

    dots : room that dots take, which the names of roofs keep clear of
    """
    compute = [c for c in chart.ceilings if c.kind == "compute"]
    slopes = [c for c in chart.ceilings if c.kind != "compute"]
    marks: list[Mark] = [*_reach(chart, plot), *_rivals(chart, plot, dots)]
    fastest = max((c.value for c in slopes), default=plot.y.low / plot.x.low)
    highest = max((c.value for c in compute), default=plot.y.high)
    for place, roof in enumerate(compute):
        dash = () if roof.id in chart.main else COMPUTE_DASHES[1 + place % (len(COMPUTE_DASHES) - 1)]
        start = max(plot.x.low, roof.value / fastest)
        y = plot.up(roof.value)
        marks.append(Line(plot.across(start), y, plot.right, y, "compute", _weight(chart, roof), dash))
    names, boxes = _slopes(chart, plot, slopes, highest, dots)
    marks += names
    others = [c for c in chart.rivals if c.kind == "compute"]
    marks += _roof_names(plot, [*compute, *others])
    ridges, ridge_boxes = _ridges(chart, plot)
    return marks + ridges, boxes + ridge_boxes


def lines_of(marks: list[Mark]) -> list[Box]:
    """Small boxes along the lines of roofs, which names had better not lie on."""
    boxes = []
    for line in marks:
        if isinstance(line, Line) and line.ink != "line":
            steps = max(1, int(math.hypot(line.x1 - line.x0, line.y1 - line.y0) / 6))
            for k in range(steps + 1):
                x, y = line.x0 + (line.x1 - line.x0) * k / steps, line.y0 + (line.y1 - line.y0) * k / steps
                boxes.append(Box(x - 2, y - 2, x + 2, y + 2))
    return boxes


def _rivals(chart: Chart, plot: Plot, dots: Sequence[Box]) -> Iterator[Mark]:
    """Roofs of other machines: thin, grey, each GPU with a dash of its own."""
    memory = {c.name.partition(" ")[0]: c for c in chart.rivals if c.kind == "memory"}
    for number, (roof, dash) in enumerate(
        zip([c for c in chart.rivals if c.kind == "compute"], itertools.cycle(RIVAL_DASHES))
    ):
        slope = memory[roof.name.partition(" ")[0]]
        first, ridge = max(plot.x.low, plot.y.low / slope.value), roof.value / slope.value
        start, end = (plot.across(first), plot.up(first * slope.value)), (plot.across(ridge), plot.up(roof.value))
        yield Line(*start, *end, "text-3", 1.1, dash)
        yield Line(*end, plot.right, end[1], "text-3", 1.1, dash)
        yield _slope_name(slope, start, end, 0.1 + 0.12 * number, False, dots)


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


def _slopes(
    chart: Chart, plot: Plot, slopes: list[Ceiling], highest: float, dots: Sequence[Box]
) -> tuple[list[Mark], list[Box]]:
    marks: list[Mark] = []
    boxes: list[Box] = []
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
        text = _slope_name(roof, start, end, 0.05 + 0.1 * place, close, (*dots, *boxes))
        marks.append(text)
        boxes += _rotated(text)
    return marks, boxes


def _slope_name(roof: Ceiling, start: Place, end: Place, along: float, below: bool, taken: Sequence[Box]) -> Text:
    """The name on a slope, from a share of its length on the first place that is free."""
    length, turn = math.dist(start, end), math.atan2(start[1] - end[1], end[0] - start[0])
    off = 14 if below else -6
    name = f"{roof.name} {words.rate(roof.value)}"
    texts = []
    for share in (along, *(along + step for step in FURTHER if along + step < 0.8)):
        x, y = start[0] + share * length * math.cos(turn), start[1] - share * length * math.sin(turn)
        place = x + off * math.sin(turn), y + off * math.cos(turn)
        texts.append(Text(*place, name, 11, "text-2", angle=math.degrees(turn), halo=True))
    free = (text for text in texts if not any(a.overlaps(b) for a in _rotated(text) for b in taken))
    return next(free, texts[0])


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


def _ridges(chart: Chart, plot: Plot) -> tuple[list[Mark], list[Box]]:
    """Where compute roofs meet the main memory roof: a point with its intensity; of the main one a line to the axis."""
    marks: list[Mark] = []
    boxes: list[Box] = []
    main = chart.ridges[0] if chart.ridges else None
    rival = main.name.rpartition(" / ")[2] if main else ""
    fastest = max((c.value for c in chart.ceilings if c.kind == "memory"), default=0.0)
    for ridge in (ridge for ridge in chart.ridges if ridge.name.endswith(f" / {rival}")):
        x, y = plot.across(ridge.intensity), plot.up(ridge.value)
        if not (plot.x.low < ridge.intensity < plot.x.high and ridge.value < plot.y.high):
            continue
        word = "ridge " if ridge is main else ""
        left = min(x, plot.across(ridge.value / fastest)) - 7
        text = Text(left, y - 5, f"{word}{words.intensity(ridge.intensity)}", 10, "text-3", "end", halo=True)
        if any(box_of(text).overlaps(box) for box in boxes):
            continue
        if ridge is main:
            marks.append(Line(x, y, x, plot.bottom, "text-3", 1, (2, 4)))
        marks += [Circle(x, y, 2.6, "bg", "compute", 1.2), text]
        boxes += [box_of(text), Box(x - 4, y - 4, x + 4, y + 4)]
    return marks, boxes


def _share(value: float, axis: Axis) -> float:
    return math.log(value / axis.low) / math.log(axis.high / axis.low)


def _decades(axis: Axis) -> range:
    return range(math.ceil(math.log10(axis.low) - 1e-9), math.floor(math.log10(axis.high) + 1e-9) + 1)
