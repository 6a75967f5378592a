"""What joins the cores of a chip, the chips of an instance and the instances of a cluster; where a group lies in it.

`sim/devices/fabrics.json` has the shapes and bandwidths with their sources. Ranks are logical cores, numbered along a
chip, then along a node, then along what joins nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import ceil, prod
from typing import Any

from sim import figures, spec
from sim.errors import InputError, UnsupportedError
from sim.spec import Device
from sim.topology import Kind

GIGA = 1e9
DEFAULT_LNC = 2
"""Cores that a rank has from NeuronCore-v3 on, unless told otherwise."""
PAIRED_GENERATION = 3


@dataclass(frozen=True, slots=True)
class Level:
    """How the units of the level below are joined."""

    name: str
    kind: Kind
    shape: tuple[int, ...]
    """Units along each dimension; a torus has several."""
    rate: float
    """Bytes/s that one link of a chip carries one way; a switch has one link a chip."""
    outside: bool
    """Between instances, over EFA."""

    @property
    def size(self) -> int:
        return prod(self.shape)

    def degree(self, units: int) -> int:
        """Links that a chip has to others of a part of so many units, filled along the dimensions."""
        if self.kind is not Kind.RING:
            return 1
        return sum((2 if side > 2 and side == full else 1) for side, full in self._sides(units) if side > 1)

    def cycles(self, units: int) -> int:
        """Directed rings over a part of so many units that share no link."""
        degree = self.degree(units)
        return max(1, degree // 2 * 2)

    def distance(self, units: int) -> float:
        """Links that a message crosses on average, from a unit to the others."""
        if self.kind is not Kind.RING or units < 2:
            return 1.0
        total = sum(_distance(side, side == full and side > 2) for side, full in self._sides(units))
        return total * units / (units - 1)

    def _sides(self, units: int) -> list[tuple[int, int]]:
        sides, rest = [], units
        for full in self.shape:
            side = min(full, rest)
            sides.append((side, full))
            rest = ceil(rest / side)
        return sides


def _distance(side: int, closed: bool) -> float:
    """Mean steps between two of a row's places, each with itself included."""
    if closed:
        return side / 4 if side % 2 == 0 else (side * side - 1) / (4 * side)
    return (side * side - 1) / (3 * side)


@dataclass(frozen=True, slots=True)
class Fabric:
    """Chips that are joined; `levels` run from the innermost outwards and leave out the inside of a chip."""

    name: str
    title: str
    device: Device
    chips: int
    lnc: int
    ranks_per_chip: int
    levels: tuple[Level, ...]
    algorithms: tuple[str, ...] = ()
    """The runtime has only these; empty for all."""

    @property
    def ranks(self) -> int:
        return self.chips * self.ranks_per_chip

    @property
    def memory_rate(self) -> float:
        """Bytes/s of HBM that a rank has."""
        return self.device["hbm_nc"] * self.lnc * GIGA

    @property
    def dma_rate(self) -> float:
        """Bytes/s that the DMA engines of a rank move."""
        return self.device["dma_core_peak"] * self.lnc * GIGA

    def blocks(self) -> tuple[int, ...]:
        """Ranks of a chip, of a node, …: what lies together at each level."""
        sizes = [self.ranks_per_chip]
        for level in self.levels:
            sizes.append(sizes[-1] * level.size)
        return tuple(sizes)


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that communicate: `size` of them, `stride` apart."""

    size: int
    stride: int = 1
    alone: bool = True
    """False: the other ranks do the same in groups of their own, on the same links."""


@dataclass(frozen=True, slots=True)
class Spans:
    """How a group lies in a fabric: members in a chip, chips in the first level, those in the next, …"""

    in_chip: int
    units: tuple[int, ...]
    """Of the level below, that it joins at each level of the fabric."""
    sharing: float
    """Groups that use a chip's links at once."""


