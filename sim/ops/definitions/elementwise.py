"""Operators that work on each element by itself."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_word
from sim.ops.functions import BINARY, UNARY, wide
from sim.ops.operator import Operator

Array = np.ndarray
FUSED = 2
"""Operations of an element of a product with a function before it."""


def elementwise(
    x: Array, y: Array | None = None, kind: str = "add", scalar: float | None = None, dtype: Any = None
) -> Array:
    """kind(x), kind(x, y) or kind(x, scalar)"""
    if kind in UNARY:
        return UNARY[kind](wide(x))
    return BINARY[kind](wide(x), np.float64(scalar) if y is None else wide(y)).astype(np.float64)


def _outputs(
    x: TensorSpec, y: TensorSpec | None = None, kind: str = "add", scalar: float | None = None, dtype: Any = None
) -> tuple[TensorSpec, ...]:
    check_word("elementwise", "kind", kind, (*UNARY, *BINARY))
    if kind in UNARY:
        if y is not None or scalar is not None:
            raise InputError(f"elementwise: {kind} takes one tensor")
    elif (y is None) == (scalar is None):
        raise InputError(f"elementwise: {kind} takes y or scalar, and not both")
    try:
        shape = np.broadcast_shapes(x.shape, y.shape if y is not None else x.shape)
    except ValueError:
        fault = f"elementwise: y: shape {list(y.shape)} does not broadcast with {list(x.shape)}"
        raise InputError(fault) from None
    return (TensorSpec(tuple(shape), dtype or x.dtype),)


def _flops(*inputs: Any, kind: str = "add", **scalars: Any) -> int:
    (out,) = _outputs(*inputs, kind=kind, **scalars)
    return prod(out.shape) * (FUSED if kind.endswith("_multiply") else 1)


def cast(x: Array, dtype: Any = np.float32) -> Array:
    return wide(x)


OPERATORS = (
    Operator("elementwise", "elementwise.py", elementwise, _outputs, _flops),
    Operator(
        "cast",
        "elementwise.py",
        cast,
        lambda x, dtype=np.float32: (TensorSpec(tuple(x.shape), dtype),),
        lambda x, dtype=np.float32: prod(x.shape),
    ),
)
