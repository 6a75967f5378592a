"""Full profile JSON as `neuron-profile view --output-format json` writes it (profiler 2.27 and 2.28 seen).

One object of snake_case tables. Times are ns although `ticks_per_nanosec` is 1000; some trn3 profiles are said to count
in ps, which the total time gives away. `dma` mixes packets and transfers.
"""

from __future__ import annotations

import numpy as np

from sim import garbage
from sim.errors import InputError
from sim.trace import NONE, EdgeKind, Engine, QueueType, Strings, Trace
from trnprof.readers.assemble import assemble
from trnprof.readers.clock import LIMIT_PS, Clock, choose_clock
from trnprof.readers.draft import EDGE_KINDS, ENGINES, QUEUE_TYPES, Columns, Draft, lookup
from trnprof.readers.legacy.counters import counters
from trnprof.readers.legacy.fields import (
    Timed,
    by_value,
    clipped,
    core_of,
    ints,
    moments,
    small,
    texts,
    timed,
    values,
    within,
)
from trnprof.readers.legacy.header import header, total_seconds
from trnprof.readers.legacy.rows import Document, InstructionRow, decode, left, storable, unlike
from trnprof.readers.operands import memory_of, semaphore_of
from trnprof.readers.receipt import Receipt

CONVERT = (
    "write it again with: neuron-explorer view -n FILE.neff -s FILE.ntff --output-format parquet --output-file DIR"
)

ABOUT = ("summary", "metadata", "warnings", "neff_header", "profile_info", "dma_queues_info")
"""Tables that become the meta and the names of queues."""

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
    with garbage.ignored():
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
    clock = choose_clock(instructions.start + dma.start, instructions.end + dma.end, total_seconds(document))
    if clock.unit_ps == 1:
        receipt.remark("Times are read as picoseconds: read as ns they exceed the profile's total time by far.")
    instructions = within(instructions, "instruction", clock, receipt)
    dma = within(dma, "dma", clock, receipt)
    whole = [row.aggregated == "yes" for row in dma.rows]
    names = {(core_of(row.subgraph), row.q_idx): row.q_name for row in document.dma_queues_info}
    for table in ABOUT:
        receipt.show(table, len(getattr(document, table)))
    draft = Draft(
        strings,
        receipt,
        _instructions(instructions, clock, strings),
        _packets(dma.keep([not flag for flag in whole]), clock, strings, names),
        _transfers(dma.keep(whole), clock, strings),
        _semaphores(moments(document.semaphore_update, "semaphore_update", clock, receipt), clock),
        counters(document, clock, strings, receipt),
        _tensors(document, strings, receipt),
        tables={"instructions": "instruction", "packets": "dma", "transfers": "dma"},
    )
    _dependencies(draft, instructions.rows)
    return draft


def _span(found: Timed, clock: Clock) -> Columns:
    return {"start_ps": clock.points(found.start), "end_ps": clock.points(found.end)}


def _instructions(found: Timed, clock: Clock, strings: Strings) -> Columns:
    rows = found.rows
    columns = {"id": ints(rows, "id"), **_span(found, clock)}
    columns |= {ours: texts(rows, theirs, strings) for theirs, ours in _TEXTS.items()}
    columns |= {name: ints(rows, name) for name in _BYTES}
    columns["engine"] = lookup(strings, texts(rows, "subgroup", strings), ENGINES, Engine.OTHER)
    whole, short = (by_value(rows, name, core_of) for name in ("fully_qualified_subgraph", "subgraph"))
    columns["core"] = np.where(whole > 0, whole, short)
    own, compiled = (texts(rows, name, strings) for name in ("nki_source_location", "bir_debug_info_source_location"))
    columns["source"] = np.where(own == NONE, compiled, own)
    limit = LIMIT_PS // clock.unit_ps
    columns["wait_ps"] = by_value(rows, "evt_wait_time", lambda time: min(max(time, 0), limit)) * clock.unit_ps
    columns["elements"] = ints(rows, "elements")
    return columns


