"""Rows of the legacy profile JSON, decoded to typed records.

A row lacks the keys that do not apply to it. Files that are sound are decoded in one pass; otherwise row by row, so
that a row of the wrong shape is set aside alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from sim.errors import InputError
from trnprof.readers.receipt import Receipt

Number = int | float


class Row(msgspec.Struct, gc=False):
    """A stretch of time, or with no duration a moment, on one core."""

    timestamp: Number | None = None
    duration: Number | None = 0
    subgraph: str = ""
    id: int | str = 0


class Predecessor(msgspec.Struct, gc=False):
    id: int
    type: str = ""


class InstructionRow(Row, gc=False):
    duration: Number | None = None
    fully_qualified_subgraph: str = ""
    subgroup: str = ""
    label: str = ""
    opcode: str = ""
    operands: str = ""
    compiler_opcode: str = ""
    bir_id: str = ""
    bir_instruction_name: str = ""
    instruction_type: str = ""
    activation_fn: str = ""
    layer: str = ""
    nki_source_location: str = ""
    bir_debug_info_source_location: str = ""
    evt_wait_time: int = 0
    elements: int = 0
    hbm_read_bytes: int = 0
    hbm_write_bytes: int = 0
    sbuf_read_bytes: int = 0
    sbuf_write_bytes: int = 0
    psum_read_bytes: int = 0
    psum_write_bytes: int = 0
    spill_save_bytes: int = 0
    spill_reload_bytes: int = 0
    predecessors: list[Predecessor] | None = None


class DmaRow(Row, gc=False):
    duration: Number | None = None
    aggregated: str = "no"
    subgroup: str = ""
    dma_engine: int | str = 0
    dma_queue: int | str = 0
    queue_type: str = ""
    variable: str = ""
    source: Any = None
    dest: Any = None
    semaphore_id: str = ""
    packet_aggregation_id: int | None = None
    packet_idx: int | None = 0
    trigger: Number | None = None
    transfer_size: int = 0
    read_size: int = 0
    write_size: int = 0


class SemaphoreRow(Row, gc=False):
    value: int = 0


class PendingRow(Row, gc=False):
    value: Number = 0


class ThrottleRow(Row, gc=False):
    k: int = 0
    n: int = 1
    type: int | str = 99


class ThroughputRow(Row, gc=False):
    transfer_rate: Number = 0
    hbm_transfer_rate: Number = 0


class QueueRow(msgspec.Struct, gc=False):
    q_name: str = ""
    q_idx: int = 0
    subgraph: str = ""


class TensorRow(msgspec.Struct, gc=False):
    variable_name: str = ""
    type: str = ""
    shape: str = ""
    size: int | str = 0
    load_to_sbuf_dma_count: int = 0
    load_to_sbuf_total_size_bytes: int = 0


class Document(msgspec.Struct, gc=False):
    """The tables that a trace has a place for; a table without rows is absent."""

    instruction: list[InstructionRow] = []
    dma: list[DmaRow] = []
    semaphore_update: list[SemaphoreRow] = []
    pending_dma: list[PendingRow] = []
    ham: list[ThrottleRow] = []
    dma_throughput: list[ThroughputRow] = []
    instruction_usage: list[dict[str, Any]] = []
    dma_queues_info: list[QueueRow] = []
    neff_node: list[TensorRow] = []
    summary: list[dict[str, Any]] = []
    metadata: list[dict[str, Any]] = []
    warnings: list[dict[str, Any]] = []
    neff_header: list[dict[str, Any]] = []
    profile_info: list[dict[str, Any]] = []


CARRIED = frozenset((*Document.__struct_fields__, "terminology", "summary_groups", "summary_group_order"))
"""Tables with a place in the trace, and those that only explain them."""

_KINDS: dict[str, Any] = {
    "instruction": InstructionRow,
    "dma": DmaRow,
    "semaphore_update": SemaphoreRow,
    "pending_dma": PendingRow,
    "ham": ThrottleRow,
    "dma_throughput": ThroughputRow,
    "dma_queues_info": QueueRow,
    "neff_node": TensorRow,
}


def decode(data: bytes, path: str, receipt: Receipt) -> Document:
    """The document of a profile; InputError says at which byte JSON breaks off."""
    try:
        document = msgspec.json.decode(data, type=Document)
    except (msgspec.DecodeError, RecursionError):
        return _row_by_row(parse(data, path), path, receipt)
    for table in Document.__struct_fields__:
        receipt.read(table, len(getattr(document, table)))
    return document


def parse(data: bytes, path: str) -> Any:
    """JSON, with NaN and Infinity allowed, which Python's own writer produces."""
    try:
        document = json.loads(data.decode("utf-8", "replace"))
        return _storable(document) if b"\\ud" in data.lower() else document
    except json.JSONDecodeError as fault:
        at = len(fault.doc[: fault.pos].encode())
        at_the_end = fault.pos >= len(fault.doc.rstrip()) or fault.msg.startswith("Unterminated")
        whole = "cut off" if at_the_end else "not valid"
        raise InputError(
            f"{path}: the JSON is {whole} at byte {at} (line {fault.lineno}): {fault.msg}",
            remedy="write it again with neuron-explorer view --output-format json",
        ) from None
    except RecursionError:
        raise InputError(f"{path}: the JSON is nested too deeply to be a profile") from None


