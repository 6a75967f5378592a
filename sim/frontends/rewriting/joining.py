"""Joins neighbours: what follows a product into it, and functions of the same elements into one pass."""

from __future__ import annotations

from sim.frontends.emission import step_format
from sim.frontends.ir import Node, Program, Value, makers, users, uses
from sim.ops.definitions.expressions import MOST
from sim.ops.functions import ACTIVATIONS

STEPS = 20
"""Most functions of one pass: each has a tile on chip."""


def join_products(program: Program) -> Program:
    """A vector that is added to the columns of a product, and an activation behind it, belong to the product."""
    asking, gone = users(program), set[Node]()
    new: dict[Node, Node] = {}
    for node in program.nodes:
        if node.op == "dot" and not node.attributes["batch"][0]:
            _extend(node, asking, set(program.outputs), gone, new)
    nodes = [new.get(node, node) for node in program.nodes if node not in gone or node in new]
    return Program(program.inputs, tuple(_ordered(nodes)), program.outputs)


def _extend(
    node: Node, asking: dict[Value, list[Node]], outputs: set[Value], gone: set[Node], new: dict[Node, Node]
) -> None:
    """Follows a product's only user, as long as that can be done on the way."""
    columns = node.out.shape[-1:] if node.inputs[1].rank - len(node.attributes["contract"][1]) == 1 else ()
    passed, at, bias, activation = [], node.out, None, None
    taken, last = [], None
    while columns:
        following = asking.get(at, [])
        if len(following) != 1 or at in outputs:
            break
        user = following[0]
        if user.op == "reshape" and user.out.shape[-1:] == columns:
            passed.append(user)
        elif bias is None and activation is None and _is_bias(user, at, columns[0]):
            bias = next(value for value in user.inputs if value is not at)
            taken, last = [*taken, *passed, user], user
            passed = []
        elif activation is None and user.op == "map" and user.attributes["kind"] in ACTIVATIONS:
            activation = user.attributes["kind"]
            taken, last = [*taken, *passed, user], user
            break
        else:
            break
        at = user.out
    if last is None:
        return
    gone.update(taken)
    inputs = node.inputs if bias is None else (*node.inputs, bias)
    more = {"activation": activation} if activation else {}
    gone.add(node)
    new[last] = Node("dot", inputs, last.outputs, {**node.attributes, **more}, node.place, node.source)


def _is_bias(user: Node, product: Value, columns: int) -> bool:
    """Whether a node adds a vector to each row."""
    if user.op != "map" or user.attributes["kind"] != "add" or user.out.shape != product.shape:
        return False
    others = [value for value in user.inputs if value is not product]
    if len(others) != 1 or user.out.dtype != product.dtype:
        return False
    (vector,) = others
    return vector.rank > 0 and vector.size == columns == vector.shape[-1] and vector.dtype == product.dtype


def _ordered(nodes: list[Node]) -> list[Node]:
    """Nodes in an order in which each finds its inputs made, as near the given one as can be."""
    made = {value: node for node in nodes for value in node.outputs}
    done: set[Node] = set()
    found: list[Node] = []
    for root in nodes:
        waiting = [root]
        while waiting:
            node = waiting[-1]
            lacking = [made[value] for value in node.inputs if value in made and made[value] not in done]
            if lacking and node not in done:
                waiting += lacking
                continue
            waiting.pop()
            if node not in done:
                done.add(node)
                found.append(node)
    return found


def join_elementwise(program: Program) -> Program:
    """Functions that only one other function of the same elements asks for are done in its pass."""
    made, counts = makers(program), uses(program)
    joined: dict[Value, _Pass] = {}
    gone: set[Node] = set()
    for node in program.nodes:
        if node.op != "map":
            continue
        parts: list[_Pass | None] = [None] * len(node.inputs)
        for at, value in enumerate(node.inputs):
            before = made.get(value)
            alone = counts.get(value, 0) == node.inputs.count(value)
            if alone and before is not None and before.op == "map" and before.out.shape == node.out.shape:
                parts[at] = joined.get(value)
        mine = _Pass.of(node, parts)
        for at, part in enumerate(parts):
            if part is not None and not mine.fits:
                parts[at] = None
                mine = _Pass.of(node, parts)
        gone.update(made[value] for value, part in zip(node.inputs, parts) if part is not None)
        joined[node.out] = mine
    nodes = [joined[node.out].node(node) if node.op == "map" else node for node in program.nodes if node not in gone]
    return Program(program.inputs, tuple(nodes), program.outputs)


class _Pass:
    """Steps over tensors: each a function, its format, and operands: a number, a tensor, or a step before."""

    def __init__(self) -> None:
        self.tensors: list[Value] = []
        self.steps: list[tuple] = []

    @property
    def fits(self) -> bool:
        return len(self.tensors) <= MOST and len(self.steps) <= STEPS

    @classmethod
    def of(cls, node: Node, parts: list[_Pass | None]) -> _Pass:
        """A node's own function behind the passes that make its inputs."""
        mine, operands = cls(), []
        placed: dict[Value, tuple] = {}
        for value, part in zip(node.inputs, parts):
            if part is None:
                number = value.number
                operands.append(mine._tensor(value) if number is None else float(number))
                continue
            if value not in placed:
                placed[value] = mine._taken(part)
            operands.append(placed[value])
        if all(isinstance(one, float) for one in operands):
            operands[0] = mine._tensor(node.inputs[0])
        mine.steps.append((node.attributes["kind"], step_format(node.out.dtype), *operands))
        return mine

    def _tensor(self, value: Value) -> tuple[str, int]:
        if value not in self.tensors:
            self.tensors.append(value)
        return "tensor", self.tensors.index(value)

    def _taken(self, part: _Pass) -> tuple[str, int]:
        """The steps of another pass, with their operands where they are now."""
        first = len(self.steps)
        for kind, form, *operands in part.steps:
            moved = [one if isinstance(one, float) else self._tensor(part.tensors[one[1]]) if one[0] == "tensor"
                     else ("step", first + one[1]) for one in operands]  # fmt: skip
            self.steps.append((kind, form, *moved))
        return "step", len(self.steps) - 1

    def node(self, last: Node) -> Node:
        """One node for all steps: operands are counted over tensors, then steps."""
        count = len(self.tensors)
        steps = tuple(
            (kind, form, *(one if isinstance(one, float) else one[1] + (count if one[0] == "step" else 0)
                           for one in operands))
            for kind, form, *operands in self.steps
        )  # fmt: skip
        attributes = {"kind": last.attributes["kind"], "steps": steps}
        return Node("map", tuple(self.tensors), last.outputs, attributes, last.place, last.source)
