"""Tensors with block dimensions: dimensions left of the partition, each block a tile of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import EllipsisType
from typing import Any

import numpy as np

from sim.errors import InputError, UnsupportedError
from sim.nki.legacy.index import Affine, Grid, LoopIndex
from sim.nki.legacy.indexing import spread
from sim.nki.legacy.tile import Tile
from sim.nki.session import builder


class ParDim(int):
    """`nl.par_dim(128)`: the dimension that lies on partitions; those before it are block dimensions."""


def block_dims(shape: tuple[int, ...]) -> int:
    """How many dimensions lie left of the partition; 0 without a `par_dim`."""
    return next((dim for dim, size in enumerate(shape) if isinstance(size, ParDim)), 0)


class BlockTensor:
    """One tile for each block index, made when it is first touched.

    Legacy kernels declare tensors of gigabytes this way and use one block at a time.
    """

    __slots__ = ("_blocks", "_make", "blocks", "dtype", "name", "tile_shape")

    def __init__(
        self, shape: tuple[int, ...], blocks: int, dtype: Any, name: str, make: Callable[[tuple[int, ...]], Tile]
    ):
        self.blocks = shape[:blocks]
        self.tile_shape = shape[blocks:]
        self.dtype = dtype
        self.name = name
        self._make = make
        """block index -> its tile"""
        self._blocks: dict[tuple[int, ...], Tile] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        return self.blocks + self.tile_shape

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def block(self, place: tuple[int, ...]) -> Tile:
        """The tile at a block index."""
        tile = self._blocks.get(place)
        if tile is None:
            for at, size in zip(place, self.blocks):
                if not 0 <= at < size:
                    raise self._fault(f"block index {list(place)} is outside {list(self.blocks)}")
            tile = self._blocks[place] = self._make(place)
        return tile

    def _fault(self, message: str) -> InputError:
        return InputError(f"`{self.name or 'tensor'}` {list(self.shape)}: {message}", source=builder().where())

    def __getitem__(self, key: Any) -> Tile | BlockTensor:
        if isinstance(key, Grid):
            key = key.axes
        items = key if isinstance(key, tuple) else (key,)
        depth = len(self.blocks)
        made = self._made(items[:depth])
        if made is not None:
            return made[items[depth:]] if len(items) > depth else made.whole()
        if EllipsisType in map(type, items):
            items = tuple(spread(items, self.ndim))
        place = tuple([self._number(item, size) for item, size in zip(items, self.blocks)])
        place += (None,) * (depth - len(place))
        rest = items[depth:]
        if None in place:
            return self._part(place, rest)
        return self.block(place)[rest] if rest else self.block(place).whole()

    def _made(self, place: tuple) -> Tile | None:
        """The tile at a block index of numbers, if it has been made."""
        try:
            return self._blocks.get(place)
        except TypeError:
            return None

    def whole(self) -> Tile:
        """The only block, as a view.

        raises: UnsupportedError when there are several
        """
        if any(size != 1 for size in self.blocks):
            raise self._several()
        return self.block((0,) * len(self.blocks)).whole()

    def __setitem__(self, key: Any, value: Any) -> None:
        from sim.nki.legacy.assignment import assign

        references = sys.getrefcount(value)
        target = self[key]
        assign(target.whole() if isinstance(target, BlockTensor) else target, value, references)

    def _part(self, place: tuple[int | None, ...], rest: tuple) -> BlockTensor:
        """The tensor of those blocks that have the given numbers; None stands for every number."""
        if any(item != slice(None) for item in rest):
            raise self._several()
        free = [dim for dim, number in enumerate(place) if number is None]

        def make(index: tuple[int, ...]) -> Tile:
            whole = list(place)
            for dim, number in zip(free, index):
                whole[dim] = number
            return self.block(tuple(whole))

        sizes = tuple([self.blocks[dim] for dim in free])
        return BlockTensor(sizes + self.tile_shape, len(sizes), self.dtype, self.name, make)

    def _number(self, item: Any, size: int) -> int | None:
        """The number that an index gives a block dimension, or None for the whole dimension."""
        if type(item) is LoopIndex and item >= 0:
            return item
        if isinstance(item, (int, np.integer)):
            return int(item) if item >= 0 else int(item) + size
        if isinstance(item, Affine) and not any(item.steps):
            return item.const
        if isinstance(item, slice):
            if size == 1:
                return 0
            if item == slice(None):
                return None
        raise self._several()

    def _several(self) -> UnsupportedError:
        return UnsupportedError(
            f"`{self.name or 'tensor'}` {list(self.shape)}: several blocks in one operand",
            source=builder().where(),
            remedy="index block dimensions with one number each",
        )

    def __repr__(self) -> str:
        return f"<{self.name or 'tensor'}: {list(self.blocks)} blocks of {list(self.tile_shape)}>"
