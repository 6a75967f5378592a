"""A general timeline while it is read: named slices on named tracks, counters, arrows from slice to slice.

Times are whole picoseconds of any size until the end, when they are placed in 64 bits.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from sim.errors import InputError
from sim.texts import ERRORS, packed
from sim.trace import NONE, Counters, EdgeKind, Edges, Engine, Instructions, Meta, Strings, Trace, validate
from trnprof.readers.clock import LIMIT_PS
from trnprof.readers.interned import Texts
from trnprof.readers.receipt import Receipt, total

BETWEEN = " / "
"""Between the process and the thread in the name of a track."""

EMULATED = " (emulated)"
"""At the end of a process's name, which every viewer shows: its times are an emulator's."""

SLICES, COUNTERS, FLOWS = "slices", "counters", "flow events"
_LOW, _HIGH = -(1 << 62), 1 << 62
EXACT = 1 << 60
"""Times of which sums and differences fit 64 bits."""
_TEXTS = {"track": "_track", "name": "_name", "opcode": "_category", "operands": "_args"}
"""Columns of text and where their codes are collected."""
_FEW = 1 << 16
"""Rows that are changed together."""
PLENTY = 1 << 17
"""Texts that take more memory than the compiler does, which keeps others in less."""
_MANY = 1 << 13
"""Arguments that are numbered together."""
_WALK = 256
"""Slices looked at, backwards, for the one that encloses a moment."""


def track_name(process: str, thread: str) -> str:
    return f"{process}{BETWEEN}{thread}" if process else thread


class Timeline:
    """Collects a timeline; a slice is known by its row until `trace` sorts them."""

    def __init__(self, receipt: Receipt) -> None:
        self.receipt = receipt
        self.strings = Strings()
        self._track = array("i")
        self._name = array("i")
        self._category = array("i")
        self._args = array("i")
        self._origin: int | None = None
        """The first moment added; those kept are relative to it, so that most fit 64 bits."""
        self._start: array[int] | list[int] = array("q")
        self._end: array[int] | list[int] = array("q")
        self._counter: list[tuple[int, int, float]] = []
        self._points: dict[Hashable, list[tuple[int, int, bool]]] = {}
        self._arrows: list[tuple[int, int]] = []
        self._open: list[int] = []
        self.block = Texts()
        """Texts of arguments that `slices` refers to, and those of slices that come when there are plenty."""
        self._waiting: list[bytes] = []
        self._waiting_rows: list[int] = []

    def slice(
        self, track: str, name: str, start: int, end: int, category: str | None = None, args: str | None = None
    ) -> int:
        """Add a slice and return its row."""
        code = self.strings.code
        self._track.append(code(track))
        self._name.append(code(name))
        self._category.append(code(category or None))
        self._args.append(self._put(args) if args and len(self.strings) > PLENTY else code(args or None))
        low, high = self._relative(start), self._relative(end)
        if not (_LOW <= low <= high <= _HIGH):
            self._widen()
        self._start.append(low)
        self._end.append(high)
        return len(self._start) - 1

    def slices(self, codes: dict[str, np.ndarray], start: np.ndarray, end: np.ndarray) -> None:
        """Add many slices at once; times int64 ps, not beyond `EXACT`.

        codes : of `track`, `name`, `category` and `args`; arguments below -1 are -2 - k for text k of `block`
        """
        origin = self._origin = int(start[0]) if self._origin is None else self._origin
        if abs(origin) > EXACT:
            self._widen()
            start, end = start.astype(object), end.astype(object)
        for name, values in codes.items():
            getattr(self, f"_{name}").frombytes(values.astype(np.int32).view(np.uint8))
        for mine, times in ((self._start, start - origin), (self._end, end - origin)):
            if isinstance(mine, array):
                mine.frombytes(times.view(np.uint8))
            else:
                mine.extend(times.tolist())

    def _put(self, args: str) -> int:
        """Let arguments wait for many to be numbered at once, in a third of the memory."""
        if len(self._waiting) == _MANY:
            self._number()
        self._waiting.append(args.encode(errors=ERRORS))
        self._waiting_rows.append(len(self._args))
        return NONE

    def _number(self) -> None:
        """Number the arguments that wait."""
        ends = np.cumsum(np.fromiter(map(len, self._waiting), np.int64, len(self._waiting)))
        begins = np.concatenate(([0], ends[:-1])) if ends.size else ends
        numbers = self.block.numbers(np.frombuffer(b"".join(self._waiting), np.uint8), begins, ends)
        np.frombuffer(self._args, np.int32)[self._waiting_rows] = -2 - numbers
        self._waiting, self._waiting_rows = [], []

    def _written(self) -> Strings:
        """All texts; those of `block` after the others, unless they are among these."""
        if self._waiting:
            self._number()
        if not self.block.known:
            return self.strings
        block, self.block = self.block, Texts()
        shift = len(self.strings)
        args = np.frombuffer(self._args, np.int32)
        place = np.arange(shift, shift + block.known, dtype=np.int32)
        given = np.unique(args[args >= 0])
        others = packed(self.strings)
        twins = block.known_as(*others)[given]
        place[twins[twins >= 0]] = given[twins >= 0]
        table = block.after(*others)
        for part in np.split(args, range(_FEW, args.size, _FEW)):
            late = part < NONE
            part[late] = place[-2 - part[late]]
        return table

    def span(self, row: int, start: int, end: int) -> None:
        """Set both ends of a slice."""
        low, high = self._relative(start), self._relative(end)
        if not (_LOW <= low <= high <= _HIGH):
            self._widen()
        self._start[row], self._end[row] = low, high

    def _relative(self, time: int) -> int:
        if self._origin is None:
            self._origin = time
        return time - self._origin

    def _widen(self) -> None:
        """Keep times of any size from now on."""
        self._start, self._end = list(self._start), list(self._end)

    def leave_open(self, row: int) -> None:
        """The slice lasts to the end of the timeline."""
        self._open.append(row)

    def name_tracks(self, names: dict[str, str]) -> None:
        """Rename tracks once their names are known."""
        codes = {self.strings.find(old): self.strings.code(new) for old, new in names.items()}
        place = np.arange(len(self.strings), dtype=np.int32)
        place[list(codes)] = list(codes.values())
        self._track = array("i", place[np.frombuffer(self._track, np.int32)].tobytes() if self._track else b"")
        self._counter = [(codes.get(code, code), time, value) for code, time, value in self._counter]

    def count(self, counter: str, time: int, value: float) -> None:
        self._counter.append((self.strings.code(counter), self._relative(time), value))

    def point(self, flow: Hashable, row: int, time: int, last: bool = False) -> None:
        """A flow passes through a slice; `last` ends it."""
        self._points.setdefault(flow, []).append((time, row, last))

    def finder(self) -> Finder:
        """Finds slices by track and time, among those added so far."""
        return Finder(self._track, self._start, self._end, self.strings, self._origin or 0)

    def trace(self, meta: Meta, also: str) -> Trace:
        """The trace of all that was added; InputError when that is nothing.

        also : the table of the receipt from which slices, counters and flows were read
        """
        if not self._start and not self._counter:
            raise InputError(f"{meta.source}: a timeline without slices and counters")
        strings = self._written()
        self._chain()
        self._extend()
        base, sound = self._place()
        count = len(self._start)
        start, end = self._times("_start", base, sound), self._times("_end", base, sound)
        kept = by_time(start, end)
        self.receipt.show(SLICES, kept.size)
        self.receipt.show_time(SLICES, total(end - start))
        start = start[kept]
        end = end[kept]
        if kept.size < count:
            kept = np.flatnonzero(sound)[kept]
        table = Instructions(
            id=np.arange(1, kept.size + 1),
            start_ps=start,
            end_ps=end,
            engine=np.full(kept.size, Engine.OTHER, np.int8),
            **{column: self._codes(name, kept) for column, name in _TEXTS.items()},
        )
        counters = self._counters(base)
        return self._finish(
            replace(meta, quarantined=self.receipt.quarantined((SLICES, COUNTERS, FLOWS, also))),
            (table, counters, self._edges(kept, count)),
            strings,
        )

    def _finish(self, meta: Meta, tables: tuple[Instructions, Counters, Edges], strings: Strings) -> Trace:
        table, counters, edges = tables
        ends = (int(table.start_ps.min()), int(table.end_ps.max())) if len(table) else _reach(counters)
        processes = {(strings[code] or "").partition(BETWEEN)[0] for code in np.unique(table.track).tolist()}
        meta = replace(
            meta,
            is_simulation=any(process.endswith(EMULATED) for process in processes),
            window=ends,
            total_ps=ends[1] - ends[0],
            notes=self.receipt.notes(),
            receipt=self.receipt.to_json(),
        )
        trace = Trace(meta, strings, table, counters=counters, edges=edges)
        validate(trace)
        return trace

    def _times(self, name: str, base: int, sound: np.ndarray) -> np.ndarray:
        """Starts or ends of the sound slices, int64 ps; they are not kept in the other form."""
        given = _whole(getattr(self, name))
        setattr(self, name, array("q"))
        return (_those(given, sound) - base).astype(np.int64, copy=False)

    def _codes(self, name: str, rows: np.ndarray) -> np.ndarray:
        """Codes of these slices, int32; they are not kept in the other form."""
        given = np.array(getattr(self, name), np.int32, copy=None)
        setattr(self, name, array("i"))
        return given[rows]

    def _extend(self) -> None:
        """Let slices without an end last to the end of the timeline."""
        if self._open:
            last = max(max(self._start), max(self._end))
            for row in self._open:
                self._end[row] = last
                self.receipt.read_time(SLICES, last - self._start[row])
            self.receipt.remark(f"{len(self._open)} slices have no end in the file; they are drawn to the last moment.")

    def _place(self) -> tuple[int, np.ndarray]:
        """What to subtract from all times, and the slices that fit 64 bits then.

        A timeline that starts later than it is long (seconds since 1970, since boot) is moved to zero.
        """
        starts, ends = _whole(self._start), _whole(self._end)
        times = _whole([time for _, time, _ in self._counter])
        moments = starts if starts.size else times
        near = _near([starts, ends, times], moments)
        sound = near[0] & near[1]
        for row in np.flatnonzero(~sound).tolist():
            self.receipt.set_aside(SLICES, "lie beyond 64-bit picoseconds of the others")
            self.receipt.set_time_aside(SLICES, self._end[row] - self._start[row])
        kept = [_those(given, where) for given, where in ((starts, sound), (ends, sound), (times, near[2]))]
        kept = [part for part in kept if part.size]
        first, last = (int(min(map(np.min, kept))), int(max(map(np.max, kept)))) if kept else (0, 0)
        origin = self._origin or 0
        if 0 <= first + origin <= last - first:
            return -origin, sound
        self.receipt.remark(f"Times start at {first + origin} ps in the file; here that moment is 0.")
        return first, sound

    def _counters(self, base: int) -> Counters:
        kept = [row for row in self._counter if -LIMIT_PS < row[1] - base < LIMIT_PS and np.isfinite(row[2])]
        self.receipt.set_aside(COUNTERS, "have no finite value or time", len(self._counter) - len(kept))
        self.receipt.show(COUNTERS, len(kept))
        code = np.array([row[0] for row in kept], np.int32)
        time = np.array([row[1] - base for row in kept], np.int64)
        value = np.array([row[2] for row in kept], np.float64)
        order = np.lexsort((time, code))
        core = np.zeros(order.size, np.int16)
        return Counters(counter=code[order], core=core, time_ps=time[order], value=value[order])

    def _chain(self) -> None:
        """Arrows between the slices that each flow passes through, in the order of time."""
        for points in self._points.values():
            chain: list[tuple[int, int]] = []
            for time, row, last in sorted(points, key=lambda point: (point[0], point[2])):
                chain.append((time, row))
                if last:
                    self._arrow(chain)
                    chain = []
            self._arrow(chain)

    def _arrow(self, chain: list[tuple[int, int]]) -> None:
        if len(chain) == 1:
            self.receipt.set_aside(FLOWS, "have no other end")
        self._arrows += [(one[1], other[1]) for one, other in pairwise(chain)]
        self.receipt.show(FLOWS, len(chain) if len(chain) > 1 else 0)

    def _edges(self, rows: np.ndarray, count: int) -> Edges:
        """Arrows between rows of the table. rows : of `count` slices as they came, those of the table in its order"""
        if not self._arrows:
            return Edges(0)
        arrows = np.array(self._arrows, np.int64).reshape(-1, 2)
        place = np.full(count + 1, NONE, np.int64)
        place[rows] = np.arange(rows.size)
        signaler, waiter = place[arrows[:, 0]], place[arrows[:, 1]]
        known = (signaler != NONE) & (waiter != NONE)
        if not known.all():
            self.receipt.remark(f"{int((~known).sum())} arrows touch a slice that was set aside; they are left out.")
        known &= signaler != waiter
        pairs = np.unique(np.stack((signaler[known], waiter[known]), axis=1), axis=0)
        kinds = np.full(len(pairs), EdgeKind.ORDER, np.int8)
        return Edges(len(pairs), signaler=pairs[:, 0], waiter=pairs[:, 1], kind=kinds)


def by_time(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Order of rows by start, of one start the longest first, of one end as they came."""
    order = np.argsort(start, kind="stable")
    sorted_ = start[order]
    alike = np.flatnonzero(sorted_[1:] == sorted_[:-1])
    if alike.size:
        tied = np.union1d(alike, alike + 1)
        rows = order[tied]
        order[tied] = rows[np.lexsort((rows, -end[rows], start[rows]))]
    return order


