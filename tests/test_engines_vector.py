"""The Vector Engine, and the copies and elementwise work that other engines share with it."""

import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim.nki.language as nl
from sim import dtypes
from sim.engines.functions import ALU
from sim.nki import isa as nisa
from sim.nki.functions import LATE, AluOp
from sim.trace import Engine
from tests.chip import ARITHMETIC, Chip, fp32, normal, rounded

FLOATS = ("float32", "bfloat16", "float16", "float8_e5m2")
shapes = st.tuples(st.integers(1, 128), st.integers(1, 40))

BITS = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "left_shift": lambda a, b: (a << b) & 0xFFFF,
    "right_shift": operator.rshift,
}


def tensor_tensor(op, left, right, dtypes_of=("float32", "float32", "float32"), **options):
    with Chip("trn3" if op in LATE else "trn2") as chip:
        dst = chip.tensor(left.shape, dtypes_of[2])
        nisa.tensor_tensor(dst, chip.tensor(left, dtypes_of[0]), chip.tensor(right, dtypes_of[1]), AluOp(op), **options)
        return dst.array(), chip.form


@pytest.mark.parametrize("op", ARITHMETIC)
def test_an_operator_means_the_same_as_in_python(op):
    left, right = normal(8, 16, seed=1), normal(8, 16, seed=2)
    left[:, 0] = right[:, 0]
    left[:, 1] = 0
    if op == "power":
        left, right = np.abs(left), np.abs(right)
    result, _ = tensor_tensor(op, left, right)
    expected = [
        [ARITHMETIC[op](float(a), float(b)) for a, b in zip(*rows, strict=True)]
        for rows in zip(left, right, strict=True)
    ]
    np.testing.assert_allclose(result, np.float32(expected), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("op", BITS)
def test_a_bit_vector_operator_works_on_bits(op):
    source = np.random.default_rng(0)
    left, right = source.integers(0, 1 << 16, (8, 16)), source.integers(0, 16, (8, 16))
    with Chip() as chip:
        dst = chip.tensor((8, 16), "uint16")
        left_tile, right_tile = chip.tensor((8, 16), "uint16"), chip.tensor((8, 16), "uint16")
        left_tile.storage.fill(left.astype(np.uint16))
        right_tile.storage.fill(right.astype(np.uint16))
        nisa.tensor_tensor(dst, left_tile, right_tile, AluOp(op))
        assert chip.form.engine is Engine.VECTOR
    expected = [
        [BITS[op](int(a), int(b)) for a, b in zip(*rows, strict=True)] for rows in zip(left, right, strict=True)
    ]
    assert dst.array().tolist() == expected


@given(shapes, st.sampled_from(FLOATS), st.sampled_from(FLOATS), st.sampled_from(FLOATS))
def test_two_tiles_are_combined_in_fp32_and_rounded_once(shape, one, other, result_dtype):
    left, right = normal(*shape, seed=1), normal(*shape, seed=2)
    result, _ = tensor_tensor("multiply", left, right, (one, other, result_dtype))
    expected = rounded(rounded(left, one) * rounded(right, other), result_dtype)
    np.testing.assert_array_equal(result.astype(np.float32), expected)


def test_32_bit_integers_are_exact_on_gpsimd_and_fp32_on_vector():
    left, right = np.full((2, 3), (1 << 24) + 1, np.int32), np.full((2, 3), 2, np.int32)
    for engine, expected in (("unknown", (1 << 24) + 3), ("gpsimd", (1 << 24) + 3), ("vector", (1 << 24) + 2)):
        with Chip() as chip:
            tiles = [chip.tensor((2, 3), "int32") for _ in range(3)]
            tiles[0].storage.fill(left)
            tiles[1].storage.fill(right)
            nisa.tensor_tensor(tiles[2], tiles[0], tiles[1], nl.add, engine=nisa.engine[engine])
            assert chip.form.engine is (Engine.VECTOR if engine == "vector" else Engine.GPSIMD)
        assert tiles[2].array().tolist() == [[expected] * 3] * 2


def test_integers_wrap_on_gpsimd():
    with Chip() as chip:
        tiles = [chip.tensor((1, 1), "uint32") for _ in range(3)]
        tiles[0].storage.fill(np.uint32([[0xFFFFFFFF]]))
        tiles[1].storage.fill(np.uint32([[2]]))
        nisa.tensor_tensor(tiles[2], tiles[0], tiles[1], nl.add)
    assert tiles[2].array().item() == 1


# -- a tile and a number ---------------------------------------------------------------------------


@given(shapes, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from(FLOATS))
def test_two_operators_are_applied_in_order(shape, reverse0, reverse1, column0, column1, dtype):
    data, one, two = normal(*shape, seed=1), normal(shape[0], 1, seed=2), normal(shape[0], 1, seed=3)
    with Chip() as chip:
        dst = chip.tensor(shape, dtype)
        operands = [chip.tensor(side) if tile else float(side[0, 0]) for side, tile in ((one, column0), (two, column1))]
        nisa.tensor_scalar(
            dst, chip.tensor(data, dtype), nl.subtract, operands[0], reverse0, nl.multiply, operands[1], reverse1
        )
    one, two = (side if tile else side[0, 0] for side, tile in ((one, column0), (two, column1)))
    first = one - rounded(data, dtype) if reverse0 else rounded(data, dtype) - one
    np.testing.assert_array_equal(fp32(dst), rounded(first * two, dtype))


def test_reverse_exchanges_the_arguments_of_the_second_operator():
    with Chip() as chip:
        dst = chip.tensor((1, 2))
        nisa.tensor_scalar(dst, chip.tensor([[1.0, 2.0]]), nl.add, 1.0, op1=nl.subtract, operand1=10.0, reverse1=True)
    assert dst.array().tolist() == [[8.0, 7.0]]


def test_unary_operators_need_no_operand():
    with Chip() as chip:
        dst, data = chip.tensor((1, 3)), chip.tensor([[-4.0, 1.0, 9.0]])
        for op, expected in (("abs", [4, 1, 9]), ("square", [16, 1, 81]), ("relu", [0, 1, 9])):
            nisa.tensor_scalar(dst, data, AluOp(op), None)
            assert dst.array().tolist() == [expected]
        nisa.tensor_scalar(dst, data, nl.abs, 0, op1=nl.rsqrt, operand1=0)
        np.testing.assert_allclose(dst.array(), [[0.5, 1, 1 / 3]], rtol=1e-6)


def test_bits_are_masked_and_shifted_in_one_instruction():
    with Chip() as chip:
        dst, data = chip.tensor((1, 2), "uint32"), chip.tensor((1, 2), "uint32")
        data.storage.fill(np.uint32([[0xDEADBEEF, 0x12345678]]))
        nisa.tensor_scalar(dst, data, nl.right_shift, 16, op1=nl.bitwise_and, operand1=0xFF)
        assert [hex(n) for n in dst.array()[0]] == ["0xad", "0x34"]
        nisa.tensor_scalar(dst, data, nl.bitwise_xor, -1)
        assert dst.array()[0].tolist() == [0xDEADBEEF ^ 0xFFFFFFFF, 0x12345678 ^ 0xFFFFFFFF]


def test_a_column_of_bits_is_broadcast_along_its_row():
    with Chip() as chip:
        dst, data = chip.tensor((2, 2), "uint8"), chip.tensor([[12, 10], [12, 10]], "uint8")
        nisa.tensor_scalar(dst, data, nl.bitwise_and, chip.tensor([[8], [2]], "uint8"), op1=nl.left_shift, operand1=1)
    assert dst.array().tolist() == [[16, 16], [0, 4]]


def test_a_right_shift_of_a_negative_number_brings_in_zeros():
    with Chip() as chip:
        dst, data = chip.tensor((1, 1), "int32"), chip.tensor((1, 1), "int32")
        data.storage.fill(np.int32([[-1]]))
        nisa.tensor_scalar(dst, data, nl.right_shift, 28)
    assert dst.array().item() == 15


@pytest.mark.parametrize("column", [True, False])
def test_scalar_tensor_tensor_broadcasts_its_first_operand_only(column):
    data, scale, other = normal(64, 24), normal(64, 1, seed=2), normal(64, 24, seed=3)
    with Chip() as chip:
        dst = chip.tensor((64, 24))
        operand0 = chip.tensor(scale) if column else 0.5
        nisa.scalar_tensor_tensor(
            dst, chip.tensor(data), nl.multiply, operand0, nl.subtract, chip.tensor(other), reverse1=True
        )
    np.testing.assert_array_equal(fp32(dst), other - data * (scale if column else np.float32(0.5)))


# -- copies, constants -----------------------------------------------------------------------------


@given(
    shapes,
    st.sampled_from([d for d in dtypes.DTYPES if d is not dtypes.tfloat32]),
    st.sampled_from(["vector", "scalar", "gpsimd", "unknown"]),
)
def test_a_copy_of_one_dtype_moves_bits(shape, dtype, engine):
    data = np.random.default_rng(1).integers(0, 256, (shape[0], shape[1] * dtype.itemsize), np.uint8)
    with Chip() as chip:
        src, dst = chip.tensor(shape, dtype), chip.tensor(shape, dtype)
        src.storage.fill(data)
        nisa.tensor_copy(dst, src, engine=nisa.engine[engine])
    assert dst.array().tobytes() == data.tobytes()


def test_a_copy_between_dtypes_rounds_through_fp32():
    with Chip() as chip:
        src, dst = chip.tensor((1, 2), "int32"), chip.tensor((1, 2), "uint32")
        src.storage.fill(np.int32([[-5, (1 << 24) + 1]]))
        nisa.tensor_copy(dst, src)
        assert chip.form.opcode == "CAST"
        assert dst.array().tolist() == [[0, 1 << 24]]


def test_a_tile_may_be_cut_differently_on_both_sides():
    data = normal(16, 24)
    with Chip() as chip:
        dst = chip.tensor((16, 48))
        nisa.memset(dst, 0)
        view = dst.ap([[48, 16], [8, 6], [1, 4]])
        nisa.tensor_copy(view, chip.tensor(data))
    result = fp32(dst).reshape(16, 6, 8)
    np.testing.assert_array_equal(result[:, :, :4].reshape(16, 24), data)
    assert not result[:, :, 4:].any()


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("bfloat16", 1.1, 1.1015625),
        ("int32", -7, -7),
        ("uint8", -1, 255),
        ("int16", 4, 4),
        ("float32", math.inf, math.inf),
    ],
)
def test_memset_writes_one_value_everywhere(dtype, value, expected):
    with Chip() as chip:
        dst = chip.psum((3, 2, 5), dtype)
        nisa.memset(dst, value)
        assert dst.written_array() is None or dst.written_array().all()
    assert np.unique(dst.array().astype(np.float64)).tolist() == [expected]


