"""`neuronxcc.nki.isa` calls whose result has a shape of its own."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from sim import dtypes
from sim.errors import InputError, UnsupportedError
from sim.memory import merge_dims
from sim.nki import isa
from sim.nki.elementwise import FUNCTIONS
from sim.nki.isa import matmul_perf_mode, unknown_engine, vector_engine
from sim.nki.legacy.index import Affine, Mask, Range
from sim.nki.legacy.operands import (
    PSUM,
    SBUF,
    Cut,
    OneLine,
    Ranges,
    Result,
    elementwise,
    in_sbuf,
    operand,
    tile,
    within,
)
from sim.nki.legacy.tile import Tile
from sim.nki.session import builder


def _columns(call: str, issue: Any, data: Any, count: int, dtype: Any, mask: Any) -> Tile:
    """A call whose result has `count` elements in each partition of its input."""
    data = tile(data, call, "data")
    result = Result((data.shape[0], count), data.dtype if dtype is None else dtype)
    part = Cut(call, mask, data.shape, data)
    left = None if part.ranges is None else (part.ranges[0], (0, count))
    if not part.empty:
        issue(result.part(left), *part.operands)
    return result.returned(left)


def bn_stats(data: Any, *, mask: Any = None, dtype: Any = None) -> Tile:
    """[P, 6]: count, mean and variance x count of the even, then of the odd elements."""
    return _columns("nki.isa.bn_stats", isa.bn_stats, data, 6, dtype, mask)


def bn_aggr(data: Any, *, mask: Any = None, dtype: Any = None) -> Tile:
    """[P, 2]: mean and variance."""
    return _columns("nki.isa.bn_aggr", isa.bn_aggr, data, 2, dtype, mask)


def max8(*, src: Any, mask: Any = None, dtype: Any = None) -> Tile:
    """[P, 8]: the eight largest values, largest first."""
    return _columns("nki.isa.max8", lambda dst, view: isa.max8(dst, _merged(view)), src, 8, dtype, mask)


def _merged(view: Tile) -> Tile:
    """The same elements in as few dimensions as their strides allow: there may be 5, where later releases take 3."""
    free = merge_dims(view.layout.shape[1:], view.layout.strides[1:])
    return view.reshape((view.shape[0], *(size for size, _ in free))) if free else view


def nc_find_index8(*, data: Any, vals: Any, mask: Any = None, dtype: Any = None) -> Tile:
    """[P, 8]: where each of the eight values first stands in data."""
    values = tile(vals, "nki.isa.nc_find_index8", "vals")

    def issue(dst: Tile, view: Tile) -> None:
        isa.nc_find_index8(dst, _merged(view), _rows(values, view))

    return _columns("nki.isa.nc_find_index8", issue, data, 8, dtype or dtypes.uint32, mask)


def _rows(view: Tile, like: Tile) -> Tile:
    """As many first partitions as another tile has."""
    return view if view.shape[0] == like.shape[0] else view[0 : like.shape[0]]


def nc_match_replace8(
    *, data: Any, vals: Any, imm: Any, dst_idx: Any = None, mask: Any = None, dtype: Any = None
) -> Tile:
    """data with the first occurrence of each of the eight values replaced; their places go to dst_idx."""
    call = "nki.isa.nc_match_replace8"
    values, places = tile(vals, call, "vals"), operand(dst_idx, call)

    def issue(dst: Tile, view: Tile) -> None:
        indices = None if places is None else _rows(places, view)
        isa.nc_match_replace8(dst, view, _rows(values, view), operand(imm, call), indices)

    return elementwise(call, issue, data, mask=mask, dtype=dtype)


def tensor_partition_reduce(op: Any, data: Any, *, mask: Any = None, dtype: Any = None) -> Tile:
    """[1, …]: data folded across partitions."""
    data = tile(data, "nki.isa.tensor_partition_reduce", "data")
    result = Result((1, *data.shape[1:]), dtype or data.dtype)
    part = Cut("nki.isa.tensor_partition_reduce", mask, data.shape, data)
    left = None if part.ranges is None else ((0, 1), *part.ranges[1:])
    if not part.empty:
        isa.tensor_partition_reduce(result.part(left), op, *part.operands)
    return result.returned(left)


def sequence_bounds(*, segment_ids: Any, dtype: Any = None) -> Tile:
    """[1, 2, n]: where the segment of each element starts and ends."""
    ids = tile(segment_ids, "nki.isa.sequence_bounds", "segment_ids")
    result = Result((1, 2, prod(ids.shape[1:])), dtype or ids.dtype)
    isa.sequence_bounds(result.part(), ids)
    return result.returned()


def memset(
    shape: Any,
    value: Any,
    dtype: Any,
    *,
    mask: Any = None,
    engine: Any = unknown_engine,
    name: str | None = None,
) -> Tile:
    """A tile of one value."""
    sizes = tuple(int(size) for size in shape)
    result = Result(sizes, dtype)
    part = Cut("nki.isa.memset", mask, sizes)
    if not part.empty:
        isa.memset(result.part(part.ranges), operand(value, "nki.isa.memset"), engine, name)
    return result.returned(part.ranges)


# -- affine patterns -------------------------------------------------------------------------------


def _pattern(expression: Any, call: str, argument: str) -> tuple[list[list[int]], int, int]:
    """([[step, count], …] of the free axes, offset, step of the partition axis)."""
    if not isinstance(expression, Affine) or expression.ndim < 2:
        fault = f"{call}: {argument}: {expression!r}, must be an affine expression of a partition and a free axis"
        raise InputError(fault, source=builder().where())
    free = [[step, size] for step, size in zip(expression.steps[1:], expression.shape[1:])]
    return free, expression.const, expression.steps[0]


def iota(expr: Any, dtype: Any, *, mask: Any = None, name: str | None = None) -> Tile:
    """A tile of the values of an index expression."""
    part = Cut("nki.isa.iota", mask, expr.shape) if isinstance(expr, Affine) else None
    pattern, _, _ = _pattern(expr, "nki.isa.iota", "expr")
    result = Result((expr.shape[0], *(size for _, size in pattern)), dtype)
    if not part.empty:
        if part.ranges is not None:
            expr = expr[tuple([slice(*kept) for kept in part.ranges])]
        pattern, offset, channel = _pattern(expr, "nki.isa.iota", "expr")
        isa.iota(result.part(part.ranges), pattern, offset, channel, name)
    return result.returned(part.ranges)


def affine_select(
    pred: Any,
    on_true_tile: Any,
    on_false_value: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tile:
    """on_true_tile where a comparison of index expressions holds, else on_false_value."""
    call = "nki.isa.affine_select"
    if not isinstance(pred, Mask) or len(pred.terms) != 1 or not isinstance(pred.terms[0], Affine):
        found = f"{len(pred.terms)} comparisons" if isinstance(pred, Mask) else repr(pred)
        fault = f"{call}: pred: {found}, must be one comparison of affine expressions"
        raise InputError(fault, source=builder().where(), remedy="use nl.where")
    data = tile(on_true_tile, call, "on_true_tile")
    term = _filled(pred.terms[0].wider(data.ndim), data.shape)

    def issue(dst: Tile, view: Tile) -> None:
        kept = part.ranges or tuple((0, size) for size in data.shape)
        pattern, offset, channel = _pattern(term[tuple([slice(*span) for span in kept])], call, "pred")
        isa.affine_select(
            dst, pattern, channel, in_sbuf(view), operand(on_false_value, call), FUNCTIONS["less"], offset, name
        )

    part = Cut(call, mask, data.shape)
    return elementwise(call, issue, data, mask=mask, dtype=dtype)


def _filled(term: Affine, shape: tuple[int, ...]) -> Affine:
    """An index expression over all of a tile's axes."""
    return Affine(
        shape, tuple(step if have == want else 0 for step, have, want in zip(term.steps, term.shape, shape)), term.const
    )


