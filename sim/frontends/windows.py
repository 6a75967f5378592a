"""What looks at windows of a tensor [N, C, …]: convolutions, pools, and resampling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from sim.frontends.builder import Builder
from sim.frontends.folds import NEUTRAL
from sim.frontends.ir import Value


@dataclass(frozen=True, slots=True)
class Window:
    """Sizes along the axes that a window moves over."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.size)

    def count(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Places that the window takes."""
        return tuple(
            (extent + low + high - dilation * (size - 1) - 1) // stride + 1
            for extent, low, high, dilation, size, stride in zip(
                extents, self.low, self.high, self.dilation, self.size, self.stride
            )
        )

    @property
    def is_even(self) -> bool:
        """Whether a pool's operator knows it: no dilation, and no more padding than half of it on both sides."""
        inside = all(low <= size // 2 for low, size in zip(self.low, self.size))
        return inside and self.low == self.high and not any(one != 1 for one in self.dilation)

    @property
    def scalars(self) -> dict[str, Any]:
        """As the operators take them, which know nothing of padding that differs between the sides."""
        one = (lambda sizes: sizes[0]) if self.rank == 1 else tuple
        return {"stride": one(self.stride), "padding": one(self.low), "dilation": one(self.dilation)}

    @property
    def flat(self) -> Window:
        """Along one axis, as of an image with one row."""
        return Window((1, *self.size), (1, *self.stride), (0, *self.low), (0, *self.high), (1, *self.dilation))

    def offsets(self) -> Iterator[tuple[int, ...]]:
        return product(*map(range, self.size))


def convolve(
    b: Builder,
    x: Value,
    w: Value,
    window: Window,
    groups: int = 1,
    interior: Sequence[int] | None = None,
    bias: Value | None = None,
) -> Value:
    """x [N, C, …] with w [O, C / groups, …]; `interior` zeros lie between the elements of x."""
    if any(interior or ()) or window.low != window.high or any(size < 0 for size in window.low):
        none = (0, 0)
        x = b.pad(x, (*none, *window.low), (*none, *window.high), 0, (*none, *(interior or (0,) * window.rank)))
        zero = (0,) * window.rank
        window = Window(window.size, window.stride, zero, zero, window.dilation)
    shape = (x.shape[0], w.shape[0], *window.count(x.shape[2:]))
    given = [x, w] if bias is None else [x, w, bias]
    return b.add("convolution", given, (shape, x.dtype), window=window, groups=groups)


def columns(b: Builder, x: Value, window: Window, counts: Sequence[int] = ()) -> Value:
    """[N, C, offsets, places]: what the window sees at each of its places, or at the first `counts`."""
    counts = counts or window.count(x.shape[2:])
    padded = b.pad(x, (0, 0, *window.low), (0, 0, *window.high))
    parts = [_seen(b, padded, window, offset, counts) for offset in window.offsets()]
    shape = (*x.shape[:2], 1, prod(counts))
    return b.concat([b.reshape(one, shape) for one in parts], 2)


def _seen(b: Builder, x: Value, window: Window, offset: Sequence[int], counts: Sequence[int]) -> Value:
    """One element of the window at every place."""
    starts, stops, steps = [0, 0], list(x.shape[:2]), [1, 1]
    for at, dilation, stride, count in zip(offset, window.dilation, window.stride, counts):
        starts.append(at * dilation)
        stops.append(at * dilation + (count - 1) * stride + 1)
        steps.append(stride)
    return b.slice(x, starts, stops, steps)


def turned(window: Window, extents: Sequence[int]) -> Window:
    """The window in which places and elements have changed roles."""
    return Window(window.count(extents), window.dilation, window.low, window.high, window.stride)


def as_product(b: Builder, x: Value, w: Value, window: Window, groups: int) -> Value:
    """A convolution as a product of columns, for each group: of what each element of the window sees at all places,
    or of what all see at one place, whichever are fewer."""
    n, c = x.shape[:2]
    counts, each = window.count(x.shape[2:]), w.shape[0] // groups
    if prod(counts) < prod(window.size):
        seen = b.reshape(columns(b, x, turned(window, x.shape[2:]), window.size),
                         (n, groups, c // groups, prod(counts), prod(window.size)))  # fmt: skip
        found = b.dot(
            b.reshape(w, (groups, each, c // groups, prod(window.size))), seen, ((2, 3), (2, 4)), ((0,), (1,))
        )
        return b.reshape(b.transpose(found, (2, 0, 1, 3)), (n, groups * each, *counts))
    seen = b.reshape(columns(b, x, window), (n, groups, c // groups * prod(window.size), prod(counts)))
    weights = b.reshape(w, (groups, each, c // groups * prod(window.size)))
    found = b.dot(weights, seen, ((2,), (2,)), ((0,), (1,)))
    return b.reshape(b.transpose(found, (2, 0, 1, 3)), (n, groups * each, *counts))


def input_gradient(b: Builder, dy: Value, w: Value, window: Window, groups: int, extents: Sequence[int]) -> Value:
    """dx: by the operator, or dy, with zeros between its elements, convolved with the mirrored weights."""
    if groups == 1 and window.rank == 1:
        found = input_gradient(b, _row(b, dy), _row(b, w), window.flat, 1, (1, *extents))
        return b.reshape(found, (*found.shape[:2], *extents))
    if groups == 1 and window.rank == 2:
        shape = (dy.shape[0], w.shape[1], *extents)
        return b.add("conv2d_input_gradient", [dy, w], (shape, dy.dtype), size=tuple(extents), **window.scalars)
    low = [d * (k - 1) - p for d, k, p in zip(window.dilation, window.size, window.low)]
    spread = [(count - 1) * s + 1 for count, s in zip(dy.shape[2:], window.stride)]
    high = [extent + d * (k - 1) - size - a
            for extent, d, k, size, a in zip(extents, window.dilation, window.size, spread, low)]  # fmt: skip
    ones = (1,) * window.rank
    back = Window(window.size, ones, tuple(low), tuple(high), window.dilation)
    gaps = [s - 1 for s in window.stride]
    return convolve(b, dy, mirrored(b, w, groups), back, groups, gaps)


def mirrored(b: Builder, w: Value, groups: int) -> Value:
    """[O, C / groups, …] -> [C, O / groups, …], every window turned round"""
    o, c, *size = w.shape
    turned = b.reverse(w, range(2, w.rank))
    parts = b.reshape(turned, (groups, o // groups, c, *size))
    return b.reshape(b.swapped(parts, 1, 2), (groups * c, o // groups, *size))


def weight_gradient(b: Builder, dy: Value, x: Value, window: Window, groups: int) -> Value:
    """dw [O, C / groups, …]: what each offset saw times what came of it, summed over places and images."""
    if groups == 1 and window.rank == 1:
        found = weight_gradient(b, _row(b, dy), _row(b, x), window.flat, 1)
        return b.reshape(found, (*found.shape[:2], *window.size))
    if groups == 1 and window.rank == 2:
        shape = (dy.shape[1], x.shape[1], *window.size)
        return b.add("conv2d_weight_gradient", [dy, x], (shape, dy.dtype), taps=window.size, **window.scalars)
    n, c = x.shape[:2]
    o, places = dy.shape[1], prod(dy.shape[2:])
    seen = b.reshape(columns(b, x, window), (n, groups, c // groups * prod(window.size), places))
    came = b.reshape(dy, (n, groups, o // groups, places))
    found = b.dot(came, seen, ((0, 3), (0, 3)), ((1,), (1,)))
    return b.reshape(found, (o, c // groups, *window.size))


def _row(b: Builder, x: Value) -> Value:
    """[N, C, W] as [N, C, 1, W]"""
    return b.reshape(x, (*x.shape[:2], 1, *x.shape[2:]))


def pool(b: Builder, kind: str, x: Value, window: Window) -> Value:
    """Elements of each window folded: by the operator, or along one axis after the other."""
    if kind == "max" and x.rank == 4 and window.rank == 2 and window.is_even:
        shape = (*x.shape[:2], *window.count(x.shape[2:]))
        how = {"window": window.size, "stride": window.stride, "padding": window.low}
        return b.add("max_pool2d", [x], (shape, x.dtype), **how)
    first = x.rank - window.rank
    for at in range(window.rank):
        axis, size = first + at, window.size[at]
        if size == 1 and window.stride[at] == 1 and not window.low[at] and not window.high[at]:
            continue
        low, high = [0] * x.rank, [0] * x.rank
        low[axis], high[axis] = window.low[at], window.high[at]
        padded = b.pad(x, low, high, _neutral(kind, x))
        stride, count = window.stride[at], window.count(x.shape[first:])[at]
        starts = [offset * window.dilation[at] for offset in range(size)]
        parts = [b.part(padded, axis, start, start + (count - 1) * stride + 1, stride) for start in starts]
        x = folded(b, kind, parts)
    return x


def _neutral(kind: str, x: Value) -> float:
    number = NEUTRAL[kind]
    if x.is_float or abs(number) != float("inf"):
        return number
    limits = np.iinfo(np.uint8 if x.dtype == "bool" else x.dtype)
    return limits.min if kind == "max" else limits.max


def folded(b: Builder, kind: str, parts: Sequence[Value]) -> Value:
    found = parts[0]
    for one in parts[1:]:
        found = b.map(kind, found, one)
    return found


def places(window: Window, extents: Sequence[int], offset: Sequence[int], counts: Sequence[int]) -> np.ndarray:
    """The number, in the flattened axes, of what one element of the window is at every place."""
    found = np.zeros((), np.int64)
    for at, extent in enumerate(extents):
        along = np.arange(counts[at]) * window.stride[at] - window.low[at] + offset[at] * window.dilation[at]
        found = found[..., None] * extent + along
    return found


def largest(b: Builder, x: Value, window: Window) -> tuple[Value, Value]:
    """The largest element of each window of [N, C, …], and its number in the flattened axes."""
    counts = window.count(x.shape[2:])
    padded = b.pad(x, (0, 0, *window.low), (0, 0, *window.high), float("-inf"))
    best, number = None, None
    for offset in window.offsets():
        seen = _seen(b, padded, window, offset, counts)
        here = b.constant(places(window, x.shape[2:], offset, counts), "int32")
        if best is None:
            best, number = seen, b.expand(here, seen.shape)
            continue
        more = b.map("greater", seen, best)
        number = b.map("select", more, here, number)
        best = b.map("max", best, seen)
    return pool(b, "max", x, window), number


def put_back(
    b: Builder, parts: Iterator[tuple[tuple[int, ...], Value]], window: Window, extents: Sequence[int]
) -> Value:
    """[…, extents]: what each element of the window gives to what it saw, summed."""
    total = None
    for offset, given in parts:
        lead = given.rank - window.rank
        low, high, gaps = [0] * lead, [0] * lead, [0] * lead
        for at, extent in enumerate(extents):
            start = offset[at] * window.dilation[at] - window.low[at]
            low.append(start)
            gaps.append(window.stride[at] - 1)
            high.append(extent - start - (given.shape[lead + at] - 1) * window.stride[at] - 1)
        spread = b.pad(given, low, high, 0, gaps)
        total = spread if total is None else b.map("add", total, spread)
    return total


def resampled(b: Builder, x: Value, axis: int, matrix: np.ndarray) -> Value:
    """Every row along an axis times a matrix [new, old]."""
    axis %= x.rank
    rest = [at for at in range(x.rank) if at != axis]
    found = b.dot(x, b.constant(matrix.T, x.dtype), ((axis,), (0,)))
    order = list(range(len(rest)))
    order.insert(axis, x.rank - 1)
    return b.transpose(found, order)


def averages(new: int, old: int) -> np.ndarray:
    """Means over pieces of nearly the same length, as adaptive pooling takes them."""
    found = np.zeros((new, old))
    for at in range(new):
        first, last = at * old // new, -(-(at + 1) * old // new)
        found[at, first:last] = 1 / (last - first)
    return found


def linear(new: int, old: int, corners: bool, scale: float | None = None) -> np.ndarray:
    """Between the two nearest elements."""
    found = np.zeros((new, old))
    for at in range(new):
        if corners:
            where = at * (old - 1) / (new - 1) if new > 1 else 0.0
        else:
            where = max(0.0, (at + 0.5) * (1 / scale if scale else old / new) - 0.5)
        low = min(int(where), old - 1)
        found[at, low] += 1 - (where - low)
        found[at, min(low + 1, old - 1)] += where - low
    return found


def nearest(new: int, old: int) -> np.ndarray:
    """The number of the element that each new one takes."""
    return np.minimum((np.arange(new) * (old / new)).astype(int), old - 1)
