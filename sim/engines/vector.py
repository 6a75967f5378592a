"""Elementwise instructions: most run on Vector, some also on Scalar or GpSimd.

`engine` is what the kernel asked for: an `Engine` name in lower case, or "unknown", which current NKI resolves to
Vector for all but 32-bit integer `tensor_tensor` and `power` (GpSimd).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import dtypes
from sim.engines import checks, laws, values
from sim.engines.checks import fail
from sim.engines.functions import ALU
from sim.memory import Layout
from sim.program import Cost, Form, Op, Role
from sim.spec import Device
from sim.trace import Engine, Memory

UNKNOWN, BYPASS = "unknown", "bypass"
FAST_TENSOR_TENSOR = frozenset(("add", "subtract", "multiply"))
"""Operators of the v2 rate for 16-bit tiles (v2.26.1 instruction reference)."""
SCALAR_COMBINATIONS = frozenset((("multiply", "add"), ("multiply", BYPASS), ("add", BYPASS)))
"""(op0, op1) that ScalarE has for tensor_scalar."""
GPSIMD_OPERATORS = ("rsqrt", "power", "add", "multiply", BYPASS)
"""Operators that GpSimd has for tensor_scalar: rsqrt (NKI 0.6), the others (v2.26.1 operator table)."""


def chosen(call_engine: str, allowed: tuple[Engine, ...], default: Engine | None = None) -> Engine:
    """The engine that runs the instruction."""
    if call_engine == UNKNOWN:
        return allowed[0] if default is None else default
    for engine in allowed:
        if engine.name.lower() == call_engine:
            return engine
    return fail(f"engine: {call_engine}, must be {' or '.join(engine.name.lower() for engine in allowed)}")


def reachable(engine: Engine, **layouts: Layout) -> None:
    """GpSimd has no port to PSUM."""
    if engine is Engine.GPSIMD:
        for name, layout in layouts.items():
            if layout.memory is Memory.PSUM:
                fail(f"{name}: a tile in PSUM, GpSimd reads and writes SBUF only")


def bitvec(*names: str) -> bool:
    """Whether the operators work on bits; arithmetic and bit-vector operators cannot be mixed."""
    kinds = {ALU[name].bitvec for name in names if name != BYPASS}
    if len(kinds) > 1:
        fail(f"op0 and op1: {' and '.join(names)} mix a bit-vector with an arithmetic operator")
    return True in kinds


# -- copies ----------------------------------------------------------------------------------------


def describe_copy(device: Device, layouts: tuple[Layout, ...], engine: str, packed: bool) -> Form:
    dst, src = layouts
    checks.tile("dst", dst)
    checks.tile("src", src)
    checks.same_size("src", src, "dst", dst)
    if packed:
        checks.same_dtype("src", src, "dst", dst)
    runs_on = chosen(engine, (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD))
    if runs_on is Engine.SCALAR:
        checks.generation(device, 3, "engine scalar")
    reachable(runs_on, dst=dst, src=src)
    if runs_on is Engine.VECTOR:
        cost = laws.vector(device, layouts, src.elements, 1 / laws.copy_rate(device, dst, src))
    elif runs_on is Engine.SCALAR:
        cost = laws.scalar(device, layouts, src.elements, copies=True)
    else:
        cost = laws.gpsimd(device, layouts, src.elements)
    opcode = "COPY" if dst.dtype == src.dtype else "CAST"
    return laws.form("tensor_copy", runs_on, opcode, (Role.WRITE, Role.READ), layouts, cost)


def compute_copy(arrays: list[np.ndarray], engine: str, packed: bool) -> None:
    """Bits when the formats are the same; else through fp32."""
    values.put(arrays[0], arrays[1])


def describe_memset(device: Device, layouts: tuple[Layout, ...], engine: str, zero: bool) -> Form:
    (dst,) = layouts
    checks.tile("dst", dst)
    if dst.dtype in dtypes.PACKED and not zero:
        fail(f"value: only 0 can fill {dst.dtype.name}")
    runs_on = chosen(engine, (Engine.VECTOR, Engine.GPSIMD))
    reachable(runs_on, dst=dst)
    if runs_on is Engine.GPSIMD:
        cost = laws.gpsimd(device, layouts, dst.elements)
    else:
        halved = zero and dst.dtype in (dtypes.bfloat16, dtypes.float16)
        cost = laws.vector(device, layouts, dst.elements, laws.CYCLES["memset_zero_16bit"] if halved else 1)
    return laws.form("memset", runs_on, "MEMSET", (Role.WRITE,), layouts, cost)


def compute_memset(arrays: list[np.ndarray], engine: str, zero: bool, value: Any) -> None:
    dst = arrays[0]
    exact = dst.dtype in dtypes.INTEGERS and isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    number = values.integer(value, dst.dtype) if exact and dst.dtype != dtypes.bool_ else np.float32(value)
    dtypes.store(dst, np.asarray(number))


# -- two tiles -------------------------------------------------------------------------------------


def describe_tensor_tensor(device: Device, layouts: tuple[Layout, ...], op: str, engine: str) -> Form:
    dst, data1, data2 = layouts
    for name, layout in (("dst", dst), ("data1", data1), ("data2", data2)):
        checks.tile(name, layout)
        checks.unpacked(name, layout)
        if ALU[op].bitvec:
            checks.integers(name, layout)
    checks.same_size("data1", data1, "data2", data2)
    checks.same_size("data1", data1, "dst", dst)
    checks.not_both_psum("data1", data1, "data2", data2)
    if ALU[op].unary:
        fail(f"op: {op} takes one operand, tensor_tensor needs a binary operator")
    runs_on = chosen(engine, (Engine.VECTOR, Engine.GPSIMD), _tensor_tensor_engine(op, layouts))
    if op == "power" and runs_on is not Engine.GPSIMD:
        fail(f"engine: {engine}, power runs on gpsimd only")
    reachable(runs_on, dst=dst, data1=data1, data2=data2)
    if runs_on is Engine.VECTOR:
        cost = laws.vector(device, layouts, data1.elements, 1 / tensor_tensor_rate(device, op, layouts))
    else:
        cost = laws.gpsimd(device, layouts, data1.elements)
    return laws.form("tensor_tensor", runs_on, "TENSOR_TENSOR", _read(2), layouts, cost, op)


def _tensor_tensor_engine(op: str, layouts: tuple[Layout, ...]) -> Engine:
    in_psum = any(layout.memory is Memory.PSUM for layout in layouts)
    if op == "power" or (exact_integers(op, layouts) and not in_psum):
        return Engine.GPSIMD
    return Engine.VECTOR


def exact_integers(op: str, layouts: tuple[Layout, ...]) -> bool:
    """GpSimd computes on 32-bit integers natively; bit-vector operators are exact on Vector too."""
    return not ALU[op].bitvec and all(layout.dtype in dtypes.WIDE_INTEGERS for layout in layouts)


def tensor_tensor_rate(device: Device, op: str, layouts: tuple[Layout, ...]) -> float:
    """Elements a lane and cycle: one when an operand comes from PSUM, else by width."""
    single = device["dve.rate_tt_fp32"]
    if any(layout.memory is Memory.PSUM for layout in layouts[1:]):
        return max(1, single)
    narrow = all(not laws.wide(layout) and laws.contiguous(layout) for layout in layouts)
    if narrow and (device.generation > laws.SHARING_GENERATION or op in FAST_TENSOR_TENSOR):
        return device["dve.rate_tt_bf16"]
    return single


def _read(count: int) -> tuple[Role, ...]:
    return (Role.WRITE,) + (Role.READ,) * count


@values.quiet
def compute_tensor_tensor(arrays: list[np.ndarray], op: str, engine: str) -> None:
    dst, data1, data2 = arrays
    if ALU[op].bitvec:
        values.put(dst, values.apply_bits(op, values.raw(data1), values.raw(data2)))
    elif all(array.dtype in dtypes.WIDE_INTEGERS for array in arrays) and engine != "vector":
        values.put(dst, _exactly(op, values.raw(data1), values.raw(data2), dst.dtype))
    elif data1.shape == data2.shape:
        values.put(dst, values.apply(op, dtypes.to_fp32(data1), dtypes.to_fp32(data2)))
    else:
        values.put(dst, values.apply(op, values.rows(data1), values.rows(data2)))


def _exactly(op: str, left: np.ndarray, right: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Native 32-bit integer arithmetic, which wraps."""
    if left.dtype != right.dtype:
        left, right = left.astype(dtype), right.astype(dtype)
    result = ALU[op].apply(left, right)
    return result.astype(dtype) if result.dtype != dtype else result


