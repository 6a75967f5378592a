"""Every documented constraint is checked: what breaks it is named, and what just keeps it runs."""

from __future__ import annotations

import inspect
import re

import pytest

from sim.engines import GUESSED, OPS, UNSUPPORTED
from sim.errors import CapacityError, InputError, TrnprofError, UnsupportedError
from sim.nki import collectives
from sim.nki import isa as nisa
from tests.chip import Chip
from tests.limits import collective, elementwise, folding, gathering, language, older, products, transfers, views
from tests.limits.limit import Limit
from tests.limits.tiles import Tiles

TABLES = (products, elementwise, folding, gathering, transfers, collective, language, views, older)
FLAT = [(call, limit) for table in TABLES for call, limits in table.LIMITS.items() for limit in limits]
ROWS = pytest.mark.parametrize(("call", "limit"), FLAT, ids=[f"{call}: {limit.rule}" for call, limit in FLAT])

UNLIMITED = {
    "nki.isa.get_nc_version": "asks the device",
    "nki.isa.get_nc_sub_version": "asks the device",
    "nki.collectives.rank_id": "has no argument",
}
"""Documented calls without a constraint, and why."""


@ROWS
def test_what_breaks_a_limit_is_named_with_its_place_and_device(call: str, limit: Limit):
    with pytest.raises(InputError) as fault, Chip(limit.device) as chip:
        limit.call(Tiles(chip), limit.bad)
    text = str(fault.value)
    argument, value, bound = limit.pieces
    said = re.fullmatch(rf"\S*tests/limits/\w+\.py:\d+: (.*)\[{limit.device}\]", text)
    assert said, text
    assert re.search(rf"{re.escape(call)}.*{re.escape(argument)}", said[1]), text
    assert value in said[1], text
    assert bound in said[1], text


@ROWS
def test_what_just_keeps_a_limit_runs(call: str, limit: Limit):
    with Chip(limit.elsewhere or limit.device) as chip:
        limit.call(Tiles(chip), limit.good)


def test_a_row_is_about_one_thing():
    for table in TABLES:
        rules = [(call, limit.rule, limit.device) for call, limits in table.LIMITS.items() for limit in limits]
        assert len(set(rules)) == len(rules)
    assert all(limit.bad is not limit.good or limit.elsewhere for _, limit in FLAT)


def documented(module) -> set[str]:
    """The calls of a public module."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    found = {name: getattr(module, name) for name in names}
    return {
        f"{module.__name__.replace('sim.', '')}.{name}"
        for name, value in found.items()
        if inspect.isfunction(value) and value.__module__.startswith(module.__name__)
    }


def test_every_call_has_a_row_or_is_declared_to_have_no_limit():
    rows = {call for call, _ in FLAT}
    calls = documented(nisa) | documented(collectives)
    assert calls - rows == set(UNLIMITED)
    assert len(calls) > 60


def test_every_instruction_has_a_row():
    rows = {call for call, _ in FLAT}
    inner = {"nki.language.fori_loop", "nki.language.matmul"}
    assert {".".join(call.partition(":")[0].split(".")[:3]) for call in OPS} - rows == inner


def test_what_is_not_emulated_says_so(monkeypatch):
    monkeypatch.setitem(UNSUPPORTED, "teleport", "there is no such thing")
    with Chip(), pytest.raises(UnsupportedError, match=r"nki.isa.teleport is not emulated: there is no such thing"):
        nisa._refuse("teleport")(None)


def test_a_call_outside_a_kernel_says_so():
    with pytest.raises(InputError, match="outside a kernel"):
        nisa.register_alloc(3)


def test_guesses_name_calls_that_exist():
    assert set(GUESSED) <= {call.split(".")[2].partition(":")[0] for call in OPS}


def test_an_instruction_has_one_name():
    assert len(OPS) == len({id(op) for op in OPS.values()})


def test_more_than_the_chip_has_is_over_capacity():
    assert issubclass(CapacityError, TrnprofError)
    assert CapacityError.exit_code == 4
