"""A verdict's evidence: ceilings reached against their limits, each with a sentence that says it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sim.trace import COMPUTE_ENGINES, Engine, Memory
from trnprof import words
from trnprof.demand import MEMORY, NETWORK, Demand
from trnprof.machine import Ceiling, Machine, short
from trnprof.regions import Region
from trnprof.traffic import necessary_bytes
from trnprof.work import Index

PER_NS = 1000
TOLD_BELOW = 0.98
"""A region whose HBM traffic is this close to what it needs moves nothing twice to speak of."""

TELLING = 0.02
"""Shares of the region below this are not worth a clause."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One ceiling, how much of it was reached, and what that says."""

    bound: str
    """The bound that it speaks for or against; empty without a verdict."""
    ceiling: str
    reached: float | None
    """None where it cannot be computed; the sentence says why."""
    limit: float | None
    unit: str
    """ns, B/s, FLOP/s, elem/s or share."""
    share: float | None
    """Reached of the limit, 0-1; above 1 proves a wrong roof or unit."""
    sentence: str


@dataclass(frozen=True, slots=True)
class Case:
    """All that the sentences draw on."""

    index: Index
    roofs: Machine
    region: Region
    needed: Demand

    def time(self, ps: float) -> str:
        return words.estimate(words.time(ps), self.index.trace.meta.is_simulation)

    def of(self, ps: float) -> str:
        return words.estimate(words.of(ps, self.needed.time_ps), self.index.trace.meta.is_simulation)

    def telling(self, ps: float) -> bool:
        return ps >= TELLING * self.needed.time_ps


def known_work(index: Index, region: Region) -> bool:
    """Whether any engine, DMA or collective is seen at work; rows of other timelines do not say what they use."""
    return bool(region.transfers.size or (index.trace.instructions.engine[region.rows] != Engine.OTHER).any())


def argue(index: Index, roofs: Machine, region: Region, needed: Demand, ranked: list[str]) -> tuple[Evidence, ...]:
    """The evidence on a region, in the order of the ranked bounds."""
    case = Case(index, roofs, region, needed)
    if not needed.time_ps or not known_work(index, region):
        what = "No engine of a NeuronCore works" if needed.time_ps and region.rows.size else "Nothing works"
        return (Evidence("", "time", None, None, "ns", None, f"{what} here, so there is no verdict"),)
    return tuple(evidence for bound in ranked for evidence in _SPEAKERS[bound](case))


def _compute(case: Case) -> Iterator[Evidence]:
    needed, engine = case.needed, case.needed.engine
    active, useful = needed.active_ps[engine], needed.ceiling_ps[engine]
    name = words.ENGINE_WORDS[engine]
    if not active:
        yield Evidence("compute", "engines", 0.0, needed.time_ps / PER_NS, "ns", 0.0, "No engine computes")
        return
    clauses = [f"{name} works {case.of(active)}"]
    if engine == Engine.TENSOR and case.telling(needed.transpose_ps):
        clauses.append(f"{case.time(needed.transpose_ps)} of it on transposes")
    if engine == Engine.TENSOR and case.telling(needed.cold_ps):
        clauses.append(f"{case.time(needed.cold_ps)} at a lowered clock, {case.time(active - useful)} longer for it")
    if engine != Engine.TENSOR and case.telling(active - useful):
        clauses.append(f"{case.time(active - useful)} of it the fixed cost of short instructions")
    others = [e for e in COMPUTE_ENGINES if e != engine and needed.active_ps[e] >= TELLING * needed.time_ps]
    others.sort(key=lambda e: -needed.active_ps[e])
    if others:
        busy = [f"{words.ENGINE_WORDS[e]} {words.share(needed.share(needed.active_ps[e]))}" for e in others]
        clauses.append(f"beside it {words.listing(busy)}")
    yield _time("compute", name, case, useful, ", ".join(clauses))
    yield from _roof(case)


