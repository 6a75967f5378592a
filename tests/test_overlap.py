"""Work and exchanges at the same time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.arrivals import Slow
from sim.collectives import exchange
from sim.errors import InputError
from sim.fabrics import Group, fabric
from sim.overlap import MEMORY, Demand, Traffic, behind, beside, demand, exposed, together

MIB = 1 << 20
GIANT = fabric("trn2u", 131_072)


def test_work_that_needs_no_memory_is_not_slowed_and_hides_the_exchange():
    wire = exchange("all_reduce", 64 * MIB, GIANT)
    found = beside(2 * wire.duration_ps, 0.0, wire)
    assert (found.total_ps, found.exposed_ps) == (2 * wire.duration_ps, 0)
    assert beside(0, 0.0, wire).exposed_ps == wire.duration_ps


def test_two_that_want_all_of_the_memory_take_twice_as_long():
    assert together([Demand(100, {"memory": 1.0}), Demand(100, {"memory": 1.0})]) == [200, 200]
    assert together([Demand(100, {"memory": 1.0}), Demand(300, {"memory": 1.0})]) == [200, 400]
    assert together([Demand(100, {"memory": 0.4}), Demand(300, {"memory": 0.6})]) == [100, 300]
    assert together([Demand(100, {"efa": 1.0}), Demand(100, {"node": 1.0}), Demand(0, {})]) == [100, 100, 0]


@given(
    st.lists(
        st.tuples(st.integers(1, 10**9), st.floats(0, 1), st.floats(0, 1)).map(
            lambda each: Demand(each[0], {"memory": each[1], "links": each[2]})
        ),
        min_size=1,
        max_size=6,
    )
)
def test_nobody_is_faster_together_and_no_resource_does_more_than_it_can(demands):
    over = together(demands)
    assert all(end >= each.duration_ps - 1 for end, each in zip(over, demands))
    for name in ("memory", "links"):
        needed = sum(each.duration_ps * each.shares[name] for each in demands)
        assert max(over) >= needed * (1 - 1e-6) - 1


def test_work_that_moves_data_waits_for_dma_engines():
    wire = exchange("all_reduce", 256 * MIB, fabric("trn2"))
    free, busy = beside(10**9, 0.0, wire), beside(10**9, 0.0, wire, 1.0)
    assert free.work_ps == 10**9 < busy.work_ps
    assert busy.work_ps == pytest.approx(10**9 * (1 + wire.dma_share), rel=1e-6)


def test_two_exchanges_share_the_links_that_both_take():
    node = fabric("trn2", 2, lnc=1)
    large = exchange("all_reduce", 512 * MIB, node)
    one, other = together([demand(large), demand(large)])
    assert one == other == pytest.approx(2 * large.duration_ps, rel=0.1)


def test_a_step_over_a_hundred_thousand_chips_says_what_each_kind_adds():
    tensor = exchange("all_reduce", 64 * MIB, GIANT, Group(64))
    pipe = exchange("permute", 64 * MIB, GIANT, Group(16, 64, alone=False))
    data = exchange("reduce_scatter", 1024 * MIB, GIANT, Group(512, 1024, alone=False))
    experts = exchange("all_to_all", 64 * MIB, GIANT, Group(64, 64, alone=False))
    found = exposed(
        [
            Traffic("tp", tensor, 4),
            Traffic("pp", pipe, 2, pipe.duration_ps, 0.2),
            Traffic("dp", data, 1, data.duration_ps // 2, 0.5),
            Traffic("ep", experts, 2),
        ]
    )
    by_name = {each.name: each for each in found}
    assert by_name["tp"].exposed_ps == by_name["tp"].total_ps == 4 * tensor.duration_ps
    assert by_name["pp"].exposed_ps == 0
    assert data.duration_ps // 2 <= by_name["dp"].added_ps < data.duration_ps
    assert by_name["ep"].bytes_on_wire == 2 * experts.bytes_on_wire


def test_a_slow_link_shows_in_what_is_exposed():
    def added(slow):
        data = exchange("all_reduce", 1024 * MIB, GIANT, Group(512, 1024, alone=False), slow=slow)
        return exposed([Traffic("dp", data, 1, 10**11)])[0].added_ps

    assert added([Slow(100, 0.5, "efa")]) > 1.5 * added([]) > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: beside(-1, 0.0, exchange("permute", 1, GIANT)),
        lambda: beside(1, 1.5, exchange("permute", 1, GIANT)),
        lambda: exposed([Traffic("dp", exchange("permute", 1, GIANT), -1)]),
    ],
)
def test_what_cannot_be_is_refused(make):
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize(
    ("share", "over", "sent"),
    [(0.0, 300, 340), (0.5, 300, 340), (1.0, 380, 420)],
    ids=["no memory", "enough of it for both", "both want all of it"],
)
def test_exchanges_behind_work_slow_it_where_memory_is_short(share: float, over: int, sent: int) -> None:
    """Three pieces of 100, each followed by an exchange of 40: the first two run beside the second and third piece."""
    work, wire = Demand(100, {MEMORY: share}), Demand(40, {MEMORY: share})
    assert behind([work] * 3, [wire] * 3) == (over, sent)


def test_exchanges_longer_than_their_work_queue_up_behind_it() -> None:
    assert behind([Demand(10, {})] * 2, [Demand(50, {})] * 2) == (20, 110)
    assert behind([], []) == (0, 0)
