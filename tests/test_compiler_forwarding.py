"""Copies from PSUM go where Vector and Scalar can read PSUM itself, and stay where anything else needs them."""

from __future__ import annotations

from collections import Counter

import pytest

import sim
from sim.compiler import Options, forward, rename
from sim.nki import isa, language
from sim.nki.kernel import Kernel
from sim.program import Program
from sim.trace import Memory

LEGACY = Options.for_generation("legacy")


def kernel(use):
    """A product copied from PSUM, then used."""

    def products(x):
        out = language.ndarray((128, 512), x.dtype, language.shared_hbm)
        tile, sums = language.load(x), language.ndarray((128, 512), language.float32, language.psum)
        isa.nc_matmul(sums, tile[:, 0:128], tile)
        copy = language.ndarray((128, 512), x.dtype)
        isa.tensor_copy(copy, sums)
        use(copy, tile, sums, out)
        return out

    return products


def added(copy, tile, sums, out):
    isa.tensor_tensor(tile, copy, tile, language.add)
    language.store(out, tile)


def added_in_part(copy, tile, sums, out):
    isa.tensor_tensor(tile[:, 0:128], copy[:, 256:384], tile[:, 0:128], language.add)
    language.store(out, tile)


def stored(copy, tile, sums, out):
    language.store(out, copy)


def multiplied_again(copy, tile, sums, out):
    again = language.ndarray((128, 512), language.float32, language.psum)
    isa.nc_matmul(again, copy[:, 0:128], tile)
    isa.tensor_tensor(tile, again, tile, language.add)
    language.store(out, tile)


def overwritten_before(copy, tile, sums, out):
    isa.nc_matmul(sums, tile[:, 128:256], tile)
    isa.tensor_tensor(tile, copy, tile, language.add)
    language.store(out, tile)


def traced(use) -> Program:
    run = sim.run(Kernel(kernel(use)), sim.TensorSpec((128, 512), "float32"), device="trn1", values=False)
    return rename(run.program)


def calls(program: Program) -> Counter:
    return Counter(program.forms[number].call.rpartition(".")[2] for number in program.form.tolist())


@pytest.mark.parametrize("use", [added, added_in_part])
def test_a_copy_that_only_vector_reads_goes(use):
    program = traced(use)
    left = calls(program) - calls(forward(program))
    assert left == {"tensor_copy": 1}


@pytest.mark.parametrize("use", [stored, multiplied_again])
def test_a_copy_that_a_transfer_or_tensor_e_reads_stays(use):
    program = traced(use)
    assert calls(forward(program)) == calls(program)


def test_the_reader_reads_the_same_bytes_of_psum():
    program = forward(traced(added_in_part))
    (index,) = [
        i for i, number in enumerate(program.form.tolist()) if program.forms[number].call.endswith("tensor_tensor")
    ]
    storage, offset, _ = program.operands[program.operand_start[index] + 1].tolist()
    assert program.storages[storage].memory is Memory.PSUM
    assert offset == 256 * 4


def test_a_copy_of_what_is_overwritten_before_its_use_stays():
    program = traced(overwritten_before)
    assert calls(forward(program)) == calls(program)


def repeated(x, changing):
    """A product copied from PSUM and added in each of four iterations; of other columns in each, or of the same."""
    out = language.ndarray((128, 512), x.dtype, language.shared_hbm)
    tile, total = language.load(x), language.ndarray((128, 512), x.dtype)
    isa.memset(total, 0.0)
    for number in language.affine_range(4):
        sums, copy = (
            language.ndarray((128, 512), language.float32, language.psum),
            language.ndarray((128, 512), x.dtype),
        )
        first = 128 * int(number) if changing else 0
        isa.nc_matmul(sums, tile[:, first : first + 128], tile)
        isa.tensor_copy(copy, sums)
        isa.tensor_tensor(total, total, copy, language.add)
    language.store(out, total)
    return out


@pytest.mark.parametrize(("changing", "left"), [(True, 0), (False, 4)])
def test_a_copy_that_is_the_same_in_each_iteration_stays(changing, left):
    run = sim.run(Kernel(lambda x: repeated(x, changing)), sim.TensorSpec((128, 512), "float32"), values=False)
    assert calls(forward(rename(run.program)))["tensor_copy"] == left


def test_reading_psum_is_faster_where_two_operands_in_sbuf_share_a_port():
    times = [
        sim.run(
            Kernel(kernel(added)),
            sim.TensorSpec((128, 512), "float32"),
            device="trn1",
            values=False,
            options=LEGACY,
            passes={"forward": on},
        ).latency_ns
        for on in (False, True)
    ]
    assert times[1] < times[0]
