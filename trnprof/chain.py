"""The chain of causes that a trace's end hangs on, walked from the last completion back to the first issue.

At every moment of the window one thing is to blame: the instruction at work, the transfer under way, the latency
between two of them. A walk goes from each instruction to what bound its start (`wait_for`), so that the pieces tile
the window. Where a profile does not tell what bound a start, the gap is unknown and the walk goes on with what the
same engine did before.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from sim.trace import NONE, EdgeKind, Engine, Trace, Wait
from trnprof.regions import window
from trnprof.work import Index


class Cause(IntEnum):
    """Why time passes on the critical path."""

    ENGINE = 0
    """An engine works."""
    ISSUE = 1
    """A DMA is triggered, or an engine takes its next instruction."""
    SEMAPHORE = 2
    """From a completion until the waiter has seen it."""
    DMA_LATENCY = 3
    """From a trigger to the first byte, from the last byte to the semaphore."""
    DMA_BANDWIDTH = 4
    """Bytes move, or wait for other bytes to move."""
    BUFFER = 5
    """Whatever happens here, only a free buffer is waited for."""
    TABLE = 6
    """ScalarE loads an activation table."""
    COLLECTIVE = 7
    UNKNOWN = 8
    """The profile does not tell."""


NEXT = {Wait.TABLE: Cause.TABLE, Wait.ENGINE: Cause.ISSUE, Wait.ISSUE: Cause.ISSUE, Wait.PORT: Cause.ISSUE}
"""What passes between the end of an instruction and the start that it bound; semaphores for the others."""

ROUNDING_PS = 1_000
"""Captured profiles round to ns, so an end may seem 1 ns later than the start that it allowed."""

HANDOVER_PS = 150_000
"""A queue goes on to its next transfer within this time: 61 to 122 ns in real profiles."""

Piece = tuple[int, int, int, int, int]
"""Start, end (ps), row of `instructions`, row of `transfers` (-1 for none), Cause."""


class Chain:
    """The look-ups of a walk."""

    def __init__(self, trace: Trace, index: Index | None = None):
        self.trace = trace
        self.index = index or Index(trace)
        self.begin, self.end = window(trace)
        ins, moved = trace.instructions, trace.transfers
        self.start, self.stop = ins.start_ps, ins.end_ps
        self.wait, self.wait_for = ins.wait, ins.wait_for
        self.moved = moved
        self.done = np.maximum(moved.end_ps, moved.done_ps)
        self.by_trigger = Group(moved.instruction)

    @cached_property
    def work(self) -> np.ndarray:
        """Cause of the time in which each instruction is at work; int8 [rows]."""
        ins, text = self.trace.instructions, self.trace.strings
        found = np.full(len(ins), Cause.ENGINE, np.int8)
        found[ins.control | self.index.issue] = Cause.ISSUE
        found[self.index.table] = Cause.TABLE
        waits = text.find("EVENT_SEMAPHORE")
        found[(ins.opcode == waits) & (waits >= 0)] = Cause.SEMAPHORE
        found[self.collective] = Cause.COLLECTIVE
        return found

    @cached_property
    def collective(self) -> np.ndarray:
        """Which instructions start or are collectives; bool [rows]."""
        ins = self.trace.instructions
        code = self.trace.strings.find("COLLECTIVE")
        return (ins.engine == Engine.COLLECTIVE) | ((ins.opcode == code) & (code >= 0))

    @cached_property
    def before(self) -> np.ndarray:
        """What the same engine of the same core started before; -1 for its first; int64 [rows]."""
        ins = self.trace.instructions
        return _previous(ins.core.astype(np.int64) * len(Engine) + ins.engine)

    @cached_property
    def edges(self) -> Group:
        return Group(self.trace.edges.waiter)

    @cached_property
    def released(self) -> np.ndarray:
        """When each edge let its waiter go, ps: as recorded, else when its signaler was complete; int64 [edges]."""
        edges = self.trace.edges
        completed = np.append(self.complete, 0)[edges.signaler]
        return np.where(edges.ready_ps >= 0, edges.ready_ps, completed)

    @cached_property
    def complete(self) -> np.ndarray:
        """When the result of each instruction is there, those of its transfers included; int64 [rows]."""
        found = self.stop.copy()
        linked = np.flatnonzero(self.moved.instruction >= 0)
        np.maximum.at(found, self.moved.instruction[linked], self.done[linked])
        return found

    @cached_property
    def queue_before(self) -> np.ndarray:
        """The transfer that the same queue of the same core moved before; -1 for its first; int64 [transfers]."""
        return _previous(self.moved.queue.astype(np.int64) * 4096 + self.moved.core)

    @cached_property
    def held_up_by(self) -> np.ndarray:
        """The transfer of its queue that a transfer found still under way, where that is what its start followed at
        once; else -1; int64 [transfers]."""
        moved = self.moved
        ahead, trigger = self.queue_before, moved.instruction
        found = np.full(len(moved), NONE, np.int64)
        known = np.flatnonzero((ahead >= 0) & (trigger >= 0))
        over, start = moved.end_ps[ahead[known]], moved.start_ps[known]
        held = (over > self.stop[trigger[known]]) & (over <= start) & (start - over <= HANDOVER_PS)
        found[known[held]] = ahead[known[held]]
        return found

    @cached_property
    def worked(self) -> np.ndarray:
        """Instructions that work, by their end; int64."""
        rows = self.index.worked
        return rows[np.argsort(self.stop[rows], kind="stable")]

    def last_done(self, by_ps: int) -> int:
        """The instruction at work that ended last, at a moment or before; -1 without one."""
        place = int(np.searchsorted(self.stop[self.worked], by_ps, "right"))
        return int(self.worked[place - 1]) if place else NONE

    def transfer_of(self, row: int, by_ps: int) -> int:
        """The transfer of a trigger that was done last before a moment; -1 without one."""
        rows = self.by_trigger.of(row)
        rows = rows[self.done[rows] <= by_ps + ROUNDING_PS] if rows.size else rows
        return int(rows[np.argmax(self.done[rows])]) if rows.size else NONE

    def could_have_started(self, row: int) -> int:
        """When an instruction that waited for a buffer could have started with a buffer to spare, ps."""
        ins, edges = self.trace.instructions, self.trace.edges
        free = int(self.start[row] - ins.wait_ps[row])
        inputs = self.edges.of(row)
        inputs = inputs[(edges.kind[inputs] == EdgeKind.FLOW) | (edges.kind[inputs] == EdgeKind.ORDER)]
        return max(free, int(self.released[inputs].max(initial=free)))


class Group:
    """Rows of a table by the value that they have."""

    def __init__(self, values: np.ndarray):
        self.order = np.argsort(values, kind="stable")
        self.values = values[self.order]

    def of(self, value: int) -> np.ndarray:
        low, high = np.searchsorted(self.values, (value, value + 1))
        return self.order[low:high]

    def count(self, values: np.ndarray) -> np.ndarray:
        """How many rows have each of these values."""
        return np.searchsorted(self.values, values, "right") - np.searchsorted(self.values, values)

    def spread(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows that have any of these values, place of the value of each)."""
        count = self.count(values)
        place = np.repeat(np.arange(values.size), count)
        within = np.arange(place.size) - np.repeat(np.cumsum(count) - count, count)
        return self.order[np.searchsorted(self.values, values)[place] + within], place


