"""Counters that follow from the rows of a trace: how busy each engine is, FLOP/s, HBM rate, transfers in flight.

Each answers for a stretch of time without looking at rows outside of it, so that none costs memory by its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from sim.trace import NONE, Arrays, Engine, Memory, Trace
from trnprof.machine import family
from trnprof.view.counters import Steps, kept, summed
from trnprof.view.lanes import Lane
from trnprof.view.tracks import Row

_LOOKS = 512
"""Parts of a window in which a peak is looked for."""


class Gauge(Protocol):
    """A level or a rate over time."""

    @property
    def peak(self) -> float: ...

    def sample(self, edges: np.ndarray) -> np.ndarray: ...


class Busy:
    """Share of time in which lanes work, their mean."""

    peak = 1.0

    def __init__(self, lanes: Sequence[Lane]):
        self.lanes = tuple(lanes)

    def sample(self, edges: np.ndarray) -> np.ndarray:
        """Share between each two edges, float32 [columns]; edges as far apart as each other."""
        columns = edges.size - 1
        covered = sum(lane.coverage(int(edges[0]), int(edges[-1]), columns) for lane in self.lanes)
        return (covered / (len(self.lanes) * np.diff(edges))).astype(np.float32)


class Flow:
    """What the rows of one lane do per second, each spread evenly over its time."""

    def __init__(self, lane: Lane, total: np.ndarray, window: tuple[int, int]):
        """total : int64 [rows of the lane + 1], what the rows before each come to"""
        self.lane, self.total, self.window = lane, total, window

    @cached_property
    def peak(self) -> float:
        t0, t1 = self.window
        return float(self.lane.kept(f"flops_peak.{t0}.{t1}", lambda: {"peak": self._peak()})["peak"][0])

    def _peak(self) -> np.ndarray:
        found = self.sample(np.linspace(*self.window, _LOOKS + 1).astype(np.int64))
        return np.nanmax(found, initial=0.0, keepdims=True)

    def sample(self, edges: np.ndarray) -> np.ndarray:
        """Rate between each two edges, per second, float32 [columns]."""
        span = np.maximum(np.diff(edges), 1)
        return (np.diff(self._done(edges)) / span * 1e12).astype(np.float32)

    def _done(self, at: np.ndarray) -> np.ndarray:
        """What is done by each moment, float64."""
        from trnprof.jit.gauges import done

        begun = np.searchsorted(self.lane.starts, at, "right")
        out = self.total[begun].astype(np.float64)
        columns = self.lane.columns
        done(at, begun, columns.start, columns.end, self.lane.rows, self.total, out)
        return out


def gauges(trace: Trace, core: int, rows: Sequence[Row], window: tuple[int, int]) -> dict[str, tuple[Gauge, ...]]:
    """Counters of a core by name, of its rows of instructions and packets."""
    found: dict[str, tuple[Gauge, ...]] = {}
    for row in rows:
        if row.idle is not None and row.track.engine not in (Engine.SYNC, Engine.OTHER):
            found[f"busy_{Engine(row.track.engine).name.lower()}"] = (Busy((row.idle,)),)
        if row.track.kind == "packets" and row.lanes:
            found["busy_dma"] = (Busy(row.lanes),)
    flops = _flops(trace, core, rows, window)
    rate = kept(trace, f"c{core}.hbm_rate", lambda: _hbm_rate(trace, core))
    flight = kept(trace, f"c{core}.in_flight", lambda: _in_flight(trace, core))
    found |= {"flops_per_s": (flops,)} if flops else {}
    found |= {"hbm_bytes_per_s": (rate,)} if rate else {}
    return found | ({"transfers_in_flight": (flight,)} if flight else {})


def _flops(trace: Trace, core: int, rows: Sequence[Row], window: tuple[int, int]) -> Flow | None:
    """What TensorE computes, as AWS counts: every pass, transposes included."""
    lane = next((row.idle for row in rows if row.idle is not None and row.track.engine == Engine.TENSOR), None)
    if lane is None or not trace.instructions.has("flops"):
        return None

    def add() -> Arrays:
        return {"total": np.concatenate(([0], np.cumsum(trace.instructions.flops[lane.rows])))}

    total = trace.derive(f"c{core}.flops_done", add)["total"]
    return Flow(lane, total, window) if total[-1] > 0 else None


def arithmetic(trace: Trace) -> str | None:
    """The kind of arithmetic of most FLOPs; None where no dtype is told."""
    table = trace.instructions
    if not (table.has("dtype") and table.has("flops")):
        return None

    def add() -> Arrays:
        known = table.dtype >= 0
        return {"flops": np.bincount(table.dtype[known], table.flops[known], len(trace.strings))}

    flops = trace.derive("flops_by_dtype", add)["flops"]
    return family(trace.strings[int(flops.argmax())]) if flops.size and flops.max() > 0 else None


def _hbm_rate(trace: Trace, core: int) -> Steps | None:
    """Bytes per second read from and written to HBM by transfers, where the trace tells their memories."""
    table = trace.transfers
    if not (table.has("source_memory") and table.has("dest_memory")):
        return None
    sides = (table.source_memory == Memory.HBM).astype(np.int64) + (table.dest_memory == Memory.HBM)
    here = np.flatnonzero((table.core == core) & (table.bytes > 0) & (table.end_ps > table.start_ps) & (sides > 0))
    if not here.size:
        return None
    start, end = table.start_ps[here], table.end_ps[here]
    return summed(start, end, table.bytes[here] * sides[here] / (end - start) * 1e12)


def _in_flight(trace: Trace, core: int) -> Steps | None:
    """How many transfers are under way: from their trigger, where it is known, to their semaphore."""
    table = trace.transfers
    here = np.flatnonzero(table.core == core)
    if not here.size:
        return None
    trigger = table.instruction[here]
    ended = trace.instructions.end_ps[np.maximum(trigger, 0)] if len(trace.instructions) else table.start_ps[here]
    start = np.where(trigger != NONE, np.minimum(ended, table.start_ps[here]), table.start_ps[here])
    end = np.maximum(np.where(table.done_ps[here] >= 0, table.done_ps[here], table.end_ps[here]), start)
    return summed(start, end, np.ones(here.size))


def semaphores(trace: Trace, core: int, most: int) -> Mapping[str, tuple[Steps, ...]]:
    """The values of the semaphores that change most often, by name."""
    table = trace.semaphore_updates
    if not len(table):
        return {}
    here = np.flatnonzero(table.core == core)
    numbers, inverse, count = np.unique(table.semaphore[here], return_inverse=True, return_counts=True)
    found = {}
    for k in sorted(np.argsort(-count, kind="stable")[:most].tolist()):
        rows = here[inverse == k]
        order = rows[np.argsort(table.time_ps[rows], kind="stable")]
        found[f"semaphore {numbers[k]}"] = (Steps(table.time_ps[order], table.value[order]),)
    return found
