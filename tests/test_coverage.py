"""How often intervals hold, judged by kernels that had no part in making them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sim.interval import HELD, Doubt
from trnprof.validation.coverage import Case, coverage, doubt, odds_of, unexplained

NONE = Doubt({}, 0.0)


def case(kernel: str, miss: float, generation: str = "legacy", **decisions: float) -> Case:
    """A measurement that is exp(miss) times the estimate; decisions as logarithms of what they do to it."""
    others = {f"{name}=off": 100 * math.exp(move) for name, move in decisions.items()}
    return Case(f"{kernel} {miss}", kernel, generation, 100 * math.exp(miss), 100.0, (100.0,), others, NONE)


def test_the_model_spread_is_the_share_of_other_kernels_that_an_interval_claims():
    cases = [case(f"k{n}", n / 100) for n in range(1, 20)]
    assert unexplained(cases, "legacy", {}) == pytest.approx(math.expm1(0.16))  # the 16th of 19 and the next


def test_kernels_weigh_the_same_however_often_they_were_measured():
    few = [case(f"k{n}", 0.01) for n in range(9)]
    many = [case("often", 0.3) for _ in range(100)]
    assert unexplained(few + many, "legacy", {}) == pytest.approx(math.expm1(0.01))


def test_with_too_few_kernels_the_largest_miss_counts():
    assert unexplained([case("a", 0.02), case("b", -0.07)], "legacy", {}) == pytest.approx(math.expm1(0.07))


def test_generations_are_apart():
    cases = [case("a", 0.5), case("b", 0.01, "current"), case("c", 0.02, "current")]
    assert unexplained(cases, "current", {}) == pytest.approx(math.expm1(0.02))
    assert unexplained(cases, "other", {}) == 0


def test_what_figures_and_decisions_explain_the_model_need_not():
    explained = [case(f"k{n}", 0.2, hoist=0.2) for n in range(4)]
    assert doubt(explained, "legacy").odds["hoist"] > 0.9
    assert doubt(explained, "legacy").unexplained == pytest.approx(0, abs=1e-9)


def test_a_decision_that_moves_times_away_from_their_measurements_is_unlikely():
    cases = [case(f"k{n}", 0.02 * (-1) ** n, share=0.8, hoist=0.001) for n in range(6)]
    found = odds_of(cases)
    assert found["share"][0] < 0.01 and found["share"][1] == 6
    assert found["hoist"][1] == 0  # it changes nothing, so all decisions together speak for it


def test_a_kernel_is_judged_by_the_others_alone():
    cases = [case(f"k{n}", 0.01) for n in range(9)] + [case("odd", 0.4)]
    found = coverage(cases)
    assert found.outside == ("odd 0.4",)
    assert (found.measurements, found.left_out) == (10, 0.9)
    assert found.published == 0  # with no doubt at all
    (spread,) = found.spreads
    assert (spread.kernels, spread.measurements) == (10, 10)
    assert spread.least == pytest.approx(math.expm1(0.01))


def test_left_out_kernels_are_inside_as_often_as_claimed():
    random = np.random.default_rng(0)
    cases = [case(f"k{n}", float(miss)) for n, miss in enumerate(random.normal(0, 0.1, 400))]
    found = coverage(cases)
    assert found.left_out == pytest.approx(HELD, abs=0.02)


def test_one_kernel_says_nothing_of_others():
    assert coverage([case("a", 0.1), case("a", 0.2)]) is None
