"""What every `nki.isa` call does: check its operands, append the instruction, hand back a handle."""

from __future__ import annotations

import reprlib
import sys
from contextlib import suppress
from enum import Enum
from operator import index as as_int
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sim import dtypes
from sim.engines import sync
from sim.errors import InputError, UnsupportedError
from sim.memory import PARTITIONS, View
from sim.nki.isa import enums
from sim.nki.session import builder
from sim.nki.tensor import Index, NkiTensor
from sim.program import Op, ProgramBuilder
from sim.trace import Engine

SCALES, SCALE_ROWS = {"nki.isa.quantize_mx": (1,), "nki.isa.nc_matmul_mx": (3, 4)}, 4
"""Operands that are microscaling factors: four rows of each quadrant count, so that several tiles may share one."""
FREE_DIMENSIONS = 4
"""What a view may have beside the partition (language guide, "Tensor Values"); the older compiler split patterns."""
QUADRANT = 32
"""Partitions; an engine's access starts at a multiple of it, by its width (trainium_inferentia2_arch)."""


IDLE = enums.reduce_cmd.idle.name
"""The command that leaves an engine's accumulator registers alone."""


class NkiInstruction:
    """The handle of one `nki.isa` call, which may be more than one instruction."""

    __slots__ = ("_first", "_last", "_program")

    def __init__(self, program: ProgramBuilder, first: int, last: int):
        self._program = program
        self._first = first
        self._last = last

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Run after each producer has completed."""
        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                raise InputError(
                    f"NkiInstruction.depends_on: {producer!r} is no instruction", source=self._program.where()
                )
            self._program.order(producer._last, self._first)
        return self

    def then(self, other: NkiInstruction) -> NkiInstruction:
        """One handle for this instruction and the one that completes it."""
        return NkiInstruction(self._program, self._first, other._last)


def issue(
    op: Op,
    operands: tuple[View, ...],
    static: tuple = (),
    name: str | None = None,
    on: Engine = Engine.VECTOR,
    **immediates: Any,
) -> NkiInstruction:
    """Append one instruction of a compute engine.

    on     : the engine whose sequencer reads dynamic offsets
    raises : InputError with call and source line
    """
    program, indirect = builder(), False
    for view in operands:
        if not isinstance(view, NkiTensor):
            raise no_tensor(op, operands, program)
        if view.offset >= view.layout.pitch > 0 or view.storage.address is not None:
            _check_start(op, operands, view)
        if view.layout.depth > FREE_DIMENSIONS and type(view) is NkiTensor:
            _refuse_depth(op, view)
        if view.indirection is not None:
            indirect = True
    if indirect:
        return _append_indirect(program, op, operands, static, name, on, immediates)
    index = program.issue(op, operands, static, name, **immediates)
    if program.values:
        _round_tf32(operands)
    if "registers" in immediates and IDLE not in static:
        _keep_registers(program, on, index)
    return NkiInstruction(program, index, index)


def issue_transfer(
    program: ProgramBuilder, op: Op, operands: tuple[View, ...], static: tuple, name: str | None, **numbers: Any
) -> NkiInstruction:
    """Append one instruction that starts a transfer or moves a register: no rule says at which partition it starts."""
    for view in operands:
        if not isinstance(view, NkiTensor):
            raise no_tensor(op, operands, program)
        if view.indirection is not None:
            return _append_indirect(program, op, operands, static, name, Engine.SYNC, numbers)
    index = program.issue(op, operands, static, name, **numbers)
    if program.values:
        _round_tf32(operands)
    return NkiInstruction(program, index, index)


def issue_idle(
    program: ProgramBuilder, op: Op, operands: tuple[View, ...], static: tuple, name: str | None
) -> NkiInstruction:
    """Append a transfer that finds its dynamic offset out of bounds and, as asked, moves nothing."""
    index = program.issue_idle(op, operands, static, name)
    return NkiInstruction(program, index, index)


def _append_indirect(
    program: ProgramBuilder,
    op: Op,
    operands: tuple[View, ...],
    static: tuple,
    name: str | None,
    on: Engine,
    numbers: dict,
) -> NkiInstruction:
    """An instruction with a dynamic offset."""
    indirect = [view for view in operands if view.indirection is not None]
    for view in indirect:
        if view.indirection.outside is not None:
            fault = f"{op.call}: {argument_of(op, view)}: {view.indirection.outside}"
            raise InputError(fault, source=program.where())
    indices = [view.indirection for view in indirect]
    loads = [_load_offset(program, op, index, on) for index in indices if index.view is not None]
    index = program.issue(op, operands, static, name, **numbers)
    if program.values:
        _round_tf32(operands)
    for load in loads:
        program.order(load, index)
    return NkiInstruction(program, loads[0] if loads else index, index)


def _round_tf32(operands: tuple[View, ...]) -> None:
    """A result in tfloat32 was written as fp32, whose storage it shares; what was read is rounded already."""
    for view in operands:
        if view.layout.dtype is dtypes.tfloat32:
            array = view.array()
            array[...] = dtypes.round_tf32(array)


def _load_offset(program: ProgramBuilder, op: Op, index: Index, on: Engine) -> int:
    """The sequencer reads a dynamic offset into a register before the instruction that uses it."""
    if index.vector:
        raise UnsupportedError(f"{op.call}: an operand with vector_offset", source=program.where())
    return program.issue(sync.LOAD, (index.view,), (on,))


def no_tensor(op: Op, operands: tuple, program: ProgramBuilder) -> InputError:
    """The error for the first operand that is no tensor."""
    wrong = next(operand for operand in operands if not isinstance(operand, NkiTensor))
    what = f"{argument_of(op, wrong)}: {reprlib.repr(wrong)} of type {type(wrong).__name__}"
    return InputError(f"{op.call}: {what}, must be a tensor", source=program.where())


def argument_of(op: Op, operand: Any) -> str:
    """What the call that is running names this operand; `operand` when it made it itself."""
    called = op.call.split(".")[2].partition(":")[0]
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name.startswith(called):
            for name in code.co_varnames[: code.co_argcount]:
                place = _place(frame.f_locals.get(name), operand)
                if place is not None:
                    return name + place
        frame = frame.f_back
    return "operand"


def _place(argument: Any, operand: Any) -> str | None:
    """Where in an argument an operand stands, None if nowhere."""
    if argument is operand:
        return ""
    members = argument if isinstance(argument, (list, tuple)) else ()
    return next((f"[{place}]" for place, member in enumerate(members) if member is operand), None)


def _refuse_depth(op: Op, view: View) -> None:
    fault = f"{op.call}: {argument_of(op, view)}: shape {list(view.layout.shape)} needs {view.layout.depth} "
    raise InputError(
        f"{fault}free dimensions that do not merge, must be at most {FREE_DIMENSIONS}", source=builder().where()
    )


def _check_start(op: Op, operands: tuple[View, ...], view: View) -> None:
    start, count = view.offset // view.layout.pitch, view.layout.partitions
    own = view.storage.address
    start += own[0] if own else 0
    scales = SCALES.get(op.call, ())
    if any(view is operands[place] for place in scales):
        start, allowed = start % QUADRANT, range(0, QUADRANT // 2, SCALE_ROWS)
    else:
        step = QUADRANT if count <= QUADRANT else 2 * QUADRANT if count <= 2 * QUADRANT else PARTITIONS
        allowed = range(0, PARTITIONS, step)
    if start not in allowed:
        raise InputError(
            f"{op.call}: {argument_of(op, view)}: an access of {count} partitions of `{view.storage.name}` "
            f"starts at partition {start}, "
            f"must start at {', '.join(map(str, allowed))}",
            source=builder().where(),
        )


def member(value: Any, kind: type[Enum], call: str, argument: str) -> str:
    """The name of an enum member; its number stands for it.

    raises: InputError for anything else
    """
    if type(value) is kind:
        return value._name_
    with suppress(ValueError):
        return kind(value)._name_
    known = ", ".join(f"{kind.__name__}.{item.name}" for item in kind)
    raise InputError(f"nki.isa.{call}: {argument}: {value!r}, must be one of {known}", source=builder().where())


def split(value: Any) -> tuple[tuple[View, ...], bool, Any]:
    """An operand that may be a number or a [P, 1] tile: (its operands, whether it is a tile, its number)."""
    if isinstance(value, View):
        return (value,), True, None
    return (), False, value


def number(value: Any, call: str, argument: str) -> float:
    """A number of the host.

    raises: InputError for anything else
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(
            f"nki.isa.{call}: {argument}: {value!r} is neither a number nor a tile", source=builder().where()
        ) from None


