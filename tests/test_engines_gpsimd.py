"""GpSimd, random numbers and registers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim.nki.language as nl
from sim.engines import random as generators
from sim.errors import InputError, UnsupportedError
from sim.nki import isa as nisa
from sim.nki.functions import AluOp
from sim.trace import Engine
from tests.chip import Chip, fp32, normal

patterns = st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 5)), min_size=1, max_size=4)


def affine_values(partitions, pattern, offset, channel):
    """The pseudo code of the reference, one value at a time."""
    rows = []
    for p in range(partitions):
        values = [offset + p * channel]
        for step, count in pattern:
            values = [value + i * step for value in values for i in range(count)]
        rows.append(values)
    return rows


@given(st.integers(1, 128), patterns, st.integers(-1000, 1000), st.integers(-50, 50))
def test_iota_counts_along_its_pattern(partitions, pattern, offset, channel):
    count = int(np.prod([n for _, n in pattern]))
    with Chip() as chip:
        dst = chip.tensor((partitions, count), "int32")
        nisa.iota(dst, [list(pair) for pair in pattern], offset, channel)
    assert dst.array().tolist() == affine_values(partitions, pattern, offset, channel)


@pytest.mark.parametrize(("dtype", "expected"), [("float32", [-2, 300]), ("uint8", [0, 255]), ("bfloat16", [-2, 300])])
def test_iota_casts_from_int32(dtype, expected):
    with Chip() as chip:
        dst = chip.tensor((1, 2), dtype)
        nisa.iota(dst, [[302, 2]], offset=-2)
    assert fp32(dst).tolist() == [expected]


def test_affine_select_masks_the_upper_triangle():
    data = normal(64, 64)
    with Chip() as chip:
        dst = chip.tensor((64, 64))
        nisa.affine_select(dst, [[-1, 64]], 1, chip.tensor(data), -9.0, cmp_op=nl.greater_equal)
    np.testing.assert_array_equal(fp32(dst), np.where(np.tri(64) > 0, data, np.float32(-9)))


def test_local_gather_serves_each_16_partitions_from_their_own_indices():
    data = normal(32, 50)
    index = np.random.default_rng(0).integers(0, 46, (32, 3))
    with Chip() as chip:
        dst, tile = chip.tensor((32, 40 * 4)), chip.tensor((32, 3), "uint16")
        tile.storage.fill(index.astype(np.uint16))
        nisa.local_gather(dst, chip.tensor(data), tile, num_elem_per_idx=4, num_valid_indices=40)
    for p in range(32):
        core = index[p // 16 * 16 : p // 16 * 16 + 16]
        wanted = [core[i % 16, i // 16] for i in range(40)]
        expected = [data[p, place + e] for place in wanted for e in range(4)]
        assert dst.array()[p].tolist() == expected


def test_n_gather_picks_within_a_partition():
    data, index = normal(16, 5, 6), np.random.default_rng(0).integers(0, 30, (16, 4, 3))
    with Chip() as chip:
        dst, tile = chip.tensor((16, 4, 3)), chip.tensor((16, 4, 3), "uint32")
        tile.storage.fill(index.astype(np.uint32))
        nisa.nc_n_gather(dst, chip.tensor(data), tile)
    expected = np.take_along_axis(data.reshape(16, 30), index.reshape(16, 12), 1).reshape(16, 4, 3)
    np.testing.assert_array_equal(fp32(dst), expected)


def test_an_index_beyond_the_row_is_refused_with_its_line():
    with Chip() as chip, pytest.raises(InputError, match=r"test_engines_gpsimd.*indices: 9 >= 8"):
        nisa.nc_n_gather(chip.tensor((1, 1)), chip.tensor(normal(1, 8)), chip.tensor([[9]], "uint32"))


def test_nonzero_with_count_is_the_example_of_the_reference():
    with Chip() as chip:
        src = np.zeros((32, 8))
        src[0] = src[16] = [0, 1, 1, 0, 0, 1, 0, 0]
        dst = chip.tensor(np.full((32, 9), 7), "int32")
        nisa.nonzero_with_count(dst, chip.tensor(src), index_offset=16)
    result = dst.array()
    assert result[0].tolist() == result[16].tolist() == [17, 18, 21, -1, -1, -1, -1, -1, 3]
    assert set(result[1:16].ravel().tolist()) == {7}


def test_sequence_bounds_is_the_example_of_the_reference():
    with Chip() as chip:
        dst = chip.tensor((1, 2, 9), "int32")
        nisa.sequence_bounds(dst, chip.tensor([[0, 1, 1, 2, 2, 2, 0, 3, 3]], "int32"))
    assert dst.array()[0].tolist() == [[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]]


@pytest.mark.parametrize(("op", "fold"), [(nl.add, np.sum), (nl.max, np.max), (np.mean, np.mean)])
def test_partitions_are_folded_into_one(op, fold):
    data = normal(100, 3, 4)
    with Chip() as chip:
        dst = chip.tensor((1, 3, 4))
        nisa.tensor_partition_reduce(dst, op, chip.tensor(data))
    np.testing.assert_allclose(fp32(dst)[0], fold(data, axis=0), rtol=1e-4, atol=1e-5)


def test_topk_reads_16_partitions_column_by_column():
    sequence = np.random.default_rng(0).permutation(42).astype(np.float32)
    padded = np.full(48, 1000, np.float32)
    padded[:42] = sequence
    with Chip() as chip:
        val, idx = chip.tensor((16, 5), "bfloat16"), chip.tensor((16, 5), "uint32")
        nisa.topk(val, idx, chip.tensor(padded.reshape(3, 16).T, "bfloat16"), 42)
        cost = chip.form.cost.latency_ps
    assert fp32(val)[0].tolist() == [37, 38, 39, 40, 41]
    assert sequence[idx.array()[3]].tolist() == [37, 38, 39, 40, 41]
    assert cost == round((4 * 42 + 5) / 1.2 * 1000) + 177_000


# -- random numbers --------------------------------------------------------------------------------


def xorwow(state):
    """Marsaglia's generator on Python integers; the state is a list of five words and the counter."""
    mask = 0xFFFFFFFF
    t = state[0] ^ (state[0] >> 2)
    new = (state[4] ^ (state[4] << 4) ^ t ^ (t << 1)) & mask
    state[:5] = [*state[1:5], new]
    state[5] = (state[5] + 362437) & mask
    return (new + state[5]) & mask


