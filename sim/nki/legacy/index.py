"""Index tensors of the legacy API: `nl.arange`, `nl.mgrid`, arithmetic on them, and the masks they make.

An index tensor is kept as an affine expression of its axes for as long as the arithmetic allows, so that indexing with
it is a strided view and costs the same at any size; otherwise it becomes a dense array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.errors import InputError

Range = tuple[int, int]


class Affine:
    """const + sum(step[axis] * i[axis]), with the shape of its axes."""

    __slots__ = ("const", "shape", "steps")
    __array_ufunc__ = None

    def __init__(self, shape: tuple[int, ...], steps: tuple[int, ...], const: int = 0):
        self.shape = shape
        self.steps = steps
        self.const = const

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def dense(self) -> np.ndarray:
        """The values, int64[shape]."""
        out = np.full(self.shape, self.const, np.int64)
        for axis, (size, step) in enumerate(zip(self.shape, self.steps)):
            out += (np.arange(size) * step).reshape([-1 if a == axis else 1 for a in range(self.ndim)])
        return out

    def low_high(self) -> Range:
        """Smallest and largest value."""
        reach = [(size - 1) * step for size, step in zip(self.shape, self.steps)]
        return self.const + sum(min(0, r) for r in reach), self.const + sum(max(0, r) for r in reach)

    def __getitem__(self, key: Any) -> Affine:
        items = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in items:
            at = items.index(Ellipsis)
            missing = self.ndim - sum(item is not None for item in items) + 1
            items[at : at + 1] = [slice(None)] * missing
        items += [slice(None)] * (self.ndim - sum(item is not None for item in items))
        shape, steps, const, axis = [], [], self.const, 0
        for item in items:
            if item is None:
                shape.append(1)
                steps.append(0)
                continue
            size, step = self.shape[axis], self.steps[axis]
            axis += 1
            if isinstance(item, slice):
                first, last, stride = item.indices(size)
                shape.append(len(range(first, last, stride)))
                steps.append(step * stride)
                const += first * step
            else:
                const += (int(item) % size) * step
        return Affine(tuple(shape), tuple(steps), const)

    def reshape(self, *shape: Any) -> Any:
        return self.dense().reshape(*shape)

    def _pair(self, other: Any, sign: int) -> Any:
        if isinstance(other, (int, np.integer)):
            return Affine(self.shape, self.steps, self.const + sign * int(other))
        if not isinstance(other, Affine):
            return None
        ndim = max(self.ndim, other.ndim)
        a, b = _padded(self, ndim), _padded(other, ndim)
        shape = np.broadcast_shapes(a.shape, b.shape)
        steps = tuple(
            (x if m > 1 or n == 1 else 0) + sign * (y if n > 1 or m == 1 else 0)
            for x, y, m, n in zip(a.steps, b.steps, a.shape, b.shape)
        )
        return Affine(shape, steps, a.const + sign * b.const)

    def __add__(self, other: Any) -> Any:
        result = self._pair(other, 1)
        return self.dense() + _dense(other) if result is None else result

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        result = self._pair(other, -1)
        return self.dense() - _dense(other) if result is None else result

    def __rsub__(self, other: Any) -> Any:
        return (self * -1) + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (int, np.integer)):
            return Affine(self.shape, tuple(int(other) * step for step in self.steps), int(other) * self.const)
        return self.dense() * _dense(other)

    __rmul__ = __mul__

    def __neg__(self) -> Affine:
        return self * -1

    def __floordiv__(self, other: Any) -> np.ndarray:
        return self.dense() // _dense(other)

    def __mod__(self, other: Any) -> np.ndarray:
        return self.dense() % _dense(other)

    def __lt__(self, other: Any) -> Mask:
        return Mask.below(self - other)

    def __le__(self, other: Any) -> Mask:
        return Mask.below(self - other - 1)

    def __gt__(self, other: Any) -> Mask:
        return Mask.below((self - other) * -1)

    def __ge__(self, other: Any) -> Mask:
        return Mask.below((self - other) * -1 - 1)

    def __eq__(self, other: Any) -> Any:
        return Mask([self.dense() == _dense(other)])

    def __ne__(self, other: Any) -> Any:
        return Mask([self.dense() != _dense(other)])

    __hash__ = None  # type: ignore[assignment]


def _padded(index: Affine, ndim: int) -> Affine:
    more = ndim - index.ndim
    return index if not more else Affine((1,) * more + index.shape, (0,) * more + index.steps, index.const)


def _dense(value: Any) -> Any:
    return value.dense() if isinstance(value, Affine) else value


class Mask:
    """A conjunction of predicates over index tensors: affine expressions that must be negative, or dense bools."""

    __slots__ = ("terms",)
    __array_ufunc__ = None

    def __init__(self, terms: list):
        self.terms = terms

    @classmethod
    def below(cls, expression: Any) -> Mask:
        """True where the expression is less than 0."""
        return cls([expression if isinstance(expression, Affine) else np.asarray(expression) < 0])

    def __and__(self, other: Any) -> Mask:
        if isinstance(other, (bool, np.bool_)):
            return self if other else Mask([*self.terms, np.zeros((1, 1), bool)])
        return Mask(self.terms + (other.terms if isinstance(other, Mask) else [np.asarray(other)]))

    __rand__ = __and__

    def __or__(self, other: Any) -> Mask:
        shape = np.broadcast_shapes(self.shape, other.shape)
        return Mask([self.dense(shape) | other.dense(shape)])

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*[term.shape for term in self.terms])

    def dense(self, shape: tuple[int, ...]) -> np.ndarray:
        """bool[shape]."""
        out = np.ones(shape, bool)
        for term in self.terms:
            out &= np.broadcast_to(term.dense() < 0 if isinstance(term, Affine) else term, shape)
        return out

    def box(self, shape: tuple[int, ...]) -> tuple[Range, ...] | None:
        """(first, last + 1) on each axis when the true region is a box, else None; an empty box has first == last."""
        ranges = [(0, size) for size in shape]
        for term in self.terms:
            axes = _padded(term, len(shape)) if isinstance(term, Affine) else None
            if axes is None or sum(step != 0 and size > 1 for step, size in zip(axes.steps, shape)) > 1:
                return _box_of(self.dense(shape))
            _narrow(ranges, axes, shape)
        return tuple((first, max(first, last)) for first, last in ranges)


def _narrow(ranges: list[Range], term: Affine, shape: tuple[int, ...]) -> None:
    """Keep of the one axis that the term varies on what makes it negative."""
    for axis, (step, size) in enumerate(zip(term.steps, shape)):
        if step == 0 or size == 1:
            continue
        first, last = ranges[axis]
        if step > 0:
            ranges[axis] = (first, min(last, -(term.const // step)))
        else:
            ranges[axis] = (max(first, term.const // -step + 1), last)
        return
    if term.const >= 0:
        ranges[0] = (0, 0)


def _box_of(mask: np.ndarray) -> tuple[Range, ...] | None:
    if not mask.any():
        return tuple((0, 0) for _ in mask.shape)
    where = np.nonzero(mask)
    box = tuple((int(axis.min()), int(axis.max()) + 1) for axis in where)
    size = int(np.prod([last - first for first, last in box]))
    return box if size == len(where[0]) else None


def arange(*bounds: int) -> Affine:
    """`nl.arange(stop)`, `nl.arange(start, stop[, step])`."""
    numbers = range(*[int(b) for b in bounds])
    return Affine((len(numbers),), (numbers.step,), numbers.start)


@dataclass(frozen=True, slots=True)
class Grid:
    """What `nl.mgrid[…]` gives: one index tensor a dimension; `.p` is the partition's, `.x`, `.y`, … those after it."""

    axes: tuple[Affine, ...]

    def __iter__(self) -> Iterator[Affine]:
        return iter(self.axes)

    def __getitem__(self, at: int) -> Affine:
        return self.axes[at]

    def __len__(self) -> int:
        return len(self.axes)

    def __getattr__(self, name: str) -> Affine:
        order = "pxyzw"
        if name not in order or order.index(name) >= len(self.axes):
            raise AttributeError(f"a grid of {len(self.axes)} dimensions has no axis {name!r}")
        return self.axes[order.index(name)]


class MeshGrid:
    """`nl.mgrid[0:128, 0:512]`."""

    def __getitem__(self, key: Any) -> Grid:
        slices = key if isinstance(key, tuple) else (key,)
        if any(not isinstance(item, slice) or item.stop is None for item in slices):
            raise InputError("nl.mgrid: every dimension needs a slice with an end")
        ndim, axes = len(slices), []
        for axis, item in enumerate(slices):
            numbers = range(item.start or 0, item.stop, item.step or 1)
            shape = tuple(len(numbers) if a == axis else 1 for a in range(ndim))
            axes.append(Affine(shape, tuple(numbers.step if a == axis else 0 for a in range(ndim)), numbers.start))
        return Grid(tuple(axes))


mgrid = MeshGrid()
