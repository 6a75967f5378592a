"""Indexing of legacy tensors against NumPy, block dimensions, and assignments that cost no copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import dtypes, spec
from sim.errors import InputError, UnsupportedError
from sim.nki import session
from sim.nki.legacy import isa as nisa
from sim.nki.legacy import language as nl
from sim.nki.legacy.index import LoopIndex, arange
from sim.nki.legacy.tile import Tile
from sim.program import ProgramBuilder
from sim.trace import Memory

F32 = np.float32


@pytest.fixture
def program() -> Iterator[ProgramBuilder]:
    made = ProgramBuilder(spec.device("trn2"))
    with session.building(made):
        yield made


def given_tile(program: ProgramBuilder, values: np.ndarray, memory: Memory = Memory.SBUF) -> Tile:
    """A tile that holds values without an instruction."""
    storage = program.allocate(values.shape, dtypes.parse(values.dtype), memory)
    storage.fill(values)
    return Tile(storage, storage.layout, 0)


def calls(program: ProgramBuilder) -> list[str]:
    return [program.forms[number].call.removeprefix("nki.isa.") for number in program._form]


# -- indexing --------------------------------------------------------------------------------------


@st.composite
def keys(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple, tuple]:
    """(shape, key of index tensors, numbers and slices, the same key with NumPy) of an HBM tensor."""
    shape = tuple(draw(st.lists(st.integers(2, 7), min_size=1, max_size=4)))
    axes = draw(st.integers(1, 3))
    ours, theirs = [], []
    for size in shape:
        kind = draw(st.sampled_from(("index", "index", "number", "slice")))
        if kind == "index":
            axis, count, step = draw(st.integers(0, axes - 1)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
            count = min(count, (size - 1) // step + 1)
            start = draw(st.integers(0, size - 1 - (count - 1) * step))
            pattern = tuple(slice(None) if a == axis else None for a in range(axes))
            ours.append(start + step * arange(count)[pattern])
            theirs.append(start + step * np.arange(count)[pattern])
        elif kind == "number":
            ours.append(draw(st.integers(0, size - 1)))
            theirs.append(ours[-1])
        else:
            start = draw(st.integers(0, size - 1))
            ours.append(slice(start, draw(st.integers(start + 1, size))))
            theirs.append(ours[-1])
    return shape, tuple(ours), tuple(theirs)


def same_axis_sizes(key: tuple) -> bool:
    """Whether NumPy can broadcast the key's index arrays."""
    try:
        np.broadcast_shapes(*[item.shape for item in key if isinstance(item, np.ndarray)])
    except ValueError:
        return False
    return True


@given(keys())
def test_index_tensors_pick_what_numpy_picks(case: tuple) -> None:
    shape, key, numpy_key = case
    values = np.arange(np.prod(shape), dtype=F32).reshape(shape)
    program = ProgramBuilder(spec.device("trn2"))
    with session.building(program):
        tile = given_tile(program, values, Memory.HBM)
        if not same_axis_sizes(numpy_key):
            with pytest.raises(InputError, match="broadcast"):
                _ = tile[key]
            return
        for _ in range(2):
            got = tile[key].array()
            wanted = values[numpy_key]
            assert np.array_equal(got.reshape(wanted.shape), wanted)


@pytest.mark.usefixtures("program")
def test_a_number_that_a_loop_gives_indexes_as_any_number(program: ProgramBuilder) -> None:
    values = np.arange(24, dtype=F32).reshape(2, 3, 4)
    tile = given_tile(program, values, Memory.HBM)
    at = LoopIndex(1)
    assert np.array_equal(tile[at, arange(3)[:, None], arange(4)[None, :]].array(), values[1])
    assert np.array_equal(tile[np.int64(1), arange(3)[:, None], arange(4)[None, :]].array(), values[1])


