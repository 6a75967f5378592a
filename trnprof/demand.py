"""How long a region needed each ceiling, and what filled the time in which it needed none.

A resource is an engine, the path to memory, or the links. Its time at the ceiling is what it would need alone: an
engine's work at its full clock, without the fixed cost of instructions for which that is the larger part; bytes at the
roof or DMA engines at work. With perfect overlap a region would last as long as the largest of these; all that it
lasts longer is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.trace import COMPUTE_ENGINES, Engine, Memory, Trace, Wait
from trnprof.intervals import Spans, gaps, merge, overlap, union_ps
from trnprof.machine import Machine
from trnprof.regions import Region
from trnprof.work import ENGINES, Index, collective_spans, dma_spans, lane_union_ps, length_ps

FIXED_COSTS = {
    Engine.VECTOR: "dve.lat_sbuf",
    Engine.SCALAR: "act.lat_nonlinear",
    Engine.GPSIMD: "gp.lat",
}
"""The figure that an instruction costs beside its elements, ns."""

CROWDED = 0.75
"""SBUF or PSUM this full at its peak: a wait for a buffer is then for lack of room, not for lack of a second buffer."""

COLD = 0.75
"""TensorE's clock below this share of its full rate; the small steps of a power limit are not told."""

SAMPLED_PARTITIONS = (0, 32, 64, 96)

GIB = 1 << 30

MEMORY = Engine.DMA
NETWORK = Engine.COLLECTIVE


@dataclass(frozen=True, slots=True)
class Demand:
    """Times in ps; `leader` is the resource that needed its ceiling longest."""

    time_ps: int
    leader: Engine
    engine: Engine
    """The compute engine that leads among the engines."""
    active_ps: dict[Engine, int]
    """Time at work of the compute engines (DMA triggers and table loads left out), `MEMORY` and `NETWORK`."""
    ceiling_ps: dict[Engine, int]
    """The part of it at the ceiling."""
    memory_limit: str
    """What bytes were measured against: hbm, dma, engines (their occupancy) or active (no roof is known)."""
    spill_share: float
    """Spilled and reloaded part of the HBM bytes."""
    spill_rules: bool
    """Without spills, memory would not lead."""
    buffer_ps: int
    """The leader idle, something waited for memory to be free, and there is little of it."""
    reuse_ps: int
    """The leader idle, something waited for its buffer to be read, and there was room for another."""
    network_ps: int
    """The leader idle, a collective under way."""
    second: Engine
    """What leads beside the network: `engine` or `MEMORY`."""
    beside_ps: int
    """The network leading and idle, `second` at its ceiling."""
    issue_ps: int
    """DMA triggers on the engine that is busiest with them."""
    issuer: Engine
    lost: dict[str, int]
    """The rest of the leader's lost time, by what went on: `LOSSES`, each ps once."""
    cold_ps: int
    """TensorE at work with its clock down; what that stretched its work by is below its ceiling."""
    transpose_ps: int
    sbuf_peak: float | None
    """0-1, None when the profile does not tell."""
    psum_peak: float | None
    hbm_bytes: int
    """Of the trace's tensors that lie in HBM; 0 when it names none."""
    hbm_room: int | None
    """HBM bytes of the cores at work, None for an unknown device."""

    @property
    def overfull(self) -> bool:
        """The tensors do not fit into HBM: the work cannot be done on so few cores."""
        return self.hbm_room is not None and self.hbm_bytes > self.hbm_room

    def share(self, ps: float) -> float:
        return ps / self.time_ps if self.time_ps else 0.0


LOSSES = {
    "dependency": "another engine works",
    "transfer": "data moves",
    "slow_dma": "DMAs run below their roof",
    "fixed": "short instructions pay their fixed cost",
    "cold": "TensorE's clock is down",
    "issue": "DMAs are described and triggered",
    "table": "an activation table loads",
    "dma_latency": "a DMA is under way and moves no byte",
    "elsewhere": "other parts of the kernel work",
    "quiet": "nothing is seen to work",
}

_BELOW = {MEMORY: "slow_dma", Engine.TENSOR: "cold"}
"""Why a leader at work is below its ceiling; else it is the fixed cost of instructions."""


