"""Whole-trace metrics under AWS's names: the row of Neuron Explorer's `Summary` table.

Formulas are those of the profiler's own terminology table, as they were found to hold on real profiles
(neuron-profile 2.27 and 2.28): times in seconds, `*_percent` as fractions. Three of them are not as documented:

- `*_dma_active_time_percent` of static and dynamic DMAs are shares of `dma_active_time`, not of `total_time`;
- `dynamic_dma_active_time_percent` adds software and hardware generated times, overlaps counted twice;
- `mfu_max_achievable_estimated_percent` is cut at 1, and the ridge counts every physical core.

What the rows do not tell (model FLOPs of the framework, raw event counts) is absent, as is what has nothing to divide
by. Engines of several cores are one engine here: their intervals are joined, as AWS does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.explorer import machine_figures
from sim.explorer.events import SEMAPHORE_WAIT
from sim.trace import COMPUTE_ENGINES, Engine, Instructions, Memory, Packets, QueueType, Trace, Transfers
from trnprof.intervals import Spans, clip, merge, union_ps

SECOND_PS = 1e12
GIGA = 1e9

_ENGINES = (*COMPUTE_ENGINES, Engine.SYNC)
_SUMS = (
    "hbm_read_bytes",
    "hbm_write_bytes",
    "sbuf_read_bytes",
    "sbuf_write_bytes",
    "psum_read_bytes",
    "psum_write_bytes",
    "spill_save_bytes",
    "spill_reload_bytes",
)


@dataclass(frozen=True, slots=True)
class EngineUse:
    """How much of the window an engine was at work."""

    engine: Engine
    active_ps: int
    """Union of its intervals, semaphore waits left out; for DMA of its packets."""
    instruction_ps: int
    """Sum of the same intervals, overlaps counted again."""
    instructions: int
    """Rows that overlap the window; for DMA the transfers."""
    share: float | None
    """active_ps of the window's length; None when the window is empty."""


def summarize(trace: Trace) -> dict[str, Any]:
    """Metrics of the whole trace: seconds, bytes, FLOPs, fractions; of a profile without rows what it says itself."""
    if _is_summary(trace):
        return dict(trace.meta.summary)
    metrics: dict[str, Any] = {}
    total = total_ps(trace) / SECOND_PS
    metrics["total_time"] = total
    metrics |= _engines(trace)
    metrics |= _dma(trace)
    metrics |= _activity(trace)
    metrics |= _work(trace)
    metrics |= _memory(trace)
    metrics |= _throttle(trace)
    metrics |= _utilisation(trace, metrics)
    if total > 0:
        metrics |= {
            f"{name}_percent": metrics[name] / total for name in [name for name in metrics if name in _SHARES_OF_TOTAL]
        }
    return metrics


def _is_summary(trace: Trace) -> bool:
    """Whether a profile has metrics alone."""
    return bool(trace.meta.summary) and not any(len(table) for _, table in trace.tables())


_SHARES_OF_TOTAL = (
    *(f"{engine.name.lower()}_engine_active_time" for engine in _ENGINES),
    "dma_active_time",
    "total_active_time",
    "cc_op_active_time",
)


def total_ps(trace: Trace) -> int:
    """What a profile calls total_time; the window where the trace does not say."""
    low, high = trace.meta.window
    return trace.meta.total_ps or high - low


def engines(trace: Trace) -> list[EngineUse]:
    """Use of each engine over the window: compute engines, Sync, DMA, and collectives where there are any.

    Of a profile without rows nothing is told.
    """
    if _is_summary(trace):
        return []
    window = trace.meta.window
    uses = [_use(trace, engine, window) for engine in (*_ENGINES, Engine.DMA, Engine.COLLECTIVE, Engine.OTHER)]
    return [use for use in uses if use.instructions or use.engine in _ENGINES or use.engine == Engine.DMA]


def active_ps(trace: Trace, engine: Engine, window: tuple[int, int] | None = None) -> int:
    """Time in which an engine worked on at least one thing, semaphore waits left out; in a window if one is given."""
    start, end = busy(trace, engine)
    return union_ps(*(clip(start, end, *window) if window else (start, end)))


def busy(trace: Trace, engine: Engine) -> Spans:
    """Intervals in which an engine works, unmerged; for DMA its packets."""
    if engine == Engine.DMA:
        pieces = dma_pieces(trace)
        return pieces.start_ps, pieces.end_ps
    rows = (trace.instructions.engine == engine) & ~semaphore_waits(trace)
    return trace.instructions.start_ps[rows], trace.instructions.end_ps[rows]


