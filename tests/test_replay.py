"""Captured instructions are costed by the functions that cost emulated ones."""

from __future__ import annotations

import numpy as np
import pytest

import sim
from sim import spec
from sim.replay import Operand, Shown, packet, replay
from sim.trace import Engine, Memory
from trnprof.validation.captured import samples
from trnprof.validation.instructions import compare, kinds, replayed

TRN2 = spec.device("trn2")


def operand(elements: int, memory: Memory = Memory.SBUF, dtype: str = "fp32") -> Operand:
    return Operand(dtype, memory, (elements, 1, 1), (1, 1, 1))


def matmul(opcode: str = "MATMUL", columns: int = 512) -> Shown:
    results = () if opcode == "LDWEIGHTS" else (operand(columns, Memory.PSUM),)
    return Shown(Engine.TENSOR, opcode, "", 128, (operand(columns),), results, columns=128)


def test_a_pass_of_an_fp32_matmul_is_one_row():
    timing = replay(TRN2, matmul())
    assert timing.interval_ps == pytest.approx(429_000, rel=0.005), "measured: 428-431 ns from pass to pass"
    assert timing.duration_ps == pytest.approx(590_000, rel=0.005)


@pytest.mark.parametrize(("clock", "measured_ns"), [(1.0, 590), (0.5, 1060)])
def test_a_slower_clock_stretches_what_streams_and_part_of_the_latency(clock, measured_ns):
    assert replay(TRN2, matmul(), clock).duration_ps == pytest.approx(measured_ns * 1000, rel=0.005)


@pytest.mark.parametrize(("clock", "measured_ns"), [(1.0, 191), (0.5, 333)])
def test_a_load_of_weights_has_a_part_that_no_clock_stretches(clock, measured_ns):
    assert replay(TRN2, matmul("LDWEIGHTS", 128), clock).duration_ps == pytest.approx(measured_ns * 1000, rel=0.005)


def test_weights_that_came_late_delay_the_matmul_by_what_is_left_of_their_load():
    hidden = replay(TRN2, matmul(columns=128)).duration_ps
    late = replay(TRN2, matmul(columns=128), lead_ps=0).duration_ps - hidden
    assert late == pytest.approx(103_000, abs=4_000), "measured: 103 ns from LDWEIGHTS to the first column"
    assert replay(TRN2, matmul(columns=128), lead_ps=late).duration_ps == hidden


def test_first_matmuls_of_an_idle_engine_wait_for_their_weights_as_captured_ones_do():
    first = [kind for kind in kinds() if kind.device == "trn2" and kind.lead_ns is not None]
    rows = [row for kind in first for row in replayed(kind) if row.level == "instruction"]
    assert {kind.shown.sources[0].dtype for kind in first} == {"bf16", "fp32"} and len(rows) >= 6
    assert max(abs(row.error) for row in rows) < 0.045
    assert np.mean([abs(row.error) for row in rows]) < 0.015


def test_an_opcode_that_several_calls_become_is_not_guessed_at():
    assert replay(TRN2, Shown(Engine.VECTOR, "SELECT", "", 128, (operand(8),), (operand(8),))) is None
    assert replay(TRN2, Shown(Engine.SCALAR, "ACTIVATE", "NOT_A_FUNCTION", 128, (operand(8),), (operand(8),))) is None


@pytest.mark.parametrize(("size", "measured_ns"), [(4096, 158), (2048, 82), (512, 25.5), (256, 16.5)])
def test_an_undisturbed_packet_takes_the_wire_rate(size, measured_ns):
    assert packet(TRN2, size, 1, stores=False).interval_ps / 1000 == pytest.approx(measured_ns, rel=0.05)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_emulated_trace_replays_to_its_own_durations(dtype):
    """Text and laws are the same on both sides: what the replay reads from operands is what was emulated."""
    kernel = sim.load("traces/kernels/attention.py::attention")
    shapes = ((128, 256), (128, 1024), (1024, 128))
    trace = sim.run(kernel, *(sim.TensorSpec(shape, dtype) for shape in shapes), values=False).trace
    found = {(row.level, row.id): row for row in compare(trace)}
    given = [sample for sample in samples(trace, TRN2) if sample.lead_ps is None]
    steady = {sample.row for sample in given if sample.steady or sample.shown.engine is not Engine.TENSOR}
    rows = [row for (_, id), row in found.items() if int(id.split("row ")[1].split(":")[0]) in steady]
    opcodes = {row.quantity for row in rows if row.level == "instruction"}
    assert {"MATMUL", "LDWEIGHTS", "TENSOR_REDUCE", "TENSOR_SCALAR", "ACTIVATE", "RECIPROCAL"} <= opcodes
    errors = sorted(abs(row.error) for row in rows if row.level == "instruction")
    # The second pass of a matmul that began before the clock changed keeps the clock of the first.
    assert errors[-6] < 0.002, "rows are rounded to picoseconds where passes share a time"
    assert np.mean([abs(row.error) for row in rows if row.level == "interval"]) < 0.025
