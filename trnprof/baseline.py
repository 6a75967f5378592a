"""What kernels cost, as a small JSON file that is committed beside them: latency, bound and bytes of each.

A check compares traces of today with it. Everything that differs by more than the tolerance is a change, for better or
worse: a kernel that became faster wants a new baseline.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from sim.errors import InputError
from sim.trace import Trace
from trnprof.bounds import classify
from trnprof.machine import working_cores
from trnprof.regions import whole
from trnprof.work import Index

FORMAT = 1
TOLERANCE = 0.03

Number = int | float


@dataclass(frozen=True, slots=True)
class Entry:
    """What one kernel costs."""

    device: str
    cores: int
    is_simulation: bool
    latency_ns: float
    bound: str
    engine: str | None
    """The engine that a compute bound names."""
    hbm_read_bytes: int
    hbm_write_bytes: int
    spill_bytes: int
    instructions: int


CIRCUMSTANCES = ("device", "cores", "is_simulation")
"""Fields that must agree for a comparison to mean anything."""


@dataclass(frozen=True, slots=True)
class Change:
    """One field of one kernel that is not what it was."""

    kernel: str
    field: str
    """A field of `Entry`, or `kernel` for one that only one side has."""
    before: Number | str | bool | None
    after: Number | str | bool | None
    change: float | None
    """After against before, 0 for none; None where it is no number or was 0."""
    estimated: tuple[bool, bool] = (False, False)
    """Which of the two is a time that was emulated."""

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def measure(trace: Trace) -> Entry:
    """What the kernel of a trace costs."""
    index = Index(trace)
    region = whole(trace, index)
    verdict = classify(trace, [region])[0]
    work = region.work
    return Entry(
        device=trace.meta.device,
        cores=working_cores(trace),
        is_simulation=trace.meta.is_simulation,
        latency_ns=work.time_ps / 1000,
        bound=verdict.bound,
        engine=verdict.engine,
        hbm_read_bytes=work.hbm_read_bytes,
        hbm_write_bytes=work.hbm_write_bytes,
        spill_bytes=work.spill_bytes,
        instructions=sum(work.instructions),
    )


def named(traces: Iterable[Trace]) -> dict[str, Entry]:
    """What each kernel costs; those of one name are numbered from the second on: `attention`, `attention#2`."""
    found: dict[str, Entry] = {}
    for trace in traces:
        name = trace.meta.kernel or Path(trace.meta.source).stem or "kernel"
        number = 1 + sum(known.partition("#")[0] == name for known in found)
        found[name if number == 1 else f"{name}#{number}"] = measure(trace)
    return found


def save(path: str | Path, traces: Iterable[Trace], tolerance: float = TOLERANCE) -> Path:
    """Write the baseline of some traces; an older file at that path is replaced."""
    target = place(path)
    kernels = {name: asdict(entry) for name, entry in sorted(named(traces).items())}
    text = json.dumps({"format": FORMAT, "tolerance": tolerance, "kernels": kernels}, indent=1, ensure_ascii=False)
    try:
        target.write_text(text + "\n", "utf-8")
    except OSError as fault:
        raise InputError(f"{target}: cannot be written: {fault.strerror or fault}") from None
    return target


def check(path: str | Path, traces: Iterable[Trace], tolerance: float | None = None) -> list[Change]:
    """Everything that differs from a baseline by more than the tolerance, the file's own where none is given.

    raises : InputError that names the file, for one that is missing or no baseline
    """
    limit, before = read(path)
    limit = limit if tolerance is None else tolerance
    after = named(traces)
    found = []
    for name in sorted(before.keys() | after.keys()):
        if name in before and name in after:
            found += _changes(name, before[name], after[name], limit)
        else:
            was, now = ("there", None) if name in before else (None, "there")
            found.append(Change(name, "kernel", was, now, None))
    return found


def place(path: str | Path) -> Path:
    """The file of a baseline: `name` is `name.json`."""
    target = Path(path)
    return target if target.suffix else target.with_suffix(".json")


def read(path: str | Path) -> tuple[float, dict[str, Entry]]:
    """(tolerance, entries) of a baseline."""
    target = place(path)
    try:
        data = json.loads(target.read_text("utf-8"))
        if data["format"] != FORMAT:
            raise InputError(
                f"{target}: format {data['format']!r}, this version reads {FORMAT}", remedy="save it again"
            )
        return float(data["tolerance"]), {name: _entry(each) for name, each in data["kernels"].items()}
    except FileNotFoundError:
        raise InputError(f"{target}: no such baseline", remedy=f"trnprof baseline save {path} TRACE…") from None
    except OSError as fault:
        raise InputError(f"{target}: cannot be read: {fault.strerror or fault}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise InputError(f"{target}: not a baseline: {type(fault).__name__} {fault}", remedy="save it again") from None


def _entry(fields_of: Mapping[str, Any]) -> Entry:
    return Entry(**fields_of)


def _changes(name: str, before: Entry, after: Entry, limit: float) -> Iterator[Change]:
    for field in fields(Entry):
        was, now = getattr(before, field.name), getattr(after, field.name)
        measured = isinstance(was, (int, float)) and field.name not in CIRCUMSTANCES
        if was == now or (measured and abs(now - was) <= limit * abs(was)):
            continue
        emulated = (before.is_simulation, after.is_simulation) if field.name == "latency_ns" else (False, False)
        yield Change(name, field.name, was, now, now / was - 1 if measured and was else None, emulated)
