"""Full profile JSON as `neuron-profile view --output-format json` writes it (profiler 2.27 and 2.28 seen).

One object of snake_case tables. Times are ns although `ticks_per_nanosec` is 1000; some trn3 profiles are said to count
in ps, which the total time gives away. `dma` mixes packets and transfers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from sim.trace import NONE, Engine, Memory, Meta, QueueType, Strings, Trace
from trnprof.readers.assemble import assemble
from trnprof.readers.clock import Clock, choose_clock
from trnprof.readers.draft import EDGE_KINDS, ENGINES, QUEUE_TYPES, Columns, Draft, lookup
from trnprof.readers.receipt import Receipt
from trnprof.readers.rows import (
    DmaRow,
    Document,
    InstructionRow,
    SemaphoreRow,
    decode,
    ints,
    mapped,
    storable,
    texts,
    timed,
)

CARRIED = frozenset(("terminology", "summary_groups", "summary_group_order", *Document.__struct_fields__))
"""Tables that the trace has a place for, or that only explain others."""

THROTTLE_TYPES = {**{n: f"activity_{n}" for n in range(4)}, 99: "unknown"}

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
_MACHINE = {
    "pe_clock_freq": "tensor_engine_clock_freq",
    "pe_clock_others": "neuroncore_clock_freq",
    "pe_num_rows": "tensor_engine_num_rows",
    "pe_num_cols": "tensor_engine_num_cols",
}
"""Legacy metadata names and Explorer's."""


def read(data: bytes, path: str) -> Trace:
    """The trace of a legacy profile; `path` is for messages."""
    receipt = Receipt()
    document = decode(data, path, receipt)
    summary = document.summary[0] if document.summary else {}
    machine = _machine(document)
    draft = _draft(document, receipt, _number(summary.get("total_time")))
    for table, rows in _left(data):
        receipt.leave(table, rows)
    meta = Meta(
        is_simulation=bool((document.metadata or [{}])[0].get("is_simulation", False)),
        device=device_of(str(summary.get("instance_type", "")), machine),
        source=path,
        kernel=_kernel(document),
        total_ps=round((_number(summary.get("total_time")) or 0) * 1e12),
        cores=int(machine.get("num_physical_cores", 1)),
        lnc=2 if (document.metadata or [{}])[0].get("vnc_enabled") else 1,
        tool=_tool(document, summary),
        schema_version="legacy",
        machine=machine,
        summary=summary,
    )
    warnings = (f"The profile warns: {row.get('message', '')}" for row in document.warnings)
    return assemble(draft, meta, tuple(storable(text) for text in warnings))


def _draft(document: Document, receipt: Receipt, total_s: float | None) -> Draft:
    strings = Strings()
    instructions = timed(document.instruction, "instruction", receipt)
    dma = timed(document.dma, "dma", receipt)
    clock = choose_clock([(row.timestamp, row.timestamp + row.duration) for row in (*instructions, *dma)], total_s)
    if clock.unit_ps == 1:
        receipt.remark("Times are read as picoseconds: read as ns they exceed the profile's total time by far.")
    instructions = _within(instructions, "instruction", clock, receipt)
    dma = _within(dma, "dma", clock, receipt)
    draft = Draft(strings, receipt, _instructions(instructions, clock, strings))
    draft.tables = {
        "instructions": "instruction",
        "packets": "dma",
        "transfers": "dma",
        "semaphore_updates": "semaphore_update",
    }
    queue_names = {(_core(row.subgraph), row.q_idx): row.q_name for row in document.dma_queues_info}
    packets = [row for row in dma if row.aggregated != "yes"]
    transfers = [row for row in dma if row.aggregated == "yes"]
    draft.packets = _packets(packets, clock, strings, queue_names)
    draft.transfers = _transfers(transfers, clock, strings)
    draft.semaphore_updates = _semaphores(
        _moments(document.semaphore_update, "semaphore_update", clock, receipt), clock
    )
    _dependencies(draft, instructions)
    draft.counters = _counters(document, clock, strings, receipt)
    draft.tensors = _tensors(document, strings, receipt)
    return draft


def _within(rows: list[Any], table: str, clock: Clock, receipt: Receipt) -> list[Any]:
    kept = [row for row in rows if clock.holds(row.timestamp) and clock.holds(row.timestamp + row.duration)]
    receipt.set_aside(table, "lie beyond 64-bit picoseconds", len(rows) - len(kept))
    return kept


def _moments(rows: list[Any], table: str, clock: Clock, receipt: Receipt) -> list[Any]:
    return _within(timed(rows, table, receipt), table, clock, receipt)


