"""Reductions, transposes and losses against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim.ops
from sim.errors import InputError
from sim.launch import TensorSpec
from tests.operators import BF16, check, normal

DTYPES = pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
REDUCED = [
    ((130, 70), 1),
    ((130, 70), 0),
    ((3, 140, 20), 1),
    ((3, 14, 20), (1, 2)),
    ((300,), 0),
    ((2, 9000), -1),
    ((3, 2, 5), (0, 1)),
]
TURNED = [
    ((130, 70), (1, 0)),
    ((3, 14, 20), (2, 1, 0)),
    ((3, 14, 20), (0, 2, 1)),
    ((3, 14, 20), (1, 0, 2)),
    ((2, 3, 4, 5), (3, 1, 0, 2)),
    ((5,), (0,)),
]


@DTYPES
@pytest.mark.parametrize("kind", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize(("shape", "axis"), REDUCED)
@pytest.mark.parametrize("lnc", [1, 2])
def test_reduce(shape: tuple, axis: int | tuple, kind: str, dtype: type, lnc: int) -> None:
    check("reduce", normal(*shape, dtype=dtype), kind=kind, axis=axis, lnc=lnc)


@DTYPES
@pytest.mark.parametrize(("shape", "axes"), TURNED)
@pytest.mark.parametrize("lnc", [1, 2])
def test_transpose_moves_every_bit(shape: tuple, axes: tuple, dtype: type, lnc: int) -> None:
    check("transpose", normal(*shape, dtype=dtype), axes=axes, lnc=lnc, tolerance=1e-30)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=2, max_size=4), st.randoms(use_true_random=False), st.booleans())
def test_any_order_of_axes(shape: list[int], random: object, single: bool) -> None:
    axes = list(range(len(shape)))
    random.shuffle(axes)
    check("transpose", normal(*shape, dtype=np.float32 if single else BF16), axes=tuple(axes), tolerance=1e-30)


@pytest.mark.parametrize("device", ["trn1", "trn3"])
def test_reductions_and_transposes_on_other_devices(device: str) -> None:
    check("transpose", normal(130, 200, dtype=BF16), device=device, tolerance=1e-30)
    check("reduce", normal(130, 200, dtype=BF16), kind="max", axis=0, device=device)


@DTYPES
@pytest.mark.parametrize(("rows", "words"), [(1, 5), (130, 300), (20, 9000)])
@pytest.mark.parametrize("lnc", [1, 2])
def test_cross_entropy_and_its_gradient(rows: int, words: int, dtype: type, lnc: int) -> None:
    logits = normal(rows, words, dtype=dtype, scale=3)
    labels = np.random.default_rng(rows).integers(0, words, rows).astype(np.int32)
    check("cross_entropy", logits, labels, lnc=lnc, tolerance=2e-5)
    check("cross_entropy", logits, labels, lse=True, tolerance=2e-5)
    _, sums = sim.ops.operator("cross_entropy").reference(logits, labels, lse=True)
    check("cross_entropy_backward", logits, labels, sums.astype(np.float32), normal(rows, seed=2), lnc=lnc)


def test_maxima_that_grow_from_chunk_to_chunk_are_rescaled() -> None:
    logits = np.linspace(-50, 90, 20000, dtype=np.float32)[None].repeat(3, 0)
    check("cross_entropy", logits, np.array([0, 10, 19999], np.int32))


def test_transposes_stream_near_the_rate_of_hbm() -> None:
    run = sim.ops.launch("transpose", TensorSpec((2048, 4096), "bfloat16"), values=False)
    assert 2 * 2 * 2048 * 4096 / run.latency_ns > 0.85 * 358.4


def test_arguments_that_do_not_fit_are_refused() -> None:
    x = TensorSpec((2, 3, 4), "bfloat16")
    with pytest.raises(InputError, match=r"axis: \(0, 2\), must be neighbours"):
        sim.ops.launch("reduce", x, axis=(0, 2), values=False)
    with pytest.raises(InputError, match=r"axes: \(0, 1\) is no order of 3 dimensions"):
        sim.ops.launch("transpose", x, axes=(0, 1), values=False)
    logits = TensorSpec((32768, 128256), "bfloat16")
    with pytest.raises(InputError, match="an address of 32 bits"):
        sim.ops.launch("cross_entropy", logits, TensorSpec((32768,), "int32"), values=False)