def int32(value: Any, call: str, argument: str) -> int:
    """An integer that the instruction has 32 bits for.

    raises: InputError for anything else
    """
    try:
        whole = as_int(value)
    except TypeError:
        fault = f"{value!r} is no integer"
    else:
        if -(1 << 31) <= whole < 1 << 31:
            return whole
        fault = f"{whole}, must be an int32, -2147483648 to 2147483647"
    raise InputError(f"nki.isa.{call}: {argument}: {fault}", source=builder().where())


def check_dtype(dtype: Any) -> None:
    """The `dtype=` that kernels of older releases still pass must be one; the destination's decides what is stored."""
    if dtype is not None:
        dtypes.parse(dtype)


_registers: WeakKeyDictionary[ProgramBuilder, dict[tuple[int, Engine], np.ndarray]] = WeakKeyDictionary()


_users: WeakKeyDictionary[ProgramBuilder, dict[tuple[int, Engine], int]] = WeakKeyDictionary()


def _keep_registers(program: ProgramBuilder, engine: Engine, index: int) -> None:
    """Instructions that share an engine's accumulator registers keep their order."""
    last = _users.setdefault(program, {})
    key = (program.core, engine)
    if key in last:
        program.order(last[key], index, at_issue=True)
    last[key] = index


def registers(program: ProgramBuilder, engine: Engine) -> np.ndarray:
    """An engine's accumulator registers, fp32[128, 1]; they live as long as the program is built."""
    held = _registers.setdefault(program, {})
    key = (program.core, engine)
    if key not in held:
        held[key] = np.zeros((PARTITIONS, 1), np.float32)
    return held[key]
