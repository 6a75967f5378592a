"""Index tensors of the legacy API: `nl.arange`, `nl.mgrid`, arithmetic on them, and the masks they make.

An index tensor is kept as an affine expression of its axes for as long as the arithmetic allows, so that indexing with
it is a strided view and costs the same at any size; otherwise it becomes a dense array.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from sim.errors import InputError
from sim.nki import session
from sim.program import ProgramBuilder
from sim.trace import Finding

Range = tuple[int, int]


class LoopIndex(int):
    """The number of an iteration, which knows whether it is the first of its loop."""

    first: bool


def joined(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that two shapes broadcast to.

    raises: InputError
    """
    if one == other:
        return one
    more = len(one) - len(other)
    a, b = (1,) * -more + one, (1,) * more + other
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b)):
        raise InputError(f"index tensors of shapes {list(one)} and {list(other)} do not broadcast")
    return tuple([n if m == 1 else m for m, n in zip(a, b)])


_forms: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
WHOLE = slice(None)


class Affine:
    """const + sum(step[axis] * i[axis]), with the shape of its axes; immutable. Axes of size 1 have step 0."""

    __slots__ = ("_form", "_views", "const", "shape", "steps")
    __array_ufunc__ = None

    def __init__(self, shape: tuple[int, ...], steps: tuple[int, ...], const: int = 0, form: int | None = None):
        self.shape = shape
        self.steps = steps
        self.const = const
        self._form = form
        self._views: dict[tuple, Affine] | None = None
        """Results of `[:, None]` and the like, which loops repeat."""

    @property
    def form(self) -> int:
        """A number that expressions of one shape and the same steps share, whatever their constant."""
        if self._form is None:
            self._form = _forms.setdefault((self.shape, self.steps), len(_forms))
        return self._form

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
        low = high = self.const
        for size, step in zip(self.shape, self.steps):
            if step > 0:
                high += (size - 1) * step
            else:
                low += (size - 1) * step
        return low, high

    def wider(self, ndim: int) -> Affine:
        """The same values with leading axes of size 1 up to a number of dimensions."""
        more = ndim - len(self.shape)
        return self if more <= 0 else Affine((1,) * more + self.shape, (0,) * more + self.steps, self.const)

    def __getitem__(self, key: Any) -> Affine:
        items = key if type(key) is tuple else (key,)
        if len(items) == 2:
            one, other = items
            plain = (one if one is None else one == WHOLE, other if other is None else other == WHOLE)
        else:
            plain = tuple([item if item is None else item == WHOLE for item in items])
        if False in plain:
            return self._sliced(items)
        if self._views is None:
            self._views = {}
        known = self._views.get(plain)
        if known is None:
            known = self._views[plain] = self._sliced(items)
        return known

    def _sliced(self, key: tuple) -> Affine:
        shape, steps, const, axis = [], [], self.const, 0
        for item in _written_out(key, self.ndim):
            if item is None:
                shape.append(1)
                steps.append(0)
                continue
            size, step = self.shape[axis], self.steps[axis]
            axis += 1
            if isinstance(item, slice):
                first, last, stride = item.indices(size)
                count = len(range(first, last, stride))
                shape.append(count)
                steps.append(step * stride if count > 1 else 0)
                const += first * step
            else:
                const += (int(item) % size) * step
        return Affine(tuple(shape), tuple(steps), const)

    def reshape(self, *shape: Any) -> np.ndarray:
        return self.dense().reshape(*shape)

    def _pair(self, other: Any, sign: int) -> Any:
        if isinstance(other, (int, np.integer)):
            return Affine(self.shape, self.steps, self.const + sign * int(other))
        if not isinstance(other, Affine):
            return self.dense() + sign * np.asarray(other)
        ndim = max(len(self.shape), len(other.shape))
        a, b = self.wider(ndim), other.wider(ndim)
        steps = tuple([x + sign * y for x, y in zip(a.steps, b.steps)])
        return Affine(joined(a.shape, b.shape), steps, a.const + sign * b.const)

    def _moved(self, by: int) -> Affine:
        return Affine(self.shape, self.steps, self.const + by, self._form)

    def __add__(self, other: Any) -> Any:
        return self._moved(int(other)) if isinstance(other, int) else self._pair(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._moved(-int(other)) if isinstance(other, int) else self._pair(other, -1)

    def __rsub__(self, other: Any) -> Any:
        return self * -1 + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (int, np.integer)):
            factor = int(other)
            return Affine(self.shape, tuple([factor * step for step in self.steps]), factor * self.const)
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
        return Mask.below(other - self)

    def __ge__(self, other: Any) -> Mask:
        return Mask.below(other - self - 1)

    def __eq__(self, other: Any) -> Any:
        return Mask([self.dense() == _dense(other)])

    def __ne__(self, other: Any) -> Any:
        return Mask([self.dense() != _dense(other)])

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        terms = [f"{step}*i{axis}" for axis, step in enumerate(self.steps) if step]
        return f"<index {' + '.join([str(self.const), *terms])} of shape {list(self.shape)}>"


def _dense(value: Any) -> Any:
    return value.dense() if isinstance(value, Affine) else value


