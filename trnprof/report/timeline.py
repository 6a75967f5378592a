"""The timeline as a picture: one row an engine and a queue, the bound that holds on top, a ruler below."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from trnprof.report.scene import Line, Mark, Polygon, Scene, Text, shorten
from trnprof.view import format as words
from trnprof.view.palette import BOUNDS, ENGINE_COLOURS
from trnprof.view.records import KERNEL, WASTE, WORK, Frame, Viewport

if TYPE_CHECKING:
    from trnprof.view.records import Track
    from trnprof.view.session import Session

WIDTH = 1120.0
GUTTER = 178.0
RIGHT = 16.0
ROW, BAR = 22.0, 16.0
RIBBON = 8.0
COLUMNS = 500
"""Stretches of time that the picture tells apart."""

QUEUES = 6
"""DMA queues that are drawn, those that move most; the rest are counted."""


def draw_timeline(session: Session, t0_ps: int | None = None, t1_ps: int | None = None) -> Scene:
    """The kernel window, or a part of it."""
    low, high = session.home
    t0, t1 = low if t0_ps is None else t0_ps, high if t1_ps is None else t1_ps
    tracks, hidden = _chosen(session.tracks())
    frame = session.frame(Viewport(t0, t1, COLUMNS), [track.id for track in tracks])
    marks: list[Mark] = []
    y = 6.0
    for track in tracks:
        height = RIBBON + 4 if track.kind == "bound" else ROW
        marks += _row(track, frame, frame.tracks.index(track.id) if track.id in frame.tracks else -1, y, (t0, t1))
        y += height
    marks += _ruler(t0, t1, y)
    y += 22
    if hidden:
        marks.append(Text(GUTTER, y + 10, f"{words.plural(hidden, 'quieter queue')} not drawn", 10, "text-3"))
        y += 16
    label = f"Timeline of {session.meta.title}: {words.plural(len(tracks), 'row')}"
    return Scene(WIDTH, y + 4, label, tuple(marks))


def _chosen(tracks: tuple[Track, ...]) -> tuple[list[Track], int]:
    """The rows that are drawn, and how many queues are not."""
    kept = [t for t in tracks if not t.quiet and t.kind in ("bound", "instructions")]
    queues = [t for t in tracks if not t.quiet and t.kind == "transfers"]
    return [*kept, *queues[:QUEUES]], max(0, len(queues) - QUEUES)


def _row(track: Track, frame: Frame, number: int, y: float, window: tuple[int, int]) -> Iterator[Mark]:
    height = RIBBON if track.kind == "bound" else BAR
    right = WIDTH - RIGHT
    if track.kind != "bound":
        yield Text(GUTTER - 62, y + 12, shorten(track.name, GUTTER - 66, 10.5), 10.5, "text", "end")
        yield Text(GUTTER - 8, y + 12, track.words, 10, "text-3", "end")
        yield Line(GUTTER, y + height + 2, right, y + height + 2, "line", 0.7)
    else:
        yield Text(GUTTER - 8, y + 8, "bound by", 10, "text-3", "end")
    for start, end, ink, opacity in _bars(frame, number, track.kind == "bound"):
        x0, x1 = (_across(t, window) for t in (start, end))
        x0, x1 = max(GUTTER, x0), min(right, max(x1, x0 + 0.6))
        if x1 > x0:
            corners = (x0, y), (x1, y), (x1, y + height), (x0, y + height)
            yield Polygon(corners, ink, opacity=opacity)


def _bars(frame: Frame, number: int, bound: bool) -> Iterator[tuple[int, int, str, float]]:
    """Start, end, colour and opacity of the marks of a track; neighbours of one look are one."""
    rows = np.flatnonzero(frame.track == number)
    rows = rows[np.argsort(frame.start_ps[rows], kind="stable")]
    held: tuple[int, int, str, float] | None = None
    for row in rows.tolist():
        look = _look(frame, row, bound)
        start, end = int(frame.start_ps[row]), int(frame.end_ps[row])
        if held is not None and held[2:] == look and start <= held[1] + frame.bucket_ps // 4:
            held = held[0], max(held[1], end), *look
            continue
        if held is not None:
            yield held
        held = start, end, *look
    if held is not None:
        yield held


def _look(frame: Frame, row: int, bound: bool) -> tuple[str, float]:
    if bound:
        return BOUNDS[int(frame.colour[row])], 1.0
    flags = int(frame.flags[row])
    ink = ENGINE_COLOURS[int(frame.colour[row])] if flags & WORK else "neutral"
    share = 1.0 if frame.count[row] <= 1 else 0.3 + 0.7 * min(1.0, float(frame.busy[row]))
    faint = 0.55 if flags & WASTE or not flags & KERNEL else 1.0
    return ink, round(share * faint, 1)


def _ruler(t0: int, t1: int, y: float) -> Iterator[Mark]:
    for at, text in words.ticks(t0, t1, 10):
        x = _across(at, (t0, t1))
        if GUTTER <= x <= WIDTH - RIGHT:
            yield Line(x, 4, x, y + 4, "line-2", 0.6)
            yield Text(x, y + 15, text, 10, "text-3", "middle" if x < WIDTH - 40 else "end")


def _across(at: int, window: tuple[int, int]) -> float:
    low, high = window
    return GUTTER + (at - low) / max(1, high - low) * (WIDTH - RIGHT - GUTTER)
