"""Calls that move data: loads and stores, and `neuronxcc.nki.isa` calls that write into a destination."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import dtypes
from sim.engines.dma import COPY
from sim.errors import InputError
from sim.memory import PARTITIONS
from sim.nki import isa
from sim.nki.isa import dge_mode as current_modes
from sim.nki.isa import engine as engines
from sim.nki.isa import oob_mode as bounds
from sim.nki.isa.issuing import issue_transfer
from sim.nki.legacy.enums import dge_mode as modes
from sim.nki.legacy.indexing import Rows
from sim.nki.legacy.operands import Cut, Result, elementwise, in_sbuf, operand, tile
from sim.nki.legacy.tile import Tile
from sim.nki.session import builder
from sim.trace import Memory

HBM = Memory.HBM
PLAIN = (current_modes.unknown.name, engines.unknown.name, None)
"""What `dma_copy` says to the engines when it is called without options."""
AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
"""The permutation of dma_transpose for each number of dimensions."""


class RowOutOfBounds(InputError):
    """An index tile names a row that its tensor does not have.

    numpy : the sentence that NumPy has for it, which the vendor's simulation raised
    """

    def __init__(self, message: str, source: str | None, numpy: str):
        super().__init__(message, source=source, remedy="oob_mode.skip ignores such rows")
        self.numpy = numpy


def _check_rows(call: str, view: Tile, oob_mode: Any) -> None:
    """raises: RowOutOfBounds for the first index outside its dimension, unless those are skipped"""
    rows = view.indirection
    if not isinstance(rows, Rows) or oob_mode is bounds.skip or not builder().values:
        return
    indices = rows.view.array().reshape(-1)[: view.shape[0]].astype(np.int64)
    wrong = np.flatnonzero((indices < 0) | (indices >= rows.size))
    if not wrong.size:
        return
    number, whole = int(indices[wrong[0]]), view.storage.nbytes // view.layout.itemsize
    element = (view.offset + number * rows.stride) // view.layout.itemsize
    raise RowOutOfBounds(
        f"{call}: index {number} of partition {wrong[0]} is outside a dimension of size {rows.size} of `{view.name}`",
        builder().where(),
        f"index {element} is out of bounds for axis 0 with size {whole}",
    )


def _mode(call: str, dge_mode: Any) -> current_modes:
    """The current API's member for the legacy one, or for its number.

    raises: InputError for anything else
    """
    if isinstance(dge_mode, current_modes):
        return dge_mode
    try:
        return current_modes[modes(dge_mode).name]
    except ValueError:
        known = ", ".join(f"dge_mode.{mode.name}" for mode in modes)
        fault = f"{call}: dge_mode: {dge_mode!r}, must be one of {known}"
        raise InputError(fault, source=builder().where()) from None


def dma_copy(
    *,
    dst: Any,
    src: Any,
    mask: Any = None,
    dst_rmw_op: Any = None,
    oob_mode: Any = bounds.error,
    dge_mode: Any = modes.unknown,
    name: str | None = None,
) -> None:
    """dst = src between HBM and SBUF, or dst += src with dst_rmw_op; rows may be named by an index tile."""
    call = "nki.isa.dma_copy"
    target, source = tile(dst, call, "dst"), tile(src, call, "src")
    part = Cut(call, mask, target.shape, target, in_sbuf(source))
    if part.empty:
        return
    into, view = part.operands
    _check_rows(call, into, oob_mode)
    _check_rows(call, view, oob_mode)
    if dst_rmw_op is None:
        isa.dma_copy(into, view, oob_mode=oob_mode, dge_mode=_mode(call, dge_mode), name=name)
    else:
        isa.dma_compute(into, [into, view], dst_rmw_op, name=name)


def in_hbm(value: Any, call: str, argument: str) -> Tile:
    """raises: InputError for what is no HBM tensor"""
    found = tile(value, call, argument)
    if found.layout.memory is not HBM:
        raise InputError(
            f"{call}: {argument}: `{found.name}` is in {found.storage.buffer}, must be in HBM", source=builder().where()
        )
    return found


def load(src: Any, *, mask: Any = None, dtype: Any = None) -> Tile:
    """Load an HBM tile into a new SBUF tile."""
    if type(src) is not Tile or src.layout.memory is not HBM:
        src = in_hbm(src, "nl.load", "src")
    return elementwise("nl.load", load_into, src, mask=mask, dtype=dtype)


def store(dst: Any, value: Any, *, mask: Any = None) -> None:
    """Store an on-chip tile, or a number to every element, to HBM; from PSUM it passes through SBUF."""
    target, value = in_hbm(dst, "nl.store", "dst"), operand(value, "nl.store")
    if not isinstance(value, Tile):
        _store_number(target, value, mask)
        return
    if mask is None and value.kept is not None and value.shape == target.shape:
        value, target = value.box(value.kept), target.box(value.kept)
    if value.shape != target.shape and value.size != target.size:
        value = value.broadcast_to(target.shape)
    part = Cut("nl.store", mask, target.shape, target, value)
    if not part.empty:
        into, tile_ = part.operands
        load_into(into, in_sbuf(tile_))


def _store_number(target: Tile, value: Any, mask: Any) -> None:
    part = Cut("nl.store", mask, target.shape, target)
    if part.empty:
        return
    (view,) = part.operands
    rows = view.shape[0]
    for first in range(0, rows, PARTITIONS):
        piece = view.box(((first, min(first + PARTITIONS, rows)), *((0, size) for size in view.shape[1:])))
        filled = Result(piece.shape, target.dtype).part()
        isa.memset(filled, value)
        isa.dma_copy(piece, filled)


def load_into(dst: Tile, src: Tile) -> None:
    """A transfer between HBM and SBUF, whose index tiles must name rows that exist."""
    if src.indirection is None and dst.indirection is None:
        issue_transfer(builder(), COPY, (dst, src), PLAIN, None)
        return
    _check_rows("nl.load", src, bounds.error)
    _check_rows("nl.store", dst, bounds.error)
    isa.dma_copy(dst, src)


def dma_transpose(
    src: Any,
    *,
    axes: Any = None,
    mask: Any = None,
    dtype: Any = None,
    dge_mode: Any = modes.unknown,
    name: str | None = None,
) -> Tile:
    """A new SBUF tile with src's dimensions permuted."""
    call = "nki.isa.dma_transpose"
    source = tile(src, call, "src")
    order = tuple(int(axis) for axis in axes) if axes is not None else AXES.get(source.ndim)
    if order is None:
        raise InputError(f"{call}: src has {source.ndim} dimensions, must be 2 to 4", source=builder().where())
    result = Result(tuple(source.shape[axis] for axis in order), source.dtype)
    part = Cut(call, mask, source.shape, in_sbuf(source))
    left = None if part.ranges is None else tuple(part.ranges[axis] for axis in order)
    if not part.empty:
        (view,) = part.operands
        _check_rows(call, view, bounds.error)
        isa.dma_transpose(result.part(left), view, order, dge_mode=_mode(call, dge_mode), name=name)
    made = result.returned(left)
    if dtype is None or dtypes.parse(dtype) == source.dtype:
        return made
    cast = Result(made.shape, dtype)
    if not part.empty:
        isa.tensor_copy(cast.part(left), result.part(left))
    return cast.returned(left)


