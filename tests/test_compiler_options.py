"""Passes are switched by name; what cannot be known of a compiler is listed, each taken the other way."""

from __future__ import annotations

import pytest

from sim.compiler import Options
from sim.errors import InputError
from sim.passes import NUMBERS, PASSES, given

LEGACY = Options.for_generation("legacy")


def test_every_pass_has_an_option_that_its_name_switches():
    for name in PASSES:
        value = 4 if name in NUMBERS else not getattr(LEGACY, name)
        changed = LEGACY.switched({name: value})
        assert changed != LEGACY
        assert (changed.windows[0] if name == "window" else getattr(changed, name)) == value


def test_a_window_leaves_the_queue_of_transfers_as_it_is():
    assert LEGACY.switched({"window": 1}).windows == (1, 1, 1, 1, LEGACY.windows[4])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hoist=off", ("hoist", False)),
        ("spill=on", ("spill", True)),
        ("buffers=0", ("buffers", 0)),
        ("window=8", ("window", 8)),
    ],
)
def test_a_switch_is_a_name_and_a_value(text, expected):
    assert given(text) == expected


@pytest.mark.parametrize(
    "text", ["hoist", "hoist=4", "hoist=maybe", "buffers=on", "window=0", "window=-1", "other=on", ""]
)
def test_any_other_switch_is_refused_with_what_there_is(text):
    with pytest.raises(InputError) as error:
        given(text)
    assert all(name in str(error.value) for name in PASSES)


def test_passes_of_python_are_checked_as_those_of_the_command_line_are():
    with pytest.raises(InputError, match="buffers"):
        LEGACY.switched({"buffers": True})


def test_alternatives_differ_in_what_their_names_say():
    assert Options().alternatives() == {}
    for text, options in LEGACY.alternatives().items():
        name, value = given(text)
        assert options == LEGACY.switched({name: value}) != LEGACY
