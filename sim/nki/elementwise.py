"""Elementwise functions of `nki.language`: each allocates a tile and issues the instruction that computes it.

A function is also an operator: `op=nl.add` names the ALU operation, `op=nl.exp` the activation.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from sim import dtypes
from sim.errors import InputError
from sim.nki import isa
from sim.nki.session import builder
from sim.nki.tensor import MemoryRegion, NkiTensor
from sim.trace import Memory

FP32 = dtypes.parse("float32")
MOVING_COLUMNS = 512
"""Most columns that one matmul moves (NKI: gemm_moving_fmax)."""


class Function:
    """A function of `nki.language` that also serves as `op=` of an instruction."""

    def __init__(self, name: str, call: Callable[..., NkiTensor]):
        self.name = name
        """Canonical name in `sim.nki.functions`."""
        self._call = self.__wrapped__ = call
        self.__name__ = name
        self.__doc__ = call.__doc__

    def __call__(self, *args: Any, **named: Any) -> NkiTensor:
        return self._call(*args, **named)

    def __repr__(self) -> str:
        return f"nl.{self.name}"


def new_tile(shape: tuple[int, ...], dtype: Any, memory: MemoryRegion = MemoryRegion.sbuf) -> NkiTensor:
    """A tile for a result."""
    storage = builder().allocate(shape, dtype, memory.memory)
    return NkiTensor(storage, storage.layout, 0)


def result_dtype(x: Any, y: Any, dtype: Any = None) -> Any:
    """The dtype of a binary result: the one asked for, else the wider float of the two tiles."""
    if dtype is not None:
        return dtypes.parse(dtype)
    kinds = [side.dtype for side in (x, y) if isinstance(side, NkiTensor)]
    return kinds[0] if len(kinds) == 1 or kinds[0] == kinds[1] else dtypes.promote(kinds[0], kinds[1])


def broadcast_partitions(tile: NkiTensor, partitions: int, dtype: Any = None) -> NkiTensor:
    """One partition repeated on many: ones[1, partitions].T @ tile[1, n] on the Tensor Engine.

    ScalarE takes the product out of PSUM, as profiles of compiled kernels show it.
    """
    flat = tile.reshape((1, tile.size))
    if flat.dtype != FP32:
        wide = new_tile(flat.shape, FP32)
        isa.tensor_copy(wide, flat)
        flat = wide
    out = new_tile((partitions, flat.shape[1]), dtypes.parse(dtype or tile.dtype))
    for first in range(0, flat.shape[1], MOVING_COLUMNS):
        part = flat[:, first : min(first + MOVING_COLUMNS, flat.shape[1])]
        psum = new_tile((partitions, part.shape[1]), FP32, MemoryRegion.psum)
        isa.nc_matmul(psum, _ones(partitions), part, is_stationary_onezero=True)
        isa.activation(out[:, first : first + part.shape[1]], FUNCTIONS["copy"], psum)
    return out.reshape((partitions, *tile.shape[1:]))


def _ones(partitions: int) -> NkiTensor:
    """The row of ones that broadcasts multiply by, written once a kernel."""
    program = builder()
    constants, key = program.constants, (program.core, "ones", partitions)
    if key not in constants:
        ones = new_tile((1, partitions), FP32)
        isa.memset(ones, 1.0)
        constants[key] = ones
    return constants[key]


def _unary(name: str) -> Function:
    def call(x: NkiTensor, dtype: Any = None) -> NkiTensor:
        tile = new_tile(x.shape, dtypes.parse(dtype or x.dtype))
        isa.activation(tile, FUNCTIONS[name], x)
        return tile

    call.__doc__ = f"{name} of a tile, elementwise (Scalar Engine)."
    return Function(name, call)


def _binary(name: str) -> Function:
    def call(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        return combine(FUNCTIONS[name], x, y, dtype)

    call.__doc__ = f"{name} of two tiles, or of a tile and a number (Vector Engine)."
    return Function(name, call)


def combine(op: Function, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """x op y with broadcasting; the destination is a new SBUF tile.

    A number or a [P, 1] tile beside a tile is a `tensor_scalar`; two tiles are a `tensor_tensor`.
    """
    if not isinstance(x, NkiTensor) and not isinstance(y, NkiTensor):
        raise InputError(f"nl.{op.name}: x, y: {x!r} and {y!r}, at least one must be a tile", source=builder().where())
    kind = result_dtype(x, y, dtype)
    x, y = (load_operand(side) for side in (x, y))
    if not isinstance(y, NkiTensor):
        tile = new_tile(x.shape, kind)
        isa.tensor_scalar(tile, x, op, y)
        return tile
    if not isinstance(x, NkiTensor):
        tile = new_tile(y.shape, kind)
        isa.tensor_scalar(tile, y, op, x, reverse0=True)
        return tile
    return _combine_tiles(op, x, y, kind)


def load_operand(side: Any) -> Any:
    """HBM operands are loaded first: engines read SBUF and PSUM only."""
    if isinstance(side, NkiTensor) and side.layout.memory is Memory.HBM:
        tile = new_tile(side.shape if side.ndim > 1 else (1, side.size), side.dtype)
        isa.dma_copy(tile, side if side.ndim > 1 else side.reshape((1, side.size)))
        return tile
    return side


def _combine_tiles(op: Function, x: NkiTensor, y: NkiTensor, kind: Any) -> NkiTensor:
    shape = x.shape if x.shape == y.shape else _joined_shape(op, x, y)
    x, y = (broadcast_partitions(t, shape[0]) if t.shape[0] != shape[0] else t for t in (x, y))
    tile = new_tile(shape, kind)
    if x.shape == shape and _is_column(y) and not _is_column(x):
        isa.tensor_scalar(tile, x, op, _as_scalar(y))
    elif y.shape == shape and _is_column(x) and not _is_column(y):
        isa.tensor_scalar(tile, y, op, _as_scalar(x), reverse0=True)
    else:
        x, y = _one_in_sbuf(x, y)
        isa.tensor_tensor(tile, x.broadcast_to(shape), y.broadcast_to(shape), op)
    return tile


def _joined_shape(op: Function, x: NkiTensor, y: NkiTensor) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise InputError(
            f"nl.{op.name}: shapes {list(x.shape)} and {list(y.shape)} do not broadcast", source=builder().where()
        ) from None


def _one_in_sbuf(x: NkiTensor, y: NkiTensor) -> tuple[NkiTensor, NkiTensor]:
    """The Vector Engine reads at most one operand from PSUM."""
    if x.layout.memory is Memory.PSUM and y.layout.memory is Memory.PSUM:
        tile = new_tile(y.shape, y.dtype)
        isa.tensor_copy(tile, y)
        return x, tile
    return x, y


def _is_column(tile: NkiTensor) -> bool:
    return tile.layout.elements == 1


def _as_scalar(tile: NkiTensor) -> NkiTensor:
    """A [P, 1] fp32 tile: what `tensor_scalar` takes as its operand."""
    flat = tile.reshape((tile.shape[0], 1))
    if flat.dtype == np.float32:
        return flat
    wide = new_tile(flat.shape, dtypes.parse("float32"))
    isa.tensor_copy(wide, flat)
    return wide


UNARY = (
    "exp log sqrt rsqrt tanh sigmoid relu gelu gelu_apprx_sigmoid gelu_apprx_tanh gelu_dx gelu_apprx_sigmoid_dx "
    "silu silu_dx softplus mish erf erf_dx arctan sign square"
).split()
BINARY = (
    "add subtract multiply divide power maximum minimum abs_max abs_min equal not_equal less less_equal greater "
    "greater_equal bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor mod fmod"
).split()
FUNCTIONS: dict[str, Function] = {name: _unary(name) for name in (*UNARY, "copy")} | {
    name: _binary(name) for name in BINARY
}
globals().update(FUNCTIONS)


def _shift(name: str) -> Function:
    def call(x: Any, y: Any, dtype: Any = None) -> NkiTensor:
        return combine(FUNCTIONS[name], x, y, dtype)

    call.__doc__ = f"{name} of integers (Vector Engine)."
    return Function(name, call)


def _reciprocal(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """1 / x, elementwise (Vector Engine)."""
    tile = new_tile(x.shape, dtypes.parse(dtype or x.dtype))
    isa.reciprocal(tile, x)
    return tile


def _negative(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """-x."""
    return combine(FUNCTIONS["multiply"], x, -1.0, dtype or x.dtype)


def _abs(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """|x| as the larger of x and -x."""
    return combine(FUNCTIONS["maximum"], x, _negative(x), dtype or x.dtype)


def _sin(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """sin x; the argument is first brought into [-pi, pi], where the Scalar Engine's table holds."""
    return _sine_of(x, 0.0, dtype)


