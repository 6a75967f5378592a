"""Rows and elements by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from sim.frontends.builder import Builder
from sim.frontends.ir import Value
from sim.frontends.scattering import positive, put, scattered, take

FOLDS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add", "multiply": "mul"}


def embedding(b: Builder, specs: list, table: Value, ids: Value, *_: Any) -> Value:
    rows = b.gather(table, b.reshape(ids, (ids.size,)))
    return b.reshape(rows, specs[0][0])


def embedding_backward(b: Builder, specs: list, dy: Value, ids: Value, count: int, padding: int, scale: bool) -> Value:
    width = dy.shape[-1]
    rows, numbers = b.reshape(dy, (ids.size, width)), b.reshape(ids, (ids.size,))
    if padding >= 0:
        kept = b.map("not_equal", b.reshape(numbers, (ids.size, 1)), padding)
        rows = b.map("select", kept, rows, b.constant(0, rows.dtype))
    return scattered(b, b.full((count, width), 0, dy.dtype), numbers, rows, "add")


def index_select(b: Builder, specs: list, x: Value, dim: int, numbers: Value) -> Value:
    if not x.rank:
        return x
    first = [dim % x.rank, *(at for at in range(x.rank) if at != dim % x.rank)]
    rows = b.gather(b.transpose(x, first), positive(b, numbers, x.shape[dim]))
    return b.transpose(rows, np.argsort(first).tolist())


def _addresses(b: Builder, x: Value, dim: int, numbers: Value) -> Value:
    """Of each element in the flattened tensor, where along one axis it is told by a number."""
    strides = [prod(x.shape[at + 1 :]) for at in range(x.rank)]
    rest = np.zeros(numbers.shape, np.int64)
    for at, size in enumerate(numbers.shape):
        if at != dim % x.rank:
            rest = rest + (np.arange(size) * strides[at]).reshape([-1 if k == at else 1 for k in range(x.rank)])
    along = b.map("mul", positive(b, b.cast(numbers, "int32"), x.shape[dim]), strides[dim % x.rank])
    return b.map("add", along, b.constant(rest, "int32"))


def gather(b: Builder, specs: list, x: Value, dim: int, numbers: Value, **_: Any) -> Value:
    if not x.rank:
        return x
    places = _addresses(b, x, dim, numbers)
    return b.reshape(b.gather(b.reshape(x, (x.size, 1)), b.reshape(places, (places.size,))), specs[0][0])


def scatter(kind: str) -> Callable[..., Value]:
    def rule(
        b: Builder, specs: list, x: Value, dim: int, numbers: Value, src: Any, reduce: str = "", **more: Any
    ) -> Value:
        how = FOLDS.get(reduce, "") if reduce or not kind else kind
        if not how or more.get("include_self") is False:
            return b.unsupported(b.source, f"reduce {reduce or '?'}", [x, numbers], (x.shape, x.dtype))
        if not isinstance(src, Value):
            src = b.full(numbers.shape, src, x.dtype)
        src = b.slice(src, [0] * src.rank, numbers.shape)
        places = _addresses(b, x, dim, numbers)
        base, rows = b.reshape(x, (x.size, 1)), b.reshape(b.cast(src, x.dtype), (places.size, 1))
        return b.reshape(scattered(b, base, b.reshape(places, (places.size,)), rows, how), x.shape)

    return rule


def index(b: Builder, specs: list, x: Value, numbers: Sequence[Value | None]) -> Value:
    """Advanced indexing: the axes that have numbers are taken together."""
    if any(one is not None and one.dtype == "bool" for one in numbers):
        return b.unsupported(b.source, "a mask gives as many elements as it has true ones", [x], specs[0])
    return take(b, x, list(numbers), specs[0][0])


def index_put(
    b: Builder, specs: list, x: Value, numbers: Sequence[Value | None], src: Value, accumulate: bool = False, *_: Any
) -> Value:
    given = [one for one in numbers if one is not None]
    if len(given) == 1 and given[0].dtype == "bool" and src.size == 1:
        mask = b.reshape(given[0], given[0].shape + (1,) * (x.rank - given[0].rank))
        return b.map("select", mask, b.reshape(b.cast(src, x.dtype), (1,) * x.rank), x)
    if any(one.dtype == "bool" for one in given):
        return b.unsupported(b.source, "a mask takes as many elements as it has true ones", [x], specs[0])
    return put(b, x, list(numbers), src, "add" if accumulate else "set")


RULES: dict[str, Callable[..., Any]] = {
    "embedding": embedding, "embedding_dense_backward": embedding_backward, "index_select": index_select,
    "gather": gather, "scatter": scatter("set"), "scatter_add": scatter("add"), "scatter_reduce": scatter(""),
    "index": index, "_unsafe_index": index, "index_put": index_put, "_unsafe_index_put": index_put,
}  # fmt: skip