@given(st.integers(0, 2**32 - 1), st.sampled_from([Engine.GPSIMD, Engine.VECTOR]), st.integers(1, 30))
def test_numbers_are_those_of_xorwow(seed, engine, count):
    state = generators.seeded(engine, seed)
    lanes = [[int(word) for word in words] for words in state[3]]
    drawn = generators.draw(state, 4, count)
    expected = [xorwow(lanes[i % len(lanes)]) for i in range(count)]
    assert drawn[3].tolist() == expected


def test_the_state_can_be_kept_and_put_back():
    with Chip() as chip:
        state, one, two = chip.tensor((8, 6), "uint32"), chip.tensor((8, 9), "uint32"), chip.tensor((8, 9), "uint32")
        nisa.rand_get_state(state)
        nisa.rng(one, engine=nisa.engine.gpsimd)
        nisa.rand_set_state(state)
        nisa.rng(two, engine=nisa.engine.gpsimd)
    np.testing.assert_array_equal(one.array(), two.array())
    assert len(np.unique(one.array())) == 72


def test_one_seed_gives_one_sequence():
    def draw(seed):
        with Chip() as chip:
            dst = chip.tensor((128, 50), "uint16")
            nisa.set_rng_seed(chip.tensor([[seed]], "uint32"))
            nisa.rng(dst)
            return dst.array().tobytes()

    assert draw(1) == draw(1) != draw(2)


