"""The optimising middle end: each pass does what it is for, and none changes what a kernel computes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import sim
from sim.compiler import Options, assign, distribute, hoist, rename, residency, rewrite, split
from sim.nki import isa, language
from sim.nki.kernel import Kernel
from sim.program import Program
from sim.trace import Engine
from tests.naive.meaning import written

ROWS, LIMIT = 6, 200_000
LEGACY = Options.for_generation("legacy")


def invariant(x, w):
    """The same weight is loaded, and the same sum computed, in each iteration."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    for row in language.affine_range(ROWS):
        weight = language.load(w)
        more = language.ndarray(w.shape, w.dtype)
        isa.tensor_scalar(more, weight, language.add, 1.0)
        tile = language.load(x[row])
        isa.tensor_tensor(tile, tile, more, language.multiply)
        language.store(out[row], tile)
    return out


def constants(x, w):
    """Equal instructions but for their constants."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    for row in language.affine_range(ROWS):
        more = language.ndarray(w.shape, w.dtype)
        isa.tensor_scalar(more, language.load(w), language.add, float(row))
        language.store(out[row], more)
    return out


def row_sums(x, w):
    """A small value of each iteration, from a large one."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    for row in language.affine_range(ROWS):
        tile = language.load(x[row])
        total = language.ndarray((128, 1), x.dtype)
        isa.tensor_reduce(total, language.add, tile, axis=1)
        isa.reciprocal(total, total)
        isa.tensor_scalar(tile, tile, language.multiply, total)
        language.store(out[row], tile)
    return out


def chained(x, w):
    """Small values, each from the one before, by one statement."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    tile = language.load(w)
    for row in language.affine_range(ROWS):
        isa.reciprocal(tile[:, row + 1 : row + 2], tile[:, row : row + 1])
    language.store(out[0], tile)
    return out


def carried(x, w):
    """Each iteration goes on with the sum of the one before."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    total = language.load(w)
    for row in language.affine_range(ROWS):
        tile = language.load(x[row])
        isa.tensor_tensor(total[:, 0:256], total[:, 0:256], tile[:, 0:256], language.add)
        language.store(out[row], total)
    return out


def overwritten(x, w):
    """An argument that changes while it is loaded again and again."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    for row in language.affine_range(ROWS):
        more = language.ndarray(w.shape, w.dtype)
        isa.tensor_scalar(more, language.load(w), language.add, 1.0)
        language.store(w, more)
        language.store(out[row], more)
    return out


def updated(x, w):
    """Tiles that change while others push them out."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    tiles = [language.ndarray(w.shape, w.dtype) for _ in range(ROWS)]
    for row, tile in enumerate(tiles):
        isa.tensor_scalar(tile, language.load(x[row]), language.add, 1.0)
    for number in range(3):
        for tile in tiles:
            isa.tensor_scalar(tile[:, 0:256], tile[:, 0:256], language.multiply, number + 2.0)
    for row, tile in enumerate(tiles):
        language.store(out[row], tile)
    return out


def interleaved(x, w):
    """Two tiles with one value, of which the first is completed after the other is used."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    late, early = (language.ndarray(w.shape, w.dtype) for _ in range(2))
    isa.dma_copy(late[:, 0:256], w[:, 0:256])
    for half in (slice(0, 256), slice(256, 512)):
        isa.dma_copy(early[:, half], w[:, half])
    language.store(out[0], early)
    isa.dma_copy(late[:, 256:512], w[:, 256:512])
    language.store(out[1], late)
    return out


def parts(x, w):
    """One declared tile whose quarters are used alone."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    tiles = language.ndarray((128, ROWS, 512), x.dtype)
    for row in language.affine_range(ROWS):
        isa.dma_copy(tiles[:, row, :], x[row])
        isa.tensor_scalar(tiles[:, row, :], tiles[:, row, :], language.add, 1.0)
        isa.dma_copy(out[row], tiles[:, row, :])
    return out


