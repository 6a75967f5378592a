"""Which bound holds when: every moment of the kernel window charged once, to the most limiting thing active."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.trace import COMPUTE_ENGINES, Arrays, Engine, QueueType, Trace
from trnprof.intervals import Spans, merge
from trnprof.view.palette import BOUNDS
from trnprof.work import collective_transfers

COMPUTE, BANDWIDTH, CAPACITY, NETWORK, LATENCY = range(5)


@dataclass(frozen=True, slots=True)
class Ribbon:
    """Consecutive stretches that fill a window, sorted; int64 [stretches] and int8 [stretches]."""

    start_ps: np.ndarray
    end_ps: np.ndarray
    bound: np.ndarray
    """Index of `palette.BOUNDS`."""

    def at(self, time_ps: np.ndarray) -> np.ndarray:
        """The bound that holds at each moment; latency outside the window."""
        if not self.start_ps.size:
            return np.full(time_ps.shape, LATENCY, np.int8)
        k = np.searchsorted(self.start_ps, time_ps, "right") - 1
        inside = (k >= 0) & (time_ps < self.end_ps[-1])
        return np.where(inside, self.bound[np.maximum(k, 0)], LATENCY).astype(np.int8)

    def shares(self, t0_ps: int, t1_ps: int) -> np.ndarray:
        """ps charged to each bound in a window, int64 [bounds]."""
        inside = (self.end_ps > t0_ps) & (self.start_ps < t1_ps)
        length = np.minimum(self.end_ps[inside], t1_ps) - np.maximum(self.start_ps[inside], t0_ps)
        return np.bincount(self.bound[inside], length, len(BOUNDS)).astype(np.int64)


def ribbon(trace: Trace, window: tuple[int, int], core: int | None = None) -> Ribbon:
    """The stretches of one core, of all cores together without one."""
    name = f"ribbon.{core}.{window[0]}.{window[1]}"
    found = trace.derive(name, lambda: _stretches(trace, window, core))
    return Ribbon(found["start"], found["end"], found["bound"])


def _stretches(trace: Trace, window: tuple[int, int], core: int | None) -> Arrays:
    from trnprof.jit.frames import charge

    bounds, spans = [], []
    for bound, active in _classes(trace, core):
        bounds.append(bound)
        spans.append(merge(*active))
    start, end = (np.concatenate([span[k] for span in spans]) for k in (0, 1))
    first = np.cumsum([0, *(span[0].size for span in spans)])
    out = np.empty((2 * start.size + 1, 3), np.int64)
    cut = out[: charge(start, end, first, np.array(window, np.int64), out)]
    which = np.array([*bounds, LATENCY], np.int8)[cut[:, 2]]
    joined = _joined(cut[:, 0].copy(), cut[:, 1].copy(), which)
    return {"start": joined.start_ps, "end": joined.end_ps, "bound": joined.bound}


def _classes(trace: Trace, core: int | None):
    """What can be active, most limiting first."""
    ins, moved, packets = trace.instructions, trace.transfers, trace.packets
    here = ~ins.control if core is None else ~ins.control & (ins.core == core)
    table = moved if len(moved) else packets
    wired = collective_transfers(trace) if len(moved) else np.zeros(len(packets), bool)
    payload = ~wired & (table.bytes > 0) & (table.queue_type != QueueType.INSTRUCTION)
    if core is not None:
        payload &= table.core == core
        wired &= table.core == core
    others = [int(e) for e in COMPUTE_ENGINES if e != Engine.TENSOR]
    spilled = here & ((ins.spill_save_bytes > 0) | (ins.spill_reload_bytes > 0))

    def rows(mask: np.ndarray) -> Spans:
        return ins.start_ps[mask], ins.end_ps[mask]

    yield COMPUTE, rows(here & (ins.engine == Engine.TENSOR))
    yield CAPACITY, rows(spilled)
    yield BANDWIDTH, (table.start_ps[payload], table.end_ps[payload])
    cc = here & (ins.engine == Engine.COLLECTIVE)
    yield NETWORK, (np.concatenate((ins.start_ps[cc], table.start_ps[wired])),
                    np.concatenate((ins.end_ps[cc], table.end_ps[wired])))  # fmt: skip
    yield COMPUTE, rows(here & np.isin(ins.engine, [*others, int(Engine.OTHER)]))


def _joined(start: np.ndarray, end: np.ndarray, bound: np.ndarray) -> Ribbon:
    """Neighbours of the same bound become one stretch."""
    if not start.size:
        return Ribbon(start, end, bound)
    first = np.flatnonzero(np.concatenate(([True], (bound[1:] != bound[:-1]) | (start[1:] != end[:-1]))))
    last = np.concatenate((first[1:] - 1, [start.size - 1]))
    return Ribbon(start[first], end[last], bound[first])
