"""Loops of any length, timed exactly from a few of their iterations.

The scheduler is deterministic: once its state, relative to the present, is one that it was in before, everything from
there on happens again. The state is made of the iterations that are under way, the buffers and instructions that these
wait for, and the windows of the queues. So when all times and places of as many iterations as that reaches back repeat
with a shift, iterations may be left out, and every instruction of the full loop has its time to the picosecond.
TensorE's clock, which looks at windows of fixed length, must repeat too, or be sure never to change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sim.compiler import UNBOUNDED, Options
from sim.errors import InputError, UnsupportedError
from sim.program import Program
from sim.record import record
from sim.schedule import Schedule, picoseconds, schedule
from sim.trace import Trace

FIRST = 16
"""Iterations of the first attempt; then four times as many each time."""

MOST = 1 << 18
"""Instructions that are scheduled to find a period."""


@dataclass(frozen=True, slots=True)
class Period:
    """What repeats in a schedule."""

    iterations: int
    ps: int
    body: int
    """Instructions of one iteration."""
    first: int
    """Instruction at which the part that repeats begins."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A loop of which some iterations were scheduled."""

    trips: int
    scheduled: int
    """Iterations of `timed`; the others are copies of its periods."""
    timed: Schedule
    period: Period | None
    """None where all iterations were scheduled."""

    @property
    def copies(self) -> int:
        """Periods that `timed` leaves out."""
        return (self.trips - self.scheduled) // self.period.iterations if self.period else 0

    @property
    def end_ps(self) -> int:
        """Last completion of the whole loop."""
        return self.timed.end_ps + (self.copies * self.period.ps if self.period else 0)

    @property
    def latency_ns(self) -> float:
        return self.end_ps / 1e3

    @property
    def instructions(self) -> int:
        """Of the whole loop."""
        left_out = self.copies * self.period.iterations * self.period.body if self.period else 0
        return len(self.timed.program) + left_out

    def start_ps(self, instruction: int) -> int:
        """Start of an instruction of the whole loop, by its number there."""
        return self._time(self.timed.start, instruction)

    def done_ps(self, instruction: int) -> int:
        """Its completion."""
        return self._time(self.timed.done, instruction)

    def _time(self, column: np.ndarray, instruction: int) -> int:
        if not 0 <= instruction < self.instructions:
            raise InputError(f"instruction {instruction} of a loop with {self.instructions}")
        if self.period is None or instruction < self.period.first:
            return int(column[instruction])
        size = self.period.iterations * self.period.body
        skipped = min((instruction - self.period.first) // size, self.copies)
        return int(column[instruction - skipped * size]) + skipped * self.period.ps

    def trace(self) -> Trace:
        """The scheduled iterations as a trace whose notes say what they stand for."""
        made = record(self.timed)
        if not self.copies:
            return made
        note = (
            f"{self.scheduled} of {self.trips} iterations are shown; {self.copies} times {self.period.iterations} more "
            f"of {self.period.ps / 1e3:.3f} ns, equal to those from instruction {self.period.first} on, are left out: "
            f"the whole loop takes {self.latency_ns:.3f} ns."
        )
        return replace(made, meta=replace(made.meta, notes=(*made.meta.notes, note)))


def repeat(build: Callable[[int], Program], trips: int, options: Options | None = None) -> Repeated:
    """The times of a loop of `trips` iterations.

    build  : gives the program with so many iterations, equal but for places in HBM that depend on no other iteration
    raises : UnsupportedError when it is too long to be scheduled as a whole and no period is found
    """
    if trips < 1:
        raise InputError(f"trips={trips}: at least one iteration is needed")
    count, body = FIRST, 0
    while count < trips:
        timed = schedule(build(count), options)
        body = body or _body(timed, schedule(build(count - 1), options))
        found = find(timed, body) if body else None
        done = _closed(build, trips, count, found, options) if found is not None else None
        if done is not None:
            return done
        count *= 4
        if len(timed.program) * 4 > MOST and trips > count:
            raise UnsupportedError(
                f"no period in {len(timed.program)} instructions of a loop of {trips} iterations",
                remedy="run fewer iterations",
            )
    return Repeated(trips, trips, schedule(build(trips), options), None)


def _closed(
    build: Callable[[int], Program], trips: int, count: int, found: Period, options: Options | None
) -> Repeated | None:
    """The loop with as many iterations scheduled as leave whole periods out; None where the period does not hold."""
    whole = count + (trips - count) % found.iterations
    timed = schedule(build(whole), options)
    period = find(timed, found.body)
    if period is None or (period.iterations, period.ps) != (found.iterations, found.ps):
        return None
    return Repeated(trips, whole, timed, period)


def _body(timed: Schedule, shorter: Schedule) -> int:
    """Instructions of an iteration; 0 where the compiler's passes made more of it than a repetition."""
    form, other = timed.program.form, shorter.program.form
    body, half = form.size - other.size, other.size // 2
    return body if body > 0 and np.array_equal(form[:half], other[:half]) else 0


def find(timed: Schedule, body: int) -> Period | None:
    """The shortest period that a schedule provably goes on with."""
    first, rows = _repeating(timed.program.form, body)
    if rows < 4:
        return None
    span = slice(first, first + rows * body)
    code = _codes(timed, span, body)
    reach = _reach(timed, span, body)
    for step in range(1, rows // 4 + 1):
        begin, length = _longest(code[step:] == code[:-step])
        if length < reach + 2 * step:
            continue
        at = first + begin * body
        ps = int(timed.start[at + step * body] - timed.start[at])
        if ps > 0 and _clock_repeats(timed, at, (length + step) * body, step * body, ps):
            return Period(step, ps, body, at)
    return None


def _repeating(form: np.ndarray, body: int) -> tuple[int, int]:
    """(first instruction, iterations) of the longest stretch in which each instruction is as the one a body later."""
    if body >= form.size:
        return 0, 0
    first, length = _longest(form[body:] == form[:-body])
    return first, length // body + 1 if length else 0


def _longest(mask: np.ndarray) -> tuple[int, int]:
    """(first, length) of the longest run of True."""
    edges = np.diff(np.concatenate(([0], mask.astype(np.int8), [0])))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    if not begins.size:
        return 0, 0
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest] - begins[longest])


