"""What a trace does not tell, and what cannot be judged for want of it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from sim.trace import COMPUTE_ENGINES, Arrays, Memory, Table, Trace, Wait
from trnprof.machine import Machine, machine
from trnprof.words import count

ENGINES = 5


def missing(trace: Trace) -> tuple[str, ...]:
    """One sentence for each thing that a verdict or advice would need and that the trace lacks."""

    def find() -> Arrays:
        sentences = list(_missing(trace, machine(trace)))
        return {"sentences": np.frombuffer(json.dumps(sentences).encode(), np.uint8)}

    return tuple(json.loads(trace.derive("missing", find)["sentences"].tobytes()))


def _missing(trace: Trace, roofs: Machine) -> Iterator[str]:
    ins = trace.instructions
    work = ~ins.control
    if not len(ins) and not len(trace.transfers) and not len(trace.packets):
        yield "No instruction and no transfer: nothing can be judged"
        return
    if not work.any():
        yield "No instruction does work of the kernel: engines cannot be judged"
    if roofs.figures is None:
        known = ", but for what the profile itself says of its machine" if roofs.ceilings else ""
        yield f"The device is unknown: no roofs{known}, so busy time stands for time at the roof"
    yield from _missing_columns(trace, work)
    yield from _missing_memory(trace, roofs)
    yield from _strange_rows(trace)


def _missing_columns(trace: Trace, work: np.ndarray) -> Iterator[str]:
    ins = trace.instructions
    compute = work & np.isin(ins.engine, COMPUTE_ENGINES)
    if compute.any():
        if not ins.flops[compute].any() and not ins.elements[compute].any():
            yield "No FLOPs and no elements: work cannot be held against a compute roof"
        if not (ins.source[compute] >= 0).any():
            yield "No source lines: time cannot be told by line"
    streams = work & (ins.engine < ENGINES)
    if streams.sum() > 1 and np.isin(ins.wait[streams], (Wait.UNKNOWN, Wait.NONE)).all():
        yield "No causes of waits: what an engine waited for, and waits for buffers, are unknown"
    if not len(trace.regions):
        yield "No regions: the trace is judged as a whole and by source line"


def _missing_memory(trace: Trace, roofs: Machine) -> Iterator[str]:
    ins, moved = trace.instructions, trace.transfers
    if not len(moved) and not len(trace.packets):
        yield "No DMA rows: bandwidth, small transfers and waits for data cannot be judged"
    elif len(moved) and not moved.descriptors.any():
        yield "Transfers do not tell their descriptors: small ones cannot be found"
    in_hbm = ins.hbm_read_bytes.any() or ins.hbm_write_bytes.any()
    if not in_hbm and not moved.bytes.any() and not trace.packets.bytes.any():
        yield "No bytes of HBM: arithmetic intensity is unknown"
    if len(trace.tensors) and len(moved) and not (moved.variable >= 0).any():
        yield "Transfers do not name their tensors: reloads cannot be told by tensor"
    elif not len(trace.tensors):
        yield "No tensors: reloads, and the traffic that would do without them, are unknown"
    # An emulated trace has all allocations: a memory without any was not used.
    for memory in () if trace.meta.is_simulation else (Memory.SBUF, Memory.PSUM):
        counted = trace.strings.find(memory.name.lower())
        placed = (trace.allocations.memory == memory).any() and roofs.figures is not None
        if not placed and not (counted >= 0 and (trace.counters.counter == counted).any()):
            yield f"Neither allocations nor a counter of {memory.name}: how full it was is unknown"


def _strange_rows(trace: Trace) -> Iterator[str]:
    """Rows that are counted, but whose time says little."""
    for name, table in (("instruction", trace.instructions), ("transfer", trace.transfers)):
        empty = int(np.count_nonzero(_length(table) == 0))
        if empty:
            yield f"{count(empty)} {name}{'s' if empty > 1 else ''} of no length: counted, but without time"


def _length(table: Table) -> np.ndarray:
    return table.column("end_ps") - table.column("start_ps")
