"""`nki.isa` calls that fold or scan rows (Vector Engine)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sim.engines import vector_reduce as dve
from sim.errors import InputError
from sim.nki import functions
from sim.nki.isa import enums
from sim.nki.isa.issuing import NkiInstruction, check_dtype, issue, member, number, registers, split
from sim.nki.isa.vector import check_unary
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor
from sim.trace import Engine

Scalar = float | NkiTensor


def tensor_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    axis: Any,
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
    dtype: Any = None,
) -> NkiInstruction:
    """dst = data folded along its last free dimensions; keepdims concerns the caller's shape only."""
    check_dtype(dtype)
    axes = tuple(map(int, axis)) if isinstance(axis, Iterable) else (int(axis),)
    return issue(dve.REDUCE, (dst, data), (functions.alu(op, "tensor_reduce", "op"), axes, bool(negate)), name)


def tensor_tensor_scan(
    dst: NkiTensor,
    data0: NkiTensor,
    data1: NkiTensor,
    initial: Scalar,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
    dtype: Any = None,
) -> NkiInstruction:
    """dst[:, i] = op1(op0(data0[:, i], dst[:, i - 1]), data1[:, i]); `initial` stands before the first."""
    call = "tensor_tensor_scan"
    check_dtype(dtype)
    views, column, value = split(initial)
    static = (
        functions.alu(op0, call, "op0"),
        functions.alu(op1, call, "op1"),
        (bool(reverse0), bool(reverse1)),
        column,
    )
    seed = None if column else number(value, call, "initial")
    return issue(dve.SCAN, (dst, data0, data1, *views), static, name, initial=seed)


def tensor_scalar_cumulative(
    dst: NkiTensor,
    src: NkiTensor,
    op0: Any,
    op1: Any,
    imm0: Scalar,
    imm1: Scalar | None = None,
    reduce_cmd: Any = enums.reduce_cmd.reset_reduce,
    name: str | None = None,
) -> NkiInstruction:
    """dst[:, i] = op1(op0(src[:, i], imm0), dst[:, i - 1]), from the accumulator registers that reduce_cmd prepares."""
    call = "tensor_scalar_cumulative"
    views0, column0, value0 = split(imm0)
    views1, column1, value1 = split(imm1)
    command = member(reduce_cmd, enums.reduce_cmd, call, "reduce_cmd")
    _check_initial(call, "imm1", imm1, command)
    static = (functions.alu(op0, call, "op0"), functions.alu(op1, call, "op1"), (column0, column1), command)
    held = registers(builder(), Engine.VECTOR)
    numbers = (value0, value1)
    return issue(dve.CUMULATIVE_SCAN, (dst, src, *views0, *views1), static, name, numbers=numbers, registers=held)


def _check_initial(call: str, argument: str, value: Any, command: str) -> None:
    if command == "load_reduce" and value is None:
        raise InputError(f"nki.isa.{call}: {argument}: missing for load_reduce", source=builder().where())


def tensor_scalar_reduce(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Scalar | None,
    reduce_op: Any,
    reduce_res: NkiTensor | None = None,
    reverse0: bool = False,
    reduce_cmd: Any = enums.reduce_cmd.reset_reduce,
    reduce_init: Scalar | None = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
    dtype: Any = None,
) -> NkiInstruction:
    """dst = data <op0> operand0, and its fold over all free dimensions into reduce_res."""
    call = "tensor_scalar_reduce"
    check_dtype(dtype)
    if reverse0:
        raise InputError(
            f"nki.isa.{call}: reverse0: True is not supported by the hardware yet", source=builder().where()
        )
    command = member(reduce_cmd, enums.reduce_cmd, call, "reduce_cmd")
    _check_initial(call, "reduce_init", reduce_init, command)
    if reduce_init is not None and command != "load_reduce":
        raise InputError(
            f"nki.isa.{call}: reduce_init: given with {command}, must be load_reduce", source=builder().where()
        )
    views0, column0, value0 = split(operand0)
    views1, column1, value1 = split(reduce_init)
    operator = functions.alu(op0, call, "op0")
    check_unary(operator, column0, value0, call, "operand0")
    static = (
        operator,
        functions.alu(reduce_op, call, "reduce_op"),
        (column0, column1),
        command,
        reduce_res is not None,
        bool(reduce_res_negate),
    )
    outputs = (dst,) if reduce_res is None else (dst, reduce_res)
    held = registers(builder(), Engine.VECTOR)
    operands = (*outputs, data, *views0, *views1)
    return issue(dve.SCALAR_REDUCE, operands, static, name, numbers=(value0, value1), registers=held)


def bn_stats(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """dst = count, mean and variance x count of the even, then of the odd elements of each partition."""
    return issue(dve.BN_STATS, (dst, data), (), name)


def bn_aggr(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """dst = mean and variance from (count, mean, variance x count) triples."""
    return issue(dve.BN_AGGR, (dst, data), (), name)
