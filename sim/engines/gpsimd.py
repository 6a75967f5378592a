"""GpSimd: patterns, gathers and searches; eight cores of 16 partitions each, SBUF only."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from sim import dtypes
from sim.engines import checks, laws, values
from sim.engines.checks import fail
from sim.engines.functions import ALU, COMPARISONS
from sim.memory import Layout
from sim.program import Form, Op, Role
from sim.spec import Device
from sim.trace import Engine

CORE_PARTITIONS = 16
PATTERN_DIMS = 4
ELEMENTS_PER_INDEX = (1, 2, 4, 8, 16, 32)
GATHER_INDICES = 4096
GATHER_GROUP = 512
"""Elements a partition that one ISA instruction of nc_n_gather moves."""
GATHER_START, GATHER_WORD = 28, 4
"""Cycles and bytes in the cost of local_gather (v2.26.1 instruction reference)."""
PARTITION_REDUCTIONS = {
    "add": "add",
    "average": "add",
    "maximum": "maximum",
    "bitwise_or": "bitwise_or",
    "bitwise_and": "bitwise_and",
}
SNAKE = (8, 65536)
"""Least and first too large n of topk."""
TOPK_CYCLES = 4
"""4n + K cycles (nki.isa.topk, the one cost that the current reference prints)."""

Pattern = tuple[tuple[int, int], ...]


def _sbuf(**layouts: Layout) -> None:
    for name, layout in layouts.items():
        checks.tile(name, layout, checks.SBUF)


def _form(
    call: str, opcode: str, device: Device, layouts: tuple[Layout, ...], streaming: Any, function: str = ""
) -> Form:
    roles = (Role.WRITE,) + (Role.READ,) * (len(layouts) - 1)
    cost = laws.gpsimd(device, layouts, streaming)
    return laws.form(call, Engine.GPSIMD, opcode, roles, layouts, cost, function)


# -- affine patterns -------------------------------------------------------------------------------


def _check_pattern(pattern: Pattern, dst: Layout) -> None:
    if not 1 <= len(pattern) <= PATTERN_DIMS:
        fail(f"pattern: {len(pattern)} dimensions, must be 1 to {PATTERN_DIMS}")
    count = prod(number for _, number in pattern)
    if count != dst.elements:
        fail(f"pattern: {count} elements, dst has {dst.elements} a partition")


def affine(partitions: int, pattern: Pattern, offset: int, channel_multiplier: int) -> np.ndarray:
    """int32[partition, elements]; wraps as 32-bit arithmetic does."""
    line = np.zeros((), np.int64)
    for step, number in pattern:
        line = line[..., None] + step * np.arange(number, dtype=np.int64)
    channel = offset + channel_multiplier * np.arange(partitions, dtype=np.int64)
    return (channel[:, None] + line.reshape(1, -1)).astype(np.int32)


def describe_iota(device: Device, layouts: tuple[Layout, ...], pattern: Pattern) -> Form:
    (dst,) = layouts
    _sbuf(dst=dst)
    checks.unpacked("dst", dst)
    _check_pattern(pattern, dst)
    return _form("iota", "IOTA", device, layouts, dst.elements)


def compute_iota(arrays: list[np.ndarray], pattern: Pattern, offset: int, channel_multiplier: int) -> None:
    dst = arrays[0]
    numbers = affine(dst.shape[0], pattern, offset, channel_multiplier)
    if dst.dtype in dtypes.INTEGERS and dst.dtype != dtypes.bool_:
        limits = np.iinfo(dst.dtype)
        numbers = np.clip(numbers.astype(np.int64), limits.min, limits.max).astype(dst.dtype)
    values.put(dst, numbers)


def describe_affine_select(device: Device, layouts: tuple[Layout, ...], pattern: Pattern, comparison: str) -> Form:
    dst, on_true = layouts
    _sbuf(dst=dst, on_true_tile=on_true)
    checks.same_size("on_true_tile", on_true, "dst", dst)
    _check_pattern(pattern, dst)
    checks.one_of("cmp_op", comparison, sorted(COMPARISONS))
    return _form("affine_select", "AFFINE_SELECT", device, layouts, dst.elements, comparison)


@values.quiet
def compute_affine_select(
    arrays: list[np.ndarray],
    pattern: Pattern,
    comparison: str,
    offset: int,
    channel_multiplier: int,
    on_false: float,
) -> None:
    dst, on_true = arrays
    chosen = ALU[comparison].apply(affine(dst.shape[0], pattern, offset, channel_multiplier), 0).reshape(dst.shape)
    kept = np.empty(dst.shape, dst.dtype)
    values.put(kept, on_true)
    values.put(dst, np.full(dst.shape, on_false, np.float32))
    np.copyto(dst, kept, where=chosen)


# -- gathers ---------------------------------------------------------------------------------------


def describe_local_gather(device: Device, layouts: tuple[Layout, ...], per_index: int, valid: int | None) -> Form:
    dst, src, index = layouts
    _sbuf(dst=dst, src_buffer=src, index=index)
    checks.dtype_in("index", index, (dtypes.uint16,))
    checks.same_dtype("src_buffer", src, "dst", dst)
    checks.same_partitions("src_buffer", src, "index", index)
    checks.same_partitions("src_buffer", src, "dst", dst)
    if src.partitions % CORE_PARTITIONS:
        fail(f"src_buffer: partition {src.partitions} is no multiple of {CORE_PARTITIONS}")
    checks.one_of("num_elem_per_idx", per_index, ELEMENTS_PER_INDEX)
    held = index.elements * CORE_PARTITIONS
    count = held if valid is None else valid
    if not 0 < count <= min(held, GATHER_INDICES):
        fail(f"num_valid_indices: {count}, must be 1 to {min(held, GATHER_INDICES)}")
    if dst.elements != count * per_index:
        fail(
            f"dst: {dst.elements} elements a partition, {count} indices of {per_index} elements "
            f"fill {count * per_index}"
        )
    form = _form("local_gather", "LOCAL_GATHER", device, layouts, _gather_cycles(count, per_index, src.itemsize))
    return replace(form, sparse=(1, 2))


def _gather_cycles(count: int, per_index: int, itemsize: int) -> Fraction:
    """(valid x n) / C with C = ((start + word x n) / (word x n)) / min(word / itemsize, n)."""
    moved = GATHER_WORD * per_index
    rate = Fraction(GATHER_START + moved, moved) / min(Fraction(GATHER_WORD, itemsize), per_index)
    return count * per_index / rate


def compute_local_gather(arrays: list[np.ndarray], per_index: int, valid: int | None) -> None:
    dst, src, index = arrays
    table, wanted = values.raw(src), values.raw(index)
    out = np.empty((dst.shape[0], dst.size // dst.shape[0]), dst.dtype)
    for first in range(0, dst.shape[0], CORE_PARTITIONS):
        core = slice(first, first + CORE_PARTITIONS)
        out[core] = table[core].take(_gathered(wanted[core], per_index, valid), axis=1, mode="clip")
    values.put(dst, out)


def _gathered(index: np.ndarray, per_index: int, valid: int | None) -> np.ndarray:
    """The elements that the indices of one core's partitions stand for, in order."""
    places = index.flatten(order="F")[:valid].astype(np.int64)
    return (places[:, None] + np.arange(per_index)).reshape(-1)


