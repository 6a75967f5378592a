"""The legend: what each colour of the picture means and how much of the whole trace it has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from trnprof.view import format as words
from trnprof.view.colours import HUED, legend_row
from trnprof.view.palette import BOUNDS, NEUTRAL
from trnprof.view.records import LegendRow

if TYPE_CHECKING:
    from trnprof.view.session import Session

Entry = tuple[int, int, int]
"""Colour, time in ps, how many."""


def legend(session: Session, colour: str) -> tuple[LegendRow, ...]:
    """Rows of one way of colouring; those of `HUED` by time, the others in the order of the palette."""
    timeline = session.timeline
    if colour in HUED:
        return timeline.schemes[colour].legend
    names = dict(enumerate((*words.ENGINE_WORDS, "no engine")))
    if colour == "bound":
        names = {k: words.BOUND_WORDS[name].lower() for k, name in enumerate(BOUNDS)}
        found = _bounds(session)
    elif colour == "wait":
        names[NEUTRAL] = "buffer, port or not recorded"
        found = ((row.colour, row.time_ps, 1) for row in session.waits())
    elif colour == "path":
        names[NEUTRAL] = "nothing known at work"
        found = _path(session)
    else:
        found = ((row.colour, row.active_ps, row.instructions) for row in session.engine_rows())
    return _rows(found, names, session.trace.meta.is_simulation)


def _bounds(session: Session) -> Iterable[Entry]:
    ribbon = session.timeline.ribbon()
    time = ribbon.shares(*session.window)
    count = np.bincount(ribbon.bound, minlength=len(BOUNDS))
    return zip(range(len(BOUNDS)), time.tolist(), count.tolist(), strict=True)


def _path(session: Session) -> Iterable[Entry]:
    pieces = session.timeline.route.pieces
    colours = session.timeline.route.colour(np.arange(len(pieces)))
    length = pieces.end_ps - pieces.start_ps
    return zip(colours.tolist(), length.tolist(), [1] * len(pieces), strict=True)


def _rows(found: Iterable[Entry], names: dict[int, str], estimated: bool) -> tuple[LegendRow, ...]:
    time: dict[int, int] = defaultdict(int)
    count: dict[int, int] = defaultdict(int)
    for colour, ps, n in found:
        time[colour] += ps
        count[colour] += n
    whole = sum(time.values())
    return tuple(
        legend_row(colour, names[colour], (time[colour], count[colour]), whole, estimated)
        for colour in sorted(colour for colour, ps in time.items() if ps)
    )
