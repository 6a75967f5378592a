"""Loop fusion: loops that can run together do, iteration by iteration, and compute what they did."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.compiler import Options, fuse, rename, residency, rewrite
from sim.nki import isa, language
from sim.nki.kernel import Kernel
from sim.program import Program
from sim.retiming import on_device
from tests.naive.meaning import written

ROWS, INNER, PITCH = 4, 3, 4 * 512
SMALL, LARGE = PITCH, 1 << 20
"""Bytes a partition: a memory of which the tiles of two loops take more than half, and one in which they are few."""


def changed(source, factor):
    made = language.ndarray((128, 512), language.float32)
    isa.tensor_scalar(made, source, language.multiply, factor)
    return made


def chain(x, out, then):
    """A tile for each row, and then what `then` says of each row uses."""
    made = [None] * ROWS
    for row in language.affine_range(ROWS):
        made[row] = changed(language.load(x[row]), 2.0)
    for row in language.affine_range(ROWS):
        language.store(out[row], changed(made[then(row)], 3.0))


def same_row(x, w):
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    chain(x, out, lambda row: row)
    return out


def earlier_row(x, w):
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    chain(x, out, lambda row: max(row - 1, 0))
    return out


def later_row(x, w):
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    chain(x, out, lambda row: min(row + 1, ROWS - 1))
    return out


def unrelated(x, w):
    """Two loops that only read the same input."""
    out = language.ndarray((2, *x.shape), x.dtype, language.shared_hbm)
    for half in range(2):
        for row in language.affine_range(ROWS):
            language.store(out[half, row], changed(language.load(x[row]), 2.0))
    return out


def sequential(x, w):
    out, made = language.ndarray(x.shape, x.dtype, language.shared_hbm), [None] * ROWS
    for row in language.sequential_range(ROWS):
        made[row] = changed(language.load(x[row]), 2.0)
    for row in language.sequential_range(ROWS):
        language.store(out[row], made[row])
    return out


def shorter(x, w):
    out, made = language.ndarray(x.shape, x.dtype, language.shared_hbm), [None] * ROWS
    for row in language.affine_range(ROWS):
        made[row] = changed(language.load(x[row]), 2.0)
    for row in language.affine_range(ROWS - 1):
        language.store(out[row], made[row])
    return out


def nested(x, w):
    """Loops in two loops; between the inner ones a load that only the second one needs."""
    out = language.ndarray((ROWS, INNER, 128, 512), x.dtype, language.shared_hbm)
    made = {}
    for row in language.affine_range(ROWS):
        for inner in language.affine_range(INNER):
            made[row, inner] = changed(language.load(x[inner]), 2.0)
    for row in language.affine_range(ROWS):
        weight = language.load(w)
        for inner in language.affine_range(INNER):
            total = changed(language.load(x[inner]), 4.0)
            isa.tensor_tensor(total, total, made[row, inner], language.multiply)
            isa.tensor_tensor(total, total, weight, language.multiply)
            language.store(out[row, inner], total)
    return out


def three(x, w):
    """The third loop uses what the first one makes, which the second one only looks at."""
    out = language.ndarray((2, *x.shape), x.dtype, language.shared_hbm)
    made, seen = [None] * ROWS, [None] * ROWS
    for row in language.affine_range(ROWS):
        made[row] = changed(language.load(x[row]), 2.0)
    for row in language.affine_range(ROWS):
        seen[row] = changed(made[row], 3.0)
    for row in language.affine_range(ROWS):
        language.store(out[0, row], changed(made[row], 4.0))
    for row in range(ROWS):
        language.store(out[1, row], seen[row])
    return out


KERNELS = (three, same_row, earlier_row, later_row, unrelated, sequential, shorter, nested)


def traced(kernel) -> Program:
    x, w = sim.TensorSpec((ROWS, 128, 512), "float32"), sim.TensorSpec((128, 512), "float32")
    return rename(sim.run(Kernel(kernel), x, w, device="trn2", values=False).program)


def factors(program: Program) -> list[int]:
    """Which constant each change has, in the order of the program."""
    return [value for value in program.immediate.tolist() if value >= 0]


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_written_is_as_it_was(kernel):
    program = traced(kernel)
    assert written(fuse(program, SMALL)) == written(program)


@pytest.mark.parametrize("kernel", KERNELS)
def test_with_the_passes_after_it_too(kernel):
    program, options = traced(kernel), Options.for_generation("legacy").switched({"room": 0})
    small = program.device.replace({options.sbuf_figure: 6 * PITCH})
    fused = rewrite(on_device(program, small), options)
    assert written(residency.spill(fused, 6 * PITCH, share=True)) == written(program)


@pytest.mark.parametrize("kernel", [same_row, earlier_row])
def test_each_iteration_of_the_second_loop_follows_that_of_the_first(kernel):
    program = traced(kernel)
    first, second = sorted(set(factors(program)))
    assert factors(program) == [first] * ROWS + [second] * ROWS
    assert factors(fuse(program, SMALL)) == [first, second] * ROWS


@pytest.mark.parametrize("kernel", [later_row, unrelated, sequential, shorter])
def test_loops_stay_apart_that_need_not_or_may_not_run_together(kernel):
    program = traced(kernel)
    assert fuse(program, SMALL) is program


def test_loops_stay_apart_whose_tiles_fit_into_half_of_the_memory():
    program = traced(same_row)
    assert fuse(program, LARGE) is program


def test_loops_within_fused_loops_fuse_too():
    first, second = sorted(set(factors(traced(nested))))
    assert factors(fuse(traced(nested), SMALL)) == [first, second] * ROWS * INNER


def test_a_loop_joins_those_that_run_together_already():
    first, second, third = sorted(set(factors(traced(three))))
    assert factors(fuse(traced(three), SMALL)) == [first, second, third] * ROWS


def test_what_both_loops_prepare_is_in_the_same_iteration_afterwards():
    program = fuse(traced(same_row), SMALL)
    assert len(np.unique(program.iteration)) == ROWS


def test_the_pass_can_be_left_out():
    options = Options.for_generation("legacy").switched({"fuse": False})
    program = traced(same_row)
    small = on_device(program, program.device.replace({options.sbuf_figure: 2 * PITCH}))
    assert factors(rewrite(small, options)) == factors(program)
    assert factors(rewrite(small, options.switched({"fuse": True}))) != factors(program)
