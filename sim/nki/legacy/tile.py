"""Tensors of the legacy API: index-tensor indexing, masks, block dimensions and operators.

A `Tile` is a view as in the current API. An index outside the tensor is legal for as long as a mask excludes it, so
bounds are checked when an instruction uses the view, not when it is taken.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from sim.errors import InputError, UnsupportedError
from sim.memory import Layout, Storage
from sim.nki.legacy.index import Affine, Mask
from sim.nki.session import builder
from sim.nki.tensor import DynamicSlice, NkiTensor
from sim.program import ProgramBuilder
from sim.trace import Memory


class ParDim(int):
    """`nl.par_dim(128)`: the dimension that lies on partitions; those before it are block dimensions."""


class Tile(NkiTensor):
    """A tensor, or a view of one block of it.

    bounds : [(index expression, size)] of dimensions that index tensors address; may reach outside until masked
    made_by: number of the instruction that made this whole tile, which an assignment may still redirect
    """

    __slots__ = ("bounds", "made_by")

    def __init__(self, storage: Storage, layout: Layout, offset: int, indirection: Any = None):
        super().__init__(storage, layout, offset, indirection)
        self.bounds: list[tuple[Affine, int]] = []
        self.made_by: int | None = None

    @classmethod
    def of(cls, view: NkiTensor) -> Tile:
        """The same view with legacy behaviour."""
        return view if isinstance(view, cls) else cls(view.storage, view.layout, view.offset, view.indirection)

    # -- indexing ----------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tile:
        items = key if isinstance(key, tuple) else (key,)
        if any(isinstance(item, (Affine, np.ndarray, NkiTensor)) for item in items):
            return _index(self, items)
        return Tile.of(super().__getitem__(tuple(_plain(item) for item in items)))

    def __setitem__(self, key: Any, value: Any) -> None:
        from sim.nki.legacy import assignment

        assignment.assign(self[key], value)

    def box(self, ranges: tuple[tuple[int, int], ...]) -> Tile:
        """The part of the view that a mask's box leaves; axes of size 1 stay whole."""
        layout, offset, shape = self.layout, self.offset, []
        for (first, last), size, stride in zip(ranges, layout.shape, layout.strides):
            kept = (0, size) if size == 1 else (first, last)
            offset += kept[0] * stride
            shape.append(kept[1] - kept[0])
        part = Tile(
            self.storage, Layout(tuple(shape), layout.strides, layout.dtype, layout.memory, layout.pitch), offset
        )
        part.bounds = [(_clip(expression, ranges), size) for expression, size in self.bounds]
        return part

    def check_bounds(self, call: str) -> None:
        """raises: InputError when an index reaches outside its dimension."""
        for expression, size in self.bounds:
            low, high = expression.low_high()
            if low < 0 or high >= size:
                raise InputError(
                    f"{call}: index {low}…{high} of `{self.name}` is outside a dimension of size {size}",
                    source=builder().where(),
                    remedy="mask= the elements outside",
                )

    # -- views that legacy code names differently --------------------------------------------------

    def reshape(self, *shape: Any) -> Tile:
        return Tile.of(super().reshape(*shape))

    def broadcast_to(self, *shape: Any) -> Tile:
        """Repeat dimensions of size 1, partitions too (by a multiplication with ones on the Tensor Engine)."""
        from sim.nki.legacy import language

        wanted = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)
        return language.broadcast_to(self, shape=wanted)

    def expand_dims(self, axis: int) -> Tile:
        return Tile.of(self.expand_dim(axis if axis >= 0 else axis + self.ndim + 1))

    def astype(self, dtype: Any) -> Tile:
        from sim.nki.legacy import language

        return language.copy(self, dtype=dtype)

    def view(self, dtype: Any) -> Tile:
        return Tile.of(super().view(dtype))

    @property
    def itemsize(self) -> int:
        return self.layout.itemsize


def _operator(name: str, swapped: bool = False) -> Any:
    def method(self: Tile, other: Any) -> Any:
        from sim.nki.legacy import language

        function = getattr(language, name)
        return function(other, self) if swapped else function(self, other)

    return method


