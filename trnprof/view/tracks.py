"""Which rows of the timeline a trace has, and the lanes behind each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sim.trace import NONE, Arrays, Engine, QueueType, RegionKind, Table, Trace
from trnprof.view import format as words
from trnprof.view.lanes import Columns, Lane
from trnprof.view.palette import ENGINE_COLOURS, NEUTRAL
from trnprof.view.records import WASTE, WORK, Track
from trnprof.work import with_text

MAX_LANES = 8
"""Regions and general timelines that nest deeper share their last line."""

GROUPS = {
    "regions": "Regions",
    "engines": "Engines",
    "dma": "DMA queues",
    "collectives": "Collectives",
    "semaphores": "Semaphores",
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

    def flags() -> Arrays:
        found = np.where(table.control, 0, WORK).astype(np.uint8)
        found[~table.control & wasteful(trace)] |= WASTE
        return {"flags": found}

    return Columns(table.start_ps, table.end_ps, trace.derive("instructions", flags)["flags"])


def wasteful(trace: Trace) -> np.ndarray:
    """Which instructions do what the algorithm did not ask for: transposes, table loads, spills and reloads."""
    table = trace.instructions
    found = np.zeros(len(table), bool)
    for column in ("kind", "opcode"):
        if table.has(column):
            found |= with_text(trace, column, lambda text: "TRANSPOSE" in text or "TABLE_LOAD" in text)
    for column in ("spill_save_bytes", "spill_reload_bytes"):
        if table.has(column):
            found |= table.column(column) > 0
    return found


def engine_rows(trace: Trace, columns: Columns, core: int) -> list[Row]:
    """One track an engine that did anything; two for TensorE, whose array and weights work side by side."""
    members = trace.derive(f"c{core}.engines", lambda: _members(trace, core))
    rows = []
    for engine in Engine:
        if str(int(engine)) not in members:
            continue
        if engine == Engine.TENSOR:
            rows += _tensor_rows(trace, columns, core, members)
        elif engine == Engine.OTHER:
            rows += _general_rows(trace, columns, core, members[str(int(engine))])
        else:
            lane = Lane(columns, members[str(int(engine))], trace, f"c{core}.{int(engine)}")
            small = engine in (Engine.GPSIMD, Engine.SYNC)
            rows.append(Row(_engine_track(core, engine, height=16 if small else 26), (lane,), lane))
    return rows


def _members(trace: Trace, core: int) -> Arrays:
    """Rows of each engine of a core by its number, and those of TensorE's two parts where both are there."""
    table = trace.instructions
    here = np.flatnonzero(table.core == core).astype(np.int32)
    engine = table.engine[here]
    found = {str(int(each)): here[engine == each] for each in Engine}
    found = {name: rows for name, rows in found.items() if rows.size}
    if str(int(Engine.TENSOR)) in found:
        rows = found[str(int(Engine.TENSOR))]
        known = trace.strings.find("TensorMatrix")
        array = table.track[rows] == known if known != NONE else np.zeros(rows.size, bool)
        if not array.any():
            array = with_text(trace, "opcode", lambda text: "MATMUL" in text)[rows]
        if array.any() and not array.all():
            found |= {"array": rows[array], "weights": rows[~array]}
    return found


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


def _tensor_rows(trace: Trace, columns: Columns, core: int, members: Arrays) -> list[Row]:
    """The array's track, then the one that loads its weights; control goes with the weights."""

    def lane(name: str) -> Lane:
        return Lane(columns, members[name], trace, f"c{core}.{name}")

    whole = lane(str(int(Engine.TENSOR)))
    if "array" not in members:
        return [Row(_engine_track(core, Engine.TENSOR), (whole,), whole)]
    first = _engine_track(core, Engine.TENSOR, name="TensorE array")
    second = _engine_track(
        core, Engine.TENSOR, id=f"c{core}.weights", name="TensorE weights", code="Tw", height=14, minor=True
    )
    return [
        Row(first, (lane("array"),), whole),
        Row(second, (lane("weights"),)),
    ]


def _general_rows(trace: Trace, columns: Columns, core: int, here: np.ndarray) -> list[Row]:
    """Threads of a general timeline: nested slices get a line each."""
    rows = []
    threads = trace.derive(f"c{core}.threads", lambda: _threads(trace, columns, here))
    for code in sorted({int(name.partition(".")[0]) for name in threads}):
        count = sum(name.startswith(f"{code}.") for name in threads)
        lanes = tuple(Lane(columns, threads[f"{code}.{k}"], trace, f"c{core}.t.{code}.{k}") for k in range(count))
        name = words.plain(trace.strings[int(code)] or "events", 48)
        track = _engine_track(core, Engine.OTHER, id=f"c{core}.t.{int(code)}", name=name, code=name[:3])
        rows.append(Row(replace(track, **_stacked(len(lanes), 16)), lanes))
    return rows


