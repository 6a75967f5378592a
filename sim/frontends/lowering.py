"""From a program in our own form to a graph: joins, expands, emits, and lays out in layers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sim.frontends import rewriting
from sim.frontends.emission import emit
from sim.frontends.expansion import expand
from sim.frontends.graph import Argument, FrameworkGraph, Loop, Steps, Unsupported
from sim.frontends.ir import UNSUPPORTED, Node, Program
from sim.models.graph import Layer, Operation, Section

NUMBER = re.compile(r"\d+")
ROOT = "model"
PHASE = "framework"


def lower(
    name: str, program: Program, weights: Mapping[str, np.ndarray], outputs: Sequence[str] = ()
) -> FrameworkGraph:
    """The graph of a program.

    weights : values of inputs that are parameters, by name
    outputs : names of what comes out
    """
    ready = prepared(program)
    steps = emit(ready)
    names = outputs or [f"output {number}" for number in range(len(ready.outputs))]
    return FrameworkGraph(
        name=name,
        phase=PHASE,
        sections=(Section("model", tuple(layers(steps))),),
        plan=steps,
        inputs=tuple(Argument(one.name, one.shape, one.dtype) for one in ready.inputs),
        outputs=tuple(Argument(name, one.shape, one.dtype) for name, one in zip(names, ready.outputs, strict=True)),
        unsupported=tuple(_unsupported(ready)),
        weights=weights,
    )


def prepared(program: Program) -> Program:
    """A program of what has operators, with what belongs together joined."""
    simplify = rewriting.simplify
    program = Program(program.inputs, tuple(map(_inside, program.nodes)), program.outputs)
    found = rewriting.find_activations(rewriting.find_norms(simplify(program)))
    found = rewriting.share_heads(simplify(rewriting.find_attention(simplify(found))))
    found = simplify(expand(found))
    return rewriting.join_elementwise(simplify(rewriting.join_products(found)))


def _inside(node: Node) -> Node:
    """A loop with its body prepared as well."""
    if "body" not in node.attributes:
        return node
    attributes = {**node.attributes, "body": prepared(node.attributes["body"])}
    return Node(node.op, node.inputs, node.outputs, attributes, node.place, node.source)


def _unsupported(program: Program) -> Iterator[Unsupported]:
    found: dict[tuple[str, str], list[Node]] = {}
    for node in _all(program):
        if node.op == UNSUPPORTED:
            found.setdefault((node.attributes["name"], node.attributes["why"]), []).append(node)
    for (name, why), nodes in found.items():
        yield Unsupported(name, why, len(nodes), nodes[0].place)


def _all(program: Program) -> Iterator[Node]:
    for node in program.nodes:
        yield node
        if "body" in node.attributes:
            yield from _all(node.attributes["body"])


def layers(steps: Steps) -> Iterator[Layer]:
    """Operations by the module that they come from, equal layers in a row told once."""
    pending: Layer | None = None
    for layer in _apart(steps, 1):
        if pending is not None and _alike(pending, layer):
            pending = replace(pending, name=_without_number(pending.name), repeat=pending.repeat + layer.repeat)
            continue
        if pending is not None:
            yield pending
        pending = layer
    if pending is not None:
        yield pending


def _apart(steps: Steps, repeat: int) -> Iterator[Layer]:
    """A new layer wherever the place changes, or a loop begins or ends."""
    name, operations = "", []
    for step in steps.steps:
        if isinstance(step.does, Loop):
            if operations:
                yield Layer(name, tuple(operations), repeat)
            operations = []
            yield from _apart(step.does.body, repeat * step.does.trips)
        elif isinstance(step.does, Operation):
            layer, inside = split(step.place)
            if operations and layer != name:
                yield Layer(name, tuple(operations), repeat)
                operations = []
            name = layer
            operations.append(replace(step.does, name="/".join(filter(None, (inside, step.does.name)))))
    if operations:
        yield Layer(name, tuple(operations), repeat)


def split(place: str) -> tuple[str, str]:
    """A layer, up to the first number of a module's path, and the rest: `layers.3`, `attention/query`."""
    parts = [part for part in re.split(r"[./]", place) if part]
    number = next((at for at, part in enumerate(parts) if NUMBER.fullmatch(part)), None)
    if number is None:
        return ROOT, "/".join(parts)
    return ".".join(parts[: number + 1]), "/".join(parts[number + 1 :])


def _without_number(name: str) -> str:
    return re.sub(r"\.\d+$", "", name)


def _alike(one: Layer, other: Layer) -> bool:
    """Layers of one list of modules that do the same."""
    if _without_number(one.name) != _without_number(other.name) or one.name == other.name:
        return False
    if one.repeat > 1 and one.name != _without_number(one.name):
        return False
    return [(each.name, each.key) for each in one.operations] == [(each.name, each.key) for each in other.operations]