def _roof(case: Case) -> Iterator[Evidence]:
    """FLOPs or elements per second against the roof of the engine."""
    work, engine = case.region.work, case.needed.engine
    if work.flops:
        engine, done, roof = Engine.TENSOR, work.flops, case.roofs.mixed(work.dtypes)
        names = " + ".join(dict.fromkeys(short(dtype) for dtype, _ in work.dtypes))
        what = f"{names} roof" if names else "bf16 roof (the dtype is unknown)"
    else:
        done = work.elements[engine] if engine != Engine.TENSOR else 0
        roof, what = element_roof(case.roofs, engine, done, work.time_ps), "element rate"
    if not done or roof is None:
        return
    reached = done / work.time_ps * 1e12
    name = words.ENGINE_WORDS[engine]
    rate = words.estimate(words.quantity(reached, roof.unit), case.index.trace.meta.is_simulation)
    sentence = (
        f"{name} reaches {rate} over the whole time, {words.share(reached / roof.value)} of its {what} of "
        f"{words.quantity(roof.value, roof.unit)}"
    )
    yield Evidence("compute", roof.name, reached, roof.value, roof.unit, reached / roof.value, sentence)


def element_roof(roofs: Machine, engine: Engine, done: int, time_ps: int) -> Ceiling | None:
    """An engine's element rate; the wider mode's when the ordinary one is exceeded."""
    key = engine.name.lower()
    ordinary, wide = roofs.get(key), roofs.get(f"{key}.16")
    beyond = ordinary is not None and time_ps > 0 and done / time_ps * 1e12 > ordinary.value
    return wide if beyond and wide is not None else ordinary


def _bandwidth(case: Case) -> Iterator[Evidence]:
    needed, work = case.needed, case.region.work
    moved = work.hbm_bytes or work.dma_bytes
    if not moved and not needed.active_ps[MEMORY]:
        text = "The trace has no DMA: bandwidth cannot be judged" if _no_dma(case) else "It moves no byte"
        yield Evidence("memory_bandwidth", "HBM", None if _no_dma(case) else 0.0, None, "B/s", None, text)
        return
    reached = moved / work.time_ps * 1e12
    roof = case.roofs.get("hbm") or case.roofs.get("dma")
    if roof is not None and reached > roof.value:
        roof = case.roofs.bandwidth(reached)
    flow = words.estimate(words.rate(reached), case.index.trace.meta.is_simulation)
    if roof is None:
        sentence = f"DMAs move {words.size(moved)} at {flow}; the device is unknown, so no roof is"
        yield Evidence("memory_bandwidth", "HBM", reached, None, "B/s", None, sentence)
    else:
        share = reached / roof.value
        sentence = (
            f"{roof.name} moves {words.size(moved)} at {flow}, {words.share(share)} of {words.rate(roof.value)}"
            f"{f' ({roof.note})' if roof.note and share > 0.5 else ''}"
        )
        yield Evidence("memory_bandwidth", roof.name, reached, roof.value, "B/s", share, sentence)
    yield from _intensity(case)
    yield from _dma(case)


def _intensity(case: Case) -> Iterator[Evidence]:
    """FLOPs or elements per HBM byte, against what the algorithm would have without a byte moved twice."""
    work = case.region.work
    least = necessary_bytes(case.index.trace, case.region.transfers, case.region.kind == "whole")
    engine = case.needed.engine
    done, unit = (work.flops, "FLOP/B") if work.flops else (work.elements[engine], "elem/B")
    if not least or not work.hbm_bytes:
        return
    share = min(1.0, least / work.hbm_bytes)
    if share < TOLD_BELOW:
        spilled = "spills, " if work.spill_bytes else ""
        sentence = (
            f"{words.size(work.hbm_bytes)} move where {words.size(least)} would do without {spilled}reloads and "
            f"intermediate results in HBM"
        )
    else:
        sentence = "Nothing moves twice"
    if done:
        least_words = f" instead of {words.quantity(done / least, unit)}" if share < TOLD_BELOW else ""
        sentence += f": {words.quantity(done / work.hbm_bytes, unit)}{least_words}"
    achieved, possible = (done / n if done else None for n in (work.hbm_bytes, least))
    yield Evidence("memory_bandwidth", "intensity", achieved, possible, unit, share, sentence)


def _no_dma(case: Case) -> bool:
    return not (len(case.index.trace.transfers) or len(case.index.trace.packets))


