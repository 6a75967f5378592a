"""Feed-forward blocks."""

from __future__ import annotations

import numpy as np

from sim.launch import TensorSpec
from sim.ops.checking import check_shape, check_word
from sim.ops.definitions.products import result_spec
from sim.ops.functions import ACTIVATIONS, wide
from sim.ops.operator import Operator

Array = np.ndarray


def mlp(x: Array, up: Array, down: Array, activation: str = "gelu") -> Array:
    """x [T, H], up [H, F], down [F, H]"""
    return ACTIVATIONS[activation](wide(x) @ wide(up)) @ wide(down)


def gated_mlp(x: Array, gate: Array, up: Array, down: Array, activation: str = "silu") -> Array:
    """x [T, H], gate and up [H, F], down [F, H]"""
    return (ACTIVATIONS[activation](wide(x) @ wide(gate)) * (wide(x) @ wide(up))) @ wide(down)


def _mlp_outputs(x: TensorSpec, up: TensorSpec, down: TensorSpec, activation: str = "gelu") -> tuple[TensorSpec, ...]:
    return _checked("mlp", x, {"up": up}, down, activation)


def _gated_outputs(
    x: TensorSpec, gate: TensorSpec, up: TensorSpec, down: TensorSpec, activation: str = "silu"
) -> tuple[TensorSpec, ...]:
    return _checked("gated_mlp", x, {"gate": gate, "up": up}, down, activation)


def _checked(
    name: str, x: TensorSpec, weights: dict[str, TensorSpec], down: TensorSpec, activation: str
) -> tuple[TensorSpec, ...]:
    check_shape(name, "x", x, ("T", "H"))
    check_shape(name, "down", down, ("F", "H"))
    for argument, weight in weights.items():
        check_shape(name, argument, weight, (x.shape[1], down.shape[0]))
    check_word(name, "activation", activation, ACTIVATIONS)
    return (result_spec(x, (x.shape[0], down.shape[1])),)


def _mlp_flops(x: TensorSpec, up: TensorSpec, down: TensorSpec, activation: str = "gelu") -> int:
    (rows, inner), hidden = x.shape, down.shape[0]
    return 2 * rows * hidden * (inner + down.shape[1]) + rows * hidden


def _gated_flops(x: TensorSpec, gate: TensorSpec, up: TensorSpec, down: TensorSpec, activation: str = "silu") -> int:
    (rows, inner), hidden = x.shape, down.shape[0]
    return 2 * rows * hidden * (2 * inner + down.shape[1]) + 2 * rows * hidden


OPERATORS = (
    Operator("mlp", "mlp.py", mlp, _mlp_outputs, _mlp_flops),
    Operator("gated_mlp", "mlp.py", gated_mlp, _gated_outputs, _gated_flops),
)
