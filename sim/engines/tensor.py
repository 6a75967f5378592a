"""The Tensor Engine: matrix multiplication and transpose, from SBUF into PSUM."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from sim import dtypes
from sim.engines import checks, laws, values
from sim.engines.checks import fail
from sim.memory import Layout
from sim.program import Cost, Form, Op, Role
from sim.spec import Device
from sim.trace import Engine

STATIONARY_COLUMNS = 128
MOVING_COLUMNS = 512
ROW_TILES = {2: (64, 128), 3: (32, 64, 128), 4: (32, 64, 128)}
"""Row tile sizes that each generation's array can be cut into."""

FLOATS = (dtypes.bfloat16, dtypes.float16, dtypes.float8_e4m3, dtypes.float8_e5m2)
SINGLE = (dtypes.float32, dtypes.tfloat32)
OCP = dtypes.float8_e4m3fn
OCP_GENERATION = 4
MX_QUADRANT, MX_GROUP, MX_PACK = 32, 8, 4
"""Partitions of a quadrant; partitions and elements of a group that shares one scale (OCP microscaling, NKI)."""

ADJUSTED = {"fp8": (1.0, 0.5), "mx": (0.25, 0.25)}
"""FLOPs in BF16 equivalents, on v2 and later: AWS's profiler counts fp8 half where its rate is double."""


def describe_matmul(
    device: Device,
    layouts: tuple[Layout, ...],
    accumulate: bool,
    transpose: bool,
    onezero: tuple[bool, bool],
    position: tuple[int, ...],
    size: tuple[int, ...],
    perf: str,
) -> Form:
    dst, stationary, moving = layouts
    double = perf == "double_row"
    _check_matmul_operands(device, dst, stationary, moving, transpose, double)
    k = stationary.partitions * (2 if double else 1)
    m, n = stationary.elements // (2 if double else 1), moving.elements // (2 if double else 1)
    _check_sizes(device, dst, stationary, m, n, double)
    _check_tiling(device, tuple(position), tuple(size), stationary, m)
    if double and size and size[1] != STATIONARY_COLUMNS:
        fail(f"tile_size: column_size {size[1]} with perf_mode double_row, must be {STATIONARY_COLUMNS}")
    passes, per_column = _passes(device, stationary.dtype, transpose, onezero)
    return _form("nc_matmul", device, layouts, accumulate, transpose, (k, m, n), passes, per_column)


def _check_matmul_operands(
    device: Device, dst: Layout, stationary: Layout, moving: Layout, transpose: bool, double: bool
) -> None:
    checks.tile("dst", dst, checks.PSUM)
    checks.tile("stationary", stationary, checks.SBUF)
    checks.tile("moving", moving, checks.SBUF)
    checks.same_partitions("stationary", stationary, "moving", moving)
    known = (*FLOATS, *SINGLE) + ((OCP,) if device.generation >= OCP_GENERATION else ())
    if not transpose:
        checks.dtype_in("stationary", stationary, known)
        checks.dtype_in("moving", moving, known)
    kinds = {stationary.dtype, moving.dtype}
    if kinds & set(SINGLE) and not kinds <= set(SINGLE):
        fail(f"moving: dtype {moving.dtype} with stationary {stationary.dtype}; fp32 multiplies fp32 or tf32 only")
    if {OCP, dtypes.float8_e4m3} <= kinds:
        fail("moving: float8_e4m3 and float8_e4m3fn cannot meet in one matmul")
    allowed = [dtypes.float32]
    if device.generation >= OCP_GENERATION:
        allowed.append(dtypes.bfloat16)
    if transpose:
        allowed.append(stationary.dtype)
    checks.dtype_in("dst", dst, dict.fromkeys(allowed))
    if double:
        _check_double(device, stationary, moving)


def _check_double(device: Device, stationary: Layout, moving: Layout) -> None:
    checks.generation(device, 3, "perf_mode double_row")
    for name, layout in (("stationary", stationary), ("moving", moving)):
        checks.dtype_in(name, layout, [d for d in dtypes.DTYPES if d in dtypes.FP8])
        if len(layout.shape) < 3 or layout.shape[1] != 2:
            fail(f"{name}: shape {list(layout.shape)}, double_row needs [K, 2, free]")


