"""`nki.isa` calls that choose or move elements (Vector Engine)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.engines import vector_select as dve
from sim.nki import functions
from sim.nki.isa import enums
from sim.nki.isa.issuing import NkiInstruction, issue, member, number, registers, split
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor
from sim.trace import Engine

Scalar = float | NkiTensor


def tensor_copy_predicated(
    dst: NkiTensor, src: Scalar, predicate: NkiTensor, reverse_pred: bool = False, name: str | None = None
) -> NkiInstruction:
    """Where predicate is not 0, dst = src (a tile of dst's dtype, or a number); elsewhere dst stays."""
    views, is_tile, value = split(src)
    filler = None if is_tile else number(value, "tensor_copy_predicated", "src")
    return issue(dve.PREDICATED, (dst, *views, predicate, dst), (is_tile, bool(reverse_pred)), name, number=filler)


def select_reduce(
    dst: NkiTensor,
    predicate: NkiTensor,
    on_true: NkiTensor,
    on_false: Scalar,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: Any = enums.reduce_cmd.idle,
    reduce_op: Any = functions.MAXIMUM,
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """dst = on_true where predicate is not 0, else on_false; its row maximum may go to the accumulator registers."""
    call = "select_reduce"
    views, column, value = split(on_false)
    static = (
        column,
        reduce_res is not None,
        member(reduce_cmd, enums.reduce_cmd, call, "reduce_cmd"),
        functions.alu(reduce_op, call, "reduce_op"),
        bool(reverse_pred),
    )
    outputs = (dst,) if reduce_res is None else (dst, reduce_res)
    filler = None if column else number(value, call, "on_false")
    held = registers(builder(), Engine.VECTOR)
    return issue(dve.SELECT, (*outputs, predicate, on_true, *views), static, name, on_false=filler, registers=held)


def range_select(
    dst: NkiTensor,
    on_true_tile: NkiTensor,
    comp_op0: Any,
    comp_op1: Any,
    bound0: NkiTensor,
    bound1: NkiTensor,
    reduce_cmd: Any = enums.reduce_cmd.reset_reduce,
    reduce_res: NkiTensor | None = None,
    reduce_op: Any = functions.MAXIMUM,
    range_start: int = 0,
    on_false_value: float = dve.FP32_MIN,
    name: str | None = None,
) -> NkiInstruction:
    """dst = on_true_tile where range_start + i compares with both bounds, else FP32_MIN (NeuronCore-v3 and newer)."""
    call = "range_select"
    static = (
        (functions.alu(comp_op0, call, "comp_op0"), functions.alu(comp_op1, call, "comp_op1")),
        reduce_res is not None,
        member(reduce_cmd, enums.reduce_cmd, call, "reduce_cmd"),
        functions.alu(reduce_op, call, "reduce_op"),
        int(range_start),
        number(on_false_value, call, "on_false_value"),
    )
    outputs = (dst,) if reduce_res is None else (dst, reduce_res)
    held = registers(builder(), Engine.VECTOR)
    return issue(dve.RANGE, (*outputs, on_true_tile, bound0, bound1), static, name, registers=held)


def max8(dst: NkiTensor, src: NkiTensor, name: str | None = None) -> NkiInstruction:
    """dst[P, 8] = the eight largest values of each partition, largest first."""
    return issue(dve.MAX8, (dst, src), (), name)


def nc_find_index8(dst: NkiTensor, data: NkiTensor, vals: NkiTensor, name: str | None = None) -> NkiInstruction:
    """dst[P, 8] = where each of the 8 vals first stands in data; all ones when it does not."""
    return issue(dve.FIND, (dst, data, vals), (), name)


def nc_match_replace8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: float,
    dst_idx: NkiTensor | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """dst = data with the first occurrence of each of the 8 vals replaced by imm; their places go to dst_idx."""
    outputs = (dst,) if dst_idx is None else (dst, dst_idx)
    filler = number(imm, "nc_match_replace8", "imm")
    return issue(dve.REPLACE, (*outputs, data, vals), (dst_idx is not None,), name, number=filler)


def nc_stream_shuffle(
    dst: NkiTensor, src: NkiTensor, shuffle_mask: Sequence[int], name: str | None = None
) -> NkiInstruction:
    """Within each quadrant of 32 partitions, dst[i] = src[shuffle_mask[i]]; 255 leaves dst[i] as it is."""
    mask = tuple(int(entry) for entry in shuffle_mask)
    kept = (dst,) if dve.KEEP in mask else ()
    return issue(dve.SHUFFLE, (dst, src, *kept), (mask,), name)
