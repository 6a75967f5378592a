"""Transfers of one statement become one: which, in which order, and what the merged one costs."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim import spec
from sim.compiler import distribute, rename, residency
from sim.engines import dma
from sim.memory import Layout
from sim.nki import isa, language
from sim.nki.kernel import Kernel
from sim.program import Form, Program
from sim.trace import Memory
from tests.naive.meaning import written

INNER, ROWS, COLUMNS = 512, 256, 1024
ALL_FIT, LOADS_FIT, NOTHING_FITS = 2 * (64 + 24 + 16) << 10, 2 * 24 << 10, 2 * 16 << 10
"""SBUF, bytes a partition: half of it holds all tiles, only the loaded ones, or not even these (fp32)."""


def product(x, w):
    """A product in tiles, each of which is loaded for each tile of the result that it takes part in."""
    out = language.ndarray((ROWS, COLUMNS), x.dtype, language.shared_hbm)
    for m in language.affine_range(ROWS // 128):
        for n in language.affine_range(COLUMNS // 512):
            sums = language.ndarray((128, 512), language.float32, language.psum)
            for k in language.affine_range(INNER // 128):
                left = language.load(x[k * 128 : (k + 1) * 128, m * 128 : (m + 1) * 128])
                right = language.load(w[k * 128 : (k + 1) * 128, n * 512 : (n + 1) * 512])
                isa.nc_matmul(sums, left, right)
            tile = language.ndarray((128, 512), x.dtype)
            isa.tensor_copy(tile, sums)
            language.store(out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], tile)
    return out


def second_first(x, w):
    """Two tensors are loaded, and the second is used before the first."""
    out = language.ndarray((128, 512), x.dtype, language.shared_hbm)
    one = language.load(x[0:128, 0:128])
    other = language.load(w[0:128, 0:512])
    isa.tensor_scalar(other, other, language.add, 1.0)
    language.store(out[:, 0:128], one)
    language.store(out[:, 128:512], other[:, 128:512])
    return out


def traced(dtype: str = "float32", kernel=product) -> Program:
    x, w = sim.TensorSpec((INNER, ROWS), dtype), sim.TensorSpec((INNER, COLUMNS), dtype)
    return rename(sim.run(Kernel(kernel), x, w, values=False).program)


def transfers(program: Program) -> list[tuple[int, Form]]:
    """Each DMA with its number."""
    forms = [program.forms[number] for number in program.form.tolist()]
    return [(index, form) for index, form in enumerate(forms) if form.dma is not None]


def loads(program: Program) -> list[tuple[int, Form]]:
    return [(index, form) for index, form in transfers(program) if form.layouts[0].memory is Memory.SBUF]


@pytest.mark.parametrize("limit", [ALL_FIT, LOADS_FIT])
@pytest.mark.parametrize(("dtype", "moved"), [("float32", 1 + 4 + 2), ("bfloat16", 1 + 2 + 1)])
def test_a_product_moves_4_kib_a_partition_at_once(dtype, moved, limit):
    """As the semaphore updates of public profiles of this product tell, which has one transfer more for a bias."""
    found = transfers(distribute(traced(dtype), limit))
    assert len(found) == moved
    assert {form.dma.bytes for _, form in found} <= {4096 * 128, 2048 * 128}


@pytest.mark.parametrize("limit", [ALL_FIT, LOADS_FIT])
def test_merging_leaves_what_is_written_as_it_was(limit):
    program = traced()
    assert written(distribute(program, limit)) == written(program)


def test_a_loop_whose_inputs_do_not_fit_loads_them_each_time_and_merges_in_a_run():
    """Of 4 tiles along the sum 4 of 512 bytes, and 2 of 2 KiB."""
    program = distribute(traced(), NOTHING_FITS)
    assert [form.dma.bytes for _, form in loads(program)] == [2048 * 128, 4096 * 128, 4096 * 128] * 4
    assert sum(form.layouts[0].memory is Memory.HBM for _, form in transfers(program)) == 4
    assert written(program) == written(traced())


def test_a_program_that_must_spill_keeps_its_loads_apart():
    program = traced()
    assert distribute(program, 2048) is program


def test_what_a_merged_load_brought_is_loaded_again_and_never_saved():
    program = distribute(traced(), NOTHING_FITS)
    resident = residency.spill(program, 5 << 10, share=True)
    spilled = [resident.forms[number].spill for number in resident.form.tolist()]
    assert "repeat" in spilled and "save" not in spilled
    assert written(resident) == written(program)


def test_each_input_is_loaded_once():
    program = distribute(traced(), LOADS_FIT)
    assert sum(form.dma.bytes for _, form in loads(program)) == 4 * INNER * (ROWS + COLUMNS)


def test_loads_go_through_their_tensor_in_its_order_and_come_first():
    program = distribute(traced(), LOADS_FIT)
    assert [index for index, _ in loads(program)] == list(range(5))
    sources = program.operands[program.operand_start[1] : program.operand_start[5]][1::2, 1]
    assert (np.diff(sources) > 0).all()


def test_of_loads_in_a_row_what_is_read_first_is_started_first():
    program = distribute(traced(kernel=second_first), LOADS_FIT)
    sources = [program.operands[program.operand_start[index] + 1, 0] for index, _ in loads(program)]
    assert [program.storages[source].name for source in sources] == ["w", "x"]
    assert written(program) == written(traced(kernel=second_first))


def test_merged_stores_stand_where_their_last_did():
    program = distribute(traced(), LOADS_FIT)
    matmuls = [program.forms[number].call.endswith("nc_matmul") for number in program.form.tolist()]
    stores = [index for index, form in transfers(program) if form.layouts[0].memory is Memory.HBM]
    assert [sum(matmuls[:store]) for store in stores] == [8, 16]


def test_rows_that_continue_each_other_are_one_descriptor():
    left, right = (form for _, form in loads(distribute(traced(), LOADS_FIT))[:2])
    assert (left.dma.descriptors, right.dma.descriptors) == (INNER, 128)
    tile = Layout.dense((128, 1024), right.layouts[0].dtype, Memory.SBUF)
    source = Layout.dense(tile.shape, tile.dtype, Memory.HBM)
    whole = dma.describe_copy(spec.device("trn2"), (tile, source), dma.UNKNOWN, dma.UNKNOWN, None)
    assert right.dma.service_ps == pytest.approx(whole.dma.service_ps, rel=0.001)
