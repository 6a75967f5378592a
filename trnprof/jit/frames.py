"""Levels of detail of one lane of a timeline, as scalar loops.

A lane is `rows`, indices in order of start into the columns `start`, `end` (int64 ps) and `flags` (uint8: WORK,
WASTE). `fine` and `coarse` are int64 [blocks, FIELDS]: what 16 and 256 consecutive rows come to, so that a scan reads
whole blocks where the screen cannot tell their rows apart. The answer is the same as without them.
"""

import numpy as np

from sim.jit import njit

FINE = 16
COARSE = 256

WORK = 1
WASTE = 2

# Fields of a block.
END_WORK = 0
END_OTHER = 1
REACH_WORK = 2
"""Latest end of the rows of this class before the block."""
REACH_OTHER = 3
BUSY_WORK = 4
"""What the block adds to the union of its class."""
BUSY_OTHER = 5
COUNT_WORK = 6
LONGEST = 7
"""Index into `rows` of the longest row; work before the rest."""
MAX_BODY = 8
BUSY_WASTE = 9
MAX_GAP = 10
RANK = 11
"""Of the longest row, as `rank` gives it."""
FIRST_START = 12
LAST_START = 13
FIELDS = 14

# Fields of a mark, the unit of a frame.
MARK_START = 0
MARK_END = 1
MARK_BODY = 2
"""End of the part that no later row covers."""
MARK_ROW = 3
MARK_COUNT = 4
MARK_BUSY = 5
MARK_LONGEST = 6
MARK_FLAGS = 7
MARKS = 8

LONE_BUCKETS = 2
CELL_BUCKETS = 4
"""A row whose body spans LONE_BUCKETS is a mark of its own; smaller ones gather in cells of CELL_BUCKETS."""

FAR = 1 << 62
"""Later than any time, without overflow when a length is added."""


