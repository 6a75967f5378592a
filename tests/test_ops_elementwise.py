"""Elementwise operators against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

import sim.ops
from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.functions import BINARY, UNARY
from tests.operators import BF16, check, normal

DTYPES = pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])
POSITIVE = ("log", "sqrt", "rsqrt", "reciprocal", "pow")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def positive(kind: str, *shape: int, dtype: type, seed: int = 0) -> np.ndarray:
    """Values within the range of a function."""
    x = normal(*shape, dtype=np.float32, seed=seed)
    if kind == "sin":
        x = np.clip(x, -3, 3)
    return (0.5 + np.abs(x) if kind in POSITIVE else x).astype(dtype)


@DTYPES
@pytest.mark.parametrize("kind", list(UNARY))
def test_functions_of_one_tensor(kind: str, dtype: type) -> None:
    check("elementwise", positive(kind, 3, 170, dtype=dtype), kind=kind)


@DTYPES
@pytest.mark.parametrize("kind", list(BINARY))
def test_functions_of_two_tensors(kind: str, dtype: type) -> None:
    x, y = positive(kind, 3, 170, dtype=dtype), positive(kind, 3, 170, dtype=dtype, seed=1)
    y = (np.sign(y.astype(float)) * (0.5 + np.abs(y.astype(float)))).astype(dtype) if kind == "div" else y
    y[0, :80] = x[0, :80]
    check("elementwise", x, y, kind=kind)


@DTYPES
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "div", "max", "min", "pow", "less"])
def test_functions_of_a_tensor_and_a_number(kind: str, dtype: type) -> None:
    check("elementwise", positive(kind, 300, 7, dtype=dtype), kind=kind, scalar=1.5)


@settings(max_examples=40, deadline=None)
@given(mutually_broadcastable_shapes(num_shapes=2, min_dims=1, max_dims=4, min_side=1, max_side=9), st.booleans())
def test_shapes_broadcast_as_those_of_numpy(shapes: tuple, single: bool) -> None:
    dtype = np.float32 if single else BF16
    one, other = shapes.input_shapes
    check("elementwise", normal(*one, dtype=dtype), normal(*other, dtype=dtype, seed=1), kind="sub")


@pytest.mark.parametrize(
    ("one", "other"), [((300, 700), (700,)), ((20000, 3), (3,)), ((3, 130, 70), (3, 1, 70)), ((300, 70), (300, 1))]
)
def test_large_tensors_broadcast(one: tuple, other: tuple) -> None:
    check("elementwise", normal(*one), normal(*other), kind="mul")


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40000), st.integers(1, 2))
def test_any_number_of_elements(count: int, lnc: int) -> None:
    check("elementwise", normal(count, dtype=BF16), normal(count, dtype=BF16, seed=1), kind="add", lnc=lnc)


@pytest.mark.parametrize("kind", COMPARISONS)
def test_comparisons_give_bytes_when_asked(kind: str) -> None:
    x, y = normal(5, 30), normal(5, 30, seed=1)
    y[:, :10] = x[:, :10]
    check("elementwise", x, y, kind=kind, dtype=np.uint8)


@pytest.mark.parametrize(("source", "target"), [(np.float32, BF16), (BF16, np.float32)])
def test_cast(source: type, target: type) -> None:
    check("cast", normal(3, 700, dtype=source), dtype=target, tolerance=1e-2 if target is BF16 else 1e-7)


@pytest.mark.parametrize("kind", ["add", "gelu", "silu_multiply", "div"])
def test_streams_near_the_rate_of_hbm(kind: str) -> None:
    x = TensorSpec((2048, 4096), "bfloat16")
    inputs = (x,) if kind == "gelu" else (x, x)
    run, work = sim.ops.launch("elementwise", *inputs, kind=kind, values=False), sim.ops.operator("elementwise")
    moved = work.work(*inputs, kind=kind)
    assert (moved.read_bytes + moved.written_bytes) / run.latency_ns > 0.9 * 358.4


def test_arguments_that_do_not_fit_are_refused() -> None:
    x, y = TensorSpec((4, 5), "bfloat16"), TensorSpec((4, 6), "bfloat16")
    with pytest.raises(InputError, match=r"y: shape \[4, 6\] does not broadcast with \[4, 5\]"):
        sim.ops.launch("elementwise", x, y, kind="add", values=False)
    with pytest.raises(InputError, match="add takes y or scalar"):
        sim.ops.launch("elementwise", x, kind="add", values=False)
    with pytest.raises(InputError, match="kind: 'plus', must be one of"):
        sim.ops.launch("elementwise", x, x, kind="plus", values=False)
