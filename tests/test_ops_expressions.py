"""Expressions of several elementwise functions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import sim.ops
from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.definitions.expressions import FUNCTIONS, INTEGERS
from tests.operators import BF16, check, normal

POSITIVE = ("log", "sqrt", "rsqrt", "reciprocal", "pow", "mod", "fmod", "div")
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert")
DTYPES = pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["fp32", "bf16"])


@pytest.mark.parametrize("kind", [name for name in FUNCTIONS if name not in BITS])
def test_every_function_is_what_numpy_has(kind: str) -> None:
    count = FUNCTIONS[kind][0]
    tensors = [normal(300, 17, seed=at) for at in range(count)]
    if kind in POSITIVE:
        tensors = [0.5 + np.abs(one) for one in tensors]
    if kind in ("sin", "arctan"):
        tensors = [np.clip(one, -1.5, 1.5) for one in tensors]
    check("expression", *tensors, steps=((kind, "fp32", *range(count)),))


@pytest.mark.parametrize("kind", BITS)
def test_bits_are_those_of_numpy(kind: str) -> None:
    x, y = np.arange(1000, dtype=np.int32), (np.arange(1000) % 7).astype(np.int32)
    tensors = (x,) if kind == "invert" else (x, y)
    check("expression", *tensors, steps=((kind, "int32", *range(len(tensors))),), tolerance=1e-6)


@DTYPES
def test_a_chain_reads_each_tensor_once_and_writes_once(dtype: type) -> None:
    x, y = normal(300, 170, dtype=dtype), normal(170, dtype=dtype, seed=2)
    steps = (("mul", "fp32", 0, 1), ("tanh", "fp32", 2), ("less", "uint8", 3, 0.2), ("select", "fp32", 4, 0, -1.5),
             ("sub", "fp32", 1.0, 5))  # fmt: skip
    check("expression", x, y, steps=steps)
    work = sim.ops.operator("expression").work(x, y, steps=steps)
    assert (work.flops, work.read_bytes) == (5 * x.size, x.nbytes + y.nbytes)
    assert work.written_bytes == x.nbytes


def test_a_chain_takes_less_time_than_its_parts() -> None:
    x = TensorSpec((4096, 1024), BF16)
    steps = (("mul", "fp32", 0, 0.5), ("exp", "fp32", 1), ("add", "fp32", 2, 0))
    whole = sim.ops.launch("expression", x, steps=steps, values=False).latency_ns
    parts = [("mul", {"scalar": 0.5}, (x,)), ("exp", {}, (x,)), ("add", {}, (x, x))]
    alone = sum(
        sim.ops.launch("elementwise", *given, kind=kind, values=False, **more).latency_ns for kind, more, given in parts
    )
    assert whole < 0.6 * alone


def test_shapes_broadcast_and_long_chains_fit_on_chip() -> None:
    tensors = [normal(*shape, seed=at) for at, shape in enumerate([(3, 130, 70), (3, 1, 70), (130, 1), (1,)])]
    steps = tuple(("add", "fp32", 0 if at == 0 else 3 + at, at % 4) for at in range(20))
    check("expression", *tensors, steps=steps)


def test_whole_numbers_wrap_around() -> None:
    x = np.array([2**32 - 1, 5, 2**31], np.uint32)
    found = sim.ops.operator("expression").reference(x, steps=(("add", "uint32", 0, 7.0), ("mul", "uint32", 1, 3.0)))
    assert found.tolist() == [18, 36, (3 * (2**31 + 7)) % 2**32]
    assert set(INTEGERS) >= {"uint32", "int32"}


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ((), "none"),
        ((("mul", "fp32", 0),), "takes 2 operands"),
        ((("cosecant", "fp32", 0),), "cosecant"),
        ((("mul", "fp64", 0, 0),), "fp64"),
        ((("mul", "fp32", 0, 1),), "does not come before it"),
        ((("mul", "fp32", 1.0, 2.0),), "numbers alone"),
    ],
)
def test_faulty_steps_are_told(steps: tuple, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        sim.ops.launch("expression", normal(4, 4), steps=steps)
