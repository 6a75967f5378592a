"""A training step of one core: microbatches through its pipeline stage, gradients, optimizer.

Weights and what flows are in the workload's format, gradients are summed in fp32, and the optimizer (AdamW) keeps
weights and two moments in fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from sim.models import pipeline
from sim.models.backward import backward, kept_bytes
from sim.models.graph import COLLECTIVE, SIZES, Graph, Layer, Operand, Operation, Section
from sim.models.workload import Sharding, Workload
from sim.overlap import MEMORY, Demand, behind, together

GRADIENT = SIZES["fp32"]
MOMENTS = 3 * SIZES["fp32"]
"""Bytes that the optimizer keeps of a weight: itself and two moments."""
PIECE = (16384, 4096)
"""Weights that one call of the optimizer updates at most."""

Duration = Callable[[Operation], int]


@dataclass(frozen=True, slots=True)
class Shares:
    """Of the HBM bandwidth of a core."""

    work: Callable[[Operation], float]
    """That an operation takes."""
    exchange: Callable[[Mapping[str, Any]], float]
    """That an exchange takes, by its scalars."""


ALONE = Shares(lambda operation: 0.0, lambda scalars: 0.0)
"""Work and exchanges do not slow each other."""


@dataclass(frozen=True, slots=True)
class Exposed:
    """An exchange of a step: all of it, and what no work hides, ps."""

    name: str
    total_ps: int
    exposed_ps: int
    size_bytes: int
    ranks: int
    slowed_ps: int = 0
    """That the work which hides it takes longer for it."""

    @property
    def added_ps(self) -> int:
        return self.exposed_ps + self.slowed_ps


@dataclass(frozen=True, slots=True)
class Step:
    """One training step as the core sees it whose stage works longest."""

    graph: Graph
    """Microbatches, gradients and optimizer of that stage."""
    gaps: Mapping[str, int]
    """ps of idle time after a section of the graph."""
    microbatches: int
    step_ps: int
    bubble_ps: int
    """In which the stage has nothing to do."""
    exchanges: tuple[Exposed, ...]
    """Of gradients and weights over dp."""
    held: Mapping[str, int]
    """Bytes in HBM, of the fullest stage."""


def microbatches(workload: Workload, sharding: Sharding) -> int:
    """Passes through the pipeline in one step."""
    return workload.batch // sharding.dp // workload.microbatch


def passes(forward: Graph, recompute: str) -> Graph:
    """The forward and the backward pass of every stage over one microbatch."""
    sections = []
    for section in forward.sections:
        back = tuple(backward(layer, recompute) for layer in reversed(section.layers))
        sections.append(replace(section, layers=section.layers + back))
    return Graph(forward.name, forward.phase, tuple(sections))


@dataclass(frozen=True, slots=True)
class Weights:
    """How many weights one core has."""

    common: int
    """That every data-parallel core has alike."""
    expert: int
    """That the cores have alike which experts are not spread over."""

    def spread(self, sharding: Sharding, zero: int) -> int:
        """Those of a core from a stage of ZeRO on, whose cores share them out."""
        if sharding.zero < zero:
            return self.common + self.expert
        return ceil(self.common / sharding.dp) + ceil(self.expert / alike(sharding))


def alike(sharding: Sharding) -> int:
    """Data-parallel cores that have the same experts."""
    return sharding.dp // sharding.ep if sharding.experts_over_data else sharding.dp


def parameters(forward: Graph, element: int) -> tuple[Weights, ...]:
    """Of each pipeline stage on one core."""
    whole = forward.by_stage(lambda layer: layer.weight_bytes)
    experts = forward.by_stage(lambda layer: layer.expert_bytes)
    return tuple(Weights((size - own) // element, own // element) for size, own in zip(whole, experts, strict=True))


def _update(weights: Weights, sharding: Sharding) -> Layer:
    """The optimizer over the weights of a core, spread over dp from ZeRO 1 on."""
    own = weights.spread(sharding, 1)
    each = PIECE[0] * PIECE[1]
    calls = max(1, ceil(own / each))
    rows = min(PIECE[0], max(1, ceil(own / calls / PIECE[1])))
    state = Operand((rows, PIECE[1]), "fp32")
    return Layer("optimizer", (Operation("adamw", "adamw", (state,) * 4, {}, calls),), owns_weights=False)


def needed(forward: Graph, workload: Workload, sharding: Sharding) -> Graph:
    """Every distinct operation of a step, to be emulated."""
    graph = passes(forward, workload.recompute)
    updates = tuple(_update(weights, sharding) for weights in parameters(forward, workload.element))
    return replace(graph, sections=(*graph.sections, Section("optimizer", updates)))


def step(
    forward: Graph,
    workload: Workload,
    sharding: Sharding,
    duration: Duration,
    exchange: Callable[[Mapping[str, Any]], int] | None,
    slow: float = 1.0,
    shares: Shares = ALONE,
) -> Step:
    """A step from the durations of its operations.

    exchange : ps that a collective takes, from its scalars
    slow     : how many times longer one chip of the first stage takes for all that it does; the others wait for it
    shares   : what work and exchanges at the same time take of HBM
    """
    graph = passes(forward, workload.recompute)
    pieces = graph.sections
    count = microbatches(workload, sharding)
    fair = _times(pieces, sharding, duration)
    went = pipeline.run(*([[round(ps * slow) for ps in own[0]], *own[1:]] for own in fair), count)
    stage = went.slowest
    own = [section for section in pieces if section.stage == stage]
    update = _update(parameters(forward, workload.element)[stage], sharding)
    exchanges = _exchanged(own, workload, sharding, duration, exchange, shares)
    optimizer = sum(one.times * duration(one) for one in update.operations)
    exposed = [_exposed_operation(one) for one in exchanges if one.added_ps]
    sections = [Section("microbatch", _joined(own), count, stage)]
    if exposed:
        sections.append(Section("gradients", (Layer("gradients", tuple(exposed)),), stage=stage))
    sections.append(Section("optimizer", (update,), stage=stage))
    apart = sum(one.added_ps for one in exchanges)
    total = went.end_ps + apart + round(optimizer * slow)
    shown = count * sum(sum(own[stage]) for own in fair) + apart + optimizer
    return Step(
        graph=Graph(forward.name, forward.phase, tuple(sections)),
        gaps={"microbatch": total - shown},
        microbatches=count,
        step_ps=total,
        bubble_ps=went.bubble_ps,
        exchanges=exchanges,
        held=held(forward, workload, sharding, went.most_held),
    )


def _joined(sections: Sequence[Section]) -> tuple[Layer, ...]:
    """All pieces of a stage: forward through each, backward through each."""
    layers = [layer for section in sections for layer in section.layers if layer.owns_weights]
    return (*layers, *(layer for section in reversed(sections) for layer in section.layers if not layer.owns_weights))


def _times(
    pieces: Sequence[Section], sharding: Sharding, duration: Duration
) -> tuple[list[list[int]], list[list[int]]]:
    """ps of the forward and of the backward pass of each stage and piece."""
    times: tuple[list[list[int]], list[list[int]]] = ([], [])
    for stage in range(sharding.pp):
        own = [section for section in pieces if section.stage == stage]
        for sums, back in ((times[0], False), (times[1], True)):
            sums.append([
                sum(_layer_ps(layer, duration) for layer in section.layers if layer.owns_weights != back)
                for section in own
            ])  # fmt: skip
    return times


def _layer_ps(layer: Layer, duration: Duration) -> int:
    return layer.repeat * sum(one.times * duration(one) for one in layer.operations)


def _exchanged(
    own: Sequence[Section], workload: Workload, sharding: Sharding, duration: Duration,
    exchange: Callable[[Mapping[str, Any]], int] | None, shares: Shares,
) -> tuple[Exposed, ...]:  # fmt: skip
    """Gradients are exchanged layer by layer behind the last backward pass, weights behind the first forward pass."""
    if sharding.dp * sharding.cp == 1 or exchange is None:
        return ()
    back = [layer for section in reversed(own) for layer in section.layers if not layer.owns_weights]
    front = [layer for section in own for layer in section.layers if layer.owns_weights]
    wire = _Wire(exchange, sharding, workload.element, duration, shares)
    kind = "reduce_scatter" if sharding.zero else "all_reduce"
    turned = list(reversed(front))
    found = [wire.behind("gradients", kind, back, turned, GRADIENT)]
    if sharding.zero:
        # Seen from its end, gathering before use is scattering after it.
        found.append(wire.behind("weights", "all_gather", turned, turned, workload.element))
        if sharding.zero == 3:
            found.append(wire.again(found[-1], front, 2 * microbatches(workload, sharding) - 1))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Wire:
    """Exchanges over the cores that have the same weights."""

    exchange: Callable[[Mapping[str, Any]], int]
    sharding: Sharding
    element: int
    duration: Duration
    shares: Shares

    def once(self, kind: str, layer: Layer, each: int) -> Demand:
        """One repeat of a layer; experts are exchanged among the cores that have the same ones."""
        common, expert = layer.weight_bytes - layer.expert_bytes, layer.expert_bytes
        total, taken = 0, 0.0
        for size, cores in ((common, self.sharding.dp), (expert, alike(self.sharding))):
            nbytes, ranks = size // self.element * each // layer.repeat, cores * self.sharding.cp
            if nbytes and ranks > 1:
                scalars = {"kind": kind, "size_bytes": nbytes, "ranks": ranks, "group": "cp"}
                took = self.exchange(scalars)
                total, taken = total + took, taken + took * self.shares.exchange(scalars)
        return Demand(total, {MEMORY: taken / total if total else 0.0})

    def work(self, layer: Layer) -> Demand:
        """One repeat of a layer at work."""
        took = _layer_ps(layer, self.duration) // layer.repeat
        taken = sum(one.times * self.duration(one) * self.shares.work(one) for one in layer.operations)
        return Demand(took, {MEMORY: min(1.0, taken / took) if took else 0.0})

    def behind(self, name: str, kind: str, work: Sequence[Layer], weights: Sequence[Layer], each: int) -> Exposed:
        """Exchanges that follow layers one by one: what lasts beyond the last layer is exposed."""
        works, exchanges = [], []
        for layer, owner in zip(work, weights, strict=True):
            works += [self.work(layer)] * layer.repeat
            exchanges += [self.once(kind, owner, each)] * layer.repeat
        worked, sent = behind(works, exchanges)
        size = sum(owner.weight_bytes // self.element * each for owner in weights)
        total, alone = (sum(one.duration_ps for one in demands) for demands in (exchanges, works))
        ranks = self.sharding.dp * self.sharding.cp
        return Exposed(f"{name} {kind}", total, max(0, sent - worked), size, ranks, max(0, worked - alone))

    def again(self, once: Exposed, front: Sequence[Layer], count: int) -> Exposed:
        """ZeRO 3: each layer's weights come once more for every pass, one layer ahead of their use."""
        exposed = slowed = total = 0
        for layer in front:
            wire, work = self.once("all_gather", layer, self.element), self.work(layer)
            sent, worked = together((wire, work))
            exposed += layer.repeat * max(0, sent - worked)
            slowed += layer.repeat * max(0, worked - work.duration_ps)
            total += layer.repeat * wire.duration_ps
        name, size = "weights again all_gather", count * once.size_bytes
        return Exposed(name, count * total, count * exposed, size, once.ranks, count * slowed)


