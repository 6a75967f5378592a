"""Norms, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from sim.frontends.aten.reductions import spread
from sim.frontends.builder import Builder
from sim.frontends.ir import Value


def layer_norm(
    b: Builder, specs: list, x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """The operator where it has both vectors; mean and 1 / deviation in parts, for who asks."""
    axes = list(range(x.rank - len(shape), x.rank))
    rows, width = prod(x.shape[: axes[0]]), prod(shape)
    wide = x if not x.is_float or x.dtype == "fp32" else b.cast(x, "fp32")
    found, mean = spread(b, wide, axes, 0, True)
    scale = b.map("rsqrt", b.map("add", found, eps))
    weight = weight if weight is not None else b.full((width,), 1, x.dtype)
    bias = bias if bias is not None else b.full((width,), 0, x.dtype)
    vectors = [b.reshape(one, (width,)) for one in (weight, bias)]
    flat = b.reshape(x, (rows, width))
    out = b.add("layernorm", [flat, *vectors], (flat.shape, x.dtype), eps=eps)
    b.notes[scale] = eps
    return b.reshape(out, x.shape), mean, scale


def layer_norm_backward(
    b: Builder,
    specs: list,
    dy: Value,
    x: Value,
    shape: Sequence[int],
    mean: Value,
    scale: Value,
    weight: Value | None,
    bias: Value | None,
    mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """dx, dweight, dbias"""
    axes = list(range(x.rank - len(shape), x.rank))
    outer = list(range(axes[0]))
    if scale in b.notes and weight is not None and all(mask):
        flat, width = (prod(x.shape[: axes[0]]), prod(shape)), prod(shape)
        given = [b.reshape(one, size) for one, size in ((x, flat), (weight, (width,)), (dy, flat))]
        grads = [(flat, x.dtype), *[((width,), weight.dtype)] * 2]
        found = b.add("layernorm_backward", given, *grads, eps=b.notes[scale])
        return tuple(b.reshape(one, size) for one, size in zip(found, (x.shape, weight.shape, weight.shape)))
    normal = b.map("mul", b.map("sub", x, b.cast(mean, x.dtype)), b.cast(scale, x.dtype))
    gradient = b.map("mul", dy, weight) if weight is not None else dy
    along = b.reduce("mean", b.map("mul", gradient, normal), axes, keep=True)
    even = b.map("sub", gradient, b.reduce("mean", gradient, axes, keep=True))
    less = b.map("sub", even, b.map("mul", normal, along))
    dx = b.map("mul", less, b.cast(scale, x.dtype)) if mask[0] else None
    dweight = b.reduce("sum", b.map("mul", dy, normal), outer) if mask[1] else None
    return dx, dweight, b.reduce("sum", dy, outer) if mask[2] else None


def group_norm(
    b: Builder, specs: list, x: Value, weight: Value | None, bias: Value | None, n: int, c: int, hw: int, groups: int,
    eps: float,
) -> tuple[Value, Value, Value]:  # fmt: skip
    flat = b.reshape(x, (n, groups, c // groups * hw))
    found, mean = spread(b, flat, [2], 0, True)
    scale = b.map("rsqrt", b.map("add", found, eps))
    weight = weight if weight is not None else b.full((c,), 1, x.dtype)
    bias = bias if bias is not None else b.full((c,), 0, x.dtype)
    out = b.add("group_norm", [x, weight, bias], (x.shape, x.dtype), groups=groups, eps=eps)
    given = b.reshape(scale, (n, groups))
    b.notes[given] = eps
    return out, b.reshape(mean, (n, groups)), given


def group_norm_backward(
    b: Builder, specs: list, dy: Value, x: Value, mean: Value, scale: Value, weight: Value | None, n: int, c: int,
    hw: int, groups: int, mask: Sequence[bool],
) -> tuple[Value | None, ...]:  # fmt: skip
    if scale in b.notes and weight is not None and all(mask):
        grads = [(x.shape, x.dtype), *[((c,), weight.dtype)] * 2]
        return b.add("group_norm_backward", [x, weight, dy], *grads, groups=groups, eps=b.notes[scale])
    parts = (n, groups, c // groups, hw)
    each = (n, groups, 1, 1)
    normal = b.map("mul", b.map("sub", b.reshape(x, parts), b.reshape(mean, each)), b.reshape(scale, each))
    given = b.reshape(dy, parts)
    gradient = given
    if weight is not None:
        gradient = b.map("mul", given, b.reshape(weight, (1, groups, c // groups, 1)))
    along = b.reduce("mean", b.map("mul", gradient, normal), [2, 3], keep=True)
    less = b.map("sub", b.map("sub", gradient, b.reduce("mean", gradient, [2, 3], keep=True)),
                 b.map("mul", normal, along))  # fmt: skip
    dx = b.reshape(b.map("mul", less, b.reshape(scale, each)), x.shape) if mask[0] else None
    summed = b.reduce("sum", b.map("mul", given, normal), [0, 3]) if mask[1] else None
    dweight = b.reshape(summed, (c,)) if summed is not None else None
    return dx, dweight, b.reshape(b.reduce("sum", given, [0, 3]), (c,)) if mask[2] else None


def _channels(b: Builder, x: Value, vector: Value) -> Value:
    return b.reshape(vector, (1, x.shape[1], *[1] * (x.rank - 2)))


def batch_norm(b: Builder, x: Value, weight: Any, bias: Any, mean: Value, scale: Value) -> Value:
    """(x - mean) scale weight + bias, by channels"""
    found = b.map("mul", b.map("sub", x, _channels(b, x, mean)), _channels(b, x, scale))
    if weight is not None:
        found = b.map("mul", found, _channels(b, x, weight))
    return found if bias is None else b.map("add", found, _channels(b, x, bias))


def batch_norm_inference(
    b: Builder, specs: list, x: Value, weight: Any, bias: Any, mean: Value, variance: Value, momentum: float, eps: float
) -> tuple[Value, Value, Value]:
    scale = b.map("rsqrt", b.map("add", variance, eps))
    none = b.full((0,), 0, x.dtype)
    return batch_norm(b, x, weight, bias, mean, scale), none, none


def batch_norm_training(
    b: Builder, specs: list, x: Value, weight: Any, bias: Any, *given: Any
) -> tuple[Value, Value, Value]:
    """With the batch's own mean and variance; the running ones are not kept, as nothing here trains on."""
    training, eps = given[-3], given[-1]
    if len(given) == 5 and not training:
        return batch_norm_inference(b, specs, x, weight, bias, given[0], given[1], given[3], eps)
    axes = [at for at in range(x.rank) if at != 1]
    found, mean = spread(b, x, axes, 0, False)
    scale = b.map("rsqrt", b.map("add", found, eps))
    return batch_norm(b, x, weight, bias, mean, scale), mean, scale


