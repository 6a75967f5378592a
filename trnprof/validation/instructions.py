"""Instruction by instruction: what our cost functions say of the operands that a profile shows, beside what it shows.

The medians of captured instructions are kept in `instructions.json`, so that an error can be watched where the
profiles are not: a row for each kind of instruction, device, dtype, extent, memory and state of TensorE's clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from sim import spec
from sim.replay import Operand, Shown, Timing, replay
from sim.spec import Device
from sim.trace import Engine, Memory, Trace
from trnprof.validation.captured import Sample, samples
from trnprof.validation.published import Record
from trnprof.validation.score import Comparison

FILE = Path(__file__).with_name("instructions.json")
PS = 1e3
"""Picoseconds in a nanosecond."""
COMMON_LEAD_NS = 10
"""Leads are grouped in steps of this length: rows differ by a few ns from profile to profile."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Of a length of time over the instructions of one kind, ns."""

    count: int
    median: float
    p10: float
    p90: float


@dataclass(frozen=True, slots=True)
class Kind:
    """Instructions that a cost function cannot tell apart."""

    device: str
    shown: Shown
    clock: float
    """TensorE's share of its full clock; 1 for other engines."""
    lead_ns: int | None
    duration: Spread
    interval: Spread | None
    """None where no instruction of the kind was followed by one that waited for the engine alone."""
    source: str
    """Key of `sim/devices/sources.json`."""

    @property
    def name(self) -> str:
        """`trn2 ScalarE ACTIVATE EXP fp32[512] SBUF`: short and unique enough to be found."""
        shown = self.shown
        words = [self.device, shown.opcode, shown.function, *_tiles(shown)]
        words += [f"{shown.pointers} columns"] if shown.pointers else []
        words += ["transpose"] if shown.transpose else []
        words += [f"clock {self.clock:g}"] if self.clock != 1 else []
        words += [f"weights {self.lead_ns} ns ahead"] if self.lead_ns is not None else []
        return " ".join(word for word in words if word)


def _tiles(shown: Shown) -> Iterator[str]:
    for mark, operands in (("", shown.sources), ("to ", shown.results)):
        for operand in operands:
            sizes = "x".join(str(size) for size in operand.sizes if size > 1) or "1"
            yield f"{mark}{operand.dtype}[{sizes}] {operand.memory.name}"


# -- one trace -------------------------------------------------------------------------------------


def compare(trace: Trace, device: Device | None = None) -> Iterator[Comparison]:
    """A comparison of duration, and where it can be told of interval, for every instruction that can be replayed."""
    device = device or spec.device(trace.meta.device)
    for sample in samples(trace, device):
        timing = _estimate(device, sample)
        if timing is not None:
            yield from _rows(trace, device, sample, timing)


def _estimate(device: Device, sample: Sample) -> Timing | None:
    """A change of clock on the way is followed: what is left then goes on at the new rate."""
    now = replay(device, sample.shown, sample.clock[0], sample.lead_ps)
    if now is None or sample.steady or sample.change_ps >= now.duration_ps:
        return now
    after = replay(device, sample.shown, sample.clock[1], sample.lead_ps)
    left = 1 - sample.change_ps / now.duration_ps
    return replace(now, duration_ps=sample.change_ps + round(left * after.duration_ps))


def _rows(trace: Trace, device: Device, sample: Sample, timing: Timing) -> Iterator[Comparison]:
    opcode = sample.shown.opcode
    id = f"{trace.meta.kernel or device.name} row {sample.row}: {opcode} {sample.shown.function}".strip()
    measured, estimate = sample.duration_ps / PS, timing.duration_ps / PS
    yield Comparison(id, "instruction", opcode, measured, estimate, "ns", device.name)
    if sample.interval_ps is not None and timing.interval_ps is not None and sample.steady:
        measured, estimate = sample.interval_ps / PS, timing.interval_ps / PS
        yield Comparison(id, "interval", opcode, measured, estimate, "ns", device.name)


# -- the table that is kept ------------------------------------------------------------------------


