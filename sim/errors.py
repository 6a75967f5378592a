"""The errors that people see, and the exit code that each one ends a command with.

TrnprofError             1   the user's input is at fault, or a check failed
├── InputError           1   a file, kernel argument or operand that breaks a documented limit
├── UsageError           2   a command line that cannot be parsed
├── UnsupportedError     3   correct input that the emulator does not implement
└── CapacityError        4   more SBUF, PSUM or HBM than the device has
"""

from __future__ import annotations


class TrnprofError(Exception):
    """One line that says what is wrong, where, and what to do about it."""

    exit_code = 1

    def __init__(self, message: str, *, source: str | None = None, remedy: str | None = None):
        self.message = message
        self.source = source
        """`path:line` of the user's own code, None when the fault has no line."""
        self.remedy = remedy
        self.caller: str | None = None
        """`path:line` in the kernel, where the fault lies in a function that it calls."""
        self.device: str | None = None
        """The device that the kernel was for; None outside a kernel."""
        super().__init__(str(self))

    def __str__(self) -> str:
        where = f"{self.source}: " if self.source else ""
        device = f" [{self.device}]" if self.device else ""
        what = f" ({self.remedy})" if self.remedy else ""
        called = f", called at {self.caller}" if self.caller else ""
        return f"{where}{self.message}{called}{what}{device}"


class InputError(TrnprofError):
    """Input that breaks a documented rule: names the call, the argument, the value and the limit."""


class UsageError(TrnprofError):
    """A command line that cannot be parsed."""

    exit_code = 2


class UnsupportedError(TrnprofError):
    """Correct input that the emulator does not implement; never approximated silently."""

    exit_code = 3


class CapacityError(TrnprofError):
    """An allocation that does not fit; names it and what is alive beside it."""

    exit_code = 4
