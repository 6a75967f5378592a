"""The Scalar Engine: activation functions, with scale and bias before them and a running sum behind."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import dtypes
from sim.engines import checks, laws, values
from sim.engines.checks import fail
from sim.engines.functions import ACTIVATIONS, ALU
from sim.memory import Layout
from sim.program import Form, Op, Role
from sim.spec import Device
from sim.trace import Engine

BYPASS = "bypass"
IDLE, RESET, REDUCE, RESET_REDUCE, LOAD_REDUCE = "idle", "reset", "reduce", "reset_reduce", "load_reduce"
STAGES = frozenset(
    (
        ("multiply", "add"),
        ("multiply", "subtract"),
        ("multiply", BYPASS),
        ("add", BYPASS),
        ("subtract", BYPASS),
        (BYPASS, BYPASS),
    )
)
"""(op0, op1) that activate2 has before the function."""
REDUCTIONS = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum, "abs_max": np.maximum, "abs_min": np.minimum}
IDENTITIES = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf, "abs_max": 0.0, "abs_min": np.inf}


def describe_activation(
    device: Device,
    layouts: tuple[Layout, ...],
    function: str,
    scale: str,
    bias: str,
    reduce_op: str,
    command: str,
) -> Form:
    """scale, bias : "number", "column" (an operand) or "none" """
    dst, data, *vectors = layouts
    checks.tile("dst", dst)
    checks.tile("data", data)
    checks.unpacked("dst", dst)
    checks.unpacked("data", data)
    checks.same_size("data", data, "dst", dst)
    names = [name for name, kind in (("scale", scale), ("bias", bias)) if kind == "column"]
    for name, layout in zip(names, vectors, strict=True):
        checks.column(name, layout, data)
    if scale == "column" and vectors[0].dtype != dtypes.float32:
        fail(f"scale: dtype {checks.dtype_name(vectors[0].dtype)}, must be float32")
    if bias == "column" and vectors[-1].dtype is dtypes.tfloat32:
        fail("bias: dtype tfloat32, must be any other")
    if bias == "number" and device.generation <= laws.SHARING_GENERATION:
        fail(f"bias: a number, {device.neuroncore} takes a tile of shape [{data.partitions}, 1]")
    if function == "prelu":
        checks.generation(device, 4, "op prelu")
    checks.one_of("reduce_cmd", command, (IDLE, RESET, REDUCE, RESET_REDUCE))
    checks.one_of("reduce_op", reduce_op, ("add",))
    return _form("activation", device, layouts, function)


def _form(call: str, device: Device, layouts: tuple[Layout, ...], function: str) -> Form:
    dst, data, *vectors = layouts
    table = ACTIVATIONS[function].table
    cost = laws.scalar(device, (dst, data), data.elements, function == "copy", bool(vectors), table)
    roles = (Role.WRITE,) + (Role.READ,) * (len(layouts) - 1)
    return laws.form(call, Engine.SCALAR, "ACTIVATE", roles, layouts, cost, function)


@values.quiet
def compute_activation(
    arrays: list[np.ndarray],
    function: str,
    scale: str,
    bias: str,
    reduce_op: str,
    command: str,
    numbers: tuple[float, float],
    registers: np.ndarray,
) -> None:
    """registers : fp32[128, 1], the engine's reduce registers"""
    dst, data, *vectors = arrays
    x = values.rows(data)
    if scale == "column":
        x = x * values.operand(None, vectors)
    elif numbers[0] != 1:
        x = x * np.float32(numbers[0])
    if bias == "column":
        x = x + values.operand(None, vectors)
    elif bias == "number" and numbers[1] != 0:
        x = x + np.float32(numbers[1])
    result = ACTIVATIONS[function].apply(x)
    values.put(dst, result)
    accumulate(registers[: x.shape[0]], result, "add", command)


