"""Index tensors to views: `tile[i_p, 512 * k + i_f]` is one strided pattern, as in NumPy's advanced indexing."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from sim.errors import InputError, UnsupportedError
from sim.memory import Layout
from sim.nki.legacy.index import Affine, LoopIndex, Mask, joined
from sim.nki.legacy.tile import Tile
from sim.nki.session import builder
from sim.nki.tensor import DynamicSlice, Index, NkiTensor

ADVANCED = (Affine, Mask, np.ndarray, NkiTensor)
"""Index items that slices and numbers are not."""


class Rows(Index):
    """Rows of a dimension named by an index tile: one for each partition.

    size : of the dimension
    """

    __slots__ = ("size",)

    def __init__(self, view: NkiTensor, stride: int, size: int):
        super().__init__(view, True, stride)
        self.size = size

    def box(self, kept: slice) -> Rows:
        """The rows that some of the index tile's partitions name."""
        return Rows(self.view[kept], self.stride, self.size)


def index(tile: Tile, items: tuple) -> Tile:
    """A view by index tensors, which broadcast together; slices among them add dimensions of their own."""
    if len(items) == 1 and isinstance(items[0], Mask):
        return by_mask(tile, items[0])
    view = _by_pattern(tile, items)
    if len(items) == tile.ndim and all(isinstance(item, (Affine, int)) for item in items):
        forms = tuple([item.form if isinstance(item, Affine) else None for item in items])
        tile.layout.by_form.setdefault(forms, (view.layout, _reaches(tile.layout, items)))
    return view


def _reaches(layout: Layout, items: tuple) -> tuple[tuple[int, int, int], ...]:
    """(stride, least, largest) of each dimension: between the two, an index expression's constant keeps it inside."""
    reaches = []
    for item, size, stride in zip(items, layout.shape, layout.strides):
        low, high = item.low_high() if isinstance(item, Affine) else (item, item)
        const = item.const if isinstance(item, Affine) else item
        reaches.append((stride, const - low, size - 1 - (high - const)))
    return tuple(reaches)


def overrunning(tile: Tile, items: tuple) -> Tile:
    """A view by numbers and slices, of which some run past their dimension until a mask cuts them."""
    first, spans, axis = [], [], 0
    for item, size, stride in zip(spread(items, tile.ndim), tile.layout.shape, tile.layout.strides):
        if isinstance(item, slice):
            start, step = item.start or 0, item.step or 1
            stop = size if item.stop is None else item.stop
            if stop > size and start >= 0 and step > 0:
                spans.append((axis, Affine((), (), start), len(range(start, stop, step)), step, size, stride))
                item = slice(0, 1)
        first.append(item)
        axis += isinstance(item, slice) or (axis == 0 and tile.layout.pitch > 0)
    view = NkiTensor.__getitem__(tile, tuple(first))
    shape, strides, offset = list(view.layout.shape), list(view.layout.strides), view.offset
    bounds = []
    for axis, start, count, step, size, stride in spans:
        shape[axis], strides[axis] = count, stride * step
        offset += start.const * stride
        sizes = tuple(count if a == axis else 1 for a in range(len(shape)))
        bounds.append((Affine(sizes, tuple(step if a == axis else 0 for a in range(len(shape))), start.const), size))
    layout = view.layout
    shaped = Layout(tuple(shape), tuple(strides), layout.dtype, layout.memory, layout.pitch)
    return Tile(tile.storage, shaped, offset, tile.indirection, tile.bounds + tuple(bounds))


def _by_pattern(tile: Tile, items: tuple) -> Tile:
    if any(item is None for item in items):
        raise InputError(f"`{tile.name}`: None among index tensors", source=builder().where())
    return _Pattern(tile, spread(items, tile.ndim)).view()


def by_mask(tile: Tile, mask: Mask) -> Tile:
    """Operand masking, `tile[i_f < 64]`: the box that the mask leaves."""
    ranges = mask.box(tile.shape)
    if ranges is None or any(first >= last for first, last in ranges):
        raise UnsupportedError(
            f"`{tile.name}`: an operand mask that is no rectangle, or empty", source=builder().where()
        )
    return tile.box(ranges)


def spread(items: tuple, ndim: int) -> list:
    """The key with its Ellipsis and missing trailing dimensions written out."""
    whole = [slice(None)] * (ndim - sum(item is not Ellipsis for item in items))
    at = next((place for place, item in enumerate(items) if item is Ellipsis), None)
    return [*items, *whole] if at is None else [*items[:at], *whole, *items[at + 1 :]]


