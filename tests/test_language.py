"""`nki.language`: values of the documented functions."""

import math

import ml_dtypes
import numpy as np
import pytest

import sim
from sim import dtypes
from sim.nki import language as nl
from tests.chip import Chip, fp32, normal


def test_every_dtype_of_the_reference_is_there():
    names = "bool_ int8 int16 int32 uint8 uint16 uint32 float16 float32 bfloat16 tfloat32 float8_e4m3 float8_e4m3fn "
    names += "float8_e5m2 float8_e8m0fnu float8_e5m2_x4 float8_e4m3fn_x4 float4_e2m1fn_x4"
    for name in names.split():
        assert getattr(nl, name) == name.removesuffix("_") or name == "bool_"
    assert nl.bfloat16 == ml_dtypes.bfloat16
    assert nl.hbm is nl.private_hbm


ERF = np.vectorize(math.erf)
UNARY = {
    "abs": np.abs,
    "arctan": np.arctan,
    "ceil": np.ceil,
    "cos": np.cos,
    "erf": ERF,
    "exp": np.exp,
    "floor": np.floor,
    "gelu": lambda x: x * 0.5 * (1 + ERF(x / math.sqrt(2))),
    "gelu_apprx_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "logical_not": lambda x: (x == 0).astype(np.float32),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "negative": np.negative,
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sign": np.sign,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sin": np.sin,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_tile_agrees_with_numpy(name):
    x = normal(16, 40, scale=1.3)
    x[0, :3] = 1.25, -1.25, 2.5
    x = np.clip(x, -1.4, 1.4) if name == "tan" else x
    with Chip() as chip:
        got = fp32(getattr(nl, name)(chip.tensor(x)))
    np.testing.assert_allclose(got, UNARY[name](x.astype(np.float64)), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["log", "sqrt", "rsqrt"])
def test_a_function_of_positive_numbers_agrees_with_numpy(name):
    x = np.abs(normal(16, 40)) + 0.1
    expected = 1 / np.sqrt(x) if name == "rsqrt" else getattr(np, name)(x)
    with Chip() as chip:
        np.testing.assert_allclose(fp32(getattr(nl, name)(chip.tensor(x))), expected, rtol=2e-5)


def signed_larger(x, y):
    return np.where(np.abs(x) > np.abs(y), x, y)


BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "abs_max": signed_larger,
    "mod": np.mod,
    "fmod": np.fmod,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
OPERANDS = {
    "two tiles": ((16, 40), (16, 40)),
    "a column": ((16, 40), (16, 1)),
    "a column first": ((16, 1), (16, 40)),
    "a row for all partitions": ((16, 40), (1, 40)),
}


@pytest.mark.parametrize("shapes", OPERANDS.values(), ids=OPERANDS)
@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_tiles_agrees_with_numpy(name, shapes):
    x, y = (np.round(normal(*shape, seed=seed), 1) for seed, shape in enumerate(shapes))
    y = np.where(y == 0, 0.5, y).astype(np.float32)
    device = "trn3" if name.startswith("abs_") else "trn2"
    with Chip(device) as chip:
        got = fp32(getattr(nl, name)(chip.tensor(x), chip.tensor(y)))
    np.testing.assert_allclose(got, BINARY[name](x, y), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in BINARY if not name.startswith("abs_")])
def test_a_number_may_stand_on_either_side(name):
    x = normal(8, 12) + 3
    with Chip() as chip:
        tile = chip.tensor(x)
        left, right = fp32(getattr(nl, name)(tile, 2.0)), fp32(getattr(nl, name)(2.0, tile))
    np.testing.assert_allclose(left, BINARY[name](x, 2.0), rtol=1e-6)
    np.testing.assert_allclose(right, BINARY[name](2.0, x), rtol=1e-6)


def test_the_larger_magnitude_keeps_its_sign_and_ties_take_the_second():
    x, y = np.float32([[-5, 2, 1]]), np.float32([[3, -4, -1]])
    with Chip("trn3") as chip:
        larger = fp32(nl.abs_max(chip.tensor(x), chip.tensor(y)))
        smaller = fp32(nl.abs_min(chip.tensor(x), chip.tensor(y)))
    np.testing.assert_array_equal(larger, [[-5, -4, -1]])
    np.testing.assert_array_equal(smaller, [[3, 2, -1]])


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits_of_integers(name):
    x, y = (np.random.default_rng(seed).integers(0, 2**31, (8, 12)).astype(np.int32) for seed in (0, 1))
    with Chip() as chip:
        got = getattr(nl, name)(chip.tensor(x, "int32"), chip.tensor(y, "int32")).array()
    np.testing.assert_array_equal(got, getattr(np, name)(x, y))


