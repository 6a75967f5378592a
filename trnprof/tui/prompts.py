"""Lines to type into, and the keys of the pages that are no timeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trnprof.tui import actions, errands, overlays
from trnprof.tui import state as moves
from trnprof.tui.screen import Scene
from trnprof.tui.state import NONE, State
from trnprof.view.keys import matching

if TYPE_CHECKING:
    from trnprof.tui.app import TerminalApp

PROMPTS = {name: name for name in ("commands", "search", "goto", "what_if", "compare")} | {"track": "find_track"}
"""Overlays that take text, and the action that opens each."""
LONGEST = 200


def press(app: TerminalApp, key: str, character: str | None) -> None:
    """One key in an open line."""
    scene = app.scene
    state = scene.state
    if key == "escape":
        app.become(replace(app.before_typing or state, overlay="", entry=""))
    elif key == "enter":
        _accept(app)
    elif key in ("up", "down") and state.overlay == "commands":
        count = len(matching("terminal", state.entry))
        app.become(replace(state, choice=(state.choice + (1 if key == "down" else -1)) % max(count, 1)))
    elif key in ("up", "down") and state.overlay == "search":
        app.become(_preview(scene, 1 if key == "down" else -1))
    else:
        entry = _edited(state.entry, key, character)
        if entry != state.entry:
            app.become(replace(state, entry=entry, choice=0, note=""))
            if state.overlay == "search":
                app.find(entry)


def _edited(entry: str, key: str, character: str | None) -> str:
    if key in ("backspace", "ctrl+h"):
        return entry[:-1]
    if key == "ctrl+u":
        return ""
    if key == "ctrl+w":
        return entry.rstrip().rpartition(" ")[0]
    if character is not None and character.isprintable():
        return (entry + character)[:LONGEST]
    return entry


def _preview(scene: Scene, by: int) -> State:
    """The next hit behind the open search."""
    found = actions.act("next_hit" if by > 0 else "previous_hit", scene, 1)
    return replace(found, overlay="search", entry=scene.state.entry)


def _accept(app: TerminalApp) -> None:
    scene = app.scene
    state = scene.state
    closed = replace(scene, state=replace(state, overlay="", entry=""))
    if state.overlay == "search":
        hits = scene.hits if scene.hits is not None and scene.hits.pattern == state.entry else None
        if hits is None:
            hits = scene.session.search(state.entry)
        if hits.count and state.hit == NONE:
            app.become(actions.act("next_hit", replace(closed, hits=hits), 1), hits)
        elif hits.count:
            app.become(replace(closed.state, note=state.note), hits)
        else:
            app.become(state, hits)
    elif state.overlay in ("what_if", "compare") and not state.entry.strip():
        app.become(closed.state)
    elif state.overlay == "what_if":
        errands.suppose(app, state.entry)
    elif state.overlay == "compare":
        app.become(closed.state)
        errands.compare_path(app, state.entry)
    elif state.overlay == "commands":
        found = matching("terminal", state.entry)
        app.become(closed.state)
        if found:
            app.do(found[min(state.choice, len(found) - 1)].action)
    elif state.overlay == "goto":
        app.become(_go(scene))
    else:
        found = overlays.matching(scene.session.tracks(), state.entry)
        if found:
            shown = replace(closed.state, hidden=tuple(i for i in state.hidden if i != found[0].id))
            app.become(actions.at(scene.session, shown, found[0], state.cursor))


def _go(scene: Scene) -> State:
    """To a moment, an instruction or a line; the line stays open where there is none."""
    state, session = scene.state, scene.session
    target = session.goto(state.entry)
    if target is None:
        return replace(state, note=f"nothing is called {state.entry}" if state.entry else "type where to go")
    state = replace(state, overlay="", entry="", note="")
    if target.row != NONE:
        return actions.select(session, state, target.row)
    half = state.span / 2
    shown = moves.show(state, target.t0_ps - half, target.t0_ps + half, session.extent)
    inside = shown.t0 <= target.t0_ps <= shown.t1
    note = f"at {target.words}" if inside else f"{target.words} lies outside of the trace"
    return replace(shown, cursor=min(max(target.t0_ps, shown.t0), shown.t1), note=note)


def scroll_help(state: State, key: str, action: str) -> State:
    """Down and up where the table is longer than the screen; anything else closes it."""
    first = int(state.entry or 0)
    if key in ("down", "up"):
        last = len(overlays.key_lines()) - 1
        return replace(state, entry=str(min(max(first + (1 if key == "down" else -1), 0), last)))
    return replace(state, overlay="", entry="")


def choose_dot(scene: Scene, key: str) -> State:
    """Step through the dots; Enter shows the one under the cursor in the timeline."""
    dots, state = scene.session.dots(), scene.state
    if not dots:
        return state
    if key == "enter":
        dot = dots[min(state.dot, len(dots) - 1)]
        fitted = moves.fit(state, dot.t0_ps, dot.t1_ps, scene.session.extent)
        return replace(fitted, screen="timeline", area=(dot.t0_ps, dot.t1_ps), area_from=None, tab=0)
    by = -1 if key in ("shift+tab", "up") else 1
    return replace(state, dot=(state.dot + by) % len(dots))
