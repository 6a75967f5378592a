"""The main screen: verdict, overview, ruler, tracks, panel and status line on one canvas."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trnprof.tui import cells, findings, ink, layout, panels, roofline, tracks
from trnprof.tui.canvas import Canvas, clipped, width_of
from trnprof.tui.layout import Row, Shape
from trnprof.tui.state import COLOURS, NONE, State
from trnprof.tui.wishes import Wish
from trnprof.view import Frame, Session, Track, Viewport
from trnprof.view import format as words
from trnprof.view.keys import TABS
from trnprof.view.palette import BOUND_GLYPHS
from trnprof.view.records import Hits

HINTS = (
    ("WS", "zoom"), ("AD", "pan"), (".,", "next"), ("[]", "follow"), ("/", "search"), ("0", "fit"), ("c", "colour"),
    ("o", "roofline"), ("?", "keys"),
)  # fmt: skip
STRONG = ink.TEXT | ink.BOLD
HEADED = 140
"""Columns from which the header lists all that colours can say."""
WAITS = {
    "source": "adding up the time of each source line",
    "advice": "looking for advice",
    "path": "following the critical path",
}
"""What a slow tab says until its answer is there."""


JUDGING = "adding up the trace for its verdict"


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to paint."""

    session: Session
    state: State
    hits: Hits | None = None
    known: frozenset[str] | None = None
    """Slow tabs whose answer is there; None for all."""
    wish: Wish | None = None
    """What-ifs that were asked for."""
    other: tuple[str, Session] | None = None
    """What is compared with, and its name."""

    @property
    def judged(self) -> bool:
        """Whether the verdict and what goes with it are there."""
        return self.known is None or self.session.judged

    def told(self, state: State) -> bool:
        """Whether the answer of the open tab is there."""
        return self.known is None or TABS[state.tab] in self.known


@dataclass(slots=True)
class Picture:
    """A painted screen, and where on it a pointer finds what."""

    canvas: Canvas
    shape: Shape
    frame: Frame | None = None
    rows: list[tuple[int, int, Track]] = field(default_factory=list)
    """First line, line after the last, track."""
    halves: list[tuple[Picture, State]] = field(default_factory=list)
    """Of a comparison: each of the two, and the state that it was painted in."""

    def track_at(self, y: int) -> Track | None:
        return next((track for first, last, track in self.rows if first <= y < last), None)


