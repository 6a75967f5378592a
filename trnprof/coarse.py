"""What-ifs on captured profiles: measured times, scaled, with the dependences that the profile shows.

There is no program to run again. Each instruction keeps its measured duration times the factor of its kind, each
transfer its bytes' time at the changed roofs; starts move as early as what they waited for allows. What bound a start
keeps its measured distance, also where the profile does not say why; so with nothing changed nothing moves. Memory,
descriptors and the choice of instructions are what they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sim.errors import UnsupportedError
from sim.spec import GIGA, Device
from sim.trace import NONE, Edges, Engine, Packets, Regions, Table, Trace, Wait
from trnprof.chain import Chain

SEMAPHORE_PS = 60_000
"""Waiters that something else held up still need this, at most, to see a semaphore (30-55 ns in real profiles)."""

CLOCKS = {
    Engine.TENSOR: "clock_tensor",
    Engine.VECTOR: "clock_vector",
    Engine.SCALAR: "clock_scalar",
    Engine.GPSIMD: "clock_gpsimd",
}

SLOWED = {
    "issue": ("dma.issue_hw", "dma.issue_static", "dma.issue_sw"),
    "latency": ("dma.dispatch_load", "dma.notify_load"),
    "semaphore": ("sem.wake",),
    "table": ("act.table_load",),
}
"""Figures of which the first that changes scales measured times."""

RATES = {"hbm": "hbm_nc", "dma": "dma_core_peak", "wire": "neuronlink_bw"}

Bounds = tuple[np.ndarray, np.ndarray, np.ndarray]
"""First, then (places: instructions, then transfers), least distance of their starts, ps."""


@dataclass(frozen=True, slots=True)
class Factors:
    """By what measured times are multiplied."""

    engine: Mapping[int, float]
    issue: float
    latency: float
    semaphore: float
    table: float
    hbm: float
    dma: float
    wire: float

    @classmethod
    def between(cls, before: Device, after: Device, free: frozenset[str]) -> Factors:
        """The factors of a change of figures.

        free : engines of which nothing is asked; "dma" for the transfers
        """
        engine = {int(each): _ratio(after, before, id) for each, id in CLOCKS.items()}
        engine |= {int(each): 0.0 for each in CLOCKS if each.name.lower() in free}
        changes = {name: [_ratio(before, after, id) for id in ids] for name, ids in SLOWED.items()}
        slowed = {name: next((ratio for ratio in ratios if ratio != 1), 1.0) for name, ratios in changes.items()}
        rates = {name: _ratio(after, before, id) for name, id in RATES.items()}
        if "dma" in free:
            slowed |= {"issue": 0.0, "latency": 0.0}
            rates |= {"hbm": 0.0, "dma": 0.0}
        return cls(engine=engine, **slowed, **rates)


def _ratio(over: Device, under: Device, id: str) -> float:
    """The figure of the second device by that of the first; 1 where they lack it."""
    return under[id] / over[id] if over.get(id) else 1.0


def known_figures(device: Device) -> frozenset[str]:
    """Figures whose change moves something."""
    slowed = (id for ids in SLOWED.values() for id in ids)
    return frozenset(id for id in (*CLOCKS.values(), *slowed, *RATES.values()) if id in device)


def retime(trace: Trace, before: Device, after: Device, free: frozenset[str]) -> Trace:
    """The trace as it would be on the other device, an estimate; raises UnsupportedError without instructions."""
    if not len(trace.instructions):
        raise UnsupportedError(f"{trace.meta.source}: has no instructions to time anew")
    chain = Chain(trace)
    factors = Factors.between(before, after, free)
    lengths = _Lengths(chain, factors, before)
    start = _starts(chain, lengths)
    return _moved(trace, chain, lengths, start)


class _Lengths:
    """How long everything takes now."""

    def __init__(self, chain: Chain, factors: Factors, device: Device):
        ins, moved = chain.trace.instructions, chain.moved
        scale = np.array([factors.engine.get(int(each), 1.0) for each in Engine])[ins.engine]
        scale[ins.control] = 1.0
        scale[chain.index.issue] = factors.issue
        scale[chain.index.table] *= factors.table
        scale[chain.collective] = factors.wire
        self.row_scale = scale
        self.row = _scaled(chain.stop - chain.start, scale)
        self.factors = factors
        self.transfer = _scaled(moved.end_ps - moved.start_ps, self._bytes(chain, device))
        self.notify = _scaled(np.maximum(0, chain.done - moved.end_ps), factors.latency)

    def _bytes(self, chain: Chain, device: Device) -> np.ndarray:
        """Factor of each transfer: its time at the lower of the changed roofs by that at the lower of the old."""
        moved, factors = chain.moved, self.factors
        if "hbm_nc" not in device or "dma_core_peak" not in device:
            found = np.full(len(moved), factors.dma)
        else:
            hbm, dma = device["hbm_nc"] * GIGA, device["dma_core_peak"] * GIGA
            found = np.full(len(moved), max(factors.hbm / hbm, factors.dma / dma) / max(1 / hbm, 1 / dma))
        known = moved.instruction >= 0
        wired = np.zeros(len(moved), bool)
        wired[known] = chain.collective[moved.instruction[known]]
        found[wired] = factors.wire
        return found


def _scaled(length: np.ndarray, factor: np.ndarray | float) -> np.ndarray:
    return np.rint(length * factor).astype(np.int64)


def _starts(chain: Chain, lengths: _Lengths) -> np.ndarray:
    """New starts: of the instructions, then of the transfers."""
    from trnprof.jit.coarse import push_apart

    old = np.concatenate((chain.start, chain.moved.start_ps))
    parts = list(_bounds(chain, lengths))
    first, then, least = (np.ascontiguousarray(np.concatenate(column), np.int64) for column in zip(*parts))
    kept = (first != then) & (old[first] <= old[then])
    first, then, least = first[kept], then[kept], least[kept]
    order = np.lexsort((first, old[first], old[then]))
    first, then, least = first[order], then[order], least[order]
    time = old.copy()
    time[np.unique(then)] = np.iinfo(np.int64).min // 2
    # Each pass settles at least one more start; real traces need two or three.
    for _ in range(old.size + 1):
        if not push_apart(first, then, least, time):
            break
    return time


def _bounds(chain: Chain, lengths: _Lengths) -> Iterator[Bounds]:
    yield _in_order(chain, lengths)
    yield _by_instruction(chain, lengths)
    yield from _by_transfer(chain, lengths)
    yield from _to_transfer(chain, lengths)


def _in_order(chain: Chain, lengths: _Lengths) -> Bounds:
    """Each engine keeps its order; what nothing else bound keeps its distance."""
    then = np.flatnonzero(chain.before >= 0)
    first = chain.before[then]
    apart = chain.start[then] - chain.start[first]
    wait = chain.wait[then]
    own = (chain.wait_for[then] < 0) | np.isin(wait, (Wait.UNKNOWN, Wait.ENGINE, Wait.ISSUE, Wait.TABLE))
    busy = np.minimum(apart, chain.stop[first] - chain.start[first])
    gap = np.where(own, apart - busy, 0)
    return first, then, _scaled(busy, lengths.row_scale[first]) + gap


def _by_instruction(chain: Chain, lengths: _Lengths) -> Bounds:
    """Dependences on instructions that triggered nothing."""
    first, then = _pairs(chain)
    kept = chain.by_trigger.count(first) == 0
    first, then = first[kept], then[kept]
    return first, then, lengths.row[first] + _seen(chain, lengths, first, then, chain.stop[first])


def _by_transfer(chain: Chain, lengths: _Lengths) -> Iterator[Bounds]:
    """Dependences on transfers: those of the trigger that were done before the waiter started."""
    first, then = _pairs(chain)
    transfer, pair = chain.by_trigger.spread(first)
    kept = chain.done[transfer] <= chain.start[then[pair]] + SEMAPHORE_PS
    transfer, pair = transfer[kept], pair[kept]
    took = lengths.transfer[transfer] + lengths.notify[transfer]
    late = _seen(chain, lengths, first[pair], then[pair], chain.done[transfer])
    yield transfer + len(chain.start), then[pair], took + late


def _pairs(chain: Chain) -> tuple[np.ndarray, np.ndarray]:
    """(signaler, waiter) of every dependence, and of what bound each start."""
    edges = chain.trace.edges
    known = (edges.signaler >= 0) & (edges.waiter >= 0)
    bound = np.flatnonzero((chain.wait_for >= 0) & (chain.wait != Wait.UNKNOWN))
    return (
        np.concatenate((edges.signaler[known], chain.wait_for[bound])),
        np.concatenate((edges.waiter[known], bound)),
    )


def _seen(chain: Chain, lengths: _Lengths, first: np.ndarray, then: np.ndarray, done: np.ndarray) -> np.ndarray:
    """From a completion until the waiter may start: as measured where it was what bound the start."""
    gap = chain.start[then] - done
    binds = chain.wait_for[then] == first
    kept = np.where(binds, gap, np.minimum(gap, SEMAPHORE_PS))
    return np.where(kept > 0, _scaled(kept, lengths.factors.semaphore), kept)


def _to_transfer(chain: Chain, lengths: _Lengths) -> Iterator[Bounds]:
    """From triggers to their transfers, and from one transfer of a queue to the next where that held it up."""
    moved, rows = chain.moved, len(chain.start)
    then = np.flatnonzero(moved.instruction >= 0)
    first = moved.instruction[then]
    ahead = chain.held_up_by[then]
    held = ahead >= 0
    apart = moved.start_ps[then] - chain.start[first]
    busy = np.minimum(apart, chain.stop[first] - chain.start[first])
    wait = np.where(held, 0, apart - busy)
    least = _scaled(busy, lengths.row_scale[first]) + _scaled(np.maximum(wait, 0), lengths.factors.latency)
    yield first, then + rows, np.where(apart >= 0, least, apart)
    before, after = ahead[held], then[held]
    gap = moved.start_ps[after] - moved.end_ps[before]
    yield before + rows, after + rows, lengths.transfer[before] + _scaled(gap, lengths.factors.latency)


def _moved(trace: Trace, chain: Chain, lengths: _Lengths, start: np.ndarray) -> Trace:
    """The trace with new times; counters and semaphores, which nothing tells anew, are left out."""
    rows = len(trace.instructions)
    order = np.argsort(start[:rows], kind="stable")
    place = _inverse(order)
    moved_order = np.argsort(start[rows:], kind="stable")
    moved_place = _inverse(moved_order)
    begin, end = start[:rows], start[:rows] + lengths.row
    from_, to = start[rows:], start[rows:] + lengths.transfer
    instructions = _with(trace.instructions, start_ps=begin, end_ps=end,
                         wait_for=place[trace.instructions.wait_for]).take(order)  # fmt: skip
    moves = {"start_ps": from_, "end_ps": to, "done_ps": to + lengths.notify}
    transfers = _with(trace.transfers, **moves, instruction=place[trace.transfers.instruction]).take(moved_order)
    edges = _with(trace.edges, signaler=place[trace.edges.signaler], waiter=place[trace.edges.waiter])
    window = _window(chain, begin, end, to + lengths.notify)
    meta = replace(
        trace.meta,
        is_simulation=True,
        window=window,
        total_ps=max(0, trace.meta.total_ps + window[1] - trace.meta.window[1]),
        summary={},
        notes=(*trace.meta.notes, "Timed anew from a captured profile: measured times, scaled; a coarse estimate."),
    )
    return Trace(
        meta,
        trace.strings,
        instructions,
        transfers,
        _packets(trace, from_, to, moved_place),
        Edges(len(edges), **{name: edges.column(name) for name in edges.present() if name != "ready_ps"}),
        regions=_regions(trace, begin, _complete(trace, end, to + lengths.notify)),
        tensors=trace.tensors,
    )


def _inverse(order: np.ndarray) -> np.ndarray:
    """New place of each old row; one more at the end keeps -1."""
    place = np.full(order.size + 1, NONE, np.int64)
    place[order] = np.arange(order.size)
    return place


def _with(table: Table, **columns: np.ndarray) -> Table:
    kept = {name: table.column(name) for name in table.present()}
    return type(table)(len(table), **{**kept, **columns})


def _window(chain: Chain, begin: np.ndarray, end: np.ndarray, done: np.ndarray) -> tuple[int, int]:
    """Where the kernel lies now: first start to last completion of what lay in the old window."""
    inside = ~chain.trace.instructions.control & (chain.start >= chain.begin) & (chain.start < chain.end)
    moved = (chain.moved.start_ps >= chain.begin) & (chain.moved.start_ps < chain.end)
    reach = max(int(chain.stop[inside].max(initial=0)), int(chain.done[moved].max(initial=0)))
    last = max(int(end[inside].max(initial=0)), int(done[moved].max(initial=0)))
    return chain.begin, max(chain.begin, last + chain.end - reach)


def _packets(trace: Trace, start: np.ndarray, end: np.ndarray, place: np.ndarray) -> Packets:
    """The packets of each transfer, spread over its new time as they were over the old."""
    packets, moved = trace.packets, trace.transfers
    owned = np.flatnonzero(packets.transfer >= 0)
    owner = packets.transfer[owned]
    ratio = (end - start) / np.maximum(1, moved.end_ps - moved.start_ps)
    times = {}
    for name in ("start_ps", "end_ps"):
        offset = (packets.column(name)[owned] - moved.start_ps[owner]) * ratio[owner]
        times[name] = start[owner] + np.rint(offset).astype(np.int64)
    kept = {name: packets.column(name)[owned] for name in packets.present()}
    table = Packets(owned.size, **{**kept, **times, "transfer": place[owner]})
    return table.take(np.argsort(times["start_ps"], kind="stable"))


def _complete(trace: Trace, end: np.ndarray, done: np.ndarray) -> np.ndarray:
    """When each instruction and all that it triggered is over."""
    found, linked = end.copy(), np.flatnonzero(trace.transfers.instruction >= 0)
    np.maximum.at(found, trace.transfers.instruction[linked], done[linked])
    return found


def _regions(trace: Trace, begin: np.ndarray, end: np.ndarray) -> Regions:
    """The tree with the new first starts and last ends."""
    table, inside = trace.regions, trace.instructions.region
    low, high = np.full(len(table), np.iinfo(np.int64).max), np.full(len(table), NONE, np.int64)
    known = inside >= 0
    np.minimum.at(low, inside[known], begin[known])
    np.maximum.at(high, inside[known], end[known])
    for row in range(len(table) - 1, -1, -1):
        above = int(table.parent[row])
        if above >= 0 and high[row] >= 0:
            low[above], high[above] = min(low[above], low[row]), max(high[above], high[row])
    used = high >= 0
    return _with(table, start_ps=np.where(used, low, table.start_ps), end_ps=np.where(used, high, table.end_ps))
