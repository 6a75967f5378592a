"""What our cost functions say of an instruction that a profile shows, from its operands alone.

An emulated and a captured instruction go through the same description (`sim.engines.OPS`), so an error found here is
an error of the laws that every estimate stands on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sim import dtypes
from sim.engines import OPS, laws
from sim.engines.functions import ACTIVATIONS, ALU
from sim.memory import Layout
from sim.program import Form
from sim.spec import Device
from sim.trace import Engine, Memory

PARTITION_BYTES = {Memory.SBUF: 1 << 18, Memory.PSUM: 1 << 14}
"""Distance of the partitions that the layouts are given; no cost depends on it."""

ALU_NAMES = {"max": "maximum", "min": "minimum", "mult": "multiply", "sub": "subtract"}
"""Operators as profiles print them where NKI has another word."""

DIMENSIONS = "xyzw"
"""Free dimensions as profiles call them, innermost first."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tile of an operand text; sizes and steps in elements, innermost first."""

    dtype: str
    memory: Memory
    sizes: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """One row of a profile, in the profile's own words."""

    engine: Engine
    opcode: str
    function: str = ""
    partitions: int = 0
    sources: tuple[Operand, ...] = ()
    results: tuple[Operand, ...] = ()
    transpose: bool = False
    columns: int = 0
    """Of the stationary tile: LDWEIGHTS and MATMUL."""
    pointers: int = 0
    """Operands that are columns in SBUF: bias, scale, the numbers of a tensor_scalar."""
    axes: str = ""
    """Dimensions that a reduction folds: `X`, `XY`."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Integer picoseconds."""

    duration_ps: int
    interval_ps: int | None
    """Until the engine takes the next instruction of this kind; None where that is not the instruction's to say."""


def replay(device: Device, shown: Shown, clock: float = 1, lead_ps: int | None = None) -> Timing | None:
    """Duration and start-to-start interval of one row, None for an instruction that is not of an engine's data path.

    clock   : share of its full rate at which TensorE's clock ran
    lead_ps : of a MATMUL before which TensorE was idle: since when its LDWEIGHTS ran
    raises  : InputError where our description refuses the operands
    """
    if shown.opcode == "ACT_TABLE_LOAD":
        return Timing(laws.ns(device["act.table_load"]), None)
    form = describe(device, shown)
    if form is None:
        return None
    if shown.opcode == "LDWEIGHTS":
        return Timing(laws.load_duration(device, form.load_ps, clock), None)
    cost, ahead = laws.at_clock(form.cost, clock), laws.ahead(device, clock)
    interval = cost.occupancy_ps // form.passes
    duration = interval + cost.latency_ps - cost.occupancy_ps
    if form.engine is not Engine.TENSOR:
        return Timing(duration, interval)
    if lead_ps is None:
        return Timing(duration + ahead, interval)
    late = max(0, cost.weights_ps - lead_ps)
    return Timing(duration + late, interval + late - ahead)


def packet(device: Device, moved: int, descriptors: int, stores: bool) -> Timing:
    """A packet on one DMA engine: `interval_ps` is the floor, at the wire rate, `duration_ps` what a kernel is charged.

    The difference is what engines, queues and HBM cost each other in the kernels that the figures were fitted on.
    """
    floor = moved / device["dma_engine_theory"] + device["dma.packet_ovh"]
    return Timing(laws.ns(laws.piece_ns(device, moved, descriptors, stores)), laws.ns(floor))


def describe(device: Device, shown: Shown) -> Form | None:
    """The form of the call that becomes such a row, None where no single call does."""
    build = _CALLS.get(shown.opcode)
    found = None if build is None else build(shown)
    if found is None:
        return None
    call, operands, static = found
    return OPS[f"nki.isa.{call}"].describe(device, tuple(operands), *static)


Call = tuple[str, list[Layout], tuple[Any, ...]]


def _layout(operand: Operand, partitions: int) -> Layout:
    dtype = dtypes.parse(_long_names()[operand.dtype])
    pitch = PARTITION_BYTES[operand.memory]
    steps = [step * dtype.itemsize for step in reversed(operand.steps)]
    return Layout((partitions, *reversed(operand.sizes)), (pitch, *steps), dtype, operand.memory, pitch)


