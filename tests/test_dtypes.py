"""Names of number formats, and rounding as the hardware does it."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import dtypes
from sim.errors import InputError

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("dtype", dtypes.DTYPES, ids=str)
def test_a_dtype_is_found_by_each_of_its_names(dtype):
    for name in (dtype, dtype.name, dtypes.short(dtype)):
        assert dtypes.parse(name) is dtype or dtypes.parse(name) == dtype


@pytest.mark.parametrize(
    ("given_as", "expected"),
    [
        (np.float32, "float32"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (np.dtype("uint8"), "uint8"),
        ("bf16", "bfloat16"),
        ("bool_", "bool"),
        (type("torch_dtype", (), {"__str__": lambda self: "torch.bfloat16"})(), "bfloat16"),
    ],
)
def test_host_types_are_understood(given_as, expected):
    assert dtypes.parse(given_as).name == expected


@pytest.mark.parametrize("wrong", ["float99", np.float64, "int64", object(), None, 3])
def test_an_unknown_dtype_is_answered_with_the_known_ones(wrong):
    with pytest.raises(InputError) as fault:
        dtypes.parse(wrong)
    assert all(name in str(fault.value) for name in ("bfloat16", "tfloat32", "float4_e2m1fn_x4"))


def test_a_64_bit_dtype_is_answered_with_its_narrow_one():
    with pytest.raises(InputError, match="convert to float32"):
        dtypes.parse("float64")


def test_own_formats_equal_their_names():
    assert dtypes.tfloat32 == "tfloat32"
    assert dtypes.tfloat32 != dtypes.float32
    assert dtypes.float32 != dtypes.tfloat32
    for dtype in dtypes.PACKED:
        assert dtype != dtype.storage
        assert dtype.storage != dtype
    assert (dtypes.float4_e2m1fn_x4.itemsize, dtypes.float8_e5m2_x4.itemsize) == (2, 4)


@given(st.lists(floats, min_size=1, max_size=20))
def test_floats_round_to_the_nearest_number_of_the_format(numbers):
    values = np.array(numbers, np.float32)
    for dtype in (dtypes.bfloat16, dtypes.float16, dtypes.float8_e5m2):
        with np.errstate(all="ignore"):
            expected = values.astype(dtype)
        np.testing.assert_array_equal(dtypes.cast(values, dtype), expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, 0),
        (1.5, 2),
        (2.5, 2),
        (-0.5, 0),
        (-1.5, -2),
        (126.6, 127),
        (1e9, 127),
        (-1e9, -128),
        (math.nan, 0),
        (math.inf, 127),
    ],
)
def test_a_float_becomes_the_nearest_even_integer_and_saturates(value, expected):
    assert dtypes.cast(np.float32([value]), "int8")[0] == expected


@given(st.lists(st.floats(width=32), min_size=1, max_size=20), st.sampled_from(["int8", "uint16", "int32", "uint32"]))
def test_integers_stay_within_their_limits(numbers, name):
    limits = np.iinfo(name)
    for value, result in zip(numbers, dtypes.cast(np.float32(numbers), name).tolist(), strict=True):
        exact = 0 if math.isnan(value) else value
        wanted = limits.max if exact > limits.max else limits.min if exact < limits.min else round(exact)
        assert result == wanted


@pytest.mark.parametrize(
    ("name", "largest", "beyond"),
    [
        ("float16", 65504, math.inf),
        ("bfloat16", 3.3895314e38, math.inf),
        ("float8_e5m2", 57344, math.inf),
        ("float8_e4m3", 240, math.inf),
        ("float8_e4m3fn", 448, math.nan),
    ],
)
def test_what_is_too_large_becomes_what_the_format_has_for_it(name, largest, beyond):
    kept, lost = dtypes.cast(np.float32([largest, 3.4e38]), name).astype(np.float32)
    assert kept == np.float32(largest)
    np.testing.assert_equal(float(lost), beyond)


@given(floats)
def test_tf32_keeps_ten_bits_of_mantissa_to_nearest_even(value):
    result = float(dtypes.round_tf32(np.float32([value]))[0])
    if math.isinf(result):
        assert abs(value) > 3.4e38
        return
    _, exponent = math.frexp(value)
    step = Fraction(2) ** (max(exponent, -125) - 11)
    assert Fraction(result) == round(Fraction(value) / step) * step


def test_tf32_keeps_infinities_and_nan():
    result = dtypes.cast(np.float32([math.inf, -math.inf, math.nan]), "tfloat32")
    np.testing.assert_array_equal(result, [math.inf, -math.inf, math.nan])


def test_e8m0_holds_powers_of_two_only():
    result = dtypes.cast(np.float32([0, -4, 1, 3, 2.0**-127, 2.0**120]), "float8_e8m0fnu").view(np.uint8)
    assert result.tolist() == [0, 0, 127, 129, 0, 247]


@pytest.mark.parametrize("dtype", [dtypes.float8_e4m3fn_x4, dtypes.float8_e5m2_x4, dtypes.float4_e2m1fn_x4], ids=str)
def test_packing_is_the_inverse_of_unpacking(dtype):
    codes = np.arange(256 * dtype.itemsize, dtype=np.uint8)[: 64 * dtype.itemsize].view(dtype.storage).reshape(8, 8)
    numbers = dtypes.unpack(codes, dtype)
    assert numbers.shape == (8, 8, 4)
    np.testing.assert_array_equal(dtypes.unpack(dtypes.pack(numbers, dtype), dtype), numbers)
    assert len(np.unique(numbers[np.isfinite(numbers)])) > 14


def test_the_first_packed_number_lies_in_the_lowest_bits():
    packed = dtypes.pack(np.float32([[1.0, 0, 0, 0]]), dtypes.float8_e4m3fn_x4)
    assert packed[0] == int(np.float32(1).astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
    assert dtypes.pack(np.float32([[1.0, 0, 0, 0]]), dtypes.float4_e2m1fn_x4)[0] == 2


def test_a_flag_is_set_by_everything_but_zero():
    assert dtypes.cast(np.float32([0, 0.25, -1]), "bool").tolist() == [False, True, True]


def test_packed_formats_and_integers_are_no_floats():
    floats_ = {dtype.name for dtype in dtypes.DTYPES if dtypes.is_float(dtype)}
    assert {"float32", "tfloat32", "bfloat16", "float8_e4m3"} <= floats_
    assert not {"int32", "bool", "float8_e4m3fn_x4", "float4_e2m1fn_x4"} & floats_


@pytest.mark.parametrize(
    ("one", "other", "result"),
    [
        ("float16", "bfloat16", "float32"),
        ("int32", "uint32", "float32"),
        ("float8_e4m3", "float8_e5m2", "bfloat16"),
        ("bfloat16", "float32", "float32"),
        ("int8", "int16", "int16"),
        ("int32", "bfloat16", "bfloat16"),
        ("uint8", "uint8", "uint8"),
    ],
)
def test_two_dtypes_meet_in_a_third(one, other, result):
    for pair in ((one, other), (other, one)):
        assert dtypes.promote(*map(dtypes.parse, pair)) == result