for _symbol, _name in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power", "mod": "mod",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}.items():  # fmt: skip
    setattr(Tile, f"__{_symbol}__", _operator(_name))
    setattr(Tile, f"__r{_symbol}__", _operator(_name, swapped=True))
for _symbol, _name in {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}.items():  # fmt: skip
    setattr(Tile, f"__{_symbol}__", _operator(_name))
Tile.__hash__ = NkiTensor.__hash__


def _negated(self: Tile) -> Any:
    from sim.nki.legacy import language

    return language.negative(self)


def _added_in_place(self: Tile, other: Any) -> Any:
    from sim.nki.legacy import assignment

    return assignment.add_in_place(self, other)


Tile.__neg__ = _negated
Tile.__iadd__ = _added_in_place


def _plain(item: Any) -> Any:
    """ds and numpy ints as they are; an affine range object as an index means its whole extent."""
    return slice(item.start, item.stop, item.step) if isinstance(item, range) else item


def _clip(expression: Affine, ranges: tuple[tuple[int, int], ...]) -> Affine:
    more = len(ranges) - expression.ndim
    if more:
        expression = Affine((1,) * more + expression.shape, (0,) * more + expression.steps, expression.const)
    key = tuple(slice(0, 1) if size == 1 else slice(*kept) for size, kept in zip(expression.shape, ranges))
    return expression[key]


def _index(tile: Tile, items: tuple) -> Tile:
    """Index with index tensors: they broadcast together, as in NumPy; slices among them add dimensions of their own."""
    items = _spread(items, tile.ndim)
    arrays = [_as_affine(item, tile) for item in items if isinstance(item, (Affine, np.ndarray))]
    if any(isinstance(item, NkiTensor) for item in items) or None in arrays:
        raise UnsupportedError(
            f"`{tile.name}` indexed by values that are no affine expression of nl.arange", source=builder().where()
        )
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    first = next(d for d, item in enumerate(items) if isinstance(item, (Affine, np.ndarray)))
    lead: list[tuple[int, int]] = []
    tail: list[tuple[int, int]] = []
    strides, offset, bounds = [0] * len(shape), tile.offset, []
    pending = iter(arrays)
    for dim, item in enumerate(items):
        size, stride = tile.layout.shape[dim], tile.layout.strides[dim]
        if isinstance(item, (Affine, np.ndarray)):
            index = next(pending)
            offset += index.const * stride
            padded = (0,) * (len(shape) - index.ndim) + index.steps
            strides = [s + step * stride for s, step in zip(strides, padded)]
            bounds.append((index, size))
        elif isinstance(item, (slice, DynamicSlice)):
            item = slice(item.start, item.start + item.size) if isinstance(item, DynamicSlice) else item
            start, stop, step = item.indices(size)
            offset += start * stride
            (lead if dim < first else tail).append((len(range(start, stop, step)), stride * step))
        else:
            bounds.append((Affine((1,), (0,), int(item)), size))
            offset += int(item) * stride
    axes = [*lead, *zip(shape, strides), *tail]
    return _viewed(tile, axes, offset, bounds, len(lead), len(tail))


def _viewed(tile: Tile, axes: list, offset: int, bounds: list, lead: int, tail: int) -> Tile:
    layout = tile.layout
    sizes, strides = tuple(a for a, _ in axes), tuple(b for _, b in axes)
    if layout.pitch and len(sizes) == 1:
        sizes, strides, tail = (*sizes, 1), (*strides, layout.itemsize), tail + 1
    view = Tile(tile.storage, Layout(sizes, strides, layout.dtype, layout.memory, layout.pitch), offset)
    pad = (slice(None),)
    view.bounds = [
        (Affine((1,) * lead + e.shape + (1,) * tail, (0,) * lead + e.steps + (0,) * tail, e.const) if pad else e, size)
        for e, size in bounds
    ]
    return view


def _spread(items: tuple, ndim: int) -> list:
    out = list(items)
    if Ellipsis in [item for item in out if item is Ellipsis]:
        at = next(i for i, item in enumerate(out) if item is Ellipsis)
        out[at : at + 1] = [slice(None)] * (ndim - len(out) + 1)
    return out + [slice(None)] * (ndim - len(out))


