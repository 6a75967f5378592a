"""Collectives message by message, and the closed forms that they bear out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import InputError, UnsupportedError
from sim.fabrics import Level
from sim.loads import Part, load
from sim.steps import Walk, gather, rings
from sim.topology import Dimension, Kind, Link, Topology

SIZE = 16_000.0
RATE = 10.0


def torus(*sides):
    return Topology(tuple(Dimension(Kind.RING, side, RATE, 0.0) for side in sides))


def closed(algorithm, *sides):
    level = Level("node", Kind.RING, sides, RATE, False)
    return load("all_gather", algorithm, Part(1, level.size, level), SIZE).link / RATE


@pytest.mark.parametrize("sides", [(4,), (5,), (8,), (3, 3), (4, 4), (6, 6)])
def test_rings_visit_everyone_once_and_share_no_link(sides):
    fabric, used = torus(*sides), set()
    for order in rings(fabric):
        assert sorted(order) == list(range(fabric.ranks))
        for one, other in pairwise([*order, order[0]]):
            (link,) = fabric.route(one, other)
            assert link not in used and Link(link.target, link.source, link.dimension) not in used
            used.add(link)
    assert len(rings(fabric)) == len(sides)


@pytest.mark.parametrize(
    ("algorithm", "sides"), [("ring", (4,)), ("ring", (8,)), ("ring", (4, 4)), ("rdh", (4,)), ("rdh", (4, 4))]
)
def test_rings_and_doubling_take_what_the_closed_form_says(algorithm, sides):
    done = gather(torus(*sides), SIZE, algorithm)
    assert done == pytest.approx([closed(algorithm, *sides)] * len(done))


@pytest.mark.parametrize("sides", [(4,), (5,), (4, 4)])
def test_a_mesh_takes_at_least_what_its_busiest_link_carries_on_average(sides):
    took = max(gather(torus(*sides), SIZE, "mesh"))
    assert closed("mesh", *sides) <= took <= 2 * closed("mesh", *sides)


@given(st.lists(st.floats(0, 5000), min_size=16, max_size=16))
def test_everyone_waits_for_the_last_one(arrivals):
    for algorithm in ("ring", "rdh"):
        done = gather(torus(4, 4), SIZE, algorithm, arrivals)
        least = max(arrivals)
        assert min(done) >= least and max(done) <= least + closed(algorithm, 4, 4) + 1e-6


def test_a_slow_link_slows_its_ring_to_its_own_rate():
    fabric = torus(4, 4)
    (link,) = fabric.route(*rings(fabric)[0][:2])
    whole, slow = (max(gather(fabric, SIZE, "ring", shares=shares)) for shares in ({}, {link: 0.25}))
    assert slow == pytest.approx(4 * whole)


def test_doubling_crosses_a_slow_link_once():
    fabric = torus(4, 4)
    (link,) = fabric.route(0, 1)
    whole, slow = (max(gather(fabric, SIZE, "rdh", shares=shares)) for shares in ({}, {link: 0.5}))
    assert whole < slow < 2 * whole


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: gather(torus(4), SIZE, "gossip"), UnsupportedError, "not walked step by step"),
        (lambda: gather(torus(4, 5), SIZE, "ring"), UnsupportedError, "no rings are known over 4 x 5"),
        (lambda: gather(torus(6), SIZE, "rdh"), UnsupportedError, "not powers of two"),
        (lambda: rings(Topology((Dimension(Kind.SWITCH, 4, 1, 1),))), UnsupportedError, "no rings"),
        (lambda: Walk(torus(4), {}, [0.0]), InputError, "1 arrivals, the fabric has 4 ranks"),
    ],
)
def test_what_cannot_be_walked_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
