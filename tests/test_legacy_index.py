"""Index tensors of the legacy API against NumPy's own arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import InputError
from sim.nki.legacy.index import Affine, Mask, arange, mgrid

SIZES = st.integers(1, 6)
NUMBERS = st.integers(-9, 9)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Affine, np.ndarray]:
    """An index expression over a row and a column, and the same with NumPy."""
    rows, columns = draw(SIZES), draw(SIZES)
    ours: list = [arange(rows)[:, None], arange(columns)[None, :]]
    theirs: list = [np.arange(rows)[:, None], np.arange(columns)[None, :]]
    for _ in range(draw(st.integers(0, 3))):
        at, number = draw(st.integers(0, 1)), draw(NUMBERS)
        operation = draw(st.sampled_from(("+", "-", "*", "r-", "neg")))
        for side in (ours, theirs):
            side[at] = {
                "+": lambda v, n=number: v + n,
                "-": lambda v, n=number: v - n,
                "*": lambda v, n=number: v * n,
                "r-": lambda v, n=number: n - v,
                "neg": lambda v: -v,
            }[operation](side[at])
    if draw(st.booleans()):
        return ours[0] + ours[1], theirs[0] + theirs[1]
    return ours[0], theirs[0]


@given(pairs())
def test_arithmetic_is_that_of_numpy(pair: tuple[Affine, np.ndarray]) -> None:
    ours, theirs = pair
    assert isinstance(ours, Affine)
    assert ours.shape == theirs.shape
    assert np.array_equal(ours.dense(), theirs)
    assert ours.low_high() == (theirs.min(), theirs.max())


@given(pairs(), NUMBERS, st.sampled_from(("<", "<=", ">", ">=")))
def test_a_comparison_leaves_what_it_leaves_in_numpy(pair: tuple, number: int, symbol: str) -> None:
    ours, theirs = pair
    compare = {
        "<": lambda v: v < number,
        "<=": lambda v: v <= number,
        ">": lambda v: v > number,
        ">=": lambda v: v >= number,
    }
    mask, wanted = compare[symbol](ours), compare[symbol](theirs)
    assert np.array_equal(mask.dense(theirs.shape), wanted)
    assert_box(mask, wanted)
    assert not mask.keeps_all() or wanted.all()


@given(st.lists(st.tuples(st.integers(0, 1), NUMBERS, st.booleans()), min_size=1, max_size=3), SIZES, SIZES)
def test_masks_joined_with_and_leave_the_common_box(terms: list, rows: int, columns: int) -> None:
    mask, wanted = None, np.ones((rows, columns), bool)
    for axis, bound, upper in terms:
        index = (arange(rows)[:, None], arange(columns)[None, :])[axis]
        values = (np.arange(rows)[:, None], np.arange(columns)[None, :])[axis]
        term = index < bound if upper else index >= bound
        wanted = wanted & (values < bound if upper else values >= bound)
        mask = term if mask is None else mask & term
    assert_box(mask, wanted)


def assert_box(mask: Mask, wanted: np.ndarray) -> None:
    """The box of a mask holds exactly the true elements; there is none when they fill no box."""
    box = mask.box(wanted.shape)
    filled = np.zeros(wanted.shape, bool)
    if box is not None:
        filled[tuple(slice(*kept) for kept in box)] = True
        assert np.array_equal(filled, wanted)
    else:
        rows, columns = np.nonzero(wanted)
        assert (rows.max() - rows.min() + 1) * (columns.max() - columns.min() + 1) != len(rows)


def test_a_triangle_is_no_box() -> None:
    assert (arange(4)[:, None] < arange(4)[None, :]).box((4, 4)) is None


def test_or_and_not_are_worked_out_element_by_element() -> None:
    index = arange(6)[None, :]
    assert ((index < 2) | (index < 4)).box((1, 6)) == ((0, 1), (0, 4))
    assert (~(index < 2)).box((1, 6)) == ((0, 1), (2, 6))
    assert ((index < 2) | (index > 4)).box((1, 6)) is None


def test_a_mesh_grid_has_numpys_shapes_and_values() -> None:
    ours, theirs = mgrid[0:3, 2:5, 0:8:4], np.mgrid[0:3, 2:5, 0:8:4]
    for axis, name in enumerate("pxy"):
        assert np.array_equal(getattr(ours, name).dense(), theirs[axis])
    assert len(ours) == 3
    with pytest.raises(AttributeError, match="no axis 'z'"):
        _ = ours.z


def test_an_axis_of_one_element_has_no_step() -> None:
    """Else it would be taken to vary where it is broadcast."""
    assert arange(5, 6)[:, None].steps == (0, 0)
    assert arange(8)[:, None][3:4].steps == (0, 0)
    assert (arange(1)[:, None] < 1).box((128, 1)) == ((0, 128), (0, 1))


def test_division_and_remainder_become_values() -> None:
    assert np.array_equal(arange(7) // 3, np.arange(7) // 3)
    assert np.array_equal(arange(7) % 3, np.arange(7) % 3)


def test_shapes_that_do_not_broadcast_are_an_error() -> None:
    with pytest.raises(InputError, match=r"shapes \[3\] and \[4\]"):
        _ = arange(3) + arange(4)


def test_a_mesh_grid_needs_ends() -> None:
    with pytest.raises(InputError, match=r"nl\.mgrid"):
        _ = mgrid[0:]