@cache
def _long_names() -> dict[str, str]:
    return {dtypes.short(dtype): dtype.name for dtype in dtypes.DTYPES} | {"fp32r": "float32"}


def _column(partitions: int) -> Layout:
    return _layout(Operand("fp32", Memory.SBUF, (1,), (1,)), partitions)


def _tiles(shown: Shown) -> list[Layout]:
    return [_layout(operand, shown.partitions) for operand in (*shown.results, *shown.sources)]


def _engine(shown: Shown) -> str:
    return shown.engine.name.lower()


def _copy(shown: Shown) -> Call:
    return "tensor_copy", _tiles(shown)[:2], (_engine(shown), False)


def _activate(shown: Shown) -> Call | None:
    function = shown.function.lower()
    if function not in ACTIVATIONS:
        return None
    columns = [_column(shown.partitions)] * min(shown.pointers, 2)
    bias, scale = ("column" if len(columns) > place else "none" for place in (0, 1))
    return "activation", _tiles(shown)[:2] + columns, (function, scale, bias, "add", "idle")


def _reduce(shown: Shown) -> Call | None:
    operator = _operator(shown.function)
    folded = [DIMENSIONS.find(axis) for axis in shown.axes.lower()]
    if operator is None or min(folded, default=0) < 0:
        return None
    data = shown.sources[0]
    axes = tuple(sorted(len(data.sizes) - place for place in folded)) or tuple(range(1, len(data.sizes) + 1))
    return "tensor_reduce", _tiles(shown)[:2], (operator, axes, False)


def _tensor_scalar(shown: Shown) -> Call | None:
    first, _, second = shown.function.partition(",")
    ops = _operator(first), _operator(second or "bypass")
    if None in ops:
        return None
    given = (shown.pointers > 0, shown.pointers > 1)
    columns = [_column(shown.partitions)] * sum(given)
    return "tensor_scalar", _tiles(shown)[:2] + columns, (*ops, (False, False), given, _engine(shown))


def _tensor_tensor(shown: Shown) -> Call | None:
    operator = _operator(shown.function)
    if operator is None or len(shown.sources) != 2:
        return None
    return "tensor_tensor", _tiles(shown), (operator, _engine(shown))


def _reciprocal(shown: Shown) -> Call:
    return "reciprocal", _tiles(shown)[:2], ()


def _weights(shown: Shown) -> Call:
    """A LDWEIGHTS shows the stationary tile alone: as many columns stream as will."""
    data = shown.sources[0]
    moving = Operand(data.dtype, Memory.SBUF, (shown.columns,), (1,))
    result = Operand("fp32", Memory.PSUM, (shown.columns,), (1,))
    return _matmul_of(shown, data, moving, result)


def _matmul(shown: Shown) -> Call:
    moving, result = shown.sources[0], shown.results[0]
    return _matmul_of(shown, Operand(moving.dtype, Memory.SBUF, (shown.columns,), (1,)), moving, result)


def _matmul_of(shown: Shown, stationary: Operand, moving: Operand, result: Operand) -> Call:
    layouts = [
        _layout(result, shown.columns),
        _layout(stationary, shown.partitions),
        _layout(moving, shown.partitions),
    ]
    return "nc_matmul", layouts, (False, shown.transpose, (False, False), (), (), "")


def _operator(name: str) -> str | None:
    word = name.strip().lower()
    word = ALU_NAMES.get(word, word)
    return word if word in ALU or word == "bypass" else None


_CALLS = {
    "COPY": _copy,
    "CAST": _copy,
    "ACTIVATE": _activate,
    "TENSOR_REDUCE": _reduce,
    "TENSOR_SCALAR": _tensor_scalar,
    "TENSOR_TENSOR": _tensor_tensor,
    "RECIPROCAL": _reciprocal,
    "LDWEIGHTS": _weights,
    "MATMUL": _matmul,
}
"""Call and arguments behind each opcode; an opcode that several calls become is not here."""