def test_reciprocal_of_zero_is_infinite():
    with Chip() as chip:
        dst = chip.tensor((1, 3))
        nisa.reciprocal(dst, chip.tensor([[4.0, -0.5, 0.0]]))
    assert dst.array().tolist() == [[0.25, -2.0, math.inf]]


# -- cost ------------------------------------------------------------------------------------------


def timed(call, *tiles, device="trn2"):
    """Form of a call whose tiles are (shape, dtype, memory)."""
    with Chip(device, values=False) as chip:
        call(
            *(
                getattr(chip, memory)(shape, dtype) if memory == "psum" else chip.tensor(shape, dtype)
                for shape, dtype, memory in tiles
            )
        )
        return chip.form


S, P = ((128, 512), "float32", "sbuf"), ((128, 512), "float32", "psum")
HALF, HALF_PSUM = ((128, 512), "bfloat16", "sbuf"), ((128, 512), "bfloat16", "psum")
QUARTER, QUARTER_PSUM = ((128, 128), "float32", "sbuf"), ((128, 128), "float32", "psum")
COLUMN = ((128, 1), "float32", "sbuf")


@pytest.mark.parametrize(
    ("call", "tiles", "measured_ns"),
    [
        (nisa.tensor_copy, (S, P), 690),
        (lambda d, s: nisa.tensor_copy(d, s, engine=nisa.engine.scalar), (S, P), 585),
        (lambda d, s, c: nisa.tensor_scalar(d, s, nl.multiply, c), (S, S, COLUMN), 481),
        (lambda d, s, c: nisa.tensor_scalar(d, s, nl.multiply, c), (QUARTER, QUARTER_PSUM, COLUMN), 349),
        (lambda d, s: nisa.tensor_scalar(d, s, nl.multiply, 2.0), (S, S), 160 + 0.52 * 512),
        (nisa.reciprocal, (((128, 4), "float32", "sbuf"),) * 2, 178),
        (lambda d, a, b: nisa.tensor_tensor(d, a, b, nl.add), (S, S, S), 159.6 + 1.04 * 512),
        (lambda d, a, b: nisa.tensor_tensor(d, a, b, nl.add), (HALF, HALF, HALF), 161.5 + 0.517 * 512),
        (nisa.tensor_copy, (S, S), 156 + 0.527 * 512),
    ],
    ids=[
        "copy PSUM",
        "copy PSUM scalar",
        "scalar SBUF",
        "scalar PSUM",
        "scalar with a number",
        "reciprocal",
        "tensor_tensor",
        "tensor_tensor bf16",
        "copy SBUF",
    ],
)
def test_latency_on_trn2_is_what_profiles_show(call, tiles, measured_ns):
    assert timed(call, *tiles).cost.latency_ps / 1000 == pytest.approx(measured_ns, rel=0.04)


