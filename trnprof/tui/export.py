"""What leaves the screen: a picture of it, and the card as plain data."""

from __future__ import annotations

import os
import re
from itertools import count
from pathlib import Path
from typing import Any

from trnprof import __version__
from trnprof.tui.canvas import Canvas
from trnprof.tui.ink import Inkwell
from trnprof.tui.screen import Scene
from trnprof.tui.state import NONE
from trnprof.tui.svg import svg
from trnprof.view.records import Facts


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


def save(canvas: Canvas, meta: Facts, folder: Path) -> Path:
    """Write the screen as SVG in the light theme under a name that is not taken yet; returns its path."""
    caption = (
        f"{meta.title}, {meta.mark} on {meta.device}; {meta.counted}; {Path(meta.source).name}; trnprof {__version__}"
    )
    text = svg(canvas, Inkwell("light", "truecolor"), meta.title, caption)
    stem = re.sub(r"[^\w.-]+", "-", meta.title, flags=re.ASCII).strip("-.")[:60] or "trace"
    path = _reserved(folder, f"trnprof-{stem}")
    fresh = path.with_suffix(".svg.part")
    try:
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, path)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return path


def _reserved(folder: Path, stem: str) -> Path:
    """A new empty file, numbered where the name is taken."""
    for number in count(1):
        path = folder / (f"{stem}.svg" if number == 1 else f"{stem}-{number}.svg")
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        return path
    raise AssertionError
