"""Why each instruction of a captured profile started when it did, as far as its rows tell.

The profile has the time an instruction was blocked on semaphores and the instructions it depends on. The dependency
that finished last before the start is the binding one when the engine stood idle until then; otherwise the engine's
own previous instruction is. What neither explains is unknown.
"""

from __future__ import annotations

import numpy as np

from sim.trace import NONE, EdgeKind, Wait
from trnprof.readers.draft import Columns, Draft, column, marks, size

ROUNDING_PS = 1_000
"""Profiles round to ns, so an end may seem 1 ns later than the start that it allowed."""

SEMAPHORE_PS = 150_000
"""A semaphore is seen within this time: 35–55 ns between engines in real trn2 profiles, up to twice that on inf2."""

BLOCKED_PS = 60_000
"""Real profiles show up to 30 ns of semaphore wait on instructions that did not have to wait."""

SEMAPHORE_CHAIN = 16
"""Semaphore waits in a row on one engine that are looked through."""

ISSUE_PS = 2_000_000
"""A DMA trigger keeps its engine for up to this time after its row has ended (software descriptors: about 1.2 us)."""


def add_waits(draft: Draft, transfers: Columns, edges: Columns) -> None:
    """Add `wait` and `wait_for` to the instructions, which are sorted by start; edges are rows."""
    instructions = draft.instructions
    start = instructions["start_ps"]
    before, previous_start, previous_end = _previous(instructions)
    binding, finish, kind = _binding(instructions, transfers, edges)
    idle = start - previous_end
    blocked = column(instructions, "wait_ps") > BLOCKED_PS
    waited = (binding != NONE) & np.where(
        idle > 0, finish > previous_end, blocked & (finish > previous_start) & (start - finish <= SEMAPHORE_PS)
    )
    waited |= (binding != NONE) & (before == NONE)
    queued = ~waited & (before != NONE)
    wait = np.full(start.size, Wait.UNKNOWN, np.int8)
    wait[before == NONE] = Wait.NONE
    wait[queued & (idle <= SEMAPHORE_PS)] = Wait.ENGINE
    triggered = np.append(instructions["_trigger"] == 2, False)[before]
    wait[queued & triggered & (idle > SEMAPHORE_PS) & (idle <= ISSUE_PS)] = Wait.ISSUE
    tables = marks(draft.strings, instructions["opcode"], "ACT_TABLE_LOAD")
    wait[queued & (wait == Wait.ENGINE) & np.append(tables, False)[before]] = Wait.TABLE
    wait[waited] = kind[waited]
    known = (wait != Wait.UNKNOWN) & (wait != Wait.NONE)
    instructions["wait"] = wait
    instructions["wait_for"] = np.where(waited, binding, np.where(queued & known, before, NONE))
    _see_through_semaphores(draft)


def _see_through_semaphores(draft: Draft) -> None:
    """Give a row that followed a semaphore wait on its own engine the cause of that wait."""
    instructions = draft.instructions
    wait, wait_for = instructions["wait"], instructions["wait_for"]
    semaphore = marks(draft.strings, instructions["opcode"], "EVENT_SEMAPHORE") & (wait_for != NONE)
    semaphore &= np.isin(wait, (Wait.DMA, Wait.OPERAND, Wait.BUFFER))
    for _ in range(SEMAPHORE_CHAIN):
        own = np.append(instructions["engine"], NONE)[wait_for] == instructions["engine"]
        follows = np.flatnonzero(own & np.append(semaphore, False)[wait_for])
        if not follows.size:
            return
        behind = wait_for[follows]
        wait[follows], wait_for[follows] = wait[behind], wait_for[behind]


def _previous(instructions: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, start and latest end of what the same engine of the same core did before; row -1 for the first."""
    start, end = instructions["start_ps"], instructions["end_ps"]
    stream = instructions["core"].astype(np.int64) * 64 + instructions["engine"]
    order = np.argsort(stream, kind="stable")
    first = np.append(True, stream[order][1:] != stream[order][:-1])[: order.size]
    row = np.empty(start.size, np.int64)
    row[order] = np.where(first, NONE, np.concatenate(([NONE], order[:-1]))[: order.size])
    reach = np.empty(start.size, np.int64)
    for stretch in np.split(order, np.flatnonzero(first)[1:]):
        reach[stretch] = np.maximum.accumulate(end[stretch])
    return row, np.append(start, 0)[row], np.append(reach, 0)[row]


def _binding(instructions: Columns, transfers: Columns, edges: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, completion and Wait of the dependency that finished last; row -1 where none had finished."""
    count = instructions["start_ps"].size
    binding, finish = np.full(count, NONE, np.int64), np.zeros(count, np.int64)
    kind = np.full(count, Wait.UNKNOWN, np.int8)
    if not size(edges):
        return binding, finish, kind
    completion, by_dma = completions(instructions, transfers)
    signaler, waiter = edges["signaler"], edges["waiter"]
    done = completion[signaler]
    possible = done <= instructions["start_ps"][waiter] + ROUNDING_PS
    signaler, waiter, done, cause = signaler[possible], waiter[possible], done[possible], edges["kind"][possible]
    order = np.lexsort((signaler, done, waiter))
    last = order[np.flatnonzero(np.append(np.diff(waiter[order]) != 0, True))] if order.size else order
    rows = waiter[last]
    binding[rows], finish[rows] = signaler[last], done[last]
    reuse = np.isin(cause[last], (EdgeKind.ANTI, EdgeKind.OUTPUT))
    kind[rows] = np.where(reuse, Wait.BUFFER, np.where(by_dma[signaler[last]], Wait.DMA, Wait.OPERAND))
    return binding, finish, kind


def completions(instructions: Columns, transfers: Columns) -> tuple[np.ndarray, np.ndarray]:
    """When the result of each instruction is visible, and whether a DMA that it triggered decides that."""
    done, by_dma = instructions["end_ps"].copy(), np.zeros(instructions["end_ps"].size, bool)
    if size(transfers):
        linked = np.flatnonzero(transfers["instruction"] != NONE)
        rows = transfers["instruction"][linked]
        np.maximum.at(done, rows, transfers["done_ps"][linked])
        by_dma[rows] = True
    return done, by_dma
