"""Levels and rates over time: those that the profile recorded, and those that follow from its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sim.trace import Arrays, Engine, Memory, Trace
from trnprof.view import format as words
from trnprof.view.palette import NEUTRAL
from trnprof.view.records import Track

if TYPE_CHECKING:
    from trnprof.view.gauges import Gauge

_BANK = "psum_bank_"

_UNSAFE = re.compile(r"[^\w.-]")
"""Not to stand in an id, which goes into addresses."""

_PARTS = ("sbuf_partition_", "throttle_")
"""Counters that repeat another one in parts."""


class Steps:
    """A value that holds until the next change."""

    def __init__(self, time_ps: np.ndarray, value: np.ndarray, integral: np.ndarray | None = None):
        """integral : where it is known"""
        self.time_ps = np.ascontiguousarray(time_ps, np.int64)
        self.value = np.ascontiguousarray(value, np.float64)
        if integral is not None:
            self.integral = integral

    @cached_property
    def integral(self) -> np.ndarray:
        """Value times ps from the first change to each one, float64 [changes]."""
        steps = np.diff(self.time_ps) * self.value[:-1]
        return np.concatenate(([0.0], np.cumsum(steps)))

    def times(self, factor: float) -> Steps:
        """The same steps in another unit."""
        return Steps(self.time_ps, self.value * factor)

    @property
    def peak(self) -> float:
        return float(self.value.max()) if self.value.size else 0.0

    def at(self, time_ps: int) -> float | None:
        """The value at a moment, None before the first change."""
        k = int(np.searchsorted(self.time_ps, time_ps, "right")) - 1
        return float(self.value[k]) if k >= 0 else None

    def sample(self, edges: np.ndarray) -> np.ndarray:
        """Mean between each two edges, float32 [columns]; NaN before the first change.

        edges : int64 [columns + 1], ps, ascending
        """
        last = np.maximum(np.searchsorted(self.time_ps, edges, "right") - 1, 0)
        begun = np.maximum(edges, self.time_ps[0])
        reached = self.integral[last] + (begun - self.time_ps[last]) * self.value[last]
        span = np.diff(begun)
        return (np.diff(reached) / np.where(span > 0, span, np.nan)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Counter:
    """A track of one or several step functions."""

    track: Track
    steps: tuple[Gauge, ...]


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    code: str
    unit: str
    colour: int
    height: int
    step: bool = True


_KINDS = {
    **{
        f"busy_{engine.name.lower()}": _Kind(
            f"{words.ENGINE_WORDS[engine]} busy", words.ENGINE_CODES[engine], "busy", engine, 20, step=False
        )
        for engine in Engine
    },
    "dma_bytes_per_s": _Kind("DMA rate", "GB/s", "B/s", Engine.DMA, 36, step=False),
    "hbm_bytes_per_s": _Kind("HBM rate", "GB/s", "B/s", Engine.DMA, 36, step=False),
    "flops_per_s": _Kind("TensorE rate", "FLOP", "FLOP/s", Engine.TENSOR, 36, step=False),
    "psum": _Kind("PSUM in use", "psum", "share", Engine.TENSOR, 30),
    "psum_banks": _Kind("PSUM banks", "psum", "share", Engine.TENSOR, 36),
    "sbuf": _Kind("SBUF in use", "sbuf", "share", Engine.VECTOR, 30),
    "hbm": _Kind("HBM in use", "hbm", "share", Engine.COLLECTIVE, 30),
    "pending_dma": _Kind("Pending DMAs", "pend", "", Engine.DMA, 24),
    "transfers_in_flight": _Kind("Transfers in flight", "fly", "", Engine.DMA, 24),
    "tensor_clock": _Kind("TensorE clock", "GHz", "Hz", Engine.TENSOR, 22),
}


def recorded(trace: Trace, core: int) -> dict[str, tuple[Steps, ...]]:
    """Step functions by name; the PSUM banks together."""
    table = trace.counters
    found: dict[str, tuple[Steps, ...]] = {}
    here = table.core == core
    for code in np.unique(table.counter[here]):
        rows = here & (table.counter == code)
        name = trace.strings[int(code)] or "counter"
        if name.startswith(_PARTS):
            continue
        steps = Steps(table.time_ps[rows], table.value[rows])
        key = "psum_banks" if name.startswith(_BANK) else name
        found[key] = (*found.get(key, ()), steps)
    return found


def counters(
    trace: Trace, core: int, roofs: Mapping[str, float], derived: Mapping[str, tuple[Gauge, ...]]
) -> list[Counter]:
    """Every counter of a core, in the order of the screen.

    roofs   : limits of the machine by counter name: bytes per second, FLOP/s, bytes of a partition, Hz
    derived : counters that follow from rows; what is recorded goes first
    """
    found: dict[str, tuple[Gauge, ...]] = {**derived, **recorded(trace, core)}
    if "pending_dma" in found:
        found.pop("transfers_in_flight", None)
    if "dma_bytes_per_s" not in found:
        steps = transfer_rate(trace, core)
        if steps is not None:
            found["dma_bytes_per_s"] = (steps,)
    if "psum_banks" in found:
        found.pop("psum", None)
    if "tensor_clock" in found and "tensor_clock" in roofs:
        found["tensor_clock"] = tuple(s.times(roofs["tensor_clock"]) for s in found["tensor_clock"])
    if "sbuf" not in found and "sbuf" in roofs:
        steps = occupancy(trace, core, roofs["sbuf"])
        if steps is not None:
            found["sbuf"] = (steps,)
    order = [*_KINDS, *sorted(set(found) - set(_KINDS))]
    return [_counter(core, name, found[name], roofs) for name in order if name in found and _speaks(name, found[name])]


def _speaks(name: str, steps: tuple[Gauge, ...]) -> bool:
    """A rate that stays zero is not worth a line."""
    return any(s.peak > 0 for s in steps) or not name.endswith("per_s")


def level(core: int, name: str, steps: tuple[Steps, ...]) -> Counter:
    """A recorded level without a limit, such as a semaphore; its group starts folded."""
    made = _counter(core, name, steps, {})
    track = replace(made.track, group=f"c{core}.semaphores", colour=int(Engine.SYNC), height=16, step=True, quiet=True)
    return Counter(track, steps)


def _counter(core: int, name: str, steps: tuple[Gauge, ...], roofs: Mapping[str, float]) -> Counter:
    kind = _KINDS.get(name) or _Kind(words.plain(name, 32), name[:4], _unit(name), NEUTRAL, 30, "per_s" not in name)
    peak = max(s.peak for s in steps)
    roof = roofs.get(name) if kind.unit in ("B/s", "FLOP/s") else None
    top = max(1.0 if kind.unit in ("share", "busy") and peak > 0.2 else peak * 1.08, (roof or 0) * 1.06) or 1.0
    track = Track(
        id=f"c{core}.n.{_UNSAFE.sub('_', name)}",
        group=f"c{core}.counters",
        group_name="",
        name=kind.name,
        code=kind.code,
        kind="counter",
        colour=int(kind.colour),
        core=core,
        height=kind.height,
        top=float(top),
        top_words=_top_words(name, kind.unit, roof, peak, roofs),
        roof=roof,
        cap=1.0 if kind.unit in ("share", "busy") else roof or peak or 1.0,
        cap_words=_cap_words(name, kind.unit, roof, peak, roofs),
        step=kind.step,
        words=f"of {words.size(roofs[name])}" if kind.unit == "share" and name in roofs else "",
    )
    if len(steps) > 1:
        used = sum(s.peak > 0 for s in steps)
        track = replace(
            track, kind="banks", lanes=len(steps), lane_height=4, height=4 * len(steps) + 4,
            words=f"{used} of {len(steps)}", top=1.0,
        )  # fmt: skip
    return Counter(track, steps)


def _top_words(name: str, unit: str, roof: float | None, peak: float, roofs: Mapping[str, float]) -> str:
    """What full height is; a share of time needs no words."""
    if unit == "busy":
        return ""
    return f"roof {words.level(roof, unit)}" if roof else f"max {_level(name, peak, unit, roofs)}"


def _cap_words(name: str, unit: str, roof: float | None, peak: float, roofs: Mapping[str, float]) -> str:
    if unit == "busy":
        return "the time"
    if unit == "share":
        return words.size(roofs[name]) if name in roofs else "the whole"
    return f"the roof, {words.level(roof, unit)}" if roof else f"the peak, {_level(name, peak, unit, roofs)}"


def _level(name: str, value: float, unit: str, roofs: Mapping[str, float]) -> str:
    """A peak in words: in bytes of a memory whose size is known, else as it is."""
    if unit == "share" and name in roofs:
        return words.size(round(value * roofs[name]))
    return words.count(int(value)) if not unit and value.is_integer() else words.level(value, unit)


def _unit(name: str) -> str:
    return "B/s" if name.endswith("bytes_per_s") else "FLOP/s" if name.endswith("flops_per_s") else ""


def transfer_rate(trace: Trace, core: int) -> Steps | None:
    """Bytes per second in flight: every packet's (else every transfer's) bytes spread evenly over its time."""
    return kept(trace, f"c{core}.transfer_rate", lambda: _transfer_rate(trace, core))


def _transfer_rate(trace: Trace, core: int) -> Steps | None:
    table = trace.packets if len(trace.packets) else trace.transfers
    here = np.flatnonzero((table.core == core) & (table.bytes > 0) & (table.end_ps > table.start_ps))
    if not here.size:
        return None
    start, end = table.start_ps[here], table.end_ps[here]
    return summed(start, end, table.bytes[here] / (end - start) * 1e12)


def kept(trace: Trace, name: str, make: Callable[[], Steps | None]) -> Steps | None:
    """What `make` finds, found once for a trace that is kept."""

    def find() -> Arrays:
        steps = make()
        return {} if steps is None else {"time": steps.time_ps, "value": steps.value, "integral": steps.integral}

    found = trace.derive(name, find)
    return Steps(found["time"], found["value"], found["integral"]) if found else None


def occupancy(trace: Trace, core: int, partition_bytes: float) -> Steps | None:
    """Share of an SBUF partition that is allocated."""
    table = trace.allocations
    here = np.flatnonzero((table.core == core) & (table.memory == Memory.SBUF))
    if not here.size:
        return None
    return summed(table.start_ps[here], table.end_ps[here], table.bytes[here] / partition_bytes)


def summed(start: np.ndarray, end: np.ndarray, value: np.ndarray) -> Steps:
    """The sum of values that each hold over an interval."""
    time = np.concatenate((start, end))
    change = np.concatenate((value, -value))
    times, inverse = np.unique(time, return_inverse=True)
    level = np.cumsum(np.bincount(inverse, change, times.size))
    level[np.abs(level) < 1e-9 * max(1.0, float(np.abs(value).max()))] = 0.0
    return Steps(times, level)
