"""Explorer's sampled tables and event lists, out of our counters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sim.explorer.columns import Fields, ns
from sim.trace import Trace

HAM_LEVELS = 8
"""Clock limits are multiples of this share on real devices."""

_SBUF = {"sbuf": "avg_util_percent"} | {f"sbuf_partition_{n}": f"partition_{n}_util_percent" for n in (0, 32, 64, 96)}
_PSUM = {"psum": "avg_util_percent"} | {f"psum_bank_{n}": f"bank_{n}_util_percent" for n in range(8)}


def sampled_tables(trace: Trace) -> dict[str, tuple[Fields, int]]:
    """Fields and number of rows of each sampled table; a table without rows is empty."""
    return {
        "SbufUsage": _pivot(trace, _SBUF),
        "PsumUsage": _pivot(trace, _PSUM),
        "HbmUsage": _throughput(trace, "hbm_bytes_per_s"),
        "DmaUsage": _throughput(trace, "dma_bytes_per_s"),
        "PendingDma": _pivot(trace, {"pending_dma": "value"}),
        "Throttle": _throttle(trace),
    }


def steps(trace: Trace, name: str, core: int) -> tuple[np.ndarray, np.ndarray]:
    """Times and values of one counter."""
    counters = trace.counters
    rows = (counters.counter == trace.strings.find(name)) & (counters.core == core)
    if trace.strings.find(name) < 0:
        rows = np.zeros(len(counters), bool)
    return counters.time_ps[rows], counters.value[rows]


def _pivot(trace: Trace, columns: Mapping[str, str]) -> tuple[Fields, int]:
    """One row for each moment at which one of the counters changed; values hold until they change."""
    parts: list[dict[str, np.ndarray]] = []
    for core in np.unique(trace.counters.core).tolist():
        series = {field: steps(trace, name, core) for name, field in columns.items()}
        times = np.unique(np.concatenate([time for time, _ in series.values()]))
        if times.size:
            held = {field: _held(time, value, times) for field, (time, value) in series.items() if time.size}
            parts.append({"timestamp": ns(times), "pcore_idx": np.full(times.size, core), **held})
    names = dict.fromkeys(name for part in parts for name in part)
    rows = sum(part["timestamp"].size for part in parts)
    joined = {
        name: np.concatenate([part.get(name, np.zeros(part["timestamp"].size)) for part in parts]) for name in names
    }
    return joined, rows


def _held(time: np.ndarray, value: np.ndarray, moments: np.ndarray) -> np.ndarray:
    """The value of a step function at each moment; 0 before its first step."""
    return np.append(0.0, value)[np.searchsorted(time, moments, side="right")]


def _throughput(trace: Trace, counter: str) -> tuple[Fields, int]:
    """Rate and the bytes that it has added up to."""
    fields, rows = _pivot(trace, {counter: "current_throughput"})
    if rows:
        totals = [_added(trace, counter, core) for core in np.unique(fields["pcore_idx"]).tolist()]
        fields["total_transfer_bytes"] = np.concatenate(totals)
    return fields, rows


def _added(trace: Trace, counter: str, core: int) -> np.ndarray:
    time, value = steps(trace, counter, core)
    moments = np.unique(time)
    held = _held(time, value, moments)
    return np.rint(np.append(0.0, np.cumsum(held[:-1] * np.diff(moments) / 1e12))).astype(np.int64)


def _throttle(trace: Trace) -> tuple[Fields, int]:
    """Events under a limit of the clock: the profile's own by type, else the steps of the Tensor Engine's clock."""
    own = [name for name in trace.strings if name.startswith("throttle_")]
    events = []
    for core in np.unique(trace.counters.core).tolist():
        for name in own or ["tensor_clock"]:
            time, value = steps(trace, name, core)
            ends = np.append(time[1:], max(trace.meta.window[1], time[-1])) if time.size else time
            for start, end, limit in zip(ns(time).tolist(), ns(ends).tolist(), value.tolist(), strict=True):
                if limit > 0 and end > start:
                    kind = name.removeprefix("throttle_") if own else _activity(limit)
                    events.append((start, end - start, round(limit * HAM_LEVELS), kind, core))
    events.sort()
    columns = [list(column) for column in zip(*events, strict=True)] or [[]] * 5
    fields: Fields = dict(zip(("timestamp", "duration", "k", "type", "pcore_idx"), columns, strict=True))
    return fields | {"n": HAM_LEVELS}, len(events)


def _activity(limit: float) -> str:
    """Types as real trn2 profiles have them: activity_0 at full clock, activity_1 below."""
    return "activity_0" if limit >= 1 else "activity_1"
