"""A window cut out of what is kept of a lane is what its rows come to."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.test_frames import lane_of, random_rows
from trnprof.jit import frames
from trnprof.view import lanes
from trnprof.view.lanes import Lane


class Kept(dict):
    """A store in memory, as a trace and as its store."""

    store = property(lambda self: self)
    knows = dict.__contains__

    def derive(self, name, make):
        if name not in self:
            self[name] = make()
        return self[name]


def pair(seed: int, rows: int, pipelined: bool, apart: int) -> tuple[Lane, Lane]:
    """A lane that was prepared, and one whose rows are looked at."""
    plain = lane_of(random_rows(seed, rows, pipelined, apart))
    kept = Lane(plain.columns, None, Kept(), "lane")
    kept.prepare()
    return kept, plain


@pytest.fixture(autouse=True)
def _short_lanes(monkeypatch):
    monkeypatch.setattr(lanes, "KEPT_ROWS", 1)


@settings(max_examples=80, deadline=None)
@given(
    lane=st.tuples(st.integers(0, 999), st.integers(40, 400), st.booleans(), st.sampled_from([1, 6])),
    bucket=st.sampled_from([16, 32, 64]),
    first=st.integers(-2, 20),
    cells=st.integers(1, 30),
)
def test_a_window_of_a_level_is_what_its_rows_come_to(lane, bucket, first, cells):
    kept, plain = pair(*lane)
    cell = bucket * frames.CELL_BUCKETS
    t0, t1 = first * cell, (first + cells) * cell
    np.testing.assert_array_equal(kept.marks(t0, t1, bucket), plain.marks(t0, t1, bucket))
    columns = cells * frames.CELL_BUCKETS
    np.testing.assert_allclose(kept.coverage(t0, t1, columns), plain.coverage(t0, t1, columns), atol=1e-6)


def test_a_first_row_of_no_length_is_counted():
    kept, plain = pair(0, 40, False, 1)
    cell = 16 * frames.CELL_BUCKETS
    np.testing.assert_array_equal(kept.marks(-cell, cell, 16), plain.marks(-cell, cell, 16))


def test_levels_are_used_where_many_rows_are_one_column(monkeypatch):
    kept, _ = pair(3, 4000, False, 6)
    whole = kept.marks(0, 1 << 15, 64)
    seen = SimpleNamespace(windows=[])
    scan = Lane._marks
    monkeypatch.setattr(Lane, "_marks", lambda self, *window: seen.windows.append(window) or scan(self, *window))
    np.testing.assert_array_equal(kept.marks(0, 1 << 14, 64), whole[whole[:, 0] < 1 << 14])
    assert seen.windows == [(0, 256, 64)]
    kept.marks(0, 1 << 14, 2)
    assert seen.windows[-1] == (0, 1 << 14, 2)


def test_another_opening_finds_what_was_prepared():
    kept, plain = pair(5, 3000, True, 6)
    again = Lane(plain.columns, None, kept._trace, "lane")
    assert again.marks(0, 1 << 13, 64).tolist() == plain.marks(0, 1 << 13, 64).tolist()
    assert again._levels
