"""Tracks as lines of characters: a frame in, cells out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trnprof.tui import cells, ink
from trnprof.tui.canvas import Canvas, clipped, width_of
from trnprof.tui.layout import Row
from trnprof.tui.state import State
from trnprof.view import format as words
from trnprof.view.colours import OTHERS
from trnprof.view.palette import BOUND_GLYPHS
from trnprof.view.records import WASTE, WORK, Frame, Track

COLUMNS_PER_CELL = 8
"""A frame is asked for in eighths of a cell."""

GLYPHS = np.array([ord(glyph.glyph) for glyph in BOUND_GLYPHS], np.uint32)
WASTE_CELL, CONTROL, IDLE, CLUSTER = (ord(char) for char in "▞_╌┄")
TINY = 1e-6


@dataclass(frozen=True, slots=True)
class Field:
    """The part of the canvas where time runs from left to right."""

    canvas: Canvas
    frame: Frame
    state: State
    x: int
    width: int
    hits: np.ndarray | None = None
    """Ascending instruction rows that a search found."""

    def cell(self, time_ps: np.ndarray) -> np.ndarray:
        """Positions in cells of moments, float64."""
        return (time_ps - self.state.t0) / (self.state.span / self.width)

    def marks(self, track: Track) -> np.ndarray:
        """Indices of the frame's marks on a track."""
        if track.id not in self.frame.tracks:
            return np.empty(0, np.int64)
        position = self.frame.tracks.index(track.id)
        low, high = np.searchsorted(self.frame.track, (position, position + 1))
        return np.arange(low, high)


def paint(field: Field, row: Row, y: int) -> None:
    """Draw one row of the plan from line `y` on: its name, then its picture."""
    _PAINTERS.get(row.track.kind, _bars)(field, row, y)
    gutter(field, row, y)


def gutter(field: Field, row: Row, y: int) -> None:
    """Key, name and share at the left; the selected track carries a pointer besides being bold."""
    track, canvas, right = row.track, field.canvas, field.x - 1
    chosen = field.state.track == track.id
    coloured = track.kind in ("instructions", "transfers")
    for line in range(row.lines if coloured else 0):
        canvas.put(1, y + line, "▌", ink.ENGINE + track.colour)
    canvas.put(0, y, "▸" if chosen else " ", ink.ACCENT)
    value = track.words or track.top_words
    if track.kind == "instructions":
        value = value.replace(words.NARROW, "")
    room = right - 2
    folded = track.group in field.state.folded
    name = _name(track, room - width_of(value) - 1 if value and row.lines == 1 else room, folded)
    plain = ink.DIM if track.minor or not coloured else ink.TEXT
    end = canvas.put(2, y, clipped(name, room), (ink.TEXT | ink.BOLD) if chosen else plain)
    if end + width_of(value) < right:
        canvas.put_right(right, y, value, ink.DIM)
    elif row.lines > 1:
        canvas.put_right(right, y + 1, clipped(value, room), ink.DIM)


def _name(track: Track, room: int, folded: bool) -> str:
    """The track's name, else the word of it that tells it from its neighbours, else its code."""
    core = track.group_name.partition(", ")[2]
    if track.kind == "bound" and core and width_of(core) + 6 <= room:
        return f"bound {core}"
    if track.quiet and track.kind == "counter" and folded:
        return f"{track.group_name} +"
    parts = track.name.split(" ")
    telling = (parts[-1] if track.minor else parts[0]).rstrip(",")
    return next((name for name in (track.name, telling, track.code) if 2 < width_of(name) <= room), track.name)


def _bars(field: Field, row: Row, y: int) -> None:
    """Instructions or transfers: idle time, then control, then work on top; lanes without a line share the last."""
    frame, track = field.frame, row.track
    marks = field.marks(track)
    _gaps(field, track, y, row.lines)
    last = min(track.lanes, row.lines) - 1
    for lane in range(last + 1):
        here = marks[np.minimum(frame.lane[marks], last) == lane]
        lines = row.lines if track.lanes == 1 else 1
        work = frame.flags[here] & WORK > 0
        for at in range(y + lane, y + lane + lines):
            _control(field, here[~work], at)
        _work(field, here[work], y + lane, lines)
    _selected(field, track, y, row.lines)


