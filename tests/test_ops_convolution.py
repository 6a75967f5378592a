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
    ((1, 6, 9, 9), (6, 1, 3, 3), {"groups": 6, "padding": 1, "stride": 2}),
    ((1, 300, 6, 6), (300, 2, 3, 3), {"groups": 150, "padding": 1}),
    ((1, 130, 5, 7), (260, 65, 2, 2), {"groups": 2}),
    ((1, 100, 30, 40), (8, 100, 3, 3), {"padding": 2, "dilation": 2}),
    ((5, 40, 4, 4), (4, 40, 3, 5), {"padding": (1, 2)}),
    ((3, 7, 12, 9), (200, 7, 5, 5), {"padding": 2}),
]
LINES = [
    ((1, 3, 9), (4, 3, 3), {"padding": 1}),
    ((2, 80, 1100), (130, 80, 3), {"padding": 1, "stride": 2}),
    ((1, 200, 33), (7, 200, 5), {"dilation": 2, "padding": 4}),
    ((1, 3, 9000), (4, 3, 3), {"padding": 1}),
    ((1, 2, 4), (2, 2, 3), {"padding": 5}),
]
LAID = [
    ("conv2d", (1, 70, 9, 8), (150, 70, 3, 3), {"padding": 1}),
    ("conv2d", (2, 300, 4, 4), (20, 300, 1, 2), {}),
    ("conv2d", (1, 3, 20, 20), (9, 3, 3, 4), {"stride": 2}),
    ("conv2d", (2, 20, 5, 7), (700, 20, 3, 3), {"padding": 1}),
    ("conv2d", (1, 300, 9, 9), (140, 300, 3, 3), {"stride": 2}),
    ("conv1d", (2, 130, 50), (30, 130, 3), {"padding": 1}),
]
TRAINED = [
    ((2, 5, 7, 9), (6, 5, 3, 3), {"padding": 1}),
    ((1, 130, 12, 10), (140, 130, 3, 3), {"padding": 1, "stride": 2}),
    ((3, 4, 9, 9), (8, 4, 1, 1), {}),
    ((1, 3, 20, 140), (4, 3, 2, 3), {"stride": (2, 3), "padding": (0, 2), "dilation": (3, 1)}),
    ((1, 6, 40, 40), (150, 6, 3, 3), {"padding": 1}),
    ((1, 3, 140, 130), (2, 3, 3, 3), {"padding": 1}),
]
DEPTHWISE = [
    ("depthwise_conv1d", (1, 130, 1200), (130, 4), {"padding": 3}),
    ("depthwise_conv1d", (2, 3, 4), (3, 4), {}),
    ("depthwise_conv1d", (3, 260, 4), (260, 4), {}),
    ("depthwise_conv1d", (1, 130, 5), (130, 3), {"padding": 1, "stride": 2, "dilation": 2}),
    ("depthwise_conv2d", (2, 20, 9, 11), (20, 3, 3), {"padding": 1}),
    ("depthwise_conv2d", (1, 260, 12, 12), (260, 5, 5), {"padding": 2, "stride": 2}),
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


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(("name", "shape", "taps", "scalars"), LAID, ids=str)
def test_weights_that_lie_as_they_are_needed(name: str, shape: tuple, taps: tuple, scalars: dict, dtype: type) -> None:
    x, weight = normal(*shape, dtype=dtype), normal(*taps, dtype=dtype, scale=np.prod(taps[1:]) ** -0.5)
    layout, axes = ("HWIO", (2, 3, 1, 0)) if name == "conv2d" else ("WIO", (2, 1, 0))
    check(name, x, np.ascontiguousarray(weight.transpose(axes)), weight_layout=layout, **scalars)


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(("name", "shape", "taps", "scalars"), DEPTHWISE, ids=str)
def test_depthwise(name: str, shape: tuple, taps: tuple, scalars: dict, dtype: type) -> None:
    x, weight = normal(*shape, dtype=dtype), normal(*taps, dtype=dtype, scale=np.prod(taps[1:]) ** -0.5)
    check(name, x, weight, normal(taps[0], dtype=dtype, seed=1), **scalars)
    check(name, x, weight, lnc=2, **scalars)


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize(("shape", "taps", "scalars"), TRAINED, ids=str)
def test_gradients(shape: tuple, taps: tuple, scalars: dict, dtype: type) -> None:
    x, weight = normal(*shape, dtype=dtype), normal(*taps, dtype=dtype, scale=taps[0] ** -0.5)
    out = sim.ops.operator("conv2d").reference(x, weight, **scalars)
    dout = normal(*out.shape, dtype=dtype, seed=1)
    terms = weight.size / taps[1]
    allowed = TOLERANCE[np.dtype(dtype)] * max(1, terms**0.25)
    check("conv2d_input_gradient", dout, weight, size=shape[2:], tolerance=allowed, **scalars)
    allowed = TOLERANCE[np.dtype(dtype)] * max(1, (out.size / taps[0]) ** 0.5 / 8)
    check("conv2d_weight_gradient", dout, x, taps=taps[2:], tolerance=allowed, **scalars)


@pytest.mark.parametrize("scalars", [{"padding": 1}, {"stride": 2, "padding": (0, 1), "dilation": (1, 2)}], ids=str)
def test_gradients_are_those_of_the_forward_pass(scalars: dict) -> None:
    rng = np.random.default_rng(0)
    x, step, weight, turn = (rng.standard_normal(shape) for shape in ((2, 3, 7, 8),) * 2 + ((4, 3, 3, 2),) * 2)
    forward = sim.ops.operator("conv2d").reference
    dout = rng.standard_normal(forward(x, weight, **scalars).shape)
    dx = sim.ops.operator("conv2d_input_gradient").reference(dout, weight, size=(7, 8), **scalars)
    dweight = sim.ops.operator("conv2d_weight_gradient").reference(dout, x, taps=(3, 2), **scalars)
    assert np.sum(dx * step) == pytest.approx(np.sum(forward(step, weight, **scalars) * dout))
    assert np.sum(dweight * turn) == pytest.approx(np.sum(forward(x, turn, **scalars) * dout))


def test_gradients_on_two_cores() -> None:
    x, weight, dout = normal(2, 20, 6, 6), normal(300, 20, 3, 3, scale=0.1), normal(2, 300, 6, 6, seed=1)
    check("conv2d_input_gradient", dout, weight, size=(6, 6), padding=1, lnc=2, tolerance=1e-4)
    check("conv2d_weight_gradient", dout, x, taps=(3, 3), padding=1, lnc=2, tolerance=1e-4)


def test_two_cores_share_the_bands_of_an_image() -> None:
    check("conv2d", normal(1, 8, 70, 40), normal(5, 8, 3, 3, scale=0.1), padding=1, lnc=2)


def test_two_cores_share_the_outputs() -> None:
    x, weight = normal(1, 256, 3, 3), normal(1200, 256, 3, 3, scale=0.02)
    check("conv2d", x, weight, padding=1, lnc=2)


def test_a_large_convolution_is_bound_by_tensor_engine() -> None:
    x, weight = TensorSpec((2, 320, 64, 64), "bfloat16"), TensorSpec((320, 320, 3, 3), "bfloat16")
    run = sim.ops.launch("conv2d", x, weight, values=False, padding=1)
    work = sim.ops.operator("conv2d").work(x, weight, padding=1)
    assert work.flops == 2 * 2 * 320 * 64 * 64 * 320 * 9
    assert work.flops / run.latency_ns > 0.65 * 78_600


def test_shapes_that_do_not_fit_are_refused() -> None:
    x = TensorSpec((1, 4, 8, 8), "float32")
    with pytest.raises(InputError, match="conv2d: weight: 3 channels for 4 of x in 1 groups"):
        sim.ops.launch("conv2d", x, TensorSpec((2, 3, 3, 3), "float32"), values=False)
    with pytest.raises(InputError, match="conv2d: 9 taps 1 apart do not fit into 8 with padding 0"):
        sim.ops.launch("conv2d", x, TensorSpec((2, 4, 9, 9), "float32"), values=False)
