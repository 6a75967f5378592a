"""Normalisation against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import sim.ops
from sim.launch import TensorSpec
from tests.operators import BF16, TOLERANCE, check, normal

DTYPES = pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
SHAPES = pytest.mark.parametrize(("rows", "columns"), [(1, 256), (5, 384), (20, 128), (130, 100), (300, 257), (1, 1)])


@DTYPES
@SHAPES
def test_rmsnorm(rows: int, columns: int, dtype: type) -> None:
    check("rmsnorm", normal(rows, columns, dtype=dtype, scale=3), normal(columns, dtype=dtype), eps=1e-5)


@DTYPES
@SHAPES
def test_layernorm_and_softmax(rows: int, columns: int, dtype: type) -> None:
    x = normal(rows, columns, dtype=dtype, scale=3)
    check("layernorm", x, normal(columns, dtype=dtype), normal(columns, dtype=dtype, seed=1))
    check("softmax", x)


@DTYPES
@SHAPES
def test_gradients(rows: int, columns: int, dtype: type) -> None:
    """The gradients of weights are sums over rows, whose errors add up as a random walk."""
    x, weight = normal(rows, columns, dtype=dtype, scale=3), normal(columns, dtype=dtype)
    dout = normal(rows, columns, dtype=dtype, seed=1)
    allowed = TOLERANCE[np.dtype(dtype)] * max(1, rows**0.5)
    check("rmsnorm_backward", x, weight, dout, tolerance=allowed)
    check("layernorm_backward", x, weight, dout, tolerance=allowed)
    check("softmax_backward", sim.ops.operator("softmax").reference(x).astype(dtype), dout)


@pytest.mark.parametrize(
    ("name", "vectors"), [("rmsnorm", 1), ("layernorm", 2), ("softmax", 0)], ids=["rmsnorm", "layernorm", "softmax"]
)
def test_gradients_are_those_of_the_forward_pass(name: str, vectors: int) -> None:
    rng = np.random.default_rng(0)
    x, dout, step = rng.standard_normal((3, 3, 7))
    rest = [rng.standard_normal(7) for _ in range(vectors)]
    forward = sim.ops.operator(name).reference
    saved = forward(x) if name == "softmax" else x
    gradients = sim.ops.operator(f"{name}_backward").reference(saved, *rest[:1], dout)
    dx = gradients if name == "softmax" else gradients[0]
    slope = (forward(x + 1e-6 * step, *rest) - forward(x - 1e-6 * step, *rest)) / 2e-6
    assert np.sum(dx * step) == pytest.approx(np.sum(slope * dout), rel=1e-5)


@pytest.mark.parametrize("rows", [3, 260])
@pytest.mark.parametrize("device", ["trn1", "trn2"])
def test_rmsnorm_on_two_cores_and_other_devices(rows: int, device: str) -> None:
    lnc = 2 if device == "trn2" else 1
    check("rmsnorm", normal(rows, 256, dtype=BF16), normal(256, dtype=BF16), device=device, lnc=lnc)


@pytest.mark.parametrize(("name", "vectors"), [("rmsnorm", 1), ("softmax", 0)])
def test_streams_near_the_rate_of_hbm(name: str, vectors: int) -> None:
    x, vector = TensorSpec((2048, 4096), "bfloat16"), TensorSpec((4096,), "bfloat16")
    run = sim.ops.launch(name, x, *[vector] * vectors, values=False)
    assert 2 * 2 * 2048 * 4096 / run.latency_ns > 0.9 * 358.4
