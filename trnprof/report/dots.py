"""Dots: shape says the kind, area the time, colour and hatch the bound; names keep clear of each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trnprof import words
from trnprof.report.frame import Plot
from trnprof.report.scene import Box, Circle, Curve, Group, Line, Mark, Polygon, Text, box_of, shorten

if TYPE_CHECKING:
    from trnprof.roofline import Chart, Point

LARGEST = 17.0
SMALLEST = 4.0
NAME_WIDTH = 210.0
SIDES = 24
"""Corners of the polygon that a circle's hatch is cut to."""

HATCHES = {
    "memory_bandwidth": ((0.0, 3.5),),
    "memory_capacity": ((0.0, 4.0), (90.0, 4.0)),
    "network": (),
    "latency": ((45.0, 3.4),),
}
"""Angle in degrees and distance in px of the lines of each bound; compute is solid, network is dotted."""

Corners = tuple[tuple[float, float], ...]


def radius(dot: Point, longest_ps: int) -> float:
    """Half the width of a dot whose area grows with its time, px."""
    return max(SMALLEST, LARGEST * math.sqrt(dot.time_ps / longest_ps)) if longest_ps else SMALLEST


def draw_dots(chart: Chart, plot: Plot, taken: list[Box], lines: Sequence[Box] = ()) -> list[Mark]:
    """All dots, large ones below small ones, with arrows under them and names above.

    taken : room that names must not take
    lines : room that they take only where there is no other
    """
    placed = _placed(chart, plot)
    order = sorted(range(len(placed)), key=lambda i: -placed[i][3])
    shapes = [Group(tuple(_shape(*placed[i], plot)), describe(placed[i][0]), i + 1) for i in order]
    boxes = taken + [_room(*each) for each in placed]
    arrows: list[Mark] = []
    for arrow in chart.arrows:
        arrows += _arrow(placed[arrow.start][1:], placed[arrow.end][1:], arrow.label, plot, boxes, lines)
    names: list[Mark] = []
    for i in order:
        names += _name(i + 1, placed[i], plot, boxes, lines)
    return [*arrows, *shapes, *names]


def rooms(chart: Chart, plot: Plot) -> list[Box]:
    """The room that each dot takes."""
    return [_room(*each) for each in _placed(chart, plot)]


def _placed(chart: Chart, plot: Plot) -> list[tuple[Point, float, float, float]]:
    """Every dot with its middle and its radius."""
    longest = max((dot.time_ps for dot in chart.dots), default=0)
    return [(dot, *_position(dot, plot), radius(dot, longest)) for dot in chart.dots]


def _reach(dot: Point, r: float) -> float:
    """How far a dot's marks go from its middle."""
    return r * (1.0 if dot.kind == "whole" else 1.2) + (4 if dot.estimated else 0)


def _room(dot: Point, x: float, y: float, r: float) -> Box:
    far = _reach(dot, r)
    return Box(x - far, y - far, x + far, y + far)


def describe(dot: Point) -> str:
    """What a pointer over a dot says."""
    rate = words.estimate(words.quantity(dot.achieved, dot.unit), dot.estimated)
    time = words.estimate(words.time(dot.time_ps), dot.estimated)
    intensity = words.quantity(dot.intensity, "FLOP/B" if dot.unit == "FLOP/s" else "elem/B")
    return (
        f"{words.plain(dot.name)}: {rate}, {words.share(dot.share)} of attainable, {intensity}, {time}, "
        f"{words.bound(dot.bound)}"
    )


def swatch(dot: Point, x: float, y: float) -> Iterator[Mark]:
    """The dot as a key in a table."""
    yield from _shape(dot, x, y, 5.0, None)


def _position(dot: Point, plot: Plot) -> tuple[float, float]:
    """Where it is drawn: at the frame's edge when it lies outside."""
    x = plot.across(min(max(dot.intensity or plot.x.low, plot.x.low), plot.x.high))
    y = plot.up(min(max(dot.achieved or plot.y.low, plot.y.low), plot.y.high))
    return x, y


def outside(dot: Point, plot: Plot) -> bool:
    """Whether it is drawn at the edge instead of its place."""
    return not (plot.x.low <= (dot.intensity or 0) <= plot.x.high and plot.y.low <= (dot.achieved or 0) <= plot.y.high)