def test_shifts_and_inversion():
    x = np.arange(96, dtype=np.int32).reshape(8, 12)
    with Chip() as chip:
        tile = chip.tensor(x, "int32")
        np.testing.assert_array_equal(nl.left_shift(tile, 3).array(), x << 3)
        np.testing.assert_array_equal(nl.right_shift(tile, 2).array(), x >> 2)
        np.testing.assert_array_equal(nl.invert(tile).array(), ~x)


REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod, "mean": np.mean}


@pytest.mark.parametrize("axis", [1, -1, (2,), (1, 2), [1, 2]], ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_agrees_with_numpy(name, axis, keepdims):
    x = normal(8, 3, 5) if axis not in (1,) else normal(8, 15)
    with Chip() as chip:
        tile = getattr(nl, name)(chip.tensor(x), axis, keepdims=keepdims)
    expected = REDUCTIONS[name](x, tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims)
    np.testing.assert_allclose(fp32(tile).reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)
    assert tile.ndim >= 2


def test_variance_keeps_its_dimensions():
    x = normal(8, 20)
    with Chip() as chip:
        got = fp32(nl.var(chip.tensor(x), 1))
    np.testing.assert_allclose(got, x.var(1, keepdims=True), rtol=1e-5)


def test_all_is_one_where_nothing_is_zero():
    x = np.ones((4, 6), np.float32)
    x[1, 3] = 0
    with Chip() as chip:
        np.testing.assert_array_equal(fp32(nl.all(chip.tensor(x), 1)).ravel(), [1, 0, 1, 1])


def test_softmax_and_rms_norm():
    x, w = normal(16, 32), normal(16, 32, seed=1)
    powers = np.exp(x - x.max(1, keepdims=True))
    with Chip() as chip:
        np.testing.assert_allclose(fp32(nl.softmax(chip.tensor(x))), powers / powers.sum(1, keepdims=True), rtol=2e-5)
        got = fp32(nl.rms_norm(chip.tensor(x), chip.tensor(w), 1, 32))
    np.testing.assert_allclose(got, x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6) * w, rtol=2e-5, atol=1e-6)


def test_where_chooses_by_the_condition():
    x, y = normal(8, 12), normal(8, 12, seed=1)
    flag = (x > 0).astype(np.float32)
    with Chip() as chip:
        got = fp32(nl.where(chip.tensor(flag), chip.tensor(x), chip.tensor(y)))
        mixed = fp32(nl.where(chip.tensor(flag), chip.tensor(x), -1.0))
    np.testing.assert_array_equal(got, np.where(flag, x, y))
    np.testing.assert_array_equal(mixed, np.where(flag, x, np.float32(-1)))


