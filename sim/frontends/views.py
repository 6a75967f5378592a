"""Values in other places: what costs nothing by itself, with NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def pad(x: Array, low: tuple, high: tuple, interior: tuple, value: float) -> Array:
    """With a number before, behind and between elements; negative sizes cut off."""
    inner = tuple(size + max(0, size - 1) * gap for size, gap in zip(x.shape, interior))
    spread = np.full(inner, value, x.dtype)
    spread[tuple(slice(None, None, gap + 1) for gap in interior)] = x
    wide = np.pad(spread, [(max(0, a), max(0, b)) for a, b in zip(low, high)], constant_values=x.dtype.type(value))
    return wide[tuple(slice(max(0, -a), size - max(0, -b)) for a, b, size in zip(low, high, wide.shape))]


def sliced(x: Array, cuts: tuple) -> Array:
    return x[tuple(slice(*cut) for cut in cuts)]


VIEWS: dict[str, Callable[..., Array]] = {
    "reshape": lambda x, shape: x.reshape(shape),
    "expand": lambda x, shape: np.broadcast_to(x, shape),
    "transpose": lambda x, axes: np.transpose(x, axes),
    "slice": sliced,
    "reverse": lambda x, axes: np.flip(x, axes),
    "pad": pad,
    "concat": lambda *parts, axis: np.concatenate(parts, axis),
    "bits": lambda x, dtype: np.ascontiguousarray(x).view(dtype),
}
