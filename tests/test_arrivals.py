"""Ranks that come late, and links that are slow: step by step, and at once where links are alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.arrivals import Leg, Pace, Slow, at_once, stepwise, walk
from sim.collectives import exchange
from sim.errors import InputError
from sim.fabrics import Group, fabric

MIB = 1 << 20
ARRIVALS = st.lists(st.integers(0, 10**9), min_size=8, max_size=8)


def pace(algorithm="ring", kind="all_gather", steps=7):
    return Pace(kind, algorithm, steps, steps * 1000, 7_000_000, 3_000_000)


@given(ARRIVALS, st.sampled_from([("ring", 7), ("rdh", 3), ("mesh", 1)]))
def test_steps_over_links_that_are_alike_sum_up_to_the_last_and_the_time(arrivals, algorithm):
    ready, how = np.array(arrivals, float), pace(*algorithm[:1], steps=algorithm[1])
    walked = stepwise(ready, how, np.full(8, float(how.duration_ps)))
    np.testing.assert_allclose(walked, at_once(ready, (0,), how))


@given(ARRIVALS, st.integers(1, 7))
def test_a_ring_hands_on_from_the_one_before(arrivals, steps):
    costs = [1000.0 * (1 + rank % 3) for rank in range(8)]
    done = list(map(float, arrivals))
    for _ in range(steps):
        done = [max(done[rank], done[rank - 1]) + costs[rank] / steps for rank in range(8)]
    found = stepwise(np.array(arrivals, float), pace(steps=steps), np.array(costs))
    np.testing.assert_allclose(found, done)


@given(ARRIVALS)
def test_doubling_exchanges_with_the_ranks_that_differ_in_one_bit(arrivals):
    costs = [700.0 * (1 + rank % 2) for rank in range(8)]
    done = list(map(float, arrivals))
    for bit in range(3):
        ahead = [done[rank ^ (1 << bit)] for rank in range(8)]
        slower = [max(costs[rank], costs[rank ^ (1 << bit)]) for rank in range(8)]
        done = [max(mine, other) + cost * 2**bit / 7 for mine, other, cost in zip(done, ahead, slower)]
    found = stepwise(np.array(arrivals, float), pace("rdh", steps=3), np.array(costs))
    np.testing.assert_allclose(found, done)


def test_a_permutation_waits_for_its_source_only():
    ready = np.array([0.0, 500.0, 0.0, 0.0])
    how = pace(kind="permute", steps=1)
    np.testing.assert_array_equal(at_once(ready, (0,), how) - how.duration_ps, [0, 500, 500, 0])


def test_a_broadcast_waits_for_its_root_and_for_itself():
    ready = np.array([[100.0, 10e6], [0.0, 0.0]])
    how = pace(kind="broadcast")
    np.testing.assert_array_equal(
        at_once(ready, (0, 1), how), [[100 + how.duration_ps, 10e6], [100 + how.duration_ps] * 2]
    )


def test_each_leg_goes_along_its_own_axes():
    ready = np.zeros((2, 3, 4))
    ready[1, 2, 3] = 1e6
    how = pace()
    done = walk(ready, [Leg(how, "node", (1, 2))], (), 4)
    assert (done[0] == how.duration_ps).all() and (done[1] == 1e6 + how.duration_ps).all()
    done = walk(ready, [Leg(how, "efa", (0,))], (), 4)
    assert done[0, 2, 3] == done[1, 2, 3] == 1e6 + how.duration_ps
    assert done[1, 2, 2] == how.duration_ps


NODE = fabric("trn2")
LARGE = fabric("trn2", 64)


@pytest.mark.parametrize("size", [1024, 8 * MIB, 256 * MIB])
@pytest.mark.parametrize("made", [NODE, LARGE])
def test_all_that_come_at_once_take_as_long_as_without_skew(size, made):
    found = exchange("all_reduce", size, made, skew=np.zeros(made.ranks))
    assert abs(found.late_ps) <= 1 and found.duration_ps == found.done_ps.max()


def test_everyone_waits_for_the_last_one():
    skew = np.zeros(LARGE.ranks)
    skew[77] = 5e9
    found = exchange("all_reduce", 256 * MIB, LARGE, skew=skew)
    assert found.late_ps == pytest.approx(5e9)
    assert found.done_ps.min() == found.done_ps.max()


def test_times_may_be_given_for_chips():
    skew = np.random.default_rng(0).exponential(1e8, LARGE.chips)
    by_chip = exchange("all_reduce", 256 * MIB, LARGE, skew=skew)
    by_rank = exchange("all_reduce", 256 * MIB, LARGE, skew=np.repeat(skew, LARGE.ranks_per_chip))
    assert by_chip.duration_ps == by_rank.duration_ps
    assert (by_chip.done_ps.size, by_rank.done_ps.size) == (64, 256)


@pytest.mark.parametrize("algorithm", ["kangaring", "ring", "rdh"])
def test_a_slow_link_slows_everyone_as_far_as_the_link_is_what_counts(algorithm):
    whole = exchange("all_reduce", 256 * MIB, NODE, algorithm=algorithm)
    half = exchange("all_reduce", 256 * MIB, NODE, algorithm=algorithm, slow=[Slow(9, 0.5)])
    crawling = exchange("all_reduce", 256 * MIB, NODE, algorithm=algorithm, slow=[Slow(9, 0.02)])
    assert 0 <= half.late_ps < crawling.late_ps
    link = crawling.stages[0].link_ps * 50
    assert crawling.duration_ps == pytest.approx(link + crawling.stages[0].hops_ps + crawling.start_ps, rel=1e-6)
    assert whole.duration_ps < crawling.duration_ps


def test_a_slow_link_of_another_level_changes_nothing_inside():
    found = exchange("all_reduce", 256 * MIB, LARGE, slow=[Slow(0, 0.25, "efa")])
    efa = found.stages[1]
    assert found.late_ps == pytest.approx(3 * efa.link_ps, rel=0.01)
    memory = exchange("all_reduce", 256 * MIB, LARGE, slow=[Slow(0, 0.25, "memory")])
    assert memory.late_ps > 0


def test_a_slow_link_delays_those_that_it_leads_to():
    found = exchange("permute", 256 * MIB, LARGE, Group(4, 64), slow=[Slow(2, 0.5)])
    assert found.done_ps.argmax() == 2 and (found.done_ps[[0, 1, 3]] == found.done_ps[0]).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"skew": [1, 2, 3]}, "skew: 3 times, the group has 64 ranks"),
        ({"skew": [np.nan] * 64}, "must be finite"),
        ({"skew": [-1] * 64}, "at least 0"),
        ({"slow": [Slow(64, 0.5)]}, "rank 64"),
        ({"slow": [Slow(1, 0.0)]}, "0 to 1 of its rate"),
        ({"slow": [Slow(1, 0.5, "efa")]}, "no 'efa' takes part .*memory, node"),
        ({"group": [0, 1, 4], "skew": [0, 0, 0]}, "must lie alike"),
    ],
)
def test_what_cannot_be_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        exchange("all_reduce", MIB, NODE, **given)