def _dma(case: Case) -> Iterator[Evidence]:
    """The DMA engines as a resource of their own."""
    needed, work = case.needed, case.region.work
    busy, active = needed.ceiling_ps[MEMORY], needed.active_ps[MEMORY]
    if not active:
        return
    if needed.memory_limit == "engines":
        clauses = [f"DMA engines are at work {case.of(busy)} on average"]
    elif needed.memory_limit == "active":
        clauses = [f"DMAs are active {case.of(active)}; without a device that is taken for their ceiling"]
    else:
        clauses = [f"Its bytes need {case.of(busy)} at the {needed.memory_limit.upper()} roof"]
    if work.descriptors and case.telling(busy):
        clauses.append(f"{words.size(round(work.dma_bytes / work.descriptors))} a descriptor")
    if needed.memory_limit != "active" and case.telling(active - busy):
        clauses.append(f"DMAs are active {case.time(active)}")
    yield _time("memory_bandwidth", "DMA engines", case, busy, ", ".join(clauses))


def _capacity(case: Case) -> Iterator[Evidence]:
    needed, work = case.needed, case.region.work
    if work.spill_bytes:
        sentence = (
            f"{words.size(work.spill_bytes)} of {words.size(work.hbm_bytes)} HBM traffic are spills and reloads for "
            f"lack of SBUF"
        )
        if needed.spill_rules:
            left = (1 - needed.spill_share) * needed.ceiling_ps[MEMORY]
            sentence += f"; without them memory would need {case.of(left)}"
        yield _time("memory_capacity", "spills", case, needed.spill_share * needed.ceiling_ps[MEMORY], sentence)
    if needed.buffer_ps:
        sentence = f"{case.of(needed.buffer_ps)} go by waiting for memory to be free"
        yield _time("memory_capacity", "buffers", case, needed.buffer_ps, sentence)
    if case.telling(needed.reuse_ps):
        sentence = (
            f"{case.of(needed.reuse_ps)} go by waiting for a buffer that is still in use, though there is room for "
            f"another"
        )
        yield _time("memory_capacity", "reuse", case, needed.reuse_ps, sentence)
    yield from _fullness(case)
    yield from _hbm(case)


def _hbm(case: Case) -> Iterator[Evidence]:
    """The tensors against the HBM of the cores at work."""
    held, room = case.needed.hbm_bytes, case.needed.hbm_room
    if case.region.kind != "whole" or not held or room is None:
        return
    cores = "one core" if case.roofs.cores == 1 else f"{case.roofs.cores} cores"
    sentence = f"Tensors take {words.size(held)} of the {words.size(room)} of HBM that {cores} can use"
    if case.needed.overfull:
        sentence += ": infeasible without sharding over more cores"
    yield Evidence("memory_capacity", "HBM", held, room, "B", held / room, sentence)


def _fullness(case: Case) -> Iterator[Evidence]:
    needed, table = case.needed, case.roofs.figures
    for memory, peak in ((Memory.SBUF, needed.sbuf_peak), (Memory.PSUM, needed.psum_peak)):
        if peak is None:
            continue
        room = table.get(f"{memory.name.lower()}_partition_bytes") if table is not None else None
        held = f" ({words.size(round(peak * room))} of {words.size(int(room))} a partition)" if room else ""
        spilled = "" if case.region.work.spill_bytes or memory != Memory.SBUF else "; nothing is spilled"
        sentence = f"{memory.name} peaks at {words.share(peak)}{held}{spilled}"
        yield Evidence("memory_capacity", memory.name, peak, 1.0, "share", peak, sentence)


def _network(case: Case) -> Iterator[Evidence]:
    needed = case.needed
    busy = needed.active_ps[NETWORK]
    if not busy:
        if case.region.kind == "whole":
            cores = "One core, no collective" if case.roofs.cores == 1 else f"{case.roofs.cores} cores, no collective"
            yield Evidence("network", "links", None, None, "B/s", None, cores)
        return
    hidden = busy - needed.network_ps
    behind = f", {case.time(hidden)} of it behind other work" if needed.leader != NETWORK else ""
    yield _time("network", "links", case, busy, f"Collectives take {case.of(busy)}{behind}")
    yield from _wire(case, busy)


