"""What the event loop starts from: who stands where in which queue, who follows whom, as scalar loops.

The tables are those of `sim.jit.schedule`.
"""

from sim.jit import njit
from sim.jit.schedule import (
    DONE,
    F_DMA,
    F_ENGINES,
    F_SIDE,
    F_STREAM,
    FORM,
    FORMS,
    FREED,
    LINK,
    NONE,
    Q_BASE,
    Q_CORE,
    Q_LENGTH,
    START,
    T_CORE,
    T_ENGINE,
    T_INSTRUCTION,
    TRANSFER,
)


@njit(cache=True, small=2000)
def line_up(form, core, start, times, lists, queues, forms, transfers):
    """Put every instruction at its place, and every transfer on its row.

    form  : int32[n]; core: int16[n]; start: int64[n + 1], CSR of the predecessors
    times, lists, queues, transfers : zeros at the call
    """
    streams = 0
    for q in range(queues.shape[0]):
        streams += 1 if queues[q, Q_CORE] == 0 else 0
    for i in range(len(form)):
        queues[core[i] * streams + forms[form[i], F_STREAM], Q_LENGTH] += 1
    base = len(form) + 1
    for q in range(queues.shape[0]):
        queues[q, Q_BASE] = base
        base += queues[q, Q_LENGTH]
        queues[q, Q_LENGTH] = 0
    t = 0
    for i in range(len(form)):
        row = form[i] + 0
        q = core[i] * streams + forms[row, F_STREAM]
        place = queues[q, Q_LENGTH]
        queues[q, Q_LENGTH] = place + 1
        lists[queues[q, Q_BASE] + place] = i
        times[i, LINK] = NONE
        times[i, START] = ~place
        times[i, FREED] = q + (row << FORM)
        times[i, DONE] = start[i + 1] - start[i]
        if forms[row, F_DMA]:
            times[i, FREED] += t << TRANSFER
            transfers[T_INSTRUCTION, t] = i
            transfers[T_CORE, t] = core[i]
            t += 1


@njit(cache=True, small=2000)
def turn(start, predecessor, kind, gate, lists):
    """Turn predecessors into successors: where those of each instruction begin, and they themselves.

    start : int64[n + 1], predecessor: int32[e], CSR; kind, gate: int8[e]; the first n + 1 of `lists` are 0 at the call
    """
    n = len(start) - 1
    for e in range(len(predecessor)):
        lists[predecessor[e]] += 1
    lists[0] += 2 * n + 1
    for i in range(n):
        lists[i + 1] += lists[i]
    for i in range(n - 1, -1, -1):
        for e in range(start[i + 1] - 1, start[i] - 1, -1):
            j = predecessor[e]
            at = lists[j] - 1
            lists[j] = at
            lists[at] = i * 16 + int(kind[e]) + 4 * int(gate[e])


@njit(cache=True, small=18000)
def spread(operands, operand_start, partition, pitch, forms, times, transfers, share, available):
    """Fill the DMA engine of each transfer's first partition; those between HBM and HBM take the engines in turn.

    operands  : int64[m, 3]; operand_start: int64[n + 1]; partition, pitch: int64[storages]
    share     : partitions that one of the `available` engines serves
    """
    turn_ = 0
    for t in range(transfers.shape[1]):
        i = transfers[T_INSTRUCTION, t]
        row = times[i, FREED] >> FORM & FORMS
        side = forms[row, F_SIDE]
        if side < 0:
            first = turn_
            turn_ = (turn_ + forms[row, F_ENGINES]) % available
        else:
            operand = operand_start[i] + side
            storage, offset = operands[operand, 0], operands[operand, 1]
            first = partition[storage] + 0
            if offset >= pitch[storage]:
                first += offset // pitch[storage]
            first //= share
        while first >= available:
            first -= available
        transfers[T_ENGINE, t] = first
