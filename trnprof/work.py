"""Sums and unions over any set of a trace's instructions, transfers and packets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.trace import COMPUTE_ENGINES, NONE, Engine, Memory, QueueType, Trace
from trnprof.intervals import Spans, merge, union_ps
from trnprof.machine import bf16_factor, family

ENGINES = 5
"""Instruction streams of a core: `Engine.TENSOR` to `Engine.SYNC`."""

MOST_LANES = 1 << 16
"""Lanes whose numbers lie in a range of so many are told apart by a table."""

SEMAPHORE_BYTES = 4
"""A packet this small announces a transfer; it carries none of its bytes."""

DMA_OPCODES = ("DMA", "PSEUDO_DMA")
"""How the opcodes of instructions that describe and trigger DMAs begin."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a region did; counts are exact sums, times are unions on the core that is busiest with them."""

    time_ps: int
    """Length of the region: what shares are shares of."""
    active_ps: tuple[int, ...]
    """Union of the instructions of each engine, semaphore waits excluded (AWS's *_engine_active_time)."""
    instructions: tuple[int, ...]
    """By engine, control instructions excluded."""
    issue_ps: tuple[int, ...]
    """The part of `active_ps` in which each engine describes and triggers DMAs."""
    flops: int
    """TensorE FLOPs of the algorithm: transposes and second passes not counted."""
    hardware_flops: int
    """As AWS counts: every pass, transposes included."""
    transpose_flops: int
    adjusted_flops: int
    """Hardware FLOPs in BF16 equivalents."""
    dtypes: tuple[tuple[str, int], ...]
    """FLOPs of the algorithm by dtype, the one that takes TensorE longest first."""
    elements: tuple[int, ...]
    """Element operations of each engine but TensorE: partitions x elements, one an instruction."""
    hbm_read_bytes: int
    hbm_write_bytes: int
    dma_bytes: int
    """Payload of its transfers, wherever on the chip they go."""
    dma_active_ps: int
    """Union of its transfers (AWS's dma_active_time)."""
    transfers: int
    descriptors: int
    spill_bytes: int
    """Saved and reloaded for lack of SBUF."""
    collective_ps: int
    wire_bytes: int
    """Payload that collectives send over links; 0 where the profile does not tell."""

    @property
    def hbm_bytes(self) -> int:
        return self.hbm_read_bytes + self.hbm_write_bytes


