"""`neuronxcc.nki.language`: what each function computes, its masks and its dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from sim import dtypes, spec
from sim.engines.functions import ACTIVATIONS
from sim.errors import InputError, UnsupportedError
from sim.nki import session
from sim.nki.legacy import isa as nisa
from sim.nki.legacy import language as nl
from sim.nki.legacy.index import arange
from sim.nki.legacy.operands import promoted
from sim.nki.legacy.tile import Tile
from sim.program import ProgramBuilder
from sim.trace import Memory

F32 = np.float32
ROWS, COLUMNS = arange(64)[:, None], arange(24)[None, :]


@pytest.fixture
def program() -> Iterator[ProgramBuilder]:
    made = ProgramBuilder(spec.device("trn2"))
    with session.building(made):
        yield made


def tile_of(program: ProgramBuilder, values: np.ndarray, memory: Memory = Memory.SBUF) -> Tile:
    storage = program.allocate(values.shape, dtypes.parse(values.dtype), memory)
    storage.fill(values)
    return Tile(storage, storage.layout, 0)


def calls(program: ProgramBuilder) -> list[str]:
    return [program.forms[number].call.removeprefix("nki.isa.") for number in program._form]


def numbers(shape: tuple[int, ...] = (64, 24), low: float = 0.2, high: float = 3.0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(F32)


# -- elementwise -----------------------------------------------------------------------------------

UNARY: dict[str, Callable] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh,
    "square": np.square, "sign": np.sign, "arctan": np.arctan, "reciprocal": np.reciprocal, "negative": np.negative,
    "abs": np.abs, "sin": np.sin, "cos": np.cos, "tan": np.tan, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    **{name: ACTIVATIONS[name].apply for name in "erf erf_dx gelu gelu_dx silu silu_dx softplus mish".split()},
}  # fmt: skip
BINARY: dict[str, Callable] = {
    name: getattr(np, name)
    for name in (
        "add subtract multiply divide power maximum minimum fmod mod "
        "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor"
    ).split()
}


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_tile(program: ProgramBuilder, name: str) -> None:
    x = numbers()
    if name in ("abs", "sign", "floor", "ceil", "trunc", "relu"):
        x = x - 1.5
    if name in ("sin", "cos", "tan", "arctan"):
        x = x / 3
    out = getattr(nl, name)(tile_of(program, x))
    assert np.allclose(out.array(), UNARY[name](x), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_tiles_a_column_or_a_number(program: ProgramBuilder, name: str) -> None:
    x, y = numbers(seed=1), numbers(seed=2)
    column, row = y[:, :1].copy(), y[:1].copy()
    for ours, theirs in (
        (tile_of(program, y), y),
        (tile_of(program, column), column),
        (tile_of(program, row), row),
        (2.5, 2.5),
    ):
        assert np.allclose(getattr(nl, name)(tile_of(program, x), ours).array(), BINARY[name](x, theirs), rtol=1e-5)
        assert np.allclose(getattr(nl, name)(ours, tile_of(program, x)).array(), BINARY[name](theirs, x), rtol=1e-5)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
def test_bits(program: ProgramBuilder, name: str) -> None:
    x = np.arange(64 * 24, dtype=np.int32).reshape(64, 24)
    assert np.array_equal(getattr(nl, name)(tile_of(program, x), 3).array(), getattr(np, name)(x, 3))
    assert np.array_equal(nl.invert(tile_of(program, x)).array(), ~x)


def test_operators_are_the_functions(program: ProgramBuilder) -> None:
    x, y = numbers(seed=1), numbers(seed=2)
    a, b = tile_of(program, x), tile_of(program, y)
    pairs = [
        (a + b, x + y), (a - b, x - y), (a * b, x * y), (a / b, x / y), (2 - a, 2 - x), (1 / a, 1 / x), (-a, -x),
        (a**2.0, x**2), (a < b, x < y), (a >= b, x >= y), (a == b, x == y), (a != b, x != y),
        (abs(-a), x), (a % b, x % y),
    ]  # fmt: skip
    for ours, theirs in pairs:
        assert np.allclose(ours.array(), theirs, rtol=1e-5)
    assert (a == None) is False  # noqa: E711
    assert bool(a)
    with pytest.raises(InputError, match=r"is no condition: its values are known on the device alone \(use nl.where"):
        bool(a > 0)


def test_a_mask_keeps_an_instruction_to_its_box(program: ProgramBuilder) -> None:
    x = numbers()
    out = nl.multiply(tile_of(program, x), 2.0, mask=(ROWS < 40) & (COLUMNS >= 4))
    assert out.shape == (64, 24)
    assert out.kept == ((0, 40), (4, 24))
    assert program.forms[-1].partitions == 40
    assert np.array_equal(out.array()[:40, 4:], 2 * x[:40, 4:])
    assert not out.array()[40:].any()


def test_a_mask_that_is_a_number_leaves_all_or_nothing(program: ProgramBuilder) -> None:
    x = tile_of(program, numbers())
    nl.exp(x, mask=False)
    assert not len(program)
    nl.exp(x, mask=np.bool_(True))
    assert len(program) == 1


def test_a_mask_that_is_no_rectangle_is_refused_by_name(program: ProgramBuilder) -> None:
    with pytest.raises(UnsupportedError, match=r"nl\.exp: a mask that leaves no rectangle of \[64, 24\]"):
        nl.exp(tile_of(program, numbers()), mask=ROWS < COLUMNS)


def test_and_between_masks_is_reported_once(program: ProgramBuilder) -> None:
    x = tile_of(program, numbers())
    for _ in range(2):
        nl.exp(x, mask=(ROWS < 4 and COLUMNS < 4))
    assert [finding.kind for finding in program.findings] == ["unsupported_python"]
    assert "&" in program.findings[0].sentence


def test_shapes_that_do_not_broadcast_are_named(program: ProgramBuilder) -> None:
    with pytest.raises(InputError, match=r"nl\.add: shapes \[64, 24\] and \[64, 7\] do not broadcast"):
        nl.add(tile_of(program, numbers()), tile_of(program, numbers((64, 7))))
    with pytest.raises(InputError, match=r"nl\.add: at least one"):
        nl.add(1, 2)
    with pytest.raises(InputError, match=r"nl\.exp: data: 3 of type int, must be a tile"):
        nl.exp(3)


PROMOTIONS = [
    ("int32", "float16", "float16"), ("uint16", "tfloat32", "tfloat32"), ("float32", "tfloat32", "float32"),
    ("float32", "bfloat16", "float32"), ("float16", "bfloat16", "float32"), ("float8_e4m3", "float16", "float16"),
    ("float8_e4m3", "bfloat16", "bfloat16"), ("float8_e4m3", "float8_e5m2", "bfloat16"), ("int16", "int32", "int32"),
    ("uint8", "uint16", "uint16"), ("uint16", "int32", "int32"), ("int8", "uint8", "int16"),
    ("int8", "uint16", "int32"), ("int32", "uint32", "float32"),
]  # fmt: skip
"""The examples of v2.26.1 nki.api.shared, "NKI Type Promotion"."""


@pytest.mark.parametrize(("one", "other", "wanted"), PROMOTIONS)
def test_dtypes_are_promoted_as_documented(program: ProgramBuilder, one: str, other: str, wanted: str) -> None:
    a, b = (nl.ndarray((4, 4), dtypes.parse(name)) for name in (one, other))
    assert promoted(a, b) == promoted(b, a) == dtypes.parse(wanted)


def test_an_untyped_number_counts_as_the_widest_of_its_kind(program: ProgramBuilder) -> None:
    narrow, half = nl.ndarray((4, 4), np.int8), nl.ndarray((4, 4), np.float16)
    assert promoted(narrow, 2) == np.int32
    assert promoted(half, 1.2) == np.float32
    assert promoted(half, np.float16(2)) == np.float16
    assert nl.add(tile_of(program, numbers().astype(np.float16)), 1.5).dtype == np.float32
    assert nl.less(tile_of(program, numbers()), 1.5).dtype == np.bool_


def test_a_quotient_of_integers_is_fp32(program: ProgramBuilder) -> None:
    one, other = np.arange(1, 65, dtype=np.int32)[:, None], np.full((64, 1), 8, np.int32)
    quotient = nl.divide(tile_of(program, one), tile_of(program, other))
    assert quotient.dtype == np.float32
    assert np.array_equal(quotient.array(), one / other)
    assert nl.divide(tile_of(program, one), tile_of(program, other), dtype=np.int32).dtype == np.int32


# -- reductions and composites ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean"])
@pytest.mark.parametrize("axis", [3, (2, 3), [1, 3], -3, (1, 2, 3)])
def test_reductions_along_any_free_dimension(program: ProgramBuilder, name: str, axis: Any) -> None:
    x = numbers((64, 3, 4, 5))
    axes = axis if isinstance(axis, int) else tuple(axis)
    for keepdims in (False, True):
        got = getattr(nl, name)(tile_of(program, x), axis, keepdims=keepdims)
        wanted = getattr(np, name)(x, axes, keepdims=keepdims)
        assert got.shape == (wanted.shape if wanted.ndim > 1 else (64, 1))
        assert np.allclose(got.array().reshape(wanted.shape), wanted, rtol=1e-5)


def test_the_partition_is_never_reduced(program: ProgramBuilder) -> None:
    with pytest.raises(InputError, match=r"nl\.sum: axis 0 of \[64, 24\]: the partition"):
        nl.sum(tile_of(program, numbers()), 0)


def test_a_masked_reduction_keeps_its_rows(program: ProgramBuilder) -> None:
    x = numbers()
    got = nl.sum(tile_of(program, x), 1, mask=(ROWS < 10) & (COLUMNS < 20))
    assert got.kept == ((0, 10), (0, 1))
    assert np.allclose(got.array()[:10, 0], x[:10, :20].sum(1), rtol=1e-5)


def test_composites(program: ProgramBuilder) -> None:
    x, w = numbers(), numbers(seed=3)
    powers = np.exp(x - x.max(1, keepdims=True))
    assert np.allclose(nl.softmax(tile_of(program, x), 1).array(), powers / powers.sum(1, keepdims=True), rtol=1e-5)
    assert np.allclose(nl.var(tile_of(program, x), 1).array()[:, 0], x.var(1), rtol=1e-4)
    normed = nl.rms_norm(tile_of(program, x), tile_of(program, w), 1, 24)
    assert np.allclose(normed.array(), x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w, rtol=1e-4)
    chosen = nl.where(tile_of(program, (x > 1).astype(F32)), tile_of(program, x), 0.5)
    assert np.array_equal(chosen.array(), np.where(x > 1, x, F32(0.5)))
    assert nl.all(tile_of(program, (x > 0).astype(F32)), 1).array().all()


def test_matmul_and_transpose(program: ProgramBuilder) -> None:
    x, y = numbers((64, 96)), numbers((96, 24), seed=4)
    product = nl.matmul(tile_of(program, x), tile_of(program, y))
    assert product.layout.memory is Memory.PSUM
    assert np.allclose(product.array(), x @ y, rtol=1e-5)
    turned = nl.transpose(tile_of(program, x))
    assert np.array_equal(turned.array(), x.T)
    assert np.allclose(
        nl.matmul(turned, tile_of(program, numbers((96, 8))), transpose_x=True).array(), x @ numbers((96, 8)), rtol=1e-5
    )


def test_reshape_takes_the_sizes_or_the_shape(program: ProgramBuilder) -> None:
    tile = tile_of(program, numbers())
    for view in (tile.reshape(64, 4, 6), tile.reshape((64, 4, 6)), tile.reshape(shape=[64, 4, 6])):
        assert (view.shape, view.storage) == ((64, 4, 6), tile.storage)


def test_broadcasts_are_views_but_across_partitions(program: ProgramBuilder) -> None:
    x = numbers((64, 1))
    wide = nl.broadcast_to(tile_of(program, x), shape=(64, 24))
    assert not len(program)
    assert np.array_equal(wide.array(), np.broadcast_to(x, (64, 24)))
    row = numbers((1, 24))
    copied = tile_of(program, row).broadcast_to((64, 24))
    assert np.array_equal(copied.array(), np.broadcast_to(row, (64, 24)))
    with pytest.raises(InputError, match=r"\[64, 1\] cannot become \[32, 4\]"):
        nl.broadcast_to(tile_of(program, x), shape=(32, 4))


# -- moves -----------------------------------------------------------------------------------------


def test_loads_and_stores(program: ProgramBuilder) -> None:
    x = numbers()
    source, target = tile_of(program, x, Memory.HBM), nl.ndarray((64, 24), F32, buffer=nl.shared_hbm)
    nl.store(target[ROWS, COLUMNS], value=nl.load(source[ROWS, COLUMNS]), mask=ROWS < 63)
    nl.store(target[63, 0:24], 9)
    assert np.array_equal(target.array()[:63], x[:63])
    assert (target.array()[63] == 9).all()
    assert np.array_equal(nl.load(source, dtype=nl.bfloat16).array(), x.astype(dtypes.bfloat16))
    assert np.array_equal(nl.load_transpose2d(source).array(), x.T)


def test_a_store_from_psum_passes_through_sbuf(program: ProgramBuilder) -> None:
    target = nl.ndarray((96, 64), F32, buffer=nl.hbm)
    nl.store(target, nl.transpose(tile_of(program, numbers((64, 96)))))
    assert calls(program) == ["nc_transpose", "tensor_copy", "dma_copy"]


def test_assignments_to_hbm_are_stores(program: ProgramBuilder) -> None:
    x = numbers((200, 4))
    target = nl.zeros((200, 4), F32, buffer=nl.shared_hbm)
    assert not target.array().any()
    target[0:64] = nl.load(tile_of(program, x, Memory.HBM)[0:64])
    assert np.array_equal(target.array()[:64], x[:64])


def test_memory_is_checked(program: ProgramBuilder) -> None:
    with pytest.raises(InputError, match=r"nl\.load: src: .* is in sbuf, must be in HBM"):
        nl.load(tile_of(program, numbers()))
    with pytest.raises(InputError, match=r"nl\.store: dst: .* must be in HBM"):
        nl.store(tile_of(program, numbers()), 1)
    with pytest.raises(InputError, match="a tile in HBM, must be in SBUF or PSUM"):
        nl.exp(tile_of(program, numbers(), Memory.HBM))


def test_rows_named_by_an_index_tile(program: ProgramBuilder) -> None:
    x, places = numbers((128, 24)), np.array([[5], [3], [127], [0]], np.int32)
    source, index = tile_of(program, x, Memory.HBM), tile_of(program, places)
    assert np.array_equal(nl.load(source[index, COLUMNS]).array(), x[places[:, 0]])
    target = nl.zeros((128, 24), F32, buffer=nl.shared_hbm)
    nl.store(target[index[arange(4)[:, None], 0], COLUMNS], nl.load(source[0:4]))
    assert np.array_equal(target.array()[places[:, 0]], x[:4])
    nl.atomic_rmw(target[index, COLUMNS], nl.load(source[0:4]), np.add)
    assert np.array_equal(target.array()[places[:, 0]], 2 * x[:4])
    late = nl.load(source[index, COLUMNS], mask=(arange(4)[:, None] > 1) & (COLUMNS >= 0))
    assert late.kept == ((2, 4), (0, 24))
    assert np.array_equal(late.array()[2:], x[[127, 0]])
    with pytest.raises(UnsupportedError, match="an index tile on an on-chip tensor"):
        _ = tile_of(program, x)[index, COLUMNS]


def test_constants_and_random_numbers(program: ProgramBuilder) -> None:
    assert np.array_equal(nl.shared_identity_matrix(8, dtype=nl.bfloat16).array().astype(F32), np.eye(8))
    assert nl.fp32.min == np.finfo(F32).min
    drawn = nl.rand((32, 64)).array()
    assert 0 <= drawn.min() < 0.05 < 0.95 < drawn.max() < 1
    nl.random_seed(7)
    first = nl.rand((32, 64)).array().copy()
    nl.random_seed(7)
    assert np.array_equal(nl.rand((32, 64)).array(), first)
    assert nl.static_cast(np.float32(1.0009), nl.bfloat16) == 1.0
    kept = nl.dropout(tile_of(program, numbers()), 0.5).array()
    assert 0 < (kept == 0).mean() < 1


def test_gather_along_the_free_dimension(program: ProgramBuilder) -> None:
    x, places = numbers(), np.random.default_rng(0).integers(0, 24, (64, 5)).astype(np.uint32)
    got = nl.gather_flattened(tile_of(program, x), tile_of(program, places))
    assert np.array_equal(got.array(), np.take_along_axis(x, places.astype(int), 1))


# -- loops -----------------------------------------------------------------------------------------


def test_a_loops_reduction_starts_with_its_first_iteration(program: ProgramBuilder) -> None:
    x = numbers((6, 64, 24))
    source = tile_of(program, x, Memory.HBM)
    total, best = nl.ndarray((2, nl.par_dim(64), 24), F32), nl.ndarray((64, 24), F32)
    for outer in nl.affine_range(2):
        for inner in nl.sequential_range(3):
            part = nl.load(source[3 * outer + inner])
            total[outer] = nl.loop_reduce(part, op=np.add, loop_indices=[inner])
            best[...] = nl.loop_reduce(part, op=np.max, loop_indices=[outer, inner])
    assert np.allclose(total[0].array(), x[:3].sum(0), rtol=1e-6)
    assert np.allclose(total[1].array(), x[3:].sum(0), rtol=1e-6)
    assert np.array_equal(best.array(), x.max(0))
    assert calls(program).count("tensor_copy") == 3
    assert calls(program).count("tensor_tensor") == 9


def test_a_reduction_may_be_bound_to_a_name(program: ProgramBuilder) -> None:
    x = numbers((3, 64, 24))
    source = tile_of(program, x, Memory.HBM)
    for number in nl.affine_range(3):
        total = nl.loop_reduce(nl.load(source[number]), op=nl.add, loop_indices=[number])
    assert np.allclose(total.array(), x.sum(0), rtol=1e-6)


def test_a_reduction_without_a_destination_cannot_be_used(program: ProgramBuilder) -> None:
    x, made = tile_of(program, numbers()), []
    for number in nl.affine_range(2):
        made.append(nl.loop_reduce(x, op=nl.add, loop_indices=number))
    with pytest.raises(InputError, match=r"nl\.loop_reduce is used before it is assigned"):
        nl.exp(made[1])


def test_instructions_of_a_loop_lie_in_its_region(program: ProgramBuilder) -> None:
    for _ in nl.affine_range(2):
        nisa.memset((4, 4), 0.0, F32)
    assert program.regions[program._region[0]].name.startswith("affine_range at line")
    with pytest.raises(InputError, match="affine_range"):
        nl.affine_range("four")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda t: nl.exp(t, dytpe=F32), "dytpe"),
        (lambda t: nl.add(t, t, msak=None), "msak"),
        (lambda t: nisa.activation(op=nl.exp, data=t, bais=t), "bais"),
        (lambda t: nl.load(t, dst=t), "dst"),
        (lambda t: nl.ndarray((4, 4), F32, bufer=nl.psum), "bufer"),
        (lambda t: nl.affine_range(4, precise=True), "precise"),
    ],
)
def test_a_misspelt_argument_is_not_swallowed(program: ProgramBuilder, call, name: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        call(tile_of(program, numbers()))


def test_what_only_the_compiler_minds_is_taken(program: ProgramBuilder) -> None:
    nl.zeros((4, 4), F32, lazy_initialization=True)
    assert len(list(nl.affine_range(4, precise_schedule=True))) == 4
    assert len(list(nl.sequential_range(4, directives=None))) == 4
