"""Which iterations instructions are in, and how two of them lie to one another."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.iterations import FIRST, ORDINAL, OUTER, Iterations, Nests
from sim.nki import language
from sim.nki.kernel import Kernel
from sim.trace import NONE


def nested(x):
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    language.load(x[0])
    for row in language.affine_range(2):
        language.load(x[row])
        for _ in language.sequential_range(3):
            language.store(out[row], language.load(x[row]))
    return out


@pytest.fixture(scope="module")
def program():
    return sim.run(Kernel(nested), sim.TensorSpec((2, 128, 64), "float32"), values=False).program


def test_each_instruction_is_in_the_innermost_iteration_around_it(program):
    table, loads = program.iterations, program.iteration
    assert loads[0] == NONE
    assert table[loads[1:], ORDINAL].tolist() == [0, 0, 0, 1, 1, 2, 2, 1, 0, 0, 1, 1, 2, 2]
    assert len(table) == 2 + 2 * 3


def test_iterations_of_an_inner_loop_hang_below_one_of_the_outer_loop(program):
    outer = np.flatnonzero(program.iterations[:, OUTER] == NONE)
    assert program.iterations[outer, ORDINAL].tolist() == [0, 1]
    inner = program.iterations[program.iterations[:, OUTER] != NONE]
    assert np.unique(inner[:, OUTER]).tolist() == outer.tolist()
    assert len(np.unique(inner[:, FIRST])) == 2, "the inner loop has run twice"


def test_a_place_that_was_left_is_gone_on_with():
    made = Iterations()
    made.enter(5)
    made.begin()
    place = made.place()
    made.enter(6)
    made.begin()
    made.back(place)
    made.begin()
    assert made.rows == [(NONE, 0, 0, 5), (0, 1, 0, 6), (NONE, 0, 1, 5)]


def test_what_comes_around_is_told_from_what_comes_later_in_the_same_iteration(program):
    nests, places = Nests(program.iterations), program.iteration.tolist()
    before, first, second, end = places[1], places[2], places[4], places[8]
    assert nests.carried(first, second), "the inner loop carries it"
    assert nests.carried(second, end), "only the outer loop has both"
    assert not nests.carried(before, first), "the inner loop is part of the same iteration"
    assert not nests.carried(NONE, first)


def test_the_iteration_of_a_loop_further_out_is_found(program):
    nests, innermost = Nests(program.iterations), int(program.iteration[-1])
    outer = nests.ancestor(innermost, 1)
    assert program.iterations[outer, ORDINAL] == 1
    assert nests.ancestor(outer, 2) == NONE
    assert nests.outermost()[innermost] == nests.region(outer) != nests.region(innermost)