def as_flags(predicate: Any) -> Any:
    """A predicate tile as integers; booleans are bytes."""
    view = operand(predicate, "predicate")
    return view.view(dtypes.uint8) if isinstance(view, Tile) and view.dtype == dtypes.bool_ else view


def tensor_copy_predicated(
    *,
    src: Any,
    dst: Any,
    predicate: Any,
    reverse_pred: bool = False,
    mask: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> None:
    """Where predicate is not 0, dst = src."""
    call = "nki.isa.tensor_copy_predicated"
    target = tile(dst, call, "dst")
    part = Cut(call, mask, target.shape, target, operand(src, call), as_flags(predicate))
    if not part.empty:
        into, source, flags = part.operands
        isa.tensor_copy_predicated(into, source, flags, reverse_pred, name)


def nc_stream_shuffle(
    src: Any,
    dst: Any,
    shuffle_mask: Any,
    *,
    dtype: Any = None,
    mask: Any = None,
    name: str | None = None,
) -> None:
    """Within each quadrant of 32 partitions, dst[i] = src[shuffle_mask[i]]."""
    call = "nki.isa.nc_stream_shuffle"
    target = tile(dst, call, "dst")
    part = Cut(call, mask, target.shape, target)
    if not part.empty:
        source = tile(src, call, "src")
        source.check(call)
        isa.nc_stream_shuffle(*part.operands, source, [int(entry) for entry in shuffle_mask], name)


def local_gather(
    src_buffer: Any, index: Any, num_elem_per_idx: int = 1, num_valid_indices: int | None = None, *, mask: Any = None
) -> Tile:
    """[P, indices, elements]: src_buffer's elements at the indices that each 16 partitions hold."""
    call = "nki.isa.local_gather"
    source, places = tile(src_buffer, call, "src_buffer"), tile(index, call, "index")
    held = places.size // max(1, places.shape[0] // 16)
    count = held if num_valid_indices is None else int(num_valid_indices)
    result = Result((source.shape[0], count, int(num_elem_per_idx)), source.dtype)
    if mask is not None:
        raise InputError(f"{call}: mask= is not taken", source=builder().where())
    source.check(call)
    places.check(call)
    isa.local_gather(result.part(), source, places, num_elem_per_idx, num_valid_indices)
    return result.returned()
