"""How sure an estimate is: the same program on many machines, the uncertain figures of each drawn from their spreads.

Every figure that the times of the program depend on and that has a spread is drawn once for a machine, from a
triangular distribution: its value is the likeliest, nothing lies beyond its spread. Figures of one thing, as the rates
of a DMA engine in either direction, are drawn together. Decisions of the compiler that nobody can know
(`Options.alternatives`) are each taken the other way once, on the machine as it is. `sim.interval` makes intervals of
these, and of what the model is known not to explain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from sim import compiler, dependences, schedule
from sim.allocation import Placement
from sim.compiler import Options
from sim.dependences import Dependences
from sim.errors import CapacityError, InputError
from sim.figures import COUNTED_UNITS, SAMPLES, Figure, catalogue
from sim.interval import Doubt, Interval, interval
from sim.program import Form, Program
from sim.record import record
from sim.retiming import Recording, on_device, recording, retime
from sim.spec import Device
from sim.trace import Trace

DISTRIBUTION = "triangular within each figure's spread; figures of one thing are drawn together"


@dataclass(frozen=True, slots=True)
class Scenario:
    """The program on one of the machines, or compiled another way."""

    decision: str
    """What the compiler does otherwise, as `hoist=False`; empty for a sample."""
    trace: Trace


@dataclass(frozen=True, slots=True)
class ErrorBars:
    """The intervals of a launch."""

    latency_ns: Interval
    total_ns: Interval
    benchmark_ns: Interval | None
    samples: int
    seed: int
    figures: tuple[str, ...]
    """Those drawn."""
    decisions: dict[str, float]
    """latency_ns under each decision taken the other way."""
    doubt: Doubt
    """Odds of the decisions, and what the model does not explain."""


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A program after the passes, with its places and dependences."""

    program: Program
    placement: Placement
    found: Dependences
    is_kept: bool
    """Costs change nothing but times: the passes made no form, and put none in an order by what it costs."""


def error_bars(
    run: Trace | object, samples: int = SAMPLES, seed: int = 0, each: Callable[[Scenario], None] | None = None
) -> ErrorBars:
    """The intervals of a launch's times.

    run    : a `sim.Run`, or an emulated trace that holds its program
    each   : called with every scenario, for what else one wants to know of it
    raises : UnsupportedError for a trace that holds no program
    """
    trace = run if isinstance(run, Trace) else run.trace
    if samples < 1:
        raise InputError(f"samples={samples}: at least one is needed")
    drawn, others = [], {}
    figures = uncertain(trace)
    for scenario in scenarios(trace, samples, seed, figures):
        if each is not None:
            each(scenario)
        if scenario.decision:
            others[scenario.decision] = times(scenario.trace)
        else:
            drawn.append(times(scenario.trace))
    own, source = times(trace), recording(trace)
    doubt = Doubt.of(source.program.device, source.options.generation)
    spans = [
        None if own[k] is None else interval(own[k], [d[k] for d in drawn], {n: o[k] for n, o in others.items()}, doubt)
        for k in range(len(own))
    ]
    latencies = {name: found[0] for name, found in others.items()}
    return ErrorBars(*spans, samples, seed, tuple(figures), latencies, doubt)


def times(trace: Trace) -> tuple[float, float, float | None]:
    """latency_ns, total_ns, benchmark_ns."""
    meta = trace.meta
    benchmark = None if meta.benchmark_ps is None else meta.benchmark_ps / 1e3
    return (meta.window[1] - meta.window[0]) / 1e3, meta.total_ps / 1e3, benchmark


def uncertain(trace: Trace) -> dict[str, Figure]:
    """The figures with a spread that the times of a trace depend on; a size says what fits, not how long it takes."""
    figures = recording(trace).program.device.figures
    asked = (figures[id] for id in sorted(retime(trace).read) if id in figures)
    return {figure.id: figure for figure in asked if figure.spread is not None and figure.unit not in COUNTED_UNITS}


