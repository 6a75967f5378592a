"""Full profile JSON as `neuron-profile view --output-format json` writes it (profiler 2.27 and 2.28 seen).

One object of snake_case tables. Times are ns although `ticks_per_nanosec` is 1000; some trn3 profiles are said to count
in ps, which the total time gives away. `dma` mixes packets and transfers.
"""

from __future__ import annotations

import io
from itertools import compress
from typing import Any

import numpy as np

from sim import garbage
from sim.errors import InputError
from sim.trace import NONE, EdgeKind, Engine, QueueType, Strings, Trace
from trnprof.readers.assemble import assemble
from trnprof.readers.clock import LIMIT_PS, Clock, choose_clock
from trnprof.readers.draft import EDGE_KINDS, ENGINES, QUEUE_TYPES, Columns, Draft, lookup, size, take
from trnprof.readers.legacy.counters import TABLES as COUNTER_TABLES
from trnprof.readers.legacy.counters import batch as counter_batch
from trnprof.readers.legacy.counters import counters
from trnprof.readers.legacy.fields import (
    END,
    START,
    Gathered,
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
from trnprof.readers.legacy.rows import (
    EXPLAIN,
    KINDS,
    About,
    DmaRow,
    InstructionRow,
    SemaphoreRow,
    decode,
    storable,
    unlike,
)
from trnprof.readers.legacy.stream import Batch, batches, value_of
from trnprof.readers.operands import memory_of, semaphore_of
from trnprof.readers.receipt import Receipt
from trnprof.readers.unpack import Source

CONVERT = (
    "write it again with: neuron-explorer view -n FILE.neff -s FILE.ntff --output-format parquet --output-file DIR"
)

ABOUT = About.__struct_fields__
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


def read(source: bytes | Source, path: str) -> Trace:
    """The trace of a legacy profile; `path` is for messages."""
    receipt = Receipt()
    reader = io.BytesIO(source).read if isinstance(source, bytes) else source.read
    with garbage.ignored():
        found = _Found(receipt)
        for batch in batches(reader, path):
            found.take(batch, path)
        if not found.rows:
            raise InputError(f"{path}: {unlike(found.tables)}", remedy=CONVERT)
        draft = found.draft()
    warnings = (storable(f"The profile warns: {row.get('message', '')}") for row in found.about.warnings)
    return assemble(draft, header(found.about, path), tuple(warnings))


class _Found:
    """What the batches held: columns of the large tables, rows of the small ones."""

    def __init__(self, receipt: Receipt) -> None:
        self.receipt = receipt
        self.strings = Strings()
        self.about = About()
        self.tables: list[str] = []
        self.rows = 0
        """Of instructions and DMAs."""
        self._gathered: dict[str, Gathered] = {}
        for table in ("instruction", "dma", "semaphore_update"):
            self._columns(table, [])

    def take(self, batch: Batch, path: str) -> None:
        table = batch.table
        if table not in self.tables:
            self.tables.append(table)
        if table in EXPLAIN:
            return
        if table not in KINDS:
            self.receipt.leave(table, batch.rows)
            return
        if not batch.whole:
            value = value_of(batch)
            if value:
                raise InputError(f"{path}: table `{table}` is a {type(value).__name__}, not a list of rows")
            return
        rows = decode(batch, path, self.receipt)
        if table in ABOUT:
            getattr(self.about, table).extend(rows)
        else:
            self.rows += batch.rows if table in ("instruction", "dma") else 0
            self._columns(table, rows)

    def _columns(self, table: str, rows: list[Any]) -> None:
        """Take the columns of some rows; the rows are not kept."""
        if table in COUNTER_TABLES:
            self._add(table, counter_batch(table, rows, self.strings, self.receipt))
            return
        rows, spans = timed(rows, table, self.receipt)
        if table == "instruction":
            self._add(table, spans | _instructions(rows, self.strings))
            self._add("predecessors", _predecessors(rows))
        elif table == "semaphore_update":
            self._add(table, spans | _semaphores(rows))
        else:
            whole = np.array([row.aggregated == "yes" for row in rows], bool)
            for name, kept, columns_of in (("packets", ~whole, _packets), ("transfers", whole, _transfers)):
                chosen = list(compress(rows, kept.tolist()))
                self._add(name, take(spans, kept) | columns_of(chosen, self.strings))

    def _add(self, name: str, columns: Columns) -> None:
        self._gathered.setdefault(name, Gathered()).add(columns)

    def _whole(self, name: str) -> Columns:
        return self._gathered.pop(name, Gathered()).whole()

    def draft(self) -> Draft:
        """The columns on the profile's clock."""
        receipt, strings = self.receipt, self.strings
        found = {name: self._whole(name) for name in ("instruction", "packets", "transfers")}
        clock = _clock(list(found.values()), total_seconds(self.about))
        if clock.unit_ps == 1:
            receipt.remark("Times are read as picoseconds: read as ns they exceed the profile's total time by far.")
        tables = {"instruction": "instruction", "packets": "dma", "transfers": "dma"}
        placed = {name: within(found.pop(name), table, clock, receipt) for name, table in tables.items()}
        for table in ABOUT:
            receipt.show(table, len(getattr(self.about, table)))
        draft = Draft(
            strings,
            receipt,
            _on_clock(placed["instruction"], clock, strings),
            _queues(placed["packets"], self.about, strings),
            _triggers(placed["transfers"], clock, strings),
            _moments(moments(self._whole("semaphore_update"), "semaphore_update", clock, receipt)),
            counters({name: self._whole(name) for name in sorted(COUNTER_TABLES)}, clock, strings, receipt),
            _tensors(self.about, strings, receipt),
            tables={"instructions": "instruction", "packets": "dma", "transfers": "dma"},
        )
        _depend(draft, self._whole("predecessors"))
        return draft


def _clock(found: list[Columns], total_s: float | None) -> Clock:
    """The clock that instructions and DMAs ask for."""
    given = [columns for columns in found if columns]
    if not given:
        return Clock()
    starts, ends = (np.concatenate([columns[name] for columns in given]) for name in (START, END))
    return choose_clock(starts, ends, total_s)


def _instructions(rows: list[InstructionRow], strings: Strings) -> Columns:
    columns = {"id": ints(rows, "id")}
    columns |= {ours: texts(rows, theirs, strings) for theirs, ours in _TEXTS.items()}
    columns |= {name: ints(rows, name) for name in _BYTES}
    columns["engine"] = texts(rows, "subgroup", strings)
    whole, short = (by_value(rows, name, core_of) for name in ("fully_qualified_subgraph", "subgraph"))
    columns["core"] = np.where(whole > 0, whole, short)
    own, compiled = (texts(rows, name, strings) for name in ("nki_source_location", "bir_debug_info_source_location"))
    columns["source"] = np.where(own == NONE, compiled, own)
    columns["wait_ps"] = by_value(rows, "evt_wait_time", clipped)
    columns["elements"] = ints(rows, "elements")
    return columns


def _on_clock(columns: Columns, clock: Clock, strings: Strings) -> Columns:
    """Instructions with engines and the waits in ps."""
    limit = LIMIT_PS // clock.unit_ps
    columns["wait_ps"] = np.clip(columns["wait_ps"], 0, limit) * clock.unit_ps
    columns["engine"] = lookup(strings, columns["engine"], ENGINES, Engine.OTHER).astype(np.int8)
    return columns


def _predecessors(rows: list[InstructionRow]) -> Columns:
    found = [edge for row in rows for edge in row.predecessors or ()]
    counts = [len(row.predecessors or ()) for row in rows]
    return {
        "signaler": ints(found, "id"),
        "waiter": np.repeat(ints(rows, "id"), counts),
        "kind": by_value(found, "type", lambda kind: EDGE_KINDS.get(kind, EdgeKind.ORDER)).astype(np.int8),
    }


def _depend(draft: Draft, edges: Columns) -> None:
    draft.receipt.read("predecessors", size(edges))
    if edges:
        draft.signaler, draft.waiter, draft.kind = edges["signaler"], edges["waiter"], edges["kind"]


def _dma(rows: list[DmaRow], strings: Strings) -> Columns:
    return {
        "id": ints(rows, "id"),
        "core": by_value(rows, "subgraph", core_of),
        "queue_type": texts(rows, "queue_type", strings),
        "variable": by_value(rows, "variable", lambda name: strings.code(_known(name))).astype(np.int32),
        "bytes": ints(rows, "transfer_size"),
        "read_bytes": ints(rows, "read_size"),
        "write_bytes": ints(rows, "write_size"),
    }


def _known(variable: str) -> str | None:
    return None if variable in ("", "unknown") else storable(variable)


def _packets(rows: list[DmaRow], strings: Strings) -> Columns:
    columns = _dma(rows, strings)
    columns["dma_engine"] = by_value(rows, "dma_engine", small).astype(np.int16)
    columns["ring"] = by_value(rows, "dma_queue", small).astype(np.int16)
    columns["queue"] = by_value(rows, "subgroup", lambda name: strings.code(storable(name) or None)).astype(np.int32)
    columns["_parent"] = by_value(rows, "packet_aggregation_id", clipped)
    columns["_index"] = by_value(rows, "packet_idx", clipped)
    return columns


def _queues(packets: Columns, about: About, strings: Strings) -> Columns:
    """Packets with the kinds of their queues, and the names where the profile tells them."""
    packets["queue_type"] = lookup(strings, packets["queue_type"], QUEUE_TYPES, QueueType.UNKNOWN)
    names = {(core_of(row.subgraph), row.q_idx): row.q_name for row in about.dma_queues_info if row.q_name}
    for (core, ring), name in names.items():
        packets["queue"][(packets["core"] == core) & (packets["ring"] == ring)] = strings.code(storable(name))
    return packets


def _transfers(rows: list[DmaRow], strings: Strings) -> Columns:
    columns = _dma(rows, strings)
    columns["queue"] = texts(rows, "subgroup", strings)
    columns["source_memory"] = np.array([memory_of(row.source) for row in rows], np.int64)
    columns["dest_memory"] = np.array([memory_of(row.dest) for row in rows], np.int64)
    columns["_semaphore"] = by_value(rows, "semaphore_id", semaphore_of)
    columns["_trigger_ps"] = np.array(values(rows, "trigger"), object)
    return columns


def _triggers(transfers: Columns, clock: Clock, strings: Strings) -> Columns:
    """Transfers with the kinds of their queues, and the times of their triggers in ps."""
    transfers["queue_type"] = lookup(strings, transfers["queue_type"], QUEUE_TYPES, QueueType.UNKNOWN)
    transfers["_trigger_ps"] = np.array([_trigger(time, clock) for time in transfers["_trigger_ps"]], np.int64)
    return transfers


def _trigger(time: float | None, clock: Clock) -> int:
    return clock.point(time) if time is not None and clock.holds(time) else NONE


def _semaphores(rows: list[SemaphoreRow]) -> Columns:
    return {
        "core": by_value(rows, "subgraph", core_of),
        "semaphore": by_value(rows, "id", semaphore_of),
        "value": ints(rows, "value"),
    }


def _moments(found: Columns) -> Columns:
    return {name: found[column] for name, column in _UPDATE.items()} if found else {}


_UPDATE = {"time_ps": "start_ps", "core": "core", "semaphore": "semaphore", "value": "value"}


def _tensors(about: About, strings: Strings, receipt: Receipt) -> Columns:
    rows = [row for row in about.neff_node if row.variable_name]
    if len(rows) < len(about.neff_node):
        receipt.remark(f"{len(about.neff_node) - len(rows)} rows of neff_node name a subgraph, not a tensor.")
    return {
        "name": texts(rows, "variable_name", strings),
        "type": texts(rows, "type", strings),
        "shape": texts(rows, "shape", strings),
        "bytes": np.maximum(ints(rows, "size"), 0),
        "loads": ints(rows, "load_to_sbuf_dma_count"),
        "loaded_bytes": ints(rows, "load_to_sbuf_total_size_bytes"),
    }
