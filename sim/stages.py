"""What a launch is at, for whoever shows it to people who wait, and where they may give it up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of the work of a launch.

    done  : instructions that are through, asked at any time and from any thread
    total : instructions that it will be, None when nobody knows
    """

    kernel: str
    name: str
    done: Callable[[], int]
    total: int | None = None


Watcher = Callable[[Stage | None], None]
_watchers: list[Watcher] = []


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Within, `watcher` is told of every stage that begins, and of None when a launch has ended."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def enter(stage: Stage | None) -> None:
    """Say what begins now; None when nothing does."""
    for watcher in _watchers:
        watcher(stage)


_asked = threading.local()


@contextmanager
def pausing(look: Callable[[], None]) -> Iterator[None]:
    """Within, and in this thread, `look` is called between two steps of timing a program; what it raises ends that."""
    before = getattr(_asked, "look", None)
    _asked.look = look
    try:
        yield
    finally:
        _asked.look = before


def pause() -> None:
    """A step is over and the next one begins."""
    look = getattr(_asked, "look", None)
    if look is not None:
        look()
