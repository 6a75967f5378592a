"""Full profile JSON as `neuron-profile view --output-format json` writes it (profiler 2.27 and 2.28 seen).

One object of snake_case tables. Times are ns although `ticks_per_nanosec` is 1000; some trn3 profiles are said to count
in ps, which the total time gives away. `dma` mixes packets and transfers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.errors import InputError
from sim.trace import NONE, EdgeKind, Engine, QueueType, Strings, Trace
from trnprof.readers.assemble import assemble
from trnprof.readers.clock import LIMIT_PS, Clock, choose_clock
from trnprof.readers.draft import EDGE_KINDS, ENGINES, QUEUE_TYPES, Columns, Draft, lookup
from trnprof.readers.legacy.counters import counters
from trnprof.readers.legacy.header import header, total_seconds
from trnprof.readers.legacy.rows import (
    DmaRow,
    Document,
    InstructionRow,
    SemaphoreRow,
    clipped,
    core_of,
    decode,
    ints,
    left,
    mapped,
    moments,
    storable,
    texts,
    timed,
    unlike,
    within,
)
from trnprof.readers.operands import memory_of, semaphore_of
from trnprof.readers.receipt import Receipt

CONVERT = (
    "write it again with: neuron-explorer view -n FILE.neff -s FILE.ntff --output-format parquet --output-file DIR"
)

_BYTES = (
    "hbm_read_bytes",
    "hbm_write_bytes",
    "sbuf_read_bytes",
    "sbuf_write_bytes",
    "psum_read_bytes",
    "psum_write_bytes",
    "spill_save_bytes",
    "spill_reload_bytes",
)
_TEXTS = {
    "label": "track",
    "opcode": "opcode",
    "bir_instruction_name": "name",
    "operands": "operands",
    "activation_fn": "function",
    "instruction_type": "kind",
    "bir_id": "group",
    "layer": "_layer",
    "compiler_opcode": "_compiler_opcode",
}


def read(data: bytes, path: str) -> Trace:
    """The trace of a legacy profile; `path` is for messages."""
    receipt = Receipt()
    document = decode(data, path, receipt)
    if not document.instruction and not document.dma:
        raise InputError(f"{path}: {unlike(data)}", remedy=CONVERT)
    draft = _draft(document, receipt)
    for table, rows in left(data):
        receipt.leave(table, rows)
    warnings = (storable(f"The profile warns: {row.get('message', '')}") for row in document.warnings)
    return assemble(draft, header(document, path), tuple(warnings))


def _draft(document: Document, receipt: Receipt) -> Draft:
    strings = Strings()
    instructions = timed(document.instruction, "instruction", receipt)
    dma = timed(document.dma, "dma", receipt)
    starts = [row.timestamp for row in (*instructions, *dma)]
    ends = [row.timestamp + row.duration for row in (*instructions, *dma)]
    clock = choose_clock(starts, ends, total_seconds(document))
    if clock.unit_ps == 1:
        receipt.remark("Times are read as picoseconds: read as ns they exceed the profile's total time by far.")
    instructions = within(instructions, "instruction", clock, receipt)
    dma = within(dma, "dma", clock, receipt)
    updates = moments(document.semaphore_update, "semaphore_update", clock, receipt)
    names = {(core_of(row.subgraph), row.q_idx): row.q_name for row in document.dma_queues_info}
    receipt.show("dma_queues_info", len(document.dma_queues_info))
    draft = Draft(
        strings,
        receipt,
        _instructions(instructions, clock, strings),
        _packets([row for row in dma if row.aggregated != "yes"], clock, strings, names),
        _transfers([row for row in dma if row.aggregated == "yes"], clock, strings),
        _semaphores(updates, clock),
        counters(document, clock, strings, receipt),
        _tensors(document, strings, receipt),
        tables={"instructions": "instruction", "packets": "dma", "transfers": "dma"},
    )
    _dependencies(draft, instructions)
    return draft


def _span(rows: list[Any], clock: Clock) -> Columns:
    return {
        "start_ps": mapped(rows, lambda row: clock.point(row.timestamp)),
        "end_ps": mapped(rows, lambda row: clock.point(row.timestamp + row.duration)),
    }


def _instructions(rows: list[InstructionRow], clock: Clock, strings: Strings) -> Columns:
    columns = {"id": ints(rows, "id"), **_span(rows, clock)}
    columns |= {ours: texts(rows, theirs, strings) for theirs, ours in _TEXTS.items()}
    columns |= {name: ints(rows, name) for name in _BYTES}
    columns["engine"] = lookup(strings, texts(rows, "subgroup", strings), ENGINES, Engine.OTHER)
    columns["core"] = mapped(rows, lambda row: core_of(row.fully_qualified_subgraph or row.subgraph))
    columns["source"] = strings.codes(
        storable((row.nki_source_location or row.bir_debug_info_source_location).strip()) or None for row in rows
    )
    columns["wait_ps"] = mapped(rows, lambda row: min(max(row.evt_wait_time, 0) * clock.unit_ps, LIMIT_PS))
    columns["elements"] = ints(rows, "elements")
    return columns


def _dependencies(draft: Draft, rows: list[InstructionRow]) -> None:
    found = [
        (clipped(p.id), clipped(row.id), EDGE_KINDS.get(p.type, EdgeKind.ORDER))
        for row in rows
        for p in row.predecessors
    ]
    draft.receipt.read("predecessors", len(found))
    edges = np.array(found, np.int64).reshape(-1, 3)
    draft.signaler, draft.waiter, draft.kind = edges[:, 0], edges[:, 1], edges[:, 2].astype(np.int8)


def _dma(rows: list[DmaRow], clock: Clock, strings: Strings) -> Columns:
    kinds = texts(rows, "queue_type", strings)
    return {
        "id": ints(rows, "id"),
        **_span(rows, clock),
        "core": mapped(rows, lambda row: core_of(row.subgraph)),
        "queue_type": lookup(strings, kinds, QUEUE_TYPES, QueueType.UNKNOWN),
        "variable": strings.codes(_known(row.variable) for row in rows),
        "bytes": ints(rows, "transfer_size"),
        "read_bytes": ints(rows, "read_size"),
        "write_bytes": ints(rows, "write_size"),
    }


def _known(variable: str) -> str | None:
    return None if variable in ("", "unknown") else storable(variable)


def _packets(rows: list[DmaRow], clock: Clock, strings: Strings, names: dict[tuple[int, int], str]) -> Columns:
    columns = _dma(rows, clock, strings)
    columns["dma_engine"] = mapped(rows, lambda row: _small(row.dma_engine))
    columns["ring"] = mapped(rows, lambda row: _small(row.dma_queue))
    queues = (names.get((core_of(row.subgraph), _small(row.dma_queue))) or row.subgroup for row in rows)
    columns["queue"] = strings.codes(storable(name) or None for name in queues)
    columns["_parent"] = mapped(rows, lambda row: clipped(row.packet_aggregation_id or 0))
    columns["_index"] = mapped(rows, lambda row: _small(row.packet_idx or 0))
    return columns


def _transfers(rows: list[DmaRow], clock: Clock, strings: Strings) -> Columns:
    columns = _dma(rows, clock, strings)
    columns["queue"] = texts(rows, "subgroup", strings)
    columns["source_memory"] = mapped(rows, lambda row: memory_of(row.source))
    columns["dest_memory"] = mapped(rows, lambda row: memory_of(row.dest))
    columns["_semaphore"] = mapped(rows, lambda row: semaphore_of(row.semaphore_id))
    columns["_trigger_ps"] = mapped(
        rows, lambda row: clock.point(row.trigger) if row.trigger is not None and clock.holds(row.trigger) else NONE
    )
    return columns


def _small(value: Any) -> int:
    """A 16-bit number out of a number or its text."""
    try:
        return min(max(int(value), -1), 32_767)
    except (TypeError, ValueError):
        return -1


def _semaphores(rows: list[SemaphoreRow], clock: Clock) -> Columns:
    return {
        "time_ps": mapped(rows, lambda row: clock.point(row.timestamp)),
        "core": mapped(rows, lambda row: core_of(row.subgraph)),
        "semaphore": mapped(rows, lambda row: semaphore_of(row.id)),
        "value": ints(rows, "value"),
    }


def _tensors(document: Document, strings: Strings, receipt: Receipt) -> Columns:
    rows = [row for row in document.neff_node if row.variable_name]
    receipt.show("neff_node", len(rows))
    receipt.set_aside("neff_node", "name a subgraph, not a tensor", len(document.neff_node) - len(rows))
    return {
        "name": texts(rows, "variable_name", strings),
        "type": texts(rows, "type", strings),
        "shape": texts(rows, "shape", strings),
        "bytes": mapped(rows, lambda row: max(int(row.size), 0) if str(row.size).isdecimal() else 0),
        "loads": ints(rows, "load_to_sbuf_dma_count"),
        "loaded_bytes": ints(rows, "load_to_sbuf_total_size_bytes"),
    }
