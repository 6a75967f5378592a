"""Convolutions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import sim.ops
from sim.errors import InputError
from sim.launch import TensorSpec
from tests.operators import BF16, TOLERANCE, check, normal

SQUARE = [
    ((1, 3, 5, 7), (4, 3, 3, 3), {"padding": 1}),
    ((2, 130, 9, 8), (140, 130, 1, 1), {}),
    ((1, 16, 12, 12), (8, 16, 3, 3), {"stride": 2, "padding": 1}),
    ((1, 4, 20, 600), (5, 4, 2, 3), {"dilation": (3, 2), "padding": (0, 4)}),
    ((2, 12, 8, 8), (18, 4, 3, 3), {"groups": 3, "padding": 1}),
    ((1, 3, 8, 8), (6, 3, 4, 4), {"stride": 4}),
]
LINES = [
    ((1, 3, 9), (4, 3, 3), {"padding": 1}),
    ((2, 80, 1100), (130, 80, 3), {"padding": 1, "stride": 2}),
    ((1, 200, 33), (7, 200, 5), {"dilation": 2, "padding": 4}),
]


def tried(name: str, shape: tuple, taps: tuple, scalars: dict, dtype: type, bias: bool) -> None:
    x, weight = normal(*shape, dtype=dtype), normal(*taps, dtype=dtype, scale=np.prod(taps[1:]) ** -0.5)
    offset = [normal(taps[0], dtype=dtype, seed=1)] if bias else []
    check(name, x, weight, *offset, tolerance=TOLERANCE[np.dtype(dtype)], **scalars)


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(("shape", "taps", "scalars"), SQUARE, ids=str)
def test_conv2d(shape: tuple, taps: tuple, scalars: dict, dtype: type) -> None:
    tried("conv2d", shape, taps, scalars, dtype, bias=shape[0] == 1)


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(("shape", "taps", "scalars"), LINES, ids=str)
def test_conv1d(shape: tuple, taps: tuple, scalars: dict, dtype: type) -> None:
    tried("conv1d", shape, taps, scalars, dtype, bias=shape[0] == 1)


def test_two_cores_share_the_outputs() -> None:
    x, weight = normal(1, 20, 10, 10), normal(300, 20, 3, 3, scale=0.1)
    check("conv2d", x, weight, padding=1, lnc=2)


def test_a_large_convolution_is_bound_by_tensor_engine() -> None:
    x, weight = TensorSpec((2, 320, 64, 64), "bfloat16"), TensorSpec((320, 320, 3, 3), "bfloat16")
    run = sim.ops.launch("conv2d", x, weight, values=False, padding=1)
    work = sim.ops.operator("conv2d").work(x, weight, padding=1)
    assert work.flops == 2 * 2 * 320 * 64 * 64 * 320 * 9
    assert work.flops / run.latency_ns > 0.5 * 78_600


def test_shapes_that_do_not_fit_are_refused() -> None:
    x = TensorSpec((1, 4, 8, 8), "float32")
    with pytest.raises(InputError, match="conv2d: weight: 3 channels for 4 of x in 1 groups"):
        sim.ops.launch("conv2d", x, TensorSpec((2, 3, 3, 3), "float32"), values=False)
    with pytest.raises(InputError, match="conv2d: 9 taps 1 apart do not fit into 8 with padding 0"):
        sim.ops.launch("conv2d", x, TensorSpec((2, 4, 9, 9), "float32"), values=False)
