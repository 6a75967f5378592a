"""The event loop: five instruction streams a core, 16 DMA engines, one clock.

A completion is known when its instruction issues, so ready times are handed to the successors at once and the only
events are the decisions of the queues and the arrivals of transfers at the DMA engines. Decisions are taken in the
order of (time, queue); arrivals go before decisions of the same time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

FAR = np.int64(1) << np.int64(62)

# Columns of the instruction table.
FORM = 0
QUEUE = 1
PLACE = 2
"""Place in its queue."""
MISSING = 3
"""Predecessors that have not released it."""
READY = 4
"""Latest release so far."""
BIND = 5
"""The predecessor that released it last, -1 for none."""
BIND_CODE = 6
START = 7
FREED = 8
"""End of its occupancy."""
DONE = 9
WAIT = 10
CAUSE = 11
TRANSFER = 12
COLUMNS = 13

# Columns of the queue table.
Q_BASE = 0
"""First of its places in `queue` and in the heaps."""
Q_LENGTH = 1
Q_WINDOW = 2
Q_CORE = 3
Q_HEAD = 4
"""Oldest place not issued."""
Q_FREE = 5
Q_IDLE = 6
"""Since when the engine shows no activity."""
Q_LAST = 7
"""The instruction before, -1 for none."""
Q_READY = 8
"""Length of the heap of places that are ready."""
Q_LATER = 9
"""Length of the heap of places that will be."""
Q_COLUMNS = 10

# Columns of the form table.
F_OCCUPANCY = 0
F_LATENCY = 1
F_COLD_OCCUPANCY = 2
F_COLD_LATENCY = 3
F_TABLE = 4
F_PORT = 5
F_CLOCKED = 6
F_DMA = 7
F_DISPATCH = 8
F_NOTIFY = 9
F_SERVICE = 10
F_HBM = 11
F_ENGINES = 12
F_COLUMNS = 13

# Columns of the core table: what the engines of a core share.
C_TABLE = 0
"""Activation tables loaded, -1 for none yet."""
C_PORT = 1
"""Until when each of the two ports is held; then by which queue; then by which instruction."""
C_HOLDER = 3
C_HOLDING = 5
C_WINDOW_END = 7
C_BUSY = 8
"""Busy time of TensorE in this window."""
C_WARM = 9
C_HBM = 10
"""Until when the core's share of HBM bandwidth is used up."""
C_COLUMNS = 11
PORTS = 2

# Columns of the transfer table.
T_ENGINE = 0
"""First of its DMA engines."""
T_PACKET = 1
"""First of its packets."""
T_ARRIVAL = 2
T_START = 3
T_END = 4
T_WAIT = 5
T_CAUSE = 6
T_COLUMNS = 7

# Columns of the table of activation table loads.
A_INSTRUCTION = 0
A_START = 1
"""-1 for the first, which is hidden."""
A_WAIT = 2
A_CAUSE = 3
A_BIND = 4
A_COLUMNS = 5

# Gates and kinds of an edge: kind + 4 * gate.
GATE_SAME = 1
GATE_ISSUE = 2
KIND_FLOW = 0
KIND_ORDER = 3

# sim.trace.Wait
WAIT_NONE = 0
WAIT_ENGINE = 1
WAIT_OPERAND = 2
WAIT_DMA = 3
WAIT_BUFFER = 4
WAIT_PORT = 5
WAIT_TABLE = 6
WAIT_QUEUE = 7
WAIT_BANDWIDTH = 8
WAIT_ISSUE = 9

# Figures of the device, ps.
SEM_WAKE = 0
SEM_SAME = 1
TABLE_LOAD = 2
CLOCK_WINDOW = 3
"""0 for a device without clock windows."""
CLOCK_UP = 4
CLOCK_DOWN = 5
DMA_ENGINES = 6
FIGURES = 7

# Lengths.
ISSUED = 0
ARRIVALS = 1
LOADS = 2
CLOCKS = 3
LENGTHS = 4


class State(NamedTuple):
    """Everything the loop reads and writes, int64."""

    instructions: np.ndarray
    queues: np.ndarray
    due: np.ndarray
    """When each queue can issue next; FAR when nothing of it is known to become ready."""
    queue: np.ndarray
    """Instruction at each place of each queue."""
    ready: np.ndarray
    """Heap of each queue: (place, 0)."""
    later: np.ndarray
    """Heap of each queue: (ready time, place)."""
    edge_start: np.ndarray
    edges: np.ndarray
    """Successors: instruction * 16 + kind + 4 * gate."""
    forms: np.ndarray
    cores: np.ndarray
    figures: np.ndarray
    transfers: np.ndarray
    arrivals: np.ndarray
    """Heap: (arrival, instruction)."""
    dma_free: np.ndarray
    packets: np.ndarray
    """[p, 2]: start and end."""
    loads: np.ndarray
    clocks: np.ndarray
    """[c, 3]: time, core, whether warm from then on."""
    lengths: np.ndarray


