"""The event loop: five instruction streams a core, 16 DMA engines, one clock.

A completion is known when its instruction issues, so ready times are handed to the successors at once and the only
events are the decisions of the queues and the arrivals of transfers at the DMA engines. Decisions are taken in the
order of (time, queue); arrivals go before decisions of the same time.

Functions take `(times, lists, queues, heaps, forms, cores, shared, transfers, log)` or those of them that they need;
the tables are described by their rows or columns. `lists` is uint32, all others int64: what comes from an unsigned
table needs no look at its sign when it is an index (`+ 0` makes an int64 of it).

    heaps : [room, 2], per queue places that are ready (place, place), per queue places that will be (ready time,
            place), then arrivals (time, transfer)
    lists : [2 n + 1 + e], where the successors of each instruction begin and the last end, then which instruction has
            each place, queue after queue, then the successors: instruction * 16 + kind + 4 * gate
    log   : [room, 6], loads of activation tables and changes of TensorE's clock in the order in which they were found
"""

from sim.jit import njit

BARE = {"_nrt": False}
"""All arrays outlive the call: references to them are not counted, which would cost a quarter of the time."""

INLINE = {**BARE, "forceinline": True}

FAR = 1 << 62

NONE = 0xFFFFFFFF
"""No predecessor."""

# Columns of `times`, [n, columns]. Until an instruction issues, those that have no value yet say where it stands.
READY = 0
"""Latest release so far."""
START = 1
"""Until it issues the complement of its place in its queue, which is negative."""
FREED = 2
"""End of its occupancy; until it issues its queue, from `FORM` on its form, from `TRANSFER` on the row of a DMA among
the transfers."""
DONE = 3
"""Until it issues how many predecessors have not released it."""
WAIT = 4
"""Until it issues kind and gate of the edge that released it last."""
LINK = 5
"""The predecessor that released it last, NONE before that; once it issues, from `CAUSE` on sim.trace.Wait, and
`TRIGGER` for a DMA."""
TIMES = 6

# Where what shares a column begins, in bits.
FORM = 18
TRANSFER = 37
CAUSE = 32

QUEUE = (1 << FORM) - 1
FORMS = (1 << TRANSFER - FORM) - 1
MOVES = (1 << 63 - TRANSFER) - 1
CAUSES = 15
ONE_CAUSE = 1 << CAUSE
TRIGGER = 1 << CAUSE + 4

# Columns of the queue table.
Q_BASE = 0
"""Where its places begin in `lists`."""
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
Q_DUE = 10
"""When it can issue next; FAR when nothing of it is known to become ready."""
Q_HEAP = 11
"""First row of the heap of places that are ready."""
Q_HEAP_LATER = 12
Q_COLUMNS = 13

# Columns of the form table.
F_OCCUPANCY = 0
F_LATENCY = 1
F_WEIGHTS = 2
"""Time that loading the weights of a matmul takes."""
F_TAIL = 3
"""The end of its occupancy, during which the next weights may be loaded."""
F_COLD = 4
"""From here on these four at a cold clock."""
F_TABLE = 8
F_PORT = 9
F_CLOCKED = 10
F_DMA = 11
F_DISPATCH = 12
F_NOTIFY = 13
F_SERVICE = 14
F_HBM = 15
F_ENGINES = 16
F_STREAM = 17
"""The engine that runs or triggers it."""
F_SIDE = 18
"""The operand of a DMA that lies on chip, -1 for none."""
F_COLUMNS = 19

# Columns of the core table: what the engines of a core share.
C_TABLE = 0
"""Activation tables loaded, -1 for none yet."""
C_PORT = 1
"""Until when each of the two ports is held."""
C_HOLDER = 3
"""By which instruction."""
C_WINDOW_END = 5
C_BUSY = 6
"""Busy time of TensorE in this window."""
C_WARM = 7
C_HBM = 8
"""Until when the core's share of HBM bandwidth is used up."""
C_WEIGHTS = 9
"""Since when TensorE can load weights behind those that it works with."""
C_DMA = 10
"""Until when each DMA engine is busy; as many columns as engines."""
PORTS = 2

