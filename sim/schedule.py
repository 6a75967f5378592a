"""When everything happens: a program goes in, start and end times with the cause of each wait come out.

Five engines a core issue within a window of their own order; occupancy is apart from latency; transfers queue on 16 DMA
engines and share HBM bandwidth. All times are int64 picoseconds from the issue of the first instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sim import allocation, compiler, conflicts, dependences, garbage
from sim.allocation import Placement
from sim.compiler import Options, residency
from sim.dependences import QUEUES, Dependences
from sim.engines import laws
from sim.errors import CapacityError, InputError
from sim.memory import PARTITIONS
from sim.program import Cost, Form, Program
from sim.spec import Device
from sim.trace import NONE, Finding

EDGE_ROOM = 1 << 28
"""Instructions up to which a successor, with four bits of its kind, is an uint32."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """One row a DMA, in program order; int64 arrays."""

    instruction: np.ndarray
    """The trigger."""
    core: np.ndarray
    first_engine: np.ndarray
    """Packet k of it runs on engine (first_engine + k) modulo the engines (`sim.packets`)."""
    turn: np.ndarray
    """How many reached the DMA engines before it."""
    arrival: np.ndarray
    """When it reaches the DMA engines."""
    start: np.ndarray
    end: np.ndarray
    wait_ps: np.ndarray
    """Time lost to queues or bandwidth: end without them to end with them."""
    wait: np.ndarray
    """sim.trace.Wait"""


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
    """int32: the instruction that bound its start, -1 for none."""
    transfers: Transfers
    table_loads: TableLoads
    clocks: np.ndarray
    """int64[c, 3]: time, core, 1 when TensorE's clock is warm from then on."""
    findings: tuple[Finding, ...]

    @property
    def end_ps(self) -> int:
        """Last completion."""
        return int(max(self.done.max(initial=0), self.freed.max(initial=0)))


@garbage.ignored()
def schedule(program: Program, options: Options | None = None) -> Schedule:
    """Rewrite, place and time a program.

    raises: CapacityError when memory runs out, InputError for instructions that wait for one another
    """
    options = options or Options()
    rewritten, placement = placed(compiler.rewrite(program, options), options)
    found = dependences.find(rewritten, placement)
    return time(rewritten, placement, found, options)


def placed(program: Program, options: Options) -> tuple[Program, Placement]:
    """The program with what SBUF cannot hold saved and brought back, and where its tiles lie."""
    options = compiler.adapted(program, options)
    held = residency.reside(program, options)
    return held.program, allocation.place(held.program, options, held.offset)


def time(program: Program, placement: Placement, found: Dependences, options: Options) -> Schedule:
    """Start and end of every instruction of a placed program."""
    from sim.jit import schedule as jit

    options = compiler.adapted(program, options)
    state = _state(program, placement, found, options)
    if jit.run(*state) < len(program):
        raise _deadlock(program, found, state.times[:, jit.START] < 0)
    times = state.times.T
    link = times[jit.LINK]
    log = state.log[: state.shared[jit.LOGGED]]
    return Schedule(
        program=program,
        placement=placement,
        dependences=found,
        options=options,
        start=times[jit.START],
        freed=times[jit.FREED],
        done=times[jit.DONE],
        ready=times[jit.READY],
        wait_ps=times[jit.WAIT],
        wait=(link >> jit.CAUSE & jit.CAUSES).astype(np.int8),
        bind=link.astype(np.int32),  # its lower half: -1 for NONE
        transfers=Transfers(*state.transfers),
        table_loads=_table_loads(log[log[:, jit.L_KIND] == jit.LOAD]),
        clocks=log[log[:, jit.L_KIND] == jit.CLOCK][:, [jit.L_TIME, jit.L_SUBJECT, jit.L_WAIT]],
        findings=program.findings + found.findings + conflicts.find(program, placement, found),
    )


class State(NamedTuple):
    """The arguments of the event loop, in its order; int64 but for `lists`, uint32."""

    times: np.ndarray
    lists: np.ndarray
    queues: np.ndarray
    heaps: np.ndarray
    forms: np.ndarray
    cores: np.ndarray
    shared: np.ndarray
    transfers: np.ndarray
    log: np.ndarray


def _state(program: Program, placement: Placement, found: Dependences, options: Options) -> State:
    from sim.jit import lineup
    from sim.jit import schedule as jit

    n, forms = len(program), _form_table(program)
    uses = np.bincount(program.form, minlength=len(forms))
    moves = int(uses @ forms[:, jit.F_DMA])
    if len(forms) > jit.FORMS or moves > jit.MOVES:
        raise CapacityError(
            f"{len(forms)} kinds of instructions and {moves} transfers: at most {jit.FORMS} and {jit.MOVES} are timed",
            remedy="time a part of the kernel, or a loop with sim.repeat",
        )
    index = np.uint32 if n < EDGE_ROOM else np.int64
    times = np.zeros((n, jit.TIMES), np.int64)
    transfers = np.zeros((jit.T_ROWS, moves), np.int64)
    lists = np.zeros(2 * n + 1 + found.predecessor.size, index)
    queues, shared = _queue_table(program, options), _shared(program)
    lineup.line_up(program.form, program.core, found.start, times, lists, queues, forms, transfers)
    lineup.turn(found.start, found.predecessor, found.kind, found.gate, lists)
    _spread(program, placement, forms, times, transfers)
    shared[jit.ARRIVALS_BASE] = _lay_heaps(queues)
    shared[jit.ORDERED] = len(program.order) > 0
    cores = len(queues) // QUEUES
    changes = int(uses @ (forms[:, jit.F_TABLE] >= 0) + 2 * uses @ forms[:, jit.F_CLOCKED])
    return State(
        times=times,
        lists=lists,
        queues=queues,
        heaps=np.zeros((shared[jit.ARRIVALS_BASE] + moves + 1, 2), np.int64),
        forms=forms,
        cores=_core_table(cores, shared, _clock_phase(program, options)),
        shared=shared,
        transfers=transfers,
        log=np.zeros((changes + 2 * cores, jit.L_COLUMNS), np.int64),
    )


