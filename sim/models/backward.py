"""What the backward pass does for each operation of the forward pass, and what it must be left of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from sim.errors import UnsupportedError
from sim.models.graph import COLLECTIVE, SIZES, Layer, Operand, Operation
from sim.models.workload import Sharding

MIRRORED = {
    "all_reduce": "all_reduce",
    "all_gather": "reduce_scatter",
    "reduce_scatter": "all_gather",
    "all_to_all": "all_to_all",
    "permute": "permute",
}
"""The exchange of gradients for an exchange of values."""


def backward(layer: Layer, recompute: str) -> Layer:
    """The layer's operations in reverse; with `recompute` behind those of the forward pass that are done again."""
    again = tuple(one for one in layer.operations if recomputed(one, recompute))
    back = tuple(made for one in reversed(layer.operations) for made in gradients(one))
    done_again = tuple(replace(one, name=f"again/{one.name}") for one in again)
    return Layer(f"{layer.name} backward", done_again + back, layer.repeat, owns_weights=False)


def recomputed(operation: Operation, recompute: str) -> bool:
    """`full` does all again but for sending; `selective` what is cheap: norms and activations."""
    if recompute == "full":
        return operation.scalars.get("kind") != "permute"
    cheap = operation.operator in ("rmsnorm", "layernorm") or _is_activation(operation)
    return recompute == "selective" and cheap


def _is_activation(operation: Operation) -> bool:
    return operation.operator == "elementwise" and operation.scalars.get("kind") != "add"


def gradients(operation: Operation) -> Iterator[Operation]:
    """raises : UnsupportedError for an operator of which nobody has written the gradient"""
    make = RULES.get(operation.operator)
    if make is None:
        raise UnsupportedError(f"{operation.name}: {operation.operator} has no backward pass")
    yield from make(operation)


def _like(operation: Operation, suffix: str, operator: str, *inputs: Operand, **scalars: object) -> Operation:
    return Operation(f"{operation.name}/{suffix}", operator, inputs, scalars, operation.times)


def _flow(shape: tuple[int, ...], like: Operand) -> Operand:
    return Operand(shape, like.dtype)


def _used(weight: Operand) -> Operand:
    """A weight that the forward pass has counted."""
    return replace(weight, role="shared")


def _matmul(operation: Operation) -> Iterator[Operation]:
    """dx = dy wᵀ unless x is data, dw = xᵀ dy, and the sum of dy for a bias."""
    x, w = operation.inputs[:2]
    transposed = bool(operation.scalars.get("transpose_w"))
    columns = w.shape[0 if transposed else 1]
    dy = _flow((x.shape[0], columns), x)
    turned = {} if transposed else {"transpose_w": True}
    if x.role != "index":
        yield _like(operation, "input gradient", "matmul", dy, _used(w), **turned)
    yield _like(operation, "weight gradient", "matmul", x, dy, transpose_x=True)
    if len(operation.inputs) > 2:
        yield _like(operation, "bias gradient", "reduce", dy, kind="sum", axis=0)


def _norm(operation: Operation) -> Iterator[Operation]:
    x, weight = operation.inputs[:2]
    yield _like(operation, "gradient", f"{operation.operator}_backward", x, _used(weight), _flow(x.shape, x))


def _attention(operation: Operation) -> Iterator[Operation]:
    q, k, v = operation.inputs
    lse = Operand(q.shape[:3], "fp32")
    yield _like(operation, "gradient", "attention_backward", q, k, v, q, q, lse, **operation.scalars)


def _elementwise(operation: Operation) -> Iterator[Operation]:
    """A sum hands its gradient on, and adds up the two that come back to a residual; an activation multiplies by its
    derivative, taken to cost as much as itself, and a gate passes a gradient to each side."""
    kind = str(operation.scalars["kind"])
    first = operation.inputs[0]
    if kind == "add":
        yield _like(operation, "gradient", "elementwise", first, first, kind="add")
        return
    if kind.endswith("_multiply"):
        yield _like(operation, "gate derivative", "elementwise", first, kind="sigmoid")
        yield _like(operation, "gate gradient", "elementwise", first, first, kind="mul")
        yield _like(operation, "up gradient", "elementwise", first, first, kind=kind)
    else:
        yield _like(operation, "derivative", "elementwise", first, kind=kind)
    yield _like(operation, "gradient", "elementwise", first, first, kind="mul")


