"""What a framework's graph is written down in before it becomes operators: values, and the nodes that make them.

The nodes' names and what they mean:

map       : a function of each element, by `kind`; shapes broadcast as NumPy's do
reshape, expand, transpose, slice, reverse, pad, concat : values in other places; nothing is computed
reduce    : `kind` over `axes`, which are gone afterwards
dot       : a product over `contract`, for each place along `batch`: [batch, free of x, free of y]
gather    : rows of x [N, …] by indices [T]
scatter   : rows of base [N, …] replaced by updates [T, …] at indices [T], of which no two are equal
loop      : a body `trips` times over what it carries
unsupported : what nobody has written, with its name and why

Every other name is an operator of `sim.ops`, or is expanded into these by `sim.frontends.expansion`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

NUMPY = {
    "fp32": np.dtype(np.float32),
    "fp16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp8_e4m3": np.dtype(ml_dtypes.float8_e4m3),
    "fp8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "int32": np.dtype(np.int32),
    "uint32": np.dtype(np.uint32),
    "int16": np.dtype(np.int16),
    "uint16": np.dtype(np.uint16),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
    "bool": np.dtype(np.uint8),
}
"""How values of each format are kept; a truth value is a byte, 0 or 1."""

FLOATS = ("fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2")
UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One tensor."""

    shape: tuple[int, ...]
    dtype: str
    name: str = ""
    role: str = "activation"
    """As an `Operand` has it."""
    data: np.ndarray | None = field(default=None, repr=False)
    """Of a constant."""

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def number(self) -> float | None:
        """What all elements of a constant are; None where they differ, or are not known."""
        if self.data is None or self.size != 1:
            return None
        return float(self.data.reshape(-1)[0])


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """What makes values of values."""

    op: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    """The module or scope that it comes from: `layers.3.attention`."""
    source: str = ""
    """The framework's own name."""

    @property
    def out(self) -> Value:
        return self.outputs[0]


@dataclass(frozen=True, slots=True)
class Program:
    """Nodes in an order in which each finds its inputs made."""

    inputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]


def uses(program: Program) -> dict[Value, int]:
    """How many inputs and outputs each value is."""
    found: dict[Value, int] = {}
    for value in (*program.outputs, *(value for node in program.nodes for value in node.inputs)):
        found[value] = found.get(value, 0) + 1
    return found


def users(program: Program) -> dict[Value, list[Node]]:
    """The nodes that ask for each value, once for each time that they do."""
    found: dict[Value, list[Node]] = {}
    for node in program.nodes:
        for value in node.inputs:
            found.setdefault(value, []).append(node)
    return found


def makers(program: Program) -> dict[Value, Node]:
    """The node that makes each value."""
    return {value: node for node in program.nodes for value in node.outputs}
