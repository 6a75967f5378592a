"""Sums, extremes, running sums, orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sim.frontends.builder import Builder, Number
from sim.frontends.folds import argument, cumulative, product, ranked, top
from sim.frontends.ir import Value

Axes = int | Sequence[int] | None


def axes_of(x: Value, dim: Axes) -> list[int]:
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return list(range(x.rank))
    return [dim] if isinstance(dim, int) else list(dim)


def fold(kind: str) -> Callable[..., Value]:
    def rule(b: Builder, specs: list, x: Value, dim: Axes = None, keepdim: bool = False, **_: Any) -> Value:
        x = b.cast(x, specs[0][1]) if kind in ("sum", "mean") else x
        return b.reduce(kind, x, axes_of(x, dim), keepdim)

    return rule


def some(kind: str) -> Callable[..., Value]:
    """`any` is the largest of truth values, `all` the smallest."""
    return lambda b, specs, x, dim=None, keepdim=False: b.reduce(kind, b.cast(x, "bool"), axes_of(x, dim), keepdim)


def extreme(kind: str) -> Callable[..., Any]:
    """With an axis, the place too."""

    def rule(b: Builder, specs: list, x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            return b.reduce(kind, x)
        return b.reduce(kind, x, [dim], keepdim), argument(b, kind, x, dim, keepdim)

    return rule


def place(kind: str) -> Callable[..., Value]:
    def rule(b: Builder, specs: list, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        if dim is None:
            return b.reshape(argument(b, kind, b.reshape(x, (x.size,)), 0, False), specs[0][0])
        return argument(b, kind, x, dim, keepdim)

    return rule


def variance(
    b: Builder, specs: list, x: Value, dim: Axes = None, correction: Any = 1, keepdim: bool = False, **_: Any
) -> Value:
    return spread(b, x, axes_of(x, dim), 1 if correction is None else int(correction), keepdim)[0]


def spread(b: Builder, x: Value, axes: list[int], correction: int, keep: bool) -> tuple[Value, Value]:
    """Variance and mean."""
    mean = b.reduce("mean", x, axes, keep=True)
    square = b.map("square", b.map("sub", x, mean))
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    found = b.map("mul", b.reduce("mean", square, axes, keep), count / max(1, count - correction))
    return found, mean if keep else b.reduce("mean", x, axes)


def prod(b: Builder, specs: list, x: Value, dim: int | None = None, keepdim: bool = False, **_: Any) -> Value:
    x = b.cast(x, specs[0][1])
    if dim is None:
        return b.reshape(product(b, b.reshape(x, (x.size,)), 0), ())
    found = product(b, x, dim)
    return found if keepdim else b.reshape(found, specs[0][0])


def running(kind: str) -> Callable[..., Value]:
    return lambda b, specs, x, dim, **_: cumulative(b, kind, b.cast(x, specs[0][1]), dim)


def softmax(b: Builder, specs: list, x: Value, dim: int, *_: Any) -> Value:
    powers, total, _ = powers_of(b, b.cast(x, specs[0][1]), dim)
    return b.map("div", powers, total)


def powers_of(b: Builder, x: Value, dim: int) -> tuple[Value, Value, Value]:
    """exp(x - max), its sums, and x - max."""
    less = b.map("sub", x, b.reduce("max", x, [dim], keep=True))
    powers = b.map("exp", less)
    return powers, b.reduce("sum", powers, [dim], keep=True), less


def log_softmax(b: Builder, specs: list, x: Value, dim: int, *_: Any) -> Value:
    _, total, less = powers_of(b, b.cast(x, specs[0][1]), dim)
    return b.map("sub", less, b.map("log", total))


def softmax_backward(b: Builder, specs: list, dy: Value, y: Value, dim: int, *_: Any) -> Value:
    along = b.reduce("sum", b.map("mul", dy, y), [dim], keep=True)
    return b.map("mul", y, b.map("sub", dy, along))


def log_softmax_backward(b: Builder, specs: list, dy: Value, y: Value, dim: int, *_: Any) -> Value:
    return b.map("sub", dy, b.map("mul", b.map("exp", y), b.reduce("sum", dy, [dim], keep=True)))


def topk(
    b: Builder, specs: list, x: Value, k: int, dim: int = -1, largest: bool = True, ordered: bool = True
) -> tuple[Value, Value]:
    return top(b, x, k, dim, largest)


def sort(b: Builder, specs: list, x: Value, dim: int = -1, descending: bool = False, **_: Any) -> tuple[Value, Value]:
    return ranked(b, x, dim, descending)


def norm(b: Builder, specs: list, x: Value, p: Number = 2, dim: Axes = None, keepdim: bool = False, **_: Any) -> Value:
    """Of the second kind; the others are PyTorch's own parts."""
    return b.map("sqrt", b.reduce("sum", b.map("square", x), axes_of(x, dim), keepdim))


def distances(b: Builder, x: Value, y: Value, p: Number) -> Value:
    """[…, P, R]: the p-norm of each row of x [.., P, M] less each of y [.., R, M]."""
    apart = b.map("abs", b.map("sub", b.reshape(x, (*x.shape[:-1], 1, x.shape[-1])),
                               b.reshape(y, (*y.shape[:-2], 1, *y.shape[-2:]))))  # fmt: skip
    if p == float("inf"):
        return b.reduce("max", apart, [-1])
    if p == 0:
        return b.reduce("sum", b.cast(b.map("not_equal", apart, 0), x.dtype), [-1])
    if p == 1:
        return b.reduce("sum", apart, [-1])
    if p == 2:
        return b.map("sqrt", b.reduce("sum", b.map("square", apart), [-1]))
    return b.map("pow", b.reduce("sum", b.map("pow", apart, float(p)), [-1]), 1 / p)


def pair_distances(b: Builder, specs: list, x: Value, p: Number = 2) -> Value:
    """Of each pair of rows once."""
    rows, columns = np.triu_indices(x.shape[0], 1)
    places = b.constant(rows * x.shape[0] + columns, "int32")
    found = b.gather(b.reshape(distances(b, x, x, p), (x.shape[0] ** 2, 1)), places)
    return b.reshape(found, specs[0][0])


RULES: dict[str, Callable[..., Any]] = {
    "sum": fold("sum"), "mean": fold("mean"), "amax": fold("max"), "amin": fold("min"),
    "any": some("max"), "all": some("min"), "max": extreme("max"), "min": extreme("min"),
    "argmax": place("max"), "argmin": place("min"), "var": variance, "prod": prod,
    "var_mean": lambda b, specs, x, dim=None, correction=1, keepdim=False: spread(
        b, x, axes_of(x, dim), 1 if correction is None else int(correction), keepdim),
    "cumsum": running("add"), "cumprod": running("mul"), "logcumsumexp": running("logaddexp"),
    "_softmax": softmax, "softmax": softmax, "_log_softmax": log_softmax, "log_softmax": log_softmax,
    "_softmax_backward_data": softmax_backward, "_log_softmax_backward_data": log_softmax_backward,
    "topk": topk, "sort": sort, "_pdist_forward": pair_distances,
    "_cdist_forward": lambda b, specs, x, y, p, *_: distances(b, x, y, p),
}  # fmt: skip