@njit(cache=True)
def push(heap, base, count, key, value):
    """Add (key, value) to the heap heap[base : base + count], smallest first."""
    hole = count
    while hole > 0:
        above = (hole - 1) >> 1
        row = heap[base + above]
        if row[0] < key or (row[0] == key and row[1] <= value):
            break
        heap[base + hole, 0] = row[0]
        heap[base + hole, 1] = row[1]
        hole = above
    heap[base + hole, 0] = key
    heap[base + hole, 1] = value


@njit(cache=True)
def pop(heap, base, count):
    """Take the smallest row away from heap[base : base + count]."""
    key, value = heap[base + count - 1, 0], heap[base + count - 1, 1]
    hole, last = 0, count - 1
    while True:
        below = 2 * hole + 1
        if below >= last:
            break
        if below + 1 < last:
            one, two = heap[base + below], heap[base + below + 1]
            if two[0] < one[0] or (two[0] == one[0] and two[1] < one[1]):
                below += 1
        row = heap[base + below]
        if key < row[0] or (key == row[0] and value <= row[1]):
            break
        heap[base + hole, 0] = row[0]
        heap[base + hole, 1] = row[1]
        hole = below
    heap[base + hole, 0] = key
    heap[base + hole, 1] = value


@njit(cache=True)
def enter(state, q, place, ready):
    """Let an instruction within its queue's window, all of whose predecessors are known, compete."""
    queue = state.queues[q]
    if ready <= queue[Q_FREE]:
        push(state.ready, queue[Q_BASE], queue[Q_READY], place, 0)
        queue[Q_READY] += 1
        state.due[q] = queue[Q_FREE]
    else:
        push(state.later, queue[Q_BASE], queue[Q_LATER], ready, place)
        queue[Q_LATER] += 1
        state.due[q] = min(state.due[q], ready)


@njit(cache=True)
def release(state, i, row, at_issue):
    """Tell the successors of instruction i when they may start as far as it is concerned.

    at_issue : the edges that wait for its issue only, else those that wait for its completion
    """
    for e in range(state.edge_start[i], state.edge_start[i + 1]):
        edge = state.edges[e]
        gate = (edge >> 2) & 3
        if (gate == GATE_ISSUE) != at_issue:
            continue
        if at_issue:
            time = row[FREED]
        else:
            time = row[DONE] + state.figures[SEM_SAME if gate == GATE_SAME else SEM_WAKE]
        successor = state.instructions[edge >> 4]
        if time > successor[READY] or (time == successor[READY] and i < successor[BIND]):
            successor[READY] = time
            successor[BIND] = i
            successor[BIND_CODE] = edge & 15
        successor[MISSING] -= 1
        if successor[MISSING] == 0:
            q = successor[QUEUE]
            if successor[PLACE] < state.queues[q, Q_HEAD] + state.queues[q, Q_WINDOW]:
                enter(state, q, successor[PLACE], successor[READY])


@njit(cache=True)
def advance_clock(state, number, time):
    """Close the clock windows of a core's TensorE that end by a time."""
    core, figures = state.cores[number], state.figures
    while core[C_WINDOW_END] <= time:
        warm = 1 if core[C_BUSY] >= figures[CLOCK_DOWN if core[C_WARM] else CLOCK_UP] else 0
        if warm != core[C_WARM]:
            change = state.clocks[state.lengths[CLOCKS]]
            change[0], change[1], change[2] = core[C_WINDOW_END], number, warm
            state.lengths[CLOCKS] += 1
            core[C_WARM] = warm
        core[C_WINDOW_END] += figures[CLOCK_WINDOW]
        core[C_BUSY] = 0
        if not warm and core[C_WINDOW_END] <= time:
            core[C_WINDOW_END] += (time - core[C_WINDOW_END]) // figures[CLOCK_WINDOW] * figures[CLOCK_WINDOW]


@njit(cache=True)
def work(state, number, start, end):
    """Count [start, end) as busy time of a core's TensorE."""
    core = state.cores[number]
    while end >= core[C_WINDOW_END]:
        border = core[C_WINDOW_END]
        core[C_BUSY] += border - start
        start = border
        advance_clock(state, number, border)
    core[C_BUSY] += end - start