class Finder:
    """Slices by track and time."""

    def __init__(
        self, track: Sequence[int], start: Sequence[int], end: Sequence[int], strings: Strings, origin: int
    ) -> None:
        self._strings = strings
        self._origin = origin
        """What times were made relative to."""
        self._end = end
        self._rows: dict[int, list[int]] = {}
        for row in sorted(range(len(start)), key=lambda row: (start[row], -end[row], row)):
            self._rows.setdefault(track[row], []).append(row)
        self._starts = {code: [start[row] for row in rows] for code, rows in self._rows.items()}

    def enclosing(self, track: str, time: int) -> int | None:
        """The innermost slice around a moment."""
        code, time = self._strings.find(track), time - self._origin
        rows = self._rows.get(code, [])
        at = bisect_right(self._starts.get(code, []), time)
        return next((row for row in reversed(rows[max(0, at - _WALK) : at]) if self._end[row] >= time), None)

    def following(self, track: str, time: int) -> int | None:
        """The first slice that starts at a moment or after it."""
        code, time = self._strings.find(track), time - self._origin
        at = bisect_left(self._starts.get(code, []), time)
        return self._rows[code][at] if at < len(self._rows.get(code, ())) else None


def _whole(times: array[int] | list[int]) -> np.ndarray:
    """As int64, as Python's numbers where these may be larger."""
    if isinstance(times, array):
        return np.frombuffer(times, np.int64) if times else np.empty(0, np.int64)
    return np.array(times, object)


def _near(parts: list[np.ndarray], moments: np.ndarray) -> list[np.ndarray]:
    """Which times of each part are so near the middle of some that 64 bits hold how far."""
    reach = LIMIT_PS / 2
    full = [part for part in parts if part.size]
    if full and max(int(part.max()) for part in full) - min(int(part.min()) for part in full) < reach / 2:
        return [np.ones(part.size, bool) for part in parts]
    middle = float(np.median(moments.astype(np.float64)))
    return [np.abs(part.astype(np.float64) - middle) < reach for part in parts]


def _those(given: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Numbers at some places, without a copy where these are all."""
    return given if where.all() else given[where]


def _reach(counters: Counters) -> tuple[int, int]:
    return (int(counters.time_ps.min()), int(counters.time_ps.max())) if len(counters) else (0, 0)
