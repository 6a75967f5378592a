"""Runs each distinct operator of a graph once, and lays all of them out as the trace of the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sim import spec
from sim.errors import TrnprofError, UnsupportedError
from sim.models.cache import Cache
from sim.models.coarse import coarse
from sim.models.graph import COLLECTIVE, Graph, Layer, Operation, Section
from sim.models.placing import Stretch, Timeline, stretch
from sim.spec import Device
from sim.trace import NONE, Engine, Instructions, Memory, Meta, RegionKind, Strings, Table, Tensors, Trace, Transfers

ROWS = 400_000
"""Rows that the operators without their instructions may take in a trace."""

BRIEF = 4
"""Passes of a section beyond which, if there is much in them, only the first has operators."""

DETAILED = 3_000
"""Calls of operators that all passes of a section may show."""

SLICES = 8
"""Most parts of an operator's time that are told apart then."""

Watcher = Callable[[str, int, int], None]
"""Told of (operation, its number, how many there are) before each distinct one is emulated."""

Exchanges = Callable[[Mapping[str, Any]], tuple[int, int, str]]
"""(duration in ps, bytes that one core sends, algorithm) of a collective's scalars."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One distinct operation, emulated once."""

    operation: Operation
    layer: str
    """Where it is called most often."""
    calls: int
    """In the whole graph."""
    duration_ps: int
    """Of one call."""
    trace: Trace | None
    """None for a collective."""
    wire_bytes: int = 0
    """What a core sends in one call of a collective."""
    algorithm: str = ""

    @property
    def name(self) -> str:
        return f"{self.layer}/{self.operation.name}"

    @property
    def total_ps(self) -> int:
        return self.calls * self.duration_ps


@dataclass(frozen=True, slots=True)
class Emulation:
    """A graph with its times."""

    graph: Graph
    instances: tuple[Instance, ...]
    """In the order of their first occurrence."""
    trace: Trace = field(repr=False)

    @property
    def duration_ps(self) -> int:
        first, last = self.trace.meta.window
        return last - first


def emulate(
    graph: Graph,
    device: str | Device = "trn2",
    lnc: int = 1,
    exchanges: Exchanges | None = None,
    full: bool = False,
    held: Mapping[str, int] | None = None,
    watch: Watcher | None = None,
    folder: Path | None = None,
) -> Emulation:
    """The trace of a graph on one logical core.

    exchanges : what a collective takes; needed where the graph has any
    full      : every instruction of every layer, not of one instance of each operator
    held      : bytes that lie in HBM by what they are
    folder    : where traces of operators are kept between runs; None keeps none
    raises    : UnsupportedError for an operator that there is no kernel for, and whatever its kernel raises
    """
    return laid_out(graph, instances(graph, device, lnc, exchanges, watch, folder), device, lnc, full, held)


def laid_out(
    graph: Graph,
    found: tuple[Instance, ...],
    device: str | Device,
    lnc: int,
    full: bool = False,
    held: Mapping[str, int] | None = None,
    gaps: Mapping[str, int] | None = None,
) -> Emulation:
    """The trace of a graph whose operations have been emulated.

    gaps : ps of idle time after a section, by its name
    """
    return Emulation(graph, found, _Layout(graph, found, full).trace(spec.device(device), lnc, held or {}, gaps or {}))


def instances(
    graph: Graph,
    device: str | Device,
    lnc: int,
    exchanges: Exchanges | None = None,
    watch: Watcher | None = None,
    folder: Path | None = None,
) -> tuple[Instance, ...]:
    """Every distinct operation of a graph, run once; with a folder, what is kept there is not run again."""
    target, told = spec.device(device), watch or (lambda *_: None)
    return tuple(_instances(graph, target, lnc, exchanges, told, Cache(folder)))


def missing(graph: Graph) -> tuple[str, ...]:
    """Operators of the graph that nobody has written."""
    from sim.ops import OPERATORS

    asked = dict.fromkeys(operation.operator for operation, _ in graph.operations())
    return tuple(name for name in asked if name != COLLECTIVE and name not in OPERATORS)


