"""Small traces written out by hand, in nanoseconds."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.trace import (
    NONE,
    Allocations,
    Counters,
    Engine,
    Instructions,
    Memory,
    Meta,
    Packets,
    QueueType,
    RegionKind,
    Regions,
    Strings,
    Table,
    Tensors,
    Trace,
    Transfers,
    Wait,
    validate,
)

NS = 1000
Row = dict[str, Any]


def ins(engine: Engine, start: float, length: float, opcode: str = "OP", **columns: Any) -> Row:
    """An instruction that starts and lasts so many ns."""
    return {"engine": engine, "start_ps": round(start * NS), "end_ps": round((start + length) * NS), "opcode": opcode,
            "wait": Wait.UNKNOWN, **columns}  # fmt: skip


def matmul(start: float, length: float = 213, columns: int = 512, dtype: str = "bf16", **more: Any) -> Row:
    macs = 128 * 128 * columns
    flops = 2 * macs
    equivalents = flops * (4 if dtype == "fp32" else 1)
    work = {"kind": "REGULAR", "dtype": dtype, "elements": macs, "flops": flops, "adjusted_flops": equivalents}
    return ins(Engine.TENSOR, start, length, "MATMUL", **work | more)


def vector(start: float, length: float, elements: int = 0, **more: Any) -> Row:
    return ins(Engine.VECTOR, start, length, "TENSOR_TENSOR", partitions=128, elements=elements, dtype="fp32", **more)


def trigger(start: float, length: float = 590, engine: Engine = Engine.SYNC, **more: Any) -> Row:
    return ins(engine, start, length, "DMA_DIRECT2D", **more)


def move(start: float, length: float, size: int, instruction: int = NONE, **more: Any) -> Row:
    """A load from HBM."""
    end = round((start + length) * NS)
    return {"start_ps": round(start * NS), "end_ps": end, "done_ps": end, "bytes": size, "instruction": instruction,
            "source_memory": Memory.HBM, "dest_memory": Memory.SBUF, "wait": Wait.UNKNOWN, **more}  # fmt: skip


def packets_of(start: float, length: float, size: int, engines: int = 16, transfer: int = NONE) -> list[Row]:
    """The same bytes on several DMA engines at once."""
    return [
        {"start_ps": round(start * NS), "end_ps": round((start + length) * NS), "bytes": size // engines,
         "transfer": transfer, "dma_engine": engine, "queue_type": QueueType.DATA}
        for engine in range(engines)
    ]  # fmt: skip


def region(name: str, start: float, end: float, kind: RegionKind = RegionKind.LOOP, parent: int = NONE) -> Row:
    return {"name": name, "kind": kind, "parent": parent, "start_ps": round(start * NS), "end_ps": round(end * NS)}


def make(
    rows: list[Row],
    transfers: list[Row] | None = None,
    packets: list[Row] | None = None,
    regions: list[Row] | None = None,
    allocations: list[Row] | None = None,
    counters: list[Row] | None = None,
    tensors: list[Row] | None = None,
    window: tuple[float, float] | None = None,
    device: str = "trn2",
    **meta: Any,
) -> Trace:
    """A valid trace; rows are given in any order but keep their numbers when already sorted."""
    strings = Strings()
    instructions = table(Instructions, rows, strings)
    ends = [int(instructions.start_ps.min()), int(instructions.end_ps.max())] if rows else [0, 0]
    span = (round(window[0] * NS), round(window[1] * NS)) if window else (ends[0], ends[1])
    head = {"is_simulation": False, "source": "hand.json", "kernel": "kernel", **meta}
    trace = Trace(
        Meta(device=device, window=span, total_ps=span[1], **head),
        strings,
        instructions,
        transfers=table(Transfers, transfers or [], strings),
        packets=table(Packets, packets or [], strings),
        regions=table(Regions, regions or [], strings),
        allocations=table(Allocations, allocations or [], strings),
        counters=table(Counters, counters or [], strings),
        tensors=table(Tensors, tensors or [], strings),
    )
    validate(trace)
    return trace


def table(kind: type[Table], rows: list[Row], strings: Strings) -> Any:
    if "start_ps" in kind.columns and kind is not Regions:
        rows = sorted(rows, key=lambda row: row["start_ps"])
    names = {name for row in rows for name in row}
    columns = {}
    for name in names:
        spec = kind.columns[name]
        values = [row.get(name, None if spec.text else spec.absent) for row in rows]
        columns[name] = strings.codes(values) if spec.text else np.array(values, spec.dtype)
    if rows and "id" in kind.columns:
        columns.setdefault("id", np.arange(len(rows)))
    return kind(len(rows), **columns)