def products(x, w):
    """Matmuls whose results are copied from PSUM, the engine left open."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    for row in language.affine_range(ROWS):
        tile, sums = language.load(x[row]), language.ndarray((128, 512), language.float32, language.psum)
        isa.nc_matmul(sums, tile[:, 0:128], tile)
        copy = language.ndarray((128, 512), x.dtype)
        isa.tensor_copy(copy, sums)
        language.store(out[row], copy)
    return out


KERNELS = (invariant, constants, row_sums, chained, carried, overwritten, updated, interleaved, parts, products)


def traced(kernel, device: str = "trn2") -> Program:
    x, w = sim.TensorSpec((ROWS, 128, 512), "float32"), sim.TensorSpec((128, 512), "float32")
    return rename(sim.run(Kernel(kernel), x, w, device=device, values=False).program)


def calls(program: Program) -> Counter:
    return Counter(program.forms[number].call.rpartition(".")[2] for number in program.form.tolist())


def engines_of(program: Program, call: str) -> list[Engine]:
    forms = [program.forms[number] for number in program.form.tolist()]
    return [form.engine for form in forms if form.call.endswith(call)]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("device", ["trn1", "trn2"])
def test_all_passes_together_leave_what_is_written_as_it_was(kernel, device):
    program = traced(kernel, device)
    resident = residency.reside(rewrite(program, LEGACY), LEGACY)
    assert written(resident.program) == written(program)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("limit", [8192 + 2048 * k for k in (3, 4, 6)])
def test_spilling_and_sharing_leave_what_is_written_as_it_was(kernel, limit):
    program = traced(kernel)
    for share in (True, False):
        assert written(residency.spill(program, limit, share, room=8192)) == written(program)


def test_the_comparison_sees_a_wrong_value():
    program = traced(constants)
    broken = replace(program, immediate=np.zeros_like(program.immediate))
    assert written(broken) != written(program)


def test_an_invariant_value_is_computed_once():
    program = traced(invariant)
    assert calls(program)["tensor_scalar"] == ROWS
    assert calls(hoist(program, LIMIT))["tensor_scalar"] == 1


def test_what_is_shared_or_merged_says_so_by_name():
    assert f"done once for {ROWS}" in hoist(traced(invariant), LIMIT).names.values()
    assert f"{ROWS} merged" in distribute(traced(row_sums), LIMIT).names.values()


def of_two_inputs(x, w, changing: bool):
    """A product of two inputs and the first one scaled, in two loops; the inner one changes the row or not."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    for outer in language.affine_range(ROWS):
        for inner in language.affine_range(ROWS):
            row = inner if changing else outer
            tile, weight = language.load(x[row]), language.load(w)
            scaled, product, total = (language.ndarray((128, 512), x.dtype) for _ in range(3))
            isa.tensor_scalar(scaled, tile, language.multiply, 2.0)
            isa.tensor_tensor(product, tile, weight, language.multiply)
            isa.tensor_tensor(total, product, scaled, language.add)
            language.store(out[row], total)
    return out


def test_a_value_of_two_inputs_is_computed_once_where_the_innermost_loop_does_not_change_it():
    counts = [
        calls(hoist(traced(lambda x, w, changing=changing: of_two_inputs(x, w, changing)), LIMIT))
        for changing in (False, True)
    ]
    assert [count["tensor_scalar"] for count in counts] == [ROWS, ROWS]
    assert [count["tensor_tensor"] for count in counts] == [2 * ROWS, 2 * ROWS * ROWS]


def test_inputs_that_do_not_fit_together_are_prepared_again():
    program, limit = traced(lambda x, w: of_two_inputs(x, w, True)), ROWS * 2048 - 1
    assert not residency.needs_spilling(program, limit)
    assert calls(hoist(program, limit))["tensor_scalar"] == ROWS * ROWS


def test_a_value_of_two_inputs_is_kept_where_the_program_must_spill_in_any_case():
    program = traced(lambda x, w: of_two_inputs(x, w, True))
    assert residency.needs_spilling(program, 3 * 2048)
    assert calls(hoist(program, 3 * 2048))["tensor_tensor"] == 2 * ROWS


