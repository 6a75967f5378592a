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

GRADIENT = SIZES["fp32"]
MOMENTS = 3 * SIZES["fp32"]
"""Bytes that the optimizer keeps of a weight: itself and two moments."""
PIECE = (16384, 4096)
"""Weights that one call of the optimizer updates at most."""

Duration = Callable[[Operation], int]


@dataclass(frozen=True, slots=True)
class Exposed:
    """An exchange of a step: all of it, and what no work hides, ps."""

    name: str
    total_ps: int
    exposed_ps: int
    size_bytes: int
    ranks: int


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
        sections.append(replace(section, name=section.name, layers=section.layers + back))
    last = _update(forward.weight_bytes // 2, Sharding())
    return Graph(forward.name, forward.phase, (*sections, Section("optimizer", (last,))))


def parameters(forward: Graph, element: int) -> tuple[int, ...]:
    """Weights of each pipeline stage on one core."""
    return tuple(size // element for size in forward.by_stage(lambda layer: layer.weight_bytes))


def _update(weights: int, sharding: Sharding) -> Layer:
    """The optimizer over the weights of a core, spread over dp from ZeRO 1 on."""
    own = ceil(weights / (sharding.dp if sharding.zero else 1))
    each = PIECE[0] * PIECE[1]
    calls = max(1, ceil(own / each))
    rows = min(PIECE[0], max(1, ceil(own / calls / PIECE[1])))
    state = Operand((rows, PIECE[1]), "fp32")
    return Layer("optimizer", (Operation("adamw", "adamw", (state,) * 4, {}, calls),), owns_weights=False)


def needed(forward: Graph, workload: Workload, sharding: Sharding) -> Graph:
    """Every distinct operation of a step, to be emulated."""
    graph = passes(forward, workload.recompute)
    sections = [section for section in graph.sections if section.name != "optimizer"]
    updates = [_update(count, sharding) for count in parameters(forward, workload.element)]
    return replace(graph, sections=(*sections, Section("optimizer", tuple(updates))))


def step(
    forward: Graph,
    workload: Workload,
    sharding: Sharding,
    duration: Duration,
    exchange: Callable[[Mapping[str, Any]], int] | None,
    slow: float = 1.0,
) -> Step:
    """A step from the durations of its operations.

    exchange : ps that a collective takes, from its scalars
    slow     : how many times longer one chip of the first stage takes for all that it does; the others wait for it
    """
    graph = passes(forward, workload.recompute)
    pieces = [section for section in graph.sections if section.name != "optimizer"]
    count = microbatches(workload, sharding)
    fair = _times(pieces, sharding, duration)
    went = pipeline.run(*([[round(ps * slow) for ps in own[0]], *own[1:]] for own in fair), count)
    stage = went.slowest
    own = [section for section in pieces if section.stage == stage]
    size = parameters(forward, workload.element)[stage]
    update = _update(size, sharding)
    exchanges = _exchanged(own, size, workload, sharding, duration, exchange)
    optimizer = sum(one.times * duration(one) for one in update.operations)
    exposed = [_exposed_operation(one) for one in exchanges if one.exposed_ps]
    sections = [Section("microbatch", _joined(own), count, stage)]
    if exposed:
        sections.append(Section("gradients", (Layer("gradients", tuple(exposed)),), stage=stage))
    sections.append(Section("optimizer", (update,), stage=stage))
    apart = sum(one.exposed_ps for one in exchanges)
    total = went.end_ps + apart + round(optimizer * slow)
    shown = count * sum(sum(own[stage]) for own in fair) + apart + optimizer
    return Step(
        graph=Graph(forward.name, forward.phase, tuple(sections)),
        gaps={"microbatch": total - shown},
        microbatches=count,
        step_ps=total,
        bubble_ps=went.end_ps - went.busy_ps[stage],
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
    own: Sequence[Section], size: int, workload: Workload, sharding: Sharding, duration: Duration,
    exchange: Callable[[Mapping[str, Any]], int] | None,
) -> tuple[Exposed, ...]:  # fmt: skip
    """Gradients are exchanged layer by layer behind the last backward pass, weights behind the first forward pass."""
    ranks = sharding.dp * sharding.cp
    if ranks == 1 or exchange is None:
        return ()
    back = [layer for section in reversed(own) for layer in section.layers if not layer.owns_weights]
    front = [layer for section in own for layer in section.layers if layer.owns_weights]
    weights = [layer.weight_bytes // workload.element for layer in front]

    def timed(kind: str, nbytes: int) -> int:
        return exchange({"kind": kind, "size_bytes": nbytes, "ranks": ranks, "group": "cp"}) if nbytes else 0

    kind = "reduce_scatter" if sharding.zero else "all_reduce"
    sizes = [count * GRADIENT for count in reversed(weights)]
    found = [_behind("gradients", kind, back, sizes, timed, duration, ranks)]
    if sharding.zero:
        sizes = [count * workload.element for count in reversed(weights)]
        # Seen from its end, gathering before use is scattering after it.
        ahead = _behind("weights", "all_gather", list(reversed(front)), sizes, timed, duration, ranks)
        found.append(ahead)
        if sharding.zero == 3:
            found.append(_gathered_again(ahead, front, timed, weights, workload, sharding, duration))
    return tuple(found)


def _behind(
    name: str, kind: str, layers: Sequence[Layer], sizes: Sequence[int], timed: Callable[[str, int], int],
    duration: Duration, ranks: int,
) -> Exposed:  # fmt: skip
    """Exchanges that follow layers one by one: what lasts beyond the last layer is exposed."""
    now = free = total = 0
    for layer, size in zip(layers, sizes, strict=True):
        each = timed(kind, size // layer.repeat)
        for _ in range(layer.repeat):
            now += _layer_ps(layer, duration) // layer.repeat
            free = max(free, now) + each
        total += each * layer.repeat
    return Exposed(f"{name} {kind}", total, max(0, free - now), sum(sizes), ranks)


def _gathered_again(
    once: Exposed, front: Sequence[Layer], timed: Callable[[str, int], int], weights: Sequence[int],
    workload: Workload, sharding: Sharding, duration: Duration,
) -> Exposed:  # fmt: skip
    """ZeRO 3: each layer's weights come once more for every pass, one layer ahead of their use."""
    count = 2 * microbatches(workload, sharding) - 1
    exposed = total = 0
    for layer, size in zip(front, weights, strict=True):
        each = timed("all_gather", size * workload.element // layer.repeat)
        work = _layer_ps(layer, duration) // layer.repeat
        exposed += layer.repeat * max(0, each - work)
        total += layer.repeat * each
    return Exposed("weights again all_gather", count * total, count * exposed, count * once.size_bytes, once.ranks)


def _exposed_operation(one: Exposed) -> Operation:
    scalars = {"kind": one.name.rpartition(" ")[2], "size_bytes": one.size_bytes, "ranks": one.ranks, "group": "cp",
               "exposed_ps": one.exposed_ps}  # fmt: skip
    return Operation(f"{one.name}, the part that no work hides", COLLECTIVE, (), scalars)


def held(forward: Graph, workload: Workload, sharding: Sharding, passes_held: Sequence[int]) -> dict[str, int]:
    """What lies in the HBM of one core of the fullest stage."""
    stages = []
    spread = sharding.dp
    for stage, count in enumerate(parameters(forward, workload.element)):
        own = [section for section in forward.sections if section.stage == stage]
        layers = [layer for section in own for layer in section.layers]
        kept = sum(kept_bytes(layer, workload.recompute, sharding) for layer in layers)
        stages.append({
            "weights": count * workload.element // (spread if sharding.zero == 3 else 1),
            "gradients": count * GRADIENT // (spread if sharding.zero >= 2 else 1),
            "optimizer": count * MOMENTS // (spread if sharding.zero else 1),
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
