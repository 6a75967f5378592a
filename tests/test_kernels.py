"""The kernels in traces/kernels compute what NumPy computes, and take time."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import sim

KERNELS = Path(__file__).resolve().parents[1] / "traces" / "kernels"
BF16 = np.dtype(ml_dtypes.bfloat16)
TOLERANCE = {"float32": 2e-6, "bfloat16": 6e-3}
"""Largest error against the largest value: fp32 sums in another order; bf16 results and intermediates are rounded."""


def normal(*shape: int, dtype=np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def fp32(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def matmul_case(dtype):
    a_t, b = normal(256, 256, dtype=dtype), normal(256, 1024, dtype=dtype, seed=1)
    return "matmul.py::matmul", (a_t, b), fp32(a_t).T @ fp32(b)


def steps_case(name):
    def case(dtype):
        a_t, b = normal(256, 512, dtype=dtype), normal(256, 1024, dtype=dtype, seed=1)
        return f"matmul_steps.py::{name}", (a_t, b), fp32(a_t).T @ fp32(b)

    case.__name__ = f"{name}_case"
    return case


def softmax_case(dtype):
    x = normal(256, 1000, dtype=dtype)
    return "softmax.py::softmax", (x,), softmax(fp32(x))


def rmsnorm_case(dtype):
    x, weight = normal(256, 1000, dtype=dtype), normal(1, 1000, dtype=dtype, seed=1)
    scale = 1 / np.sqrt((fp32(x) ** 2).mean(axis=1, keepdims=True) + 1e-6)
    return "rmsnorm.py::rmsnorm", (x, weight), fp32(x) * scale * fp32(weight)


def attention_case(dtype):
    q_t, k_t = normal(128, 256, dtype=dtype), normal(128, 1024, dtype=dtype, seed=1)
    v = normal(1024, 128, dtype=dtype, seed=2)
    return "attention.py::attention", (q_t, k_t, v), softmax(fp32(q_t).T @ fp32(k_t) / 128**0.5) @ fp32(v)


def silu_multiply_case(dtype):
    gate, up = normal(256, 1000, dtype=dtype), normal(256, 1000, dtype=dtype, seed=1)
    return "silu_multiply.py::silu_multiply", (gate, up), fp32(gate) / (1 + np.exp(-fp32(gate))) * fp32(up)


def wasteful_case(dtype):
    a_t, b = normal(128, 64, dtype=dtype), normal(128, 256, dtype=dtype, seed=1)
    bias = normal(64, 256, dtype=dtype, seed=2)
    return "wasteful.py::wasteful_matmul", (a_t, b, bias), fp32(a_t).T @ fp32(b) + fp32(bias)


def tile_by_tile_case(dtype):
    _, inputs, expected = matmul_case(dtype)
    return "blocked_matmul.py::tile_by_tile", inputs, expected


def blocked_case(dtype):
    a_t, b = normal(1024, 256, dtype=dtype), normal(1024, 1024, dtype=dtype, seed=1)
    return "blocked_matmul.py::blocked", (a_t, b, 2), fp32(a_t).T @ fp32(b)


def legacy_silu_case(dtype):
    x = normal(128, 2, 1024, dtype=dtype)
    return "legacy_silu.py::silu", (x,), fp32(x) / (1 + np.exp(-fp32(x)))


STEPS = [steps_case(name) for name in ("every_tile", "in_blocks", "overlapped")]
CASES = [
    *STEPS,
    tile_by_tile_case,
    blocked_case,
    legacy_silu_case,
    matmul_case,
    softmax_case,
    rmsnorm_case,
    attention_case,
    silu_multiply_case,
    wasteful_case,
]


@pytest.mark.parametrize("device", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BF16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_kernel_agrees_with_numpy(case, dtype, device):
    name, inputs, expected = case(dtype)
    run = sim.run(sim.load(str(KERNELS / name)), *inputs, device=device)
    (got,) = run.outputs
    assert got.dtype == dtype
    assert np.abs(fp32(got) - expected).max() <= TOLERANCE[str(dtype)] * np.abs(expected).max()
    assert 0 < run.latency_ns < run.benchmark_ns <= run.total_ns
    assert not run.findings


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_time_does_not_depend_on_values(case):
    name, inputs, _ = case(BF16)
    kernel = sim.load(str(KERNELS / name))
    with_values = sim.run(kernel, *inputs)
    shapes = [sim.TensorSpec(i.shape, i.dtype) if isinstance(i, np.ndarray) else i for i in inputs]
    without = sim.run(kernel, *shapes, values=False)
    assert without.outputs is None
    assert without.latency_ns == with_values.latency_ns
    np.testing.assert_array_equal(without.trace.instructions.start_ps, with_values.trace.instructions.start_ps)


def test_an_accumulator_is_read_after_the_activation_that_filled_it():
    name, inputs, _ = softmax_case(BF16)
    trace = sim.run(sim.load(str(KERNELS / name)), *inputs).trace
    rows = trace.instructions
    opcode = [trace.strings[code] for code in rows.opcode.tolist()]
    filled = [start for start, what in zip(rows.start_ps.tolist(), opcode) if what == "ACTIVATE"]
    read = [start for start, what in zip(rows.start_ps.tolist(), opcode) if what == "ACTIVATION_READ_ACCUMULATOR"]
    assert len(read) == len(filled) == 2
    assert all(a < b for a, b in zip(filled, read))
