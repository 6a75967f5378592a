"""Several functions of each element at once, as a compiler joins them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from sim import dtypes
from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_word
from sim.ops.functions import BINARY, UNARY, wide
from sim.ops.operator import Operator

Array = np.ndarray
MOST = 8
"""Tensors that one expression takes."""

_BITS: dict[str, Callable[..., Array]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
    "invert": np.invert,
}
"""Of whole numbers; a right shift brings in zeros."""

_WRAPPED = ("add", "sub", "mul", "neg")
"""What of whole numbers wraps around."""

FUNCTIONS: dict[str, tuple[int, Callable[..., Array]]] = {
    **{name: (1, function) for name, function in UNARY.items()},
    **{name: (2, function) for name, function in BINARY.items()},
    "floor": (1, np.floor),
    "ceil": (1, np.ceil),
    "trunc": (1, np.trunc),
    "round": (1, np.rint),
    "arctan": (1, np.arctan),
    "not": (1, lambda x: x == 0),
    "mod": (2, np.mod),
    "fmod": (2, np.fmod),
    "and": (2, np.logical_and),
    "or": (2, np.logical_or),
    "xor": (2, np.logical_xor),
    "select": (3, lambda mask, x, y: np.where(mask != 0, x, y)),
    **{name: (1 if name == "invert" else 2, function) for name, function in _BITS.items()},
}
"""How many operands a function takes, and what it computes."""

INTEGERS = {"int32": np.int32, "uint32": np.uint32, "int16": np.int16, "uint16": np.uint16, "int8": np.int8,
            "uint8": np.uint8}  # fmt: skip


def expression(*tensors: Array | tuple, steps: tuple = (), dtype: Any = None) -> Array:
    """The last of some steps.

    steps : (function, format, operands …), where an operand is the number of a tensor, or, counted on from those, of a
            step, or a float that stands for itself; whole numbers wrap around in the format of the step
    """
    made = [wide(tensor) for tensor in tensors]
    for kind, form, *operands in steps:
        given = [one if isinstance(one, float) else made[one] for one in operands]
        made.append(_computed(kind, form, given))
    shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    return np.broadcast_to(np.asarray(made[-1], np.float64), shape)


def _computed(kind: str, form: str, given: list) -> Array:
    function = FUNCTIONS[kind][1]
    with np.errstate(all="ignore"):
        if kind in _BITS:
            unsigned = np.dtype(INTEGERS[form]).newbyteorder("=")
            unsigned = np.dtype(f"u{unsigned.itemsize}")
            bits = [np.asarray(one).astype(np.int64).astype(unsigned) for one in given]
            return function(*bits).astype(INTEGERS[form]).astype(np.float64)
        if kind in _WRAPPED and form in INTEGERS:
            whole = [np.asarray(one).astype(np.int64) for one in given]
            return np.asarray(function(*whole)).astype(INTEGERS[form]).astype(np.float64)
        value = np.asarray(function(*given), np.float64)
        if form not in INTEGERS or kind == "div":
            return value
        return np.trunc(value).astype(np.int64).astype(INTEGERS[form]).astype(np.float64)


def _outputs(*tensors: TensorSpec, steps: tuple = (), dtype: Any = None) -> tuple[TensorSpec, ...]:
    if not 0 < len(tensors) <= MOST:
        raise InputError(f"expression: {len(tensors)} tensors, must be 1 to {MOST}")
    if not steps:
        raise InputError("expression: steps: none")
    for number, (kind, form, *operands) in enumerate(steps):
        check_word("expression", "steps", kind, FUNCTIONS)
        check_word("expression", "steps", form, (*INTEGERS, "fp32"))
        if len(operands) != FUNCTIONS[kind][0]:
            raise InputError(f"expression: steps: {kind} takes {FUNCTIONS[kind][0]} operands, not {len(operands)}")
        if not any(isinstance(one, int) for one in operands):
            raise InputError(f"expression: steps: {kind} of numbers alone")
        if any(isinstance(one, int) and not 0 <= one < len(tensors) + number for one in operands):
            raise InputError(f"expression: steps: step {number}: operand {max(operands)} does not come before it")
    try:
        shape = np.broadcast_shapes(*(tuple(tensor.shape) for tensor in tensors))
    except ValueError:
        shapes = ", ".join(str(list(tensor.shape)) for tensor in tensors)
        raise InputError(f"expression: shapes {shapes} do not broadcast") from None
    return (TensorSpec(tuple(shape), dtypes.parse(dtype) if dtype is not None else tensors[0].dtype),)


def _flops(*tensors: TensorSpec, steps: tuple = (), dtype: Any = None) -> int:
    """One an element and step."""
    return len(steps) * prod(_outputs(*tensors, steps=steps, dtype=dtype)[0].shape)


OPERATORS = (Operator("expression", "expression.py", expression, _outputs, _flops),)
