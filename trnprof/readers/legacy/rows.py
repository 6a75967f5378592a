"""Rows of the legacy profile JSON, decoded to typed records.

A row lacks the keys that do not apply to it. Rows that are sound are decoded a batch at a time; otherwise one by one,
so that a row of the wrong shape is set aside alone.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from sim.errors import InputError
from trnprof.readers.legacy.stream import Batch, broken
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


class About(msgspec.Struct, gc=False):
    """The tables that say what the profile is of; few rows each."""

    dma_queues_info: list[QueueRow] = []
    neff_node: list[TensorRow] = []
    summary: list[dict[str, Any]] = []
    metadata: list[dict[str, Any]] = []
    warnings: list[dict[str, Any]] = []
    neff_header: list[dict[str, Any]] = []
    profile_info: list[dict[str, Any]] = []


EXPLAIN = frozenset(("terminology", "summary_groups", "summary_group_order"))
"""Tables that only explain the others."""

KINDS: dict[str, Any] = {
    "instruction": InstructionRow,
    "dma": DmaRow,
    "semaphore_update": SemaphoreRow,
    "pending_dma": PendingRow,
    "ham": ThrottleRow,
    "dma_throughput": ThroughputRow,
    "instruction_usage": dict[str, Any],
    "dma_queues_info": QueueRow,
    "neff_node": TensorRow,
    **dict.fromkeys(("summary", "metadata", "warnings", "neff_header", "profile_info"), dict[str, Any]),
}
"""Tables with a place in the trace, and what a row of them is."""


def decode(batch: Batch, path: str, receipt: Receipt) -> list[Any]:
    """The rows of a batch; those of the wrong shape are set aside alone. InputError where JSON breaks off."""
    kind = KINDS[batch.table]
    try:
        rows = msgspec.json.decode(batch.text, type=list[kind])
    except (msgspec.DecodeError, RecursionError):
        rows = _one_by_one(parse(batch, path), batch.table, receipt)
    receipt.read(batch.table, batch.rows)
    return rows


def parse(batch: Batch, path: str) -> list[Any]:
    """JSON, with NaN and Infinity allowed, which Python's own writer produces."""
    try:
        rows = json.loads(batch.text.decode("utf-8", "replace"))
        return _storable(rows) if b"\\ud" in batch.text.lower() else rows
    except json.JSONDecodeError as fault:
        at = len(fault.doc[: fault.pos].encode()) - 1
        raise broken(path, fault.msg, batch.at + at, batch.line + fault.lineno - 1, cut_off=False) from None
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


def _one_by_one(rows: list[Any], table: str, receipt: Receipt) -> list[Any]:
    """The rows of the right shape."""
    if KINDS[table] == dict[str, Any]:
        records = [row for row in rows if isinstance(row, dict)]
        receipt.set_aside(table, "are not records", len(rows) - len(records))
        return records
    kept = []
    for row in rows:
        try:
            kept.append(msgspec.convert(_whole(row), KINDS[table], strict=False))
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


def unlike(tables: list[str]) -> str:
    """What JSON without instruction and DMA rows is instead of a profile; by the names of its tables."""
    if any(name.startswith("n_") for name in tables):
        return "a summary (summary-json), which has no rows to show"
    names = ", ".join(sorted(tables)[:6])
    return f"JSON without instruction and DMA rows{f'; it has {names}' if names else ''}"
