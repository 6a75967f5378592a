"""What a run costs and what energy it takes, and which of several machines does the same work cheapest.

A price or a power is of a machine: a device, an instance size, or the cores that the trace ran on. A machine with more
cores than one run uses runs as many copies side by side; the price of a run is its share. On another device the trace's
program is emulated anew; where the trace holds none, its time is scaled by what the same work needs at the roofs of
both, an assumption that is marked as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from sim.errors import InputError, TrnprofError, UsageError
from sim.retiming import elsewhere
from sim.spec import Device, Instance, device, instances, peak_dtypes
from sim.trace import COMPUTE_ENGINES, Engine, Trace
from trnprof import words
from trnprof.machine import Machine, family, machine
from trnprof.regions import Region, whole
from trnprof.traffic import sizes
from trnprof.work import Index

SECONDS_AN_HOUR = 3600
PICO = 1e-12
GIB = 1 << 30
OWN = ""
"""Name of the machine that the trace ran on."""

CAPTURED, EMULATED, SCALED = "captured", "emulated", "scaled"

Time = tuple[int | None, str, str]
"""ps of one run, or None; its basis; what it rests on, or why there is none."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What an hour of a machine costs, and what it draws."""

    price_per_hour: float | None = None
    watts: float | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """One way to do the work."""

    name: str
    """As asked for: a device, an instance size, or the trace's own machine."""
    device: str
    cores: int
    """That the price pays for."""
    copies: int
    """Runs at once on them."""
    time_ps: int | None
    """Of one run; None when it cannot be told."""
    basis: str
    """captured, emulated or scaled: by the roofs of both devices."""
    feasible: bool
    reason: str
    """Why it is not feasible, or what the time rests on."""
    per_run: float | None
    """In the currency of the price."""
    joules_per_run: float | None
    unit: str
    """token or sample; empty when none was counted."""
    per_million: float | None
    """Price of a million units."""
    joules_per_unit: float | None
    units_per_second: float | None
    cheapest: bool

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def cost(
    trace: Trace, rates: Mapping[str, Rates], units: int | None = None, unit: str = "token", cores: int | None = None
) -> list[Cost]:
    """What one run costs on each machine, the cheapest feasible one first.

    rates  : by device or instance size; `OWN` for the machine that the trace ran on
    units  : tokens or samples that one run makes
    cores  : that the price of the trace's own machine pays for; those that the trace used when not given
    raises : UsageError without a price and without watts; InputError for an unknown machine or no time
    """
    if not any(each.price_per_hour is not None or each.watts is not None for each in rates.values()):
        raise UsageError("neither a price nor watts are given", remedy="--price-per-hour X or --watts W")
    index = Index(trace)
    region, here = whole(trace, index), machine(trace)
    if not region.work.time_ps:
        raise InputError("the trace has no kernel window, so a run has no time")
    found = [_option(trace, region, here, name, each, units, unit, cores) for name, each in rates.items()]
    return _ranked(found)


def _ranked(found: Sequence[Cost]) -> list[Cost]:
    """By price, then by energy; what is not feasible last."""

    def key(each: Cost) -> tuple:
        return (not each.feasible, each.per_run is None, each.per_run or 0.0, each.joules_per_run or 0.0)

    ordered = sorted(found, key=key)
    best = ordered[0] if len(ordered) > 1 and ordered[0].feasible else None
    return [Cost(**asdict(each) | {"cheapest": each is best}) for each in ordered]