# Rows of the transfer table, [rows, t]: a row is a column of the result.
T_INSTRUCTION = 0
"""The trigger."""
T_CORE = 1
T_ENGINE = 2
"""First of its DMA engines."""
T_TURN = 3
"""How many reached the DMA engines before it."""
T_ARRIVAL = 4
T_START = 5
"""Until it arrives its form."""
T_END = 6
T_WAIT = 7
T_CAUSE = 8
T_ROWS = 9

# Columns of the log.
L_KIND = 0
"""LOAD or CLOCK."""
L_SUBJECT = 1
"""The instruction that needed the load; the core."""
L_TIME = 2
"""-1 for the first load, which is hidden."""
L_WAIT = 3
"""Wait of the load; whether the clock is warm from then on."""
L_CAUSE = 4
L_BIND = 5
L_COLUMNS = 6
LOAD = 0
CLOCK = 1

# Entries of `shared`: figures in ps, then what is counted on the way.
SEM_WAKE = 0
SEM_SAME = 1
TABLE_LOAD = 2
CLOCK_WINDOW = 3
"""0 for a device without clock windows."""
CLOCK_UP = 4
CLOCK_DOWN = 5
DMA_ENGINES = 6
ARRIVALS_BASE = 7
ARRIVALS = 8
ARRIVED = 9
ISSUED = 10
LOGGED = 11
ORDERED = 12
"""Whether something may wait for the issue of a DMA."""
SHARED = 13

# Gates and kinds of an edge.
GATE_SAME = 1
GATE_ISSUE = 2
KIND_FLOW = 0
KIND_ORDER = 3

# Which edges to release.
ALL = 0
AT_ISSUE = 1
AT_COMPLETION = 2

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


@njit(cache=True, **INLINE)
def push(heap, base, count, key, value):
    """Add (key, value) to the heap heap[base : base + count], smallest first."""
    hole = count
    while hole > 0:
        above = (hole - 1) >> 1
        up, tie = heap[base + above, 0], heap[base + above, 1]
        if up < key or (up == key and tie <= value):
            break
        heap[base + hole, 0] = up
        heap[base + hole, 1] = tie
        hole = above
    heap[base + hole, 0] = key
    heap[base + hole, 1] = value


@njit(cache=True, **INLINE)
def pop(heap, base, count):
    """Take the smallest row away from heap[base : base + count]."""
    last = count - 1
    key, value = heap[base + last, 0], heap[base + last, 1]
    hole = 0
    below = 1
    while below < last:
        down, tie = heap[base + below, 0], heap[base + below, 1]
        if below + 1 < last:
            other, other_tie = heap[base + below + 1, 0], heap[base + below + 1, 1]
            if other < down or (other == down and other_tie < tie):
                below, down, tie = below + 1, other, other_tie
        if key < down or (key == down and value <= tie):
            break
        heap[base + hole, 0] = down
        heap[base + hole, 1] = tie
        hole = below
        below = 2 * hole + 1
    heap[base + hole, 0] = key
    heap[base + hole, 1] = value


@njit(cache=True, **INLINE)
def enter(queues, heaps, q, place, ready):
    """Let an instruction within its queue's window, all of whose predecessors are known, compete."""
    free = queues[q, Q_FREE]
    if ready <= free:
        push(heaps, queues[q, Q_HEAP], queues[q, Q_READY], place, place)
        queues[q, Q_READY] += 1
        queues[q, Q_DUE] = free
    else:
        push(heaps, queues[q, Q_HEAP_LATER], queues[q, Q_LATER], ready, place)
        queues[q, Q_LATER] += 1
        queues[q, Q_DUE] = min(queues[q, Q_DUE], ready)


@njit(cache=True, **INLINE)
def release(times, lists, queues, heaps, shared, i, which):
    """Tell the successors of an instruction when they may start as far as it is concerned.

    which : ALL, when its completion is known; else AT_ISSUE or AT_COMPLETION, the edges that wait for that
    """
    freed, done = times[i, FREED], times[i, DONE]
    for e in range(lists[i], lists[i + 1]):
        edge = lists[e] + 0
        code = edge & 15
        gate = code >> 2
        if which != ALL and (gate == GATE_ISSUE) != (which == AT_ISSUE):
            continue
        s = edge >> 4
        time = freed
        if gate != GATE_ISSUE:
            time = done + shared[SEM_SAME if gate == GATE_SAME else SEM_WAKE]
        ready, link = times[s, READY], times[s, LINK]
        later = (time > ready) | ((time == ready) & (i < link))
        ready = time if later else ready
        times[s, READY] = ready
        times[s, LINK] = i if later else link
        times[s, WAIT] = code if later else times[s, WAIT]
        missing = times[s, DONE] - 1
        times[s, DONE] = missing
        if missing == 0:
            q, place = times[s, FREED] & QUEUE, ~times[s, START]
            if place < queues[q, Q_HEAD] + queues[q, Q_WINDOW]:
                enter(queues, heaps, q, place, ready)


