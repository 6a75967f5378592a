"""What leaves the screen: a picture of it, and the card as plain data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from trnprof.tui.canvas import Canvas
from trnprof.tui.ink import Inkwell
from trnprof.tui.screen import Scene
from trnprof.tui.state import NONE
from trnprof.tui.svg import svg
from trnprof.view import Session


def card(scene: Scene) -> dict[str, Any] | None:
    """The selection's card as JSON values, None when nothing is selected."""
    session, state = scene.session, scene.state
    if state.area is not None:
        return session.area(*state.area).to_json()
    if state.gap:
        found = session.gap(state.track, state.cursor)
        return found.to_json() if found else None
    if state.transfer != NONE:
        return session.transfer_card(state.transfer).to_json()
    return session.card(state.row).to_json() if state.row != NONE else None


def save(canvas: Canvas, session: Session, folder: Path) -> Path:
    """Write the screen as SVG in the light theme under a name that is not taken yet; returns its path."""
    text = svg(canvas, Inkwell("light", "truecolor"), session.meta.title, session.caption)
    return _write([text], _reserved(folder, session, "svg"))


def save_rows(session: Session, span: tuple[int, int], folder: Path) -> Path:
    """Write what lies in a stretch of time as CSV; returns its path."""
    return _write(session.written(*span), _reserved(folder, session, "csv"))


def _write(parts: Iterable[str], path: Path) -> Path:
    """All of it or nothing."""
    fresh = path.with_name(f"{path.name}.part")
    try:
        with fresh.open("w", encoding="utf-8", newline="") as file:
            file.writelines(parts)
        os.replace(fresh, path)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return path


def _reserved(folder: Path, session: Session, ending: str) -> Path:
    """A new empty file, numbered where the name is taken."""
    name = re.sub(r"[^\w.-]+", "-", session.meta.title, flags=re.ASCII).strip("-.")[:60] or "trace"
    for number in count(1):
        path = folder / (f"trnprof-{name}.{ending}" if number == 1 else f"trnprof-{name}-{number}.{ending}")
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        return path
    raise AssertionError
