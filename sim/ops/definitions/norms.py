"""Normalisation of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.launch import TensorSpec
from sim.ops.checking import check_shape
from sim.ops.functions import wide
from sim.ops.operator import Operator, each

Array = np.ndarray


def rmsnorm(x: Array, weight: Array, eps: float = 1e-6) -> Array:
    """x [T, H], weight [H]"""
    rows = wide(x)
    return rows / np.sqrt(np.mean(rows**2, axis=-1, keepdims=True) + eps) * wide(weight)


def _rmsnorm_outputs(x: TensorSpec, weight: TensorSpec, eps: float = 1e-6) -> tuple[TensorSpec, ...]:
    return _normed("rmsnorm", x, {"weight": weight})


def layernorm(x: Array, weight: Array, bias: Array, eps: float = 1e-5) -> Array:
    """x [T, H], weight and bias [H]"""
    return _standard(wide(x), eps)[0] * wide(weight) + wide(bias)


def softmax(x: Array) -> Array:
    """x [T, N]"""
    powers = np.exp(wide(x) - wide(x).max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _standard(rows: Array, eps: float) -> tuple[Array, Array]:
    """Rows with mean 0 and variance 1, and what they were multiplied with."""
    scale = 1 / np.sqrt(rows.var(axis=-1, keepdims=True) + eps)
    return (rows - rows.mean(axis=-1, keepdims=True)) * scale, scale


def rmsnorm_backward(x: Array, weight: Array, dout: Array, eps: float = 1e-6) -> tuple[Array, Array]:
    """dx [T, H], dweight [H]"""
    rows, gradient = wide(x), wide(dout) * wide(weight)
    scale = 1 / np.sqrt(np.mean(rows**2, axis=-1, keepdims=True) + eps)
    normal = rows * scale
    dx = scale * (gradient - normal * np.mean(gradient * normal, axis=-1, keepdims=True))
    return dx, (wide(dout) * normal).sum(axis=0)


def layernorm_backward(x: Array, weight: Array, dout: Array, eps: float = 1e-5) -> tuple[Array, Array, Array]:
    """dx [T, H], dweight [H], dbias [H]"""
    normal, scale = _standard(wide(x), eps)
    gradient = wide(dout) * wide(weight)
    along = np.mean(gradient * normal, axis=-1, keepdims=True)
    dx = scale * (gradient - normal * along - gradient.mean(axis=-1, keepdims=True))
    return dx, (wide(dout) * normal).sum(axis=0), wide(dout).sum(axis=0)


def softmax_backward(y: Array, dout: Array) -> Array:
    """y [T, N], dout [T, N]"""
    return wide(y) * (wide(dout) - (wide(y) * wide(dout)).sum(axis=-1, keepdims=True))


def _layernorm_outputs(
    x: TensorSpec, weight: TensorSpec, bias: TensorSpec, eps: float = 1e-5
) -> tuple[TensorSpec, ...]:
    return _normed("layernorm", x, {"weight": weight, "bias": bias})


def _normed(name: str, x: TensorSpec, vectors: dict[str, TensorSpec]) -> tuple[TensorSpec, ...]:
    check_shape(name, "x", x, ("T", "H"))
    for argument, vector in vectors.items():
        check_shape(name, argument, vector, (x.shape[1],))
    return (TensorSpec(tuple(x.shape), x.dtype),)


def _softmax_outputs(x: TensorSpec) -> tuple[TensorSpec, ...]:
    return _normed("softmax", x, {})


def _gradients(name: str, vectors: int) -> Any:
    """The outputs of a backward pass: dx, and the gradients of so many vectors."""

    def outputs(x: TensorSpec, weight: TensorSpec, dout: TensorSpec, eps: float = 0) -> tuple[TensorSpec, ...]:
        (dx,) = _normed(name, x, {"weight": weight})
        check_shape(name, "dout", dout, tuple(x.shape))
        return (dx, *[TensorSpec(tuple(weight.shape), weight.dtype)] * vectors)

    return outputs


def _softmax_gradient(y: TensorSpec, dout: TensorSpec) -> tuple[TensorSpec, ...]:
    check_shape("softmax_backward", "dout", dout, tuple(y.shape))
    return _normed("softmax_backward", y, {})


OPERATORS = (
    Operator("rmsnorm", "norms.py", rmsnorm, _rmsnorm_outputs, each(4)),
    Operator("layernorm", "norms.py", layernorm, _layernorm_outputs, each(7)),
    Operator("softmax", "norms.py", softmax, _softmax_outputs, each(5)),
    Operator("rmsnorm_backward", "norms_backward.py", rmsnorm_backward, _gradients("rmsnorm_backward", 1), each(11)),
    Operator(
        "layernorm_backward", "norms_backward.py", layernorm_backward, _gradients("layernorm_backward", 2), each(17)
    ),
    Operator("softmax_backward", "norms_backward.py", softmax_backward, _softmax_gradient, each(4)),
)
