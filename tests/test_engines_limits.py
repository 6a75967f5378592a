"""Every documented constraint is checked: what breaks it is named, and what just keeps it runs."""

from __future__ import annotations

import re

import pytest

from sim.errors import InputError
from tests.chip import Chip
from tests.limits import elementwise, folding, gathering, products, transfers
from tests.limits.limit import Limit
from tests.limits.tiles import Tiles

TABLES = [elementwise, folding, gathering, products, transfers]
FLAT = [(call, limit) for table in TABLES for call, limits in table.LIMITS.items() for limit in limits]
ROWS = pytest.mark.parametrize(("call", "limit"), FLAT, ids=[f"{call}: {limit.rule}" for call, limit in FLAT])


@ROWS
def test_what_breaks_a_limit_is_named_with_its_place_and_device(call: str, limit: Limit):
    with pytest.raises(InputError) as fault, Chip(limit.device) as chip:
        limit.call(Tiles(chip), limit.bad)
    place = re.escape(limit.call.__code__.co_filename)
    argument, value, bound = limit.pieces
    named = re.fullmatch(rf"\S*tests/limits/\w+\.py:\d+: (.*)\[{limit.device}\]", str(fault.value))
    assert named, str(fault.value)
    assert re.search(rf"{re.escape(call)}.*{re.escape(argument)}", named[1]), str(fault.value)
    assert value in named[1] and bound in named[1], str(fault.value)
    assert place


@ROWS
def test_what_just_keeps_a_limit_runs(call: str, limit: Limit):
    with Chip(limit.elsewhere or limit.device) as chip:
        limit.call(Tiles(chip), limit.good)
