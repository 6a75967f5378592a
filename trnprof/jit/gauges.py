"""Levels that follow from the rows of a lane, as scalar loops."""

from sim.jit import njit

OVERLAP = 8
"""Instructions of TensorE that run at the same time, at most: pipelined ones overlap by a few."""


@njit(cache=True)
def done(at, begun, start, end, rows, total, out):
    """Take from out what the rows that have begun by each moment still have to do, each spread evenly over its time.

    at, begun : int64 [moments], and how many rows of the lane have begun by then
    total     : int64 [rows of the lane + 1], what the rows before each come to;  out : float64 [moments]
    """
    for m in range(at.size):
        for k in range(begun[m] - 1, max(begun[m] - 1 - OVERLAP, -1), -1):
            row = rows[k]
            if end[row] > at[m]:
                left = (end[row] - at[m]) / max(end[row] - start[row], 1)
                out[m] -= min(left, 1.0) * (total[k + 1] - total[k])