@njit(cache=True, **BARE)
def advance_clock(cores, shared, log, number, time):
    """Close the clock windows of a core's TensorE that end by a time."""
    window = shared[CLOCK_WINDOW]
    while cores[number, C_WINDOW_END] <= time:
        warm = 1 if cores[number, C_BUSY] >= shared[CLOCK_DOWN if cores[number, C_WARM] else CLOCK_UP] else 0
        if warm != cores[number, C_WARM]:
            at = shared[LOGGED]
            log[at, L_KIND], log[at, L_SUBJECT], log[at, L_WAIT] = CLOCK, number, warm
            log[at, L_TIME] = cores[number, C_WINDOW_END]
            shared[LOGGED] += 1
            cores[number, C_WARM] = warm
        cores[number, C_WINDOW_END] += window
        cores[number, C_BUSY] = 0
        if not warm and cores[number, C_WINDOW_END] <= time:
            cores[number, C_WINDOW_END] += (time - cores[number, C_WINDOW_END]) // window * window


@njit(cache=True, **INLINE)
def work(cores, shared, log, number, start, end):
    """Count [start, end) as busy time of a core's TensorE."""
    while end >= cores[number, C_WINDOW_END]:
        border = cores[number, C_WINDOW_END]
        cores[number, C_BUSY] += border - start
        start = border
        advance_clock(cores, shared, log, number, border)
    cores[number, C_BUSY] += end - start


@njit(cache=True, **INLINE)
def find_pace(cores, shared, log, number, time):
    """The column of the form table where a matmul's figures begin, at the clock of a time."""
    if shared[CLOCK_WINDOW] == 0:
        return 0
    if time >= cores[number, C_WINDOW_END]:
        advance_clock(cores, shared, log, number, time)
    return 0 if cores[number, C_WARM] else F_COLD


@njit(cache=True, **INLINE)
def stream(forms, cores, shared, log, number, form, pace, start, late):
    """Let a matmul stream once its weights are in the array; how long after its start.

    late : its operands were not there when TensorE was free; else the weights were loaded behind those before
    """
    weights, begin = forms[form, pace + F_WEIGHTS], start
    if weights > 0:
        begin = max(start, (start if late else cores[number, C_WEIGHTS]) + weights)
    freed = begin + forms[form, pace + F_OCCUPANCY]
    cores[number, C_WEIGHTS] = freed - forms[form, pace + F_TAIL]
    if shared[CLOCK_WINDOW] > 0:
        if begin >= cores[number, C_WINDOW_END]:
            advance_clock(cores, shared, log, number, begin)
        work(cores, shared, log, number, begin, freed)
    return begin - start


@njit(cache=True, **INLINE)
def choose(lists, queues, heaps, q, time):
    """Take the oldest place that is ready when queue q is due; its instruction."""
    base, oldest, later = queues[q, Q_BASE], queues[q, Q_HEAP], queues[q, Q_HEAP_LATER]
    while queues[q, Q_LATER] > 0 and heaps[later, 0] <= time:
        place = heaps[later, 1]
        pop(heaps, later, queues[q, Q_LATER])
        queues[q, Q_LATER] -= 1
        if queues[q, Q_READY] == 0 and (queues[q, Q_LATER] == 0 or heaps[later, 0] > time):
            return lists[base + place] + 0
        push(heaps, oldest, queues[q, Q_READY], place, place)
        queues[q, Q_READY] += 1
    place = heaps[oldest, 0]
    pop(heaps, oldest, queues[q, Q_READY])
    queues[q, Q_READY] -= 1
    return lists[base + place] + 0


