"""Optimizer steps against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import sim.ops
from sim.errors import InputError
from sim.launch import TensorSpec
from tests.operators import BF16, check, normal

SHAPES = pytest.mark.parametrize("shape", [(1,), (300,), (128, 64), (7, 1000), (3, 5, 11)], ids=str)


@SHAPES
@pytest.mark.parametrize("step", [1, 1000])
def test_adamw(shape: tuple[int, ...], step: int) -> None:
    p, g, m = (normal(*shape, dtype=np.float32, seed=seed) for seed in range(3))
    v = np.abs(normal(*shape, dtype=np.float32, seed=3))
    check("adamw", p, g, m, v, lr=0.01, step=step)


@SHAPES
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_sgd(shape: tuple[int, ...], decay: float) -> None:
    p, g, m = (normal(*shape, dtype=np.float32, seed=seed) for seed in range(3))
    check("sgd", p, g, m, lr=0.1, momentum=0.8, weight_decay=decay)


def test_weights_in_bf16_are_rounded_once() -> None:
    p, g = normal(300, dtype=BF16), normal(300, dtype=BF16, seed=1)
    m, v = normal(300, dtype=np.float32, seed=2), np.abs(normal(300, dtype=np.float32, seed=3))
    check("adamw", p, g, m, v, lr=0.01, step=10)


def test_adamw_in_fp32_is_bound_by_memory() -> None:
    spec = TensorSpec((4096, 1024), "float32")
    run = sim.ops.launch("adamw", *[spec] * 4, values=False)
    assert 28 * 4096 * 1024 / run.latency_ns > 0.8 * 358


def test_a_moment_of_another_shape_is_refused() -> None:
    spec, other = TensorSpec((8, 8), "float32"), TensorSpec((8, 9), "float32")
    with pytest.raises(InputError, match=r"adamw: v: shape \[8, 9\]"):
        sim.ops.launch("adamw", spec, spec, spec, other, values=False)
