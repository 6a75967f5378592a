"""A draft made into a trace: rows sorted and linked, causes and regions derived, the receipt closed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim.trace import (
    NONE,
    Counters,
    Edges,
    Instructions,
    Meta,
    Packets,
    Regions,
    SemaphoreUpdates,
    Table,
    Tensors,
    Trace,
    Transfers,
    validate,
)
from trnprof.readers import collectives
from trnprof.readers.dma import build_transfers
from trnprof.readers.draft import Columns, Draft, column, lookup, marks, size, take
from trnprof.readers.operands import parse_operands
from trnprof.readers.receipt import Receipt, total
from trnprof.readers.regions import add_control, build_regions, kernel_window
from trnprof.readers.waits import add_waits

FLOPS_FACTORS = {"fp32": 4.0, "fp8e3": 0.5, "fp8e4": 0.5, "fp8e5": 0.5, "uint8": 0.5}
"""FLOPs in BF16 equivalents; others count once. FP8 counts once on NeuronCore-v2. Source: Explorer's schema 7.4.0."""

NEURONCORE_V2 = ("trn1", "inf2")
FP32_PASSES = 2
"""Rows that one fp32 matmul becomes; `elements` and the profile's FLOPs count each of them in full."""


def assemble(draft: Draft, meta: Meta, warnings: tuple[str, ...] = ()) -> Trace:
    """The trace of a draft; `meta` lacks window and notes, which are derived here."""
    _sort(draft, meta.device)
    transfers = build_transfers(draft)
    _sort_dma(draft, transfers)
    edges = _edges(draft, transfers)
    add_waits(draft, transfers, edges)
    add_control(draft)
    window = kernel_window(draft, transfers)
    regions = build_regions(draft, transfers, meta.kernel, window)
    _count_shown(draft, transfers)
    total = meta.total_ps or int(draft.instructions["end_ps"].max(initial=0))
    trace = Trace(
        replace(
            meta,
            window=window,
            total_ps=total,
            quarantined=draft.receipt.quarantined(draft.tables.values()),
            notes=draft.receipt.notes(warnings),
            receipt=draft.receipt.to_json(),
        ),
        draft.strings,
        _table(Instructions, draft.instructions),
        _table(Transfers, transfers),
        _table(Packets, draft.packets),
        _table(Edges, edges),
        _table(SemaphoreUpdates, _by(draft.semaphore_updates, "time_ps")),
        _table(Counters, _by(draft.counters, "counter", "core", "time_ps")),
        _table(Regions, regions),
        _table(Tensors, draft.tensors),
    )
    validate(trace)
    return trace


def _table(kind: type, columns: Columns) -> Table:
    return kind(size(columns), **{name: values for name, values in columns.items() if name in kind.columns})


def _by(columns: Columns, *keys: str) -> Columns:
    """The rows sorted by the given columns, the first one deciding."""
    if not size(columns):
        return columns
    return take(columns, np.lexsort([columns[key] for key in reversed(keys)]))


def _sort(draft: Draft, device: str) -> None:
    """Sort the instructions, make their ids unique, and read their operands."""
    receipt, instructions = draft.receipt, draft.instructions
    _unique_ids(draft)
    draft.instructions = instructions = _by(instructions, "start_ps", "id")
    if "flops" not in instructions:
        instructions["flops"] = 2 * column(instructions, "elements")
    _read_operands(draft)
    if "adjusted_flops" not in instructions:
        instructions["adjusted_flops"] = _adjusted(draft, device)
        receipt.remark("adjusted_flops is derived from dtypes in the operand text.")


def _unique_ids(draft: Draft) -> None:
    """Give rows that repeat an id a new one; dependencies keep to the first."""
    ids = draft.instructions["id"]
    _, first = np.unique(ids, return_index=True)
    if first.size == ids.size:
        return
    repeated = np.setdiff1d(np.arange(ids.size), first)
    free = np.setdiff1d(np.arange(1, 2 * ids.size + 1), ids)[: repeated.size]
    draft.instructions["id"] = ids = ids.copy()
    ids[repeated] = free
    draft.receipt.remark(f"{repeated.size} instruction rows repeated an id and were renumbered.")