def _spread(
    program: Program, placement: Placement, forms: np.ndarray, times: np.ndarray, transfers: np.ndarray
) -> None:
    """Find the DMA engines of all transfers."""
    from sim.jit import lineup

    available = int(program.device["dma_engines_nc"])
    places = placement.partition, placement.columns.pitch
    operands, start = np.ascontiguousarray(program.operands), program.operand_start
    lineup.spread(operands, start, *places, forms, times, transfers, PARTITIONS // available, available)


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


def streaming(timed: Schedule) -> tuple[np.ndarray, np.ndarray]:
    """When each instruction streams: behind the part of its load of weights that was exposed; whether cold.

    int64[n], ps; bool[n]
    """
    program = timed.program
    costs = [form.cost for form in program.forms]
    clocked = np.array([cost.clocked for cost in costs], bool)[program.form]
    paces = (1, program.device.get("pe.clock_cold") or laws.sustained(program.device))
    cold = clocked & bool(program.device.get("pe.clock_window"))
    for core in np.unique(program.core).tolist():
        times, _, warm = timed.clocks[timed.clocks[:, 1] == core].T
        own = np.flatnonzero(clocked & (program.core == core))
        cold[own] &= ~np.append(warm, 0).astype(bool)[np.searchsorted(times, timed.start[own], side="right") - 1]
    warm, slow = (
        np.array([laws.at_clock(program.device, cost, pace).occupancy_ps for cost in costs], np.int64)[program.form]
        for pace in (laws.sustained(program.device), paces[1])
    )
    return np.where(clocked, timed.freed - np.where(cold, slow, warm), timed.start), cold


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
    for row, form in zip(table, program.forms):
        row[:] = (*_engine_columns(program.device, form.cost), *_dma_columns(form))
    return table


def _engine_columns(device: Device, cost: Cost) -> tuple[int, ...]:
    slow = laws.at_clock(device, cost, device.get("pe.clock_cold") or laws.sustained(device))
    paces = [(at.occupancy_ps, at.latency_ps, at.weights_ps, at.tail_ps) for at in (cost, slow)]
    return *paces[0], *paces[1], cost.table, cost.port, cost.clocked


def _dma_columns(form: Form) -> tuple[int, ...]:
    dma = form.dma
    if dma is None:
        return 0, 0, 0, 0, 0, 0, form.engine, NONE
    costs = dma.dispatch_ps, dma.notify_ps, dma.service_ps, dma.hbm_ps
    return 1, *costs, dma.engines, form.engine, _chip_operand(form)


def _queue_table(program: Program, options: Options) -> np.ndarray:
    from sim.jit import schedule as jit

    cores = int(program.core.max(initial=0)) + 1
    table = np.zeros((cores * QUEUES, jit.Q_COLUMNS), np.int64)
    table[:, jit.Q_WINDOW] = np.tile(options.windows, cores)
    table[:, jit.Q_CORE] = np.arange(cores * QUEUES) // QUEUES
    table[:, jit.Q_LAST] = -1
    table[:, jit.Q_DUE] = jit.FAR
    return table


def _lay_heaps(queues: np.ndarray) -> int:
    """Give each queue room for the places in its window, twice; the room that all take."""
    from sim.jit import schedule as jit

    room = np.minimum(queues[:, jit.Q_WINDOW], queues[:, jit.Q_LENGTH]) + 1
    queues[:, jit.Q_HEAP_LATER] = np.cumsum(room)
    queues[:, jit.Q_HEAP] = queues[:, jit.Q_HEAP_LATER] - room
    queues[:, jit.Q_HEAP_LATER] += room.sum() - room
    return 2 * int(room.sum())


def _chip_operand(form: Form) -> int:
    """The operand of a DMA that lies on chip, the destination if several do; -1 for none."""
    if form.dma is None:
        return -1
    found = [k for k, layout in enumerate(form.layouts) if layout.pitch]
    return next((k for k in found if form.roles[k]), found[0] if found else -1)


def _table_loads(log: np.ndarray) -> TableLoads:
    from sim.jit import schedule as jit

    return TableLoads(
        instruction=log[:, jit.L_SUBJECT],
        start=log[:, jit.L_TIME],
        wait_ps=log[:, jit.L_WAIT],
        wait=log[:, jit.L_CAUSE],
        bind=log[:, jit.L_BIND],
    )


def _deadlock(program: Program, found: Dependences, stuck: np.ndarray) -> InputError:
    """The error for a circle of instructions that wait for one another."""
    queue = program.core.astype(np.int64) * QUEUES + compiler.engines(program)
    at, seen = int(np.argmax(stuck)), {}
    while at not in seen:
        seen[at] = len(seen)
        waits = found.predecessor[found.start[at] : found.start[at + 1]]
        waits = waits[stuck[waits]]
        ahead = np.flatnonzero(stuck & (queue == queue[at]))
        at = int(waits[0]) if waits.size else int(ahead[0])
    circle = [index for index, order in seen.items() if order >= seen[at]]
    one, other = circle[0], circle[-1]
    return InputError(
        f"deadlock: {conflicts.named(program, one)} and {conflicts.named(program, other)} wait for each other"
        + (f" through {len(circle) - 2} more" if len(circle) > 2 else ""),
        source=program.strings[int(program.source[one])],
        remedy="the order asked for cannot be kept by engines that work in order",
    )