# -- a tile and a number or a column ---------------------------------------------------------------


def describe_tensor_scalar(
    device: Device,
    layouts: tuple[Layout, ...],
    op0: str,
    op1: str,
    reverse: tuple[bool, bool],
    columns: tuple[bool, bool],
    engine: str,
) -> Form:
    dst, data, *vectors = layouts
    checks.tile("dst", dst)
    checks.tile("data", data)
    checks.same_size("data", data, "dst", dst)
    bits = bitvec(op0, op1)
    for name, layout in (("dst", dst), ("data", data)):
        checks.unpacked(name, layout)
        if bits:
            checks.integers(name, layout)
    names = [name for name, is_column in zip(("operand0", "operand1"), columns, strict=True) if is_column]
    for name, layout in zip(names, vectors, strict=True):
        checks.column(name, layout, data)
        if not bits and layout.dtype not in (dtypes.float32, dtypes.tfloat32):
            fail(f"{name}: dtype {checks.dtype_name(layout.dtype)}, must be float32")
    runs_on = _tensor_scalar_engine(device, engine, op0, op1, bits)
    reachable(runs_on, dst=dst, data=data)
    cost = _tensor_scalar_cost(device, runs_on, layouts)
    function = op0 if op1 == BYPASS else f"{op0},{op1}"
    return laws.form("tensor_scalar", runs_on, "TENSOR_SCALAR", _read(len(layouts) - 1), layouts, cost, function)