def _option(
    trace: Trace,
    region: Region,
    here: Machine,
    name: str,
    rates: Rates,
    units: int | None,
    unit: str,
    cores: int | None,
) -> Cost:
    table, paid = _named(here, name, cores)
    own = table is None or table.name == here.device
    there = here if own else machine(table, here.cores)
    reason = _obstacle(trace, region, here, there, paid)
    time_ps, basis, rests = (None, SCALED, reason) if reason else _time(trace, region, here, there)
    feasible = time_ps is not None
    copies = max(1, paid // here.cores)
    seconds = time_ps * PICO if time_ps is not None else None
    per_run = _per_run(rates.price_per_hour, seconds, copies, SECONDS_AN_HOUR)
    joules = _per_run(rates.watts, seconds, copies, 1)
    known = units if units else None
    return Cost(
        name=name or here.device,
        device=there.device,
        cores=paid,
        copies=copies,
        time_ps=time_ps,
        basis=basis,
        feasible=feasible,
        reason=rests,
        per_run=per_run,
        joules_per_run=joules,
        unit=unit if known else "",
        per_million=per_run / known * 1e6 if per_run is not None and known else None,
        joules_per_unit=joules / known if joules is not None and known else None,
        units_per_second=copies * known / seconds if seconds and known else None,
        cheapest=False,
    )


def _per_run(rate: float | None, seconds: float | None, copies: int, period: float) -> float | None:
    """A run's share of what is paid or drawn in a period of seconds."""
    return None if rate is None or seconds is None else rate * seconds / period / copies


def _named(here: Machine, name: str, cores: int | None) -> tuple[Device | None, int]:
    """The device behind a name and the cores that its price pays for."""
    if name == OWN:
        return here.figures, cores or here.cores
    size = next((each for each in instances() if each.name.lower() == name.lower()), None)
    if isinstance(size, Instance):
        return device(size.device), size.neuroncores
    table = device(name)
    return table, int(table["cores"])


def _obstacle(trace: Trace, region: Region, here: Machine, there: Machine, paid: int) -> str:
    """Why the work cannot be done there; empty when nothing speaks against it."""
    if paid < here.cores:
        return f"{here.cores} cores work together, it has {paid}"
    table = there.figures
    if table is None or there is here:
        return ""
    wanted = {family(dtype) for dtype, _ in region.work.dtypes} - {None}
    lacking = sorted(str(kind) for kind in wanted - {family(dtype) for dtype in peak_dtypes(table)})
    if lacking:
        return f"TensorE has no {words.listing(lacking)}"
    room = round(table["hbm_bytes"] * GIB / table["cores"] * here.cores)
    held = sum(sizes(trace).values())
    return f"tensors take {words.size(held)}, its cores can use {words.size(room)} of HBM" if held > room else ""


def _time(trace: Trace, region: Region, here: Machine, there: Machine) -> Time:
    took = region.work.time_ps
    if there is here:
        return (took, EMULATED, "the emulator's estimate") if trace.meta.is_simulation else (took, CAPTURED, "measured")
    if trace.recorded is None or there.figures is None or not there.figures.emulated:
        return _scaled(took, region, here, there)
    try:
        made = elsewhere(trace, there.figures)
    except TrnprofError as error:
        return None, EMULATED, error.message
    low, high = made.meta.window
    return high - low, EMULATED, f"its program emulated anew on {there.device}"


def _scaled(took: int, region: Region, here: Machine, there: Machine) -> Time:
    before, after = bound_ps(region, here), bound_ps(region, there)
    if not before or not after:
        return None, SCALED, "without roofs of both devices its time cannot be told"
    ratio = after / before
    return round(took * ratio), SCALED, f"scaled by {words.digits(ratio)}, what the work needs at the roofs of both"


def bound_ps(region: Region, roofs: Machine) -> float:
    """Time that a region's work needs at the roofs of a machine, the slowest resource alone; 0 when none is known."""
    work, times = region.work, [0.0]
    tensor = roofs.mixed(work.dtypes)
    if work.flops and tensor is not None:
        times.append(work.flops / tensor.value)
    for engine in COMPUTE_ENGINES:
        roof = roofs.get(engine.name.lower()) if engine != Engine.TENSOR else None
        if roof is not None:
            times.append(work.elements[engine] / roof.value)
    memory = roofs.bandwidth()
    if memory is not None:
        times.append(work.hbm_bytes / memory.value)
    link = roofs.get("link")
    if link is not None:
        times.append(work.wire_bytes / link.value)
    return max(times) / PICO
