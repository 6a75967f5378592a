"""`neuronxcc.nki.isa`: calls that return their result tile.

Each allocates the tile, cuts the operands by the mask and issues the current API's instruction. Calls whose result has
the shape of their input are in this module, the others in `shaped` and `moves`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.engines.vector_select import FP32_MIN
from sim.errors import UnsupportedError
from sim.nki import isa
from sim.nki.isa import (
    dma_engine,
    engine,
    get_nc_version,
    gpsimd_engine,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)
from sim.nki.legacy.enums import dge_mode
from sim.nki.legacy.functions import reduce
from sim.nki.legacy.moves import dma_copy, dma_transpose, local_gather, nc_stream_shuffle, tensor_copy_predicated
from sim.nki.legacy.operands import Cut, Limits, column, elementwise, operand, promoted, tile
from sim.nki.legacy.shaped import (
    affine_select,
    bn_aggr,
    bn_stats,
    iota,
    max8,
    memset,
    nc_find_index8,
    nc_match_replace8,
    nc_matmul,
    nc_transpose,
    sequence_bounds,
    tensor_partition_reduce,
)
from sim.nki.legacy.tile import Tile
from sim.nki.session import builder

fp32 = Limits(np.float32)
idle, reset_reduce = reduce_cmd.idle, reduce_cmd.reset_reduce


def activation(
    op: Any,
    data: Any,
    *,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: Any = None,
    reduce_cmd: Any = idle,
    mask: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tile:
    """op(data * scale + bias), and its reduction over the free dimensions."""

    def issue(dst: Tile, data: Tile, bias: Any, scale: Any, result: Tile | None) -> None:
        isa.activation(dst, op, data, bias, column(scale), reduce_op, result, reduce_cmd, name)

    return elementwise("nki.isa.activation", issue, data, bias, scale, reduce_res, mask=mask, dtype=dtype)


def activation_reduce(
    op: Any,
    data: Any,
    *,
    reduce_op: Any,
    reduce_res: Any,
    bias: Any = None,
    scale: Any = 1.0,
    mask: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tile:
    """`activation` whose reduction starts anew and is read into reduce_res."""

    def issue(dst: Tile, data: Tile, bias: Any, scale: Any, result: Tile) -> None:
        isa.activation_reduce(dst, op, data, reduce_op, result, bias, column(scale), name)

    return elementwise("nki.isa.activation_reduce", issue, data, bias, scale, reduce_res, mask=mask, dtype=dtype)


def dropout(data: Any, prob: Any, *, mask: Any = None, dtype: Any = None, name: str | None = None) -> Tile:
    """data with elements replaced by 0 with probability prob."""
    return elementwise(
        "nki.isa.dropout", lambda dst, x, p: isa.dropout(dst, x, p, name), data, prob, mask=mask, dtype=dtype
    )


def reciprocal(data: Any, *, dtype: Any = None, mask: Any = None, name: str | None = None) -> Tile:
    """1 / data."""
    return elementwise("nki.isa.reciprocal", lambda dst, x: isa.reciprocal(dst, x, name), data, mask=mask, dtype=dtype)


def tensor_copy(
    src: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    engine: Any = unknown_engine,
    name: str | None = None,
) -> Tile:
    """A new SBUF tile with src's values."""
    return elementwise(
        "nki.isa.tensor_copy", lambda dst, x: isa.tensor_copy(dst, x, engine, name), src, mask=mask, dtype=dtype
    )


tensor_copy_dynamic_src = tensor_copy
"""The place that an index tile chooses is part of the operand's view."""


def tensor_copy_dynamic_dst(
    *,
    dst: Any,
    src: Any,
    mask: Any = None,
    dtype: Any = None,
    engine: Any = unknown_engine,
    name: str | None = None,
) -> None:
    """dst = src, at a place that an index tile chooses."""
    target = tile(dst, "nki.isa.tensor_copy_dynamic_dst", "dst")
    part = Cut("nki.isa.tensor_copy_dynamic_dst", mask, target.shape, target, operand(src, "src"))
    if not part.empty:
        isa.tensor_copy(*part.operands, engine, name)


def tensor_scalar(
    data: Any,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    engine: Any = unknown_engine,
    name: str | None = None,
) -> Tile:
    """(data <op0> operand0) <op1> operand1, the operands numbers or [P, 1] tiles."""

    def issue(dst: Tile, data: Tile, first: Any, second: Any) -> None:
        isa.tensor_scalar(dst, data, op0, column(first), reverse0, op1, column(second), reverse1, engine, name)

    return elementwise("nki.isa.tensor_scalar", issue, data, operand0, operand1, mask=mask, dtype=dtype)


def tensor_scalar_reduce(
    *,
    data: Any,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: Any,
    reverse0: bool = False,
    dtype: Any = None,
    mask: Any = None,
    name: str | None = None,
) -> Tile:
    """data <op0> operand0, and its fold over the free dimensions in reduce_res."""

    def issue(dst: Tile, data: Tile, first: Any, result: Tile) -> None:
        isa.tensor_scalar_reduce(dst, data, op0, column(first), reduce_op, result, reverse0, name=name)

    return elementwise("nki.isa.tensor_scalar_reduce", issue, data, operand0, reduce_res, mask=mask, dtype=dtype)