def batch_norm_backward(
    b: Builder, specs: list, dy: Value, x: Value, weight: Value | None, mean: Any, variance: Any, kept_mean: Value,
    kept_scale: Value, training: bool, eps: float, mask: Sequence[bool],
) -> tuple[Value | None, ...]:  # fmt: skip
    """Through the batch's own mean and variance where they were used."""
    axes = [at for at in range(x.rank) if at != 1]
    if not training:
        kept_mean, kept_scale = mean, b.map("rsqrt", b.map("add", variance, eps))
    scale = _channels(b, x, kept_scale)
    normal = b.map("mul", b.map("sub", x, _channels(b, x, kept_mean)), scale)
    dweight, dbias = b.reduce("sum", b.map("mul", dy, normal), axes), b.reduce("sum", dy, axes)
    factor = scale if weight is None else b.map("mul", scale, _channels(b, x, weight))
    dx = dy
    if training:
        share = x.shape[1] / x.size
        even = b.map("mul", _channels(b, x, dbias), share)
        along = b.map("mul", normal, b.map("mul", _channels(b, x, dweight), share))
        dx = b.map("sub", b.map("sub", dy, even), along)
    found = (b.map("mul", dx, factor), dweight, dbias)
    return tuple(one if asked else None for one, asked in zip(found, mask))


def batch_norm_functional(
    b: Builder, specs: list, x: Value, weight: Any, bias: Any, mean: Value, variance: Value, training: bool,
    momentum: float, eps: float,
) -> tuple[Value, ...]:  # fmt: skip
    """The batch's own mean and variance, and the running ones as they are afterwards."""
    if not training:
        return (*batch_norm_inference(b, specs, x, weight, bias, mean, variance, momentum, eps), mean, variance)
    axes = [at for at in range(x.rank) if at != 1]
    count = x.size // x.shape[1]
    found, average = spread(b, x, axes, 0, False)
    scale = b.map("rsqrt", b.map("add", found, eps))
    own = b.map("mul", found, count / max(1, count - 1))
    kept = [b.map("add", b.map("mul", old, 1 - momentum), b.map("mul", new, momentum))
            for old, new in ((mean, average), (variance, own))]  # fmt: skip
    return batch_norm(b, x, weight, bias, average, scale), average, scale, *kept


RULES: dict[str, Callable[..., Any]] = {
    "native_layer_norm": layer_norm, "native_layer_norm_backward": layer_norm_backward,
    "native_group_norm": group_norm, "native_group_norm_backward": group_norm_backward,
    "_native_batch_norm_legit_no_training": batch_norm_inference, "native_batch_norm": batch_norm_training,
    "native_batch_norm_backward": batch_norm_backward,
    "_native_batch_norm_legit": batch_norm_training, "_native_batch_norm_legit.no_stats": batch_norm_training,
    "_native_batch_norm_legit_functional": batch_norm_functional,
}  # fmt: skip
