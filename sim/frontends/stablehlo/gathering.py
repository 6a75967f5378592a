"""Elements by number: gathers, scatters, slices that begin where a tensor says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo

from sim.frontends.builder import Builder
from sim.frontends.ir import Value
from sim.frontends.scattering import scattered
from sim.frontends.stablehlo.folding import body_of
from sim.frontends.stablehlo.reading import Reader, Unwritten
from sim.frontends.stablehlo.shapes import sizes


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of a tensor [shape]: how large each is, and which of its axes are taken as a whole."""

    shape: tuple[int, ...]
    size: tuple[int, ...]
    moved: tuple[int, ...]
    """Axes along which indices say where a piece begins."""

    @property
    def cut(self) -> tuple[int, ...]:
        """Axes that a piece does not have as a whole."""
        return tuple(at for at, size in enumerate(self.shape) if self.size[at] != size or at in self.moved)

    @property
    def whole(self) -> tuple[int, ...]:
        return tuple(at for at in range(len(self.shape)) if at not in self.cut)

    @property
    def rows(self) -> int:
        return prod(self.shape[at] for at in self.cut)

    @property
    def width(self) -> int:
        return prod(self.shape[at] for at in self.whole)

    def flat(self, b: Builder, x: Value) -> Value:
        """[rows, width]: what is cut before what is whole."""
        return b.reshape(b.transpose(x, (*self.cut, *self.whole)), (self.rows, self.width))

    def back(self, b: Builder, flat: Value) -> Value:
        order = (*self.cut, *self.whole)
        apart = b.reshape(flat, [self.shape[at] for at in order])
        return b.transpose(apart, np.argsort(order).tolist())


def numbers_of(b: Builder, pieces: Pieces, starts: dict[int, Value], batch: Sequence[int], inside: bool) -> Value:
    """The rows that the pieces are made of, [batch, sizes along what is cut].

    starts : where pieces begin along an axis, [batch]
    inside : begins beyond the end are moved back; else what lies outside gets a number that no row has
    """
    extents = [pieces.size[at] for at in pieces.cut]
    rank = len(batch) + len(extents)
    total: Value | None = None
    outside: Value | None = None
    for k, axis in enumerate(pieces.cut):
        stride = prod(pieces.shape[at] for at in pieces.cut[k + 1 :])
        shape = [1] * rank
        shape[len(batch) + k] = extents[k]
        at = b.constant(np.arange(extents[k]).reshape(shape), "int32")
        if axis in starts:
            first = b.cast(starts[axis], "int32")
            if inside:
                first = b.map("min", b.map("max", first, 0), pieces.shape[axis] - extents[k])
            at = b.map("add", b.reshape(first, (*batch, *[1] * len(extents))), at)
            if not inside:
                beyond = b.map("or", b.map("less", at, 0), b.map("greater_equal", at, pieces.shape[axis]))
                outside = beyond if outside is None else b.map("or", outside, beyond)
        part = b.map("mul", at, stride) if stride != 1 else at
        total = part if total is None else b.map("add", total, part)
    if total is None:
        total = b.constant(np.zeros([1] * rank), "int32")
    if outside is not None:
        total = b.map("select", outside, b.constant(pieces.rows, "int32"), total)
    return b.expand(total, (*batch, *extents))


def _starts(
    b: Builder, indices: Value, vector: int, axes: Sequence[int], pairs: Sequence[tuple[int, int]]
) -> tuple[dict[int, Value], tuple[int, ...]]:
    """Where pieces begin along each axis, [batch], from indices whose axis `vector` has one number an axis.

    pairs : axes of the tensor and of the indices that go together
    """
    if vector == indices.rank:
        indices = b.reshape(indices, (*indices.shape, 1))
    batch = tuple(size for at, size in enumerate(indices.shape) if at != vector)
    found = {}
    for number, axis in enumerate(axes):
        found[axis] = b.reshape(b.part(indices, vector, number, number + 1), batch)
    for axis, of in pairs:
        at = of if of < vector else of - 1
        along = np.arange(batch[at]).reshape([-1 if k == at else 1 for k in range(len(batch))])
        found[axis] = b.expand(b.constant(along, "int32"), batch)
    return found, batch


