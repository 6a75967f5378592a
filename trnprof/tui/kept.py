"""The view of a trace as it was left, in one small file: `views.json` in the user's state folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from trnprof.tui import state as moves
from trnprof.tui.state import COLOURS, NONE, State
from trnprof.view import Session, remembered
from trnprof.view.keys import TABS

MOST = 100
"""Traces that are remembered, the latest."""
TRACKS = ("pinned", "hidden", "order")
WHOLE = ("t0", "t1", "cursor", "row", "transfer", "tab")


def place(environment: Mapping[str, str]) -> Path:
    """Where the file lies."""
    return remembered.place(environment, "views.json")


def keep(file: Path, trace: Path, session: Session, state: State) -> None:
    """Write down how a trace is looked at; a folder that cannot be written to keeps nothing."""
    view = {**_plain(state), "instructions": len(session.trace.instructions)}
    remembered.add(file, str(trace.resolve()), view, MOST)


def restore(file: Path, trace: Path, session: Session, state: State) -> State:
    """The state as it was left; as it is where nothing is known, or where the trace is another one by now."""
    saved = remembered.read(file).get(str(trace.resolve()))
    if not isinstance(saved, dict) or saved.get("instructions") != len(session.trace.instructions):
        return state
    try:
        found = _state(saved, session, state)
        return replace(found, note="as you left it; 0 shows the kernel")
    except (KeyError, TypeError, ValueError):
        return state


def _plain(state: State) -> dict[str, Any]:
    texts = {"track": state.track, "colour": state.colour, "panel": state.panel}
    numbers: dict[str, Any] = {name: getattr(state, name) for name in WHOLE}
    numbers["only"] = list(state.only)
    lists = {name: list(getattr(state, name)) for name in (*TRACKS, "folded", "marks")}
    return {**texts, **numbers, **lists, "area": list(state.area) if state.area else None}


def _state(saved: dict[str, Any], session: Session, state: State) -> State:
    """What was saved, as far as the trace still has it."""
    numbers = {name: _number(saved[name]) for name in WHOLE}
    tracks = {track.id: track for track in session.tracks()}
    groups = {track.group for track in tracks.values()}
    named = {name: tuple(i for i in saved[name] if i in tracks) for name in TRACKS}
    area = tuple(_number(t) for t in saved["area"]) if saved["area"] else None
    if area is not None and (len(area) != 2 or area[1] <= area[0]):
        raise ValueError("area")
    row, transfer = numbers["row"], numbers["transfer"]
    known = row < len(session.trace.instructions) and transfer < len(session.trace.transfers)
    row, transfer = (row, transfer) if known else (NONE, NONE)
    since = session.card(row).t0_ps if row >= 0 else session.transfer_card(transfer).t0_ps if transfer >= 0 else 0
    made = replace(
        state,
        row=max(row, NONE),
        transfer=max(transfer, NONE),
        since=since,
        cursor=numbers["cursor"],
        tab=numbers["tab"] if 0 <= numbers["tab"] < len(TABS) else 0,
        track=saved["track"] if saved["track"] in tracks else "",
        colour=saved["colour"] if saved["colour"] in COLOURS else state.colour,
        only=tuple(_number(k) for k in saved["only"]),
        panel=bool(saved["panel"]),
        folded=tuple(group for group in saved["folded"] if group in groups),
        marks=tuple(_number(t) for t in saved["marks"]),
        area=area,
        **named,
    )
    return moves.show(made, numbers["t0"], numbers["t1"], session.extent)


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 2**62:
        raise ValueError("not a whole number")
    return value