def _check_sizes(device: Device, dst: Layout, stationary: Layout, m: int, n: int, double: bool) -> None:
    if m > STATIONARY_COLUMNS:
        fail(f"stationary: free size {m} > {STATIONARY_COLUMNS}", f"shape {list(stationary.shape)}")
    limit = moving_limit(device, dst)
    if n > limit:
        fail(f"moving: free size {n} > {limit}")
    if dst.partitions != m:
        fail(f"dst: {dst.partitions} partitions, the stationary tile has {m} columns")
    if dst.elements != n:
        fail(f"dst: {dst.elements} elements a partition, the moving tile has {n} columns")


def moving_limit(device: Device, dst: Layout) -> int:
    """Columns of the moving tile: one PSUM bank of fp32; from v4 on all of PSUM."""
    if device.generation < OCP_GENERATION:
        return MOVING_COLUMNS
    return int(device["psum_partition_bytes"]) // dst.itemsize


def _check_tiling(device: Device, position: tuple, size: tuple, stationary: Layout, columns: int) -> None:
    if bool(position) != bool(size):
        fail(f"tile_position, tile_size: {position} and {size}, must be given together")
    if not size:
        return
    for name, pair in (("tile_position", position), ("tile_size", size)):
        if len(pair) != 2:
            fail(f"{name}: {pair} of {len(pair)} numbers, must have 2")
    rows, cols = size
    checks.one_of("tile_size: row_size", rows, ROW_TILES[device.generation])
    checks.one_of("tile_size: column_size", cols, ROW_TILES[device.generation])
    row, column = position
    if row % rows or row + rows > STATIONARY_COLUMNS:
        fail(f"tile_position: start_row {row} is no multiple of row_size {rows} below {STATIONARY_COLUMNS}")
    if column % cols or column + cols > STATIONARY_COLUMNS:
        fail(f"tile_position: start_column {column} is no multiple of column_size {cols} below {STATIONARY_COLUMNS}")
    if stationary.partitions > rows:
        fail(f"stationary: partition {stationary.partitions} > row_size {rows}")
    if columns > cols:
        fail(f"stationary: free size {columns} > column_size {cols}")


def _passes(device: Device, dtype: Any, transpose: bool, onezero: tuple[bool, bool]) -> tuple[int, int]:
    """(instruction pairs, cycles a column): fp32 takes more of both; an operand of ones and zeros needs one pass.

    A transpose has an identity for an operand anyway, and takes its own number of passes whatever the flags say.
    """
    if dtype != dtypes.float32:
        return 1, 1
    figure = "pe.transpose_passes_fp32" if transpose else "pe.passes_fp32"
    passes = 1 if any(onezero) and not transpose else int(device[figure])
    return passes, int(device["pe.cycles_per_column_fp32"])


def _form(
    call: str,
    device: Device,
    layouts: tuple[Layout, ...],
    accumulate: bool,
    transpose: bool,
    size: tuple[int, int, int],
    passes: int,
    per_column: int,
) -> Form:
    """size: rows that are contracted, stationary columns, moving columns"""
    data = layouts[1]
    macs = prod(size)
    weights = _load_cycles(device, data, size[1], transpose)
    reads = (Role.READ,) * (len(layouts) - 1)
    return Form(
        call=f"nki.isa.{call}",
        engine=Engine.TENSOR,
        opcode="MATMUL_MX" if data.dtype in dtypes.PACKED else "MATMUL",
        roles=(Role.ACCUMULATE if accumulate else Role.WRITE, *reads),
        layouts=layouts,
        cost=cost(device, data.dtype, size[2], passes, per_column, weights),
        kind="TRANSPOSE" if transpose else "REGULAR",
        dtype=dtypes.short(data.dtype),
        partitions=data.partitions,
        elements=macs,
        flops=2 * macs * passes,
        adjusted_flops=adjusted(device, data.dtype, 2 * macs * passes * per_column),
        passes=passes,
        load_ps=load(device, data, size[1], transpose),
        useful=not transpose,
    )


def cost(device: Device, dtype: Any, columns: int, passes: int, per_column: int, weights: float) -> Cost:
    """Each pass streams its columns, while the next one's weights are loaded, and then pays the issue overhead.

    weights : cycles that loading the weights of a pass takes
    """
    streaming = max(device["pe.min_ii"], columns * per_column)
    overhead = device["pe.issue_ovh" if dtype == dtypes.float32 else "pe.issue_ovh_16"]
    busy = laws.cycles(device, "clock_tensor", (passes - 1) * max(streaming, weights) + streaming + passes * overhead)
    return Cost(
        occupancy_ps=busy,
        latency_ps=busy + laws.ns(device["pe.lat"]),
        clocked=True,
        weights_ps=laws.cycles(device, "clock_tensor", weights),
        tail_ps=laws.cycles(device, "clock_tensor", streaming),
        gap_ps=laws.cycles(device, "clock_tensor", passes * overhead),
    )