def paint(scene: Scene, width: int, height: int) -> Picture:
    """The timeline and all around it."""
    picture = Picture(Canvas(width, height), layout.shape(width, height, scene.state.panel))
    canvas = picture.canvas
    if picture.shape.too_small:
        canvas.put(0, height // 2, f"{width} × {height} is too small: 40 × 10 at least", ink.TEXT)
        return picture
    header(canvas, scene)
    verdict(canvas, scene)
    overview(canvas, scene, picture.shape)
    ruler(canvas, scene, picture.shape)
    timeline(picture, scene)
    if picture.shape.panel:
        panel(picture, scene)
    status(canvas, scene)
    return picture


def header(canvas: Canvas, scene: Scene) -> None:
    """What is open, whether it was captured or emulated, and what colours mean."""
    meta = scene.session.meta
    right = canvas.width - 1
    if canvas.width >= layout.SMALL:
        right = canvas.put_right(right, 0, "? keys  q quit", ink.DIM) - 2
        for name in reversed(COLOURS if canvas.width >= HEADED else (scene.state.colour,)):
            chosen = scene.state.colour == name
            right = canvas.put_right(right, 0, f" {name} ", (ink.ACCENT | ink.REVERSE) if chosen else ink.DIM) - 1
        right = canvas.put_right(right, 0, "c colour", ink.DIM) - 1
    else:
        right = canvas.put_right(right, 0, "? keys", ink.DIM) - 1
    device = f"{meta.mark} {meta.device}"
    x = canvas.put(1, 0, clipped(meta.title, max(8, right - width_of(device) - 5)), STRONG, end=right)
    x = canvas.put(
        x + 2, 0, f"~{meta.mark}" if meta.estimated else meta.mark, ink.MARK if meta.estimated else ink.MID, end=right
    )
    x = canvas.put(x + 1, 0, meta.device, ink.DIM, end=right)
    if x + 2 + width_of(meta.window.words) < right:
        canvas.put(x + 2, 0, meta.window.words, ink.MARK if meta.estimated else ink.TEXT)


def verdict(canvas: Canvas, scene: Scene) -> None:
    """The answer: bound, the parts of the time, and the evidence as far as whole clauses fit."""
    if not scene.judged:
        canvas.put(1, 1, JUDGING, ink.MID)
        return
    whole = scene.session.verdict
    wide = canvas.width >= layout.SMALL
    x = canvas.put(1, 1, f"{BOUND_GLYPHS[whole.colour].glyph} ", ink.BOUND + whole.colour)
    x = canvas.put(x, 1, whole.title.upper(), STRONG) + 2
    for text, code in panels.bar(whole.shares, 20 if wide else 12):
        x = canvas.put(x, 1, text, code)
    parts = sorted((s for s in whole.shares if s.share), key=lambda s: -(s.share or 0))
    text = "  ".join(f"{s.short} {s.share_words}" for s in parts[: 3 if wide else 1])
    x = canvas.put(x + 1, 1, text, ink.MID) + (3 if wide else 2)
    canvas.put(x, 1, clause(whole.headline, canvas.width - x - 1), ink.MID if wide else ink.DIM)


def clause(text: str, room: int) -> str:
    """As many whole clauses of a sentence as fit; nothing where not even the first number does."""
    while width_of(text) > room:
        cut = max(text.rfind(mark) for mark in (", ", "; ", ": ", ". "))
        if cut < 0:
            return ""
        text = text[:cut]
    return text if any(char.isdigit() for char in text) else ""


def overview(canvas: Canvas, scene: Scene, shape: Shape) -> None:
    """The whole trace in one line, the part in view between brackets."""
    session, state = scene.session, scene.state
    canvas.put(1, 2, "whole trace" if shape.gutter > 14 else "whole", ink.DIM)
    found = session.overview(shape.cells)
    busy = found.busy.max(axis=0) if found.busy.size else np.zeros(shape.cells)
    length = max(1, found.t1_ps - found.t0_ps)
    low, high = (int((t - found.t0_ps) / length * shape.cells) for t in (state.t0, state.t1))
    low, high = min(max(low, 0), shape.cells - 1), min(max(high, 0), shape.cells - 1)
    column = np.arange(shape.cells)
    inks = np.where((column >= low) & (column <= high), ink.MID, ink.DIM).astype(np.uint16)
    canvas.overlay(shape.gutter, 2, cells.columns(busy), inks)
    canvas.put(shape.gutter + low, 2, "├" if high > low else "│", ink.ACCENT)
    if high > low:
        canvas.put(shape.gutter + high, 2, "┤", ink.ACCENT)


def ruler(canvas: Canvas, scene: Scene, shape: Shape) -> None:
    """Round moments, and over them the marks, the area and the cursor."""
    state = scene.state
    cursor = min(max(column_of(state, state.cursor, shape.cells), 0), shape.cells - 1)
    for at, text in words.ticks(state.t0, state.t1, max(1, shape.cells // 14)):
        column = column_of(state, at, shape.cells)
        end = column + width_of(text) + 1
        if column >= 0 and end < shape.cells:
            canvas.put(shape.gutter + column, 3, "│" if column <= cursor <= end else f"│{text}", ink.DIM)
    if state.area or state.area_from is not None:
        _area(canvas, state, shape)
    for at in state.marks:
        if state.t0 <= at <= state.t1:
            column = min(column_of(state, at, shape.cells), shape.cells - 1)
            canvas.put(shape.gutter + column, 3, "◆", ink.MARK | ink.BOLD)
    if state.area is None:
        canvas.put(shape.gutter + cursor, 3, "▼", ink.ACCENT | ink.BOLD)


def column_of(state: State, at: int, cells_: int) -> int:
    """The column that a moment falls into; outside of the window below zero or beyond the last."""
    return (at - state.t0) * cells_ // max(state.span, 1)


def _area(canvas: Canvas, state: State, shape: Shape) -> None:
    t0, t1 = state.area or sorted((state.area_from or 0, state.cursor))
    low = min(max(column_of(state, t0, shape.cells), 0), shape.cells - 1)
    high = min(max(column_of(state, t1, shape.cells), low), shape.cells - 1)
    text = f" {words.time(t1 - t0)} "
    width = high - low + 1
    line = text.center(width, "═") if width_of(text) + 2 <= width else "═" * width
    canvas.put(shape.gutter + low, 3, line, ink.ACCENT | ink.REVERSE)


def timeline(picture: Picture, scene: Scene) -> None:
    """The tracks that fit, each in its lines, and how many do not."""
    shape, state, canvas = picture.shape, scene.state, picture.canvas
    chosen = layout.visible(scene.session.tracks(), state)
    top = layout.TOP + legend(canvas, scene)
    rows = layout.plan(chosen, shape.tracks - top + layout.TOP, state)
    viewport = Viewport(state.t0, state.t1, shape.cells * tracks.COLUMNS_PER_CELL)
    ids = [row.track.id for row in rows]
    picture.frame = scene.session.frame(viewport, ids, state.colour, state.only)
    sought = scene.hits is not None and (state.overlay == "search" or state.hit != NONE)
    hits = scene.hits.rows if sought else None
    place = tracks.Field(canvas, picture.frame, state, shape.gutter, shape.cells, hits)
    y = top
    for row in rows:
        y += row.air
        tracks.paint(place, row, y)
        picture.rows.append((y, y + row.lines, row.track))
        y += row.lines
    _more(canvas, shape, rows, len(scene.session.tracks()) - (state.colour != "path") - len(rows), y)
    if shape.side:
        left = picture.canvas.height - 1 - y
        if left > 8 and scene.judged:
            lines = panels.regions(scene.session.regions(), shape.gutter + shape.cells - 2)
            panels.draw(canvas, lines, 1, y + 1, shape.gutter + shape.cells - 2, left - 1)


def legend(canvas: Canvas, scene: Scene) -> int:
    """What colours mean where tracks do not tell it, and what is shown alone; returns the lines that it takes."""
    state = scene.state
    if state.colour == "engine" and not state.only:
        return 0
    right = canvas.width - 1 - (layout.SIDE_WIDTH + 2 if canvas.width >= layout.SIDE and state.panel else 0)
    x = canvas.put(1, layout.TOP, f"{state.colour}  ", ink.DIM, end=right)
    for row in scene.session.legend(state.colour):
        name = clipped(row.name, 24)
        if x + width_of(name) + width_of(row.share_words) + 4 > right:
            canvas.put(x, layout.TOP, "…", ink.DIM)
            break
        code = ink.of_way(state.colour, row.colour)
        glyph = BOUND_GLYPHS[row.colour].glyph if state.colour == "bound" else "■"
        x = canvas.put(x, layout.TOP, f"{glyph} ", code)
        on = row.colour in state.only
        x = canvas.put(x, layout.TOP, name, (ink.ACCENT | ink.REVERSE) if on else ink.DIM if state.only else ink.TEXT)
        x = canvas.put(x + 1, layout.TOP, row.share_words, ink.DIM) + 2
    return 1


def _more(canvas: Canvas, shape: Shape, rows: list[Row], count: int, y: int) -> None:
    """The line between tracks and panel says what it hides."""
    if shape.panel and not shape.side:
        line = canvas.height - 2 - shape.panel[3]
        canvas.fill(0, line, canvas.width, 1, "─", ink.DIM)
    else:
        line = y
    if count > 0 and line < canvas.height - 1:
        canvas.put(2, line, f" {words.plural(count, 'more track')}: ↑ ↓ ", ink.MID)


def panel(picture: Picture, scene: Scene) -> None:
    """The tab that is open, below the tracks or beside them."""
    x, y, width, height = picture.shape.panel
    canvas, state = picture.canvas, scene.state
    if picture.shape.side:
        for line in range(y, canvas.height - 1):
            canvas.put(x - 2, line, "│", ink.DIM)
        taken = _tabs(canvas, state, (x, y, width)) + 1
        y, height = y + taken, height - taken
    if state.tab == TABS.index("roofline") and state.area is None:
        if scene.judged:
            roofline.brief(canvas, scene.session.roofline(), x, y, width, height)
        else:
            canvas.put(x, y, JUDGING, ink.MID)
        return
    twice = not picture.shape.side and canvas.width >= layout.SMALL and state.tab == 0
    left = min(width, max(62, width // 2)) if twice else width
    lines = contents(scene, height, left)
    panels.draw(canvas, lines, x, y, left, height)
    if state.tab == 0 and (twice or picture.shape.side) and scene.judged:
        judged = scene.session.area(*state.area).verdict if state.area else scene.session.verdict
        beside = panels.verdicts((judged,), width - left - 4 if twice else width)
        if twice:
            for line in range(y, y + height):
                canvas.put(x + left + 1, line, "│", ink.DIM)
            panels.draw(canvas, beside, x + left + 4, y, width - left - 4, height)
        else:
            used = min(len(lines), height - 20) + 1
            _below_card(canvas, scene, beside, (x, y + used, width, height - used))


def _below_card(canvas: Canvas, scene: Scene, verdict_: list[panels.Line], box: tuple[int, int, int, int]) -> None:
    """Beside tall tracks there is room for the verdict and the roofline under the card."""
    x, y, width, height = box
    panels.draw(canvas, [[("Verdict", STRONG)], *verdict_], x, y, width, min(height, 12))
    taken = min(len(verdict_) + 2, 12)
    if height - taken >= 12:
        canvas.put(x, y + taken, "Roofline", STRONG)
        roofline.brief(canvas, scene.session.roofline(), x, y + taken + 1, width, height - taken - 1)


def _tabs(canvas: Canvas, state: State, place: tuple[int, int, int]) -> int:
    """The names of the tabs in as many lines as they need, which is returned."""
    left, y, width = place
    x, line = left, y
    for k, name in enumerate(TABS):
        text = f" {name.capitalize()} " if k == state.tab else name.capitalize()
        if x + len(text) > left + width:
            x, line = left, line + 1
        x = canvas.put(x, line, text, (ink.ACCENT | ink.REVERSE) if k == state.tab else ink.DIM) + (
            1 if k == state.tab else 2
        )
    return line - y + 1


def contents(scene: Scene, height: int, width: int) -> list[panels.Line]:
    """The lines of the open tab; a selected area goes first."""
    session, state = scene.session, scene.state
    if state.area is not None and state.tab == 0:
        return panels.area(session.area(*state.area), width)
    if TABS[state.tab] in WAITS and not scene.told(state):
        return [[(WAITS[TABS[state.tab]], ink.MID)]]
    if TABS[state.tab] in ("verdict", "engines", "regions") and not scene.judged:
        return [[(JUDGING, ink.MID)]]
    match TABS[state.tab]:
        case "advice":
            return findings.advice(session.advice(), state.item, height, width)
        case "path":
            slack = f"slack of the selection, {session.slack(state.row)}" if state.row != NONE else ""
            return findings.path(session.critical(), slack, state.item, height, width)
        case "memory":
            return findings.memory(session, state.cursor, height, width)
        case "verdict":
            return [*panels.verdicts(session.verdicts(), width), *panels.notes(session.meta.missing, width)]
        case "engines":
            return panels.engines(session.engine_rows())
        case "regions":
            return panels.regions(session.regions(), width)
        case "source":
            return panels.sources(session.source_lines(), session.source_files, width)
    return selection(scene, height, width)


def selection(scene: Scene, height: int, width: int) -> list[panels.Line]:
    """The card of what is selected."""
    session, state = scene.session, scene.state
    if state.gap:
        found = session.gap(state.track, state.cursor)
        return panels.gap(found) if found else [[("Nothing runs here, and nothing is waited for.", ink.MID)]]
    if state.transfer != NONE:
        return panels.transfer(session.transfer_card(state.transfer))
    if state.row != NONE:
        return panels.card(session.card(state.row), height, width)
    return [[("Nothing selected: ", ink.MID), (". ,", ink.ACCENT), (" select an instruction of the track.", ink.MID)]]


def status(canvas: Canvas, scene: Scene) -> None:
    """Cursor, span in view, keys, and the promise that nothing was dropped."""
    state, y = scene.state, canvas.height - 1
    promise = scene.session.meta.counted.rpartition(", ")[2]
    right = canvas.put_right(canvas.width - 1, y, promise, ink.DIM) - 2
    x = canvas.put(1, y, words.moment(state.cursor), ink.TEXT)
    x = canvas.put(x + 2, y, f"{words.time(state.span)} in view", ink.DIM) + 3
    if state.note:
        canvas.put(x, y, clipped(state.note, max(0, right - x)), ink.MARK)
        return
    for key, what in HINTS:
        if x + len(key) + len(what) + 2 > right:
            break
        x = canvas.put(x, y, key, ink.ACCENT)
        x = canvas.put(x + 1, y, what, ink.DIM) + 2
