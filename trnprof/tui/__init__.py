"""The terminal view: a thin mouth on `trnprof.view`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

from sim.errors import UsageError


def run(
    path: str | Path,
    mouse: bool = True,
    ascii: bool = False,
    colour: str = "engine",
    depth: Literal["auto", "truecolor", "256", "16", "none"] = "auto",
) -> int:
    """Show a trace in the terminal until the user leaves, and return the exit code.

    colour : what colours mean at first, one of `view.colours.COLOURS`
    depth  : how many colours the terminal has; `auto` asks it, and NO_COLOR means none
    raises : UsageError where there is no terminal; a fault of trnprof's own, once the terminal is as it was
    """
    # Textual reads stdin and draws on stderr, so that stdout stays free for results.
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("the terminal view needs a terminal", remedy="`trnprof summary` prints the same figures")
    from trnprof.tui.app import TerminalApp
    from trnprof.tui.ink import detect, speaks_utf8
    from trnprof.tui.kept import place
    from trnprof.view.places import memory

    found = detect(os.environ) if depth == "auto" else depth
    plain = ascii or not speaks_utf8(os.environ)
    app = TerminalApp(
        path, ascii_only=plain, colour=colour, depth=found, kept=place(os.environ), memory=memory(os.environ)
    )
    code = app.run(mouse=mouse)
    if app.fault is not None:
        raise app.fault
    return code if code is not None else app.return_code or 0
