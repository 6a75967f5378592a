"""Optimizer steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.launch import TensorSpec
from sim.ops.checking import check_shape
from sim.ops.functions import wide
from sim.ops.operator import Operator, each

Array = np.ndarray


def adamw(
    p: Array,
    g: Array,
    m: Array,
    v: Array,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    step: int = 1,
) -> tuple[Array, Array, Array]:
    """p, m, v of any shape, after the step"""
    mean = beta1 * wide(m) + (1 - beta1) * wide(g)
    spread = beta2 * wide(v) + (1 - beta2) * wide(g) ** 2
    change = mean / (1 - beta1**step) / (np.sqrt(spread / (1 - beta2**step)) + eps)
    return wide(p) * (1 - lr * weight_decay) - lr * change, mean, spread


def sgd(
    p: Array, g: Array, m: Array, lr: float = 1e-2, momentum: float = 0.9, weight_decay: float = 0.0
) -> tuple[Array, Array]:
    """p, m of any shape, after the step"""
    mean = momentum * wide(m) + wide(g) + weight_decay * wide(p)
    return wide(p) - lr * mean, mean


def _kept(name: str, moments: tuple[str, ...]) -> Any:
    """What is given comes back, but for the gradient."""

    def outputs(p: TensorSpec, g: TensorSpec, *kept: TensorSpec, **scalars: Any) -> tuple[TensorSpec, ...]:
        for argument, spec in zip(("g", *moments), (g, *kept), strict=True):
            check_shape(name, argument, spec, tuple(p.shape))
        return tuple(TensorSpec(tuple(each.shape), each.dtype) for each in (p, *kept))

    return outputs


OPERATORS = (
    Operator("adamw", "optimizers.py", adamw, _kept("adamw", ("m", "v")), each(13)),
    Operator("sgd", "optimizers.py", sgd, _kept("sgd", ("m",)), each(6)),
)