def demand(index: Index, machine: Machine, region: Region) -> Demand:
    """What a region needed of each resource, and where the rest of its time went."""
    trace, work = index.trace, region.work
    engines = trace.instructions.engine[region.rows]
    computing = {engine: _computing(index, region.rows[engines == engine]) for engine in COMPUTE_ENGINES}
    spans = {engine: _engine_spans(index, region, rows) for engine, rows in computing.items()}
    spans[MEMORY] = _own(region, merge(*dma_spans(trace, *index.local(region.transfers, region.packets))))
    spans[NETWORK] = _own(region, merge(*collective_spans(index, region.rows, region.transfers)))
    active = {key: length_ps(span) for key, span in spans.items()}
    cold, stretched = _cold_ps(trace, machine, spans[Engine.TENSOR])
    ceiling = {
        engine: max(0, active[engine] - _fixed_ps(index, machine, rows, engine)) for engine, rows in computing.items()
    }
    ceiling[Engine.TENSOR] -= stretched
    ceiling[MEMORY], limit = _memory_ps(index, machine, region, active[MEMORY])
    ceiling[NETWORK] = active[NETWORK]
    engine = _leading_engine(active, ceiling)
    second = max((engine, MEMORY), key=lambda key: ceiling[key])
    leader = max((second, NETWORK), key=lambda key: ceiling[key])
    spilled = min(1.0, work.spill_bytes / work.hbm_bytes) if work.hbm_bytes else 0.0
    rival = max(ceiling[key] for key in (engine, NETWORK))
    idle = _without(region, spans[leader])
    sbuf, psum = peak(trace, Memory.SBUF, region, machine), peak(trace, Memory.PSUM, region, machine)
    blocked = overlap(idle, _buffer_waits(index, region, sbuf, psum))
    reused = overlap(idle, _buffer_waits(index, region, None, None))
    wired = overlap(_difference(idle, blocked), spans[NETWORK])
    beside = min(ceiling[second], length_ps(overlap(idle, spans[second]))) if leader == NETWORK else 0
    issuer = Engine(int(np.argmax(work.issue_ps)))
    return Demand(
        time_ps=work.time_ps,
        leader=leader,
        engine=engine,
        active_ps=active,
        ceiling_ps=ceiling,
        memory_limit=limit,
        spill_share=spilled,
        spill_rules=spilled > 0 and (1 - spilled) * ceiling[MEMORY] < max(rival, ceiling[MEMORY] / 2),
        buffer_ps=length_ps(blocked),
        reuse_ps=length_ps(_difference(reused, blocked)),
        network_ps=length_ps(wired),
        second=second,
        beside_ps=beside,
        issue_ps=work.issue_ps[issuer],
        issuer=issuer,
        lost=_lost(index, region, spans, leader, active[leader] - ceiling[leader], _difference(idle, blocked, wired)),
        cold_ps=cold,
        transpose_ps=_transpose_ps(index, region),
        sbuf_peak=sbuf,
        psum_peak=psum,
        hbm_bytes=_hbm_bytes(trace),
        hbm_room=_hbm_room(machine),
    )


def peak(trace: Trace, memory: Memory, region: Region, machine: Machine) -> float | None:
    """How full SBUF or PSUM was at most, 0-1; None when neither a counter nor allocations tell."""
    name = memory.name.lower()
    counted = trace.strings.find(name)
    rows = trace.counters.counter == counted
    if counted >= 0 and rows.any():
        time, value = trace.counters.time_ps[rows], trace.counters.value[rows]
        first = max(0, np.searchsorted(time, region.start_ps, "right") - 1)
        return float(value[first : max(first + 1, np.searchsorted(time, region.end_ps))].max())
    room = machine.figures.get(f"{name}_partition_bytes") if machine.figures is not None else None
    table = trace.allocations
    live = (table.memory == memory) & (table.start_ps < region.end_ps) & (table.end_ps > region.start_ps)
    if not room or not (table.memory == memory).any():
        return None
    cores = np.unique(table.core[live])
    held = (_live_bytes(trace, live & (table.core == core), part) for core in cores for part in SAMPLED_PARTITIONS)
    # Tiles at chosen places may live at once where the later one's first bytes are written last.
    return min(max(held, default=0) / room, 1.0)


def _hbm_bytes(trace: Trace) -> int:
    table = trace.tensors
    return int(table.bytes[table.memory == Memory.HBM].sum())


def _hbm_room(machine: Machine) -> int | None:
    """The cores' share of their chip's HBM."""
    figures = machine.figures
    room, cores = (figures.get(name) if figures is not None else None for name in ("hbm_bytes", "cores"))
    return round(room * GIB / cores * machine.cores) if room and cores else None


def _live_bytes(trace: Trace, live: np.ndarray, partition: int) -> int:
    """Most bytes that are allocated at once in one partition of one core."""
    table = trace.allocations
    rows = live & (table.partition <= partition) & (table.partition + table.partitions > partition)
    time = np.concatenate((table.start_ps[rows], table.end_ps[rows]))
    change = np.concatenate((table.bytes[rows], -table.bytes[rows]))
    # At one moment, what ends makes room before what starts.
    order = np.lexsort((change, time))
    return int(np.cumsum(change[order]).max(initial=0))


