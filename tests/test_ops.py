"""The registry of operators."""

from __future__ import annotations

import pytest

import sim.ops
from sim.errors import InputError, UnsupportedError
from sim.launch import TensorSpec
from sim.ops.operator import Work

X, W = TensorSpec((64, 256), "bfloat16"), TensorSpec((256, 512), "bfloat16")


def test_an_unknown_operator_is_named_with_those_spelled_alike() -> None:
    with pytest.raises(InputError, match=r"matmull: no such operator .*matmul"):
        sim.ops.operator("matmull")


def test_every_operator_has_a_kernel_or_says_why_not() -> None:
    assert len(sim.ops.OPERATORS) > 1
    for name, found in sim.ops.OPERATORS.items():
        assert found.name == name
        if found.missing is None:
            assert found.kernel.__name__ == name
        else:
            with pytest.raises(UnsupportedError, match=name):
                _ = found.kernel


def test_sparse_matmul_says_that_no_call_is_documented() -> None:
    with pytest.raises(UnsupportedError, match="sparse_matmul: NKI documents no call"):
        sim.ops.launch("sparse_matmul", X, W, values=False)


def test_work_counts_each_tensor_once() -> None:
    assert sim.ops.operator("matmul").work(X, W) == Work(
        flops=2 * 64 * 256 * 512, read_bytes=2 * (64 * 256 + 256 * 512), written_bytes=2 * 64 * 512
    )


def test_work_and_time_need_no_values() -> None:
    run = sim.ops.launch("matmul", X, W, values=False)
    assert run.outputs is None
    assert run.latency_ns > 0


def test_instructions_name_their_line_in_the_kernel() -> None:
    trace = sim.ops.launch("matmul", X, W, values=False).trace
    sources = {trace.strings[code] for code in trace.instructions.column("source")}
    assert all("sim/ops/kernels/" in source.replace("\\", "/") for source in sources if source)
    assert any("matmul.py" in source for source in sources if source)


def test_shapes_that_do_not_fit_together_are_refused_before_the_kernel_runs() -> None:
    with pytest.raises(InputError, match=r"matmul: w: shape \[300, 512\], contracts 300 values, x has 256"):
        sim.ops.launch("matmul", X, TensorSpec((300, 512), "bfloat16"), values=False)
    with pytest.raises(InputError, match="activation: 'gelo', must be one of gelu"):
        sim.ops.launch("matmul", X, W, values=False, activation="gelo")
