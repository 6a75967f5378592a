"""Vector Engine instructions that fold, scan, select and search rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim.nki.language as nl
from sim.nki import isa as nisa
from sim.nki.functions import AluOp
from tests.chip import ARITHMETIC, Chip, fp32, normal, rounded

shapes = st.tuples(st.integers(1, 128), st.integers(1, 60))
FP32_MIN = float(np.finfo(np.float32).min)


@given(
    st.tuples(st.integers(1, 128), st.integers(1, 6), st.integers(1, 5), st.integers(1, 4)),
    st.integers(1, 3),
    st.sampled_from([("add", np.sum), ("maximum", np.max), ("minimum", np.min), ("multiply", np.prod)]),
    st.booleans(),
    st.sampled_from(["float32", "bfloat16"]),
)
def test_a_reduction_folds_the_last_dimensions(shape, count, op, negate, dtype):
    data = normal(*shape)
    axes = tuple(range(4 - count, 4))
    kept = shape[: 4 - count]
    with Chip() as chip:
        dst = chip.tensor(kept if len(kept) > 1 else (*kept, 1), dtype)
        nisa.tensor_reduce(dst, AluOp(op[0]), chip.tensor(data, dtype), axes, negate=negate)
    expected = op[1](rounded(data, dtype), axis=axes) * (-1 if negate else 1)
    np.testing.assert_allclose(
        fp32(dst).reshape(kept), rounded(expected, dtype), rtol=1e-2 if dtype != "float32" else 1e-4, atol=1e-5
    )


def test_an_axis_may_be_one_number_or_count_from_the_end():
    data = normal(4, 3, 5)
    with Chip() as chip:
        dst, tile = chip.tensor((4, 3)), chip.tensor(data)
        for axis in (2, -1, (2,), [-1]):
            nisa.memset(dst, 0)
            nisa.tensor_reduce(dst, nl.max, tile, axis)
            np.testing.assert_array_equal(fp32(dst), data.max(2))


def test_bits_are_folded_as_bits():
    with Chip() as chip:
        dst, data = chip.tensor((1, 1), "uint8"), chip.tensor([[12, 10]], "uint8")
        for op, expected in ((nl.bitwise_and, 8), (nl.bitwise_or, 14), (nl.bitwise_xor, 6)):
            nisa.tensor_reduce(dst, op, data, 1)
            assert dst.array().item() == expected


# -- scans -----------------------------------------------------------------------------------------


@given(
    st.tuples(st.integers(1, 8), st.integers(1, 20)),
    st.sampled_from(["multiply", "add", "subtract", "maximum", "logical_or", "less"]),
    st.sampled_from(["add", "multiply", "minimum", "divide"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_a_scan_feeds_each_result_into_the_next(shape, op0, op1, reverse0, reverse1, column):
    data0, data1 = normal(*shape, seed=1), normal(*shape, seed=2) + 3
    seed = normal(shape[0], 1, seed=3)
    with Chip() as chip:
        dst = chip.tensor(shape)
        initial = chip.tensor(seed) if column else 0.5
        nisa.tensor_tensor_scan(
            dst, chip.tensor(data0), chip.tensor(data1), initial, AluOp(op0), AluOp(op1), reverse0, reverse1
        )
    first, second = ARITHMETIC[op0], ARITHMETIC[op1]
    for p in range(shape[0]):
        held = float(seed[p, 0]) if column else 0.5
        for i in range(shape[1]):
            held = first(*(held, data0[p, i]) if reverse0 else (data0[p, i], held))
            pair = (data1[p, i], held) if reverse1 else (held, data1[p, i])
            held = math.inf if op1 == "divide" and pair[1] == 0 else second(*map(float, pair))
            if math.isinf(held):
                break
            np.testing.assert_allclose(dst.array()[p, i], held, rtol=1e-3, atol=1e-3)


def test_a_cumulative_sum_goes_on_from_the_registers():
    one, two = normal(8, 10), normal(8, 10, seed=1)
    with Chip() as chip:
        first, second = chip.tensor((8, 10)), chip.tensor((8, 10))
        nisa.tensor_scalar_cumulative(first, chip.tensor(one), nl.multiply, nl.add, 2.0)
        nisa.tensor_scalar_cumulative(
            second, chip.tensor(two), nl.multiply, nl.add, 2.0, reduce_cmd=nisa.reduce_cmd.reduce
        )
    both = np.concatenate((one, two), axis=1) * 2
    shown = np.concatenate((fp32(first), fp32(second)), axis=1)
    np.testing.assert_allclose(shown, np.cumsum(both, axis=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("op", "expected"), [("multiply", [2, 6, 30]), ("minimum", [2, 2, 2]), ("subtract", [2, 1, 4])]
)
def test_a_cumulation_starts_from_what_leaves_values_alone(op, expected):
    with Chip() as chip:
        dst = chip.tensor((1, 3))
        nisa.tensor_scalar_cumulative(dst, chip.tensor([[2.0, 3.0, 5.0]]), nl.add, AluOp(op), 0.0)
    assert dst.array().tolist() == [expected]


def test_a_cumulative_maximum_starts_where_it_is_told():
    with Chip() as chip:
        dst = chip.tensor((1, 3))
        load = nisa.reduce_cmd.load_reduce
        nisa.tensor_scalar_cumulative(dst, chip.tensor([[1.0, 5.0, 2.0]]), nl.add, nl.maximum, 0.0, 3.0, load)
    assert dst.array().tolist() == [[3.0, 5.0, 5.0]]


# -- registers -------------------------------------------------------------------------------------


def test_a_fold_continues_until_it_is_reset():
    tiles = [normal(16, 12, seed=i) for i in range(3)]
    with Chip() as chip:
        dst, res = chip.tensor((16, 12)), chip.tensor((16, 1))
        for i, data in enumerate(tiles):
            command = nisa.reduce_cmd.reset_reduce if i == 0 else nisa.reduce_cmd.reduce
            nisa.tensor_scalar_reduce(
                dst, chip.tensor(data), nl.add, 1.0, nl.maximum, res if i == 2 else None, reduce_cmd=command
            )
        np.testing.assert_array_equal(fp32(res)[:, 0], np.concatenate(tiles, 1).max(1) + 1)
        nisa.tensor_scalar_reduce(dst, chip.tensor(tiles[0]), nl.add, 0.0, nl.maximum, res, reduce_res_negate=True)
    np.testing.assert_array_equal(fp32(res)[:, 0], -tiles[0].max(1))


def test_a_fold_starts_from_a_loaded_value():
    with Chip() as chip:
        dst, res, start = chip.tensor((2, 3)), chip.tensor((2, 1)), chip.tensor([[10.0], [20.0]])
        data = chip.tensor([[1.0, 2.0, 3.0]] * 2)
        nisa.tensor_scalar_reduce(
            dst, data, nl.multiply, 2.0, nl.add, res, reduce_cmd=nisa.reduce_cmd.load_reduce, reduce_init=start
        )
    assert res.array().tolist() == [[22.0], [32.0]]


# -- statistics ------------------------------------------------------------------------------------


@given(st.integers(1, 128), st.lists(st.integers(2, 512), min_size=1, max_size=3))
def test_statistics_of_pieces_add_up_to_those_of_the_whole(partitions, pieces):
    data = [normal(partitions, n, seed=n) + 2 for n in pieces]
    with Chip() as chip:
        stats, result = chip.tensor((partitions, 6 * len(data))), chip.tensor((partitions, 2))
        for i, piece in enumerate(data):
            nisa.bn_stats(stats[:, 6 * i : 6 * i + 6], chip.tensor(piece))
        nisa.bn_aggr(result, stats)
    whole = np.concatenate(data, 1).astype(np.float64)
    np.testing.assert_allclose(fp32(result), np.stack((whole.mean(1), whole.var(1)), 1), rtol=1e-4, atol=1e-4)


# -- selection -------------------------------------------------------------------------------------


@given(shapes, st.booleans(), st.booleans(), st.sampled_from(["uint8", "uint16", "uint32"]))
def test_a_predicated_copy_leaves_the_rest_alone(shape, tile, reverse, kind):
    data, old = normal(*shape), normal(*shape, seed=1)
    flag = np.random.default_rng(2).integers(0, 2, shape)
    with Chip() as chip:
        dst = chip.tensor(old)
        source = chip.tensor(data) if tile else 0.25
        nisa.tensor_copy_predicated(dst, source, chip.tensor(flag, kind), reverse_pred=reverse)
    chosen = flag == 0 if reverse else flag != 0
    np.testing.assert_array_equal(fp32(dst), np.where(chosen, data if tile else np.float32(0.25), old))


@pytest.mark.parametrize("column", [True, False])
def test_select_reduce_chooses_and_keeps_the_maximum(column):
    data, flag, other = normal(32, 20), np.random.default_rng(0).integers(0, 2, (32, 20)), normal(32, 1, seed=4)
    with Chip() as chip:
        dst, res = chip.tensor((32, 20)), chip.tensor((32, 1))
        on_false = chip.tensor(other) if column else -2.0
        command = nisa.reduce_cmd.reset_reduce
        nisa.select_reduce(dst, chip.tensor(flag, "uint8"), chip.tensor(data), on_false, res, command)
    expected = np.where(flag, data, other if column else np.float32(-2))
    np.testing.assert_array_equal(fp32(dst), expected)
    np.testing.assert_array_equal(fp32(res)[:, 0], expected.max(1))


def test_range_select_compares_the_index_with_both_bounds():
    data = normal(16, 40)
    low, high = np.arange(16)[:, None], np.arange(16)[:, None] + 9
    with Chip() as chip:
        dst, res = chip.tensor((16, 40)), chip.tensor((16, 1))
        bounds = chip.tensor(low), chip.tensor(high)
        nisa.range_select(dst, chip.tensor(data), nl.greater_equal, nl.less, *bounds, reduce_res=res, range_start=5)
    place = np.arange(40) + 5
    expected = np.where((place >= low) & (place < high), data, np.float32(FP32_MIN))
    np.testing.assert_array_equal(fp32(dst), expected)
    np.testing.assert_array_equal(fp32(res)[:, 0], expected.max(1))


def test_range_select_fills_narrow_floats_with_minus_infinity():
    with Chip() as chip:
        dst = chip.tensor((1, 2), "bfloat16")
        zero = chip.tensor([[0.0]])
        nisa.range_select(dst, chip.tensor([[1.0, 2.0]]), nl.equal, nl.equal, zero, zero)
    assert fp32(dst).tolist() == [[1.0, -math.inf]]


# -- the largest eight -----------------------------------------------------------------------------


@given(st.integers(1, 128), st.integers(8, 60))
def test_max8_sorts_downwards_and_find_index8_finds(partitions, n):
    data = normal(partitions, n)
    with Chip() as chip:
        tile, largest, places = chip.tensor(data), chip.tensor((partitions, 8)), chip.tensor((partitions, 8), "uint32")
        nisa.max8(largest, tile)
        nisa.nc_find_index8(places, tile, largest)
    order = np.argsort(-data, axis=1)[:, :8]
    np.testing.assert_array_equal(places.array(), order)
    np.testing.assert_array_equal(fp32(largest), np.take_along_axis(data, order, 1))


def test_equal_values_take_successive_places():
    data = [[5.0, 7.0, 5.0, 7.0, 7.0, 1.0, 2.0, 3.0]]
    with Chip() as chip:
        places = chip.tensor((1, 8), "uint16")
        wanted = chip.tensor([[7.0, 5.0, 7.0, 5.0, 7.0, 9.0, 5.0, 1.0]])
        nisa.nc_find_index8(places, chip.tensor(data), wanted)
    assert places.array().tolist() == [[1, 0, 3, 2, 4, 0xFFFF, 0xFFFF, 5]]


def test_match_replace8_pairs_equal_values_from_the_last_column():
    data = [[1.0, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]]
    with Chip() as chip:
        dst, places = chip.tensor((1, 11)), chip.tensor((1, 8), "uint32")
        nisa.nc_match_replace8(dst, chip.tensor(data), chip.tensor([[3.0] + [8.0] * 7]), -1.0, places)
    assert places.array().tolist() == [[2, 10, 9, 8, 7, 6, 5, 4]], "the example of the reference"
    assert dst.array().tolist() == [[1, 2, -1, 4, -1, -1, -1, -1, -1, -1, -1]]


@pytest.mark.parametrize("partitions", [32, 64, 128])
def test_a_shuffle_stays_within_its_quadrant(partitions):
    data, old = normal(partitions, 6), normal(partitions, 6, seed=1)
    mask = [(i * 7 + 3) % 32 for i in range(31)] + [255]
    with Chip() as chip:
        dst = chip.tensor(old)
        nisa.nc_stream_shuffle(dst, chip.tensor(data), mask)
    expected = old.copy()
    for p in range(partitions):
        if mask[p % 32] != 255:
            expected[p] = data[p // 32 * 32 + mask[p % 32]]
    np.testing.assert_array_equal(fp32(dst), expected)


def test_a_tile_can_be_shuffled_in_place():
    data = normal(32, 4)
    with Chip() as chip:
        tile = chip.tensor(data)
        nisa.nc_stream_shuffle(tile, tile, list(range(31, -1, -1)))
    np.testing.assert_array_equal(fp32(tile), data[::-1])


def test_exponential_sums_what_it_writes():
    data, top = normal(64, 30), normal(64, 1, seed=2)
    with Chip("trn3") as chip:
        dst, res = chip.tensor((64, 30)), chip.tensor((64, 1))
        nisa.exponential(dst, chip.tensor(data), chip.tensor(top), res, nisa.reduce_cmd.reset_reduce)
    np.testing.assert_allclose(fp32(dst), np.exp(data - top), rtol=1e-6)
    np.testing.assert_allclose(fp32(res)[:, 0], np.exp(data - top).sum(1), rtol=1e-5)


# -- cost ------------------------------------------------------------------------------------------


def test_a_reduction_takes_as_long_as_in_profiles():
    with Chip(values=False) as chip:
        nisa.tensor_reduce(chip.tensor((128, 1)), nl.max, chip.psum((128, 512)), 1)
        assert chip.form.cost.latency_ps / 1000 == pytest.approx(686, rel=0.01)
        nisa.tensor_reduce(chip.tensor((128, 1)), nl.add, chip.tensor((128, 4)), 1)
        assert chip.form.cost.latency_ps / 1000 == pytest.approx(157, rel=0.03)


@pytest.mark.parametrize(
    ("call", "cycles"),
    [
        (
            lambda c: nisa.tensor_reduce(c.tensor((128, 1), "bfloat16"), nl.add, c.tensor((128, 512), "bfloat16"), 1),
            256,
        ),
        (lambda c: nisa.tensor_tensor_scan(*(c.tensor((128, 512)) for _ in range(3)), 0.0, nl.add, nl.add), 1024),
        (lambda c: nisa.bn_aggr(c.tensor((128, 2)), c.tensor((128, 300))), 1300),
        (lambda c: nisa.max8(c.tensor((128, 8)), c.tensor((128, 512))), 512),
        (
            lambda c: nisa.tensor_copy_predicated(
                c.tensor((128, 512)), c.tensor((128, 512)), c.tensor((128, 512), "uint8")
            ),
            1024,
        ),
        (
            lambda c: nisa.tensor_copy_predicated(
                c.tensor((128, 512)), c.psum((128, 512)), c.tensor((128, 512), "uint8")
            ),
            512,
        ),
    ],
    ids=["reduce bf16", "scan", "bn_aggr", "max8", "predicated SBUF", "predicated PSUM"],
)
def test_occupancy_on_v2_follows_the_documented_formula(call, cycles):
    with Chip("trn1", values=False) as chip:
        call(chip)
        assert chip.form.cost.occupancy_ps == round((cycles + 63) / 1.12 * 1000)


def test_a_form_is_described_by_what_it_reads():
    with Chip(values=False) as chip:
        tiles = chip.tensor((64, 30)), chip.tensor((64, 1)), chip.tensor((64, 30), "bfloat16")
        nisa.tensor_scalar_reduce(tiles[0], tiles[2], nl.add, 1.0, nl.add, tiles[1])
        assert (chip.form.dtype, chip.form.elements, chip.form.partitions) == ("bf16", 30, 64)
