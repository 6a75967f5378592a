"""Tensors with block dimensions: dimensions left of the partition, each block a tile of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import EllipsisType
from typing import Any

import numpy as np

from sim.errors import InputError, UnsupportedError
from sim.nki.legacy.index import Affine, Grid
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

    def __getitem__(self, key: Any) -> Tile:
        if isinstance(key, Grid):
            key = key.axes
        items = key if isinstance(key, tuple) else (key,)
        depth = len(self.blocks)
        if len(items) < depth or EllipsisType in map(type, items):
            items = tuple(spread(items, self.ndim))
        place = tuple([self._number(item, size) for item, size in zip(items, self.blocks)])
        rest = items[depth:]
        return self.block(place)[rest] if rest else self.block(place).whole()

    def __setitem__(self, key: Any, value: Any) -> None:
        from sim.nki.legacy.assignment import assign

        references = sys.getrefcount(value)
        assign(self[key], value, references)

    def _number(self, item: Any, size: int) -> int:
        if isinstance(item, (int, np.integer)):
            return int(item) if item >= 0 else int(item) + size
        if isinstance(item, Affine) and not any(item.steps):
            return item.const
        if isinstance(item, slice) and size == 1:
            return 0
        raise UnsupportedError(
            f"`{self.name or 'tensor'}` {list(self.shape)}: several blocks in one operand",
            source=builder().where(),
            remedy="index block dimensions with one number each",
        )

    def __repr__(self) -> str:
        return f"<{self.name or 'tensor'}: {list(self.blocks)} blocks of {list(self.tile_shape)}>"
