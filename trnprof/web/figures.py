"""The roofline as a Plotly figure in the page's own colours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import plotly.graph_objects as go

from trnprof.view import format as words
from trnprof.view.palette import THEME_COLOURS
from trnprof.view.records import Dot

if TYPE_CHECKING:
    from trnprof.roofline import Ceiling, Chart, Point

TERA = 1e12
FONT = '-apple-system, "Segoe UI", Inter, Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif'

_DASHES = {
    "tensor.sparse": "2px 6px",
    "tensor.fp8": "7px 3px",
    "tensor.mx": "4px 3px",
    "dma": "7px 3px",
    "link": "2px 6px",
}
_CHARACTER = 6.1
"""Width of a label's character, px, for keeping labels apart."""

_LINE = 14

_CLOSE = 1.6
_NAME_DECADES, _NEXT_NAME = 0.8, 0.15
"""Where the name of a slope may first stand, decades right of its foot, and how much further it is tried next."""

_TRIES = 30

_APART = 13.0
"""Names keep this far from each other and from the middles of dots, px."""

_SMALL_WIDTH = 560


@dataclass(frozen=True, slots=True)
class Plane:
    """The drawing area in pixels, and where values lie on it."""

    chart: Chart
    width: int
    height: int
    small: bool

    @property
    def margin(self) -> dict[str, int]:
        return (
            {"l": 40, "r": 12, "t": 8, "b": 34, "pad": 0}
            if self.small
            else {"l": 64, "r": 170, "t": 22, "b": 50, "pad": 0}
        )

    @property
    def inner(self) -> tuple[float, float]:
        m = self.margin
        return max(50.0, self.width - m["l"] - m["r"]), max(50.0, self.height - m["t"] - m["b"])

    def x(self, value: float) -> float:
        axis = self.chart.x
        return math.log(value / axis.low) / math.log(axis.high / axis.low) * self.inner[0]

    def y(self, value: float) -> float:
        axis = self.chart.y
        return (1 - math.log(value / axis.low) / math.log(axis.high / axis.low)) * self.inner[1]

    @property
    def decades(self) -> tuple[float, float]:
        """Pixels of a factor of ten, across and up."""
        x, y = self.chart.x, self.chart.y
        return self.inner[0] / math.log10(x.high / x.low), self.inner[1] / math.log10(y.high / y.low)

    @property
    def slope(self) -> float:
        """Angle of a line of constant bandwidth, degrees; up is negative."""
        across, up = self.decades
        return -math.degrees(math.atan2(up, across))


def roofline(
    chart: Chart, dots: tuple[Dot, ...], theme: str, size: tuple[int, int], chosen: Dot | None = None
) -> go.Figure:
    """The chart with its dots; `customdata` of a dot is what a click selects: [t0, t1, name, region].

    dots : `chart.dots` in words, in the same order
    size : of the figure, px
    """
    colours = THEME_COLOURS[theme]
    plane = Plane(chart, *size, small=size[0] < _SMALL_WIDTH)
    figure = go.Figure()
    shown = [c for c in chart.ceilings if c.id in chart.main or not plane.small or c.id in ("tensor.bf16", "hbm")]
    taken = [(plane.x(p.intensity), plane.y(p.achieved), _dot_size(chart, p) / 2) for p in chart.dots]
    for ceiling in shown:
        _draw_ceiling(figure, plane, ceiling, colours)
        if ceiling.kind != "compute":
            _name_slope(figure, plane, ceiling, colours, taken)
    _name_roofs(figure, plane, [c for c in shown if c.kind == "compute"], colours)
    _draw_ridge(figure, plane, colours)
    _draw_dots(figure, plane, dots[: len(chart.dots)], colours)
    if chosen is not None:
        _draw_chosen(figure, chart, chosen, colours)
    _lay_out(figure, plane, colours)
    return figure


