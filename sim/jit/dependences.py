"""Which instruction must wait for which, by the bytes that they touch, as scalar loops.

The last accesses to a memory are kept as nodes of linked lists. A node is a set of bytes of one access that no later
write has covered: partitions [P0, P1), and of the bytes [LOW, HIGH) those b with (b - PHASE) % PERIOD < WIDTH.
A group (a storage, or storages that the kernel laid over one another) has one list of writes and one of reads for each
of its cells, equal slices of its bytes; nodes are cut at the borders of cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

READ = 0
WRITE = 1
ACCUMULATE = 2

# EdgeKind
FLOW = 0
ANTI = 1
OUTPUT = 2
ORDER = 3

# Gates: what of the predecessor must be over, strongest first.
COMPLETION = 0
SAME = 1
ISSUE = 2

# Fields of a node, and of a box without the first two.
NEXT = 0
INSTRUCTION = 1
P0 = 2
P1 = 3
LOW = 4
HIGH = 5
PHASE = 6
PERIOD = 7
WIDTH = 8
FLAGS = 9
FIELDS = 10

# Flags of a node.
INHERITED = 1
"""Belongs to a storage that lay here before."""
SEEN = 2
"""A later read covers this write: who waits for the read need not wait for the write."""

# Columns of the layout table.
L_BELOW_P = 0
"""Partitions below the one that the offset names (negative steps)."""
L_EXTENT = 1
L_BELOW = 2
"""Bytes below the offset."""
L_SPAN = 3
L_PERIOD = 4
L_WIDTH = 5
L_SOLID = 6
"""Whether every byte of the footprint is touched."""
L_COLUMNS = 7

# Columns of the storage table.
S_GROUP = 0
"""-1 for a storage that nobody need wait for."""
S_PITCH = 1
S_PARTITION = 2
S_LOW = 3
S_HIGH = 4
S_GIVEN = 5
"""Holds data before the kernel starts."""
S_COLUMNS = 6

# Columns of the group table.
G_LOW = 0
G_CELL = 1
"""First of its cells."""
G_CELLS = 2
G_CELL_BYTES = 3
G_COLUMNS = 4

# State counters.
FREE = 0
NODES = 1
EDGES = 2
FULL = 3
COUNTERS = 4


class Tables(NamedTuple):
    """What is known before: operands of all instructions, the tables that they index, who lay where before."""

    operand_start: np.ndarray
    operands: np.ndarray
    roles: np.ndarray
    slot: np.ndarray
    """Engine x core of each instruction; bitwise complement for a DMA trigger."""
    tensor: np.ndarray
    """Whether TensorE runs it."""
    layouts: np.ndarray
    storages: np.ndarray
    before_start: np.ndarray
    before: np.ndarray
    """Storages that lay at the bytes of a storage last, CSR."""


class State(NamedTuple):
    """What is kept on the way."""

    groups: np.ndarray
    writes: np.ndarray
    """First node of each cell, -1 for none."""
    reads: np.ndarray
    nodes: np.ndarray
    counters: np.ndarray
    born: np.ndarray
    """Whether a storage has been accessed."""
    edge_to: np.ndarray
    """Edge of the current instruction to each predecessor, if it is not older."""
    unwritten: np.ndarray
    """Per instruction: storage that it reads before anything wrote these bytes, -1 for none."""
    start: np.ndarray
    predecessor: np.ndarray
    code: np.ndarray
    """kind + 4 * gate + 16 * reuse."""


@njit(cache=True)
def locate(tables, k, box):
    """Fill the box of operand k; returns its group."""
    storage = tables.operands[k, 0]
    offset = tables.operands[k, 1]
    layout = tables.layouts[tables.operands[k, 2]]
    row = tables.storages[storage]
    partition, byte = 0, offset
    if row[S_PITCH] > 0:
        partition = offset // row[S_PITCH]
        byte = offset - partition * row[S_PITCH]
    box[P0] = row[S_PARTITION] + partition - layout[L_BELOW_P]
    box[P1] = box[P0] + layout[L_EXTENT]
    box[LOW] = row[S_LOW] + byte - layout[L_BELOW]
    box[HIGH] = box[LOW] + layout[L_SPAN]
    box[PERIOD] = layout[L_PERIOD]
    box[WIDTH] = layout[L_WIDTH]
    box[PHASE] = box[LOW]
    box[FLAGS] = layout[L_SOLID]
    return row[S_GROUP]


@njit(cache=True)
def meets(box, node):
    """Whether two sets of bytes meet; exact unless both have holes of different periods."""
    low, high = max(box[LOW], node[LOW]), min(box[HIGH], node[HIGH])
    if low >= high or box[P0] >= node[P1] or node[P0] >= box[P1]:
        return False
    if box[WIDTH] >= box[PERIOD]:
        box, node = node, box
    if box[WIDTH] >= box[PERIOD]:
        return True
    if node[WIDTH] >= node[PERIOD]:
        ahead = (low - box[PHASE]) % box[PERIOD]
        return ahead < box[WIDTH] or ahead + high - low > box[PERIOD]
    if box[PERIOD] != node[PERIOD]:
        return True
    ahead = (node[PHASE] - box[PHASE]) % box[PERIOD]
    return ahead < box[WIDTH] or box[PERIOD] - ahead < node[WIDTH]


@njit(cache=True)
def fills(box, node):
    """Whether a box without holes in its windows has every byte of the node that lies within its bounds."""
    if box[WIDTH] >= box[PERIOD]:
        return True
    if node[WIDTH] >= node[PERIOD]:
        low, high = max(box[LOW], node[LOW]), min(box[HIGH], node[HIGH])
        return (low - box[PHASE]) % box[PERIOD] + high - low <= box[WIDTH]
    if box[PERIOD] != node[PERIOD]:
        return False
    return (node[PHASE] - box[PHASE]) % box[PERIOD] + node[WIDTH] <= box[WIDTH]


@njit(cache=True)
def link(state, lists, cell, box, low, high, instruction, flags):
    """Add a node for the part [low, high) of a box."""
    node = state.counters[FREE]
    if node >= 0:
        state.counters[FREE] = state.nodes[node, NEXT]
    else:
        node = state.counters[NODES]
        if node == state.nodes.shape[0]:
            state.counters[FULL] = 1
            return
        state.counters[NODES] += 1
    row = state.nodes[node]
    for field in range(P0, FLAGS):
        row[field] = box[field]
    row[LOW] = low
    row[HIGH] = high
    row[INSTRUCTION] = instruction
    row[FLAGS] = flags
    row[NEXT] = lists[cell]
    lists[cell] = node


@njit(cache=True)
def add_edge(tables, state, i, predecessor, kind, role, reuse):
    """Note that instruction i waits for a predecessor; of several reasons the first kind and the strongest gate stay."""
    ours, theirs = tables.slot[i], tables.slot[predecessor]
    same = theirs >= 0 and (ours == theirs or ~ours == theirs)
    gate = COMPLETION
    if same:
        gate = SAME if kind == FLOW else ISSUE
    if role == ACCUMULATE and kind == FLOW and same and tables.tensor[predecessor]:
        kind, gate = ORDER, ISSUE
    edge = state.edge_to[predecessor]
    if edge >= state.start[i]:
        known = state.code[edge]
        gate = min(gate, (known >> 2) & 3)
        if known & 3 <= kind:
            kind, reuse = known & 3, known >> 4
        state.code[edge] = kind + 4 * gate + 16 * reuse
        return
    edge = state.counters[EDGES]
    if edge == state.predecessor.size:
        state.counters[FULL] = 2
        return
    state.counters[EDGES] += 1
    state.edge_to[predecessor] = edge
    state.predecessor[edge] = predecessor
    state.code[edge] = kind + 4 * gate + 16 * reuse


@njit(cache=True)
def visit(tables, state, i, role, box, first, last):
    """Find what instruction i must wait for in these cells; whether it met a write of its own group."""
    found = False
    for cell in range(first, last):
        node = state.writes[cell]
        while node >= 0:
            row = state.nodes[node]
            if meets(box, row):
                inherited = row[FLAGS] & INHERITED
                if not inherited:
                    found = True
                if role == WRITE or inherited:
                    if role != READ and not row[FLAGS] & SEEN:
                        add_edge(tables, state, i, row[INSTRUCTION], OUTPUT, role, inherited)
                else:
                    add_edge(tables, state, i, row[INSTRUCTION], FLOW, role, 0)
            node = row[NEXT]
        node = state.reads[cell] if role != READ else -1
        while node >= 0:
            row = state.nodes[node]
            if meets(box, row):
                add_edge(tables, state, i, row[INSTRUCTION], ANTI, role, row[FLAGS] & INHERITED)
            node = row[NEXT]
    return found


@njit(cache=True)
def cut(state, lists, cell, box, low, high):
    """Take from the nodes of a list what the part [low, high) of a written box covers."""
    before, node = -1, lists[cell]
    while node >= 0:
        row = state.nodes[node]
        after = row[NEXT]
        hit = row[LOW] < high and low < row[HIGH] and row[P0] < box[P1] and box[P0] < row[P1] and fills(box, row)
        gone = False
        if hit and box[P0] <= row[P0] and row[P1] <= box[P1]:
            if row[LOW] < low and high < row[HIGH]:
                link(state, lists, cell, row, high, row[HIGH], row[INSTRUCTION], row[FLAGS])
                if before < 0:
                    before = lists[cell]
                row[HIGH] = low
            elif row[LOW] < low:
                row[HIGH] = low
            elif high < row[HIGH]:
                row[LOW] = high
            else:
                gone = True
        elif hit and low <= row[LOW] and row[HIGH] <= high:
            if box[P0] <= row[P0]:
                row[P0] = box[P1]
            elif row[P1] <= box[P1]:
                row[P1] = box[P0]
        if gone:
            if before < 0:
                lists[cell] = after
            else:
                state.nodes[before, NEXT] = after
            row[NEXT] = state.counters[FREE]
            state.counters[FREE] = node
        else:
            before = node
        node = after


@njit(cache=True)
def mark_seen(state, cell, box, low, high):
    """Mark the writes that a read without holes covers."""
    node = state.writes[cell]
    while node >= 0:
        row = state.nodes[node]
        inside = low <= row[LOW] and row[HIGH] <= high and box[P0] <= row[P0] and row[P1] <= box[P1]
        if inside and not row[FLAGS] & INHERITED and fills(box, row):
            row[FLAGS] |= SEEN
        node = row[NEXT]


@njit(cache=True)
def keep(state, i, role, box, group, first, last):
    """Enter an access of instruction i into the lists of its cells."""
    row = state.groups[group]
    for cell in range(first, last):
        begin = row[G_LOW] + (cell - row[G_CELL]) * row[G_CELL_BYTES]
        low, high = max(box[LOW], begin), min(box[HIGH], begin + row[G_CELL_BYTES])
        if role == READ:
            if box[FLAGS]:
                mark_seen(state, cell, box, low, high)
            link(state, state.reads, cell, box, low, high, i, 0)
        else:
            if box[FLAGS]:
                cut(state, state.writes, cell, box, low, high)
                cut(state, state.reads, cell, box, low, high)
            link(state, state.writes, cell, box, low, high, i, 0)


@njit(cache=True)
def inherit(tables, state, lists, storage, old, everything):
    """Hand the accesses that a storage finds at its bytes over from the group of an old storage to its own.

    everything : int64[FIELDS], a box over all partitions, scratch
    """
    owner = tables.storages[storage]
    row, source = state.groups[owner[S_GROUP]], state.groups[tables.storages[old, S_GROUP]]
    for cell in range(source[G_CELL], source[G_CELL] + source[G_CELLS]):
        node = lists[cell]
        while node >= 0:
            item = state.nodes[node]
            low, high = max(item[LOW], owner[S_LOW]), min(item[HIGH], owner[S_HIGH])
            if low < high:
                first = (low - row[G_LOW]) // row[G_CELL_BYTES]
                last = (high - 1 - row[G_LOW]) // row[G_CELL_BYTES]
                for target in range(first, last + 1):
                    begin = row[G_LOW] + target * row[G_CELL_BYTES]
                    left, right = max(low, begin), min(high, begin + row[G_CELL_BYTES])
                    flags = item[FLAGS] | INHERITED
                    link(state, lists, row[G_CELL] + target, item, left, right, item[INSTRUCTION], flags)
            node = item[NEXT]
        cut(state, lists, cell, everything, owner[S_LOW], owner[S_HIGH])


@njit(cache=True)
def settle(tables, state, storage, everything):
    """At the first access to a storage, take over what is left of those that lay at its bytes."""
    state.born[storage] = True
    for b in range(tables.before_start[storage], tables.before_start[storage + 1]):
        old = tables.before[b]
        if tables.storages[old, S_GROUP] != tables.storages[storage, S_GROUP]:
            inherit(tables, state, state.writes, storage, old, everything)
            inherit(tables, state, state.reads, storage, old, everything)


@njit(cache=True)
def find(tables, state, box, everything):
    """Fill the edges of all instructions; 0, or what ran full: 1 the nodes, 2 the edges.

    box        : int64[FIELDS], scratch
    everything : int64[FIELDS], a box without holes over all partitions
    """
    instructions = tables.operand_start.size - 1
    for i in range(instructions):
        state.start[i] = state.counters[EDGES]
        for step in range(3):
            for k in range(tables.operand_start[i], tables.operand_start[i + 1]):
                role = tables.roles[k]
                storage = tables.operands[k, 0]
                if tables.storages[storage, S_GROUP] < 0 or (step > 0 and (role == READ) != (step == 1)):
                    continue
                if not state.born[storage]:
                    settle(tables, state, storage, everything)
                group = locate(tables, k, box)
                row = state.groups[group]
                first = row[G_CELL] + (box[LOW] - row[G_LOW]) // row[G_CELL_BYTES]
                last = row[G_CELL] + (box[HIGH] - 1 - row[G_LOW]) // row[G_CELL_BYTES] + 1
                if step > 0:
                    keep(state, i, role, box, group, first, last)
                    continue
                found = visit(tables, state, i, role, box, first, last)
                if role != WRITE and not found and tables.storages[storage, S_GIVEN] == 0 and state.unwritten[i] < 0:
                    state.unwritten[i] = storage
        if state.counters[FULL]:
            return state.counters[FULL]
    state.start[instructions] = state.counters[EDGES]
    return 0


@njit(cache=True)
def occupants(low, high, order, start, before):
    """Fill, CSR, the intervals that lay last at the bytes of each interval; the number of entries, or -1 when full.

    low, high : int64[s], bytes; order: int64[o], the intervals by first access
    start     : int64[o + 1] by place in `order`; before: int64[room]
    """
    spans = np.empty((2 * order.size + 2, 3), np.int64)
    count, filled = 0, 0
    for place in range(order.size):
        start[place] = filled
        a, b = low[order[place]], high[order[place]]
        k = np.searchsorted(spans[:count, 1], a, side="right")
        j = k
        while j < count and spans[j, 0] < b:
            if filled == before.size:
                return -1
            before[filled] = spans[j, 2]
            filled += 1
            j += 1
        count = overlay(spans, count, k, j, a, b, order[place])
    start[order.size] = filled
    return filled


@njit(cache=True)
def overlay(spans, count, k, j, low, high, owner):
    """Lay an interval over the spans k to j, of which the ends stick out; returns the new count.

    spans : int64[room, 3] (low, high, owner), disjoint, ascending
    """
    left = k < j and spans[k, 0] < low
    right = k < j and spans[j - 1, 1] > high
    left_low, left_owner = spans[k, 0], spans[k, 2]
    right_high, right_owner = spans[j - 1, 1], spans[j - 1, 2]
    shift = 1 + int(left) + int(right) - (j - k)
    if shift > 0:
        for m in range(count - 1, j - 1, -1):
            spans[m + shift] = spans[m]
    elif shift < 0:
        for m in range(j, count):
            spans[m + shift] = spans[m]
    if left:
        spans[k, 0], spans[k, 1], spans[k, 2] = left_low, low, left_owner
        k += 1
    spans[k, 0], spans[k, 1], spans[k, 2] = low, high, owner
    if right:
        spans[k + 1, 0], spans[k + 1, 1], spans[k + 1, 2] = high, right_high, right_owner
    return count + shift
