"""Compute instructions of a profile, each with what is needed to replay it from its operands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sim.replay import Operand, Shown
from sim.spec import Device
from sim.trace import NONE, Engine, Memory, Trace, Wait
from trnprof.readers.clock import PS_PER_NS
from trnprof.readers.operands import parse_operands, parse_tiles

ENGINES = (Engine.TENSOR, Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD)
OPCODES = frozenset(
    ("MATMUL", "LDWEIGHTS", "COPY", "CAST", "ACTIVATE", "TENSOR_REDUCE", "TENSOR_SCALAR", "TENSOR_TENSOR", "RECIPROCAL")
) | {"ACT_TABLE_LOAD"}
"""Rows that `sim.replay` knows; others are counted, not scored."""

MATMUL_DTYPE = "fp32"
"""What a MATMUL writes into PSUM where its text names no dtype."""

_POINTERS = re.compile(r"\b(?:bias|scale)_ptr=|\bPTR\b")
_AXES = re.compile(r"\bdim=([XYZW]+)")
_GRID = re.compile(r"\b\d+\*(\d+)\b")


@dataclass(frozen=True, slots=True)
class Sample:
    """One instruction as it was measured, integer picoseconds."""

    row: int
    shown: Shown
    clock: tuple[float, float]
    """TensorE's share of its full clock at the start and, if it changes before the end, after."""
    change_ps: int
    """From the start to that change; -1 for none."""
    lead_ps: int | None
    """Of a MATMUL before which TensorE was idle: since when its weights were loaded."""
    duration_ps: int
    interval_ps: int | None
    """To the next instruction of the engine, where that one waited for the engine alone."""

    @property
    def steady(self) -> bool:
        return self.change_ps < 0


def samples(trace: Trace, device: Device) -> Iterator[Sample]:
    """Every compute instruction of the kernel that can be replayed, engine by engine."""
    table = trace.instructions
    clock = _clock(trace, device)
    for core in np.unique(table.core).tolist():
        for engine in ENGINES:
            rows = np.flatnonzero((table.engine == engine) & (table.core == core)).tolist()
            yield from _stream(trace, rows, clock, round(device["pe.lat"] * PS_PER_NS))


def _stream(
    trace: Trace, rows: list[int], clock: tuple[np.ndarray, np.ndarray, float], latency: int
) -> Iterator[Sample]:
    table = trace.instructions
    weights = before = NONE
    for place, row in enumerate(rows):
        opcode = trace.text(table, "opcode", row)
        if opcode in OPCODES and not _preamble(trace, row):
            shown = _shown(trace, row)
            if shown is not None:
                start, length = int(table.start_ps[row]), int(table.end_ps[row] - table.start_ps[row])
                lead = _lead(trace, weights, before, row, latency) if opcode == "MATMUL" else None
                interval = _interval(trace, rows, place)
                yield Sample(row, shown, *_state(clock, start, length), lead, length, interval)
        if opcode == "LDWEIGHTS":
            weights = row
        elif opcode == "MATMUL":
            before = row


def _preamble(trace: Trace, row: int) -> bool:
    return bool(trace.instructions.control[row])


def _shown(trace: Trace, row: int) -> Shown | None:
    """None where the text lacks an operand that the opcode needs."""
    table = trace.instructions
    opcode, text = trace.text(table, "opcode", row) or "", trace.text(table, "operands", row) or ""
    if opcode == "ACT_TABLE_LOAD":
        return Shown(Engine.SCALAR, opcode)
    tiles = [tile for tile in parse_tiles(text) if tile.memory is not Memory.HBM]
    sources = [Operand(t.dtype or MATMUL_DTYPE, t.memory, t.sizes, t.steps) for t in tiles if not t.written]
    results = [Operand(t.dtype or MATMUL_DTYPE, t.memory, t.sizes, t.steps) for t in tiles if t.written]
    if not sources or (not results and opcode != "LDWEIGHTS"):
        return None
    kind = trace.text(table, "kind", row) or ""
    if opcode == "MATMUL" and kind == "TRANSPOSE":
        results = [Operand(sources[0].dtype, tile.memory, tile.sizes, tile.steps) for tile in results]
    grid, axes = _GRID.search(text), _AXES.search(text)
    columns = _columns_given(opcode, sources)
    return Shown(
        engine=Engine(int(table.engine[row])),
        opcode=opcode,
        function=trace.text(table, "function", row) or "",
        partitions=parse_operands(text).partitions,
        sources=tuple(sources[: len(sources) - columns]),
        results=tuple(results),
        transpose=kind == "TRANSPOSE",
        columns=int(grid[1]) if grid and opcode in ("MATMUL", "LDWEIGHTS") else 0,
        pointers=len(_POINTERS.findall(text)) + columns,
        axes=axes[1] if axes else "",
    )


def _columns_given(opcode: str, sources: list[Operand]) -> int:
    """Operands of one element a partition that our own traces print as further sources."""
    if opcode not in ("ACTIVATE", "TENSOR_SCALAR"):
        return 0
    return sum(set(operand.sizes) == {1} for operand in sources[1:])


def _lead(trace: Trace, weights: int, before: int, row: int, latency: int) -> int | None:
    """Time from LDWEIGHTS to its MATMUL when no MATMUL streamed any more; None when one did."""
    start, end = trace.instructions.start_ps, trace.instructions.end_ps
    if weights == NONE or (before != NONE and (weights < before or start[weights] < end[before] - latency)):
        return None
    return int(start[row] - start[weights])


def _interval(trace: Trace, rows: list[int], place: int) -> int | None:
    """Start to start, when the next data-path instruction waited for nothing but this one."""
    table, row = trace.instructions, rows[place]
    for after in rows[place + 1 :]:
        opcode = trace.text(table, "opcode", after)
        if not _free(trace, after) or opcode not in OPCODES or opcode == "ACT_TABLE_LOAD":
            return None
        if opcode != "LDWEIGHTS":
            return int(table.start_ps[after] - table.start_ps[row])
    return None


def _free(trace: Trace, row: int) -> bool:
    """Whether a row waited for its engine alone: it names no semaphore, or the emulator says so."""
    if trace.meta.is_simulation:
        return trace.instructions.wait[row] == Wait.ENGINE
    text = trace.text(trace.instructions, "operands", row) or ""
    return not trace.instructions.control[row] and not parse_operands(text).waits


def _clock(trace: Trace, device: Device) -> tuple[np.ndarray, np.ndarray, float]:
    """(times, shares, share before the first): TensorE's clock of all cores, as the profile counts it."""
    table, code = trace.counters, trace.strings.code("tensor_clock")
    rows = np.flatnonzero(table.counter == code)
    return table.time_ps[rows], table.value[rows], float(device.get("pe.clock_cold") or 1)


def _state(clock: tuple[np.ndarray, np.ndarray, float], start: int, length: int) -> tuple[tuple[float, float], int]:
    times, shares, first = clock
    at, after = np.searchsorted(times, (start, start + length), side="right") - 1
    now, then = (float(shares[place]) if place >= 0 else first for place in (at, after))
    return (now, then), (int(times[at + 1]) - start if after > at and now != then else -1)
