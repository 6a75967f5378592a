"""An operator in few rows: how busy each engine and each DMA engine is in each slice of its time.

A model repeats its layers. One instance of each operator keeps every instruction; of the others the sums of work and
the share of time at work stay, slice by slice, with which every figure of a summary or a verdict is made.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim.models.placing import Stretch
from sim.trace import NONE, Counters, Engine, Instructions, Packets, RegionKind, Regions, Table, Transfers

SUMS = (
    "elements", "flops", "adjusted_flops", "hbm_read_bytes", "hbm_write_bytes", "sbuf_read_bytes", "sbuf_write_bytes",
    "psum_read_bytes", "psum_write_bytes", "spill_save_bytes", "spill_reload_bytes",
)  # fmt: skip
KEYS = ("core", "engine", "opcode", "dtype", "kind", "source", "track")
"""Instructions that agree in these become one row in each slice."""

MOVED = ("bytes", "read_bytes", "write_bytes", "descriptors")
"""Sums of transfers and packets."""

FEW = 64
"""Steps of a counter that are kept as they are."""


def coarse(fine: Stretch, slices: int, clock: int = NONE) -> Stretch:
    """The stretch in `slices` equal parts of its time, of the same duration.

    clock : code of the counter that says when TensorE's clock is down
    """
    edges = np.linspace(0, fine.duration_ps, slices + 1).round().astype(np.int64)
    kernel = _kernel(fine)
    instructions, place = _instructions(fine.tables["instructions"], edges, 0 if len(kernel) else NONE)
    transfers, moved = _transfers(fine.tables["transfers"], place, instructions, edges)
    packets = _packets(fine.tables["packets"], moved, len(transfers), edges)
    tables: dict[str, Table] = {"instructions": instructions, "transfers": transfers, "packets": packets}
    steps = fine.tables["counters"] if "counters" in fine.tables else Counters(0)
    steps = steps.take(steps.counter == clock)
    if len(steps):
        tables["counters"] = steps if len(steps) <= FEW else _clock(fine, steps, edges)
    return Stretch(fine.duration_ps, tables | {"regions": kernel})


def _clock(fine: Stretch, steps: Counters, edges: np.ndarray) -> Counters:
    """In each slice, TensorE's clock is down for as long as TensorE works with it down."""
    core = int(steps.core.min())
    steps = steps.take(steps.core == core)
    lowest = float(steps.value.min())
    down = steps.value < 1
    until = np.append(steps.time_ps[1:], edges[-1])
    table = fine.tables["instructions"]
    mine = (table.engine == Engine.TENSOR) & (table.core == core)
    cold = steps.time_ps[down], until[down]
    busy = table.start_ps[mine], table.end_ps[mine]
    either = [np.concatenate(pair) for pair in zip(cold, busy, strict=True)]
    # What both cover is what each covers less what either does.
    both = busy_until(*cold, edges) + busy_until(*busy, edges) - busy_until(*either, edges)
    length = np.rint(np.diff(both)).astype(np.int64)
    time = np.stack((edges[:-1], edges[:-1] + length), 1).reshape(-1)
    value = np.tile([lowest, 1.0], length.size)
    return Counters(
        time.size,
        counter=np.full(time.size, steps.counter[0]),
        core=np.full(time.size, core),
        time_ps=time,
        value=value,
    )


def _kernel(fine: Stretch) -> Regions:
    """The outermost region alone; none of several operators."""
    table = fine.tables["regions"]
    rows = np.flatnonzero((table.parent < 0) & (table.kind == RegionKind.KERNEL))[:1]
    return table.take(rows)


def _instructions(table: Instructions, edges: np.ndarray, region: int) -> tuple[Instructions, np.ndarray]:
    """The rows, and into which each instruction went; one that lasts over an edge goes on in a row without counts."""
    owner, part, first, length = _cut(table.start_ps, table.end_ps, edges)
    keys = np.stack([part, *(table.column(name)[owner].astype(np.int64) for name in KEYS)])
    groups, example, number = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    number, size = number.reshape(-1), groups.shape[1]
    start, end = _laid_out(table, groups, np.bincount(number, length, size), edges)
    home = number[first]
    columns = {name: groups[1 + k] for k, name in enumerate(KEYS)}
    columns |= {name: _added(home, table.column(name), size) for name in SUMS if table.has(name)}
    columns["count"] = _added(home, table.count, size)
    passed = np.bincount(home, table.partitions.astype(float) * table.elements, size)
    columns["partitions"] = np.rint(passed / np.maximum(1, columns.get("elements", 1))).astype(np.int64)
    columns["function"] = table.function[owner[example]]
    columns["control"] = table.control[owner[example]]
    order = np.argsort(start, kind="stable")
    columns = {name: values[order] for name, values in columns.items()}
    place = np.empty(size, np.int64)
    place[order] = np.arange(size)
    made = Instructions(
        size, id=np.arange(size), start_ps=start[order], end_ps=end[order], region=np.full(size, region), **columns
    )
    return made, place[home]


def _cut(start: np.ndarray, end: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, ...]:
    """Intervals cut at the edges: (interval, slice) of each piece, the first piece of each interval, lengths."""
    low = _slice_of(start, edges)
    high = np.clip(np.searchsorted(edges, end, "left") - 1, low, edges.size - 2)
    count = high - low + 1
    owner = np.repeat(np.arange(start.size), count)
    first = np.cumsum(count) - count
    part = low[owner] + np.arange(owner.size) - first[owner]
    length = np.minimum(end[owner], edges[part + 1]) - np.maximum(start[owner], edges[part])
    return owner, part, first, np.maximum(0, length)


