"""Writes nodes down, and finds out the shapes of what they make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from sim.frontends.ir import FLOATS, NUMPY, UNSUPPORTED, Node, Value

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
Number = int | float | bool


class Builder:
    """Collects nodes; each call gives the value that its node makes."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.place = ""
        self.notes: dict[Value, float] = {}
        """The epsilon that a scale was made with, for whoever has the scale alone."""
        self.source = ""

    def add(self, op: str, inputs: Sequence[Value], *specs: tuple[tuple[int, ...], str], **attributes: Any) -> Any:
        """One node with outputs of these shapes and dtypes; a single output comes as itself."""
        outputs = tuple(Value(tuple(map(int, shape)), dtype) for shape, dtype in specs)
        self.nodes.append(Node(op, tuple(inputs), outputs, attributes, self.place, self.source))
        return outputs[0] if len(outputs) == 1 else outputs

    def constant(self, data: Any, dtype: str) -> Value:
        array = np.asarray(data).astype(NUMPY[dtype])
        return Value(array.shape, dtype, role="index", data=array)

    def lifted(self, value: Value | Number, dtype: str) -> Value:
        """A number as a constant."""
        return value if isinstance(value, Value) else self.constant(value, dtype)

    def map(self, kind: str, *operands: Value | Number, dtype: str | None = None) -> Value:
        """A function of each element; comparisons give truth values, all else what the first tensor is."""
        chosen = operands[1:] if kind == "select" else operands
        like = next((one.dtype for one in chosen if isinstance(one, Value)), dtype)
        values = [self.lifted(one, like) for one in operands]
        if dtype is None:
            dtype = "bool" if kind in COMPARISONS else values[1].dtype if kind == "select" else like
        shape = np.broadcast_shapes(*(one.shape for one in values))
        return self.add("map", values, (shape, dtype), kind=kind)

    def cast(self, x: Value, dtype: str) -> Value:
        if x.dtype == dtype:
            return x
        if dtype == "bool":
            return self.map("not_equal", x, 0)
        return self.map("trunc" if x.is_float and dtype not in FLOATS else "copy", x, dtype=dtype)

    def reshape(self, x: Value, shape: Iterable[int]) -> Value:
        shape = tuple(map(int, shape))
        return x if shape == x.shape else self.add("reshape", [x], (shape, x.dtype))

    def transpose(self, x: Value, axes: Iterable[int]) -> Value:
        axes = tuple(int(axis) % x.rank for axis in axes)
        if axes == tuple(range(x.rank)):
            return x
        return self.add("transpose", [x], (tuple(x.shape[axis] for axis in axes), x.dtype), axes=axes)

    def swapped(self, x: Value, one: int, other: int) -> Value:
        axes = list(range(x.rank))
        axes[one], axes[other] = axes[other], axes[one]
        return self.transpose(x, axes)

    def expand(self, x: Value, shape: Iterable[int]) -> Value:
        """Dimensions of 1 repeated, and new ones before the first."""
        shape = tuple(map(int, shape))
        x = self.reshape(x, (1,) * (len(shape) - x.rank) + x.shape)
        return x if shape == x.shape else self.add("expand", [x], (shape, x.dtype), shape=shape)

    def slice(self, x: Value, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int] | None = None) -> Value:
        steps = steps or (1,) * x.rank
        shape = tuple(len(range(*bounds)) for bounds in zip(starts, stops, steps))
        if shape == x.shape:
            return x
        cuts = tuple((int(a), int(b), int(c)) for a, b, c in zip(starts, stops, steps))
        return self.add("slice", [x], (shape, x.dtype), cuts=cuts)

    def part(self, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """A slice along one axis."""
        starts, stops, steps = [0] * x.rank, list(x.shape), [1] * x.rank
        starts[axis], stops[axis], steps[axis] = start, stop, step
        return self.slice(x, starts, stops, steps)

    def reverse(self, x: Value, axes: Iterable[int]) -> Value:
        axes = tuple(axis % x.rank for axis in axes)
        return self.add("reverse", [x], (x.shape, x.dtype), axes=axes) if axes else x

    def pad(
        self,
        x: Value,
        low: Sequence[int],
        high: Sequence[int],
        value: Number = 0,
        interior: Sequence[int] | None = None,
    ) -> Value:
        """With a number before, behind and between the elements of each axis; negative cuts off."""
        interior = tuple(interior or (0,) * x.rank)
        if not any(low) and not any(high) and not any(interior):
            return x
        inner = [size + max(0, size - 1) * between for size, between in zip(x.shape, interior)]
        shape = tuple(a + size + b for a, size, b in zip(low, inner, high))
        attributes = {"low": tuple(low), "high": tuple(high), "interior": interior, "value": value}
        return self.add("pad", [x], (shape, x.dtype), **attributes)

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        values = [one for one in values if one.size] or list(values[:1])
        if len(values) == 1:
            return values[0]
        axis %= values[0].rank
        shape = list(values[0].shape)
        shape[axis] = sum(one.shape[axis] for one in values)
        return self.add("concat", values, (tuple(shape), values[0].dtype), axis=axis)

    def reduce(self, kind: str, x: Value, axes: Iterable[int] | None = None, keep: bool = False) -> Value:
        """`kind` over some axes, all by default; `keep` leaves them as 1."""
        given = range(x.rank) if axes is None else axes
        axes = tuple(sorted({int(axis) % x.rank for axis in given})) if x.rank else ()
        kept = tuple(1 if at in axes else size for at, size in enumerate(x.shape))
        out = x
        if axes:
            shape = tuple(size for at, size in enumerate(x.shape) if at not in axes)
            out = self.add("reduce", [x], (shape, x.dtype), kind=kind, axes=axes)
        return self.reshape(out, kept) if keep else out

    def dot(
        self,
        x: Value,
        y: Value,
        contract: tuple[Sequence[int], Sequence[int]],
        batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
        dtype: str | None = None,
    ) -> Value:
        """[batch, free of x, free of y]"""
        free = [[one.shape[at] for at in range(one.rank) if at not in (*contract[k], *batch[k])]
                for k, one in enumerate((x, y))]  # fmt: skip
        shape = (*(x.shape[at] for at in batch[0]), *free[0], *free[1])
        sides = {"contract": tuple(map(tuple, contract)), "batch": tuple(map(tuple, batch))}
        return self.add("dot", [x, y], (shape, dtype or x.dtype), **sides)

    def matmul(self, x: Value, y: Value) -> Value:
        """As numpy.matmul, of at least two dimensions each."""
        lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        if y.rank == 2:
            return self.dot(x, y, ((x.rank - 1,), (0,)))
        x, y = (self.expand(one, (*lead, *one.shape[-2:])) for one in (x, y))
        together = tuple(range(len(lead)))
        return self.dot(x, y, ((x.rank - 1,), (y.rank - 2,)), (together, together))

    def gather(self, x: Value, indices: Value) -> Value:
        """Rows of x [N, …] by indices [T]."""
        return self.add("gather", [x, self.cast(indices, "int32")], ((indices.size, *x.shape[1:]), x.dtype))

    def scatter(self, base: Value, indices: Value, updates: Value) -> Value:
        """base [N, …] with updates [T, …] at indices [T], of which no two are equal."""
        return self.add("scatter", [base, self.cast(indices, "int32"), updates], (base.shape, base.dtype))

    def iota(self, size: int, dtype: str = "int32") -> Value:
        return self.constant(np.arange(size), dtype)

    def full(self, shape: Iterable[int], number: Number, dtype: str) -> Value:
        """One number everywhere."""
        return self.expand(self.constant(number, dtype), tuple(shape))

    def flat(self, x: Value, axis: int = 0) -> Value:
        """[rows, columns]: what lies before an axis, and the rest."""
        return self.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))

    def unsupported(self, name: str, why: str, inputs: Sequence[Value], *specs: tuple[tuple[int, ...], str]) -> Any:
        """What stays in the graph under its own name, and cannot be run."""
        return self.add(UNSUPPORTED, inputs, *specs, name=name, why=why)