def _written_out(key: tuple, ndim: int) -> list:
    """A key with its Ellipsis and missing trailing dimensions written out."""
    items = list(key)
    given = sum(item is not None and item is not Ellipsis for item in items)
    whole = [slice(None)] * (ndim - given)
    at = next((place for place, item in enumerate(items) if item is Ellipsis), None)
    return items + whole if at is None else items[:at] + whole + items[at + 1 :]


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
        shape = joined(self.shape, other.shape)
        return Mask([self.dense(shape) | other.dense(shape)])

    def __invert__(self) -> Mask:
        return Mask([~self.dense(self.shape)])

    def __bool__(self) -> bool:
        """True, as of any object, so that `a and b` of two masks is b: reported, because `a & b` is what was meant."""
        if session.active():
            _report_bool(session.builder())
        return True

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = ()
        for term in self.terms:
            shape = joined(shape, term.shape)
        return shape

    def dense(self, shape: tuple[int, ...]) -> np.ndarray:
        """bool[shape]."""
        out = np.ones(shape, bool)
        for term in self.terms:
            values = term.dense() < 0 if isinstance(term, Affine) else term
            try:
                out &= np.broadcast_to(values, shape)
            except ValueError:
                raise InputError(f"mask of shape {list(values.shape)} on a tile of shape {list(shape)}") from None
        return out

    def keeps_all(self) -> bool:
        """Whether it is plain that nothing is left out."""
        return all(isinstance(term, Affine) and term.low_high()[1] < 0 for term in self.terms)

    def box(self, shape: tuple[int, ...]) -> tuple[Range, ...] | None:
        """(first, last + 1) on each axis when the true region is a box, else None; an empty box has first == last."""
        ranges = [(0, size) for size in shape]
        for term in self.terms:
            axes = _along(term, shape) if isinstance(term, Affine) else None
            if axes is None or sum(step != 0 for step in axes.steps) > 1:
                return _box_of(self.dense(shape))
            _narrow(ranges, axes)
        return tuple((first, max(first, last)) for first, last in ranges)


def _report_bool(program: ProgramBuilder) -> None:
    where = program.where()
    sentence = "Python's `and`, `or` or `not` on a mask keeps one side of it; masks are joined with & and |"
    if not any(known.sentence == sentence and known.source == where for known in program.findings):
        program.findings.append(Finding("unsupported_python", sentence, len(program) - 1, where))


def _along(term: Affine, shape: tuple[int, ...]) -> Affine | None:
    """A mask's term over a tile's axes; None when it does not have them one by one."""
    term = term.wider(len(shape))
    fits = len(term.shape) == len(shape) and all(have in (1, want) for have, want in zip(term.shape, shape))
    return term if fits else None


def _narrow(ranges: list[Range], term: Affine) -> None:
    """Keep of the one axis that the term varies on what makes it negative."""
    for axis, step in enumerate(term.steps):
        if step == 0:
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
    if len(bounds) == 1 and type(bounds[0]) is int:
        return _counted(bounds[0])
    return _counted(*[int(bound) for bound in bounds])


@lru_cache(maxsize=1024)
def _counted(*bounds: int) -> Affine:
    numbers = range(*bounds)
    return Affine((len(numbers),), (numbers.step if len(numbers) > 1 else 0,), numbers.start)


class Grid:
    """What `nl.mgrid[…]` gives: one index tensor a dimension; `.p` is the partition's, `.x`, `.y`, … those after it."""

    __slots__ = ("axes", "p", "w", "x", "y", "z")

    def __init__(self, axes: tuple[Affine, ...]):
        self.axes = axes
        for name, axis in zip("pxyzw", axes):
            setattr(self, name, axis)

    def __iter__(self) -> Iterator[Affine]:
        return iter(self.axes)

    def __getitem__(self, at: int) -> Affine:
        return self.axes[at]

    def __len__(self) -> int:
        return len(self.axes)

    def __getattr__(self, name: str) -> Affine:
        raise AttributeError(f"a grid of {len(self.axes)} dimensions has no axis {name!r}")


class MeshGrid:
    """`nl.mgrid[0:128, 0:512]`: as NumPy's, every index tensor has the shape of the whole grid."""

    def __getitem__(self, key: Any) -> Grid:
        slices = key if isinstance(key, tuple) else (key,)
        if any(not isinstance(item, slice) or item.stop is None for item in slices):
            raise InputError("nl.mgrid: every dimension needs a slice with an end")
        return _grid(tuple((int(item.start or 0), int(item.stop), int(item.step or 1)) for item in slices))


@lru_cache(maxsize=1024)
def _grid(bounds: tuple[tuple[int, int, int], ...]) -> Grid:
    numbers = [range(*bound) for bound in bounds]
    shape = tuple(len(along) for along in numbers)
    return Grid(tuple(_axis(shape, axis, along) for axis, along in enumerate(numbers)))


def _axis(shape: tuple[int, ...], axis: int, numbers: range) -> Affine:
    step = numbers.step if len(numbers) > 1 else 0
    return Affine(shape, tuple(step if place == axis else 0 for place in range(len(shape))), numbers.start)


mgrid = MeshGrid()
