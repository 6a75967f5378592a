"""System profiles of Neuron Explorer: what runtime, hardware and framework did, as a general timeline.

Source: profile schema reference 7.4.0, tables SystemProfileEvents, SystemProfileHbmUsage, CpuUsage, HostMemUsage.
"""

from __future__ import annotations

import json
from typing import Any

from sim.trace import Meta, Trace
from trnprof.readers.parquet import Source, numbers
from trnprof.readers.receipt import Receipt
from trnprof.readers.timeline import COUNTERS, FLOWS, SLICES, Timeline, track_name

EVENTS = "SystemProfileEvents"
_COUNTERS = {
    "SystemProfileHbmUsage": ("HBM", ("device_idx", "hbm_idx"), "_bytes"),
    "CpuUsage": ("CPU", ("cpu_id",), "_percent"),
    "HostMemUsage": ("host memory", (), ""),
}
"""Tables of samples: what they are called, what tells their rows apart, how the columns with values end."""

_KEYS = ("timestamp", "instance_id", "ultraserver_id", "ultraserver_instance_index")


def read(source: Source) -> Trace:
    """The trace of a directory with system events."""
    receipt = Receipt()
    timeline = Timeline(receipt)
    source.take_unit([(EVENTS, ("start_ts",))])
    _events(source, timeline)
    for table in _COUNTERS:
        _samples(source, table, timeline)
    shown = {EVENTS, *_COUNTERS, "SystemProfileMetadata", "SchemaFields"}
    for table in sorted(source.tables.keys() - shown):
        receipt.leave(table, source.rows(table))
    for remark in source.versions.remarks():
        receipt.remark(remark)
    version = str(source.first("Metadata").get("profile_schema_version") or "")
    meta = Meta(False, "unknown", str(source.folder), tool="Neuron Explorer system profile", schema_version=version)
    return timeline.trace(meta, EVENTS)


def _column(source: Source, table: str, name: str) -> list[Any]:
    values = source.column(table, (name,))
    return [None] * source.rows(table) if values is None else values.to_pylist()


def _events(source: Source, timeline: Timeline) -> None:
    receipt, unit = timeline.receipt, source.time_unit_ps
    (start, has_start), (end, has_end), (length, has_length) = (
        source.times(EVENTS, names) for names in (("start_ts", "timestamp"), ("end_ts",), ("duration_ns", "duration"))
    )
    names = ("name", "trace_event_source", "extra_attributes_json", "flow_id")
    name, kind, extra, flows = (_column(source, EVENTS, column) for column in names)
    tracks = _tracks(source)
    for row in range(start.size):
        receipt.read(SLICES, 1)
        if not has_start[row] or not (has_end[row] or has_length[row]):
            receipt.set_aside(SLICES, "have no time")
            continue
        low = int(start[row])
        high = int(end[row]) if has_end[row] else low + int(length[row])
        if high < low:
            receipt.set_aside(SLICES, "end before they start")
            continue
        receipt.read_time(SLICES, (high - low) * unit)
        at = timeline.slice(
            tracks[row], str(name[row] or ""), low * unit, high * unit, _text(kind[row]), _args(extra[row])
        )
        for flow in _listed(flows[row]):
            receipt.read(FLOWS, 1)
            timeline.point(flow, at, low * unit)


def _tracks(source: Source) -> list[str]:
    """A process an instance and core or process; within it a track a thread or stream."""
    names = ("instance_id", "process_id", "thread_id", "nc_idx", "framework_stream_id", "trace_event_source")
    found = []
    for instance, process, thread, core, stream, kind in zip(*(_column(source, EVENTS, name) for name in names)):
        group = f"NeuronCore {core}" if core is not None else f"process {process if process is not None else '?'}"
        line = stream or (f"thread {thread}" if thread is not None else str(kind or "events"))
        found.append(track_name(f"{instance} {group}" if instance else group, str(line)))
    return found


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _args(text: Any) -> str | None:
    """The attributes as one JSON object; text that is none under the name `args`."""
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        value = None
    return json.dumps(value if isinstance(value, dict) else {"args": str(text)}, ensure_ascii=False)


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [item for item in value if item is not None]
    return [] if value in (None, "") else [value]


def _samples(source: Source, table: str, timeline: Timeline) -> None:
    if table not in source.tables:
        return
    title, keys, ending = _COUNTERS[table]
    time, has = source.times(table, ("timestamp",))
    labels = [
        " ".join([title, *(str(key) for key in row if key is not None)])
        for row in zip(*(_column(source, table, key) for key in ("instance_id", *keys)))
    ]
    for name in source.names(table):
        if name in _KEYS or name in keys or not name.endswith(ending):
            continue
        values = source.column(table, (name,))
        _, sound = numbers(values, time.size)
        for row, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            timeline.receipt.read(COUNTERS, 1)
            if not (has[row] and sound[row]):
                timeline.receipt.set_aside(COUNTERS, "have no time or value")
                continue
            timeline.count(f"{labels[row]} {name}", int(time[row]) * source.time_unit_ps, float(value))


def is_system(source: Source) -> bool:
    """Whether a directory has system events and no device profile."""
    return EVENTS in source.tables and not source.tables.keys() & {"Instruction", "DmaPacket"}