def _threads(trace: Trace, columns: Columns, here: np.ndarray) -> Arrays:
    """Rows of each lane of each thread, `<code>.<lane>`."""
    track = trace.instructions.track[here]
    order = np.argsort(track, kind="stable")
    codes, first = np.unique(track[order], return_index=True)
    parts = np.split(here[order], first[1:])
    return {
        f"{code}.{k}": lane.rows
        for code, members in zip(codes.tolist(), parts, strict=True)
        for k, lane in enumerate(spread(columns, members))
    }


def spread(
    columns: Columns, members: np.ndarray, floor: np.ndarray | None = None, trace: Trace | None = None, name: str = ""
) -> tuple[Lane, ...]:
    """Lanes in which rows do not overlap, but for the last; members are sorted by start.

    trace, name : as of `Lane`
    """
    from trnprof.jit.frames import lanes

    out = np.empty(members.size, np.int32)
    lowest = np.zeros(members.size, np.int32) if floor is None else floor.astype(np.int32)
    used = lanes(columns.start[members], columns.end[members], lowest, MAX_LANES, out)
    return tuple(Lane(columns, members[out == k], trace, f"{name}.{k}") for k in range(used))


def _stacked(lanes: int, height: int) -> dict[str, int]:
    return {"lanes": lanes, "lane_height": height, "height": lanes * height + 2}


def dma_rows(trace: Trace, core: int, transfers: Columns, packets: Columns) -> list[Row]:
    """One track a queue, busiest first, then the DMA engines of the core."""
    rows = []
    found = trace.derive(f"c{core}.dma", lambda: _dma_members(trace, core))
    for code, moved in zip(found["queues"].tolist(), found["moved"].tolist(), strict=True):
        name = words.plain(trace.strings[code] or "queue", 48)
        track = _dma_track(core, f"q.{code}", name, _queue_code(name), words.size(moved))
        rows.append(
            Row(
                replace(track, height=22 if moved else 14),
                (Lane(transfers, found[f"q{code}"], trace, f"c{core}.q{code}"),),
            )
        )
    engines = found["engines"].tolist()
    if engines:
        lanes = tuple(Lane(packets, found[f"e{e}"], trace, f"c{core}.e{e}") for e in engines)
        track = _dma_track(core, "engines", words.plural(len(lanes), "DMA engine"), f"×{len(lanes)}", "")
        track = replace(track, kind="packets", minor=True, lanes=len(lanes), lane_height=3, height=3 * len(lanes) + 4)
        rows.append(Row(track, lanes))
    return rows


def _dma_members(trace: Trace, core: int) -> Arrays:
    """Queues, busiest first, with their bytes; DMA engines; and the rows of each."""
    table, packets = trace.transfers, trace.packets
    here = table.core == core
    queues = _by_bytes(table, here)
    found = {f"q{code}": np.flatnonzero(here & (table.queue == code)).astype(np.int32) for code in queues}
    moved = [int(table.bytes[found[f"q{code}"]].sum()) for code in queues]
    here = packets.core == core
    engines = np.unique(packets.dma_engine[here])
    found |= {f"e{e}": np.flatnonzero(here & (packets.dma_engine == e)).astype(np.int32) for e in engines.tolist()}
    return found | {"queues": np.array(queues, np.int64), "moved": np.array(moved, np.int64), "engines": engines}


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
    return _moving(trace, "transfers", trace.transfers)


def packet_columns(trace: Trace) -> Columns:
    return _moving(trace, "packets", trace.packets)


def _moving(trace: Trace, name: str, table: Table) -> Columns:
    def flags() -> Arrays:
        payload = (table.column("bytes") > _TINY_BYTES) & (table.column("queue_type") != QueueType.INSTRUCTION)
        return {"flags": np.where(payload, WORK, 0).astype(np.uint8)}

    return Columns(table.column("start_ps"), table.column("end_ps"), trace.derive(name, flags)["flags"])


def region_row(trace: Trace, core: int) -> Row | None:
    """The flame graph: what the work is, outermost first; source lines come and go too often to be boxes of it."""
    table = trace.regions
    here = (table.core == core) | (table.core == NONE)
    members = np.flatnonzero(here & (table.kind != RegionKind.LINE))
    if not members.size:
        return None
    columns = Columns(table.start_ps, table.end_ps, np.full(len(table), WORK, np.uint8))
    order = members[np.argsort(table.start_ps[members], kind="stable")]
    lanes = spread(columns, order, region_depth(table.parent)[order], trace, f"c{core}.regions")
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
