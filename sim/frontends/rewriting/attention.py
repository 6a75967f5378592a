"""Finds attention: a softmax of scores between two products."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from sim.frontends.builder import Builder
from sim.frontends.ir import Node, Program, Value, makers, uses
from sim.ops.definitions.attention import visible

LOW = -1e4
"""What is added to a score that must not count, or less."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Queries and keys [batch, tokens, depth], and what is done to their product."""

    product: Node
    scale: float
    mask: np.ndarray | None
    """True where a query sees a key."""


def find_attention(program: Program) -> Program:
    """Products with a softmax become attention, where its operator can do what their mask says."""
    made, counts = makers(program), uses(program)
    builder, renamed = Builder(), {}
    for node in program.nodes:
        inputs = tuple(renamed.get(value, value) for value in node.inputs)
        builder.place, builder.source = node.place, node.source
        out = _attention(builder, node, made, counts, renamed) if node.op == "dot" else None
        if out is None:
            builder.nodes.append(Node(node.op, inputs, node.outputs, node.attributes, node.place, node.source))
        else:
            renamed[node.out] = out
    return Program(program.inputs, tuple(builder.nodes), tuple(renamed.get(v, v) for v in program.outputs))


def share_heads(program: Program) -> Program:
    """Keys and values that are repeated for the queries' heads are given to attention once."""
    made = makers(program)
    nodes: list[Node] = []
    for node in program.nodes:
        once = [_once(value, made) for value in node.inputs[1:3]] if node.op == "attention" else []
        if len(once) == 2 and None not in once and once[0].shape[1] == once[1].shape[1]:
            shared = []
            for value in once:
                b, n, _, t, d = value.shape
                shared.append(Value((b, n, t, d), value.dtype))
                nodes.append(Node("reshape", (value,), (shared[-1],), {}, node.place, node.source))
            inputs = (node.inputs[0], *shared, *node.inputs[3:])
            node = Node(node.op, inputs, node.outputs, node.attributes, node.place, node.source)
        nodes.append(node)
    return Program(program.inputs, tuple(nodes), program.outputs)


def _once(value: Value, made: dict[Value, Node]) -> Value | None:
    """[B, H, 1, T, D] of what is repeated as [B, H, n, T, D] and then [B, H n, T, D]."""
    outer = made.get(value)
    inner = made.get(outer.inputs[0]) if outer is not None and outer.op == "reshape" else None
    if inner is None or inner.op != "expand" or inner.out.rank != 5:
        return None
    b, n, one, t, d = inner.inputs[0].shape
    times = inner.out.shape[2]
    fits = one == 1 and inner.out.shape == (b, n, times, t, d) and value.shape == (b, n * times, t, d)
    return inner.inputs[0] if fits else None


def _attention(
    b: Builder, node: Node, made: dict[Value, Node], counts: dict[Value, int], renamed: dict[Value, Value]
) -> Value | None:
    """The attention whose last product this is."""
    for which in (0, 1):
        shares, values = node.inputs[which], node.inputs[1 - which]
        softmax = _source(shares, made, counts)
        if softmax is None or softmax.op != "softmax":
            continue
        scores = _scores(softmax.inputs[0], made, counts)
        if scores is None:
            continue
        return _joined(b, node, which, values, scores, renamed)
    return None


def _source(value: Value, made: dict[Value, Node], counts: dict[Value, int]) -> Node | None:
    """What makes a value that nobody else asks for, before casts and views that keep its order."""
    while True:
        node = made.get(value)
        if node is None or counts.get(value, 0) != 1:
            return None
        cast = node.op == "map" and node.attributes["kind"] == "copy"
        if not cast and node.op not in ("reshape", "expand"):
            return node
        if node.inputs[0].size != value.size:
            return None
        value = node.inputs[0]


def _scores(value: Value, made: dict[Value, Node], counts: dict[Value, int]) -> Scores | None:
    """Peels scales and masks off a product."""
    scale, mask = 1.0, None
    while True:
        node = _source(value, made, counts)
        if node is None:
            return None
        if node.op == "dot":
            return Scores(node, scale, mask)
        if node.op != "map" or node.attributes.get("steps"):
            return None
        kind, numbers = node.attributes["kind"], [one.number for one in node.inputs]
        if kind in ("mul", "div") and numbers[1] is not None:
            scale *= numbers[1] if kind == "mul" else 1 / numbers[1]
            value = node.inputs[0]
        elif kind == "mul" and numbers[0] is not None:
            scale, value = scale * numbers[0], node.inputs[1]
        else:
            seen = _mask(node, made)
            if seen is None or mask is not None:
                return None
            mask, value = seen