def _span(rows: list[Any], clock: Clock) -> Columns:
    return {
        "start_ps": mapped(rows, lambda row: clock.point(row.timestamp)),
        "end_ps": mapped(rows, lambda row: clock.point(row.timestamp + row.duration)),
    }


def _core(subgraph: str) -> int:
    """Physical core of a subgraph name: sg00, /sg01/layer."""
    digits = subgraph.strip("/").partition("/")[0].removeprefix("sg")
    return int(digits) if digits.isdecimal() and len(digits) < 5 else 0


def _instructions(rows: list[InstructionRow], clock: Clock, strings: Strings) -> Columns:
    columns = {"id": ints(rows, "id"), **_span(rows, clock)}
    columns |= {ours: texts(rows, theirs, strings) for theirs, ours in _TEXTS.items()}
    columns |= {name: ints(rows, name) for name in _BYTES}
    columns["engine"] = lookup(strings, texts(rows, "subgroup", strings), ENGINES, Engine.OTHER)
    columns["core"] = mapped(rows, lambda row: _core(row.fully_qualified_subgraph or row.subgraph))
    columns["source"] = strings.codes(
        storable((row.nki_source_location or row.bir_debug_info_source_location).strip()) or None for row in rows
    )
    columns["wait_ps"] = mapped(rows, lambda row: min(max(row.evt_wait_time, 0), clock_limit(clock)) * clock.unit_ps)
    columns["elements"] = ints(rows, "elements")
    return columns


def clock_limit(clock: Clock) -> int:
    """The longest time in the file's unit that fits 64-bit ps."""
    return (1 << 62) // clock.unit_ps


def _dependencies(draft: Draft, rows: list[InstructionRow]) -> None:
    found = [(p.id, row.id, EDGE_KINDS.get(p.type, 3)) for row in rows for p in row.predecessors]
    draft.receipt.read("predecessors", len(found))
    limit = np.iinfo(np.int64)
    edges = np.array(
        [tuple(min(max(int(value), limit.min), limit.max) for value in edge) for edge in found], np.int64
    ).reshape(-1, 3)
    draft.signaler, draft.waiter, draft.kind = edges[:, 0], edges[:, 1], edges[:, 2].astype(np.int8)