def needed_local_gather(arrays: list[np.ndarray], per_index: int, valid: int | None) -> dict[int, np.ndarray]:
    """Only the elements that valid indices name are read, and of the indices only the valid ones."""
    _, src, index = arrays
    wanted = values.raw(index)
    table, used = np.zeros(values.raw(src).shape, bool), np.zeros(wanted.shape, bool)
    for first in range(0, len(table), CORE_PARTITIONS):
        core = slice(first, first + CORE_PARTITIONS)
        places = np.minimum(_gathered(wanted[core], per_index, valid), table.shape[1] - 1)
        table[core, places] = True
        flags = np.arange(wanted[core].size) < (wanted[core].size if valid is None else valid)
        used[core] = flags.reshape(wanted[core].shape, order="F")
    return {1: table.reshape(src.shape), 2: used.reshape(index.shape)}


def describe_n_gather(device: Device, layouts: tuple[Layout, ...]) -> Form:
    dst, data, indices = layouts
    _sbuf(dst=dst, data=data, indices=indices)
    checks.dtype_in("indices", indices, (dtypes.uint32,))
    checks.same_dtype("data", data, "dst", dst)
    checks.same_size("indices", indices, "dst", dst)
    checks.same_partitions("data", data, "dst", dst)
    groups = -(-dst.elements // GATHER_GROUP)
    again = (groups - 1) * device["gp.start"]
    return replace(_form("nc_n_gather", "N_GATHER", device, layouts, dst.elements + again), sparse=(1,))


def compute_n_gather(arrays: list[np.ndarray]) -> None:
    dst, data, indices = arrays
    table, places = values.raw(data), values.raw(indices).astype(np.int64)
    if places.size and places.max() >= table.shape[1]:
        fail(f"indices: {places.max()} >= {table.shape[1]} elements a partition of data")
    values.put(dst, np.take_along_axis(table, places, axis=1))


def needed_n_gather(arrays: list[np.ndarray]) -> dict[int, np.ndarray]:
    _, data, indices = arrays
    table, places = np.zeros(values.raw(data).shape, bool), values.raw(indices).astype(np.int64)
    np.put_along_axis(table, np.minimum(places, table.shape[1] - 1), True, axis=1)
    return {1: table.reshape(data.shape)}


# -- searches --------------------------------------------------------------------------------------


def describe_nonzero(device: Device, layouts: tuple[Layout, ...]) -> Form:
    """Operands: dst, src, dst again, as the other partitions stay."""
    dst, src, _ = layouts
    checks.generation(device, 3, "nonzero_with_count")
    _sbuf(dst=dst, src=src)
    checks.dtype_in("src", src, (dtypes.float32, dtypes.int32))
    checks.dtype_in("dst", dst, (dtypes.int32,))
    checks.same_partitions("src", src, "dst", dst)
    if dst.elements != src.elements + 1:
        fail(f"dst: {dst.elements} elements a partition, must be {src.elements + 1}: src's and the count")
    streaming = src.elements * laws.CYCLES["nonzero_with_count"]
    form = _form("nonzero_with_count", "NONZERO_WITH_COUNT", device, layouts, streaming)
    # One partition in sixteen is read, and the others of dst stay whatever they are.
    return replace(form, sparse=(1, 2))


def compute_nonzero(arrays: list[np.ndarray], index_offset: int, padding: int) -> None:
    dst, src = arrays[:2]
    data = values.raw(src)
    for row in range(0, dst.shape[0], CORE_PARTITIONS):
        found = np.flatnonzero(data[row])
        line = np.full(data.shape[1] + 1, padding, np.int32)
        line[: len(found)] = found + index_offset
        line[-1] = len(found)
        dst[row] = line.reshape(dst.shape[1:])


def needed_nonzero(arrays: list[np.ndarray]) -> dict[int, np.ndarray]:
    rows = np.zeros(arrays[1].shape, bool)
    rows[::CORE_PARTITIONS] = True
    return {1: rows}


def describe_bounds(device: Device, layouts: tuple[Layout, ...]) -> Form:
    dst, segments = layouts
    _sbuf(dst=dst, segment_ids=segments)
    for name, layout in (("dst", dst), ("segment_ids", segments)):
        checks.dtype_in(name, layout, (dtypes.float32, dtypes.int32))
        if layout.partitions != 1:
            fail(f"{name}: partition {layout.partitions}, must be 1")
    if dst.elements != 2 * segments.elements:
        fail(f"dst: {dst.elements} elements, must be {2 * segments.elements}: start and end of each")
    streaming = segments.elements * laws.CYCLES["sequence_bounds"]
    return _form("sequence_bounds", "SEQUENCE_BOUNDS", device, layouts, streaming)


def compute_bounds(arrays: list[np.ndarray]) -> None:
    """A segment is a run of equal ids; id 0 is padding and gets (n, -1)."""
    dst, segments = arrays
    ids = values.raw(segments)[0]
    if ids.min() < 0:
        fail(f"segment_ids: {ids.min()}, must not be negative")
    count = len(ids)
    edges = np.flatnonzero(np.diff(ids)) + 1
    run = np.searchsorted(edges, np.arange(count), side="right")
    starts, ends = np.concatenate(([0], edges))[run], np.concatenate((edges, [count]))[run]
    starts, ends = np.where(ids == 0, count, starts), np.where(ids == 0, -1, ends)
    values.put(dst, np.concatenate((starts, ends)).astype(np.float32).reshape(1, -1))


def describe_partition_reduce(device: Device, layouts: tuple[Layout, ...], op: str) -> Form:
    dst, data = layouts
    _sbuf(dst=dst, data=data)
    checks.one_of("op", op, PARTITION_REDUCTIONS)
    if ALU[PARTITION_REDUCTIONS[op]].bitvec:
        checks.integers("dst", dst)
        checks.integers("data", data)
    if dst.partitions != 1:
        fail(f"dst: partition {dst.partitions}, must be 1")
    if dst.elements != data.elements:
        fail(f"dst: {dst.elements} elements, data has {data.elements} a partition")
    streaming = data.elements * data.partitions
    return _form("tensor_partition_reduce", "PARTITION_REDUCE", device, layouts, streaming, op)


@values.quiet
def compute_partition_reduce(arrays: list[np.ndarray], op: str) -> None:
    dst, data = arrays
    operator = ALU[PARTITION_REDUCTIONS[op]]
    source = values.raw(data) if operator.bitvec else values.rows(data)
    folded = values.fold(operator, source, axis=0)
    values.put(dst, folded / np.float32(data.shape[0]) if op == "average" else folded)


def describe_topk(device: Device, layouts: tuple[Layout, ...], n: int) -> Form:
    """Operands: val_dst, idx_dst, src."""
    val, idx, src = layouts
    _sbuf(val_dst=val, idx_dst=idx, src=src)
    checks.dtype_in("val_dst", val, (dtypes.bfloat16,))
    checks.dtype_in("idx_dst", idx, (dtypes.uint32,))
    checks.dtype_in("src", src, (dtypes.bfloat16,))
    checks.same_size("val_dst", val, "idx_dst", idx)
    checks.same_partitions("val_dst", val, "src", src)
    if not SNAKE[0] <= n < SNAKE[1]:
        fail(f"n: {n}, must be {SNAKE[0]} to {SNAKE[1] - 1}")
    if val.elements > n or val.elements >= SNAKE[1] // 2:
        fail(f"val_dst: {val.elements} elements a partition > n = {n}")
    if src.elements < -(-n // CORE_PARTITIONS):
        fail(f"src: {src.elements} elements a partition < {-(-n // CORE_PARTITIONS)} for n = {n}")
    if src.partitions % CORE_PARTITIONS:
        fail(f"src: partition {src.partitions} is no multiple of {CORE_PARTITIONS}")
    cost = laws.gpsimd(device, layouts, TOPK_CYCLES * n + val.elements)
    roles = (Role.WRITE, Role.WRITE, Role.READ)
    return laws.form("topk", Engine.GPSIMD, "TOPK", roles, layouts, cost, elements=n)


def compute_topk(arrays: list[np.ndarray], n: int) -> None:
    """Each 16 partitions hold one sequence, column by column; all 16 get its largest values, ascending."""
    val, idx, src = arrays
    data = values.rows(src)
    count = val.size // val.shape[0]
    for first in range(0, src.shape[0], CORE_PARTITIONS):
        core = slice(first, first + CORE_PARTITIONS)
        snake = data[core].flatten(order="F")[:n]
        order = np.argsort(-snake, kind="stable")[:count][::-1]
        val[core] = snake[order].astype(val.dtype).reshape(1, *val.shape[1:])
        idx[core] = order.astype(np.uint32).reshape(1, *idx.shape[1:])


IOTA = Op("nki.isa.iota", describe_iota, compute_iota)
AFFINE_SELECT = Op("nki.isa.affine_select", describe_affine_select, compute_affine_select)
LOCAL_GATHER = Op("nki.isa.local_gather", describe_local_gather, compute_local_gather, needed_local_gather)
N_GATHER = Op("nki.isa.nc_n_gather", describe_n_gather, compute_n_gather, needed_n_gather)
NONZERO = Op("nki.isa.nonzero_with_count", describe_nonzero, compute_nonzero, needed_nonzero)
BOUNDS = Op("nki.isa.sequence_bounds", describe_bounds, compute_bounds)
PARTITION_REDUCE = Op("nki.isa.tensor_partition_reduce", describe_partition_reduce, compute_partition_reduce)
TOPK = Op("nki.isa.topk", describe_topk, compute_topk)
