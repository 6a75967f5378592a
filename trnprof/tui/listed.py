"""What is in view as a table, a line a row."""

from __future__ import annotations

from dataclasses import replace

from trnprof.tui import actions, ink
from trnprof.tui.canvas import Canvas, clipped, width_of
from trnprof.tui.screen import Scene
from trnprof.tui.state import State
from trnprof.view import format as words

STRONG = ink.TEXT | ink.BOLD
AROUND = 5
"""Lines of the page that are no rows."""
COLUMNS = (("start", 12), ("took", 10), ("what", 22), ("id", 10), ("engine", 14), ("region", 18), ("line", 18))
"""Heads with their least widths; what has no room is left out, last first."""
STEPS = {"down": 1, "tab": 1, "full_stop": 1, "up": -1, "shift+tab": -1, "comma": -1}


def page(canvas: Canvas, scene: Scene) -> None:
    """The rows around the chosen one, and how many there are."""
    session, state = scene.session, scene.state
    room = max(1, canvas.height - AROUND)
    found = session.listing(state.t0, state.t1, max(0, state.item - room // 2), room)
    if 0 < len(found.rows) < room and found.count > len(found.rows):
        found = session.listing(state.t0, state.t1, max(0, found.count - room), room)
    title = f"In view, {words.moment(state.t0)} to {words.moment(state.t1)}"
    canvas.put_right(canvas.width - 1, 1, found.words, ink.MID)
    canvas.put(1, 1, title, STRONG, end=canvas.width - width_of(found.words) - 3)
    shown = _fitting(canvas.width)
    _line(canvas, 2, [name for name, _ in shown], shown, ink.DIM)
    for line, (number, row) in enumerate(enumerate(found.rows, found.first), 3):
        on = number == state.item
        cells = [row.start, row.took, row.title, row.id, row.engine, row.region, words.place(row.source)]
        canvas.put(0, line, "▸" if on else " ", ink.ACCENT)
        canvas.put(1, line, "■", ink.ENGINE + row.colour)
        _line(canvas, line, cells, shown, (ink.ACCENT | ink.REVERSE) if on else ink.TEXT)
    if not found.rows:
        canvas.put(3, 3, "0 rows: nothing starts or runs here", ink.MID)
    x = 1
    for key, what in (("↑ ↓", "next"), ("Enter", "shows it in the timeline"), ("E", "saves CSV"), ("Esc", "back")):
        x = canvas.put(x, canvas.height - 1, key, ink.ACCENT)
        x = canvas.put(x + 1, canvas.height - 1, what, ink.DIM) + 2
    canvas.put(x, canvas.height - 1, state.note, ink.MARK)


def _fitting(width: int) -> list[tuple[str, int]]:
    """The columns that have room, the third one with what is left."""
    shown, left = [], width - 4
    for name, least in COLUMNS:
        if least + 1 > left:
            break
        shown.append((name, least))
        left -= least + 1
    return [(name, least + left // 3 if name in ("what", "region", "line") else least) for name, least in shown]


def _line(canvas: Canvas, y: int, cells: list[str], shown: list[tuple[str, int]], code: int) -> None:
    x = 3
    for (name, width), text in zip(shown, cells, strict=False):
        text = clipped(text, width)
        lead = width - width_of(text) if name in ("start", "took") else 0
        canvas.put(x, y, " " * lead + text + " " * (width - width_of(text) - lead), code)
        x += width + 1


def press(scene: Scene, key: str) -> State:
    """Another row, or with Enter the row in the timeline."""
    session, state = scene.session, scene.state
    if key != "enter":
        last = session.listing(state.t0, state.t1, 0, 0).count - 1
        by = {"pagedown": 20, "pageup": -20}.get(key, STEPS.get(key, 0))
        return replace(state, item=max(0, min(state.item + by, last)), note="")
    found = session.listing(state.t0, state.t1, state.item, 1).rows
    if not found:
        return state
    kind = "instructions" if found[0].kind == "instruction" else "transfers"
    return actions.select(session, replace(state, screen="timeline", tab=0), found[0].row, kind)