def _shape(dot: Point, x: float, y: float, r: float, plot: Plot | None) -> Iterator[Mark]:
    corners = _corners(dot, x, y, r)
    if dot.kind == "whole":
        yield Circle(x, y, r, dot.bound, "bg", 1.5)
    else:
        yield Polygon(corners, dot.bound, "bg", 1.5)
    yield from hatch(dot.bound, corners)
    if dot.baseline:
        yield Circle(x, y, r * 0.42, "bg")
    if dot.estimated:
        yield Circle(x, y, r * (1.0 if dot.kind == "whole" else 1.2) + 2.5, None, "mark", 1.2, (3.0, 2.0))
    if plot is not None and dot.low is not None and dot.high is not None:
        yield from _whisker(x, plot.up(dot.low), plot.up(dot.high))
    if plot is not None and outside(dot, plot):
        yield _pointer(dot, x, y, r, plot)


def _pointer(dot: Point, x: float, y: float, r: float, plot: Plot) -> Mark:
    """Towards the place of a dot outside of the frame."""
    dx = _beyond(dot.intensity or 0, plot.x.low, plot.x.high)
    dy = 0 if dx else -_beyond(dot.achieved or 0, plot.y.low, plot.y.high)
    far = r * 1.2 + 4
    tip, base = (x + dx * (far + 6), y + dy * (far + 6)), (x + dx * far, y + dy * far)
    return Polygon((tip, (base[0] - 4 * dy, base[1] - 4 * dx), (base[0] + 4 * dy, base[1] + 4 * dx)), "text-2")


def _beyond(value: float, low: float, high: float) -> int:
    return (value > high) - (value < low)


def _whisker(x: float, low: float, high: float) -> Iterator[Mark]:
    yield Line(x, low, x, high, "mark", 1.5)
    for y in (low, high):
        yield Line(x - 4, y, x + 4, y, "mark", 1.5)


def _corners(dot: Point, x: float, y: float, r: float) -> Corners:
    if dot.kind == "whole":
        turns = [2 * math.pi * k / SIDES for k in range(SIDES)]
        return tuple((x + r * math.cos(t), y + r * math.sin(t)) for t in turns)
    if dot.kind == "line":
        half = r * 0.85
        return (x - half, y - half), (x + half, y - half), (x + half, y + half), (x - half, y + half)
    tip = r * 1.2
    return (x, y - tip), (x + tip, y), (x, y + tip), (x - tip, y)


def hatch(bound: str, corners: Corners) -> Iterator[Mark]:
    """What tells a bound where there is no colour, cut to a convex polygon."""
    for angle, gap in HATCHES.get(bound, ()):
        for start, end in _hatch_lines(corners, math.radians(angle), gap):
            yield Line(*start, *end, "hatch", 1.0, opacity=0.45)
    if bound == "network":
        yield from _hatch_points(corners)


def _hatch_lines(corners: Corners, turn: float, gap: float) -> Iterator[Corners]:
    """Parallel lines cut to a convex polygon, one through its middle."""
    cx, cy = (sum(values) / len(corners) for values in zip(*corners, strict=True))
    ux, uy = math.cos(turn), -math.sin(turn)
    reach = max(math.hypot(x - cx, y - cy) for x, y in corners)
    for k in range(-int(reach / gap), int(reach / gap) + 1):
        px, py = cx - uy * gap * k, cy + ux * gap * k
        cut = _chord(corners, px, py, ux, uy)
        if cut is not None and cut[1] - cut[0] > 1:
            low, high = cut
            yield (px + ux * low, py + uy * low), (px + ux * high, py + uy * high)


def _chord(corners: Corners, px: float, py: float, ux: float, uy: float) -> tuple[float, float] | None:
    """The part of a line that lies in a convex polygon, as distances from a point of it."""
    hits = []
    for (ax, ay), (bx, by) in zip(corners, (*corners[1:], corners[0]), strict=True):
        before, after = (ax - px) * uy - (ay - py) * ux, (bx - px) * uy - (by - py) * ux
        if (before > 0) != (after > 0):
            share = before / (before - after)
            hits.append((ax + share * (bx - ax) - px) * ux + (ay + share * (by - ay) - py) * uy)
    return (min(hits), max(hits)) if len(hits) > 1 else None


def _hatch_points(corners: Corners) -> Iterator[Mark]:
    cx, cy = (sum(values) / len(corners) for values in zip(*corners, strict=True))
    most = int(max(math.hypot(x - cx, y - cy) for x, y in corners) / 4) + 1
    for i in range(-most, most + 1):
        for j in range(-most, most + 1):
            x, y = cx + 4 * i, cy + 4 * j
            cut = _chord(corners, x, y, 1.0, 0.0)
            if cut is not None and cut[0] + 1 < 0 < cut[1] - 1:
                yield Circle(x, y, 0.9, "hatch", opacity=0.5)


