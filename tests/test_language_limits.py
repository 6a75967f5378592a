"""Every constraint of `nki.language` has a call that breaks it, and an error that names call, argument and line."""

import numpy as np
import pytest

from sim.errors import CapacityError, InputError, TrnprofError
from sim.nki import isa as nisa
from sim.nki import language as nl
from tests.chip import Chip
from tests.limits.tiles import Tiles, half

CASES = {
    "ndarray": [
        (
            lambda t: nl.ndarray((129, 4), nl.float32),
            r"nl.ndarray: shape \[129, 4\] in sbuf: partition dimension 129 > 128",
        ),
        (
            lambda t: nl.ndarray((4,), nl.float32),
            r"shape \[4\] in sbuf: on-chip tensors have a partition and at least one",
        ),
        (lambda t: nl.ndarray((4, 0), nl.float32), "every dimension must be at least 1"),
        (lambda t: nl.ndarray((4, 4), "float33"), "nl.ndarray: dtype 'float33' is not one of float32"),
        (lambda t: nl.ndarray((4, 4), nl.float32, "dram"), "buffer 'dram' is no memory"),
    ],
    "full": [(lambda t: nl.full((4, 4), "one", nl.float32), "memset: value: 'one' is neither a number nor a tile")],
    "add": [
        (lambda t: nl.add(1, 2), "nl.add: at least one of x, y must be a tile"),
        (lambda t: nl.add(t.s(4, 5), t.s(4, 6)), r"nl.add: shapes \[4, 5\] and \[4, 6\] do not broadcast"),
    ],
    "bitwise_and": [(lambda t: nl.bitwise_and(t.s(4, 4), 1), "dtype float32, a bit-vector operator needs integers")],
    "abs_max": [(lambda t: nl.abs_max(t.s(4, 4), t.s(4, 4)), "op: abs_max needs NeuronCore-v4 or newer, trn2 has")],
    "sum": [
        (lambda t: nl.sum(t.s(4, 5), 0), r"nl.sum: axis 0 of \[4, 5\]: only trailing free dimensions can be reduced"),
        (lambda t: nl.sum(t.s(4, 5, 6), 1), "nl.sum: axis 1 of"),
        (lambda t: nl.sum(t.s(4, 5), 2), "nl.sum: axis 2 of"),
    ],
    "mean": [(lambda t: nl.mean(t.s(4, 5), (0, 1)), "nl.mean: axis")],
    "broadcast_to": [
        (lambda t: nl.broadcast_to(t.s(4, 5), (4, 10)), r"nl.broadcast_to: \[4, 5\] cannot become \[4, 10\]"),
        (lambda t: nl.broadcast_to(t.s(4, 1), (2, 4, 5)), "nl.broadcast_to"),
    ],
    "matmul": [
        (
            lambda t: nl.matmul(t.s(64, 32), t.s(32, 16), transpose_x=True),
            r"nl.matmul: y: shape \[32, 16\], its partitions must be the 64",
        ),
        (
            lambda t: nl.matmul(t.s(64, 200), t.s(64, 16), transpose_x=True),
            r"nl.matmul: x: shape \[64, 200\].*at most 128",
        ),
        (
            lambda t: nl.matmul(t.s(64, 32), t.s(64, 600), transpose_x=True),
            r"nl.matmul: y: shape \[64, 600\].*at most 512",
        ),
    ],
    "transpose": [(lambda t: nl.transpose(t.s(64, 200)), r"nl.transpose: x: shape \[64, 200\].*at most 128")],
    "load_transpose2d": [
        (lambda t: nl.load_transpose2d(t.h(4, 5, 6)), "nl.load_transpose2d: src has 3 dimensions, not 2")
    ],
    "load": [(lambda t: nl.load(3.0), "nl.load: src: 3.0 is no tensor")],
    "store": [(lambda t: nl.store(t.h(4, 5), t.s(4, 6)), "dst: 20 elements, src has 24")],
    "gather_flattened": [
        (
            lambda t: nl.gather_flattened(t.s(4, 5), t.s(4, 5, dtype="uint32"), axis=1),
            "nl.gather_flattened: axis: 1, must be 0",
        )
    ],
    "random_seed": [(lambda t: nl.random_seed(t.s(2, 2, dtype="int32")), "set_rng_seed: src_seeds")],
    "program_id": [
        (lambda t: _in_grid(t, lambda: nl.program_id(1)), "nl.program_id: axis 1 of a launch grid of 1 axes")
    ],
    "num_programs": [(lambda t: _in_grid(t, lambda: nl.num_programs(2)), "nl.num_programs: axis 2")],
    "affine_range": [
        (lambda t: list(nl.affine_range(2.5)), "nl.affine_range: start, stop and step are 2.5"),
        (lambda t: list(nl.affine_range(0, 4, 0)), "nl.affine_range: .*must not be zero"),
    ],
    "dynamic_range": [
        (lambda t: list(nl.dynamic_range(0, 4, -1)), "nl.dynamic_range: step: -1, must be a positive integer")
    ],
    "fori_loop": [
        (lambda t: nl.fori_loop(0, 4, print, step=0), "nl.fori_loop: step: 0, must be a positive integer"),
        (lambda t: nl.fori_loop(0, t.s(1, 1), print), "nl.fori_loop: start, stop and step"),
    ],
    "while_loop": [
        (lambda t: nl.while_loop(3, lambda r: r), "nl.while_loop: init: 3 is no register"),
        (lambda t: nl.while_loop(nisa.register_alloc(1), lambda r: 0), "nl.while_loop: what body_fun returns: 0 is no"),
    ],
    "device_print": [
        (lambda t: nl.device_print(t.s(4, 4), "x"), "nl.device_print: print_prefix"),
        (lambda t: nl.device_print("x", 3), "nl.device_print: tensor: 3 is no tensor"),
    ],
    "scalars": [
        (lambda t: nisa.scalar_load(t.s(1, 1)), "nki.isa.scalar_load: src: dtype fp32, must be int32"),
        (lambda t: nisa.scalar_load(3), "nki.isa.scalar_load: src: 3 is no tensor"),
        (lambda t: nisa.scalar_store(t.s(1, 1, dtype="int32"), 3), "nki.isa.scalar_store: value: 3 is no NkiScalar"),
        (lambda t: nisa.NkiScalar(3) + 1.5, "NkiScalar: 1.5 is neither an int nor a scalar"),
        (lambda t: bool(nisa.NkiScalar(3)), "NkiScalar: no condition for Python"),
        (lambda t: int(nisa.NkiScalar(3) < 4), "NkiScalar: the result of a comparison cannot be used"),
    ],
    "rms_norm": [(lambda t: nl.rms_norm(t.s(4, 5), t.s(4, 5), 0, 5), "axis 0")],
    "dropout": [(lambda t: nl.dropout(t.s(4, 5), "half"), "dropout: prob: 'half' is neither a number nor a tile")],
    "invert": [(lambda t: nl.invert(half(t, 4, 4)), "a bit-vector operator needs integers")],
}
FLAT = [(call, *case) for call, cases in CASES.items() for case in cases]


def _in_grid(t, ask):
    t.chip.program.grid, t.chip.program.program = (2,), (0,)
    return ask()


@pytest.mark.parametrize(("call", "broken", "message"), FLAT, ids=[f"{call}-{i}" for i, (call, *_) in enumerate(FLAT)])
def test_a_broken_limit_is_named_with_its_call_and_line(call, broken, message):
    with Chip() as chip, pytest.raises(InputError, match=message) as fault:
        broken(Tiles(chip))
    assert __file__ in str(fault.value), "the line of the caller is named"


@pytest.mark.parametrize("option", ["mask", "precise_schedule"])
def test_what_only_the_legacy_api_has_is_not_swallowed(option):
    with Chip() as chip, pytest.raises(TypeError, match=option):
        nl.exp(chip.tensor(np.ones((4, 4), np.float32)), **{option: None})


def test_more_than_the_chip_has_is_over_capacity():
    assert issubclass(CapacityError, TrnprofError)