def _rope(operation: Operation) -> Iterator[Operation]:
    yield _like(operation, "gradient", "rope", *operation.inputs)


def _embedding(operation: Operation) -> Iterator[Operation]:
    """Rows are added to where they were read from: taken to cost what reading them does."""
    ids, table = operation.inputs
    yield _like(operation, "gradient", "embedding", ids, _used(table))


def _collective(operation: Operation) -> Iterator[Operation]:
    kind = MIRRORED[str(operation.scalars["kind"])]
    scalars = dict(operation.scalars) | {"kind": kind}
    yield Operation(f"{operation.name} backward", COLLECTIVE, (), scalars, operation.times)


def _cross_entropy(operation: Operation) -> Iterator[Operation]:
    logits, labels = operation.inputs
    rows = Operand((logits.shape[0],), "fp32")
    yield _like(operation, "gradient", "cross_entropy_backward", logits, labels, rows, rows)


def _routing(operation: Operation) -> Iterator[Operation]:
    """A softmax over the experts, backward."""
    logits = operation.inputs[0]
    yield _like(operation, "gradient", "softmax_backward", logits, logits)


def _gated_mlp(operation: Operation) -> Iterator[Operation]:
    """Gate and up products again, then the gradients of all three and of what lies between."""
    x, gate, up, down = operation.inputs
    rows, inner = x.shape[0], gate.shape[1]
    hidden = _flow((rows, inner), x)
    for name, weight in (("gate again", gate), ("up again", up)):
        yield _like(operation, name, "matmul", x, _used(weight))
    yield from (replace(one, name=f"{operation.name}/{name}") for name, parts in (
        ("down", _matmul(_like(operation, "down", "matmul", hidden, down))),
        ("activation", _elementwise(_like(operation, "a", "elementwise", hidden, hidden, kind="silu_multiply"))),
        ("up", _matmul(_like(operation, "up", "matmul", x, up))),
        ("gate", _matmul(_like(operation, "gate", "matmul", x, gate))),
    ) for one in parts)  # fmt: skip


RULES: dict[str, Callable[[Operation], Iterator[Operation]]] = {
    "matmul": _matmul,
    "rmsnorm": _norm,
    "layernorm": _norm,
    "attention": _attention,
    "elementwise": _elementwise,
    "rope": _rope,
    "embedding": _embedding,
    "cross_entropy": _cross_entropy,
    "topk_routing": _routing,
    "gated_mlp": _gated_mlp,
    COLLECTIVE: _collective,
}
"""The operations of the backward pass for one of the forward pass, by its operator."""


def kept_bytes(layer: Layer, recompute: str, sharding: Sharding) -> int:
    """What the backward pass needs of all repeats of a layer over one microbatch, each tensor once.

    A product keeps its input, a norm what it normalises, attention its queries, keys and values and the sums of each
    row, an activation its inputs. What is done again is not kept: of a layer that is done again as a whole, only its
    input is. With sequence parallelism what was gathered is gathered again.
    """
    if recompute == "full":
        flows = [one for operation in layer.operations for one in operation.inputs if one.role == "activation"]
        return layer.repeat * (flows[0].nbytes if flows else 0)
    total, source, gathered = 0, None, False
    for operation in layer.operations:
        if operation.operator == COLLECTIVE:
            gathered = operation.scalars["kind"] == "all_gather" and operation.scalars["group"] == "tp"
            continue
        again = source is not None and recomputed(source, recompute) and operation.operator == "matmul"
        if not again and not operation.same_input:
            total += _kept(operation) // (sharding.tp if gathered else 1)
        source = source if operation.same_input else operation
        gathered = False
    return layer.repeat * total


def _kept(operation: Operation) -> int:
    """What one operation keeps, whatever the others do."""
    if operation.operator in ("embedding", "rope") or operation.scalars.get("kind") == "add":
        return 0
    data = operation.operator == "matmul" and operation.inputs[0].role == "index"
    flows = [one for one in operation.inputs if one.role == "activation"] + list(operation.inputs[:data])
    total = sum(one.nbytes for one in flows) * operation.times
    if operation.operator == "attention":
        total += prod(flows[0].shape[:3]) * SIZES["fp32"]
    return total