def gather(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    b, (x, indices) = reader.builder, inputs
    how = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    pairs = list(zip(how.operand_batching_dims, how.start_indices_batching_dims))
    starts, batch = _starts(b, indices, how.index_vector_dim, how.start_index_map, pairs)
    pieces = Pieces(x.shape, tuple(sizes(op, "slice_sizes")), tuple(starts))
    rows = numbers_of(b, pieces, starts, batch, inside=True)
    found = b.gather(pieces.flat(b, x), b.reshape(rows, (rows.size,)))
    gone = (*how.collapsed_slice_dims, *how.operand_batching_dims)
    axes = [at for at in (*pieces.cut, *pieces.whole) if at not in gone]
    kept = [pieces.size[at] for at in axes]
    apart = b.reshape(found, (*batch, *kept))
    offsets = list(how.offset_dims)
    order, at_batch = [], iter(range(len(batch)))
    placed = dict(zip(offsets, sorted(axes)))
    for at in range(len(specs[0][0])):
        order.append(len(batch) + axes.index(placed[at]) if at in placed else next(at_batch))
    return b.transpose(apart, order)


def scatter(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    if len(inputs) != 3:
        raise Unwritten("several tensors at once")
    b, (x, indices, updates) = reader.builder, inputs
    how = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    pairs = list(zip(how.input_batching_dims, how.scatter_indices_batching_dims))
    starts, batch = _starts(b, indices, how.index_vector_dim, how.scattered_dims_to_operand_dims, pairs)
    gone = (*how.inserted_window_dims, *how.input_batching_dims)
    windows = list(how.update_window_dims)
    size = [1] * x.rank
    kept = [at for at in range(x.rank) if at not in gone]
    for axis, of in zip(kept, windows):
        size[axis] = updates.shape[of]
    pieces = Pieces(x.shape, tuple(size), tuple(starts))
    rows = numbers_of(b, pieces, starts, batch, inside=False)
    outer = [at for at in range(updates.rank) if at not in windows]
    order = [*outer, *(windows[kept.index(at)] for at in (*pieces.cut, *pieces.whole) if at in kept)]
    new = b.reshape(b.transpose(updates, order), (rows.size, pieces.width))
    names = [one.operation.name for one in op.regions[0].blocks[0].operations]
    kind = "set" if len(names) == 1 else body_of(op)
    if kind not in ("set", "add", "mul", "max", "min"):
        raise Unwritten(f"a scatter by {kind}")
    return pieces.back(b, scattered(b, pieces.flat(b, x), b.reshape(rows, (rows.size,)), new, kind))


def _first(x: Value, given: Sequence[Value], size: Sequence[int]) -> dict[int, Value]:
    """Where a piece begins along the axes that it is not the whole of."""
    return {at: one for at, one in enumerate(given) if size[at] != x.shape[at]}


def dynamic_slice(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    b, (x, *given) = reader.builder, inputs
    starts = _first(x, given, specs[0][0])
    if not starts:
        return x
    pieces = Pieces(x.shape, specs[0][0], tuple(starts))
    rows = numbers_of(b, pieces, starts, (), inside=True)
    found = b.gather(pieces.flat(b, x), b.reshape(rows, (rows.size,)))
    order = (*pieces.cut, *pieces.whole)
    apart = b.reshape(found, [pieces.size[at] for at in order])
    return b.transpose(apart, np.argsort(order).tolist())


def dynamic_update_slice(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    b, (x, updates, *given) = reader.builder, inputs
    starts = _first(x, given, updates.shape)
    if not starts:
        return updates
    pieces = Pieces(x.shape, updates.shape, tuple(starts))
    rows = numbers_of(b, pieces, starts, (), inside=True)
    order = (*pieces.cut, *pieces.whole)
    new = b.reshape(b.transpose(updates, order), (rows.size, pieces.width))
    return pieces.back(b, b.scatter(pieces.flat(b, x), b.reshape(rows, (rows.size,)), new))


def index_select(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """Rows along one axis, for each place along the axes before that go together."""
    b, (x, indices) = reader.builder, inputs
    axis, together = int(op.attributes["dim"]), int(op.attributes["batch_dims"])
    if together:
        raise Unwritten("axes that go together")
    first = [axis, *(at for at in range(x.rank) if at != axis)]
    rows = b.gather(b.transpose(x, first), b.reshape(indices, (indices.size,)))
    apart = b.reshape(rows, (*indices.shape, *(x.shape[at] for at in first[1:])))
    count = indices.rank
    order = [*range(count, count + axis), *range(count), *range(count + axis, apart.rank)]
    return b.transpose(apart, order)


RULES: dict[str, Callable[..., Any]] = {
    "gather": gather, "scatter": scatter, "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice, "torch_index_select": index_select,
}  # fmt: skip
