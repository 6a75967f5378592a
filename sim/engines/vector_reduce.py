"""Vector Engine instructions that fold rows: reductions, scans, statistics, and the accumulator registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import dtypes
from sim.engines import checks, laws, values
from sim.engines.checks import fail
from sim.engines.functions import ALU, Alu
from sim.engines.vector import bitvec
from sim.memory import Layout
from sim.program import Form, Op, Role
from sim.spec import Device
from sim.trace import Engine

BN_STATS_ELEMENTS, BN_STATS_VALUES, BN_TUPLE = 512, 6, 3
REDUCTIONS = ("add", "multiply", "maximum", "minimum")
CUMULATED = tuple(
    dtype
    for dtype in dtypes.DTYPES
    if dtype not in dtypes.PACKED | dtypes.WIDE_INTEGERS | {dtypes.bool_, dtypes.float8_e8m0fnu, dtypes.tfloat32}
)
"""dtypes of tensor_scalar_cumulative, which has no 32-bit integers."""
CUMULATIVE = ("add", "subtract", *REDUCTIONS[1:])
SCANNED = {"multiply": 0, "add": 1, "subtract": 2, "maximum": 3, "minimum": 4}
"""Operators that the jitted scan knows, by its numbers."""
COMMANDS = ("reset_reduce", "reduce", "load_reduce")
HALVED = ("add", "maximum")
"""16-bit reductions of half a cycle an element (v2.26.1 instruction reference)."""


def reads(count: int, writes: int = 1) -> tuple[Role, ...]:
    return (Role.WRITE,) * writes + (Role.READ,) * count


def describe_reduce(device: Device, layouts: tuple[Layout, ...], op: str, axes: tuple[int, ...], negate: bool) -> Form:
    dst, data = layouts
    checks.tile("dst", dst)
    checks.tile("data", data)
    checks.unpacked("dst", dst)
    checks.unpacked("data", data)
    checks.same_partitions("data", data, "dst", dst)
    reducible(op)
    if bitvec(op):
        checks.integers("data", data)
        checks.integers("dst", dst)
        if negate:
            fail(f"negate: True with the bit-vector operator {op}")
    kept = _kept(data, axes)
    if dst.elements != kept:
        fail(f"dst: {dst.elements} elements a partition, reducing axis {axes} of data {list(data.shape)} leaves {kept}")
    halved = op in HALVED and not laws.wide(data) and not laws.wide(dst)
    cost = laws.vector(device, layouts, data.elements, laws.CYCLES["reduce_16bit"] if halved else 1)
    return laws.form("tensor_reduce", Engine.VECTOR, "TENSOR_REDUCE", reads(1), layouts, cost, op)


def reducible(op: str, argument: str = "op") -> Alu:
    if ALU[op].reduce is None:
        fail(f"{argument}: {op} is no legal reduction", f"legal: {', '.join(n for n, a in ALU.items() if a.reduce)}")
    return ALU[op]


def _kept(data: Layout, axes: tuple[int, ...]) -> int:
    """Elements a partition that are left; the axes must be the last ones and not the partition."""
    ndim = len(data.shape)
    wanted = tuple(sorted(axis + ndim if axis < 0 else axis for axis in axes))
    if not wanted or wanted != tuple(range(ndim - len(wanted), ndim)) or wanted[0] < 1:
        fail(f"axis: {axes} of data {list(data.shape)}, must be the last free dimensions")
    kept = 1
    for size in data.shape[1 : wanted[0]]:
        kept *= size
    return kept


@values.quiet
def compute_reduce(arrays: list[np.ndarray], op: str, axes: tuple[int, ...], negate: bool) -> None:
    dst, data = arrays
    source = values.raw(data) if ALU[op].bitvec else values.rows(data)
    kept = dst.size // dst.shape[0]
    folded = values.fold(ALU[op], source.reshape(dst.shape[0], kept, -1))
    values.put(dst, -dtypes.to_fp32(folded) if negate else folded)


# -- scans -----------------------------------------------------------------------------------------


def describe_scan(
    device: Device, layouts: tuple[Layout, ...], op0: str, op1: str, reverse: tuple[bool, bool], column: bool
) -> Form:
    dst, data0, data1, *initial = layouts
    for name, layout in (("dst", dst), ("data0", data0), ("data1", data1)):
        checks.tile(name, layout)
        checks.unpacked(name, layout)
    checks.same_size("data0", data0, "data1", data1)
    checks.same_size("data0", data0, "dst", dst)
    checks.not_both_psum("data0", data0, "data1", data1)
    if bitvec(op0, op1) or ALU[op0].unary or ALU[op1].unary:
        fail(f"op0, op1: {op0}, {op1}; a scan takes binary arithmetic operators")
    if initial:
        checks.column("initial", initial[0], data0)
    cost = laws.vector(device, layouts[:3], data0.elements, 1 / device["dve.rate_scan"], columns=bool(initial))
    roles = reads(len(layouts) - 1)
    return laws.form("tensor_tensor_scan", Engine.VECTOR, "TENSOR_TENSOR_SCAN", roles, layouts, cost, f"{op0},{op1}")


@values.quiet
def compute_scan(
    arrays: list[np.ndarray], op0: str, op1: str, reverse: tuple[bool, bool], column: bool, initial: Any
) -> None:
    dst, data0, data1, *vectors = arrays
    seed = values.operand(None if column else initial, vectors)
    state = np.broadcast_to(seed, (dst.shape[0], 1)).astype(np.float32).reshape(-1)
    values.put(dst, scan(values.rows(data0), values.rows(data1), state, op0, op1, reverse))


def scan(
    data0: np.ndarray, data1: np.ndarray, state: np.ndarray, op0: str, op1: str, reverse: tuple[bool, bool]
) -> np.ndarray:
    """result[:, i] = op1(op0(data0[:, i], result[:, i - 1]), data1[:, i]); `state` is the result before the first."""
    if op0 in SCANNED and op1 in SCANNED:
        from sim.jit import numeric

        out = np.empty(data0.shape, np.float32)
        flags = int(reverse[0]) | int(reverse[1]) << 1
        numeric.scan(
            np.ascontiguousarray(data0), np.ascontiguousarray(data1), state, SCANNED[op0], SCANNED[op1], flags, out
        )
        return out
    columns = []
    for left, right in zip(data0.T, data1.T, strict=True):
        state = values.apply(op1, values.apply(op0, left, state, reverse[0]), right, reverse[1])
        columns.append(state)
    return np.stack(columns, axis=1)


def describe_cumulative(
    device: Device,
    layouts: tuple[Layout, ...],
    op0: str,
    op1: str,
    columns: tuple[bool, bool],
    command: str,
) -> Form:
    dst, src, *vectors = layouts
    for name, layout in (("dst", dst), ("src", src)):
        checks.tile(name, layout)
        checks.dtype_in(name, layout, CUMULATED)
    checks.same_size("src", src, "dst", dst)
    checks.arithmetic("op0", op0)
    checks.one_of("op1", op1, CUMULATIVE)
    checks.one_of("reduce_cmd", command, COMMANDS)
    check_columns(("imm0", "imm1"), columns, vectors, src)
    cost = laws.vector(device, (dst, src), src.elements, 1 / device["dve.rate_scan"], columns=bool(vectors))
    roles = reads(len(layouts) - 1)
    call, opcode = "tensor_scalar_cumulative", "TENSOR_SCALAR_CUMULATIVE"
    return laws.form(call, Engine.VECTOR, opcode, roles, layouts, cost, f"{op0},{op1}")


def check_columns(names: tuple[str, ...], columns: tuple[bool, ...], vectors: list[Layout], data: Layout) -> None:
    """The operands that are tiles must be fp32 columns."""
    given = [name for name, is_column in zip(names, columns, strict=True) if is_column]
    for name, layout in zip(given, vectors, strict=True):
        checks.column(name, layout, data)
        checks.dtype_in(name, layout, (dtypes.float32,))


@values.quiet
def compute_cumulative(
    arrays: list[np.ndarray],
    op0: str,
    op1: str,
    columns: tuple[bool, bool],
    command: str,
    numbers: tuple[Any, Any],
    registers: np.ndarray,
) -> None:
    dst, src, *vectors = arrays
    imm0, imm1 = (values.operand(None if c else n or 0, vectors) for c, n in zip(columns, numbers, strict=True))
    data = values.apply(op0, values.rows(src), imm0)
    held = registers[: src.shape[0]]
    load_registers(held, ALU[op1], command, imm1)
    out = scan(data, np.zeros_like(data), held.reshape(-1).copy(), op1, "add", (False, False))
    held[...] = out[:, -1:]
    values.put(dst, out)


def load_registers(held: np.ndarray, op: Alu, command: str, initial: Any) -> None:
    """Set the accumulator registers before an instruction folds into them."""
    if command == "reset_reduce":
        held[...] = op.identity
    elif command == "load_reduce":
        held[...] = initial


# -- one operator, then a fold ---------------------------------------------------------------------


def describe_scalar_reduce(
    device: Device,
    layouts: tuple[Layout, ...],
    op0: str,
    reduce_op: str,
    columns: tuple[bool, bool],
    command: str,
    res: bool,
    negate: bool,
) -> Form:
    """Operands: dst, [reduce_res], data, [operand0], [reduce_init]."""
    dst, data, *vectors = (layouts[0], *layouts[2:]) if res else layouts
    checks.tile("dst", dst)
    checks.tile("data", data)
    checks.unpacked("dst", dst)
    checks.unpacked("data", data)
    checks.same_size("data", data, "dst", dst)
    checks.arithmetic("op0", op0)
    checks.one_of("reduce_op", reduce_op, REDUCTIONS)
    checks.one_of("reduce_cmd", command, COMMANDS)
    check_columns(("operand0", "reduce_init"), columns, vectors, data)
    if res:
        checks.column("reduce_res", layouts[1], data)
    ordered = (dst, data)
    read_out = device["min_ii_cycles"] if res else 0
    per_element = 1 + read_out / data.elements
    cost = laws.vector(device, ordered, data.elements, per_element, "dve.lat_tensor_scalar", bool(vectors))
    roles = reads(len(layouts) - 1 - int(res), 1 + int(res))
    function = f"{op0},{reduce_op}"
    return laws.form("tensor_scalar_reduce", Engine.VECTOR, "TENSOR_SCALAR", roles, layouts, cost, function)


@values.quiet
def compute_scalar_reduce(
    arrays: list[np.ndarray],
    op0: str,
    reduce_op: str,
    columns: tuple[bool, bool],
    command: str,
    res: bool,
    negate: bool,
    numbers: tuple[Any, Any],
    registers: np.ndarray,
) -> None:
    dst, *rest = arrays
    out = rest.pop(0) if res else None
    data, *vectors = rest
    operand0, initial = (values.operand(None if c else n or 0, vectors) for c, n in zip(columns, numbers, strict=True))
    result = values.apply(op0, values.rows(data), operand0)
    held = registers[: data.shape[0]]
    load_registers(held, ALU[reduce_op], command, initial)
    fold_into(held, ALU[reduce_op], result)
    values.put(dst, result)
    if out is not None:
        values.put(out, -held if negate else held)


def fold_into(held: np.ndarray, op: Alu, result: np.ndarray) -> None:
    held[...] = op.apply(held, values.fold(op, result, axis=1))


# -- batch normalisation ---------------------------------------------------------------------------


def describe_bn_stats(device: Device, layouts: tuple[Layout, ...]) -> Form:
    dst, data = layouts
    checks.tile("dst", dst)
    checks.tile("data", data)
    checks.unpacked("dst", dst)
    checks.unpacked("data", data)
    checks.same_partitions("data", data, "dst", dst)
    checks.free_size("data", data, 1, BN_STATS_ELEMENTS)
    checks.free_size("dst", dst, BN_STATS_VALUES, BN_STATS_VALUES)
    return laws.form(
        "bn_stats", Engine.VECTOR, "BN_STATS", reads(1), layouts, laws.vector(device, layouts, data.elements)
    )


@values.quiet
def compute_bn_stats(arrays: list[np.ndarray]) -> None:
    dst, data = arrays
    rows = values.rows(data)
    columns = []
    for part in (rows[:, 0::2], rows[:, 1::2]):
        count = part.shape[1]
        mean = part.mean(axis=1) if count else np.zeros(len(rows), np.float32)
        spread = np.square(part - mean[:, None]).sum(axis=1)
        columns += [np.full(len(rows), count, np.float32), mean, spread]
    values.put(dst, np.stack(columns, axis=1).astype(np.float32))


def describe_bn_aggr(device: Device, layouts: tuple[Layout, ...]) -> Form:
    dst, data = layouts
    checks.tile("dst", dst)
    checks.tile("data", data)
    checks.unpacked("dst", dst)
    checks.unpacked("data", data)
    checks.same_partitions("data", data, "dst", dst)
    checks.free_size("dst", dst, 2, 2)
    if data.elements % BN_TUPLE:
        fail(f"data: {data.elements} elements a partition, no multiple of {BN_TUPLE}")
    cost = laws.vector(device, layouts, data.elements, laws.CYCLES["bn_aggr"])
    return laws.form("bn_aggr", Engine.VECTOR, "BN_AGGR", reads(1), layouts, cost)


@values.quiet
def compute_bn_aggr(arrays: list[np.ndarray]) -> None:
    dst, data = arrays
    count, mean, spread = np.moveaxis(values.rows(data).reshape(data.shape[0], -1, BN_TUPLE), 2, 0)
    total = count.sum(axis=1)
    centre = (count * mean).sum(axis=1) / total
    between = (count * np.square(mean - centre[:, None])).sum(axis=1)
    variance = (spread.sum(axis=1) + between) / total
    values.put(dst, np.stack((centre, variance), axis=1))


REDUCE = Op("nki.isa.tensor_reduce", describe_reduce, compute_reduce)
SCAN = Op("nki.isa.tensor_tensor_scan", describe_scan, compute_scan)
CUMULATIVE_SCAN = Op("nki.isa.tensor_scalar_cumulative", describe_cumulative, compute_cumulative)
SCALAR_REDUCE = Op("nki.isa.tensor_scalar_reduce", describe_scalar_reduce, compute_scalar_reduce)
BN_STATS = Op("nki.isa.bn_stats", describe_bn_stats, compute_bn_stats)
BN_AGGR = Op("nki.isa.bn_aggr", describe_bn_aggr, compute_bn_aggr)
