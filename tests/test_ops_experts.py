"""Experts against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim.ops
from sim.errors import InputError
from sim.launch import TensorSpec
from tests.operators import BF16, check, normal

DTYPES = pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])


def inputs(T: int, H: int, F: int, E: int, k: int, dtype: Any = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng((T, E, k))
    experts = np.stack([rng.permutation(E)[:k] for _ in range(T)]).astype(np.int32)
    weights = rng.random((T, k), np.float32)
    matrices = [normal(E, *shape, dtype=dtype, scale=shape[0] ** -0.5) for shape in ((H, F), (H, F), (F, H))]
    return [normal(T, H, dtype=dtype), *matrices, experts, weights / weights.sum(axis=1, keepdims=True)]


@DTYPES
@pytest.mark.parametrize(
    ("T", "H", "F", "E", "k"),
    [(1, 130, 70, 8, 2), (3, 64, 40, 16, 4), (20, 96, 130, 8, 2), (130, 64, 50, 4, 1), (600, 40, 64, 9, 3)],
    ids=str,
)
def test_expert_mlp(T: int, H: int, F: int, E: int, k: int, dtype: type) -> None:
    """The hidden values are rounded to bf16 too."""
    check("expert_mlp", *inputs(T, H, F, E, k, dtype), tolerance=2e-5 if dtype is np.float32 else 1.5e-2)


def test_all_tokens_may_choose_the_same_expert() -> None:
    x, gate, up, down, experts, weights = inputs(300, 32, 16, 8, 1)
    check("expert_mlp", x, gate, up, down, np.full_like(experts, 5), weights, activation="gelu")


@pytest.mark.parametrize("T", [2, 30, 300])
def test_two_cores_share_the_work(T: int) -> None:
    check("expert_mlp", *inputs(T, 64, 200, 8, 2), lnc=2)


def test_few_tokens_read_experts_at_the_rate_of_hbm() -> None:
    specs = [TensorSpec(shape, "bfloat16") for shape in ((1, 2048), *[(8, 2048, 4096)] * 2, (8, 4096, 2048))]
    specs += [TensorSpec((1, 2), "int32"), TensorSpec((1, 2), "float32")]
    run, work = sim.ops.launch("expert_mlp", *specs, values=False), sim.ops.operator("expert_mlp").work(*specs)
    assert work.read_bytes == pytest.approx(2 * 3 * 2 * 2048 * 4096, rel=1e-3)
    assert work.read_bytes / run.latency_ns > 0.7 * 358.4


def test_shapes_that_do_not_fit_are_refused() -> None:
    given = [TensorSpec(one.shape, one.dtype) for one in inputs(4, 8, 8, 4, 2)]
    given[3] = TensorSpec((4, 9, 8), "float32")
    with pytest.raises(InputError, match=r"expert_mlp: down: shape \[4, 9, 8\], must be \[4, 8, 8\]"):
        sim.ops.launch("expert_mlp", *given, values=False)
