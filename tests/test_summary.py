"""AWS's Summary metrics: recomputed from the rows of real profiles, and on hand-made traces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from sim.trace import Engine, Instructions, Meta, Packets, QueueType, Strings, Trace, Transfers
from tests import traces
from tests.test_readers import REAL
from trnprof import readers
from trnprof.summary import active_ps, busy, engines, summarize

EXACT = 1e-6
"""Relative agreement where a formula is exact."""

REASONS = {
    "dma_transfer_count": "the file has no rows for run-time generated DMAs; we derive them from their packets",
    "dma_transfer_total_bytes": "the same",
    "dma_transfer_average_bytes": "the same",
    "dma_transfer_time": "the same",
    "sync_engine_instruction_count": "one file's summary counts a row that the file does not have",
}
"""Metrics that may differ, and why."""

ABSENT = {
    "model_flops": "from the framework's statistics, not from rows",
    "mfu_hlo_estimated_percent": "the same",
    "mfu_hlo_max_achievable_estimated_percent": "the same",
    "trace_count": "raw notifications of the capture",
    "event_count": "raw notifications of the capture",
    "dma_queue_count": "queues declared in the program, used or not",
    "cc_cores_instruction_count": "the trace has no CC-core instructions",
    "cc_cores_instruction_time": "the same",
    "cc_cores_instruction_active_time": "the same",
    "cc_cores_instruction_active_time_percent": "the same",
    "nc_idx": "an identity, not a metric",
    "nd_idx": "the same",
}
"""Metrics of real summaries that are not recomputed, and why."""


@pytest.fixture(params=REAL)
def real(request: pytest.FixtureRequest, profiles: Path) -> Trace:
    return readers.open(profiles / request.param)


def slack(name: str, trace: Trace) -> float:
    """How far a metric may be off because the file's times are in ns, 1 ns a row; 0 where nothing is rounded.

    The profiler sums picoseconds; the file has starts and lengths in whole ns.
    """
    rows, packets = len(trace.instructions), len(trace.packets)
    total, dma = trace.meta.total_ps / 1e12, summarize(trace)["dma_active_time"]
    bound = 1e-9 * (packets if "dma" in name else rows if "engine" in name or "activate" in name else rows + packets)
    if name == "dma_active_cycles":
        return bound * 1.4e9 + 1
    if name.startswith("throttle"):
        return 1e-9 * len(trace.counters) / total if name.endswith("percent") else 0
    if name.endswith("active_time_percent"):
        dynamic = name.startswith(("static", "dynamic", "software", "hardware"))
        return 2 * bound / (dma if dynamic else total)
    return bound if name.endswith("_time") and name != "total_time" else 0


def test_real_summaries_are_recomputed_from_the_rows(real):
    ours, theirs = summarize(real), real.meta.summary
    faults = []
    for name, value in theirs.items():
        if isinstance(value, str) or name in ABSENT or name in REASONS:
            continue
        assert name in ours, name
        allowed = max(EXACT * abs(value), slack(name, real))
        if abs(ours[name] - value) > allowed:
            faults.append(f"{name}: file {value}, ours {ours[name]}, allowed {allowed:.2g}")
    assert not faults, "\n".join(faults)


def test_rounding_explains_little(real):
    """The times that differ by rounding differ by less than 3 %, even where an engine has a few short rows only."""
    ours, theirs = summarize(real), real.meta.summary
    times = [
        name for name in theirs if name.endswith(("_active_time", "_instruction_time", "packet_time")) and theirs[name]
    ]
    for name in times:
        assert ours[name] == pytest.approx(theirs[name], rel=0.03), name


def test_most_metrics_of_real_summaries_are_exact(real):
    ours, theirs = summarize(real), real.meta.summary
    exact = [
        name
        for name, value in theirs.items()
        if name in ours and abs(ours[name] - value) <= EXACT * abs(value) and name not in ABSENT
    ]
    assert len(exact) >= 54
    assert {"hardware_flops", "hfu_estimated_percent", "mbu_estimated_percent", "mm_arithmetic_intensity"} <= set(exact)
    assert {"hbm_read_bytes", "sbuf_write_bytes", "psum_read_sbuf_write_bytes", "static_dma_size"} <= set(exact)


def test_metrics_that_differ_do_so_for_the_reason_given(real):
    ours, theirs = summarize(real), real.meta.summary
    transfers = real.transfers
    static = (transfers.queue_type == QueueType.DATA) | (transfers.queue_type == QueueType.INPUT)
    assert int(np.count_nonzero(static)) == theirs.get("dma_transfer_count", 0)
    assert int(transfers.bytes[static].sum()) == theirs.get("dma_transfer_total_bytes", 0)
    assert ours["dma_transfer_count"] - theirs.get("dma_transfer_count", 0) == _triggers(real)
    assert 0 <= theirs["sync_engine_instruction_count"] - ours["sync_engine_instruction_count"] <= 1


def _triggers(trace: Trace) -> int:
    return int(np.count_nonzero(trace.instructions.opcode == trace.strings.find("DMA_DIRECT2D")))


def made(
    rows: list[tuple[int, int, Engine, str]],
    packets: list[tuple[int, int, QueueType, int]] = (),
    device: str = "trn2",
    **columns: Any,
) -> Trace:
    """Rows are start, end (ns), engine, opcode; packets are start, end (ns), kind, bytes."""
    text = Strings()
    start, end = (np.array([row[k] for row in rows], np.int64) * 1000 for k in (0, 1))
    last = max([row[1] for row in rows] + [row[1] for row in packets], default=0) * 1000
    return Trace(
        Meta(True, device, "k", window=(int(start.min(initial=last)), last), total_ps=100_000),
        text,
        Instructions(
            len(rows),
            start_ps=start,
            end_ps=end,
            engine=np.array([row[2] for row in rows], np.int8),
            opcode=text.codes(row[3] for row in rows),
            **{name: np.array(values) for name, values in columns.items()},
        ),
        packets=Packets(
            start_ps=np.array([row[0] for row in packets], np.int64) * 1000,
            end_ps=np.array([row[1] for row in packets], np.int64) * 1000,
            queue_type=np.array([row[2] for row in packets], np.int8),
            bytes=np.array([row[3] for row in packets], np.int64),
        ),
    )


def test_active_time_is_a_union_and_instruction_time_a_sum():
    trace = made(
        [(0, 10, Engine.TENSOR, "LDWEIGHTS"), (5, 20, Engine.TENSOR, "MATMUL"), (30, 40, Engine.TENSOR, "MATMUL")]
    )
    metrics = summarize(trace)
    assert metrics["tensor_engine_active_time"] == pytest.approx(30e-9)
    assert metrics["tensor_engine_instruction_time"] == pytest.approx(35e-9)
    assert metrics["tensor_engine_active_time_percent"] == pytest.approx(0.3)
    assert (metrics["tensor_engine_instruction_count"], metrics["matmul_instruction_count"]) == (3, 2)


def test_semaphore_waits_are_instructions_but_not_activity():
    trace = made([(0, 50, Engine.VECTOR, "EVENT_SEMAPHORE"), (50, 60, Engine.VECTOR, "DRAIN")])
    metrics = summarize(trace)
    assert metrics["vector_engine_instruction_count"] == 2
    assert metrics["vector_engine_instruction_time"] == pytest.approx(10e-9)
    assert metrics["total_active_time"] == pytest.approx(10e-9)
    assert active_ps(trace, Engine.VECTOR) == 10_000


def test_cores_share_one_timeline():
    trace = made([(0, 10, Engine.SYNC, "A"), (4, 12, Engine.SYNC, "B")], core=[0, 1])
    assert summarize(trace)["sync_engine_active_time"] == pytest.approx(12e-9)


def test_dma_kinds_share_packets_bytes_and_dma_time():
    kinds = (QueueType.HARDWARE_DYNAMIC, QueueType.SOFTWARE_DYNAMIC, QueueType.DATA)
    trace = made([], [(0, 10, kinds[0], 100), (5, 20, kinds[1], 200), (30, 40, kinds[2], 700)])
    metrics = summarize(trace)
    assert metrics["dma_active_time"] == pytest.approx(30e-9)
    assert metrics["dma_packet_time"] == pytest.approx(35e-9)
    assert metrics["static_dma_active_time_percent"] == pytest.approx(1 / 3)
    assert metrics["dynamic_dma_active_time_percent"] == pytest.approx(25 / 30)
    assert metrics["software_dynamic_dma_size_percent"] == pytest.approx(0.2)
    assert metrics["dynamic_dma_packet_percent"] == pytest.approx(2 / 3)


def test_flops_and_their_ratios_follow_the_device_table():
    trace = made(
        [(0, 10, Engine.TENSOR, "MATMUL"), (10, 20, Engine.TENSOR, "MATMUL")],
        flops=[1_000_000, 500_000],
        adjusted_flops=[4_000_000, 500_000],
        hbm_read_bytes=[8_000, 0],
        hbm_write_bytes=[0, 2_000],
    )
    kinds = trace.strings.codes(("REGULAR", "TRANSPOSE"))
    given = {name: trace.instructions.column(name) for name in trace.instructions.present()}
    trace = replace(trace, instructions=Instructions(2, **given, kind=kinds))
    metrics = summarize(trace)
    assert (metrics["hardware_flops"], metrics["transpose_flops"]) == (1_500_000, 500_000)
    assert (metrics["adjusted_hardware_flops"], metrics["adjusted_transpose_flops"]) == (4_500_000, 500_000)
    assert metrics["mm_arithmetic_intensity"] == 100
    assert metrics["peak_flops_bandwidth_ratio"] == pytest.approx(109.8368715)
    assert metrics["hfu_estimated_percent"] == pytest.approx(1_500_000 / (78.6432e12 * 100e-9))
    assert metrics["mfu_estimated_percent"] == pytest.approx(1_000_000 / (78.6432e12 * 100e-9))
    assert metrics["mfu_max_achievable_estimated_percent"] == pytest.approx(100 / 109.8368715)
    assert metrics["mbu_estimated_percent"] == pytest.approx(10_000 / (716e9 * 100e-9))


def test_copies_out_of_psum_are_those_that_write_sbuf():
    rows = [(0, 10, Engine.VECTOR, "COPY"), (10, 20, Engine.VECTOR, "COPY"), (20, 30, Engine.VECTOR, "COPY")]
    metrics = summarize(made(rows, psum_read_bytes=[4, 8, 0], sbuf_write_bytes=[2, 0, 16]))
    assert (metrics["psum_read_sbuf_write_count"], metrics["psum_read_sbuf_write_bytes"]) == (1, 2)
    assert (metrics["psum_read_bytes"], metrics["sbuf_write_bytes"]) == (12, 18)


def test_the_profiles_own_figures_win_over_the_device_table():
    trace = made([(0, 10, Engine.TENSOR, "MATMUL")], flops=[1_000_000], hbm_read_bytes=[1_000])
    machine = {"tensor_engine_clock_freq": 1.2, "hbm_ddr_bandwidth": 1e12, "num_physical_cores": 2}
    metrics = summarize(replace(trace, meta=replace(trace.meta, machine=machine)))
    assert metrics["peak_flops_bandwidth_ratio"] == pytest.approx(39.3216)
    assert metrics["hfu_estimated_percent"] == pytest.approx(1_000_000 / (2 * 39.3216e12 * 100e-9))


def test_what_cannot_be_computed_is_absent():
    metrics = summarize(made([(0, 10, Engine.OTHER, "slice")], device="unknown"))
    absent = ("hfu_estimated_percent", "mbu_estimated_percent", "peak_flops_bandwidth_ratio", "mm_arithmetic_intensity")
    assert not {*absent, "dma_transfer_average_bytes", "static_dma_size_percent", "model_flops"} & set(metrics)
    assert metrics["dma_active_time"] == 0


def test_an_empty_trace_has_no_ratios():
    metrics = summarize(Trace(Meta(True, "trn2", ""), Strings(), Instructions(0)))
    assert not [name for name in metrics if name.endswith("_percent")]
    assert metrics["total_time"] == 0


@settings(max_examples=40)
@given(trace=traces.traces())
def test_metrics_are_finite_plain_numbers(trace):
    for name, value in summarize(trace).items():
        assert type(value) in (int, float), name
        assert np.isfinite(value), name


def test_transfers_stand_in_where_there_are_no_packets():
    trace = made([(0, 10, Engine.SYNC, "DMA")])
    moved = Transfers(
        start_ps=np.array([10_000]),
        end_ps=np.array([30_000]),
        bytes=np.array([64]),
        queue_type=np.array([QueueType.HARDWARE_DYNAMIC]),
    )
    metrics = summarize(replace(trace, transfers=moved))
    assert metrics["dma_active_time"] == pytest.approx(20e-9)
    assert metrics["hardware_dynamic_dma_size_percent"] == 1
    assert "hardware_dynamic_dma_packet_count" not in metrics
    assert (metrics["dma_transfer_count"], metrics["dma_transfer_average_bytes"]) == (1, 64)


def test_engine_use_is_of_the_window():
    trace = made(
        [(0, 10, Engine.TENSOR, "MATMUL"), (15, 30, Engine.TENSOR, "MATMUL"), (25, 40, Engine.SCALAR, "ACTIVATE")]
    )
    trace = replace(trace, meta=replace(trace.meta, window=(5_000, 25_000)))
    uses = {use.engine: use for use in engines(trace)}
    assert list(uses) == [Engine.TENSOR, Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD, Engine.SYNC, Engine.DMA]
    tensor = uses[Engine.TENSOR]
    assert (tensor.active_ps, tensor.instruction_ps, tensor.instructions, tensor.share) == (15_000, 15_000, 2, 0.75)
    assert uses[Engine.SCALAR].share == 0
    assert active_ps(trace, Engine.TENSOR, (0, 20_000)) == 15_000
    assert active_ps(trace, Engine.TENSOR) == 25_000


def test_engine_use_of_an_empty_window_has_no_share():
    trace = made([(0, 10, Engine.TENSOR, "MATMUL")])
    uses = engines(replace(trace, meta=replace(trace.meta, window=(7_000, 7_000))))
    assert {use.share for use in uses} == {None}


def test_engines_of_a_general_timeline_are_listed_when_they_work():
    engine = engines(made([(0, 10, Engine.OTHER, "slice"), (0, 5, Engine.COLLECTIVE, "all-reduce")]))
    assert [use.engine for use in engine][-2:] == [Engine.COLLECTIVE, Engine.OTHER]


def test_throttle_time_is_summed_by_type_and_core(real):
    metrics = summarize(real)
    names = [name for name in real.meta.summary if name.startswith("throttle_")]
    assert names
    assert metrics["throttle_active_nc0_time_ns"] == real.meta.summary["throttle_active_nc0_time_ns"]
    for name in names:
        assert metrics[name] == pytest.approx(real.meta.summary[name], rel=2e-4), name


def test_busy_intervals_of_dma_are_its_packets():
    trace = made([(0, 10, Engine.SYNC, "DMA")], [(3, 5, QueueType.DATA, 4)])
    start, end = busy(trace, Engine.DMA)
    assert (start.tolist(), end.tolist()) == ([3_000], [5_000])
