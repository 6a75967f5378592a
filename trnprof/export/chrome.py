"""A trace as Chrome JSON, times exact to the picosecond."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec
import numpy as np

from sim.trace import Trace
from trnprof.export.tracks import Labels, Track, arrows, counter_title, nest, tracks
from trnprof.readers.chrome import LANE_OF
from trnprof.readers.chrome_events import PS_PER_US

_FLOW = {"cat": "dependency", "name": "dependency"}


def write(trace: Trace, file: BinaryIO) -> None:
    """Write one event a line."""
    file.write(b'{"displayTimeUnit":"ns","traceEvents":[\n')
    lead = b""
    for line in _Writer(trace).lines():
        file.write(lead + line)
        lead = b",\n"
    file.write(b"\n]}\n")


def microseconds(ps: int) -> bytes:
    whole, part = divmod(abs(ps), PS_PER_US)
    return b"%s%d.%06d" % (b"-" if ps < 0 else b"", whole, part) if part else b"%d" % (ps // PS_PER_US)


class _Writer:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._labels = Labels(trace)
        self._pids: dict[str, int] = {}
        self._tid = 0
        self._signaler, self._waiter = arrows(trace)
        self._tied = {*self._signaler.tolist(), *self._waiter.tolist()}
        self._places: dict[int, tuple[int, int]] = {}

    def lines(self) -> Iterator[bytes]:
        for track in tracks(self._trace):
            yield from self._track(track)
        yield from self._flows()
        yield from self._counters()

    def _pid(self, process: str) -> Iterator[bytes]:
        """The events that introduce a process the first time."""
        if process not in self._pids:
            self._pids[process] = len(self._pids) + 1
            yield _json(ph="M", name="process_name", pid=self._pids[process], args={"name": process})

    def _track(self, track: Track) -> Iterator[bytes]:
        yield from self._pid(track.process)
        pid, first = self._pids[track.process], self._tid + 1
        table = getattr(self._trace, track.table)
        start, end = table.column("start_ps")[track.rows], table.column("end_ps")[track.rows]
        lanes = nest(start, end)
        for lane in range(int(lanes.max(initial=0)) + 1):
            self._tid += 1
            yield _json(ph="M", name="thread_name", pid=pid, tid=self._tid, args={"name": track.thread})
            if lane:
                yield _json(ph="M", name=LANE_OF, pid=pid, tid=self._tid, args={"tid": first})
        columns = zip(track.rows.tolist(), start.tolist(), end.tolist(), (lanes + first).tolist())
        for row, low, high, tid in columns:
            yield self._slice(track.table, row, (low, high), (pid, tid))

    def _slice(self, table: str, row: int, span: tuple[int, int], place: tuple[int, int]) -> bytes:
        name, category, args = self._labels(table, row)
        event: dict[str, Any] = {"ph": "X", "name": name, "pid": place[0], "tid": place[1]}
        if category is not None:
            event["cat"] = category
        if table == "instructions" and row in self._tied:
            event["id"] = row
            self._places[row] = place
        event["ts"], event["dur"] = (msgspec.Raw(microseconds(time)) for time in (span[0], span[1] - span[0]))
        if args is not None:
            event["args"] = msgspec.Raw(args.encode())
        return msgspec.json.encode(event)

    def _flows(self) -> Iterator[bytes]:
        start = self._trace.instructions.start_ps
        for number, ends in enumerate(zip(self._signaler.tolist(), self._waiter.tolist())):
            for phase, row in zip("sf", ends):
                pid, tid = self._places[row]
                time = msgspec.Raw(microseconds(int(start[row])))
                binding = {"bp": "e"} if phase == "f" else {}
                yield _json(ph=phase, id=number, pid=pid, tid=tid, ts=time, args={"slice": row}, **binding, **_FLOW)

    def _counters(self) -> Iterator[bytes]:
        table = self._trace.counters
        columns = zip(*(table.column(name).tolist() for name in ("counter", "core", "time_ps", "value")))
        for code, core, time, value in columns:
            if not np.isfinite(value):
                continue
            process, name = counter_title(self._trace, code, core)
            yield from self._pid(process)
            moment = msgspec.Raw(microseconds(time))
            yield _json(ph="C", name=name, pid=self._pids[process], ts=moment, args={"value": value})


def _json(**event: object) -> bytes:
    return msgspec.json.encode(event)
