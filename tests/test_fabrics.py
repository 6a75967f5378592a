"""Fabrics: shapes, bandwidths and where groups lie in them."""

from __future__ import annotations

import pytest

from sim import figures
from sim.errors import InputError, UnsupportedError
from sim.fabrics import Group, between, fabric, names, spans
from sim.topology import Kind

SOURCES = figures.read("sources")


def test_every_bandwidth_has_unit_kind_and_source():
    for row in figures.read("fabrics")["fabrics"].values():
        for figure in (row["link_total"], *(level["bandwidth"] for level in row["levels"])):
            assert figure["unit"] == "GB/s"
            assert figure["kind"] in figures.KINDS
            assert all(key in SOURCES for key in figure["source"].split("/"))


@pytest.mark.parametrize("name", names())
def test_a_fabric_without_a_number_is_one_instance_or_ultraserver(name):
    made = fabric(name)
    assert made.chips == {"inf2": 12, "trn2u": 64, "trn3": 144, "trn3-gen1": 64}.get(name, 16)
    assert made.ranks == made.chips * made.ranks_per_chip


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("trn2.48xlarge", "trn2"),
        ("trn2u.48xlarge", "trn2u"),
        ("Trn2 UltraServer", "trn2u"),
        ("trn1n.32xlarge", "trn1n"),
        ("Trn3 Gen1 UltraServer", "trn3-gen1"),
        ("Trn3 Gen2 UltraServer", "trn3"),
        ("NeuronCore-v3", "trn2"),
    ],
)
def test_instances_are_known_by_their_names(asked, name):
    assert fabric(asked).name == name


def test_links_of_a_torus_add_up_to_the_published_bandwidth():
    node, efa = fabric("trn2", 32).levels
    assert node.degree(16) * node.rate * 2 == 1024e9
    assert efa.rate * 8 * 16 == 3200e9, "200 Gbit/s of each of 16 chips"
    assert fabric("trn2u", 64).levels[1].rate == 64e9


def test_a_torus_of_16_has_two_hamiltonian_cycles_and_a_row_has_one():
    (torus,) = fabric("trn2").levels
    assert [torus.cycles(units) for units in (2, 3, 4, 8, 16)] == [1, 1, 2, 2, 4]


def test_mean_distances_are_those_of_counting():
    (torus,) = fabric("trn1").levels
    total = sum(min(x, 4 - x) + min(y, 4 - y) for x in range(4) for y in range(4))
    assert torus.distance(16) == pytest.approx(total / 15)
    assert torus.distance(3) == pytest.approx(8 / 6), "a row of three: 1, 2, 1, 1, 2, 1"


def test_a_rank_has_two_cores_from_trn2_on():
    assert [fabric(name).lnc for name in ("trn1", "inf2", "trn2", "trn3")] == [1, 1, 2, 2]
    assert fabric("trn2", lnc=1).ranks_per_chip == 8


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (Group(4), (4, (1, 1))),
        (Group(32), (4, (8, 1))),
        (Group(256), (4, (16, 4))),
        (Group(4, 64), (1, (1, 4))),
        (Group(16, 4), (1, (16, 1))),
        ([0, 1, 4, 5], (2, (2, 1))),
        ([3, 67], (1, (1, 2))),
    ],
)
def test_groups_lie_where_their_ranks_are(group, expected):
    found = spans(fabric("trn2", 64), group)
    assert (found.in_chip, found.units) == expected


def test_groups_that_are_not_alone_share_the_links_of_their_chips():
    assert spans(fabric("trn2", 64), Group(4, 64, alone=False)).sharing == 4
    assert spans(fabric("trn2", 64), Group(4, 64)).sharing == 1


def test_a_link_that_is_faster_in_a_what_if_is_faster_in_the_fabric():
    from sim.spec import device

    quick = device("trn2").replace(neuronlink_bw="2x")
    assert fabric(quick).levels[0].rate == 2 * fabric("trn2").levels[0].rate
    assert fabric(quick, 32).levels[1].rate == fabric("trn2", 32).levels[1].rate, "EFA is no NeuronLink"


def test_hundreds_of_thousands_of_chips_are_a_fabric():
    assert fabric("trn2u", 262_144).levels[-1].size == 4096
    assert fabric("trn2u", 262_144).levels[-1].kind is Kind.SWITCH


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fabric("trn2", 0), "must be at least 1"),
        (lambda: fabric("trn2", 24), r"built of 16 at a time .*such as 16 or 32"),
        (lambda: fabric("inf2", 24), "has 12 at most"),
        (lambda: fabric("trn2", lnc=3), "lnc: 3, a chip of trn2 has 8 cores"),
        (lambda: fabric("trn2", runtime="1999"), "known: current"),
        (lambda: spans(fabric("trn2"), Group(65)), "the fabric has 64"),
        (lambda: spans(fabric("trn2"), [0, 0]), "must be different ranks"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_chip_without_links_in_the_tables_has_no_fabric():
    with pytest.raises(UnsupportedError, match="no data of what joins its chips"):
        fabric("inf1")


def test_devices_print_what_joins_their_chips_with_kind_and_source(capsys):
    import json

    from trnprof import cli

    cli.main(["devices", "trn2", "--json"])
    found = {(each["fabric"], each["level"]): each for each in json.loads(capsys.readouterr().out)["fabrics"]}
    assert found["trn2u", "ultraserver"]["value"] == 256 and found["trn2u", "ultraserver"]["kind"] == "documented"
    cli.main(["devices", "trn2"])
    out = capsys.readouterr().out
    assert "4 x 4" in out and found["trn2", "node"]["source"] in out


def test_what_is_uncertain_widens_an_estimate():
    from sim.collectives import exchange

    low, high = between(lambda made: exchange("all_reduce", 1024, made).duration_ps, fabric("trn2"))
    middle = exchange("all_reduce", 1024, fabric("trn2")).duration_ps
    assert low < middle < high
    assert between(lambda made: 7.0, fabric("trn2")) == (7.0, 7.0)
