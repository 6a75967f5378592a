"""Published times of collectives against ours."""

from __future__ import annotations

import json

import pytest

from sim.fabrics import names, runtimes
from trnprof import cli
from trnprof.validation import LEVELS, collectives, published
from trnprof.validation.score import total

ROWS = list(collectives.compare())


def test_every_published_point_is_compared_once():
    known = {record.id: record for record in published.records() if record.id.startswith("nccom")}
    fitted = [listing for listing in collectives.listings() if listing.fitted]
    assert {listing.id for listing in fitted} == set(known)
    assert len({row.id for row in ROWS}) == len(ROWS) == sum(len(each.points) for each in collectives.listings())


def test_each_listing_says_what_it_is_taken_to_be():
    for listing in collectives.listings():
        assert listing.how["fabric"] in names() and listing.how["runtime"] in runtimes()
        assert listing.fitted or listing.how["source"]


def test_large_collectives_are_met_within_8_percent_and_all_within_15():
    large = [row for row in ROWS if row.level == collectives.LARGE_LEVEL]
    small = [row for row in ROWS if row.level == collectives.SMALL_LEVEL]
    assert len(large) == 12 and total("", large).mape < 0.08
    assert len(small) == 23 and total("", [*large, *small]).mape < 0.15


def test_the_algorithms_are_those_of_the_listing_that_names_them():
    (listing,) = (each for each in collectives.listings() if each.id == "nccom-allr-16r-alg")
    made = listing.fabric()
    found = [listing.exchange(size, made).algorithm for size, _ in listing.points]
    assert found == ["one-step mesh"] * 4 + ["mesh", "rdh", "kangaring", "kangaring"]


@pytest.mark.parametrize("level", [collectives.SMALL_LEVEL, collectives.LARGE_LEVEL, collectives.APART_LEVEL])
def test_levels_have_names(level):
    assert level in LEVELS


def test_a_part_may_be_asked_for(capsys):
    assert cli.main(["validate", "--only", "nccom-allr-2r", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["id"].partition(":")[0] for row in found["rows"]} == {"nccom-allr-2r", "nccom-allr-2r-32MB-u8"}
