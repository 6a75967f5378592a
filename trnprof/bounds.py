"""Which limit holds a region back, argued with numbers.

The resource that needs its ceiling longest leads (`trnprof.demand`); with perfect overlap the region would last just
that long. A bound's score is its share of the region's time:

compute           the leading engine's work at its full clock, without the fixed cost of short instructions
memory_bandwidth  bytes at the HBM or DMA roof, or the DMA engines at work, whichever is longer
memory_capacity   the part of that which is spills and reloads, all of it when memory would not lead without them;
                  and waits for a buffer, the leader idle, while SBUF or PSUM is nearly full; all of it when the
                  tensors do not fit into HBM
network           collectives
latency           what the leader's ceiling, buffers and exposed collectives leave: dependencies, DMA latency, fixed
                  costs; or DMA triggers on one engine, when these take longer

The largest score names the bound, so wherever anything works there is one, and the margin to the runner-up says how
sure it is. Scores closer than `TIE` are level: no figure is known that well, and the roof of a resource, which nothing
in the kernel can lift, is named before what is left of the time. Where nothing works, or nothing of a NeuronCore (a
general timeline), there is no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from sim import display
from sim.figures import SPREADS
from sim.trace import Engine, Trace
from trnprof.demand import MEMORY, NETWORK, Demand, demand
from trnprof.evidence import Evidence, argue, known_work
from trnprof.machine import Machine, machine
from trnprof.regions import Region, by_region, by_source_line, whole
from trnprof.words import ENGINE_WORDS
from trnprof.work import Index

BOUNDS = ("compute", "memory_bandwidth", "memory_capacity", "network", "latency")
"""In the order in which equal scores are decided."""

TIE = SPREADS["measured"]
"""Scores this close to the largest are level with it: two readings of one instruction differ by as much."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What bounds a region."""

    region: str
    bound: str | None
    """None where nothing works: there is no verdict."""
    share: float | None
    """The bound's score, 0-1 of the region's time."""
    margin: float | None
    """By how much it leads the runner-up, 0-1; 0 where the two are level."""
    runner_up: str | None
    engine: str | None
    """TensorE, VectorE, …: the engine that a compute bound names, None for the others."""
    cause: str | None
    """What most of a latency bound is made of, a key of `trnprof.demand.LOSSES`; None for the others."""
    evidence: tuple[Evidence, ...]
    """The bound's own first, then the others by score."""
    scores: dict[str, float]
    """Of every bound. Bounds overlap in time, so these may add up to more than 1."""
    shares: dict[str, float]
    """The region's time, each moment charged once: to what leads, to exposed waits, the rest to latency. Sums to 1,
    to 0 without a verdict."""
    kind: str
    """whole, model, layer, operator, kernel, loop, line or selection."""
    index: int
    """Row of `trace.regions`, -1 for none."""
    source: str | None
    start_ps: int
    end_ps: int
    time_ps: int
    estimated: bool

    def _repr_html_(self) -> str | None:
        return display.html(self)

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def classify(trace: Trace, regions: Iterable[Region] | None = None) -> list[Verdict]:
    """The verdict on the whole trace, then on each region and source line.

    regions : judge these instead; see `trnprof.regions`
    """
    index, roofs = Index(trace), machine(trace)
    if regions is None:
        regions = parts(trace, index)
    return [judge(index, roofs, region) for region in regions]


def parts(trace: Trace, index: Index | None = None) -> tuple[Region, ...]:
    """The whole trace, its tree of regions, and its source lines where the tree does not hold them."""
    index = index or Index(trace)
    tree = by_region(trace, index)
    lines = () if any(region.kind == "line" for region in tree) else by_source_line(trace, index)
    return whole(trace, index), *tree, *lines


