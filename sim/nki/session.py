"""The program that the running kernel adds to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sim.errors import InputError, TrnprofError
from sim.program import ProgramBuilder

_active: ContextVar[ProgramBuilder | None] = ContextVar("_active", default=None)


def builder() -> ProgramBuilder:
    """The active ProgramBuilder.

    raises: InputError outside a kernel launch
    """
    active = _active.get()
    if active is None:
        raise InputError("an NKI call outside a kernel", remedy="call it from a function decorated with @nki.jit")
    return active


def active() -> bool:
    """Whether a kernel is running."""
    return _active.get() is not None


@contextmanager
def building(program: ProgramBuilder) -> Iterator[ProgramBuilder]:
    """NKI calls within add to this program; what they raise names its device."""
    token = _active.set(program)
    try:
        yield program
    except TrnprofError as error:
        error.device = program.device.name
        raise
    finally:
        _active.reset(token)
