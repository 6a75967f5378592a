"""What a builder remembers of the newest instructions, and where in the user's code they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

import sim
from sim import spec
from sim.nki import isa as nisa
from sim.nki import language as nl
from sim.nki import session
from sim.nki.kernel import Kernel
from sim.program import ProgramBuilder

SHAPE = (128, 8)


@pytest.fixture
def program():
    with session.building(ProgramBuilder(spec.device("trn2"))) as made:
        yield made


def test_a_redirected_instruction_is_known_by_its_new_target(program):
    first = nl.ndarray(SHAPE, nl.float32)
    nisa.memset(first, 0.0)
    old, new = nl.ndarray(SHAPE, nl.float32), nl.ndarray(SHAPE, nl.float32)
    nisa.memset(old, 1.0)
    made = program.maker(old.storage)
    assert made.index == 1
    assert program.redirect(made, old.storage, new)
    assert program.maker(new.storage).operands == (new,)
    assert program.maker(first.storage).index == 0
    assert (new.array() == 1).all()


def test_another_program_of_the_grid_does_not_see_what_was_made_before(program):
    place = program.leave()
    tile = nl.ndarray(SHAPE, nl.float32)
    nisa.memset(tile, 0.0)
    assert program.maker(tile.storage) is not None
    program.resume(place)
    assert program.maker(tile.storage) is None


def test_every_call_has_the_line_of_the_user(program):
    tile = nl.ndarray(SHAPE, nl.float32)
    for _ in range(2):
        nisa.memset(tile, 0.0)  # first
        nl.exp(tile)  # second
    text = Path(__file__).read_text().splitlines()
    lines = [next(n for n, line in enumerate(text, 1) if line.endswith(f"  # {name}")) for name in ("first", "second")]
    assert [program.strings[source] for source in program._source] == [f"{__file__}:{line}" for line in 2 * lines]


def test_equal_code_of_two_files_keeps_its_own_lines(program):
    tile, lines = nl.ndarray(SHAPE, nl.float32), []
    for name in ("one.py", "two.py"):
        exec(compile("\nmemset(tile, 0.0)", name, "exec"), {"memset": nisa.memset, "tile": tile})
        lines.append(program.strings[program._source[-1]])
    assert lines == ["one.py:2", "two.py:2"]


def test_bytes_of_tensors_that_a_kernel_keeps_in_hbm_are_neither_those_of_arguments_nor_of_results():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        kept = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
        nl.store(kept, nl.load(x))
        for half in (slice(0, 64), slice(64, 128), slice(0, 128)):
            nl.store(out[half], nl.load(kept[half]))
        return out

    program = sim.run(Kernel(kernel), sim.TensorSpec((128, 512), "float32"), values=False).program
    assert program.scratch_bytes() == (128 * 512 * 4, 2 * 128 * 512 * 4)