def _engine_spans(index: Index, region: Region, rows: np.ndarray) -> Spans:
    """When an engine computes: its rows, on the core that does so longest."""
    ins = index.trace.instructions
    return _own(region, merge(ins.start_ps[rows], ins.end_ps[rows]))


def _computing(index: Index, rows: np.ndarray) -> np.ndarray:
    """Of the rows of an engine, those that compute, on the core that does so longest."""
    ins = index.trace.instructions
    rows = rows[~(index.issue[rows] | index.table[rows])]
    core = ins.core[rows]
    if rows.size and core.min() != core.max():
        longest = lane_union_ps(ins.start_ps[rows], ins.end_ps[rows], core)
        rows = rows[core == max(longest, key=lambda key: longest[key])]
    return rows


def _fixed_ps(index: Index, machine: Machine, rows: np.ndarray, engine: Engine) -> int:
    """Exposed fixed cost of short instructions: start to next start, less the elements' time.

    Short are those whose elements, where they are known, take less time than that; others are at work throughout.
    """
    roof = machine.get(engine.name.lower())
    if engine not in FIXED_COSTS or roof is None or machine.figures is None:
        return 0
    ins = index.trace.instructions
    rows = rows[ins.elements[rows] > 0]
    if not rows.size:
        return 0
    start, end = ins.start_ps[rows], ins.end_ps[rows]
    alone = np.minimum(end, np.append(start[1:], end[-1])) - start
    lanes = 128
    elements_ps = ins.elements[rows] * (lanes * machine.cores / roof.value * 1e12)
    most = (machine.figures.get(FIXED_COSTS[engine]) or 0) * 1000
    fixed = np.clip(alone - elements_ps, 0, most * ins.count[rows])
    return int(fixed[fixed > elements_ps].sum())


def _memory_ps(index: Index, machine: Machine, region: Region, active: int) -> tuple[int, str]:
    """Time that the bytes need at the roof, and which roof; never more than the time in which bytes moved."""
    work = region.work
    candidates = {"engines": _dma_engines_ps(index, machine, region)}
    for id, moved in (("hbm", work.hbm_bytes), ("dma", work.dma_bytes)):
        roof = machine.get(id)
        # What DMA engines sustain is a rule of thumb; where packets show each engine at work, those decide.
        if roof is not None and not (id == "dma" and candidates["engines"]):
            candidates[id] = moved / roof.value * 1e12
    if len(candidates) == 1 and not candidates["engines"]:
        return active, "active"
    limit = max(candidates, key=lambda key: candidates[key])
    return min(active or work.time_ps, round(candidates[limit])), limit


def _dma_engines_ps(index: Index, machine: Machine, region: Region) -> float:
    """Mean time in which a DMA engine was at work: from packets, else from bytes and descriptors."""
    packets, table = index.trace.packets, machine.figures
    engines = int(table.get("dma_engines_nc") or 0) if table is not None else 0
    rows = index.local(region.transfers, region.packets)[1]
    if rows.size and engines:
        lane = packets.core[rows].astype(np.int64) * 1024 + packets.dma_engine[rows]
        start, end = packets.start_ps[rows], packets.end_ps[rows]
        inside = np.maximum(start, region.start_ps), np.minimum(end, region.end_ps)
        return sum(lane_union_ps(*inside, lane).values()) / (engines * machine.cores)
    roof, work = machine.get("dma"), region.work
    if roof is None or table is None or not work.descriptors:
        return 0.0
    each = (table.get("dma.desc_ovh") or 0) * 1000 / (engines * machine.cores)
    return work.dma_bytes / roof.value * 1e12 + work.descriptors * each


def _leading_engine(active: dict[Engine, int], ceiling: dict[Engine, int]) -> Engine:
    """The engine longest at its ceiling; of two that are close, the one that is busier."""
    best = max(ceiling[engine] for engine in COMPUTE_ENGINES)
    near = [engine for engine in COMPUTE_ENGINES if ceiling[engine] >= 0.8 * best]
    return max(near, key=lambda engine: active[engine])


