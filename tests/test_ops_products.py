"""Matrix products against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim.ops
from sim.launch import TensorSpec
from tests.operators import BF16, FP8, check, normal

DTYPES = pytest.mark.parametrize("dtype", [np.float32, BF16, FP8], ids=["fp32", "bf16", "fp8"])


def operands(m: int, k: int, n: int, dtype: type, transpose_x: bool, transpose_w: bool) -> tuple:
    x = normal(*((k, m) if transpose_x else (m, k)), dtype=dtype)
    w = normal(*((n, k) if transpose_w else (k, n)), dtype=dtype, scale=k**-0.5)
    return x, w


@DTYPES
@pytest.mark.parametrize("transpose_w", [False, True])
@pytest.mark.parametrize("transpose_x", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (5, 130, 7), (128, 256, 600), (130, 300, 1030)])
def test_matmul_in_every_layout(m: int, k: int, n: int, dtype: type, transpose_x: bool, transpose_w: bool) -> None:
    x, w = operands(m, k, n, dtype, transpose_x, transpose_w)
    check("matmul", x, w, transpose_x=transpose_x, transpose_w=transpose_w)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 300), st.integers(1, 400), st.integers(1, 1100), st.booleans(), st.booleans(), st.booleans())
def test_matmul_of_any_size(m: int, k: int, n: int, transpose_x: bool, transpose_w: bool, single: bool) -> None:
    x, w = operands(m, k, n, np.float32 if single else BF16, transpose_x, transpose_w)
    check("matmul", x, w, transpose_x=transpose_x, transpose_w=transpose_w)


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("activation", [None, "gelu", "gelu_tanh", "silu", "relu", "sigmoid"])
@pytest.mark.parametrize("biased", [False, True])
def test_matmul_with_bias_and_activation(activation: str | None, biased: bool, dtype: type) -> None:
    x, w = operands(70, 150, 520, dtype, False, False)
    check("matmul", x, w, normal(520, dtype=dtype) if biased else None, activation=activation)


def test_matmul_of_more_rows_than_psum_holds_products() -> None:
    check("matmul", *operands(1100, 256, 640, BF16, False, False))


@pytest.mark.parametrize("device", ["trn1", "inf2", "trn3"])
def test_matmul_on_other_devices(device: str) -> None:
    for dtype in (np.float32, BF16):
        check("matmul", *operands(130, 300, 700, dtype, False, True), transpose_w=True, device=device)


@DTYPES
def test_two_cores_share_the_columns(dtype: type) -> None:
    check("matmul", *operands(130, 300, 1100, dtype, False, False), lnc=2)


@DTYPES
@pytest.mark.parametrize("transposed", [False, True])
def test_batched_matmul(dtype: type, transposed: bool) -> None:
    x = normal(3, 200, 70, dtype=dtype) if transposed else normal(3, 70, 200, dtype=dtype)
    w = normal(3, 200, 150, dtype=dtype, scale=0.1)
    check("batched_matmul", x, w, transpose_x=transposed)


@pytest.mark.parametrize(
    ("m", "k", "n", "dtype"),
    [(2048, 4096, 14336, "bfloat16"), (2048, 14336, 4096, "bfloat16"), (2048, 4096, 6144, "float8_e4m3")],
)
def test_a_prefill_matmul_keeps_the_tensor_engine_busy(m: int, k: int, n: int, dtype: str) -> None:
    run = sim.ops.launch("matmul", TensorSpec((m, k), dtype), TensorSpec((k, n), dtype), values=False)
    peak = 2 * 128 * 128 * 2.4 * (2 if dtype.startswith("float8") else 1)
    assert 2 * m * k * n / run.latency_ns > 0.85 * peak


@pytest.mark.parametrize("m", [1, 16, 64])
@pytest.mark.parametrize(("k", "n"), [(4096, 14336), (14336, 4096)])
def test_a_decode_matmul_streams_its_weights_near_the_rate_of_hbm(m: int, k: int, n: int) -> None:
    x, w = TensorSpec((m, k), "bfloat16"), TensorSpec((k, n), "bfloat16")
    run = sim.ops.launch("matmul", x, w, values=False)
    work = sim.ops.operator("matmul").work(x, w)
    assert (work.read_bytes + work.written_bytes) / run.latency_ns > 0.85 * 358.4
