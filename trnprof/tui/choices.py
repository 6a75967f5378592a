"""Stepping through the entries of a tab or page, and where Enter leads from each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trnprof.tui import actions, findings
from trnprof.tui import state as moves
from trnprof.tui.screen import Scene
from trnprof.tui.state import NONE, State
from trnprof.view.keys import TABS
from trnprof.view.paths import cause_index

STEPS = {"tab": 1, "shift+tab": -1}


def offered(scene: Scene, key: str) -> bool:
    """Whether the key means an entry of what is open."""
    state = scene.state
    if state.screen == "timeline":
        return key in (*STEPS, "enter") and state.panel and TABS[state.tab] in ("advice", "path") and scene.told(state)
    return state.screen == "what_if" and key in (*STEPS, "up", "down")


def press(scene: Scene, key: str) -> State:
    """Another entry, or with Enter what the entry stands for."""
    state = scene.state
    count = _count(scene)
    if not count:
        return state
    if key == "enter":
        return _advised(scene) if TABS[state.tab] == "advice" else _on_path(scene)
    by = STEPS.get(key, -1 if key == "up" else 1)
    return replace(state, item=(min(state.item, count - 1) + by) % count, jump=0, note="")


def _count(scene: Scene) -> int:
    if scene.state.screen == "what_if":
        return len(scene.wish.found) if scene.wish else 0
    if TABS[scene.state.tab] == "advice":
        return len(scene.session.advice())
    return len(findings.path_entries(scene.session.critical(), 0, 80))


def _advised(scene: Scene) -> State:
    """The instructions that show it, one after another."""
    state = scene.state
    card = scene.session.advice()[state.item]
    if not card.rows:
        return replace(state, note="no instruction is named")
    at = state.jump % len(card.rows)
    found = actions.select(scene.session, state, card.rows[at])
    return replace(found, jump=at + 1, note=f"{at + 1} of {len(card.rows)} for advice {card.number}")


def _on_path(scene: Scene) -> State:
    """The longest piece of a cause, the time of a loop, the first instruction of a line."""
    session, state, card = scene.session, scene.state, scene.session.critical()
    entries = findings.path_entries(card, 0, 80)
    kind, k = entries[min(state.item, len(entries) - 1)][0]
    if kind == "circuit":
        circuit = card.circuits[k]
        fitted = moves.fit(state, circuit.t0_ps, circuit.t1_ps, session.extent)
        return replace(fitted, area=(circuit.t0_ps, circuit.t1_ps), area_from=None)
    if kind == "line":
        target = session.goto(card.lines[k].source)
        return actions.select(session, state, target.row) if target and target.row != NONE else state
    here = np.flatnonzero((card.cause == cause_index(card.causes[k].cause)) & (card.row >= 0))
    if not here.size:
        return replace(state, note="no instruction is known for it")
    ranked = here[np.argsort(card.start_ps[here] - card.end_ps[here], kind="stable")]
    at = state.jump % ranked.size
    found = actions.select(session, state, int(card.row[ranked[at]]))
    return replace(found, jump=at + 1, note=f"{at + 1} of {ranked.size} pieces, the longest first")
