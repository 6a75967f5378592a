"""Rotary positions, and rows by their number, against NumPy."""

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


def numbers(count: int, below: int, dtype: type = np.int32) -> np.ndarray:
    return np.random.default_rng(count).integers(0, below, count).astype(dtype)


@DTYPES
@pytest.mark.parametrize(("count", "heads", "depth"), [(1, 2, 4), (130, 3, 64), (5, 8, 128)])
@pytest.mark.parametrize("lnc", [1, 2])
def test_rope(count: int, heads: int, depth: int, dtype: type, lnc: int) -> None:
    """Products are rounded to bf16 before they are added, as frameworks do it."""
    angles = normal(count, depth // 2)
    x, cos, sin = normal(count, heads, depth, dtype=dtype), np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
    check("rope", x, cos, sin, lnc=lnc, tolerance=2e-5 if dtype is np.float32 else 2e-2)


@DTYPES
@pytest.mark.parametrize("count", [1, 130])
def test_embedding_and_gather_give_the_rows_as_they_are(count: int, dtype: type) -> None:
    check("embedding", numbers(count, 50), normal(50, 300, dtype=dtype), tolerance=1e-30)
    check("gather", normal(50, 3, 40, dtype=dtype), numbers(count, 50, np.uint32), tolerance=1e-30)
    check("gather", normal(50, dtype=dtype), numbers(count, 50), tolerance=1e-30, lnc=2)


def test_rows_longer_than_a_tile_are_gathered_in_parts() -> None:
    check("gather", normal(5, 20000), numbers(7, 5), tolerance=1e-30)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 4), st.sampled_from([1, 2, 5, 8]), st.sampled_from([1, 4, 16]), st.integers(1, 200), st.booleans()
)
def test_cache_update_writes_its_slots_and_no_others(
    pages: int, heads: int, page: int, count: int, two_cores: bool
) -> None:
    count = min(count, pages * page)
    slots = np.random.default_rng(count).permutation(pages * page)[:count].astype(np.int32)
    cache, new = normal(pages, heads, page, 8, dtype=BF16), normal(count, heads, 8, dtype=BF16, seed=1)
    expected = sim.ops.operator("kv_cache_update").reference(cache.copy(), new, slots)
    run = sim.ops.launch("kv_cache_update", cache, new, slots, lnc=2 if two_cores else 1)
    assert np.array_equal(run.outputs[0].astype(float), expected)
    assert np.array_equal(cache.astype(float), expected), "the caller's cache is the one that is written"
    assert run.findings == ()


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([1, 2, 5]), st.sampled_from([1, 4, 16]), st.integers(1, 200), st.booleans())
def test_a_prompt_fills_its_pages_and_no_others(heads: int, page: int, count: int, two_cores: bool) -> None:
    pages = -(-count // page) + 2
    order = np.random.default_rng(count).permutation(pages).astype(np.int32)
    slots = (order[:, None] * page + np.arange(page, dtype=np.int32)).reshape(-1)[:count]
    cache, new = normal(pages, heads, page, 8, dtype=BF16), normal(count, heads, 8, dtype=BF16, seed=1)
    expected = sim.ops.operator("kv_cache_update").reference(cache.copy(), new, slots)
    run = sim.ops.launch("kv_cache_update", cache, new, slots, lnc=2 if two_cores else 1, in_pages=True)
    assert np.array_equal(run.outputs[0].astype(float), expected)
    assert run.findings == ()


def test_a_prompt_is_put_in_pages_faster_than_token_by_token() -> None:
    cache, new = TensorSpec((20, 2, 128, 128), "bfloat16"), TensorSpec((2048, 2, 128), "bfloat16")
    each, whole = (
        sim.ops.launch("kv_cache_update", cache, new, TensorSpec((2048,), "int32"), values=False, in_pages=pages)
        for pages in (False, True)
    )
    first, last = ((run.trace.meta.window[1] - run.trace.meta.window[0]) for run in (whole, each))
    assert first < last / 2


def test_moved_rows_alone_are_counted_as_work() -> None:
    table, ids = TensorSpec((128256, 4096), "bfloat16"), TensorSpec((16,), "int32")
    work = sim.ops.operator("embedding").work(ids, table)
    assert (work.read_bytes, work.written_bytes) == (16 * 8192 + 64, 16 * 8192)
    cache, new = TensorSpec((64, 8, 16, 128), "bfloat16"), TensorSpec((16, 8, 128), "bfloat16")
    work = sim.ops.operator("kv_cache_update").work(cache, new, ids)
    assert (work.read_bytes, work.written_bytes) == (2 * 16 * 8 * 128 + 64, 2 * 16 * 8 * 128)


def test_embedding_streams_near_the_rate_of_hbm() -> None:
    table, ids = TensorSpec((128256, 4096), "bfloat16"), TensorSpec((2048,), "int32")
    run = sim.ops.launch("embedding", ids, table, values=False)
    assert 2 * 2 * 2048 * 4096 / run.latency_ns > 0.85 * 358.4


def test_what_cannot_be_addressed_is_refused() -> None:
    cache, new = TensorSpec((4, 2, 12, 8), "bfloat16"), TensorSpec((3, 2, 8), "bfloat16")
    with pytest.raises(InputError, match="12 slots a page, must be a power of two"):
        sim.ops.launch("kv_cache_update", cache, new, TensorSpec((3,), "int32"), values=False)
    with pytest.raises(InputError, match="ids: dtype float32, must be int32 or uint32"):
        sim.ops.launch("embedding", TensorSpec((3,), "float32"), TensorSpec((9, 8), "bfloat16"), values=False)
