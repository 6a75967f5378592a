"""What the event loop starts from: who stands where in which queue, who follows whom, as scalar loops.

The tables are those of `sim.jit.schedule`.
"""

from numba import njit

from sim.jit.schedule import (
    DONE,
    EDGE,
    F_DMA,
    F_ENGINES,
    F_SIDE,
    F_STREAM,
    FORM,
    FREED,
    Q_BASE,
    Q_CORE,
    Q_LENGTH,
    QUEUED,
    START,
    T_CORE,
    T_ENGINE,
    T_INSTRUCTION,
    TRANSFER,
)


@njit(cache=True)
def line_up(form, core, start, times, links, queues, forms, transfers):
    """Put every instruction at its place, and every transfer on its row.

    form  : int32[n]; core: int16[n]; start: int64[n + 1], CSR of the predecessors
    times, links, queues, transfers : zeros at the call
    """
    streams = 0
    for q in range(queues.shape[0]):
        streams += 1 if queues[q, Q_CORE] == 0 else 0
    for i in range(len(form)):
        queues[core[i] * streams + forms[form[i], F_STREAM], Q_LENGTH] += 1
    for q in range(1, queues.shape[0]):
        queues[q, Q_BASE] = queues[q - 1, Q_BASE] + queues[q - 1, Q_LENGTH]
    for q in range(queues.shape[0]):
        queues[q, Q_LENGTH] = 0
    t = 0
    for i in range(len(form)):
        row = form[i] + 0
        q = core[i] * streams + forms[row, F_STREAM]
        place = queues[q, Q_LENGTH]
        queues[q, Q_LENGTH] = place + 1
        links[QUEUED, queues[q, Q_BASE] + place] = i
        links[FORM, i] = row
        times[START, i] = ~place
        times[FREED, i] = q
        times[DONE, i] = start[i + 1] - start[i]
        if forms[row, F_DMA]:
            links[TRANSFER, i] = t
            transfers[T_INSTRUCTION, t] = i
            transfers[T_CORE, t] = core[i]
            t += 1


@njit(cache=True)
def turn(start, predecessor, kind, gate, links, edges):
    """Turn predecessors into successors: fill EDGE of all columns, and the edges.

    start : int64[n + 1], predecessor: int32[e], CSR; kind, gate: int8[e]; EDGE of n + 1 columns is 0 at the call
    """
    n = len(start) - 1
    for e in range(len(predecessor)):
        links[EDGE, predecessor[e]] += 1
    for i in range(n):
        links[EDGE, i + 1] += links[EDGE, i]
    for i in range(n - 1, -1, -1):
        for e in range(start[i + 1] - 1, start[i] - 1, -1):
            j = predecessor[e]
            at = links[EDGE, j] - 1
            links[EDGE, j] = at
            edges[at] = i * 16 + kind[e] + 4 * gate[e]


@njit(cache=True)
def spread(operands, operand_start, partition, pitch, forms, links, transfers, share, available):
    """Fill the DMA engine of each transfer's first partition; those between HBM and HBM take the engines in turn.

    operands  : int64[m, 3]; operand_start: int64[n + 1]; partition, pitch: int64[storages]
    share     : partitions that one of the `available` engines serves
    """
    turn_ = 0
    for t in range(transfers.shape[1]):
        i = transfers[T_INSTRUCTION, t]
        row = links[FORM, i] + 0
        side = forms[row, F_SIDE]
        if side < 0:
            first = turn_
            turn_ += forms[row, F_ENGINES]
        else:
            operand = operand_start[i] + side
            storage = operands[operand, 0]
            first = (partition[storage] + operands[operand, 1] // pitch[storage]) // share
        transfers[T_ENGINE, t] = first % available