def test_matmul_and_transpose_give_tiles_in_psum():
    x, y = normal(32, 16), normal(32, 48, seed=1)
    with Chip() as chip:
        direct = nl.matmul(chip.tensor(x), chip.tensor(y), transpose_x=True)
        turned = nl.matmul(chip.tensor(np.ascontiguousarray(x.T)), chip.tensor(y))
        flipped = nl.transpose(chip.tensor(x))
        assert {direct.buffer, turned.buffer, flipped.buffer} == {nl.psum}
        np.testing.assert_allclose(fp32(direct), x.T @ y, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(fp32(turned), x.T @ y, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(fp32(flipped), x.T)


def test_a_gather_reads_the_free_dimension():
    x = normal(4, 16)
    index = np.random.default_rng(0).integers(0, 16, (4, 10)).astype(np.uint32)
    with Chip() as chip:
        got = fp32(nl.gather_flattened(chip.tensor(x), chip.tensor(index, "uint32")))
    np.testing.assert_array_equal(got, np.take_along_axis(x, index.astype(int), 1))


def test_tensors_are_made_filled_and_copied():
    with Chip() as chip:
        filled = nl.full((4, 6), 3, nl.int32)
        np.testing.assert_array_equal(filled.array(), np.full((4, 6), 3))
        assert nl.empty_like(filled, dtype=nl.float32).dtype == "float32"
        np.testing.assert_array_equal(nl.zeros_like(filled).array(), 0)
        far = nl.ones((300, 5), nl.bfloat16, nl.shared_hbm)
        np.testing.assert_array_equal(fp32(far), 1)
        identity = nl.shared_identity_matrix(8, nl.float32)
        np.testing.assert_array_equal(fp32(identity), np.eye(8))
        constant = nl.shared_constant(np.arange(6, dtype=np.float32).reshape(2, 3))
        assert nl.is_hbm(constant.buffer)
        np.testing.assert_array_equal(fp32(nl.load(constant)), [[0, 1, 2], [3, 4, 5]])
        np.testing.assert_array_equal(nl.load_transpose2d(chip.hbm(normal(4, 6))).array(), normal(4, 6).T)


@pytest.mark.parametrize("device", ["trn2", "trn3"])
def test_random_numbers_follow_their_seed_and_fill_the_unit_interval(device):
    with Chip(device):
        draws = []
        for _ in range(2):
            nl.random_seed(nl.full((1, 1), 42, nl.int32))
            draws.append(fp32(nl.rand((128, 512), nl.float32)))
        far = fp32(nl.rand((200, 30), nl.float32, nl.shared_hbm))
    np.testing.assert_array_equal(*draws)
    assert 0 <= draws[0].min() < 0.01
    assert 0.99 < draws[0].max() < 1
    assert abs(draws[0].mean() - 0.5) < 0.01
    assert abs(draws[0].std() - math.sqrt(1 / 12)) < 0.01
    assert 0.4 < far.mean() < 0.6


@pytest.mark.parametrize(
    ("device", "sbuf", "total"), [("trn1", 192 << 10, 24 << 20), ("trn2", 224 << 10, None), ("trn3", 256 << 10, None)]
)
def test_tile_sizes_are_those_of_the_device(device, sbuf, total):
    with Chip(device):
        size = nl.tile_size
        assert (size.pmax, size.psum_fmax, size.psum_bank_fmax, size.psum_bank_fmax_bytes) == (128, 512, 512, 2048)
        assert (size.gemm_stationary_fmax, size.gemm_moving_fmax, size.bn_stats_fmax) == (128, 512, 512)
        assert size.sbuf_fmax_bytes == size.total_available_sbuf_size == 4 * size.sbuf_fmax == sbuf
        assert size.psum_num_banks == 8
        assert total is None or size.sbuf_size_bytes == total


def test_tile_sizes_are_known_outside_a_kernel_too():
    with sim.stand_ins("trn1"):
        import nki.language

        assert nki.language.tile_size.sbuf_fmax_bytes == 192 << 10


def test_a_kernels_own_class_may_leave_fields_out():
    from dataclasses import dataclass

    @dataclass
    class Sizes(nl.NKIObject):
        rows: int
        columns: int
        depth = None

    made = Sizes(rows=3, depth=7)
    assert (made.rows, made.depth) == (3, 7)
    assert not hasattr(made, "columns")
    with pytest.raises(TypeError, match="unexpected keyword"):
        Sizes(rows=3, height=1)

    class Plain(nl.NKIObject):
        pass

    assert Plain(width=2).width == 2


def test_a_value_is_printed_when_the_kernel_asks(capsys):
    with Chip() as chip:
        nl.device_print("tile", chip.tensor(np.float32([[1, 2]])))
    assert capsys.readouterr().out == "tile [[1. 2.]]\n"
    with Chip(values=False) as chip:
        nl.device_print("tile", chip.tensor((2, 2)))
    assert "fp32[2, 2] in sbuf" in capsys.readouterr().out


def test_a_result_takes_the_dtype_that_is_asked_for():
    x = normal(4, 8)
    with Chip() as chip:
        for dtype in (nl.bfloat16, nl.float16):
            got = nl.add(chip.tensor(x), 1.0, dtype=dtype)
            np.testing.assert_array_equal(got.array(), dtypes.cast(x + np.float32(1), dtype))