def _instances(
    graph: Graph, device: Device, lnc: int, exchanges: Exchanges | None, watch: Watcher, kept: Cache
) -> Iterator[Instance]:
    lacking = missing(graph)
    if lacking:
        raise UnsupportedError(f"{graph.name}: there is no operator {', '.join(lacking)}")
    found = _distinct(graph)
    for number, (operation, layer, calls) in enumerate(found):
        watch(f"{layer}/{operation.name}", number, len(found))
        if operation.operator == COLLECTIVE:
            yield _exchanged(operation, layer, calls, exchanges)
        else:
            trace = kept.trace(operation.key, device, lnc, partial(launched, operation, device, lnc))
            first, last = trace.meta.window
            yield Instance(operation, layer, calls, last - first, trace)


def _distinct(graph: Graph) -> list[tuple[Operation, str, int]]:
    """Every distinct operation, the layer where it is called most often, and its calls in all."""
    found: dict[tuple, dict[str, tuple[Operation, str, int]]] = {}
    for section in graph.sections:
        for layer in section.layers:
            for operation in layer.operations:
                calls = section.passes * layer.repeat * operation.times
                places = found.setdefault(operation.key, {})
                place = f"{layer.name}/{operation.name}"
                before = places.get(place, (operation, layer.name, 0))[2]
                places[place] = operation, layer.name, before + calls
    most = (max(places.values(), key=lambda place: place[2]) for places in found.values())
    calls = (sum(place[2] for place in places.values()) for places in found.values())
    return [(operation, layer, count) for (operation, layer, _), count in zip(most, calls, strict=True)]


def _exchanged(operation: Operation, layer: str, calls: int, exchanges: Exchanges | None) -> Instance:
    if exchanges is None:
        raise UnsupportedError(f"{layer}/{operation.name}: nobody says what a collective takes")
    duration, wire, algorithm = exchanges(operation.scalars)
    return Instance(operation, layer, calls, duration, None, wire, algorithm)


def launched(operation: Operation, device: Device, lnc: int) -> Trace:
    """The trace of one call of an operator, without values."""
    from sim.launch import TensorSpec
    from sim.ops import launch

    operands = [TensorSpec(operand.shape, operand.dtype) for operand in operation.inputs]
    try:
        run = launch(operation.operator, *operands, device=device, lnc=lnc, values=False, **operation.scalars)
    except TrnprofError as error:
        shapes = ", ".join(f"{operand.dtype}{list(operand.shape)}" for operand in operation.inputs)
        error.message = f"{operation.name}: {operation.operator}({shapes}): {error.message}"
        raise
    return replace(run.trace, recorded=None, meta=replace(run.trace.meta, what_if=device.supposed))


