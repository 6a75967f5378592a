"""Functions of one element, in NumPy and in fp64."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, pi, sqrt

import numpy as np

Array = np.ndarray
_erf = np.vectorize(erf, otypes=[np.float64])


def wide(x: Array) -> Array:
    """The values of an array of any of the devices' formats, in fp64."""
    return np.asarray(x).astype(np.float32).astype(np.float64) if x.dtype.kind == "V" else np.asarray(x, np.float64)


def sigmoid(x: Array) -> Array:
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + _erf(x / sqrt(2)))


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
    "relu": relu,
    "sigmoid": sigmoid,
}
"""What a product may end with."""

UNARY: dict[str, Callable[[Array], Array]] = {
    **ACTIVATIONS,
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "square": np.square,
    "abs": np.abs,
    "neg": np.negative,
    "sign": np.sign,
    "softplus": lambda x: np.logaddexp(0, x),
    "erf": _erf,
    "sin": np.sin,
    "copy": lambda x: x,
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "pow": np.power,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "silu_multiply": lambda gate, up: silu(gate) * up,
    "gelu_multiply": lambda gate, up: gelu(gate) * up,
    "gelu_tanh_multiply": lambda gate, up: gelu_tanh(gate) * up,
    "relu_multiply": lambda gate, up: relu(gate) * up,
}