def _cos(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """cos x as sin(x + pi / 2)."""
    return _sine_of(x, pi / 2, dtype)


def _sine_of(x: NkiTensor, shift: float, dtype: Any) -> NkiTensor:
    single = FP32
    turned = new_tile(x.shape, single)
    isa.tensor_scalar(turned, x, FUNCTIONS["add"], shift + pi, op1=FUNCTIONS["mod"], operand1=2 * pi)
    centred = combine(FUNCTIONS["add"], turned, -pi, single)
    tile = new_tile(x.shape, dtypes.parse(dtype or x.dtype))
    isa.activation(tile, FUNCTIONS["sin"], centred)
    return tile


def _tan(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """tan x as sin x / cos x."""
    return combine(FUNCTIONS["multiply"], _sin(x), _reciprocal(_cos(x)), dtype or x.dtype)


def _invert(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Bitwise not: exclusive or with all ones."""
    return combine(FUNCTIONS["bitwise_xor"], x, -1, dtype or x.dtype)


def _logical_not(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """1 where x is 0."""
    return combine(FUNCTIONS["equal"], x, 0, dtype or x.dtype)


def _trunc(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Towards zero: x minus its fmod by 1."""
    return combine(FUNCTIONS["subtract"], x, combine(FUNCTIONS["fmod"], x, 1.0), dtype or x.dtype)


def _floor(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Towards minus infinity: x minus its mod by 1."""
    return combine(FUNCTIONS["subtract"], x, combine(FUNCTIONS["mod"], x, 1.0), dtype or x.dtype)


def _ceil(x: NkiTensor, dtype: Any = None) -> NkiTensor:
    """Towards plus infinity: minus the floor of minus x."""
    down = _floor(combine(FUNCTIONS["multiply"], x, -1.0))
    return combine(FUNCTIONS["multiply"], down, -1.0, dtype or x.dtype)


FUNCTIONS |= {name: _shift(name) for name in ("left_shift", "right_shift")}
FUNCTIONS |= {
    name: Function(name, call)
    for name, call in {
        "reciprocal": _reciprocal,
        "sin": _sin,
        "cos": _cos,
        "tan": _tan,
        "invert": _invert,
        "logical_not": _logical_not,
        "trunc": _trunc,
        "floor": _floor,
        "ceil": _ceil,
        "negative": _negative,
        "abs": _abs,
    }.items()
}
globals().update(FUNCTIONS)


def where(condition: NkiTensor, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """x where condition is not 0, else y."""
    tiles = [t for t in (x, y) if isinstance(t, NkiTensor)]
    kind = dtypes.parse(dtype) if dtype is not None else (tiles[0].dtype if tiles else dtypes.parse("float32"))
    flag = new_tile(condition.shape, dtypes.parse("uint8"))
    isa.tensor_scalar(flag, condition, FUNCTIONS["not_equal"], 0)
    out = _as_tile(y, condition.shape, kind, fresh=True)
    isa.tensor_copy_predicated(out, _as_tile(x, condition.shape, kind, fresh=False), flag)
    return out


def _as_tile(value: Any, shape: tuple[int, ...], kind: Any, fresh: bool) -> NkiTensor:
    """A tile of this shape and dtype; a fresh one may be overwritten."""
    if isinstance(value, NkiTensor) and value.dtype == kind and value.shape == shape and not fresh:
        return value
    tile = new_tile(shape, kind)
    if isinstance(value, NkiTensor):
        isa.tensor_copy(tile, value.broadcast_to(shape))
    else:
        isa.memset(tile, value)
    return tile


__all__ = [*(name for name in FUNCTIONS if name != "copy"), "where"]
