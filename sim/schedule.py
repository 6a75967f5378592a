"""When everything happens: a program goes in, start and end times with the cause of each wait come out.

Five engines a core issue within a window of their own order; occupancy is apart from latency; transfers queue on 16 DMA
engines and share HBM bandwidth. All times are int64 picoseconds from the issue of the first instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sim import allocation, compiler, conflicts, dependences
from sim.allocation import Placement
from sim.compiler import Options, residency
from sim.dependences import QUEUES, Dependences
from sim.errors import CapacityError, InputError
from sim.memory import PARTITIONS
from sim.program import Form, Program
from sim.trace import Finding


@dataclass(frozen=True, slots=True)
class Transfers:
    """One row a DMA, in program order; int64 arrays."""

    instruction: np.ndarray
    """The trigger."""
    arrival: np.ndarray
    """When it reaches the DMA engines."""
    start: np.ndarray
    end: np.ndarray
    wait_ps: np.ndarray
    """Time lost to queues or bandwidth: end without them to end with them."""
    wait: np.ndarray
    """sim.trace.Wait"""
    first_engine: np.ndarray
    packet_start: np.ndarray
    """int64[t + 1], CSR into packets; packet k of a transfer runs on engine (first_engine + k) modulo the engines."""
    packets: np.ndarray
    """int64[p, 2]: start and end."""


@dataclass(frozen=True, slots=True)
class TableLoads:
    """One row a load of activation tables; int64 arrays."""

    instruction: np.ndarray
    """The instruction that needed them."""
    start: np.ndarray
    """-1 for the first of a core: it is over before the kernel needs it."""
    wait_ps: np.ndarray
    wait: np.ndarray
    bind: np.ndarray


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times of a program; columns of length n, int64 ps."""

    program: Program
    """As the compiler passes left it."""
    placement: Placement
    dependences: Dependences
    options: Options
    start: np.ndarray
    freed: np.ndarray
    """When its engine may start the next one."""
    done: np.ndarray
    """When its result is visible; for a DMA, when its semaphore is."""
    ready: np.ndarray
    """When its predecessors had released it."""
    wait_ps: np.ndarray
    """Time without activity of the engine before it."""
    wait: np.ndarray
    """int8: sim.trace.Wait."""
    bind: np.ndarray
    """The instruction that bound its start, -1 for none."""
    transfers: Transfers
    table_loads: TableLoads
    clocks: np.ndarray
    """int64[c, 3]: time, core, 1 when TensorE's clock is warm from then on."""
    findings: tuple[Finding, ...]

    @property
    def end_ps(self) -> int:
        """Last completion."""
        return int(max(self.done.max(initial=0), self.freed.max(initial=0)))


def schedule(program: Program, options: Options | None = None) -> Schedule:
    """Rewrite, place and time a program.

    raises: CapacityError when memory runs out, InputError for instructions that wait for one another
    """
    options = options or Options()
    rewritten, placement = _placed(compiler.rewrite(program, options), options)
    found = dependences.find(rewritten, placement)
    return time(rewritten, placement, found, options)


def _placed(program: Program, options: Options) -> tuple[Program, Placement]:
    """The program, spilled as little as its tiles allow, and where they lie."""
    tried: list[Program] = []
    for pressure in allocation.PRESSURES:
        for candidate in tried if pressure else residency.candidates(program, options):
            try:
                return candidate, allocation.place(candidate, options, pressure)
            except CapacityError as error:
                full = error
            if pressure == allocation.RELAXED:
                tried.append(candidate)
    raise full


def time(program: Program, placement: Placement, found: Dependences, options: Options) -> Schedule:
    """Start and end of every instruction of a placed program."""
    from sim.jit import schedule as jit

    state = _state(program, placement, found, options)
    issued = jit.run(*state)
    if issued < len(program):
        raise _deadlock(program, found, state.instructions)
    columns = state.instructions[:, :-1]
    log = state.log[: state.shared[jit.LOGGED]]
    return Schedule(
        program=program,
        placement=placement,
        dependences=found,
        options=options,
        start=columns[jit.START],
        freed=columns[jit.FREED],
        done=columns[jit.DONE],
        ready=columns[jit.READY],
        wait_ps=columns[jit.WAIT],
        wait=columns[jit.CAUSE].astype(np.int8),
        bind=columns[jit.BIND],
        transfers=_transfers(state, columns[jit.TRANSFER]),
        table_loads=_table_loads(log[log[:, jit.L_KIND] == jit.LOAD]),
        clocks=log[log[:, jit.L_KIND] == jit.CLOCK][:, [jit.L_TIME, jit.L_SUBJECT, jit.L_WAIT]],
        findings=program.findings + found.findings + conflicts.find(program, placement, found),
    )


class State(NamedTuple):
    """The arguments of the event loop, in its order; int64 arrays."""

    instructions: np.ndarray
    queues: np.ndarray
    heaps: np.ndarray
    edges: np.ndarray
    forms: np.ndarray
    cores: np.ndarray
    shared: np.ndarray
    transfers: np.ndarray
    packets: np.ndarray
    log: np.ndarray