def judge(index: Index, roofs: Machine, region: Region) -> Verdict:
    """The verdict on one region."""
    needed = demand(index, roofs, region)
    works = bool(needed.time_ps and known_work(index, region))
    scores = score(needed) if works else dict.fromkeys(BOUNDS, 0.0)
    ranked = _ranked(scores, needed.overfull)
    bound, runner_up = ranked[:2] if works else (None, None)
    return Verdict(
        region=region.name,
        bound=bound,
        share=scores[bound] if bound else None,
        margin=max(0.0, scores[bound] - scores[runner_up]) if bound and runner_up else None,
        runner_up=runner_up,
        engine=ENGINE_WORDS[needed.engine] if bound == "compute" else None,
        cause=_cause(needed) if bound == "latency" else None,
        evidence=argue(index, roofs, region, needed, ranked),
        scores=scores,
        shares=_shares(needed, bound) if bound else scores,
        kind=region.kind,
        index=region.index,
        source=region.source,
        start_ps=region.start_ps,
        end_ps=region.end_ps,
        time_ps=region.work.time_ps,
        estimated=index.trace.meta.is_simulation,
    )


def _ranked(scores: dict[str, float], overfull: bool) -> list[str]:
    """The bounds by score, after the one that is named: the first in `BOUNDS` of those that are level."""
    # What does not fit cannot run at all, however busy it would be.
    rest = sorted(BOUNDS, key=lambda name: (-scores[name], overfull and name != "memory_capacity"))
    level = [name for name in BOUNDS if scores[name] >= scores[rest[0]] - TIE]
    named = rest[0] if overfull else level[0]
    return [named, *(name for name in rest if name != named)]


def score(needed: Demand) -> dict[str, float]:
    """Every bound's share of the region's time, 0-1."""
    memory = needed.share(needed.ceiling_ps[MEMORY])
    spilled = memory if needed.spill_rules else memory * needed.spill_share
    return {
        "compute": needed.share(needed.ceiling_ps[needed.engine]),
        "memory_bandwidth": memory * (1 - needed.spill_share) if needed.spill_rules else memory,
        "memory_capacity": 1.0 if needed.overfull else min(1.0, spilled + needed.share(needed.buffer_ps)),
        "network": needed.share(needed.ceiling_ps[NETWORK]),
        "latency": needed.share(max(_rest_ps(needed), needed.issue_ps)),
    }


def _rest_ps(needed: Demand) -> int:
    """What the leader's ceiling, buffers, exposed collectives and what exposed collectives alternate with leave."""
    charged = needed.ceiling_ps[needed.leader] + needed.buffer_ps + needed.network_ps + needed.beside_ps
    return max(0, needed.time_ps - charged)


def leading_bound(needed: Demand) -> str:
    """The bound that the leading resource stands for."""
    return _stands_for(needed, needed.leader)


def _stands_for(needed: Demand, resource: Engine) -> str:
    if resource == MEMORY:
        return "memory_capacity" if needed.spill_rules else "memory_bandwidth"
    return "network" if resource == NETWORK else "compute"


def _shares(needed: Demand, bound: str) -> dict[str, float]:
    charged = dict.fromkeys(BOUNDS, 0)
    charged[leading_bound(needed)] = needed.ceiling_ps[needed.leader]
    charged["memory_capacity"] += needed.buffer_ps
    charged["network"] += needed.network_ps
    charged[_stands_for(needed, needed.second)] += needed.beside_ps
    charged["latency"] = rest = _rest_ps(needed)
    if bound == "latency" and needed.issue_ps > rest:
        # Triggers hide behind the leader's own work: what they take is taken from it.
        kept = (needed.time_ps - needed.issue_ps) / (needed.time_ps - rest)
        charged = {name: ps * kept for name, ps in charged.items()} | {"latency": needed.issue_ps}
    return {name: needed.share(ps) for name, ps in charged.items()}


def _cause(needed: Demand) -> str | None:
    if needed.issue_ps >= max(needed.lost.values(), default=0) and needed.issue_ps * 2 >= needed.time_ps:
        return "issue"
    return max(needed.lost, key=lambda name: needed.lost[name], default=None)