def _name(
    number: int, placed: tuple[Point, float, float, float], plot: Plot, boxes: list[Box], lines: Sequence[Box]
) -> Iterator[Mark]:
    """Name and rate beside the dot where there is room, off the roofs if it can be; else its number in the table."""
    dot, x, y, r = placed
    title = shorten(words.plain(dot.name), NAME_WIDTH, 11) + ("  (baseline)" if dot.baseline else "")
    rate = words.estimate(words.quantity(dot.achieved, dot.unit), dot.estimated)
    below = f"{rate}  {words.estimate(words.time(dot.time_ps), dot.estimated)}"
    if dot.exceeds:
        below += "  above its roof !"
    if outside(dot, plot):
        below += "  outside the frame"
    reach = _reach(dot, r) + 4
    best, fewest = None, math.inf
    for dx, dy, anchor in _places(reach):
        rows = (
            Text(x + dx, y + dy - 1, title, 11, "text", anchor, halo=True),
            Text(x + dx, y + dy + 12, below, 11, "bad" if dot.exceeds else "text-3", anchor, halo=True),
        )
        room = [box_of(row) for row in rows]
        crossed = sum(box.overlaps(line) for box in room for line in lines)
        if crossed < fewest and all(_free(box, boxes, plot.box) for box in room):
            best, fewest = rows, crossed
    if best is None:
        yield from _number(number, x, y, reach, plot, boxes)
        return
    boxes += [box_of(row) for row in best]
    yield from best


def _places(reach: float) -> Iterator[tuple[float, float, str]]:
    """Where a name may stand: beside its dot, somewhat higher or lower, then under and above it."""
    for dx, anchor in ((reach, "start"), (-reach, "end")):
        for dy in (0, 9, -9, 17, -17):
            yield dx, dy, anchor
    for dy in (reach + 10, -reach - 14):
        yield 0, dy, "middle"
    for dx, anchor in ((reach, "start"), (-reach, "end")):
        for dy in (26, -26, 36, -36):
            yield dx, dy, anchor


def _number(number: int, x: float, y: float, reach: float, plot: Plot, boxes: list[Box]) -> Iterator[Mark]:
    """The dot's row in the table: beside it, or over it when nothing else is free."""
    sides = ((reach - 2, 3.5, "start"), (2 - reach, 3.5, "end"), (0, -reach, "middle"), (0, reach + 8, "middle"))
    for dx, dy, anchor in sides:
        tag = Text(x + dx, y + dy, str(number), 10, "text", anchor, bold=True, halo=True)
        if _free(box_of(tag), boxes, plot.box):
            break
    else:
        tag = Text(x, y + 3.5, str(number), 10, "text", "middle", bold=True, halo=True)
    boxes.append(box_of(tag))
    yield tag


def _free(box: Box, boxes: Sequence[Box], frame: Box) -> bool:
    return box.inside(frame) and not any(box.overlaps(other) for other in boxes)


def _along(curve: Curve) -> Iterator[Box]:
    """Small boxes along a curve."""
    for k in range(21):
        t = k / 20
        a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t * t
        x, y = a * curve.x0 + b * curve.cx + c * curve.x1, a * curve.y0 + b * curve.cy + c * curve.y1
        yield Box(x - 3, y - 3, x + 3, y + 3)


def _arrow(
    start: tuple[float, float, float],
    end: tuple[float, float, float],
    label: str,
    plot: Plot,
    boxes: list[Box],
    lines: Sequence[Box],
) -> Iterator[Mark]:
    (x0, y0, r0), (x1, y1, r1) = start, end
    length = math.hypot(x1 - x0, y1 - y0)
    if length < r0 + r1 + 12:
        return
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    bend = 0.12 * length
    cx, cy = (x0 + x1) / 2 - uy * bend, (y0 + y1) / 2 + ux * bend
    curve = Curve(x0 + ux * (r0 + 3), y0 + uy * (r0 + 3), cx, cy, x1 - ux * (r1 + 5), y1 - uy * (r1 + 5), "text-2")
    yield curve
    boxes += _along(curve)
    for clear in (lines, ()):
        for dy in (16, 30, -8, 44, -22, 58):
            text = Text(cx, cy + dy, label, 11, "text", "middle", halo=True)
            if _free(box_of(text), (*boxes, *clear), plot.box):
                boxes.append(box_of(text))
                yield text
                return
