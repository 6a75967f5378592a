"""How long a collective over a fabric takes, by the runtime's own choice of algorithm.

Time is a start, the hops, and a transfer that is as slow as the slower of links and memory; a part of the start is
hidden behind the transfer. Beyond a node a collective is done in stages: scattered inside, exchanged between, gathered
inside (internode-collective-comm).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from sim.arrivals import MEMORY, Leg, Pace, Slow, walk
from sim.errors import InputError
from sim.fabrics import Fabric, Group, Level, Spans, members, spans
from sim.loads import KINDS, LOADS, Load, Part, load, serves

PS = 10**12
US = 10**6
"""ps in a microsecond."""
MEGA = 1e6
ALGORITHMS = tuple(LOADS)
OUTER = ("ring", "rdh", "mesh", "direct")
"""What there is between nodes (internode-collective-comm)."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of a collective: between the ranks of a node, or between units of an outer level."""

    kind: str
    level: str
    algorithm: str
    members: int
    load: Load
    hops_ps: int
    link_ps: int
    memory_ps: int
    outside: bool
    places: tuple[int, ...] = ()
    """Levels of the fabric that it goes along."""
    inner: bool = False
    """It goes along the ranks of a chip."""

    @property
    def transfer_ps(self) -> int:
        return max(self.link_ps, self.memory_ps)

    @property
    def duration_ps(self) -> int:
        return self.hops_ps + self.transfer_ps


@dataclass(frozen=True, slots=True)
class LinkUse:
    """What the links of one level do during an exchange."""

    level: str
    bytes: float
    """Over the busiest link of a chip."""
    busy_ps: int
    share: float
    """Of the exchange's time."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One collective over one group."""

    kind: str
    size_bytes: int
    ranks: int
    duration_ps: int
    """From the first arrival to the last completion."""
    algorithm: str
    """Inside the node, then of each outer level: `kangaring+rdh`."""
    steps: int
    bytes_on_wire: int
    """That a rank sends to others."""
    links: tuple[LinkUse, ...]
    stages: tuple[Stage, ...]
    start_ps: int
    """Of `duration_ps`: before the first byte, as far as it is not hidden."""
    memory_bytes: int
    """That a rank reads and writes in HBM."""
    memory_share: float
    """Of the rank's HBM bandwidth, on average while it lasts."""
    dma_share: float
    """Of what the rank's DMA engines can move, likewise; each moves a read and a write at once."""
    late_ps: int = 0
    """Of `duration_ps`: what ranks that come late and slow links add."""
    done_ps: np.ndarray | None = field(default=None, compare=False)
    """When each rank is done, in the order of the group; None where all come at once to links that are alike."""


def exchange(
    kind: str,
    size_bytes: int,
    fabric: Fabric,
    group: Group | Sequence[int] | None = None,
    algorithm: str | None = None,
    skew: np.ndarray | Sequence[int] | None = None,
    *,
    slow: Sequence[Slow] = (),
    element_bytes: int = 2,
    variable: bool = False,
) -> Exchange:
    """Time and traffic of one collective.

    size_bytes    : the whole buffer: of an all-gather the result, of a reduce-scatter the source, else what a rank has
    group         : its ranks; everyone where none is given
    algorithm     : inside the node, or `inside+outside`; the runtime's choice where none is given
    skew          : ps at which each rank comes, or each chip, in the order of the group
    slow          : chips with links or memory that are slower than the others'
    element_bytes : of the dtype; folding single bytes takes longer
    variable      : lengths that only the run tells
    raises        : InputError for an unknown kind or algorithm, or one that cannot do it
    """
    if kind not in KINDS:
        raise InputError(f"collective: {kind!r} is unknown", remedy=f"known: {', '.join(KINDS)}")
    if size_bytes < 0:
        raise InputError(f"{kind}: {size_bytes} bytes")
    ranks, lies = members(fabric, group), spans(fabric, group)
    stages = (
        tuple(_stages(kind, float(size_bytes), fabric, lies, _asked(algorithm), element_bytes)) if ranks > 1 else ()
    )
    found = _joined(kind, size_bytes, ranks, fabric, stages, variable)
    return found if skew is None and not slow else _arriving(found, lies, skew, slow)