def _state(program: Program, placement: Placement, found: Dependences, options: Options) -> State:
    from sim.jit import schedule as jit

    n = len(program)
    forms = _form_table(program)
    instructions = np.zeros((jit.ROWS, n + 1), np.int64)
    queues = _queues(program, options, instructions)
    _fill_instructions(program, found, forms, instructions)
    edges = np.zeros(found.predecessor.size, np.int64)
    jit.turn(found.start, found.predecessor, found.kind, found.gate, instructions, edges)
    transfers, packets = _transfer_table(program, placement, forms)
    shared = _shared(program)
    shared[jit.ARRIVALS_BASE] = 2 * n
    cores = queues.shape[0] // QUEUES
    loads = int(np.count_nonzero(forms[program.form, jit.F_TABLE] >= 0))
    clocked = int(np.count_nonzero(forms[program.form, jit.F_CLOCKED]))
    return State(
        instructions=instructions,
        queues=queues,
        heaps=np.zeros((2 * n + len(transfers) + 1, 2), np.int64),
        edges=edges,
        forms=forms,
        cores=_core_table(cores, shared, _clock_phase(program, options)),
        shared=shared,
        transfers=transfers,
        packets=np.zeros((packets, 2), np.int64),
        log=np.zeros((loads + 2 * clocked + 2 * cores, jit.L_COLUMNS), np.int64),
    )


def _fill_instructions(program: Program, found: Dependences, forms: np.ndarray, table: np.ndarray) -> None:
    from sim.jit import schedule as jit

    rows = table[:, :-1]
    dma = forms[program.form, jit.F_DMA] > 0
    rows[jit.FORM] = program.form
    rows[jit.MISSING] = np.diff(found.start)
    rows[jit.BIND] = -1
    rows[jit.START] = -1
    rows[jit.TRANSFER] = np.where(dma, np.cumsum(dma) - 1, -1)


def _shared(program: Program) -> np.ndarray:
    from sim.jit import schedule as jit

    device = program.device
    figures = np.zeros(jit.SHARED, np.int64)
    figures[jit.SEM_WAKE] = picoseconds(device["sem.wake"])
    figures[jit.SEM_SAME] = picoseconds(device["sem.same"])
    figures[jit.TABLE_LOAD] = picoseconds(device["act.table_load"])
    window = device.get("pe.clock_window") or 0
    figures[jit.CLOCK_WINDOW] = picoseconds(window)
    if window:
        figures[jit.CLOCK_UP] = picoseconds(window * device["pe.clock_up"])
        figures[jit.CLOCK_DOWN] = picoseconds(window * device["pe.clock_down"])
    figures[jit.DMA_ENGINES] = int(device["dma_engines_nc"])
    return figures


def picoseconds(ns: float) -> int:
    """Nanoseconds as whole picoseconds."""
    return round(ns * 1000)


def _clock_phase(program: Program, options: Options) -> int:
    if options.clock_phase_ps is not None:
        return options.clock_phase_ps
    return picoseconds(program.device.get("pe.clock_phase") or 0)


def _core_table(cores: int, figures: np.ndarray, phase: int) -> np.ndarray:
    from sim.jit import schedule as jit

    table = np.zeros((cores, jit.C_DMA + figures[jit.DMA_ENGINES]), np.int64)
    table[:, jit.C_TABLE] = -1
    table[:, jit.C_HOLDER : jit.C_HOLDER + jit.PORTS] = -1
    window = int(figures[jit.CLOCK_WINDOW])
    table[:, jit.C_WINDOW_END] = window - phase % window if window else jit.FAR
    return table


def _form_table(program: Program) -> np.ndarray:
    from sim.jit import schedule as jit

    table = np.zeros((len(program.forms), jit.F_COLUMNS), np.int64)
    cold = program.device.get("pe.clock_cold") or 1
    longer = picoseconds((program.device.get("pe.lat_cold") or 0) - program.device["pe.lat"]) if cold != 1 else 0
    for row, form in zip(table, program.forms):
        row[:] = (*_engine_columns(form, cold, max(0, longer)), *_dma_columns(form))
    return table


def _engine_columns(form: Form, cold: float, longer: int) -> tuple[int, ...]:
    cost = form.cost
    slow = round(cost.occupancy_ps / cold)
    slow_latency = slow + cost.latency_ps - cost.occupancy_ps + longer
    return cost.occupancy_ps, cost.latency_ps, slow, slow_latency, cost.table, cost.port, cost.clocked


def _dma_columns(form: Form) -> tuple[int, ...]:
    dma = form.dma
    if dma is None:
        return 0, 0, 0, 0, 0, 0
    return 1, dma.dispatch_ps, dma.notify_ps, dma.service_ps, dma.hbm_ps, dma.engines


