"""The files of `sim/devices`: a number with its unit, source, kind and spread.

`figures.json` says what each figure is called, its unit, and what it moves with; `sources.json` spells the source
keys out; the other files give values. A file that `extends` another adds to its figures and replaces some.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sim.errors import InputError

KINDS = ("documented", "measured", "derived", "guess", "what-if")

SPREADS = {"measured": 0.03, "derived": 0.10, "guess": 0.50}
"""Half-width of the spread where the facts give none, as a share of the value.

A documented figure is taken as exact. 3 % is how far two independent readings of one instruction differ;
50 % is what the figures of a generation that nobody has measured are allowed.
"""

SAMPLES = 32
"""Machines that error bars are drawn from, unless asked for another number."""

COUNTED_UNITS = frozenset(
    ("bytes", "GiB", "PE", "cores", "engines", "queues", "units", "links", "stacks", "banks", "registers")
) | {"passes", "count"}
"""A count or a size has no default spread, whatever its kind."""

FOLDER = Path(__file__).with_name("devices")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a device."""

    id: str
    name: str
    value: float | int
    unit: str
    kind: str
    """One of `KINDS`."""
    source: str
    spread: tuple[float, float] | None
    """Low and high in the same unit; None when exact."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the catalogue knows of a figure, whatever the device."""

    id: str
    group: str
    name: str
    unit: str
    follows: tuple[str, ...] = ()
    """Figures that it is proportional to; "/clock_vector": inversely."""
    drawn_with: str = ""
    """Figure of the same thing: where one is high in its spread, so is the other."""


def read(name: str) -> Any:
    """The content of one file of the folder."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@cache
def catalogue() -> dict[str, Entry]:
    """Every figure that a device may have, in printing order."""
    return {
        id: Entry(id, group, entry["name"], entry["unit"], tuple(entry.get("follows", ())), entry.get("drawn_with", ""))
        for group, entries in read("figures").items()
        for id, entry in entries.items()
    }


def load(name: str) -> tuple[dict[str, Any], dict[str, Figure]]:
    """(other fields, figures in printing order) of a file, after the files that it extends."""
    fields: dict[str, Any] = {}
    given: dict[str, dict[str, Any]] = {}
    for layer in _layers(name):
        fields |= layer
        given |= layer["figures"]
    return fields, {id: figure(entry, given[id]) for id, entry in catalogue().items() if id in given}


def read_device(path: Path) -> tuple[str, str, dict[str, Figure]]:
    """(device that it extends, title, its figures) of a user's device file, as `trnprof calibrate` writes one.

    raises : InputError that says what is wrong with the file
    """
    try:
        layer = json.loads(path.read_text(encoding="utf-8"))
        base, title, given = layer["extends"], layer["title"], layer["figures"]
        return base, title, {id: _user_figure(catalogue()[id], row) for id, row in given.items()}
    except OSError as fault:
        raise InputError(f"{path}: {fault.strerror}") from None
    except KeyError as fault:
        raise InputError(f"{path}: {fault} is missing, or no figure of a device") from None
    except (AttributeError, TypeError, ValueError) as fault:
        raise InputError(f"{path}: not a device file ({fault})", remedy="trnprof calibrate writes one") from None


def _user_figure(entry: Entry, row: Mapping[str, Any]) -> Figure:
    value, spread = row["value"], row.get("spread")
    numbers = (value, *(spread or ()))
    if not all(isinstance(number, (int, float)) and 0 <= number < math.inf for number in numbers):
        raise ValueError(f"{entry.id}: value and spread must be numbers of at least 0")
    bounds = None if spread is None else (spread[0], spread[1])
    return Figure(entry.id, entry.name, value, entry.unit, row["kind"], row["source"], bounds, row.get("note", ""))


def spelled(keys: str) -> str:
    """Source keys such as "VOY/TKF" in words."""
    return "; ".join(_sources()[key] for key in keys.split("/"))


def default_spread(value: float | int, unit: str, kind: str) -> tuple[float, float] | None:
    """The stated spread of a kind (`SPREADS`); a fraction does not pass 1."""
    share = SPREADS.get(kind)
    if share is None or unit in COUNTED_UNITS or value == 0:
        return None
    high = value * (1 + share)
    return value * (1 - share), min(high, 1.0) if unit == "fraction" else high


def _layers(name: str) -> list[dict[str, Any]]:
    layer = read(name)
    return [*(_layers(layer["extends"]) if "extends" in layer else ()), layer]


def figure(entry: Entry, given: Mapping[str, Any]) -> Figure:
    """A figure from its row in a file: value, kind and source, perhaps spread and note."""
    value, kind = given["value"], given["kind"]
    spread = given["spread"] if "spread" in given else default_spread(value, entry.unit, kind)
    return Figure(
        id=entry.id,
        name=entry.name,
        value=value,
        unit=entry.unit,
        kind=kind,
        source=spelled(given["source"]),
        spread=None if spread is None else tuple(spread),
        note=given.get("note", ""),
    )


@cache
def _sources() -> dict[str, str]:
    return read("sources")
