"""How instructions bring operands to fp32 and results back."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from sim import dtypes
from sim.engines.functions import ALU, Alu

Array = np.ndarray


def quiet(compute: Callable[..., None]) -> Callable[..., None]:
    """Overflow and division by zero give inf and NaN, as on the device, without a warning."""

    @wraps(compute)
    def computed(*args: Any, **named: Any) -> None:
        with np.errstate(all="ignore"):
            compute(*args, **named)

    return computed


def rows(array: Array) -> Array:
    """fp32[partition, elements]."""
    return dtypes.to_fp32(array).reshape(array.shape[0], -1)


def raw(array: Array) -> Array:
    """[partition, elements] without a change of format."""
    return array.reshape(array.shape[0], -1)


def put(dst: Array, values: Array) -> None:
    """Cast into the destination, whatever its free shape."""
    dtypes.store(dst, values.reshape(dst.shape) if values.shape != dst.shape else values)


def operand(value: Any, arrays: list[Array]) -> Array | np.float32:
    """The [P, 1] operand of an instruction: the next array when the call gave a tile, else the number."""
    if value is None:
        return dtypes.to_fp32(arrays.pop(0)).reshape(-1, 1)
    return np.float32(value)


def apply(name: str, left: Array, right: Any, reverse: bool = False) -> Array:
    """One arithmetic operator in fp32."""
    op = ALU[name]
    result = op.apply(right, left) if reverse and not op.unary else op.apply(left, right)
    return dtypes.to_fp32(result)


def apply_bits(name: str, left: Array, right: Any, reverse: bool = False) -> Array:
    """One bit-vector operator on integers of the left operand's width."""
    if not isinstance(right, np.ndarray):
        right = integer(right, left.dtype)
    elif right.dtype != left.dtype:
        right = right.astype(left.dtype)
    op = ALU[name]
    return (
        op.apply(np.broadcast_to(right, left.shape).copy(), left) if reverse and not op.unary else op.apply(left, right)
    )


def integer(value: Any, dtype: np.dtype) -> np.integer:
    """A number's bits in an integer format: wraps, as a bit pattern does."""
    return np.array(int(value or 0) & ((1 << (8 * dtype.itemsize)) - 1), f"u{dtype.itemsize}").view(dtype)[()]


def fold(op: Alu, values: Array, axis: Any = -1) -> Array:
    """A row folded to one element, in fp32 (bit-vector operators: in the integers' own format)."""
    return op.reduce.reduce(values, axis=axis, keepdims=True)