def _arriving(found: Exchange, lies: Spans, skew: np.ndarray | Sequence[int] | None, slow: Sequence[Slow]) -> Exchange:
    """The exchange of ranks that come when they come."""
    came = np.zeros(found.ranks) if skew is None else np.asarray(skew, float)
    local = lies.in_chip if came.size == found.ranks else 1
    _check_arrivals(found, lies, came, slow)
    shape = (*reversed(lies.units), local)
    slow = [each if local == lies.in_chip else replace(each, rank=each.rank // lies.in_chip) for each in slow]
    done = walk(came.reshape(shape) + found.start_ps, _legs(found, lies), slow, local)
    done = np.rint(done).astype(np.int64).reshape(-1)
    duration = int(done.max() - came.min())
    links = tuple(replace(use, share=use.busy_ps / duration if duration else 0.0) for use in found.links)
    late = duration - found.duration_ps
    memory = found.memory_share * found.duration_ps / duration if duration else 0.0
    return replace(found, duration_ps=duration, late_ps=late, links=links, memory_share=min(1.0, memory), done_ps=done)


def _check_arrivals(found: Exchange, lies: Spans, came: np.ndarray, slow: Sequence[Slow]) -> None:
    if prod(lies.units) * lies.in_chip != found.ranks:
        raise InputError("skew, slow: the group must lie alike in every chip, node and so on")
    if came.size not in (found.ranks, found.ranks // lies.in_chip):
        raise InputError(f"skew: {came.size} times, the group has {found.ranks} ranks")
    if not np.isfinite(came).all() or (came.size and came.min() < 0):
        raise InputError("skew: times must be finite and at least 0")
    levels = {None, MEMORY, *(stage.level for stage in found.stages)}
    for each in slow:
        if not 0 <= each.rank < found.ranks or not 0 < each.rate <= 1:
            raise InputError(f"slow: rank {each.rank} at {each.rate}, must be of {found.ranks} at 0 to 1 of its rate")
        if each.where not in levels:
            known = ", ".join(sorted(filter(None, levels)))
            raise InputError(f"slow: no {each.where!r} takes part", remedy=f"there is {known}")


def _legs(found: Exchange, lies: Spans) -> list[Leg]:
    """The stages, each with the axes of (outermost units, …, chips, ranks of a chip) that it goes along."""
    last = len(lies.units)
    legs = []
    for stage in found.stages:
        axes = tuple(last - 1 - level for level in stage.places) + ((last,) if stage.inner else ())
        pace = Pace(stage.kind, stage.algorithm, stage.load.steps, stage.hops_ps, stage.link_ps, stage.memory_ps)
        legs.append(Leg(pace, stage.level, tuple(sorted(axes))))
    return legs


def _asked(algorithm: str | None) -> tuple[str | None, str | None]:
    inside, _, outside = (algorithm or "").partition("+")
    for name in (inside, outside):
        if name and name not in ALGORITHMS:
            raise InputError(f"algorithm: {name!r} is unknown", remedy=f"known: {', '.join(ALGORITHMS)}")
    return inside or None, outside or None


def _joined(kind: str, size: int, ranks: int, fabric: Fabric, stages: Sequence[Stage], variable: bool) -> Exchange:
    device = fabric.device
    base = device["cc.base"] if stages else 0
    extra = sum(
        device[id]
        for id, paid in (("cc.base_inter", any(s.outside for s in stages)), ("cc.base_variable", variable))
        if paid
    )
    transfer = sum(stage.transfer_ps for stage in stages)
    hidden = device["cc.hidden"] * min(base * US, transfer)
    start = round((base + extra) * US - hidden)
    duration = start + sum(stage.duration_ps for stage in stages)
    touched = sum(stage.load.moved for stage in stages)
    return Exchange(
        kind=kind,
        size_bytes=size,
        ranks=ranks,
        duration_ps=duration,
        algorithm="+".join(dict.fromkeys(stage.algorithm for stage in stages)) or "none",
        steps=sum(stage.load.steps for stage in stages),
        bytes_on_wire=round(size * _sent(kind, ranks)),
        links=tuple(_uses(stages, duration)),
        stages=tuple(stages),
        start_ps=start,
        memory_bytes=round(touched),
        memory_share=_share(touched, fabric.memory_rate, duration),
        dma_share=_share(touched / 2, fabric.dma_rate, duration),
    )


def _share(nbytes: float, rate: float, duration: int) -> float:
    return min(1.0, nbytes / rate / (duration / PS)) if duration else 0.0


def _sent(kind: str, ranks: int) -> float:
    """Bytes that a rank sends, as a multiple of the buffer."""
    if kind in ("permute", "broadcast"):
        return float(ranks > 1)
    return (2 if kind == "all_reduce" else 1) * (ranks - 1) / ranks


def _uses(stages: Sequence[Stage], duration: int) -> Iterator[LinkUse]:
    for level in dict.fromkeys(stage.level for stage in stages if stage.load.link):
        inside = [stage for stage in stages if stage.level == level]
        busy = sum(stage.link_ps for stage in inside)
        yield LinkUse(level, sum(stage.load.link for stage in inside), busy, busy / duration if duration else 0.0)


def _stages(
    kind: str, n: float, fabric: Fabric, lies: Spans, asked: tuple[str | None, str | None], element: int
) -> Iterator[Stage]:
    """The stages in their order: inside first where data shrinks, outside first where it grows."""
    inner, outer = _split(fabric, lies)
    make = _Maker(fabric, lies, asked, element)
    if not outer:
        yield make.inside(kind, n, inner)
        return
    gathered = {"all_reduce": "all_gather", "broadcast": "all_gather"}.get(kind)
    scattered = {"all_reduce": "reduce_scatter"}.get(kind)
    if inner.ranks > 1 and (scattered or kind in ("reduce_scatter", "all_to_all")):
        yield make.inside(scattered or kind, n, inner)
    yield from make.between(kind, n, inner, outer)
    if inner.ranks > 1 and (gathered or kind == "all_gather"):
        yield make.inside(gathered or kind, n, inner)


def _split(fabric: Fabric, lies: Spans) -> tuple[Part, list[tuple[Level, int]]]:
    """The part inside a node, and the levels beyond it that the group spans."""
    first = bool(fabric.levels) and not fabric.levels[0].outside
    chips = lies.units[0] if first else 1
    inner = Part(lies.in_chip, chips, fabric.levels[0] if chips > 1 else None)
    beyond = [(level, units) for level, units in zip(fabric.levels, lies.units) if units > 1]
    return inner, beyond[1:] if chips > 1 else beyond


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the stages of one collective."""

    fabric: Fabric
    lies: Spans
    asked: tuple[str | None, str | None]
    element: int

    def inside(self, kind: str, n: float, part: Part) -> Stage:
        if self.asked[0]:
            self._check(kind, self.asked[0], part)
            return self._local(kind, self.asked[0], n, part)
        made = [self._local(kind, name, n, part) for name in self._candidates(kind, n, part)]
        return min(made, key=lambda stage: stage.duration_ps)

    def _local(self, kind: str, name: str, n: float, part: Part) -> Stage:
        asks = load(kind, name, part, n)
        rate = part.level.rate if part.level is not None else None
        level = "chip" if part.level is None else part.level.name
        memory, hop = self._memory(kind, name, asks, part), self.fabric.device["cc.alpha_ring"]
        made = self._stage(kind, level, name, part.ranks, asks, rate, hop, memory)
        return replace(made, places=(0,) if part.chips > 1 else (), inner=True)

    def _check(self, kind: str, name: str, part: Part) -> None:
        if not serves(kind, name, part):
            able = ", ".join(other for other in ALGORITHMS if serves(kind, other, part))
            where = f"{part.local} ranks in each of {part.chips} chips"
            raise InputError(f"{kind}: no {name} over {where}", remedy=f"there is {able}")

    def _candidates(self, kind: str, n: float, part: Part) -> list[str]:
        """What the runtime considers at a size (intranode-collective-comm), among what it has and what serves.

        A mesh in one step is taken "where the extra data transfer time is shorter" than a step. The ranges of mesh and
        RDH are said to be empirical: up to their ends the fastest is taken, beyond them not these.
        """
        device, has = self.fabric.device, self.fabric.algorithms or ALGORITHMS
        served = [name for name in ALGORITHMS if name in has and serves(kind, name, part)]
        around = [name for name in ("kangaring", "ring", "direct") if name in served][:1]
        if n < device["cc.one_step_switch"] * MEGA:
            ranges = ["one-step mesh", "mesh"]
        elif n < device["cc.mesh_rdh_switch"] * MEGA:
            ranges = ["mesh", "rdh", *around]
        else:
            ranges = ["rdh", *around] if n < device["cc.rdh_kanga_switch"] * MEGA else around
        return [name for name in ranges if name in served] or around or served

    def _memory(self, kind: str, algorithm: str, asks: Load, part: Part) -> float:
        """Seconds that reads and writes take."""
        device = self.fabric.device
        share = device["cc.hbm_share"]
        if kind == "permute":
            share *= device["cc.permute_channels"] / device["cc.channels"]
        elif algorithm in ("mesh", "one-step mesh"):
            share /= 1 + device["cc.mesh_crowding"] * part.flows
        elif algorithm == "rdh" and part.chips > 1:
            share *= device["cc.rdh_share"]
        slower = device["cc.byte_reduction"] - 1 if self.element == 1 else 0.0
        return (asks.moved + slower * asks.reduced) / (share * self.fabric.memory_rate)

    def between(self, kind: str, n: float, inner: Part, outer: Sequence[tuple[Level, int]]) -> Iterator[Stage]:
        """Stages beyond the node: scattering goes outwards, gathering inwards, what does neither crosses each level."""
        if kind == "permute":
            yield self._outer(kind, n, inner, *outer[-1])
        elif kind in ("all_to_all", "broadcast"):
            size = n if kind == "all_to_all" else n / inner.ranks
            for level, units in reversed(outer):
                yield self._outer(kind, size, inner, level, units)
        else:
            yield from self._folded(kind, n / inner.ranks, inner, outer)

    def _folded(self, kind: str, n: float, inner: Part, outer: Sequence[tuple[Level, int]]) -> Iterator[Stage]:
        (level, units), beyond = outer[0], outer[1:]
        if not beyond:
            yield self._outer(kind, n, inner, level, units)
            return
        if kind != "all_gather":
            yield self._outer("reduce_scatter", n, inner, level, units)
        yield from self._folded(kind, n / units, inner, beyond)
        if kind != "reduce_scatter":
            yield self._outer("all_gather", n, inner, level, units)

    def _outer(self, kind: str, n: float, inner: Part, level: Level, units: int) -> Stage:
        """The fastest of what serves ("we simply choose the most optimal one for each communication stage")."""
        part, most = Part(1, units, level), self.fabric.device["cc.mesh_units"]
        if self.asked[1]:
            self._check(kind, self.asked[1], part)
            return self._crossing(kind, self.asked[1], n, inner.local, part)
        has = [name for name in self.fabric.algorithms or OUTER if name != "mesh" or units <= most or not level.outside]
        made = [self._crossing(kind, name, n, inner.local, part) for name in has if serves(kind, name, part)]
        return min(made, key=lambda stage: stage.duration_ps)

    def _crossing(self, kind: str, name: str, n: float, many: int, part: Part) -> Stage:
        device, level = self.fabric.device, part.level
        asks = load(kind, name, part, n)
        asks = replace(asks, link=asks.link * many)
        hop, rate = device["cc.alpha_ring"], level.rate
        if level.outside:
            hop = device["cc.alpha_inter"]
            crowded = "mesh" if kind == "all_to_all" else name
            crowd = {"mesh": "cc.efa_mesh_share", "rdh": "cc.efa_rdh_share"}.get(crowded)
            rate *= device["cc.efa_share"] * (device[crowd] if crowd else 1.0)
        memory = asks.moved / (device["cc.hbm_share"] * self.fabric.memory_rate)
        made = self._stage(kind, level.name, name, part.chips, asks, rate, hop, memory, level.outside)
        return replace(made, places=(self.fabric.levels.index(level),))

    def _stage(
        self,
        kind: str,
        level: str,
        name: str,
        count: int,
        asks: Load,
        rate: float | None,
        hop: float,
        memory: float,
        outside: bool = False,
    ) -> Stage:
        link = asks.link * self.lies.sharing / rate if rate else 0.0
        times = (round(asks.steps * hop * US), round(link * PS), round(memory * PS))
        return Stage(kind, level, name, count, asks, *times, outside)
