"""Vector Engine instructions that choose or move elements: predicates, ranges, the largest eight, shuffles."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import dtypes
from sim.engines import checks, laws, tensor, values
from sim.engines.checks import fail
from sim.engines.functions import ALU, COMPARISONS
from sim.engines.vector_reduce import fold_into, load_registers, reads
from sim.memory import Layout
from sim.program import Form, Op
from sim.spec import Device
from sim.trace import Engine, Memory

SMALL = 32
"""Rows and columns of a transpose, partitions of a shuffle's quadrant."""
KEEP = 255
"""Shuffle mask entry that leaves the output partition as it is."""
EIGHT, EIGHT_MAX, EIGHT_DIMS = 8, 16384, 3
FP32_MIN = float(np.finfo(np.float32).min)
COMMANDS = ("idle", "reset_reduce", "reduce")
UNSIGNED = (dtypes.uint8, dtypes.uint16, dtypes.uint32)


def describe_transpose(device: Device, layouts: tuple[Layout, ...]) -> Form:
    dst, data = layouts
    checks.tile("dst", dst)
    checks.tile("data", data)
    checks.same_dtype("data", data, "dst", dst)
    if data.partitions > SMALL or data.elements > SMALL:
        fail(f"data: {data.partitions} x {data.elements} > {SMALL} x {SMALL} for a transpose on the Vector Engine")
    tensor.check_transposed(dst, data)
    cost = laws.vector(device, layouts, data.elements)
    return laws.form("nc_transpose", Engine.VECTOR, "TRANSPOSE", reads(1), layouts, cost)


# -- predicates ------------------------------------------------------------------------------------


def describe_predicated(device: Device, layouts: tuple[Layout, ...], tile: bool, reverse: bool) -> Form:
    """Operands: dst, [src], predicate, dst again, as what is not copied stays."""
    dst, predicate = layouts[0], layouts[-2]
    checks.tile("dst", dst)
    checks.tile("predicate", predicate)
    checks.dtype_in("predicate", predicate, UNSIGNED)
    checks.same_size("predicate", predicate, "dst", dst)
    read = [predicate]
    if tile:
        src = layouts[1]
        checks.tile("src", src)
        checks.same_size("src", src, "dst", dst)
        checks.same_dtype("src", src, "dst", dst)
        checks.not_both_psum("src", src, "predicate", predicate)
        read.append(src)
    in_psum = sum(layout.memory is Memory.PSUM for layout in read)
    slow = tile and not in_psum and device.generation <= laws.SHARING_GENERATION
    per_element = laws.CYCLES["tensor_copy_predicated"] if slow else 1
    cost = laws.vector(device, (dst, *read), dst.elements, per_element)
    opcode = "COPY_PREDICATED"
    return laws.form("tensor_copy_predicated", Engine.VECTOR, opcode, reads(len(layouts) - 1), layouts, cost)


def compute_predicated(arrays: list[np.ndarray], tile: bool, reverse: bool, number: Any) -> None:
    dst, predicate = arrays[0], arrays[-2]
    chosen = values.raw(predicate) != 0
    if reverse:
        chosen = ~chosen
    new = np.empty(dst.shape, dst.dtype)
    values.put(new, arrays[1] if tile else np.full(dst.shape, number, np.float32))
    np.copyto(dst, new, where=chosen.reshape(dst.shape))


def describe_select(
    device: Device, layouts: tuple[Layout, ...], column: bool, res: bool, command: str, reduce_op: str, reverse: bool
) -> Form:
    """Operands: dst, [reduce_res], predicate, on_true, [on_false]."""
    dst, predicate, on_true, *vectors = (layouts[0], *layouts[2:]) if res else layouts
    checks.tile("dst", dst)
    checks.tile("predicate", predicate)
    checks.tile("on_true", on_true)
    checks.dtype_in("predicate", predicate, (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16))
    if on_true.dtype in (*dtypes.WIDE_INTEGERS, dtypes.tfloat32):
        fail(f"on_true: dtype {checks.dtype_name(on_true.dtype)}, must not be tfloat32, int32 or uint32")
    checks.same_size("predicate", predicate, "on_true", on_true)
    checks.same_size("on_true", on_true, "dst", dst)
    checks.not_both_psum("on_true", on_true, "predicate", predicate)
    if vectors:
        checks.column("on_false", vectors[0], on_true)
    _check_reduction(layouts[1] if res else None, dst, command, reduce_op)
    cost = laws.vector(device, (dst, predicate, on_true), dst.elements)
    roles = reads(len(layouts) - 1 - int(res), 1 + int(res))
    return laws.form("select_reduce", Engine.VECTOR, "SELECT_REDUCE", roles, layouts, cost, reduce_op)


def _check_reduction(res: Layout | None, dst: Layout, command: str, reduce_op: str) -> None:
    checks.one_of("reduce_cmd", command, COMMANDS)
    checks.one_of("reduce_op", reduce_op, ("maximum",))
    if res is not None:
        checks.column("reduce_res", res, dst)
        if not dtypes.is_float(res.dtype):
            fail(f"reduce_res: dtype {checks.dtype_name(res.dtype)}, must be a float")