def _buffer_waits(index: Index, region: Region, sbuf: float | None, psum: float | None) -> Spans:
    """When instructions or transfers waited for memory that is nearly full."""
    ins, moved = index.trace.instructions, index.trace.transfers
    rows = region.rows[ins.wait[region.rows] == Wait.BUFFER]
    scarce = np.where(ins.engine[rows] == Engine.TENSOR, _crowded(psum), _crowded(sbuf) or _crowded(psum))
    rows = rows[scarce.astype(bool)]
    transfers = (
        region.transfers[moved.wait[region.transfers] == Wait.BUFFER] if _crowded(sbuf) else region.transfers[:0]
    )
    begin = np.concatenate((ins.start_ps[rows], moved.start_ps[transfers]))
    idle = np.maximum(ins.wait_ps[rows], index.idle_ps[rows])
    return merge(begin - np.concatenate((idle, moved.wait_ps[transfers])), begin)


def _crowded(peak: float | None) -> bool:
    return peak is None or peak >= CROWDED


def _lost(
    index: Index, region: Region, spans: dict[Engine, Spans], leader: Engine, slow_ps: int, idle: Spans
) -> dict[str, int]:
    """What went on while the leader was not at its ceiling, the most telling cause first."""
    ins, rows = index.trace.instructions, region.rows
    streams = rows[ins.engine[rows] < ENGINES]
    issuing, loading = streams[index.issue[streams]], streams[index.table[streams]]
    causes = {
        "dependency": [spans[engine] for engine in COMPUTE_ENGINES if engine != leader],
        "transfer": [spans[MEMORY]],
        "issue": [(ins.start_ps[issuing], ins.end_ps[issuing])],
        "table": [(ins.start_ps[loading], ins.end_ps[loading])],
        "dma_latency": [_under_way(index, region)],
        "elsewhere": [_meanwhile(index, region)],
    }
    lost = {_BELOW.get(leader, "fixed"): slow_ps}
    for name, parts in causes.items():
        taken = overlap(idle, _joined(parts))
        lost[name] = length_ps(taken)
        idle = _difference(idle, taken)
    lost["quiet"] = length_ps(idle)
    return {name: ps for name, ps in lost.items() if ps > 0}


def _meanwhile(index: Index, region: Region) -> Spans:
    """When anything of the trace works within a region's window."""
    start, end = index.anything
    first = np.searchsorted(end, region.start_ps, "right")
    last = np.searchsorted(start, region.end_ps)
    return start[first:last], end[first:last]


def _under_way(index: Index, region: Region) -> Spans:
    """From a DMA's trigger until its semaphore is seen."""
    trace, rows = index.trace, region.transfers
    moved = trace.transfers
    trigger = moved.instruction[rows]
    start = moved.start_ps[rows].copy()
    linked = trigger >= 0
    start[linked] = np.minimum(start[linked], trace.instructions.start_ps[trigger[linked]])
    return start, np.maximum(moved.done_ps[rows], moved.end_ps[rows])


def _cold_ps(trace: Trace, machine: Machine, tensor: Spans) -> tuple[int, int]:
    """(TensorE at work with its clock down, how much longer that took than at the full rate); 0 without a clock."""
    code = trace.strings.find("tensor_clock")
    rows = trace.counters.counter == code
    if code < 0 or not rows.any() or not tensor[0].size:
        return 0, 0
    time, value = trace.counters.time_ps[rows], trace.counters.value[rows]
    lowest = machine.figures.get("pe.clock_cold") if machine.figures is not None else None
    if value[0] >= COLD and lowest is not None:
        # A first step up to the full rate is the end of the cold start.
        time, value = np.insert(time, 0, min(int(tensor[0][0]), int(time[0]))), np.insert(value, 0, lowest)
    until = np.append(time[1:], max(int(tensor[1][-1]), int(time[-1])))
    cold = stretched = 0
    for rate in np.unique(value[(value > 0) & (value < COLD)]):
        steps = value == rate
        took = length_ps(overlap(tensor, (time[steps], until[steps])))
        cold, stretched = cold + took, stretched + round(took * (1 - rate))
    return cold, stretched


def _transpose_ps(index: Index, region: Region) -> int:
    ins = index.trace.instructions
    rows = region.rows[index.transpose[region.rows]]
    return union_ps(ins.start_ps[rows], ins.end_ps[rows])


def _own(region: Region, spans: Spans) -> Spans:
    return overlap(region.spans, spans)


def _joined(parts: list[Spans]) -> Spans:
    return merge(np.concatenate([start for start, _ in parts]), np.concatenate([end for _, end in parts]))


def _without(region: Region, spans: Spans) -> Spans:
    return _difference(region.spans, spans)


def _difference(spans: Spans, *taken: Spans) -> Spans:
    for each in taken:
        if spans[0].size:
            spans = overlap(spans, gaps(*each, int(spans[0][0]), int(spans[1][-1])))
    return spans
