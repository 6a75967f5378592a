"""Writes what is no operator of its own as several that are."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from sim.frontends.builder import Builder
from sim.frontends.ir import Node, Program, Value
from sim.frontends.windows import as_product

Expand = Callable[[Builder, Node], Value | tuple[Value, ...]]


def expand(program: Program) -> Program:
    """The program with every node replaced that has another way of being said."""
    builder, renamed = Builder(), {}
    for node in program.nodes:
        inputs = tuple(renamed.get(value, value) for value in node.inputs)
        builder.place, builder.source = node.place, node.source
        make = EXPANDED.get(node.op)
        again = Node(node.op, inputs, node.outputs, node.attributes, node.place, node.source)
        if make is None:
            builder.nodes.append(again)
            continue
        made = make(builder, again)
        made = made if isinstance(made, tuple) else (made,)
        renamed.update(zip(node.outputs, made, strict=True))
    return Program(program.inputs, tuple(builder.nodes), tuple(renamed.get(v, v) for v in program.outputs))


def convolution(b: Builder, node: Node) -> Value:
    """The operator where there is one for so many axes, else a product of columns."""
    from sim.ops import OPERATORS

    x, w, *bias = node.inputs
    window, groups = node.attributes["window"], node.attributes["groups"]
    name = f"conv{window.rank}d"
    few = prod(node.out.shape[2:]) < prod(window.size)
    if name in OPERATORS and not few:
        if x.shape[1] == w.shape[0] == groups > 1:
            each = b.reshape(w, (groups, *window.size))
            return b.add(f"depthwise_{name}", [x, each, *bias], (node.out.shape, node.out.dtype), **window.scalars)
        return b.add(name, [x, w, *bias], (node.out.shape, node.out.dtype), groups=groups, **window.scalars)
    out = as_product(b, x, w, window, groups)
    return b.map("add", out, b.reshape(bias[0], (1, bias[0].size, *[1] * window.rank))) if bias else out


EXPANDED: dict[str, Expand] = {"convolution": convolution}
