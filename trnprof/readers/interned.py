"""Texts numbered by their first appearance, many at once (`trnprof.jit.texts`), in a table of their own."""

from __future__ import annotations

import numpy as np

from sim.texts import PackedStrings
from sim.trace import NONE

FEWEST = 256
ROOM = 4
"""How much longer an array becomes than it must."""


class Texts:
    """A table of ASCII texts that grows."""

    def __init__(self) -> None:
        self.known = 0
        self._data = np.empty(1 << 12, np.uint8)
        self._offsets = np.zeros(FEWEST + 1, np.int64)
        self._slots = np.full(4 * FEWEST, NONE, np.int64)

    def numbers(self, source: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The number of each text of a source, int64."""
        from trnprof.jit.texts import intern

        self._make_room(low.size, int((high - low).sum()))
        out = np.empty(low.size, np.int64)
        self.known = intern(source, low, high, self._slots, self._data, self._offsets, self.known, out)
        return out

    def _make_room(self, texts: int, size: int) -> None:
        from trnprof.jit.texts import spread

        self._data = _longer(self._data, self._size, self._size + size)
        self._offsets = _longer(self._offsets, self.known + 1, self.known + texts + 1)
        if 2 * (self.known + texts) > self._slots.size:
            wider = np.full(2 << (2 * (self.known + texts) - 1).bit_length(), NONE, np.int64)
            spread(self._slots, wider)
            self._slots = wider

    @property
    def _size(self) -> int:
        return int(self._offsets[self.known])

    def known_as(self, data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The numbers of packed texts, int64 [texts]; -1 for one that there is not."""
        from trnprof.jit.texts import look_up

        out = np.empty(offsets.size - 1, np.int64)
        look_up(self._slots, self._data, self._offsets, data, offsets, out)
        return out

    def text(self, number: int) -> str:
        low, high = self._offsets[number : number + 2]
        return self._data[low:high].tobytes().decode("ascii")

    def after(self, data: np.ndarray, offsets: np.ndarray) -> PackedStrings:
        """A packed table with all texts behind those that it has; this one is at its end then."""
        self._slots = np.empty(0, np.int64)
        self._data = _behind(data, self._data, self._size)
        ends = self._offsets[1:]
        ends += data.size
        self._offsets = _behind(offsets, ends, self.known)
        return PackedStrings(self._data, self._offsets)


def _behind(before: np.ndarray, array: np.ndarray, used: int) -> np.ndarray:
    """An array with others before what is used of it, in place where it has room."""
    shift, size = before.size, before.size + used
    if array.size < size:
        return np.concatenate((before, array[:used]))
    # NumPy would make a copy of what it moves by less than its length.
    memoryview(array)[shift:size] = memoryview(array)[:used]
    array[:shift] = before
    return array[:size]


def _longer(array: np.ndarray, used: int, wanted: int) -> np.ndarray:
    """The array, or one with room for more than so many; pages that nobody has written to take no memory."""
    if wanted <= array.size:
        return array
    found = np.empty(ROOM * wanted, array.dtype)
    found[:used] = array[:used]
    return found
