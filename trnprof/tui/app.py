"""The terminal application: keys and pointer in, lines out; what is on them is painted elsewhere."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from rich.segment import Segment
from textual import events, work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import get_current_worker

from sim.errors import TrnprofError
from trnprof.tui import actions, ink, overlays, pages, pointer, svg
from trnprof.tui.canvas import Canvas
from trnprof.tui.ink import Depth, Inkwell
from trnprof.tui.screen import Picture, Scene, paint
from trnprof.tui.state import NONE
from trnprof.view import Session
from trnprof.view import format as words
from trnprof.view.keys import keys_of
from trnprof.view.palette import THEMES
from trnprof.view.records import Hits

TICK = 0.25
"""Seconds between two looks at a progress: a number that changes, nothing that spins."""
IN_PLACE = 50_000
"""A search over fewer instructions is over before the key is released."""


class Face(Widget, can_focus=True):
    """The whole terminal as one canvas; only lines that changed are sent."""

    DEFAULT_CSS = "Face { width: 100%; height: 100%; }"

    canvas: Canvas | None = None

    def show(self, canvas: Canvas) -> None:
        """Take a new canvas and repaint where it differs from the last."""
        before, self.canvas = self.canvas, canvas
        if before is None or (before.width, before.height) != (canvas.width, canvas.height):
            self.refresh()
            return
        changed = (before.chars != canvas.chars) | (before.inks != canvas.inks)
        lines = np.flatnonzero(changed.any(axis=1)).tolist()
        if lines:
            self.refresh(*(_stretch(changed[y], y) for y in lines))

    def render_line(self, y: int) -> Strip:
        canvas, app = self.canvas, self.app
        if canvas is None or y >= canvas.height:
            return Strip.blank(self.size.width)
        style = app.inkwell.style
        runs = canvas.runs(y, app.ascii_only)
        return Strip([Segment(text, style(code)) for text, code in runs], canvas.width)


def _stretch(changed: np.ndarray, y: int) -> Region:
    columns = np.flatnonzero(changed)
    return Region(int(columns[0]), y, int(columns[-1] - columns[0]) + 1, 1)


class TerminalApp(App[int]):
    """`trnprof tui`: opens at once, reads the trace beside it, ends with the command's exit code."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [  # noqa: RUF012
        Binding(",".join(key.terminal), f"key('{key.action}')", key.words, show=False, priority=False)
        for key in keys_of("terminal")
    ]
    CSS = "Screen { background: transparent; }"

    def __init__(self, path: str | Path, *, ascii_only: bool = False, colour: str = "engine", depth: Depth = "truecolor"):
        super().__init__(ansi_color=depth in ("16", "none"))
        self.path = Path(path)
        self.ascii_only = ascii_only
        self.colour = colour
        self.inkwell = Inkwell(THEMES[0], depth)
        self.scene: Scene | None = None
        self.picture: Picture | None = None
        self.fault = ""
        self.began = time.monotonic()
        self.beside: Callable[[], Session] = partial(Session.open, self.path)
        """What the worker does; tests put a finished session here."""
        self._returning: Scene | None = None

    def compose(self) -> ComposeResult:
        yield Face()

    @property
    def face(self) -> Face:
        return self.query_one(Face)

    def on_mount(self) -> None:
        self.face.focus()
        self.read()
        self.timer = self.set_interval(TICK, self.repaint)
        self._leave_tidily()

    def _leave_tidily(self) -> None:
        """A signal ends the program as `q` does, so that the terminal is given back as it was."""
        try:
            for number in (signal.SIGTERM, signal.SIGHUP):
                self._loop_of_this().add_signal_handler(number, self.exit, 128 + number)
        except (NotImplementedError, RuntimeError, AttributeError, ValueError):
            return  # not on the main thread, or no signals on this platform

    def _loop_of_this(self):
        import asyncio

        return asyncio.get_running_loop()
