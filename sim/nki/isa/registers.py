"""`nki.isa` calls on the sequencers' registers. Values are eager: a register knows its number when the call returns."""

from __future__ import annotations

from operator import index as as_int
from typing import Any

from sim.engines import sync
from sim.errors import InputError, UnsupportedError
from sim.nki.isa.issuing import NkiInstruction, issue, issue_transfer
from sim.nki.session import builder
from sim.nki.subset import note_untraceable
from sim.nki.tensor import NkiTensor
from sim.trace import Engine

BITS = 32


class VirtualRegister:
    """A 32-bit register; as an index, loop bound or condition it stands for its value."""

    __slots__ = ("state",)

    def __init__(self, state: int | None = None, frozen: bool = False):
        self.state = state

    def __int__(self) -> int:
        if self.state is None:
            program = builder()
            if not program.values:
                raise UnsupportedError(
                    "a register's value is not known without values", source=program.where(), remedy="run with values"
                )
            raise InputError("VirtualRegister: read before it was written", source=program.where())
        return self.state

    __index__ = __int__

    def __bool__(self) -> bool:
        note_untraceable("a register as a condition of Python", "use nki.language.while_loop")
        return int(self) != 0

    def __repr__(self) -> str:
        return f"<register: {self.state}>"


def register_alloc(x: Any = None) -> VirtualRegister:
    """A register, holding x when it is given: an integer, or as of old the one element of a tensor."""
    register = VirtualRegister()
    if isinstance(x, NkiTensor):
        register_load(register, x)
    elif x is not None:
        register_move(register, x if isinstance(x, VirtualRegister) else _wrapped(x, "register_alloc", "x"))
    return register


def register_move(dst: VirtualRegister, src: Any) -> NkiInstruction:
    """dst = an integer or another register's value."""
    _check("register_move", "dst", dst)
    state = src.state if isinstance(src, VirtualRegister) else _wrapped(src, "register_move", "src")
    handle = issue(sync.MOVE, (), (Engine.SYNC,))
    dst.state = state
    return handle


def _check(call: str, argument: str, register: Any) -> None:
    if not isinstance(register, VirtualRegister):
        raise InputError(f"nki.isa.{call}: {argument}: {register!r} is no register", source=builder().where())


def _wrapped(value: Any, call: str, argument: str) -> int:
    """Two's complement of 32 bits."""
    try:
        number = as_int(value)
    except TypeError:
        message = f"nki.isa.{call}: {argument}: {value!r} is neither an integer nor a register"
        raise InputError(message, source=builder().where()) from None
    return (number + (1 << BITS - 1)) % (1 << BITS) - (1 << BITS - 1)


def register_load(dst: VirtualRegister, src: NkiTensor) -> NkiInstruction:
    """dst = the one element of a tensor in HBM or SBUF."""
    program = builder()
    _check("register_load", "dst", dst)
    handle = issue_transfer(program, sync.LOAD, (src,), (Engine.SYNC,), None)
    dst.state = int(src.array().reshape(-1)[0]) if program.values else None
    return handle


def register_store(dst: NkiTensor, src: Any) -> NkiInstruction:
    """The one element of a tensor in HBM or SBUF = a register's value."""
    program = builder()
    _check("register_store", "src", src)
    value = int(src) if program.values else 0
    return issue_transfer(program, sync.STORE, (dst,), (Engine.SYNC,), None, value=value)
