"""Grids of tiles and blocks: what they select, and kernels written with them."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim.errors import InputError, UnsupportedError
from sim.nki import isa as nisa
from sim.nki import language as nl
from sim.nki.kernel import jit
from tests.chip import Chip, normal

TILE = (128, 256)


def hbm(*shape):
    return nl.ndarray(shape, nl.float32, nl.shared_hbm)


@jit
def copies_by_tiles(x):
    out = hbm(*x.shape)
    sources, targets = nl.tiles(x, tile_shape=TILE), nl.tiles(out, tile_shape=TILE)
    for i in range(sources.shape[0]):
        for j in range(sources.shape[1]):
            tile = nl.ndarray(sources[i, j].element_shape, x.dtype)
            nisa.dma_copy(dst=tile.data, src=sources[i, j].data)
            nisa.dma_copy(dst=targets[i, j].data, src=tile.data)
    return out


@jit
def doubles_by_blocks(x):
    out, sizes = hbm(*x.shape), {"tile_shape": (64, 32), "block_shape": (2, 3)}
    for source, target in zip(nl.blocks(x, **sizes), nl.blocks(out, **sizes)):
        for j in range(source.shape[0]):
            for row, into in zip(nl.tiles(source[j]), nl.tiles(target[j])):
                for k in range(row.shape[0]):
                    shape = row[k].element_shape
                    held = nl.alloc_tiles(tile_shape=(64, 32), element_shape=shape, buffer=nl.sbuf, dtype=x.dtype)
                    nisa.dma_copy(held.data, row[k].data)
                    nisa.tensor_tensor(held.data, held.data, held.data, nl.add)
                    nisa.dma_copy(into[k].data, held.data)
    return out


@pytest.mark.parametrize("shape", [(256, 512), (300, 700), (100, 20)])
def test_kernels_by_tiles_and_by_blocks_reach_every_element_once(shape):
    x = normal(*shape)
    for kernel, factor in ((copies_by_tiles, 1), (doubles_by_blocks, 2)):
        run = sim.run(kernel, x)
        np.testing.assert_array_equal(run.outputs[0], factor * x)
        assert run.findings == ()


def test_a_grid_counts_cells_and_elements():
    with Chip():
        grid = nl.tiles(hbm(300, 700), tile_shape=TILE)
        assert (grid.shape, grid.element_shape, grid.index_step_elements) == ((3, 3), (300, 700), TILE)
        assert (grid.dtype, grid.buffer, len(grid)) == (nl.float32, nl.shared_hbm, 3)
        row, cell, corner = grid[2], grid[0, -2], grid[2, 2]
        assert (row.shape, row.element_shape, row.index_step_elements) == ((3,), (44, 700), (256,))
        assert (cell.shape, cell.element_shape, cell.is_remainder) == ((), (128, 256), False)
        assert (corner.element_shape, corner.data.shape, corner.is_remainder) == ((44, 188), (44, 188), True)
        part = grid[:2, 1:]
        assert (part.shape, part.element_shape, part.is_data_representable) == ((2, 2), (256, 444), True)
        assert part[1, 0].data.offset == 4 * (128 * 700 + 256)


def test_a_block_is_a_grid_of_its_tiles():
    with Chip():
        grid = nl.blocks(hbm(300, 700), tile_shape=(64, 128), block_shape=(2, 2))
        assert (grid.shape, grid.tile_shape, grid.block_shape) == ((3, 3), (64, 128), (2, 2))
        assert grid.index_step_elements == (128, 256)
        assert nl.tiles(grid[0, 0]).shape == (2, 2)
        last = nl.tiles(grid[2, 2])
        assert (last.shape, last[0, 1].element_shape) == ((1, 2), (44, 60))
        assert nl.blocks(nl.tiles(grid[:, 0]), block_shape=(5, 1)).shape == (1, 2)


def test_new_tiles_lie_where_they_are_asked_for():
    with Chip():
        grid = nl.alloc_blocks(
            tile_shape=(128, 64), block_shape=(1, 2), element_shape=(128, 256), buffer=nl.sbuf, dtype=nl.bfloat16,
            address=(0, 512), name="held",
        )  # fmt: skip
        assert (grid.shape, grid.buffer, grid.data.storage.address) == ((1, 2), nl.sbuf, (0, 512))
        assert grid.data.name == "held"
        tall = nl.alloc_tiles(tile_shape=(128, 64), element_shape=(512, 64), buffer=nl.shared_hbm, dtype=nl.float32)
        assert tall.shape == (4, 1)


REFUSED = {
    "list": (
        lambda: nl.tiles(hbm(8, 8), tile_shape=[4, 4]),
        InputError,
        r"nl.tiles: tile_shape: \[4, 4\], must be a tuple",
    ),
    "one dimension": (lambda: nl.tiles(hbm(8, 8), tile_shape=(4,)), InputError, "must have at least 2 dimensions"),
    "zero": (lambda: nl.tiles(hbm(8, 8), tile_shape=(4, 0)), InputError, "none below 1"),
    "no shape": (lambda: nl.tiles(hbm(8, 8)), InputError, "tile_shape: None, must be a tuple of int"),
    "too many": (lambda: nl.tiles(hbm(8, 8), tile_shape=(1, 2, 2)), InputError, "3 dimensions, source has 2"),
    "slabs": (lambda: nl.tiles(hbm(2, 8, 8), tile_shape=(4, 4)), UnsupportedError, "documented nowhere"),
    "no tensor": (lambda: nl.tiles(3, tile_shape=(4, 4)), InputError, "source: 3 is neither a tensor nor a grid"),
    "block": (
        lambda: nl.blocks(hbm(8, 8), tile_shape=(4, 4), block_shape=(1, 1, 1)),
        InputError,
        "nl.blocks: block_shape: 3 dimensions, tile_shape has 2",
    ),
    "outside": (lambda: nl.tiles(hbm(8, 8), tile_shape=(4, 4))[2], InputError, "NkiTileGrid: index 2 of 2 cells"),
    "indices": (lambda: nl.tiles(hbm(8, 8), tile_shape=(4, 4))[0, 0, 0], InputError, "3 indices for 2 dimensions"),
    "step": (lambda: nl.tiles(hbm(8, 8), tile_shape=(4, 4))[::2], InputError, "a slice None:None:2 of 2 cells"),
    "index": (lambda: nl.tiles(hbm(8, 8), tile_shape=(4, 4))["a"], InputError, "index 'a' is neither a number"),
    "rows on chip": (
        lambda: nl.alloc_tiles(tile_shape=(128, 4), element_shape=(256, 4), buffer=nl.sbuf, dtype=nl.float32),
        UnsupportedError,
        "more than one row of tiles",
    ),
}


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_what_a_grid_cannot_be_is_named(call, kind, message):
    with Chip(), pytest.raises(kind, match=message):
        call()
