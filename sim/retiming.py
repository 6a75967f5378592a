"""The same instructions on a machine that is not: what-ifs.

A recording is a program before any compiler pass. On a device with other figures each instruction is described anew,
and the passes, the placement and the schedule run again, so that nothing is scaled by rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sim import stages
from sim.compiler import Options
from sim.dependences import Dependences
from sim.errors import InputError, UnsupportedError
from sim.figures import Figure
from sim.memory import Layout
from sim.program import Cost, Form, Program
from sim.spec import Device
from sim.trace import NONE, EdgeKind, Engine, Trace

FREE = {
    "tensor": Engine.TENSOR,
    "vector": Engine.VECTOR,
    "scalar": Engine.SCALAR,
    "gpsimd": Engine.GPSIMD,
    "dma": Engine.DMA,
}
"""What may cost nothing."""

WITHOUT = ("buffers", "dependences")
"""What may be ignored: that buffers are used again, or all dependences."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What a trace can be timed anew from."""

    program: Program
    """Before any compiler pass."""
    options: Options


@dataclass(frozen=True, slots=True)
class Ideal:
    """What is taken to cost nothing or not to matter, which no figure can say."""

    free: frozenset[str] = frozenset()
    """Keys of `FREE`."""
    without: frozenset[str] = frozenset()
    """Of `WITHOUT`."""


ACTUAL = Ideal()
"""Everything costs what it costs."""


@dataclass(frozen=True, slots=True)
class Retimed:
    """What came of timing a recording anew."""

    trace: Trace
    read: frozenset[str]
    """Figures of the device that its times depend on."""


def recording(trace: Trace) -> Recording:
    """What a trace can be timed anew from; UnsupportedError, with what to do, where it has nothing."""
    if trace.recorded is None:
        raise UnsupportedError(
            f"{trace.meta.source or 'this trace'}: holds no program that could be timed anew",
            remedy="emulate the kernel again: trnprof run FILE.py::KERNEL -o DIR keeps it with the trace",
        )
    return trace.recorded()


def retime(trace: Trace, changes: Mapping[str, float | int | str] | None = None, ideal: Ideal = ACTUAL) -> Retimed:
    """Time a trace's program again.

    changes : figures of the device, as numbers or factors such as "2x"
    raises  : UnsupportedError for a trace that holds no program; CapacityError where it no longer fits;
              InputError for an unknown figure or a value with which an instruction cannot be
    """
    source = recording(trace)
    device = source.program.device.replace(changes or {})
    watched = _Watched(device.figures)
    made = _timed(on_device(source.program, replace(device, figures=watched)), source.options, ideal)
    findings = made.meta.findings
    if ideal.without:
        findings = tuple(replace(found, instruction=NONE) for found in trace.meta.findings)
    meta = replace(
        made.meta, source=trace.meta.source, outputs=trace.meta.outputs, findings=findings, what_if=device.supposed
    )
    return Retimed(replace(made, meta=meta), frozenset(watched.read))


def elsewhere(trace: Trace, table: Device) -> Trace:
    """The trace's program on another device, with the same calls and tiles.

    raises : UnsupportedError for a trace that holds no program, or a device without a timing model; CapacityError
             where it does not fit; InputError for an instruction that the device does not have
    """
    source = recording(trace)
    if not table.emulated:
        raise UnsupportedError(f"{table.title} has no timing model", remedy="only its roofline is known")
    made = _timed(on_device(source.program, table), source.options, ACTUAL)
    return replace(made, meta=replace(made.meta, source=trace.meta.source, outputs=trace.meta.outputs))


def on_device(program: Program, device: Device) -> Program:
    """The same calls as instructions of another device."""
    if len(program.calls) < len(program.forms):
        raise UnsupportedError("the program has instructions that no call made; only a kernel's own can be timed anew")
    layouts = (form.layouts for form in program.forms)
    forms = tuple(described(device, *each) for each in zip(program.calls, layouts, program.asked, strict=True))
    return replace(program, device=device, forms=forms)


def described(device: Device, call: str, layouts: tuple[Layout, ...], asked: tuple) -> Form:
    """The form of a call on a device."""
    from sim.engines import OPS

    stages.pause()
    if call not in OPS:
        raise UnsupportedError(f"{call}: this version has no such instruction", remedy="emulate the kernel again")
    try:
        return OPS[call].describe(device, layouts, *asked)
    except InputError as error:
        raise InputError(f"{call}: {error.message}", source=error.source, remedy=error.remedy) from None


class _Watched(dict[str, Figure]):
    """Figures that remember who was asked for."""

    def __init__(self, figures: Mapping[str, Figure]):
        super().__init__(figures)
        self.read: set[str] = set()

    def get(self, id: str, default: Figure | None = None) -> Figure | None:
        self.read.add(id)
        return super().get(id, default)


def _timed(program: Program, options: Options, ideal: Ideal) -> Trace:
    from sim import compiler, dependences, schedule
    from sim.record import record

    rewritten = compiler.rewrite(program, options)
    stages.pause()
    rewritten, placement = schedule.placed(rewritten, options)
    stages.pause()
    found = _fewer(dependences.find(rewritten, placement), ideal)
    cheaper = replace(rewritten, forms=tuple(_cheaper(form, ideal) for form in rewritten.forms))
    stages.pause()
    timed = schedule.time(cheaper, placement, found, options)
    stages.pause()
    made = record(timed)
    return replace(made, recorded=lambda: Recording(program, options))


def _cheaper(form: Form, ideal: Ideal) -> Form:
    """The form without what is free."""
    dma = form.dma
    if "dma" in ideal.free and dma is not None:
        form = replace(form, dma=replace(dma, dispatch_ps=0, notify_ps=0, service_ps=0, hbm_ps=0), cost=Cost(0, 0))
    if any(form.engine == FREE[name] for name in ideal.free) and dma is None:
        form = replace(form, cost=Cost(0, 0, table=form.cost.table), load_ps=0)
    return form


def _fewer(found: Dependences, ideal: Ideal) -> Dependences:
    """The dependences without those that are ignored."""
    if "dependences" in ideal.without:
        kept = np.zeros(found.predecessor.size, bool)
    elif "buffers" in ideal.without:
        kept = (found.kind != EdgeKind.ANTI) & (found.kind != EdgeKind.OUTPUT)
    else:
        return found
    waiters = found.waiters()[kept]
    start = np.zeros_like(found.start)
    start[1:] = np.cumsum(np.bincount(waiters, minlength=start.size - 1))
    columns = {name: getattr(found, name)[kept] for name in ("predecessor", "kind", "gate", "reuse")}
    return replace(found, start=start, **columns)