class _Layout:
    """The timeline of a model in the making."""

    def __init__(self, graph: Graph, instances: tuple[Instance, ...], full: bool):
        self.graph = graph
        self.full = full
        self.strings = Strings()
        self.line = Timeline(self.strings)
        self.of = {instance.operation.key: instance for instance in instances}
        self.slices = _slices(graph)
        self.fine: dict[tuple, Stretch] = {}
        self.rough: dict[tuple, Stretch] = {}

    def trace(self, device: Device, lnc: int, held: Mapping[str, int], gaps: Mapping[str, int]) -> Trace:
        root = self.line.open(RegionKind.MODEL, f"{self.graph.name} {self.graph.phase}")
        for section in self.graph.sections:
            self._section(section, self.line.row(root))
            self.line.wait(gaps.get(section.name, 0))
        self.line.close(root)
        name = self.graph.name
        meta = Meta(
            is_simulation=True, device=device.name, source=name, kernel=f"{name} {self.graph.phase}",
            window=(0, self.line.now), total_ps=self.line.now, cores=lnc, lnc=lnc, tool="trnprof", notes=self._notes(),
            what_if=device.supposed,
        )  # fmt: skip
        return Trace(meta=meta, strings=self.strings, tensors=_tensors(held, self.strings), **self._tables())

    def _tables(self) -> dict[str, Table]:
        tables = self.line.tables()
        if self.rough and "counters" in tables:
            # Slices count nothing but the clock: the others would fall to 0 after the first call of each operator.
            steps = tables["counters"]
            tables["counters"] = steps.take(steps.counter == self.strings.code("tensor_clock"))
        return tables

    def _notes(self) -> tuple[str, ...]:
        notes = ["All times are estimates.", "Operators follow each other; none begins before the one before it ends."]
        if not self.full:
            notes.append(
                f"Of each operator one call has every instruction; of the others {self.slices} slices of time say how "
                "busy each engine is"
            )
        return tuple(notes)

    def _section(self, section: Section, parent: int) -> None:
        """All passes; of many, only the first is laid out operator by operator."""
        named = len(self.graph.sections) > 1 or section.passes > 1
        brief = not self.full and section.passes > BRIEF and section.passes * _calls(section) > DETAILED
        for number in range(section.passes):
            name = f"{section.name} {number}" if section.passes > 1 else section.name
            opened = self.line.open(RegionKind.LAYER, name, parent) if named else None
            inside = parent if opened is None else self.line.row(opened)
            if brief and number:
                self.line.place(self._whole(section), inside)
            else:
                self._pass(section, inside)
            if opened is not None:
                self.line.close(opened)

    def _pass(self, section: Section, parent: int) -> None:
        for layer in section.layers:
            for copy in range(layer.repeat):
                self._layer(layer, copy, parent)

    def _whole(self, section: Section) -> Stretch:
        """One pass in slices."""
        key = ("section", section.name)
        if key not in self.rough:
            line, self.line = self.line, Timeline(self.strings)
            self._pass(section, NONE)
            made = Stretch(self.line.now, self.line.tables())
            self.line = line
            self.rough[key] = coarse(made, BRIEF * SLICES, self.strings.code("tensor_clock"))
        return self.rough[key]

    def _layer(self, layer: Layer, copy: int, parent: int) -> None:
        name = f"{layer.name} {copy}" if layer.repeat > 1 else layer.name
        opened = self.line.open(RegionKind.LAYER, name, parent)
        for operation in layer.operations:
            inner = self.line.open(RegionKind.OPERATOR, operation.name, self.line.row(opened))
            for _ in range(operation.times):
                self.line.place(self._stretch(operation), self.line.row(inner))
            self.line.close(inner)
        self.line.close(opened)

    def _stretch(self, operation: Operation) -> Stretch:
        """The first call in full, the others in slices."""
        instance = self.of[operation.key]
        if operation.key not in self.fine:
            self.fine[operation.key] = self._made(instance)
            return self.fine[operation.key]
        if self.full or instance.trace is None:
            return self.fine[operation.key]
        if operation.key not in self.rough:
            self.rough[operation.key] = coarse(self.fine[operation.key], self.slices, self.strings.code("tensor_clock"))
        return self.rough[operation.key]

    def _made(self, instance: Instance) -> Stretch:
        if instance.trace is None:
            return _collective(instance, self.strings)
        return stretch(instance.trace, self.strings)


def _calls(section: Section) -> int:
    """Calls of operators in one pass."""
    return sum(layer.repeat * operation.times for layer in section.layers for operation in layer.operations)


def _slices(graph: Graph) -> int:
    """As many as the rows allow; an operator has some ten rows in each, and a packet on each DMA engine."""
    calls = sum(min(section.passes * _calls(section), max(DETAILED, _calls(section))) for section in graph.sections)
    return max(1, min(SLICES, ROWS // (30 * max(1, calls))))


def _collective(instance: Instance, strings: Strings) -> Stretch:
    """An exchange as one instruction with one transfer over the links."""
    end = np.array([instance.duration_ps])
    zero = np.zeros(1, np.int64)
    kind = str(instance.operation.scalars["kind"])
    instructions = Instructions(
        1, id=zero, start_ps=zero, end_ps=end, engine=zero + Engine.COLLECTIVE, core=zero, region=zero + NONE,
        opcode=strings.codes(["COLLECTIVE"]), function=strings.codes([kind.upper()]),
        name=strings.codes([f"{kind} {instance.algorithm}".strip()]),
    )  # fmt: skip
    transfers = Transfers(
        1, id=zero, start_ps=zero, end_ps=end, done_ps=end, instruction=zero, core=zero,
        queue=strings.codes(["qCollective"]), source_memory=zero + Memory.HBM, dest_memory=zero + Memory.HBM,
        bytes=zero + instance.wire_bytes, read_bytes=zero + instance.wire_bytes,
    )  # fmt: skip
    return Stretch(instance.duration_ps, {"instructions": instructions, "transfers": transfers})


def _tensors(held: Mapping[str, int], strings: Strings) -> Tensors:
    """What lies in HBM, one row a kind."""
    kinds = {name: size for name, size in held.items() if size}
    types = ["WEIGHT" if name == "weights" else "INTERNAL" for name in kinds]
    named = [f"model {name}" for name in kinds]
    return Tensors(
        len(kinds), name=strings.codes(named), type=strings.codes(types), memory=np.full(len(kinds), Memory.HBM),
        bytes=np.fromiter(kinds.values(), np.int64, len(kinds)),
    )  # fmt: skip
