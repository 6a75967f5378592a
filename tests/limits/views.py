"""Constraints of tensors and their views."""

from __future__ import annotations

import numpy as np

import sim.nki.language as nl
from tests.limits.limit import Limit, Table
from tests.limits.tiles import half


def cube(t, memory="sbuf"):
    return t.at(memory, 4, 6, 8)


def gathered(t):
    """A view whose rows an index names."""
    return t.h(64, 6, 8).vector_select(0, t.s(4, 1, dtype="uint32"))


def chosen(t):
    """A view of which a scalar in SBUF chooses the place."""
    return t.h(64, 6, 8).select(0, t.chip.tensor([[1]], "int32"))


LIMITS: Table = {
    "nl.ndarray": [
        Limit("a tile has at most 128 partitions", lambda t, p: nl.ndarray((p, 4), nl.float32), 129, 128,
              "shape | 129 | 128"),
        Limit("a tile has a free dimension", lambda t, s: nl.ndarray(s, nl.float32), (4,), (4, 1),
              "shape | [4] in sbuf | at least one"),
        Limit("no dimension is empty", lambda t, n: nl.ndarray((4, n), nl.float32), 0, 1,
              "shape | [4, 0] | at least 1"),
        Limit("the dtype is one of the device's", lambda t, d: nl.ndarray((4, 4), d), "float33", "tfloat32",
              "dtype | 'float33' | float32, tfloat32"),
        Limit("the device has no 64-bit numbers", lambda t, d: nl.ndarray((4, 4), d), "float64", "float32",
              "dtype | 'float64' | convert to float32"),
        Limit("a dimension is a whole number", lambda t, n: nl.ndarray((4, n), nl.float32), 9 / 2, 8 / 2,
              "shape | (4, 4.5) | divide with //"),
        Limit("a place is a partition and a byte", lambda t, a: nl.ndarray((4, 4), nl.float32, address=a), 4, (4, 0),
              "address | 4 | two integers"),
        Limit("all partitions exist", lambda t, a: nl.ndarray((64, 4), nl.float32, address=a), (96, 0), (64, 0),
              "address | (96, 0) | 0 to 127"),
        Limit("only tiles on chip have a place", lambda t, b: nl.ndarray((4, 4), nl.float32, b, address=(0, 0)),
              "hbm", "psum", "address | (0, 0) | HBM has none"),
        Limit("the buffer is a memory", lambda t, b: nl.ndarray((4, 4), nl.float32, b), "dram", "psum",
              "buffer | 'dram' | nl.sbuf, nl.psum"),
    ],
    "": [
        Limit("a tensor is no operand of Python", lambda t, x: cube(t).shape[0] + x if x else cube(t) + 1, 0, 1,
              "`storage` | no operand of a Python operator | nl.add"),
        Limit("a tensor is no array of NumPy", lambda t, x: np.sum(x or cube(t)), None, 1,
              "`storage` | no array of NumPy | nki.language"),
        Limit("a tensor is not iterated over", lambda t, x: list(x or cube(t)), None, (1,),
              "`storage` | no sequence | in a loop over range"),
    ],
    "storage": [
        Limit("an index stays within its dimension", lambda t, i: cube(t)[:, i], 6, 5,
              "index 6 | dimension 1 | of size 6"),
        Limit("an index counts from the end at most once", lambda t, i: cube(t)[:, i], -7, -6,
              "index -7 | dimension 1 | of size 6"),
        Limit("the rows of a gather stay", lambda t, n: gathered(t)[:n], 2, 4,
              "index | (slice(None, 2, None),) | dimension 0"),
    ],
    "index": [
        Limit("an index is a number or a slice", lambda t, i: cube(t)[i], "a", 1,
              "'a' | of type str | int, slice or nl.ds"),
    ],
    "`storage`": [
        Limit("a slice stays within its dimension", lambda t, n: cube(t)[:, 0:n], 7, 6,
              "slice 0:7 | dimension 1 | size 6"),
        Limit("no more indices than dimensions", lambda t, n: cube(t)[(0,) * n], 4, 3,
              "4 indices | [4, 6, 8] | 3 dimensions"),
    ],
    "NkiTensor.slice": [
        Limit("start lies before end", lambda t, s: cube(t).slice(1, s, 4), 4, 3, "start, end | 4:4:1 | size 6"),
        Limit("end lies within the dimension", lambda t, n: cube(t).slice(1, 0, n), 7, 6,
              "start, end | 0:7:1 | size 6"),
        Limit("a step goes forward", lambda t, n: cube(t).slice(1, 0, 6, n), 0, 1, "step | 0:6:0 | size 6"),
    ],
    "NkiTensor.permute": [
        Limit("every dimension occurs once", lambda t, d: cube(t, "hbm").permute(d), (0, 0, 1), (2, 0, 1),
              "dims | (0, 0, 1) | 3 dimensions"),
        Limit("the partition stays first", lambda t, d: cube(t).permute(d), (1, 0, 2), (0, 2, 1),
              "dims | (1, 0, 2) | dimension 0"),
        Limit("the rows of a gather stay first", lambda t, d: gathered(t).permute(d), (1, 0, 2), (0, 2, 1),
              "dims | (1, 0, 2) | names the rows of dimension 0"),
    ],
    "NkiTensor.broadcast": [
        Limit("a dimension of size 1 is repeated", lambda t, n: t.s(4, n, 8).broadcast(1, 3), 6, 1,
              "dim | size 6 | only 1"),
        Limit("partitions are not repeated", lambda t, d: t.s(1, 1, 8).broadcast(d, 3), 0, 1,
              "dim | 0 | dimension 0 of an on-chip"),
    ],
    "NkiTensor.expand_dim": [
        Limit("the partition stays first", lambda t, d: cube(t).expand_dim(d), 0, 1,
              "dim | 0 | dimension 0 of an on-chip"),
        Limit("the rows of a gather stay first", lambda t, d: gathered(t).expand_dim(d), 0, 1,
              "dim | 0 | names the rows of dimension 0"),
    ],
    "NkiTensor.squeeze_dim": [
        Limit("a dimension of size 1 goes", lambda t, n: t.s(4, n, 8).squeeze_dim(1), 2, 1, "dim | size 2 | must be 1"),
        Limit("the partition stays", lambda t, d: t.s(1, 1, 8).squeeze_dim(d), 0, 1,
              "dim | 0 | dimension 0 of an on-chip"),
    ],
    "NkiTensor.reshape_dim": [
        Limit("the parts make up the dimension", lambda t, n: cube(t).reshape_dim(1, (n, 2)), 4, 3,
              "shape | [4, 2] | 6 elements"),
        Limit("the partition is not split", lambda t, d: cube(t).reshape_dim(d, (2, -1)), 0, 1,
              "dim | 0 | dimension 0 of an on-chip"),
    ],
    "NkiTensor.flatten_dims": [
        Limit("the dimensions are contiguous", lambda t, n: cube(t)[:, :, :n].flatten_dims(1, 2), 4, 8,
              "start_dim, end_dim | 1 to 2 | contiguous"),
        Limit("the partition is not merged", lambda t, d: cube(t).flatten_dims(d, 2), 0, 1,
              "start_dim | 0 | dimension 0 of an on-chip"),
    ],
    "NkiTensor.reshape": [
        Limit("the elements stay as many", lambda t, n: cube(t).reshape((4, n)), 47, 48,
              "shape | [4, 47] | 192 elements"),
        Limit("one size is left open", lambda t, n: cube(t).reshape((4, n, -1)), -1, 6,
              "shape | [4, -1, -1] | more than one"),
        Limit("the partition stays", lambda t, p: cube(t).reshape((p, -1)), 2, 4,
              "shape | [2, 96] | dimension 0 of an on-chip"),
        Limit("the layout allows it", lambda t, n: cube(t)[:, ::n].reshape((4, -1)), 2, 1,
              "shape | [4, 24] | without a copy"),
        Limit("the rows of a gather stay", lambda t, p: gathered(t).reshape((p, -1)), 2, 4,
              "shape | [2, 96] | names the rows"),
    ],
    "NkiTensor.rearrange": [
        Limit("both patterns name the same dimensions",
              lambda t, d: cube(t).rearrange(("p", "a", "b"), ("p", "b", d)), "c", "a",
              "dst_pattern | ('p', 'b', 'c') | same dimensions"),
    ],
    "NkiTensor.select": [
        Limit("an index stays within its dimension", lambda t, i: cube(t).select(1, i), 6, 5, "index | 6 | size 6"),
        Limit("an index is not negative", lambda t, i: cube(t).select(1, i), -1, 0, "index | -1 | size 6"),
        Limit("a dynamic index does not choose a partition",
              lambda t, d: cube(t).select(d, t.chip.tensor([[1]], "int32")), 0, 1,
              "dim | 0 | dimension 0 of an on-chip"),
        Limit("one index is dynamic",
              lambda t, twice: (chosen(t) if twice else t.h(6, 8)).select(0, t.chip.tensor([[1]], "int32")),
              True, False, "index | indirect already | only one"),
    ],
    "NkiTensor.vector_select": [
        Limit("dimension 0 is chosen", lambda t, d: t.h(64, 64).vector_select(d, t.s(4, 1, dtype="uint32")), 1, 0,
              "dim | 1 | must be 0"),
        Limit("rows are found in HBM", lambda t, m: t.at(m, 64, 8).vector_select(0, t.s(4, 1, dtype="uint32")),
              "sbuf", "hbm", "dim | SBUF | HBM"),
        Limit("a partition has one index", lambda t, n: t.h(64, 8).vector_select(0, t.s(4, n, dtype="uint32")), 2, 1,
              "vector_offset | [4, 2] | [4, 1]"),
        Limit("one index is dynamic",
              lambda t, twice: (chosen(t) if twice else t.h(6, 8)).vector_select(0, t.s(4, 1, dtype="uint32")),
              True, False, "vector_offset | indirect already | only one"),
    ],
    "NkiTensor.ap": [
        Limit("one offset is dynamic",
              lambda t, both: t.h(64, 8).ap([[8, 4], [1, 8]], vector_offset=t.s(4, 1, dtype="uint32"),
                                            scalar_offset=t.chip.tensor([[0]], "int32") if both else None),
              True, False, "scalar_offset, vector_offset | both are given | one of them"),
        Limit("partitions follow one another", lambda t, step: t.s(6, 8).ap([[step, 3], [1, 8]]), 16, 8,
              "pattern | [16, 3] steps over partitions by 16 | must be 8"),
        Limit("partitions follow one another in the pattern's dtype",
              lambda t, step: t.s(6, 8).ap([[step, 6], [1, 16]], dtype="bfloat16"), 8, 16,
              "pattern | [8, 6] steps over partitions by 8 | must be 16"),
        Limit("an indirect view is not indirect again",
              lambda t, twice: (chosen(t) if twice else t.h(6, 8)).ap(
                  [[8, 4], [1, 8]], vector_offset=t.s(4, 1, dtype="uint32")),
              True, False, "vector_offset | indirect already | only one"),
    ],
    "nki.isa.dma_copy": [
        Limit("a pattern stays within the tensor",
              lambda t, n: nl.store(t.h(8, 8), t.s(8, 8).ap([[8, 8], [1, n]])), 9, 8,
              "src: ap | bytes 0 to 260 | the 256 of `storage`"),
    ],
    "NkiTensor.view": [
        Limit("the last dimension is contiguous", lambda t, n: cube(t)[:, :, ::n].view("uint8"), 2, 1,
              "dtype | uint8 | contiguous"),
        Limit("the last dimension divides", lambda t, n: half(t, 4, n).view("float32"), 7, 8,
              "dtype | 7 elements | fp32"),
        Limit("an indirect view keeps its dtype", lambda t, twice: (chosen(t) if twice else t.h(6, 8)).view("uint8"),
              True, False, "dtype | indirect already | only one"),
    ],
}  # fmt: skip
