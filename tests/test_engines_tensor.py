"""The Tensor Engine: products and transposes against NumPy, and their cost against profiles and documents."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import dtypes, spec
from sim.nki import isa as nisa
from sim.program import Role
from sim.trace import Engine
from tests.chip import Chip, fp32, normal, rounded

sizes = st.integers(1, 128)


@given(
    sizes, sizes, st.integers(1, 512), st.sampled_from(["float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2"])
)
def test_a_matmul_is_stationary_transposed_times_moving(k, m, n, dtype):
    left, right = normal(k, m, seed=1), normal(k, n, seed=2)
    with Chip() as chip:
        dst = chip.psum((m, n))
        nisa.nc_matmul(dst, chip.tensor(left, dtype), chip.tensor(right, dtype))
    expected = rounded(left, dtype).astype(np.float64).T @ rounded(right, dtype).astype(np.float64)
    np.testing.assert_allclose(fp32(dst), expected, rtol=1e-5, atol=1e-4)


def test_free_dimensions_may_be_cut_in_any_way():
    left, right = normal(64, 4, 8), normal(64, 3, 5)
    with Chip() as chip:
        dst = chip.psum((32, 15))
        nisa.nc_matmul(dst, chip.tensor(left), chip.tensor(right))
    np.testing.assert_allclose(fp32(dst), left.reshape(64, 32).T @ right.reshape(64, 15), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("flags", "sums"),
    [((None, None), 2), ((False, True), 2), ((False, False), 1), ((None, False), 1), ((False, None), 2)],
)
def test_accumulate_decides_between_overwriting_and_adding(flags, sums):
    left, right = normal(32, 16), normal(32, 64, seed=3)
    with Chip() as chip:
        dst, stationary, moving = chip.psum((16, 64)), chip.tensor(left), chip.tensor(right)
        for flag in flags:
            nisa.nc_matmul(dst, stationary, moving, accumulate=flag)
        assert chip.form.roles[0] is (Role.ACCUMULATE if sums == 2 else Role.WRITE)
    np.testing.assert_allclose(fp32(dst), sums * (left.T @ right), rtol=1e-5, atol=1e-5)


def test_bf16_psum_adds_in_fp32_and_rounds_each_time():
    left, right = normal(128, 16), normal(128, 64, seed=3)
    with Chip("trn3") as chip:
        dst = chip.psum((16, 64), "bfloat16")
        for _ in range(2):
            nisa.nc_matmul(dst, chip.tensor(left), chip.tensor(right))
    once = rounded(left.T @ right, "bfloat16")
    np.testing.assert_array_equal(fp32(dst), rounded(left.T @ right + once, "bfloat16"))


def test_double_row_contracts_over_two_rows_of_each_partition():
    left, right = normal(128, 2, 24), normal(128, 2, 96, seed=5)
    with Chip() as chip:
        dst = chip.psum((24, 96))
        stationary, moving = chip.tensor(left, "float8_e4m3"), chip.tensor(right, "float8_e5m2")
        nisa.nc_matmul(dst, stationary, moving, perf_mode=nisa.matmul_perf_mode.double_row)
        form = chip.form
    a, b = rounded(left, "float8_e4m3").reshape(256, 24), rounded(right, "float8_e5m2").reshape(256, 96)
    np.testing.assert_allclose(fp32(dst), a.T @ b, rtol=1e-5, atol=1e-4)
    assert (form.elements, form.flops, form.adjusted_flops) == (256 * 24 * 96, 2 * 256 * 24 * 96, 256 * 24 * 96)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8", "float8_e4m3"])
@pytest.mark.parametrize("engine", ["tensor", "vector"])
def test_a_transpose_moves_bits(dtype, engine):
    kind = dtypes.parse(dtype)
    data = np.random.default_rng(0).integers(0, 256, (32, 24 * kind.itemsize), np.uint8)
    with Chip() as chip:
        source = chip.tensor((32, 24), dtype)
        source.storage.fill(data)
        dst = chip.psum((24, 32), dtype) if engine == "tensor" else chip.tensor((24, 32), dtype)
        nisa.nc_transpose(dst, source, engine=nisa.engine[engine])
        assert chip.form.engine is Engine[engine.upper()]
    assert dst.array().tobytes() == source.array().T.copy().tobytes()


def test_the_shape_and_the_memory_choose_the_engine_of_a_transpose():
    with Chip() as chip:
        nisa.nc_transpose(chip.psum((128, 64)), chip.tensor(normal(64, 128)))
        assert chip.form.engine is Engine.TENSOR
        nisa.nc_transpose(chip.psum((16, 8)), chip.tensor(normal(8, 16)))
        assert chip.form.engine is Engine.TENSOR
        for dst, source in ((chip.tensor, chip.psum), (chip.tensor, chip.tensor), (chip.psum, chip.psum)):
            nisa.nc_transpose(dst((16, 8)), source(normal(8, 16)))
            assert chip.form.engine is Engine.VECTOR


@pytest.mark.parametrize("identity_moves", [True, False])
def test_transpose_mode_keeps_nan_and_infinity(identity_moves):
    data = normal(32, 32)
    data[0, :3] = np.nan, np.inf, -np.inf
    with Chip() as chip:
        dst, tile, identity = chip.psum((32, 32)), chip.tensor(data), chip.tensor(np.eye(32))
        sides = (tile, identity) if identity_moves else (identity, tile)
        nisa.nc_matmul(dst, *sides, is_transpose=True)
        assert (chip.form.kind, chip.form.useful) == ("TRANSPOSE", False)
    np.testing.assert_array_equal(fp32(dst), data.T if identity_moves else data)


# -- microscaling ----------------------------------------------------------------------------------


def reference_quantize(data, element, largest, exponent_max):
    """Scale bytes [P / 8, F / 4] and dequantized values, from the definition, one group at a time."""
    scales = np.zeros((data.shape[0] // 8, data.shape[1] // 4), int)
    values = np.zeros_like(data)
    for g in range(scales.shape[0]):
        for c in range(scales.shape[1]):
            group = data[8 * g : 8 * g + 8, 4 * c : 4 * c + 4]
            top = np.abs(group).max()
            power = int(np.floor(np.log2(top))) - (exponent_max - 1) if top else -127
            scales[g, c] = power + 127
            scaled = (group / 2.0**power).astype(element).astype(np.float32)
            assert np.abs(scaled).max() <= largest
            values[8 * g : 8 * g + 8, 4 * c : 4 * c + 4] = scaled * 2.0**power
    return scales, values


FORMATS = {"float8_e4m3fn_x4": (ml_dtypes.float8_e4m3fn, 448, 8), "float8_e5m2_x4": (ml_dtypes.float8_e5m2, 57344, 15)}


@pytest.mark.parametrize("packed", FORMATS)
@pytest.mark.parametrize("partitions", [32, 128])
def test_quantize_mx_shares_a_scale_among_32_numbers(packed, partitions):
    data = rounded(normal(partitions, 64, scale=3), "bfloat16")
    data[:8, :4] = 0
    with Chip("trn3") as chip:
        dst = chip.tensor((partitions, 16), packed)
        scale = chip.tensor(np.full((partitions, 16), 9), "uint8")
        nisa.quantize_mx(dst, chip.tensor(data, "bfloat16"), scale)
    scales, values = reference_quantize(data, *FORMATS[packed])
    numbers = dtypes.unpack(dst.array(), dst.dtype)
    for group, row in enumerate(scales):
        place = group // 4 * 32 + group % 4
        assert scale.array()[place].tolist() == row.tolist()
        shown = numbers[8 * group : 8 * group + 8] * 2.0 ** (row[None, :, None] - 127.0)
        np.testing.assert_array_equal(shown.reshape(8, 64), values[8 * group : 8 * group + 8])
    assert scale.array()[4:32].min() == 9, "rows between the scales stay as they were"


def test_matmul_mx_multiplies_what_quantize_mx_made():
    left, right = (rounded(normal(64, 4 * columns, seed=columns), "bfloat16") for columns in (32, 96))
    with Chip("trn3") as chip:
        sides, scales, values = [], [], []
        for data in (left, right):
            columns = data.shape[1] // 4
            side, scale = chip.tensor((64, columns), "float8_e4m3fn_x4"), chip.tensor((64, columns), "float8_e8m0fnu")
            nisa.quantize_mx(side, chip.tensor(data, "bfloat16"), scale)
            sides.append(side)
            scales.append(scale)
            _, exact = reference_quantize(data, *FORMATS["float8_e4m3fn_x4"])
            values.append(exact.reshape(64, columns, 4).transpose(0, 2, 1).reshape(256, columns))
        dst = chip.psum((32, 96))
        nisa.nc_matmul_mx(dst, *sides, *scales)
        form = chip.form
    np.testing.assert_allclose(fp32(dst), values[0].T @ values[1], rtol=1e-5, atol=1e-4)
    macs = 256 * 32 * 96
    assert (form.opcode, form.elements, form.adjusted_flops) == ("MATMUL_MX", macs, macs // 2)


# -- cost ------------------------------------------------------------------------------------------


def matmul(device, n, dtype="bfloat16", **options):
    with Chip(device, values=False) as chip:
        nisa.nc_matmul(chip.psum((128, n)), chip.tensor((128, 128), dtype), chip.tensor((128, n), dtype), **options)
        return chip.form


def test_a_bf16_matmul_of_512_columns_takes_as_long_as_in_profiles():
    cost = matmul("trn2", 512).cost
    assert cost.occupancy_ps == pytest.approx(213_000, rel=0.02)
    assert cost.latency_ps == pytest.approx(379_000, rel=0.02)
    assert matmul("trn1", 512).cost.latency_ps == pytest.approx(328_000, rel=0.035)


def test_an_fp32_matmul_is_two_passes_of_two_cycles():
    form = matmul("trn2", 512, "float32")
    assert form.passes == 2
    assert form.cost.occupancy_ps / 2 == pytest.approx(429_500, abs=1500), "measured: 428-431 ns between passes"
    assert matmul("trn1", 512, "float32").cost.occupancy_ps == round(2 * (2 * 512 + 184) / 2.8 * 1000)


def test_short_matmuls_take_64_cycles():
    device = spec.device("trn2")
    least = 64 + device["pe.issue_ovh_16"]
    for n in (1, 63, 64):
        assert matmul("trn2", n).cost.occupancy_ps == round(least / 2.4 * 1000)
    assert matmul("trn2", 65).cost.occupancy_ps > matmul("trn2", 64).cost.occupancy_ps


def test_a_matrix_of_ones_and_zeros_needs_one_pass():
    assert matmul("trn1", 512, "float32", is_moving_onezero=True).passes == 1
    assert matmul("trn1", 512, "bfloat16", is_moving_onezero=True).cost == matmul("trn1", 512).cost


@pytest.mark.parametrize(("device", "passes"), [("trn1", 2), ("trn2", 1)])
def test_an_fp32_transpose_is_one_pass_from_v3_on(device, passes):
    with Chip(device, values=False) as chip:
        nisa.nc_transpose(chip.psum((128, 128)), chip.tensor((128, 128)))
        form = chip.form
    assert form.passes == passes
    assert form.flops == 2 * 128**3 * passes
    if device == "trn2":
        assert form.cost.occupancy_ps == pytest.approx(109_000, rel=0.01)
        assert form.cost.latency_ps == pytest.approx(272_000, rel=0.01)
        assert form.load_ps == 140_000


def test_flops_are_counted_as_the_profiler_counts():
    logical = 2 * 128 * 128 * 512
    single, half = matmul("trn2", 512, "float32"), matmul("trn2", 512)
    assert (single.flops, single.adjusted_flops) == (2 * logical, 4 * logical)
    assert (half.flops, half.adjusted_flops) == (logical, logical)
    fp8 = {device: matmul(device, 512, "float8_e4m3").adjusted_flops for device in ("trn1", "trn2")}
    assert fp8 == {"trn1": logical, "trn2": logical // 2}


def test_load_weights_takes_as_long_as_in_profiles():
    assert matmul("trn2", 512).load_ps == 97_000
    assert matmul("trn2", 512, "float32").load_ps == 191_000
    with Chip("trn1", values=False) as chip:
        nisa.nc_matmul(chip.psum((1, 64)), chip.tensor((128, 1), "bfloat16"), chip.tensor((128, 64), "bfloat16"))
        assert chip.form.load_ps == pytest.approx(67_000, rel=0.01)


def loading(device, dtype="bfloat16", moving=512, rows=1, **options):
    """TensorE cycles that loading 128 stationary columns takes, `rows` elements apart."""
    with Chip(device, values=False) as chip:
        stationary = chip.tensor((128, 128 * rows), dtype)[:, ::rows]
        nisa.nc_matmul(chip.psum((128, moving)), stationary, chip.tensor((128, moving), dtype), **options)
        return chip.form.cost.weights_ps / 1000 * chip.program.device["clock_tensor"]


@pytest.mark.parametrize("device", ["trn1", "trn2", "trn3"])
def test_four_16_bit_columns_of_weights_are_loaded_in_a_cycle(device):
    assert loading(device) == loading(device, "float8_e4m3") == pytest.approx(32, rel=1e-3)
    assert loading(device, "float32") == pytest.approx(256, rel=1e-3), "two cycles a column"


def test_weights_with_a_stride_are_not_loaded_fast():
    assert loading("trn2", rows=4) == pytest.approx(128, rel=1e-3)
    assert loading("trn2", "float32", rows=4) == loading("trn2", "float32"), "there is no fast load of fp32"


def test_few_moving_columns_in_fp32_are_bound_by_the_weights_in_bf16_by_the_shortest_matmul():
    single, half = matmul("trn2", 1, "float32").cost, matmul("trn2", 1).cost
    assert half.weights_ps < half.tail_ps == round(64 / 2.4 * 1000)
    assert single.weights_ps == round(256 / 2.4 * 1000) > single.tail_ps == half.tail_ps
    assert single.occupancy_ps == round((256 + 64 + 2 * 7) / 2.4 * 1000), "the second pass's weights behind the first"


def test_every_matmul_feels_the_clock():
    assert matmul("trn2", 512).cost.clocked
    assert matmul("trn2", 512).engine is Engine.TENSOR
