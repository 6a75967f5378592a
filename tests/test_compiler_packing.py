"""Transposes in a row share a PSUM bank and one copy, wherever nothing stands in the way."""

from __future__ import annotations

from collections import Counter

import pytest

import sim
from sim.compiler import Options, pack, rename
from sim.nki import isa, language
from sim.nki.kernel import Kernel
from sim.program import Program
from sim.trace import Engine, Memory
from tests.naive.meaning import written

COUNT = 8
"""Tiles of 128 x 128, two banks full in fp32."""


def turned_first(x):
    """All are turned into one tile, which is stored after the loop; each is loaded in the loop."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    all_turned = language.ndarray((128, COUNT, 128), x.dtype)
    for number in language.affine_range(COUNT):
        bank = language.ndarray((128, 128), x.dtype, language.psum)
        isa.nc_transpose(bank, language.load(x[number]), engine=isa.engine.tensor)
        isa.tensor_copy(all_turned[:, number, :], bank)
    for number in range(COUNT):
        language.store(out[number], all_turned[:, number, :])
    return out


def used_at_once(x):
    """Each is turned and used before the next, from tiles that were loaded before."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    tiles = [language.load(x[number]) for number in range(COUNT)]
    for number in language.affine_range(COUNT):
        bank = language.ndarray((128, 128), x.dtype, language.psum)
        isa.nc_transpose(bank, tiles[number], engine=isa.engine.tensor)
        copy = language.ndarray((128, 128), x.dtype)
        isa.tensor_copy(copy, bank)
        language.store(out[number], copy)
    return out


def in_a_chain(x):
    """Each is turned from what the one before gave."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    tile = language.load(x[0])
    for number in language.affine_range(COUNT):
        bank = language.ndarray((128, 128), x.dtype, language.psum)
        isa.nc_transpose(bank, tile, engine=isa.engine.tensor)
        copy = language.ndarray((128, 128), x.dtype)
        isa.tensor_copy(copy, bank)
        isa.tensor_copy(tile, copy)
        language.store(out[number], copy)
    return out


KERNELS = (turned_first, used_at_once, in_a_chain)


def traced(kernel, dtype: str = "float32") -> Program:
    run = sim.run(Kernel(kernel), sim.TensorSpec((COUNT, 128, 128), dtype), device="trn1", values=False)
    return rename(run.program)


def copies_from_psum(program: Program) -> Counter:
    """How often each number of columns is copied from PSUM."""
    forms = [program.forms[number] for number in program.form.tolist()]
    return Counter(
        form.elements for form in forms if form.call == "nki.isa.tensor_copy" and form.layouts[1].memory is Memory.PSUM
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_written_stays_as_it_was(kernel, dtype):
    program = traced(kernel, dtype)
    assert written(pack(program)) == written(program)


@pytest.mark.parametrize("kernel", [turned_first, used_at_once])
def test_one_copy_moves_as_many_as_fit_into_a_bank(kernel):
    program = traced(kernel)
    assert copies_from_psum(program) == {128: COUNT}
    assert copies_from_psum(pack(program)) == {512: COUNT // 4}


def test_what_depends_on_the_copy_before_is_copied_alone():
    assert copies_from_psum(pack(traced(in_a_chain))) == {128: COUNT}


def test_the_transposes_of_a_copy_share_a_psum_tile_of_one_bank():
    packed = pack(traced(turned_first))
    used = {packed.storages[row] for row in packed.operands[:, 0].tolist()}
    banks = [storage for storage in used if storage.memory is Memory.PSUM]
    assert {storage.pitch for storage in banks} == {int(packed.device["psum_bank_bytes"])}
    assert len(banks) == COUNT // 4


def test_a_packed_copy_costs_one_fixed_part_and_goes_where_copies_go():
    options = Options.for_generation("legacy")
    alone, packed = (
        sim.run(
            Kernel(turned_first),
            sim.TensorSpec((COUNT, 128, 128), "float32"),
            device="trn1",
            values=False,
            options=options,
            passes={"pack": on},
        ).trace.instructions
        for on in (False, True)
    )
    busy = [int((rows.end_ps - rows.start_ps)[rows.engine == Engine.SCALAR].sum()) for rows in (alone, packed)]
    assert 0 < busy[1] < busy[0]


def test_a_packed_copy_says_so_by_name():
    assert list(pack(traced(turned_first)).names.values()) == ["4 copies packed"] * (COUNT // 4)
