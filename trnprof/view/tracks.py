"""Which rows of the timeline a trace has, and the lanes behind each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sim.trace import NONE, Engine, QueueType, RegionKind, Table, Trace
from trnprof.view import format as words
from trnprof.view.lanes import Columns, Lane
from trnprof.view.palette import ENGINE_COLOURS, NEUTRAL
from trnprof.view.records import WASTE, WORK, Track

MAX_LANES = 8
"""Regions and general timelines that nest deeper share their last line."""

GROUPS = {
    "regions": "Regions",
    "engines": "Engines",
    "dma": "DMA queues",
    "collectives": "Collectives",
    "counters": "Counters",
}
"""In the order of the screen: what the work is, who does it, what moves, what fills."""

_TINY_BYTES = 64
"""A packet of fewer bytes is a semaphore write or a descriptor, not payload."""


@dataclass(frozen=True, slots=True)
class Row:
    """A track and what it draws from."""

    track: Track
    lanes: tuple[Lane, ...] = ()
    idle: Lane | None = None
    """All rows of the engine, in which the gaps lie; only on the first track of an engine."""


def instruction_columns(trace: Trace) -> Columns:
    """Intervals of all instructions with their kind of time."""
    table = trace.instructions
    flags = np.where(table.control, 0, WORK).astype(np.uint8)
    flags[~table.control & wasteful(trace)] |= WASTE
    return Columns(table.start_ps, table.end_ps, flags)


def wasteful(trace: Trace) -> np.ndarray:
    """Which instructions do what the algorithm did not ask for: transposes, table loads, spills and reloads."""
    table = trace.instructions
    codes = np.array(["TRANSPOSE" in text or "TABLE_LOAD" in text for text in trace.strings] + [False], np.bool_)
    found = codes[table.kind] | codes[table.opcode]
    return found | (table.spill_save_bytes > 0) | (table.spill_reload_bytes > 0)


def engine_rows(trace: Trace, columns: Columns, core: int) -> list[Row]:
    """One track an engine that did anything; two for TensorE, whose array and weights work side by side."""
    table = trace.instructions
    here = table.core == core
    rows = []
    for engine in Engine:
        of_engine = here & (table.engine == engine)
        if not of_engine.any():
            continue
        if engine == Engine.TENSOR:
            rows += _tensor_rows(trace, columns, core, of_engine)
        elif engine == Engine.OTHER:
            rows += _general_rows(trace, columns, core, of_engine)
        else:
            lane = Lane(columns, np.flatnonzero(of_engine))
            small = engine in (Engine.GPSIMD, Engine.SYNC)
            rows.append(Row(_engine_track(core, engine, height=16 if small else 26), (lane,), lane))
    return rows


def _engine_track(core: int, engine: int, **changes: object) -> Track:
    colour = ENGINE_COLOURS[engine]
    track = Track(
        id=f"c{core}.{colour}",
        group=f"c{core}.{'collectives' if engine == Engine.COLLECTIVE else 'engines'}",
        group_name="",
        name=words.ENGINE_WORDS[engine],
        code=words.ENGINE_CODES[engine],
        kind="instructions",
        colour=int(engine),
        core=core,
        engine=int(engine),
    )
    return replace(track, **changes)


def _tensor_rows(trace: Trace, columns: Columns, core: int, here: np.ndarray) -> list[Row]:
    """The array's track, then the one that loads its weights; control goes with the weights."""
    table = trace.instructions
    known = trace.strings.find("TensorMatrix")
    array = here & (table.track == known) if known != NONE else np.zeros_like(here)
    if not array.any():
        matmul = np.array(["MATMUL" in text for text in trace.strings] + [False], np.bool_)
        array = here & matmul[table.opcode]
    whole = Lane(columns, np.flatnonzero(here))
    if not array.any() or not (here & ~array).any():
        return [Row(_engine_track(core, Engine.TENSOR), (whole,), whole)]
    first = _engine_track(core, Engine.TENSOR, name="TensorE array")
    second = _engine_track(
        core, Engine.TENSOR, id=f"c{core}.weights", name="TensorE weights", code="Tw", height=14, minor=True
    )
    return [
        Row(first, (Lane(columns, np.flatnonzero(array)),), whole),
        Row(second, (Lane(columns, np.flatnonzero(here & ~array)),)),
    ]


def _general_rows(trace: Trace, columns: Columns, core: int, here: np.ndarray) -> list[Row]:
    """Threads of a general timeline: nested slices get a line each."""
    table = trace.instructions
    rows = []
    for code in np.unique(table.track[here]):
        members = np.flatnonzero(here & (table.track == code))
        lanes = spread(columns, members)
        name = words.plain(trace.strings[int(code)] or "events", 48)
        track = _engine_track(core, Engine.OTHER, id=f"c{core}.t.{int(code)}", name=name, code=name[:3])
        rows.append(Row(replace(track, **_stacked(len(lanes), 16)), lanes))
    return rows