def semaphore_waits(trace: Trace) -> np.ndarray:
    """Which instructions only wait for a semaphore, bool [rows]."""
    code = trace.strings.find(SEMAPHORE_WAIT)
    return (trace.instructions.opcode == code) & (code >= 0)


def dma_pieces(trace: Trace) -> Packets | Transfers:
    """The finest DMA rows that the trace has."""
    return trace.packets if len(trace.packets) else trace.transfers


def _use(trace: Trace, engine: Engine, window: tuple[int, int]) -> EngineUse:
    start, end = clip(*busy(trace, engine), *window)
    rows: Instructions | Transfers = trace.instructions
    mine = rows.engine == engine
    if engine == Engine.DMA:
        rows, mine = trace.transfers, trace.transfers.queue_type != QueueType.INSTRUCTION
    inside = mine & (rows.start_ps < window[1]) & (rows.end_ps > window[0])
    active = union_ps(start, end)
    length = window[1] - window[0]
    share = active / length if length > 0 else None
    number = int(rows.count[inside].sum()) if isinstance(rows, Instructions) else int(np.count_nonzero(inside))
    return EngineUse(engine, active, int((end - start).sum()), number, share)


def _engines(trace: Trace) -> dict[str, Any]:
    """Times and counts per engine."""
    instructions = trace.instructions
    metrics: dict[str, Any] = {}
    for engine in _ENGINES:
        name = f"{engine.name.lower()}_engine"
        start, end = busy(trace, engine)
        metrics[f"{name}_instruction_time"] = int((end - start).sum()) / SECOND_PS
        metrics[f"{name}_active_time"] = union_ps(start, end) / SECOND_PS
        metrics[f"{name}_instruction_count"] = int(instructions.count[instructions.engine == engine].sum())
    length = instructions.end_ps - instructions.start_ps
    activate = np.isin(instructions.opcode, _codes(trace, "ACTIVATE", "ACTIVATE_QUANTIZE"))
    metrics["activate_instruction_time"] = int(length[activate].sum()) / SECOND_PS
    metrics["activate_instruction_count"] = int(instructions.count[activate].sum())
    matmul = np.isin(instructions.opcode, _codes(trace, "MATMUL", "MATMUL_MX"))
    metrics["matmul_instruction_count"] = int(instructions.count[matmul].sum())
    start, end = busy(trace, Engine.COLLECTIVE)
    metrics["cc_op_time"] = int((end - start).sum()) / SECOND_PS
    metrics["cc_op_active_time"] = union_ps(start, end) / SECOND_PS
    metrics["cc_op_count"] = int(start.size)
    return metrics


def _codes(trace: Trace, *texts: str) -> list[int]:
    return [code for code in map(trace.strings.find, texts) if code >= 0]


def _dma(trace: Trace) -> dict[str, Any]:
    """Times, counts and bytes of packets by who made their descriptors, and of transfers."""
    pieces = dma_pieces(trace)
    kinds = {
        "software_dynamic": pieces.queue_type == QueueType.SOFTWARE_DYNAMIC,
        "hardware_dynamic": pieces.queue_type == QueueType.HARDWARE_DYNAMIC,
    }
    kinds["static"] = ~(kinds["software_dynamic"] | kinds["hardware_dynamic"])
    metrics: dict[str, Any] = {"dma_active_time": union_ps(pieces.start_ps, pieces.end_ps) / SECOND_PS}
    for name, rows in kinds.items():
        metrics[f"{name}_dma_active_time"] = union_ps(pieces.start_ps[rows], pieces.end_ps[rows]) / SECOND_PS
        metrics[f"{name}_dma_size"] = int(pieces.bytes[rows].sum())
        if len(trace.packets):
            metrics[f"{name}_dma_packet_count"] = int(np.count_nonzero(rows))
    metrics |= _dma_shares(metrics)
    if len(trace.packets):
        metrics["dma_packet_time"] = int((pieces.end_ps - pieces.start_ps).sum()) / SECOND_PS
    transfers = trace.transfers
    moving = transfers.queue_type != QueueType.INSTRUCTION
    count = int(np.count_nonzero(moving))
    metrics["dma_transfer_count"] = count
    metrics["dma_transfer_total_bytes"] = int(transfers.bytes[moving].sum())
    metrics["dma_transfer_time"] = int((transfers.end_ps - transfers.start_ps)[moving].sum()) / SECOND_PS
    if count:
        metrics["dma_transfer_average_bytes"] = metrics["dma_transfer_total_bytes"] / count
    return metrics