def _tensor_scalar_engine(device: Device, engine: str, op0: str, op1: str, bits: bool) -> Engine:
    default = Engine.GPSIMD if "power" in (op0, op1) else Engine.VECTOR
    runs_on = chosen(engine, (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD), default)
    if bits and runs_on is not Engine.VECTOR:
        fail(f"engine: {engine}, bit-vector operators run on vector only")
    if runs_on is Engine.GPSIMD:
        for name, op in (("op0", op0), ("op1", op1)):
            checks.one_of(f"{name} on gpsimd", op, GPSIMD_OPERATORS)
    if runs_on is Engine.SCALAR:
        checks.generation(device, 3, "engine scalar")
        if (op0, op1) not in SCALAR_COMBINATIONS:
            fail(f"op0, op1: {op0}, {op1}; the Scalar Engine has multiply, add, and multiply then add")
    return runs_on


def _tensor_scalar_cost(device: Device, engine: Engine, layouts: tuple[Layout, ...]) -> Cost:
    dst, data = layouts[:2]
    if engine is Engine.VECTOR:
        per_element = 1 / laws.copy_rate(device, dst, data)
        columns = len(layouts) > 2
        return laws.vector(device, layouts[:2], data.elements, per_element, "dve.lat_tensor_scalar", columns)
    if engine is Engine.SCALAR:
        return laws.scalar(device, layouts[:2], data.elements, copies=True, columns=len(layouts) > 2)
    return laws.gpsimd(device, layouts[:2], data.elements)


@values.quiet
def compute_tensor_scalar(
    arrays: list[np.ndarray],
    op0: str,
    op1: str,
    reverse: tuple[bool, bool],
    columns: tuple[bool, bool],
    engine: str,
    numbers: tuple[Any, Any],
) -> None:
    dst, data, *vectors = arrays
    if ALU[op0].bitvec:
        result = values.raw(data)
        for op, number, turned, is_column in zip((op0, op1), numbers, reverse, columns, strict=True):
            if op != BYPASS:
                right = vectors.pop(0).reshape(-1, 1) if is_column else number
                result = values.apply_bits(op, result, right, turned)
    else:
        result = values.rows(data)
        for op, number, turned, is_column in zip((op0, op1), numbers, reverse, columns, strict=True):
            if op != BYPASS:
                right = values.operand(None if is_column else number or 0, vectors)
                result = values.apply(op, result, right, turned)
    values.put(dst, result)


