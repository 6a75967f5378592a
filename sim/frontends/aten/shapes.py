"""Operators that make tensors, or put their elements in other places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from sim.frontends.builder import Builder, Number
from sim.frontends.ir import Value


def same(b: Builder, specs: list, x: Value, *_: Any, **__: Any) -> Value:
    return x


def view(b: Builder, specs: list, x: Value, *_: Any, **__: Any) -> Value:
    return b.reshape(x, specs[0][0])


def expand(b: Builder, specs: list, x: Value, *_: Any, **__: Any) -> Value:
    return b.expand(x, specs[0][0])


def permute(b: Builder, specs: list, x: Value, axes: Sequence[int]) -> Value:
    return b.transpose(x, axes)


def bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """As Python counts them."""
    start, end, _ = slice(start, end).indices(size)
    return start, max(start, end)


def sliced(b: Builder, specs: list, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    return b.part(x, dim % x.rank, *bounds(x.shape[dim], start, end), step)


def select(b: Builder, specs: list, x: Value, dim: int, index: int) -> Value:
    at = index % x.shape[dim]
    return b.reshape(b.part(x, dim % x.rank, at, at + 1), specs[0][0])


def split(b: Builder, specs: list, x: Value, sizes: Sequence[int], dim: int = 0) -> list[Value]:
    ends = np.cumsum(sizes)
    return [b.part(x, dim % x.rank, int(end - size), int(end)) for size, end in zip(sizes, ends)]


def cat(b: Builder, specs: list, values: Sequence[Value], dim: int = 0) -> Value:
    kept = [b.cast(one, specs[0][1]) for one in values if one.shape != (0,)]
    return b.concat(kept, dim)


def stack(b: Builder, specs: list, values: Sequence[Value], dim: int = 0) -> Value:
    dim %= values[0].rank + 1
    shape = [*values[0].shape[:dim], 1, *values[0].shape[dim:]]
    return b.concat([b.reshape(one, shape) for one in values], dim)


def full(b: Builder, specs: list, size: Any, number: Number = 0, *_: Any, **__: Any) -> Value:
    return b.full(specs[0][0], number, specs[0][1])


def filled(number: Number) -> Callable[..., Value]:
    """A tensor of one number; of an empty one no value is promised."""
    return lambda b, specs, *_, **__: b.full(specs[0][0], number, specs[0][1])


def arange(b: Builder, specs: list, *given: Number, **_: Any) -> Value:
    start, stop, step = (0, given[0], 1) if len(given) == 1 else (*given, 1)[:3]
    return b.constant(np.arange(start, stop, step)[: specs[0][0][0]], specs[0][1])


def pad(b: Builder, specs: list, x: Value, sizes: Sequence[int], value: Number = 0) -> Value:
    low, high = [0] * x.rank, [0] * x.rank
    for at in range(len(sizes) // 2):
        low[x.rank - 1 - at], high[x.rank - 1 - at] = sizes[2 * at], sizes[2 * at + 1]
    return b.pad(x, low, high, value)


def edges(reflect: bool) -> Callable[..., Value]:
    """Each padded axis from its own elements: mirrored, or the last one again."""

    def rule(b: Builder, specs: list, x: Value, sizes: Sequence[int]) -> Value:
        for at in range(len(sizes) // 2):
            axis, size = x.rank - 1 - at, x.shape[x.rank - 1 - at]
            before, behind = sizes[2 * at], sizes[2 * at + 1]
            if reflect:
                front = b.reverse(b.part(x, axis, 1, 1 + before), [axis])
                back = b.reverse(b.part(x, axis, size - 1 - behind, size - 1), [axis])
            else:
                front = _repeated(b, b.part(x, axis, 0, 1), axis, before)
                back = _repeated(b, b.part(x, axis, size - 1, size), axis, behind)
            x = b.concat([front, x, back] if before and behind else [front, x] if before else [x, back], axis)
        return x

    return rule


def _repeated(b: Builder, x: Value, axis: int, times: int) -> Value:
    return b.expand(x, [times if at == axis else size for at, size in enumerate(x.shape)])


def repeat(b: Builder, specs: list, x: Value, times: Sequence[int]) -> Value:
    """[a, b] repeated as [n, a, m, b]"""
    shape = (1,) * (len(times) - x.rank) + x.shape
    ones = [one for size in shape for one in (1, size)]
    many = [one for count, size in zip(times, shape) for one in (count, size)]
    return b.reshape(b.expand(b.reshape(x, ones), many), specs[0][0])


def diagonal(b: Builder, specs: list, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The two axes last and as one, of which every (columns + 1)th element is on the diagonal."""
    dim1, dim2 = dim1 % x.rank, dim2 % x.rank
    rest = [at for at in range(x.rank) if at not in (dim1, dim2)]
    moved = b.transpose(x, [*rest, dim1, dim2])
    rows, columns = moved.shape[-2:]
    flat = b.reshape(moved, (*moved.shape[:-2], rows * columns))
    start = offset if offset >= 0 else -offset * columns
    count = specs[0][0][-1]
    return b.part(flat, flat.rank - 1, start, start + (count - 1) * (columns + 1) + 1 if count else start, columns + 1)