def _slice_of(moments: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.clip(np.searchsorted(edges, moments, "right") - 1, 0, edges.size - 2)


def _laid_out(
    table: Instructions, groups: np.ndarray, length: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Start and end of each row: those of one engine in one slice follow each other, as long as it is at work there."""
    part, core, engine = groups[:3]
    start = edges[part].astype(np.int64)
    end = start.copy()
    lane = core * 64 + engine
    lanes = table.core.astype(np.int64) * 64 + table.engine
    for key in np.unique(lane):
        mine = lanes == key
        busy = np.diff(busy_until(table.start_ps[mine], table.end_ps[mine], edges))
        for at in range(edges.size - 1):
            rows = np.flatnonzero((lane == key) & (part == at))
            if rows.size:
                share = length[rows] / max(1.0, length[rows].sum())
                # Collectives come last, so that they do not seem to hide behind work that came before them.
                begin = edges[at + 1] - int(busy[at]) if key % 64 == Engine.COLLECTIVE else edges[at]
                ends = begin + np.rint(np.cumsum(share) * busy[at]).astype(np.int64)
                end[rows] = ends
                start[rows] = np.concatenate(([begin], ends[:-1]))
    return start, end


def _transfers(
    table: Transfers, place: np.ndarray, instructions: Instructions, edges: np.ndarray
) -> tuple[Transfers, np.ndarray]:
    """The rows, and into which each transfer went: those that one row triggered, by where they go."""
    size = len(table)
    trigger = np.where(table.instruction >= 0, place[table.instruction], NONE) if size else np.empty(0, np.int64)
    part = _slice_of(table.start_ps, edges)
    keys = np.stack((part, trigger, table.core, table.source_memory, table.dest_memory)).astype(np.int64)
    groups, first, number = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    number, count = number.reshape(-1), groups.shape[1]
    wired = _sent(instructions, groups[1])
    busy = _busy(table, wired[number], edges)
    start = edges[groups[0]].astype(np.int64)
    end = start + busy[groups[0]]
    # What a collective sends lasts as long as itself.
    start[wired], end[wired] = (times[groups[1][wired]] for times in (instructions.start_ps, instructions.end_ps))
    columns = {name: _added(number, table.column(name), count) for name in MOVED}
    made = Transfers(
        count, id=np.arange(count), start_ps=start, end_ps=end, done_ps=end, instruction=groups[1], core=groups[2],
        queue=table.queue[first], queue_type=table.queue_type[first], source_memory=groups[3], dest_memory=groups[4],
        **columns,
    )  # fmt: skip
    order = np.argsort(start, kind="stable")
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    return made.take(order), rank[number]


def _sent(instructions: Instructions, triggers: np.ndarray) -> np.ndarray:
    """Which transfers a collective sends."""
    if not len(instructions):
        return np.zeros(triggers.size, bool)
    return (triggers >= 0) & (instructions.engine[triggers] == Engine.COLLECTIVE)


def _busy(table: Transfers, wired: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Time in each slice in which a transfer that is no collective's is under way."""
    own = ~wired
    return np.diff(busy_until(table.start_ps[own], table.end_ps[own], edges)).astype(np.int64)


def _packets(table: Packets, moved: np.ndarray, transfers: int, edges: np.ndarray) -> Packets:
    """One row for each DMA engine and slice in which it works, with its part of the bytes."""
    rows = list(_lanes(table, moved, edges))
    if not rows or not transfers:
        return Packets(0)
    columns = [np.concatenate(values) for values in zip(*rows, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    names = ("start_ps", "end_ps", "transfer", "core", "dma_engine", *MOVED)
    made = {name: values[order] for name, values in zip(names, columns, strict=True)}
    return Packets(order.size, id=np.arange(order.size), **made)


def _lanes(table: Packets, moved: np.ndarray, edges: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    owner = np.where(table.transfer >= 0, moved[table.transfer], NONE) if len(table) else np.empty(0, np.int64)
    lanes = table.core.astype(np.int64) * 1024 + table.dma_engine
    part = _slice_of(table.start_ps, edges)
    for key in np.unique(lanes):
        mine = np.flatnonzero(lanes == key)
        busy = np.diff(busy_until(table.start_ps[mine], table.end_ps[mine], edges)).astype(np.int64)
        used = np.flatnonzero(busy > 0)
        if not used.size:
            continue
        done = np.cumsum(busy[used]) / busy.sum()
        sums = [np.diff(np.rint(done * table.column(name)[mine].sum()), prepend=0).astype(np.int64) for name in MOVED]
        near = mine[np.clip(np.searchsorted(part[mine], used), 0, mine.size - 1)]
        start = edges[used]
        core, engine = np.full(used.size, key // 1024), np.full(used.size, key % 1024)
        yield start, start + busy[used], owner[near], core, engine, *sums


def busy_until(start: np.ndarray, end: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """Time in which at least one interval had been under way, up to each moment."""
    if not start.size:
        return np.zeros(moments.size)
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    opens = np.flatnonzero(np.concatenate(([True], start[1:] > end[:-1])))
    first, last = start[opens], end[np.concatenate((opens[1:] - 1, [end.size - 1]))]
    total = np.cumsum(last - first)
    times = np.stack((first, last), 1).reshape(-1)
    sums = np.stack((total - (last - first), total), 1).reshape(-1)
    return np.interp(moments, times, sums)


def _added(number: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    sums = np.zeros(size, np.int64)
    np.add.at(sums, number, values)
    return sums
