"""Values against the documents: rounding of each format, sums, activation functions, scales, random bits."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sim
from sim import dtypes
from sim.engines.functions import ACTIVATIONS
from sim.errors import UnsupportedError
from sim.nki import isa as nisa
from sim.nki.functions import AluOp
from sim.nki.kernel import jit
from tests.chip import Chip, fp32, normal, rounded

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "numerics.md"

FORMATS = {
    "tfloat32": (10, -126, Fraction(2) ** 127 * (2 - Fraction(1, 2**10)), math.inf),
    "bfloat16": (7, -126, Fraction(2) ** 127 * (2 - Fraction(1, 2**7)), math.inf),
    "float16": (10, -14, Fraction(65504), math.inf),
    "float8_e5m2": (2, -14, Fraction(57344), math.inf),
    "float8_e4m3": (3, -6, Fraction(240), math.inf),
    "float8_e4m3fn": (3, -6, Fraction(448), math.nan),
}
"""Bits of mantissa, smallest exponent, largest number, what is beyond it."""


def nearest(value: float, name: str) -> float:
    """The number of a format that lies nearest, of two the even one."""
    bits, least, largest, beyond = FORMATS[name]
    if value == 0 or not math.isfinite(value):
        return beyond if math.isinf(value) and math.isnan(beyond) else value
    step = Fraction(2) ** (max(math.frexp(value)[1] - 1, least) - bits)
    result = round(Fraction(value) / step) * step
    if abs(result) > largest:
        return math.copysign(beyond, value)
    return math.copysign(float(result), value)


@st.composite
def near_ties(draw, name):
    """fp32 numbers on and beside the middle of two neighbours of a format, and beyond its largest."""
    bits, least, largest, _ = FORMATS[name]
    exponent = draw(st.integers(least - 2, math.frexp(float(largest))[1]))
    step = Fraction(2) ** (max(exponent, least) - bits)
    middle = (draw(st.integers(0, 2 ** (bits + 1))) + Fraction(1, 2)) * step
    value = np.float32(float(min(middle, Fraction(3.4e38))))
    value = np.nextafter(value, np.float32(draw(st.sampled_from([0.0, math.inf])))) if draw(st.booleans()) else value
    return float(-value if draw(st.booleans()) else value)


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
def test_a_number_becomes_the_nearest_of_its_format(name, data):
    value = data.draw(st.one_of(st.floats(width=32, allow_nan=False), near_ties(name)))
    result = float(dtypes.cast(np.float32([value]), name).astype(np.float32)[0])
    np.testing.assert_equal(result, nearest(value, name))


@given(st.floats(width=32, min_value=0.0, max_value=2.0**126))
def test_an_e8m0_scale_is_the_nearest_power_of_two(value):
    code = int(dtypes.cast(np.float32([value]), "float8_e8m0fnu").view(np.uint8)[0])
    exact, found = Fraction(value), Fraction(2) ** (code - 127)
    assert code == 0 or all(abs(exact - found) <= abs(exact - other) for other in (found / 2, found * 2))


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=8))
def test_integers_reach_another_format_through_fp32(numbers):
    with Chip() as chip:
        narrow, wide = chip.tensor((1, len(numbers)), "bfloat16"), chip.tensor((1, len(numbers)), "uint32")
        source = chip.tensor(np.array([numbers], np.int64).astype(np.int32), "int32")
        source.storage.fill(np.array([numbers], np.int32))
        nisa.tensor_copy(narrow, source)
        nisa.tensor_copy(wide, source)
    for number, short, unsigned in zip(numbers, fp32(narrow)[0], wide.array()[0].tolist(), strict=True):
        single = float(np.float32(number))
        assert short == nearest(single, "bfloat16")
        assert unsigned == min(max(int(single), 0), 2**32 - 1)


# -- sums ------------------------------------------------------------------------------------------


@given(
    st.integers(1, 128),
    st.sampled_from(["float32", "tfloat32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2"]),
    st.integers(0, 2**32 - 1),
)
def test_a_product_is_as_exact_as_fp32_sums_allow(k, dtype, seed):
    left, right = normal(k, 16, seed=seed), normal(k, 24, seed=seed + 1)
    with Chip() as chip:
        dst = chip.psum((16, 24))
        nisa.nc_matmul(dst, chip.tensor(left, dtype), chip.tensor(right, dtype))
    a, b = rounded(left, dtype).astype(np.float64), rounded(right, dtype).astype(np.float64)
    bound = (k + 2) * 2.0**-24 * (np.abs(a).T @ np.abs(b))
    assert (np.abs(fp32(dst) - a.T @ b) <= bound).all()


@given(st.lists(st.sampled_from([None, True, False]), max_size=6), st.sampled_from([None, False]))
def test_the_first_matmul_overwrites_and_later_ones_add(flags, first):
    tiles = [(normal(8, 4, seed=i), normal(8, 6, seed=i + 50)) for i in range(len(flags) + 1)]
    with Chip() as chip:
        dst = chip.psum(np.full((4, 6), 99.0))
        for flag, (left, right) in zip([first, *flags], tiles, strict=True):
            nisa.nc_matmul(dst, chip.tensor(left), chip.tensor(right), accumulate=flag)
    start = max((i for i, flag in enumerate([first, *flags]) if flag is False), default=0)
    total = np.zeros((4, 6), np.float32)
    for left, right in tiles[start:]:
        total = total + left.T @ right
    np.testing.assert_allclose(fp32(dst), total, rtol=1e-6, atol=1e-6)


# -- activation functions --------------------------------------------------------------------------

LONG = np.longdouble
PI = LONG("3.14159265358979323846264338327950288")


def sigmoid(x):
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def erf(x):
    return np.array([math.erf(value) for value in x.astype(float)], LONG)


def cumulative(x):
    """Of the normal distribution."""
    return np.array([math.erfc(value) for value in (-x / np.sqrt(LONG(2))).astype(float)], LONG) / 2


def sigmoid_product_dx(x):
    return sigmoid(x) * (1 + x * sigmoid(-x))


SLOPE, CUBIC = LONG("1.702"), LONG("0.044715")
DEFINITIONS = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "relu": lambda x: np.maximum(x, 0),
    "sign": np.sign,
    "abs": np.abs,
    "exp": np.exp,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": sigmoid_product_dx,
    "softplus": softplus,
    "mish": lambda x: x * np.tanh(softplus(x)),
    "tanh": np.tanh,
    "gelu": lambda x: x * cumulative(x),
    "gelu_dx": lambda x: cumulative(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * PI),
    "gelu_apprx_tanh": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / PI) * (x + CUBIC * x**3))),
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(SLOPE * x),
    "gelu_apprx_sigmoid_dx": lambda x: sigmoid_product_dx(SLOPE * x),
    "erf": erf,
    "erf_dx": lambda x: 2 / np.sqrt(PI) * np.exp(-x * x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "log": np.log,
    "sin": np.sin,
    "arctan": np.arctan,
    "reciprocal": lambda x: 1 / x,
}
POSITIVE = ("rsqrt", "sqrt", "log")
LIMITS = {"silu": (0, math.inf), "gelu": (0, math.inf), "mish": (0, math.inf), "sigmoid": (0, 1), "tanh": (-1, 1)}
LIMITS |= {"exp": (0, math.inf), "softplus": (0, math.inf), "erf": (-1, 1), "erf_dx": (0, 0), "gelu_dx": (0, 1)}
LIMITS |= {"silu_dx": (0, 1), "gelu_apprx_tanh": (0, math.inf), "gelu_apprx_sigmoid": (0, math.inf)}
LIMITS |= {"gelu_apprx_sigmoid_dx": (0, 1)}


def tolerances() -> dict[str, float]:
    """The table that the document states."""
    table = DOCUMENT.read_text(encoding="utf-8").partition("| function | tolerance |")[2].partition("\n\n")[0]
    return {name: float(number) for name, number in re.findall(r"\| (\w+) \| ([\d.e-]+) \|", table)}


def test_every_function_has_a_definition_and_a_stated_tolerance():
    assert set(ACTIVATIONS) == {*DEFINITIONS, "prelu"}
    assert set(tolerances()) == set(DEFINITIONS)


def inputs(name: str) -> np.ndarray:
    """fp32 numbers over the whole valid range of a function."""
    source = np.random.default_rng(0)
    sizes = [2.0 ** source.uniform(-126, 127, 6000), source.uniform(0, 8, 12000), 2.0 ** source.uniform(-20, 7, 12000)]
    sign = 1 if name in POSITIVE else source.choice([-1, 1], 30000)
    values = (np.concatenate(sizes) * sign).astype(np.float32)
    low, high = ACTIVATIONS[name].valid
    return values[(values >= low) & (values <= high)]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_an_activation_is_its_mathematical_definition(name):
    values = inputs(name)
    values = values[: len(values) // 100 * 100]
    with Chip() as chip:
        dst = chip.tensor((100, len(values) // 100))
        nisa.activation(dst, AluOp(name), chip.tensor(values.reshape(100, -1)))
        assert chip.form.function == name.upper()
    with np.errstate(all="ignore"):
        exact = DEFINITIONS[name](values.astype(LONG))
    finite = np.abs(exact) <= np.finfo(np.float32).max
    error = np.abs(fp32(dst).reshape(-1)[finite] - exact[finite]) / np.maximum(1, np.abs(exact[finite]))
    stated = tolerances()[name]
    assert error.max() <= stated
    assert error.max() >= stated / 3, "the stated tolerance is tight"


@pytest.mark.parametrize("name", LIMITS)
def test_an_activation_reaches_its_limits_at_infinity(name):
    with Chip() as chip:
        dst = chip.tensor((1, 3))
        nisa.activation(dst, AluOp(name), chip.tensor([[-math.inf, math.inf, math.nan]]))
    np.testing.assert_array_equal(fp32(dst), [[*LIMITS[name], math.nan]])


# -- microscaling, random bits, what is not there --------------------------------------------------


@given(st.integers(-126, 126), st.integers(0, 2**32 - 1), st.sampled_from(["float8_e4m3fn_x4", "float8_e5m2_x4"]))
def test_a_scale_leaves_room_for_rounding_and_little_else(exponent, seed, packed):
    emax = {"float8_e4m3fn_x4": 8, "float8_e5m2_x4": 15}[packed]
    data = rounded(
        np.ldexp(np.random.default_rng(seed).uniform(-1, 1, (32, 4)).astype(np.float32), exponent), "bfloat16"
    )
    with Chip("trn3") as chip:
        dst, scale = chip.tensor((32, 1), packed), chip.tensor((32, 1), "uint8")
        nisa.quantize_mx(dst, chip.tensor(data, "bfloat16"), scale)
    numbers = dtypes.unpack(dst.array(), dst.dtype).reshape(32, 4)
    for group in range(4):
        rows = slice(8 * group, 8 * group + 8)
        largest = float(np.abs(data[rows]).max())
        power = max(math.frexp(largest)[1] - 1 - (emax - 1), -127) if largest else -127
        assert int(scale.array()[group, 0]) - 127 == power
        assert np.abs(numbers[rows]).max() <= 2.0**emax
        if largest and power > -127:
            assert np.abs(numbers[rows]).max() >= 2.0 ** (emax - 1)


def test_narrow_random_numbers_are_the_low_bits_of_wide_ones():
    drawn = {}
    for dtype in ("uint32", "uint16", "int8"):
        with Chip() as chip:
            dst = chip.tensor((16, 40), dtype)
            nisa.set_rng_seed(chip.tensor([[7]], "uint32"))
            nisa.rng(dst)
            drawn[dtype] = dst.array()
    np.testing.assert_array_equal(drawn["uint16"], drawn["uint32"].astype(np.uint16))
    np.testing.assert_array_equal(drawn["int8"].view(np.uint8), drawn["uint32"].astype(np.uint8))


def test_stochastic_rounding_is_refused_and_not_left_out(monkeypatch):
    def kernel(x):
        return x

    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_EN", "1")
    with pytest.raises(UnsupportedError, match="stochastic rounding is not emulated"):
        sim.run(jit(kernel), normal(4, 4))
    assert sim.run(jit(kernel), normal(4, 4), values=False).outputs is None
    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_EN", "0")
    assert len(sim.run(jit(kernel), normal(4, 4)).outputs) == 1
