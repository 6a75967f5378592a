"""`neuronxcc.nki.isa`: results, masks and shapes of each call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sim import dtypes, spec
from sim.errors import InputError, UnsupportedError
from sim.nki import session
from sim.nki.legacy import isa as nisa
from sim.nki.legacy import language as nl
from sim.nki.legacy.index import arange, mgrid
from sim.nki.legacy.tile import Tile
from sim.program import ProgramBuilder
from sim.trace import Engine, Memory

F32 = np.float32
P, N = 64, 24
ROWS, COLUMNS = arange(P)[:, None], arange(N)[None, :]
MASK = (ROWS < 40) & (COLUMNS < 16)


@pytest.fixture
def program() -> Iterator[ProgramBuilder]:
    made = ProgramBuilder(spec.device("trn2"))
    with session.building(made):
        yield made


def tile_of(program: ProgramBuilder, values: np.ndarray, memory: Memory = Memory.SBUF) -> Tile:
    storage = program.allocate(values.shape, dtypes.parse(values.dtype), memory)
    storage.fill(values)
    return Tile(storage, storage.layout, 0)


def numbers(shape: tuple[int, ...] = (P, N), seed: int = 0, low: float = 0.2) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, 2.0, shape).astype(F32)


def scan(a: np.ndarray, b: np.ndarray, start: Any) -> np.ndarray:
    out, state = np.empty_like(a), start
    for step in range(a.shape[1]):
        state = a[:, step] * state + b[:, step]
        out[:, step] = state
    return out


X, Y, C = numbers(seed=1), numbers(seed=2), numbers((P, 1), seed=3)
SAME_SHAPE = {
    "activation": (lambda t, m: nisa.activation(np.square, t(X), bias=t(C), scale=2.0, mask=m), np.square(2 * X + C)),
    "activation with a column": (lambda t, m: nisa.activation(nl.exp, t(X), scale=t(C), mask=m), np.exp(X * C)),
    "reciprocal": (lambda t, m: nisa.reciprocal(t(X), mask=m), 1 / X),
    "tensor_copy": (lambda t, m: nisa.tensor_copy(t(X), mask=m, engine=nisa.vector_engine), X),
    "tensor_scalar": (lambda t, m: nisa.tensor_scalar(t(X), np.subtract, 1.0, reverse0=True, mask=m), 1 - X),
    "tensor_scalar twice": (
        lambda t, m: nisa.tensor_scalar(t(X), np.multiply, t(C), op1=np.add, operand1=2.5, mask=m),
        X * C + 2.5,
    ),
    "tensor_scalar of bf16 columns": (
        lambda t, m: nisa.tensor_scalar(t(X), np.multiply, t(np.full((P, 1), 0.5, dtypes.bfloat16)), mask=m),
        X / 2,
    ),
    "tensor_tensor": (lambda t, m: nisa.tensor_tensor(t(X), t(Y), op=nl.maximum, mask=m), np.maximum(X, Y)),
    "scalar_tensor_tensor": (
        lambda t, m: nisa.scalar_tensor_tensor(
            data=t(X), op0=np.subtract, operand0=t(C), op1=np.multiply, operand1=t(Y), mask=m
        ),
        (X - C) * Y,
    ),
    "tensor_tensor_scan": (
        lambda t, m: nisa.tensor_tensor_scan(t(X), t(Y), t(C), np.multiply, np.add, mask=m),
        scan(X, Y, C[:, 0]),
    ),
    "affine_select": (
        lambda t, m: nisa.affine_select(COLUMNS < ROWS, t(X), -1.0, mask=m),
        np.where(np.arange(N)[None] < np.arange(P)[:, None], X, F32(-1)),
    ),
    "memset": (lambda t, m: nisa.memset((P, N), 3.5, F32, mask=m), np.full((P, N), 3.5, F32)),
    "iota": (
        lambda t, m: nisa.iota(5 + 2 * ROWS - COLUMNS, np.int32, mask=m),
        5 + 2 * np.arange(P)[:, None] - np.arange(N),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME_SHAPE)
def test_calls_that_keep_the_shape(program: ProgramBuilder, name: str) -> None:
    make, wanted = SAME_SHAPE[name]
    whole = make(lambda values: tile_of(program, values), None)
    assert whole.shape == wanted.shape
    assert np.allclose(whole.array(), wanted, rtol=1e-5)
    part = make(lambda values: tile_of(program, values), MASK)
    assert part.kept == ((0, 40), (0, 16))
    assert np.allclose(part.array()[:40, :16], wanted[:40, :16], rtol=1e-5)
    assert not part.array()[40:].any()
    before = len(program)
    make(lambda values: tile_of(program, values), COLUMNS > N)
    assert "column" in name or len(program) == before


def test_reductions_beside_a_call(program: ProgramBuilder) -> None:
    total, best = nl.ndarray((P, 1), F32), nl.ndarray((P, 1), F32)
    nisa.activation_reduce(nl.exp, tile_of(program, X), reduce_op=nl.add, reduce_res=total)
    nisa.tensor_scalar_reduce(
        data=tile_of(program, X), op0=nl.multiply, operand0=2.0, reduce_op=nl.max, reduce_res=best
    )
    assert np.allclose(total.array()[:, 0], np.exp(X).sum(1), rtol=1e-5)
    assert np.array_equal(best.array()[:, 0], (2 * X).max(1))


def test_tensor_reduce_can_negate(program: ProgramBuilder) -> None:
    got = nisa.tensor_reduce(np.max, tile_of(program, X), axis=[1], negate=True, dtype=nl.bfloat16)
    assert got.dtype == dtypes.bfloat16
    assert np.array_equal(got.array()[:, 0], (-X.max(1)).astype(dtypes.bfloat16))


def test_statistics(program: ProgramBuilder) -> None:
    both = nisa.bn_aggr(nisa.bn_stats(tile_of(program, X)))
    assert both.shape == (P, 2)
    assert np.allclose(both.array(), np.stack((X.mean(1), X.var(1)), 1), rtol=1e-4)


def test_the_eight_largest(program: ProgramBuilder) -> None:
    tile = tile_of(program, X)
    best = nisa.max8(src=tile)
    assert np.array_equal(best.array(), -np.sort(-X, 1)[:, :8])
    found = nisa.nc_find_index8(data=tile, vals=best)
    assert found.dtype == np.uint32
    assert np.array_equal(found.array(), np.argsort(-X, 1)[:, :8])
    places = nl.ndarray((P, 8), np.uint32)
    left = nisa.nc_match_replace8(data=tile, vals=best, imm=-1.0, dst_idx=places)
    assert ((left.array() == -1).sum(1) == 8).all()
    assert np.array_equal(places.array(), found.array())
    part = nisa.max8(src=tile, mask=MASK)
    assert np.array_equal(part.array()[:40], -np.sort(-X[:40, :16], 1)[:, :8])


def test_partitions_are_folded(program: ProgramBuilder) -> None:
    got = nisa.tensor_partition_reduce(np.add, tile_of(program, numbers((64, 3, 4))), mask=None)
    assert got.shape == (1, 3, 4)
    assert np.allclose(got.array(), numbers((64, 3, 4)).sum(0, keepdims=True), rtol=1e-5)


def test_copies_and_selections_by_predicate(program: ProgramBuilder) -> None:
    flags = X > 1
    target = tile_of(program, Y.copy())
    nisa.tensor_copy_predicated(src=tile_of(program, X), dst=target, predicate=tile_of(program, flags), mask=ROWS < 40)
    assert np.array_equal(target.array(), np.where(flags & (np.arange(P)[:, None] < 40), X, Y))
    out = nl.ndarray((P, N), F32)
    nisa.select_reduce(
        dst=out, predicate=tile_of(program, flags), on_true=tile_of(program, X), on_false=0.5, reverse_pred=True
    )
    assert np.array_equal(out.array(), np.where(flags, F32(0.5), X))


def test_range_select(program: ProgramBuilder) -> None:
    low, high = np.full((P, 1), 4, F32), np.full((P, 1), 9, F32)
    got = nisa.range_select(
        on_true_tile=tile_of(program, X), comp_op0=np.greater_equal, comp_op1=np.less, bound0=tile_of(program, low),
        bound1=tile_of(program, high), range_start=2,
    )  # fmt: skip
    kept = (np.arange(N) + 2 >= 4) & (np.arange(N) + 2 < 9)
    assert np.array_equal(got.array(), np.where(kept, X, np.finfo(F32).min))


def test_shuffles_write_into_their_destination(program: ProgramBuilder) -> None:
    target = nl.ndarray((P, N), F32)
    nisa.nc_stream_shuffle(tile_of(program, X), target, [(i + 1) % 32 for i in range(32)])
    assert np.array_equal(target.array()[:32], np.roll(X[:32], -1, 0))


# -- the Tensor Engine -----------------------------------------------------------------------------


def test_matmul_returns_fp32_in_psum(program: ProgramBuilder) -> None:
    a, b = numbers((96, 48)), numbers((96, 80), seed=5)
    got = nisa.nc_matmul(tile_of(program, a), tile_of(program, b))
    assert got.layout.memory is Memory.PSUM
    assert got.dtype == np.float32
    assert np.allclose(got.array(), a.T @ b, rtol=1e-5)


def test_a_matmuls_operands_in_psum_are_copied_to_sbuf(program: ProgramBuilder) -> None:
    a, b = numbers((48, 96)), numbers((96, 80), seed=5)
    transposed = nisa.nc_transpose(tile_of(program, a))
    assert transposed.layout.memory is Memory.PSUM
    got = nisa.nc_matmul(transposed, tile_of(program, b, Memory.PSUM))
    assert np.allclose(got.array(), a @ b, rtol=1e-5)


def test_free_dimensions_of_size_1_are_repeated(program: ProgramBuilder) -> None:
    column = numbers((P, 1), seed=3)
    for one, other in ((X, column), (column, X)):
        got = nisa.tensor_tensor(tile_of(program, one), tile_of(program, other), op=nl.subtract)
        assert got.shape == (P, N)
        assert np.array_equal(got.array(), one - other)
    deep, wide = (tile_of(program, X).reshape(shape) for shape in ((P, 1, N), (P, N, 1)))
    assert np.array_equal(nisa.tensor_tensor(deep, wide, op=nl.add).array().reshape(P, N), X + X)
    masked = nisa.tensor_tensor(tile_of(program, X), tile_of(program, column), op=nl.multiply, mask=MASK)
    assert np.array_equal(masked.array()[:40, :16], (X * column)[:40, :16])


def test_a_matmuls_mask_names_the_axes_of_one_operand(program: ProgramBuilder) -> None:
    a, b = numbers((96, 48)), numbers((96, 80), seed=5)
    left, right = tile_of(program, a), tile_of(program, b)
    moving = nisa.nc_matmul(left, right, mask=arange(80)[None, :] < 30)
    assert moving.kept == ((0, 48), (0, 30))
    assert np.allclose(moving.array()[:, :30], a.T @ b[:, :30], rtol=1e-5)
    stationary = nisa.nc_matmul(left, right, mask=arange(48)[None, :] >= 32)
    assert stationary.kept == ((32, 48), (0, 80))
    assert np.allclose(stationary.array()[32:], a[:, 32:].T @ b, rtol=1e-5)
    with pytest.raises(UnsupportedError, match="a mask whose axes may be those of both operands"):
        nisa.nc_matmul(left, left, mask=arange(48)[None, :] < 20)
    masked = nisa.nc_matmul(left[arange(48)[None, :] < 10], right[arange(80)[None, :] < 20])
    assert masked.shape == (10, 20)


def test_transposes(program: ProgramBuilder) -> None:
    on_tensor = nisa.nc_transpose(tile_of(program, X))
    assert on_tensor.layout.memory is Memory.PSUM
    assert np.array_equal(on_tensor.array(), X.T)
    small = nisa.nc_transpose(tile_of(program, X[:32, :8].copy()), engine=nisa.vector_engine, dtype=nl.bfloat16)
    assert small.layout.memory is Memory.SBUF
    assert np.array_equal(small.array(), X[:32, :8].T.astype(dtypes.bfloat16))
    assert [program.forms[number].engine for number in program._form] == [Engine.TENSOR, Engine.VECTOR, Engine.VECTOR]


# -- moves -----------------------------------------------------------------------------------------


def test_dma_transposes(program: ProgramBuilder) -> None:
    x = numbers((16, 3, 8))
    got = nisa.dma_transpose(tile_of(program, x, Memory.HBM), dtype=nl.bfloat16)
    assert np.array_equal(got.array(), x.transpose(2, 1, 0).astype(dtypes.bfloat16))
    with pytest.raises(InputError, match="src has 1 dimensions, must be 2 to 4"):
        nisa.dma_transpose(tile_of(program, numbers((16,)), Memory.HBM))


def test_rows_outside_are_an_error_or_skipped(program: ProgramBuilder) -> None:
    source = tile_of(program, numbers((128, 16)), Memory.HBM)
    grid = mgrid[0:64, 0:16]
    index = nisa.iota(3 * arange(64)[:, None], np.int32)
    target = nisa.memset((64, 16), -1.0, F32)
    nisa.dma_copy(dst=target[grid.p, grid.x], src=source[index, grid.x], oob_mode=nisa.oob_mode.skip)
    assert np.array_equal(target.array()[:43], numbers((128, 16))[0:129:3])
    assert (target.array()[43:] == -1).all()
    with pytest.raises(InputError, match=r"dma_copy: index 129 of partition 43 is outside a dimension of size 128"):
        nisa.dma_copy(dst=target[grid.p, grid.x], src=source[index, grid.x])


def test_a_tile_can_be_moved_to_a_place_that_a_tile_names(program: ProgramBuilder) -> None:
    at = tile_of(program, np.array([[4]], np.int32))
    row = tile_of(program, X)
    picked = nisa.tensor_copy_dynamic_src(row[:, at])
    assert np.array_equal(picked.array()[:, 0], X[:, 4])


# -- messages --------------------------------------------------------------------------------------

TILE = (P, N)
WRONG = [
    (lambda t: nisa.nc_matmul(t((128, 200)), t((128, 64))), "stationary: free size 200 > 128"),
    (lambda t: nisa.nc_matmul(t((64, 64)), t((128, 64))), "partitions"),
    (lambda t: nisa.nc_transpose(t((128, 200))), "data: free size 200 > 128"),
    (lambda t: nisa.tensor_copy(t((200, 4))), "tensor_copy: data: partition 200 > 128"),
    (lambda t: nisa.tensor_tensor(t(TILE), t((32, N)), op=nl.add), "partitions"),
    (lambda t: nisa.tensor_tensor(t(TILE), 3.0, op=nl.add), "data2: 3.0 of type float, must be a tile"),
    (lambda t: nisa.activation(nl.add, t(TILE)), "no activation function"),
    (lambda t: nisa.tensor_scalar(t(TILE), nl.exp, 1.0), "no ALU operator"),
    (lambda t: nisa.tensor_scalar(t(TILE), nl.add, t((P, 2))), r"operand0: shape \[64, 2\]"),
    (lambda t: nisa.bn_stats(t((P, 600))), "512"),
    (lambda t: nisa.max8(src=t((P, 4))), "4 elements a partition < 8"),
    (lambda t: nisa.iota(np.arange(4), np.int32), "must be an affine expression"),
    (lambda t: nisa.affine_select(ROWS == COLUMNS, t(TILE), 0.0), "one comparison of affine expressions"),
    (lambda t: nisa.local_gather(t(TILE), t((P, 4)), 3), "index: dtype float32, must be uint16"),
    (lambda t: nisa.builtin_custom_op("f", "f.so", "1", "1", [t], [t]), "builtin_custom_op"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_breaks_a_limit_is_named_with_its_line(program: ProgramBuilder, call: Any, message: str) -> None:
    def tile(shape: tuple[int, ...]) -> Tile:
        return tile_of(program, numbers(shape))

    with pytest.raises((InputError, UnsupportedError), match=message) as caught:
        call(tile)
    assert caught.value.source.partition(":")[0].endswith("test_legacy_isa.py")
