"""The roofline in braille: roofs and slopes as dots, regions as characters, the machine's own axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trnprof.tui import cells, ink
from trnprof.tui.canvas import Canvas, clipped, width_of
from trnprof.view import format as words
from trnprof.view.palette import BOUNDS
from trnprof.view.records import Dot

if TYPE_CHECKING:
    from trnprof.roofline import Ceiling, Chart, Point

STRONG = ink.TEXT | ink.BOLD
COMPUTE, BANDWIDTH, NETWORK = (ink.BOUND + BOUNDS.index(name) for name in ("compute", "memory_bandwidth", "network"))
INKS = {"compute": COMPUTE, "memory": BANDWIDTH, "network": NETWORK}
LEFT = 7
"""Cells for the values of the upright axis."""


@dataclass(frozen=True, slots=True)
class Plot:
    """The area between the axes, in cells, and its scales."""

    canvas: Canvas
    chart: Chart
    x: int
    y: int
    width: int
    height: int
    right: int
    """Column of the canvas after the last one that belongs to the chart, names included."""

    def across(self, intensity: float) -> float:
        """Position in cells from the left."""
        return _share(intensity, self.chart.x.low, self.chart.x.high) * self.width

    def down(self, value: float) -> float:
        """Position in cells from the top."""
        return (1 - _share(value, self.chart.y.low, self.chart.y.high)) * self.height

    def value(self, row: int) -> float:
        """The performance in the middle of a line."""
        low, high = math.log(self.chart.y.low), math.log(self.chart.y.high)
        return math.exp(low + (1 - (row + 0.5) / self.height) * (high - low))

    def free(self, column: int, row: int, length: int) -> bool:
        """Whether nothing but lines is where a label would go."""
        if not 0 <= row < self.height or column < 0 or column + length > self.right - self.x:
            return False
        there = self.canvas.chars[self.y + row, self.x + column : self.x + column + length]
        return bool(((there == ord(" ")) | ((there >= cells.BRAILLE) & (there < cells.BRAILLE + 256))).all())


def _share(value: float, low: float, high: float) -> float:
    return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))


def draw(canvas: Canvas, chart: Chart, box: tuple[int, int, int, int], chosen: int = -1, names: int = 16) -> None:
    """The chart in a box of x, y, width, height.

    chosen : the dot under the cursor, -1 for none
    names  : cells for the names of the roofs at the right; 0 puts them on the roofs
    """
    x, y, width, height = box
    plot = Plot(canvas, chart, x + LEFT, y, width - LEFT - names, height - 2, x + width)
    if plot.width < 16 or plot.height < 4:
        canvas.put(x, y, "no room for the roofline", ink.DIM)
        return
    _axes(plot)
    slopes = [c for c in chart.ceilings if c.kind != "compute"]
    for ceiling in slopes:
        _slope(plot, ceiling)
    for ceiling in chart.ceilings:
        if ceiling.kind == "compute":
            _roof(plot, ceiling, slopes)
    _roof_names(plot, names)
    for ceiling in slopes:
        _slope_name(plot, ceiling)
    _dots(plot, chosen)


def _axes(plot: Plot) -> None:
    canvas, chart = plot.canvas, plot.chart
    for row in range(plot.height):
        canvas.put(plot.x - 1, plot.y + row, "│", ink.DIM)
    canvas.put(plot.x - 1, plot.y + plot.height, "└" + "─" * plot.width, ink.DIM)
    taken = -9
    for power in range(math.ceil(math.log10(chart.x.low)), math.floor(math.log10(chart.x.high)) + 1):
        text = words.digits(10.0**power)
        column = int(plot.across(10.0**power))
        if column - taken > 7 and column < plot.width:
            canvas.put(plot.x + column, plot.y + plot.height, "┬", ink.DIM)
            canvas.put(plot.x + column - width_of(text) // 2, plot.y + plot.height + 1, text, ink.DIM)
            taken = column
    canvas.put_right(
        plot.x + plot.width, plot.y + plot.height + 1, "FLOP/B" if taken < plot.width - 12 else "", ink.DIM
    )
    for power in range(math.ceil(math.log10(chart.y.low)), math.floor(math.log10(chart.y.high)) + 1):
        row = int(plot.down(10.0**power))
        if 0 <= row < plot.height:
            canvas.put(plot.x - 1, plot.y + row, "┤", ink.DIM)
            canvas.put_right(
                plot.x - 2, plot.y + row, _short(10.0**power).replace(".00", "").replace(".0", ""), ink.DIM
            )


def _short(value: float) -> str:
    """`100 T`: the number and the prefix of its unit."""
    number, _, unit = words.flops(value).partition(words.NARROW)
    return f"{number}{unit[:1].removesuffix('F')}"


def _stipple(plot: Plot, across: np.ndarray, down: np.ndarray, code: int) -> None:
    """Braille dots at positions in half and quarter cells."""
    inside = (across >= 0) & (across < plot.width * 2) & (down >= 0) & (down < plot.height * 4)
    for half, quarter in zip(across[inside].tolist(), down[inside].tolist(), strict=True):
        row, column = plot.y + quarter // 4, plot.x + half // 2
        there = int(plot.canvas.chars[row, column])
        bits = there - cells.BRAILLE if cells.BRAILLE <= there < cells.BRAILLE + 256 else 0
        plot.canvas.chars[row, column] = cells.BRAILLE + (bits | int(cells.LANE_BITS[quarter % 4, half % 2]))
        plot.canvas.inks[row, column] = code


def _slope(plot: Plot, ceiling: Ceiling) -> None:
    """A bandwidth: dotted where it is not what the trace is measured against."""
    top = max((c.value for c in plot.chart.ceilings if c.kind == "compute"), default=plot.chart.y.high)
    low, high = math.log(plot.chart.x.low), math.log(plot.chart.x.high)
    half = np.arange(plot.width * 8) / 4
    value = np.exp(low + half / (plot.width * 2) * (high - low)) * ceiling.value
    keep = value <= min(top, plot.chart.y.high)
    if ceiling.id not in plot.chart.main:
        keep &= half.astype(int) % 3 == 0
    span = math.log(plot.chart.y.high) - math.log(plot.chart.y.low)
    down = (1 - (np.log(value) - math.log(plot.chart.y.low)) / span) * plot.height * 4
    _stipple(plot, half[keep].astype(int), np.floor(down[keep]).astype(int), INKS[ceiling.kind])


def _roof(plot: Plot, ceiling: Ceiling, slopes: Sequence[Ceiling]) -> None:
    """A compute roof, from where the fastest memory reaches it."""
    fastest = max((c.value for c in slopes if c.kind == "memory"), default=None)
    begin = int(plot.across(ceiling.value / fastest) * 2) if fastest else 0
    half = np.arange(max(begin, 0), plot.width * 2)
    if ceiling.id not in plot.chart.main:
        half = half[half % 2 == 0]
    down = np.full(half.size, int(plot.down(ceiling.value) * 4))
    _stipple(plot, half, down, COMPUTE)


def _roof_names(plot: Plot, room: int) -> None:
    """At the right end of each roof; one that finds its row taken goes to the next, and the last give way."""
    taken: set[int] = set()
    roofs = [c for c in plot.chart.ceilings if c.kind == "compute"]
    for ceiling in sorted(roofs, key=lambda c: c.id not in plot.chart.main):
        wanted = int(plot.down(ceiling.value)) - (0 if room else 1)
        row = next((r for r in (wanted, wanted + 1, wanted - 1) if 0 <= r < plot.height and r not in taken), None)
        if row is None:
            continue
        name = ceiling.name.removeprefix("TensorE ")
        text = f"{name} {_short(ceiling.value)}"
        if room and width_of(text) >= room:
            text = clipped(name, room - 1)
        if room:
            taken.add(row)
            plot.canvas.put(plot.x + plot.width + 1, plot.y + row, text, COMPUTE)
        elif plot.free(plot.width - width_of(text), row, width_of(text)):
            taken.add(row)
            plot.canvas.put_right(plot.x + plot.width, plot.y + row, text, COMPUTE)


def _slope_name(plot: Plot, ceiling: Ceiling) -> None:
    """Beside its line where the plot is empty: low and to the right, else to the left."""
    text = f"{ceiling.name} {words.rate(ceiling.value)}"
    length = width_of(text)
    line = {row: int(plot.across(plot.value(row) / ceiling.value)) for row in range(plot.height - 2, 0, -1)}
    top = max((c.value for c in plot.chart.ceilings if c.kind == "compute"), default=plot.chart.y.high)
    rows = [row for row in line if plot.value(row) < top]
    low = [row for row in rows if row > plot.height // 2]
    places = [(line[row] + 3, row) for row in low]
    places += [(line[row] - length - 2, row) for row in sorted(rows, reverse=True)]
    places += [(line[row] + 3, row) for row in rows]
    for column, row in places:
        there = plot.canvas.chars[plot.y + row, max(plot.x, plot.x + column) : plot.x + column + length]
        if column > 0 and plot.free(column, row, length) and (there == ord(" ")).all():
            plot.canvas.put(plot.x + column, plot.y + row, text, INKS[ceiling.kind])
            return


def glyph(point: Point) -> str:
    """Filled for what was captured, open for an estimate; round for the whole, square for a part."""
    if point.kind == "whole":
        return "○" if point.estimated else "●"
    return "◇" if point.estimated else "◆"


def _dots(plot: Plot, chosen: int) -> None:
    """Every dot, the first ones on top; names where there is a free place, else in the table only."""
    places = []
    for k, point in enumerate(plot.chart.dots):
        column = min(max(int(plot.across(point.intensity)), 0), plot.width - 1)
        row = min(max(int(plot.down(point.achieved)), 0), plot.height - 1)
        places.append((k, point, column, row))
    for k, point, column, row in reversed(places):
        code = ink.BOUND + BOUNDS.index(point.bound)
        code |= ink.REVERSE if k == chosen else ink.BOLD
        plot.canvas.put(plot.x + column, plot.y + row, glyph(point), code)
    for k, point, column, row in sorted(places, key=lambda place: (place[0] != chosen, place[0])):
        _name(plot, point, column, row, STRONG if k == chosen else ink.TEXT)


def _name(plot: Plot, point: Point, column: int, row: int, code: int) -> None:
    value = words.estimate(_short(point.achieved), point.estimated)
    text = f" {clipped(point.name, 24)} {value} "
    length = width_of(text)
    right, left = column + 1, column - length
    for at, line in ((right, row), (left, row), (right, row - 1), (right, row + 1), (left, row - 1), (left, row + 1)):
        if at >= 0 and plot.free(at, line, length):
            plot.canvas.put(plot.x + at, plot.y + line, text, code)
            return


def _table_line(dot: Dot, room: int, width: int) -> str:
    """A dot as a line of the table; one without a place says why."""
    name = clipped(dot.name if dot.kind == "whole" else f"  {dot.name}", room - 1)
    numbers = f"{dot.intensity:>9}{dot.performance:>15}{dot.roof_share:>9}{dot.time:>12}"
    text = f"{name:<{room}}{numbers}   {dot.bound_words}"
    why = f"  ({dot.missing})" if dot.missing else ""
    return text + why if width_of(text + why) <= width else text


def screen(canvas: Canvas, chart: Chart, dots: Sequence[Dot], chosen: int, top: int) -> None:
    """The whole page from line `top` on: title, chart, table and keys."""
    x = canvas.put(1, top, "Roofline", STRONG)
    x = canvas.put(x + 2, top, clipped(chart.title, max(10, canvas.width - 60)), ink.TEXT)
    canvas.put(x + 2, top, f"{chart.y.unit} over {chart.x.unit}, axes fixed by the machine", ink.DIM)
    rows = max(3, min(len(dots) + 1, (canvas.height - top) // 3))
    tall = canvas.height - top - rows - 4
    draw(canvas, chart, (1, top + 1, canvas.width - 2, tall), chosen, names=18 if canvas.width >= 100 else 12)
    _table(canvas, dots, chosen, top + tall + 2, rows)
    x = 1
    for key, what in (("Tab", "next dot"), ("Enter", "show in timeline"), ("e", "save SVG"), ("Esc", "back")):
        x = canvas.put(x, canvas.height - 1, key, ink.ACCENT)
        x = canvas.put(x + 1, canvas.height - 1, what, ink.DIM) + 2
    left = len(dots) - (rows - 1)
    if left > 0:
        canvas.put_right(canvas.width - 1, canvas.height - 1, f"{words.count(left)} more", ink.DIM)


def _table(canvas: Canvas, dots: Sequence[Dot], chosen: int, y: int, rows: int) -> None:
    room = 18 if canvas.width < 100 else 26
    head = f"{'region':<{room}}{'FLOP/B':>9}{'performance':>15}{'of roof':>9}{'time':>12}   bound"
    canvas.put(1, y, head, ink.DIM)
    first = min(max(0, chosen - (rows - 2)), max(0, len(dots) - (rows - 1)))
    for line, k in enumerate(range(first, min(first + rows - 1, len(dots))), y + 1):
        plain = ink.MARK if dots[k].estimated else ink.TEXT
        canvas.put(
            1, line, _table_line(dots[k], room, canvas.width - 2), (ink.ACCENT | ink.REVERSE) if k == chosen else plain
        )


def brief(canvas: Canvas, chart: Chart, x: int, y: int, width: int, height: int) -> None:
    """The chart in a panel, without room for a table."""
    draw(canvas, chart, (x, y, width, height), names=14 if width >= 90 else 0)
