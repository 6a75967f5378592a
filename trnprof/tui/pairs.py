"""Two traces, one above the other, aligned at the start of their kernel windows, and what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trnprof.tui import ink, layout, pointer, tracks
from trnprof.tui import state as moves
from trnprof.tui.canvas import Canvas, clipped, width_of
from trnprof.tui.screen import Picture, Scene, clause, ruler
from trnprof.tui.state import NONE, State
from trnprof.view import Session, Viewport
from trnprof.view.paths import ChangeRow, CompareCard

STRONG = ink.TEXT | ink.BOLD
SHOWN = ("bound", "regions", "instructions", "transfers")
"""Kinds of tracks: what a comparison is about."""
TABLES = (("cause", "causes"), ("region", "regions"), ("engine", "engines"), ("line", "lines"))


def page(picture: Picture, scene: Scene) -> None:
    """The headline, the two timelines and the tables."""
    canvas = picture.canvas
    before, (name, after) = scene.session, scene.other
    card = after.compared_with(before)
    width, height = canvas.width, canvas.height
    shape = layout.shape(width, height, False)
    canvas.put(1, 1, card.headline, STRONG)
    canvas.put(1, 2, clipped("  ".join(card.warnings), width - 2), ink.MID)
    table = min(max(5, height // 3), 3 + max((len(getattr(card, part)) for _, part in TABLES), default=2))
    half = (height - 5 - table) // 2
    ruler(canvas, scene, shape)
    found, said = _match(scene)
    shift = after.window[0] - before.window[0]
    moved = replace(scene.state, t0=scene.state.t0 + shift, t1=scene.state.t1 + shift)
    picture.halves = [
        _half(canvas, before, _chosen(before, scene.state, found[0]), ("before", ""), (4, half, shape)),
        _half(canvas, after, _chosen(after, moved, found[1]), ("after", name), (4 + half, half, shape)),
    ]
    _tables(canvas, card, height - 1 - table, table)
    canvas.put(1, height - 1, "WS", ink.ACCENT)
    x = canvas.put(4, height - 1, "zoom  AD pan  ., next  0 fit  Esc back", ink.DIM) + 3
    if said:
        canvas.put(x, height - 1, clipped(said, width - x - 1), ink.MARK)
    else:
        canvas.put(x, height - 1, clause(card.matched.replace(":", ","), width - x - 1), ink.DIM)


def _match(scene: Scene) -> tuple[tuple[int, int], str]:
    """Rows of the chosen instruction in both, and what changed."""
    state, before, after = scene.state, scene.session, scene.other[1]
    if state.other_row != NONE:
        found = after.twin(before, state.other_row, after=True)
    elif state.row != NONE:
        found = after.twin(before, state.row, after=False)
    else:
        return (NONE, NONE), ""
    session, row = (before, found.before) if found.before != NONE else (after, found.after)
    return (found.before, found.after), f"{session.card(row).title}: {found.words}"


def _chosen(session: Session, state: State, row: int) -> State:
    """The state of one half, with the instruction of its own selected."""
    bare = replace(state, row=row, transfer=NONE, gap=False, track="")
    if row == NONE:
        return bare
    card = session.card(row)
    return replace(bare, since=card.t0_ps, track=card.track)


def click(picture: Picture, scene: Scene, x: int, y: int) -> State:
    """Select the instruction under the pointer and its match in the other half; zoom to a cluster."""
    before, after = scene.session, scene.other[1]
    for side, (half, state) in enumerate(picture.halves):
        line = next((first for first, last, _ in half.rows if first <= y < last), None)
        track = half.track_at(y)
        if line is None or track is None or track.kind != "instructions":
            continue
        mark = pointer.mark_at(half, state, track, x, y - line)
        if mark == NONE:
            continue
        row = int(half.frame.row[mark])
        if row == NONE:
            shift = (after.window[0] - before.window[0]) * side
            start, end = int(half.frame.start_ps[mark]) - shift, int(half.frame.end_ps[mark]) - shift
            return moves.fit(scene.state, start, end, before.extent)
        if side == 0:
            return replace(scene.state, row=row, other_row=NONE, transfer=NONE)
        found = after.twin(before, row, after=True)
        own = found.before if found.before != NONE else scene.state.row
        return replace(scene.state, row=own, other_row=NONE if found.before != NONE else row, transfer=NONE)
    return scene.state


def _half(canvas: Canvas, session: Session, state: State, name: tuple[str, str], place: tuple) -> tuple[Picture, State]:
    """One of the two: what it is, and the tracks that fit; the track of its selection among them."""
    y, lines, shape = place
    picture = Picture(canvas, shape)
    meta = session.meta
    x = canvas.put(1, y, name[0], STRONG)
    canvas.put(x + 1, y, f"{meta.mark} {meta.window.words}  {name[1]}", ink.MID, end=canvas.width - 1)
    chosen = [t for t in layout.visible(session.tracks(), replace(state, colour="engine")) if t.kind in SHOWN]
    rows = layout.plan(chosen, lines - 1, state)
    viewport = Viewport(state.t0, state.t1, shape.cells * tracks.COLUMNS_PER_CELL)
    frame = session.frame(viewport, [row.track.id for row in rows], state.colour)
    picture.frame = frame
    field = tracks.Field(canvas, frame, state, shape.gutter, shape.cells)
    y += 1
    for row in rows:
        y += row.air
        tracks.paint(field, row, y)
        picture.rows.append((y, y + row.lines, row.track))
        y += row.lines
    return picture, state


def _tables(canvas: Canvas, card: CompareCard, y: int, height: int) -> None:
    """As many tables side by side as fit."""
    canvas.fill(0, y, canvas.width, 1, "─", ink.DIM)
    found = [(title, getattr(card, name)) for title, name in TABLES if getattr(card, name)]
    count = max(1, min(len(found), canvas.width // 58))
    width = (canvas.width - 2) // count
    for k, (title, rows) in enumerate(found[:count]):
        _table(canvas, title, rows[: height - 2], (1 + k * width, y + 1, width - 2))


def _table(canvas: Canvas, title: str, rows: Sequence[ChangeRow], place: tuple[int, int, int]) -> None:
    x, y, width = place
    name = max(8, width - 34)
    canvas.put(x, y, f"{title:<{name}}{'before':>11}{'after':>11}{'Δ':>11}", ink.DIM)
    for line, row in enumerate(rows, y + 1):
        shown = clipped(row.name, name - 1)
        text = f"{shown}{' ' * (name - width_of(shown))}{row.before or 'n/a':>11}{row.after or 'n/a':>11}"
        at = canvas.put(x, line, text, ink.TEXT)
        colour = ink.GOOD if row.change_ps < 0 else ink.BAD if row.change_ps > 0 else ink.DIM
        canvas.put(at, line, f"{row.change:>11}", colour)
