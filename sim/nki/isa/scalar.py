"""`nki.isa` calls of the Scalar Engine."""

from __future__ import annotations

from typing import Any

from sim.engines import scalar as act
from sim.nki import functions
from sim.nki.isa import enums
from sim.nki.isa.issuing import NkiInstruction, check_dtype, issue, member, number, registers, split
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor
from sim.trace import Engine

Scalar = float | NkiTensor


def activation(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    bias: Scalar | None = None,
    scale: Scalar = 1.0,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: Any = enums.reduce_cmd.idle,
    name: str | None = None,
    dtype: Any = None,
) -> NkiInstruction:
    """dst = op(data * scale + bias) on the Scalar Engine; its sum over the free dimensions may stay in registers.

    bias, scale : a number or a [P, 1] tile (bias on v2: a tile)
    reduce_res  : [P, 1] tile that a second instruction reads the registers into
    """
    check_dtype(dtype)
    return _activate(dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd, name, "activation")


def activation_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    reduce_op: Any,
    reduce_res: NkiTensor,
    bias: Scalar | None = None,
    scale: Scalar = 1.0,
    name: str | None = None,
    dtype: Any = None,
) -> NkiInstruction:
    """`activation` with reset_reduce: the registers start from zero and are read into reduce_res."""
    check_dtype(dtype)
    command = enums.reduce_cmd.reset_reduce
    return _activate(dst, op, data, bias, scale, reduce_op, reduce_res, command, name, "activation_reduce")


def _activate(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    bias: Scalar | None,
    scale: Scalar,
    reduce_op: Any,
    reduce_res: NkiTensor | None,
    command: Any,
    name: str | None,
    call: str,
) -> NkiInstruction:
    program = builder()
    scales, scaled, factor = split(scale)
    biases, biased, shift = split(bias)
    kinds = ("column" if scaled else "number", "column" if biased else "none" if bias is None else "number")
    reduction = functions.alu(reduce_op, call, "reduce_op") if reduce_op is not None else "add"
    static = (functions.activation(op, call), *kinds, reduction, member(command, enums.reduce_cmd, call, "reduce_cmd"))
    numbers = (
        0.0 if scaled else number(factor, call, "scale"),
        0.0 if biased or bias is None else number(shift, call, "bias"),
    )
    held = registers(program, Engine.SCALAR)
    operands = (dst, data, *scales, *biases)
    issued = issue(act.ACTIVATION, operands, static, name, Engine.SCALAR, numbers=numbers, registers=held)
    return _read_out(issued, data, reduce_res, held)


def _read_out(issued: NkiInstruction, data: NkiTensor, reduce_res: NkiTensor | None, held: Any) -> NkiInstruction:
    if reduce_res is None:
        return issued
    static = (data.layout.partitions,)
    return issued.then(issue(act.READ_REGISTERS, (reduce_res,), static, None, Engine.SCALAR, registers=held))


def activate2(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    imm0: Scalar,
    imm1: Scalar,
    op0: Any,
    op1: Any,
    relu_param: Scalar = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: Any = enums.reduce_cmd.idle,
    name: str | None = None,
) -> NkiInstruction:
    """dst = op((data op0 imm0) op1 imm1) on the Scalar Engine, with an optional reduction (NeuronCore-v4)."""
    program = builder()
    given = [split(value) for value in (imm0, imm1, relu_param)]
    reduction = functions.alu(reduce_op, "activate2", "reduce_op") if reduce_op is not None else "add"
    static = (
        functions.activation(op, "activate2"),
        functions.alu(op0, "activate2", "op0"),
        functions.alu(op1, "activate2", "op1"),
        (bool(reverse0), bool(reverse1)),
        tuple(is_tile for _, is_tile, _ in given),
        reduction,
        member(reduce_cmd, enums.reduce_cmd, "activate2", "reduce_cmd"),
    )
    operands = (dst, data, *(view for views, _, _ in given for view in views))
    held = registers(program, Engine.SCALAR)
    numbers = tuple(value for _, _, value in given)
    issued = issue(act.ACTIVATE2, operands, static, name, Engine.SCALAR, numbers=numbers, registers=held)
    return _read_out(issued, data, reduce_res, held)
