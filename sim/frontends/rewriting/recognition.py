"""Finds norms and activations, however they are written.

What a value is as a function of another is tried out on a few numbers: all that is made of a tensor element by element
and row by row is computed for small rows, and a value that is what a norm would be is replaced by it. So no form has to
be foreseen: whether a variance is a mean of squares, or a sigmoid is written out, does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from sim.frontends.ir import Node, Program, Value, makers, users
from sim.ops.definitions.expressions import FUNCTIONS
from sim.ops.functions import ACTIVATIONS

Array = np.ndarray
ROWS, COLUMNS = 3, 16
DEEP = 80
"""Nodes that a norm or an activation is written with, at most."""
SINGLE = 1e-5
"""How near a polynomial comes that is meant for fp32."""


@dataclass(slots=True)
class Trial:
    """What is made of one tensor, on numbers."""

    source: Value
    made: dict[Value, Node]
    sample: dict[Value, Array] = field(default_factory=dict)
    vectors: dict[Value, Array] = field(default_factory=dict)
    small: set[float] = field(default_factory=set)
    """Numbers that may be an epsilon."""

    def rows(self) -> Array:
        return self.sample[self.source]


Judge = Callable[[Trial, Value], Node | None]
"""The operator that a value is of the tensor that is tried; None for none."""


def find_norms(program: Program) -> Program:
    """softmax, layernorm and rmsnorm over the last axis."""
    made = makers(program)
    anchors = [_anchor(node.inputs[0], made) for node in program.nodes if _over_rows(node)]
    return _replaced(program, dict.fromkeys(one for one in anchors if one is not None), _as_norm)


def find_activations(program: Program) -> Program:
    """gelu in its forms, silu."""
    made = makers(program)
    bent = [node for node in program.nodes
            if node.op == "map" and node.attributes["kind"] in ("tanh", "erf", "sigmoid", "exp")]  # fmt: skip
    anchors: dict[Value, None] = {}
    for node in bent:
        anchors.update(dict.fromkeys(_ancestors(node.inputs[0], made)))
    return _replaced(program, anchors, _as_activation)


def _over_rows(node: Node) -> bool:
    """Whether a node folds the last axis alone."""
    return node.op == "reduce" and node.attributes["axes"] == (node.inputs[0].rank - 1,) and node.inputs[0].is_float


def _anchor(value: Value, made: dict[Value, Node]) -> Value | None:
    """The tensor whose norm a fold may be part of: what is folded, or squared and folded."""
    node = made.get(value)
    while node is not None and node.op == "map" and node.attributes["kind"] in ("square", "mul", "copy"):
        if node.attributes["kind"] == "mul" and node.inputs[0] is not node.inputs[1]:
            break
        value = node.inputs[0]
        node = made.get(value)
    return value if value.rank else None


def _ancestors(value: Value, made: dict[Value, Node]) -> Iterator[Value]:
    """A value and those it is made of by functions of one tensor and numbers, nearest first."""
    seen: list[Value] = [value]
    for one in seen:
        node = made.get(one)
        if node is None or node.op != "map" or len(seen) > DEEP:
            continue
        seen += [each for each in node.inputs if each.data is None and each.shape == value.shape and each not in seen]
    yield from seen


def _replaced(program: Program, anchors: dict[Value, None], judge: Judge) -> Program:
    """Nodes whose value is recognised give way to the operator."""
    found: dict[Value, Node] = {}
    asking, made = users(program), makers(program)
    for anchor in (one for one in anchors if one.rank):
        trial = _tried(anchor, asking, made)
        for value in trial.sample:
            if value is not anchor and value not in found and value.shape == anchor.shape:
                operator = judge(trial, value)
                if operator is not None:
                    found[value] = operator
    nodes = []
    for node in program.nodes:
        new = found.get(node.outputs[0]) if len(node.outputs) == 1 else None
        if new is None:
            nodes.append(node)
            continue
        nodes.append(Node(new.op, new.inputs, node.outputs, new.attributes, node.place, node.source))
    return Program(program.inputs, tuple(nodes), program.outputs)


def _tried(source: Value, asking: dict[Value, list[Node]], made: dict[Value, Node]) -> Trial:
    """Everything that is made of one tensor by few steps, computed for rows of a few numbers."""
    random = np.random.default_rng(len(source.shape))
    trial = Trial(source, made)
    trial.sample[source] = random.standard_normal((ROWS, COLUMNS)) * 1.5 + 0.3
    waiting = list(asking.get(source, ()))
    for _ in range(4 * DEEP):
        if not waiting:
            break
        node = waiting.pop(0)
        if any(out in trial.sample for out in node.outputs):
            continue
        with np.errstate(all="ignore"):
            found = _computed(trial, node, random)
        if found is None:
            continue
        trial.sample[node.out] = found
        waiting += asking.get(node.out, ())
        # What could not be computed for want of this one may be now.
        waiting += [other for one in list(trial.sample) for other in asking.get(one, ()) if node.out in other.inputs]
    return trial


def _computed(trial: Trial, node: Node, random: np.random.Generator) -> Array | None:
    """A node on the small rows; None where it looks beyond a row, or at other tensors."""
    shape = trial.source.shape
    if node.op == "map":
        given = [_operand(trial, value, random) for value in node.inputs]
        if any(one is None for one in given) or node.attributes.get("steps"):
            return None
        return np.asarray(FUNCTIONS[node.attributes["kind"]][1](*given), np.float64)
    x = trial.sample.get(node.inputs[0])
    if x is None:
        return None
    if node.op in ("reshape", "expand"):
        kept = node.out.shape in (shape, (*shape[:-1], 1), shape[:-1])
        return x if (kept and node.inputs[0].shape != shape) or node.out.shape == shape else None
    if not _over_rows(node) or x.shape[-1] != COLUMNS or node.inputs[0].shape != shape:
        return None
    fold = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}[node.attributes["kind"]]
    scale = shape[-1] / COLUMNS if node.attributes["kind"] == "sum" else 1.0
    return fold(x, axis=-1, keepdims=True) * scale


def _operand(trial: Trial, value: Value, random: np.random.Generator) -> Array | float | None:
    if value in trial.sample:
        return trial.sample[value]
    if value.number is not None:
        if 0 < value.number < 0.1:
            trial.small.add(value.number)
        return value.number
    row = trial.source.shape[-1]
    value = _repeated(trial, value)
    if value in trial.sample:
        return trial.sample[value]
    if value.size == row and value.shape[-1] == row and value.rank <= trial.source.rank:
        if value not in trial.vectors:
            trial.vectors[value] = random.standard_normal(COLUMNS)
        return trial.vectors[value]
    return None


def _repeated(trial: Trial, value: Value) -> Value:
    """The vector that is repeated for every row."""
    node = trial.made.get(value)
    while node is not None and node.op in ("expand", "reshape") and node.inputs[0].rank:
        if node.inputs[0].shape[-1] != value.shape[-1] or value in trial.sample:
            break
        value = node.inputs[0]
        node = trial.made.get(value)
    return value


def _is(value: Array, wanted: Array, tolerance: float = 1e-6) -> bool:
    return value.shape == wanted.shape and bool(np.allclose(value, wanted, rtol=tolerance, atol=1e-3 * tolerance))


def _as_activation(trial: Trial, value: Value) -> Node | None:
    for name in ("gelu", "gelu_tanh", "silu"):
        if _is(trial.sample[value], ACTIVATIONS[name](trial.rows()), SINGLE):
            return Node("map", (trial.source,), (value,), {"kind": name})
    return None


def _as_norm(trial: Trial, value: Value) -> Node | None:
    """The operator that would make this value of the rows."""
    rows, made = trial.rows(), trial.sample[value]
    if value.dtype != trial.source.dtype:
        return None
    powers = np.exp(rows - rows.max(axis=-1, keepdims=True))
    total = powers.sum(axis=-1, keepdims=True) * trial.source.shape[-1] / COLUMNS
    if _is(made, powers / total):
        return Node("softmax", (trial.source,), (value,), {})
    less = rows - rows.mean(axis=-1, keepdims=True)
    for eps in sorted(trial.small):
        for name, centred in (("rmsnorm", rows), ("layernorm", less)):
            normal = centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + eps)
            vectors = _vectors(trial, made, normal, name)
            if vectors is not None:
                return Node(name, (trial.source, *vectors), (value,), {"eps": eps})
    return None


def _vectors(trial: Trial, made: Array, normal: Array, name: str) -> tuple[Value, ...] | None:
    """The weight, and for a layernorm the bias, with which a normal row is what was made."""
    for weight, numbers in trial.vectors.items():
        if name == "rmsnorm" and _is(made, normal * numbers):
            return (weight,)
        for bias, more in trial.vectors.items():
            if name == "layernorm" and _is(made, normal * numbers + more):
                return weight, bias
    return None
