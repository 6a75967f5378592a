"""Constraints of `neuronxcc.nki`, as its last release (2.26) documents them, beyond those of the instructions."""

from __future__ import annotations

import numpy as np

from sim.nki.legacy import isa as nisa
from sim.nki.legacy import language as nl
from sim.nki.legacy.index import arange, mgrid
from sim.nki.legacy.tile import Tile
from tests.limits.limit import Limit, Table

ROWS, COLUMNS = arange(64)[:, None], arange(24)[None, :]


def old(tensor):
    return Tile.of(tensor)


def at(t, memory, *shape, dtype="float32"):
    return old(t.at(memory, *shape, dtype=dtype))


def rows_of(t, last):
    """A copy of the rows that an index tile names."""
    grid = mgrid[0:2, 0:16]
    index = old(t.chip.tensor([[0], [last]], "int32"))
    return nisa.dma_copy(dst=at(t, "sbuf", 2, 16)[grid.p, grid.x], src=at(t, "hbm", 8, 16)[index, grid.x])


LIMITS: Table = {
    "nl.load": [
        Limit("tiles are loaded from HBM", lambda t, m: nl.load(at(t, m, 8, 8)), "sbuf", "hbm",
              "src | sbuf | must be in HBM"),
        Limit("a tile has at most 128 partitions", lambda t, n: nl.load(at(t, "hbm", n, 8)), 129, 128,
              "data | partition 129 | 128"),
        Limit("an index stays within its dimension", lambda t, n: nl.load(at(t, "hbm", 100, 8)[arange(n)[:, None], :]),
              101, 100, "index | of size 100 | outside a dimension"),
    ],
    "nl.store": [
        Limit("tiles are stored to HBM", lambda t, m: nl.store(at(t, m, 8, 8), at(t, "sbuf", 8, 8)), "sbuf", "hbm",
              "dst | sbuf | must be in HBM"),
    ],
    "nl.ndarray": [
        Limit("a tile has at most 128 partitions", lambda t, n: nl.ndarray((nl.par_dim(n), 8), np.float32), 256, 128,
              "shape | partition dimension 256 | 128"),
    ],
    "nl.add": [
        Limit("one operand is a tile", lambda t, x: nl.add(1, x or at(t, "sbuf", 4, 4)), 2, None,
              "x, y | at least one | must be a tile"),
        Limit("shapes broadcast", lambda t, n: nl.add(at(t, "sbuf", 4, 5), at(t, "sbuf", 4, n)), 6, 1,
              "shapes | [4, 6] | broadcast"),
    ],
    "nl.exp": [
        Limit("an operand is a tile", lambda t, x: nl.exp(x or at(t, "sbuf", 4, 4)), 3, None,
              "data | 3 | must be a tile"),
    ],
    "nl.sum": [
        Limit("partitions are not summed", lambda t, a: nl.sum(at(t, "sbuf", 4, 5), a), 0, 1,
              "axis | 0 of [4, 5] | partition"),
    ],
    "nl.broadcast_to": [
        Limit("a dimension of size 1 is repeated", lambda t, n: nl.broadcast_to(at(t, "sbuf", 4, n), shape=(4, 10)),
              5, 1,
              "shape | [4, 5] | [4, 10]"),
    ],
    "nki.isa.dma_transpose": [
        Limit("a transpose has 2 to 4 dimensions", lambda t, s: nisa.dma_transpose(at(t, "hbm", *s)), (16,), (16, 8),
              "src | 1 dimensions | must be 2 to 4"),
    ],
    "nki.isa.dma_copy": [
        Limit("an index tile names rows that are there", rows_of, 8, 7, "index | 8 of partition 1 | of size 8"),
    ],
    "nki.isa.tensor_copy": [
        Limit("a tile has at most 128 partitions", lambda t, n: nisa.tensor_copy(at(t, "sbuf", n, 4)), 200, 128,
              "data | partition 200 | 128"),
    ],
    "nki.isa.tensor_tensor": [
        Limit("both operands are tiles", lambda t,
              x: nisa.tensor_tensor(at(t, "sbuf", 8, 8), x or at(t, "sbuf", 8, 8), np.add),
              3.0, None, "data2 | 3.0 of type float | must be a tile"),
    ],
    "nki.isa.max8": [
        Limit("a partition has at least 8 elements", lambda t, n: nisa.max8(src=at(t, "sbuf", 8, n)), 7, 8,
              "src | 7 elements | 8"),
        Limit("a tile of 5 dimensions is searched", lambda t, n: nisa.max8(src=at(t, "sbuf", 8, 1, 2, n, 2)), 1, 2,
              "src | 4 elements | 8"),
    ],
    "nki.isa.iota": [
        Limit("the expression is affine", lambda t, x: nisa.iota(x, np.int32), np.arange(4), 2 * COLUMNS + ROWS,
              "expr | array([0, 1, 2, 3]) | affine expression"),
    ],
    "nki.isa.affine_select": [
        Limit("the predicate is one comparison",
              lambda t, x: nisa.affine_select(x, at(t, "sbuf", 64, 24), 0.0), (ROWS > 1) & (COLUMNS > 1),
              ROWS > COLUMNS,
              "pred | 2 comparisons | one comparison of affine expressions"),
    ],
}  # fmt: skip