def slice_scatter(
    b: Builder, specs: list, x: Value, src: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    """What lies before, what is put in, and what lies behind; with steps, by a mask."""
    dim %= x.rank
    first, last = bounds(x.shape[dim], start, end)
    if step == 1:
        return b.concat([b.part(x, dim, 0, first), src, b.part(x, dim, last, x.shape[dim])], dim)
    places = list(range(first, last, step))
    low, gap = [0] * x.rank, [0] * x.rank
    high = [0] * x.rank
    low[dim], gap[dim], high[dim] = first, step - 1, x.shape[dim] - 1 - places[-1]
    mask = np.zeros([x.shape[at] if at == dim else 1 for at in range(x.rank)], bool)
    np.moveaxis(mask, dim, 0)[places] = True
    return b.map("select", b.constant(mask, "bool"), b.pad(b.cast(src, x.dtype), low, high, 0, gap), x)


def select_scatter(b: Builder, specs: list, x: Value, src: Value, dim: int, index: int) -> Value:
    at = index % x.shape[dim]
    shape = [1 if axis == dim % x.rank else size for axis, size in enumerate(x.shape)]
    return slice_scatter(b, specs, x, b.reshape(src, shape), dim, at, at + 1)


def as_strided(b: Builder, specs: list, x: Value, size: Sequence[int], stride: Sequence[int], offset: int = 0) -> Value:
    """Elements by their addresses, which are known."""
    places = np.full((), offset or 0)
    for extent, step in zip(size, stride):
        places = places[..., None] + np.arange(extent) * step
    flat = b.reshape(x, (x.size, 1))
    return b.reshape(b.gather(flat, b.constant(places.reshape(-1), "int32")), specs[0][0])


def copied(b: Builder, specs: list, x: Value, src: Value, *_: Any) -> Value:
    return b.expand(b.cast(src, x.dtype), x.shape)


def scalar(b: Builder, specs: list, number: Number, **_: Any) -> Value:
    return b.constant(number, specs[0][1])


def unfold(b: Builder, specs: list, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows along one axis, their elements last."""
    dim %= x.rank
    count = specs[0][0][dim]
    parts = [b.part(x, dim, at, at + (count - 1) * step + 1, step) for at in range(size)]
    shape = (*parts[0].shape, 1)
    return b.concat([b.reshape(one, shape) for one in parts], x.rank)


def roll(b: Builder, specs: list, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    if not dims:
        return b.reshape(roll(b, specs, b.reshape(x, (prod(x.shape),)), shifts, [0]), x.shape)
    for shift, dim in zip(shifts, dims):
        cut = -shift % x.shape[dim]
        if cut:
            x = b.concat([b.part(x, dim % x.rank, cut, x.shape[dim]), b.part(x, dim % x.rank, 0, cut)], dim)
    return x


RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("clone", "alias", "detach", "contiguous", "lift_fresh_copy", "detach_", "lift_fresh"), same),
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "squeeze", "unsqueeze", "view_copy", "flatten"), view),
    "expand": expand, "permute": permute, "slice": sliced, "select": select, "split_with_sizes": split,
    "cat": cat, "stack": stack, "full": full, "full_like": full, "fill": full, "repeat": repeat,
    "t": lambda b, specs, x: b.swapped(x, 0, 1) if x.rank > 1 else x,
    "transpose": lambda b, specs, x, one, other: b.swapped(x, one, other),
    "empty": filled(0), "empty_strided": filled(0), "zeros": filled(0), "zeros_like": filled(0),
    "ones": filled(1), "ones_like": filled(1), "empty_like": filled(0), "new_zeros": filled(0),
    "new_ones": filled(1), "new_full": full, "new_empty": filled(0), "new_empty_strided": filled(0),
    "empty_permuted": filled(0),
    "arange": arange, "constant_pad_nd": pad,
    **{f"reflection_pad{n}d": edges(True) for n in (1, 2, 3)},
    **{f"replication_pad{n}d": edges(False) for n in (1, 2, 3)},
    "flip": lambda b, specs, x, axes: b.reverse(x, axes), "diagonal": diagonal, "slice_scatter": slice_scatter,
    "select_scatter": select_scatter, "as_strided": as_strided, "copy": copied, "scalar_tensor": scalar,
    "unfold": unfold, "roll": roll,
}  # fmt: skip
