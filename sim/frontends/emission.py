"""From nodes to operators: every node becomes calls of `sim.ops`, views, or an operation that nobody has written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from sim.frontends.graph import Loop, Step, Steps, View
from sim.frontends.ir import NUMPY, UNSUPPORTED, Node, Program, Value
from sim.models.graph import Operand, Operation

WRAPPED = ("add", "sub", "mul", "neg")
"""Of whole numbers only an expression says that they wrap around."""
ROWS, LONG = 128, 1 << 12
"""Partitions, and elements beyond which a sum of all is worth two steps."""


@dataclass(slots=True)
class Emitter:
    """Steps in the making. Each value has a number; some lie scattered, and are made whole when an operator asks."""

    steps: list[Step] = field(default_factory=list)
    constants: dict[int, np.ndarray] = field(default_factory=dict)
    numbers: dict[Value, int] = field(default_factory=dict)
    scattered: dict[Value, Node] = field(default_factory=dict)
    solid: dict[Value, Value] = field(default_factory=dict)
    counted: set[int] = field(default_factory=set)
    """Weights that an operation has already."""
    roots: dict[int, int] = field(default_factory=dict)
    """What a view was made of."""
    roles: dict[int, str] = field(default_factory=dict)
    place: str = ""

    def number(self, value: Value) -> int:
        if value not in self.numbers:
            at = self.numbers[value] = len(self.numbers)
            self.roles[at] = value.role
            if value.data is not None:
                self.constants[at] = value.data
        return self.numbers[value]

    def view(self, kind: str, inputs: Sequence[Value], out: Value, **arguments: Any) -> Value:
        numbers = tuple(map(self.number, inputs))
        at = self.number(out)
        self.roots[at] = self.roots.get(numbers[0], numbers[0])
        self.roles[at] = self.roles[numbers[0]] if len(numbers) == 1 else "activation"
        self.steps.append(Step(View(kind, arguments), numbers, (at,), self.place))
        return out

    def shaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        """A value that lies in a row, in another shape."""
        whole = self.whole(value)
        return whole if whole.shape == shape else self.view("reshape", [whole], Value(shape, value.dtype), shape=shape)

    def call(self, name: str, operator: str, inputs: Sequence[Value], *outs: Value, **scalars: Any) -> Value:
        """One operator; inputs without dimensions are given one."""
        given = [one if one.rank else self.shaped(one, (1,)) for one in inputs]
        made = [out if out.rank else Value((1,), out.dtype) for out in outs]
        numbers = tuple(map(self.number, given))
        operands = tuple(self._operand(number, one) for number, one in zip(numbers, given))
        operation = Operation(name, operator, operands, scalars)
        self.steps.append(Step(operation, numbers, tuple(map(self.number, made)), self.place))
        for out, one in zip(outs, made):
            if one is not out:
                self.view("reshape", [one], out, shape=())
        return outs[0]

    def _operand(self, number: int, value: Value) -> Operand:
        """A weight counts where it is used first."""
        role, root = self.roles[number], self.roots.get(number, number)
        if role == "weight":
            role = "shared" if root in self.counted else role
            self.counted.add(root)
        return Operand(value.shape, stored(value.dtype), role)

    def whole(self, value: Value) -> Value:
        """The value with its elements in a row."""
        if value not in self.scattered:
            return value
        if value not in self.solid:
            self.solid[value] = self._copied(value)
        return self.solid[value]

    def _copied(self, value: Value) -> Value:
        node, out = self.scattered[value], Value(value.shape, value.dtype)
        if node.op == "transpose":
            source = node.inputs[0]
            return self.call("transpose", "transpose", [self.whole(source)], out, axes=node.attributes["axes"])
        return self.call("copy", "elementwise", [value], out, kind="copy")

    def emit(self, node: Node) -> None:
        """raises : KeyError never; a name that is no operator is an operation under that name"""
        self.place = node.place
        EMITTED.get(node.op, _operator)(self, node)


def stored(dtype: str) -> str:
    """A truth value is kept as a byte."""
    return "uint8" if dtype == "bool" else dtype


def emit(program: Program) -> Steps:
    """The steps of a program."""
    emitter = Emitter()
    inputs = tuple(map(emitter.number, program.inputs))
    for node in program.nodes:
        emitter.emit(node)
    outputs = tuple(emitter.number(emitter.whole(value)) for value in program.outputs)
    return Steps(tuple(emitter.steps), inputs, outputs, emitter.constants)


def _operator(emitter: Emitter, node: Node) -> None:
    """A node that is an operator as it stands."""
    inputs = [emitter.whole(value) for value in node.inputs]
    emitter.call(node.op, node.op, inputs, *node.outputs, **node.attributes)


def _unsupported(emitter: Emitter, node: Node) -> None:
    """Under its own name, with those of its inputs that the device has."""
    name = node.attributes["name"]
    known = [emitter.whole(value) for value in node.inputs if value.dtype in NUMPY]
    emitter.call(name, name, known, *node.outputs)


def _rows(emitter: Emitter, node: Node) -> None:
    """Operators of rows [T, H]: a softmax, a norm."""
    x, *vectors = (emitter.whole(value) for value in node.inputs)
    width = x.shape[-1]
    flat = emitter.shaped(x, (x.size // width, width))
    rest = [emitter.shaped(value, (width,)) for value in vectors]
    out = Value(flat.shape, node.out.dtype)
    emitter.call(node.op, node.op, [flat, *rest], out, **node.attributes)
    emitter.view("reshape", [out], node.out, shape=node.out.shape)


def _scattered(emitter: Emitter, node: Node) -> None:
    """A view whose elements do not lie in a row, unless it is a run of the first dimension."""
    x = node.inputs[0] if node.op == "transpose" else emitter.whole(node.inputs[0])
    emitter.view(node.op, [x], node.out, **node.attributes)
    if not _is_run(node):
        emitter.scattered[node.out] = node


def _is_run(node: Node) -> bool:
    """Whether the elements lie in a row all the same."""
    shape, out = node.inputs[0].shape, node.out.shape
    if node.op == "transpose":
        moved = [axis for axis in node.attributes["axes"] if shape[axis] > 1]
        return moved == sorted(moved)
    if node.op != "slice" or any(step != 1 for _, _, step in node.attributes["cuts"]):
        return False
    cut = [at for at, size in enumerate(shape) if out[at] != size]
    return all(out[at] == 1 for at in range(cut[-1])) if cut else True


def _reshape(emitter: Emitter, node: Node) -> None:
    emitter.view("reshape", [emitter.whole(node.inputs[0])], node.out, shape=node.out.shape)


def _moved(emitter: Emitter, node: Node) -> None:
    """Padding and joining: every input is copied to its place in the result."""
    parts = []
    for value in node.inputs:
        copied = Value(value.shape, value.dtype)
        emitter.call(f"{node.op}/copy", "elementwise", [value], copied, kind="copy")
        parts.append(copied)
    emitter.view(node.op, parts, node.out, **node.attributes)


def _bits(emitter: Emitter, node: Node) -> None:
    emitter.view("bits", [emitter.whole(node.inputs[0])], node.out, **node.attributes)


def _map(emitter: Emitter, node: Node) -> None:
    """One function of each element, as steps of an expression: see `rewriting.joining` for several."""
    steps = node.attributes.get("steps") or (_step(node),)
    tensors = list(node.inputs)
    if "steps" not in node.attributes:
        tensors = [value for value in node.inputs if value.number is None] or [node.inputs[0]]
    inputs = [_spread(emitter, value) for value in tensors]
    if np.broadcast_shapes(*(one.shape for one in inputs)) != node.out.shape:
        inputs = [emitter.whole(value) for value in tensors]
    target = node.out
    simple = _simple(steps, len(inputs))
    if simple:
        name, scalars = simple
        if stored(target.dtype) != stored(inputs[0].dtype):
            scalars["dtype"] = stored(target.dtype)
        emitter.call(name, "elementwise", inputs, target, **scalars)
        return
    kinds = "-".join(dict.fromkeys(step[0] for step in steps))
    emitter.call(kinds[:48], "expression", inputs, target, steps=steps, dtype=stored(target.dtype))


def _spread(emitter: Emitter, value: Value) -> Value:
    """What a repeated value repeats: operators repeat by themselves."""
    node = emitter.scattered.get(value)
    return emitter.whole(node.inputs[0]) if node is not None and node.op == "expand" else emitter.whole(value)


def step_format(dtype: str) -> str:
    """What a step computes in."""
    dtype = stored(dtype)
    return dtype if dtype in ("int32", "uint32", "int16", "uint16", "int8", "uint8") else "fp32"


def _step(node: Node) -> tuple:
    """The one step of a node, its tensors counted without its numbers."""
    operands, count = [], 0
    alone = all(value.number is not None for value in node.inputs)
    for value in node.inputs:
        if value.number is not None and not (alone and not count):
            operands.append(float(value.number))
        else:
            operands.append(count)
            count += 1
    return node.attributes["kind"], step_format(node.out.dtype), *operands


def _simple(steps: tuple, tensors: int) -> tuple[str, dict[str, Any]] | None:
    """What the elementwise operator can do by itself."""
    from sim.ops.functions import BINARY, UNARY

    if len(steps) > 1:
        return None
    kind, form, *operands = steps[0]
    if form != "fp32" and kind in WRAPPED:
        return None
    if kind in UNARY and operands == [0]:
        return kind, {"kind": kind}
    if kind in BINARY and operands == [0, 1] and tensors == 2:
        return kind, {"kind": kind}
    if kind in BINARY and operands[0] == 0 and isinstance(operands[1], float) and not kind.endswith("_multiply"):
        return kind, {"kind": kind, "scalar": operands[1]}
    return None


def _reduce(emitter: Emitter, node: Node) -> None:
    """Axes that are no neighbours are folded one run after the other, the last first."""
    kind, axes = node.attributes["kind"], list(node.attributes["axes"])
    x = emitter.whole(node.inputs[0])
    if len(axes) == x.rank and x.size > LONG:
        # One number of many would be folded by one partition: a part on each comes first.
        parts = next((count for count in range(ROWS, 1, -1) if x.size % count == 0), 1)
        flat = emitter.shaped(x, (parts, x.size // parts))
        x, axes = emitter.call(kind, "reduce", [flat], Value((parts,), x.dtype), kind=kind, axis=(1,)), [0]
    while axes:
        run = [axes.pop()]
        while axes and axes[-1] == run[0] - 1:
            run.insert(0, axes.pop())
        shape = tuple(size for at, size in enumerate(x.shape) if at not in run)
        out = node.out if not axes else Value(shape, x.dtype)
        emitter.call(kind, "reduce", [x], out, kind=kind, axis=tuple(run))
        x = out


def _dot(emitter: Emitter, node: Node) -> None:
    from sim.frontends.products import emit_dot

    emit_dot(emitter, node)


def _gather(emitter: Emitter, node: Node) -> None:
    x, indices = map(emitter.whole, node.inputs)
    flat = emitter.shaped(indices, (prod(indices.shape),))
    emitter.call("gather", "gather", [x, flat], node.out)


def _scatter(emitter: Emitter, node: Node) -> None:
    """A copy of the base, of which some rows are then replaced, as a paged cache is."""
    base, indices, updates = map(emitter.whole, node.inputs)
    rows, width = base.shape[0], prod(base.shape[1:])
    copied = emitter.call("scatter/copy", "elementwise", [base], Value(base.shape, base.dtype), kind="copy")
    cache = emitter.shaped(copied, (rows, 1, 1, width))
    new = emitter.shaped(updates, (indices.size, 1, width))
    slots = emitter.shaped(indices, (indices.size,))
    out = Value(cache.shape, base.dtype)
    emitter.call("scatter", "kv_cache_update", [cache, new, slots], out)
    emitter.view("reshape", [out], node.out, shape=node.out.shape)


def _loop(emitter: Emitter, node: Node) -> None:
    """The body's own inputs are what it carries."""
    inputs = tuple(emitter.number(emitter.whole(value)) for value in node.inputs)
    outputs = tuple(map(emitter.number, node.outputs))
    does = Loop(node.attributes["trips"], emit(node.attributes["body"]))
    emitter.steps.append(Step(does, inputs, outputs, emitter.place))


EMITTED: dict[str, Callable[[Emitter, Node], None]] = {
    "map": _map,
    "softmax": _rows,
    "rmsnorm": _rows,
    "layernorm": _rows,
    "reshape": _reshape,
    "expand": _scattered,
    "transpose": _scattered,
    "slice": _scattered,
    "reverse": _scattered,
    "pad": _moved,
    "concat": _moved,
    "bits": _bits,
    "reduce": _reduce,
    "dot": _dot,
    "gather": _gather,
    "scatter": _scatter,
    "loop": _loop,
    UNSUPPORTED: _unsupported,
}
