"""Transfers and their packets."""

from __future__ import annotations

import numpy as np

from sim.program import Form, Role
from sim.record.rows import Rows
from sim.schedule import Schedule
from sim.trace import NONE, Memory, Packets, Strings, Transfers


def transfers(timed: Schedule, strings: Strings, rows: Rows, lead: int) -> tuple[Transfers, Packets]:
    """One transfer a DMA; one packet for each DMA engine that it uses."""
    program, moved = timed.program, timed.transfers
    number = moved.instruction
    form = program.form[number]
    fixed = {
        name: np.array([value(f) if f.dma else 0 for f in program.forms] or [0], np.int64)[form]
        for name, value in _columns(strings).items()
    }
    order = np.lexsort((number, moved.start))
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    columns = {
        **fixed,
        "start_ps": moved.start + lead,
        "end_ps": moved.end + lead,
        "done_ps": timed.done[number] + lead,
        "instruction": rows.first[number],
        "core": program.core[number],
        "variable": _variables(timed, strings),
        "wait_ps": moved.wait_ps,
        "wait": moved.wait,
    }
    table = Transfers(len(order), id=np.arange(len(order)), **{name: column[order] for name, column in columns.items()})
    return table, _packets(timed, columns, place, lead)


def _columns(strings: Strings) -> dict:
    """Columns that the form decides."""
    return {
        "queue": lambda form: strings.code(form.dma.queue),
        "queue_type": lambda form: form.dma.queue_type,
        "source_memory": lambda form: _side(form, False)[0],
        "dest_memory": lambda form: _side(form, True)[0],
        "bytes": lambda form: form.dma.bytes,
        "read_bytes": lambda form: _side(form, False)[1],
        "write_bytes": lambda form: _side(form, True)[1],
        "descriptors": lambda form: form.dma.descriptors,
    }


def _side(form: Form, writes: bool) -> tuple[int, int]:
    """(memory, bytes) of what a transfer reads or writes; a written side is its first operand."""
    found = [layout for role, layout in zip(form.roles, form.layouts) if (role is not Role.READ) == writes]
    return (int(found[0].memory), min(form.dma.bytes, found[0].nbytes)) if found else (NONE, 0)


def _variables(timed: Schedule, strings: Strings) -> np.ndarray:
    """The tensor moved: the one in HBM, the destination's if both are."""
    program = timed.program
    side = np.array([_hbm_operand(form) for form in program.forms] or [0], np.int64)
    number = timed.transfers.instruction
    operand = program.operand_start[number] + side[program.form[number]]
    names = np.array([strings.code(storage.name) for storage in program.storages] or [NONE], np.int64)
    return names[program.operands[operand, 0]]


def _hbm_operand(form: Form) -> int:
    found = [k for k, layout in enumerate(form.layouts) if layout.memory is Memory.HBM]
    return next((k for k in found if form.roles[k] is not Role.READ), found[0] if found else 0)


def _packets(timed: Schedule, columns: dict[str, np.ndarray], place: np.ndarray, lead: int) -> Packets:
    """The bytes and descriptors of a transfer are dealt evenly to its engines, the rest to the first."""
    moved = timed.transfers
    count = np.diff(moved.packet_start)
    owner = np.repeat(np.arange(count.size), count)
    piece = np.arange(owner.size) - moved.packet_start[owner]
    engines = int(timed.program.device["dma_engines_nc"])
    start = moved.packets[:, 0] + lead
    order = np.lexsort((piece, owner, start))
    dealt = {}
    for name in ("bytes", "read_bytes", "write_bytes", "descriptors"):
        each, rest = np.divmod(columns[name], count)
        dealt[name] = each[owner] + (piece < rest[owner])
    shared = {name: columns[name][owner] for name in ("core", "queue", "queue_type", "variable")}
    packets = {
        **dealt,
        **shared,
        "start_ps": start,
        "end_ps": moved.packets[:, 1] + lead,
        "transfer": place[owner],
        "dma_engine": _wrapped(moved.first_engine[owner] + piece, engines),
    }
    return Packets(len(order), id=np.arange(len(order)), **{name: column[order] for name, column in packets.items()})


def _wrapped(engine: np.ndarray, engines: int) -> np.ndarray:
    """Engine numbers that ran past the last one once."""
    return np.where(engine >= engines, engine - engines, engine)