@njit(cache=True, **INLINE)
def explain(times, queues, forms, q, i, form, time):
    """Note what the start of an instruction waits for, apart from tables and ports, and for how long."""
    last, bind = queues[q, Q_LAST], times[i, LINK]
    if times[i, READY] > queues[q, Q_FREE]:
        kind, gate = times[i, WAIT] & 3, times[i, WAIT] >> 2
        if kind != KIND_FLOW and kind != KIND_ORDER:
            cause = WAIT_BUFFER
        else:
            cause = WAIT_DMA if times[bind, LINK] & TRIGGER and gate != GATE_ISSUE else WAIT_OPERAND
    else:
        bind, cause = last & NONE, WAIT_NONE
        if last >= 0:
            cause = WAIT_ISSUE if times[last, LINK] & TRIGGER else WAIT_ENGINE
    times[i, LINK] = bind + cause * ONE_CAUSE + (TRIGGER if forms[form, F_DMA] else 0)
    times[i, WAIT] = max(0, time - queues[q, Q_IDLE])


@njit(cache=True, **BARE)
def load_tables(times, cores, shared, log, number, i, start, tables):
    """Load other activation tables for an instruction; when it can go on."""
    at = shared[LOGGED]
    shared[LOGGED] += 1
    log[at, L_KIND], log[at, L_SUBJECT], log[at, L_TIME], log[at, L_BIND] = LOAD, i, -1, -1
    if cores[number, C_TABLE] >= 0:
        log[at, L_TIME], log[at, L_WAIT] = start, times[i, WAIT]
        bind = times[i, LINK] & NONE
        log[at, L_CAUSE] = times[i, LINK] >> CAUSE & CAUSES
        log[at, L_BIND] = bind if bind != NONE else -1
        times[i, WAIT], times[i, LINK] = 0, WAIT_TABLE * ONE_CAUSE + NONE
        start += shared[TABLE_LOAD]
    cores[number, C_TABLE] = tables
    return start


@njit(cache=True, **INLINE)
def take_ports(times, cores, number, i, start, occupancy, ports):
    """Hold the shared ports while the instruction streams; when it can start."""
    begin = start
    for port in range(PORTS):
        held = cores[number, C_PORT + port]
        if ports >> port & 1 and held > start:
            start = held
            times[i, LINK] = WAIT_PORT * ONE_CAUSE + cores[number, C_HOLDER + port]
    times[i, WAIT] += start - begin
    for port in range(PORTS):
        if ports >> port & 1:
            cores[number, C_PORT + port] = start + occupancy
            cores[number, C_HOLDER + port] = i
    return start


@njit(cache=True, **INLINE)
def slide(times, lists, queues, heaps, q, place):
    """Move the window of a queue on after a place has issued, and find when the queue is due again."""
    base, free = queues[q, Q_BASE], queues[q, Q_FREE]
    due = FAR
    if queues[q, Q_READY] > 0:
        due = free
    elif queues[q, Q_LATER] > 0:
        due = max(free, heaps[queues[q, Q_HEAP_LATER], 0])
    queues[q, Q_DUE] = due
    head = queues[q, Q_HEAD]
    if place != head:
        return
    window, length = queues[q, Q_WINDOW], queues[q, Q_LENGTH]
    first = head + window
    head += 1
    while head < length and times[lists[base + head], START] >= 0:
        head += 1
    queues[q, Q_HEAD] = head
    for new in range(first, min(head + window, length)):
        i = lists[base + new] + 0
        if times[i, DONE] == 0:
            enter(queues, heaps, q, new, times[i, READY])


@njit(cache=True, **INLINE)
def issue(times, lists, queues, heaps, forms, cores, shared, transfers, log, i):
    """Start an instruction now that its queue is due; which of its successors may be told."""
    stands = times[i, FREED]
    q, place, form = stands & QUEUE, ~times[i, START], stands >> FORM & FORMS
    number, time = queues[q, Q_CORE], queues[q, Q_DUE]
    explain(times, queues, forms, q, i, form, time)
    start, occupancy, latency = time, forms[form, F_OCCUPANCY], forms[form, F_LATENCY]
    tables = forms[form, F_TABLE]
    if tables >= 0 and tables != cores[number, C_TABLE]:
        start = load_tables(times, cores, shared, log, number, i, start, tables)
    if forms[form, F_PORT]:
        start = take_ports(times, cores, number, i, start, occupancy, forms[form, F_PORT])
    if forms[form, F_CLOCKED]:
        pace, late = find_pace(cores, shared, log, number, start), times[i, READY] > queues[q, Q_FREE]
        loading = stream(forms, cores, shared, log, number, form, pace, start, late)
        occupancy, latency = forms[form, pace + F_OCCUPANCY] + loading, forms[form, pace + F_LATENCY] + loading
    freed, done = start + occupancy, start + latency
    times[i, START] = start
    times[i, FREED] = freed
    times[i, DONE] = done
    queues[q, Q_FREE] = freed
    queues[q, Q_IDLE] = freed
    queues[q, Q_LAST] = i
    shared[ISSUED] += 1
    if forms[form, F_DMA]:
        queues[q, Q_IDLE] = min(freed, done)
        arrival, transfer = freed + forms[form, F_DISPATCH], stands >> TRANSFER
        transfers[T_START, transfer] = form
        push(heaps, shared[ARRIVALS_BASE], shared[ARRIVALS], arrival, transfer)
        shared[ARRIVALS] += 1
    slide(times, lists, queues, heaps, q, place)
    return AT_ISSUE if forms[form, F_DMA] else ALL


