"""`nki.isa` calls of GpSimd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.engines import gpsimd as pool
from sim.nki import functions
from sim.nki.isa.issuing import NkiInstruction, int32, issue, number
from sim.nki.tensor import NkiTensor
from sim.trace import Engine


def _pattern(pattern: Sequence[Sequence[int]]) -> pool.Pattern:
    return tuple((int(step), int(count)) for step, count in pattern)


def iota(
    dst: NkiTensor,
    pattern: Sequence[Sequence[int]],
    offset: int = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """dst[p, i…] = offset + p * channel_multiplier + sum of i * step, for pattern [[step, count], …]."""
    numbers = {
        "offset": int32(offset, "iota", "offset"),
        "channel_multiplier": int32(channel_multiplier, "iota", "channel_multiplier"),
    }
    return issue(pool.IOTA, (dst,), (_pattern(pattern),), name, Engine.GPSIMD, **numbers)


def affine_select(
    dst: NkiTensor,
    pattern: Sequence[Sequence[int]],
    channel_multiplier: int,
    on_true_tile: NkiTensor,
    on_false_value: float,
    cmp_op: Any = functions.EQUAL,
    offset: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """dst = on_true_tile where the affine value of `iota` compares with 0, else on_false_value."""
    static = (_pattern(pattern), functions.alu(cmp_op, "affine_select", "cmp_op"))
    return issue(
        pool.AFFINE_SELECT,
        (dst, on_true_tile),
        static,
        name,
        Engine.GPSIMD,
        offset=int32(offset, "affine_select", "offset"),
        channel_multiplier=int32(channel_multiplier, "affine_select", "channel_multiplier"),
        on_false=number(on_false_value, "affine_select", "on_false_value"),
    )


def local_gather(
    dst: NkiTensor,
    src_buffer: NkiTensor,
    index: NkiTensor,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """For each 16 partitions: dst = src_buffer's elements at the indices that these partitions hold (uint16)."""
    valid = None if num_valid_indices is None else int(num_valid_indices)
    static = (int(num_elem_per_idx), valid)
    return issue(pool.LOCAL_GATHER, (dst, src_buffer, index), static, name, Engine.GPSIMD)


def nc_n_gather(dst: NkiTensor, data: NkiTensor, indices: NkiTensor, name: str | None = None) -> NkiInstruction:
    """dst[p, i] = data[p, indices[p, i]] over flattened free dimensions (uint32 indices)."""
    return issue(pool.N_GATHER, (dst, data, indices), (), name, Engine.GPSIMD)


def nonzero_with_count(
    dst: NkiTensor, src: NkiTensor, index_offset: int = 0, padding_val: int = -1, name: str | None = None
) -> NkiInstruction:
    """On partitions 0, 16, …: dst = indices of src's nonzero elements, padding, and their count in the last place."""
    numbers = {
        "index_offset": int32(index_offset, "nonzero_with_count", "index_offset"),
        "padding": int32(padding_val, "nonzero_with_count", "padding_val"),
    }
    return issue(pool.NONZERO, (dst, src, dst), (), name, Engine.GPSIMD, **numbers)


def sequence_bounds(dst: NkiTensor, segment_ids: NkiTensor, name: str | None = None) -> NkiInstruction:
    """dst[0, 0, i], dst[0, 1, i] = where the segment that element i belongs to starts and ends."""
    return issue(pool.BOUNDS, (dst, segment_ids), (), name, Engine.GPSIMD)


def tensor_partition_reduce(dst: NkiTensor, op: Any, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """dst[1, …] = data folded across partitions."""
    folded = functions.name_of(op)
    operator = folded if folded == "average" else functions.alu(op, "tensor_partition_reduce", "op")
    return issue(pool.PARTITION_REDUCE, (dst, data), (operator,), name, Engine.GPSIMD)


def topk(val_dst: NkiTensor, idx_dst: NkiTensor, src: NkiTensor, n: int, name: str | None = None) -> NkiInstruction:
    """The K largest of n values that 16 partitions hold column by column, ascending, and their places."""
    return issue(pool.TOPK, (val_dst, idx_dst, src), (int(n),), name, Engine.GPSIMD)