def _dependencies(draft: Draft, rows: list[InstructionRow]) -> None:
    found = [edge for row in rows for edge in row.predecessors or ()]
    draft.receipt.read("predecessors", len(found))
    counts = [len(row.predecessors or ()) for row in rows]
    draft.signaler = ints(found, "id")
    draft.waiter = np.repeat(ints(rows, "id"), counts)
    draft.kind = by_value(found, "type", lambda kind: EDGE_KINDS.get(kind, EdgeKind.ORDER)).astype(np.int8)


def _dma(found: Timed, clock: Clock, strings: Strings) -> Columns:
    rows = found.rows
    kinds = texts(rows, "queue_type", strings)
    return {
        "id": ints(rows, "id"),
        **_span(found, clock),
        "core": by_value(rows, "subgraph", core_of),
        "queue_type": lookup(strings, kinds, QUEUE_TYPES, QueueType.UNKNOWN),
        "variable": by_value(rows, "variable", lambda name: strings.code(_known(name))),
        "bytes": ints(rows, "transfer_size"),
        "read_bytes": ints(rows, "read_size"),
        "write_bytes": ints(rows, "write_size"),
    }


def _known(variable: str) -> str | None:
    return None if variable in ("", "unknown") else storable(variable)


def _packets(found: Timed, clock: Clock, strings: Strings, names: dict[tuple[int, int], str]) -> Columns:
    rows, columns = found.rows, _dma(found, clock, strings)
    columns["dma_engine"] = by_value(rows, "dma_engine", small)
    columns["ring"] = by_value(rows, "dma_queue", small)
    places = list(zip(columns["core"].tolist(), columns["ring"].tolist(), values(rows, "subgroup"), strict=True))
    queues = {place: strings.code(storable(names.get(place[:2]) or place[2]) or None) for place in {*places}}
    columns["queue"] = np.fromiter(map(queues.__getitem__, places), np.int64, len(places))
    columns["_parent"] = by_value(rows, "packet_aggregation_id", clipped)
    columns["_index"] = by_value(rows, "packet_idx", clipped)
    return columns


def _transfers(found: Timed, clock: Clock, strings: Strings) -> Columns:
    rows, columns = found.rows, _dma(found, clock, strings)
    columns["queue"] = texts(rows, "subgroup", strings)
    columns["source_memory"] = np.array([memory_of(row.source) for row in rows], np.int64)
    columns["dest_memory"] = np.array([memory_of(row.dest) for row in rows], np.int64)
    columns["_semaphore"] = by_value(rows, "semaphore_id", semaphore_of)
    columns["_trigger_ps"] = by_value(rows, "trigger", lambda time: _trigger(time, clock))
    return columns


def _trigger(time: float | None, clock: Clock) -> int:
    return clock.point(time) if time is not None and clock.holds(time) else NONE


def _semaphores(found: Timed, clock: Clock) -> Columns:
    return {
        "time_ps": clock.points(found.start),
        "core": by_value(found.rows, "subgraph", core_of),
        "semaphore": by_value(found.rows, "id", semaphore_of),
        "value": ints(found.rows, "value"),
    }


def _tensors(document: Document, strings: Strings, receipt: Receipt) -> Columns:
    rows = [row for row in document.neff_node if row.variable_name]
    receipt.show("neff_node", len(document.neff_node))
    if len(rows) < len(document.neff_node):
        receipt.remark(f"{len(document.neff_node) - len(rows)} rows of neff_node name a subgraph, not a tensor.")
    return {
        "name": texts(rows, "variable_name", strings),
        "type": texts(rows, "type", strings),
        "shape": texts(rows, "shape", strings),
        "bytes": np.maximum(ints(rows, "size"), 0),
        "loads": ints(rows, "load_to_sbuf_dma_count"),
        "loaded_bytes": ints(rows, "load_to_sbuf_total_size_bytes"),
    }