def spans(fabric: Fabric, group: Group | Sequence[int] | None = None) -> Spans:
    """Where a group lies; None is everyone.

    group  : ranks in any order, or a `Group`
    raises : InputError for ranks that the fabric lacks, or that are named twice
    """
    made = _group(fabric, group)
    if isinstance(made, Group):
        counts = [min(made.size, max(1, block // made.stride)) for block in fabric.blocks()]
    else:
        counts = [max(Counter(rank // block for rank in made).values()) for block in fabric.blocks()]
    units = tuple(ceil(outer / inner) for inner, outer in pairwise(counts))
    alone = not isinstance(made, Group) or made.alone
    return Spans(counts[0], units, 1.0 if alone else fabric.ranks_per_chip / counts[0])


def members(fabric: Fabric, group: Group | Sequence[int] | None) -> int:
    """Ranks of a group."""
    made = _group(fabric, group)
    return made.size if isinstance(made, Group) else len(made)


def _group(fabric: Fabric, group: Group | Sequence[int] | None) -> Group | tuple[int, ...]:
    if group is None:
        return Group(fabric.ranks)
    if isinstance(group, Group):
        if group.size < 1 or group.stride < 1 or (group.size - 1) * group.stride >= fabric.ranks:
            raise InputError(f"group: {group.size} ranks {group.stride} apart, the fabric has {fabric.ranks}")
        return group
    ranks = tuple(group)
    if not ranks or len(set(ranks)) < len(ranks) or min(ranks) < 0 or max(ranks) >= fabric.ranks:
        raise InputError(f"group: {list(ranks)}, must be different ranks below {fabric.ranks}")
    return ranks


def names() -> tuple[str, ...]:
    """Fabrics that there are data of."""
    return tuple(_data()["fabrics"])


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """What the data say of one level of a fabric."""

    fabric: str
    level: str
    kind_of_joint: str
    shape: tuple[int, ...]
    """Units along each dimension; as many as there are where 0."""
    value: float
    """GB/s of a chip, both ways."""
    kind: str
    source: str
    note: str


def bandwidths(device: Device) -> list[Bandwidth]:
    """Every level of every fabric of a device."""
    return [
        Bandwidth(name, level["name"], level["kind"], tuple(level["shape"]), given["value"], given["kind"],
                  figures.spelled(given["source"]), given.get("note", ""))
        for name, row in _data()["fabrics"].items()
        if row["device"] == device.name
        for level in row["levels"]
        for given in (level["bandwidth"],)
    ]  # fmt: skip


def runtimes() -> tuple[str, ...]:
    """Releases of the runtime whose constants are known apart."""
    return tuple(_data()["runtimes"])


def fabric(device: str | Device, chips: int | None = None, lnc: int | None = None, runtime: str = "current") -> Fabric:
    """The fabric of so many chips; without a number, of one instance or UltraServer.

    device  : a fabric (`trn2u`, `trn3-gen1`), or a device, whose plain instances are taken (trn3: Gen2 UltraServers)
    lnc     : cores of a rank; 2 from Trn2 on, else 1
    runtime : release whose constants are taken
    raises  : InputError for unknown names, or chips that do not fill what lies inside; UnsupportedError where a device
              has no fabric
    """
    name, row, found = _row(device)
    made = _released(found, runtime)
    lnc = (DEFAULT_LNC if made.generation >= PAIRED_GENERATION else 1) if lnc is None else lnc
    cores = int(made["cores"])
    if lnc < 1 or cores % lnc:
        raise InputError(f"lnc: {lnc}, a chip of {made.name} has {cores} cores")
    scale = made["neuronlink_bw"] / row["link_total"]["value"]
    levels = tuple(_level(each, scale) for each in row["levels"])
    inside = prod(level.size for level in levels if not level.outside)
    chips = inside if chips is None else chips
    algorithms = tuple(_data()["runtimes"][runtime].get("algorithms", ()))
    return Fabric(name, row["title"], made, chips, lnc, cores // lnc, _cut(name, levels, chips), algorithms)


def holding(device: Device, ranks: int, lnc: int) -> Fabric:
    """The smallest fabric of a device that so many ranks, numbered from 0, lie in."""
    _, row, _ = _row(device)
    chips = ceil(ranks * lnc / int(device["cores"]))
    unit = 1
    for level in row["levels"]:
        size = prod(level["shape"])
        if size and chips > unit * size:
            unit *= size
    return fabric(device, ceil(chips / unit) * unit, lnc)


def between(estimate: Callable[[Fabric], float], fabric: Fabric) -> tuple[float, float]:
    """Where an estimate may lie: what each figure of collectives does at the ends of its spread, squares summed."""
    middle, low, high = estimate(fabric), 0.0, 0.0
    for id, figure in fabric.device.figures.items():
        if not id.startswith("cc.") or figure.spread is None:
            continue
        ends = [estimate(_at(fabric, figure, end)) - middle for end in figure.spread]
        low += min(0.0, *ends) ** 2
        high += max(0.0, *ends) ** 2
    return max(0.0, middle - low**0.5), middle + high**0.5


def _at(fabric: Fabric, figure: figures.Figure, value: float) -> Fabric:
    device = fabric.device.with_figures({figure.id: replace(figure, value=value)})
    return replace(fabric, device=device)


def _row(device: str | Device) -> tuple[str, Mapping[str, Any], Device]:
    """(name, data, device) of a fabric."""
    rows = _data()["fabrics"]
    asked = device.lower() if isinstance(device, str) else ""
    named = [name for name, row in rows.items() if asked in (name, row.get("instance"))]
    found = spec.device(rows[named[0]]["device"] if named else device)
    stem = asked.partition(".")[0]
    name = named[0] if named else stem if stem in rows else found.name
    if name not in rows:
        raise UnsupportedError(f"{found.name}: no data of what joins its chips", remedy=f"known: {', '.join(rows)}")
    return name, rows[name], found


def _released(device: Device, runtime: str) -> Device:
    known = _data()["runtimes"]
    if runtime not in known:
        raise InputError(f"runtime: {runtime!r} is unknown", remedy=f"known: {', '.join(known)}")
    catalogue = figures.catalogue()
    given = {id: figures.figure(catalogue[id], row) for id, row in known[runtime]["figures"].items()}
    return device.with_figures(given) if given else device


def _level(row: Mapping[str, Any], scale: float) -> Level:
    kind, shape = Kind(row["kind"]), tuple(row["shape"])
    outside = row["name"] == "efa"
    # Published bandwidths count both ways of all links; a dimension of two has one link to the other.
    links = 1 if kind is not Kind.RING else sum(2 if side > 2 else 1 for side in shape)
    rate = row["bandwidth"]["value"] * GIGA / 2 / links * (1 if outside else scale)
    return Level(row["name"], kind, shape, rate, outside)


def _cut(name: str, levels: Sequence[Level], chips: int) -> tuple[Level, ...]:
    """The levels that so many chips need; only the last may be filled in part."""
    if chips < 1:
        raise InputError(f"chips: {chips}, must be at least 1")
    kept, rest = [], chips
    for level in levels:
        if rest == 1:
            break
        kept.append(level if level.size else replace(level, shape=(rest,)))
        size = kept[-1].size
        if rest > size and rest % size:
            unit = prod(each.size for each in levels if not each.outside and each.size)
            unit = unit if chips > unit else chips // rest * size
            near = f"{chips // unit * unit} or {(chips // unit + 1) * unit}"
            raise InputError(f"chips: {chips}, {name} is built of {unit} at a time", remedy=f"such as {near}")
        rest = max(1, rest // size)
    if rest > 1:
        raise InputError(f"chips: {chips}, {name} has {prod(level.size for level in levels)} at most")
    return tuple(kept)


@cache
def _data() -> dict[str, Any]:
    return figures.read("fabrics")
