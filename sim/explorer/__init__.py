"""A trace as Neuron Explorer's tables, schema 7.4.0.

What documented scripts and AWS's bound formulas read is filled: Instruction, ActiveTime, DmaPacket,
DmaPacketAggregated, Summary, Metadata, TensorInfo, Flow, OpcodeSummary, SchemaFields, Warning; and what our rows can
honestly fill of SemaphoreUpdate, SbufUsage, PsumUsage, HbmUsage, DmaUsage, PendingDma, Throttle, SbufAllocation,
KernelInstructions, ExecutionInfo. A table without rows is not made, as Explorer does. Names keep Explorer's habits:
`Instruction.engine` is Tensor, `ActiveTime.engine` is tensor; `*_percent` are fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.explorer import events
from sim.explorer.columns import Fields, Text, array, arrow_table, merge, ns, schema, storable, version
from sim.explorer.samples import sampled_tables
from sim.trace import ENGINE_NAMES, TABLES, Trace

if TYPE_CHECKING:
    import pyarrow as pa

    from sim.trace import Meta

TOOL = "trnprof"

ESTIMATED = "Times are estimates of the trnprof emulator, not measured on hardware."

_MACHINE = {
    "tensor_engine_num_rows": "pe_rows",
    "tensor_engine_num_cols": "pe_cols",
    "tensor_engine_clock_freq": "clock_tensor",
    "vector_engine_clock_freq": "clock_vector",
    "scalar_engine_clock_freq": "clock_scalar",
    "gpsimd_engine_clock_freq": "clock_gpsimd",
    "num_dma_engines_per_neuroncore": "dma_engines_nc",
    "dma_ddr_bandwidth": "dma_ddr_bandwidth",
    "hbm_ddr_bandwidth": "hbm_ddr_bandwidth",
}
"""Explorer's Metadata fields and the device table's figures."""

_SCALED = {"dma_ddr_bandwidth": 1e9, "hbm_ddr_bandwidth": 1e9}
"""Figures in GB/s that Metadata has in bytes/s."""

BASE_CLOCKS = {"inf1": 1.0, "trn1": 1.4, "inf2": 1.4, "trn2": 1.2}
"""NeuronCore base clock, GHz, that the cycles of a profile are counted in. Source: terminology of real profiles."""

CHANNELS = 128
"""Lanes of Vector, Scalar and GpSimd Engine on every NeuronCore since v2."""


def explorer_tables(trace: Trace, summary: Mapping[str, Any] | None = None) -> Iterator[tuple[str, pa.Table]]:
    """Explorer's tables by name; `summary` is the row of Summary, total_time alone where there is none."""
    written = 1
    for make in _tables(trace):
        for name, (fields, rows) in make().items():
            written += rows
            if rows:
                yield name, arrow_table(name, fields, rows)
    yield "Summary", arrow_table("Summary", _summary(trace, summary, written), 1)


def _tables(trace: Trace) -> tuple[Callable[[], dict[str, tuple[Fields, int]]], ...]:
    """What makes each table, so that a large trace has one in memory at a time."""
    return (
        lambda: {"Instruction": (events.instruction(trace), len(trace.instructions))},
        lambda: {"DmaPacket": (events.dma_packet(trace), len(trace.packets))},
        lambda: {"DmaPacketAggregated": (events.dma_packet_aggregated(trace), len(trace.transfers))},
        lambda: {"Flow": (events.flow(trace), len(trace.edges))},
        lambda: {"SemaphoreUpdate": (events.semaphore_update(trace), len(trace.semaphore_updates))},
        lambda: {"TensorInfo": (events.tensor_info(trace), len(trace.tensors))},
        lambda: {"ActiveTime": events.active_time(trace)},
        lambda: {"SbufAllocation": events.sbuf_allocation(trace)},
        lambda: {"OpcodeSummary": _opcodes(trace)},
        lambda: {"KernelInstructions": _kernel_instructions(trace)},
        lambda: {"Warning": _warnings(trace)},
        lambda: {"Metadata": (_metadata(trace.meta), 1)},
        lambda: {"ExecutionInfo": (_execution(trace), 1)},
        lambda: {"SchemaFields": _schema_fields()},
        lambda: sampled_tables(trace),
    )


def machine_figures(meta: Meta) -> dict[str, float]:
    """Figures under Explorer's Metadata names: the profile's own, else the device table's; without unknown ones."""
    from sim import spec

    figures = dict(meta.machine)
    figures.setdefault("num_physical_cores", meta.cores)
    if meta.device in BASE_CLOCKS:
        figures.setdefault("neuroncore_clock_freq", BASE_CLOCKS[meta.device])
    if meta.device not in spec.NAMES:
        return figures
    device = spec.device(meta.device)
    for name, id in _MACHINE.items():
        value = device.get(id)
        if value is not None:
            figures.setdefault(name, value * _SCALED.get(name, 1))
    return figures


def _metadata(meta: Meta) -> Fields:
    figures = machine_figures(meta)
    known = {field.name: field.type for field in schema()["Metadata"][1]}
    numbers = {
        name: int(value) if known[name].startswith("int") else float(value)
        for name, value in figures.items()
        if known.get(name, "string") not in ("string", "boolean")
    }
    texts = {
        name: storable(str(value))
        for name, value in meta.summary.items()
        if known.get(name) == "string" and isinstance(value, str)
    }
    channels = {f"{engine}_engine_num_channels": CHANNELS for engine in ("vector", "scalar", "gpsimd")}
    return {
        **channels,
        **texts,
        **numbers,
        "profile_schema_version": version(),
        "ntff_version": numbers.get("ntff_version", 0),
        "vnc_enabled": meta.lnc > 1,
        "first_hw_timestamp": 0,
        "last_hw_timestamp": meta.total_ps // 1000,
        "first_ts": "1970-01-01T00:00:00Z",
        "last_ts": f"1970-01-01T00:00:{meta.total_ps / 1e12:012.9f}Z",
        "ticks_per_nanosec": 1000,
        "explorer_version": storable(meta.tool or TOOL),
        "profile_name": storable(meta.kernel),
        "is_simulation": meta.is_simulation,
    }


