"""Storages, and the strided views that instructions read and write.

A storage is one allocation in HBM, SBUF or PSUM: bytes, row-major. On chip its first dimension lies on partitions and
`pitch` is the bytes of one partition, so one rule addresses every memory: byte = offset + sum(index * stride).

A view is (storage, layout, offset). The layout holds all that does not depend on the place, is interned, and remembers
the views already taken from it; a kernel's loop pays for its shapes once.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from sim.errors import InputError
from sim.trace import Memory

BUFFERS = {memory: memory.name.lower() for memory in Memory}
"""The front end's name of each memory; HBM has two more, private_hbm and shared_hbm."""

PARTITIONS = 128
"""Partitions of SBUF and PSUM on every generation (trainium_inferentia2_arch)."""


class Layout:
    """Shape, strides, dtype and memory of a view; equal layouts are one object, so `is` compares them.

    shape, strides : elements, bytes; on chip the first dimension is the partition
    pitch          : bytes of one partition; 0 in HBM
    """

    __slots__ = (
        "by_form",
        "depth",
        "derived",
        "dtype",
        "elements",
        "index",
        "itemsize",
        "memory",
        "nbytes",
        "partitions",
        "period",
        "pitch",
        "shape",
        "span",
        "strides",
        "width",
    )

    _interned: dict[tuple, Layout] = {}
    _dense: dict[tuple, Layout] = {}
    by_index: list[Layout] = []
    """Every layout, in the order of its creation; `index` is the place in here."""

    def __new__(
        cls, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, memory: Memory, pitch: int
    ) -> Layout:
        key = (shape, strides, dtype, memory, pitch)
        known = cls._interned.get(key)
        if known is not None:
            return known
        self = super().__new__(cls)
        self.shape, self.strides, self.dtype, self.memory, self.pitch = key
        self.itemsize = dtype.itemsize
        on_chip = pitch > 0
        self.partitions = shape[0] if on_chip else 0
        free = slice(1, None) if on_chip else slice(None)
        self.elements = prod(shape[free])
        self.nbytes = prod(shape) * self.itemsize
        """Bytes that the elements take, whatever lies between them."""
        self.span, self.period, self.width = _footprint(shape[free], strides[free], self.itemsize)
        self.depth = len(merge_dims(shape[free], strides[free]))
        """Free dimensions that no other can be merged with."""
        self.derived: dict[Any, tuple[Layout, int]] = {}
        self.by_form: dict[tuple, tuple[Layout, tuple]] = {}
        """Views by index tensors (`sim.nki.legacy.indexing`)."""
        self.index = len(cls.by_index)
        cls.by_index.append(self)
        cls._interned[key] = self
        return self

    @classmethod
    def dense(cls, shape: tuple[int, ...], dtype: Any, memory: Memory) -> Layout:
        """Row-major, one allocation wide."""
        known = cls._dense.get((shape, dtype, memory))
        if known is not None:
            return known
        strides, step = [], dtype.itemsize
        for size in reversed(shape):
            strides.append(step)
            step *= size
        pitch = strides[-1] if memory is not Memory.HBM else 0
        made = cls._dense[shape, dtype, memory] = cls(tuple(shape), tuple(reversed(strides)), dtype, memory, pitch)
        return made

    @property
    def free_shape(self) -> tuple[int, ...]:
        return self.shape[1:] if self.pitch else self.shape

    @property
    def innermost_stride(self) -> int:
        """Bytes between neighbours along the innermost dimension that has more than one element."""
        for size, stride in zip(reversed(self.free_shape), reversed(self.strides)):
            if size > 1:
                return abs(stride)
        return self.itemsize

    @property
    def contiguous_bytes(self) -> int:
        """Bytes of the longest run that needs no new descriptor (in one partition when on chip)."""
        run, size_of = self.itemsize, self.itemsize
        for size, stride in zip(reversed(self.free_shape), reversed(self.strides)):
            if size > 1 and stride != size_of:
                break
            run *= size
            size_of = run
        return run

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)} in {self.memory.name}"


