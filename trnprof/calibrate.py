"""Fits the constants of our laws to a profile that somebody captured, and writes them as a device file.

Every kind of instruction and packet gives one equation: its median against what our cost functions say. The figures
that they depend on are moved together until the equations hold, by robust least squares on the logarithm of the
ratio (Gauss-Newton, Huber's weights); the device table is a weak prior, so that what a profile does not tell stays
where it was. Latencies that a profile shows directly are medians.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim import spec
from sim.errors import InputError
from sim.figures import Figure
from sim.replay import packet, replay
from sim.spec import Device
from sim.trace import NONE, Engine, Memory, QueueType, Trace, Wait
from trnprof.machine import device_of
from trnprof.validation.instructions import Kind, collect
from trnprof.validation.transfers import PS, packet_groups, wakes

CLOCKS = ("clock_tensor", "clock_vector", "clock_scalar", "clock_gpsimd")
FITTED = (
    *CLOCKS,
    "pe.lat",
    "pe.lat_cold",
    "pe.issue_ovh",
    "pe.issue_ovh_16",
    "pe.load_16",
    "pe.load_32",
    "pe.load_transpose_32",
    "pe.load_fixed",
    "pe.load_cycles_32",
    "pe.load_cycles_transpose_32",
    "dve.issue_ovh",
    "dve.lat_sbuf",
    "dve.lat_psum",
    "dve.lat_tensor_scalar",
    "dve.operand_tensor",
    "dve.rate_copy_bf16",
    "dve.rate_copy_fp32",
    "dve.rate_tt_bf16",
    "dve.rate_tt_fp32",
    "dve.rate_recip",
    "dve.rate_scan",
    "act.issue_ovh",
    "act.lat_copy",
    "act.lat_copy_sbuf",
    "act.lat_nonlinear",
    "act.lat_nonlinear_psum",
    "act.operand_tensor",
    "act.operand_sbuf",
    "act.table_load",
    "gp.start",
    "gp.lat",
    "dma.bw_read",
    "dma.bw_write",
    "dma.desc_ovh",
)
"""Figures of the laws of one instruction or packet."""

CLOCK_PRIOR, RATE_PRIOR, PRIOR = 0.03, 0.05, 1.0
"""How far a figure may lie from the table's before the prior counts as one equation, as a share of its value.

Elements a cycle are how an engine is built: what would move all rates of an engine is its clock.
"""
ALIKE = 0.9
"""Correlation from which on a profile does not tell two figures apart."""
NEAR_ZERO = 10.0
"""Scale of a figure that is 0 in the table, in its unit."""
NOISE = 0.01
"""Error of one equation that counts as met."""
HUBER = 1.5
STEPS, SMALLEST = 30, 1e-4
NORMAL_90 = 1.645
"""Standard deviations that hold 90 % of a normal distribution."""
MOVED = 0.05
"""Equations that a figure does not move by this share of its own change do not tell it."""


@dataclass(frozen=True, slots=True)
class Equation:
    """One measurement and what our laws say of it."""

    name: str
    measured_ns: float
    count: int
    estimate_ns: Callable[[Device], float]


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was fitted, on what, and what it gained."""

    device: Device
    """With the fitted figures."""
    base: Device
    figures: dict[str, Figure]
    """Those that the profile told; the others are the table's."""
    equations: int
    measurements: int
    before: float
    """Mean absolute error of the table's figures over the measurements."""
    after: float
    source: str

    def to_json(self) -> dict[str, Any]:
        """A device file."""
        names = ("value", "kind", "source", "spread", "note")
        figures = {id: {name: getattr(figure, name) for name in names} for id, figure in self.figures.items()}
        fit = {
            "on": self.source,
            "equations": self.equations,
            "measurements": self.measurements,
            "mean_error_before": self.before,
            "mean_error_after": self.after,
            "method": "robust least squares on log ratios, the device table as a weak prior; spreads hold 90 %",
        }
        return {"extends": self.base.name, "title": self.device.title, "fit": fit, "figures": figures}


def calibrate(trace: Trace, source: str = "") -> Calibration:
    """Fit the figures of the trace's device to the trace.

    source : what to call the trace in the file
    raises : InputError for a trace of an unknown device, or without instructions or packets that tell anything
    """
    base, source = device_of(trace), source or trace.meta.source
    equations = [*_instructions(collect([(trace, source)])), *_packets(trace)]
    direct = _direct(trace, base)
    if not equations and not direct:
        raise InputError(f"{source}: no instruction or packet from which a figure could be told")
    fitted = _fit(base, equations, source) if equations else {}
    figures = fitted | {id: _figure(base, id, *values, source) for id, values in direct.items()}
    title = f"{base.title}, calibrated on {source}"
    device = base.with_figures(figures, title)
    return Calibration(
        device,
        base,
        figures,
        len(equations) + len(direct),
        sum(equation.count for equation in equations),
        _error(base, equations),
        _error(device, equations),
        source,
    )


