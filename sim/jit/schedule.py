"""The event loop: five instruction streams a core, 16 DMA engines, one clock.

A completion is known when its instruction issues, so the only events are the decisions of the queues and the arrivals
of transfers at the DMA engines. Decisions are taken in the order of (time, queue); arrivals go before decisions of the
same time. What comes into the window of its queue asks its predecessors when they release it; where one does not know
yet, it waits in that one's list and goes on asking once it is told.

`s` is sim.schedule.State; its tables are described in `sim.jit.columns`. What comes from an unsigned array needs no
look at its sign when it is an index (`+ 0` makes an int64 of it).
"""

from sim.jit import njit
from sim.jit.columns import (
    ARRIVALS,
    ARRIVALS_BASE,
    ARRIVED,
    C_DMA,
    C_HBM,
    C_TABLE,
    DONE,
    F_CLOCKED,
    F_COLUMNS,
    F_DISPATCH,
    F_DMA,
    F_ENGINES,
    F_HBM,
    F_LATENCY,
    F_NOTIFY,
    F_OCCUPANCY,
    F_PORT,
    F_SERVICE,
    F_TABLE,
    FAR,
    FREED,
    GATE,
    GATE_ISSUE,
    ISSUED,
    KIND,
    KIND_FLOW,
    KIND_ORDER,
    LINK,
    LOWER,
    ORDERED,
    Q_AFTER,
    Q_BASE,
    Q_COLUMNS,
    Q_CORE,
    Q_DUE,
    Q_FREE,
    Q_FRONT,
    Q_HEAD,
    Q_HEAP,
    Q_IDLE,
    Q_LAST,
    Q_LATER,
    Q_LENGTH,
    Q_LOW,
    Q_READY,
    Q_SUMMARY,
    Q_WINDOW,
    Q_WORDS,
    START,
    T_ARRIVAL,
    T_CAUSE,
    T_COLUMNS,
    T_CORE,
    T_END,
    T_ENGINE,
    T_INSTRUCTION,
    T_START,
    T_TURN,
    T_WAIT,
    TIMES,
    UPPER,
    WAIT,
    WAIT_BANDWIDTH,
    WAIT_BUFFER,
    WAIT_DMA,
    WAIT_ENGINE,
    WAIT_ISSUE,
    WAIT_OPERAND,
    WAIT_QUEUE,
)
from sim.jit.competing import BARE, INLINE, WORD, mark, pop, push, take
from sim.jit.sharing import find_pace, load_tables, serve, stream, take_ports


@njit(cache=True, **INLINE)
def enter(s, i, ready):
    """Let an instruction within its queue's window, all of whose predecessors are known, compete."""
    queues, own = s.queues, TIMES * i
    queue, place = Q_COLUMNS * (~s.times[own + START] >> UPPER), ~s.times[own + DONE] >> UPPER
    free = queues[queue + Q_FREE]
    if ready <= free:
        mark(s.marks, queues[queue + Q_WORDS], queues[queue + Q_SUMMARY], place)
        queues[queue + Q_LOW] = min(queues[queue + Q_LOW], place >> 2 * WORD)
        queues[queue + Q_READY] += 1
        queues[queue + Q_DUE] = free
    else:
        push(s.heaps, queues[queue + Q_HEAP], queues[queue + Q_LATER], ready, place)
        queues[queue + Q_LATER] += 1
        queues[queue + Q_DUE] = min(queues[queue + Q_DUE], ready)


@njit(cache=True, **INLINE)
def join(times, i, p):
    """Let an instruction wait until p can tell when it releases it."""
    own, other = TIMES * i, TIMES * p
    done = min(times[other + DONE], -1)  # 0 before it is lined up
    waiting = ~done & LOWER
    times[other + DONE] = done + waiting - (i + 1)
    times[own + WAIT] = (times[own + WAIT] >> UPPER << UPPER) + waiting


