"""Numbers read the same everywhere."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnprof import words
from trnprof.words import MINUS, NARROW, THIN


@pytest.mark.parametrize(
    ("ps", "text"),
    [
        (0, "0 ns"),
        (417, "417 ps"),
        (4170, "4.17 ns"),
        (686_000, "686 ns"),
        (999_600, "1.00 µs"),
        (23_119_000, "23.1 µs"),
        (1_870_868_809, "1.87 ms"),
        (2e12, "2.00 s"),
        (5e15, "5 000 s"),
        (None, "n/a"),
        (math.nan, "n/a"),
        (math.inf, "n/a"),
    ],
)
def test_times_have_three_digits_and_the_unit_that_fits(ps, text):
    assert words.time(ps).replace(NARROW, " ").replace(THIN, " ") == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (1e-9, "<1 %"),
        (0.0099, "<1 %"),
        (0.01, "1 %"),
        (0.575, "58 %"),
        (0.995, "100 %"),
        (1.04, "104 % !"),
        (-0.2, f"{MINUS}20 %"),
        (None, "n/a"),
    ],
)
def test_shares_are_whole_per_cent_and_zero_is_only_nothing(share, text):
    assert words.share(share).replace(NARROW, " ") == text


@pytest.mark.parametrize(
    ("bytes_", "text"),
    [
        (3, "3 B"),
        (1023, "1 023 B"),
        (1024, "1 KiB"),
        (131072, "128 KiB"),
        (1114112, "1.06 MiB"),
        (2**30, "1 GiB"),
        (None, "n/a"),
    ],
)
def test_capacities_are_binary(bytes_, text):
    assert words.size(bytes_).replace(NARROW, " ").replace(THIN, " ") == text


def test_rates_are_decimal():
    found = [words.rate(358.4e9), words.rate(1.2e12), words.flops(78.643e12), words.flops(5.8e9), words.elements(123e9)]
    assert [text.replace(NARROW, " ") for text in found] == [
        "358 GB/s",
        "1.20 TB/s",
        "78.6 TFLOP/s",
        "5.80 GFLOP/s",
        "123 Gelem/s",
    ]


def test_moments_and_single_instructions_keep_the_resolution_of_the_profile():
    assert words.moment(26_059_000) == f"26.059{NARROW}µs"
    assert words.moment(1_870_868_809) == f"1{THIN}870.869{NARROW}µs"
    assert words.moment(-1_500) == f"{MINUS}0.002{NARROW}µs"
    assert words.exact(1_206_000) == f"1{THIN}206{NARROW}ns"


def test_parts_are_told_in_the_unit_of_the_whole():
    assert words.of(541_000, 23_119_000) == f"0.541 of 23.1{NARROW}µs"


def test_differences_come_from_the_terms_as_shown():
    assert words.points(0.734, 0.136) == 73 - 14
    assert words.delta(-9_150_000) == f"{MINUS}9.15{NARROW}µs"
    assert words.delta(34_000) == f"+34.0{NARROW}ns"


def test_estimates_are_marked_but_nothing_is_not():
    assert words.estimate("18.9") == "~18.9"
    assert words.estimate("n/a") == "n/a"
    assert words.interval(words.time(18.1e6), words.time(19.6e6)) == f"18.1 to 19.6{NARROW}µs"
    assert words.interval(words.time(999e3), words.time(1.2e6)) == f"999{NARROW}ns to 1.20{NARROW}µs"


def test_hostile_names_lose_control_and_direction_characters_and_their_middle():
    assert words.plain("a\x1b[31m\x00b\u202ec") == "a\ufffd[31m\ufffdb\ufffdc"
    assert words.plain("x" * 50 + "end", 11) == "xxxxx…xxend"
    assert len(words.plain("y" * 10_000, 40)) == 40


@given(
    st.floats(-1e290, 1e290) | st.sampled_from([math.nan, math.inf, -math.inf]),
    st.sampled_from(["ps", "ns", "B", "B/s", "FLOP/s", "FLOP/B", "share", "x"]),
)
def test_no_number_reads_inf_or_nan(value, unit):
    text = words.quantity(value, unit)
    assert "inf" not in text
    assert "nan" not in text
    assert (text == "n/a") == (not math.isfinite(value))