def _dma_shares(metrics: dict[str, Any]) -> dict[str, float]:
    """Each kind of descriptor as a share of all packets, bytes and DMA time; `dynamic` is both dynamic kinds."""
    shares: dict[str, float] = {}
    kinds = ("static", "software_dynamic", "hardware_dynamic")
    for figure, share in (("active_time", "active_time"), ("dma_size", "size"), ("packet_count", "packet")):
        name = figure if figure.startswith("dma") else f"dma_{figure}"
        values = {kind: metrics.get(f"{kind}_{name}") for kind in kinds}
        if None in values.values():
            continue
        whole = metrics["dma_active_time"] if figure == "active_time" else sum(values.values())
        if whole > 0:
            shares |= {f"{kind}_dma_{share}_percent": value / whole for kind, value in values.items()}
            dynamic = values["software_dynamic"] + values["hardware_dynamic"]
            shares[f"dynamic_dma_{share}_percent"] = dynamic / whole
    return shares


def _activity(trace: Trace) -> dict[str, Any]:
    """Union of everything, and the span of what is not set-up."""
    instructions, pieces = trace.instructions, dma_pieces(trace)
    working = ~semaphore_waits(trace)
    parts = [
        merge(instructions.start_ps[working], instructions.end_ps[working]),
        merge(pieces.start_ps, pieces.end_ps),
    ]
    start, end = (np.concatenate(points) for points in zip(*parts, strict=True))
    metrics: dict[str, Any] = {"total_active_time": union_ps(start, end) / SECOND_PS}
    kernel = ~instructions.control
    start = np.concatenate((instructions.start_ps[kernel], pieces.start_ps))
    end = np.concatenate((instructions.end_ps[kernel], pieces.end_ps))
    if start.size:
        metrics["total_exec_time"] = int(end.max() - start.min()) / SECOND_PS
    return metrics


def _work(trace: Trace) -> dict[str, Any]:
    """FLOPs of the Tensor Engine."""
    instructions = trace.instructions
    code = trace.strings.find("TRANSPOSE")
    transpose = (instructions.kind == code) & (code >= 0)
    tensor = instructions.engine == Engine.TENSOR
    metrics = {}
    for name, flops in (("", instructions.flops), ("adjusted_", instructions.adjusted_flops)):
        metrics[f"{name}hardware_flops"] = int(flops[tensor].sum())
        metrics[f"{name}transpose_flops"] = int(flops[tensor & transpose].sum())
    return metrics


def _memory(trace: Trace) -> dict[str, Any]:
    """Bytes moved by memory and by queue, and sizes of the tensors that the kernel is given."""
    instructions, transfers = trace.instructions, trace.transfers
    metrics = {name: int(instructions.column(name).sum()) for name in _SUMS if instructions.has(name)}
    if "hbm_read_bytes" not in metrics:
        metrics["hbm_read_bytes"] = int(transfers.read_bytes[transfers.source_memory == Memory.HBM].sum())
    if "hbm_write_bytes" not in metrics:
        metrics["hbm_write_bytes"] = int(transfers.write_bytes[transfers.dest_memory == Memory.HBM].sum())
    copies = (instructions.psum_read_bytes > 0) & (instructions.sbuf_write_bytes > 0)
    metrics["psum_read_sbuf_write_count"] = int(np.count_nonzero(copies))
    metrics["psum_read_sbuf_write_bytes"] = int(instructions.sbuf_write_bytes[copies].sum())
    for name, kind in (("input", QueueType.INPUT), ("output", QueueType.OUTPUT), ("weight", QueueType.DATA)):
        metrics[f"{name}_queue_bytes"] = int(transfers.bytes[transfers.queue_type == kind].sum())
    if len(trace.tensors):
        sizes = {kind: _tensor_bytes(trace, kind) for kind in ("IN", "OUT", "WEIGHT")}
        metrics["weight_size_bytes"] = sizes["WEIGHT"]
        metrics["inputs_and_weights_size_bytes"] = sizes["IN"] + sizes["WEIGHT"]
        metrics["inputs_outputs_weights_size_bytes"] = sum(sizes.values())
    return metrics