def storable(text: str) -> str:
    """The text without lone surrogates, which UTF-8 cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _storable(value: Any) -> Any:
    """The value with every text fit for UTF-8."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {storable(key): _storable(item) for key, item in value.items()}
    return value


def _row_by_row(document: Any, path: str, receipt: Receipt) -> Document:
    if not isinstance(document, dict):
        kind = "a Chrome trace or some other list" if isinstance(document, list) else f"a {type(document).__name__}"
        raise InputError(f"{path}: the JSON holds {kind}; a profile is an object of tables")
    tables: dict[str, Any] = {}
    for table in Document.__struct_fields__:
        rows = document.get(table) or []
        if not isinstance(rows, list):
            raise InputError(f"{path}: table `{table}` is a {type(rows).__name__}, not a list of rows")
        receipt.read(table, len(rows))
        if table in _KINDS:
            tables[table] = _sound(rows, table, receipt)
        else:
            tables[table] = [row for row in rows if isinstance(row, dict)]
            receipt.set_aside(table, "are not records", len(rows) - len(tables[table]))
    return Document(**tables)


def _sound(rows: list[Any], table: str, receipt: Receipt) -> list[Any]:
    """The rows of the right shape."""
    kept = []
    for row in rows:
        try:
            kept.append(msgspec.convert(_whole(row), _KINDS[table], strict=False))
        except (msgspec.ValidationError, OverflowError) as fault:
            where = str(fault).partition("`$.")[2].rstrip("`")
            receipt.set_aside(table, f"have a wrong {where}" if where else "are not records")
    return kept


def _whole(row: Any) -> Any:
    """The row without nulls, and with whole numbers as such."""
    if not isinstance(row, dict):
        return row
    return {
        key: int(value) if isinstance(value, float) and value.is_integer() else value
        for key, value in row.items()
        if value is not None
    }


def unlike(data: bytes) -> str:
    """What JSON without instruction and DMA rows is instead of a profile."""
    try:
        tables = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        tables = {}
    if "traceEvents" in tables:
        return "a Chrome or Perfetto trace, which does not open yet"
    if any(name.startswith("n_") for name in tables):
        return "a summary (summary-json), which has no rows to show"
    names = ", ".join(sorted(tables)[:6])
    return f"JSON without instruction and DMA rows{f'; it has {names}' if names else ''}"


def left(data: bytes) -> Iterator[tuple[str, int]]:
    """Tables that the trace has no place for, with their rows."""
    try:
        tables = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return
    for table in tables.keys() - CARRIED:
        try:
            yield table, len(msgspec.json.decode(tables[table], type=list[msgspec.Raw]))
        except msgspec.DecodeError:
            yield table, 1