def _summary(trace: Trace, summary: Mapping[str, Any] | None, rows: int) -> Fields:
    given = {"total_time": trace.meta.total_ps / 1e12, **(summary or {})}
    known = {field.name: field.type for field in schema()["Summary"][1]}
    fields = {
        name: int(value) if known[name].startswith("int") else float(value)
        for name, value in given.items()
        if name in known and isinstance(value, int | float)
    }
    return fields | {"total_row_count": rows}


def _opcodes(trace: Trace) -> tuple[Fields, int]:
    """Counts and times per engine and opcode."""
    rows = trace.instructions
    keys, group = np.unique(np.stack((rows.engine, rows.opcode)), axis=1, return_inverse=True)
    group = group.ravel()
    count = keys.shape[1]
    length = ns(rows.end_ps) - ns(rows.start_ps)
    order = np.argsort(group, kind="stable")
    active = np.zeros(count, np.int64)
    for number, mine in enumerate(np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if order.size else []):
        start, end = merge(ns(rows.start_ps[mine]), ns(rows.end_ps[mine]))
        active[number] = (end - start).sum()
    total = trace.meta.total_ps / 1000
    fields: Fields = {
        "engine": Text(keys[0], ENGINE_NAMES),
        "opcode": Text(keys[1], trace.strings, ""),
        "instruction_count": np.bincount(group, minlength=count).astype(np.int64),
        "instruction_time_ns": np.bincount(group, length, count).astype(np.int64),
        "active_time_ns": active,
        "active_time_percent": active / total if total > 0 else None,
    }
    return fields, count


def _kernel_instructions(trace: Trace) -> tuple[Fields, int]:
    """Names of the kernel's instructions with the lines that made them."""
    rows = trace.instructions
    pairs = np.unique(np.stack((rows.name, rows.source)), axis=1)
    pairs = pairs[:, (pairs >= 0).all(axis=0)]
    sources, row = np.unique(pairs[1], return_inverse=True)
    places = [_place(trace.strings[int(code)] or "") for code in sources]
    lines = np.array([line for _, line in places], np.int64)[row]
    fields: Fields = {
        "kernel_instruction_name": Text(pairs[0], trace.strings),
        "file_path": Text(row, tuple(path for path, _ in places)),
        "line_number": array(lines, lines < 0),
    }
    return fields, pairs.shape[1]


def _place(source: str) -> tuple[str, int]:
    """File and line of `path:line`, -1 where there is no line; a loop's `path:first-last` begins at its first."""
    path, _, lines = source.rpartition(":")
    first = lines.partition("-")[0]
    return (path, int(first)) if path and first.isdecimal() and len(first) < 10 else (source, -1)


def _warnings(trace: Trace) -> tuple[Fields, int]:
    meta = trace.meta
    told = [("Simulation", ESTIMATED)] if meta.is_simulation else []
    told += [("Note", note) for note in meta.notes]
    told += [("Finding", finding.sentence) for finding in meta.findings]
    return {"message": [storable(text) for _, text in told], "category": [kind for kind, _ in told]}, len(told)


def _execution(trace: Trace) -> Fields:
    low, high = trace.meta.window
    return {
        "execution_index": 0,
        "execution_start_ts": low // 1000,
        "execution_end_ts": high // 1000,
        "num_subgraphs": trace.meta.cores,
        "row_count": len(trace.instructions),
    }


def _schema_fields() -> tuple[Fields, int]:
    """The schema as rows, our own columns after Explorer's."""
    rows = [
        (table, meaning, field.name, field.meaning, field.type, field.required, field.unit)
        for table, (meaning, fields) in schema().items()
        for field in fields
    ]
    rows += [
        (OWN_PLACES[name], "columns of trnprof", stored_name(name, column), spec.meaning, str(spec.dtype), False, None)
        for name, kind in TABLES.items()
        for column, spec in kind.columns.items()
        if stored_name(name, column) not in _explorer_names(OWN_PLACES[name])
    ]
    table, text, field, meaning, kind, required, unit = (list(column) for column in zip(*rows, strict=True))
    fields: Fields = {
        "table_name": table,
        "table_description": text,
        "field_name": field,
        "field_description": meaning,
        "field_type": kind,
        "field_required": required,
        "field_format": kind,
        "field_unit": unit,
    }
    return fields, len(rows)


OWN_PLACES = {
    "instructions": "Instruction",
    "transfers": "DmaPacketAggregated",
    "packets": "DmaPacket",
    "edges": "Flow",
    "semaphore_updates": "SemaphoreUpdate",
    "counters": "TrnprofCounters",
    "regions": "TrnprofRegions",
    "tensors": "TensorInfo",
    "allocations": "TrnprofAllocations",
}
"""The file that holds the columns of each of our tables."""


def stored_name(table: str, column: str) -> str:
    """The name of our column in its file: its own where Explorer has none or the very same, else with a prefix."""
    spec = TABLES[table].columns[column]
    theirs = _explorer_names(OWN_PLACES[table])
    same = theirs.get(column) == "int64" and spec.dtype == np.int64 and not spec.text
    return column if column not in theirs or same else f"{TOOL}_{column}"


def _explorer_names(file: str) -> dict[str, str]:
    return {field.name: field.type for field in schema()[file][1]} if file in schema() else {}