@njit(cache=True, **INLINE)
def ask(s, i):
    """Ask the predecessors of an instruction when they release it, up to the first that cannot tell yet."""
    times, own, first = s.times, TIMES * i, s.start[i]
    stands, ready, link = ~times[own + START], times[own + FREED], times[own + LINK]
    e, missing = stands & LOWER, False
    while e > first:
        p, gate = s.predecessor[e - 1] + 0, s.code[e - 1] >> GATE
        done = times[TIMES * p + DONE]
        if done < 0 and (gate != GATE_ISSUE or times[TIMES * p + START] < 0):
            join(times, i, p)
            missing = True
            break
        e -= 1
        time = (times[TIMES * p + FREED] if gate == GATE_ISSUE else done) + s.shared[gate]
        later = (time > ready) | ((time == ready) & (p <= link & LOWER))
        ready, link = time if later else ready, (e << UPPER) + p if later else link
    times[own + FREED], times[own + LINK] = ready, link
    if missing:
        times[own + START] = ~((stands >> UPPER << UPPER) + e)
    else:
        enter(s, i, ready)


@njit(cache=True, **INLINE)
def tell(s, waiting):
    """Let those who wait for an instruction ask on, now that it knows more.

    waiting : one more than the instruction that came last, 0 for none
    """
    while waiting:
        i = waiting - 1
        waiting = s.times[TIMES * i + WAIT] & LOWER
        ask(s, i)


@njit(cache=True, **INLINE)
def choose(s, queue, time):
    """Take the oldest place that is ready when a queue is due."""
    queues, heaps, marks = s.queues, s.heaps, s.marks
    later, words, summary = queues[queue + Q_HEAP], queues[queue + Q_WORDS], queues[queue + Q_SUMMARY]
    while queues[queue + Q_LATER] > 0 and heaps[later] <= time:
        place = heaps[later + 1]
        pop(heaps, later, queues[queue + Q_LATER])
        queues[queue + Q_LATER] -= 1
        if queues[queue + Q_READY] == 0 and (queues[queue + Q_LATER] == 0 or heaps[later] > time):
            return place
        mark(marks, words, summary, place)
        queues[queue + Q_LOW] = min(queues[queue + Q_LOW], place >> 2 * WORD)
        queues[queue + Q_READY] += 1
    place = take(marks, words, summary, queues[queue + Q_LOW])
    queues[queue + Q_LOW] = place >> 2 * WORD
    queues[queue + Q_READY] -= 1
    return place


@njit(cache=True, **INLINE)
def explain(s, queue, i, time):
    """Note what the start of an instruction waits for, apart from tables and ports, and for how long."""
    times, queues, own = s.times, s.queues, TIMES * i
    if time > queues[queue + Q_FREE]:
        bind, edge = times[own + LINK] & LOWER, times[own + LINK] >> UPPER
        kind, gate = s.code[edge] & KIND, s.code[edge] >> GATE
        if kind != KIND_FLOW and kind != KIND_ORDER:
            cause = WAIT_BUFFER
        else:
            moved = gate != GATE_ISSUE and s.forms[F_COLUMNS * s.form[bind] + F_DMA]
            cause = WAIT_DMA if moved else WAIT_OPERAND
    else:
        bind, cause = queues[queue + Q_LAST] & LOWER, queues[queue + Q_AFTER]
    times[own + LINK] = (cause << UPPER) + bind
    times[own + WAIT] = max(0, time - queues[queue + Q_IDLE])


@njit(cache=True, **INLINE)
def slide(s, queue, place):
    """Move the window of a queue on after a place has issued, and find when the queue is due again."""
    queues, places = s.queues, s.places
    free, due = queues[queue + Q_FREE], FAR
    if queues[queue + Q_READY] > 0:
        due = free
    elif queues[queue + Q_LATER] > 0:
        due = max(free, s.heaps[queues[queue + Q_HEAP]])
    queues[queue + Q_DUE] = due
    if place != queues[queue + Q_HEAD]:
        return
    head, front, base = place + 1, queues[queue + Q_FRONT], queues[queue + Q_BASE]
    while head < front and s.times[TIMES * places[base + head] + START] >= 0:
        head += 1
    end = min(head + queues[queue + Q_WINDOW], queues[queue + Q_LENGTH])
    queues[queue + Q_HEAD], queues[queue + Q_FRONT] = head, end
    for new in range(front, end):
        ask(s, places[base + new] + 0)