def _load_cycles(device: Device, stationary: Layout, columns: int, transpose: bool) -> float:
    """Cycles from the start of a LoadStationary until its weights are in the array: four 16-bit columns in each."""
    if stationary.dtype in SINGLE:
        one_pass = transpose or stationary.dtype == dtypes.tfloat32
        return columns * device["pe.load_cycles_transpose_32" if one_pass else "pe.load_cycles_32"]
    fast = columns == 1 or laws.contiguous(stationary)
    return columns * device["pe.load_cycles_16" if fast else "pe.load_cycles_strided"]


def load(device: Device, stationary: Layout, columns: int, transpose: bool) -> int:
    """LDWEIGHTS: a fixed part, and a part that grows with the columns up to the figure for 128."""
    single = stationary.dtype == dtypes.float32
    full = device[("pe.load_transpose_32" if transpose else "pe.load_32") if single else "pe.load_16"]
    fixed = device["pe.load_fixed"]
    return laws.ns(fixed + (full - fixed) * columns / STATIONARY_COLUMNS)


def adjusted(device: Device, dtype: Any, flops: int) -> int:
    """FLOPs in BF16 equivalents; `flops` counts the cycles a column already."""
    family = "mx" if dtype in dtypes.PACKED else "fp8" if dtype in dtypes.FP8 else None
    if family is None:
        return flops
    older, newer = ADJUSTED[family]
    return int(flops * (newer if device.generation > laws.SHARING_GENERATION else older))


@values.quiet
def compute_matmul(
    arrays: list[np.ndarray],
    accumulate: bool,
    transpose: bool,
    onezero: tuple[bool, bool],
    position: tuple[int, ...],
    size: tuple[int, ...],
    perf: str,
) -> None:
    dst, stationary, moving = arrays
    if transpose:
        _transpose_by_identity(dst, values.raw(stationary), values.raw(moving))
        return
    left, right = values.rows(stationary), values.rows(moving)
    if perf == "double_row":
        left, right = (side.reshape(2 * side.shape[0], -1) for side in (left, right))
    _accumulate(dst, left.T @ right, accumulate)


def _accumulate(dst: np.ndarray, product: np.ndarray, add: bool) -> None:
    product = product.reshape(dst.shape)
    if dst.dtype == np.float32:
        np.add(dst, product, out=dst) if add else np.copyto(dst, product)
        return
    if add:
        product = product + dtypes.to_fp32(dst)
    dtypes.store(dst, product)


def _transpose_by_identity(dst: np.ndarray, stationary: np.ndarray, moving: np.ndarray) -> None:
    """Bit-exact where one side is the identity, as transpose mode is from v3 on; an ordinary product else."""
    for data, other, turned in ((stationary, moving, True), (moving, stationary, False)):
        n = other.shape[0]
        if other.shape == (n, n) and np.array_equal(other, np.eye(n, dtype=other.dtype)):
            values.put(dst, np.ascontiguousarray(data.T if turned else data))
            return
    values.put(dst, dtypes.to_fp32(stationary).T @ dtypes.to_fp32(moving))


def describe_transpose(device: Device, layouts: tuple[Layout, ...]) -> Form:
    dst, data = layouts
    checks.tile("dst", dst, checks.PSUM)
    checks.tile("data", data, checks.SBUF)
    checks.same_dtype("data", data, "dst", dst)
    if data.elements > STATIONARY_COLUMNS:
        fail(f"data: free size {data.elements} > {STATIONARY_COLUMNS} for a transpose on the Tensor Engine")
    check_transposed(dst, data)
    passes, per_column = _passes(device, data.dtype, True, (False, False))
    size = (data.partitions, data.elements, data.partitions)
    return _form("nc_transpose", device, layouts, False, True, size, passes, per_column)


def describe_expanded(device: Device, layouts: tuple[Layout, ...]) -> Form:
    return replace(describe_transpose(device, layouts), call=EXPANDED)


def check_transposed(dst: Layout, data: Layout) -> None:
    if (dst.partitions, dst.elements) != (data.elements, data.partitions):
        fail(
            f"dst: shape {list(dst.shape)}, the transpose of data {list(data.shape)} "
            f"has {data.elements} partitions and {data.partitions} elements in each"
        )