def test_an_index_outside_is_an_error_only_when_it_is_used(program: ProgramBuilder) -> None:
    values = np.arange(100 * 8, dtype=F32).reshape(100, 8)
    tile = given_tile(program, values, Memory.HBM)
    rows, columns = arange(64)[:, None], arange(8)[None, :]
    view = tile[64 + rows, columns]
    loaded = nl.load(view, mask=64 + rows < 100)
    assert loaded.shape == (64, 8)
    assert loaded.kept == ((0, 36), (0, 8))
    assert np.array_equal(loaded.array()[:36], values[64:])
    with pytest.raises(InputError, match=r"nl\.load: index 64…127 of .* outside a dimension of size 100"):
        nl.load(view)


def test_a_pattern_seen_before_is_still_checked(program: ProgramBuilder) -> None:
    tile = given_tile(program, np.zeros((100, 8), F32), Memory.HBM)
    rows, columns = arange(64)[:, None], arange(8)[None, :]
    nl.load(tile[rows, columns])
    for shift in (64, -1):
        with pytest.raises(InputError, match="outside a dimension of size 100"):
            nl.load(tile[shift + rows, columns])


def test_a_slice_may_overrun_until_a_mask_cuts_it(program: ProgramBuilder) -> None:
    values = np.arange(3 * 100 * 10, dtype=F32).reshape(3, 100, 10)
    tile = given_tile(program, values, Memory.HBM)
    rows, columns = arange(64)[:, None], arange(8)[None, :]
    view = tile[2, 64:128, 4:20:2]
    assert view.shape == (64, 8)
    loaded = nl.load(view, mask=(64 + rows < 100) & (4 + 2 * columns < 10))
    assert loaded.kept == ((0, 36), (0, 3))
    assert np.array_equal(loaded.array()[:36, :3], values[2, 64:, 4::2])
    last = nl.load(tile[:, 90:120, 1], mask=(arange(3)[:, None] >= 0) & (arange(30)[None, :] < 10))
    assert np.array_equal(last.array()[:, :10], values[:, 90:, 1])
    for mask in (64 + rows < 100, 4 + 2 * columns < 10, (64 + rows < 100) & (4 + 2 * columns < 12)):
        with pytest.raises(InputError, match="outside a dimension of size 10"):
            nl.load(view, mask=mask)
    with pytest.raises(InputError, match="slice 8:12 runs past dimension 2 of size 10"):
        _ = tile[2, rows, 8:12]


def test_a_slice_between_index_tensors_puts_their_axes_first(program: ProgramBuilder) -> None:
    values = np.arange(2 * 3 * 4 * 5, dtype=F32).reshape(2, 3, 4, 5)
    tile = given_tile(program, values, Memory.HBM)
    key, wanted = (
        (slice(None), arange(3), slice(None), arange(3)),
        (slice(None), np.arange(3), slice(None), np.arange(3)),
    )
    assert np.array_equal(tile[key].array(), values[wanted])
    with pytest.raises(UnsupportedError, match="a slice divides"):
        _ = given_tile(program, values)[key]


def test_the_partition_is_the_first_index_axis_on_chip(program: ProgramBuilder) -> None:
    tile = given_tile(program, np.zeros((4, 4), F32))
    for key in ((arange(4)[None, :], arange(4)[:, None]), (arange(4)[:, None], arange(4)[:, None])):
        with pytest.raises(UnsupportedError, match="mixes the partition with a free axis"):
            _ = tile[key]


def test_values_that_are_no_affine_expression_are_refused(program: ProgramBuilder) -> None:
    tile = given_tile(program, np.zeros((4, 8), F32))
    assert tile[arange(4)[:, None], np.array([[1, 3, 5]])].shape == (4, 3)
    with pytest.raises(UnsupportedError, match="no affine expression"):
        _ = tile[arange(4)[:, None], np.array([[1, 3, 4]])]


def test_an_operand_mask_is_a_box_of_the_tile(program: ProgramBuilder) -> None:
    values = np.arange(32, dtype=F32).reshape(4, 8)
    tile = given_tile(program, values)
    assert np.array_equal(tile[arange(8)[None, :] < 3].array(), values[:, :3])


# -- block dimensions ------------------------------------------------------------------------------


