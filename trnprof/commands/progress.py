"""A line on stderr while a launch takes long: what it is at, how far it is."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from sim.stages import Stage

PATIENCE = 2.0
"""Seconds that a launch may take without a line."""
INTERVAL = 0.25
"""Seconds between two looks: a number that changes, nothing that spins."""
BAR = 24
"""Characters of a bar."""
WIDEST = 78
ERASE = "\r\x1b[K"


@contextmanager
def shown(quiet: bool) -> Iterator[None]:
    """Within, launches that take longer than `PATIENCE` are shown on stderr, if that is a terminal and not `quiet`."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from sim import stages

    line = Line(sys.stderr, PATIENCE, INTERVAL)
    with stages.watched(line.watch):
        try:
            yield
        finally:
            line.watch(None)


class Line:
    """The line; a thread writes it for as long as one launch runs."""

    def __init__(self, stream: TextIO, patience: float, interval: float):
        self._stream = stream
        self._patience = patience
        self._interval = interval
        self._stage: Stage | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, stage: Stage | None) -> None:
        """A stage begins, or with None the launch has ended."""
        self._stage = stage
        if stage is None:
            self._end()
        elif self._thread is None:
            self._ended.clear()
            self._thread = threading.Thread(target=self._write, args=(time.monotonic(),), daemon=True)
            self._thread.start()

    def _end(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _write(self, begun: float) -> None:
        if self._ended.wait(self._patience):
            return
        while True:
            stage = self._stage
            if stage is not None:
                self._say(ERASE + text(stage, time.monotonic() - begun))
            if self._ended.wait(self._interval):
                self._say(ERASE)
                return

    def _say(self, words: str) -> None:
        self._stream.write(words)
        self._stream.flush()


def drawn(done: int, total: int) -> str:
    """`[######------]`."""
    full = min(BAR * done // max(1, total), BAR)
    return f"[{'#' * full}{'-' * (BAR - full)}]"


def text(stage: Stage, seconds: float) -> str:
    """`matmul  computing  [######------]  48 120 of 96 000 instructions  3 s`."""
    from trnprof import words

    done, bar, of = stage.done(), "", ""
    if stage.total:
        bar, of = f"  {drawn(done, stage.total)}", f" of {words.count(stage.total)}"
    said = f"  {stage.name}{bar}  {words.count(done)}{of} instructions  {int(seconds)} s"
    return words.plain(stage.kernel, max(WIDEST - len(said), 8)) + said