def _draw_ceiling(figure: go.Figure, plane: Plane, ceiling: Ceiling, colours: dict[str, str]) -> None:
    chart = plane.chart
    main = ceiling.id in chart.main
    if ceiling.kind == "compute":
        fastest = max((c.value for c in chart.ceilings if c.kind == "memory"), default=ceiling.value / chart.x.low)
        xs, ys = [max(chart.x.low, ceiling.value / fastest), chart.x.high], [ceiling.value] * 2
        colour = colours["compute"]
    else:
        top = max((c.value for c in chart.ceilings if c.kind == "compute"), default=chart.y.high)
        xs = [max(chart.x.low, chart.y.low / ceiling.value), min(chart.x.high, top / ceiling.value)]
        ys = [x * ceiling.value for x in xs]
        colour = colours["memory_bandwidth"]
    line = {"color": colour, "width": 2 if main else 1.2, "dash": "solid" if main else _DASHES.get(ceiling.id, "solid")}
    rate = words.quantity(ceiling.value, ceiling.unit)
    figure.add_scatter(
        x=xs,
        y=[y / TERA for y in ys],
        mode="lines",
        line=line,
        hoverinfo="text",
        showlegend=False,
        text=f"{ceiling.name} {rate}<br>{ceiling.basis}",
        name=ceiling.name,
    )


def _name_roofs(figure: go.Figure, plane: Plane, roofs: list[Ceiling], colours: dict[str, str]) -> None:
    """Names at the right end: equal roofs share one, neighbours are pushed apart."""
    heights: dict[float, list[Ceiling]] = {}
    for roof in sorted(roofs, key=lambda c: -c.value):
        heights.setdefault(round(roof.value, -9), []).append(roof)
    lowest = -math.inf
    for same in heights.values():
        names = ", ".join(dict.fromkeys((same[0].name, *(roof.name.removeprefix("TensorE ") for roof in same[1:]))))
        y = plane.y(same[0].value)
        place = y if plane.small else max(y, lowest + _LINE)
        lowest = place
        _name_roof(figure, plane, names, same[0].value, y - place, colours)


def _name_roof(
    figure: go.Figure, plane: Plane, names: str, value: float, shift: float, colours: dict[str, str]
) -> None:
    y, rate = math.log10(value / TERA), words.digits(value / TERA)
    common = {"y": y, "showarrow": False, "x": 1, "xref": "paper"}
    if plane.small:
        ink = {"color": colours["text-2"], "size": 11}
        text = f"{names.removeprefix('TensorE ')} {rate}"
        figure.add_annotation(text=text, xanchor="right", yanchor="bottom", font=ink, **common)
    else:
        ink = {"color": colours["text"], "size": 11}
        figure.add_annotation(
            text=f"{names}  {rate}", xanchor="left", xshift=8, yanchor="middle", yshift=shift, font=ink, **common
        )


def _name_slope(
    figure: go.Figure,
    plane: Plane,
    ceiling: Ceiling,
    colours: dict[str, str],
    taken: list[tuple[float, float, float]],
) -> None:
    """Along the slope near its foot, where it is free of dots and names; below it where a faster memory is close.

    taken : middles and radii, px, of what must be kept clear of; the name is added
    """
    faster = [c.value for c in plane.chart.ceilings if c.kind != "compute" and c.value > ceiling.value]
    under = bool(faster) and min(faster) < _CLOSE * ceiling.value
    foot = max(plane.chart.x.low, plane.chart.y.low / ceiling.value)
    text = f"{ceiling.name} {words.quantity(ceiling.value, ceiling.unit)}"
    tries = [foot * 10 ** (_NAME_DECADES + _NEXT_NAME * k) for k in range(_TRIES)]
    places = [(x, _along(plane, x, ceiling.value, len(text) * _CHARACTER, under)) for x in tries]
    free = [(x, points) for x, points in places if _clear(plane, points, taken)]
    x, points = free[0] if free else places[0]
    taken += [(*point, 0.0) for point in points]
    figure.add_annotation(
        text=text,
        x=math.log10(x),
        y=math.log10(x * ceiling.value / TERA),
        showarrow=False,
        textangle=plane.slope,
        yshift=-10 if under else 10,
        xshift=5 if under else -5,
        font={"color": colours["text-2"], "size": 11},
    )


def _along(plane: Plane, x: float, value: float, length: float, under: bool) -> list[tuple[float, float]]:
    """Points on a name that stands in the middle at an intensity, px."""
    turn = math.radians(plane.slope)
    side = 1 if under else -1
    cx, cy = plane.x(x) + 5 * side, plane.y(x * value) + 10 * side
    steps = max(2, round(length / 8))
    return [
        (cx + d * math.cos(turn), cy + d * math.sin(turn))
        for d in (length * (k / steps - 0.5) for k in range(steps + 1))
    ]