def test_rand2_fills_its_interval_evenly():
    with Chip("trn3") as chip:
        dst = chip.tensor((128, 200))
        nisa.rand2(dst, chip.tensor(np.full((128, 1), 2.0)), 6.0)
    counts, _ = np.histogram(dst.array(), bins=4, range=(2, 6))
    assert counts.sum() == 128 * 200
    assert counts.min() > 6100


@pytest.mark.parametrize("column", [True, False])
def test_dropout_drops_the_asked_share_and_keeps_the_rest(column):
    with Chip() as chip:
        dst = chip.tensor((128, 200))
        prob = chip.tensor(np.full((128, 1), 0.25)) if column else 0.25
        nisa.dropout(dst, chip.tensor(np.full((128, 200), 3.0)), prob)
    assert set(np.unique(dst.array())) == {0.0, 3.0}
    assert np.mean(dst.array() == 0) == pytest.approx(0.25, abs=0.02)


# -- registers -------------------------------------------------------------------------------------


def test_registers_carry_values():
    with Chip() as chip:
        register, other = nisa.register_alloc(5), nisa.register_alloc()
        nisa.register_load(other, chip.tensor([[7]], "int32"))
        assert (int(register), int(other), list(range(other))) == (5, 7, [0, 1, 2, 3, 4, 5, 6])
        assert not nisa.register_alloc(0)
        assert other
        nisa.register_move(register, other)
        dst = chip.tensor((1, 1), "int32")
        nisa.register_store(dst, register)
        assert dst.array().item() == 7
        assert chip.form.engine is Engine.SYNC


def test_a_register_without_a_value_cannot_be_read():
    with Chip(), pytest.raises(InputError, match="before it was written"):
        int(nisa.register_alloc())


def test_a_loaded_register_is_unknown_without_values():
    with Chip(values=False) as chip:
        register = nisa.register_alloc()
        nisa.register_load(register, chip.tensor((1, 1), "int32"))
        with pytest.raises(UnsupportedError, match="values"):
            bool(register)


def test_a_dynamic_offset_is_read_before_it_is_used():
    data = normal(8, 40)
    with Chip() as chip:
        tile, place, dst = chip.tensor(data), chip.tensor([[3]], "int32"), chip.tensor((8, 10))
        nisa.tensor_copy(dst, tile.ap([[40, 8], [1, 10]], scalar_offset=place, indirect_dim=1))
        program = chip.program.finish()
    np.testing.assert_array_equal(fp32(dst), data[:, 3:13])
    assert [program.forms[number].opcode for number in program.form] == ["TENSOR_LOAD", "COPY"]
    assert program.order.tolist() == [[0, 1, 0]]


# -- cost ------------------------------------------------------------------------------------------


def test_gpsimd_pays_its_start():
    with Chip(values=False) as chip:
        nisa.affine_select(chip.tensor((128, 512)), [[1, 512]], 0, chip.tensor((128, 512)), 0.0)
        cost = chip.form.cost
    assert cost.latency_ps / 1000 == pytest.approx(176.9 + 0.846 * 512, rel=0.02), "measured"
    assert cost.occupancy_ps == round(512 / 1.2 * 1000) + 125_000, "150 + N cycles"


def test_local_gather_follows_the_documented_formula():
    with Chip("trn1", values=False) as chip:
        nisa.local_gather(chip.tensor((128, 256)), chip.tensor((128, 512)), chip.tensor((128, 4), "uint16"), 4)
        cost = chip.form.cost
    cycles = 64 * 4 / (((28 + 16) / 16) / min(4 / 4, 4))
    assert cost.occupancy_ps == pytest.approx((150 + cycles) / 1.4 * 1000, abs=2)


def test_every_operator_has_the_name_that_kernels_use():
    with Chip() as chip:
        for op, name in ((np.add, "ADD"), (np.maximum, "MAXIMUM"), (AluOp("less"), "LESS"), (np.max, "MAXIMUM")):
            nisa.tensor_tensor(chip.tensor((1, 1)), chip.tensor([[1.0]]), chip.tensor([[2.0]]), op)
            assert chip.form.function == name
