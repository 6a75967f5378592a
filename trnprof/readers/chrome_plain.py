"""Plain slices of large Chrome traces, many at once (`trnprof.jit.chrome`); the answer is that of one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.texts import PackedStrings
from sim.trace import NONE
from trnprof.jit.chrome import ARGS, FIELDS, PROCESS, THREAD

LARGE = 4 << 20
"""Bytes of a file from which compiled code is worth loading."""
RUN = 1 << 16
"""Events read at once."""
LONGEST_WAIT = 1 << 12
"""Events that are read one by one, at most, before many are tried again."""


class Texts:
    """Numbers the texts of one field by their first appearance."""

    def __init__(self, data: np.ndarray):
        self.data = data
        self.known = 0
        self.places = np.zeros((256, 2), np.int64)
        self._slots = np.full(1024, NONE, np.int64)

    def numbers(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The number of each text, int64."""
        from trnprof.jit.chrome import intern

        if self.known + low.size > len(self.places):
            self._grow(self.known + low.size)
        out = np.empty(low.size, np.int64)
        self.known = intern(self.data, low, high, self._slots, self.places, self.known, out)
        return out

    def _grow(self, wanted: int) -> None:
        from trnprof.jit.chrome import intern

        size = 2 << (wanted - 1).bit_length()
        before = self.places[: self.known].copy()
        self.places = np.zeros((size, 2), np.int64)
        self._slots = np.full(2 * size, NONE, np.int64)
        again = np.empty(len(before), np.int64)
        intern(self.data, before[:, 0].copy(), before[:, 1].copy(), self._slots, self.places, 0, again)

    def known_as(self, data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """The numbers of packed texts, int64 [texts]; -1 for one that there is not."""
        from trnprof.jit.chrome import look_up

        out = np.empty(offsets.size - 1, np.int64)
        look_up(self.data, self._slots, self.places, data, offsets, out)
        return out

    def text(self, number: int) -> str:
        low, high = self.places[number]
        return self.data[low:high].tobytes().decode("ascii")

    def after(self, data: np.ndarray, offsets: np.ndarray) -> PackedStrings:
        """A packed table with all texts behind those that it has."""
        from trnprof.jit.chrome import gather

        places = self.places[: self.known]
        ends = offsets[-1] + np.cumsum(places[:, 1] - places[:, 0])
        begins = np.concatenate((offsets, ends))
        out = np.empty(int(begins[-1]), np.uint8)
        out[: data.size] = data
        gather(self.data, places, begins[offsets.size - 1 :], out)
        return PackedStrings(out, begins)


class Codes:
    """Codes of the texts of one field, each looked up once."""

    def __init__(self, data: np.ndarray):
        self.texts = Texts(data)
        self._codes = np.empty(0, np.int64)

    def of(self, low: np.ndarray, high: np.ndarray, code: Callable[[str], int]) -> np.ndarray:
        numbers = self.texts.numbers(low, high)
        fresh = range(self._codes.size, self.texts.known)
        self._codes = np.append(self._codes, [code(self.texts.text(number)) for number in fresh]).astype(np.int64)
        return self._codes[numbers]


@dataclass(frozen=True, slots=True)
class Plain:
    """Consecutive plain slices."""

    rows: np.ndarray
    """int64 [slices, FIELDS] of `trnprof.jit.chrome`"""
    end: int
    """Where in the file they end."""
    source: Quick

    def texts(self, field: int, code: Callable[[str], int]) -> np.ndarray:
        """Codes of a field, int64."""
        return self.source.codes(field).of(self._column(field), self._column(field + 1), code)

    def tracks(self, place: Callable[[str, str], int]) -> np.ndarray:
        """Codes of their threads, int64; `place` is asked once for each pair of a process and a thread."""
        processes, threads = self.source.texts(PROCESS), self.source.texts(THREAD)
        process = processes.numbers(self._column(PROCESS), self._column(PROCESS + 1))
        thread = threads.numbers(self._column(THREAD), self._column(THREAD + 1))
        _, first, inverse = np.unique(process * (1 << 32) + thread, return_index=True, return_inverse=True)
        known = [place(processes.text(int(process[k])), threads.text(int(thread[k]))) for k in first]
        return np.array(known, np.int64)[inverse]

    def args(self, code: Callable[[bytes], int]) -> np.ndarray:
        """-2 - k for argument text k of the source, NONE for none, a code for those that must be written anew."""
        low, high = self._column(ARGS), self._column(ARGS + 1)
        out = np.full(low.size, NONE, np.int64)
        tidy = np.flatnonzero((low > 0) & (high - low > 2))
        out[tidy] = -2 - self.source.texts(ARGS).numbers(low[tidy], high[tidy])
        for row in np.flatnonzero(low < 0).tolist():
            out[row] = code(self.source.data[-low[row] : high[row]].tobytes())
        return out

    def _column(self, field: int) -> np.ndarray:
        return np.ascontiguousarray(self.rows[:, field])


class Quick:
    """Takes plain slices out of a file; waits longer each time that there are none."""

    def __init__(self, data: bytes):
        self.data = np.frombuffer(data, np.uint8) if len(data) >= LARGE else np.empty(0, np.uint8)
        self._texts: dict[int, Texts] = {}
        self._codes: dict[int, Codes] = {}
        self._wait = self._step = 0

    def texts(self, field: int) -> Texts:
        return self._texts.setdefault(field, Texts(self.data))

    def codes(self, field: int) -> Codes:
        return self._codes.setdefault(field, Codes(self.data))

    def take(self, at: int) -> Plain | None:
        """The plain slices from a place on, None where the next event is not one."""
        if not self.data.size:
            return None
        if self._wait:
            self._wait -= 1
            return None
        from trnprof.jit.chrome import plain_slices

        rows = np.empty((RUN, FIELDS), np.int64)
        filled, end = plain_slices(self.data, at, rows)
        if not filled:
            self._step = min(2 * self._step + 1, LONGEST_WAIT)
            self._wait = self._step
            return None
        self._step = 0
        return Plain(rows[:filled], int(end), self)