def test_each_block_is_a_storage_of_its_own_made_when_it_is_touched(program: ProgramBuilder) -> None:
    tensor = nl.ndarray((3, 2, nl.par_dim(128), 16), F32, name="t")
    assert tensor.shape == (3, 2, 128, 16)
    assert not program.storages
    tensor[1, 0] = 1.0
    tensor[2, 1, arange(128)[:, None], arange(16)[None, :]] = 2.0
    assert [storage.name for storage in program.storages] == ["t[1, 0]", "t[2, 1]"]
    assert tensor[1, 0, :, 3:5].array().min() == 1.0
    with pytest.raises(InputError, match=r"block index \[3, 0\] is outside \[3, 2\]"):
        _ = tensor[3, 0]
    with pytest.raises(UnsupportedError, match="several blocks"):
        _ = tensor[0:2, 0]


def test_fewer_numbers_than_block_dimensions_leave_a_tensor_of_the_same_blocks(program: ProgramBuilder) -> None:
    tensor = nl.ndarray((3, 2, 1, nl.par_dim(128), 16), F32, name="t")
    part = tensor[1]
    assert (part.shape, part.ndim, part.dtype) == ((2, 1, 128, 16), 4, tensor.dtype)
    assert not program.storages
    part[1, 0, :, :] = 3.0
    tensor[1, 0] = tensor[1, 1]
    assert [storage.name for storage in program.storages] == ["t[1, 1, 0]", "t[1, 0, 0]"]
    assert tensor[1, 1, 0].storage is part[1, 0].storage is tensor[1][1][0].storage
    assert tensor[:, 1][1, 0].storage is part[1, 0].storage
    assert tensor[..., 1, 0, :, :][1].storage is part[1, 0].storage


def test_a_tensor_of_several_blocks_is_no_operand(program: ProgramBuilder) -> None:
    tensor, only = (nl.zeros((blocks, 1, nl.par_dim(128), 16), F32) for blocks in (2, 1))
    assert nl.copy(only).shape == (128, 16)
    assert nl.copy(tensor[1]).shape == (128, 16)
    assert nl.copy(only[:, 0, :, 0:4]).shape == (128, 4)
    for use in (lambda: nl.copy(tensor), lambda: tensor[:, 0, 0:4], lambda: tensor.__setitem__(slice(None), 1.0)):
        with pytest.raises(UnsupportedError, match="several blocks in one operand"):
            use()


def test_zeros_fill_each_block_once(program: ProgramBuilder) -> None:
    tensor = nl.zeros((4, nl.par_dim(128), 16), F32)
    assert not tensor[2].array().any()
    _ = tensor[2]
    assert calls(program) == ["memset"]


def test_shapes_on_chip_are_checked(program: ProgramBuilder) -> None:
    with pytest.raises(InputError, match="partition dimension 256 > 128"):
        nl.ndarray((4, nl.par_dim(256), 16), F32)
    assert nl.ndarray((nl.par_dim(64),), F32).shape == (64, 1)
    assert nl.ndarray((4, nl.par_dim(128), 16), F32, buffer=nl.shared_hbm).shape == (4, 128, 16)


# -- assignment ------------------------------------------------------------------------------------


