"""Normalisation of groups of channels against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import sim.ops
from sim.errors import InputError
from sim.launch import TensorSpec
from tests.operators import BF16, TOLERANCE, check, normal

DTYPES = pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
SHAPES = pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((2, 64, 9, 7), 32),  # two channels a group, one a partition
        ((1, 32, 40, 30), 32),  # a channel in four parts
        ((3, 20, 5), 5),  # groups of several images together
        ((1, 6, 600), 1),  # all channels, one group
        ((1, 70, 131), 70),  # groups that cannot be cut
        ((2, 300), 150),  # more groups than partitions
        ((1, 4, 300, 200), 2),  # more than one load
    ],
    ids=str,
)


@DTYPES
@SHAPES
def test_group_norm(shape: tuple[int, ...], groups: int, dtype: type) -> None:
    x = (normal(*shape) * 2 + 1).astype(dtype)
    weight, bias = normal(shape[1], dtype=dtype), normal(shape[1], dtype=dtype, seed=1)
    check("group_norm", x, weight, bias, groups=groups)
    check("group_norm", x, weight, bias, groups=groups, activation="silu")


@DTYPES
@SHAPES
def test_gradients(shape: tuple[int, ...], groups: int, dtype: type) -> None:
    """Gradients of weights are sums over images and pixels, whose errors add up as a random walk.

    In a group of two elements that are nearly the same, dx is a small difference of large numbers.
    """
    x, dout = (normal(*shape) * 2 + 1).astype(dtype), normal(*shape, dtype=dtype, seed=2)
    allowed = TOLERANCE[np.dtype(dtype)] * max(10 if x.size == 2 * shape[0] * groups else 1, (x.size / shape[1]) ** 0.5)
    check("group_norm_backward", x, normal(shape[1], dtype=dtype), dout, groups=groups, tolerance=allowed)


def test_gradients_are_those_of_the_forward_pass() -> None:
    rng = np.random.default_rng(0)
    x, dout, step = rng.standard_normal((3, 2, 6, 5))
    weight, bias = rng.standard_normal((2, 6))
    forward = sim.ops.operator("group_norm").reference
    dx, dweight, dbias = sim.ops.operator("group_norm_backward").reference(x, weight, dout, groups=3)
    for at, (gradient, turn) in enumerate(((dx, step), (dweight, step[0, :, 0]), (dbias, step[1, :, 0]))):
        moved = [[x, weight, bias], [x, weight, bias]]
        for sign, values in zip((1, -1), moved):
            values[at] = values[at] + sign * 1e-6 * turn
        slope = (forward(*moved[0], groups=3) - forward(*moved[1], groups=3)) / 2e-6
        assert np.sum(gradient * turn) == pytest.approx(np.sum(slope * dout), rel=1e-4)


def test_gradients_on_two_cores() -> None:
    x, dout = normal(2, 40, 6, 6), normal(2, 40, 6, 6, seed=2)
    check("group_norm_backward", x, normal(40), dout, groups=5, lnc=2, tolerance=2e-4)


def test_what_does_not_fit_on_chip_is_read_again() -> None:
    x = normal(1, 2, 120, 128 * 128, dtype=BF16)
    check("group_norm", x, normal(2, dtype=BF16), normal(2, dtype=BF16, seed=1), groups=1)


def test_two_cores_share_the_groups() -> None:
    x = normal(2, 40, 6, 6)
    check("group_norm", x, normal(40), normal(40, seed=1), groups=5, lnc=2)


def test_an_image_of_a_denoiser_streams_near_the_rate_of_hbm() -> None:
    x, vector = TensorSpec((2, 320, 64, 64), "bfloat16"), TensorSpec((320,), "bfloat16")
    run = sim.ops.launch("group_norm", x, vector, vector, values=False, groups=32)
    assert 2 * 2 * 2 * 320 * 64 * 64 / run.latency_ns > 0.6 * 358.4


def test_groups_that_do_not_divide_are_refused() -> None:
    x, vector = TensorSpec((1, 30, 4), "float32"), TensorSpec((30,), "float32")
    with pytest.raises(InputError, match="group_norm: groups: 32 does not divide 30 channels"):
        sim.ops.launch("group_norm", x, vector, vector, values=False)
