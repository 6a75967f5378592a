"""Convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from sim.errors import InputError
from sim.launch import TensorSpec
from sim.ops.checking import check_shape, check_word
from sim.ops.functions import wide
from sim.ops.operator import Operator

Array = np.ndarray
Pair = int | tuple[int, int]


LAYOUTS = {"OIHW": (0, 1, 2, 3), "HWIO": (3, 2, 0, 1)}
LAYOUTS_1D = {"OIW": (0, 1, 2), "WIO": (2, 1, 0)}
"""How a weight may lie, and the axes that bring it to outputs, channels and taps."""


def conv2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    weight_layout: str = "OIHW",
) -> Array:
    """x [N, C, H, W], weight [O, C / groups, kh, kw], bias [O]"""
    taps = wide(weight).transpose(LAYOUTS[weight_layout])
    size = _size("conv2d", x.shape[2:], taps.shape[2:], stride, padding, dilation)
    steps, pads, gaps = pair(stride), pair(padding), pair(dilation)
    padded = np.pad(wide(x), ((0, 0), (0, 0), (pads[0], pads[0]), (pads[1], pads[1])))
    each, outputs = taps.shape[1], taps.shape[0] // groups
    out = np.zeros((x.shape[0], taps.shape[0], *size))
    for i, j in np.ndindex(*taps.shape[2:]):
        seen = padded[(..., *_seen((i, j), steps, gaps, size))]
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
    weight_layout: str = "OIW",
) -> Array:
    """x [N, C, W], weight [O, C / groups, k], bias [O]"""
    taps = wide(weight).transpose(LAYOUTS_1D[weight_layout])
    flat = conv2d(x[:, :, None], taps[:, :, None], bias, (1, stride), (0, padding), (1, dilation), groups)
    return flat[:, :, 0]


def depthwise_conv2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
) -> Array:
    """x [N, C, H, W], weight [C, kh, kw], bias [C]"""
    return conv2d(x, weight[:, None], bias, stride, padding, dilation, x.shape[1])


def depthwise_conv1d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
) -> Array:
    """x [N, C, W], weight [C, k], bias [C]"""
    return conv1d(x, weight[:, None], bias, stride, padding, dilation, x.shape[1])


def conv2d_input_gradient(
    dout: Array, weight: Array, size: tuple[int, int], stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1
) -> Array:
    """dout [N, O, H', W'], weight [O, C, kh, kw]: dx [N, C, H, W]"""
    steps, pads, gaps = pair(stride), pair(padding), pair(dilation)
    back, taps = wide(dout), wide(weight)
    reach = [max(size[at] + pads[at], (dout.shape[2 + at] - 1) * steps[at] + gaps[at] * (taps.shape[2 + at] - 1) + 1)
             for at in range(2)]  # fmt: skip
    padded = np.zeros((dout.shape[0], taps.shape[1], *reach))
    for i, j in np.ndindex(*taps.shape[2:]):
        padded[(..., *_seen((i, j), steps, gaps, dout.shape[2:]))] += np.einsum("nohw,oc->nchw", back, taps[:, :, i, j])
    return padded[:, :, pads[0] : pads[0] + size[0], pads[1] : pads[1] + size[1]]


def conv2d_weight_gradient(
    dout: Array, x: Array, taps: tuple[int, int], stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1
) -> Array:
    """dout [N, O, H', W'], x [N, C, H, W]: dweight [O, C, kh, kw]"""
    steps, pads, gaps = pair(stride), pair(padding), pair(dilation)
    padded = np.pad(wide(x), ((0, 0), (0, 0), (pads[0], pads[0]), (pads[1], pads[1])))
    found = np.zeros((dout.shape[1], x.shape[1], *taps))
    for i, j in np.ndindex(*taps):
        seen = padded[(..., *_seen((i, j), steps, gaps, dout.shape[2:]))]
        found[:, :, i, j] = np.einsum("nohw,nchw->oc", wide(dout), seen)
    return found


def _seen(tap: tuple[int, int], steps: Pair, gaps: Pair, size: Any) -> tuple[slice, slice]:
    """Where one tap reads."""
    first = [tap[at] * gaps[at] for at in range(2)]
    rows, columns = (slice(first[at], first[at] + (size[at] - 1) * steps[at] + 1, steps[at]) for at in range(2))
    return rows, columns


def pair(value: Pair) -> tuple[int, int]:
    """One number stands for both axes of an image."""
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _size(name: str, image: Any, taps: Any, stride: Pair, padding: Pair, dilation: Pair) -> tuple[int, ...]:
    found = []
    for extent, tap, step, pad, gap in zip(image, taps, pair(stride), pair(padding), pair(dilation)):
        reach = gap * (tap - 1) + 1
        if step < 1 or gap < 1 or pad < 0 or extent + 2 * pad < reach:
            raise InputError(f"{name}: {tap} taps {gap} apart do not fit into {extent} with padding {pad}")
        found.append((extent + 2 * pad - reach) // step + 1)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Kind:
    """One of the four operators: what its results are, and how much work."""

    name: str
    axes: int
    depthwise: bool = False

    def outputs(
        self,
        x: TensorSpec,
        weight: TensorSpec,
        bias: TensorSpec | None = None,
        stride: Pair = 1,
        padding: Pair = 0,
        dilation: Pair = 1,
        groups: int = 1,
        weight_layout: str | None = None,
    ) -> tuple[TensorSpec, ...]:
        check_shape(self.name, "x", x, ("N", "C", "H", "W") if self.axes == 2 else ("N", "C", "W"))
        outputs, channels, taps = self.cut(x, weight, groups, weight_layout)
        if self.depthwise:
            groups = x.shape[1]
        if x.shape[1] % groups or outputs % groups or channels != x.shape[1] // groups:
            fault = f"{self.name}: weight: {channels} channels for {x.shape[1]} of x in {groups} groups"
            raise InputError(fault)
        if bias is not None:
            check_shape(self.name, "bias", bias, (outputs,))
        image = x.shape[2:]
        if self.axes == 1:
            image, taps, stride, padding, dilation = (1, *image), (1, *taps), (1, stride), (0, padding), (1, dilation)
        size = _size(self.name, image, taps, stride, padding, dilation)
        return (TensorSpec((x.shape[0], outputs, *size[2 - self.axes :]), x.dtype),)

    def cut(
        self, x: TensorSpec, weight: TensorSpec, groups: int, layout: str | None
    ) -> tuple[int, int, tuple[int, ...]]:
        """Outputs, channels of a group, and taps of a weight."""
        if self.depthwise:
            check_shape(self.name, "weight", weight, (x.shape[1], "kh", "kw")[: 1 + self.axes])
            return weight.shape[0], 1, weight.shape[1:]
        known = LAYOUTS if self.axes == 2 else LAYOUTS_1D
        layout = next(iter(known)) if layout is None else layout
        check_word(self.name, "weight_layout", layout, known)
        check_shape(self.name, "weight", weight, tuple(layout))
        if groups > 1 and layout != next(iter(known)):
            raise InputError(f"{self.name}: weight_layout: {layout} with {groups} groups", remedy=next(iter(known)))
        outputs, channels, *taps = (weight.shape[axis] for axis in known[layout])
        return outputs, channels, tuple(taps)

    def flops(self, x: TensorSpec, weight: TensorSpec, bias: TensorSpec | None = None, **scalars: Any) -> int:
        """Two for each tap, channel and result."""
        (out,) = self.outputs(x, weight, bias, **scalars)
        _, channels, taps = self.cut(x, weight, scalars.get("groups", 1), scalars.get("weight_layout"))
        return prod(out.shape) * (2 * channels * prod(taps) + (bias is not None))


def _input_outputs(
    dout: TensorSpec,
    weight: TensorSpec,
    size: tuple[int, int],
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
) -> tuple[TensorSpec, ...]:
    name = "conv2d_input_gradient"
    check_shape(name, "weight", weight, ("O", "C", "kh", "kw"))
    expected = _size(name, size, weight.shape[2:], stride, padding, dilation)
    check_shape(name, "dout", dout, ("N", weight.shape[0], *expected))
    return (TensorSpec((dout.shape[0], weight.shape[1], *size), dout.dtype),)


def _weight_outputs(
    dout: TensorSpec, x: TensorSpec, taps: tuple[int, int], stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1
) -> tuple[TensorSpec, ...]:
    name = "conv2d_weight_gradient"
    check_shape(name, "x", x, ("N", "C", "H", "W"))
    expected = _size(name, x.shape[2:], taps, stride, padding, dilation)
    check_shape(name, "dout", dout, (x.shape[0], "O", *expected))
    return (TensorSpec((dout.shape[1], x.shape[1], *taps), dout.dtype),)


def _input_flops(dout: TensorSpec, weight: TensorSpec, *_: Any, **__: Any) -> int:
    """Two for each element of dout, channel and tap."""
    return 2 * prod(dout.shape) * prod(weight.shape[1:])


def _weight_flops(dout: TensorSpec, x: TensorSpec, taps: tuple[int, int], **_: Any) -> int:
    return 2 * prod(dout.shape) * x.shape[1] * prod(taps)


GRADIENTS = (
    Operator("conv2d_input_gradient", "convolution.py", conv2d_input_gradient, _input_outputs, _input_flops),
    Operator(
        "conv2d_weight_gradient", "convolution_gradient.py", conv2d_weight_gradient, _weight_outputs, _weight_flops
    ),
)
KINDS = (
    (conv1d, _Kind("conv1d", 1)),
    (conv2d, _Kind("conv2d", 2)),
    (depthwise_conv1d, _Kind("depthwise_conv1d", 1, depthwise=True)),
    (depthwise_conv2d, _Kind("depthwise_conv2d", 2, depthwise=True)),
)
OPERATORS = (
    *(Operator(kind.name, "convolution.py", reference, kind.outputs, kind.flops) for reference, kind in KINDS),
    *GRADIENTS,
)
