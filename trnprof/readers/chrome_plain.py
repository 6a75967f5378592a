"""Plain slices of large Chrome traces, many at once (`trnprof.jit.chrome`); the answer is that of one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.trace import NONE
from trnprof.jit.chrome import ARGS, FIELDS, PROCESS, THREAD
from trnprof.readers.interned import Texts

LARGE = 4 << 20
"""Bytes of a file from which compiled code is worth loading."""
RUN = 1 << 13
"""Events read at once, so few that they stay near the processor."""
LONGEST_WAIT = 1 << 12
"""Events that are read one by one, at most, before many are tried again."""


class Codes:
    """Codes of the texts of one field, each looked up once."""

    def __init__(self) -> None:
        self.texts = Texts()
        self._codes = np.empty(0, np.int64)

    def of(self, source: np.ndarray, low: np.ndarray, high: np.ndarray, code: Callable[[str], int]) -> np.ndarray:
        numbers = self.texts.numbers(source, low, high)
        fresh = range(self._codes.size, self.texts.known)
        if fresh:
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
        return self.source.codes(field).of(self.source.data, self._column(field), self._column(field + 1), code)

    def tracks(self, place: Callable[[str, str], int]) -> np.ndarray:
        """Codes of their threads, int64; `place` is asked once for each pair of a process and a thread."""
        processes, threads = self.source.texts(PROCESS), self.source.texts(THREAD)
        process = processes.numbers(self.source.data, self._column(PROCESS), self._column(PROCESS + 1))
        thread = threads.numbers(self.source.data, self._column(THREAD), self._column(THREAD + 1))
        _, first, inverse = np.unique(process * (1 << 32) + thread, return_index=True, return_inverse=True)
        known = [place(processes.text(int(process[k])), threads.text(int(thread[k]))) for k in first]
        return np.array(known, np.int64)[inverse]

    def args(self, texts: Texts, code: Callable[[bytes], int]) -> np.ndarray:
        """-2 - k for argument text k of the table, NONE for none, a code for those that must be written anew."""
        low, high = self._column(ARGS), self._column(ARGS + 1)
        out = np.full(low.size, NONE, np.int64)
        tidy = np.flatnonzero((low > 0) & (high - low > 2))
        out[tidy] = -2 - texts.numbers(self.source.data, low[tidy], high[tidy])
        for row in np.flatnonzero(low < 0).tolist():
            out[row] = code(self.source.data[-low[row] : high[row]].tobytes())
        return out

    def _column(self, field: int) -> np.ndarray:
        return np.ascontiguousarray(self.rows[:, field])


class Quick:
    """Takes plain slices out of a file; waits longer each time that there are none."""

    def __init__(self) -> None:
        self.data = np.empty(0, np.uint8)
        self._large = False
        self._rows = np.empty((0, FIELDS), np.int64)
        self._texts: dict[int, Texts] = {}
        self._codes: dict[int, Codes] = {}
        self._wait = self._step = 0

    def look_at(self, data: bytes) -> None:
        """Places are those in this part of the file from now on; the first part tells whether the file is large."""
        self._large = self._large or len(data) >= LARGE
        self.data = np.frombuffer(data, np.uint8) if self._large else self.data

    def texts(self, field: int) -> Texts:
        return self._texts.setdefault(field, Texts())

    def codes(self, field: int) -> Codes:
        return self._codes.setdefault(field, Codes())

    def take(self, at: int) -> Plain | None:
        """The plain slices from a place on, None where the next event is not one; they last until the next call."""
        if not self._large:
            return None
        if self._wait:
            self._wait -= 1
            return None
        from trnprof.jit.chrome import plain_slices

        if len(self._rows) != RUN:
            self._rows = np.empty((RUN, FIELDS), np.int64)
        filled, end = plain_slices(self.data, at, self._rows)
        if not filled:
            self._step = min(2 * self._step + 1, LONGEST_WAIT)
            self._wait = self._step
            return None
        self._step = 0
        return Plain(self._rows[:filled], int(end), self)
