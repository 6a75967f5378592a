"""Feed-forward blocks against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim.ops
from sim.launch import TensorSpec
from tests.operators import BF16, FP8, check, normal

DTYPES = pytest.mark.parametrize("dtype", [np.float32, BF16, FP8], ids=["fp32", "bf16", "fp8"])
SHAPES = pytest.mark.parametrize(("rows", "width", "hidden"), [(1, 256, 512), (5, 130, 700), (300, 257, 600)])


def operands(rows: int, width: int, hidden: int, dtype: type, gated: bool) -> list[np.ndarray]:
    weights = [normal(width, hidden, dtype=dtype, scale=width**-0.5, seed=i) for i in range(2 if gated else 1)]
    down = normal(hidden, width, dtype=dtype, scale=hidden**-0.5)
    return [normal(rows, width, dtype=dtype), *weights, down]


@DTYPES
@SHAPES
@pytest.mark.parametrize("gated", [False, True])
def test_feed_forward(rows: int, width: int, hidden: int, dtype: type, gated: bool) -> None:
    check("gated_mlp" if gated else "mlp", *operands(rows, width, hidden, dtype, gated))


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 200), st.integers(1, 300), st.integers(1, 600), st.sampled_from(["silu", "gelu", "relu"]))
def test_feed_forward_of_any_size(rows: int, width: int, hidden: int, activation: str) -> None:
    check("gated_mlp", *operands(rows, width, hidden, BF16, True), activation=activation)


@pytest.mark.parametrize(("device", "lnc"), [("trn1", 1), ("trn3", 1), ("trn2", 2)])
@pytest.mark.parametrize("rows", [3, 300])
def test_feed_forward_on_other_devices_and_two_cores(rows: int, device: str, lnc: int) -> None:
    check("gated_mlp", *operands(rows, 256, 640, BF16, True), device=device, lnc=lnc)


def test_two_cores_share_the_weights_of_a_decode_step() -> None:
    weights = [TensorSpec((4096, 14336), "bfloat16")] * 2 + [TensorSpec((14336, 4096), "bfloat16")]
    x = TensorSpec((16, 4096), "bfloat16")
    one, two = (sim.ops.launch("gated_mlp", x, *weights, values=False, lnc=lnc).latency_ns for lnc in (1, 2))
    assert two < 0.6 * one


def test_a_prefill_keeps_the_tensor_engine_busy_and_a_decode_step_hbm() -> None:
    weights = [TensorSpec((4096, 14336), "bfloat16")] * 2 + [TensorSpec((14336, 4096), "bfloat16")]
    found = sim.ops.operator("gated_mlp")
    x = TensorSpec((2048, 4096), "bfloat16")
    run = sim.ops.launch("gated_mlp", x, *weights, values=False)
    assert found.work(x, *weights).flops / run.latency_ns > 0.9 * 2 * 128 * 128 * 2.4
    x = TensorSpec((16, 4096), "bfloat16")
    run = sim.ops.launch("gated_mlp", x, *weights, values=False)
    assert found.work(x, *weights).read_bytes / run.latency_ns > 0.9 * 358.4