@njit(cache=True, **INLINE)
def issue(s, queue, place, time):
    """Start an instruction now that its queue is due; who waits for it."""
    times, queues, forms, cores, shared = s.times, s.queues, s.forms, s.cores, s.shared
    i = s.places[queues[queue + Q_BASE] + place] + 0
    own, number = TIMES * i, queues[queue + Q_CORE]
    form, waiting = times[own + WAIT] >> UPPER, ~times[own + DONE] & LOWER
    is_dma, transfer = form & 1, T_COLUMNS * (form >> 1)
    form = F_COLUMNS * (s.transfers[transfer + T_START] if is_dma else form >> 1)
    explain(s, queue, i, time)
    start, occupancy, latency = time, forms[form + F_OCCUPANCY], forms[form + F_LATENCY]
    tables = forms[form + F_TABLE]
    if tables >= 0 and tables != cores[number, C_TABLE]:
        start = load_tables(times, cores, shared, s.log, number, i, start, tables)
    if forms[form + F_PORT]:
        start = take_ports(times, cores, number, i, start, occupancy, forms[form + F_PORT])
    if forms[form + F_CLOCKED]:
        pace, late = form + find_pace(cores, shared, s.log, number, start), time > queues[queue + Q_FREE]
        loading = stream(forms, cores, shared, s.log, number, pace, start, late)
        occupancy, latency = forms[pace + F_OCCUPANCY] + loading, forms[pace + F_LATENCY] + loading
    freed, done = start + occupancy, start + latency
    times[own + START] = start
    times[own + FREED] = freed
    queues[queue + Q_FREE] = freed
    queues[queue + Q_IDLE] = freed
    queues[queue + Q_LAST] = i
    queues[queue + Q_AFTER] = WAIT_ENGINE
    shared[ISSUED] += 1
    if is_dma:
        queues[queue + Q_IDLE] = min(freed, done)
        queues[queue + Q_AFTER] = WAIT_ISSUE
        push(s.heaps, shared[ARRIVALS_BASE], shared[ARRIVALS], freed + forms[form + F_DISPATCH], transfer)
        shared[ARRIVALS] += 1
        done = -1
        if not shared[ORDERED]:
            done, waiting = ~waiting, 0
    times[own + DONE] = done
    slide(s, queue, place)
    return waiting


@njit(cache=True, **INLINE)
def arrive(s):
    """Move the transfer that reaches the DMA engines first; who waits for it."""
    heaps, forms, cores, shared, transfers = s.heaps, s.forms, s.cores, s.shared, s.transfers
    base = shared[ARRIVALS_BASE]
    time, t = heaps[base], heaps[base + 1]
    pop(heaps, base, shared[ARRIVALS])
    shared[ARRIVALS] -= 1
    i, number = transfers[t + T_INSTRUCTION], transfers[t + T_CORE]
    form = F_COLUMNS * transfers[t + T_START]
    service, hbm, engine = forms[form + F_SERVICE], forms[form + F_HBM], C_DMA + transfers[t + T_ENGINE]
    beyond = max(0, engine + forms[form + F_ENGINES] - cores.shape[1])
    start, last = serve(cores, number, engine, engine + forms[form + F_ENGINES] - beyond, time, service)
    if beyond:
        early, late = serve(cores, number, C_DMA, C_DMA + beyond, time, service)
        start, last = min(start, early), max(last, late)
    served = last
    if hbm > 0:
        cores[number, C_HBM] = max(cores[number, C_HBM], time) + hbm
        last = max(last, cores[number, C_HBM])
    wait = last - time - max(service, hbm)
    transfers[t + T_TURN] = shared[ARRIVED]
    shared[ARRIVED] += 1
    transfers[t + T_ARRIVAL] = time
    transfers[t + T_START] = start
    transfers[t + T_END] = last
    transfers[t + T_WAIT] = wait
    if wait > 0:
        transfers[t + T_CAUSE] = WAIT_BANDWIDTH if last > served else WAIT_QUEUE
    waiting = ~s.times[TIMES * i + DONE]
    s.times[TIMES * i + DONE] = last + forms[form + F_NOTIFY]
    return waiting


@njit(cache=True, small=10000, **BARE)
def run(s):
    """Issue all instructions; returns how many could be, fewer than all when they wait for one another."""
    queues, heaps, shared = s.queues, s.heaps, s.shared
    while True:
        queue, time = 0, queues[Q_DUE]
        for other in range(Q_COLUMNS, len(queues), Q_COLUMNS):
            due = queues[other + Q_DUE]
            queue = other if due < time else queue
            time = min(time, due)
        if shared[ARRIVALS] > 0 and heaps[shared[ARRIVALS_BASE]] <= time:
            waiting = arrive(s)
        elif time < FAR:
            waiting = issue(s, queue, choose(s, queue, time), time)
        else:
            return shared[ISSUED]
        tell(s, waiting)
