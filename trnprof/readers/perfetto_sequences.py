"""What the packets of one Perfetto sequence agree on: interned names, defaults and clocks."""

from __future__ import annotations

from typing import Any

import msgspec

from trnprof.readers import perfetto_fields as pb
from trnprof.readers.clock import PS_PER_NS
from trnprof.readers.wire import Damaged, Fields, double, message, signed

STATE_CLEARED = 1
"""Bit of sequence_flags."""
_DEPTH = 16


def first(fields: Fields, number: int, absent: Any) -> Any:
    """The last value of a field, as Protobuf has it, of the type of `absent`."""
    values = [value for value in fields.get(number, ()) if isinstance(value, type(absent))]
    return values[-1] if values else absent


def text(fields: Fields, number: int) -> str:
    return first(fields, number, b"").decode("utf-8", "replace")


class Sequence:
    """Kept up to date packet by packet."""

    def __init__(self) -> None:
        self._names: dict[int, dict[int, str]] = {}
        self.track = 0
        self.extra_tracks: list[int] = []
        self.extra_double_tracks: list[int] = []
        self._clock = 0
        self._offset: dict[int, tuple[int, int]] = {}
        """By clock: ns of the trace at its own 0, and ns of its unit."""
        self._last: dict[int, int] = {}
        """By incremental clock: its last reading, in its unit."""

    def update(self, packet: Fields) -> None:
        """Take what a packet says of those after it."""
        if first(packet, pb.Packet.FLAGS, 0) & STATE_CLEARED or first(packet, pb.Packet.CLEARED, 0):
            self._names.clear()
            self.track, self.extra_tracks, self.extra_double_tracks, self._clock = 0, [], [], 0
        for body in _messages(packet, pb.Packet.DEFAULTS):
            self._clock = first(body, pb.Packet.CLOCK, 0)
            for event in _messages(body, pb.Packet.TRACK_EVENT):
                self.track = first(event, pb.Event.TRACK, 0)
                self.extra_tracks = [track for track in event.get(pb.Event.EXTRA_TRACKS, ()) if isinstance(track, int)]
                doubles = event.get(pb.Event.EXTRA_DOUBLE_TRACKS, ())
                self.extra_double_tracks = [track for track in doubles if isinstance(track, int)]
        for body in _messages(packet, pb.Packet.INTERNED):
            for kind in pb.Interned:
                for entry in _messages(body, kind):
                    self._names.setdefault(kind, {})[first(entry, 1, 0)] = text(entry, 2)
        for body in _messages(packet, pb.Packet.CLOCK_SNAPSHOT):
            self._snapshot(body)

    def explains(self, packet: Fields) -> bool:
        """Whether a packet without events serves those after it."""
        return any(
            number in packet for number in (pb.Packet.DEFAULTS, pb.Packet.INTERNED, pb.Packet.CLOCK_SNAPSHOT)
        ) or not packet.keys() - {pb.Packet.SEQUENCE, pb.Packet.FLAGS, pb.Packet.CLEARED, pb.Packet.TIMESTAMP, 87}

    def _snapshot(self, body: Fields) -> None:
        clocks = _messages(body, pb.Snapshot.CLOCKS)
        readings = {first(clock, pb.Clock.ID, 0): clock for clock in clocks}
        if pb.BOOTTIME not in readings:
            return
        now = first(readings[pb.BOOTTIME], pb.Clock.TIMESTAMP, 0)
        for number, clock in readings.items():
            unit, reading = first(clock, pb.Clock.UNIT_NS, 0) or 1, first(clock, pb.Clock.TIMESTAMP, 0)
            self._offset[number] = (now - reading * unit, unit)
            if first(clock, pb.Clock.INCREMENTAL, 0):
                self._last[number] = reading

    def time(self, packet: Fields, event: Fields) -> int | None:
        """The moment of an event in ps; None when it has none or its clock is not explained."""
        if pb.Event.ABSOLUTE_US in event:
            return signed(first(event, pb.Event.ABSOLUTE_US, 0)) * 1000 * PS_PER_NS
        if pb.Packet.TIMESTAMP not in packet:
            return None
        stamp = first(packet, pb.Packet.TIMESTAMP, 0)
        clock = first(packet, pb.Packet.CLOCK, 0) or self._clock or pb.BOOTTIME
        if clock in self._last:
            stamp = self._last[clock] = self._last[clock] + stamp
        if clock in self._offset:
            offset, unit = self._offset[clock]
            return (offset + stamp * unit) * PS_PER_NS
        sequential = pb.FIRST_OF_SEQUENCE <= clock <= pb.LAST_OF_SEQUENCE
        return None if sequential else stamp * PS_PER_NS

    def name(self, kind: int, iid: int) -> str:
        return self._names.get(kind, {}).get(iid, "")

    def note(self, fields: Fields, depth: int = 0) -> tuple[str, Any]:
        """Name and value of a debug annotation."""
        name = text(fields, pb.Note.NAME) or self.name(pb.Interned.NOTE_NAMES, first(fields, pb.Note.NAME_IID, 0))
        return name, self._note_value(fields, depth)

    def _note_value(self, fields: Fields, depth: int) -> Any:
        if depth > _DEPTH:
            raise Damaged("annotations nested too deeply")
        if pb.Note.ENTRIES in fields:
            return dict(self.note(entry, depth + 1) for entry in _messages(fields, pb.Note.ENTRIES))
        if pb.Note.ITEMS in fields:
            return [self._note_value(item, depth + 1) for item in _messages(fields, pb.Note.ITEMS)]
        if pb.Note.STRING in fields:
            return text(fields, pb.Note.STRING)
        if pb.Note.JSON in fields:
            return _json(text(fields, pb.Note.JSON))
        if pb.Note.STRING_IID in fields:
            return self.name(pb.Interned.NOTE_STRINGS, first(fields, pb.Note.STRING_IID, 0))
        if pb.Note.DOUBLE in fields:
            value = double(first(fields, pb.Note.DOUBLE, 0))
            return value if value - value == 0 else str(value)
        if pb.Note.BOOL in fields:
            return bool(first(fields, pb.Note.BOOL, 0))
        if pb.Note.INT in fields:
            return signed(first(fields, pb.Note.INT, 0))
        return next((first(fields, n, 0) for n in (pb.Note.UINT, pb.Note.POINTER) if n in fields), None)


def _messages(fields: Fields, number: int) -> list[Fields]:
    return [message(value) for value in fields.get(number, ()) if isinstance(value, bytes)]


def _json(value: str) -> Any:
    """What a JSON annotation holds; its text where it is none."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value
