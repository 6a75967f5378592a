"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import dtypes
from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_shape, check_word
from sim.ops.functions import ACTIVATIONS, wide
from sim.ops.operator import Operator, itemsize

Array = np.ndarray


def _turned(shape: tuple[int, ...], transposed: bool) -> tuple[int, int]:
    return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])


def _transposed(x: Array, transposed: bool) -> Array:
    return np.swapaxes(wide(x), -1, -2) if transposed else wide(x)


def result_spec(x: TensorSpec, shape: tuple[int, ...]) -> TensorSpec:
    """fp8 would lose most of a sum: its products are bf16."""
    return TensorSpec(shape, dtypes.bfloat16 if itemsize(x) == 1 else x.dtype)


def matmul(
    x: Array,
    w: Array,
    bias: Array | None = None,
    transpose_x: bool = False,
    transpose_w: bool = False,
    activation: str | None = None,
) -> Array:
    """x [M, K] @ w [K, N] -> [M, N]"""
    out = _transposed(x, transpose_x) @ _transposed(w, transpose_w)
    if bias is not None:
        out = out + wide(bias)
    return ACTIVATIONS[activation](out) if activation else out


def _matmul_outputs(
    x: TensorSpec,
    w: TensorSpec,
    bias: TensorSpec | None = None,
    transpose_x: bool = False,
    transpose_w: bool = False,
    activation: str | None = None,
) -> tuple[TensorSpec, ...]:
    check_shape("matmul", "x", x, ("M", "K"))
    check_shape("matmul", "w", w, ("K", "N"))
    (m, k), (k_of_w, n) = _turned(x.shape, transpose_x), _turned(w.shape, transpose_w)
    if k != k_of_w:
        raise InputError(f"matmul: w: shape {list(w.shape)}, contracts {k_of_w} values, x has {k}")
    if bias is not None:
        check_shape("matmul", "bias", bias, (n,))
    if activation:
        check_word("matmul", "activation", activation, ACTIVATIONS)
    return (result_spec(x, (m, n)),)


def _matmul_flops(x: TensorSpec, w: TensorSpec, *rest: Any, transpose_x: bool = False, **scalars: Any) -> int:
    (m, k) = _turned(x.shape, transpose_x)
    (out,) = _matmul_outputs(x, w, *rest, transpose_x=transpose_x, **scalars)
    return 2 * m * k * out.shape[1]


def batched_matmul(x: Array, w: Array, transpose_x: bool = False, transpose_w: bool = False) -> Array:
    """x [B, M, K] @ w [B, K, N] -> [B, M, N]"""
    return _transposed(x, transpose_x) @ _transposed(w, transpose_w)


def _batched_outputs(
    x: TensorSpec, w: TensorSpec, transpose_x: bool = False, transpose_w: bool = False
) -> tuple[TensorSpec, ...]:
    check_shape("batched_matmul", "x", x, ("B", "M", "K"))
    check_shape("batched_matmul", "w", w, (x.shape[0], "K", "N"))
    (m, k), (k_of_w, n) = _turned(x.shape, transpose_x), _turned(w.shape, transpose_w)
    if k != k_of_w:
        raise InputError(f"batched_matmul: w: shape {list(w.shape)}, contracts {k_of_w} values, x has {k}")
    return (result_spec(x, (x.shape[0], m, n)),)


def _batched_flops(x: TensorSpec, w: TensorSpec, transpose_x: bool = False, transpose_w: bool = False) -> int:
    (_, k), (out,) = _turned(x.shape, transpose_x), _batched_outputs(x, w, transpose_x, transpose_w)
    return 2 * k * out.shape[0] * out.shape[1] * out.shape[2]


def sparse_matmul(x: Array, w: Array) -> Array:
    """x [M, K] @ w [K, N], of whose values at most 4 in 16 neighbours along K are not 0."""
    return matmul(x, w)


OPERATORS = (
    Operator("matmul", "matmul.py", matmul, _matmul_outputs, _matmul_flops),
    Operator("batched_matmul", "matmul.py", batched_matmul, _batched_outputs, _batched_flops),
    Operator(
        "sparse_matmul",
        "matmul.py",
        sparse_matmul,
        _matmul_outputs,
        _matmul_flops,
        missing="NKI documents no call for structured sparsity: no kernel can reach the 4:16 rate",
    ),
)