def _mask(node: Node, made: dict[Value, Node]) -> tuple[np.ndarray, Value] | None:
    """Where a query sees a key, and the scores before that was said."""
    kind = node.attributes["kind"]
    if kind == "select":
        mask, yes, no = node.inputs
        data = _known(mask, made)
        if data is None:
            return None
        if no.number is not None and no.number < LOW:
            return data != 0, yes
        return (data == 0, no) if yes.number is not None and yes.number < LOW else None
    if kind != "add":
        return None
    for one, other in (node.inputs, node.inputs[::-1]):
        data = _known(other, made)
        if data is not None and other.rank and ((data == 0) | (data < LOW)).all():
            return data == 0, one
    return None


def _known(value: Value, made: dict[Value, Node]) -> np.ndarray | None:
    """A constant, before it is repeated."""
    while value.data is None and value in made and made[value].op in ("expand", "reshape"):
        if made[value].op == "reshape" and made[value].inputs[0].rank > value.rank:
            return None
        value = made[value].inputs[0]
    return None if value.data is None else np.asarray(value.data)


def _joined(
    b: Builder, node: Node, which: int, values: Value, scores: Scores, renamed: dict[Value, Value]
) -> Value | None:
    """The operator, and what brings its operands and its result into their layouts."""
    first = scores.product
    q, k = (_side(first, side) for side in (0, 1))
    v_axes = _side(node, 1 - which)
    shares = node.inputs[which]
    if q is None or k is None or v_axes is None or node.attributes["contract"][which] != (shares.rank - 1,):
        return None
    (q_lead, q_free, q_in), (k_lead, k_free, k_in), (v_lead, v_in, v_free) = q, k, (v_axes[0], v_axes[2], v_axes[1])
    queries, keys = prod(q_free), prod(k_free)
    batch = prod(q_lead)
    if prod(v_lead) != batch or prod(v_in) != keys or prod(k_lead) != batch or keys != shares.shape[-1]:
        return None
    shape = _visible(scores.mask, queries, keys)
    if shape is None:
        return None
    causal, window = shape
    order_of = [(*first.attributes["batch"][k_], *_free(first, k_), *first.attributes["contract"][k_]) for k_ in (0, 1)]
    v_order = (*node.attributes["batch"][1 - which], *node.attributes["contract"][1 - which], *_free(node, 1 - which))
    given = [renamed.get(one, one) for one in (*first.inputs[:2], values)]
    sizes = [(batch, 1, queries, prod(q_in)), (batch, 1, keys, prod(k_in)), (batch, 1, keys, prod(v_free))]
    turned = [b.reshape(b.transpose(one, order), size)
              for one, order, size in zip(given, (*order_of, v_order), sizes)]  # fmt: skip
    lead = q_lead if len(q_lead) > 1 else (batch, 1)
    heads = lead[-1]
    turned = [b.reshape(one, (batch // heads, heads, *one.shape[2:])) for one in turned]
    attributes = {"causal": causal, "scale": scores.scale, **({"window": window} if window else {})}
    made_shape = (batch // heads, heads, queries, prod(v_free))
    out = b.add("attention", turned, (made_shape, turned[0].dtype), **attributes)
    natural = (*q_lead, *q_free, *v_free)
    if which == 0:
        return b.cast(b.reshape(out, node.out.shape), node.out.dtype)
    moved = b.transpose(b.reshape(out, natural), _last_first(len(q_lead), len(q_free), len(v_free)))
    return b.cast(b.reshape(moved, node.out.shape), node.out.dtype)


def _last_first(lead: int, rows: int, columns: int) -> list[int]:
    """[lead, columns, rows]"""
    return [*range(lead), *range(lead + rows, lead + rows + columns), *range(lead, lead + rows)]


def _free(node: Node, side: int) -> tuple[int, ...]:
    used = (*node.attributes["batch"][side], *node.attributes["contract"][side])
    return tuple(axis for axis in range(node.inputs[side].rank) if axis not in used)


def _side(node: Node, side: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """Sizes of the batch, what is free, and what is contracted."""
    if len(node.inputs) != 2:
        return None
    shape = node.inputs[side].shape
    axes = (node.attributes["batch"][side], _free(node, side), node.attributes["contract"][side])
    return tuple(tuple(shape[axis] for axis in group) for group in axes)


def _visible(mask: np.ndarray | None, queries: int, keys: int) -> tuple[bool, int | None] | None:
    """Whether a mask is a causal one, and with what window; None where it is another."""
    if mask is None:
        return False, None
    if mask.ndim < 2 or mask.shape[-2:] != (queries, keys) or prod(mask.shape) != queries * keys:
        return None
    seen = mask.reshape(queries, keys)
    if seen.all():
        return False, None
    if queries > keys:
        return None
    window = int(seen[-1].sum())
    if (seen == visible(queries, keys, True, None)).all():
        return True, None
    return (True, window) if (seen == visible(queries, keys, True, window)).all() else None
