"""`nki.isa` calls of the Vector Engine that came with NeuronCore-v4."""

from __future__ import annotations

from typing import Any

from sim.engines import vector_v4 as dve
from sim.errors import InputError
from sim.nki.isa import enums
from sim.nki.isa.issuing import NkiInstruction, issue, member, registers, split
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor
from sim.trace import Engine

Scalar = float | NkiTensor


def exponential(
    dst: NkiTensor,
    src: NkiTensor,
    max_value: Scalar = 0.0,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: Any = enums.reduce_cmd.idle,
    reduce_init: Scalar = 0.0,
    name: str | None = None,
) -> NkiInstruction:
    """dst = exp(src - max_value); its row sum may go to the accumulator registers."""
    views0, column0, value0 = split(max_value)
    views1, column1, value1 = split(reduce_init)
    command = member(reduce_cmd, enums.reduce_cmd, "exponential", "reduce_cmd")
    if command != "load_reduce" and (column1 or value1 != 0):
        fault = f"nki.isa.exponential: reduce_init: {value1 if not column1 else 'a tile'} with {command}, must be 0.0"
        raise InputError(fault, source=builder().where())
    outputs = (dst,) if reduce_res is None else (dst, reduce_res)
    static = ((column0, column1), command, reduce_res is not None)
    operands = (*outputs, src, *views0, *views1)
    held = registers(builder(), Engine.VECTOR)
    return issue(dve.EXPONENTIAL, operands, static, name, numbers=(value0, value1), registers=held)


def quantize_mx(dst: NkiTensor, src: NkiTensor, dst_scale: NkiTensor, name: str | None = None) -> NkiInstruction:
    """dst, dst_scale = src (fp16, bf16) in a microscaling format, one scale for 8 partitions x 4 elements."""
    packed = str(getattr(dst, "dtype", None))
    return issue(dve.QUANTIZE, (dst, dst_scale, src), (packed,), name)