def _read_operands(draft: Draft) -> None:
    """Fill columns that only the operand text has; each distinct text is read once."""
    instructions, strings = draft.instructions, draft.strings
    codes, row = np.unique(column(instructions, "operands", NONE), return_inverse=True)
    facts = [parse_operands(strings[int(code)] or "") for code in codes]
    dtypes = np.array([strings.code(fact.dtype) for fact in facts], np.int32)[row]
    functions = np.array([strings.code(fact.function) for fact in facts], np.int32)[row]
    own = column(instructions, "function", NONE)
    instructions["dtype"] = dtypes
    instructions["function"] = np.where(own == NONE, functions, own)
    elements = column(instructions, "elements")
    derived = np.array([fact.elements for fact in facts], np.int64)[row]
    matmul = marks(strings, instructions["opcode"], "MATMUL")
    instructions["elements"] = np.where((elements > 0) | matmul, elements, derived)
    instructions["partitions"] = np.array([fact.partitions for fact in facts], np.int64)[row]
    instructions["_semaphore"] = np.array([fact.semaphore for fact in facts], np.int64)[row]
    instructions["_element_bytes"] = np.array([fact.element_bytes for fact in facts], np.int64)[row]


def _adjusted(draft: Draft, device: str) -> np.ndarray:
    instructions = draft.instructions
    factors = {name: int(2 * factor) for name, factor in FLOPS_FACTORS.items()}
    if device in NEURONCORE_V2:
        factors |= {name: 2 for name in factors if name.startswith("fp8")}
    factors["fp32"] //= FP32_PASSES
    twice = lookup(draft.strings, instructions["dtype"], factors, 2)
    return instructions["flops"] * twice // 2


def _sort_dma(draft: Draft, transfers: Columns) -> None:
    """Sort transfers and packets by start and renumber the packets' link."""
    if size(transfers):
        order = np.lexsort((transfers["id"], transfers["start_ps"]))
        place = np.empty(order.size + 1, np.int64)
        place[order], place[-1] = np.arange(order.size), NONE
        transfers.update(take(transfers, order))
        draft.packets["transfer"] = place[draft.packets["transfer"]]
    if size(draft.packets):
        draft.packets = _by(draft.packets, "start_ps", "dma_engine", "id")


def _edges(draft: Draft, transfers: Columns) -> Columns:
    """Dependencies as rows of instructions; those that name a row the file lacks are counted."""
    waiter = _rows_of(draft.instructions["id"], draft.waiter)
    signaler = _rows_of(draft.instructions["id"], draft.signaler)
    if size(transfers):
        by_dma = np.append(transfers["instruction"], NONE)[_rows_of(transfers["id"], draft.signaler)]
        signaler = np.where(signaler == NONE, by_dma, signaler)
    known = (signaler != NONE) & (waiter != NONE)
    draft.receipt.set_aside("predecessors", "name a row that is not in the file", int((~known).sum()))
    draft.receipt.show("predecessors", int(known.sum()))
    return {"signaler": signaler[known], "waiter": waiter[known], "kind": draft.kind[known]}


def _rows_of(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Row of each id, -1 where there is none."""
    if not ids.size or not wanted.size:
        return np.full(wanted.size, NONE, np.int64)
    order = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids[order], wanted), ids.size - 1)
    return np.where(ids[order][at] == wanted, order[at], NONE)


def _show(receipt: Receipt, name: str, columns: Columns) -> None:
    receipt.show(name, size(columns))
    if "end_ps" in columns:
        receipt.show_time(name, total(columns["end_ps"] - columns["start_ps"]))


def _count_shown(draft: Draft, transfers: Columns) -> None:
    """Close the receipt; `draft.tables` says what the file calls each table."""
    for table, name in draft.tables.items():
        columns = getattr(draft, table)
        if collectives.MARK in columns:
            mine = columns[collectives.MARK].astype(bool)
            _show(draft.receipt, collectives.TABLE, take(columns, mine))
            columns = take(columns, ~mine)
        _show(draft.receipt, name, columns)
    derived = size(transfers) - size(draft.transfers)
    if derived:
        draft.receipt.remark(f"{derived} of {size(transfers)} transfers were derived from packets.")
