"""Normalisation of groups of channels."""

from __future__ import annotations

from math import prod

import numpy as np

from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_shape
from sim.ops.functions import wide
from sim.ops.operator import Operator

Array = np.ndarray


def group_norm(x: Array, weight: Array, bias: Array, groups: int = 32, eps: float = 1e-5) -> Array:
    """x [N, C, …], weight and bias [C]"""
    normal, _ = _standard(x, groups, eps)
    ones = (1,) * (x.ndim - 2)
    return normal * wide(weight).reshape(-1, *ones) + wide(bias).reshape(-1, *ones)


def _standard(x: Array, groups: int, eps: float) -> tuple[Array, Array]:
    """Groups with mean 0 and variance 1, and what they were multiplied with, [N, groups, 1]."""
    rows = wide(x).reshape(x.shape[0], groups, -1)
    scale = 1 / np.sqrt(rows.var(axis=2, keepdims=True) + eps)
    return ((rows - rows.mean(axis=2, keepdims=True)) * scale).reshape(x.shape), scale


def _checked(name: str, x: TensorSpec, vectors: dict[str, TensorSpec], groups: int) -> TensorSpec:
    if x is None or len(x.shape) < 2:
        raise InputError(f"{name}: x: shape {[] if x is None else list(x.shape)}, must be [N, C, …]")
    if groups < 1 or x.shape[1] % groups:
        raise InputError(f"{name}: groups: {groups} does not divide {x.shape[1]} channels")
    for argument, vector in vectors.items():
        check_shape(name, argument, vector, (x.shape[1],))
    return TensorSpec(tuple(x.shape), x.dtype)


def _outputs(
    x: TensorSpec, weight: TensorSpec, bias: TensorSpec, groups: int = 32, eps: float = 1e-5
) -> tuple[TensorSpec, ...]:
    return (_checked("group_norm", x, {"weight": weight, "bias": bias}, groups),)


OPERATORS = (
    Operator("group_norm", "group_norm.py", group_norm, _outputs, lambda x, *rest, **scalars: 7 * prod(x.shape)),
)
