"""Convolutions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_shape
from sim.ops.functions import wide
from sim.ops.operator import Operator

Array = np.ndarray
Pair = int | tuple[int, int]


def conv2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Array:
    """x [N, C, H, W], weight [O, C / groups, kh, kw], bias [O]"""
    size = _size("conv2d", x.shape[2:], weight.shape[2:], stride, padding, dilation)
    steps, pads, gaps = _pair(stride), _pair(padding), _pair(dilation)
    padded = np.pad(wide(x), ((0, 0), (0, 0), (pads[0], pads[0]), (pads[1], pads[1])))
    taps = wide(weight)
    each, outputs = taps.shape[1], taps.shape[0] // groups
    out = np.zeros((x.shape[0], taps.shape[0], *size))
    for i, j in np.ndindex(*taps.shape[2:]):
        seen = padded[
            :,
            :,
            i * gaps[0] : i * gaps[0] + (size[0] - 1) * steps[0] + 1 : steps[0],
            j * gaps[1] : j * gaps[1] + (size[1] - 1) * steps[1] + 1 : steps[1],
        ]
        for group in range(groups):
            own = slice(group * outputs, (group + 1) * outputs)
            part = seen[:, group * each : (group + 1) * each]
            out[:, own] += np.einsum("nchw,oc->nohw", part, taps[own, :, i, j])
    return out if bias is None else out + wide(bias)[:, None, None]


def conv1d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Array:
    """x [N, C, W], weight [O, C / groups, k], bias [O]"""
    flat = conv2d(x[:, :, None], weight[:, :, None], bias, (1, stride), (0, padding), (1, dilation), groups)
    return flat[:, :, 0]


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _size(name: str, image: Any, taps: Any, stride: Pair, padding: Pair, dilation: Pair) -> tuple[int, ...]:
    found = []
    for extent, tap, step, pad, gap in zip(image, taps, _pair(stride), _pair(padding), _pair(dilation)):
        reach = gap * (tap - 1) + 1
        if step < 1 or gap < 1 or pad < 0 or extent + 2 * pad < reach:
            raise InputError(f"{name}: {tap} taps {gap} apart do not fit into {extent} with padding {pad}")
        found.append((extent + 2 * pad - reach) // step + 1)
    return tuple(found)


def _outputs(
    x: TensorSpec,
    weight: TensorSpec,
    bias: TensorSpec | None = None,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> tuple[TensorSpec, ...]:
    check_shape("conv2d", "x", x, ("N", "C", "H", "W"))
    check_shape("conv2d", "weight", weight, ("O", "C", "kh", "kw"))
    if x.shape[1] % groups or weight.shape[0] % groups or weight.shape[1] != x.shape[1] // groups:
        fault = f"conv2d: weight: {weight.shape[1]} channels for {x.shape[1]} of x in {groups} groups"
        raise InputError(fault)
    if bias is not None:
        check_shape("conv2d", "bias", bias, (weight.shape[0],))
    size = _size("conv2d", x.shape[2:], weight.shape[2:], stride, padding, dilation)
    return (TensorSpec((x.shape[0], weight.shape[0], *size), x.dtype),)


def _deep(spec: TensorSpec) -> TensorSpec:
    return TensorSpec((*spec.shape[:2], 1, *spec.shape[2:]), spec.dtype)


def _outputs_1d(
    x: TensorSpec,
    weight: TensorSpec,
    bias: TensorSpec | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> tuple[TensorSpec, ...]:
    check_shape("conv1d", "x", x, ("N", "C", "W"))
    check_shape("conv1d", "weight", weight, ("O", "C", "k"))
    (flat,) = _outputs(_deep(x), _deep(weight), bias, (1, stride), (0, padding), (1, dilation), groups)
    return (TensorSpec((*flat.shape[:2], flat.shape[3]), flat.dtype),)


def _flops(outputs: Any) -> Any:
    """Two for each tap, channel and result."""

    def count(x: TensorSpec, weight: TensorSpec, bias: TensorSpec | None = None, **scalars: Any) -> int:
        (out,) = outputs(x, weight, bias, **scalars)
        return 2 * prod(out.shape) * prod(weight.shape[1:]) + (prod(out.shape) if bias is not None else 0)

    return count


OPERATORS = (
    Operator("conv1d", "convolution.py", conv1d, _outputs_1d, _flops(_outputs_1d)),
    Operator("conv2d", "convolution.py", conv2d, _outputs, _flops(_outputs)),
)
