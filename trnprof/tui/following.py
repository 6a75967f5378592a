"""A folder whose traces are listed as they come, while the list or one of them is on the screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from trnprof.tui.shelf import Shelf
from trnprof.view import format as words
from trnprof.view import places

if TYPE_CHECKING:
    from trnprof.tui.app import TerminalApp


class Arrived(Message):
    """Traces have become whole, or what the folder has is otherwise than it was."""

    def __init__(self, paths: list[Path], shelf: Shelf):
        super().__init__()
        self.paths, self.shelf = paths, shelf


def shelf_of(app: TerminalApp) -> Shelf:
    """Traces of the folder that is followed, then those that were opened last."""
    known = places.recent(app.memory) if app.memory is not None else ()
    if app.arrivals is None:
        return Shelf("Recent traces", known)
    here, waiting = app.arrivals.places, app.arrivals.waiting
    listed = {place.path for place in here}
    others = () if app.scene is None else tuple(place for place in known if place.path not in listed)
    note = f"{waiting} being written" if waiting else "" if here else "waiting for the first one"
    return Shelf(str(app.arrivals.folder), (*here, *others), note=note)


def look(app: TerminalApp) -> None:
    """Look beside the screen for what has come."""
    if app.arrivals is not None:
        app.beside(lambda: _look(app))


def _look(app: TerminalApp) -> None:
    found = app.arrivals.look()
    app.post_message(Arrived(found, shelf_of(app)))


def arrived(app: TerminalApp, message: Arrived) -> None:
    """Show the list as it is now, the cursor where it was; or say in the trace that there are others."""
    if app.shelf is not None and app.shelf.title == message.shelf.title:
        before, now = app.shelf, replace(message.shelf, typed=app.shelf.typed)
        paths = [place.path for place in now.found]
        at = paths.index(before.chosen) if before.chosen in paths else 0
        app.shelf = replace(now, at=at)
        app.repaint()
    elif message.paths and app.scene is not None and not app.scene.state.overlay:
        path = message.paths[-1]
        name = words.plain(path.name, 60)
        app.note(f"{name} was written anew; O opens it" if path == app.path else f"new trace {name}; O opens it")
