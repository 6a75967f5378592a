"""Neuron Explorer's Parquet directories, any schema version.

Fields are found by name, with the names of other versions behind those of 7.4.0; what is absent stays absent, what is
unknown is counted. Source: profile schema reference 7.4.0. Times are ns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.errors import InputError
from sim.trace import NONE, EdgeKind, Engine, Meta, QueueType, Strings, Trace
from trnprof.readers import collectives, system
from trnprof.readers.assemble import assemble
from trnprof.readers.clock import LIMIT_PS, Clock, choose_clock
from trnprof.readers.draft import EDGE_KINDS, ENGINES, QUEUE_TYPES, Columns, Draft, lookup, size
from trnprof.readers.extra import with_extra
from trnprof.readers.legacy.header import device_of, number
from trnprof.readers.operands import memory_of, semaphore_of
from trnprof.readers.parquet import Source, codes, numbers
from trnprof.readers.receipt import Receipt, total

if TYPE_CHECKING:
    import pyarrow as pa

START, END, LENGTH = ("start_ts", "timestamp"), ("end_ts",), ("duration_ns", "duration")
_TIMED = ("Instruction", "DmaPacket", "DmaPacketAggregated")

_INSTRUCTION_TEXTS = {
    "track": ("timeline_track", "label"),
    "opcode": ("opcode",),
    "operands": ("operands",),
    "name": ("bir_instruction_name", "kernel_instruction_name"),
    "group": ("bir_id",),
    "kind": ("tensor_instruction_type", "instruction_type"),
    "function": ("scalar_activation_fn", "activation_fn"),
    "_layer": ("layer",),
    "_compiler_opcode": ("compiler_opcode",),
}
_INSTRUCTION_NUMBERS = {
    "id": ("id",),
    "elements": ("tensor_elements", "elements"),
    "flops": ("raw_flops",),
    "adjusted_flops": ("adjusted_flops",),
    **{
        name: (name,)
        for name in (
            "hbm_read_bytes",
            "hbm_write_bytes",
            "sbuf_read_bytes",
            "sbuf_write_bytes",
            "psum_read_bytes",
            "psum_write_bytes",
            "spill_save_bytes",
            "spill_reload_bytes",
        )
    },
}
_DMA_NUMBERS = {
    "id": ("id",),
    "bytes": ("transfer_bytes", "transfer_size"),
    "read_bytes": ("read_bytes", "read_size"),
    "write_bytes": ("write_bytes", "write_size"),
}
_PACKET_NUMBERS = {
    "dma_engine": ("engine_idx", "dma_engine"),
    "ring": ("queue_idx", "dma_queue"),
    "_parent": ("packet_aggregation_id",),
    "_index": ("packet_idx",),
}
_COUNTERS = {
    "SbufUsage": {"sbuf": "avg_util_percent"}
    | {f"sbuf_partition_{n}": f"partition_{n}_util_percent" for n in (0, 32, 64, 96)},
    "PsumUsage": {"psum": "avg_util_percent"} | {f"psum_bank_{n}": f"bank_{n}_util_percent" for n in range(8)},
    "HbmUsage": {"hbm_bytes_per_s": "current_throughput"},
    "DmaUsage": {"dma_bytes_per_s": "current_throughput"},
    "PendingDma": {"pending_dma": "value"},
}
_READ = (
    collectives.TABLE,
    "Instruction",
    "DmaPacket",
    "DmaPacketAggregated",
    "Flow",
    "SemaphoreUpdate",
    "TensorInfo",
    "Throttle",
)
_EXPLAIN = ("Summary", "Metadata", "Warning", "SchemaFields", "NeffHeader", "ExecutionInfo")
_ROW = "_row"
"""Row of an instruction in the file."""
_QUEUE_PLACE = re.compile(r"-Q\d+-E\d+$")


def read(folder: Path) -> Trace:
    """The trace of a Neuron Explorer directory; InputError names the table and column at fault."""
    source, receipt, strings = Source(folder), Receipt(), Strings()
    if system.is_system(source):
        return system.read(source)
    if "Instruction" not in source.tables and "DmaPacket" not in source.tables:
        found = ", ".join(sorted(source.tables)[:6])
        raise InputError(f"{folder}: neither Instruction nor DmaPacket table; it has {found}")
    clock = _clock(source)
    draft = Draft(strings, receipt, _with_collectives(source, clock, strings, receipt))
    draft.packets = _packets(source, clock, strings, receipt)
    draft.transfers = _transfers(source, clock, strings, receipt)
    draft.semaphore_updates = _semaphores(source, clock, receipt)
    draft.counters = _counters(source, clock, strings, receipt)
    draft.tensors = _tensors(source, strings, receipt)
    draft.tables = {
        "instructions": "Instruction",
        "packets": "DmaPacket",
        "transfers": "DmaPacketAggregated",
        "semaphore_updates": "SemaphoreUpdate",
        "tensors": "TensorInfo",
    }
    _flow(source, draft)
    for table in sorted(source.tables.keys() - {*_READ, *_EXPLAIN, *_COUNTERS}):
        receipt.leave(table, source.rows(table))
    warnings = source.column("Warning", ("message",))
    told = [] if warnings is None else [str(text) for text in warnings.to_pylist()]
    header = _header(source, folder, receipt)
    _tell(source, receipt)
    trace = assemble(draft, header, tuple(f"The profile warns: {text}" for text in told))
    return with_extra(trace, source, "Instruction", draft.instructions[_ROW])


def _tell(source: Source, receipt: Receipt) -> None:
    """Remark on renamed and absent columns, and on executions."""
    for remark in source.versions.remarks():
        receipt.remark(remark)
    for table in ("Instruction", "DmaPacket"):
        absent = sorted(source.absent.get(table, ()))
        if absent and table in source.tables:
            receipt.remark(f"{table} has no column {', '.join(absent)}.")
    executions = source.rows("ExecutionInfo")
    if executions > 1:
        receipt.remark(f"{executions} executions follow one another in this profile.")


def _clock(source: Source) -> Clock:
    """The clock that instructions and packets ask for."""
    starts, ends = [], []
    unit_ps = source.take_unit((table, names) for table in _TIMED for names in (START, END, LENGTH))
    for table in _TIMED:
        start, end, sound = _span(source, table)
        starts.append(start[sound])
        ends.append(end[sound])
    total_s = number(source.first("Summary").get("total_time"))
    return choose_clock(np.concatenate(starts), np.concatenate(ends), total_s, unit_ps)


def _span(source: Source, table: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts and ends in the file's unit, and which rows have a sound pair."""
    start, has_start = source.times(table, START)
    end, has_end = source.times(table, END)
    length, has_length = source.times(table, LENGTH)
    if source.rows(table) and source.named(table, START) is None:
        raise InputError(f"{source.folder}: table {table} has no column {START[0]}")
    end = np.where(has_end, end, start + length)
    return start, end, has_start & (has_end | has_length) & (end >= start)


