"""What looks at windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo

from sim.frontends.builder import Builder
from sim.frontends.folds import cumulative
from sim.frontends.ir import Value
from sim.frontends.stablehlo.folding import body_of, neutral
from sim.frontends.stablehlo.reading import Reader, Unwritten
from sim.frontends.windows import Window, convolve, pool, put_back


def listed(op: Any, name: str, default: Sequence[int]) -> tuple[int, ...]:
    """A list of whole numbers that may be left out."""
    return tuple(int(one) for one in op.attributes[name]) if name in op.attributes else tuple(default)


def padding_of(op: Any, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if "padding" not in op.attributes:
        return (0,) * rank, (0,) * rank
    found = np.array(op.attributes["padding"]).reshape(rank, 2)
    if op.attributes["padding"].is_splat:
        found = np.full((rank, 2), op.attributes["padding"].get_splat_value().value)
    return tuple(int(one) for one in found[:, 0]), tuple(int(one) for one in found[:, 1])


def convolution(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """[N, C, …] with [O, C, …], and back into the layout that is asked for."""
    b, (x, w) = reader.builder, inputs
    how = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    rank = x.rank - 2
    x = b.transpose(x, (how.input_batch_dimension, how.input_feature_dimension, *how.input_spatial_dimensions))
    w = b.transpose(w, (how.kernel_output_feature_dimension, how.kernel_input_feature_dimension,
                        *how.kernel_spatial_dimensions))  # fmt: skip
    if "window_reversal" in op.attributes:
        turned = [at for at, one in enumerate(op.attributes["window_reversal"]) if bool(one)]
        w = b.reverse(w, [2 + at for at in turned])
    ones = (1,) * rank
    low, high = padding_of(op, rank)
    window = Window(w.shape[2:], listed(op, "window_strides", ones), low, high, listed(op, "rhs_dilation", ones))
    gaps = [size - 1 for size in listed(op, "lhs_dilation", ones)]
    groups, batches = (int(op.attributes[name]) for name in ("feature_group_count", "batch_group_count"))
    if batches > 1:
        n, c, *extents = x.shape
        x = b.reshape(b.swapped(b.reshape(x, (batches, n // batches, c, *extents)), 0, 1),
                      (n // batches, batches * c, *extents))  # fmt: skip
        groups = batches
    out = convolve(b, x, w, window, groups, gaps)
    order = (how.output_batch_dimension, how.output_feature_dimension, *how.output_spatial_dimensions)
    return b.cast(b.transpose(out, np.argsort(order).tolist()), specs[0][1])


def reduce_window(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    if len(inputs) != 2:
        raise Unwritten("several tensors at once")
    b, (x, start), kind = reader.builder, inputs, body_of(op)
    ones = (1,) * x.rank
    if any(one != 1 for one in listed(op, "base_dilations", ones)):
        raise Unwritten("elements apart from each other")
    low, high = padding_of(op, x.rank)
    window = Window(listed(op, "window_dimensions", ones), listed(op, "window_strides", ones), low, high,
                    listed(op, "window_dilations", ones))  # fmt: skip
    if not neutral(b, kind, start, x.dtype):
        raise Unwritten("a fold that does not start with nothing")
    found = _running(b, kind, x, window)
    return found if found is not None else pool(b, kind, x, window)


def _running(b: Builder, kind: str, x: Value, window: Window) -> Value | None:
    """A window as long as an axis that sees all before, or all behind: a running fold."""
    axes = [at for at, size in enumerate(window.size) if size > 1]
    if len(axes) != 1 or window.size[axes[0]] != x.shape[axes[0]] or any(one != 1 for one in window.stride):
        return None
    (axis,) = axes
    sides = (window.low[axis], window.high[axis])
    size = x.shape[axis]
    if sides == (size - 1, 0):
        return cumulative(b, kind, x, axis)
    return cumulative(b, kind, x, axis, reverse=True) if sides == (0, size - 1) else None


def select_and_scatter(reader: Reader, op: Any, inputs: list, specs: list) -> Value:
    """What each window gives goes to its largest element, the first of equal ones: the gradient of a pool."""
    b, (x, source, start) = reader.builder, inputs
    direction = [str(one.attributes["comparison_direction"]) for one in op.regions[0].blocks[0].operations
                 if one.operation.name == "stablehlo.compare"]  # fmt: skip
    if len(direction) != 1 or not any(name in direction[0] for name in ("GE", "GT", "LE", "LT")):
        raise Unwritten("a choice that is not of the largest or smallest")
    if body_of(op, 1) != "add":
        raise Unwritten(f"a fold by {body_of(op, 1)}")
    kind = "max" if "G" in direction[0].split("<")[-1] else "min"
    ones = (1,) * x.rank
    low, high = padding_of(op, x.rank)
    window = Window(listed(op, "window_dimensions", ones), listed(op, "window_strides", ones), low, high, ones)
    best = pool(b, kind, x, window)
    filler = float("-inf") if kind == "max" else float("inf")
    padded = b.pad(x, low, high, filler)
    taken: Value | None = None
    parts = []
    for offset in window.offsets():
        stops = [at + (count - 1) * step + 1 for at, count, step in zip(offset, source.shape, window.stride)]
        here = b.map("equal", b.slice(padded, offset, stops, window.stride), best)
        fresh = here if taken is None else b.map("and", here, b.map("not", taken))
        taken = here if taken is None else b.map("or", taken, here)
        parts.append((offset, b.map("select", fresh, source, b.constant(0, source.dtype))))
    found = put_back(b, iter(parts), window, x.shape)
    return found if neutral(b, "add", start, x.dtype) else b.map("add", found, start)


RULES: dict[str, Callable[..., Any]] = {
    "convolution": convolution, "reduce_window": reduce_window, "select_and_scatter": select_and_scatter,
}  # fmt: skip
