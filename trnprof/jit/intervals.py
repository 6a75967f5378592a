"""Sweeps over intervals that are sorted by start, as scalar loops."""

from sim.jit import njit

NEVER = -(1 << 63)


@njit(cache=True, small=20000)
def apart(start, end):
    """Whether intervals sorted by start neither overlap nor touch, and none is empty."""
    for i in range(len(start)):
        if end[i] <= start[i] or (i and start[i] <= end[i - 1]):
            return False
    return True


@njit(cache=True, small=20000)
def merge_sorted(start, end, out_start, out_end):
    kept = 0
    for i in range(len(start)):
        if end[i] <= start[i]:
            continue
        if kept and start[i] <= out_end[kept - 1]:
            if end[i] > out_end[kept - 1]:
                out_end[kept - 1] = end[i]
        else:
            out_start[kept] = start[i]
            out_end[kept] = end[i]
            kept += 1
    return kept


@njit(cache=True, small=20000)
def union_sorted(start, end):
    total, reach = 0, NEVER
    for i in range(len(start)):
        low = start[i] if start[i] > reach else reach
        if end[i] > low:
            total += end[i] - low
            reach = end[i]
    return total


@njit(cache=True, small=20000)
def lane_unions(start, end, lane, reach, totals):
    """Add to totals[lane] the length of each lane's union; -1 stands for a lane without intervals."""
    for i in range(len(start)):
        at = lane[i]
        if totals[at] < 0:
            totals[at] = 0
        low = start[i] if start[i] > reach[at] else reach[at]
        if end[i] > low:
            totals[at] += end[i] - low
            reach[at] = end[i]


@njit(cache=True, small=20000)
def overlap_merged(a_start, a_end, b_start, b_end, out_start, out_end):
    kept = 0
    a = 0
    b = 0
    while a < len(a_start) and b < len(b_start):
        low = a_start[a] if a_start[a] > b_start[b] else b_start[b]
        high = a_end[a] if a_end[a] < b_end[b] else b_end[b]
        if high > low:
            out_start[kept] = low
            out_end[kept] = high
            kept += 1
        if a_end[a] < b_end[b]:
            a += 1
        else:
            b += 1
    return kept
