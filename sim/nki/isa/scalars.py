"""`NkiScalar` and the calls that load and store it (NKI 0.7). Values are eager, as those of registers are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim import dtypes
from sim.engines import sync
from sim.errors import InputError, UnsupportedError
from sim.nki import environment
from sim.nki.isa.issuing import NkiInstruction, issue, issue_transfer
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor
from sim.trace import Engine

BITS = 32


class NkiScalar:
    """One integer of 32 bits that the device computes; `+`, `-` and `*` wrap and give new ones."""

    __slots__ = ("dtype", "is_comparison", "state")

    def __init__(self, state: int | None, dtype: Any = None, is_comparison: bool = False):
        self.state = None if state is None else wrapped(state)
        self.dtype = dtypes.int32 if dtype is None else dtypes.parse(dtype)
        self.is_comparison = is_comparison

    def __int__(self) -> int:
        where = builder().where()
        if self.is_comparison:
            raise InputError("NkiScalar: the result of a comparison cannot be used", source=where)
        if self.state is None:
            message = "a scalar's value is not known without values"
            raise UnsupportedError(message, source=where, remedy="run with values")
        return self.state

    __index__ = __int__

    def __bool__(self) -> bool:
        raise InputError(
            "NkiScalar: no condition for Python, its value is known on the device only",
            source=builder().where(),
            remedy="use nl.fori_loop or nl.while_loop",
        )

    def __repr__(self) -> str:
        return f"<scalar: {self.state}>"

    def _with(self, other: Any, compute: Callable[[int, int], int], is_comparison: bool = False) -> NkiScalar:
        if not isinstance(other, (int, NkiScalar)) or isinstance(other, bool):
            raise InputError(f"NkiScalar: {other!r} is neither an int nor a scalar", source=builder().where())
        issue(sync.MOVE, (), (Engine.SYNC,))
        mine, theirs = self.state, other.state if isinstance(other, NkiScalar) else other
        unknown = mine is None or theirs is None
        return NkiScalar(None if unknown else int(compute(mine, theirs)), self.dtype, is_comparison)

    def __add__(self, other: Any) -> NkiScalar:
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> NkiScalar:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> NkiScalar:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> NkiScalar:
        return self._with(other, lambda a, b: a * b)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> NkiScalar:
        return self._with(0, lambda a, b: -a)

    def __pos__(self) -> NkiScalar:
        return self

    def __lt__(self, other: Any) -> NkiScalar:
        return self._with(other, lambda a, b: a < b, True)

    def __le__(self, other: Any) -> NkiScalar:
        return self._with(other, lambda a, b: a <= b, True)

    def __gt__(self, other: Any) -> NkiScalar:
        return self._with(other, lambda a, b: a > b, True)

    def __ge__(self, other: Any) -> NkiScalar:
        return self._with(other, lambda a, b: a >= b, True)

    def __eq__(self, other: Any) -> NkiScalar:  # type: ignore[override]
        return self._with(other, lambda a, b: a == b, True)

    def __ne__(self, other: Any) -> NkiScalar:  # type: ignore[override]
        return self._with(other, lambda a, b: a != b, True)

    __hash__ = None  # type: ignore[assignment]


def wrapped(value: int) -> int:
    """Two's complement of 32 bits."""
    return (value + (1 << BITS - 1)) % (1 << BITS) - (1 << BITS - 1)


def scalar_load(src: NkiTensor) -> NkiScalar:
    """The one element of an int32 tensor in HBM or SBUF as a scalar."""
    program = builder()
    _check("scalar_load", "src", src)
    issue_transfer(program, sync.LOAD, (src,), (Engine.SYNC,), None)
    return NkiScalar(int(src.array().reshape(-1)[0]) if program.values else None)


def scalar_store(dst: NkiTensor, value: NkiScalar) -> NkiInstruction:
    """The one element of an int32 tensor in HBM or SBUF = a scalar."""
    program = builder()
    _check("scalar_store", "dst", dst)
    if not isinstance(value, NkiScalar):
        fault = f"nki.isa.scalar_store: value: {value!r} is no NkiScalar"
        raise InputError(fault, source=program.where(), remedy="use nki.isa.memset for a constant")
    stored = int(value) if program.values else 0
    return issue_transfer(program, sync.STORE, (dst,), (Engine.SYNC,), None, value=stored)


def _check(call: str, argument: str, tensor: Any) -> None:
    where = builder().where()
    if environment.is_parsed():
        fault = f"nki.isa.{call}: the parser, which {environment.FRONTEND}=custom asks for, has no scalars"
        raise InputError(fault, source=where, remedy="use registers")
    if not isinstance(tensor, NkiTensor):
        raise InputError(f"nki.isa.{call}: {argument}: {tensor!r} is no tensor", source=where)
    if tensor.dtype != dtypes.int32:
        found = dtypes.short(tensor.dtype)
        raise InputError(f"nki.isa.{call}: {argument}: dtype {found}, must be int32", source=where)