def _work(field: Field, marks: np.ndarray, y: int, lines: int) -> None:
    if not marks.size:
        return
    frame, canvas = field.frame, field.canvas
    start, end = field.cell(frame.start_ps[marks]), field.cell(frame.body_ps[marks])
    end = np.maximum(end, start + TINY)
    busy = np.where(frame.count[marks] == 1, 1.0, np.maximum(frame.busy[marks], 0.01))
    drawn = cells.bars(start, end, busy, frame.count[marks], field.width)
    inks = _inks(field, marks, start, end)
    covered = drawn.span >= 0
    chars = np.where(covered & _wasteful(frame, marks, drawn), WASTE_CELL, drawn.chars)
    shades = np.where(covered, inks[np.maximum(drawn.span, 0)], 0)
    for line in range(lines):
        canvas.overlay(field.x, y + line, chars, shades)
    _labels(field, marks, start, end, inks, y)


def _inks(field: Field, marks: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Ink of each mark: engine or bound, every second one of a dense run a tint darker."""
    frame = field.frame
    base, others = ink.of_way(frame.colour_by, 0), ink.of_way(frame.colour_by, OTHERS)
    fresh = np.concatenate(([True], start[1:] - end[:-1] >= 1))
    order = np.arange(marks.size)
    since = order - np.maximum.accumulate(np.where(fresh, order, 0))
    colour = frame.colour[marks].astype(np.int64)
    inks = np.where(colour >= 0, base + colour, others).astype(np.uint16)
    inks[since & 1 == 1] |= ink.ALT
    moved = _of_transfers(field, marks)
    row = field.state.transfer if moved else field.state.row
    inks[(frame.row[marks] == row) & (row >= 0)] |= ink.SELECTED
    if field.hits is not None and not moved:
        inks[np.isin(frame.longest[marks], field.hits)] |= ink.UNDERLINE
    return inks


def _of_transfers(field: Field, marks: np.ndarray) -> bool:
    return ".dma." in field.frame.tracks[field.frame.track[marks[0]]]


def _wasteful(frame: Frame, marks: np.ndarray, drawn: cells.Bars) -> np.ndarray:
    """Cells that are wholly work which the algorithm did not ask for."""
    waste = frame.flags[marks] & WASTE > 0
    return waste[np.maximum(drawn.span, 0)] & ((drawn.chars == cells.FULL) | (drawn.chars == cells.SEAM))


def _selected(field: Field, track: Track, y: int, lines: int) -> None:
    """The cell in which the selected bar starts shows it, however short it is and however many share the cell."""
    state = field.state
    column = int(field.cell(np.int64(state.since)))
    if state.track == track.id and max(state.row, state.transfer) >= 0 and 0 <= column < field.width:
        field.canvas.inks[y : y + lines, field.x + column] |= ink.SELECTED


def _labels(field: Field, marks: np.ndarray, start: np.ndarray, end: np.ndarray, inks: np.ndarray, y: int) -> None:
    """The full name in a bar, else the short one, else nothing."""
    frame = field.frame
    low = np.ceil(np.clip(start, 0, field.width)).astype(int)
    high = np.floor(np.clip(end, 0, field.width)).astype(int)
    for k in np.flatnonzero((high - low >= 3) & (frame.count[marks] == 1) & (frame.label[marks] >= 0)):
        room = high[k] - low[k]
        for text in frame.labels.get(int(frame.label[marks[k]]), ()):
            if text and width_of(text) < room:
                lead = 1 if width_of(text) + 1 < room else 0
                field.canvas.put(field.x + low[k] + lead, y, text, int(inks[k]) | ink.LABEL)
                break


def _control(field: Field, marks: np.ndarray, y: int) -> None:
    """Semaphores, drains, preamble: thin and neutral, never mistaken for work."""
    if not marks.size:
        return
    frame = field.frame
    start = field.cell(frame.start_ps[marks])
    end = np.maximum(field.cell(frame.end_ps[marks]), start + TINY)
    cell, owner, _ = cells.spread(start, end, field.width)
    chars = np.zeros(field.width, np.uint32)
    chars[cell] = CONTROL
    inks = np.full(field.width, ink.ENGINE + ink.NEUTRAL, np.uint16)
    chosen = frame.row[marks] == field.state.row if field.state.row >= 0 else np.zeros(marks.size, bool)
    inks[cell[chosen[owner]]] = ink.TEXT | ink.SELECTED
    field.canvas.overlay(field.x, y, chars, inks)


def _gaps(field: Field, track: Track, y: int, lines: int) -> None:
    """Idle time with a known cause: a dashed line, and what it waited for where there is room."""
    frame, by_wait = field.frame, field.state.colour == "wait"
    if track.id not in frame.tracks:
        return
    here = np.flatnonzero(frame.gap_track == frame.tracks.index(track.id))
    low = np.ceil(np.clip(field.cell(frame.gap_start_ps[here]), 0, field.width)).astype(int)
    high = np.floor(np.clip(field.cell(frame.gap_end_ps[here]), 0, field.width)).astype(int)
    named = by_wait or field.canvas.width >= 160
    for k in np.flatnonzero(high - low > 1):
        colour = ink.ENGINE + int(frame.gap_colour[here[k]]) if by_wait else ink.DIM
        for line in range(y, y + lines):
            field.canvas.put(field.x + low[k], line, chr(IDLE) * (high[k] - low[k]), colour)
        text = f" {frame.labels.get(int(frame.gap_label[here[k]]), ('', ''))[1]} "
        if named and text.strip() and width_of(text) + 3 < high[k] - low[k]:
            field.canvas.put(field.x + low[k] + 1, y, text, colour)


def _bound(field: Field, row: Row, y: int) -> None:
    """The ribbon: each bound has a glyph of its own, so that it reads in grey."""
    frame, marks = field.frame, field.marks(row.track)
    start = field.cell(frame.start_ps[marks])
    end = np.maximum(field.cell(frame.end_ps[marks]), start + TINY)
    cell, owner, part = cells.spread(start, end, field.width)
    order = np.lexsort((part, cell))
    colour = frame.colour[marks][owner[order]].astype(np.uint16)
    chars, inks = np.zeros(field.width, np.uint32), np.zeros(field.width, np.uint16)
    chars[cell[order]] = GLYPHS[colour] if colour.size else 0
    inks[cell[order]] = ink.BOUND + colour
    field.canvas.overlay(field.x, y, chars, inks)


def _regions(field: Field, row: Row, y: int) -> None:
    """Brackets `├── name time ──┤`; a name is whole or absent."""
    frame, marks = field.frame, field.marks(row.track)
    line_of = _outermost(frame, marks, row.lines)
    for k in marks.tolist():
        line = line_of.get(int(frame.lane[k]))
        if line is None:
            continue
        begin, end = float(field.cell(frame.start_ps[k])), float(field.cell(frame.end_ps[k]))
        low, high = max(0, round(begin)), min(field.width, max(round(end), round(begin) + 1))
        if high <= low:
            continue
        if frame.row[k] < 0:
            field.canvas.put(field.x + low, y + line, chr(CLUSTER) * (high - low), ink.DIM)
            continue
        text = _bracket(frame.labels.get(int(frame.label[k]), ("", "")), high - low, begin >= 0, end <= field.width)
        field.canvas.put(field.x + low, y + line, text, ink.MID)


def _outermost(frame: Frame, marks: np.ndarray, lines: int) -> dict[int, int]:
    """Lanes that are shown, with their line: where not all fit, kernels and loops go before source lines."""
    lanes = np.unique(frame.lane[marks]).tolist()
    kind = {lane: int(frame.colour[marks][frame.lane[marks] == lane].min()) for lane in lanes}
    kept = sorted(sorted(lanes, key=lambda lane: (kind[lane], lane))[:lines])
    return {lane: line for line, lane in enumerate(kept)}


def _bracket(label: tuple[str, str], width: int, opens: bool, closes: bool) -> str:
    if width == 1:
        return "┤" if closes else "├"
    left, right = "├" if opens else "─", "┤" if closes else "─"
    for text in (label[0].replace("  ", " "), label[1]):
        spare = width - 2 - width_of(text)
        if text and spare >= 0:
            return left + "─" * (spare // 2) + text + "─" * (spare - spare // 2) + right
    return left + "─" * (width - 2) + right


def _counter(field: Field, row: Row, y: int) -> None:
    """A braille area, two samples a cell, full height at the top of the scale."""
    share = np.nan_to_num(_samples(field, row.track, field.width * 2) / max(row.track.top, 1e-300))
    picture = cells.area(np.clip(share, 0, 1), row.lines)
    for line in range(row.lines):
        field.canvas.overlay(field.x, y + line, picture[line], ink.ENGINE + row.track.colour)


def _samples(field: Field, track: Track, count: int) -> np.ndarray:
    """Means of a counter over equal parts of the window, float64[count]; of several steps, their sum."""
    frame, state = field.frame, field.state
    rows = _series(frame, track)
    if not rows.size:
        return np.zeros(count)
    values = np.nan_to_num(frame.values[rows].astype(np.float64)).sum(axis=0)
    total = np.concatenate(([0.0], np.cumsum(values)))
    edges = (state.t0 + np.arange(count + 1) * (state.span / count) - frame.t0_ps) / frame.bucket_ps
    return np.diff(np.interp(edges, np.arange(total.size), total)) / (state.span / count / frame.bucket_ps)


def _series(frame: Frame, track: Track) -> np.ndarray:
    if track.id not in frame.tracks:
        return np.empty(0, np.int64)
    return np.flatnonzero(frame.counter_tracks == frame.tracks.index(track.id))


def _banks(field: Field, row: Row, y: int) -> None:
    """PSUM: one dot row a bank where there is room, else how many are in use."""
    frame, state = field.frame, field.state
    rows = _series(frame, row.track)
    if row.lines * 4 < rows.size or not rows.size:
        share = _samples(field, row.track, field.width) / max(rows.size, 1)
        field.canvas.overlay(field.x, y, cells.columns(np.clip(share, 0, 1)), ink.ENGINE + row.track.colour)
        return
    edges = frame.t0_ps + np.arange(frame.values.shape[1] + 1) * frame.bucket_ps
    where = (edges - state.t0) / (state.span / field.width)
    for line in range(row.lines):
        lane, bucket = np.nonzero(np.nan_to_num(frame.values[rows[line * 4 : line * 4 + 4]]) > 0)
        dots = cells.lanes(lane, where[bucket], where[bucket + 1], field.width)
        field.canvas.overlay(field.x, y + line, dots, ink.ENGINE + row.track.colour)


def _packets(field: Field, row: Row, y: int) -> None:
    """DMA engines: one dot row each where there is room, else the share that is busy."""
    frame, marks = field.frame, field.marks(row.track)
    marks = marks[frame.flags[marks] & WORK > 0]
    start, end = field.cell(frame.start_ps[marks]), field.cell(frame.end_ps[marks])
    end = np.maximum(end, start + TINY)
    colour = ink.ENGINE + row.track.colour
    if row.lines * 4 >= row.track.lanes:
        for line in range(row.lines):
            here = frame.lane[marks] // 4 == line
            lane = frame.lane[marks][here].astype(np.int64) % 4
            field.canvas.overlay(field.x, y + line, cells.lanes(lane, start[here], end[here], field.width), colour)
        return
    cell, owner, part = cells.spread(start, end, field.width)
    share = np.bincount(cell, part * frame.busy[marks][owner], field.width) / max(row.track.lanes, 1)
    field.canvas.overlay(field.x, y, cells.columns(np.clip(share, 0, 1)), colour)


_PAINTERS: dict[str, Callable[[Field, Row, int], None]] = {
    "bound": _bound,
    "regions": _regions,
    "counter": _counter,
    "banks": _banks,
    "packets": _packets,
}
