"""Loops of `nki.language`, registers that bound them, and scalars."""

from contextlib import nullcontext

import numpy as np
import pytest

import sim
from sim.errors import InputError, UnsupportedError
from sim.nki import isa as nisa
from sim.nki import language as nl
from sim.nki.kernel import jit
from sim.trace import RegionKind
from tests.chip import Chip, normal


@pytest.mark.parametrize("name", ["affine_range", "sequential_range", "static_range", "dynamic_range"])
def test_a_range_counts_as_pythons_does_and_is_a_region(name):
    with Chip() as chip:
        assert list(getattr(nl, name)(4)) == [0, 1, 2, 3]
        assert list(getattr(nl, name)(2, 9, 3)) == [2, 5, 8]
        kinds = [region.kind for region in chip.program.regions]
    assert kinds == [RegionKind.LOOP] * 2
    assert all(region.name.startswith(name) for region in chip.program.regions)


def test_a_range_is_an_index_too():
    with Chip() as chip:
        rows, columns = nl.affine_range(2, 6), nl.affine_range(1, 8, 3)
        tile = chip.hbm(normal(8, 12))
        np.testing.assert_array_equal(tile[rows, columns].array(), normal(8, 12)[2:6, 1:8:3])
        assert (len(rows), rows[-1]) == (4, 5)


def register(value):
    made = nisa.register_alloc()
    nisa.register_load(made, nl.full((1, 1), value, nl.int32))
    return made


def test_bounds_may_be_registers_and_scalars():
    with Chip():
        assert list(nl.dynamic_range(register(1), register(4))) == [1, 2, 3]
        for upper, kind in ((register(5), nisa.VirtualRegister), (nisa.NkiScalar(5), nisa.NkiScalar)):
            seen = []
            nl.fori_loop(1, upper, seen.append, step=2)
            assert [int(number) for number in seen] == [1, 3]
            assert all(isinstance(number, kind) for number in seen)


def test_a_dynamic_loop_branches_on_every_sequencer():
    with Chip() as chip:
        nl.fori_loop(0, 3, lambda i: None)
        forms = [chip.program.forms[form] for form in chip.program._form]
        assert [form.opcode for form in forms] == ["BRANCH"] * 15
        assert len({form.engine for form in forms}) == 5


def test_a_while_loop_runs_until_its_register_is_zero():
    with Chip():
        total, count = nl.zeros((1, 1), nl.int32), nl.full((1, 1), 3, nl.int32)

        def body(condition):
            nisa.tensor_scalar(total, total, nl.add, 2)
            nisa.tensor_scalar(count, count, nl.subtract, 1)
            nisa.register_load(condition, count)
            return condition

        nl.while_loop(register(3), body)
        assert (total.array().item(), count.array().item()) == (6, 0)
        nl.while_loop(register(0), body)
        assert total.array().item() == 6, "a loop whose register is zero never runs"


def test_the_register_of_an_iteration_addresses_memory():
    @jit
    def gather(x, rows):
        out = nl.ndarray((4, 6), x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, nl.zeros((4, 6), x.dtype))
        tile = nl.ndarray((1, 6), x.dtype)
        bound = nisa.register_alloc()
        nisa.register_load(bound, nl.load(rows))

        def body(i):
            nisa.dma_copy(tile, x.ap([[6, 1], [1, 6]], scalar_offset=i, indirect_dim=0))
            nisa.dma_copy(out.ap([[6, 1], [1, 6]], scalar_offset=i, indirect_dim=0), tile)

        nl.fori_loop(0, bound, body)
        return out

    x = normal(8, 6)
    run = sim.run(gather, x, np.array([[3]], np.int32))
    np.testing.assert_array_equal(run.outputs[0][:3], x[:3])
    assert not run.outputs[0][3:].any()
    with pytest.raises(UnsupportedError, match="a register's value is not known without values"):
        sim.run(gather, x, np.array([[3]], np.int32), values=False)


def test_an_offset_outside_is_an_error_unless_it_is_to_be_skipped():
    def kernel(mode):
        @jit
        def body(x):
            out = nl.ndarray((1, 6), x.dtype, nl.shared_hbm)
            nisa.dma_copy(out, nl.ones((1, 6), x.dtype))
            rows = x.ap([[6, 1], [1, 6]], scalar_offset=register(100), indirect_dim=0)
            nisa.dma_copy(out, rows, oob_mode=mode)
            return out

        return body

    x = normal(8, 6)
    np.testing.assert_array_equal(sim.run(kernel(nisa.oob_mode.skip), x).outputs[0], 1)
    with pytest.raises(InputError, match="dma_copy: src: offset 100: bytes 2400 to 2424 reach outside the 192 of `x`"):
        sim.run(kernel(nisa.oob_mode.error), x)


def test_scalars_compute_in_32_bits():
    with Chip() as chip:
        index = nisa.scalar_load(chip.tensor(np.array([[7]], np.int32), "int32"))
        assert [int(value) for value in (index * 4 + 1, 3 - index, -index, +index, 2 + index, index - index)] == [
            29, -4, -7, 7, 9, 0
        ]  # fmt: skip
        large = nisa.NkiScalar(100000)
        assert int(large * large) == 1410065408
        assert int(nisa.NkiScalar(2**31 - 1) + 1) == -(2**31)
        stored = chip.tensor((1, 1), "int32")
        nisa.scalar_store(stored, index * 3)
        assert stored.array().item() == 21
        assert (index < 8).is_comparison


def test_scalars_are_unknown_without_values_but_still_trace():
    with Chip(values=False) as chip:
        scalar = nisa.scalar_load(chip.tensor((1, 1), "int32")) * 2
        nisa.scalar_store(chip.tensor((1, 1), "int32"), scalar)
        assert len(chip.program) == 3
        with pytest.raises(UnsupportedError, match="a scalar's value is not known without values"):
            int(scalar)


def test_a_register_can_be_allocated_from_a_number_or_a_tensor():
    with Chip():
        assert int(nisa.register_alloc(-5)) == -5
        assert int(nisa.register_alloc(nl.full((1, 1), 9, nl.int32))) == 9


def test_instructions_within_no_reorder_keep_the_order_of_each_engine():
    def kernel(x, ordered):
        late, early = nl.load(x), nl.full(x.shape, 1.0, x.dtype)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        with nl.no_reorder() if ordered else nullcontext():
            nisa.tensor_scalar(late, late, nl.add, 1.0, name="first")
            nisa.tensor_scalar(early, early, nl.add, 1.0, name="then")
        nisa.dma_copy(out, nl.add(late, early))
        return out

    def starts(ordered):
        trace = sim.run(jit(kernel), normal(128, 64), ordered).trace
        names = [trace.strings[code] for code in trace.instructions.name.tolist()]
        return [trace.instructions.start_ps[names.index(name)] for name in ("first", "then")]

    first, then = starts(ordered=False)
    assert then < first, "what needs no load goes ahead"
    first, then = starts(ordered=True)
    assert first < then