def _exposed_operation(one: Exposed) -> Operation:
    scalars = {"kind": one.name.rpartition(" ")[2], "size_bytes": one.size_bytes, "ranks": one.ranks, "group": "cp",
               "exposed_ps": one.added_ps}  # fmt: skip
    return Operation(f"{one.name}, the part that no work hides", COLLECTIVE, (), scalars)


def held(forward: Graph, workload: Workload, sharding: Sharding, passes_held: Sequence[int]) -> dict[str, int]:
    """What lies in the HBM of one core of the fullest stage."""
    stages = []
    for stage, weights in enumerate(parameters(forward, workload.element)):
        own = [section for section in forward.sections if section.stage == stage]
        layers = [layer for section in own for layer in section.layers]
        kept = sum(kept_bytes(layer, workload.recompute, sharding) for layer in layers)
        stages.append({
            "weights": weights.spread(sharding, 3) * workload.element,
            "gradients": weights.spread(sharding, 2) * GRADIENT,
            "optimizer": weights.spread(sharding, 1) * MOMENTS,
            "activations": kept * passes_held[stage] // len(own),
            "workspace": _workspace(layers, workload, sharding),
        })  # fmt: skip
    return max(stages, key=lambda kinds: sum(kinds.values()))


def _workspace(layers: Sequence[Layer], workload: Workload, sharding: Sharding) -> int:
    """The largest set of activations of one operation with their gradients, buffers of exchanges, a gathered layer."""
    operations = [one for layer in layers for one in layer.operations]
    flows = (sum(x.nbytes for x in one.inputs if x.role == "activation") for one in operations)
    buffers = (2 * int(one.scalars["size_bytes"]) for one in operations if one.operator == COLLECTIVE)
    gathered = max((layer.weight_bytes // layer.repeat for layer in layers), default=0) if sharding.zero == 3 else 0
    return 2 * max(flows, default=0) + max(buffers, default=0) + 2 * gathered
