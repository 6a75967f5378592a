"""Normalisation of rows."""

from __future__ import annotations

from math import prod

import numpy as np

from sim.launch import TensorSpec
from sim.ops.definitions.checking import check_shape
from sim.ops.definitions.functions import wide
from sim.ops.operator import Operator

Array = np.ndarray


def rmsnorm(x: Array, weight: Array, eps: float = 1e-6) -> Array:
    """x [T, H], weight [H]"""
    rows = wide(x)
    return rows / np.sqrt(np.mean(rows**2, axis=-1, keepdims=True) + eps) * wide(weight)


def _rmsnorm_outputs(x: TensorSpec, weight: TensorSpec, eps: float = 1e-6) -> tuple[TensorSpec, ...]:
    check_shape("rmsnorm", "x", x, ("T", "H"))
    check_shape("rmsnorm", "weight", weight, (x.shape[1],))
    return (TensorSpec(tuple(x.shape), x.dtype),)


OPERATORS = (Operator("rmsnorm", "norms.py", rmsnorm, _rmsnorm_outputs, lambda x, weight, eps=1e-6: 4 * prod(x.shape)),)
