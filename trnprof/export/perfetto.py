"""A trace as Perfetto protobuf: tracks, slices, counters and flows.

Perfetto counts in ns: both ends are rounded, and a slice or a counter's value whose times are not whole ns carries
them in ps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from sim.trace import Trace
from trnprof.export.tracks import Labels, Track, arrows, counter_title, nest, tracks
from trnprof.readers import perfetto_fields as pb
from trnprof.readers.clock import PS_PER_NS
from trnprof.readers.wire import put_bytes, put_double, put_fixed, put_int, put_text

_SEQUENCE = put_int(pb.Packet.SEQUENCE, 1)
_FIRST, _NEEDS = 1, 2
_EXPLICIT = 3
"""TrackDescriptor.child_ordering: by the rank of the children."""
_CHILD_ORDER, _RANK = 11, 12


def write(trace: Trace, file: BinaryIO) -> None:
    """Write packet by packet."""
    for packet in _Writer(trace).packets():
        file.write(put_bytes(1, packet))


def nanoseconds(ps: int) -> int:
    return (ps + PS_PER_NS // 2) // PS_PER_NS


class _Writer:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._labels = Labels(trace)
        self._uuid = 0
        self._processes: dict[str, int] = {}
        self._iids: dict[tuple[int, str], int] = {}
        self._out: dict[int, list[int]] = {}
        self._in: dict[int, list[int]] = {}
        signaler, waiter = arrows(trace)
        for flow, (one, other) in enumerate(zip(signaler.tolist(), waiter.tolist()), 1):
            self._out.setdefault(one, []).append(flow)
            self._in.setdefault(other, []).append(flow)
        self._shift = -min(0, *(int(times.min(initial=0)) for times in _times(trace)))

    def packets(self) -> Iterator[bytes]:
        yield _SEQUENCE + put_int(pb.Packet.FLAGS, _FIRST | _NEEDS)
        for track in tracks(self._trace):
            yield from self._track(track)
        yield from self._counters()

    def _process(self, name: str) -> Iterator[bytes]:
        """The packet that introduces a process the first time."""
        if not name or name in self._processes:
            return
        self._uuid += 1
        self._processes[name] = self._uuid
        who = put_int(pb.Process.PID, len(self._processes)) + put_text(pb.Process.NAME, name)
        yield _descriptor(self._uuid, put_bytes(pb.Track.PROCESS, who) + put_int(_CHILD_ORDER, _EXPLICIT))

    def _describe(self, process: str, name: str, more: bytes = b"") -> bytes:
        """The packet that introduces a track."""
        self._uuid += 1
        parent = put_int(pb.Track.PARENT, self._processes[process]) if process else b""
        body = put_text(pb.Track.NAME, name) + parent + put_int(_RANK, self._uuid) + more
        return _descriptor(self._uuid, body)

    def _track(self, track: Track) -> Iterator[bytes]:
        yield from self._process(track.process)
        table = getattr(self._trace, track.table)
        start, end = table.column("start_ps")[track.rows], table.column("end_ps")[track.rows]
        lanes = nest(start, end)
        for lane in range(int(lanes.max(initial=0)) + 1):
            yield self._describe(track.process, track.thread)
            mine = lanes == lane
            spans = zip(start[mine].tolist(), end[mine].tolist())
            yield from self._slices(track.table, track.rows[mine].tolist(), spans, self._uuid)

    def _slices(self, table: str, rows: list[int], spans: Iterator[tuple[int, int]], uuid: int) -> Iterator[bytes]:
        """Beginnings and ends in the order of time; an end comes before a beginning of the same moment."""
        stack: list[int] = []
        for row, (low, high) in zip(rows, spans):
            while stack and stack[-1] <= low:
                yield self._end(stack.pop(), uuid)
            yield self._begin(table, row, low, high, uuid)
            stack.append(high)
        while stack:
            yield self._end(stack.pop(), uuid)

    def _begin(self, table: str, row: int, low: int, high: int, uuid: int) -> bytes:
        name, category, args = self._labels(table, row)
        interned = bytearray()
        event = bytearray(put_int(pb.Event.TYPE, pb.Kind.BEGIN) + put_int(pb.Event.TRACK, uuid))
        event += put_int(pb.Event.NAME_IID, self._intern(pb.Interned.NAMES, name, interned))
        if category is not None:
            iid = self._intern(pb.Interned.CATEGORIES, category, interned)
            event += put_int(pb.Event.CATEGORY_IIDS, iid)
        for key, value in (msgspec.json.decode(args) if args else {}).items():
            iid = self._intern(pb.Interned.NOTE_NAMES, key, interned)
            event += put_bytes(pb.Event.ANNOTATIONS, put_int(pb.Note.NAME_IID, iid) + _value(value))
        if low % PS_PER_NS or high % PS_PER_NS:
            event += self._exact(low, high, interned)
        if table == "instructions":
            event += b"".join(put_fixed(pb.Event.FLOWS, flow) for flow in self._out.get(row, ()))
            event += b"".join(put_fixed(pb.Event.LAST_FLOWS, flow) for flow in self._in.get(row, ()))
        return self._packet(low, bytes(event), bytes(interned))

    def _exact(self, low: int, high: int, interned: bytearray) -> bytes:
        iid = self._intern(pb.Interned.NOTE_NAMES, pb.EXACT, interned)
        items = b"".join(put_bytes(pb.Note.ITEMS, put_int(pb.Note.INT, time + self._shift)) for time in (low, high))
        return put_bytes(pb.Event.ANNOTATIONS, put_int(pb.Note.NAME_IID, iid) + items)

    def _end(self, time: int, uuid: int) -> bytes:
        return self._packet(time, put_int(pb.Event.TYPE, pb.Kind.END) + put_int(pb.Event.TRACK, uuid))

    def _packet(self, time: int, event: bytes, interned: bytes = b"") -> bytes:
        names = put_bytes(pb.Packet.INTERNED, interned) if interned else b""
        stamp = put_int(pb.Packet.TIMESTAMP, nanoseconds(time + self._shift))
        flags = put_int(pb.Packet.FLAGS, _NEEDS)
        return stamp + _SEQUENCE + flags + names + put_bytes(pb.Packet.TRACK_EVENT, event)

    def _intern(self, kind: int, text: str, interned: bytearray) -> int:
        """The number of a text, which is defined in the packet that needs it first."""
        iid = self._iids.get((kind, text))
        if iid is None:
            iid = self._iids[kind, text] = len(self._iids) + 1
            interned += put_bytes(kind, put_int(1, iid) + put_text(2, text))
        return iid

    def _counters(self) -> Iterator[bytes]:
        table, uuids = self._trace.counters, {}
        columns = zip(*(table.column(name).tolist() for name in ("counter", "core", "time_ps", "value")))
        for code, core, time, value in columns:
            if (code, core) not in uuids:
                process, name = counter_title(self._trace, code, core)
                yield from self._process(process)
                yield self._describe(process, name, put_bytes(pb.Track.COUNTER, b""))
                uuids[code, core] = self._uuid
            event = put_int(pb.Event.TYPE, pb.Kind.COUNTER) + put_int(pb.Event.TRACK, uuids[code, core])
            event += put_double(pb.Event.DOUBLE_VALUE, value)
            interned = bytearray()
            exact = self._exact(time, time, interned) if time % PS_PER_NS else b""
            yield self._packet(time, event + exact, bytes(interned))


def _times(trace: Trace) -> Iterator[Any]:
    yield trace.counters.time_ps
    for table in (trace.instructions, trace.transfers, trace.packets, trace.regions):
        yield table.start_ps


def _descriptor(uuid: int, body: bytes) -> bytes:
    return _SEQUENCE + put_bytes(pb.Packet.TRACK, put_int(pb.Track.UUID, uuid) + body)


def _value(value: Any) -> bytes:
    """The value of an annotation; lists and objects as JSON."""
    if value is None:
        return b""
    if isinstance(value, bool):
        return put_int(pb.Note.BOOL, value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return put_int(pb.Note.INT, value)
    if isinstance(value, int | float):
        return put_double(pb.Note.DOUBLE, float(value))
    if isinstance(value, str):
        return put_text(pb.Note.STRING, value)
    return put_bytes(pb.Note.JSON, msgspec.json.encode(value))
