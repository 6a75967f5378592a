"""Fabrics: routes, single messages, and messages that queue for links."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import InputError
from sim.topology import Dimension, Kind, Message, Topology, all_pairs, deliver

RING = Topology((Dimension(Kind.RING, 8, 10.0, 5.0),))


def test_a_ring_is_crossed_the_shorter_way():
    assert [(link.source, link.target) for link in RING.route(1, 7)] == [((1,), (0,)), ((0,), (7,))]
    assert len(RING.route(0, 4)) == 4


def test_a_switch_is_two_links_and_dimensions_follow_each_other():
    fabric = Topology((Dimension(Kind.RING, 4, 1, 1), Dimension(Kind.SWITCH, 3, 1, 1)))
    assert [link.dimension for link in fabric.route(0, 5)] == [0, 1, 1]
    assert fabric.place(5) == (1, 1)
    assert fabric.route(5, 5) == []


def test_a_rank_outside_is_refused():
    with pytest.raises(InputError, match="rank 8: the fabric has 8"):
        RING.place(8)


def test_a_message_alone_pays_every_latency_and_its_bytes_once():
    assert RING.alone(0, 3, 100) == 3 * 5 + 10
    assert RING.alone(2, 2, 100) == 0


def test_messages_queue_for_a_link():
    assert deliver(RING, [Message(0, 1, 100), Message(0, 1, 100), Message(0, 7, 100)]) == [15, 25, 15]


@given(st.integers(2, 9), st.integers(1, 1000))
def test_storing_and_forwarding_is_never_faster_than_alone(size, payload):
    fabric = Topology((Dimension(Kind.RING, size, 3.0, 2.0),))
    messages = list(all_pairs(fabric, payload))
    alone = [fabric.alone(message.source, message.target, payload) for message in messages]
    assert all(got >= least - 1e-9 for got, least in zip(deliver(fabric, messages), alone))


@given(st.integers(2, 16))
def test_an_all_gather_on_a_ring_takes_as_long_as_its_busiest_link(size):
    fabric = Topology((Dimension(Kind.RING, size, 1.0, 0.0),))
    crossings: dict = {}
    for message in all_pairs(fabric, 1):
        for link in fabric.route(message.source, message.target):
            crossings[link] = crossings.get(link, 0) + 1
    assert max(deliver(fabric, list(all_pairs(fabric, 1)))) >= max(crossings.values())
