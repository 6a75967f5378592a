"""Elements by number, read and written."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from sim.frontends.builder import Builder
from sim.frontends.folds import NEUTRAL, product
from sim.frontends.ir import Value


def positive(b: Builder, numbers: Value, size: int) -> Value:
    """Numbers below 0 count from the end."""
    numbers = b.cast(numbers, "int32")
    if numbers.data is not None and (numbers.data >= 0).all():
        return numbers
    return b.map("select", b.map("less", numbers, 0), b.map("add", numbers, size), numbers)


def scattered(b: Builder, base: Value, numbers: Value, updates: Value, kind: str) -> Value:
    """base [N, W…] with updates [T, W…] put in, added, …, at rows [T], of which several may be the same.

    Equal numbers of rows that are set: the last one counts. Sums are products with a matrix that has a one where an
    update goes to a row; what is set is chosen by the last update of each row; others compare rows with updates.
    """
    count, rows = numbers.size, base.shape[0]
    width = prod(base.shape[1:])
    flat, new = b.reshape(base, (rows, width)), b.reshape(updates, (count, width))
    numbers = b.cast(numbers, "int32")
    if kind == "set" and _distinct(numbers):
        return b.reshape(b.scatter(flat, numbers, new), base.shape)
    mine = b.constant(np.arange(rows).reshape(rows, 1), "int32")
    goes = b.map("equal", mine, b.reshape(numbers, (1, count)))
    if kind == "add":
        form = base.dtype if base.is_float else "fp32"
        summed = b.dot(b.cast(goes, form), b.cast(new, form), ((1,), (0,)))
        return b.reshape(b.map("add", flat, b.cast(summed, base.dtype)), base.shape)
    if kind == "set":
        order = b.constant(np.arange(1, count + 1).reshape(1, count), "int32")
        last = b.reduce("max", b.map("select", goes, order, b.constant(0, "int32")), [1])
        chosen = b.gather(new, b.map("max", b.map("sub", last, 1), 0))
        written = b.map("greater", b.reshape(last, (rows, 1)), 0)
        return b.reshape(b.map("select", written, chosen, flat), base.shape)
    apart = b.map("select", b.reshape(goes, (rows, count, 1)), b.reshape(new, (1, count, width)),
                  b.constant(NEUTRAL[kind], base.dtype))  # fmt: skip
    folded = b.reshape(product(b, apart, 1), (rows, width)) if kind == "mul" else b.reduce(kind, apart, [1])
    return b.reshape(b.map(kind, flat, folded), base.shape)


def _distinct(numbers: Value) -> bool:
    """Whether no two are the same, as far as is known."""
    return numbers.size < 2 or (numbers.data is not None and len(np.unique(numbers.data)) == numbers.size)


def _joined(b: Builder, x: Value, numbers: Sequence[Value | None]) -> tuple[list[int], Value, tuple[int, ...]]:
    """The axes that have numbers, the flat row that these name together, and their common shape."""
    axes = [at for at, one in enumerate(numbers) if one is not None]
    given = [positive(b, numbers[at], x.shape[at]) for at in axes]
    shape = np.broadcast_shapes(*(one.shape for one in given))
    rows: Value | None = None
    for at, one in zip(axes, given):
        scaled = one if rows is None else b.map("add", b.map("mul", rows, x.shape[at]), one)
        rows = scaled
    return axes, b.reshape(b.expand(rows, shape), (prod(shape),)), tuple(shape)


def take(b: Builder, x: Value, numbers: list[Value | None], wanted: tuple[int, ...]) -> Value:
    """x[…] with tensors of numbers for some of its axes."""
    axes, rows, shape = _joined(b, x, numbers)
    rest = [at for at in range(x.rank) if at not in axes]
    moved = b.transpose(x, [*axes, *rest])
    sizes = [x.shape[at] for at in rest]
    flat = b.reshape(moved, (prod(x.shape[at] for at in axes), *sizes))
    found = b.reshape(b.gather(flat, rows), (*shape, *sizes))
    if axes == list(range(axes[0], axes[0] + len(axes))) and axes[0]:
        order = [*range(len(shape), len(shape) + axes[0]), *range(len(shape)), *range(len(shape) + axes[0], found.rank)]
        found = b.transpose(found, order)
    return b.reshape(found, wanted)


def put(b: Builder, x: Value, numbers: list[Value | None], src: Value, kind: str) -> Value:
    """x with src at what `take` would read."""
    axes, rows, shape = _joined(b, x, numbers)
    rest = [at for at in range(x.rank) if at not in axes]
    order = [*axes, *rest]
    moved, sizes = b.transpose(x, order), [x.shape[at] for at in rest]
    between = axes == list(range(axes[0], axes[0] + len(axes))) and axes[0]
    if between:
        full = (*sizes[: axes[0]], *shape, *sizes[axes[0] :])
        src = b.expand(b.cast(src, x.dtype), full)
        inner = list(range(axes[0], axes[0] + len(shape)))
        src = b.transpose(src, [*inner, *(at for at in range(len(full)) if at not in inner)])
    else:
        src = b.expand(b.cast(src, x.dtype), (*shape, *sizes))
    flat = b.reshape(moved, (prod(x.shape[at] for at in axes), prod(sizes)))
    made = scattered(b, flat, rows, b.reshape(src, (rows.size, prod(sizes))), kind)
    return b.transpose(b.reshape(made, moved.shape), np.argsort(order).tolist())
