"""What fills, runs and waits over time, as step functions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim.record.memory import lives
from sim.schedule import Schedule
from sim.trace import Counters, Engine, Memory, Strings

Step = tuple[str, int, np.ndarray, np.ndarray]
"""Counter, core, times from the start of the window, values from then on."""


def counters(timed: Schedule, strings: Strings, lead: int) -> Counters:
    """Shares of SBUF and of each PSUM bank in use, TensorE's clock, transfers under way and their rate, HBM in use."""
    steps = [step for core in range(int(timed.program.core.max(initial=0)) + 1) for step in _steps(timed, core)]
    steps.sort(key=lambda step: (strings.code(step[0]), step[1]))
    sizes = [len(step[2]) for step in steps]
    return Counters(
        sum(sizes),
        counter=np.repeat(np.array([strings.code(step[0]) for step in steps], np.int32), sizes),
        core=np.repeat(np.array([step[1] for step in steps], np.int16), sizes),
        time_ps=np.concatenate([np.zeros(0, np.int64), *[step[2] for step in steps]]) + lead,
        value=np.concatenate([np.zeros(0), *[step[3] for step in steps]]),
    )


def _steps(timed: Schedule, core: int) -> Iterator[Step]:
    yield from _memory(timed, core)
    yield from _clock(timed, core)
    yield from _transfers(timed, core)


def _memory(timed: Schedule, core: int) -> Iterator[Step]:
    placement, device = timed.placement, timed.program.device
    used, start, end = lives(timed)
    mine = placement.core[used] == core
    memory, size = placement.columns.memory[used], placement.columns.pitch[used]
    sbuf = mine & (memory == Memory.SBUF)
    if sbuf.any():
        share = size[sbuf] / device["sbuf_partition_bytes"]
        yield "sbuf", core, *_full(*_sum(start[sbuf], end[sbuf], share))
    bank = int(device["psum_bank_bytes"])
    for number in range(int(device["psum_banks"])):
        low, high = placement.offset[used], placement.offset[used] + size
        inside = np.minimum(high, (number + 1) * bank) - np.maximum(low, number * bank)
        here = mine & (memory == Memory.PSUM) & (inside > 0)
        if here.any():
            yield f"psum_bank_{number}", core, *_full(*_sum(start[here], end[here], inside[here] / bank))


def _full(time: np.ndarray, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tiles that the kernel laid over one another fill their bytes once."""
    return time, np.minimum(share, 1.0)


def _sum(start: np.ndarray, end: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Step function of the sum of values that each hold from a start to an end; rounding leaves no residue at zero."""
    time = np.concatenate((start, end))
    change = np.concatenate((value, -value))
    alive = np.concatenate((np.ones(start.size, np.int64), -np.ones(end.size, np.int64)))
    order = np.argsort(time, kind="stable")
    time, level, count = time[order], np.cumsum(change[order]), np.cumsum(alive[order])
    last = np.append(time[1:] != time[:-1], True)
    level = np.where(count == 0, 0.0, level)
    return time[last], level[last]


def _clock(timed: Schedule, core: int) -> Iterator[Step]:
    """Share of its full rate at which TensorE may run."""
    device = timed.program.device
    engine = np.array([form.engine for form in timed.program.forms] or [0], np.int8)[timed.program.form]
    if not device.get("pe.clock_window") or not ((engine == Engine.TENSOR) & (timed.program.core == core)).any():
        return
    changes = timed.clocks[timed.clocks[:, 1] == core]
    cold = float(device["pe.clock_cold"])
    time = np.concatenate(([0], changes[:, 0]))
    yield "tensor_clock", core, time, np.concatenate(([cold], np.where(changes[:, 2] > 0, 1.0, cold)))


def _transfers(timed: Schedule, core: int) -> Iterator[Step]:
    program, moved = timed.program, timed.transfers
    mine = program.core[moved.instruction] == core
    if not mine.any():
        return
    number = moved.instruction[mine]
    size = np.array([form.dma.bytes if form.dma else 0 for form in program.forms], np.int64)[program.form[number]]
    yield "pending_dma", core, *_sum(timed.freed[number], timed.done[number], np.ones(number.size))
    length = np.maximum(1, moved.end[mine] - moved.start[mine])
    yield "dma_bytes_per_s", core, *_sum(moved.start[mine], moved.end[mine], size * 1e12 / length)