@values.quiet
def compute_select(
    arrays: list[np.ndarray],
    column: bool,
    res: bool,
    command: str,
    reduce_op: str,
    reverse: bool,
    on_false: Any,
    registers: np.ndarray,
) -> None:
    dst, *rest = arrays
    out = rest.pop(0) if res else None
    predicate, on_true, *vectors = rest
    chosen = values.raw(predicate) != 0
    if reverse:
        chosen = ~chosen
    result = np.where(chosen, values.rows(on_true), values.operand(None if column else on_false, vectors))
    values.put(dst, result)
    _reduce_max(result, command, registers, out)


def _reduce_max(result: np.ndarray, command: str, registers: np.ndarray, out: np.ndarray | None) -> None:
    held = registers[: result.shape[0]]
    if command != "idle":
        load_registers(held, ALU["maximum"], command, None)
        fold_into(held, ALU["maximum"], result)
    if out is not None:
        values.put(out, held)


def describe_range(
    device: Device,
    layouts: tuple[Layout, ...],
    comparisons: tuple[str, str],
    res: bool,
    command: str,
    reduce_op: str,
    start: int,
    on_false: float,
) -> Form:
    """Operands: dst, [reduce_res], on_true_tile, bound0, bound1."""
    dst, on_true, *bounds = (layouts[0], *layouts[2:]) if res else layouts
    checks.generation(device, 3, "range_select")
    checks.tile("dst", dst)
    checks.tile("on_true_tile", on_true)
    if not dtypes.is_float(on_true.dtype):
        fail(f"on_true_tile: dtype {checks.dtype_name(on_true.dtype)}, must be a float")
    checks.same_size("on_true_tile", on_true, "dst", dst)
    for number, comparison in enumerate(comparisons):
        checks.one_of(f"comp_op{number}", comparison, sorted(COMPARISONS - {"not_equal"}))
    for number, bound in enumerate(bounds):
        checks.column(f"bound{number}", bound, on_true)
        checks.dtype_in(f"bound{number}", bound, (dtypes.float32,))
    if np.float32(on_false) != np.float32(FP32_MIN):
        fail(f"on_false_value: {on_false}, must be FP32_MIN ({FP32_MIN})")
    if not -(2**24) < start <= 2**24 - on_true.elements:
        fail(f"range_start: {start} + {on_true.elements} elements leaves the exact integers of fp32 (2^24)")
    _check_reduction(layouts[1] if res else None, dst, command, reduce_op)
    cost = laws.vector(device, (dst, on_true), on_true.elements)
    roles = reads(len(layouts) - 1 - int(res), 1 + int(res))
    return laws.form("range_select", Engine.VECTOR, "RANGE_SELECT", roles, layouts, cost, reduce_op)


@values.quiet
def compute_range(
    arrays: list[np.ndarray],
    comparisons: tuple[str, str],
    res: bool,
    command: str,
    reduce_op: str,
    start: int,
    on_false: float,
    registers: np.ndarray,
) -> None:
    dst, *rest = arrays
    out = rest.pop(0) if res else None
    on_true = values.rows(rest[0])
    place = start + np.arange(on_true.shape[1], dtype=np.float32)
    inside = np.ones(on_true.shape, bool)
    for comparison, bound in zip(comparisons, rest[1:], strict=True):
        inside &= ALU[comparison].apply(place, dtypes.to_fp32(bound).reshape(-1, 1))
    result = np.where(inside, on_true, np.float32(on_false))
    values.put(dst, result)
    _reduce_max(result, command, registers, out)


# -- the largest eight -----------------------------------------------------------------------------


def describe_max8(device: Device, layouts: tuple[Layout, ...]) -> Form:
    dst, src = layouts
    checks.tile("dst", dst)
    checks.tile("src", src)
    checks.dimensions("src", src, EIGHT_DIMS)
    checks.dimensions("dst", dst, 2)
    checks.same_partitions("src", src, "dst", dst)
    checks.free_size("src", src, EIGHT, EIGHT_MAX)
    checks.free_size("dst", dst, EIGHT, EIGHT)
    return laws.form("max8", Engine.VECTOR, "MAX8", reads(1), layouts, laws.vector(device, layouts, src.elements))


def compute_max8(arrays: list[np.ndarray]) -> None:
    dst, src = arrays
    values.put(dst, -np.sort(-values.rows(src), axis=1)[:, :EIGHT])


def describe_find(device: Device, layouts: tuple[Layout, ...]) -> Form:
    dst, data, vals = layouts
    _check_eight(data, vals)
    checks.tile("dst", dst)
    checks.dimensions("data", data, EIGHT_DIMS)
    checks.dimensions("vals", vals, EIGHT_DIMS)
    checks.dimensions("dst", dst, 2)
    checks.dtype_in("dst", dst, (dtypes.uint16, dtypes.uint32))
    checks.same_partitions("data", data, "dst", dst)
    checks.free_size("dst", dst, EIGHT, EIGHT)
    cost = laws.vector(device, layouts, data.elements)
    return laws.form("nc_find_index8", Engine.VECTOR, "FIND_INDEX8", reads(2), layouts, cost)