def _codes(timed: Schedule, span: slice, body: int) -> np.ndarray:
    """A number for each iteration, equal where all that happens in it is, relative to the iteration before."""
    rows = (span.stop - span.start) // body
    own = np.arange(span.start, span.stop)
    begin = timed.start[span.start : span.stop : body]
    step = np.diff(begin, prepend=begin[0] - 1)
    relative = [column[span] - np.repeat(begin, body) for column in (timed.start, timed.freed, timed.done)]
    plain = [timed.wait_ps[span], timed.wait[span].astype(np.int64), timed.bind[span] - own, timed.program.core[span]]
    columns = [column.reshape(rows, body).astype(np.int64) for column in (*relative, *plain)]
    sums = [_digests(timed, span).reshape(rows, body)]
    table = np.concatenate((step[:, None], *columns, *sums), axis=1)
    return np.unique(table, axis=0, return_inverse=True)[1].reshape(-1)


def _digests(timed: Schedule, span: slice) -> np.ndarray:
    """A number for each instruction of what it touches on chip, whom it waits for, and its DMA engines."""
    program, placement, found = timed.program, timed.placement, timed.dependences
    n = len(program)
    digest = np.zeros(n, np.uint64)
    storage, offset, layout = program.operands.T
    on_chip = placement.columns.pitch[storage] > 0
    address = placement.offset + (placement.partition.astype(np.int64) << 32)
    place = np.where(on_chip, address[storage] + offset, 0)
    owner = np.repeat(np.arange(n), np.diff(program.operand_start))
    np.add.at(digest, owner, _mixed(place, layout, np.arange(owner.size) - program.operand_start[owner]))
    waiter = found.waiters()
    code = found.kind.astype(np.int64) * 8 + found.gate * 2 + found.reuse
    apart = np.where(found.predecessor < span.start, -1 - found.predecessor, waiter - found.predecessor)
    np.add.at(digest, waiter, _mixed(apart, code))
    moved = timed.transfers
    queued = _mixed(moved.first_engine, moved.end - moved.start, moved.start - moved.arrival)
    np.add.at(digest, moved.instruction, queued)
    return digest[span].view(np.int64)