# -- the Tensor Engine -----------------------------------------------------------------------------


MATMUL = "nki.isa.nc_matmul"


def nc_matmul(
    stationary: Any,
    moving: Any,
    *,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    tile_position: tuple = (),
    tile_size: tuple = (),
    perf_mode: Any = None,
    mask: Any = None,
    name: str | None = None,
) -> Tile:
    """stationary.T @ moving in a new fp32 PSUM tile; `tile += nc_matmul(…)` accumulates.

    An operand in PSUM is copied to SBUF first, which the engine reads; nki-samples hand over what `nc_transpose` gives.
    """
    left = stationary if type(stationary) is Tile else tile(stationary, MATMUL, "stationary")
    right = moving if type(moving) is Tile else tile(moving, MATMUL, "moving")
    flags = (is_stationary_onezero, is_moving_onezero, is_transpose, False, tile_position, tile_size)
    with OneLine():
        return _multiply(left, right, mask, (*flags, _mode(perf_mode), name))


def _multiply(left: Tile, right: Tile, mask: Any, options: tuple) -> Tile:
    axes = 2 if options[-2] is matmul_perf_mode.double_row else 1
    m, n = left.layout.shape[axes:], right.layout.shape[axes:]
    rows = prod(m)
    within(MATMUL, "stationary: free size", rows)
    columns, free = (None, None) if mask is None else _columns_kept(MATMUL, mask, left, right)
    result = Result((rows, *n), np.float32, PSUM)
    kept = None if columns is None and free is None else (columns or (0, rows), *(free or _whole(n)))
    if kept is not None and any(first >= last for first, last in kept):
        return result.returned(kept)
    if columns is not None:
        left = left.box((*_whole(left.shape[:-1]), columns))
    if free is not None:
        right = right.box((*_whole(right.shape[: -len(free)]), *free))
    for view in (left, right):
        if view.bounds or view.reduction is not None:
            view.check(MATMUL)
    isa.nc_matmul(result.part(kept), in_sbuf(left), in_sbuf(right), *options)
    return result.returned(kept)


