"""Attention against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim.ops
from sim.errors import InputError
from sim.launch import TensorSpec
from tests.operators import BF16, check, errors, normal

DTYPES = pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
KINDS = [{}, {"causal": True}, {"causal": True, "window": 70}, {"causal": True, "lse": True, "scale": 0.3}]
SHAPES = [
    (1, 1, 1, 140, 140, 256),
    (1, 2, 1, 130, 130, 64),
    (1, 1, 1, 5, 300, 128),
    (1, 1, 1, 150, 1300, 32),
    (2, 2, 2, 1, 1, 16),
]


def operands(B: int, Hq: int, Hkv: int, S: int, T: int, D: int, dtype: type) -> list[np.ndarray]:
    heads = ((Hq, S), (Hkv, T), (Hkv, T))
    return [normal(B, count, length, D, dtype=dtype, seed=i) for i, (count, length) in enumerate(heads)]


@DTYPES
@pytest.mark.parametrize("kind", KINDS, ids=["full", "causal", "window", "with lse"])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 2, 1, 130, 1100, 512)])
def test_attention(shape: tuple, kind: dict[str, Any], dtype: type) -> None:
    check("attention", *operands(*shape, dtype), **kind)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 200), st.integers(0, 200), st.sampled_from([8, 64, 160]), st.booleans(), st.integers(0, 90))
def test_attention_of_any_size(queries: int, more: int, depth: int, causal: bool, window: int) -> None:
    inputs = operands(1, 2, 1, queries, queries + more, depth, BF16)
    check("attention", *inputs, causal=causal, window=window if causal and window else None)


def test_rows_whose_maximum_grows_from_block_to_block_are_rescaled() -> None:
    q, k, v = operands(1, 1, 1, 130, 2500, 32, np.float32)
    k *= np.linspace(0.1, 60, 2500, dtype=np.float32)[:, None]
    check("attention", q, k, v, tolerance=1e-3)


def test_large_scores_do_not_overflow() -> None:
    q, k, v = operands(1, 1, 1, 20, 300, 64, np.float32)
    assert max(errors("attention", 40 * q, k, v, causal=True)) < 1e-4


@pytest.mark.parametrize(("device", "lnc"), [("trn1", 1), ("trn3", 1), ("trn2", 2)])
def test_attention_on_other_devices_and_two_cores(device: str, lnc: int) -> None:
    check("attention", *operands(1, 4, 2, 130, 150, 64, BF16), causal=True, device=device, lnc=lnc)


def test_causal_attention_leaves_out_what_nobody_sees() -> None:
    inputs = [TensorSpec((1, 1, 2048, 128), "bfloat16")] * 3
    full, causal, window = (
        sim.ops.launch("attention", *inputs, values=False, **kind).latency_ns
        for kind in ({}, {"causal": True}, {"causal": True, "window": 256})
    )
    assert window < 0.75 * causal < 0.75 * 0.75 * full


def test_work_counts_the_pairs_that_are_seen() -> None:
    inputs = [TensorSpec((1, 1, 4, 2), "bfloat16")] * 3
    found = sim.ops.operator("attention")
    assert found.work(*inputs).flops == 2 * 16 * 4
    assert found.work(*inputs, causal=True).flops == 2 * 10 * 4
    assert found.work(*inputs, causal=True, window=2).flops == 2 * 7 * 4


def test_heads_and_windows_that_do_not_fit_are_refused() -> None:
    q, k = TensorSpec((1, 3, 8, 16), "bfloat16"), TensorSpec((1, 2, 8, 16), "bfloat16")
    with pytest.raises(InputError, match="k: 2 heads, q has 3, which must be a multiple"):
        sim.ops.launch("attention", q, k, k, values=False)
    with pytest.raises(InputError, match="window: 4, only a causal query has one"):
        sim.ops.launch("attention", k, k, k, values=False, window=4)


def paged(B: int, Hq: int, Hkv: int, page: int, pages: int, D: int, dtype: type) -> list[np.ndarray]:
    """Inputs of decode_attention, pages in no order, lengths of all kinds."""
    rng, held = np.random.default_rng(B), B * pages + 3
    table = rng.permutation(held)[: B * pages].reshape(B, pages).astype(np.int32)
    lengths = rng.integers(1, pages * page + 1, B).astype(np.int32)
    caches = [normal(held, Hkv, page, D, dtype=dtype, seed=i) for i in range(2)]
    return [normal(B, Hq, D, dtype=dtype), *caches, table, lengths]


PAGED = [
    (1, 2, 1, 16, 3, 64),
    (3, 4, 2, 16, 20, 32),
    (2, 8, 8, 4, 5, 16),
    (1, 4, 2, 128, 2, 128),
    (1, 4, 2, 16, 4, 256),
    (2, 128, 1, 16, 2, 32),
    (1, 16, 16, 16, 9, 160),
]


@DTYPES
@pytest.mark.parametrize("shape", [*PAGED, (1, 8, 2, 16, 150, 64)])
def test_decode_attention(shape: tuple, dtype: type) -> None:
    check("decode_attention", *paged(*shape, dtype))


@pytest.mark.parametrize(("device", "lnc"), [("trn1", 1), ("trn3", 1), ("trn2", 2)])
def test_decode_attention_on_other_devices_and_two_cores(device: str, lnc: int) -> None:
    check("decode_attention", *paged(3, 4, 2, 16, 20, 32, BF16), device=device, lnc=lnc, scale=0.2)


def test_decode_attention_streams_its_caches_near_the_rate_of_hbm() -> None:
    specs = [TensorSpec((16, 32, 128), "bfloat16"), *[TensorSpec((4096, 8, 16, 128), "bfloat16")] * 2]
    specs += [TensorSpec((16, 256), "int32"), TensorSpec((16,), "int32")]
    run, work = sim.ops.launch("decode_attention", *specs, values=False), sim.ops.operator("decode_attention")
    assert work.work(*specs).read_bytes == pytest.approx(2 * 2 * 16 * 4096 * 8 * 128, rel=1e-3)
    assert work.work(*specs).read_bytes / run.latency_ns > 0.8 * 358.4


@DTYPES
@pytest.mark.parametrize("kind", KINDS[:3], ids=["full", "causal", "window"])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 1, 1, 200, 200, 160)])
def test_gradients_of_attention(shape: tuple, kind: dict[str, Any], dtype: type) -> None:
    q, k, v = operands(*shape, dtype)
    out, lse = sim.ops.operator("attention").reference(q, k, v, lse=True, **kind)
    dout = normal(*q.shape, dtype=dtype, seed=5)
    check("attention_backward", q, k, v, out.astype(dtype), dout, lse.astype(np.float32), **kind)


@pytest.mark.parametrize(("device", "lnc"), [("trn1", 1), ("trn3", 1), ("trn2", 2)])
def test_gradients_on_other_devices_and_two_cores(device: str, lnc: int) -> None:
    q, k, v = operands(1, 4, 2, 130, 150, 64, BF16)
    out, lse = sim.ops.operator("attention").reference(q, k, v, lse=True, causal=True)
    inputs = (q, k, v, out.astype(BF16), normal(*q.shape, dtype=BF16, seed=5), lse.astype(np.float32))
    check("attention_backward", *inputs, causal=True, device=device, lnc=lnc)


def test_gradients_are_those_of_the_forward_pass() -> None:
    q, k, v = operands(1, 2, 1, 3, 5, 4, np.float64)
    steps, dout = operands(1, 2, 1, 3, 5, 4, np.float64), normal(1, 2, 3, 4, dtype=np.float64, seed=9)
    forward, kind = sim.ops.operator("attention").reference, {"causal": True}
    out, lse = forward(q, k, v, lse=True, **kind)
    gradients = sim.ops.operator("attention_backward").reference(q, k, v, out, dout, lse, **kind)
    for which in range(3):
        ahead, behind = [q, k, v], [q, k, v]
        ahead[which] = ahead[which] + 1e-6 * steps[which]
        behind[which] = behind[which] - 1e-6 * steps[which]
        slope = (forward(*ahead, **kind) - forward(*behind, **kind)) / 2e-6
        assert np.sum(gradients[which] * steps[which]) == pytest.approx(np.sum(slope * dout), rel=1e-5)


def test_two_cores_share_the_heads_of_one_sequence() -> None:
    shapes = [((1, 32, 128), "bfloat16"), *[((256, 8, 16, 128), "bfloat16")] * 2, ((1, 256), "int32"), ((1,), "int32")]
    specs = [TensorSpec(*one) for one in shapes]
    one, two = (sim.ops.launch("decode_attention", *specs, values=False, lnc=lnc).latency_ns for lnc in (1, 2))
    assert two < 0.75 * one