def _tensor_bytes(trace: Trace, kind: str) -> int:
    code = trace.strings.find(kind)
    return int(trace.tensors.bytes[(trace.tensors.type == code) & (code >= 0)].sum())


def _throttle(trace: Trace) -> dict[str, Any]:
    """Time under each limit of the clock, from the counters `throttle_<type>`."""
    total = total_ps(trace)
    metrics: dict[str, Any] = {}
    limited: dict[int, float] = {}
    weighted: dict[int, float] = {}
    for name, core, length, value in _throttle_events(trace):
        if not length.sum() or not total:
            continue
        metrics[f"{name}_active_time_nc{core}_percent"] = int(length.sum()) / total
        metrics[f"{name}_avg_util_limit_nc{core}_percent"] = float((length * value).sum() / length.sum())
        limited[core] = limited.get(core, 0) + int(length[value < 1].sum())
        weighted[core] = weighted.get(core, 0) + float((length * value).sum())
    metrics |= {f"throttle_active_nc{core}_time_ns": time / 1000 for core, time in limited.items()}
    return metrics | {f"throttle_avg_util_limit_nc{core}_percent": sum_ / total for core, sum_ in weighted.items()}


def _throttle_events(trace: Trace) -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """Type, core, lengths in ps and limits of the throttle events."""
    counters = trace.counters
    for code in np.unique(counters.counter).tolist():
        name = trace.strings[code] or ""
        if not name.startswith("throttle_"):
            continue
        for core in np.unique(counters.core[counters.counter == code]).tolist():
            rows = (counters.counter == code) & (counters.core == core)
            time, value = counters.time_ps[rows], counters.value[rows]
            length, value = np.diff(time), value[:-1]
            yield name, core, length[value > 0], value[value > 0]


def _utilisation(trace: Trace, metrics: dict[str, Any]) -> dict[str, Any]:
    """Ratios to what the machine could do; absent where the machine or a divisor is not known."""
    total, machine = metrics["total_time"], _machine(trace)
    hbm_bytes = metrics["hbm_read_bytes"] + metrics["hbm_write_bytes"]
    flops = metrics["hardware_flops"] - metrics["transpose_flops"]
    peak, cores, bandwidth, clock = (machine.get(name) for name in ("peak", "cores", "bandwidth", "clock"))
    found: dict[str, Any] = {}
    if clock:
        found["neuroncore_cycle_count"] = int(total * clock * GIGA)
        found["dma_active_cycles"] = int(metrics["dma_active_time"] * clock * GIGA)
    if hbm_bytes:
        found["mm_arithmetic_intensity"] = flops / hbm_bytes
    if peak and total:
        found["hfu_estimated_percent"] = metrics["hardware_flops"] / (peak * cores * total)
        found["mfu_inst_estimated_percent"] = found["mfu_estimated_percent"] = flops / (peak * cores * total)
    if bandwidth and total:
        found["mbu_estimated_percent"] = hbm_bytes / (total * bandwidth)
        if "inputs_and_weights_size_bytes" in metrics:
            found["mbu_min_read_util_percent"] = metrics["inputs_and_weights_size_bytes"] / (total * bandwidth)
    if peak and bandwidth:
        found["peak_flops_bandwidth_ratio"] = peak / bandwidth
        if hbm_bytes:
            ceiling = min(found["mm_arithmetic_intensity"] / (cores * found["peak_flops_bandwidth_ratio"]), 1.0)
            found["mfu_max_achievable_estimated_percent"] = ceiling
            found["mfu_inst_max_achievable_estimated_percent"] = ceiling
    return found


def _machine(trace: Trace) -> dict[str, float]:
    """Peak FLOP/s of a core, cores, HBM bytes/s of a stack and base clock in GHz; what is not known is left out."""
    figures = machine_figures(trace.meta)
    machine = {
        "cores": figures["num_physical_cores"],
        "bandwidth": figures.get("hbm_ddr_bandwidth"),
        "clock": figures.get("neuroncore_clock_freq"),
    }
    sides = [figures.get(f"tensor_engine_{name}") for name in ("num_rows", "num_cols", "clock_freq")]
    if None not in sides:
        machine["peak"] = 2 * sides[0] * sides[1] * sides[2] * GIGA
    return {name: value for name, value in machine.items() if value}
