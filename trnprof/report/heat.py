"""Maps of what bounds the points of a sweep over two of its axes; a heavy line stands where the bound turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trnprof.report.dots import hatch
from trnprof.report.front import describe
from trnprof.report.scene import Group, Line, Mark, Polygon, Scene, Text, measure, shorten
from trnprof.view import format as words
from trnprof.view import sweeps as said
from trnprof.view.palette import BOUND_GLYPHS, BOUNDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trnprof.sweep.record import Result, Swept
    from trnprof.view.sweeps import Map, Maps

WIDTH = 1120.0
LEFT, RIGHT = 28.0, 16.0
WIDEST, NARROWEST = 118.0, 5.0
"""Of a cell, px."""
LEGIBLE, TIMED = 76.0, 56.0
"""Widths from which on a cell has words, or its time alone."""
HEIGHT = 38.0
STRIP = 11.0
"""The part of a cell in full colour and hatch."""
GAP = 34.0
"""Between two maps."""
MAPS = 24
"""Maps on a page; the others are counted."""


def draw(swept: Swept, found: Maps, keys: Mapping[int, int]) -> Scene:
    """The maps, as many beside each other as there is room."""
    gutter = max([44.0, *(measure(row, 11) + 14 for row in found.rows), measure(_title(found), 11) + 14])
    gutter = min(gutter, 220.0)
    room = WIDTH - LEFT - RIGHT
    cell = max(NARROWEST, min(WIDEST, (room - gutter) / len(found.columns)))
    width = gutter + cell * len(found.columns)
    beside = max(1, int((room + GAP) // (width + GAP)))
    tall = HEIGHT if cell >= LEGIBLE else 26.0 if cell >= TIMED else max(14.0, min(26.0, cell))
    height = 46 + tall * len(found.rows) + 22
    failed = any(one.outcome.bound is None for one in swept.results)
    marks: list[Mark] = [*_legend(LEFT, 18, failed)]
    shown = found.maps[:MAPS]
    for place, one in enumerate(shown):
        left, top = LEFT + place % beside * (width + GAP), 34 + place // beside * height
        marks += _Map(swept, found, keys, (left + gutter, top + 46), (cell, tall)).draw(one)
    bottom = 34 + -(-len(shown) // beside) * height - 14
    if len(found.maps) > MAPS:
        marks.append(Text(LEFT, bottom + 12, f"{len(found.maps) - MAPS} more maps are not drawn", 11, "text-3"))
        bottom += 20
    label = f"{words.plural(len(shown), 'map')} of what bounds the points over {found.across.title}"
    return Scene(WIDTH, bottom + 6, label + (f" and {found.up.title}" if found.up else ""), tuple(marks))


def _title(found: Maps) -> str:
    return found.up.title if found.up else ""


def _legend(x: float, y: float, failed: bool) -> Iterator[Mark]:
    for name in BOUNDS:
        corners = _corners(x, y - 10, 14, 12)
        yield Polygon(corners, name)
        yield from hatch(name, corners)
        title = words.bound_name(name)
        yield Text(x + 20, y, title, 11, "text-2")
        x += 20 + measure(title, 11) + 22
    if failed:
        yield Polygon(_corners(x, y - 10, 14, 12), "bg", "line-2")
        yield Line(x, y + 2, x + 14, y - 10, "line-2")
        yield Text(x + 20, y, "failed", 11, "text-2")


def _corners(x: float, y: float, width: float, height: float) -> tuple[tuple[float, float], ...]:
    return (x, y), (x + width, y), (x + width, y + height), (x, y + height)


class _Map:
    """One map at its place."""

    def __init__(
        self,
        swept: Swept,
        found: Maps,
        keys: Mapping[int, int],
        origin: tuple[float, float],
        size: tuple[float, float],
    ):
        self.swept = swept
        self.found = found
        self.keys = keys
        self.origin = origin
        self.size = size

    def draw(self, one: Map) -> Iterator[Mark]:
        (x0, y0), (cell, tall) = self.origin, self.size
        width = cell * len(self.found.columns)
        if one.title:
            yield Text(x0, y0 - 34, shorten(words.plain(one.title), max(width, 240), 12, True), 12, bold=True)
        yield from self._names()
        for row, results in enumerate(one.cells):
            for column, result in enumerate(results):
                if result is not None:
                    yield self._cell(result, x0 + column * cell, y0 + row * tall)
        yield from self._turns(one)

    def _names(self) -> Iterator[Mark]:
        (x0, y0), (cell, tall) = self.origin, self.size
        every = max(1, -(-int(max(measure(name, 11) for name in self.found.columns) + 8) // int(cell)))
        every = 1 if cell >= LEGIBLE else every
        yield Text(x0, y0 - 19, self.found.across.title, 11, "text-3")
        for column, name in enumerate(self.found.columns):
            if column % every == 0:
                fit = shorten(words.plain(name), max(every * cell - 6, 12), 11)
                yield Text(x0 + (column + 0.5) * cell, y0 - 5, fit, 11, "text-2", "middle")
        if self.found.up:
            yield Text(x0 - 8, y0 - 5, shorten(self.found.up.title, 206, 11), 11, "text-3", "end")
        for row, name in enumerate(self.found.rows):
            yield Text(x0 - 8, y0 + (row + 0.5) * tall + 4, shorten(words.plain(name), 206, 11), 11, "text-2", "end")

    def _cell(self, one: Result, x: float, y: float) -> Group:
        cell, tall = self.size
        inside = _corners(x + 0.5, y + 0.5, cell - 1, tall - 1)
        bound = one.outcome.bound
        marks: list[Mark] = []
        if bound is None:
            marks.append(Polygon(inside, "bg", "line"))
            if cell < LEGIBLE:
                marks.append(Line(x + 2, y + tall - 2, x + cell - 2, y + 2, "line-2"))
        elif cell < TIMED:
            marks += [Polygon(inside, bound), *hatch(bound, inside)]
        else:
            strip = _corners(x + 0.5, y + 0.5, STRIP, tall - 1)
            marks += [Polygon(inside, bound, opacity=0.16), Polygon(strip, bound), *hatch(bound, strip)]
        if cell >= LEGIBLE:
            marks += self._words(one, x, y)
        elif cell >= TIMED and one.fits:
            marks.append(Text(x + STRIP + 3, y + tall / 2 + 4, words.time(one.outcome.latency_ps), 9.5, bold=one.best))
        return Group(tuple(marks), describe(self.swept, one), self.keys.get(one.number, 0))

    def _words(self, one: Result, x: float, y: float) -> Iterator[Mark]:
        cell, _ = self.size
        found, room = one.outcome, cell - STRIP - 12
        if found.bound is None:
            yield Text(x + STRIP + 6, y + 16, "failed", 11, "text-2")
            yield Text(x + STRIP + 6, y + 30, shorten(words.plain(found.error), room, 9), 9, "text-3")
            return
        short = BOUND_GLYPHS[BOUNDS.index(found.bound)].short
        share = f" {words.share(found.bound_share)}" if found.bound_share is not None else ""
        yield Text(x + STRIP + 6, y + 16, shorten(short + share, room, 11, one.best), 11, bold=one.best)
        yield Text(x + STRIP + 6, y + 30, said.time(one) if one.fits else "does not fit", 10, "text-2")

    def _turns(self, one: Map) -> Iterator[Mark]:
        """Lines between neighbours of which both have a bound, and not the same."""
        (x0, y0), (cell, tall) = self.origin, self.size
        bounds = [[each.outcome.bound if each else None for each in row] for row in one.cells]
        for row, line in enumerate(bounds):
            for column, here in enumerate(line):
                x, y = x0 + column * cell, y0 + row * tall
                if column and here and line[column - 1] and here != line[column - 1]:
                    yield Line(x, y, x, y + tall, "text", 2)
                if row and here and bounds[row - 1][column] and here != bounds[row - 1][column]:
                    yield Line(x, y, x + cell, y, "text", 2)
