"""General timelines made by hand: what PyTorch, XProf, VizTracer and Perfetto's SDK write, in small."""

from __future__ import annotations

import json
from typing import Any

from trnprof.readers import perfetto_fields as pb
from trnprof.readers.wire import put_bytes, put_double, put_fixed, put_int, put_text

KINETO_START_US = 1_700_000_000_000_000


def kineto() -> dict[str, Any]:
    """PyTorch's profiler: times since 1970 in µs with three digits, a stream, ac2g flows, a memory counter."""
    t = KINETO_START_US
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "none"}],
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "ts": t, "args": {"name": "python"}},
            {"ph": "M", "name": "thread_name", "pid": 7, "tid": 7, "args": {"name": "main"}},
            {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "device 0"}},
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": f"{t}.123", "dur": 12.5,
             "args": {"External id": 3, "Input Dims": [[128, 64], [64, 32]]}},
            {"ph": "X", "cat": "runtime", "name": "launch", "pid": 7, "tid": 7, "ts": t + 2, "dur": 1,
             "args": {"correlation": 9}},
            {"ph": "s", "id": 9, "pid": 7, "tid": 7, "ts": t + 2, "cat": "ac2g", "name": "ac2g"},
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": "stream 7", "ts": t + 20, "dur": 5.25,
             "args": {"correlation": 9}},
            {"ph": "f", "id": 9, "pid": 0, "tid": "stream 7", "ts": t + 20, "cat": "ac2g", "name": "ac2g", "bp": "e"},
            {"ph": "i", "s": "t", "name": "[memory]", "pid": 7, "tid": 7, "ts": t + 3, "args": {"Bytes": 512}},
            {"ph": "C", "name": "allocated", "pid": 7, "ts": t + 3, "args": {"value": 512}},
            {"ph": "C", "name": "allocated", "pid": 7, "ts": t + 9, "args": {"value": 0}},
        ],
        "traceName": "x.json",
    }  # fmt: skip


def paired() -> list[dict[str, Any]]:
    """A bare list: B/E unsorted and nested, asynchronous slices that overlap, counters of two series."""
    return [
        {"ph": "E", "pid": 1, "tid": 1, "ts": 30},
        {"ph": "B", "pid": 1, "tid": 1, "ts": 0, "name": "outer", "args": {"a": 1}},
        {"ph": "B", "pid": 1, "tid": 1, "ts": 10, "name": "inner", "cat": "x"},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 20.0005},
        {"ph": "b", "pid": 1, "cat": "net", "id": "0x1", "name": "request", "ts": 1},
        {"ph": "b", "pid": 1, "cat": "net", "id": "0x2", "name": "request", "ts": 2},
        {"ph": "e", "pid": 1, "cat": "net", "id": "0x1", "name": "request", "ts": 5},
        {"ph": "n", "pid": 1, "cat": "net", "id": "0x2", "name": "retry", "ts": 6},
        {"ph": "e", "pid": 1, "cat": "net", "id": "0x2", "name": "request", "ts": 9},
        {"ph": "C", "pid": 1, "name": "memory", "ts": 4, "args": {"used": 3, "free": "5"}},
        {"ph": "s", "id": 1, "cat": "c", "name": "n", "pid": 1, "tid": 1, "ts": 12},
        {"ph": "t", "id": 1, "cat": "c", "name": "n", "pid": 1, "tid": 1, "ts": 25},
        {"ph": "v", "pid": 1, "ts": 3, "name": "memory_dump"},
    ]


def packet(**fields: bytes | int) -> bytes:
    body = b"".join(
        put_bytes(pb.Packet[name.upper()], value)
        if isinstance(value, bytes)
        else put_int(pb.Packet[name.upper()], value)
        for name, value in fields.items()
    )
    return put_bytes(1, body)


def entry(kind: int, iid: int, text: str) -> bytes:
    return put_bytes(kind, put_int(1, iid) + put_text(2, text))


def sdk() -> bytes:
    """Perfetto's SDK: an incremental µs clock of the sequence, defaults, interned names, a thread, a counter, flows."""
    boot = put_int(pb.Clock.ID, pb.BOOTTIME) + put_int(pb.Clock.TIMESTAMP, 1_000_000)
    own = put_int(pb.Clock.ID, 64) + put_int(pb.Clock.TIMESTAMP, 500) + put_int(pb.Clock.INCREMENTAL, 1)
    own += put_int(pb.Clock.UNIT_NS, 1000)
    defaults = put_int(pb.Packet.CLOCK, 64) + put_bytes(pb.Packet.TRACK_EVENT, put_int(pb.Event.TRACK, 11))
    process = put_int(pb.Process.PID, 5) + put_text(pb.Process.NAME, "app")
    thread = put_int(pb.Thread.PID, 5) + put_int(pb.Thread.TID, 6) + put_text(pb.Thread.NAME, "main")
    counter = put_int(pb.Counter.MULTIPLIER, 1024)
    names = entry(pb.Interned.NAMES, 1, "draw") + entry(pb.Interned.CATEGORIES, 1, "gfx")
    note = put_int(pb.Note.NAME_IID, 1) + put_int(pb.Note.INT, 42)
    begin = put_int(pb.Event.TYPE, pb.Kind.BEGIN) + put_int(pb.Event.NAME_IID, 1) + put_int(pb.Event.CATEGORY_IIDS, 1)
    begin += put_bytes(pb.Event.ANNOTATIONS, note) + put_fixed(pb.Event.FLOWS, 77)
    end = put_int(pb.Event.TYPE, pb.Kind.END)
    named = (
        put_int(pb.Event.TYPE, pb.Kind.BEGIN) + put_text(pb.Event.NAME, "upload") + put_fixed(pb.Event.LAST_FLOWS, 77)
    )
    instant = put_int(pb.Event.TYPE, pb.Kind.INSTANT) + put_text(pb.Event.NAME, "vsync")
    count = put_int(pb.Event.TYPE, pb.Kind.COUNTER) + put_int(pb.Event.TRACK, 12) + put_int(pb.Event.VALUE, 3)
    half = (
        put_int(pb.Event.TYPE, pb.Kind.COUNTER) + put_int(pb.Event.TRACK, 12) + put_double(pb.Event.DOUBLE_VALUE, 0.5)
    )
    clocks = put_bytes(pb.Snapshot.CLOCKS, boot) + put_bytes(pb.Snapshot.CLOCKS, own)
    interned = names + entry(pb.Interned.NOTE_NAMES, 1, "frame")
    app = put_int(pb.Track.UUID, 10) + put_bytes(pb.Track.PROCESS, process)
    main = put_int(pb.Track.UUID, 11) + put_int(pb.Track.PARENT, 10) + put_bytes(pb.Track.THREAD, thread)
    memory = put_int(pb.Track.UUID, 12) + put_int(pb.Track.PARENT, 10) + put_text(pb.Track.NAME, "memory")
    memory += put_bytes(pb.Track.COUNTER, counter)
    rows = [(begin, 10), (instant, 1), (count, 1), (end, 8), (named, 5), (half, 0), (end, 5)]
    return (
        packet(sequence=3, clock_snapshot=clocks, flags=1, defaults=defaults)
        + b"".join(packet(sequence=3, track=track) for track in (app, main, memory))
        + packet(sequence=3, interned=interned, flags=2)
        + b"".join(packet(timestamp=step, sequence=3, flags=2, track_event=event) for event, step in rows)
    )


def dumped(document: Any) -> bytes:
    return json.dumps(document, indent=1).encode()