def dump(found: Calibration) -> str:
    return json.dumps(found.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


# -- equations -------------------------------------------------------------------------------------


def _instructions(kinds: Iterable[Kind]) -> Iterable[Equation]:
    for kind in kinds:
        for level, spread in (("duration_ps", kind.duration), ("interval_ps", kind.interval)):
            if spread is not None and spread.median > 0 and _told(kind, level, spec.device(kind.device)):
                name = f"{kind.name} {level.removesuffix('_ps')}"
                yield Equation(name, spread.median, spread.count, _of(kind, level))


def _told(kind: Kind, level: str, device: Device) -> bool:
    lead = None if kind.lead_ns is None else round(kind.lead_ns * PS)
    timing = replay(device, kind.shown, kind.clock, lead)
    return timing is not None and bool(getattr(timing, level))


def _of(kind: Kind, level: str) -> Callable[[Device], float]:
    lead = None if kind.lead_ns is None else round(kind.lead_ns * PS)
    return lambda device: getattr(replay(device, kind.shown, kind.clock, lead), level) / PS


def _packets(trace: Trace) -> Iterable[Equation]:
    for size, stored, count, lengths in packet_groups(trace):
        name = f"{'store' if stored else 'load'} of {size} B in {count}"
        yield Equation(name, float(np.median(lengths)), lengths.size, _of_packet(size, count, stored))


def _of_packet(size: int, count: int, stored: bool) -> Callable[[Device], float]:
    return lambda device: packet(device, size, count, stored).duration_ps / PS


# -- what a profile shows directly -----------------------------------------------------------------


def _direct(trace: Trace, base: Device) -> dict[str, tuple[float, float, float, int]]:
    """(typical, p10, p90, count), ns, of latencies that rows show."""
    found = {"sem.wake": wakes(trace), **_dma_latencies(trace, base), **_triggers(trace)}
    told = {id: values for id, values in found.items() if id in base and values.size >= 3}
    # A full queue lengthens triggers, so that their lower quartile is nearer to the cost of one.
    middle = {id: 25 if id.startswith("dma.issue") else 50 for id in told}
    return {id: (*np.percentile(values, (middle[id], 10, 90)).tolist(), values.size) for id, values in told.items()}


def _dma_latencies(trace: Trace, base: Device) -> dict[str, np.ndarray]:
    """Trigger to first byte where no queue was in the way, and last byte to semaphore.

    A captured transfer begins with the first byte of its first engine, an emulated one when all its engines stream.
    """
    table = trace.transfers
    known = np.flatnonzero((table.instruction != NONE) & (table.bytes > 0))
    first = _first_of_engine(trace, known)
    stores = table.dest_memory[known] == Memory.HBM
    gap = (table.start_ps[known] - trace.instructions.end_ps[table.instruction[known]]) / PS
    after = (table.done_ps[known] - table.end_ps[known]) / PS
    found = {}
    for name, way in (("load", ~stores), ("store", stores)):
        stagger = base[f"dma.stagger_{name}"] if trace.meta.is_simulation else 0
        found[f"dma.dispatch_{name}"] = gap[way & first & (gap > 0)] - stagger
        found[f"dma.notify_{name}"] = after[way & (after > 0)]
    return found


def _first_of_engine(trace: Trace, known: np.ndarray) -> np.ndarray:
    """Whether no other transfer was under way when each was triggered."""
    table = trace.transfers
    triggered = trace.instructions.end_ps[table.instruction[known]]
    order = np.argsort(table.start_ps, kind="stable")
    reach = np.maximum.accumulate(table.end_ps[order])
    before = np.searchsorted(table.start_ps[order], table.start_ps[known], side="left") - 1
    return (before < 0) | (np.append(reach, 0)[before] <= triggered)


def _triggers(trace: Trace) -> dict[str, np.ndarray]:
    """Start to start of DMA triggers that follow each other on one engine without a wait."""
    table, found = trace.instructions, {}
    kinds = {QueueType.HARDWARE_DYNAMIC: "dma.issue_hw", QueueType.SOFTWARE_DYNAMIC: "dma.issue_sw"}
    known = trace.transfers.instruction != NONE
    for kind, id in kinds.items():
        rows = np.unique(trace.transfers.instruction[known & (trace.transfers.queue_type == kind)])
        gaps = []
        for engine in (Engine.SYNC, Engine.SCALAR, Engine.GPSIMD):
            mine = rows[table.engine[rows] == engine]
            waited = np.isin(table.wait[mine[1:]], (Wait.ENGINE, Wait.ISSUE))
            gaps.append((np.diff(table.start_ps[mine]) / PS)[waited])
        found[id] = np.concatenate(gaps)
    return found


def _figure(
    base: Device, id: str, value: float, low: float, high: float, count: int, source: str, like: str = ""
) -> Figure:
    note = f"{count} measurements" + (f", which do not tell it from {like}" if like else "")
    return replace(
        base.figure(id),
        value=_short(value),
        kind="measured",
        source=source,
        spread=(_short(low), _short(high)),
        note=note,
    )


def _short(value: float) -> float:
    """Five digits: what a fit does not tell is not written."""
    return float(f"{value:.5g}")


# -- the fit ---------------------------------------------------------------------------------------


def _fit(base: Device, equations: Sequence[Equation], source: str) -> dict[str, Figure]:
    """The figures that the equations tell, with the interval that holds 90 %."""
    measured = np.array([equation.measured_ns for equation in equations])
    count = np.sqrt([equation.count for equation in equations])
    ids = [id for id in FITTED if id in base and base[id] is not None]
    start = np.array([float(base[id]) for id in ids])
    scale = np.where(start > 0, start, NEAR_ZERO)
    prior = np.array([CLOCK_PRIOR if id in CLOCKS else RATE_PRIOR if ".rate_" in id else PRIOR for id in ids])
    told = np.abs(_slopes(base, ids, start, scale, equations)).max(axis=0) > MOVED
    ids, start, scale, prior = [id for id, t in zip(ids, told) if t], start[told], scale[told], prior[told]
    step = np.zeros(len(ids))
    for _ in range(STEPS):
        now = start + step * scale
        residual = np.log(measured / _estimates(base, ids, now, equations))
        slopes = _slopes(base, ids, now, scale, equations)
        weight = count / NOISE * np.sqrt(_huber(residual))
        matrix = np.vstack((slopes * weight[:, None], np.diag(1 / prior)))
        target = np.concatenate((residual * weight, -step / prior))
        change = np.linalg.lstsq(matrix, target, rcond=None)[0]
        moved = np.clip(step + change, -0.95, None) - step
        step += moved
        if np.abs(moved).max(initial=0) < SMALLEST:
            break
    noise = max(NOISE, _robust_deviation(residual))
    covariance = np.linalg.inv(matrix.T @ matrix) * (noise / NOISE) ** 2
    half = NORMAL_90 * np.sqrt(np.diag(covariance)) * scale
    values, like = start + step * scale, _alike(ids, covariance)
    return {
        id: _figure(base, id, value, max(0.0, value - width), value + width, int(told_by), source, like.get(id, ""))
        for id, value, width, told_by in zip(ids, values, half, _counts(slopes, equations))
    }


def _alike(ids: Sequence[str], covariance: np.ndarray) -> dict[str, str]:
    """For figures that the equations hold only together with another one, loosely each for itself, that one."""
    deviation = np.sqrt(np.diag(covariance))
    likeness = np.abs(covariance / np.outer(deviation, deviation)) - np.eye(len(ids))
    found = {}
    for place, near in enumerate(likeness.argmax(axis=1).tolist()):
        if likeness[place, near] > ALIKE and max(deviation[place], deviation[near]) > MOVED:
            found[ids[place]] = ids[near]
    return found


def _counts(slopes: np.ndarray, equations: Sequence[Equation]) -> np.ndarray:
    """Measurements that tell each figure."""
    return (np.abs(slopes) > MOVED / 5).T @ np.array([equation.count for equation in equations])


def _with(base: Device, ids: Sequence[str], values: Iterable[float]) -> Device:
    return base.with_figures({id: replace(base.figure(id), value=float(value)) for id, value in zip(ids, values)})


def _estimates(base: Device, ids: Sequence[str], values: np.ndarray, equations: Sequence[Equation]) -> np.ndarray:
    device = _with(base, ids, values)
    return np.array([equation.estimate_ns(device) for equation in equations])


def _slopes(
    base: Device, ids: Sequence[str], values: np.ndarray, scale: np.ndarray, equations: Sequence[Equation]
) -> np.ndarray:
    """Change of each log estimate with each figure in units of its scale, shape [equations, figures]."""
    plain = np.log(_estimates(base, ids, values, equations))
    columns = []
    for place, width in enumerate(0.01 * scale):
        moved = values.copy()
        moved[place] += width
        columns.append((np.log(_estimates(base, ids, moved, equations)) - plain) / 0.01)
    return np.array(columns).reshape(len(ids), len(equations)).T


def _huber(residual: np.ndarray) -> np.ndarray:
    limit = HUBER * max(NOISE, _robust_deviation(residual))
    return np.minimum(1, limit / np.maximum(np.abs(residual), 1e-12))


def _robust_deviation(residual: np.ndarray) -> float:
    """1.4826 x the median absolute deviation from 0."""
    return 1.4826 * float(np.median(np.abs(residual)))


def _error(device: Device, equations: Sequence[Equation]) -> float:
    weight = sum(equation.count for equation in equations)
    errors = (equation.count * abs(equation.estimate_ns(device) / equation.measured_ns - 1) for equation in equations)
    return math.fsum(errors) / weight if weight else 0.0
