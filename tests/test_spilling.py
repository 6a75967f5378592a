"""More tiles alive than SBUF holds: loads are repeated, computed values are saved once and reloaded."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.compiler import Options
from sim.compiler.residency import AHEAD, needs_spilling, spill
from sim.errors import CapacityError
from sim.nki import isa, language
from sim.nki.kernel import Kernel

TILE = (128, 2048)
COUNT = 40
"""Tiles of 8 KiB a partition: 320 KiB where trn2 has 224."""
SPILLING = Options(spill=True)


def twice_loaded(x):
    """Each block is loaded first, then all are used in the same order."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    tiles = [language.load(x[block]) for block in range(COUNT)]
    for block, tile in enumerate(tiles):
        language.store(out[block], tile)
    return out


def twice_computed(x):
    """As before, but what is kept is a computed value."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    tiles = []
    for block in range(COUNT):
        tile = language.ndarray(TILE, x.dtype)
        isa.tensor_scalar(tile, language.load(x[block]), language.add, 1.0)
        tiles.append(tile)
    for block, tile in enumerate(tiles):
        language.store(out[block], tile)
    return out


def traced(kernel, options=SPILLING):
    return sim.run(Kernel(kernel), sim.TensorSpec((COUNT, *TILE), "float32"), values=False, options=options)


@pytest.mark.parametrize("kernel", [twice_loaded, twice_computed])
def test_without_the_pass_a_full_memory_is_an_error_that_names_the_tile(kernel):
    with pytest.raises(CapacityError) as error:
        traced(kernel, Options())
    assert "SBUF is full" in str(error.value)
    assert "test_spilling.py" in str(error.value)


def test_a_load_is_repeated_and_never_saved():
    trace = traced(twice_loaded).trace
    rows = trace.instructions
    size = 4 * TILE[0] * TILE[1]
    assert rows.spill_save_bytes.sum() == rows.spill_reload_bytes.sum() == 0
    repeated = int(rows.hbm_read_bytes.sum()) - COUNT * size
    assert repeated > 0
    assert repeated % size == 0
    assert rows.hbm_write_bytes.sum() == COUNT * size


def test_a_computed_value_is_saved_once_and_reloaded():
    rows = traced(twice_computed).trace.instructions
    size = 4 * TILE[0] * TILE[1]
    saved, reloaded = int(rows.spill_save_bytes.sum()), int(rows.spill_reload_bytes.sum())
    assert saved == reloaded > 0
    assert rows.hbm_read_bytes.sum() == COUNT * size + reloaded
    assert rows.hbm_write_bytes.sum() == COUNT * size + saved


def test_what_remains_fits_the_limit():
    program = traced(twice_computed).program
    limit = int(program.device["sbuf.usable_partition_bytes"])
    assert needs_spilling(program, limit)
    for share in (1.0, 0.5):
        assert not needs_spilling(spill(program, int(limit * share)), int(limit * share))


def used_twice(x):
    """A block that is loaded, used, and used again after a chain of large tiles."""
    out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
    tile = made = language.load(x[0])
    for _ in range(3):
        before, made = made, language.ndarray(TILE, x.dtype)
        isa.tensor_scalar(made, before, language.add, 1.0)
    isa.tensor_tensor(made, made, tile, language.add)
    language.store(out[0], made)
    return out


def test_a_load_goes_so_that_one_more_tile_fits_but_nothing_is_saved_for_that():
    program, size = traced(used_twice).program, 4 * TILE[1]
    assert not needs_spilling(program, 3 * size)
    counts = []
    for limit in (3 * size, 4 * size):
        forms = [spilled.forms[k] for spilled in (spill(program, limit, share=True),) for k in spilled.form.tolist()]
        counts.append((sum(form.spill == "repeat" for form in forms), sum(form.spill == "save" for form in forms)))
    assert counts == [(1, 0), (0, 0)]


def test_what_is_kept_free_is_what_the_option_says():
    program = traced(twice_computed, Options(spill=True, room=0)).program
    room, limit = 64 * 1024, int(program.device["sbuf.usable_partition_bytes"])
    kept = spill(program, limit, room=room)
    assert needs_spilling(kept, limit - room - TILE[1] * 4)
    assert not needs_spilling(kept, limit - room)


def test_a_program_that_fits_is_left_alone():
    def small(x):
        out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
        language.store(out[0], language.load(x[0]))
        return out

    assert len(traced(small).program) == 2
    np.testing.assert_array_equal(traced(small).trace.instructions.spill_reload_bytes, 0)


def test_spilled_instructions_keep_the_source_line_of_what_needed_them():
    trace = traced(twice_computed).trace
    rows = trace.instructions
    added = np.flatnonzero(rows.spill_reload_bytes)
    assert {trace.strings[int(code)].rsplit("/", 1)[-1].split(":")[0] for code in rows.source[added]} == {
        "test_spilling.py"
    }


def test_what_the_compiler_added_says_so_by_name():
    trace = traced(twice_computed).trace
    rows = trace.instructions
    names = [trace.strings[int(code)] or "" for code in rows.name]
    for column, word in ((rows.spill_save_bytes, "spill save"), (rows.spill_reload_bytes, "spill reload")):
        assert {names[row].startswith(word) for row in np.flatnonzero(column)} == {True}
    repeats = traced(twice_loaded).trace
    repeated = [repeats.strings[int(code)] or "" for code in repeats.instructions.name]
    assert sum(name.startswith("repeat of load") for name in repeated) > 0


KEPT, SWEEPS = 6, 4


def swept(x, filling: int, loop):
    """Values made once and used in the same order in each iteration, each after so many small instructions."""
    out, tiles = language.ndarray(x.shape, x.dtype, language.shared_hbm), []
    for block in range(KEPT):
        tile = language.ndarray(TILE, x.dtype)
        isa.tensor_scalar(tile, language.load(x[block]), language.add, 1.0)
        tiles.append(tile)
    small = language.ndarray((128, 1), x.dtype)
    isa.tensor_scalar(small, language.load(x[0][:, 0:1]), language.add, 1.0)
    for _ in loop(SWEEPS):
        for block, tile in enumerate(tiles):
            for _ in range(filling):
                isa.tensor_scalar(small, small, language.add, 1.0)
            total = language.ndarray(TILE, x.dtype)
            isa.tensor_scalar(total, tile, language.multiply, small)
            language.store(out[block], total)
    return out


def moves(filling: int, loop) -> tuple[int, int]:
    """Tiles saved and reloaded where SBUF holds the tiles that are kept, or all but one and the one that is made."""
    program = traced(lambda x: swept(x, filling, loop)).program
    made = spill(program, KEPT * 4 * TILE[1] + 64)
    forms = [made.forms[number] for number in made.form.tolist()]
    return sum(form.spill == "save" for form in forms), sum(form.spill == "reload" for form in forms)


@pytest.mark.parametrize("loop", [range, language.affine_range])
def test_where_it_is_told_when_values_come_again_only_what_does_not_fit_leaves(loop):
    saved, reloaded = moves(1, loop)
    assert saved < KEPT
    assert reloaded <= 2 * SWEEPS


def test_outside_loops_that_is_told_however_far_away_it_is():
    assert moves(AHEAD // KEPT, range) == moves(1, range)


def test_in_a_long_loop_all_values_that_come_around_leave_in_turn():
    saved, reloaded = moves(AHEAD // KEPT, language.affine_range)
    assert saved == KEPT
    assert reloaded > KEPT * (SWEEPS - 2)


def test_what_is_too_small_to_be_worth_a_transfer_stays():
    def with_sums(x):
        out, made = language.ndarray(x.shape, x.dtype, language.shared_hbm), []
        for block in range(COUNT):
            tile, total = language.ndarray(TILE, x.dtype), language.ndarray((128, 1), x.dtype)
            isa.tensor_scalar(tile, language.load(x[block]), language.add, 1.0)
            isa.tensor_reduce(total, language.add, tile, axis=1)
            made.append((tile, total))
        for block, (tile, _) in enumerate(made):
            language.store(out[block], tile)
        for block, (_, total) in enumerate(made):
            language.store(out[block][:, 0:1], total)
        return out

    rows = traced(with_sums).trace.instructions
    saved = rows.spill_save_bytes[rows.spill_save_bytes > 0]
    assert set(saved.tolist()) == {4 * TILE[0] * TILE[1]}
