"""Routing of tokens to experts against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import sim.ops
from sim.errors import InputError
from sim.launch import TensorSpec
from tests.operators import BF16, check, normal


@pytest.mark.parametrize("normalize", [True, False], ids=["of the chosen", "of all"])
@pytest.mark.parametrize(("tokens", "experts", "k"), [(1, 8, 2), (5, 8, 8), (130, 32, 4), (300, 128, 8), (7, 60, 1)])
def test_topk_routing(tokens: int, experts: int, k: int, normalize: bool) -> None:
    check("topk_routing", normal(tokens, experts), k=k, normalize=normalize)


def test_scores_in_bf16_and_equal_ones_find_different_experts() -> None:
    logits = np.zeros((4, 16), BF16)
    logits[:, 3] = 1
    experts, weights = sim.ops.launch("topk_routing", logits, k=3).outputs
    assert (experts[:, 0] == 3).all()
    assert all(len(set(row)) == 3 for row in experts.tolist())
    assert np.allclose(weights.sum(axis=1), 1)


def test_two_cores_share_the_tokens() -> None:
    check("topk_routing", normal(300, 32), k=4, lnc=2)


@pytest.mark.parametrize(("experts", "k"), [(4, 2), (16, 9), (16, 0)])
def test_what_vector_engine_cannot_find_at_once_is_refused(experts: int, k: int) -> None:
    with pytest.raises(InputError, match=rf"topk_routing: {k} of {experts} experts .k may be 1 to 8"):
        sim.ops.launch("topk_routing", TensorSpec((8, experts), "float32"), values=False, k=k)