def _as_affine(index: Any, tile: Tile) -> Affine | None:
    """A dense index array as an affine expression, None when it is none."""
    if isinstance(index, Affine):
        return index
    array = np.asarray(index)
    origin = array[(0,) * array.ndim]
    steps = tuple(
        int(np.take(array, 1, axis)[(0,) * (array.ndim - 1)] - origin) if size > 1 else 0
        for axis, size in enumerate(array.shape)
    )
    found = Affine(array.shape, steps, int(origin))
    return found if np.array_equal(found.dense(), array) else None


class BlockTensor:
    """A tensor with block dimensions: one tile for each block index, allocated when it is first touched.

    Legacy kernels declare tensors of gigabytes this way and use one block at a time.
    """

    __slots__ = ("_blocks", "blocks", "dtype", "memory", "name", "program", "region", "tile_shape", "zero")

    def __init__(self, shape: tuple[int, ...], blocks: int, dtype: Any, memory: Memory, name: str | None, zero: Any):
        self.blocks = shape[:blocks]
        self.tile_shape = shape[blocks:]
        self.dtype = dtype
        self.memory = memory
        self.name = name
        self.zero = zero
        """Fill value of every block, None for undefined contents."""
        self.program: ProgramBuilder = builder()
        self._blocks: dict[tuple[int, ...], Tile] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        return self.blocks + self.tile_shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def block(self, place: tuple[int, ...]) -> Tile:
        """The tile at a block index."""
        for at, size in zip(place, self.blocks):
            if not 0 <= at < size:
                raise InputError(
                    f"block index {at} of `{self.name or 'tensor'}` is outside {list(self.blocks)}",
                    source=self.program.where(),
                )
        tile = self._blocks.get(place)
        if tile is None:
            label = None if self.name is None else f"{self.name}{list(place)}"
            storage = self.program.allocate(self.tile_shape, self.dtype, self.memory, label)
            tile = self._blocks[place] = Tile(storage, storage.layout, 0)
            if self.zero is not None:
                from sim.nki import isa

                isa.memset(tile, self.zero)
        return tile

    def _split(self, key: Any) -> tuple[tuple[int, ...], tuple]:
        items = tuple(_spread(key if isinstance(key, tuple) else (key,), self.ndim))
        depth = len(self.blocks)
        place = tuple(_block_number(item, size) for item, size in zip(items, self.blocks))
        return place, items[depth:]

    def __getitem__(self, key: Any) -> Tile:
        place, rest = self._split(key)
        return self.block(place)[rest]

    def __setitem__(self, key: Any, value: Any) -> None:
        place, rest = self._split(key)
        self.block(place)[rest] = value


def _block_number(item: Any, size: int) -> int:
    if isinstance(item, (int, np.integer)):
        return int(item) % size if item < 0 else int(item)
    if isinstance(item, Affine) and prod(item.shape) == 1:
        return item.const
    if isinstance(item, slice) and size == 1:
        return 0
    raise UnsupportedError(
        "several blocks in one operand", source=builder().where(), remedy="index block dimensions with one number each"
    )


def masked(mask: Mask | None, call: str, *tiles: Any) -> tuple[Any, ...] | None:
    """The operands cut to what the mask leaves, None when it leaves nothing.

    raises: UnsupportedError for a mask that is no box
    """
    views = [tile for tile in tiles if isinstance(tile, Tile)]
    if mask is None:
        for view in views:
            view.check_bounds(call)
        return tiles
    shape = np.broadcast_shapes(*[view.shape for view in views])
    ranges = mask.box(shape)
    if ranges is None:
        raise UnsupportedError(f"{call}: a mask that is no rectangle", source=builder().where())
    if any(first >= last for first, last in ranges):
        return None
    cut = tuple(tile.box(ranges[len(ranges) - tile.ndim :]) if isinstance(tile, Tile) else tile for tile in tiles)
    for view in cut:
        if isinstance(view, Tile):
            view.check_bounds(call)
    return cut