def accumulate(registers: np.ndarray, result: np.ndarray, reduce_op: str, command: str) -> None:
    """What an instruction does to its engine's reduce registers.

    registers : fp32[partitions, 1]; result: fp32[partitions, elements]
    """
    if command in (RESET, RESET_REDUCE):
        registers[...] = IDENTITIES[reduce_op]
    if command in (REDUCE, RESET_REDUCE):
        fold = REDUCTIONS[reduce_op]
        folded = np.abs(result) if reduce_op.startswith("abs") else result
        fold(registers, fold.reduce(folded, axis=1, keepdims=True), out=registers)


def describe_read(device: Device, layouts: tuple[Layout, ...], partitions: int) -> Form:
    """The instruction that moves the reduce registers into `reduce_res`; partitions: those of data."""
    (res,) = layouts
    checks.tile("reduce_res", res)
    if (res.partitions, res.elements) != (partitions, 1):
        fail(f"reduce_res: shape {list(res.shape)}, must be [{partitions}, 1]")
    cost = laws.Cost(
        laws.ns(device["act.read_accum"]),
        laws.ns(device["act.read_accum"]),
        port=laws.ports(device, Engine.SCALAR, layouts),
    )
    return laws.form("activation", Engine.SCALAR, "ACTIVATION_READ_ACCUMULATOR", (Role.WRITE,), layouts, cost)


def compute_read(arrays: list[np.ndarray], partitions: int, registers: np.ndarray) -> None:
    values.put(arrays[0], registers[: arrays[0].shape[0]].copy())


def describe_activate2(
    device: Device,
    layouts: tuple[Layout, ...],
    function: str,
    op0: str,
    op1: str,
    reverse: tuple[bool, bool],
    columns: tuple[bool, bool, bool],
    reduce_op: str,
    command: str,
) -> Form:
    """columns : whether imm0, imm1 and relu_param are operands"""
    dst, data, *vectors = layouts
    checks.generation(device, 4, "activate2")
    checks.tile("dst", dst)
    checks.tile("data", data)
    checks.unpacked("dst", dst)
    checks.unpacked("data", data)
    checks.same_size("data", data, "dst", dst)
    if (op0, op1) not in STAGES:
        fail(f"op0, op1: {op0}, {op1}; must be one of {', '.join('/'.join(pair) for pair in sorted(STAGES))}")
    if reverse[0] and op0 == BYPASS:
        fail("reverse0: True without op0")
    if reverse[1] and op1 == BYPASS:
        fail("reverse1: True without op1")
    names = [name for name, is_column in zip(("imm0", "imm1", "relu_param"), columns, strict=True) if is_column]
    for name, layout in zip(names, vectors, strict=True):
        checks.column(name, layout, data)
    if columns[0] and columns[1]:
        checks.same_dtype("imm0", vectors[0], "imm1", vectors[1])
    checks.one_of("reduce_cmd", command, (IDLE, RESET, REDUCE, RESET_REDUCE))
    if command != IDLE:
        checks.one_of("reduce_op", reduce_op, REDUCTIONS)
    return _form("activate2", device, layouts, function)


@values.quiet
def compute_activate2(
    arrays: list[np.ndarray],
    function: str,
    op0: str,
    op1: str,
    reverse: tuple[bool, bool],
    columns: tuple[bool, bool, bool],
    reduce_op: str,
    command: str,
    numbers: tuple[Any, Any, Any],
    registers: np.ndarray,
) -> None:
    dst, data, *vectors = arrays
    x = values.rows(data)
    imm0, imm1, slope = (
        values.operand(None if is_column else number or 0, vectors)
        for is_column, number in zip(columns, numbers, strict=True)
    )
    for op, immediate, turned in ((op0, imm0, reverse[0]), (op1, imm1, reverse[1])):
        if op in ALU:
            x = values.apply(op, x, immediate, turned)
    result = np.where(x > 0, x, slope * x) if function == "prelu" else ACTIVATIONS[function].apply(x)
    values.put(dst, result)
    accumulate(registers[: x.shape[0]], result, reduce_op, command)


ACTIVATION = Op("nki.isa.activation", describe_activation, compute_activation)
READ_REGISTERS = Op("nki.isa.activation.reduce_res", describe_read, compute_read)
ACTIVATE2 = Op("nki.isa.activate2", describe_activate2, compute_activate2)
