"""Pooling and upsampling of images."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_shape
from sim.ops.definitions.convolution import Pair, pair
from sim.ops.functions import wide
from sim.ops.operator import Operator

Array = np.ndarray


def _windows(x: Array, window: Pair, stride: Pair | None, padding: Pair, around: float) -> Array:
    """[N, C, H', W', kh, kw]"""
    taps, pads = pair(window), pair(padding)
    steps = pair(window if stride is None else stride)
    around_it = ((0, 0), (0, 0), (pads[0], pads[0]), (pads[1], pads[1]))
    padded = np.pad(wide(x), around_it, constant_values=around)
    seen = np.lib.stride_tricks.sliding_window_view(padded, taps, axis=(2, 3))
    return seen[:, :, :: steps[0], :: steps[1]]


def max_pool2d(x: Array, window: Pair = 2, stride: Pair | None = None, padding: Pair = 0) -> Array:
    """x [N, C, H, W]"""
    return _windows(x, window, stride, padding, -np.inf).max(axis=(4, 5))


def avg_pool2d(x: Array, window: Pair = 2, stride: Pair | None = None, padding: Pair = 0) -> Array:
    """x [N, C, H, W]; zeros around the image are counted"""
    return _windows(x, window, stride, padding, 0).mean(axis=(4, 5))


def upsample(x: Array, scale: Pair = 2) -> Array:
    """x [N, C, H, W]"""
    down, across = pair(scale)
    return wide(x).repeat(down, axis=2).repeat(across, axis=3)


def _pooled(name: str) -> Callable[..., tuple[TensorSpec, ...]]:
    def outputs(
        x: TensorSpec, window: Pair = 2, stride: Pair | None = None, padding: Pair = 0
    ) -> tuple[TensorSpec, ...]:
        check_shape(name, "x", x, ("N", "C", "H", "W"))
        size = []
        given = pair(window if stride is None else stride)
        for extent, tap, step, pad in zip(x.shape[2:], pair(window), given, pair(padding)):
            if tap < 1 or step < 1 or extent + 2 * pad < tap or not 0 <= pad <= tap // 2:
                raise InputError(f"{name}: windows of {tap}, {step} apart, do not fit into {extent} with padding {pad}")
            size.append((extent + 2 * pad - tap) // step + 1)
        return (TensorSpec((*x.shape[:2], *size), x.dtype),)

    return outputs


def _upsampled(x: TensorSpec, scale: Pair = 2) -> tuple[TensorSpec, ...]:
    check_shape("upsample", "x", x, ("N", "C", "H", "W"))
    down, across = pair(scale)
    if down < 1 or across < 1:
        raise InputError(f"upsample: scale: {scale}, must be 1 or more")
    return (TensorSpec((*x.shape[:2], x.shape[2] * down, x.shape[3] * across), x.dtype),)


def _each_window(outputs: Callable[..., tuple[TensorSpec, ...]]) -> Callable[..., int]:
    """One operation for each element of each window."""

    def count(x: TensorSpec, window: Pair = 2, **scalars: Any) -> int:
        return prod(outputs(x, window, **scalars)[0].shape) * prod(pair(window))

    return count


OPERATORS = (
    *(
        Operator(name, "pooling.py", reference, _pooled(name), _each_window(_pooled(name)))
        for name, reference in (("max_pool2d", max_pool2d), ("avg_pool2d", avg_pool2d))
    ),
    Operator("upsample", "pooling.py", upsample, _upsampled, lambda x, **scalars: 0),
)
