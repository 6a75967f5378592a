"""Documented limits of operands. Each check raises InputError that names argument, value and limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from sim import dtypes
from sim.engines.functions import ALU
from sim.errors import InputError
from sim.memory import PARTITIONS, Layout
from sim.spec import Device
from sim.trace import Memory

ON_CHIP = (Memory.SBUF, Memory.PSUM)
SBUF = (Memory.SBUF,)
PSUM = (Memory.PSUM,)
BYPASS = "bypass"
"""No operator in this stage."""


def fail(message: str, remedy: str | None = None) -> NoReturn:
    raise InputError(message, remedy=remedy)


def tile(name: str, layout: Layout, memories: Iterable[Memory] = ON_CHIP) -> None:
    """A tile that a compute engine can reach."""
    allowed = tuple(memories)
    if layout.memory not in allowed:
        where = " or ".join(memory.name for memory in allowed)
        remedy = "load it with nki.isa.dma_copy" if layout.memory is Memory.HBM else None
        fail(f"{name}: a tile in {layout.memory.name}, must be in {where}", remedy)
    if layout.partitions > PARTITIONS:
        fail(f"{name}: partition {layout.partitions} > {PARTITIONS}")


def same_size(first: str, one: Layout, second: str, other: Layout) -> None:
    """As many partitions and as many elements a partition; how the free dimensions are cut does not matter."""
    same_partitions(first, one, second, other)
    if one.elements != other.elements:
        fail(
            f"{second}: {other.elements} elements a partition, {first} has {one.elements}",
            _shapes(first, one, second, other),
        )


def same_partitions(first: str, one: Layout, second: str, other: Layout) -> None:
    if one.partitions != other.partitions:
        fail(
            f"{second}: {other.partitions} partitions, {first} has {one.partitions}", _shapes(first, one, second, other)
        )


def _shapes(first: str, one: Layout, second: str, other: Layout) -> str:
    return f"shapes {first} {list(one.shape)}, {second} {list(other.shape)}"


def column(name: str, layout: Layout, like: Layout) -> None:
    """A [P, 1] vector: one number for each partition of the data."""
    tile(name, layout)
    if layout.partitions != like.partitions or layout.elements != 1:
        fail(f"{name}: shape {list(layout.shape)}, must be a number or a tile of shape [{like.partitions}, 1]")


def not_both_psum(first: str, one: Layout, second: str, other: Layout) -> None:
    if one.memory is Memory.PSUM and other.memory is Memory.PSUM:
        fail(f"{first} and {second}: both in PSUM, the Vector Engine reads at most one operand from there")


def dtype_in(name: str, layout: Layout, allowed: Iterable[Any]) -> None:
    wanted = tuple(allowed)
    if layout.dtype not in wanted:
        fail(f"{name}: dtype {dtype_name(layout.dtype)}, must be {' or '.join(dtype_name(item) for item in wanted)}")


def same_dtype(first: str, one: Layout, second: str, other: Layout) -> None:
    if one.dtype != other.dtype:
        fail(f"{second}: dtype {dtype_name(other.dtype)}, {first} has {dtype_name(one.dtype)}; they must be the same")


def arithmetic(name: str, op: str) -> None:
    """raises: InputError for bypass, which stands for an operator that is missing"""
    if op == BYPASS:
        fail(f"{name}: None, must be an arithmetic operator")
    if ALU[op].bitvec:
        fail(f"{name}: {op}, must be an arithmetic operator")


def integers(name: str, layout: Layout) -> None:
    if layout.dtype not in dtypes.INTEGERS:
        fail(f"{name}: dtype {dtype_name(layout.dtype)}, a bit-vector operator needs integers")


def unpacked(name: str, layout: Layout) -> None:
    if layout.dtype in dtypes.PACKED:
        fail(f"{name}: dtype {dtype_name(layout.dtype)} is read by nc_matmul_mx only")


def free_size(name: str, layout: Layout, low: int, high: int) -> None:
    if not low <= layout.elements <= high:
        bound = f"> {high}" if layout.elements > high else f"< {low}"
        fail(f"{name}: {layout.elements} elements a partition {bound}")


def dimensions(name: str, layout: Layout, most: int) -> None:
    if len(layout.shape) > most:
        fail(f"{name}: {len(layout.shape)} dimensions, shape {list(layout.shape)}, must be at most {most}")


def generation(device: Device, least: int, what: str) -> None:
    if device.generation < least:
        fail(f"{what}: needs NeuronCore-v{least} or newer, {device.name} has {device.neuroncore}")


def one_of(name: str, value: Any, allowed: Iterable[Any]) -> None:
    wanted = tuple(allowed)
    if value not in wanted:
        fail(f"{name}: {value}, must be one of {', '.join(map(str, wanted))}")


def dtype_name(dtype: Any) -> str:
    return getattr(dtype, "name", str(dtype))