class Index:
    """The look-ups that cutting a trace needs, made once."""

    def __init__(self, trace: Trace):
        self.trace = trace
        ins = trace.instructions
        self.worked = np.flatnonzero(~ins.control).astype(np.int64)
        """Rows that do work, ascending."""
        self.issue = with_text(trace, "opcode", lambda text: text.startswith(DMA_OPCODES))
        self.table = with_text(trace, "opcode", lambda text: text.endswith("TABLE_LOAD"))
        self.transpose = with_text(trace, "kind", lambda text: text == "TRANSPOSE")
        self.flops = _algorithm_flops(trace, self.transpose)
        self.counts_hbm = bool(ins.has("hbm_read_bytes") or ins.has("hbm_write_bytes")) and bool(
            ins.hbm_read_bytes.any() or ins.hbm_write_bytes.any()
        )
        """Instructions carry their HBM bytes; else the transfers tell."""
        packets = trace.packets
        self.payload = np.flatnonzero(
            (packets.bytes > SEMAPHORE_BYTES) & (packets.queue_type != QueueType.INSTRUCTION)
        ).astype(np.int64)
        """Packets that carry bytes of a transfer, ascending."""
        self.wire = collective_transfers(trace)
        """Transfers over links, by collectives: not memory's work; bool [transfers]."""
        self._transfers = _Children(trace.transfers.instruction)
        self._packets = _Children(packets.transfer[self.payload])

    def transfers_of(self, rows: np.ndarray) -> np.ndarray:
        """Transfers that these instructions triggered, ascending."""
        return self._transfers.of(rows)

    def packets_of(self, transfers: np.ndarray) -> np.ndarray:
        """Packets with payload of these transfers, ascending."""
        return self.payload[self._packets.of(transfers)]

    def local(self, transfers: np.ndarray, packets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The transfers and packets that are no collective's."""
        if not self.wire.any():
            return transfers, packets
        owner = self.trace.packets.transfer[packets]
        return transfers[~self.wire[transfers]], packets[(owner < 0) | ~self.wire[owner]]

    @cached_property
    def anything(self) -> Spans:
        """When any instruction works or any byte moves, merged."""
        ins, moved = self.trace.instructions, self.trace.transfers
        return merge(
            np.concatenate((ins.start_ps[self.worked], moved.start_ps)),
            np.concatenate((ins.end_ps[self.worked], moved.end_ps)),
        )

    @cached_property
    def idle_ps(self) -> np.ndarray:
        """How long the engine of each instruction had done nothing before it started; int64 [rows]."""
        ins = self.trace.instructions
        idle = np.zeros(len(ins), np.int64)
        lane = ins.core[self.worked].astype(np.int64) * len(Engine) + ins.engine[self.worked]
        for key in np.unique(lane):
            rows = self.worked[lane == key]
            ends = np.maximum.accumulate(ins.end_ps[rows])
            idle[rows[1:]] = np.maximum(0, ins.start_ps[rows[1:]] - ends[:-1])
        return idle


class _Children:
    """Rows of one table by the row of another that they point to."""

    def __init__(self, parent: np.ndarray):
        last = int(parent.max(initial=NONE))
        order = np.argsort(parent, kind="stable")
        self.order = order[order.size - np.count_nonzero(parent >= 0) :]
        self.first = np.zeros(last + 3, np.int64)
        """Where in `order` those of each row begin; the last two are of rows that none points to."""
        np.cumsum(np.bincount(parent[self.order], minlength=last + 2), out=self.first[1:])

    def of(self, parents: np.ndarray) -> np.ndarray:
        """The rows that point to any of these, ascending; int64."""
        parents = np.minimum(parents, self.first.size - 2)
        low = self.first[parents]
        count = self.first[parents + 1] - low
        before = np.cumsum(count) - count
        places = np.repeat(low - before, count) + np.arange(int(count.sum()))
        return ascending(self.order[places])


def ascending(rows: np.ndarray) -> np.ndarray:
    """Distinct rows in order, int64; those of a part of the trace lie close together, so that none need be sorted."""
    low, high = (int(rows.min()), int(rows.max()) + 1) if rows.size else (0, 0)
    if high - low > 64 * rows.size:
        return np.sort(rows).astype(np.int64)
    found = np.zeros(high - low, bool)
    found[rows - low] = True
    return np.flatnonzero(found) + low


def measure(
    index: Index,
    rows: np.ndarray,
    transfers: np.ndarray,
    packets: np.ndarray,
    time_ps: int,
    cut: tuple[int, int] | None = None,
    prorate: bool = False,
) -> Work:
    """Sum up instructions, transfers and packets.

    cut     : times are unions inside this window
    prorate : a row that reaches over the window's edge counts by its part inside, and bytes when they move;
              otherwise sums take rows whole
    """
    trace, ins, moved = index.trace, index.trace.instructions, index.trace.transfers
    part = _parts(ins.start_ps[rows], ins.end_ps[rows], cut) if prorate else None
    streams = rows[ins.engine[rows] < ENGINES]
    read, written = _hbm_bytes(index, rows, transfers, packets, cut if prorate else None)
    wired = transfers[index.wire[transfers]]
    wire_bytes = _sum(moved.bytes[wired], _parts(moved.start_ps[wired], moved.end_ps[wired], cut) if prorate else None)
    network = union_ps(*_cut(*collective_spans(index, rows, transfers), cut))
    transfers, packets = index.local(transfers, packets)
    share = _parts(moved.start_ps[transfers], moved.end_ps[transfers], cut) if prorate else None
    return Work(
        time_ps=time_ps,
        active_ps=busy_ps(trace, streams, cut),
        instructions=tuple(int(n) for n in np.bincount(ins.engine[streams], ins.count[streams], ENGINES)),
        issue_ps=busy_ps(trace, streams[index.issue[streams]], cut),
        flops=_sum(index.flops[rows], part),
        hardware_flops=_sum(ins.flops[rows], part),
        transpose_flops=_sum(np.where(index.transpose[rows], ins.flops[rows], 0), part),
        adjusted_flops=_sum(ins.adjusted_flops[rows], part),
        dtypes=_dtypes(index, rows, part),
        elements=_elements(index, rows, part),
        hbm_read_bytes=read,
        hbm_write_bytes=written,
        dma_bytes=_sum(moved.bytes[transfers], share) if transfers.size else int(trace.packets.bytes[packets].sum()),
        dma_active_ps=union_ps(*_cut(*dma_spans(trace, transfers, packets), cut)),
        transfers=len(transfers),
        descriptors=_sum(moved.descriptors[transfers], share),
        spill_bytes=_sum(ins.spill_save_bytes[rows] + ins.spill_reload_bytes[rows], part),
        collective_ps=network,
        wire_bytes=wire_bytes,
    )


def dma_spans(trace: Trace, transfers: np.ndarray, packets: np.ndarray) -> Spans:
    """When bytes move: packets where the profile has them, else whole transfers."""
    table, moved = trace.packets, trace.transfers
    if not packets.size:
        return moved.start_ps[transfers], moved.end_ps[transfers]
    start, end = table.start_ps[packets], table.end_ps[packets]
    # Engines can be through with a transfer before HBM is, which serves others too.
    last = np.full(len(moved), np.iinfo(np.int64).max)
    owner = table.transfer[packets]
    linked = owner >= 0
    last[owner[linked]] = 0
    np.maximum.at(last, owner[linked], end[linked])
    held = transfers[moved.end_ps[transfers] > last[transfers]]
    return np.concatenate((start, last[held])), np.concatenate((end, moved.end_ps[held]))


def collective_spans(index: Index, rows: np.ndarray, transfers: np.ndarray) -> Spans:
    """Collectives as instructions, or from the trigger of one until its bytes are there."""
    ins, moved = index.trace.instructions, index.trace.transfers
    wired, own = rows[ins.engine[rows] == Engine.COLLECTIVE], transfers[index.wire[transfers]]
    start = np.concatenate((ins.start_ps[wired], ins.start_ps[moved.instruction[own]]))
    return start, np.concatenate((ins.end_ps[wired], moved.end_ps[own]))


def busy_ps(trace: Trace, rows: np.ndarray, cut: tuple[int, int] | None = None) -> tuple[int, ...]:
    """Union of the instructions of each engine on the core where it is longest."""
    ins = trace.instructions
    start, end, lane = (
        ins.start_ps[rows],
        ins.end_ps[rows],
        ins.core[rows].astype(np.int64) * ENGINES + ins.engine[rows],
    )
    totals = lane_union_ps(*_cut(start, end, cut), lane)
    best = [0] * ENGINES
    for key, total in totals.items():
        best[key % ENGINES] = max(best[key % ENGINES], total)
    return tuple(best)


def lane_union_ps(start: np.ndarray, end: np.ndarray, lane: np.ndarray) -> dict[int, int]:
    """Length of the union on each lane; lanes are any integers."""
    from trnprof.jit.intervals import lane_unions

    if not start.size:
        return {}
    low = int(lane.min())
    keys, code = np.arange(low, int(lane.max()) + 1), lane - low
    if keys.size > MOST_LANES:
        keys, code = np.unique(lane, return_inverse=True)
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        start, end, code = start[order], end[order], code[order]
    totals = np.full(keys.size, -1, np.int64)
    lane_unions(start, end, code, np.full(keys.size, start[0]), totals)
    return {int(keys[k]): int(totals[k]) for k in np.flatnonzero(totals >= 0)}


def _hbm_bytes(
    index: Index, rows: np.ndarray, transfers: np.ndarray, packets: np.ndarray, cut: tuple[int, int] | None
) -> tuple[int, int]:
    """Bytes read from and written to HBM; a cut goes by the time at which the bytes move."""
    ins, moved, pieces = index.trace.instructions, index.trace.transfers, index.trace.packets
    if index.counts_hbm and (cut is None or not (transfers.size or packets.size)):
        part = _parts(ins.start_ps[rows], ins.end_ps[rows], cut)
        return _sum(ins.hbm_read_bytes[rows], part), _sum(ins.hbm_write_bytes[rows], part)
    if not transfers.size:
        part = _parts(pieces.start_ps[packets], pieces.end_ps[packets], cut)
        return _sum(pieces.bytes[packets], part), 0
    part = _parts(moved.start_ps[transfers], moved.end_ps[transfers], cut)
    source, dest, size = moved.source_memory[transfers], moved.dest_memory[transfers], moved.bytes[transfers]
    # Most captured transfers do not say where they go; what is not known to stay on chip is HBM traffic.
    read = (source == Memory.HBM) | (source == NONE) & (dest != Memory.HBM)
    written = (dest == Memory.HBM) | (dest == NONE) & (source != NONE) & (source != Memory.HBM)
    return _sum(np.where(read, size, 0), part), _sum(np.where(written, size, 0), part)


def _algorithm_flops(trace: Trace, transpose: np.ndarray) -> np.ndarray:
    """FLOPs of each row as the algorithm counts them; int64 [rows].

    An fp32 matmul is two rows that each carry all its MACs, but its BF16 equivalents are four times its FLOPs in
    whatever way they are divided: so those are the honest base where the profile has them.
    """
    ins = trace.instructions
    dtype = ins.dtype
    flops = ins.flops.copy()
    for code in _present(dtype, len(trace.strings)):
        text = trace.strings[code]
        rows = dtype == code
        equivalents = ins.adjusted_flops[rows]
        passes = 2 if family(text) == "float32" else 1
        known = np.rint(equivalents / bf16_factor(text, trace.meta.device)).astype(np.int64)
        flops[rows] = np.where(equivalents > 0, known, flops[rows] // passes)
    return np.where(transpose, 0, flops)


def _dtypes(index: Index, rows: np.ndarray, part: np.ndarray | None) -> tuple[tuple[str, int], ...]:
    trace, dtype = index.trace, index.trace.instructions.dtype[rows]
    flops = index.flops[rows] if part is None else index.flops[rows] * part
    used = (flops > 0) & (dtype >= 0)
    totals = np.bincount(dtype[used], weights=flops[used]) if used.any() else np.empty(0)
    found = [(trace.strings[int(code)] or "", round(totals[code])) for code in np.flatnonzero(totals)]
    return tuple(sorted(found, key=lambda item: -item[1] * bf16_factor(item[0], trace.meta.device)))


def _elements(index: Index, rows: np.ndarray, part: np.ndarray | None) -> tuple[int, ...]:
    ins = index.trace.instructions
    lanes = ins.partitions[rows].astype(np.int64)
    passed = lanes * ins.elements[rows]
    passed[index.issue[rows] | index.table[rows]] = 0
    engine = ins.engine[rows]
    counted = [_sum(np.where(engine == each, passed, 0), part) for each in COMPUTE_ENGINES[1:]]
    return (0, *counted, 0)


def collective_transfers(trace: Trace) -> np.ndarray:
    """Which transfers a collective sends over links; bool [transfers]."""
    trigger = trace.transfers.instruction
    sends = with_text(trace, "opcode", lambda text: text == "COLLECTIVE")
    return (trigger >= 0) & (sends[trigger] if sends.size else False)


def with_text(trace: Trace, column: str, fits: Callable[[str], bool]) -> np.ndarray:
    """Which rows have a text that fits; bool [rows]."""
    codes = trace.instructions.column(column)
    table = np.zeros(len(trace.strings) + 1, bool)
    for code in _present(codes, len(trace.strings)):
        table[code] = fits(trace.strings[code] or "")
    return table[codes]


def _present(codes: np.ndarray, size: int) -> np.ndarray:
    """The codes that occur, without -1."""
    seen = np.zeros(size + 1, bool)
    seen[codes] = True
    return np.flatnonzero(seen[:size])


def length_ps(spans: Spans) -> int:
    """Length of spans that are apart."""
    return int((spans[1] - spans[0]).sum())


def _cut(start: np.ndarray, end: np.ndarray, cut: tuple[int, int] | None) -> tuple[np.ndarray, np.ndarray]:
    return (start, end) if cut is None else (np.maximum(start, cut[0]), np.minimum(end, cut[1]))


def _parts(start: np.ndarray, end: np.ndarray, cut: tuple[int, int] | None) -> np.ndarray | None:
    """Share of each interval inside the cut, None for all of everything."""
    if cut is None:
        return None
    length = np.maximum(1, end - start)
    return np.clip((np.minimum(end, cut[1]) - np.maximum(start, cut[0])) / length, 0, 1)


def _sum(values: np.ndarray, part: np.ndarray | None) -> int:
    return int(values.sum()) if part is None else round(float((values * part).sum()))