def _clear(plane: Plane, points: list[tuple[float, float]], taken: list[tuple[float, float, float]]) -> bool:
    width, height = plane.inner
    inside = all(0 <= x <= width and 0 <= y <= height for x, y in points)
    return inside and all(math.hypot(x - a, y - b) > _APART + r for x, y in points for a, b, r in taken)


def _draw_ridge(figure: go.Figure, plane: Plane, colours: dict[str, str]) -> None:
    chart = plane.chart
    if not chart.ridges or plane.small:
        return
    ridge = chart.ridges[0]
    figure.add_scatter(
        x=[ridge.intensity] * 2,
        y=[chart.y.low / TERA, ridge.value / TERA],
        mode="lines",
        hoverinfo="skip",
        line={"color": colours["text-3"], "width": 1, "dash": "2px 4px"},
        showlegend=False,
    )
    figure.add_annotation(
        text=f"ridge {words.intensity(ridge.intensity)}",
        x=math.log10(ridge.intensity),
        y=0,
        yref="paper",
        xanchor="left",
        yanchor="bottom",
        xshift=4,
        yshift=4,
        showarrow=False,
        font={"color": colours["text-3"], "size": 11},
    )


def _dot_size(chart: Chart, point: Point) -> float:
    """Width of a dot, px."""
    longest = max(each.time_ps for each in chart.dots)
    return max(9.0, 26 * math.sqrt(point.time_ps / longest))


def _draw_dots(figure: go.Figure, plane: Plane, dots: tuple[Dot, ...], colours: dict[str, str]) -> None:
    points = plane.chart.dots
    if not points:
        return
    sizes = [_dot_size(plane.chart, point) for point in points]
    fills = [colours[p.bound] for p in points]
    edges = ["rgba(0,0,0,0)" if p.estimated else colours["bg"] for p in points]
    spread = [max(0.0, ((p.high or p.achieved or 0) - (p.achieved or 0)) / TERA) for p in points]
    below = [max(0.0, ((p.achieved or 0) - (p.low or p.achieved or 0)) / TERA) for p in points]
    figure.add_scatter(
        x=[p.intensity for p in points],
        y=[p.achieved / TERA for p in points],
        mode="markers",
        marker={
            "size": sizes,
            "color": fills,
            "opacity": 1,
            "line": {"color": edges, "width": 1.6},
            "symbol": ["circle" if p.kind == "whole" else "diamond" for p in points],
        },
        error_y={"array": spread, "arrayminus": below, "color": colours["mark"], "visible": any(spread) or any(below)},
        customdata=[[d.t0_ps, d.t1_ps, d.name, d.region] for d in dots],
        hovertext=[_hover(dot) for dot in dots],
        hoverinfo="text",
        showlegend=False,
        name="dots",
    )
    for point, size in zip(points, sizes, strict=True):
        if point.estimated:
            _frame_estimate(figure, plane, point, size, colours)
    _name_dots(figure, plane, dots, sizes, colours)


def _frame_estimate(figure: go.Figure, plane: Plane, point: Point, size: float, colours: dict[str, str]) -> None:
    """A dashed ring: markers have no dashes, shapes do."""
    reach = size / 2 + 4
    across, up = (10 ** (reach / decade) for decade in plane.decades)
    figure.add_shape(
        type="circle",
        x0=point.intensity / across,
        x1=point.intensity * across,
        y0=point.achieved / TERA / up,
        y1=point.achieved / TERA * up,
        line={"color": colours["mark"], "width": 1.5, "dash": "3px 2px"},
    )


def _hover(dot: Dot) -> str:
    lines = [f"<b>{_escape(dot.name)}</b>", f"{dot.performance}, {dot.roof_share} of {_escape(dot.roof)}"]
    return "<br>".join([*lines, f"{dot.intensity} FLOP/B, {dot.time}", dot.bound_words])


