"""Places of tiles: sites take turns, memory that has been free for longest goes first, nothing alive overlaps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import rings
from sim.jit import aging
from tests.naive import aging as naive

LIVES = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3), st.integers(0, 12)), min_size=1, max_size=24)
"""(grains, instructions since the tile before began, length of life)."""


def columns(lives):
    size = np.array([count for count, _, _ in lives], np.int64)
    first = np.cumsum([gap for _, gap, _ in lives])
    return size, first, first + np.array([life for _, _, life in lives])


def overlaps(offset, size, first, last) -> bool:
    return any(
        offset[a] < offset[b] + size[b]
        and offset[b] < offset[a] + size[a]
        and first[a] <= last[b]
        and first[b] <= last[a]
        for a in range(len(size))
        for b in range(a)
    )


@given(LIVES, st.sampled_from([0, 4, 8]), st.integers(6, 32))
def test_longest_free_places_equal_those_of_the_plain_twin(lives, block, room):
    size, first, last = columns(lives)
    offset, until = np.zeros(size.size, np.int64), np.full(room, -1, np.int64)
    placed = aging.place(size, first, last, until, block, offset)
    assert offset[:placed].tolist() == naive.place(size.tolist(), first.tolist(), last.tolist(), room, block)


@given(LIVES, st.sampled_from([0, 8]))
def test_longest_free_places_of_live_tiles_never_overlap(lives, block):
    size, first, last = columns(lives)
    offset, until = np.zeros(size.size, np.int64), np.full(40, -1, np.int64)
    placed = aging.place(size, first, last, until, block, offset)
    assert not overlaps(offset[:placed], size[:placed], first[:placed], last[:placed])


@given(LIVES, st.integers(1, 3), st.booleans())
def test_tiles_that_take_turns_never_overlap_while_alive(lives, copies, shrink):
    size, first, last = columns(lives)
    offset = rings.place(size, size, first, last, copies, 256, 1, shrink)
    if offset is not None:
        assert not overlaps(offset, size, first, last)
        assert (offset + size).max() <= 256


@pytest.mark.parametrize(("copies", "slots"), [(1, 1), (2, 2), (3, 3)])
def test_a_site_has_as_many_slots_as_asked_for_each_tile_alive(copies, slots):
    first = np.arange(0, 80, 8)
    tiles = np.full(10, 64)
    offset = rings.place(np.zeros(10, np.int64), tiles, first, first + 7, copies, 4096, 16, False)
    assert len(set(offset.tolist())) == slots
    assert offset.tolist()[: 2 * slots] == offset.tolist()[:slots] * 2


def test_slots_beyond_those_needed_are_given_up_where_memory_is_short():
    first = np.arange(0, 80, 8)
    tiles = np.full(10, 64)
    assert rings.place(np.zeros(10, np.int64), tiles, first, first + 7, 4, 128, 16, False) is None
    assert set(rings.place(np.zeros(10, np.int64), tiles, first, first + 7, 4, 128, 16, True).tolist()) == {0, 64}


def test_memory_that_was_freed_first_is_used_again_first():
    size = np.full(4, 4, np.int64)
    first, last = np.array([0, 1, 5, 8]), np.array([3, 2, 9, 9])
    offset = np.zeros(4, np.int64)
    assert aging.place(size, first, last, np.full(8, -1, np.int64), 0, offset) == 4
    assert offset.tolist() == [0, 4, 4, 0]


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 6)), min_size=1, max_size=40),
    st.sampled_from([4, 8]),
    st.integers(9, 40),
)
def test_places_in_blocks_of_one_size_equal_those_of_the_plain_twin(tiles, block, room):
    until, kind = np.full(room, -1, np.int64), np.zeros(-(-room // block), np.int64)
    for now, (count, life) in enumerate(tiles):
        plain, marked = until.tolist(), kind.tolist()
        expected = naive.oldest(plain, marked, count, block, now)
        found = aging.oldest(until, kind, count, block, now)
        assert found == expected
        assert kind.tolist() == marked
        if found >= 0:
            assert (until[found : found + count] < now).all()
            until[found : found + count] = now + life


@given(st.lists(st.integers(-1, 9), max_size=12), st.integers(0, 12), st.integers(0, 12), st.integers(-1, 10))
def test_the_newest_use_of_grains_equals_that_of_the_plain_twin(ages, start, end, enough):
    end = min(end, len(ages))
    assert aging.newest(np.array(ages, np.int64), start, end, enough) == naive.newest(ages, start, end, enough)


def test_small_tiles_keep_to_a_block_until_it_is_empty():
    until, kind = np.full(16, -1, np.int64), np.zeros(2, np.int64)
    first = aging.oldest(until, kind, 1, 8, 0)
    until[first] = 100
    assert aging.oldest(until, kind, 8, 8, 1) == 8
    assert aging.oldest(until, kind, 1, 8, 1) == 1
    assert aging.oldest(until, kind, 2, 8, 1) == 8
