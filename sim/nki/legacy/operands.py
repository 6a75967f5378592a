"""What a legacy call does around an instruction: check and cut its operands by the mask, make the tile it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from sim import dtypes
from sim.errors import InputError, UnsupportedError
from sim.memory import PARTITIONS
from sim.nki.legacy.blocks import BlockTensor
from sim.nki.legacy.index import Mask, Range
from sim.nki.legacy.tile import Tile
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor
from sim.trace import Memory

Ranges = tuple[Range, ...]
SBUF, PSUM = Memory.SBUF, Memory.PSUM


def operand(value: Any, call: str) -> Any:
    """A tile as an instruction takes it; numbers of NumPy as Python's.

    raises: InputError for a tile whose index reaches outside its tensor is raised later, when the mask is known
    """
    if isinstance(value, Tile) or value is None:
        return value
    if isinstance(value, BlockTensor):
        return value.whole()
    if isinstance(value, NkiTensor):
        return Tile.of(value)
    return value.item() if isinstance(value, np.generic) else value


def tile(value: Any, call: str, argument: str) -> Tile:
    """raises: InputError for what is no tile"""
    found = operand(value, call)
    if not isinstance(found, Tile):
        raise InputError(
            f"{call}: {argument}: {value!r} of type {type(value).__name__}, must be a tile", source=builder().where()
        )
    return found


def within(call: str, what: str, size: int) -> None:
    """raises: InputError for more partitions than there are"""
    if size > PARTITIONS:
        raise InputError(f"{call}: {what} {size} > {PARTITIONS}", source=builder().where())


class OneLine:
    """Within, every step of a call has the source line of the first, which is looked for once.

    Programs that take turns look each time: one of them may go on in the middle of another's call.
    """

    __slots__ = ("_outer", "_program")

    def __enter__(self) -> None:
        program = self._program = builder()
        self._outer = program.line
        if program.pause is None:
            program.line = program.here()

    def __exit__(self, *exc: Any) -> None:
        self._program.line = self._outer


class Result:
    """The tile that a call returns; what a mask excludes of it stays unwritten."""

    __slots__ = ("_storage", "_tile")

    def __init__(
        self, shape: tuple[int, ...], dtype: Any, memory: Memory = SBUF, address: tuple[int, int] | None = None
    ):
        program = builder()
        sizes = tuple(shape) if len(shape) > 1 else (*shape, 1)
        self._storage = program.allocate(sizes, dtypes.parse(dtype), memory, address=address)
        self._tile = Tile(self._storage, self._storage.layout, 0)

    def part(self, ranges: Ranges | None = None) -> Tile:
        """The destination of the instruction."""
        whole = Tile(self._storage, self._storage.layout, 0)
        return whole if ranges is None else whole.box(ranges)

    def returned(self, ranges: Ranges | None = None) -> Tile:
        self._tile.kept = ranges
        return self._tile


class Cut:
    """Operands cut to what a mask leaves of a frame.

    ranges   : (first, last + 1) on each axis of the frame; None for all of it
    empty    : nothing is left, no instruction is made
    """

    __slots__ = ("empty", "frame", "operands", "ranges")

    def __init__(self, call: str, mask: Any, frame: tuple[int, ...], *operands: Any):
        self.frame = frame
        self.ranges = _ranges(call, mask, frame)
        self.empty = self.ranges is not None and any(first >= last for first, last in self.ranges)
        self.operands = operands
        if self.empty:
            return
        if self.ranges is not None:
            self.operands = tuple([cut(view, self.ranges) if isinstance(view, Tile) else view for view in operands])
        for view in self.operands:
            if isinstance(view, Tile) and (view.bounds or view.reduction is not None):
                view.check(call)


def _ranges(call: str, mask: Any, frame: tuple[int, ...]) -> Ranges | None:
    if mask is None:
        return None
    if not isinstance(mask, Mask):
        return None if mask else tuple((0, 0) for _ in frame)
    if mask.keeps_all():
        return None
    ranges = mask.box(frame)
    if ranges is None:
        raise UnsupportedError(
            f"{call}: a mask that leaves no rectangle of {list(frame)}",
            source=builder().where(),
            remedy="split the call, or use nki.isa.affine_select",
        )
    return None if all(kept == (0, size) for kept, size in zip(ranges, frame)) else ranges


def cut(view: Tile, ranges: Ranges) -> Tile:
    """An operand's part under the ranges of the frame; an operand of fewer dimensions shares the partition axis."""
    if view.ndim == len(ranges):
        return view.box(ranges)
    if view.ndim == 2 and view.shape[1] == 1:
        return view.box((ranges[0], (0, 1)))
    if view.ndim < len(ranges):
        return view.box(ranges[len(ranges) - view.ndim :])
    raise UnsupportedError(f"`{view.name}` {list(view.shape)}: a mask of {len(ranges)} axes", source=builder().where())