@pytest.mark.parametrize(
    ("call", "tiles", "measured_ns"),
    [
        (lambda d, s, c: nisa.tensor_scalar(d, s, nl.multiply, c), (S, S, COLUMN), 396),
        (lambda d, s, c: nisa.activation(d, nl.exp, s, bias=c), (S, S, COLUMN), 612),
        (lambda d, s, c: nisa.activation(d, nl.exp, s, bias=c), (S, P, COLUMN), 570),
    ],
    ids=["tensor_scalar", "exp SBUF", "exp PSUM"],
)
def test_a_tile_as_operand_delays_the_next_instruction_as_profiles_show(call, tiles, measured_ns):
    assert timed(call, *tiles).cost.occupancy_ps / 1000 == pytest.approx(measured_ns, rel=0.02)


@pytest.mark.parametrize(
    ("tiles", "op", "cycles"),
    [
        ((S, S, S), "add", 1024),
        ((S, S, P), "add", 512),
        ((HALF, HALF, HALF), "add", 512),
        ((HALF, HALF, HALF), "maximum", 1024),
        ((HALF, HALF, S), "add", 1024),
    ],
    ids=["fp32", "one in PSUM", "bf16", "bf16 other operator", "mixed"],
)
def test_tensor_tensor_on_v2_follows_the_documented_formula(tiles, op, cycles):
    cost = timed(lambda d, a, b: nisa.tensor_tensor(d, a, b, AluOp(op)), *tiles, device="trn1").cost
    assert cost.occupancy_ps == round((cycles + 63) / 1.12 * 1000)