@njit(cache=True, **INLINE)
def serve(cores, number, first, last, time, service):
    """Occupy the DMA engines of the columns [first, last); (start of the first, end of the last) of them."""
    start, end = FAR, time
    for column in range(first, last):
        begin = max(time, cores[number, column])
        cores[number, column] = begin + service
        start, end = min(start, begin), max(end, begin + service)
    return start, end


@njit(cache=True, **BARE)
def arrive(times, heaps, forms, cores, shared, transfers):
    """Move the transfer that reaches the DMA engines first. Returns its instruction."""
    base = shared[ARRIVALS_BASE]
    time, t = heaps[base, 0], heaps[base, 1]
    pop(heaps, base, shared[ARRIVALS])
    shared[ARRIVALS] -= 1
    i, number = transfers[T_INSTRUCTION, t], transfers[T_CORE, t]
    form = transfers[T_START, t]
    service, hbm, engine = forms[form, F_SERVICE], forms[form, F_HBM], C_DMA + transfers[T_ENGINE, t]
    beyond = max(0, engine + forms[form, F_ENGINES] - cores.shape[1])
    start, last = serve(cores, number, engine, engine + forms[form, F_ENGINES] - beyond, time, service)
    if beyond:
        early, late = serve(cores, number, C_DMA, C_DMA + beyond, time, service)
        start, last = min(start, early), max(last, late)
    served = last
    if hbm > 0:
        cores[number, C_HBM] = max(cores[number, C_HBM], time) + hbm
        last = max(last, cores[number, C_HBM])
    wait = last - time - max(service, hbm)
    transfers[T_TURN, t] = shared[ARRIVED]
    shared[ARRIVED] += 1
    transfers[T_ARRIVAL, t] = time
    transfers[T_START, t] = start
    transfers[T_END, t] = last
    transfers[T_WAIT, t] = wait
    if wait > 0:
        transfers[T_CAUSE, t] = WAIT_BANDWIDTH if last > served else WAIT_QUEUE
    times[i, DONE] = last + forms[form, F_NOTIFY]
    return i


@njit(cache=True, small=10000, **BARE)
def run(times, lists, queues, heaps, forms, cores, shared, transfers, log):
    """Issue all instructions; returns how many could be, fewer than all when they wait for one another."""
    for q in range(queues.shape[0]):
        for place in range(min(queues[q, Q_LENGTH], queues[q, Q_WINDOW])):
            i = lists[queues[q, Q_BASE] + place] + 0
            if times[i, DONE] == 0:
                enter(queues, heaps, q, place, times[i, READY])
    while True:
        q, time = 0, queues[0, Q_DUE]
        for other in range(1, queues.shape[0]):
            due = queues[other, Q_DUE]
            q = other if due < time else q
            time = min(time, due)
        if shared[ARRIVALS] > 0 and heaps[shared[ARRIVALS_BASE], 0] <= time:
            i = arrive(times, heaps, forms, cores, shared, transfers)
            which = AT_COMPLETION
        elif time < FAR:
            i = choose(lists, queues, heaps, q, time)
            which = issue(times, lists, queues, heaps, forms, cores, shared, transfers, log, i)
            if which == AT_ISSUE and not shared[ORDERED]:
                continue
        else:
            return shared[ISSUED]
        release(times, lists, queues, heaps, shared, i, which)
