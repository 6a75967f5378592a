"""The roofline as a page: title, verdict, plot, table of dots, caption."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trnprof import words
from trnprof.report.dots import draw_dots, rooms, swatch
from trnprof.report.frame import Plot, draw_axes, draw_roofs, lines_of
from trnprof.report.scene import Line, Mark, Scene, Text, shorten, wrap

if TYPE_CHECKING:
    from trnprof.roofline import Chart, Point

WIDTH = 1120.0
MARGIN = 28.0
PLOT_HEIGHT = 500.0
RIGHT_ROOM = 190.0
LEFT_ROOM = 66.0
ROW = 20.0
READING_WIDTH = 900.0

COLUMNS = (
    ("", 16.0, "end"),
    ("dot", 44.0, "start"),
    ("intensity", 500.0, "end"),
    ("reached", 620.0, "end"),
    ("of attainable", 730.0, "end"),
    ("HBM bytes", 830.0, "end"),
    ("time", 930.0, "end"),
    ("bound", 950.0, "start"),
)
"""Heading, place from the margin, and anchor."""


def lay_out(chart: Chart, table: bool = True, title: bool = True, height: float = PLOT_HEIGHT) -> Scene:
    """The whole picture of a chart.

    table  : with the numbers of every dot below the plot
    title  : with the title and the verdict above it
    height : of the plot, px
    """
    marks: list[Mark] = []
    y = MARGIN + 18 if title else 0.0
    if title:
        marks.append(Text(MARGIN, y, shorten(chart.title, WIDTH - 2 * MARGIN, 19, True), 19, "text", bold=True))
        for line in wrap(chart.subtitle, READING_WIDTH, 13):
            y += 20
            marks.append(Text(MARGIN, y, line, 13, "text-2"))
    plot = Plot(MARGIN + LEFT_ROOM, y + 26, WIDTH - MARGIN - RIGHT_ROOM, y + 26 + height, chart.x, chart.y)
    roofs, taken = draw_roofs(chart, plot, rooms(chart, plot))
    marks += [*draw_axes(plot), *roofs, *draw_dots(chart, plot, taken, lines_of(roofs))]
    y = plot.bottom + 72
    if table:
        rows, y = _table(chart, y)
        marks += rows
        y += 12
    for sentence in _below(chart) if table else [_caption(chart)]:
        for line in wrap(sentence, WIDTH - 2 * MARGIN, 11):
            y += 16
            marks.append(Text(MARGIN, y, line, 11, "text-3"))
    return Scene(WIDTH, y + MARGIN, label(chart), tuple(marks))


def label(chart: Chart) -> str:
    """What the picture shows, in words."""
    count = len(chart.dots)
    return f"Roofline: {chart.title}; {count} dot{'' if count == 1 else 's'}, also in the table. {chart.subtitle}"


def cells(dot: Point) -> tuple[str, ...]:
    """A dot as the words of a table row: name, intensity, rate, share, bytes, time, bound."""
    estimated = dot.estimated
    return (
        words.plain(dot.name) + (" (baseline)" if dot.baseline else ""),
        words.quantity(dot.intensity, "FLOP/B" if dot.unit == "FLOP/s" else "elem/B"),
        words.estimate(words.quantity(dot.achieved, dot.unit), estimated),
        words.estimate(words.share(dot.share), estimated),
        words.size(dot.hbm_bytes),
        words.estimate(words.time(dot.time_ps), estimated),
        words.bound_name(dot.bound),
    )


def without_sentence(chart: Chart) -> str | None:
    """Regions that have no dot, grouped by the reason."""
    reasons: dict[str, list[str]] = {}
    for dot in chart.without:
        reasons.setdefault(dot.missing or "", []).append(words.plain(dot.name, 40))
    parts = [f"{_some(names)} ({reason})" for reason, names in reasons.items()]
    return f"Without a dot: {'; '.join(parts)}." if parts else None


def _some(names: list[str], most: int = 6) -> str:
    rest = len(names) - most
    return words.listing([*names[:most], f"{rest} more"] if rest > 0 else names)


def _below(chart: Chart) -> Iterator[str]:
    missing = without_sentence(chart)
    if missing:
        yield missing
    yield _caption(chart)


def _caption(chart: Chart) -> str:
    return ". ".join(chart.caption) + "."


def _table(chart: Chart, y: float) -> tuple[list[Mark], float]:
    marks: list[Mark] = [
        Text(MARGIN + place, y, heading, 11, "text-3", anchor) for heading, place, anchor in COLUMNS if heading
    ]
    y += 6
    for number, dot in enumerate(chart.dots, start=1):
        marks.append(Line(MARGIN, y, WIDTH - MARGIN, y, "line"))
        y += ROW
        marks.append(Text(MARGIN + 16, y - 6, str(number), 11, "text-3", "end"))
        marks += swatch(dot, MARGIN + 30, y - 10)
        name, *rest = cells(dot)
        marks.append(Text(MARGIN + 44, y - 6, shorten(name, 370, 12), 12, "text"))
        for text, (_, place, anchor) in zip(rest, COLUMNS[2:], strict=True):
            marks.append(Text(MARGIN + place, y - 6, text, 12, "text" if anchor == "end" else "text-2", anchor))
    marks.append(Line(MARGIN, y, WIDTH - MARGIN, y, "line"))
    return marks, y