def _escape(text: str) -> str:
    """Plotly reads a little markup in labels; a name has none."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _name_dots(
    figure: go.Figure,
    plane: Plane,
    dots: tuple[Dot, ...],
    sizes: list[float],
    colours: dict[str, str],
) -> None:
    """Names beside their dots; one that would collide moves down, then is left to the table."""
    points = plane.chart.dots
    taken = [_box(plane.x(p.intensity), plane.y(p.achieved), s, s) for p, s in zip(points, sizes, strict=True)]
    for point, dot, size in zip(points, dots, sizes, strict=True):
        text = words.plain(dot.name, 28)
        left, home = plane.x(point.intensity) + size / 2 + 4, plane.y(point.achieved)
        width = _CHARACTER * (len(text) if plane.small else len(text) + len(dot.performance) + len(dot.time) + 4)
        spots = (_box(left + width / 2, home + k * _LINE, width, _LINE) for k in (0, 1, 2, -1, 3, -2))
        spot = next((s for s in spots if not any(_overlap(s, t) for t in taken if not _own(t, point, plane))), None)
        if spot is None or left + width > plane.width - plane.margin["l"]:
            continue
        taken.append(spot)
        detail = f"  <span style='color:{colours['text-3']}'>{dot.performance}  {dot.time}</span>"
        figure.add_annotation(
            x=math.log10(point.intensity),
            y=math.log10(point.achieved / TERA),
            xanchor="left",
            yanchor="middle",
            xshift=size / 2 + 4,
            yshift=home - (spot[2] + spot[3]) / 2,
            showarrow=False,
            align="left",
            text=_escape(text) + ("" if plane.small else detail),
            font={"color": colours["text"], "size": 11},
        )


Box = tuple[float, float, float, float]
"""Left, right, top, bottom; px of the drawing area."""


def _box(x: float, y: float, width: float, height: float) -> Box:
    return x - width / 2, x + width / 2, y - height / 2, y + height / 2


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[1] and a[1] > b[0] and a[2] < b[3] - 1 and a[3] - 1 > b[2]


def _own(box: Box, point: Point, plane: Plane) -> bool:
    """Whether the box is the point's own dot, beside which its name stands."""
    return (
        abs((box[0] + box[1]) / 2 - plane.x(point.intensity)) < 1
        and abs((box[2] + box[3]) / 2 - plane.y(point.achieved)) < 1
    )


def _draw_chosen(figure: go.Figure, chart: Chart, dot: Dot, colours: dict[str, str]) -> None:
    """A ring around what is selected in the timeline."""
    point = next((p for p in chart.dots if (p.start_ps, p.end_ps) == (dot.t0_ps, dot.t1_ps)), None)
    if point is None:
        return
    figure.add_scatter(
        x=[point.intensity],
        y=[point.achieved / TERA],
        mode="markers",
        hoverinfo="skip",
        showlegend=False,
        marker={"size": 34, "color": "rgba(0,0,0,0)", "line": {"color": colours["select"], "width": 2}},
    )


def _lay_out(figure: go.Figure, plane: Plane, colours: dict[str, str]) -> None:
    chart = plane.chart
    axis = {
        "type": "log",
        "gridcolor": colours["line"],
        "zeroline": False,
        "linecolor": colours["line"],
        "fixedrange": True,
        "dtick": 1,
        "tickfont": {"color": colours["text-3"], "size": 11},
        "title_font": {"color": colours["text-3"], "size": 11},
        "exponentformat": "none",
        "tickformat": ",~g",
    }
    title = (
        chart.y.title.replace("FLOP/s", "TFLOP/s") if "operations" not in chart.y.title else "Tera-operations a second"
    )
    figure.update_layout(
        width=plane.width,
        height=plane.height,
        margin=plane.margin,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "size": 11, "color": colours["text-2"]},
        hoverlabel={
            "bgcolor": colours["raised"],
            "bordercolor": colours["line-2"],
            "font": {"color": colours["text"], "size": 12},
        },
        xaxis={
            **axis,
            "range": [math.log10(chart.x.low), math.log10(chart.x.high)],
            "title": {"text": "FLOP / HBM byte" if plane.small else chart.x.title, "standoff": 4},
        },
        yaxis={
            **axis,
            "range": [math.log10(chart.y.low / TERA), math.log10(chart.y.high / TERA)],
            "title": {"text": "" if plane.small else title, "standoff": 6},
        },
        dragmode=False,
        clickmode="event",
    )
