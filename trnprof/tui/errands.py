"""Long questions beside the screen: what-ifs, another trace to compare with, tabs that take a moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from sim.errors import TrnprofError
from trnprof.tui import export
from trnprof.tui.wishes import Wish
from trnprof.view import Session
from trnprof.view.interruptible import Cancelled

if TYPE_CHECKING:
    from trnprof.tui.app import TerminalApp

SLOW: dict[str, Callable[[Session], object]] = {
    "verdict": Session.judge,
    "source": lambda session: session.source_files,
    "advice": Session.advice,
    "path": Session.critical,
}
"""Tabs whose answer takes a moment on large traces."""


class Told(Message):
    """The answer of a slow tab is there."""

    def __init__(self, tab: str):
        super().__init__()
        self.tab = tab


class Wished(Message):
    """A what-if is a run further."""

    def __init__(self, wish: Wish):
        super().__init__()
        self.wish = wish


class Beside(Message):
    """Another trace can be looked at beside this one, or why it cannot."""

    def __init__(self, name: str, session: Session | None, fault: str = ""):
        super().__init__()
        self.name, self.session, self.fault = name, session, fault


class Noted(Message):
    """Something is done, or why it is not."""

    def __init__(self, text: str):
        super().__init__()
        self.text = text


def write_rows(app: TerminalApp, session: Session, span: tuple[int, int]) -> None:
    """Write what lies in a stretch of time into the folder where the user is."""

    def job() -> None:
        try:
            said = f"saved {export.save_rows(session, span, Path.cwd()).name}"
        except OSError as fault:
            said = f"not saved: {fault.strerror or fault}"
        app.post_message(Noted(said))

    app.beside(job)


def find_out(app: TerminalApp, tab: str) -> None:
    """Ask for the answer of a slow tab."""
    session = app.scene.session

    def job() -> None:
        SLOW[tab](session)
        app.post_message(Told(tab))

    app.beside(job)


def suppose(app: TerminalApp, text: str) -> None:
    """Run the what-ifs of a line, one after another, until the last or until the user leaves the page."""
    session = app.scene.session
    try:
        wish = Wish(text, tuple(session.suppositions(text)))
    except TrnprofError as fault:
        wish = Wish(text, error=str(fault), over=True)
    cancel(app.scene.wish)
    app.scene = replace(app.scene, wish=wish)
    app.become(replace(app.scene.state, screen="what_if", overlay="", entry="", item=0))
    if not wish.over:
        app.beside(lambda: _run(app, session, wish))


def _run(app: TerminalApp, session: Session, wish: Wish) -> None:
    try:
        for settings in wish.asked:
            wish = wish.with_(wish.control.run(partial(session.what_if, settings)))
            app.post_message(Wished(wish))
        app.post_message(Wished(replace(wish, over=True)))
    except Cancelled:
        return
    except TrnprofError as fault:
        app.post_message(Wished(replace(wish, error=str(fault), over=True)))


def cancel(wish: Wish | None) -> Wish | None:
    """Give up the run that is under way, and begin no further one."""
    if wish is None or wish.over:
        return wish
    wish.control.cancel()
    return replace(wish, over=True)


def compare_wish(app: TerminalApp, wish: Wish, item: int) -> None:
    """The trace as it would be, beside this one."""
    settings = wish.asked[item]
    name = ", ".join(f"{key}={value}" for key, value in settings.items())
    _beside(app, name, lambda: app.scene.session.supposed(settings))


def compare_path(app: TerminalApp, text: str) -> None:
    """Another trace by its path, beside this one."""
    path = Path(text.strip()).expanduser()
    _beside(app, path.name, lambda: Session.open(path))


def _beside(app: TerminalApp, name: str, opener: Callable[[], Session]) -> None:
    session = app.scene.session

    def job() -> None:
        try:
            other = opener()
            other.compared_with(session)
        except (TrnprofError, OSError) as fault:
            app.post_message(Beside(name, None, str(fault)))
        else:
            app.post_message(Beside(name, other))

    app.note(f"comparing with {name}")
    app.beside(job)