def _previous(stream: np.ndarray) -> np.ndarray:
    """The row before each one of the same stream; -1 for its first; int64 [rows]."""
    order = np.argsort(stream, kind="stable")
    found = np.full(len(stream), NONE, np.int64)
    same = stream[order][1:] == stream[order][:-1]
    found[order[1:][same]] = order[:-1][same]
    return found


@dataclass(slots=True)
class _Walk:
    """Where a walk has come to."""

    chain: Chain
    time: int
    """Everything from here to the end of the window has its piece."""
    pieces: list[Piece]
    spare_from: int
    """From here on a free buffer was all that was waited for."""

    def blame(self, until: int, row: int, transfer: int, cause: Cause) -> None:
        """Give the time from `until` to here to a cause."""
        until = max(until, self.chain.begin)
        if until >= self.time:
            return
        if self.spare_from < self.time:
            split = max(until, self.spare_from)
            self.pieces.append((split, self.time, row, transfer, Cause.BUFFER))
            self.time = split
        if until < self.time:
            self.pieces.append((until, self.time, row, transfer, int(cause)))
        self.time = until

    def instruction(self, row: int, between: Cause) -> tuple[int, int]:
        """Go over an instruction; the (instruction, transfer) that bound its start, of which one is -1.

        between : what passed since it ended
        """
        chain = self.chain
        self.blame(int(chain.stop[row]), row, NONE, between)
        self.blame(int(chain.start[row]), row, NONE, Cause(int(chain.work[row])))
        bound, wait = int(chain.wait_for[row]), int(chain.wait[row])
        if bound in (NONE, row) or wait == Wait.UNKNOWN:
            return self.unknown(row)
        if wait == Wait.BUFFER:
            self.spare_from = min(self.spare_from, chain.could_have_started(row))
        if wait in (Wait.DMA, Wait.BUFFER, Wait.COLLECTIVE):
            transfer = chain.transfer_of(bound, int(chain.start[row]))
            if transfer != NONE:
                late = Cause.COLLECTIVE if chain.collective[bound] else Cause.DMA_LATENCY
                self.blame(int(chain.done[transfer]), row, transfer, Cause.SEMAPHORE)
                self.blame(int(chain.moved.end_ps[transfer]), bound, transfer, late)
                return NONE, transfer
        self.blame(int(chain.stop[bound]), row, NONE, NEXT.get(Wait(wait), Cause.SEMAPHORE))
        return bound, NONE

    def unknown(self, row: int) -> tuple[int, int]:
        """Nothing says why an instruction started when it did: go on with what its engine did before."""
        before = int(self.chain.before[row])
        self.blame(self.chain.begin if before == NONE else int(self.chain.stop[before]), row, NONE, Cause.UNKNOWN)
        return before, NONE

    def transfer(self, number: int) -> tuple[int, int]:
        """Go over a transfer: the bytes, those that it waited for, or the way from its trigger."""
        chain, moved = self.chain, self.chain.moved
        trigger = int(moved.instruction[number])
        wire = trigger != NONE and bool(chain.collective[trigger])
        moves, late = (Cause.COLLECTIVE,) * 2 if wire else (Cause.DMA_BANDWIDTH, Cause.DMA_LATENCY)
        arrival, ahead = int(moved.arrival_ps[number]), int(moved.wait_for[number])
        if arrival != NONE and ahead not in (NONE, number) and moved.wait_ps[number] > 0:
            self.blame(arrival + int(moved.wait_ps[number]), trigger, number, moves)
            self.blame(int(moved.end_ps[ahead]), trigger, number, moves)
            return NONE, ahead
        self.blame(int(moved.start_ps[number]) if arrival == NONE else arrival, trigger, number, moves)
        if trigger == NONE:
            return self.orphan(number)
        ahead = int(chain.held_up_by[number]) if arrival == NONE else NONE
        if ahead != NONE:
            self.blame(int(moved.end_ps[ahead]), trigger, number, late)
            return NONE, ahead
        self.blame(int(chain.stop[trigger]), trigger, number, late)
        return trigger, NONE

    def orphan(self, number: int) -> tuple[int, int]:
        """Nobody is known to have started a transfer: go on with the last work before it, or what its queue moved."""
        ahead, row = int(self.chain.queue_before[number]), self.chain.last_done(self.time)
        until = self.chain.begin if ahead == NONE else int(self.chain.moved.end_ps[ahead])
        if row != NONE and self.chain.stop[row] > until:
            self.blame(int(self.chain.stop[row]), NONE, number, Cause.UNKNOWN)
            return row, NONE
        self.blame(until, NONE, number, Cause.UNKNOWN)
        return NONE, ahead


