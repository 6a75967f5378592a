"""Every documented constraint has a call that breaks it, and an error that names call, argument, value and limit."""

import pytest

from sim.engines import GUESSED, OPS, UNSUPPORTED
from sim.errors import InputError, UnsupportedError
from sim.nki import isa as nisa
from tests.chip import Chip
from tests.limits import choosing, computing, generations
from tests.limits.tiles import Tiles

TABLES = computing.CASES | choosing.CASES
FLAT = [("trn2", call, *case) for call, cases in TABLES.items() for case in cases] + generations.CASES


@pytest.mark.parametrize(
    ("device", "call", "broken", "message"), FLAT, ids=[f"{call}-{i}" for i, (_, call, *_) in enumerate(FLAT)]
)
def test_a_broken_limit_is_named_with_its_call_and_line(device, call, broken, message):
    with Chip(device, values=False) as chip, pytest.raises(InputError, match=message) as fault:
        broken(Tiles(chip))
    text = str(fault.value)
    assert text.startswith(broken.__code__.co_filename), "the line of the caller comes first"
    assert f"nki.isa.{call}" in text or "starts at partition" in text


def calls(module="nki."):
    """Documented calls of a module that have an instruction."""
    return {name.split(".")[2].partition(":")[0] for name in OPS if name.startswith(module)}


def test_every_instruction_has_a_case():
    covered = {call for _, call, *_ in FLAT}
    between_cores = {"core_barrier", "sendrecv"}
    assert calls("nki.isa.") - covered <= {"rand_get_state", "register_store", "register_move"} | between_cores


def test_what_is_not_emulated_says_so(monkeypatch):
    monkeypatch.setitem(UNSUPPORTED, "teleport", "there is no such thing")
    with Chip(), pytest.raises(UnsupportedError, match=r"nki.isa.teleport is not emulated: there is no such thing"):
        nisa._refuse("teleport")(None)


def test_a_call_outside_a_kernel_says_so():
    with pytest.raises(InputError, match="outside a kernel"):
        nisa.register_alloc(3)


def test_guesses_name_calls_that_exist():
    assert set(GUESSED) <= calls()


def test_an_instruction_has_one_name():
    assert len(OPS) == len({id(op) for op in OPS.values()})