def collect(traces: Iterable[tuple[Trace, str]]) -> list[Kind]:
    """Kinds of the steady instructions of many profiles; the text is the source of each."""
    found: dict[tuple, list[Sample]] = {}
    for trace, source in traces:
        device = spec.device(trace.meta.device)
        for sample in samples(trace, device):
            if sample.steady:
                found.setdefault(_key(device, sample, source), []).append(sample)
    kinds = [_kind(key, members) for key, members in found.items()]
    return sorted(kinds, key=lambda kind: (kind.device, kind.shown.engine, kind.name))


def _key(device: Device, sample: Sample, source: str) -> tuple:
    clock = sample.clock[0] if sample.shown.engine == Engine.TENSOR else 1.0
    lead = sample.lead_ps
    step = None if lead is None else round(lead / PS / COMMON_LEAD_NS) * COMMON_LEAD_NS
    return device.name, sample.shown, clock, step, source


def _kind(key: tuple, members: list[Sample]) -> Kind:
    name, shown, clock, step, source = key
    lead = None if step is None else round(np.median([sample.lead_ps for sample in members]) / PS)
    durations = [sample.duration_ps / PS for sample in members]
    intervals = [sample.interval_ps / PS for sample in members if sample.interval_ps is not None]
    return Kind(name, shown, clock, lead, _spread(durations), _spread(intervals) if intervals else None, source)


def _spread(values: list[float]) -> Spread:
    low, middle, high = np.percentile(values, (10, 50, 90)).tolist()
    return Spread(len(values), round(middle, 1), round(low, 1), round(high, 1))


def replayed(kind: Kind, device: Device | None = None) -> Iterator[Comparison]:
    """Estimate beside the kept medians of a kind."""
    lead = None if kind.lead_ns is None else round(kind.lead_ns * PS)
    timing = replay(device or spec.device(kind.device), kind.shown, kind.clock, lead)
    if timing is None:
        return
    pairs = (("instruction", kind.duration, timing.duration_ps), ("interval", kind.interval, timing.interval_ps))
    for level, spread, estimate in pairs:
        if spread is not None and estimate is not None:
            yield Comparison(
                kind.name, level, kind.shown.opcode, spread.median, estimate / PS, "ns", kind.device, count=spread.count
            )


@cache
def kinds() -> tuple[Kind, ...]:
    """The kept table."""
    return tuple(map(from_json, json.loads(FILE.read_text(encoding="utf-8"))))


def reference() -> list[Comparison]:
    """Every kept kind against today's cost functions."""
    return list(chain.from_iterable(map(replayed, kinds())))


def published(record: Record) -> Iterator[Comparison]:
    """The single instructions that a published record times."""
    for row in record.instructions:
        kind = from_json(dict(row))
        for found in replayed(kind):
            yield replace(found, id=f"{record.id}: {kind.name}")


def write(found: Iterable[Kind], path: Path = FILE) -> None:
    """One kind a line."""
    lines = ",\n".join(json.dumps(to_json(kind), ensure_ascii=False) for kind in found)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def to_json(kind: Kind) -> dict[str, Any]:
    row = asdict(kind)
    row["shown"] = {name: value for name, value in row["shown"].items() if value not in ("", 0, False, ())}
    row["shown"]["engine"] = kind.shown.engine.name
    for place in ("sources", "results"):
        if place in row["shown"]:
            row["shown"][place] = [_operand_to_json(operand) for operand in getattr(kind.shown, place)]
    return {name: value for name, value in row.items() if value is not None}


def _operand_to_json(operand: Operand) -> list[Any]:
    return [operand.dtype, operand.memory.name, list(operand.sizes), list(operand.steps)]


def from_json(row: dict[str, Any]) -> Kind:
    shown = dict(row["shown"])
    shown["engine"] = Engine[shown["engine"]]
    for place in ("sources", "results"):
        shown[place] = tuple(
            Operand(dtype, Memory[memory], tuple(sizes), tuple(steps))
            for dtype, memory, sizes, steps in shown.get(place, ())
        )
    interval = row.get("interval")
    return Kind(
        row["device"],
        Shown(**shown),
        row["clock"],
        row.get("lead_ns"),
        Spread(**row["duration"]),
        None if interval is None else Spread(**interval),
        row["source"],
    )