def scenarios(trace: Trace, samples: int, seed: int, figures: dict[str, Figure]) -> Iterator[Scenario]:
    """The program of a trace on sampled machines, then with each decision of its compiler taken the other way."""
    source = recording(trace)
    random = np.random.default_rng(seed)
    compiled = _compiled(source.program, source.options, None)
    for _ in range(samples):
        machine = source.program.device.replace(draw(figures, random))
        compiled = _compiled(on_device(source.program, machine), source.options, compiled)
        yield Scenario("", _trace(source, compiled, trace, machine))
    for decision, options in source.options.alternatives().items():
        try:
            other = _compiled(source.program, options, None)
        except CapacityError:
            continue  # a compiler cannot have done what does not fit
        yield Scenario(decision, _trace(replace(source, options=options), other, trace, source.program.device))


def draw(figures: Mapping[str, Figure], random: np.random.Generator) -> dict[str, float]:
    """A value of each figure within its spread; figures of one thing lie equally far in theirs."""
    entries, depth = catalogue(), {}
    for id in figures:
        depth.setdefault(entries[id].drawn_with or id, random.random())
    return {id: within(figure, depth[entries[id].drawn_with or id]) for id, figure in figures.items()}


def within(figure: Figure, share: float) -> float:
    """The value below which a share of a figure's triangular distribution lies."""
    low, high = figure.spread
    if low >= high:
        return low
    likeliest = min(max(figure.value, low), high)
    before = (likeliest - low) / (high - low)
    if share < before:
        return low + math.sqrt(share * (high - low) * (likeliest - low))
    return high - math.sqrt((1 - share) * (high - low) * (high - likeliest))


def _compiled(program: Program, options: Options, before: _Compiled | None) -> _Compiled:
    """The program after the passes.

    before : what became of it on another machine; of that, what costs do not change is taken over
    """
    if before is not None and before.is_kept and _alike_forms(program.forms, before.program.forms):
        kept = replace(before.program, device=program.device, forms=program.forms)
        return replace(before, program=kept)
    rewritten, placement = schedule.placed(compiler.rewrite(program, options), options)
    is_kept = _keeps_forms(program, rewritten) and not (options.straight and compiler.is_straight(program))
    if before is not None and _alike(rewritten, before.program) and _same_places(placement, before.placement):
        return _Compiled(rewritten, placement, before.found, is_kept)
    return _Compiled(rewritten, placement, dependences.find(rewritten, placement), is_kept)


def _keeps_forms(program: Program, rewritten: Program) -> bool:
    """Whether the passes made no form of their own."""
    pairs = zip(program.forms, rewritten.forms, strict=False)
    return len(program.forms) == len(rewritten.forms) and all(one is other for one, other in pairs)


def _alike(one: Program, other: Program) -> bool:
    """Whether two programs touch the same bytes in the same order on the same engines."""
    columns = ("form", "core", "operand_start", "operands", "order")
    if not all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns):
        return False
    return _alike_forms(one.forms, other.forms)


def _alike_forms(some: tuple[Form, ...], others: tuple[Form, ...]) -> bool:
    """Whether forms are the same but for what they cost."""
    return len(some) == len(others) and all(
        (a.engine, a.roles, a.layouts, a.dma is None) == (b.engine, b.roles, b.layouts, b.dma is None)
        for a, b in zip(some, others, strict=True)
    )


def _same_places(one: Placement, other: Placement) -> bool:
    return np.array_equal(one.offset, other.offset) and np.array_equal(one.partition, other.partition)


def _trace(source: Recording, compiled: _Compiled, trace: Trace, machine: Device) -> Trace:
    made = record(schedule.time(compiled.program, compiled.placement, compiled.found, source.options))
    return replace(made, meta=replace(made.meta, source=trace.meta.source, what_if=machine.supposed))
