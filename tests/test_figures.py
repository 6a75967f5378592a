"""The files of `sim/devices` are complete, consistent and without copies."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from sim import figures, spec


@pytest.mark.parametrize(
    ("value", "unit", "kind", "spread"),
    [
        (100.0, "ns", "documented", None),
        (100.0, "ns", "measured", (97.0, 103.0)),
        (100.0, "ns", "derived", (90.0, 110.0)),
        (100.0, "ns", "guess", (50.0, 150.0)),
        (0.8, "fraction", "guess", (0.4, 1.0)),
        (128, "PE", "guess", None),
        (0, "ns", "guess", None),
    ],
)
def test_the_default_spread_follows_the_kind(value, unit, kind, spread):
    assert figures.default_spread(value, unit, kind) == (None if spread is None else pytest.approx(spread))


def test_inf2_copies_nothing_from_trn1():
    assert set(figures.read("inf2")["figures"]) == {"neuronlink_bw", "neuronlink_ports"}
    assert spec.device("inf2").figure("clock_tensor") == spec.device("trn1").figure("clock_tensor")
    assert spec.device("inf2")["neuronlink_bw"] == 206


def test_every_catalogued_figure_is_used_and_follows_known_ones():
    used = Counter(id for device in spec.devices() for id in device.figures)
    for id, entry in figures.catalogue().items():
        assert used[id], id
        assert {root.removeprefix("/") for root in entry.follows} <= set(used)


def test_no_value_file_has_a_figure_outside_the_catalogue():
    for path in figures.FOLDER.glob("*.json"):
        content = json.loads(path.read_text())
        if isinstance(content, dict) and isinstance(content.get("figures"), dict):
            assert set(content["figures"]) <= set(figures.catalogue()), path.name


def test_source_keys_are_spelled_out():
    sources = figures.read("sources")
    assert figures.spelled("VOY/TKF") == f"{sources['VOY']}; {sources['TKF']}"
    assert not any(key in text.split() for device in spec.devices() for key in sources for text in _sources(device))


def _sources(device):
    return {figure.source for figure in device.figures.values()}
