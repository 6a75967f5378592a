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
    def released(self) -> np.ndarray:
        """When each dependence lets its waiter go, int64[e]."""
        from sim.jit.dependences import ISSUE, SAME

        found, device = self.dependences, self.program.device
        seen = np.where(found.gate == SAME, picoseconds(device["sem.same"]), picoseconds(device["sem.wake"]))
        first = found.predecessor
        return np.where(found.gate == ISSUE, self.freed[first], self.done[first] + seen)

    @property
    def ready(self) -> np.ndarray:
        """When its predecessors had released it."""
        first, ready = self.dependences.start, np.zeros(len(self.program), np.int64)
        waits = np.flatnonzero(np.diff(first))
        ready[waits] = np.maximum.reduceat(self.released, first[waits]) if waits.size else 0
        return ready

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
    from sim.jit import columns, schedule

    options = compiler.adapted(program, options)
    state = _state(program, placement, found, options)
    if schedule.run(state) < len(program):
        raise _deadlock(program, found, state.times[columns.START :: columns.TIMES] < 0)
    rows, log = state.times.reshape(-1, columns.TIMES), state.log[: state.shared[columns.LOGGED]]
    times, link = rows.T, rows[:, columns.LINK : columns.LINK + 1]
    return Schedule(
        program=program,
        placement=placement,
        dependences=found,
        options=options,
        start=times[columns.START],
        freed=times[columns.FREED],
        done=times[columns.DONE],
        wait_ps=times[columns.WAIT],
        wait=link.view(np.int8)[:, columns.UPPER // 8],
        bind=link.view(np.int32)[:, 0],  # -1 for NONE
        transfers=Transfers(*state.transfers.reshape(-1, columns.T_COLUMNS)[:-1].T),
        table_loads=_table_loads(log[log[:, columns.L_KIND] == columns.LOAD]),
        clocks=log[log[:, columns.L_KIND] == columns.CLOCK][:, [columns.L_TIME, columns.L_SUBJECT, columns.L_WAIT]],
        findings=program.findings + found.findings + conflicts.find(program, placement, found),
    )


class State(NamedTuple):
    """What the event loop works on; rows of tables that are one-dimensional stand one after the other."""

    times: np.ndarray
    """int64[n * columns]"""
    form: np.ndarray
    """uint32[n]"""
    start: np.ndarray
    """int64[n + 1]: the edges to the predecessors of each instruction, CSR."""
    predecessor: np.ndarray
    """uint32[e]"""
    code: np.ndarray
    """uint8[e]: kind, and from `GATE` on the gate"""
    queues: np.ndarray
    """int64[queues * columns]"""
    places: np.ndarray
    """uint32[n]: which instruction has each place, queue after queue."""
    marks: np.ndarray
    """int64[room]: the places of each queue that are ready, a bit each, and a bit for each word of those."""
    heaps: np.ndarray
    """int64[2 * room]: per queue places that will be ready (time, place), then arrivals (time, transfer)."""
    forms: np.ndarray
    """int64[forms * columns]"""
    cores: np.ndarray
    """int64[cores, columns]"""
    shared: np.ndarray
    """int64[entries]"""
    transfers: np.ndarray
    """int64[(transfers + 1) * columns]"""
    log: np.ndarray
    """int64[room, columns]: loads of tables and changes of TensorE's clock in the order in which they were found."""


def _state(program: Program, placement: Placement, found: Dependences, options: Options) -> State:
    from sim.jit import columns, lineup

    if found.predecessor.size > columns.LOWER:
        raise CapacityError(
            f"{found.predecessor.size} dependences: at most {columns.LOWER} are timed",
            remedy="time a part of the kernel, or a loop with sim.repeat",
        )
    n, forms, shared = len(program), _form_table(program), _shared(program)
    form, core = program.form.view(np.uint32), program.core.view(np.uint16)
    used = np.zeros((int(core.max(initial=0)) + 1, len(forms)), np.int64)
    lineup.count(form, core, used)
    queues, marks, heaps = _lay_windows(used, forms[:, columns.F_STREAM], options)
    uses = used.sum(axis=0)
    moves = int(uses @ forms[:, columns.F_DMA])
    changes = int(uses @ (forms[:, columns.F_TABLE] >= 0) + 2 * uses @ forms[:, columns.F_CLOCKED])
    shared[columns.ARRIVALS_BASE] = heaps
    shared[columns.ORDERED] = len(program.order) > 0
    state = State(
        times=np.zeros(n * columns.TIMES, np.int64),
        form=form,
        start=found.start,
        predecessor=found.predecessor.view(np.uint32),
        code=(found.gate * (1 << columns.GATE) + found.kind).view(np.uint8),
        queues=queues,
        places=np.zeros(n, np.uint32),
        marks=np.zeros(marks, np.int64),
        heaps=np.zeros(heaps + 2 * moves + 2, np.int64),
        forms=forms.ravel(),
        cores=_core_table(len(used), shared, _clock_phase(program, options)),
        shared=shared,
        transfers=np.zeros((moves + 1) * columns.T_COLUMNS, np.int64),
        log=np.zeros((changes + 2 * len(used), columns.L_COLUMNS), np.int64),
    )
    lineup.line_up(state, core, QUEUES)
    _spread(program, placement, state)
    return state


def _spread(program: Program, placement: Placement, state: State) -> None:
    """Find the DMA engines of all transfers."""
    from sim.jit import lineup

    engines, places = int(program.device["dma_engines_nc"]), (placement.partition, placement.columns.pitch)
    operands, start = np.ascontiguousarray(program.operands), program.operand_start
    lineup.spread(operands, start, *places, state.forms, state.transfers, PARTITIONS // engines, engines)


def _shared(program: Program) -> np.ndarray:
    from sim.jit import columns

    device = program.device
    figures = np.zeros(columns.SHARED, np.int64)
    figures[columns.SEM_WAKE] = picoseconds(device["sem.wake"])
    figures[columns.SEM_SAME] = picoseconds(device["sem.same"])
    figures[columns.TABLE_LOAD] = picoseconds(device["act.table_load"])
    window = device.get("pe.clock_window") or 0
    figures[columns.CLOCK_WINDOW] = picoseconds(window)
    if window:
        figures[columns.CLOCK_UP] = picoseconds(window * device["pe.clock_up"])
        figures[columns.CLOCK_DOWN] = picoseconds(window * device["pe.clock_down"])
    figures[columns.DMA_ENGINES] = int(device["dma_engines_nc"])
    return figures


def streaming(timed: Schedule) -> tuple[np.ndarray, np.ndarray]:
    """When each instruction streams: behind the part of its load of weights that was exposed; whether cold.

    int64[n], ps; bool[n]
    """
    program = timed.program
    costs = [form.cost for form in program.forms]
    clocked = np.array([cost.clocked for cost in costs], bool)[program.form]
    cold = clocked & bool(program.device.get("pe.clock_window"))
    for core in np.unique(program.core).tolist():
        times, _, warm = timed.clocks[timed.clocks[:, 1] == core].T
        own = np.flatnonzero(clocked & (program.core == core))
        cold[own] &= ~np.append(warm, 0).astype(bool)[np.searchsorted(times, timed.start[own], side="right") - 1]
    warm, slow = (
        np.array([laws.at_clock(cost, share).occupancy_ps for cost in costs], np.int64)[program.form]
        for share in (1, program.device.get("pe.clock_cold") or 1)
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
    from sim.jit import columns

    table = np.zeros((cores, columns.C_DMA + figures[columns.DMA_ENGINES]), np.int64)
    table[:, columns.C_TABLE] = -1
    table[:, columns.C_HOLDER : columns.C_HOLDER + columns.PORTS] = -1
    window = int(figures[columns.CLOCK_WINDOW])
    table[:, columns.C_WINDOW_END] = window - phase % window if window else columns.FAR
    return table


def _form_table(program: Program) -> np.ndarray:
    from sim.jit import columns

    table = np.zeros((len(program.forms), columns.F_COLUMNS), np.int64)
    for row, form in zip(table, program.forms):
        row[:] = (*_engine_columns(program.device, form.cost), *_dma_columns(form))
    return table


def _engine_columns(device: Device, cost: Cost) -> tuple[int, ...]:
    slow = laws.at_clock(cost, device.get("pe.clock_cold") or 1)
    paces = [(at.occupancy_ps, at.latency_ps, at.weights_ps, at.tail_ps) for at in (cost, slow)]
    return *paces[0], *paces[1], cost.table, cost.port, cost.clocked


def _dma_columns(form: Form) -> tuple[int, ...]:
    dma = form.dma
    if dma is None:
        return 0, 0, 0, 0, 0, 0, form.engine, NONE
    costs = dma.dispatch_ps, dma.notify_ps, dma.service_ps, dma.hbm_ps
    return 1, *costs, dma.engines, form.engine, _chip_operand(form)


def _lay_windows(used: np.ndarray, stream: np.ndarray, options: Options) -> tuple[np.ndarray, int, int]:
    """The queue table, and the room that all queues take in `marks` and in `heaps`.

    used   : int64[cores, forms], instructions of a core and form; stream: int64[forms]
    """
    from sim.jit import columns
    from sim.jit.competing import WORD

    cores = len(used)
    length = (used @ (stream[:, None] == np.arange(QUEUES))).ravel()
    table = np.zeros((cores * QUEUES, columns.Q_COLUMNS), np.int64)
    table[:, columns.Q_WINDOW] = np.tile(options.windows, cores)
    table[:, columns.Q_CORE] = np.arange(cores * QUEUES) // QUEUES
    table[:, columns.Q_LAST] = -1
    table[:, columns.Q_DUE] = columns.FAR
    words = (length >> WORD) + 1
    marks = words + (words >> WORD) + 1
    heaps = 2 * np.minimum(table[:, columns.Q_WINDOW], length) + 2
    for column, room in ((columns.Q_BASE, length), (columns.Q_WORDS, marks), (columns.Q_HEAP, heaps)):
        table[:, column] = np.cumsum(room) - room
    table[:, columns.Q_SUMMARY] = table[:, columns.Q_WORDS] + words
    return table.ravel(), int(marks.sum()), int(heaps.sum())


def _chip_operand(form: Form) -> int:
    """The operand of a DMA that lies on chip, the destination if several do; -1 for none."""
    if form.dma is None:
        return -1
    found = [k for k, layout in enumerate(form.layouts) if layout.pitch]
    return next((k for k in found if form.roles[k]), found[0] if found else -1)


def _table_loads(log: np.ndarray) -> TableLoads:
    from sim.jit import columns

    return TableLoads(
        instruction=log[:, columns.L_SUBJECT],
        start=log[:, columns.L_TIME],
        wait_ps=log[:, columns.L_WAIT],
        wait=log[:, columns.L_CAUSE],
        bind=log[:, columns.L_BIND],
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
