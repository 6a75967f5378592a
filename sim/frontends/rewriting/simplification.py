"""Computes what is constant, leaves out what does nothing, and says equal things once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sim.frontends.ir import UNSUPPORTED, Node, Program, Value

LARGEST = 1 << 24
"""Elements of a constant that is computed ahead."""

NEUTRAL = {("mul", 1.0), ("add", 0.0), ("sub", 0.0), ("div", 1.0), ("pow", 1.0)}
KEPT = ("expand", UNSUPPORTED, "loop")
"""What is not computed ahead, though all that goes in is known."""


def simplify(program: Program) -> Program:
    """The same outputs by fewer nodes."""
    renamed: dict[Value, Value] = {}
    made: dict[Value, Node] = {}
    said: dict[tuple, tuple[Value, ...]] = {}
    nodes: list[Node] = []
    for node in program.nodes:
        inputs = tuple(_plain(renamed.get(value, value), made, node) for value in node.inputs)
        again = Node(node.op, inputs, node.outputs, node.attributes, node.place, node.source)
        if again.op == "map" and np.broadcast_shapes(*(value.shape for value in inputs)) != again.out.shape:
            again = _narrow(again, nodes, made)
        short = _shortened(again, made)
        if isinstance(short, Value):
            renamed[node.out] = short
            continue
        key = _key(short)
        if key in said:
            renamed.update(zip(node.outputs, said[key]))
            continue
        said[key] = node.outputs
        nodes.append(short)
        made.update(dict.fromkeys(short.outputs, short))
    outputs = tuple(renamed.get(value, value) for value in program.outputs)
    return Program(program.inputs, tuple(_alive(nodes, outputs)), outputs)


def _narrow(node: Node, nodes: list[Node], made: dict[Value, Node]) -> Node:
    """A function of repeated numbers, computed before they are repeated."""
    shape = np.broadcast_shapes(*(value.shape for value in node.inputs))
    small = Value(tuple(shape), node.out.dtype)
    inner = Node("map", node.inputs, (small,), node.attributes, node.place, node.source)
    found = _shortened(inner, made)
    if isinstance(found, Node):
        nodes.append(found)
        made[small] = found
        found = small
    flat = Value((1,) * (node.out.rank - found.rank) + found.shape, found.dtype)
    if flat.shape != found.shape:
        reshaped = _shortened(Node("reshape", (found,), (flat,), {}, node.place, node.source), made)
        if isinstance(reshaped, Node):
            nodes.append(reshaped)
            made[flat] = reshaped
            found = flat
        else:
            found = reshaped
    return Node("expand", (found,), node.outputs, {"shape": node.out.shape}, node.place, node.source)


def _alive(nodes: list[Node], outputs: Iterable[Value]) -> list[Node]:
    """Nodes that something asks for; what nobody has written stays, so that it is told."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if node.op == UNSUPPORTED or any(value in wanted for value in node.outputs):
            kept.append(node)
            wanted.update(node.inputs)
    return kept[::-1]


def _key(node: Node) -> tuple:
    """Equal for nodes that make the same."""
    attributes = tuple(sorted((name, _frozen(value)) for name, value in node.attributes.items()))
    same = id(node) if node.op in (UNSUPPORTED, "loop") else 0
    inputs = tuple(("number", value.number, value.dtype) if value.number is not None and not value.rank else value
                   for value in node.inputs)  # fmt: skip
    return node.op, inputs, attributes, node.out.shape, node.out.dtype, same


def _frozen(value: Any) -> str:
    return repr(value)


def _plain(value: Value, made: dict[Value, Node], user: Node) -> Value:
    """For a function of elements, which repeats by itself, what is repeated; a number for a repeated number."""
    if user.op != "map":
        return value
    node = made.get(value)
    while node is not None and node.op == "expand":
        value = node.inputs[0]
        node = made.get(value)
    while node is not None and node.op in ("expand", "reshape"):
        source = node.inputs[0]
        if source.number is not None and source.data is not None:
            return Value((), source.dtype, role="index", data=source.data.reshape(()))
        node = made.get(source)
    return value


def _shortened(node: Node, made: dict[Value, Node]) -> Node | Value:
    """A value that is there already, a constant, or the node, said more simply."""
    if node.op == "map":
        found = _identity(node)
        if found is not None:
            return found
    if node.op not in KEPT and len(node.outputs) == 1 and all(value.data is not None for value in node.inputs):
        return _folded(node)
    inner = made.get(node.inputs[0]) if node.inputs else None
    if node.op == "reshape":
        return _reshaped(node, inner)
    if node.op == "transpose":
        return _transposed(node, inner)
    if node.op == "expand" and node.inputs[0].shape == node.out.shape:
        return node.inputs[0]
    return node


def _identity(node: Node) -> Value | None:
    """The operand that a function hands on."""
    kind, out = node.attributes["kind"], node.out
    if kind == "select" and node.inputs[0].number is not None:
        found = node.inputs[1 if node.inputs[0].number else 2]
        return found if (found.shape, found.dtype) == (out.shape, out.dtype) else None
    x = node.inputs[0]
    if kind == "copy" and (x.shape, x.dtype) == (out.shape, out.dtype):
        return x
    if len(node.inputs) != 2:
        return None
    for one, other in (node.inputs, node.inputs[::-1]):
        commutes = kind in ("mul", "add") or one is node.inputs[0]
        if commutes and (kind, other.number) in NEUTRAL and (one.shape, one.dtype) == (out.shape, out.dtype):
            return one
    return None


def _reshaped(node: Node, inner: Node | None) -> Node | Value:
    if inner is not None and inner.op == "reshape":
        source = inner.inputs[0]
        if source.shape == node.out.shape:
            return source
        return Node("reshape", (source,), node.outputs, node.attributes, node.place, node.source)
    return node.inputs[0] if node.inputs[0].shape == node.out.shape else node


def _transposed(node: Node, inner: Node | None) -> Node | Value:
    axes = node.attributes["axes"]
    if axes == tuple(range(len(axes))):
        return node.inputs[0]
    if inner is None or inner.op != "transpose":
        return node
    both = tuple(inner.attributes["axes"][axis] for axis in axes)
    source = inner.inputs[0]
    if both == tuple(range(len(both))):
        return source
    return Node("transpose", (source,), node.outputs, {"axes": both}, node.place, node.source)


def _folded(node: Node) -> Node | Value:
    """What the node makes of constants, by the operators' own references."""
    from sim.errors import TrnprofError
    from sim.frontends.emission import emit
    from sim.frontends.values import by_reference, walk

    if node.out.size > LARGEST or max(value.size for value in node.inputs) > LARGEST:
        return node
    try:
        with np.errstate(all="ignore"):
            (data,) = walk(emit(Program((), (node,), node.outputs)), (), by_reference)
    except TrnprofError:
        return node
    return Value(node.out.shape, node.out.dtype, role="index", data=np.asarray(data).reshape(node.out.shape))
