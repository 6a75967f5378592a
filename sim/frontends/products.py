"""Products: which of the two layouts that the operators take a tensor has, or how it is turned into one."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from sim.frontends.ir import Node, Value

if TYPE_CHECKING:
    from sim.frontends.emission import Emitter


class Side(NamedTuple):
    """One factor as [batch, rows, columns], and whether what is contracted comes the wrong way round."""

    value: Value
    transposed: bool
    free: tuple[int, ...]
    """Its own dimensions in the result."""


def emit_dot(emitter: Emitter, node: Node) -> None:
    """[batch, free of x, free of y]; bias and activation come as attributes where they were joined to it."""
    batch, contract = node.attributes["batch"], node.attributes["contract"]
    x, y = (_side(emitter, value, batch[k], contract[k], k) for k, value in enumerate(node.inputs[:2]))
    inner = prod(node.inputs[0].shape[axis] for axis in contract[0])
    together = prod(node.inputs[0].shape[axis] for axis in batch[0])
    rows, columns = prod(x.free), prod(y.free)
    form = _format(node)
    factors = [_same_format(emitter, side.value, form) for side in (x, y)]
    turned = {name: True for name, side in (("transpose_x", x), ("transpose_w", y)) if side.transposed}
    shapes = [_sizes(side.transposed == (k == 0), (rows, columns)[k], inner) for k, side in enumerate((x, y))]
    scalars = {**turned, **({"activation": node.attributes["activation"]} if "activation" in node.attributes else {})}
    rest = [emitter.shaped(value, (columns,)) for value in node.inputs[2:]]
    lead = (together,) if batch[0] else ()
    name = "batched_matmul" if batch[0] else "matmul"
    given = [emitter.shaped(value, (*lead, *shape)) for value, shape in zip(factors, shapes)]
    out = Value((*lead, rows, columns), "bf16" if form.startswith("fp8") else form)
    emitter.call(name, name, [*given, *rest], out, **scalars)
    if out.dtype != node.out.dtype:
        out = emitter.call("cast", "cast", [out], Value(out.shape, node.out.dtype), dtype=node.out.dtype)
    emitter.view("reshape", [out], node.out, shape=node.out.shape)


def _sizes(inner_first: bool, free: int, inner: int) -> tuple[int, int]:
    return (inner, free) if inner_first else (free, inner)


def _format(node: Node) -> str:
    """The wider of both, as a float."""
    kinds = [value.dtype for value in node.inputs[:2]]
    for name in ("fp32", "bf16", "fp16"):
        if name in kinds:
            return name
    return kinds[0] if kinds[0].startswith("fp") else "fp32"


def _same_format(emitter: Emitter, value: Value, form: str) -> Value:
    if value.dtype == form:
        return value
    return emitter.call("cast", "cast", [emitter.whole(value)], Value(value.shape, form), dtype=form)


def _side(emitter: Emitter, value: Value, batch: tuple[int, ...], contract: tuple[int, ...], which: int) -> Side:
    """One factor, with as little turning as possible."""
    free = tuple(axis for axis in range(value.rank) if axis not in (*batch, *contract))
    plain, turned = (*batch, *free, *contract), (*batch, *contract, *free)
    source, axes = value, tuple(range(value.rank))
    node = emitter.scattered.get(value)
    if node is not None and node.op == "transpose":
        source, axes = node.inputs[0], node.attributes["axes"]
    sizes = tuple(value.shape[axis] for axis in free)
    for order, contracted_last in ((plain, True), (turned, False)):
        if _in_row([axes[axis] for axis in order], source.shape):
            return Side(emitter.whole(source), contracted_last == (which == 1), sizes)
    moved = Value(tuple(value.shape[axis] for axis in plain), value.dtype)
    order = tuple(axes[axis] for axis in plain)
    emitter.call("transpose", "transpose", [emitter.whole(source)], moved, axes=order)
    return Side(moved, which == 1, sizes)


def _in_row(axes: list[int], shape: tuple[int, ...]) -> bool:
    """Whether dimensions in this order lie in memory as they do."""
    real = [axis for axis in axes if shape[axis] > 1]
    return real == sorted(real)
