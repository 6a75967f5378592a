"""Vector Engine instructions that came with NeuronCore-v4: exponential with a running sum, and MX quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import dtypes
from sim.engines import checks, laws, values
from sim.engines.checks import fail
from sim.engines.functions import ALU
from sim.engines.tensor import MX_GROUP, MX_PACK, MX_QUADRANT, OCP_GENERATION, check_scale, scale_rows
from sim.engines.vector_reduce import check_columns, fold_into, load_registers, reads
from sim.memory import Layout
from sim.program import Form, Op
from sim.spec import Device
from sim.trace import Engine

COMMANDS = ("idle", "reset_reduce", "reduce", "load_reduce")
EXPONENTIAL_DTYPES = (
    dtypes.float32,
    dtypes.bfloat16,
    dtypes.float16,
    dtypes.float8_e4m3,
    dtypes.float8_e5m2,
    dtypes.int8,
    dtypes.int16,
    dtypes.int32,
    dtypes.uint8,
    dtypes.uint16,
)
"""What both tiles of exponential may be; floats first."""
EXPONENTIAL_DIMS = 4
LARGEST_EXPONENT = {dtypes.float8_e4m3fn_x4: 8, dtypes.float8_e5m2_x4: 15}
"""E_max of the element format (nki.isa.quantize_mx)."""
BIAS = 127
"""Of float8_e8m0fnu: a byte b is 2^(b - 127)."""


def describe_exponential(
    device: Device, layouts: tuple[Layout, ...], columns: tuple[bool, bool], command: str, res: bool
) -> Form:
    """Operands: dst, [reduce_res], src, [max_value], [reduce_init]."""
    dst, src, *vectors = (layouts[0], *layouts[2:]) if res else layouts
    checks.generation(device, OCP_GENERATION, "exponential")
    checks.tile("dst", dst)
    checks.tile("src", src)
    checks.dtype_in("dst", dst, (*EXPONENTIAL_DTYPES, dtypes.tfloat32))
    checks.dtype_in("src", src, (*EXPONENTIAL_DTYPES, dtypes.uint32))
    for name, layout in (("dst", dst), ("src", src)):
        checks.dimensions(name, layout, EXPONENTIAL_DIMS)
    checks.same_size("src", src, "dst", dst)
    checks.one_of("reduce_cmd", command, COMMANDS)
    check_columns(("max_value", "reduce_init"), columns, vectors, src)
    if res:
        checks.column("reduce_res", layouts[1], src)
        checks.dtype_in("reduce_res", layouts[1], (*EXPONENTIAL_DTYPES[:5], dtypes.tfloat32))
    cost = laws.vector(device, (dst, src), src.elements, laws.CYCLES["exponential"])
    roles = reads(len(layouts) - 1 - int(res), 1 + int(res))
    return laws.form("exponential", Engine.VECTOR, "EXPONENTIAL", roles, layouts, cost)


@values.quiet
def compute_exponential(
    arrays: list[np.ndarray],
    columns: tuple[bool, bool],
    command: str,
    res: bool,
    numbers: tuple[Any, Any],
    registers: np.ndarray,
) -> None:
    dst, *rest = arrays
    out = rest.pop(0) if res else None
    src, *vectors = rest
    largest, initial = (values.operand(None if c else n or 0, vectors) for c, n in zip(columns, numbers, strict=True))
    result = np.exp(values.rows(src) - largest)
    values.put(dst, result)
    held = registers[: src.shape[0]]
    if command != "idle":
        load_registers(held, ALU["add"], command, initial)
        fold_into(held, ALU["add"], result)
    if out is not None:
        values.put(out, held)


def describe_quantize(device: Device, layouts: tuple[Layout, ...], packed: str) -> Form:
    dst, dst_scale, src = layouts
    checks.generation(device, OCP_GENERATION, "quantize_mx")
    for name, layout in (("dst", dst), ("src", src), ("dst_scale", dst_scale)):
        checks.tile(name, layout, checks.SBUF)
    checks.dtype_in("src", src, (dtypes.float16, dtypes.bfloat16))
    checks.dtype_in("dst", dst, tuple(LARGEST_EXPONENT))
    if src.partitions % MX_QUADRANT:
        fail(f"src: partition {src.partitions} is no multiple of {MX_QUADRANT}")
    if src.elements % MX_PACK:
        fail(f"src: free size {src.elements} is no multiple of {MX_PACK}")
    checks.same_partitions("src", src, "dst", dst)
    if dst.elements * MX_PACK != src.elements:
        fail(f"dst: {dst.elements} elements a partition, must be {src.elements // MX_PACK}, a quarter of src's")
    check_scale("dst_scale", dst_scale, "dst", dst)
    cost = laws.vector(device, (dst, src), src.elements, laws.CYCLES["quantize_mx"])
    return laws.form("quantize_mx", Engine.VECTOR, "QUANTIZE_MX", reads(1, 2), layouts, cost)


@values.quiet
def compute_quantize(arrays: list[np.ndarray], packed: str) -> None:
    """Scale = 2^(floor(log2 amax) - (E_max - 1)) for each group of 8 partitions x 4 elements; 2^-127 for zeros."""
    dst, dst_scale, src = arrays
    target = dtypes.parse(packed)
    data = values.rows(src)
    partitions = data.shape[0]
    grouped = np.abs(data).reshape(partitions // MX_GROUP, MX_GROUP, -1, MX_PACK)
    _, exponent = np.frexp(grouped.max(axis=(1, 3)))
    exponent = exponent - 1 - (LARGEST_EXPONENT[target] - 1)
    exponent = np.where(grouped.max(axis=(1, 3)) == 0, -BIAS, np.clip(exponent, -BIAS, BIAS))
    divisor = np.repeat(np.repeat(exponent, MX_GROUP, axis=0), MX_PACK, axis=1)
    scaled = np.ldexp(data, -divisor).reshape(partitions, -1, MX_PACK)
    values.put(dst, dtypes.pack(scaled, target))
    table = values.raw(dst_scale).view(np.uint8)
    table[scale_rows(partitions)[::MX_GROUP]] = (exponent + BIAS).astype(np.uint8)
    if not np.shares_memory(table, dst_scale):
        dst_scale.view(np.uint8)[...] = table.reshape(dst_scale.shape)


EXPONENTIAL = Op("nki.isa.exponential", describe_exponential, compute_exponential)
QUANTIZE = Op("nki.isa.quantize_mx", describe_quantize, compute_quantize)
