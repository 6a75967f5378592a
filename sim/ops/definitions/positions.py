"""Operators that move rows, or turn them by their position."""

from __future__ import annotations

from math import prod

import numpy as np

from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_dtype, check_shape
from sim.ops.functions import wide
from sim.ops.operator import Operator, itemsize, nbytes

Array = np.ndarray


def rope(x: Array, cos: Array, sin: Array) -> Array:
    """x [T, heads, D], cos and sin [T, D / 2]"""
    half = x.shape[2] // 2
    first, second = wide(x)[..., :half], wide(x)[..., half:]
    c, s = wide(cos)[:, None], wide(sin)[:, None]
    return np.concatenate((first * c - second * s, second * c + first * s), axis=-1)


def _rope_outputs(x: TensorSpec, cos: TensorSpec, sin: TensorSpec) -> tuple[TensorSpec, ...]:
    check_shape("rope", "x", x, ("T", "heads", "D"))
    if x.shape[2] % 2:
        raise InputError(f"rope: x: heads of {x.shape[2]} values have no two halves")
    for name, spec in (("cos", cos), ("sin", sin)):
        check_shape("rope", name, spec, (x.shape[0], x.shape[2] // 2))
    return (TensorSpec(tuple(x.shape), x.dtype),)


def embedding(ids: Array, table: Array) -> Array:
    """ids [T], table [V, H]"""
    return wide(table)[ids]


def gather(x: Array, indices: Array) -> Array:
    """x [N, …], indices [T]"""
    return wide(x)[indices]


def _check_numbers(name: str, argument: str, numbers: TensorSpec) -> None:
    check_shape(name, argument, numbers, ("T",))
    check_dtype(name, argument, numbers, "int32", "uint32")


def _embedding_outputs(ids: TensorSpec, table: TensorSpec) -> tuple[TensorSpec, ...]:
    check_shape("embedding", "table", table, ("V", "H"))
    _check_numbers("embedding", "ids", ids)
    return (TensorSpec((ids.shape[0], table.shape[1]), table.dtype),)


def _gather_outputs(x: TensorSpec, indices: TensorSpec) -> tuple[TensorSpec, ...]:
    _check_numbers("gather", "indices", indices)
    return (TensorSpec((indices.shape[0], *x.shape[1:]), x.dtype),)


def kv_cache_update(cache: Array, new: Array, slots: Array, in_pages: bool = False) -> Array:
    """cache [P, Hkv, page, D], new [T, Hkv, D], slots [T]; in_pages: each `page` tokens fill a page in order"""
    out = wide(cache).copy()
    out[slots // cache.shape[2], :, slots % cache.shape[2]] = wide(new)
    return out


def _cache_outputs(
    cache: TensorSpec, new: TensorSpec, slots: TensorSpec, in_pages: bool = False
) -> tuple[TensorSpec, ...]:
    check_shape("kv_cache_update", "cache", cache, ("P", "Hkv", "page", "D"))
    check_shape("kv_cache_update", "new", new, ("T", cache.shape[1], cache.shape[3]))
    _check_numbers("kv_cache_update", "slots", slots)
    check_shape("kv_cache_update", "slots", slots, (new.shape[0],))
    page = cache.shape[2]
    if page & (page - 1):
        raise InputError(f"kv_cache_update: cache: {page} slots a page, must be a power of two")
    return (TensorSpec(tuple(cache.shape), cache.dtype),)


def _nothing(*inputs: TensorSpec, **scalars: bool) -> int:
    return 0


OPERATORS = (
    Operator("rope", "rope.py", rope, _rope_outputs, lambda x, cos, sin: 3 * prod(x.shape)),
    Operator(
        "embedding",
        "gathers.py",
        embedding,
        _embedding_outputs,
        _nothing,
        lambda ids, table: nbytes(ids) + ids.shape[0] * table.shape[1] * itemsize(table),
    ),
    Operator(
        "gather",
        "gathers.py",
        gather,
        _gather_outputs,
        _nothing,
        lambda x, indices: nbytes(indices) + nbytes(_gather_outputs(x, indices)[0]),
    ),
    Operator(
        "kv_cache_update",
        "gathers.py",
        kv_cache_update,
        _cache_outputs,
        _nothing,
        lambda cache, new, slots, **_: nbytes(new) + nbytes(slots),
        lambda cache, new, slots, **_: nbytes(new),
    ),
)
