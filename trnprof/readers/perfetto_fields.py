"""Numbers of the fields of Perfetto's trace format that are read or written here.

Source: protos/perfetto/trace (perfetto.dev, "TracePacket" and "TrackEvent" reference).
"""

from __future__ import annotations

from enum import IntEnum


class Packet(IntEnum):
    """TracePacket."""

    CLOCK_SNAPSHOT = 6
    TIMESTAMP = 8
    SEQUENCE = 10
    TRACK_EVENT = 11
    INTERNED = 12
    FLAGS = 13
    CLEARED = 41
    COMPRESSED = 50
    CLOCK = 58
    DEFAULTS = 59
    TRACK = 60


class Track(IntEnum):
    """TrackDescriptor."""

    UUID = 1
    NAME = 2
    PROCESS = 3
    THREAD = 4
    PARENT = 5
    COUNTER = 8
    STATIC_NAME = 10


class Process(IntEnum):
    """ProcessDescriptor."""

    PID = 1
    NAME = 6


class Thread(IntEnum):
    """ThreadDescriptor."""

    PID = 1
    TID = 2
    NAME = 5


class Counter(IntEnum):
    """CounterDescriptor."""

    MULTIPLIER = 4
    INCREMENTAL = 5


class Event(IntEnum):
    """TrackEvent."""

    CATEGORY_IIDS = 3
    ANNOTATIONS = 4
    LEGACY = 6
    TYPE = 9
    NAME_IID = 10
    TRACK = 11
    EXTRA_VALUES = 12
    ABSOLUTE_US = 16
    CATEGORIES = 22
    NAME = 23
    VALUE = 30
    EXTRA_TRACKS = 31
    OLD_FLOWS = 36
    OLD_LAST_FLOWS = 42
    DOUBLE_VALUE = 44
    EXTRA_DOUBLE_TRACKS = 45
    EXTRA_DOUBLE_VALUES = 46
    FLOWS = 47
    LAST_FLOWS = 48


class Kind(IntEnum):
    """TrackEvent.Type."""

    BEGIN = 1
    END = 2
    INSTANT = 3
    COUNTER = 4


class Legacy(IntEnum):
    """TrackEvent.LegacyEvent."""

    NAME_IID = 1
    PHASE = 2
    DURATION_US = 3


class Note(IntEnum):
    """DebugAnnotation."""

    NAME_IID = 1
    BOOL = 2
    UINT = 3
    INT = 4
    DOUBLE = 5
    STRING = 6
    POINTER = 7
    JSON = 9
    NAME = 10
    ENTRIES = 11
    ITEMS = 12
    STRING_IID = 17


class Interned(IntEnum):
    """InternedData."""

    CATEGORIES = 1
    NAMES = 2
    NOTE_NAMES = 3
    NOTE_STRINGS = 29


class Snapshot(IntEnum):
    """ClockSnapshot."""

    CLOCKS = 1


class Clock(IntEnum):
    """ClockSnapshot.Clock."""

    ID = 1
    TIMESTAMP = 2
    INCREMENTAL = 3
    UNIT_NS = 4


BOOTTIME = 6
"""The clock of packets that name none."""

FIRST_OF_SEQUENCE, LAST_OF_SEQUENCE = 64, 127
"""Clocks with these ids belong to one sequence of packets."""

EXACT = "trnprof.ps"
"""Our annotation of what lies between whole ns: [start, end] in ps."""
