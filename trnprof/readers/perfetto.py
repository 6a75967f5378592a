"""Perfetto's protobuf traces: track events, with their tracks, interned names, counters and flows.

Packets of other data sources (ftrace, heap profiles, logs) are counted, not shown. Times are ns on Perfetto's trace
clock; clocks of a sequence are turned into it by the snapshots in the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from sim.errors import InputError
from sim.trace import Meta, Trace
from trnprof.readers import perfetto_fields as pb
from trnprof.readers.clock import PS_PER_NS
from trnprof.readers.perfetto_sequences import Sequence, first, text
from trnprof.readers.perfetto_tracks import Tracks
from trnprof.readers.receipt import Receipt
from trnprof.readers.timeline import COUNTERS, FLOWS, SLICES, Timeline
from trnprof.readers.wire import BYTES, Damaged, Fields, double, message, scan, signed, varint

PACKETS = "packets"
NS_PER_US = 1000
UNPACKED_LIMIT = 1 << 30
"""Bytes that one compressed packet may unpack to."""


def is_perfetto(head: bytes) -> bool:
    """Whether a file begins with a packet of plausible fields."""
    if head[:1] != b"\x0a":
        return False
    try:
        number, kind, value = next(scan(head))
        fields = list(scan(head, *value)) if kind == BYTES else []
    except (Damaged, StopIteration):
        return _cut_packet(head)
    return number == 1 and len(fields) > 0 and all(0 < number < 4096 for number, _, _ in fields)


def _cut_packet(head: bytes) -> bool:
    """Whether the first packet is longer than the head of the file, or the file is cut inside it."""
    try:
        padded = head + bytes(1 << 20)
        _, _, value = next(scan(padded))
        known = {int(number) for number in pb.Packet} | {1, 2, 33, 35, 36, 42, 43, 44, 87}
        return len(head) > 2 and next(scan(padded, *value))[0] in known
    except (Damaged, StopIteration, TypeError):
        return False


def read(data: bytes, path: str) -> Trace:
    """The trace of a Perfetto file; `path` is for messages."""
    receipt = Receipt()
    reader = _Reader(Timeline(receipt))
    for packet in _packets(data, receipt):
        receipt.read(PACKETS, 1)
        try:
            reader.take(message(packet))
        except Damaged:
            receipt.set_aside(PACKETS, "are damaged")
    seen = bool(reader.events)
    reader.finish()
    if not seen:
        raise InputError(f"{path}: a Perfetto trace without track events", remedy="slices and counters are shown here")
    return reader.timeline.trace(Meta(False, "unknown", path, tool="Perfetto trace"), PACKETS)


def _packets(data: bytes, receipt: Receipt) -> Iterator[bytes]:
    """The packets of a trace, unpacked where they are compressed, until it is cut off or damaged."""
    try:
        for number, kind, value in scan(data):
            if number != 1 or kind != BYTES:
                continue
            packet = data[value[0] : value[1]]
            inner = _compressed(packet)
            if inner is None:
                yield packet
            else:
                yield from _packets(inner, receipt)
    except Damaged as fault:
        receipt.read(PACKETS, 1)
        receipt.set_aside(PACKETS, "are cut off, or damaged so that nothing after them can be read")
        receipt.remark(f"The file breaks off: {fault}.")


def _compressed(packet: bytes) -> bytes | None:
    """What a packet that holds other packets unpacks to; None when it holds none."""
    if packet[:2] != bytes((0x92, 0x03)):
        return None
    body = first(message(packet), pb.Packet.COMPRESSED, b"")
    try:
        unpacker = zlib.decompressobj()
        unpacked = unpacker.decompress(body, UNPACKED_LIMIT)
    except zlib.error as fault:
        raise Damaged(f"a compressed packet: {fault}") from None
    if unpacker.unconsumed_tail:
        raise Damaged("a compressed packet unpacks to more than 1 GiB")
    return unpacked


@dataclass(slots=True)
class _Point:
    """A beginning, an instant or a value, once its names and its time are known."""

    kind: int
    name: str = ""
    category: str = ""
    args: str | None = None
    """Notes as JSON."""
    exact: tuple[int, int] | None = None
    """Start and end in ps that a slice of ours carries."""
    flows: tuple[int, ...] = ()
    last_flows: tuple[int, ...] = ()
    value: float = 0.0
    took: int | None = None
    """Duration in ps of a slice that is one event (phase X)."""


class _Reader:
    """Decodes packets in the file's order, then pairs events in the order of time."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.receipt = timeline.receipt
        self.events: list[tuple[int, int, _Point | None]] = []
        """Time in ns, track, and what happens; None for an end, which says no more."""
        self._sequences: dict[int, Sequence] = {}
        self._tracks = Tracks()
        self._sums: dict[int, float] = {}
        self._numbers: dict[int, int] = {}
        """One object for each number of a track."""

    def take(self, packet: Fields) -> None:
        sequence = self._sequences.setdefault(first(packet, pb.Packet.SEQUENCE, 0), Sequence())
        sequence.update(packet)
        used = False
        for body in _chunks(packet, pb.Packet.TRACK):
            self._tracks.add(message(body))
            used = True
        for body in _chunks(packet, pb.Packet.TRACK_EVENT):
            self._event(message(body), packet, sequence)
            used = True
        self.receipt.show(PACKETS, 1)
        if not used and not sequence.explains(packet):
            self.receipt.leave("packets of other data sources", 1)

    def _event(self, event: Fields, packet: Fields, sequence: Sequence) -> None:
        time = sequence.time(packet, event)
        kind = first(event, pb.Event.TYPE, 0)
        legacy = message(first(event, pb.Event.LEGACY, b""))
        phase = chr(first(legacy, pb.Legacy.PHASE, 0) % 0x110000)
        took = None
        if kind == 0 and phase in "BEXiIR":
            kind = {"B": pb.Kind.BEGIN, "E": pb.Kind.END}.get(phase, pb.Kind.BEGIN if phase == "X" else pb.Kind.INSTANT)
            took = first(legacy, pb.Legacy.DURATION_US, 0) * NS_PER_US * PS_PER_NS if phase == "X" else None
        if time is None:
            return self._refuse(kind, "have no time that the file explains")
        track = self._numbers.setdefault(track := first(event, pb.Event.TRACK, sequence.track), track)
        if kind in (pb.Kind.BEGIN, pb.Kind.END, pb.Kind.INSTANT):
            self.events.append((time, track, self._described(kind, took, event, legacy, sequence)))
        elif kind == pb.Kind.COUNTER:
            whole = pb.Event.VALUE in event
            value = float(signed(first(event, pb.Event.VALUE, 0))) if whole else double(
                first(event, pb.Event.DOUBLE_VALUE, 0)
            )  # fmt: skip
            notes = dict(sequence.note(message(note)) for note in _chunks(event, pb.Event.ANNOTATIONS))
            self._value(time, track, value, notes)
        else:
            self._refuse(kind, "have no type known here")
        self._extra(time, event, sequence)
        return None

    def _refuse(self, kind: int, reason: str) -> None:
        table = COUNTERS if kind == pb.Kind.COUNTER else SLICES
        self.receipt.read(table, 1)
        self.receipt.set_aside(table, reason)

    def _described(
        self, kind: int, took: int | None, event: Fields, legacy: Fields, sequence: Sequence
    ) -> _Point | None:
        if kind == pb.Kind.END:
            return None
        point = _Point(kind, took=took)
        iid = first(event, pb.Event.NAME_IID, first(legacy, pb.Legacy.NAME_IID, 0))
        point.name = text(event, pb.Event.NAME) or sequence.name(pb.Interned.NAMES, iid)
        categories = [sequence.name(pb.Interned.CATEGORIES, iid) for iid in _numbers(event, pb.Event.CATEGORY_IIDS)]
        own = [value.decode("utf-8", "replace") for value in _chunks(event, pb.Event.CATEGORIES)]
        point.category = ",".join([*categories, *own])
        notes = dict(sequence.note(message(note)) for note in _chunks(event, pb.Event.ANNOTATIONS))
        point.exact = _pair(notes.pop(pb.EXACT, None))
        point.args = msgspec.json.encode(notes).decode("utf-8", "replace") if notes else None
        point.flows = (*_numbers(event, pb.Event.FLOWS, 8), *_numbers(event, pb.Event.OLD_FLOWS))
        point.last_flows = (*_numbers(event, pb.Event.LAST_FLOWS, 8), *_numbers(event, pb.Event.OLD_LAST_FLOWS))
        return point

    def _value(self, time: int, track: int, value: float, notes: dict[str, Any] | None = None) -> None:
        exact = _pair(notes.get(pb.EXACT)) if notes else None
        self.events.append((time, track, _Point(pb.Kind.COUNTER, exact=exact, value=value)))

    def _extra(self, time: int, event: Fields, sequence: Sequence) -> None:
        """Counters that ride on a slice's event."""
        whole = [signed(value) for value in _numbers(event, pb.Event.EXTRA_VALUES)]
        tracks = _numbers(event, pb.Event.EXTRA_TRACKS) or sequence.extra_tracks
        for track, value in zip(tracks, whole):
            self._value(time, track, float(value))
        doubles = [double(value) for value in _numbers(event, pb.Event.EXTRA_DOUBLE_VALUES, 8)]
        tracks = _numbers(event, pb.Event.EXTRA_DOUBLE_TRACKS) or sequence.extra_double_tracks
        for track, value in zip(tracks, doubles):
            self._value(time, track, value)

    def finish(self) -> None:
        """Put every event into the timeline."""
        names = self._tracks.names()
        stacks: dict[int, list[tuple[int, tuple[int, int] | None, int]]] = {}
        self.events.sort(key=lambda event: event[0])
        self.events.reverse()
        while self.events:
            # Each goes when it is told: events and timeline together would be held else.
            time, number, point = self.events.pop()
            track = names.get(number, f"track {number}")
            if point is None:
                self._end(time, stacks.get(number))
            elif point.kind == pb.Kind.COUNTER:
                self._count(time, number, point, track)
            else:
                row = self._slice(time, point, track)
                if point.kind == pb.Kind.BEGIN and point.took is None:
                    stacks.setdefault(number, []).append((row, _agreed(point.exact, time), time))
        for stack in stacks.values():
            for row, *_ in stack:
                self.timeline.leave_open(row)

    def _count(self, time: int, number: int, point: _Point, track: str) -> None:
        scale, adds = self._tracks.counter(number)
        value = point.value * scale + (self._sums.get(number, 0.0) if adds else 0.0)
        self._sums[number] = value
        self.receipt.read(COUNTERS, 1)
        exact = _agreed(point.exact, time)
        self.timeline.count(track, exact[0] if exact else time, value)

    def _slice(self, time: int, point: _Point, track: str) -> int:
        exact = _agreed(point.exact, time)
        start = exact[0] if exact else time
        end = time + (point.took or 0) if point.kind == pb.Kind.INSTANT or point.took is not None else start
        row = self.timeline.slice(track, point.name, start, exact[1] if exact else end, point.category, point.args)
        self.receipt.read(SLICES, 1)
        self.receipt.read_time(SLICES, 0 if point.kind == pb.Kind.BEGIN and point.took is None else end - start)
        for flow in (*point.flows, *point.last_flows):
            self.receipt.read(FLOWS, 1)
            self.timeline.point(flow, row, time, flow in point.last_flows)
        return row

    def _end(self, time: int, stack: list[tuple[int, tuple[int, int] | None, int]] | None) -> None:
        if not stack:
            return self._refuse(pb.Kind.END, "end what never began")
        row, exact, began = stack.pop()
        fits = exact is not None and abs(exact[1] - time) <= PS_PER_NS
        start, end = exact if exact is not None and fits else (began, time)
        self.timeline.span(row, start, end)
        self.receipt.read_time(SLICES, end - start)
        return None


def _pair(found: Any) -> tuple[int, int] | None:
    """Two whole numbers of a note, where it has them."""
    if not isinstance(found, list) or len(found) != 2 or not all(type(time) is int for time in found):
        return None
    return found[0], found[1]


def _agreed(exact: tuple[int, int] | None, time: int) -> tuple[int, int] | None:
    """Start and end in ps that a slice of ours carries, where they agree with its time."""
    return exact if exact is not None and abs(exact[0] - time) <= PS_PER_NS and exact[1] >= exact[0] else None


def _chunks(fields: Fields, number: int) -> list[bytes]:
    return [value for value in fields.get(number, ()) if isinstance(value, bytes)]


def _numbers(fields: Fields, number: int, size: int = 0) -> list[int]:
    """Repeated numbers, packed or not; `size` of each in bytes, 0 for varints."""
    found: list[int] = []
    for value in fields.get(number, ()):
        if isinstance(value, int):
            found.append(value)
        elif size:
            found += [int.from_bytes(value[at : at + size], "little") for at in range(0, len(value), size)]
        else:
            at = 0
            while at < len(value):
                one, at = varint(value, at, len(value))
                found.append(one)
    return found