def describe_scalar_tensor_tensor(
    device: Device, layouts: tuple[Layout, ...], op0: str, op1: str, reverse: tuple[bool, bool], column: bool
) -> Form:
    dst, data, operand1, *vectors = layouts
    for name, layout in (("dst", dst), ("data", data), ("operand1", operand1)):
        checks.tile(name, layout)
        checks.unpacked(name, layout)
    if bitvec(op0, op1):
        fail(f"op0, op1: {op0}, {op1}; scalar_tensor_tensor has arithmetic operators only")
    checks.same_size("data", data, "operand1", operand1)
    checks.same_size("data", data, "dst", dst)
    checks.not_both_psum("data", data, "operand1", operand1)
    if vectors:
        checks.column("operand0", vectors[0], data)
    per_element = _scalar_tensor_tensor_cycles(device, op0, op1, layouts[:3])
    cost = laws.vector(device, layouts[:3], data.elements, per_element, columns=column)
    roles = _read(len(layouts) - 1)
    return laws.form(
        "scalar_tensor_tensor", Engine.VECTOR, "SCALAR_TENSOR_TENSOR", roles, layouts, cost, f"{op0},{op1}"
    )


def _scalar_tensor_tensor_cycles(device: Device, op0: str, op1: str, layouts: tuple[Layout, ...]) -> float:
    """v2: two cycles, one for bf16 subtract then multiply of an even count; later as tensor_tensor (a guess)."""
    if device.generation > laws.SHARING_GENERATION:
        return 1 / tensor_tensor_rate(device, op1, layouts)
    narrow = all(layout.dtype == dtypes.bfloat16 for layout in layouts[1:])
    if narrow and (op0, op1) == ("subtract", "multiply") and layouts[1].elements % 2 == 0:
        return 1
    return float(laws.CYCLES["scalar_tensor_tensor"])


@values.quiet
def compute_scalar_tensor_tensor(
    arrays: list[np.ndarray], op0: str, op1: str, reverse: tuple[bool, bool], column: bool, operand0: Any
) -> None:
    dst, data, operand1, *vectors = arrays
    first = values.apply(op0, values.rows(data), values.operand(None if column else operand0, vectors), reverse[0])
    values.put(dst, values.apply(op1, first, values.rows(operand1), reverse[1]))


# -- one tile --------------------------------------------------------------------------------------


def describe_reciprocal(device: Device, layouts: tuple[Layout, ...]) -> Form:
    dst, data = layouts
    checks.tile("dst", dst)
    checks.tile("data", data)
    checks.unpacked("dst", dst)
    checks.unpacked("data", data)
    checks.same_size("data", data, "dst", dst)
    cost = laws.vector(device, layouts, data.elements, 1 / device["dve.rate_recip"])
    return laws.form("reciprocal", Engine.VECTOR, "RECIPROCAL", _read(1), layouts, cost)


@values.quiet
def compute_reciprocal(arrays: list[np.ndarray]) -> None:
    values.put(arrays[0], np.reciprocal(dtypes.to_fp32(arrays[1])))


COPY = Op("nki.isa.tensor_copy", describe_copy, compute_copy)
MEMSET = Op("nki.isa.memset", describe_memset, compute_memset)
TENSOR_TENSOR = Op("nki.isa.tensor_tensor", describe_tensor_tensor, compute_tensor_tensor)
TENSOR_SCALAR = Op("nki.isa.tensor_scalar", describe_tensor_scalar, compute_tensor_scalar)
SCALAR_TENSOR_TENSOR = Op("nki.isa.scalar_tensor_tensor", describe_scalar_tensor_tensor, compute_scalar_tensor_tensor)
RECIPROCAL = Op("nki.isa.reciprocal", describe_reciprocal, compute_reciprocal)
