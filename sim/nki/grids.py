"""Grids of tiles and blocks over a tensor (NKI 0.7): views that are indexed by tile or block instead of by element.

source: NKI 0.7 reference of nki.language.tiles, blocks, alloc_tiles, alloc_blocks and the classes that they give. How a
grid with several rows of tiles lies on chip is not told there: those are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from sim import dtypes
from sim.errors import InputError, UnsupportedError
from sim.nki.session import builder
from sim.nki.tensor import MemoryRegion, NkiTensor

Sizes = tuple[int, ...]


class NkiGrid:
    """Cells of one size that cover a tensor; those at its end are cut to it.

    _spans : first and last + 1 element of each dimension
    _open  : the dimensions that have not been indexed by a number
    """

    def __init__(self, tensor: NkiTensor, tile_shape: Sizes, spans: tuple, open_: Sizes, block_shape: Sizes = ()):
        self._tensor, self._spans, self._open = tensor, spans, open_
        self._tile_shape, self._block_shape = tile_shape, block_shape
        self._steps = tuple(map(prod, zip(tile_shape, block_shape))) if block_shape else tile_shape

    @property
    def tile_shape(self) -> Sizes:
        """Elements of a tile, where it is whole."""
        return self._tile_shape

    @property
    def dtype(self) -> Any:
        return self._tensor.dtype

    @property
    def buffer(self) -> MemoryRegion:
        return self._tensor.buffer

    @property
    def shape(self) -> Sizes:
        """Cells along each dimension that has not been indexed by a number."""
        return tuple(-(-self.element_shape[dim] // self._steps[dim]) for dim in self._open)

    @property
    def element_shape(self) -> Sizes:
        """Elements along each dimension of the tensor."""
        return tuple(last - first for first, last in self._spans)

    @property
    def index_step_elements(self) -> Sizes:
        """Elements from one cell to the next, along each dimension of `shape`."""
        return tuple(self._steps[dim] for dim in self._open)

    @property
    def is_remainder(self) -> bool:
        """Whether a cell is cut by the end of the tensor."""
        return any(size % step for size, step in zip(self.element_shape, self._steps))

    @property
    def is_data_representable(self) -> bool:
        """True: cells next to one another are one view."""
        return True

    @property
    def data(self) -> NkiTensor:
        """The elements of all cells as one operand."""
        return self._tensor[tuple(slice(first, last) for first, last in self._spans)]

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if len(items) > len(self._open):
            raise self._fault(f"{len(items)} indices for {len(self._open)} dimensions")
        spans, still_open = list(self._spans), []
        for place, dim in enumerate(self._open):
            item = items[place] if place < len(items) else slice(None)
            if isinstance(item, slice):
                still_open.append(dim)
            first, last = self._cells(item, self.shape[place])
            begin, end = spans[dim]
            step = self._steps[dim]
            spans[dim] = (begin + first * step, min(begin + last * step, end))
        return self._with(tuple(spans), tuple(still_open))

    def _cells(self, item: Any, count: int) -> tuple[int, int]:
        """First and last + 1 of the cells that an index names."""
        if isinstance(item, slice):
            first, last, step = item.indices(count)
            if step != 1 or first >= last:
                raise self._fault(f"a slice {item.start}:{item.stop}:{item.step} of {count} cells")
            return first, last
        if not isinstance(item, int):
            raise self._fault(f"index {item!r} is neither a number nor a slice")
        number = item + count if item < 0 else int(item)
        if not 0 <= number < count:
            raise self._fault(f"index {item} of {count} cells")
        return number, number + 1

    def _with(self, spans: tuple, open_: Sizes) -> NkiGrid:
        return type(self)(self._tensor, self._tile_shape, spans, open_, self._block_shape)

    def _fault(self, message: str) -> InputError:
        return InputError(f"{type(self).__name__}: {message}", source=builder().where())

    def __repr__(self) -> str:
        cells = f"{list(self.shape)} cells of {list(self._steps)}"
        return f"<{type(self).__name__} of {self._tensor.name}: {cells} {dtypes.short(self.dtype)}>"


class NkiTileGrid(NkiGrid):
    """A tensor in tiles."""


class NkiBlockGrid(NkiGrid):
    """A tensor in blocks of tiles."""

    @property
    def block_shape(self) -> Sizes:
        """Tiles of a block, where it is whole."""
        return self._block_shape


def tiles(source: NkiTensor | NkiGrid, *, tile_shape: Sizes | None = None) -> NkiTileGrid:
    """A tensor in tiles, or the tiles of a grid's cells; `tile_shape` may be left out of a grid's."""
    tensor, size, spans = _region("tiles", source, tile_shape)
    return NkiTileGrid(tensor, size, spans, tuple(range(len(size))))


def blocks(source: NkiTensor | NkiGrid, *, tile_shape: Sizes | None = None, block_shape: Sizes) -> NkiBlockGrid:
    """A tensor in blocks, each of `block_shape` tiles."""
    tensor, size, spans = _region("blocks", source, tile_shape)
    counts = _sizes("blocks", "block_shape", block_shape)
    if len(counts) != len(size):
        raise _wrong("blocks", f"block_shape: {len(counts)} dimensions, tile_shape has {len(size)}")
    return NkiBlockGrid(tensor, size, spans, tuple(range(len(size))), counts)


def alloc_tiles(
    *, tile_shape: Sizes, element_shape: Sizes, buffer: Any, dtype: Any, address: tuple | None = None, name: str = ""
) -> NkiTileGrid:
    """A new tensor with undefined contents, in tiles."""
    return tiles(
        _allocated("alloc_tiles", tile_shape, element_shape, buffer, dtype, address, name), tile_shape=tile_shape
    )


def alloc_blocks(
    *,
    tile_shape: Sizes,
    block_shape: Sizes,
    element_shape: Sizes,
    buffer: Any,
    dtype: Any,
    address: tuple | None = None,
    name: str = "",
) -> NkiBlockGrid:
    """A new tensor with undefined contents, in blocks."""
    tensor = _allocated("alloc_blocks", tile_shape, element_shape, buffer, dtype, address, name)
    return blocks(tensor, tile_shape=tile_shape, block_shape=block_shape)


def _allocated(
    call: str, tile_shape: Any, element_shape: Any, buffer: Any, dtype: Any, address: Any, name: str
) -> NkiTensor:
    from sim.nki import language

    size, whole = _sizes(call, "tile_shape", tile_shape), _sizes(call, "element_shape", element_shape)
    if language.is_on_chip(buffer) and (len(whole) != 2 or whole[0] > size[0]):
        raise UnsupportedError(
            f"nl.{call}: element_shape: {list(whole)} in {buffer} is more than one row of tiles of {list(size)}, whose "
            "place on chip is documented nowhere",
            source=builder().where(),
            remedy="allocate each row of tiles by itself",
        )
    return language.ndarray(whole, dtype, buffer, name, address)


def _region(call: str, source: Any, tile_shape: Any) -> tuple[NkiTensor, Sizes, tuple]:
    """The tensor, the tiles' shape, and the span of each dimension."""
    if isinstance(source, NkiGrid):
        size = source.tile_shape if tile_shape is None else _sizes(call, "tile_shape", tile_shape)
        return source._tensor, size, source._spans
    if not isinstance(source, NkiTensor):
        raise _wrong(call, f"source: {source!r} is neither a tensor nor a grid")
    size = _sizes(call, "tile_shape", tile_shape)
    if len(size) > source.ndim:
        raise _wrong(call, f"tile_shape: {len(size)} dimensions, source has {source.ndim}")
    if len(size) < source.ndim:
        raise UnsupportedError(
            f"nl.{call}: source: {source.ndim} dimensions, tile_shape has {len(size)}: what the data of a slab looks "
            "like is documented nowhere",
            source=builder().where(),
            remedy="index the leading dimensions of the tensor first",
        )
    return source, size, tuple((0, extent) for extent in source.shape)


def _sizes(call: str, argument: str, value: Any) -> Sizes:
    if not isinstance(value, tuple) or any(type(size) is not int for size in value):
        raise _wrong(call, f"{argument}: {value!r}, must be a tuple of int")
    if any(size < 1 for size in value) or (argument == "tile_shape" and len(value) < 2):
        raise _wrong(call, f"{argument}: {value}, must have at least 2 dimensions, none below 1")
    return value


def _wrong(call: str, message: str) -> InputError:
    return InputError(f"nl.{call}: {message}", source=builder().where())