def compute_transpose(arrays: list[np.ndarray]) -> None:
    dst, data = arrays
    values.put(dst, np.ascontiguousarray(values.raw(data).T))


# -- microscaling formats --------------------------------------------------------------------------


MX_SCALES = (3, 4)
"""Operands of nc_matmul_mx of which four rows in each quadrant count."""


def describe_mx(
    device: Device, layouts: tuple[Layout, ...], accumulate: bool, position: tuple, size: tuple, packed: tuple
) -> Form:
    dst, stationary, moving, stationary_scale, moving_scale = layouts
    checks.generation(device, OCP_GENERATION, "nc_matmul_mx")
    checks.tile("dst", dst, checks.PSUM)
    checks.dtype_in("dst", dst, (dtypes.float32, dtypes.bfloat16))
    names = ("stationary", "moving", "stationary_scale", "moving_scale")
    for name, layout in zip(names, layouts[1:], strict=True):
        checks.tile(name, layout, checks.SBUF)
    for name, layout, scale in (
        ("stationary", stationary, stationary_scale),
        ("moving", moving, moving_scale),
    ):
        checks.dtype_in(name, layout, [d for d in dtypes.DTYPES if d in dtypes.PACKED])
        check_scale(f"{name}_scale", scale, name, layout)
    checks.same_partitions("stationary", stationary, "moving", moving)
    if stationary.partitions % MX_QUADRANT:
        fail(f"stationary: partition {stationary.partitions} is no multiple of {MX_QUADRANT}")
    if stationary.elements % 2:
        fail(f"stationary: free size {stationary.elements} is odd")
    _check_sizes(device, dst, stationary, stationary.elements, moving.elements, False)
    if size and (size[1:], position[1:]) != ((STATIONARY_COLUMNS,), (0,)):
        fail(f"tile_position, tile_size: {position} and {size}, start_column must be 0, column_size 128")
    _check_tiling(device, tuple(position), tuple(size), stationary, stationary.elements)
    macs = (stationary.partitions * MX_PACK, stationary.elements, moving.elements)
    return replace(_form("nc_matmul_mx", device, layouts, accumulate, False, macs, 1, 1), sparse=MX_SCALES)


def check_scale(name: str, scale: Layout, of: str, data: Layout) -> None:
    """Four rows of scales at the start of each quadrant, or only these when the data fits one quadrant."""
    checks.dtype_in(name, scale, (dtypes.float8_e8m0fnu, dtypes.uint8))
    quadrants = -(-data.partitions // MX_QUADRANT)
    least = (quadrants - 1) * MX_QUADRANT + MX_QUADRANT // MX_GROUP
    if scale.partitions < least:
        fail(f"{name}: partition {scale.partitions} < {least} for {of} {list(data.shape)}")
    if scale.elements != data.elements:
        fail(f"{name}: {scale.elements} elements a partition, {of} has {data.elements}")


@values.quiet
def compute_mx(
    arrays: list[np.ndarray], accumulate: bool, position: tuple, size: tuple, packed: tuple[str, str]
) -> None:
    dst, stationary, moving, stationary_scale, moving_scale = arrays
    left = _dequantized(stationary, stationary_scale, packed[0])
    right = _dequantized(moving, moving_scale, packed[1])
    _accumulate(dst, left.T @ right, accumulate)


def _dequantized(data: np.ndarray, scale: np.ndarray, packed: str) -> np.ndarray:
    """fp32[partition x 4, columns]"""
    numbers = dtypes.unpack(values.raw(data), dtypes.parse(packed))
    exponents = values.raw(scale).view(np.uint8).astype(np.int32)[scale_rows(data.shape[0])] - 127
    scaled = np.ldexp(numbers, exponents[:, :, None])
    return scaled.transpose(0, 2, 1).reshape(-1, scaled.shape[1])


def scale_rows(partitions: int) -> np.ndarray:
    """Row of the scale tile that holds each data partition's scale."""
    partition = np.arange(partitions)
    return partition // MX_QUADRANT * MX_QUADRANT + partition % MX_QUADRANT // MX_GROUP


MATMUL = Op("nki.isa.nc_matmul", describe_matmul, compute_matmul)
TRANSPOSE = Op("nki.isa.nc_transpose", describe_transpose, compute_transpose)
EXPANDED = "nki.language.matmul"
"""Call of the transposes that a product of the language is expanded to."""
EXPANDED_TRANSPOSE = Op(EXPANDED, describe_expanded, compute_transpose)
MATMUL_MX = Op("nki.isa.nc_matmul_mx", describe_mx, compute_mx)
