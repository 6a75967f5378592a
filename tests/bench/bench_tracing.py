"""How fast a kernel's Python becomes a program: `pytest -n 0 tests/bench/bench_tracing.py`; no timed assertions.

The shipped matrix multiplication at 4096 x 4096, and one of the legacy API as NKIBench has them, are traced without
values. `functions` are calls of `nki.isa` and `nki.language` on the kernel's own lines; `calls` are all that those
lines ask of the emulator, so indexing, loops and operators of tiles and index tensors count too: the legacy API does
with them what the current one has functions for. With values, the time of the same products by NumPy alone stands
beside that of the emulator.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim import spec
from sim.launch import TensorSpec, _Tracing
from sim.nki import isa, language, shim
from sim.nki.legacy import language as legacy_language
from sim.program import ProgramBuilder

KERNELS = Path(__file__).resolve().parents[2] / "traces" / "kernels"
API = (language, isa, legacy_language)
SIZE = 4096
SMALL = 1024

LEGACY = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def matmul(left, right):
    k_size, m_size = left.shape
    n_size = right.shape[1]
    result = nl.ndarray((m_size, n_size), dtype=left.dtype, buffer=nl.shared_hbm)
    of_left, of_right, of_result = nl.mgrid[0:128, 0:128], nl.mgrid[0:128, 0:512], nl.mgrid[0:128, 0:512]
    for m in nl.affine_range(m_size // 128):
        lefts = nl.ndarray((k_size // 128, nl.par_dim(128), 128), dtype=left.dtype, buffer=nl.sbuf)
        for k in nl.affine_range(k_size // 128):
            lefts[k] = nl.load(left[k * 128 + of_left.p, m * 128 + of_left.x])
        for n in nl.affine_range(n_size // 512):
            total = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(k_size // 128):
                tile = nl.load(right[k * 128 + of_right.p, n * 512 + of_right.x])
                total[...] += nl.matmul(lefts[k], tile, transpose_x=True)
            nl.store(result[m * 128 + of_result.p, n * 512 + of_result.x], value=nl.copy(total, dtype=result.dtype))
    return result
"""


def traced(kernel: Any, arguments: tuple, values: bool) -> ProgramBuilder:
    tracing = _Tracing(ProgramBuilder(spec.device("trn2"), values), kernel, kernel.grid)
    with shim.in_place("trn2"):
        tracing.trace(arguments, {})
    return tracing.program


def calls(kernel: Any, launch: Callable[[], ProgramBuilder]) -> tuple[ProgramBuilder, int, int]:
    """What a launch built, and how many calls, and among them functions of the API, the kernel's own lines made."""
    made, functions, public = 0, 0, {name for module in API for name in dir(module)}

    def count(frame: Any, event: str, _: Any) -> None:
        nonlocal made, functions
        if event == "call" and frame.f_back.f_code is kernel.function.__code__:
            made += 1
            functions += frame.f_code.co_name in public

    sys.setprofile(count)
    try:
        return launch(), made, functions
    finally:
        sys.setprofile(None)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("generation", ["current", "legacy"])
def test_tracing_without_values(benchmark, tmp_path, generation):
    path = KERNELS / "matmul.py"
    if generation == "legacy":
        path = tmp_path / "legacy_matmul.py"
        path.write_text(LEGACY)
    kernel = sim.load(f"{path}::matmul")
    square = TensorSpec((SIZE, SIZE), "bfloat16")
    program, made, functions = calls(kernel, lambda: traced(kernel, (square, square), False))
    benchmark.pedantic(traced, (kernel, (square, square), False), rounds=5, warmup_rounds=1)
    benchmark.extra_info |= {"calls": made, "functions": functions, "instructions": len(program)}
    for name, count in (("calls", made), ("functions", functions)):
        benchmark.extra_info[f"{name}_per_second"] = round(count / benchmark.stats.stats.min)
    assert len(program) > SIZE


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("by", ["emulator", "numpy"])
def test_values_are_bound_by_the_products(benchmark, by):
    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((SMALL, SMALL)).astype(np.float32) for _ in range(2))
    kernel = sim.load(f"{KERNELS / 'matmul.py'}::matmul")
    tiles = [np.ascontiguousarray(right[:128, :512]), np.ascontiguousarray(left[:128, :128])]

    def products() -> None:
        for _ in range((SMALL // 128) ** 2 * SMALL // 512):
            tiles[1].T @ tiles[0]

    benchmark(products if by == "numpy" else lambda: traced(kernel, (left, right), True))