def _mode(asked: Any) -> Any:
    if isinstance(asked, str) and asked.startswith("double_row"):
        return matmul_perf_mode.double_row
    return matmul_perf_mode.none if asked is None else asked


def _whole(shape: tuple[int, ...]) -> Ranges:
    return tuple((0, size) for size in shape)


def _columns_kept(call: str, mask: Any, left: Tile, right: Tile) -> tuple[Range | None, Ranges | None]:
    """What a mask leaves of the stationary tile's columns and of the moving tile's free axes.

    A mask names the axes of one operand only: which one, their sizes tell.
    raises: UnsupportedError when both operands have such axes
    """
    if mask.keeps_all() if isinstance(mask, Mask) else mask:
        return None, None
    if not isinstance(mask, Mask):
        return None, tuple((0, 0) for _ in right.shape[1:])
    shape = mask.shape
    fits = [all(have in (1, want) for have, want in zip(shape[1:], side.shape[1:])) for side in (left, right)]
    if all(fits) and left.shape[1:] != right.shape[1:] and any(size > 1 for size in shape[1:]):
        fits = [shape[1:] == side.shape[1:] for side in (left, right)]
    if sum(fits) != 1 or shape[0] > 1:
        raise UnsupportedError(
            f"{call}: a mask whose axes may be those of both operands",
            source=builder().where(),
            remedy="mask the operands: stationary[i < n], moving[j < m]",
        )
    side = left if fits[0] else right
    kept = Cut(call, mask, side.shape).ranges or _whole(side.shape)
    return (kept[1], None) if fits[0] else (None, kept[1:])


def nc_transpose(
    data: Any,
    *,
    mask: Any = None,
    dtype: Any = None,
    engine: Any = unknown_engine,
    name: str | None = None,
) -> Tile:
    """data.T, partition and flattened free dimension exchanged: in PSUM from the Tensor Engine, in SBUF from Vector."""
    call = "nki.isa.nc_transpose"
    source = tile(data, call, "data")
    part = Cut(call, mask, source.shape, source)
    free = prod(source.shape[1:])
    if part.ranges is not None and source.ndim != 2:
        raise UnsupportedError(f"{call}: a mask on {source.ndim} dimensions", source=builder().where())
    within(call, "data: free size", free)
    on_vector = engine is vector_engine
    result = Result((free, source.shape[0]), source.dtype, SBUF if on_vector else PSUM)
    kept = None if part.ranges is None else (part.ranges[1], part.ranges[0])
    if not part.empty:
        (view,) = part.operands
        isa.nc_transpose(result.part(kept), view if on_vector else in_sbuf(view), engine, name)
    if dtype is None or dtypes.parse(dtype) == source.dtype:
        return result.returned(kept)
    return elementwise(call, isa.tensor_copy, result.returned(kept), dtype=dtype)
