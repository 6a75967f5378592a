"""Reductions and transposes."""

from __future__ import annotations

import numpy as np

from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_word
from sim.ops.functions import wide
from sim.ops.operator import Operator, each

Array = np.ndarray
KINDS = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}


def reduce(x: Array, kind: str = "sum", axis: int | tuple[int, ...] = -1) -> Array:
    """x folded along an axis, or along neighbouring ones"""
    return np.atleast_1d(KINDS[kind](wide(x), axis=axis))


def _reduce_outputs(x: TensorSpec, kind: str = "sum", axis: int | tuple[int, ...] = -1) -> tuple[TensorSpec, ...]:
    check_word("reduce", "kind", kind, KINDS)
    given = axis if isinstance(axis, tuple) else (axis,)
    if any(not -len(x.shape) <= one < len(x.shape) for one in given):
        raise InputError(f"reduce: axis: {axis} of x with {len(x.shape)} dimensions")
    axes = sorted(one % len(x.shape) for one in given)
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise InputError(f"reduce: axis: {axis}, must be neighbours", remedy="reduce one after the other")
    kept = tuple(size for at, size in enumerate(x.shape) if at not in axes)
    return (TensorSpec(kept or (1,), x.dtype),)


def transpose(x: Array, axes: tuple[int, ...] = (1, 0)) -> Array:
    """As numpy.transpose"""
    return np.transpose(wide(x), axes)


def _transpose_outputs(x: TensorSpec, axes: tuple[int, ...] = (1, 0)) -> tuple[TensorSpec, ...]:
    if sorted(axes) != list(range(len(x.shape))):
        raise InputError(f"transpose: axes: {tuple(axes)} is no order of {len(x.shape)} dimensions")
    return (TensorSpec(tuple(x.shape[axis] for axis in axes), x.dtype),)


OPERATORS = (
    Operator("reduce", "reduce.py", reduce, _reduce_outputs, each(1)),
    Operator("transpose", "transpose.py", transpose, _transpose_outputs, each(0)),
)