@pytest.mark.parametrize(
    ("shape", "ops", "cycles"),
    [
        ((128, 512), ("subtract", "multiply"), 512),
        ((128, 511), ("subtract", "multiply"), 1022),
        ((128, 512), ("add", "multiply"), 1024),
    ],
    ids=["bf16 subtract multiply", "odd count", "other operators"],
)
def test_scalar_tensor_tensor_on_v2_has_one_fast_case(shape, ops, cycles):
    with Chip("trn1", values=False) as chip:
        dst, data, other = (chip.tensor(shape, "bfloat16") for _ in range(3))
        nisa.scalar_tensor_tensor(dst, data, AluOp(ops[0]), 1.0, AluOp(ops[1]), other)
        assert chip.form.cost.occupancy_ps == round((cycles + 63) / 1.12 * 1000)


def test_perf_modes_need_16_bits_sbuf_and_unit_stride():
    def copy(dst, src):
        return timed(nisa.tensor_copy, dst, src).cost.occupancy_ps

    def with_cycles(cycles):
        return round((cycles + 60) / 0.96 * 1000)

    assert copy(HALF, HALF) == with_cycles(128)
    assert copy(HALF, HALF_PSUM) == with_cycles(256)
    assert copy(S, S) == copy(S, HALF) == with_cycles(256)
    assert copy(S, P) == with_cycles(512)
    with Chip(values=False) as chip:
        wide = chip.tensor((128, 1024), "bfloat16")
        nisa.tensor_copy(chip.tensor((128, 512), "bfloat16"), wide[:, ::2])
        assert chip.form.cost.occupancy_ps == with_cycles(256)


def test_a_large_stride_halves_the_rate():
    with Chip("trn1", values=False) as chip:
        tall = chip.tensor((128, 64, 8))
        nisa.tensor_copy(chip.tensor((128, 64)), tall[:, :, 0])
        slow = chip.form.cost
        nisa.tensor_copy(chip.tensor((128, 64)), tall[:, 0:8])
        fast = chip.form.cost
    assert slow.latency_ps - fast.latency_ps == round(64 / 1.12 * 1000)


def test_short_instructions_occupy_64_cycles():
    tiny = ((128, 1), "float32", "sbuf")
    assert timed(nisa.tensor_copy, tiny, tiny, device="trn1").cost.occupancy_ps == round(64 / 1.12 * 1000)


@pytest.mark.parametrize(("device", "held"), [("trn1", (1, 3, 1)), ("trn2", (0, 0, 0))])
def test_engines_of_v2_share_ports(device, held):
    on_scalar = timed(lambda d, s: nisa.activation(d, nl.copy, s), S, S, device=device).cost.port
    ports = (
        timed(nisa.tensor_copy, S, S, device=device).cost.port,
        timed(nisa.tensor_copy, S, P, device=device).cost.port,
        timed(lambda d, s: nisa.tensor_copy(d, s, engine=nisa.engine.gpsimd), S, S, device=device).cost.port,
    )
    assert (ports, on_scalar) == (held, 0)


def test_every_operator_can_be_applied():
    for name, op in ALU.items():
        kind = "int32" if op.bitvec else "float32"
        with Chip("trn3") as chip:
            dst = chip.tensor((2, 4), kind)
            nisa.tensor_scalar(dst, chip.tensor(np.full((2, 4), 3), kind), AluOp(name), None if op.unary else 2)
            assert chip.form.function == name.upper()


def test_a_tf32_result_loses_the_bits_that_tf32_lacks():
    with Chip() as chip:
        dst = chip.tensor((1, 2), "tfloat32")
        nisa.tensor_copy(dst, chip.tensor([[1 + 2.0**-11 + 2.0**-20, 1 + 2.0**-10]]))
        assert chip.form.dtype == "fp32"
    assert dst.array().tolist() == [[1 + 2.0**-10, 1 + 2.0**-10]]
