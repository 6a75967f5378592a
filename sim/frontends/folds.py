"""Folds that no operator does at once: products, running folds, places of extremes, orders."""

from __future__ import annotations

import numpy as np

from sim.frontends.builder import Builder
from sim.frontends.ir import Value

SORTED = 4096
"""Elements of a row that are put in order by comparing each with each; more would be worse than any sort."""

TAKEN = 64
"""Largest elements that are taken one after the other."""

NEUTRAL = {"max": float("-inf"), "min": float("inf"), "add": 0, "mul": 1, "or": 0, "and": 1}
"""What a fold starts with."""


def product(b: Builder, x: Value, axis: int) -> Value:
    """Halves of an axis times each other until one element is left, which stays."""
    if not x.rank:
        return x
    axis %= x.rank
    while x.shape[axis] > 1:
        size = x.shape[axis]
        half = size // 2
        rest = b.part(x, axis, 2 * half, size) if size % 2 else None
        x = b.map("mul", b.part(x, axis, 0, half), b.part(x, axis, half, 2 * half))
        x = b.concat([x, rest], axis) if rest is not None else x
    return x


def cumulative(b: Builder, kind: str, x: Value, axis: int, reverse: bool = False) -> Value:
    """A running fold: sums of floats as a product with a triangle of ones, others in log2(n) steps."""
    if not x.rank:
        return x
    axis %= x.rank
    size = x.shape[axis]
    if kind == "add" and x.is_float and size > 1:
        ones = np.tri(size) if reverse else np.tri(size).T
        last = [at for at in range(x.rank) if at != axis]
        moved = b.transpose(x, [*last, axis])
        found = b.dot(moved, b.constant(ones, x.dtype), ((x.rank - 1,), (0,)))
        return b.transpose(found, np.argsort([*last, axis]).tolist())
    step = 1
    while step < size:
        if reverse:
            joined = _fold(b, kind, b.part(x, axis, 0, size - step), b.part(x, axis, step, size))
            x = b.concat([joined, b.part(x, axis, size - step, size)], axis)
        else:
            joined = _fold(b, kind, b.part(x, axis, step, size), b.part(x, axis, 0, size - step))
            x = b.concat([b.part(x, axis, 0, step), joined], axis)
        step *= 2
    return x


def _fold(b: Builder, kind: str, x: Value, y: Value) -> Value:
    if kind != "logaddexp":
        return b.map(kind, x, y)
    gap = b.map("neg", b.map("abs", b.map("sub", x, y)))
    return b.map("add", b.map("max", x, y), b.map("softplus", gap))


def argument(b: Builder, kind: str, x: Value, axis: int, keep: bool = False) -> Value:
    """The first place of an extreme along an axis: the smallest of the places that hold it."""
    axis %= max(1, x.rank)
    if not x.rank:
        return b.constant(0, "int32")
    best = b.reduce(kind, x, [axis], keep=True)
    places = b.constant(_along(np.arange(x.shape[axis]), axis, x.rank), "int32")
    held = b.map("select", b.map("equal", x, best), places, b.constant(x.shape[axis], "int32"))
    return b.reduce("min", held, [axis], keep)


def _along(numbers: np.ndarray, axis: int, rank: int) -> np.ndarray:
    return numbers.reshape([-1 if at == axis else 1 for at in range(rank)])


def top(b: Builder, x: Value, k: int, axis: int, largest: bool = True) -> tuple[Value, Value]:
    """The k extremes of an axis and their places, best first."""
    axis %= x.rank
    if k > TAKEN:
        values, places = ranked(b, x, axis, largest)
        return b.part(values, axis, 0, k), b.part(places, axis, 0, k)
    kind = "max" if largest else "min"
    numbers = b.constant(_along(np.arange(x.shape[axis]), axis, x.rank), "int32")
    values, places = [], []
    for _ in range(k):
        values.append(b.reduce(kind, x, [axis], keep=True))
        places.append(argument(b, kind, x, axis, keep=True))
        taken = b.map("equal", numbers, places[-1])
        x = b.map("select", taken, b.constant(_lowest(x, kind), x.dtype), x)
    return b.concat(values, axis), b.concat(places, axis)


def _lowest(x: Value, kind: str) -> float:
    if x.is_float:
        return NEUTRAL[kind]
    limits = np.iinfo(np.int32)
    return limits.min if kind == "max" else limits.max


def ranked(b: Builder, x: Value, axis: int, descending: bool = False, *more: Value) -> tuple[Value, ...]:
    """An axis in order, the places that its elements had, and others in the same order.

    Each element's rank is how many come before it, equal ones in the order that they have; the element of each rank is
    the one whose rank it is.
    """
    if not x.rank:
        return x, b.constant(0, "int32"), *more
    axis %= x.rank
    size = x.shape[axis]
    if size > SORTED:
        why = f"rows of more than {SORTED} elements have no operator that sorts them"
        specs = [(one.shape, one.dtype) for one in (x, *more)]
        specs.insert(1, (x.shape, "int32"))
        return b.unsupported("sort", why, [x, *more], *specs)
    order = [*(at for at in range(x.rank) if at != axis), axis]
    moved = [b.transpose(one, order) for one in (x, *more)]
    lead = moved[0].shape[:-1]
    mine = b.reshape(moved[0], (*lead, size, 1))
    theirs = b.reshape(moved[0], (*lead, 1, size))
    before = b.map("greater" if descending else "less", theirs, mine)
    earlier = b.constant(np.tri(size, k=-1, dtype=bool), "bool")
    first = b.map("or", before, b.map("and", b.map("equal", theirs, mine), earlier))
    rank = b.reduce("sum", b.cast(first, "int32"), [-1])
    wanted = b.constant(np.arange(size).reshape(size, 1), "int32")
    chosen = b.map("equal", b.reshape(rank, (*lead, 1, size)), wanted)
    numbers = b.constant(np.arange(size).reshape(1, size), "int32")
    back = np.argsort(order).tolist()
    found = [_chosen(b, chosen, b.reshape(one, (*lead, 1, size))) for one in moved]
    places = _chosen(b, chosen, numbers)
    values = [b.transpose(one, back) for one in found]
    return values[0], b.transpose(places, back), *values[1:]


def _chosen(b: Builder, chosen: Value, values: Value) -> Value:
    """The one element of each row that a mask names."""
    zero = b.constant(0, values.dtype)
    return b.reduce("sum", b.map("select", chosen, values, zero), [-1])
