"""Normalisation of groups of channels."""

from __future__ import annotations

from math import prod

import numpy as np

from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_shape, check_word
from sim.ops.functions import ACTIVATIONS, wide
from sim.ops.operator import Operator, each

Array = np.ndarray


def group_norm(
    x: Array, weight: Array, bias: Array, groups: int = 32, eps: float = 1e-5, activation: str | None = None
) -> Array:
    """x [N, C, …], weight and bias [C]"""
    normal, _ = _standard(x, groups, eps)
    ones = (1,) * (x.ndim - 2)
    out = normal * wide(weight).reshape(-1, *ones) + wide(bias).reshape(-1, *ones)
    return ACTIVATIONS[activation](out) if activation else out


def _standard(x: Array, groups: int, eps: float) -> tuple[Array, Array]:
    """Groups with mean 0 and variance 1, and what they were multiplied with, [N, groups, 1]."""
    rows = wide(x).reshape(x.shape[0], groups, -1)
    scale = 1 / np.sqrt(rows.var(axis=2, keepdims=True) + eps)
    return ((rows - rows.mean(axis=2, keepdims=True)) * scale).reshape(x.shape), scale


def group_norm_backward(
    x: Array, weight: Array, dout: Array, groups: int = 32, eps: float = 1e-5
) -> tuple[Array, Array, Array]:
    """dx like x, dweight [C], dbias [C]"""
    normal, scale = _standard(x, groups, eps)
    shape, others = (x.shape[0], groups, -1), (0, *range(2, x.ndim))
    gradient = (wide(dout) * wide(weight).reshape(-1, *(1,) * (x.ndim - 2))).reshape(shape)
    rows = normal.reshape(shape)
    along = np.mean(gradient * rows, axis=2, keepdims=True)
    dx = scale * (gradient - rows * along - gradient.mean(axis=2, keepdims=True))
    return dx.reshape(x.shape), (wide(dout) * normal).sum(axis=others), wide(dout).sum(axis=others)


def _checked(name: str, x: TensorSpec, vectors: dict[str, TensorSpec], groups: int) -> TensorSpec:
    if x is None or len(x.shape) < 2:
        raise InputError(f"{name}: x: shape {[] if x is None else list(x.shape)}, must be [N, C, …]")
    if groups < 1 or x.shape[1] % groups:
        raise InputError(f"{name}: groups: {groups} does not divide {x.shape[1]} channels")
    for argument, vector in vectors.items():
        check_shape(name, argument, vector, (x.shape[1],))
    return TensorSpec(tuple(x.shape), x.dtype)


def _outputs(
    x: TensorSpec,
    weight: TensorSpec,
    bias: TensorSpec,
    groups: int = 32,
    eps: float = 1e-5,
    activation: str | None = None,
) -> tuple[TensorSpec, ...]:
    if activation:
        check_word("group_norm", "activation", activation, ACTIVATIONS)
    return (_checked("group_norm", x, {"weight": weight, "bias": bias}, groups),)


def _gradients(
    x: TensorSpec, weight: TensorSpec, dout: TensorSpec, groups: int = 32, eps: float = 1e-5
) -> tuple[TensorSpec, ...]:
    dx = _checked("group_norm_backward", x, {"weight": weight}, groups)
    check_shape("group_norm_backward", "dout", dout, tuple(x.shape))
    return (dx, *[TensorSpec(tuple(weight.shape), weight.dtype)] * 2)


def _flops(x: TensorSpec, *rest: TensorSpec, activation: str | None = None, **scalars: object) -> int:
    return (8 if activation else 7) * prod(x.shape)


OPERATORS = (
    Operator("group_norm", "group_norm.py", group_norm, _outputs, _flops),
    Operator(
        "group_norm_backward",
        "group_norm_backward.py",
        group_norm_backward,
        _gradients,
        each(17),
    ),
)
