"""Convolutions, pools, and resampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sim.frontends.builder import Builder
from sim.frontends.ir import Value
from sim.frontends.windows import (
    Window,
    averages,
    convolve,
    input_gradient,
    largest,
    linear,
    nearest,
    places,
    pool,
    put_back,
    resampled,
    weight_gradient,
)

Sizes = Sequence[int]


def many(sizes: int | Sizes, rank: int) -> tuple[int, ...]:
    """A size for every axis."""
    given = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return given * rank if len(given) == 1 else given


def window_of(w: Value, stride: Sizes, padding: Sizes, dilation: Sizes) -> Window:
    rank = w.rank - 2
    low = many(padding, rank)
    return Window(w.shape[2:], many(stride, rank), low, low, many(dilation, rank))


def convolution(
    b: Builder, specs: list, x: Value, w: Value, bias: Value | None, stride: Sizes, padding: Sizes, dilation: Sizes,
    transposed: bool, output_padding: Sizes, groups: int,
) -> Value:  # fmt: skip
    window = window_of(w, stride, padding, dilation)
    if x.rank < w.rank:
        one = convolution(b, [((1, *specs[0][0]), specs[0][1])], b.reshape(x, (1, *x.shape)), w, bias, stride, padding,
                          dilation, transposed, output_padding, groups)  # fmt: skip
        return b.reshape(one, specs[0][0])
    if not transposed:
        return convolve(b, x, w, window, groups, bias=bias)
    out = input_gradient(b, x, w, window, groups, specs[0][0][2:])
    return out if bias is None else b.map("add", out, b.reshape(bias, (1, bias.size, *[1] * window.rank)))


def convolution_backward(
    b: Builder, specs: list, dy: Value, x: Value, w: Value, bias_sizes: Any, stride: Sizes, padding: Sizes,
    dilation: Sizes, transposed: bool, output_padding: Sizes, groups: int, mask: Sequence[bool],
) -> tuple[Value | None, ...]:  # fmt: skip
    window = window_of(w, stride, padding, dilation)
    if transposed:
        dx = convolve(b, dy, w, window, groups) if mask[0] else None
        dw = weight_gradient(b, x, dy, window, groups) if mask[1] else None
    else:
        dx = input_gradient(b, dy, w, window, groups, x.shape[2:]) if mask[0] else None
        dw = weight_gradient(b, dy, x, window, groups) if mask[1] else None
    axes = [at for at in range(dy.rank) if at != 1]
    return dx, dw, b.reduce("sum", dy, axes) if mask[2] else None


def pool_window(x: Value, rank: int, size: Sizes, stride: Sizes, padding: Any, dilation: Any, ceil: bool) -> Window:
    """With a ceiling, as many places more as begin inside what is padded before."""
    size = many(size, rank)
    stride, low, gap = many(stride or size, rank), many(padding, rank), many(dilation, rank)
    high = list(low)
    for at, extent in enumerate(x.shape[x.rank - rank :]):
        span = extent + 2 * low[at] - gap[at] * (size[at] - 1) - 1
        if ceil and span % stride[at] and (span // stride[at] + 1) * stride[at] < extent + low[at]:
            high[at] += stride[at] - span % stride[at]
    return Window(size, stride, low, tuple(high), gap)


def images(b: Builder, x: Value, rank: int) -> Value:
    """[N, C, …], with 1 for what is not there."""
    return b.reshape(x, (1,) * (rank + 2 - x.rank) + x.shape)


def max_pool(rank: int) -> Callable[..., Any]:
    def rule(
        b: Builder, specs: list, x: Value, size: Sizes, stride: Sizes = (), padding: Any = 0, dilation: Any = 1,
        ceil: bool = False,
    ) -> tuple[Value, Value]:  # fmt: skip
        given = images(b, x, rank)
        best, number = largest(b, given, pool_window(given, rank, size, stride, padding, dilation, ceil))
        return b.reshape(best, specs[0][0]), b.reshape(number, specs[0][0])

    return rule


def max_pool_backward(rank: int) -> Callable[..., Value]:
    def rule(
        b: Builder, specs: list, dy: Value, x: Value, size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes,
        ceil: bool, numbers: Value,
    ) -> Value:  # fmt: skip
        given, dy, numbers = (images(b, one, rank) for one in (x, dy, numbers))
        window = pool_window(given, rank, size, stride, padding, dilation, ceil)
        counts, extents = dy.shape[2:], given.shape[2:]
        zero = b.constant(0, dy.dtype)

        def parts() -> Any:
            for offset in window.offsets():
                here = b.constant(places(window, extents, offset, counts), "int32")
                yield offset, b.map("select", b.map("equal", numbers, here), dy, zero)

        return b.reshape(put_back(b, parts(), window, extents), x.shape)

    return rule


def _shares(window: Window, extents: Sizes, counts: Sizes, padded: bool, divisor: int | None) -> np.ndarray:
    """What the sum of each window is multiplied with."""
    found = np.ones(())
    if divisor:
        return np.full((1,) * len(extents), 1 / divisor)
    for at, extent in enumerate(extents):
        starts = np.arange(counts[at]) * window.stride[at] - window.low[at]
        ends = np.minimum(starts + window.size[at], extent + (window.low[at] if padded else 0))
        starts = starts if padded else np.maximum(starts, 0)
        found = found[..., None] / (ends - starts)
    return found


def avg_pool(rank: int) -> Callable[..., Value]:
    def rule(
        b: Builder, specs: list, x: Value, size: Sizes, stride: Sizes = (), padding: Any = 0, ceil: bool = False,
        padded: bool = True, divisor: int | None = None,
    ) -> Value:  # fmt: skip
        window = pool_window(x, rank, size, stride, padding, 1, ceil)
        extents = x.shape[x.rank - rank :]
        shares = _shares(window, extents, window.count(extents), padded, divisor)
        if x.rank == 4 and rank == 2 and window.is_even and divisor is None and (padded or not any(window.low)):
            how = {"window": window.size, "stride": window.stride, "padding": window.low}
            return b.add("avg_pool2d", [x], specs[0], **how)
        total = pool(b, "add", x, window)
        if shares.size and (shares == shares.reshape(-1)[0]).all():
            return b.map("mul", total, float(shares.reshape(-1)[0]))
        return b.map("mul", total, b.constant(shares, x.dtype))

    return rule


def avg_pool_backward(
    b: Builder, specs: list, dy: Value, x: Value, size: Sizes, stride: Sizes, padding: Sizes, ceil: bool,
    padded: bool, divisor: int | None = None,
) -> Value:  # fmt: skip
    window = pool_window(x, 2, size, stride, padding, 1, ceil)
    extents = x.shape[x.rank - 2 :]
    shares = b.constant(_shares(window, extents, dy.shape[dy.rank - 2 :], padded, divisor), x.dtype)
    each = b.map("mul", dy, shares)
    return put_back(b, ((offset, each) for offset in window.offsets()), window, extents)


def adaptive(rank: int) -> Callable[..., Value]:
    """Means of pieces of nearly the same length, as a product with a matrix for each axis."""

    def rule(b: Builder, specs: list, x: Value, sizes: Sizes) -> Value:
        for at, new in enumerate(many(sizes, rank)):
            axis = x.rank - rank + at
            if new == 1:
                x = b.reduce("mean", x, [axis], keep=True)
            elif new != x.shape[axis]:
                x = resampled(b, x, axis, averages(new, x.shape[axis]))
        return x

    return rule


def adaptive_backward(b: Builder, specs: list, dy: Value, x: Value) -> Value:
    for axis in (x.rank - 2, x.rank - 1):
        dy = resampled(b, dy, axis, averages(dy.shape[axis], x.shape[axis]).T)
    return dy


def upsample_nearest(b: Builder, specs: list, x: Value, *_: Any, **__: Any) -> Value:
    """Elements repeated, or taken by number where the factor is no whole one."""
    shape = specs[0][0]
    if x.rank == 4 and not any(new % old for new, old in zip(shape[2:], x.shape[2:])):
        return b.add("upsample", [x], specs[0], scale=tuple(new // old for new, old in zip(shape[2:], x.shape[2:])))
    for axis in range(2, x.rank):
        old, new = x.shape[axis], shape[axis]
        if new == old:
            continue
        if new % old == 0:
            apart = b.reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
            wide = b.expand(apart, (*x.shape[: axis + 1], new // old, *x.shape[axis + 1 :]))
            x = b.reshape(wide, (*x.shape[:axis], new, *x.shape[axis + 1 :]))
        else:
            first = [axis, *(at for at in range(x.rank) if at != axis)]
            rows = b.gather(b.transpose(x, first), b.constant(nearest(new, old), "int32"))
            x = b.transpose(rows, np.argsort(first).tolist())
    return x


def upsample_linear(b: Builder, specs: list, x: Value, size: Any, corners: bool, *scales: Any) -> Value:
    factors = scales[0] if scales and isinstance(scales[0], Sequence) else scales
    given = list(factors) if factors and size is None else [None] * (x.rank - 2)
    for at, axis in enumerate(range(2, x.rank)):
        matrix = linear(specs[0][0][axis], x.shape[axis], corners, given[at])
        x = resampled(b, x, axis, matrix)
    return x


RULES: dict[str, Callable[..., Any]] = {
    "convolution": convolution, "convolution_backward": convolution_backward,
    "max_pool2d_with_indices": max_pool(2), "max_pool3d_with_indices": max_pool(3),
    "max_pool2d_with_indices_backward": max_pool_backward(2),
    "avg_pool1d": avg_pool(1), "avg_pool2d": avg_pool(2), "avg_pool3d": avg_pool(3),
    "avg_pool2d_backward": avg_pool_backward,
    "adaptive_avg_pool1d": adaptive(1), "_adaptive_avg_pool2d": adaptive(2), "_adaptive_avg_pool3d": adaptive(3),
    "_adaptive_avg_pool2d_backward": adaptive_backward,
    **{f"upsample_nearest{n}d": upsample_nearest for n in (1, 2, 3)},
    **{f"upsample_{name}": upsample_linear for name in ("linear1d", "bilinear2d", "trilinear3d")},
}  # fmt: skip
