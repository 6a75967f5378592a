"""What the mouse points at, and what a click, a drag or the wheel does; every one of these has a key too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trnprof.tui import actions
from trnprof.tui import state as moves
from trnprof.tui.layout import TOP
from trnprof.tui.screen import Picture, Scene
from trnprof.tui.state import NONE, ZOOM, State
from trnprof.view import Track

OVERVIEW, RULER = 2, 3
NEAR = 0.6
"""Cells between the pointer and a bar that it still hits."""


def time_at(picture: Picture, state: State, x: int) -> int | None:
    """The moment under a column, ps; None beside the timeline."""
    column = x - picture.shape.gutter
    if not 0 <= column < picture.shape.cells:
        return None
    return state.t0 + round((column + 0.5) * state.span / picture.shape.cells)


def click(picture: Picture, scene: Scene, x: int, y: int) -> State:
    """Select what is there: a bar, idle time, a region's time; zoom into a cluster; move by the overview."""
    session, state = scene.session, replace(scene.state, note="")
    at = time_at(picture, state, x)
    track = picture.track_at(y)
    if at is None:
        return _name(scene, track) if track else state
    if y == OVERVIEW:
        low, high = session.extent
        middle = low + (x - picture.shape.gutter + 0.5) * (high - low) / picture.shape.cells
        return moves.show(state, middle - state.span / 2, middle + state.span / 2, session.extent)
    if track is None:
        return replace(state, cursor=at) if y in (RULER, TOP) else state
    if track.kind in actions.SELECTABLE or track.kind in ("regions", "path"):
        line = next(first for first, last, shown in picture.rows if shown.id == track.id)
        mark = mark_at(picture, state, track, x, y - line)
        if mark != NONE:
            return _take(scene, picture, track, mark, at)
    return actions.at(session, state, track, at)


def _name(scene: Scene, track: Track) -> State:
    """A click on the gutter selects the track at the cursor's time."""
    return actions.at(scene.session, scene.state, track, scene.state.cursor)


def mark_at(picture: Picture, state: State, track: Track, x: int, line: int) -> int:
    """Index of the frame's mark under a cell: the shortest of those that cover it, -1 for none."""
    frame = picture.frame
    if frame is None or track.id not in frame.tracks:
        return NONE
    here = np.flatnonzero(frame.track == frame.tracks.index(track.id))
    if track.lanes > 1:
        here = here[frame.lane[here] == line]
    cell = state.span / picture.shape.cells
    middle = state.t0 + (x - picture.shape.gutter + 0.5) * cell
    near = (frame.start_ps[here] <= middle + NEAR * cell) & (frame.body_ps[here] >= middle - NEAR * cell)
    here = here[near]
    if not here.size:
        return NONE
    inside = (frame.start_ps[here] <= middle) & (frame.body_ps[here] > middle)
    length = frame.body_ps[here] - frame.start_ps[here]
    return int(here[np.lexsort((length, ~inside))[0]])


def _take(scene: Scene, picture: Picture, track: Track, mark: int, at: int) -> State:
    session, state, frame = scene.session, replace(scene.state, note=""), picture.frame
    start, end, row = int(frame.start_ps[mark]), int(frame.end_ps[mark]), int(frame.row[mark])
    if track.kind == "regions":
        return replace(state, track=track.id, area=(start, end), area_from=None, tab=0, cursor=at)
    if row == NONE:
        return moves.fit(replace(state, track=track.id, cursor=at), start, end, session.extent)
    return actions.select(session, state, row, "transfers" if track.kind == "transfers" else "instructions")


def wheel(picture: Picture, scene: Scene, x: int, y: int, up: bool, sideways: bool) -> State:
    """Zoom at the pointer; with Shift pan; over the gutter go through the tracks."""
    state, extent = scene.state, scene.session.extent
    if sideways:
        return moves.pan(state, -moves.PAN if up else moves.PAN, picture.shape.cells, extent)
    at = time_at(picture, state, x)
    if at is None:
        return actions.act("track_up" if up else "track_down", scene, picture.shape.cells)
    return moves.zoom(state, ZOOM if up else 1 / ZOOM, extent, at)


def drag(picture: Picture, scene: Scene, columns: int) -> State:
    """The picture follows the hand."""
    if not columns:
        return scene.state
    by = -columns * scene.state.span / picture.shape.cells
    return moves.show(scene.state, scene.state.t0 + by, scene.state.t1 + by, scene.session.extent)


def sweep(picture: Picture, scene: Scene, x0: int, x1: int) -> State:
    """Shift and drag: the area between two columns."""
    low, high = sorted((x0, x1))
    first, last = time_at(picture, scene.state, low), time_at(picture, scene.state, high)
    if first is None or last is None or first == last:
        return scene.state
    return replace(scene.state, area=(first, last), area_from=None, tab=0)