def scalar_tensor_tensor(
    *,
    data: Any,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    dtype: Any = None,
    mask: Any = None,
    name: str | None = None,
) -> Tile:
    """(data <op0> operand0) <op1> operand1, operand1 a tile like data."""

    def issue(dst: Tile, data: Tile, first: Any, second: Tile) -> None:
        isa.scalar_tensor_tensor(dst, data, op0, first, op1, second, reverse0, reverse1, name)

    return elementwise("nki.isa.scalar_tensor_tensor", issue, data, operand0, operand1, mask=mask, dtype=dtype)


def tensor_tensor(
    data1: Any,
    data2: Any,
    op: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    engine: Any = unknown_engine,
    name: str | None = None,
) -> Tile:
    """data1 <op> data2, elementwise; free dimensions of size 1 are repeated, as nki-samples' kernels assume."""
    one, other = tile(data1, "nki.isa.tensor_tensor", "data1"), tile(data2, "nki.isa.tensor_tensor", "data2")
    one, other = _repeated(one, other), _repeated(other, one)

    def issue(dst: Tile, left: Tile, right: Tile) -> None:
        isa.tensor_tensor(dst, left, right, op, engine, name)

    kind = promoted(one, other) if dtype is None else dtype
    return elementwise("nki.isa.tensor_tensor", issue, one, other, mask=mask, dtype=kind)


def _repeated(view: Tile, other: Tile) -> Tile:
    """The view with its free dimensions of size 1 repeated to the other's shape, where only that keeps them apart."""
    have, want = view.shape, other.shape
    if have == want or len(have) != len(want) or have[0] != want[0] or view.size == other.size or view.bounds:
        return view
    return view.repeated(tuple(w if h == 1 else h for h, w in zip(have, want)))


def tensor_tensor_scan(
    data0: Any,
    data1: Any,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    *,
    dtype: Any = None,
    mask: Any = None,
    name: str | None = None,
) -> Tile:
    """result[:, i] = op1(op0(data0[:, i], result[:, i - 1]), data1[:, i])."""
    one = tile(data0, "nki.isa.tensor_tensor_scan", "data0")
    other = tile(data1, "nki.isa.tensor_tensor_scan", "data1")

    def issue(dst: Tile, left: Tile, right: Tile, start: Any) -> None:
        isa.tensor_tensor_scan(dst, left, right, start, op0, op1, reverse0, reverse1, name)

    kind = promoted(one, other) if dtype is None else dtype
    return elementwise("nki.isa.tensor_tensor_scan", issue, one, other, initial, mask=mask, dtype=kind)


def tensor_reduce(
    op: Any,
    data: Any,
    axis: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    negate: bool = False,
    keepdims: bool = False,
) -> Tile:
    """data folded along free dimensions."""
    return reduce("nki.isa.tensor_reduce", op, data, axis, mask, dtype, negate, keepdims)


def tensor_scalar_cumulative(*, dst: Any, src: Any, mask: Any = None, **options: Any) -> None:
    """A scan of src <op0> imm0 into dst, from the accumulator registers."""
    target = tile(dst, "nki.isa.tensor_scalar_cumulative", "dst")
    part = Cut("nki.isa.tensor_scalar_cumulative", mask, target.shape, target, operand(src, "src"))
    if not part.empty:
        isa.tensor_scalar_cumulative(*part.operands, **{key: operand(value, key) for key, value in options.items()})


def range_select(
    *,
    on_true_tile: Any,
    comp_op0: Any,
    comp_op1: Any,
    bound0: Any,
    bound1: Any,
    reduce_cmd: Any = idle,
    reduce_res: Any = None,
    reduce_op: Any = np.amax,
    range_start: int = 0,
    on_false_value: Any = FP32_MIN,
    mask: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tile:
    """on_true_tile where range_start + i compares with both bounds, else FP32_MIN."""

    def issue(dst: Tile, data: Tile, low: Tile, high: Tile, result: Tile | None) -> None:
        isa.range_select(
            dst, data, comp_op0, comp_op1, low, high, reduce_cmd, result, reduce_op,
            range_start=int(range_start), on_false_value=on_false_value, name=name,
        )  # fmt: skip

    return elementwise("nki.isa.range_select", issue, on_true_tile, bound0, bound1, reduce_res, mask=mask, dtype=dtype)


def select_reduce(
    *,
    dst: Any,
    predicate: Any,
    on_true: Any,
    on_false: Any,
    reduce_res: Any = None,
    reduce_cmd: Any = idle,
    reduce_op: Any = np.amax,
    reverse_pred: bool = False,
    mask: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> None:
    """dst = on_true where predicate is not 0, else on_false."""
    from sim.nki.legacy.moves import as_flags

    target = tile(dst, "nki.isa.select_reduce", "dst")
    operands = (
        target,
        as_flags(predicate),
        *(operand(side, "select_reduce") for side in (on_true, on_false, reduce_res)),
    )
    part = Cut("nki.isa.select_reduce", mask, target.shape, *operands)
    if not part.empty:
        isa.select_reduce(*part.operands, reduce_cmd, reduce_op, reverse_pred, name)


def builtin_custom_op(
    function_name: str,
    lib_file_name: str,
    ulib_to_ucode_version: str,
    ulib_to_isa_version: str,
    srcs: Any,
    dsts: Any,
) -> None:
    raise UnsupportedError("nki.isa.builtin_custom_op: code of one's own for GpSimd", source=builder().where())


__all__ = [
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "dge_mode",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "engine",
    "fp32",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "local_gather",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "oob_mode",
    "reduce_cmd",
    "reset_reduce",
    "scalar_engine",
    "sequence_bounds",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "vector_engine",
]