def _wire(case: Case, busy: int) -> Iterator[Evidence]:
    """Bytes that collectives send against what the links carry."""
    sent, link = case.region.work.wire_bytes, case.roofs.get("link")
    if not sent or link is None:
        return
    reached = sent / busy * 1e12
    flow = words.estimate(words.rate(reached), case.index.trace.meta.is_simulation)
    sentence = (
        f"They send {words.size(sent)} at {flow} while they run, {words.share(reached / link.value)} of the "
        f"{words.rate(link.value)} that the links carry"
    )
    yield Evidence("network", link.name, reached, link.value, "B/s", reached / link.value, sentence)


def _latency(case: Case) -> Iterator[Evidence]:
    """Lost time and DMA triggers, the longer first."""
    yield from sorted([*_waiting(case), *_issue(case)], key=lambda evidence: -(evidence.share or 0))


def _waiting(case: Case) -> Iterator[Evidence]:
    needed = case.needed
    lost = sum(needed.lost.values())
    if lost:
        parts = sorted(
            ((ps, _LOSS_WORDS[key](case)) for key, ps in needed.lost.items() if case.telling(ps)), reverse=True
        )
        spent = f": {words.listing([f'{case.time(ps)} {text}' for ps, text in parts])}" if parts else ""
        subject = _LEADERS.get(needed.leader) or f"{words.ENGINE_WORDS[needed.leader]}, the busiest, waits"
        yield _time("latency", "waiting", case, lost, f"{subject} {case.of(lost)}{spent}")


def _issue(case: Case) -> Iterator[Evidence]:
    needed, index = case.needed, case.index
    rows = case.region.rows
    triggers = rows[index.issue[rows] & (index.trace.instructions.engine[rows] == needed.issuer)]
    if not triggers.size or not case.telling(needed.issue_ps):
        return
    ins = index.trace.instructions
    number = int(ins.count[triggers].sum())
    each = int((ins.end_ps[triggers] - ins.start_ps[triggers]).sum()) / number
    sentence = (
        f"{words.ENGINE_WORDS[needed.issuer]} spends {case.of(needed.issue_ps)} on triggering "
        f"{words.count(number)} DMA{'s' if number > 1 else ''}, {case.time(each)} each"
    )
    yield _time("latency", "DMA issue", case, needed.issue_ps, sentence)


def _while_working(case: Case) -> str:
    needed = case.needed
    busy = [e for e in COMPUTE_ENGINES if e != needed.leader and needed.active_ps[e]]
    busy.sort(key=lambda e: -needed.active_ps[e])
    return f"while {words.listing([words.ENGINE_WORDS[e] for e in busy[:2]])} works" if len(busy) == 1 else (
        f"while {words.listing([words.ENGINE_WORDS[e] for e in busy[:2]])} work"
    )  # fmt: skip


_LEADERS = {
    MEMORY: "Memory, the busiest, is idle or below its roof",
    NETWORK: "The network, the busiest, is idle",
}

_LOSS_WORDS: dict[str, Callable[[Case], str]] = {
    "dependency": _while_working,
    "transfer": lambda case: "while data moves",
    "slow_dma": lambda case: "with DMAs active below the roof",
    "fixed": lambda case: "as the fixed cost of instructions",
    "cold": lambda case: "to a lowered clock",
    "issue": lambda case: "while DMAs are triggered",
    "table": lambda case: "while an activation table loads",
    "dma_latency": lambda case: "with a DMA under way that moves no byte",
    "elsewhere": lambda case: "while other parts of the kernel work",
    "quiet": lambda case: "with nothing seen at work",
}

_SPEAKERS: dict[str, Callable[[Case], Iterator[Evidence]]] = {
    "compute": _compute,
    "memory_bandwidth": _bandwidth,
    "memory_capacity": _capacity,
    "network": _network,
    "latency": _latency,
}


def _time(bound: str, ceiling: str, case: Case, ps: float, sentence: str) -> Evidence:
    whole = case.needed.time_ps
    return Evidence(bound, ceiling, ps / PER_NS, whole / PER_NS, "ns", ps / whole, sentence)
