"""What instructions hold together: tables and ports, TensorE's clock and weights, DMA engines and HBM bandwidth.

The tables of a core are described in `sim.jit.columns`.
"""

from sim.jit import njit
from sim.jit.columns import (
    C_BUSY,
    C_HOLDER,
    C_PORT,
    C_TABLE,
    C_WARM,
    C_WEIGHTS,
    C_WINDOW_END,
    CLOCK,
    CLOCK_DOWN,
    CLOCK_UP,
    CLOCK_WINDOW,
    F_COLD,
    F_OCCUPANCY,
    F_TAIL,
    F_WEIGHTS,
    FAR,
    L_BIND,
    L_CAUSE,
    L_KIND,
    L_SUBJECT,
    L_TIME,
    L_WAIT,
    LINK,
    LOAD,
    LOGGED,
    NONE,
    PORTS,
    TABLE_LOAD,
    TIMES,
    UPPER,
    WAIT,
    WAIT_PORT,
    WAIT_TABLE,
)
from sim.jit.competing import BARE, INLINE


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
def stream(forms, cores, shared, log, number, pace, start, late):
    """Let a matmul stream once its weights are in the array; how long after its start.

    pace : where its figures begin; late : its operands were not there when TensorE was free, else the weights were
    loaded behind those before
    """
    weights, begin = forms[pace + F_WEIGHTS], start
    if weights > 0:
        begin = max(start, (start if late else cores[number, C_WEIGHTS]) + weights)
    freed = begin + forms[pace + F_OCCUPANCY]
    cores[number, C_WEIGHTS] = freed - forms[pace + F_TAIL]
    if shared[CLOCK_WINDOW] > 0:
        if begin >= cores[number, C_WINDOW_END]:
            advance_clock(cores, shared, log, number, begin)
        work(cores, shared, log, number, begin, freed)
    return begin - start


@njit(cache=True, **BARE)
def load_tables(times, cores, shared, log, number, i, start, tables):
    """Load other activation tables for an instruction; when it can go on."""
    at, own = shared[LOGGED], TIMES * i
    shared[LOGGED] += 1
    log[at, L_KIND], log[at, L_SUBJECT], log[at, L_TIME], log[at, L_BIND] = LOAD, i, -1, -1
    if cores[number, C_TABLE] >= 0:
        log[at, L_TIME], log[at, L_WAIT], log[at, L_CAUSE] = start, times[own + WAIT], times[own + LINK] >> UPPER
        bind = times[own + LINK] & NONE
        log[at, L_BIND] = bind if bind != NONE else -1
        times[own + WAIT], times[own + LINK] = 0, (WAIT_TABLE << UPPER) + NONE
        start += shared[TABLE_LOAD]
    cores[number, C_TABLE] = tables
    return start


@njit(cache=True, **INLINE)
def take_ports(times, cores, number, i, start, occupancy, ports):
    """Hold the shared ports while the instruction streams; when it can start."""
    begin, own = start, TIMES * i
    for port in range(PORTS):
        held = cores[number, C_PORT + port]
        if ports >> port & 1 and held > start:
            start = held
            times[own + LINK] = (WAIT_PORT << UPPER) + cores[number, C_HOLDER + port]
    times[own + WAIT] += start - begin
    for port in range(PORTS):
        if ports >> port & 1:
            cores[number, C_PORT + port] = start + occupancy
            cores[number, C_HOLDER + port] = i
    return start


@njit(cache=True, **INLINE)
def serve(cores, number, first, last, time, service):
    """Occupy the DMA engines of the columns [first, last); (start of the first, end of the last) of them."""
    start, end = FAR, time
    for column in range(first, last):
        begin = max(time, cores[number, column])
        cores[number, column] = begin + service
        start, end = min(start, begin), max(end, begin + service)
    return start, end
