"""From times to a profile: the tables that a captured trace would have, made from a schedule.

Real profiles show some 15 µs of start-up before the first instruction of a kernel; here all that total_time has beside
the window comes before it. The loading of the first activation tables ends before ScalarE needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from sim.record.counters import counters
from sim.record.dma import transfers
from sim.record.memory import allocations, tensors
from sim.record.regions import regions
from sim.record.rows import Rows, instructions
from sim.schedule import Schedule, picoseconds
from sim.trace import NONE, Edges, Finding, Instructions, Meta, SemaphoreUpdates, Strings, Trace

TOOL = "trnprof"


def record(timed: Schedule, outputs: Sequence[Mapping[str, Any]] = (), source: str = "") -> Trace:
    """The trace of a timed program.

    outputs : name, shape, dtype and sha256 of each output
    source  : where the kernel is from; its name when not given
    """
    program = timed.program
    strings = Strings(program.strings)
    lead = picoseconds(1000 * program.device["kernel.total_extra"])
    rows = Rows(timed, strings, lead)
    tree, innermost = regions(timed, strings, lead)
    transfer_table, packet_table = transfers(timed, strings, rows, lead)
    return Trace(
        meta=_meta(timed, rows, lead, outputs, source),
        strings=strings,
        instructions=Instructions(**instructions(rows), region=innermost[rows.instruction][rows.order]),
        transfers=transfer_table,
        packets=packet_table,
        edges=_edges(timed, rows, lead),
        semaphore_updates=_semaphores(timed, lead),
        counters=counters(timed, strings, lead),
        regions=tree,
        tensors=tensors(program, strings),
        allocations=allocations(timed, strings, lead),
    )


def _edges(timed: Schedule, rows: Rows, lead: int) -> Edges:
    found = timed.dependences
    return Edges(
        found.predecessor.size,
        signaler=rows.last[found.predecessor],
        waiter=rows.first[found.waiters()],
        kind=found.kind,
        ready_ps=partial(_released, timed, lead),
    )


def _released(timed: Schedule, lead: int) -> np.ndarray:
    """When each dependence let its waiter go."""
    return timed.released + lead


def _semaphores(timed: Schedule, lead: int) -> SemaphoreUpdates:
    """One semaphore an engine, counting the completions that another engine or a transfer waits for."""
    from sim.dependences import QUEUES
    from sim.jit.dependences import COMPLETION

    program, found = timed.program, timed.dependences
    awaited = np.zeros(len(program), bool)
    awaited[found.predecessor[found.gate == COMPLETION]] = True
    awaited[timed.transfers.instruction] = False
    who = np.flatnonzero(awaited)
    engine = np.array([form.engine for form in program.forms], np.int64)[program.form[who]]
    number = program.core[who].astype(np.int64) * QUEUES + engine
    order = np.lexsort((who, timed.done[who], number))
    who, number = who[order], number[order]
    begins = np.flatnonzero(np.concatenate(([True], number[1:] != number[:-1]))) if who.size else np.zeros(0, np.int64)
    value = np.arange(who.size) + 1
    value -= np.repeat(value[begins] - 1, np.diff(np.append(begins, who.size)))
    by_time = np.argsort(timed.done[who], kind="stable")
    return SemaphoreUpdates(
        time_ps=(timed.done[who] + lead)[by_time],
        core=program.core[who][by_time],
        semaphore=(number % QUEUES)[by_time],
        value=value[by_time],
    )


def _meta(timed: Schedule, rows: Rows, lead: int, outputs: Sequence[Mapping[str, Any]], source: str) -> Meta:
    program = timed.program
    device = program.device
    length = timed.end_ps
    cores = int(program.core.max(initial=0)) + 1
    return Meta(
        is_simulation=True,
        device=device.name,
        source=source or program.kernel,
        kernel=program.kernel,
        window=(lead, lead + length),
        total_ps=lead + length,
        benchmark_ps=picoseconds(1000 * device["kernel.benchmark_extra"]) + length,
        cores=cores,
        lnc=cores,
        tool=TOOL,
        notes=_notes(timed),
        findings=tuple(_on_row(finding, rows) for finding in timed.findings),
        outputs=tuple(outputs),
    )


def _on_row(finding: Finding, rows: Rows) -> Finding:
    """The finding with the row of its instruction in place of its number."""
    if finding.instruction == NONE:
        return finding
    return replace(finding, instruction=int(rows.first[finding.instruction]))


def _notes(timed: Schedule) -> tuple[str, ...]:
    """What is estimated and what is not modelled, one sentence each."""
    device, options = timed.program.device, timed.options
    notes = [
        f"All times are estimates for {device.title}, from a model of a {device.neuroncore}.",
        "Start-up and tail outside of the kernel window are one constant, shown before the window.",
        "Instruction fetch, bank conflicts in PSUM and descriptor-level arbitration of DMA queues are not modelled.",
    ]
    if not device.validated:
        notes.append(f"No estimate for {device.title} has been compared with a measurement.")
    if options.rename:
        notes.append("Tiles that are overwritten as a whole were given buffers of their own, as the compiler does.")
    fallbacks = sorted({name for name in timed.placement.strategies.values() if name not in ("rotate", "fixed")})
    if fallbacks:
        notes.append(f"Memory was too full to rotate through buffers; placed by {' and '.join(fallbacks)} instead.")
    if len(timed.clocks) == 0 and device.get("pe.clock_window"):
        notes.append("TensorE was never busy enough to leave its cold clock.")
    return tuple(notes)