def _check_eight(data: Layout, vals: Layout) -> None:
    checks.tile("data", data)
    checks.tile("vals", vals)
    checks.same_partitions("data", data, "vals", vals)
    checks.free_size("data", data, EIGHT, EIGHT_MAX)
    checks.free_size("vals", vals, EIGHT, EIGHT)


def compute_find(arrays: list[np.ndarray]) -> None:
    """Equal values take successive places; a value that is absent gives all ones."""
    dst, data, vals = arrays
    values.put(dst, _places(values.rows(data), values.rows(vals)).astype(dst.dtype))


def _places(data: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """int64[partition, 8], -1 for what is absent."""
    from sim.jit import numeric

    found = np.empty(wanted.shape, np.int64)
    numeric.match_in_order(np.ascontiguousarray(data), np.ascontiguousarray(wanted), found)
    return found


def describe_replace(device: Device, layouts: tuple[Layout, ...], indices: bool) -> Form:
    """Operands: dst, [dst_idx], data, vals."""
    dst, data, vals = (layouts[0], *layouts[2:]) if indices else layouts
    _check_eight(data, vals)
    checks.tile("dst", dst)
    checks.same_size("data", data, "dst", dst)
    if indices:
        checks.tile("dst_idx", layouts[1])
        checks.same_partitions("data", data, "dst_idx", layouts[1])
        checks.free_size("dst_idx", layouts[1], EIGHT, EIGHT)
        checks.dtype_in("dst_idx", layouts[1], (dtypes.uint16, dtypes.uint32))
    cost = laws.vector(device, (dst, data, vals), data.elements)
    roles = reads(2, 1 + int(indices))
    return laws.form("nc_match_replace8", Engine.VECTOR, "MATCH_REPLACE8", roles, layouts, cost)


def compute_replace(arrays: list[np.ndarray], indices: bool, number: float) -> None:
    """Values are matched from the last to the first, so equal ones take the later places first."""
    dst, data, vals = (arrays[0], *arrays[2:]) if indices else arrays
    source = values.raw(data).copy()
    found = _places(values.rows(data), values.rows(vals)[:, ::-1])[:, ::-1]
    if indices:
        values.put(arrays[1], found.astype(arrays[1].dtype))
    partition, column = np.nonzero(found >= 0)
    replaced = np.empty(source.shape, dst.dtype)
    values.put(replaced, source)
    filler = np.empty(1, dst.dtype)
    dtypes.store(filler, np.float32([number]))
    replaced[partition, found[partition, column]] = filler[0]
    values.put(dst, replaced)


# -- between partitions ----------------------------------------------------------------------------


def describe_shuffle(device: Device, layouts: tuple[Layout, ...], mask: tuple[int, ...]) -> Form:
    """Operands: dst, src, and dst again when the mask keeps partitions."""
    dst, src = layouts[:2]
    checks.tile("dst", dst)
    checks.tile("src", src)
    checks.same_dtype("src", src, "dst", dst)
    if dst.elements != src.elements:
        fail(f"dst: {dst.elements} elements a partition, src has {src.elements}")
    if len(mask) != SMALL:
        fail(f"shuffle_mask: {len(mask)} entries, must be {SMALL}")
    for place, entry in enumerate(mask):
        if not (0 <= entry < SMALL or entry == KEEP):
            fail(f"shuffle_mask[{place}]: {entry}, must be 0 to {SMALL - 1}, or {KEEP} to keep")
    cost = laws.vector(device, (dst, src), src.elements)
    return laws.form("nc_stream_shuffle", Engine.VECTOR, "STREAM_SHUFFLE", reads(len(layouts) - 1), layouts, cost)


def compute_shuffle(arrays: list[np.ndarray], mask: tuple[int, ...]) -> None:
    dst, src = arrays[:2]
    source = values.raw(src).copy()
    partitions = np.arange(dst.shape[0])
    wanted = np.asarray(mask)[partitions % SMALL]
    origin = partitions // SMALL * SMALL + wanted
    moved = np.flatnonzero((wanted != KEEP) & (origin < source.shape[0]))
    dst[moved] = source[origin[moved]].reshape(len(moved), *dst.shape[1:])


TRANSPOSE = Op("nki.isa.nc_transpose.vector", describe_transpose, tensor.compute_transpose)
PREDICATED = Op("nki.isa.tensor_copy_predicated", describe_predicated, compute_predicated)
SELECT = Op("nki.isa.select_reduce", describe_select, compute_select)
RANGE = Op("nki.isa.range_select", describe_range, compute_range)
MAX8 = Op("nki.isa.max8", describe_max8, compute_max8)
FIND = Op("nki.isa.nc_find_index8", describe_find, compute_find)
REPLACE = Op("nki.isa.nc_match_replace8", describe_replace, compute_replace)
SHUFFLE = Op("nki.isa.nc_stream_shuffle", describe_shuffle, compute_shuffle)
