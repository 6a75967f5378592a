"""Intervals of a time: what each uncertainty adds, and that nothing unlikely stretches them."""

from __future__ import annotations

import numpy as np
import pytest

from sim import spec
from sim.interval import HELD, UNKNOWN_ODDS, Doubt, interval

NONE = Doubt({}, 0.0)


def test_with_nothing_uncertain_an_interval_is_the_value():
    bar = interval(100.0, [], {}, NONE)
    assert (bar.least, bar.low, bar.high, bar.most) == pytest.approx((100,) * 4)


def test_the_model_widens_by_its_factor_either_way():
    bar = interval(100.0, [], {}, Doubt({}, 0.25))
    assert (bar.low, bar.high) == pytest.approx((80, 125))
    assert bar.parts.model == pytest.approx((-0.2, 0.25))


def test_samples_give_the_shortest_range_that_holds_the_share_claimed():
    drawn = np.linspace(100, 110, 101)
    bar = interval(100.0, drawn, {}, NONE)
    assert np.mean((drawn >= bar.low) & (drawn <= bar.high)) >= HELD
    assert bar.high == pytest.approx(108, abs=0.2)
    assert (bar.least, bar.most) == pytest.approx((100, 110))


def test_an_unlikely_decision_counts_among_all_that_was_tried_only():
    bar = interval(100.0, [100.0], {"share=off": 250.0}, Doubt({"share": 0.1}, 0.0))
    assert (bar.high, bar.most) == pytest.approx((100, 250))


@pytest.mark.parametrize("odds", [{"share": 0.4}, {}], ids=["likely", "unknown"])
def test_a_likely_decision_is_in_the_interval(odds):
    bar = interval(100.0, [100.0], {"share=off": 150.0}, Doubt(odds, 0.0))
    assert bar.high == pytest.approx(150)
    assert bar.parts.decisions == pytest.approx((0, 0.5))
    assert UNKNOWN_ODDS > 1 - HELD


def test_effects_of_decisions_multiply_and_choices_of_one_exclude_each_other():
    others = {"hoist=off": 120.0, "buffers=4": 90.0, "buffers=1": 110.0}
    bar = interval(100.0, [100.0], others, Doubt({"hoist": 1.0, "buffers": 1.0}, 0.0))
    assert (bar.low, bar.high) == pytest.approx((100, 132))


def test_parts_are_of_one_reason_alone_and_the_whole_is_wider_than_each():
    drawn = np.linspace(95, 105, 41)
    bar = interval(100.0, drawn, {"hoist=off": 120.0}, Doubt({"hoist": 0.5}, 0.1))
    assert bar.parts.decisions == pytest.approx((0, 0.2))
    for low, high in (bar.parts.figures, bar.parts.decisions, bar.parts.model):
        assert bar.low / 100 - 1 <= low and high <= bar.high / 100 - 1


@pytest.mark.parametrize("name", ["trn1", "trn2", "trn3"])
def test_every_emulated_device_says_what_its_model_does_not_explain(name):
    for generation in ("current", "legacy"):
        doubt = Doubt.of(spec.device(name), generation)
        assert 0 < doubt.unexplained < 0.5
        assert all(0 <= odds <= 1 for odds in doubt.odds.values())
