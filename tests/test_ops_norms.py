"""Normalisation against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import sim.ops
from sim.launch import TensorSpec
from tests.operators import BF16, check, normal

DTYPES = pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
SHAPES = pytest.mark.parametrize(("rows", "columns"), [(1, 256), (5, 384), (20, 128), (130, 100), (300, 257), (1, 1)])


@DTYPES
@SHAPES
def test_rmsnorm(rows: int, columns: int, dtype: type) -> None:
    check("rmsnorm", normal(rows, columns, dtype=dtype), normal(columns, dtype=dtype), eps=1e-5)


@pytest.mark.parametrize("rows", [3, 260])
@pytest.mark.parametrize("device", ["trn1", "trn2"])
def test_rmsnorm_on_two_cores_and_other_devices(rows: int, device: str) -> None:
    lnc = 2 if device == "trn2" else 1
    check("rmsnorm", normal(rows, 256, dtype=BF16), normal(256, dtype=BF16), device=device, lnc=lnc)


def test_rmsnorm_streams_near_the_rate_of_hbm() -> None:
    x, weight = TensorSpec((2048, 4096), "bfloat16"), TensorSpec((4096,), "bfloat16")
    run = sim.ops.launch("rmsnorm", x, weight, values=False)
    assert 2 * 2 * 2048 * 4096 / run.latency_ns > 0.9 * 358.4