class _Pattern:
    """The pattern that a key picks out of a tile, collected dimension by dimension."""

    def __init__(self, tile: Tile, items: list):
        if len(items) > tile.ndim:
            raise self._fault(tile, f"{len(items)} indices for {tile.ndim} dimensions")
        self.tile = tile
        self.items = [_affine(item, tile) for item in items]
        self.shape: tuple[int, ...] = ()
        for item in self.items:
            if isinstance(item, Affine):
                self.shape = joined(self.shape, item.shape)
        self._place_rows()
        self.strides = [0] * len(self.shape)
        self.offset = tile.offset
        self.bounds: list[tuple[Affine, int]] = []
        self.lead: list[tuple[int, int]] = []
        self.tail: list[tuple[int, int]] = []
        self.rows: Index | None = tile.indirection
        self.scalar: tuple[NkiTensor, int] | None = None

    @staticmethod
    def _fault(tile: Tile, message: str) -> InputError:
        return InputError(f"`{tile.name}` {list(tile.shape)}: {message}", source=builder().where())

    def _place_rows(self) -> None:
        """An index tile's rows go along the first axis, whatever the number of dimensions beside it."""
        for item in self.items:
            if isinstance(item, NkiTensor) and item.size > 1:
                shape = (item.shape[0],) + (1,) * (max(2, len(self.shape)) - 1)
                self.shape = joined(shape, self.shape)

    def view(self) -> Tile:
        first = self._first_index()
        for dim, item in enumerate(self.items):
            size, stride = self.tile.layout.shape[dim], self.tile.layout.strides[dim]
            if isinstance(item, Affine):
                self._along(item, size, stride, dim)
            elif isinstance(item, slice):
                start, stop, step = item.indices(size)
                if item.stop is not None and item.stop > size:
                    raise self._fault(self.tile, f"slice {start}:{item.stop} runs past dimension {dim} of size {size}")
                self.offset += start * stride
                (self.lead if dim < first else self.tail).append((len(range(start, stop, step)), stride * step))
            elif isinstance(item, NkiTensor):
                self._by_tile(item, size, stride)
            else:
                self.offset += item * stride
                self.bounds.append((Affine((), (), item), size))
        return self._finished()

    def _first_index(self) -> int:
        """Where the broadcast axes go: where the index tensors stand; first when a slice divides them, as in NumPy."""
        places = [dim for dim, item in enumerate(self.items) if not isinstance(item, slice)]
        if places[-1] - places[0] == len(places) - 1:
            return places[0]
        if self.tile.layout.pitch and places[0] > 0:
            _refuse(self.tile, "index tensors that a slice divides, which moves the partition")
        return 0

    def _along(self, item: Affine, size: int, stride: int, dim: int) -> None:
        self.offset += item.const * stride
        steps = item.wider(len(self.shape)).steps
        if self.tile.layout.pitch:
            self._check_partition(steps, dim)
        for axis, step in enumerate(steps):
            self.strides[axis] += step * stride
        self.bounds.append((item, size))

    def _check_partition(self, steps: tuple[int, ...], dim: int) -> None:
        """On chip, the first axis is the partition and no other axis is."""
        strays = any(steps[1:]) if dim == 0 else steps[0] != 0
        if strays:
            raise UnsupportedError(
                f"`{self.tile.name}` {list(self.tile.shape)}: "
                f"an index of dimension {dim} mixes the partition with a free axis",
                source=builder().where(),
                remedy="the first axis of the index tensors addresses the partition, the others the free dimensions",
            )

    def _by_tile(self, item: NkiTensor, size: int, stride: int) -> None:
        if self.rows is not None or self.scalar is not None:
            raise UnsupportedError(f"`{self.tile.name}` indexed by two tiles", source=builder().where())
        if item.size == 1:
            self.scalar = (item, stride)
            return
        if self.tile.layout.pitch:
            raise UnsupportedError(
                f"`{self.tile.name}`: an index tile on an on-chip tensor",
                source=builder().where(),
                remedy="gather from HBM",
            )
        self.rows = Rows(item, stride, size)
        self.strides[0] += stride

    def _finished(self) -> Tile:
        axes = [*self.lead, *zip(self.shape, self.strides), *self.tail]
        layout, tail = self.tile.layout, len(self.tail)
        if layout.pitch and len(axes) == 1:
            axes.append((1, layout.itemsize))
            tail += 1
        sizes, strides = tuple([a for a, _ in axes]), tuple([b for _, b in axes])
        shaped = Layout(sizes, strides, layout.dtype, layout.memory, layout.pitch)
        width = len(self.shape) + tail
        bounds = tuple([(_padded(item, width, tail), size) for item, size in self.bounds if _outside(item, size)])
        view = Tile(self.tile.storage, shaped, self.offset, self.rows, self.tile.bounds + bounds)
        if self.scalar is not None:
            moved = view._at(*self.scalar)
            view = Tile(moved.storage, moved.layout, moved.offset, moved.indirection, view.bounds)
        return view


def _outside(item: Affine, size: int) -> bool:
    low, high = item.low_high()
    return low < 0 or high >= size


def _padded(item: Affine, width: int, tail: int) -> Affine:
    """An index expression over the axes of the view, to its last dimension."""
    if item.ndim == width:
        return item
    wide = item.wider(width - tail)
    return Affine(wide.shape + (1,) * tail, wide.steps + (0,) * tail, wide.const)


def _affine(item: Any, tile: Tile) -> Any:
    """An index item as an affine expression, a slice, an index tile or a number."""
    if isinstance(item, (Affine, NkiTensor)):
        return item
    if isinstance(item, slice):
        return item
    if isinstance(item, DynamicSlice):
        return slice(int(item.start), int(item.start) + int(item.size))
    if isinstance(item, range):
        return slice(item.start, item.stop, item.step)
    if isinstance(item, Mask):
        _refuse(tile, "a mask among other indices")
    array = np.asarray(item)
    if array.ndim == 0:
        return int(array)
    origin = array[(0,) * array.ndim]
    steps = tuple(
        int(np.moveaxis(array, axis, 0)[(1,) + (0,) * (array.ndim - 1)] - origin) if size > 1 else 0
        for axis, size in enumerate(array.shape)
    )
    found = Affine(array.shape, steps, int(origin))
    return (
        found
        if np.array_equal(found.dense(), array)
        else _refuse(tile, "values that are no affine expression of nl.arange")
    )


def _refuse(tile: Tile, what: str) -> NoReturn:
    raise UnsupportedError(f"`{tile.name}` indexed by {what}", source=builder().where())