def walk(chain: Chain) -> list[Piece]:
    """The pieces from the first to the last; they tile the window. One does where rows are several instructions."""
    if chain.end <= chain.begin:
        return []
    state = _Walk(chain, chain.end, [], chain.end)
    row, transfer = (NONE, NONE) if chain.trace.condensed else _last(chain)
    between = Cause.ISSUE if chain.trace.meta.is_simulation else Cause.UNKNOWN
    if transfer != NONE:
        state.blame(int(chain.done[transfer]), int(chain.moved.instruction[transfer]), transfer, between)
        state.blame(int(chain.moved.end_ps[transfer]), int(chain.moved.instruction[transfer]), transfer,
                    Cause.DMA_LATENCY)  # fmt: skip
    # A chain of wrong references could lead round in a circle; none that makes progress is longer than this.
    for _ in range(len(chain.start) + len(chain.moved) + 1):
        if state.time <= chain.begin or (row == NONE and transfer == NONE):
            break
        row, transfer = state.transfer(transfer) if transfer != NONE else state.instruction(row, between)
        between = Cause.SEMAPHORE
    state.blame(chain.begin, NONE, NONE, Cause.UNKNOWN)
    return state.pieces[::-1]


def _last(chain: Chain) -> tuple[int, int]:
    """The (instruction, transfer) whose completion ends the window, of which one is -1; (-1, -1) in an empty one."""
    rows = chain.index.worked
    rows = rows[(chain.start[rows] < chain.end) & (chain.start[rows] >= chain.begin)]
    moved = np.flatnonzero((chain.moved.start_ps < chain.end) & (chain.moved.start_ps >= chain.begin))
    row = int(rows[np.argmax(chain.stop[rows])]) if rows.size else NONE
    transfer = int(moved[np.argmax(chain.done[moved])]) if moved.size else NONE
    if row != NONE and transfer != NONE:
        return (row, NONE) if chain.stop[row] >= chain.done[transfer] else (NONE, transfer)
    return row, transfer