def _timed(source: Source, table: str, clock: Clock, receipt: Receipt) -> tuple[Columns, np.ndarray]:
    """start_ps and end_ps of the sound rows, and which rows these are."""
    start, end, sound = _span(source, table)
    receipt.read(table, sound.size)
    receipt.set_aside(table, "have no time, or end before they start", int((~sound).sum()))
    low, high = start - float(clock.base), end - float(clock.base)
    fits = sound & (np.maximum(np.abs(low), np.abs(high)) * clock.unit_ps < LIMIT_PS)
    receipt.set_aside(table, "lie beyond 64-bit picoseconds", int((sound & ~fits).sum()))
    if start.dtype.kind == "i" and end.dtype.kind == "i":
        receipt.read_time(table, total((end - start)[fits]) * clock.unit_ps)
    columns = {"start_ps": _ps(start[fits], clock), "end_ps": _ps(end[fits], clock)}
    columns["core"] = numbers(source.column(table, ("pcore_idx",)), sound.size)[0][fits]
    return columns, fits


def _ps(time: np.ndarray, clock: Clock) -> np.ndarray:
    return (time - clock.base) * clock.unit_ps


def _instructions(source: Source, clock: Clock, strings: Strings, receipt: Receipt) -> Columns:
    table = "Instruction"
    columns, kept = _timed(source, table, clock, receipt)
    columns |= _given(source, table, _INSTRUCTION_NUMBERS, kept)
    columns |= _texts(source, table, _INSTRUCTION_TEXTS, kept, strings)
    columns.setdefault("id", np.arange(1, size(columns) + 1, dtype=np.int64))
    columns.setdefault("opcode", np.full(size(columns), NONE, np.int32))
    columns[_ROW] = np.flatnonzero(kept)
    engines = codes(source.column(table, ("engine", "subgroup")), kept.size, strings)[kept]
    columns["engine"] = lookup(strings, engines, ENGINES, Engine.OTHER)
    own = codes(source.column(table, ("nki_source_location",)), kept.size, strings)[kept]
    compiled = codes(source.column(table, ("bir_debug_info_source_location",)), kept.size, strings)[kept]
    columns["source"] = np.where(own == NONE, compiled, own)
    wait, _ = source.times(table, ("evt_wait_time_ns", "evt_wait_time"))
    columns["wait_ps"] = np.clip(wait[kept], 0, LIMIT_PS // clock.unit_ps) * clock.unit_ps
    return columns


def _with_collectives(source: Source, clock: Clock, strings: Strings, receipt: Receipt) -> Columns:
    instructions = _instructions(source, clock, strings, receipt)
    if not source.rows(collectives.TABLE):
        return instructions
    spans, kept = _timed(source, collectives.TABLE, clock, receipt)
    more = collectives.columns_of(source, spans, kept, strings)
    return collectives.below(instructions, more, collectives.ABSENT)


def _given(source: Source, table: str, wanted: dict[str, tuple[str, ...]], kept: np.ndarray) -> Columns:
    """The number columns that the file has."""
    found = {name: source.column(table, names) for name, names in wanted.items()}
    return {name: numbers(values, kept.size)[0][kept] for name, values in found.items() if values is not None}


def _texts(
    source: Source, table: str, wanted: dict[str, tuple[str, ...]], kept: np.ndarray, strings: Strings
) -> Columns:
    """The text columns that the file has, as codes."""
    found = {name: source.column(table, names) for name, names in wanted.items()}
    return {name: codes(values, kept.size, strings)[kept] for name, values in found.items() if values is not None}


def _dma(source: Source, table: str, clock: Clock, strings: Strings, receipt: Receipt) -> tuple[Columns, np.ndarray]:
    columns, kept = _timed(source, table, clock, receipt)
    columns |= _given(source, table, _DMA_NUMBERS, kept)
    columns.setdefault("id", np.arange(1, size(columns) + 1, dtype=np.int64))
    columns.setdefault("bytes", np.zeros(size(columns), np.int64))
    kinds = codes(source.column(table, ("queue_type",)), kept.size, strings)[kept]
    columns["queue_type"] = lookup(strings, kinds, QUEUE_TYPES, QueueType.UNKNOWN)
    variables = codes(source.column(table, ("variable",)), kept.size, strings)[kept]
    unknown = strings.find("unknown")
    columns["variable"] = np.where(variables == unknown, NONE, variables)
    queues = codes(source.column(table, ("queue_name", "subgroup")), kept.size, strings)[kept]
    columns["queue"] = _renamed(strings, queues, lambda name: _QUEUE_PLACE.sub("", name))
    return columns, kept


def _renamed(strings: Strings, column: np.ndarray, rename: Callable[[str], str]) -> np.ndarray:
    """Codes of the renamed texts."""
    distinct, row = np.unique(column, return_inverse=True)
    names = [strings.code(None if code < 0 else rename(strings[int(code)] or "")) for code in distinct]
    return np.array(names, np.int32)[row]


def _packets(source: Source, clock: Clock, strings: Strings, receipt: Receipt) -> Columns:
    columns, kept = _dma(source, "DmaPacket", clock, strings, receipt)
    columns |= _given(source, "DmaPacket", _PACKET_NUMBERS, kept)
    for name in ("dma_engine", "ring"):
        columns[name] = np.clip(columns.get(name, np.full(size(columns), NONE)), NONE, np.iinfo(np.int16).max)
    return columns


def _transfers(source: Source, clock: Clock, strings: Strings, receipt: Receipt) -> Columns:
    table = "DmaPacketAggregated"
    columns, kept = _dma(source, table, clock, strings, receipt)
    for name, field in (("source_memory", "source"), ("dest_memory", "dest")):
        columns[name] = _numbered(source.column(table, (field,)), kept, memory_of)
    columns["_semaphore"] = _numbered(source.column(table, ("semaphore_id",)), kept, semaphore_of)
    trigger, has = source.times(table, ("trigger",))
    fits = has & (np.abs(trigger - float(clock.base)) * clock.unit_ps < LIMIT_PS)
    columns["_trigger_ps"] = np.where(fits, _ps(np.where(fits, trigger, clock.base), clock), NONE)[kept]
    return columns


def _numbered(values: pa.ChunkedArray | None, kept: np.ndarray, parse: Callable[[str], int]) -> np.ndarray:
    """A number for each text; each distinct text is read once."""
    texts = Strings()
    column = codes(values, kept.size, texts)[kept]
    return np.array([*(parse(text) for text in texts), NONE], np.int64)[column]


def _flow(source: Source, draft: Draft) -> None:
    rows = source.rows("Flow")
    signaler, has_signaler = numbers(source.column("Flow", ("in_id",)), rows)
    waiter, has_waiter = numbers(source.column("Flow", ("out_id",)), rows)
    texts = Strings()
    kinds = codes(source.column("Flow", ("dependency_type",)), rows, texts)
    by_text = [EDGE_KINDS.get(text.upper(), EdgeKind.ORDER) for text in texts]
    whole = has_signaler & has_waiter
    draft.receipt.read("predecessors", rows)
    draft.receipt.set_aside("predecessors", "lack an id", int((~whole).sum()))
    draft.signaler, draft.waiter = signaler[whole], waiter[whole]
    draft.kind = np.array([*by_text, EdgeKind.ORDER], np.int8)[kinds][whole]


def _moments(source: Source, table: str, clock: Clock, receipt: Receipt) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times in ps and cores of the rows with a time, and which rows these are."""
    time, has = source.times(table, ("timestamp", "start_ts"))
    kept = has & (np.abs(time - float(clock.base)) * clock.unit_ps < LIMIT_PS)
    receipt.read(table, kept.size)
    receipt.set_aside(table, "have no usable time", int((~kept).sum()))
    core, _ = numbers(source.column(table, ("pcore_idx",)), kept.size)
    return _ps(time[kept], clock), core[kept], kept


def _semaphores(source: Source, clock: Clock, receipt: Receipt) -> Columns:
    time, core, kept = _moments(source, "SemaphoreUpdate", clock, receipt)
    value, _ = numbers(source.column("SemaphoreUpdate", ("value",)), kept.size)
    semaphore = _numbered(source.column("SemaphoreUpdate", ("id",)), kept, semaphore_of)
    return {"time_ps": time, "core": core, "semaphore": semaphore, "value": value[kept]}


def _counters(source: Source, clock: Clock, strings: Strings, receipt: Receipt) -> Columns:
    parts = []
    for table, columns in _COUNTERS.items():
        time, core, kept = _moments(source, table, clock, receipt)
        receipt.show(table, time.size)
        for name, field in columns.items():
            values = source.column(table, (field,))
            if values is not None and time.size:
                parts.append((strings.code(name), core, time, _floats(values)[kept]))
    parts += _throttle(source, clock, strings, receipt)
    sound = [
        (code, core[~np.isnan(value)], time[~np.isnan(value)], value[~np.isnan(value)])
        for code, core, time, value in parts
    ]
    if not sound:
        return {}
    return {
        "counter": np.concatenate([np.full(time.size, code, np.int32) for code, _, time, _ in sound]),
        "core": np.concatenate([core for _, core, _, _ in sound]),
        "time_ps": np.concatenate([time for _, _, time, _ in sound]),
        "value": np.concatenate([value for *_, value in sound]),
    }


def _floats(values: pa.ChunkedArray) -> np.ndarray:
    """As floats; null is NaN."""
    import pyarrow as pa

    return values.cast(pa.float64(), safe=False).to_numpy()


def _throttle(source: Source, clock: Clock, strings: Strings, receipt: Receipt) -> list[tuple[int, Any, Any, Any]]:
    """`tensor_clock` and, by type, limits that fall back to 0 at the end of an event."""
    time, core, kept = _moments(source, "Throttle", clock, receipt)
    receipt.show("Throttle", time.size)
    if not time.size:
        return []
    texts = Strings()
    kinds = codes(source.column("Throttle", ("type",)), kept.size, texts)[kept]
    length = source.times("Throttle", LENGTH)[0][kept]
    k, n = (numbers(source.column("Throttle", (name,)), kept.size)[0][kept] for name in ("k", "n"))
    limit = k / np.maximum(n, 1)
    order = np.argsort(time, kind="stable")
    parts: list[tuple[int, Any, Any, Any]] = [(strings.code("tensor_clock"), core, time, limit)]
    for kind in np.unique(kinds).tolist():
        mine = order[kinds[order] == kind]
        moments = np.stack((time[mine] + length[mine] * clock.unit_ps, time[mine]), axis=1).ravel()
        values = np.stack((np.zeros(mine.size), limit[mine]), axis=1).ravel()
        parts.append((strings.code(f"throttle_{texts[kind] or 'unknown'}"), np.repeat(core[mine], 2), moments, values))
    return parts


def _tensors(source: Source, strings: Strings, receipt: Receipt) -> Columns:
    table, rows = "TensorInfo", source.rows("TensorInfo")
    receipt.read(table, rows)
    everything = np.ones(rows, bool)
    texts = {"name": ("variable_name",), "type": ("type",), "shape": ("shape",)}
    given = {
        "bytes": ("size",),
        "loads": ("load_to_sbuf_dma_count",),
        "loaded_bytes": ("load_to_sbuf_total_size_bytes",),
    }
    return _texts(source, table, texts, everything, strings) | _given(source, table, given, everything)


def _header(source: Source, folder: Path, receipt: Receipt) -> Meta:
    metadata, summary = source.first("Metadata"), source.first("Summary")
    version = str(metadata.get("profile_schema_version") or "")
    if version.partition(".")[0] not in ("", "7"):
        receipt.remark(f"Schema {version}: fields were matched by name with schema 7.4.0.")
    figures = {name: number(value) for name, value in metadata.items()}
    machine = {name: float(value) for name, value in figures.items() if value is not None}
    machine |= {"tensor_engine_clock_freq": machine["pe_clock_freq"]} if "pe_clock_freq" in machine else {}
    total = number(summary.get("total_time")) or 0
    cores = machine.get("num_physical_cores", 1)
    name = source.first("NeffHeader").get("network_name") or metadata.get("profile_name") or ""
    return Meta(
        is_simulation=metadata.get("is_simulation") is True,
        device=device_of(str(metadata.get("instance_type") or ""), machine),
        source=str(folder),
        kernel=Path(str(name)).stem,
        total_ps=round(total * 1e12) if 0 < total < 1e6 else 0,
        cores=int(cores) if 1 <= cores < 1024 else 1,
        lnc=2 if metadata.get("vnc_enabled") is True else 1,
        tool=str(metadata.get("explorer_version") or ""),
        schema_version=version,
        machine=machine,
        summary={name: value for name, value in summary.items() if value is not None},
    )