@njit(cache=True)
def choose(state, q):
    """Take the oldest place that is ready when queue q is due; its instruction."""
    queue = state.queues[q]
    base, time = queue[Q_BASE], state.due[q]
    while queue[Q_LATER] > 0 and state.later[base, 0] <= time:
        place = state.later[base, 1]
        pop(state.later, base, queue[Q_LATER])
        queue[Q_LATER] -= 1
        push(state.ready, base, queue[Q_READY], place, 0)
        queue[Q_READY] += 1
    place = state.ready[base, 0]
    pop(state.ready, base, queue[Q_READY])
    queue[Q_READY] -= 1
    return state.queue[base + place]


@njit(cache=True)
def explain(state, queue, row):
    """Note what the start of an instruction waits for, apart from tables and ports."""
    if row[READY] > queue[Q_FREE]:
        kind = row[BIND_CODE] & 3
        if kind != KIND_FLOW and kind != KIND_ORDER:
            row[CAUSE] = WAIT_BUFFER
        elif state.instructions[row[BIND], TRANSFER] >= 0:
            row[CAUSE] = WAIT_DMA
        else:
            row[CAUSE] = WAIT_OPERAND
        return
    row[BIND] = queue[Q_LAST]
    if queue[Q_LAST] < 0:
        row[CAUSE] = WAIT_NONE
    elif state.instructions[queue[Q_LAST], TRANSFER] >= 0:
        row[CAUSE] = WAIT_ISSUE
    else:
        row[CAUSE] = WAIT_ENGINE


@njit(cache=True)
def load_tables(state, i, row, start, tables):
    """Load the activation tables that an instruction needs; when it can go on."""
    core = state.cores[state.queues[row[QUEUE], Q_CORE]]
    if core[C_TABLE] == tables:
        return start
    load = state.loads[state.lengths[LOADS]]
    state.lengths[LOADS] += 1
    load[A_INSTRUCTION] = i
    load[A_START] = -1
    load[A_BIND] = -1
    if core[C_TABLE] >= 0:
        load[A_START], load[A_WAIT], load[A_CAUSE], load[A_BIND] = start, row[WAIT], row[CAUSE], row[BIND]
        start += state.figures[TABLE_LOAD]
        row[WAIT], row[CAUSE], row[BIND] = 0, WAIT_TABLE, -1
    core[C_TABLE] = tables
    return start


@njit(cache=True)
def take_ports(state, i, row, start, occupancy, ports):
    """Hold the shared ports while the instruction streams; when it can start."""
    q = row[QUEUE]
    core = state.cores[state.queues[q, Q_CORE]]
    begin = start
    for port in range(PORTS):
        if ports >> port & 1 and core[C_HOLDER + port] != q and core[C_PORT + port] > start:
            start = core[C_PORT + port]
            row[CAUSE], row[BIND] = WAIT_PORT, core[C_HOLDING + port]
    row[WAIT] += start - begin
    for port in range(PORTS):
        if ports >> port & 1:
            core[C_PORT + port], core[C_HOLDER + port], core[C_HOLDING + port] = start + occupancy, q, i
    return start


@njit(cache=True)
def issue(state, i, q, time):
    """Start instruction i on queue q: its times, the reason for its wait, and what it releases."""
    row, queue = state.instructions[i], state.queues[q]
    form = state.forms[row[FORM]]
    explain(state, queue, row)
    row[WAIT] = max(0, time - queue[Q_IDLE])
    start = time
    if form[F_TABLE] >= 0:
        start = load_tables(state, i, row, start, form[F_TABLE])
    occupancy, latency = form[F_OCCUPANCY], form[F_LATENCY]
    if form[F_PORT]:
        start = take_ports(state, i, row, start, occupancy, form[F_PORT])
    if form[F_CLOCKED] and state.figures[CLOCK_WINDOW] > 0:
        core = queue[Q_CORE]
        advance_clock(state, core, start)
        if not state.cores[core, C_WARM]:
            occupancy, latency = form[F_COLD_OCCUPANCY], form[F_COLD_LATENCY]
        work(state, core, start, start + occupancy)
    row[START] = start
    row[FREED] = start + occupancy
    row[DONE] = start + latency
    queue[Q_FREE] = row[FREED]
    queue[Q_IDLE] = row[FREED]
    queue[Q_LAST] = i
    state.lengths[ISSUED] += 1
    if form[F_DMA]:
        queue[Q_IDLE] = min(row[FREED], row[DONE])
        push(state.arrivals, 0, state.lengths[ARRIVALS], row[FREED] + form[F_DISPATCH], i)
        state.lengths[ARRIVALS] += 1
    slide(state, q, row[PLACE])
    release(state, i, row, True)
    if not form[F_DMA]:
        release(state, i, row, False)