def spread(columns: Columns, members: np.ndarray, floor: np.ndarray | None = None) -> tuple[Lane, ...]:
    """Lanes in which rows do not overlap, but for the last; members are sorted by start."""
    from trnprof.jit.frames import lanes

    out = np.empty(members.size, np.int32)
    lowest = np.zeros(members.size, np.int32) if floor is None else floor.astype(np.int32)
    used = lanes(columns.start[members], columns.end[members], lowest, MAX_LANES, out)
    return tuple(Lane(columns, members[out == k]) for k in range(used))


def _stacked(lanes: int, height: int) -> dict[str, int]:
    return {"lanes": lanes, "lane_height": height, "height": lanes * height + 2}


def dma_rows(trace: Trace, core: int, transfers: Columns, packets: Columns) -> list[Row]:
    """One track a queue, busiest first, then the DMA engines of the core."""
    rows = []
    table = trace.transfers
    here = table.core == core
    for code in _by_bytes(table, here):
        members = np.flatnonzero(here & (table.queue == code))
        moved = int(table.bytes[members].sum())
        name = words.plain(trace.strings[code] or "queue", 48)
        track = _dma_track(core, f"q.{code}", name, _queue_code(name), words.size(moved))
        rows.append(Row(replace(track, height=22 if moved else 14), (Lane(transfers, members),)))
    here = trace.packets.core == core
    engines = np.unique(trace.packets.dma_engine[here])
    if engines.size:
        lanes = tuple(Lane(packets, np.flatnonzero(here & (trace.packets.dma_engine == e))) for e in engines)
        track = _dma_track(core, "engines", words.plural(len(lanes), "DMA engine"), f"×{len(lanes)}", "")
        track = replace(track, kind="packets", minor=True, lanes=len(lanes), lane_height=3, height=3 * len(lanes) + 4)
        rows.append(Row(track, lanes))
    return rows


def _by_bytes(table: Table, here: np.ndarray) -> list[int]:
    """Queue codes of the rows, most bytes first, then by first appearance."""
    codes, first, inverse = np.unique(table.queue[here], return_index=True, return_inverse=True)
    moved = np.bincount(inverse, table.bytes[here], codes.size) if codes.size else np.zeros(0)
    return [int(codes[k]) for k in np.lexsort((first, -moved))]


def _queue_code(name: str) -> str:
    return (name[1:] if name[:1] == "q" and name[1:2].isupper() else name)[:2].lower()


def _dma_track(core: int, suffix: str, name: str, code: str, text: str) -> Track:
    return Track(
        id=f"c{core}.dma.{suffix}",
        group=f"c{core}.dma",
        group_name="",
        name=name,
        code=code,
        kind="transfers",
        colour=int(Engine.DMA),
        core=core,
        engine=int(Engine.DMA),
        words=text,
    )


def transfer_columns(trace: Trace) -> Columns:
    table = trace.transfers
    payload = (table.bytes > _TINY_BYTES) & (table.queue_type != QueueType.INSTRUCTION)
    return Columns(table.start_ps, table.end_ps, np.where(payload, WORK, 0).astype(np.uint8))


def packet_columns(trace: Trace) -> Columns:
    table = trace.packets
    payload = (table.bytes > _TINY_BYTES) & (table.queue_type != QueueType.INSTRUCTION)
    return Columns(table.start_ps, table.end_ps, np.where(payload, WORK, 0).astype(np.uint8))


def region_row(trace: Trace, core: int) -> Row | None:
    """The flame graph: what the work is, outermost first; source lines come and go too often to be boxes of it."""
    table = trace.regions
    here = (table.core == core) | (table.core == NONE)
    members = np.flatnonzero(here & (table.kind != RegionKind.LINE))
    if not members.size:
        return None
    columns = Columns(table.start_ps, table.end_ps, np.full(len(table), WORK, np.uint8))
    order = members[np.argsort(table.start_ps[members], kind="stable")]
    lanes = spread(columns, order, region_depth(table.parent)[order])
    name = ", ".join(RegionKind(kind).name.lower() for kind in np.unique(table.kind[members])[:3])
    track = Track(f"c{core}.regions", f"c{core}.regions", "", name, "krn", "regions", NEUTRAL, core)
    return Row(replace(track, **_stacked(len(lanes), 17)), lanes)


def region_depth(parent: np.ndarray) -> np.ndarray:
    """How many regions enclose each; parents come before children."""
    depth = np.zeros(parent.size, np.int32)
    for row, above in enumerate(parent.tolist()):
        if above != NONE:
            depth[row] = depth[above] + 1
    return depth
