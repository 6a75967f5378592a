"""What the event loop starts from: who stands in the windows of the queues and who follows, on which DMA engines.

The tables are described in `sim.jit.columns`.
"""

from sim.jit import njit
from sim.jit.columns import (
    DONE,
    F_COLUMNS,
    F_DMA,
    F_ENGINES,
    F_SIDE,
    F_STREAM,
    LINK,
    NONE,
    Q_BASE,
    Q_COLUMNS,
    Q_FRONT,
    Q_LENGTH,
    Q_WINDOW,
    START,
    T_COLUMNS,
    T_CORE,
    T_ENGINE,
    T_INSTRUCTION,
    T_START,
    TIMES,
    UPPER,
    WAIT,
)
from sim.jit.schedule import enter, join


@njit(cache=True, small=2000)
def count(form, core, used):
    """Fill used[core, form] with how many instructions there are of it.

    form : uint32[n]; core: uint16[n]; used: zeros at the call
    """
    for i in range(len(form)):
        used[core[i], form[i]] += 1


@njit(cache=True, small=10000, _nrt=False)
def line_up(s, core, streams):
    """Give instructions their places, those in the windows a predecessor to wait for, and transfers their rows.

    s       : sim.schedule.State, where nothing has happened yet
    core    : uint16[n]
    streams : queues of a core
    """
    times, queues, forms, transfers = s.times, s.queues, s.forms, s.transfers
    t = 0
    for i in range(len(core)):
        own, number, form = TIMES * i, s.form[i] + 0, F_COLUMNS * s.form[i]
        stream, last = core[i] * streams + forms[form + F_STREAM], s.start[i + 1]
        queue = Q_COLUMNS * stream
        place = queues[queue + Q_LENGTH]
        queues[queue + Q_LENGTH] = place + 1
        s.places[queues[queue + Q_BASE] + place] = i
        row = T_COLUMNS * t
        # Whatever is no DMA writes into the row of the next one: sooner than a branch that is hard to foresee.
        transfers[row + T_INSTRUCTION], transfers[row + T_CORE], transfers[row + T_START] = i, core[i], number
        kept = 2 * t + 1 if forms[form + F_DMA] else 2 * number
        t += forms[form + F_DMA]
        times[own + START] = ~((stream << UPPER) + last)
        times[own + DONE] = min(times[own + DONE], -1) - (place << UPPER)
        times[own + WAIT] = kept << UPPER
        times[own + LINK] = NONE
        if place < queues[queue + Q_WINDOW]:
            queues[queue + Q_FRONT] = place + 1
            if s.start[i] < last:
                join(times, i, s.predecessor[last - 1] + 0)
            else:
                enter(s, i, 0)


@njit(cache=True, small=18000)
def spread(operands, operand_start, partition, pitch, forms, transfers, share, available):
    """Fill the DMA engine of each transfer's first partition; those between HBM and HBM take the engines in turn.

    operands  : int64[m, 3]; operand_start: int64[n + 1]; partition, pitch: int64[storages]
    share     : partitions that one of the `available` engines serves
    """
    turn = 0
    for t in range(0, len(transfers) - T_COLUMNS, T_COLUMNS):
        form = F_COLUMNS * transfers[t + T_START]
        side = forms[form + F_SIDE]
        if side < 0:
            first = turn
            turn = (turn + forms[form + F_ENGINES]) % available
        else:
            operand = operand_start[transfers[t + T_INSTRUCTION]] + side
            storage, offset = operands[operand, 0], operands[operand, 1]
            first = partition[storage] + 0
            if offset >= pitch[storage]:
                first += offset // pitch[storage]
            first //= share
        while first >= available:
            first -= available
        transfers[t + T_ENGINE] = first