def _footprint(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int, int]:
    """Which bytes a pattern touches: [0, span), and of those only the first `width` of every `period`.

    The largest stride that holds the pattern inside it is the period: two views of equal period whose windows are
    apart do not overlap, although their spans interleave (columns of a matrix, every second row of a tile).
    """
    span = itemsize + sum((size - 1) * abs(stride) for size, stride in zip(shape, strides) if size > 1)
    outer = sorted(((abs(stride), size) for size, stride in zip(shape, strides) if size > 1 and stride), reverse=True)
    if not outer:
        return span, span, span
    period, count = outer[0]
    width = span - (count - 1) * period
    return (span, period, width) if width < period else (span, span, span)


class Storage:
    """One allocation.

    bytes  : uint8[nbytes] when values are computed, else None
    written: bool[elements] of what has been written, None once all of it has (or without values)
    """

    __slots__ = (
        "address",
        "buffer",
        "bytes",
        "index",
        "layout",
        "memory",
        "name",
        "nbytes",
        "region",
        "role",
        "source",
        "unit",
        "written",
    )

    def __init__(self, index: int, name: str, layout: Layout, role: str, source: int, region: int, values: bool):
        self.index = index
        self.name = name
        self.layout = layout
        self.memory = layout.memory
        self.buffer = BUFFERS[layout.memory]
        self.nbytes = layout.nbytes
        self.role = role
        """IN, OUT or INTERNAL."""
        self.source = source
        """Code of `path:line`."""
        self.region = region
        self.address: tuple[int, int] | None = None
        """(first partition, byte offset) when the kernel chose it itself."""
        self.unit = layout.itemsize
        self.bytes = np.zeros(self.nbytes, np.uint8) if values else None
        self.written = np.zeros(self.nbytes // self.unit, bool) if values else None

    def fill(self, array: np.ndarray) -> None:
        """Give it contents that are there before the kernel starts; array has its shape and dtype."""
        if self.bytes is not None:
            self.bytes[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.written = None

    @property
    def pitch(self) -> int:
        return self.layout.pitch

    @property
    def partitions(self) -> int:
        return self.layout.partitions


class View:
    """A strided window of a storage: what an instruction's operand is. Front ends subclass it."""

    __slots__ = ("layout", "offset", "storage")

    def __init__(self, storage: Storage, layout: Layout, offset: int):
        self.storage = storage
        self.layout = layout
        self.offset = offset

    def array(self) -> np.ndarray:
        """The elements as an ndarray that shares the storage's memory."""
        layout = self.layout
        return np.ndarray(layout.shape, storage_dtype(layout.dtype), self.storage.bytes, self.offset, layout.strides)

    def written_array(self) -> np.ndarray | None:
        """Which elements have been written, None when all of the storage has."""
        mask, unit, layout = self.storage.written, self.storage.unit, self.layout
        if mask is None:
            return None
        if layout.itemsize == unit:
            return np.ndarray(layout.shape, bool, mask, self.offset // unit, tuple(s // unit for s in layout.strides))
        return self._bytes_of(np.repeat(mask, unit)).all(axis=-1)

    def _bytes_of(self, mask: np.ndarray) -> np.ndarray:
        """One flag a byte -> the flags of this view's elements, shape [*shape, itemsize]."""
        layout = self.layout
        return np.ndarray((*layout.shape, layout.itemsize), bool, mask, self.offset, (*layout.strides, 1))

    def mark_written(self) -> None:
        """Remember that every element of this view has been written."""
        storage = self.storage
        if storage.written is None:
            return
        if self.layout is storage.layout:
            storage.written = None
            return
        if self.layout.itemsize == storage.unit:
            self.written_array()[...] = True
        else:
            wide = np.repeat(storage.written, storage.unit)
            self._bytes_of(wide)[...] = True
            storage.written[:] = wide.reshape(-1, storage.unit).all(axis=1)
        if storage.written.all():
            storage.written = None

    @property
    def place(self) -> tuple[int, int]:
        """(partition, byte offset in it); in HBM (0, byte offset)."""
        return divmod(self.offset, self.storage.pitch) if self.storage.pitch else (0, self.offset)


def box(view: View) -> tuple[int, int, int, int]:
    """(first partition, last + 1, first byte, last + 1) that a view spans."""
    partition, byte = view.place
    return partition, partition + max(1, view.layout.partitions), byte, byte + view.layout.span


def overlap(one: View, other: View) -> bool:
    """Whether the spans of two views of one storage meet."""
    a, b = box(one), box(other)
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def contains(outer: View, inner: View) -> bool:
    """Whether the span of one view lies within the span of another view of the same storage."""
    a, b = box(outer), box(inner)
    return a[0] <= b[0] and b[1] <= a[1] and a[2] <= b[2] and b[3] <= a[3]


def storage_dtype(dtype: Any) -> np.dtype:
    """The NumPy dtype that holds elements of this dtype: packed formats are held as plain integers."""
    return getattr(dtype, "storage", dtype)


def slice_layout(layout: Layout, key: tuple) -> tuple[Layout, int]:
    """The layout and byte offset of `view[key]`; key holds ints, (start, stop, step) triples, None or Ellipsis.

    On chip an int on the partition dimension keeps it with size 1; elsewhere an int drops the dimension.
    raises: InputError for an index outside the shape, or more indices than dimensions
    """
    known = layout.derived.get(key)
    if known is not None:
        return known
    shape, strides, offset, dim = [], [], 0, 0
    for item in _spread(key, layout):
        if item is None:
            shape.append(1)
            strides.append(0)
            continue
        size, stride = layout.shape[dim], layout.strides[dim]
        if isinstance(item, tuple):
            start, count, step = _bounds(item, size, dim)
            offset += start * stride
            shape.append(count)
            strides.append(stride * step)
        else:
            if not -size <= item < size:
                raise InputError(f"index {item} is outside dimension {dim} of size {size}")
            offset += (item % size) * stride
            if layout.pitch and dim == 0:
                shape.append(1)
                strides.append(stride)
        dim += 1
    if not shape:
        shape, strides = [1], [layout.itemsize]
    if layout.pitch and len(shape) == 1:
        shape.append(1)
        strides.append(layout.itemsize)
    result = Layout(tuple(shape), tuple(strides), layout.dtype, layout.memory, layout.pitch), offset
    layout.derived[key] = result
    return result


def _spread(key: tuple, layout: Layout) -> list:
    """The key with its Ellipsis and missing trailing dimensions written out."""
    items, ndim = list(key), len(layout.shape)
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > ndim:
        raise InputError(f"{used} indices for a tensor of {ndim} dimensions, shape {list(layout.shape)}")
    whole = [(None, None, None)] * (ndim - used)
    at = next((i for i, item in enumerate(items) if item is Ellipsis), None)
    return items[:at] + whole + items[at + 1 :] if at is not None else items + whole


def _bounds(item: tuple, size: int, dim: int) -> tuple[int, int, int]:
    start, stop, step = slice(*item).indices(size)
    wanted = item[1]
    if wanted is not None and wanted > size:
        raise InputError(f"slice {item[0] or 0}:{wanted} runs past dimension {dim} of size {size}")
    return start, len(range(start, stop, step)), step


def merge_dims(shape: Iterable[int], strides: Iterable[int]) -> list[tuple[int, int]]:
    """(size, stride) of the same elements in the same order with as few dimensions as possible."""
    merged: list[tuple[int, int]] = []
    for size, stride in zip(shape, strides):
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged


def reshape_layout(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The same elements in the same order under another shape.

    raises: InputError when the element counts differ, or the strides allow no such view
    """
    if prod(shape) != prod(layout.shape):
        raise InputError(
            f"cannot reshape {list(layout.shape)} to {list(shape)}: {prod(layout.shape)} elements become {prod(shape)}"
        )
    blocks = merge_dims(layout.shape, layout.strides)
    strides: list[int] = []
    room, stride = (1, 0)
    for size in reversed(shape):
        if size == 1:
            strides.append(stride * room if room > 1 else layout.itemsize)
            continue
        if room == 1:
            room, stride = blocks.pop()
        if room % size:
            raise InputError(
                f"cannot reshape {list(layout.shape)} with byte strides {list(layout.strides)} "
                f"to {list(shape)} without a copy"
            )
        strides.append(stride)
        room, stride = room // size, stride * size
    return Layout(tuple(shape), tuple(reversed(strides)), layout.dtype, layout.memory, layout.pitch)
