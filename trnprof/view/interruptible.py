"""Long work in a thread that can be given up between two of its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sim import stages

Answer = TypeVar("Answer")


class Cancelled(BaseException):
    """The work was given up; no `except Exception` of what runs may swallow it."""


class Interruptible:
    """Runs pieces of work one after another, until another thread cancels them."""

    def __init__(self) -> None:
        self.cancelled = False

    def run(self, work: Callable[[], Answer]) -> Answer:
        """The answer of the work. raises : Cancelled, at the next step of the emulator"""
        self._look()
        with stages.pausing(self._look):
            answer = work()
        self._look()
        return answer

    def cancel(self) -> None:
        """Give up what runs, and begin nothing more."""
        self.cancelled = True

    def _look(self) -> None:
        if self.cancelled:
            raise Cancelled