def two(program: ProgramBuilder) -> tuple[Tile, Tile, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    a, b = (generator.normal(size=(128, 32)).astype(F32) for _ in range(2))
    return given_tile(program, a), given_tile(program, b), a, b


def test_a_result_is_written_where_it_is_assigned(program: ProgramBuilder) -> None:
    a, b, x, y = two(program)
    out = nl.ndarray((128, 64), F32)
    out[:, 32:64] = nl.add(a, b)
    assert calls(program) == ["tensor_tensor"]
    assert np.array_equal(out[:, 32:64].array(), x + y)
    assert program.written_storages() == {out.storage.index}


def test_a_result_that_has_a_name_is_copied(program: ProgramBuilder) -> None:
    a, b, x, y = two(program)
    out = nl.ndarray((128, 32), F32)
    total = nl.add(a, b)
    out[...] = total
    out[...] = nl.multiply(out, out)
    assert calls(program) == ["tensor_tensor", "tensor_copy", "tensor_tensor"]
    assert np.array_equal(total.array(), x + y)
    assert np.array_equal(out.array(), (x + y) * (x + y))


def test_a_view_of_the_result_keeps_it_apart(program: ProgramBuilder) -> None:
    a, b, x, y = two(program)
    kept: list[Tile] = []

    def made() -> Tile:
        result = nl.add(a, b)
        kept.append(result[:, 0:1])
        return result

    out = nl.ndarray((128, 32), F32)
    out[...] = made()
    out[...] = 0.0
    assert np.array_equal(kept[0].array(), (x + y)[:, :1])


def test_the_dtype_of_the_target_is_the_instructions(program: ProgramBuilder) -> None:
    a, b, x, y = two(program)
    out = nl.ndarray((128, 32), nl.bfloat16)
    out[...] = nl.add(a, b)
    assert calls(program) == ["tensor_tensor"]
    assert program.forms[-1].layouts[0].dtype == dtypes.bfloat16
    assert np.array_equal(out.array(), (x + y).astype(dtypes.bfloat16))


def test_an_instruction_that_reads_what_it_would_overwrite_is_copied(program: ProgramBuilder) -> None:
    a, _, x, _ = two(program)
    a[:, 1:32] = nl.copy(a[:, 0:31])
    assert calls(program) == ["tensor_copy", "tensor_copy"]
    assert np.array_equal(a.array(), np.concatenate((x[:, :1], x[:, :31]), 1))
    a[...] = nl.negative(a)
    assert calls(program)[2:] == ["tensor_scalar"]


def test_a_calls_second_result_stays_where_the_kernel_put_it(program: ProgramBuilder) -> None:
    a, _, x, _ = two(program)
    out, total = nl.ndarray((128, 32), F32), nl.ndarray((128, 1), F32)
    out[...] = nisa.activation(
        np.square, a, reduce_op=np.add, reduce_res=total, reduce_cmd=nisa.reduce_cmd.reset_reduce
    )
    assert calls(program)[0] == "activation"
    assert len(program) == 2
    assert np.array_equal(out.array(), x * x)
    assert np.allclose(total.array()[:, 0], (x * x).sum(1), rtol=1e-6)


def test_a_second_result_inside_the_target_is_overwritten(program: ProgramBuilder) -> None:
    a, _, x, _ = two(program)
    out = nl.ndarray((128, 32), F32)
    out[...] = nisa.activation(
        np.square, a, reduce_op=np.add, reduce_res=out[:, 0:1], reduce_cmd=nisa.reduce_cmd.reset_reduce
    )
    assert calls(program)[-1] == "tensor_copy"
    assert np.array_equal(out.array(), x * x)


def test_a_masked_result_writes_its_part_of_the_target(program: ProgramBuilder) -> None:
    a, b, x, y = two(program)
    out = nl.full((128, 32), 7.0, F32)
    rows = arange(128)[:, None]
    out[...] = nl.add(a, b, mask=rows < 100)
    out[...] = nl.add(a, b, mask=rows > 200)
    assert calls(program) == ["memset", "tensor_tensor"]
    assert np.array_equal(out.array()[:100], (x + y)[:100])
    assert (out.array()[100:] == 7.0).all()


def test_a_smaller_value_is_repeated(program: ProgramBuilder) -> None:
    a, _, x, _ = two(program)
    out = nl.ndarray((128, 32), F32)
    out[...] = a[:, 3:4]
    assert np.array_equal(out.array(), np.repeat(x[:, 3:4], 32, 1))
    with pytest.raises(InputError, match=r"cannot assign shape \[128, 32\] to .* \[128, 1\]"):
        out[:, 0:1] = a


def test_a_partition_that_no_engine_can_start_at_is_filled_by_dma(program: ProgramBuilder) -> None:
    out = nl.zeros((32, 8), F32)
    for row in range(3):
        out[row, 2] = row + 1
    assert calls(program) == ["memset", "memset", *(["memset", "dma_copy"] * 2)]
    assert out.array()[:4, 2].tolist() == [1, 2, 3, 0]


def test_what_is_no_tile_cannot_be_assigned(program: ProgramBuilder) -> None:
    out = nl.ndarray((128, 32), F32)
    with pytest.raises(InputError, match="cannot assign a str"):
        out[...] = "text"


# -- accumulation ----------------------------------------------------------------------------------


def products(program: ProgramBuilder) -> tuple[Tile, Tile, np.ndarray]:
    generator = np.random.default_rng(1)
    a, b = generator.normal(size=(128, 64)).astype(F32), generator.normal(size=(128, 256)).astype(F32)
    return given_tile(program, a), given_tile(program, b), a.T @ b


@pytest.mark.parametrize("make", [nl.ndarray, nl.zeros])
def test_the_first_matmul_added_to_psum_overwrites(program: ProgramBuilder, make: Any) -> None:
    a, b, wanted = products(program)
    total = make((64, 256), F32, buffer=nl.psum)
    for _ in range(3):
        total += nisa.nc_matmul(a, b)
    assert calls(program) == ["nc_matmul"] * 3
    assert [program.forms[number].roles[0].name for number in program._form] == ["WRITE", "ACCUMULATE", "ACCUMULATE"]
    assert np.allclose(total.array(), 3 * wanted, rtol=1e-5)


def test_an_assigned_matmul_starts_anew(program: ProgramBuilder) -> None:
    a, b, wanted = products(program)
    total = nl.zeros((2, nl.par_dim(64), 256), F32, buffer=nl.psum)
    total[1] += nisa.nc_matmul(a, b)
    total[1] = nisa.nc_matmul(a, b)
    total[1, arange(64)[:, None], arange(256)[None, :]] += nisa.nc_matmul(a, b)
    assert [program.forms[number].roles[0].name for number in program._form] == ["WRITE", "WRITE", "ACCUMULATE"]
    assert np.allclose(total[1].array(), 2 * wanted, rtol=1e-5)


def test_a_matmul_adds_to_what_else_is_in_psum(program: ProgramBuilder) -> None:
    a, b, wanted = products(program)
    total = nl.full((64, 256), 5.0, F32, buffer=nl.psum)
    total += nisa.nc_matmul(a, b)
    assert calls(program) == ["memset", "nc_matmul"]
    assert np.allclose(total.array(), wanted + 5, rtol=1e-4)


def test_a_matmul_added_to_sbuf_takes_an_addition(program: ProgramBuilder) -> None:
    a, b, wanted = products(program)
    total = nl.zeros((64, 256), F32)
    total += nisa.nc_matmul(a, b)
    total += nl.exp(total)
    total += 1
    assert calls(program) == ["memset", "nc_matmul", "tensor_tensor", "activation", "tensor_tensor", "tensor_scalar"]
    assert np.allclose(total.array(), wanted + np.exp(wanted) + 1, rtol=1e-5)


def test_a_tile_added_to_psum_passes_through_sbuf(program: ProgramBuilder) -> None:
    a, b, wanted = products(program)
    total = nl.zeros((64, 256), F32, buffer=nl.psum)
    product = nisa.nc_matmul(a, b)
    total += product
    assert calls(program) == ["nc_matmul", "memset", "tensor_copy", "tensor_tensor"]
    assert np.allclose(total.array(), wanted, rtol=1e-5)


def test_what_is_no_matmul_is_added_to_psum_by_the_vector_engine(program: ProgramBuilder) -> None:
    a, b, wanted = products(program)
    total = nl.zeros((64, 256), F32, buffer=nl.psum)
    total += nisa.nc_matmul(a, b)
    total += nl.exp(b[0:64])
    assert calls(program) == ["nc_matmul", "activation", "tensor_tensor"]
    assert np.allclose(total.array(), wanted + np.exp(b.array()[:64]), rtol=1e-5)


def test_a_pattern_may_have_more_dimensions_than_an_engine_takes(program: ProgramBuilder) -> None:
    x = np.arange(8 * 48, dtype=np.float32).reshape(8, 2, 2, 2, 2, 3)
    a, b, c, d, e = (nl.arange(n) for n in (2, 2, 2, 2, 3))
    turned = given_tile(program, x)[
        nl.arange(8)[:, None, None, None, None, None],
        a[None, None, None, None, :, None],
        b[None, None, None, :, None, None],
        c[None, None, :, None, None, None],
        d[None, :, None, None, None, None],
        e[None, None, None, None, None, :],
    ]
    assert np.array_equal(nl.copy(turned).array(), x.transpose(0, 4, 3, 2, 1, 5))