def _mixed(*parts: np.ndarray) -> np.ndarray:
    """One 64-bit number of several."""
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for part in parts:
        mixed = (mixed ^ np.asarray(part, np.int64).view(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = mixed ^ (mixed >> np.uint64(29))
    return mixed


def _reach(timed: Schedule, span: slice, body: int) -> int:
    """Iterations on which what happens next can depend."""
    first, rows = span.start, (span.stop - span.start) // body
    waiter, predecessor = timed.dependences.waiters(), timed.dependences.predecessor
    inside = (predecessor >= first) & (waiter < span.stop)
    apart = int((waiter[inside] - predecessor[inside]).max(initial=0)) // body + 1
    begun = timed.start[span].reshape(rows, body).min(axis=1)
    over = np.maximum(timed.done[span], timed.freed[span]).reshape(rows, body).max(axis=1)
    earliest = np.minimum.accumulate(begun[::-1])[::-1]
    under_way = int((np.searchsorted(earliest, over) - np.arange(rows)).max(initial=1))
    return apart + under_way + _window(timed, span, body) + 1


def _window(timed: Schedule, span: slice, body: int) -> int:
    """Iterations that a window of bounded length reaches over."""
    form = timed.program.form[span.start : span.start + body]
    streams = np.array([timed.program.forms[number].engine for number in form.tolist()])
    per_stream = np.bincount(streams, minlength=len(timed.options.windows))
    return max(
        -(-window // int(count)) + 1 if window < UNBOUNDED else 1
        for window, count in zip(timed.options.windows, per_stream)
        if count
    )


def _clock_repeats(timed: Schedule, first: int, length: int, period: int, ps: int) -> bool:
    """Whether TensorE's clock does the same in every period that follows."""
    device = timed.program.device
    window = picoseconds(device.get("pe.clock_window") or 0)
    clocked = np.array([form.cost.clocked for form in timed.program.forms], bool)[timed.program.form]
    if not window or not clocked[first : first + period].any() or ps % window == 0:
        return True
    begin, end = int(timed.start[first]), int(timed.start[first + length - period])
    warm = _state(timed.clocks, begin)
    if warm is None or np.any((timed.clocks[:, 0] > begin) & (timed.clocks[:, 0] <= end)):
        return False
    low, high = _busy(timed, np.flatnonzero(clocked[first : first + period]) + first, ps, window)
    if warm:
        return low >= picoseconds(device["pe.clock_window"] * device["pe.clock_down"])
    return high < picoseconds(device["pe.clock_window"] * device["pe.clock_up"])


def _state(clocks: np.ndarray, time: int) -> bool | None:
    """Whether the clock of the only core is warm at a time; None with several cores."""
    if clocks[:, 1].any():
        return None
    before = clocks[clocks[:, 0] <= time]
    return bool(before[-1, 2]) if len(before) else False


def _busy(timed: Schedule, rows: np.ndarray, ps: int, window: int) -> tuple[int, int]:
    """Least and most busy time of TensorE in any window of that length, when these instructions repeat every `ps`."""
    order = np.argsort(timed.start[rows])
    start, end = timed.start[rows][order], timed.freed[rows][order]
    periods = np.arange(-1, window // ps + 3) * ps
    starts, ends = (np.sort((column[None, :] + periods[:, None]).ravel()) for column in (start, end))
    total = np.concatenate(([0], np.cumsum(ends - starts)))

    def until(time: np.ndarray) -> np.ndarray:
        at = np.searchsorted(starts, time, side="right") - 1
        return np.where(at < 0, 0, total[at] + np.minimum(time, ends[at]) - starts[at])

    borders = np.concatenate((starts, ends, starts - window, ends - window))
    borders = borders[(borders >= start[0]) & (borders <= start[0] + ps)]
    worked = until(borders + window) - until(borders)
    return int(worked.min()), int(worked.max())
