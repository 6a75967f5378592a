"""State-space layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.launch import TensorSpec
from sim.ops.checking import check_shape
from sim.ops.functions import wide
from sim.ops.operator import Operator

Array = np.ndarray


def ssm_scan(
    x: Array,
    step: Array,
    decay: Array,
    b: Array,
    c: Array,
    skip: Array | None = None,
    state: Array | None = None,
    softplus: bool = True,
) -> tuple[Array, Array]:
    """x, step [B, T, I], decay [I, S], b, c [B, T, S], skip [I], state [B, I, S]: y [B, T, I] and the last state"""
    batch, times, channels = x.shape
    h = np.zeros((batch, channels, decay.shape[1])) if state is None else wide(state)
    steps = np.logaddexp(0, wide(step)) if softplus else wide(step)
    factors = np.exp(steps[..., None] * wide(decay))
    moved = (steps * wide(x))[..., None] * wide(b)[:, :, None]
    y = np.zeros((batch, times, channels))
    for t in range(times):
        h = factors[:, t] * h + moved[:, t]
        y[:, t] = np.einsum("nis,ns->ni", h, wide(c)[:, t])
    return y + (0 if skip is None else wide(skip) * wide(x)), h


def _outputs(
    x: TensorSpec,
    step: TensorSpec,
    decay: TensorSpec,
    b: TensorSpec,
    c: TensorSpec,
    skip: TensorSpec | None = None,
    state: TensorSpec | None = None,
    softplus: bool = True,
) -> tuple[TensorSpec, ...]:
    check_shape("ssm_scan", "x", x, ("B", "T", "I"))
    batch, times, channels = x.shape
    check_shape("ssm_scan", "step", step, tuple(x.shape))
    check_shape("ssm_scan", "decay", decay, (channels, "S"))
    states = decay.shape[1]
    for name, spec in (("b", b), ("c", c)):
        check_shape("ssm_scan", name, spec, (batch, times, states))
    if skip is not None:
        check_shape("ssm_scan", "skip", skip, (channels,))
    if state is not None:
        check_shape("ssm_scan", "state", state, (batch, channels, states))
    return TensorSpec(tuple(x.shape), x.dtype), TensorSpec((batch, channels, states), "float32")


def _flops(x: TensorSpec, step: TensorSpec, decay: TensorSpec, *rest: Any, **scalars: Any) -> int:
    """Seven for each state and time: its factor (2), what is added (1), the scan (2), what is seen of it (2)."""
    batch, times, channels = x.shape
    return batch * times * channels * (7 * decay.shape[1] + 4)


OPERATORS = (Operator("ssm_scan", "state_space.py", ssm_scan, _outputs, _flops),)