def _queues(program: Program, options: Options, instructions: np.ndarray) -> np.ndarray:
    """The queue table; fills the columns of the instruction table that say who stands where."""
    from sim.jit import schedule as jit

    cores = int(program.core.max(initial=0)) + 1
    slot = program.core * np.int16(QUEUES) + compiler.engines(program)
    order = np.argsort(slot, kind="stable")
    length = np.bincount(slot, minlength=cores * QUEUES)
    base = np.cumsum(length) - length
    instructions[jit.QUEUE, :-1] = slot
    instructions[jit.PLACE, order] = np.arange(len(program)) - np.repeat(base, length)
    instructions[jit.QUEUED, :-1] = order
    table = np.zeros((cores * QUEUES, jit.Q_COLUMNS), np.int64)
    table[:, jit.Q_BASE] = base
    table[:, jit.Q_LENGTH] = length
    table[:, jit.Q_WINDOW] = np.tile(options.windows, cores)
    table[:, jit.Q_CORE] = np.arange(cores * QUEUES) // QUEUES
    table[:, jit.Q_LAST] = -1
    table[:, jit.Q_DUE] = jit.FAR
    return table


def _transfer_table(program: Program, placement: Placement, forms: np.ndarray) -> tuple[np.ndarray, int]:
    """(transfer table, number of packets)."""
    from sim.jit import schedule as jit

    rows = np.flatnonzero(forms[program.form, jit.F_DMA])
    engines = forms[program.form[rows], jit.F_ENGINES]
    table = np.zeros((rows.size, jit.T_COLUMNS), np.int64)
    table[:, jit.T_PACKET] = np.cumsum(engines) - engines
    table[:, jit.T_ENGINE] = _first_engines(program, placement, rows, engines)
    return table, int(engines.sum())


def _first_engines(program: Program, placement: Placement, rows: np.ndarray, used: np.ndarray) -> np.ndarray:
    """DMA engine of a transfer's first partition; those between HBM and HBM take the engines in turn."""
    available = int(program.device["dma_engines_nc"])
    share = PARTITIONS // available
    side = np.array([_chip_operand(form) for form in program.forms], np.int64)[program.form[rows]]
    first = np.zeros(rows.size, np.int64)
    chip = side >= 0
    storage, offset, _ = program.operands[program.operand_start[rows[chip]] + side[chip]].T
    first[chip] = (placement.partition[storage] + offset // placement.columns.pitch[storage]) // share
    turns = used[~chip]
    first[~chip] = np.cumsum(turns) - turns
    return first % available


def _chip_operand(form: Form) -> int:
    """The operand of a DMA that lies on chip, the destination if several do; -1 for none."""
    if form.dma is None:
        return -1
    found = [k for k, layout in enumerate(form.layouts) if layout.pitch]
    return next((k for k in found if form.roles[k]), found[0] if found else -1)


def _transfers(state: State, transfer: np.ndarray) -> Transfers:
    from sim.jit import schedule as jit

    columns = np.ascontiguousarray(state.transfers.T)
    return Transfers(
        instruction=np.flatnonzero(transfer >= 0),
        arrival=columns[jit.T_ARRIVAL],
        start=columns[jit.T_START],
        end=columns[jit.T_END],
        wait_ps=columns[jit.T_WAIT],
        wait=columns[jit.T_CAUSE],
        first_engine=columns[jit.T_ENGINE],
        packet_start=np.append(columns[jit.T_PACKET], len(state.packets)),
        packets=state.packets,
    )


def _table_loads(log: np.ndarray) -> TableLoads:
    from sim.jit import schedule as jit

    return TableLoads(
        instruction=log[:, jit.L_SUBJECT],
        start=log[:, jit.L_TIME],
        wait_ps=log[:, jit.L_WAIT],
        wait=log[:, jit.L_CAUSE],
        bind=log[:, jit.L_BIND],
    )


def _deadlock(program: Program, found: Dependences, instructions: np.ndarray) -> InputError:
    """The error for a circle of instructions that wait for one another."""
    from sim.jit import schedule as jit

    stuck = instructions[jit.START, :-1] < 0
    at, seen = int(np.argmax(stuck)), {}
    while at not in seen:
        seen[at] = len(seen)
        waits = found.predecessor[found.start[at] : found.start[at + 1]]
        waits = waits[stuck[waits]]
        ahead = np.flatnonzero(stuck & (instructions[jit.QUEUE, :-1] == instructions[jit.QUEUE, at]))
        at = int(waits[0]) if waits.size else int(ahead[0])
    circle = [index for index, order in seen.items() if order >= seen[at]]
    one, other = circle[0], circle[-1]
    return InputError(
        f"deadlock: {conflicts.named(program, one)} and {conflicts.named(program, other)} wait for each other"
        + (f" through {len(circle) - 2} more" if len(circle) > 2 else ""),
        source=program.strings[int(program.source[one])],
        remedy="the order asked for cannot be kept by engines that work in order",
    )
