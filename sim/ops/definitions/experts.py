"""Feed-forward blocks of which each token goes through a few."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_shape, check_word
from sim.ops.definitions.products import result_spec
from sim.ops.functions import ACTIVATIONS, wide
from sim.ops.operator import Operator, nbytes

Array = np.ndarray
MOST = 512
"""Experts: their counts lie in a bank of PSUM."""


def expert_mlp(
    x: Array, gate: Array, up: Array, down: Array, experts: Array, weights: Array, activation: str = "silu"
) -> Array:
    """x [T, H], gate and up [E, H, F], down [E, F, H], experts and weights [T, k]"""
    out = np.zeros((x.shape[0], down.shape[2]))
    for e in range(gate.shape[0]):
        rows, choices = np.nonzero(np.asarray(experts) == e)
        hidden = ACTIVATIONS[activation](wide(x[rows]) @ wide(gate[e])) * (wide(x[rows]) @ wide(up[e]))
        np.add.at(out, rows, wide(weights)[rows, choices][:, None] * (hidden @ wide(down[e])))
    return out


def _outputs(
    x: TensorSpec,
    gate: TensorSpec,
    up: TensorSpec,
    down: TensorSpec,
    experts: TensorSpec,
    weights: TensorSpec,
    activation: str = "silu",
) -> tuple[TensorSpec, ...]:
    check_shape("expert_mlp", "x", x, ("T", "H"))
    check_shape("expert_mlp", "gate", gate, ("E", x.shape[1], "F"))
    check_shape("expert_mlp", "up", up, tuple(gate.shape))
    check_shape("expert_mlp", "down", down, (gate.shape[0], gate.shape[2], x.shape[1]))
    check_shape("expert_mlp", "experts", experts, (x.shape[0], "k"))
    check_shape("expert_mlp", "weights", weights, tuple(experts.shape))
    check_word("expert_mlp", "activation", activation, ACTIVATIONS)
    if gate.shape[0] > MOST:
        raise InputError(f"expert_mlp: gate: {gate.shape[0]} experts, at most {MOST}", remedy="share them among cores")
    return (result_spec(x, tuple(x.shape)),)


def _flops(x: TensorSpec, gate: TensorSpec, up: TensorSpec, down: TensorSpec, experts: TensorSpec, *_: Any, **__: Any):
    """Of the tokens that an expert has, not of those that pass through it in vain."""
    choices = experts.shape[0] * experts.shape[1]
    return choices * (6 * x.shape[1] * gate.shape[2] + 2 * gate.shape[2] + 2 * x.shape[1])


def _reads(
    x: TensorSpec,
    gate: TensorSpec,
    up: TensorSpec,
    down: TensorSpec,
    experts: TensorSpec,
    weights: TensorSpec,
    **scalars: Any,
) -> int:
    """Experts that may have a token, all of them where there are more choices."""
    read = min(gate.shape[0], experts.shape[0] * experts.shape[1])
    own = sum(map(nbytes, (gate, up, down))) // gate.shape[0]
    return read * own + sum(map(nbytes, (x, experts, weights)))


OPERATORS = (Operator("expert_mlp", "experts.py", expert_mlp, _outputs, _flops, _reads),)
