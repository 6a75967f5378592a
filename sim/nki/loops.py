"""Loops of `nki.language`. All run eagerly; a dynamic one leaves its branches in the instruction streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sim.engines import sync
from sim.errors import InputError
from sim.nki.isa.issuing import issue
from sim.nki.isa.registers import VirtualRegister
from sim.nki.isa.scalars import NkiScalar
from sim.nki.session import builder
from sim.nki.subset import note_untraceable
from sim.trace import Engine, RegionKind

SEQUENCERS = (Engine.TENSOR, Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD, Engine.SYNC)


class Loop:
    """What the ranges give: numbers as Python's `range` has them; instructions issued while iterating belong to it."""

    __slots__ = ("_dynamic", "_kind", "_source", "numbers")

    def __init__(self, kind: str, start: Any, stop: Any, step: Any, dynamic: bool = False):
        first, last = (0, start) if stop is None else (start, stop)
        program = builder()
        try:
            self.numbers = range(_bound(first), _bound(last), int(step))
        except (TypeError, ValueError) as error:
            fault = f"nl.{kind}: start, stop, step: {start!r}, {stop!r}, {step!r}, must be integers: {error}"
            raise InputError(fault, source=program.where()) from None
        self._kind, self._source, self._dynamic = kind, program.here(), dynamic

    def __iter__(self) -> Iterator[int]:
        program = builder()
        line = (program.strings[self._source] or "").rsplit(":", 1)[-1]
        with program.inside(RegionKind.LOOP, f"{self._kind} at line {line}", self._source):
            for number in self.numbers:
                program.iterations.begin()
                if self._dynamic:
                    branch()
                yield number

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, at: Any) -> Any:
        return self.numbers[at]


def _bound(value: Any) -> int:
    """A loop bound as a number; a tensor is none, as its value is not known to the sequencers."""
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"{value} is no whole number")
    return int(value)


def branch() -> None:
    """The compare-and-branch that every sequencer runs before an iteration of a dynamic loop."""
    for engine in SEQUENCERS:
        issue(sync.BRANCH, (), (engine,), None, engine)


def affine_range(start: Any, stop: Any = None, step: int = 1) -> Loop:
    return Loop("affine_range", start, stop, step)


def sequential_range(start: Any, stop: Any = None, step: int = 1) -> Loop:
    return Loop("sequential_range", start, stop, step)


def static_range(start: Any, stop: Any = None, step: int = 1) -> Loop:
    return Loop("static_range", start, stop, step)


def dynamic_range(start: Any, stop: Any = None, step: int = 1) -> Loop:
    """A loop on the device; its bounds may be registers (until NKI 0.6)."""
    _check_step("dynamic_range", step)
    note_untraceable("nl.dynamic_range", "use nki.language.fori_loop")
    return Loop("dynamic_range", start, stop, step, dynamic=True)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any], None], step: int = 1) -> None:
    """A loop on the device: body_fun(i) with i a VirtualRegister if a bound is one, else an NkiScalar."""
    _check_step("fori_loop", step)
    registers = isinstance(lower, VirtualRegister) or isinstance(upper, VirtualRegister)
    for number in Loop("fori_loop", lower, upper, step, dynamic=True):
        body_fun(VirtualRegister(number) if registers else NkiScalar(number))


def _check_step(call: str, step: Any) -> None:
    if not isinstance(step, int) or step < 1:
        raise InputError(f"nl.{call}: step: {step!r}, must be a positive integer", source=builder().where())


def while_loop(init: VirtualRegister, body_fun: Callable[[VirtualRegister], VirtualRegister]) -> None:
    """A loop on the device while a register is not 0; body_fun gives the next one."""
    program = builder()
    source = program.here()
    condition = _condition("init", init)
    line = (program.strings[source] or "").rsplit(":", 1)[-1]
    with program.inside(RegionKind.LOOP, f"while_loop at line {line}", source):
        while int(condition):
            branch()
            condition = _condition("what body_fun returns", body_fun(VirtualRegister(int(condition))))


def _condition(argument: str, value: Any) -> VirtualRegister:
    if not isinstance(value, VirtualRegister):
        raise InputError(f"nl.while_loop: {argument}: {value!r} is no register", source=builder().where())
    return value
