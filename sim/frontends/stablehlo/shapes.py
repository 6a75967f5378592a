"""Operations that make tensors, or put their elements in other places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from sim.frontends.builder import Builder
from sim.frontends.ir import Value
from sim.frontends.stablehlo.reading import Reader, Unwritten, elements


def sizes(op: Any, name: str) -> list[int]:
    """A list of whole numbers."""
    return [int(one) for one in op.attributes[name]]


def constant(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    shape, dtype = specs[0]
    attribute = op.attributes["value"]
    if attribute.is_splat:
        single = elements(attribute, (), dtype)
        return reader.builder.expand(reader.builder.constant(single, dtype), shape)
    return reader.builder.constant(elements(attribute, shape, dtype), dtype)


def iota(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    shape, dtype = specs[0]
    axis = int(op.attributes["iota_dimension"])
    numbers = np.arange(shape[axis]).reshape([-1 if at == axis else 1 for at in range(len(shape))])
    return reader.builder.expand(reader.builder.constant(numbers, dtype), shape)


def broadcast_in_dim(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """Each dimension of the operand has its place in the result."""
    (x,), (shape, _) = inputs, specs[0]
    axes = sizes(op, "broadcast_dimensions")
    order = np.argsort(axes).tolist()
    moved = reader.builder.transpose(x, order)
    placed = [1] * len(shape)
    for at, axis in enumerate(sorted(axes)):
        placed[axis] = moved.shape[at]
    return reader.builder.expand(reader.builder.reshape(moved, placed), shape)


def broadcast(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """New dimensions before the others."""
    return reader.builder.expand(inputs[0], specs[0][0])


def reshape(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    return reader.builder.reshape(inputs[0], specs[0][0])


def transpose(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    return reader.builder.transpose(inputs[0], sizes(op, "permutation"))


def sliced(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    return reader.builder.slice(inputs[0], *(sizes(op, name) for name in ("start_indices", "limit_indices", "strides")))


def reverse(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    return reader.builder.reverse(inputs[0], sizes(op, "dimensions"))


def concatenate(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    return reader.builder.concat(inputs, int(op.attributes["dimension"]))


def pad(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """With a number; one that is known only later is chosen where there was nothing."""
    x, filler = inputs
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return padded(reader.builder, x, filler, *(sizes(op, name) for name in names))


def padded(b: Builder, x: Value, filler: Value, low: Sequence[int], high: Sequence[int], gaps: Sequence[int]) -> Value:
    number = known_number(b, filler)
    if number is not None:
        return b.pad(x, low, high, number, gaps)
    ones = b.pad(b.full(x.shape, 1, "uint8"), low, high, 0, gaps)
    return b.map("select", b.cast(ones, "bool"), b.pad(x, low, high, 0, gaps), filler)


def known_number(b: Builder, value: Value) -> float | None:
    """What a value without dimensions is, looking through what repeats it."""
    makers = {out: node for node in b.nodes[-64:] for out in node.outputs}
    while value.number is None and value in makers and makers[value].op in ("expand", "reshape", "copy"):
        value = makers[value].inputs[0]
    return value.number


def dimension_size(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    return reader.builder.constant(inputs[0].shape[int(op.attributes["dimension"])], "int32")


def same(reader: Reader, op: Any, inputs: list, specs: list) -> list:
    return list(inputs)


def zero(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """A number of this core: one alone is the first."""
    return reader.builder.constant(0, specs[0][1])


def collect(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """What several cores would exchange: groups of one core keep what they have."""
    groups = op.attributes.get("replica_groups", None)
    wide = groups is not None and ir.RankedTensorType(groups.type).shape[-1] > 1
    if wide or (inputs[0].shape, inputs[0].dtype) != specs[0]:
        raise Unwritten("an exchange between cores: sim.models spreads a model")
    return inputs[0]


RULES: dict[str, Callable[..., Any]] = {
    "constant": constant, "iota": iota, "broadcast_in_dim": broadcast_in_dim, "broadcast": broadcast,
    "reshape": reshape, "transpose": transpose, "slice": sliced, "reverse": reverse, "concatenate": concatenate,
    "pad": pad, "get_dimension_size": dimension_size, "optimization_barrier": same, "partition_id": zero,
    "replica_id": zero, "chlo.constant": constant,
    **dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_broadcast",
                     "cross-replica-sum", "collective_permute"), collect),
}  # fmt: skip
