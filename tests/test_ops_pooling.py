"""Pooling and upsampling against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import sim.ops
from sim.errors import InputError
from sim.launch import TensorSpec
from tests.operators import BF16, check, normal

DTYPES = pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
WINDOWS = [
    ((1, 3, 8, 10), {"window": 2}),
    ((2, 70, 9, 11), {"window": 3, "stride": 2, "padding": 1}),
    ((1, 1, 40, 3), {"window": (5, 2), "stride": (1, 3), "padding": (2, 1)}),
    ((1, 5, 7, 7), {"window": 7}),
    ((1, 2, 6, 6), {"window": 1, "stride": 2}),
    ((1, 2, 5, 5), {"window": 2, "stride": 3}),
    ((1, 2, 300, 9), {"window": 3, "stride": 1, "padding": 1}),
    ((1, 20, 9, 9), {"window": 3, "stride": 1, "padding": 1}),
]


@DTYPES
@pytest.mark.parametrize(("shape", "scalars"), WINDOWS, ids=str)
@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d"])
def test_pooling(name: str, shape: tuple[int, ...], scalars: dict, dtype: type) -> None:
    check(name, normal(*shape, dtype=dtype) - 1, **scalars)


def test_pooling_in_bands_of_rows_on_two_cores() -> None:
    check("max_pool2d", normal(1, 3, 200, 300), window=3, stride=1, padding=1, lnc=2)


@DTYPES
@pytest.mark.parametrize(
    ("shape", "scale"), [((2, 3, 5, 7), 2), ((1, 200, 3, 4), (3, 1)), ((1, 1, 1, 1), (1, 4))], ids=str
)
def test_upsample(shape: tuple[int, ...], scale: int | tuple[int, int], dtype: type) -> None:
    check("upsample", normal(*shape, dtype=dtype), scale=scale)


def test_upsampling_on_two_cores() -> None:
    check("upsample", normal(1, 7, 9, 11), scale=2, lnc=2)


@pytest.mark.parametrize(
    ("name", "scalars", "moved"), [("upsample", {"scale": 2}, 5), ("max_pool2d", {"window": 2}, 1.25)]
)
def test_images_stream_near_the_rate_of_hbm(name: str, scalars: dict, moved: float) -> None:
    x = TensorSpec((2, 640, 64, 64), "bfloat16")
    run = sim.ops.launch(name, x, values=False, **scalars)
    assert moved * 2 * 2 * 640 * 64 * 64 / run.latency_ns > 0.6 * 358.4


def test_windows_that_do_not_fit_are_refused() -> None:
    x = TensorSpec((1, 4, 8, 8), "float32")
    with pytest.raises(InputError, match="max_pool2d: windows of 9, 9 apart, do not fit into 8 with padding 0"):
        sim.ops.launch("max_pool2d", x, values=False, window=9)
    with pytest.raises(InputError, match="upsample: scale: 0, must be 1 or more"):
        sim.ops.launch("upsample", x, values=False, scale=0)