def spread(x, w):
    """A row that several iterations add to a tile of their own, in every partition."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    for row in language.affine_range(ROWS):
        tile, line = language.load(x[row]), language.load(w[0:1])
        wide = language.broadcast_to(line, (128, 512))
        total = language.ndarray((128, 512), x.dtype)
        isa.tensor_tensor(total, tile, wide, language.add)
        language.store(out[row], total)
    return out


def test_a_row_is_loaded_and_broadcast_again_where_the_program_must_spill_in_any_case():
    program = traced(spread)
    for limit, count in ((LIMIT, 1), (3 * 2048, ROWS)):
        resident = residency.spill(hoist(program, limit), limit, share=True)
        assert calls(resident)["nc_matmul"] == count


def test_different_constants_make_different_values():
    assert calls(hoist(traced(constants), LIMIT))["tensor_scalar"] == ROWS


def test_what_is_resident_is_not_loaded_again():
    program = traced(invariant)
    assert calls(program)["dma_copy"] == 3 * ROWS
    assert calls(residency.spill(program, LIMIT, share=True))["dma_copy"] == 2 * ROWS + 1


def test_sharing_without_spilling_never_evicts():
    options = Options(share=True, sbuf_figure="psum_bank_bytes")
    shared = residency.reside(traced(updated), options).program
    assert not {form.spill for form in shared.forms} - {""}


def test_an_argument_that_the_kernel_writes_is_loaded_each_time():
    program = traced(overwritten)
    assert calls(residency.spill(program, LIMIT, share=True)) == calls(program)


def test_parts_used_alone_become_tiles_of_their_own():
    sizes = Counter(storage.pitch for storage in _accessed(split(traced(parts))))
    assert sizes[2048] == ROWS
    assert sizes[ROWS * 2048] == 0


def test_a_tile_that_is_accessed_as_a_whole_stays_whole():
    program = traced(carried)
    assert split(program) is program


def _accessed(program: Program) -> list:
    return [program.storages[number] for number in np.unique(program.operands[:, 0]).tolist()]


def test_open_copies_run_on_scalar_on_v2_and_alternate_on_v3():
    assert set(engines_of(assign(traced(products, "trn1")), "tensor_copy")) == {Engine.SCALAR}
    assert engines_of(assign(traced(products)), "tensor_copy") == [Engine.SCALAR, Engine.VECTOR] * (ROWS // 2)


def test_transfers_of_arguments_are_started_by_gpsimd_on_v3():
    assert set(engines_of(assign(traced(products)), "dma_copy")) == {Engine.GPSIMD}
    assert set(engines_of(assign(traced(products, "trn1")), "dma_copy")) == {Engine.SYNC}


def test_statements_run_for_all_iterations_and_small_ones_merge():
    program = distribute(traced(row_sums), LIMIT)
    assert calls(program)["tensor_reduce"] == ROWS
    assert calls(program)["reciprocal"] == 1
    forms, pairs = [program.forms[number] for number in program.form.tolist()], ROWS // 2
    order = [form.call.rpartition(".")[2] for form in forms]
    assert order[: pairs + ROWS] == ["dma_copy"] * pairs + ["tensor_reduce"] * ROWS


def test_a_merged_instruction_pays_its_overhead_once():
    single, program = traced(row_sums), distribute(traced(row_sums), LIMIT)
    one = next(form for form in single.forms if form.call.endswith("reciprocal"))
    four = next(form for form in program.forms if form.call.endswith("reciprocal") and form.elements == ROWS)
    assert one.cost.occupancy_ps < four.cost.occupancy_ps < ROWS * one.cost.occupancy_ps


def test_small_values_that_depend_on_one_another_stay_apart():
    assert calls(distribute(traced(chained), LIMIT))["reciprocal"] == ROWS


def test_a_loop_that_carries_a_value_keeps_its_order():
    assert _computed(distribute(traced(carried), LIMIT)) == _computed(traced(carried))


def test_a_loop_that_fills_more_than_half_of_sbuf_keeps_its_order():
    assert _computed(distribute(traced(row_sums), 8 * 2048)) == _computed(traced(row_sums))


def _computed(program: Program) -> list[tuple[int, int]]:
    """Source and form of what is no transfer, in its order."""
    rows = zip(program.source.tolist(), program.form.tolist())
    return [row for row in rows if program.forms[row[1]].dma is None]