def _dma(rows: list[DmaRow], clock: Clock, strings: Strings) -> Columns:
    kinds = texts(rows, "queue_type", strings)
    return {
        "id": ints(rows, "id"),
        **_span(rows, clock),
        "core": mapped(rows, lambda row: _core(row.subgraph)),
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
    queues = (names.get((_core(row.subgraph), _small(row.dma_queue))) or row.subgroup for row in rows)
    columns["queue"] = strings.codes(storable(name) or None for name in queues)
    columns["_parent"] = mapped(rows, lambda row: min(max(row.packet_aggregation_id or 0, -(1 << 63)), (1 << 63) - 1))
    columns["_index"] = mapped(rows, lambda row: _small(row.packet_idx or 0))
    return columns


def _transfers(rows: list[DmaRow], clock: Clock, strings: Strings) -> Columns:
    columns = _dma(rows, clock, strings)
    columns["queue"] = texts(rows, "subgroup", strings)
    columns["source_memory"] = mapped(rows, lambda row: _memory(row.source))
    columns["dest_memory"] = mapped(rows, lambda row: _memory(row.dest))
    columns["_semaphore"] = mapped(rows, lambda row: _semaphore(row.semaphore_id))
    columns["_trigger_ps"] = mapped(
        rows, lambda row: clock.point(row.trigger) if row.trigger is not None and clock.holds(row.trigger) else NONE
    )
    return columns


def _memory(place: Any) -> int:
    """Memory of a nested list of tokens such as SB, INPUT, WEIGHT; -1 unknown."""
    text = str(place).upper()
    if "SB" in text:
        return Memory.SBUF
    return Memory.HBM if any(token in text for token in ("INPUT", "OUTPUT", "WEIGHT", "DRAM", "HBM")) else NONE


def _small(value: Any) -> int:
    """A 16-bit number out of a number or its text."""
    try:
        return min(max(int(value), -1), 32_767)
    except (TypeError, ValueError):
        return -1


def _semaphore(text: Any) -> int:
    """Number of a semaphore: `S[8] (qSync)`, `207`; -1 when there is none."""
    digits = str(text).partition("[")[2].partition("]")[0] or str(text)
    return int(digits) if digits.isdecimal() and len(digits) < 9 else NONE


def _semaphores(rows: list[SemaphoreRow], clock: Clock) -> Columns:
    return {
        "time_ps": mapped(rows, lambda row: clock.point(row.timestamp)),
        "core": mapped(rows, lambda row: _core(row.subgraph)),
        "semaphore": mapped(rows, lambda row: _semaphore(row.id)),
        "value": ints(rows, "value"),
    }


def _counters(document: Document, clock: Clock, strings: Strings, receipt: Receipt) -> Columns:
    points = [(name, core, clock.point(time), value) for name, core, time, value in _points(document, clock, receipt)]
    return {
        "counter": strings.codes(name for name, *_ in points),
        "core": np.array([core for _, core, *_ in points], np.int16),
        "time_ps": np.array([time for *_, time, _ in points], np.int64),
        "value": np.array([value for *_, value in points], np.float64),
    }


def _points(document: Document, clock: Clock, receipt: Receipt) -> Iterator[tuple[str, int, float, float]]:
    """Name, core, time and value of every step of a counter."""
    for row in _counted(document.pending_dma, "pending_dma", clock, receipt):
        yield "pending_dma", _core(row.subgraph), row.timestamp, row.value
    for row in _counted(document.dma_throughput, "dma_throughput", clock, receipt):
        yield "dma_bytes_per_s", _core(row.subgraph), row.timestamp, row.transfer_rate
        yield "hbm_bytes_per_s", _core(row.subgraph), row.timestamp, row.hbm_transfer_rate
    for row in _counted(document.ham, "ham", clock, receipt):
        limit = row.k / row.n if row.n else 0.0
        yield "tensor_clock", _core(row.subgraph), row.timestamp, limit
        name = THROTTLE_TYPES.get(row.type, str(row.type))
        yield f"throttle_{name}", _core(row.subgraph), row.timestamp, limit
        yield f"throttle_{name}", _core(row.subgraph), row.timestamp + row.duration, 0.0
    yield from _usage(document, clock, receipt)


def _counted(rows: list[Any], table: str, clock: Clock, receipt: Receipt) -> list[Any]:
    kept = _moments(rows, table, clock, receipt)
    receipt.show(table, len(kept))
    return kept


def _usage(document: Document, clock: Clock, receipt: Receipt) -> Iterator[tuple[str, int, float, float]]:
    """Fullness of SBUF and PSUM: sbuf, sbuf_partition_32, psum, psum_bank_0."""
    receipt.read("instruction_usage", len(document.instruction_usage))
    for row in document.instruction_usage:
        time = _number(row.get("timestamp"))
        memory = {"sb": "sbuf", "psum": "psum"}.get(str(row.get("type")))
        if time is None or memory is None or not clock.holds(time):
            receipt.set_aside("instruction_usage", "have no time or memory")
            continue
        receipt.show("instruction_usage", 1)
        for key, value in row.items():
            if key.endswith(("_usage", "usage_avg")) and _number(value) is not None:
                part = key.removesuffix("_usage")
                yield (
                    memory if key == "usage_avg" else f"{memory}_{part}",
                    _core(str(row.get("subgraph", ""))),
                    time,
                    value,
                )


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


def _number(value: Any) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def _machine(document: Document) -> dict[str, float]:
    figures = {_MACHINE.get(key, key): _number(value) for key, value in (document.metadata or [{}])[0].items()}
    return {key: float(value) for key, value in figures.items() if value is not None}


def device_of(instance: str, machine: dict[str, float]) -> str:
    """Device by EC2 instance type, else by the Tensor Engine's clock."""
    family = instance.partition(".")[0].lower()
    for name in ("trn1", "trn2", "trn3", "inf1", "inf2"):
        if family.startswith(name):
            return name
    clock = (machine.get("tensor_engine_clock_freq"), machine.get("neuroncore_clock_freq"))
    return {(2.8, 1.4): "trn1", (2.4, 1.2): "trn2"}.get(clock, "unknown")


def _kernel(document: Document) -> str:
    """The kernel's name: the NEFF's, or its folder's where the file is just called graph."""
    header = (document.neff_header or [{}])[0]
    profile = (document.profile_info or [{}])[0]
    path = PurePosixPath(
        str(header.get("network_name") or profile.get("neff_name") or profile.get("profile_name") or "")
    )
    return storable(path.parent.name if path.stem in ("graph", "file") and path.parent.name else path.stem)


def _tool(document: Document, summary: dict[str, Any]) -> str:
    profile = (document.profile_info or [{}])[0]
    version = profile.get("profiler_version") or summary.get("profiler_version") or ""
    return f"neuron-profile {version}".strip()


def _left(data: bytes) -> Iterator[tuple[str, int]]:
    """Tables that nothing here reads, with their rows."""
    import msgspec

    try:
        rest = msgspec.json.decode(data, type=dict[str, msgspec.Raw | Any])
    except msgspec.DecodeError:
        return
    for table, rows in rest.items():
        if table not in CARRIED and isinstance(rows, list):
            yield table, len(rows)
