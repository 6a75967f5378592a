"""`nki.isa` calls that combine, copy or fill tiles elementwise (Vector Engine, some also Scalar or GpSimd)."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from sim import dtypes
from sim.engines import vector as dve
from sim.errors import InputError
from sim.nki import functions
from sim.nki.isa import enums
from sim.nki.isa.issuing import NkiInstruction, check_dtype, issue, member, number, split
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor

Scalar = float | NkiTensor


def tensor_copy(
    dst: NkiTensor, src: NkiTensor, engine: Any = enums.engine.unknown, name: str | None = None, dtype: Any = None
) -> NkiInstruction:
    """dst = src between SBUF and PSUM; bits when the dtypes are equal, else through fp32."""
    check_dtype(dtype)
    packed = getattr(dst, "dtype", None) in dtypes.PACKED or getattr(src, "dtype", None) in dtypes.PACKED
    return issue(dve.COPY, (dst, src), (member(engine, enums.engine, "tensor_copy", "engine"), packed), name)


def memset(
    dst: NkiTensor, value: Any, engine: Any = enums.engine.unknown, name: str | None = None, dtype: Any = None
) -> NkiInstruction:
    """Fill dst with a number, of integers with an integer."""
    check_dtype(dtype)
    filled = number(value, "memset", "value")
    if not isinstance(value, Integral) and type(dst) is NkiTensor and dst.dtype in dtypes.INTEGERS:
        fault = f"nki.isa.memset: value: {value!r} for {dtypes.short(dst.dtype)}, must be an integer"
        raise InputError(fault, source=builder().where())
    static = (member(engine, enums.engine, "memset", "engine"), filled == 0)
    return issue(dve.MEMSET, (dst,), static, name, value=value)


def tensor_tensor(
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: Any,
    engine: Any = enums.engine.unknown,
    name: str | None = None,
    dtype: Any = None,
) -> NkiInstruction:
    """dst = data1 <op> data2, elementwise."""
    check_dtype(dtype)
    static = (functions.alu(op, "tensor_tensor", "op"), member(engine, enums.engine, "tensor_tensor", "engine"))
    return issue(dve.TENSOR_TENSOR, (dst, data1, data2), static, name)


def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Scalar | None,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Scalar | None = None,
    reverse1: bool = False,
    engine: Any = enums.engine.unknown,
    name: str | None = None,
    dtype: Any = None,
) -> NkiInstruction:
    """dst = (data <op0> operand0) <op1> operand1, the operands broadcast along the free dimensions.

    operand0, operand1 : numbers or [P, 1] fp32 tiles
    """
    check_dtype(dtype)
    if op1 is None and operand1 is not None:
        raise InputError("nki.isa.tensor_scalar: operand1 is given without op1", source=builder().where())
    views0, column0, value0 = split(operand0)
    views1, column1, value1 = split(operand1)
    static = (
        functions.alu(op0, "tensor_scalar", "op0"),
        functions.alu(op1, "tensor_scalar", "op1"),
        (bool(reverse0), bool(reverse1)),
        (column0, column1),
        member(engine, enums.engine, "tensor_scalar", "engine"),
    )
    numbers = (
        _immediate(value0, column0, static[0], "operand0"),
        _immediate(value1, column1, static[1], "operand1"),
    )
    return issue(dve.TENSOR_SCALAR, (dst, data, *views0, *views1), static, name, numbers=numbers)


def _immediate(value: Any, column: bool, op: str, argument: str) -> Any:
    """The number of an operator that takes one."""
    check_unary(op, column, value, "tensor_scalar", argument)
    if column or op == functions.BYPASS:
        return None
    if value is None:
        if functions.ALU[op].unary:
            return None
        raise InputError(f"nki.isa.tensor_scalar: {argument}: missing for {op}", source=builder().where())
    number(value, "tensor_scalar", argument)
    return value


def check_unary(op: str, column: bool, value: Any, call: str, argument: str) -> None:
    """raises: InputError for an operand of an operator that takes none"""
    if op != functions.BYPASS and functions.ALU[op].unary and (column or (value is not None and value != 0)):
        given = "a tile" if column else value
        fault = f"nki.isa.{call}: {argument}: {given} for the unary {op}, must be None or 0"
        raise InputError(fault, source=builder().where())


def scalar_tensor_tensor(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Scalar,
    op1: Any,
    operand1: NkiTensor,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
    dtype: Any = None,
) -> NkiInstruction:
    """dst = (data <op0> operand0) <op1> operand1; operand0 a number or [P, 1] tile, operand1 a tile like data."""
    call = "scalar_tensor_tensor"
    check_dtype(dtype)
    views, column, value = split(operand0)
    static = (
        functions.alu(op0, call, "op0"),
        functions.alu(op1, call, "op1"),
        (bool(reverse0), bool(reverse1)),
        column,
    )
    immediate = None if column else number(value, call, "operand0")
    return issue(dve.SCALAR_TENSOR_TENSOR, (dst, data, operand1, *views), static, name, operand0=immediate)


def reciprocal(dst: NkiTensor, data: NkiTensor, name: str | None = None, dtype: Any = None) -> NkiInstruction:
    """dst = 1 / data, elementwise on the Vector Engine."""
    check_dtype(dtype)
    return issue(dve.RECIPROCAL, (dst, data), (), name)
