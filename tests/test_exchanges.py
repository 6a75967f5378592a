"""Collectives over fabrics: time, traffic and the choice of algorithm."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.collectives import exchange
from sim.errors import InputError
from sim.fabrics import Group, fabric
from sim.loads import KINDS

MIB = 1 << 20
NODE = fabric("trn2")
CLUSTER = fabric("trn2", 64)


@pytest.mark.parametrize(
    ("size", "algorithm"), [(64, "one-step mesh"), (65536, "mesh"), (MIB, "rdh"), (64 * MIB, "kangaring")]
)
def test_the_algorithm_goes_by_size(size, algorithm):
    assert exchange("all_reduce", size, NODE).algorithm == algorithm


def test_large_ones_go_round_rings_of_pairs_and_one_rank_a_chip_goes_round_rings():
    assert exchange("all_reduce", 64 * MIB, NODE).algorithm == "kangaring"
    assert exchange("all_reduce", 64 * MIB, NODE, Group(16, 4)).algorithm == "ring"


@pytest.mark.parametrize(
    ("algorithm", "steps"), [("one-step mesh", 2), ("mesh", 4), ("rdh", 10), ("kangaring", 64), ("ring", 126)]
)
def test_steps_are_those_of_the_documents(algorithm, steps):
    assert exchange("all_reduce", MIB, NODE, algorithm=algorithm).steps == steps


def test_rings_touch_memory_as_often_as_the_documents_say():
    ring = exchange("all_gather", 64 * MIB, NODE, algorithm="ring")
    pairs = exchange("all_gather", 64 * MIB, NODE, algorithm="kangaring")
    assert pairs.memory_bytes == pytest.approx(3 / 4 * ring.memory_bytes)
    ring = exchange("reduce_scatter", 64 * MIB, NODE, algorithm="ring")
    pairs = exchange("reduce_scatter", 64 * MIB, NODE, algorithm="kangaring")
    assert pairs.memory_bytes == pytest.approx(4 / 6 * ring.memory_bytes)


def test_two_chips_are_as_slow_as_the_link_between_them():
    pair = fabric("trn2", 2, lnc=1)
    found = exchange("all_reduce", 1024 * MIB, pair)
    assert found.links[0].bytes == pytest.approx(2 * 15 / 16 * 1024 * MIB)
    assert found.links[0].share > 0.98


def test_a_collective_beyond_a_node_is_scattered_exchanged_and_gathered():
    found = exchange("all_reduce", 256 * MIB, CLUSTER)
    assert [(stage.kind, stage.level) for stage in found.stages] == [
        ("reduce_scatter", "node"),
        ("all_reduce", "efa"),
        ("all_gather", "node"),
    ]
    assert found.stages[1].load.link == pytest.approx(2 * 3 / 4 * 256 * MIB / 16), "a sixteenth through each chip's EFA"
    gather = exchange("all_gather", 256 * MIB, CLUSTER)
    assert [stage.level for stage in gather.stages] == ["efa", "node"], "outside first, where there is less data"
    scatter = exchange("reduce_scatter", 256 * MIB, CLUSTER)
    assert [stage.level for stage in scatter.stages] == ["node", "efa"]


def test_an_ultraserver_is_a_level_of_its_own():
    found = exchange("all_reduce", 256 * MIB, fabric("trn2u", 128))
    order = [stage.level for stage in found.stages]
    assert order == ["node", "ultraserver", "efa", "ultraserver", "node"]


def test_groups_at_once_share_the_way_out():
    alone = exchange("all_reduce", 64 * MIB, CLUSTER, Group(4, 64))
    crowd = exchange("all_reduce", 64 * MIB, CLUSTER, Group(4, 64, alone=False))
    assert crowd.links[0].busy_ps == pytest.approx(4 * alone.links[0].busy_ps)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["trn1", "inf2", "trn2", "trn2u", "trn3"])
def test_time_grows_with_size(kind, name):
    made = fabric(name)
    times = [exchange(kind, size, made, algorithm=None).duration_ps for size in (0, 4 * MIB, 256 * MIB, 1024 * MIB)]
    assert all(one < other for one, other in pairwise(times))


@given(st.sampled_from(KINDS), st.integers(1, 1 << 33), st.sampled_from([1, 2, 4, 8, 16, 64]))
def test_no_change_of_algorithm_makes_more_bytes_quicker(kind, size, chips):
    made = fabric("trn2", chips)
    assert exchange(kind, 2 * size, made).duration_ps >= 0.99 * exchange(kind, size, made).duration_ps


@given(st.sampled_from(KINDS), st.integers(0, 1 << 34), st.sampled_from([1, 2, 4, 16, 64, 4096]))
def test_what_is_sent_takes_as_long_as_the_slowest_link(kind, size, chips):
    found = exchange(kind, size, fabric("trn2", chips))
    assert found.duration_ps >= max((use.busy_ps for use in found.links), default=0)
    assert found.duration_ps >= found.start_ps + sum(stage.hops_ps for stage in found.stages)
    assert 0 <= found.memory_share <= 1


def test_nobody_to_talk_to_takes_no_time():
    found = exchange("all_reduce", MIB, NODE, [5])
    assert (found.duration_ps, found.steps, found.bytes_on_wire) == (0, 0, 0)


def test_an_algorithm_may_be_asked_for_inside_and_between_nodes():
    assert exchange("all_reduce", MIB, CLUSTER, algorithm="ring+rdh").algorithm == "ring+rdh"
    assert exchange("all_reduce", 64 * MIB, CLUSTER, algorithm="mesh+ring").algorithm == "mesh+ring"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gossip", 1, NODE), "collective: 'gossip' is unknown"),
        (("all_reduce", -1, NODE), "-1 bytes"),
        (("all_reduce", 1, NODE, None, "magic"), "algorithm: 'magic' is unknown"),
        (("all_to_all", 1, NODE, None, "rdh"), "no rdh over 4 ranks in each of 16 chips .*there is direct"),
        (("all_reduce", 1, NODE, Group(16, 4), "kangaring"), "no kangaring over 1 ranks in each of 16"),
        (("all_reduce", 1, fabric("inf2"), None, "rdh"), "no rdh"),
    ],
)
def test_what_cannot_be_done_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        exchange(*arguments)


def test_older_releases_have_their_own_constants():
    assert exchange("all_reduce", 1024, fabric("trn1", 1, runtime="2023")).duration_ps > 50e6
    assert exchange("all_reduce", 1024, fabric("trn1", 1)).duration_ps < 10e6
