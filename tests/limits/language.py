"""Constraints of the functions of `nki.language`."""

from __future__ import annotations

import sim.nki.language as nl
from sim.nki import isa as nisa
from tests.limits.limit import Limit, Table


def in_grid(t, ask):
    t.chip.program.grid, t.chip.program.program = (2,), (0,)
    return ask()


def scalar(t, value=0):
    return t.chip.tensor([[value]], "int32")


LIMITS: Table = {
    "nki.isa.memset": [
        Limit("a tensor is filled with a number", lambda t, x: nl.full((4, 4), x, nl.float32), "one", 1,
              "value | 'one' | neither a number nor a tile"),
        Limit("integers are filled with an integer", lambda t, x: nisa.memset(t.s(4, 4, dtype="int32"), x), 2.0, 2,
              "value | 2.0 for int32 | an integer"),
    ],
    "nl.add": [
        Limit("one operand is a tile", lambda t, x: nl.add(1, x or t.s(4, 4)), 2, None,
              "x, y | 1 and 2 | must be a tile"),
        Limit("shapes broadcast", lambda t, n: nl.add(t.s(4, 5), t.s(4, n)), 6, 1, "shapes | [4, 6] | broadcast"),
    ],
    "tensor_scalar": [
        Limit("bits are integers", lambda t, d: nl.bitwise_and(t.s(4, 4, dtype=d), 1), "float32", "int8",
              "dst | float32 | integers"),
        Limit("bits are inverted in integers", lambda t, d: nl.invert(t.s(4, 4, dtype=d)), "bfloat16", "uint8",
              "dst | bfloat16 | integers"),
    ],
    "tensor_tensor": [
        Limit("abs_max comes with v4", lambda t, _: nl.abs_max(*t.two(4, 4)), None, None,
              "op | abs_max | NeuronCore-v4",
              "trn2", "trn3"),
    ],
    "nl.sum": [
        Limit("partitions are not summed", lambda t, axis: nl.sum(t.s(4, 5), axis), 0, 1,
              "axis | 0 of [4, 5] | trailing free"),
        Limit("the last dimensions are summed", lambda t, axis: nl.sum(t.s(4, 5, 6), axis), 1, (1, 2),
              "axis | 1 of [4, 5, 6] | trailing free"),
        Limit("the dimension exists", lambda t, axis: nl.sum(t.s(4, 5), axis), 2, -1,
              "axis | 2 of [4, 5] | trailing free"),
    ],
    "nl.mean": [
        Limit("partitions are not averaged", lambda t, axis: nl.mean(t.s(4, 5), axis), (0, 1), (1,),
              "axis | (0, 1) of [4, 5] | trailing free"),
    ],
    "nl.broadcast_to": [
        Limit("a dimension of size 1 is repeated", lambda t, n: nl.broadcast_to(t.s(4, n), (4, 10)), 5, 1,
              "shape | [4, 5] | [4, 10]"),
        Limit("dimensions stay as many", lambda t, s: nl.broadcast_to(t.s(4, 1), s), (2, 4, 5), (4, 5),
              "shape | [4, 1] | [2, 4, 5]"),
    ],
    "nl.matmul": [
        Limit("x and y share the inner dimension", lambda t, k: nl.matmul(t.s(64, 32), t.s(k, 16), transpose_x=True),
              32, 64, "y | [32, 16] | 64"),
        Limit("x has at most 128 columns", lambda t, m: nl.matmul(t.s(64, m), t.s(64, 16), transpose_x=True), 200, 128,
              "x | [64, 200] | at most 128"),
        Limit("y has at most 512 columns", lambda t, n: nl.matmul(t.s(64, 32), t.s(64, n), transpose_x=True), 600, 512,
              "y | [64, 600] | at most 512"),
    ],
    "nl.transpose": [
        Limit("a tile has at most 128 columns", lambda t, n: nl.transpose(t.s(64, n)), 200, 128,
              "x | [64, 200] | at most 128"),
    ],
    "nl.load_transpose2d": [
        Limit("the tile has 2 dimensions", lambda t, s: nl.load_transpose2d(t.h(*s)), (4, 5, 6), (4, 5),
              "src | 3 dimensions | must be 2"),
    ],
    "nl.load": [
        Limit("a tensor is loaded", lambda t, x: nl.load(x or t.h(4, 5)), 3.0, None, "src | 3.0 | no tensor"),
        Limit("a tile has at most 128 rows", lambda t, n: nl.load(t.h(n, 5)), 129, 128,
              "src | [129, 5] | load at most 128 rows"),
        Limit("a tile has a free dimension", lambda t, s: nl.load(t.h(*s)), (5,), (1, 5), "src | [5] | reshape it"),
    ],
    "nl.store": [
        Limit("a tensor is stored to", lambda t, x: nl.store(x or t.h(4, 5), t.s(4, 5)), 3.0, None,
              "dst | 3.0 | no tensor"),
    ],
    "dma_copy": [
        Limit("both sides have as many elements", lambda t, n: nl.store(t.h(4, 5), t.s(4, n)), 6, 5,
              "dst | 20 elements | src has 24"),
    ],
    "nl.gather_flattened": [
        Limit("partitions stay", lambda t, a: nl.gather_flattened(t.s(4, 5), t.s(4, 5, dtype="uint32"), axis=a), 1, 0,
              "axis | 1 | must be 0"),
    ],
    "set_rng_seed": [
        Limit("the seed is one number", lambda t, n: nl.random_seed(t.s(1, n, dtype="int32")), 2, 1,
              "src_seeds | [1, 2] | must be [1, 1]"),
    ],
    "nl.program_id": [
        Limit("the grid has that axis", lambda t, a: in_grid(t, lambda: nl.program_id(a)), 1, 0, "axis | 1 | 1 axes"),
    ],
    "nl.num_programs": [
        Limit("the grid has that axis", lambda t, a: in_grid(t, lambda: nl.num_programs(a)), 2, 0, "axis | 2 | 1 axes"),
    ],
    "nl.affine_range": [
        Limit("bounds are integers", lambda t, n: list(nl.affine_range(n)), 2.5, 2, "stop | 2.5 | must be integers"),
        Limit("a step is not zero", lambda t, n: list(nl.affine_range(0, 4, n)), 0, 2, "step | 0 | not be zero"),
    ],
    "nl.dynamic_range": [
        Limit("a step is positive", lambda t, n: list(nl.dynamic_range(0, 4, n)), -1, 1,
              "step | -1 | positive integer"),
    ],
    "nl.fori_loop": [
        Limit("a step is positive", lambda t, n: nl.fori_loop(0, 4, lambda i: None, step=n), 0, 1,
              "step | 0 | positive integer"),
    ],
    "nl.while_loop": [
        Limit("a register counts", lambda t, x: nl.while_loop(x or nisa.register_alloc(0), lambda r: r), 3, None,
              "init | 3 | no register"),
        Limit("the body returns a register",
              lambda t, x: nl.while_loop(nisa.register_alloc(1), lambda r: nisa.register_alloc(0) if x is None else x),
              0, None, "body_fun | 0 | no register"),
    ],
    "nl.device_print": [
        Limit("the prefix is a string", lambda t, x: nl.device_print(x, t.s(4, 4)), 3, "x",
              "print_prefix | 3 | no string"),
        Limit("a tensor is printed", lambda t, x: nl.device_print("x", x or t.s(4, 4)), 3, None,
              "tensor | 3 | no tensor"),
    ],
    "NkiScalar": [
        Limit("scalars meet integers", lambda t, x: nisa.NkiScalar(3) + x, 1.5, 1,
              ": | 1.5 | neither an int nor a scalar"),
        Limit("Python does not branch on a scalar", lambda t,
              bad: bool(nisa.NkiScalar(3)) if bad else nisa.NkiScalar(3) < 4,
              True, False, ": | no condition | nl.fori_loop or nl.while_loop"),
        Limit("a comparison is no number", lambda t, bad: int(nisa.NkiScalar(3) < 4 if bad else nisa.NkiScalar(3)),
              True, False, ": | result of a comparison | cannot be used"),
    ],
    "dropout": [
        Limit("the probability is a number", lambda t, x: nl.dropout(t.s(4, 5), x), "half", 0.5,
              "prob | 'half' | neither a number nor a tile"),
    ],
    "nl.": [
        Limit("partitions are not averaged", lambda t, axis: nl.rms_norm(t.s(4, 5), t.s(4, 5), axis, 5), 0, 1,
              "axis | 0 of [4, 5] | trailing free") ,
    ],
}  # fmt: skip