@njit(cache=True)
def slide(state, q, place):
    """Move the window of a queue on after a place has issued, and find when the queue is due again."""
    queue = state.queues[q]
    base = queue[Q_BASE]
    state.due[q] = FAR
    if queue[Q_READY] > 0:
        state.due[q] = queue[Q_FREE]
    elif queue[Q_LATER] > 0:
        state.due[q] = max(queue[Q_FREE], state.later[base, 0])
    if place != queue[Q_HEAD]:
        return
    head = place + 1
    while head < queue[Q_LENGTH] and state.instructions[state.queue[base + head], START] >= 0:
        head += 1
    for new in range(queue[Q_HEAD] + queue[Q_WINDOW], min(head + queue[Q_WINDOW], queue[Q_LENGTH])):
        row = state.instructions[state.queue[base + new]]
        if row[MISSING] == 0:
            enter(state, q, new, row[READY])
    queue[Q_HEAD] = head


@njit(cache=True)
def arrive(state):
    """Move the transfer that reaches the DMA engines first."""
    time, i = state.arrivals[0, 0], state.arrivals[0, 1]
    pop(state.arrivals, 0, state.lengths[ARRIVALS])
    state.lengths[ARRIVALS] -= 1
    row = state.instructions[i]
    form, transfer = state.forms[row[FORM]], state.transfers[row[TRANSFER]]
    number = state.queues[row[QUEUE], Q_CORE]
    engines = state.figures[DMA_ENGINES]
    first, last = FAR, time
    for k in range(form[F_ENGINES]):
        engine = number * engines + (transfer[T_ENGINE] + k) % engines
        start = max(time, state.dma_free[engine])
        end = start + form[F_SERVICE]
        state.dma_free[engine] = end
        packet = state.packets[transfer[T_PACKET] + k]
        packet[0], packet[1] = start, end
        first, last = min(first, start), max(last, end)
    served = last
    core = state.cores[number]
    if form[F_HBM] > 0:
        core[C_HBM] = max(core[C_HBM], time) + form[F_HBM]
        last = max(last, core[C_HBM])
    transfer[T_ARRIVAL], transfer[T_START], transfer[T_END] = time, first, last
    transfer[T_WAIT] = last - time - max(form[F_SERVICE], form[F_HBM])
    if transfer[T_WAIT] > 0:
        transfer[T_CAUSE] = WAIT_BANDWIDTH if last > served else WAIT_QUEUE
    row[DONE] = last + form[F_NOTIFY]
    release(state, i, row, False)


@njit(cache=True)
def run(state):
    """Issue all instructions; returns how many could be, fewer than all when they wait for one another.

    START of all rows is -1 at the call.
    """
    for q in range(state.queues.shape[0]):
        queue = state.queues[q]
        for place in range(min(queue[Q_LENGTH], queue[Q_WINDOW])):
            row = state.instructions[state.queue[queue[Q_BASE] + place]]
            if row[MISSING] == 0:
                enter(state, q, place, row[READY])
    while True:
        q = 0
        for other in range(1, state.due.size):
            if state.due[other] < state.due[q]:
                q = other
        time = state.due[q]
        if state.lengths[ARRIVALS] > 0 and state.arrivals[0, 0] <= time:
            arrive(state)
        elif time < FAR:
            issue(state, choose(state, q), q, time)
        else:
            return state.lengths[ISSUED]


@njit(cache=True)
def turn(start, predecessor, kind, gate, edge_start, edges):
    """Turn predecessors into successors, CSR; an edge is successor * 16 + kind + 4 * gate.

    start, edge_start : int64[n + 1]; predecessor: int32[e]; kind, gate: int8[e]; edges: int64[e]
    """
    for e in range(predecessor.size):
        edge_start[predecessor[e] + 1] += 1
    for i in range(start.size - 1):
        edge_start[i + 1] += edge_start[i]
    filled = edge_start[:-1].copy()
    for i in range(start.size - 1):
        for e in range(start[i], start[i + 1]):
            j = predecessor[e]
            edges[filled[j]] = i * 16 + kind[e] + 4 * gate[e]
            filled[j] += 1
