"""The way of tokens to experts."""

from __future__ import annotations

import numpy as np

from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_shape
from sim.ops.functions import wide
from sim.ops.operator import Operator, each

Array = np.ndarray
FOUND = 8
"""Values that VectorE finds at once."""


def topk_routing(logits: Array, k: int = 2, normalize: bool = True) -> tuple[Array, Array]:
    """logits [T, E]; equal scores in any order"""
    scores = wide(logits)
    experts = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    chosen = np.take_along_axis(powers, experts, axis=1)
    among = chosen if normalize else powers
    return experts, chosen / among.sum(axis=1, keepdims=True)


def _outputs(logits: TensorSpec, k: int = 2, normalize: bool = True) -> tuple[TensorSpec, ...]:
    check_shape("topk_routing", "logits", logits, ("T", "E"))
    tokens, experts = logits.shape
    if not 1 <= k <= FOUND or experts < FOUND:
        raise InputError(f"topk_routing: {k} of {experts} experts", remedy="k may be 1 to 8, of at least 8 experts")
    return TensorSpec((tokens, k), "uint32"), TensorSpec((tokens, k), "float32")


OPERATORS = (Operator("topk_routing", "routing.py", topk_routing, _outputs, each(4)),)