@njit(cache=True)
def body_end(start, end, flags, rows, fine, i):
    """End of row i's body: its own end, or the start of the first later row of at least its class that outlasts it.

    Blocks whose latest end lies before row i's are skipped. With `fine` of no rows, none are.
    """
    stop = end[rows[i]]
    work = flags[rows[i]] & WORK
    j = i + 1
    while j < rows.size and start[rows[j]] < stop:
        if j % FINE == 0 and fine.shape[0] > 0:
            latest = fine[j // FINE, END_WORK]
            if not work and fine[j // FINE, END_OTHER] > latest:
                latest = fine[j // FINE, END_OTHER]
            if latest < stop:
                j += FINE
                continue
        if end[rows[j]] >= stop and (flags[rows[j]] & WORK or not work):
            return start[rows[j]]
        j += 1
    return stop


@njit(cache=True)
def build(start, end, flags, rows, fine):
    """Fill the blocks of FINE rows, except MAX_BODY, which needs them."""
    reach_work = -FAR
    reach_other = -FAR
    for i in range(rows.size):
        b = i // FINE
        if i % FINE == 0:
            fine[b, END_WORK] = -FAR
            fine[b, END_OTHER] = -FAR
            fine[b, REACH_WORK] = reach_work
            fine[b, REACH_OTHER] = reach_other
            fine[b, BUSY_WORK:] = 0
            fine[b, LONGEST] = i
            fine[b, RANK] = -1
            fine[b, FIRST_START] = start[rows[i]]
        row = rows[i]
        fine[b, LAST_START] = start[row]
        low = start[row]
        high = end[row]
        gap = low - max(reach_work, reach_other)
        if gap < FAR // 2 and gap > fine[b, MAX_GAP]:
            fine[b, MAX_GAP] = gap
        work = flags[row] & WORK
        reach = reach_work if work else reach_other
        fresh = max(np.int64(0), high - max(low, reach))
        if work:
            reach_work = max(reach_work, high)
            fine[b, END_WORK] = max(fine[b, END_WORK], high)
            fine[b, BUSY_WORK] += fresh
            fine[b, COUNT_WORK] += 1
            if flags[row] & WASTE:
                fine[b, BUSY_WASTE] += fresh
        else:
            reach_other = max(reach_other, high)
            fine[b, END_OTHER] = max(fine[b, END_OTHER], high)
            fine[b, BUSY_OTHER] += fresh
        if rank(start, end, flags, row) > fine[b, RANK]:
            fine[b, RANK] = rank(start, end, flags, row)
            fine[b, LONGEST] = i


@njit(cache=True)
def rank(start, end, flags, row):
    """How well a row stands for its cluster: work before the rest, then by length."""
    length = end[row] - start[row]
    return length + FAR if flags[row] & WORK else length


@njit(cache=True)
def measure_bodies(start, end, flags, rows, fine):
    """Fill MAX_BODY of every block."""
    for i in range(rows.size):
        body = body_end(start, end, flags, rows, fine, i) - start[rows[i]]
        if body > fine[i // FINE, MAX_BODY]:
            fine[i // FINE, MAX_BODY] = body


@njit(cache=True)
def coarsen(fine, coarse):
    """Fill the blocks of COARSE rows from those of FINE rows."""
    step = COARSE // FINE
    for b in range(fine.shape[0]):
        c = b // step
        if b % step == 0:
            coarse[c] = fine[b]
            continue
        for field in (END_WORK, END_OTHER, MAX_BODY, MAX_GAP):
            coarse[c, field] = max(coarse[c, field], fine[b, field])
        for field in (BUSY_WORK, BUSY_OTHER, COUNT_WORK, BUSY_WASTE):
            coarse[c, field] += fine[b, field]
        coarse[c, LAST_START] = fine[b, LAST_START]
        if fine[b, RANK] > coarse[c, RANK]:
            coarse[c, RANK] = fine[b, RANK]
            coarse[c, LONGEST] = fine[b, LONGEST]


@njit(cache=True)
def last_reached(blocks, low, high, t0):
    """The last of the blocks [low, high) before which no row ends after t0; `low` is one.

    The first row that ends after t0 is in it, or in none.
    """
    while high - low > 1:
        middle = (low + high) // 2
        if max(blocks[middle, REACH_WORK], blocks[middle, REACH_OTHER]) <= t0:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True)
def first_reaching(end, rows, coarse, fine, t0):
    """Index of the first row that ends after t0; rows.size when none does."""
    step = COARSE // FINE
    c = last_reached(coarse, 0, coarse.shape[0], t0)
    i = last_reached(fine, c * step, min((c + 1) * step, fine.shape[0]), t0) * FINE
    while i < rows.size and end[rows[i]] <= t0:
        i += 1
    return i


@njit(cache=True)
def whole_block(blocks, size, i, rows, window, limit):
    """Whether rows [i, i + size) start inside the window, in one cell, with no body to be drawn alone.

    limit : the end of the cell that is open, if one is; before it, no division is needed to tell
    """
    block = blocks[i // size]
    if i + size > rows or block[MAX_BODY] >= LONE_BUCKETS * window[2]:
        return False
    low = block[FIRST_START]
    high = block[LAST_START]
    if low <= window[0] or high >= window[1]:
        return False
    if low < limit:
        return high < limit
    cell = CELL_BUCKETS * window[2]
    return high - low < cell and low // cell == high // cell


@njit(cache=True)
def scan(start, end, flags, rows, fine, coarse, window, marks):
    """Write the marks of a lane in the window [t0, t1, bucket], ps, and return how many.

    A row whose body spans LONE_BUCKETS is a mark of its own, at most one for each bucket that bodies start in; rows
    between gather in cells of CELL_BUCKETS, aligned to time 0, and a cluster of one is that row. BUSY of a cluster is
    the union of its work (of all its rows when none is work) inside its span, which ends with its cell. A row whose
    body ends before t0 is left out: later rows cover it.
    """
    t0, t1, bucket = window[0], window[1], window[2]
    state = np.zeros(10, np.int64)
    i = first_reaching(end, rows, coarse, fine, t0)
    lone_bucket = -FAR
    filled = 0
    if i < rows.size:
        state[0], state[1] = reaches(end, flags, rows, fine, i)
    while i < rows.size and start[rows[i]] < t1:
        size = 0
        limit = state[9] if state[2] else -FAR
        if i % COARSE == 0 and whole_block(coarse, COARSE, i, rows.size, window, limit):
            size = COARSE
        elif i % FINE == 0 and whole_block(fine, FINE, i, rows.size, window, limit):
            size = FINE
        if size:
            block = coarse[i // COARSE] if size == COARSE else fine[i // FINE]
            if state[2] == 0 or block[FIRST_START] >= state[9]:
                filled = close_cell(start, end, flags, rows, fine, marks, filled, state)
                open_cell(block[FIRST_START], window, marks[filled], state, i)
            gather(marks[filled], state, size, block)
            i += size
            continue
        row = rows[i]
        # A row that is too short to stand alone needs no body, which later rows tell.
        if start[row] > t0 and end[row] - start[row] < LONE_BUCKETS * bucket:
            if state[2] == 0 or start[row] >= state[9]:
                filled = close_cell(start, end, flags, rows, fine, marks, filled, state)
                open_cell(start[row], window, marks[filled], state, i)
            gather_row(start, end, flags, rows, marks[filled], state, i)
            i += 1
            continue
        body = body_end(start, end, flags, rows, fine, i)
        at = max(start[row], t0) // bucket
        if body <= t0:
            reach_on(start, end, flags, row, state)
        elif body - start[row] >= LONE_BUCKETS * bucket and at != lone_bucket:
            lone_bucket = at
            filled = close_cell(start, end, flags, rows, fine, marks, filled, state)
            lone_mark(start, end, flags, row, body, marks[filled])
            reach_on(start, end, flags, row, state)
            filled += 1
        else:
            if state[2] == 0 or max(start[row], t0) >= state[9]:
                filled = close_cell(start, end, flags, rows, fine, marks, filled, state)
                open_cell(start[row], window, marks[filled], state, i)
            gather_row(start, end, flags, rows, marks[filled], state, i)
        i += 1
    return close_cell(start, end, flags, rows, fine, marks, filled, state)


@njit(cache=True)
def lone_mark(start, end, flags, row, body, mark):
    """Write one row as a mark."""
    mark[MARK_START] = start[row]
    mark[MARK_END] = end[row]
    mark[MARK_BODY] = body
    mark[MARK_ROW] = row
    mark[MARK_COUNT] = 1
    mark[MARK_BUSY] = end[row] - start[row]
    mark[MARK_LONGEST] = row
    mark[MARK_FLAGS] = flags[row]


# state: 0 reach of work, 1 reach of the rest, 2 rows in the open cluster, 3 its work rows,
#        4 union of its work, 5 union of the rest, 6 union of its waste, 7 index of its longest row, 8 that row's rank,
#        9 end of its cell


@njit(cache=True)
def reaches(end, flags, rows, fine, i):
    """Latest end of work and of the rest before row i."""
    work = fine[i // FINE, REACH_WORK]
    other = fine[i // FINE, REACH_OTHER]
    for j in range(i - i % FINE, i):
        if flags[rows[j]] & WORK:
            work = max(work, end[rows[j]])
        else:
            other = max(other, end[rows[j]])
    return work, other


@njit(cache=True)
def reach_on(start, end, flags, row, state):
    """Let the row extend the union of its class; returns by how much."""
    k = 0 if flags[row] & WORK else 1
    fresh = max(np.int64(0), end[row] - max(start[row], state[k]))
    state[k] = max(state[k], end[row])
    return fresh


@njit(cache=True)
def open_cell(begin, window, mark, state, i):
    """Begin a cluster in the cell in which row i begins or enters the window."""
    low = max(begin, window[0])
    cell = CELL_BUCKETS * window[2]
    mark[MARK_START] = begin
    mark[MARK_END] = low
    state[9] = (low // cell + 1) * cell
    state[2] = 0
    state[3] = 0
    state[4] = max(np.int64(0), state[0] - begin)
    state[5] = max(np.int64(0), state[1] - begin)
    state[6] = 0
    state[7] = i
    state[8] = -1


@njit(cache=True)
def gather(mark, state, size, block):
    """Add a whole block to the open cluster."""
    mark[MARK_END] = max(mark[MARK_END], block[END_WORK], block[END_OTHER])
    state[0] = max(state[0], block[END_WORK])
    state[1] = max(state[1], block[END_OTHER])
    state[2] += size
    state[3] += block[COUNT_WORK]
    state[4] += block[BUSY_WORK]
    state[5] += block[BUSY_OTHER]
    state[6] += block[BUSY_WASTE]
    if block[RANK] > state[8]:
        state[7] = block[LONGEST]
        state[8] = block[RANK]


@njit(cache=True)
def gather_row(start, end, flags, rows, mark, state, i):
    """Add one row to the open cluster."""
    row = rows[i]
    mark[MARK_END] = max(mark[MARK_END], end[row])
    fresh = reach_on(start, end, flags, row, state)
    state[2] += 1
    if flags[row] & WORK:
        state[3] += 1
        state[4] += fresh
        if flags[row] & WASTE:
            state[6] += fresh
    else:
        state[5] += fresh
    if rank(start, end, flags, row) > state[8]:
        state[7] = i
        state[8] = rank(start, end, flags, row)


@njit(cache=True)
def close_cell(start, end, flags, rows, fine, marks, filled, state):
    """Finish the open cluster, if there is one; returns the marks filled."""
    if state[2] == 0:
        return filled
    mark = marks[filled]
    work = state[3] > 0
    mark[MARK_ROW] = -1
    mark[MARK_LONGEST] = rows[state[7]]
    mark[MARK_COUNT] = state[2]
    mark[MARK_FLAGS] = WORK if work else 0
    if work and 2 * state[6] > state[4]:
        mark[MARK_FLAGS] |= WASTE
    if state[2] == 1:
        mark[MARK_ROW] = rows[state[7]]
        mark[MARK_FLAGS] = flags[rows[state[7]]]
        mark[MARK_BUSY] = mark[MARK_END] - mark[MARK_START]
        mark[MARK_BODY] = body_end(start, end, flags, rows, fine, state[7])
    else:
        limit = state[9]
        # All rows start before the limit, so what the union has beyond it is one stretch.
        reach = state[0] if work else state[1]
        busy = state[4] if work else state[5]
        mark[MARK_BUSY] = max(np.int64(0), busy - max(np.int64(0), reach - limit))
        mark[MARK_END] = min(mark[MARK_END], limit)
        mark[MARK_BODY] = mark[MARK_END]
    state[2] = 0
    return filled + 1


@njit(cache=True)
def gaps(start, end, flags, rows, fine, coarse, window, out):
    """Write [start, end, row after] of the idle times in the window [t0, t1, shortest, origin], and return how many.

    Before the first row, the lane idles since the origin.
    """
    t0, t1, shortest, origin = window[0], window[1], window[2], window[3]
    filled = 0
    i = first_reaching(end, rows, coarse, fine, t0)
    if i >= rows.size:
        return 0
    work, other = reaches(end, flags, rows, fine, i)
    reach = max(work, other, origin)
    while i < rows.size and reach < t1:
        size = 0
        if i and i % COARSE == 0 and i + COARSE <= rows.size and coarse[i // COARSE, MAX_GAP] < shortest:
            size = COARSE
        elif i and i % FINE == 0 and i + FINE <= rows.size and fine[i // FINE, MAX_GAP] < shortest:
            size = FINE
        if size:
            block = coarse[i // COARSE] if size == COARSE else fine[i // FINE]
            reach = max(reach, block[END_WORK], block[END_OTHER])
            i += size
            continue
        row = rows[i]
        if start[row] - reach >= shortest and start[row] > t0:
            out[filled, 0] = reach
            out[filled, 1] = start[row]
            out[filled, 2] = row
            filled += 1
        reach = max(reach, end[row])
        i += 1
    return filled


@njit(cache=True)
def column_of(block, window, reach, width, columns):
    """The column in which all lies that a block adds to the union of work; -1 where it lies in several."""
    t0 = window[0]
    if block[FIRST_START] < t0:
        return -1
    column = min(int((max(block[FIRST_START], reach) - t0) / width), columns - 1)
    return column if block[END_WORK] - t0 <= (column + 1) * width else -1


@njit(cache=True)
def coverage(start, end, flags, rows, fine, coarse, window, out):
    """Add to out[c] how many ps of column c the work of a lane covers; window is [t0, t1], out float64 [columns]."""
    t0, t1 = window[0], window[1]
    width = (t1 - t0) / out.size
    reach = t0
    i = first_reaching(end, rows, coarse, fine, t0)
    while i < rows.size and start[rows[i]] < t1:
        if i % FINE == 0:
            block = fine[i // FINE]
            size = FINE
            column = column_of(block, window, reach, width, out.size)
            if i % COARSE == 0 and column >= 0:
                whole = column_of(coarse[i // COARSE], window, reach, width, out.size)
                if whole >= 0:
                    block = coarse[i // COARSE]
                    size = COARSE
            if column >= 0:
                out[column] += block[BUSY_WORK]
                reach = max(reach, block[END_WORK])
                i += size
                continue
        row = rows[i]
        i += 1
        low = max(start[row], reach)
        high = min(end[row], t1)
        if not flags[row] & WORK or high <= low:
            continue
        reach = high
        spread(float(low - t0), float(high - t0), width, out)


@njit(cache=True)
def spread(low, high, width, out):
    """Add the length of [low, high) to the columns of the given width that it touches."""
    c = int(low / width)
    while low < high and c < out.size:
        edge = min(high, (c + 1) * width)
        out[c] += max(0.0, edge - low)
        low = max(low, edge)
        c += 1


@njit(cache=True, small=2000)
def lanes(start, end, floor, limit, out):
    """Give each interval the first lane, not below its floor, that is free at its start; the last lane takes the rest.

    start, end : int64, sorted by start;  floor, out : int32;  limit : lanes at most
    """
    free = np.full(limit, -FAR)
    used = 0
    for i in range(len(start)):
        lane = min(floor[i], limit - 1)
        while lane < limit - 1 and free[lane] > start[i]:
            lane += 1
        free[lane] = max(free[lane], end[i])
        out[i] = lane
        used = max(used, lane + 1)
    return used


@njit(cache=True)
def charge(start, end, first, window, out):
    """Cut the window [t0, t1] into stretches, each charged to the first class that is active; returns how many.

    start, end : of all classes, int64; class k's are first[k] to first[k + 1], sorted and apart
    out        : int64 [stretches, 3]: start, end, class; the number of classes where none is active
    """
    classes = first.size - 1
    at = first[:-1].copy()
    now = window[0]
    filled = 0
    while now < window[1]:
        until = window[1]
        active = classes
        for k in range(classes):
            while at[k] < first[k + 1] and end[at[k]] <= now:
                at[k] += 1
            if at[k] == first[k + 1]:
                continue
            if start[at[k]] <= now:
                active = k
                until = min(until, end[at[k]])
                break
            until = min(until, start[at[k]])
        if filled and out[filled - 1, 2] == active:
            out[filled - 1, 1] = until
        else:
            out[filled, 0] = now
            out[filled, 1] = until
            out[filled, 2] = active
            filled += 1
        now = until
    return filled