def elementwise(
    call: str,
    issue: Callable[..., Any],
    data: Any,
    *vectors: Any,
    mask: Any = None,
    dtype: Any = None,
    memory: Memory = SBUF,
) -> Tile:
    """A call whose result has the shape of `data`.

    issue   : (dst, data, *vectors) makes the instruction
    vectors : more operands: tiles, numbers or None
    """
    if type(data) is not Tile:
        data = tile(data, call, "data")
    layout = data.layout
    within(call, "data: partition", layout.shape[0])
    with OneLine():
        return _elementwise(call, issue, data, vectors, mask, Result(layout.shape, dtype or layout.dtype, memory))


def _elementwise(call: str, issue: Callable[..., Any], data: Tile, vectors: tuple, mask: Any, result: Result) -> Tile:
    if mask is None and not vectors and not data.bounds and data.reduction is None:
        issue(result.part(), data)
        return result.returned()
    part = Cut(call, mask, data.shape, data, *[operand(vector, call) for vector in vectors])
    if not part.empty:
        issue(result.part(part.ranges), *part.operands)
    return result.returned(part.ranges)


def column(view: Any) -> Any:
    """A [P, 1] operand as the fp32 tile that the engines read it from; numbers as they are."""
    if not isinstance(view, Tile):
        return view
    flat = view if view.ndim == 2 else view.reshape((view.shape[0], view.layout.elements))
    if flat.dtype == np.float32:
        return flat
    from sim.nki import isa

    wide = Result(flat.shape, np.float32).part()
    isa.tensor_copy(wide, flat)
    return wide


def in_sbuf(view: Tile) -> Tile:
    """The same values in SBUF, for engines that cannot read PSUM."""
    if view.layout.memory is not Memory.PSUM:
        return view
    from sim.nki import isa

    copied = Result(view.shape, view.dtype).part()
    isa.tensor_copy(copied, view)
    return copied


def promoted(*values: Any) -> Any:
    """The dtype of an arithmetic result.

    source: v2.26.1 nki.api.shared "NKI Type Promotion"; an untyped number counts as the widest of its kind
    """
    kinds = [value.dtype if isinstance(value, (NkiTensor, np.generic)) else _weak(value) for value in values]
    kind = dtypes.parse(kinds[0])
    for other in kinds[1:]:
        kind = _wider(kind, dtypes.parse(other))
    return kind


def _weak(value: Any) -> Any:
    if isinstance(value, bool):
        return dtypes.uint8
    return dtypes.int32 if isinstance(value, (int, np.integer)) else dtypes.float32


_RANGES = {kind: np.iinfo(kind) for kind in (dtypes.int8, dtypes.int16, dtypes.int32)}
_RANGES |= {kind: np.iinfo(kind) for kind in (dtypes.uint8, dtypes.uint16, dtypes.uint32)}


def _wider(one: Any, other: Any) -> Any:
    if one == other:
        return one
    floats = [kind for kind in (one, other) if dtypes.is_float(kind)]
    if len(floats) == 1:
        return floats[0]
    return _wider_float(one, other) if floats else _wider_integer(one, other)


def _wider_float(one: Any, other: Any) -> Any:
    """The wider of two floats; bf16 holds two different fp8, fp32 holds fp16 with bf16."""
    if one.itemsize == other.itemsize:
        widened = {1: dtypes.bfloat16, 2: dtypes.float32, 4: dtypes.float32}
        return widened[one.itemsize]
    return one if one.itemsize > other.itemsize else other


def _wider_integer(one: Any, other: Any) -> Any:
    """The smallest integer that holds both ranges; fp32 where none does."""
    names = [dtypes.uint8 if kind == dtypes.bool_ else kind for kind in (one, other)]
    low = min(_RANGES[kind].min for kind in names)
    high = max(_RANGES[kind].max for kind in names)
    order = (dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32, dtypes.uint32)
    return next((k for k in order if _RANGES[k].min <= low and high <= _RANGES[k].max), dtypes.float32)


class Limits:
    """`nl.fp32.min`, `nl.bfp16.min`: the most negative finite number of a format."""

    def __init__(self, dtype: Any):
        self.min = float(ml_dtypes.finfo(dtype).min)
