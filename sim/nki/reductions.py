"""Reductions and the composite functions of `nki.language`, built from `nki.isa` instructions."""

from __future__ import annotations

from math import prod as product
from typing import Any

from sim import dtypes
from sim.errors import InputError
from sim.nki import isa
from sim.nki.elementwise import FUNCTIONS, combine, new_tile
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor

FP32 = dtypes.parse("float32")


def _axes(x: NkiTensor, axis: Any, call: str) -> tuple[int, ...]:
    """The reduced dimensions, ascending; they must be the last ones, the partition is never reduced."""
    wanted = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted(a % x.ndim for a in wanted))
    if axes != tuple(range(x.ndim - len(axes), x.ndim)) or 0 in axes:
        raise InputError(
            f"nl.{call}: axis: {axis} of {list(x.shape)}, only trailing free dimensions can be reduced",
            source=builder().where(),
        )
    return axes


def _reduce(op: str, call: str, x: NkiTensor, axis: Any, dtype: Any, keepdims: bool) -> NkiTensor:
    axes = _axes(x, axis, call)
    kept = x.shape[: axes[0]]
    shape = (*kept, *(1 for _ in axes)) if keepdims else (kept if len(kept) > 1 else (*kept, 1))
    tile = new_tile(shape, dtypes.parse(dtype or x.dtype))
    isa.tensor_reduce(tile.reshape((*kept, *(1 for _ in axes))), FUNCTIONS[op], x, axes, keepdims=True)
    return tile


def sum(x: NkiTensor, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    return _reduce("add", "sum", x, axis, dtype, keepdims)


def max(x: NkiTensor, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    return _reduce("maximum", "max", x, axis, dtype, keepdims)


def min(x: NkiTensor, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    return _reduce("minimum", "min", x, axis, dtype, keepdims)


def prod(x: NkiTensor, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    return _reduce("multiply", "prod", x, axis, dtype, keepdims)


def all(x: NkiTensor, axis: Any, dtype: Any = None) -> NkiTensor:
    """1 where every element along the axis is not 0."""
    return _reduce("minimum", "all", combine(FUNCTIONS["not_equal"], x, 0), axis, dtype or x.dtype, False)


def mean(x: NkiTensor, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    count = product(x.shape[a] for a in _axes(x, axis, "mean"))
    return combine(
        FUNCTIONS["multiply"], _reduce("add", "mean", x, axis, FP32, keepdims), 1.0 / count, dtype or x.dtype
    )


def var(x: NkiTensor, axis: Any, dtype: Any = None, keepdims: bool = False) -> NkiTensor:
    """Population variance; dimensions are kept, as the reference says."""
    centred = combine(FUNCTIONS["subtract"], x, mean(x, axis, FP32, keepdims=True), FP32)
    return mean(combine(FUNCTIONS["multiply"], centred, centred, FP32), axis, dtype or x.dtype, keepdims=True)


def softmax(x: NkiTensor, axis: Any = -1, dtype: Any = None) -> NkiTensor:
    """exp(x - max) / sum, along trailing free dimensions."""
    shifted = combine(FUNCTIONS["subtract"], x, max(x, axis, FP32, keepdims=True), FP32)
    powers = FUNCTIONS["exp"](shifted, dtype=FP32)
    total = FUNCTIONS["reciprocal"](sum(powers, axis, FP32, keepdims=True))
    return combine(FUNCTIONS["multiply"], powers, total, dtype or x.dtype)


def rms_norm(
    x: NkiTensor,
    w: NkiTensor,
    axis: Any,
    n: int,
    epsilon: float = 1e-06,
    dtype: Any = None,
    compute_dtype: Any = None,
) -> NkiTensor:
    """x / sqrt(mean(x²) + epsilon) * w."""
    kind = compute_dtype or FP32
    squares = sum(combine(FUNCTIONS["multiply"], x, x, kind), axis, FP32, keepdims=True)
    shifted = new_tile(squares.shape, FP32)
    isa.tensor_scalar(shifted, squares, FUNCTIONS["multiply"], 1.0 / n, op1=FUNCTIONS["add"], operand1=float(epsilon))
    scale = FUNCTIONS["rsqrt"](shifted)
    return combine(FUNCTIONS["multiply"], combine(FUNCTIONS["multiply"], x, scale, kind), w, dtype or x.dtype)


def dropout(x: NkiTensor, rate: Any, dtype: Any = None) -> NkiTensor:
    """Zero elements with probability `rate`; the others are not rescaled."""
    tile = new_tile(x.shape, dtypes.parse(dtype or x.dtype))
    isa.dropout(tile, x, rate)
    return tile


__all__ = ["all", "dropout", "max", "mean", "min", "prod", "rms_norm", "softmax", "sum", "var"]
