"""What combines two tiles writes to the partitions they lie in; a copy takes it elsewhere."""

from __future__ import annotations

import pytest

import sim
from sim.compiler import Options, align, assign, rename
from sim.nki import isa, language
from sim.nki.kernel import Kernel
from sim.program import Program
from sim.trace import Engine

LEGACY = Options.for_generation("legacy")
SHAPE = (128, 512)


def summed(start: int, into: int):
    """Both halves of a tile, the second one moved beside the first, added into half of another tile."""

    def kernel(x):
        out = language.ndarray(SHAPE, x.dtype, language.shared_hbm)
        tile, total = language.load(x), language.ndarray(SHAPE, x.dtype)
        isa.memset(total, 0.0)
        other = language.ndarray(SHAPE, x.dtype)
        isa.tensor_copy(other, tile)
        half, same = slice(start, start + 64), slice(into, into + 64)
        isa.tensor_tensor(total[same, 128:256], tile[half, 0:128], other[half, 256:384], language.add)
        language.store(out, total)
        return out

    return kernel


def traced(kernel, device: str = "trn1") -> Program:
    return rename(sim.run(Kernel(kernel), sim.TensorSpec(SHAPE, "float32"), device=device, values=False).program)


def copies(program: Program) -> list[Engine]:
    """Engines of the copies that the compiler added."""
    added = [index for index, name in program.names.items() if name == "copied to its partitions"]
    return [program.forms[program.form[index]].engine for index in added]


def operands(program: Program, index: int) -> list[list[int]]:
    return program.operands[program.operand_start[index] : program.operand_start[index + 1]].tolist()


def the_sum(program: Program) -> int:
    forms = [program.forms[number] for number in program.form.tolist()]
    return next(index for index, form in enumerate(forms) if form.call.endswith("tensor_tensor"))


@pytest.mark.parametrize(("start", "into"), [(0, 64), (64, 0)])
def test_a_shifted_result_is_written_beside_its_inputs_and_copied(start, into):
    program = traced(summed(start, into))
    aligned = align(program)
    index = the_sum(aligned)
    made, *inputs = operands(aligned, index)
    assert len(aligned) == len(program) + 1
    assert made[1] // aligned.storages[made[0]].pitch == start
    wanted, *same = operands(program, the_sum(program))
    assert inputs == same
    assert operands(aligned, index + 1) == [wanted, made]


@pytest.mark.parametrize("start", [0, 64])
def test_a_result_beside_its_inputs_is_left_alone(start):
    program = traced(summed(start, start))
    assert align(program) is program


def test_the_copy_runs_where_the_compiler_puts_copies():
    assert copies(assign(align(traced(summed(0, 64))))) == [Engine.SCALAR]
    assert copies(assign(align(traced(summed(0, 64), "trn2")))) == [Engine.VECTOR]


def test_only_the_legacy_compiler_does_it():
    assert LEGACY.align
    assert not Options().align
