"""Transfers and their packets."""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np

from sim.packets import first_packets, lanes, packets
from sim.program import Form, Role
from sim.record.memory import record_codes
from sim.record.rows import Rows
from sim.schedule import Schedule
from sim.trace import NONE, Memory, Packets, Strings, Transfers, Wait

DEALT = ("bytes", "read_bytes", "write_bytes", "descriptors")
"""Columns of a transfer that are dealt out to its packets."""

SHARED = ("core", "queue", "queue_type", "variable")
"""Columns that its packets have from it."""


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
    columns = {
        **fixed,
        "start_ps": moved.start + lead,
        "end_ps": moved.end + lead,
        "done_ps": timed.done[number] + lead,
        "instruction": rows.first[number],
        "core": program.core[number],
        "variable": _variables(timed, strings),
        "arrival_ps": moved.arrival + lead,
        "wait_ps": moved.wait_ps,
        "wait": moved.wait,
    }
    pieces = _Pieces(timed, {name: columns[name] for name in DEALT + SHARED}, order, lead)
    ahead = _ahead(timed, pieces)
    columns["wait_for"] = np.where(ahead >= 0, pieces.place[ahead], NONE)
    table = Transfers(len(order), id=np.arange(len(order)), **{name: column[order] for name, column in columns.items()})
    names = ("id", "start_ps", "end_ps", "transfer", "dma_engine", *DEALT, *SHARED)
    return table, Packets(int(pieces.start[-1]), **{name: partial(pieces.column, name) for name in names})


def _ahead(timed: Schedule, pieces: _Pieces) -> np.ndarray:
    """The transfer that each one waited for: the last that held the HBM or the DMA engine that it ended on; else -1."""
    program, moved = timed.program, timed.transfers
    number = moved.instruction
    found = np.full(number.size, NONE, np.int64)
    uses = np.array([form.dma is not None and form.dma.hbm_ps > 0 for form in program.forms] or [False], bool)
    shared = np.flatnonzero(uses[program.form[number]])
    in_turn = _followed(shared[np.lexsort((moved.turn[shared], moved.core[shared]))], moved.core)
    narrow = moved.wait == Wait.BANDWIDTH
    found[narrow] = in_turn[narrow]
    queued = np.flatnonzero(moved.wait == Wait.QUEUE)
    if queued.size:
        found[queued] = _engine_holder(timed, pieces, queued)
    return found


def _followed(order: np.ndarray, lane: np.ndarray) -> np.ndarray:
    """What each one follows on its lane, in an order of some or all; -1 for the first of a lane and for others."""
    found = np.full(lane.size, NONE, np.int64)
    same = lane[order[1:]] == lane[order[:-1]]
    found[order[1:][same]] = order[:-1][same]
    return found


def _engine_holder(timed: Schedule, pieces: _Pieces, queued: np.ndarray) -> np.ndarray:
    """The transfer whose packet came right before the last packet of each of these."""
    owner, lane = lanes(timed)
    before = _followed(np.lexsort((timed.transfers.turn[owner], lane)), lane)
    by_end = np.lexsort((np.arange(owner.size), pieces.packets[:, 1], owner))
    last = by_end[pieces.start[queued + 1] - 1]
    return np.where(before[last] >= 0, owner[before[last]], NONE)


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
    """(memory, bytes) of what a transfer reads or writes; operands after the first of a side are indices.

    Of a merged transfer every pair of operands counts.
    """
    found = [layout for role, layout in zip(form.roles, form.layouts) if (role is not Role.READ) == writes]
    pairs = len(form.roles) // 2
    merged = pairs if form.roles == (Role.WRITE, Role.READ) * pairs else 1
    return (int(found[0].memory), min(form.dma.bytes, merged * found[0].nbytes)) if found else (NONE, 0)


def _variables(timed: Schedule, strings: Strings) -> np.ndarray:
    """The tensor moved: the one in HBM, the destination's if both are."""
    program = timed.program
    side = np.array([_hbm_operand(form) for form in program.forms] or [0], np.int64)
    number = timed.transfers.instruction
    storage = program.operands[program.operand_start[number] + side[program.form[number]], 0]
    return record_codes(timed, strings)[timed.placement.columns.record[storage]]


def _hbm_operand(form: Form) -> int:
    found = [k for k, layout in enumerate(form.layouts) if layout.memory is Memory.HBM]
    return next((k for k in found if form.roles[k] is not Role.READ), found[0] if found else 0)


class _Pieces:
    """The packets of all transfers, made when they are first looked at: there are up to 16 of each.

    columns : of the transfers in program order; order: how the trace has them
    """

    def __init__(self, timed: Schedule, columns: dict[str, np.ndarray], order: np.ndarray, lead: int):
        self.timed = timed
        self.moved = timed.transfers
        self.start = first_packets(timed)
        self.engines = int(timed.program.device["dma_engines_nc"])
        self.columns = columns
        self.lead = lead
        self.place = np.empty(order.size, np.int64)
        self.place[order] = np.arange(order.size)

    @cached_property
    def packets(self) -> np.ndarray:
        return packets(self.timed)

    @cached_property
    def order(self) -> np.ndarray:
        """The packets by start; of equals as the program has them."""
        return np.argsort(self.packets[:, 0], kind="stable")

    @cached_property
    def owner(self) -> np.ndarray:
        """Transfer of each packet, in program order."""
        return np.repeat(np.arange(self.place.size), np.diff(self.start))[self.order]

    def column(self, name: str) -> np.ndarray:
        """One column of the table."""
        if name == "id":
            return np.arange(int(self.start[-1]))
        if name in ("start_ps", "end_ps"):
            return self.packets[self.order, 0 if name == "start_ps" else 1] + self.lead
        if name == "transfer":
            return self.place[self.owner]
        if name in SHARED:
            return self.columns[name][self.owner]
        piece = self.order - self.start[self.owner]
        if name == "dma_engine":
            engine = self.moved.first_engine[self.owner] + piece
            return np.where(engine >= self.engines, engine - self.engines, engine)
        each, rest = np.divmod(self.columns[name], np.diff(self.start))
        return each[self.owner] + (piece < rest[self.owner])
