"""Which instruction must wait for which, by the bytes that they touch, as scalar loops.

The last accesses to a memory are kept as nodes of linked lists. A node is a set of bytes of one access that no later
write has covered: partitions [P0, P1), and of the bytes [LOW, HIGH) those b with (b - PHASE) % PERIOD < WIDTH.
A group (a storage, or storages that the kernel laid over one another) has one list of writes and one of reads for each
of its cells, equal slices of its bytes; nodes are cut at the borders of cells.

All arrays are int64 but `roles`, int8. Functions take `(instructions, operands, roles, layouts, storages, before,
heads, nodes, edges, counters)` or those of them that they need; the tables are described by their columns.

    before : storages that lay at the bytes of a storage last, one storage after the other
    heads  : [2, cells], first node of the writes and of the reads of each cell, -1 for none
    edges  : predecessor * 64 + kind + 4 * gate + 16 * reuse, one instruction after the other
"""

import numpy as np

from sim.jit import njit

BARE = {"_nrt": False}
"""All arrays outlive the call: references to them are not counted, which would cost a quarter of the time."""

INLINE = {**BARE, "forceinline": True}

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

# Rows of the instruction table, [rows, n + 1].
OPERAND = 0
"""First of its operands; the next column has the end."""
SLOT = 1
"""Its queue; bitwise complement for a DMA trigger."""
TENSOR = 2
"""Whether TensorE runs it."""
EDGE = 3
"""First of its edges; the next column has the end."""
EDGE_TO = 4
"""The last edge that was made to it."""
UNWRITTEN = 5
"""A storage that it reads before anything wrote these bytes, -1 for none."""
ROWS = 6

# Columns of the node table; row BOX is the operand at hand, EVERYTHING covers any node.
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
"""For BOX, whether every byte of the footprint is touched."""
COLUMNS = 10
BOX = 0
EVERYTHING = 1
RESERVED = 2

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

# Columns of the storage table; those from G_LOW on are of the group that has the storage's number.
S_GROUP = 0
"""-1 for a storage that nobody need wait for."""
S_PITCH = 1
S_PARTITION = 2
S_LOW = 3
S_HIGH = 4
S_GIVEN = 5
"""Whether it holds data before the kernel starts."""
S_BORN = 6
"""Whether it has been accessed."""
S_BEFORE = 7
"""First of those that lay here last; then the end."""
S_BEFORE_END = 8
G_LOW = 9
G_CELL = 10
"""First of its cells."""
G_CELLS = 11
G_CELL_BYTES = 12
S_COLUMNS = 13

# Rows of `heads`.
WRITES = 0
READS = 1

# Counters.
FREE = 0
"""First of the nodes that were given back."""
NODES = 1
EDGES = 2
FULL = 3
COUNTERS = 4
FULL_NODES = 1
FULL_EDGES = 2


@njit(cache=True, **INLINE)
def locate(operands, layouts, storages, nodes, k):
    """Make BOX the footprint of operand k."""
    storage, offset, layout = operands[k, 0], operands[k, 1], operands[k, 2]
    pitch = storages[storage, S_PITCH]
    partition, byte = 0, offset
    if pitch > 0:
        partition = offset // pitch
        byte = offset - partition * pitch
    first = storages[storage, S_PARTITION] + partition - layouts[layout, L_BELOW_P]
    low = storages[storage, S_LOW] + byte - layouts[layout, L_BELOW]
    nodes[BOX, P0] = first
    nodes[BOX, P1] = first + layouts[layout, L_EXTENT]
    nodes[BOX, LOW] = low
    nodes[BOX, HIGH] = low + layouts[layout, L_SPAN]
    nodes[BOX, PHASE] = low
    nodes[BOX, PERIOD] = layouts[layout, L_PERIOD]
    nodes[BOX, WIDTH] = layouts[layout, L_WIDTH]
    nodes[BOX, FLAGS] = layouts[layout, L_SOLID]


@njit(cache=True, **INLINE)
def meets(nodes, a, b):
    """Whether two sets of bytes meet; exact unless both have holes of different periods."""
    low, high = max(nodes[a, LOW], nodes[b, LOW]), min(nodes[a, HIGH], nodes[b, HIGH])
    if low >= high or nodes[a, P0] >= nodes[b, P1] or nodes[b, P0] >= nodes[a, P1]:
        return False
    if nodes[a, WIDTH] >= nodes[a, PERIOD]:
        a, b = b, a
    period, width = nodes[a, PERIOD], nodes[a, WIDTH]
    if width >= period:
        return True
    if nodes[b, WIDTH] >= nodes[b, PERIOD]:
        ahead = (low - nodes[a, PHASE]) % period
        return ahead < width or ahead + high - low > period
    if period != nodes[b, PERIOD]:
        return True
    ahead = (nodes[b, PHASE] - nodes[a, PHASE]) % period
    return ahead < width or period - ahead < nodes[b, WIDTH]


@njit(cache=True, **INLINE)
def fills(nodes, a, b):
    """Whether set a, without holes in its windows, has every byte of set b that lies within its bounds."""
    period, width = nodes[a, PERIOD], nodes[a, WIDTH]
    if width >= period:
        return True
    if nodes[b, WIDTH] >= nodes[b, PERIOD]:
        low, high = max(nodes[a, LOW], nodes[b, LOW]), min(nodes[a, HIGH], nodes[b, HIGH])
        return (low - nodes[a, PHASE]) % period + high - low <= width
    if period != nodes[b, PERIOD]:
        return False
    return (nodes[b, PHASE] - nodes[a, PHASE]) % period + nodes[b, WIDTH] <= width


@njit(cache=True, **INLINE)
def link(nodes, heads, counters, way, cell, like, low, high, instruction, flags):
    """Add a node with the part [low, high) of the set `like`."""
    node = counters[FREE]
    if node >= 0:
        counters[FREE] = nodes[node, NEXT]
    else:
        node = counters[NODES]
        if node == nodes.shape[0]:
            counters[FULL] = FULL_NODES
            return
        counters[NODES] += 1
    for column in range(P0, FLAGS):
        nodes[node, column] = nodes[like, column]
    nodes[node, LOW] = low
    nodes[node, HIGH] = high
    nodes[node, INSTRUCTION] = instruction
    nodes[node, FLAGS] = flags
    nodes[node, NEXT] = heads[way, cell]
    heads[way, cell] = node


@njit(cache=True, **INLINE)
def add_edge(instructions, edges, counters, i, predecessor, kind, role, reuse):
    """Note that instruction i waits for a predecessor; of several reasons the first kind and strongest gate stay."""
    ours, theirs = instructions[SLOT, i], instructions[SLOT, predecessor]
    gate = COMPLETION
    if theirs >= 0 and (ours == theirs or ~ours == theirs):
        gate = ISSUE
        if kind == FLOW:
            gate = SAME
            if role == ACCUMULATE and instructions[TENSOR, predecessor]:
                kind, gate = ORDER, ISSUE
    edge = instructions[EDGE_TO, predecessor]
    if edge >= instructions[EDGE, i]:
        known = edges[edge]
        gate = min(gate, (known >> 2) & 3)
        if known & 3 < kind:
            kind, reuse = known & 3, known >> 4 & 1
        elif known & 3 == kind:
            reuse &= known >> 4
    else:
        edge = counters[EDGES]
        if edge == len(edges):
            counters[FULL] = FULL_EDGES
            return
        counters[EDGES] += 1
        instructions[EDGE_TO, predecessor] = edge
    edges[edge] = predecessor * 64 + kind + 4 * gate + 16 * reuse


@njit(cache=True, **INLINE)
def visit(instructions, heads, nodes, edges, counters, i, role, first, last):
    """Find what instruction i must wait for in these cells; whether it met a write of its own group."""
    found = False
    for way in range(1 if role == READ else 2):
        for cell in range(first, last):
            node = heads[way, cell]
            while node >= 0:
                if meets(nodes, BOX, node):
                    flags = nodes[node, FLAGS]
                    kind = ANTI
                    if way == WRITES:
                        own = flags & INHERITED == 0
                        found = found or own
                        kind = FLOW if own and role != WRITE else OUTPUT
                    if kind != OUTPUT or (role != READ and flags & SEEN == 0):
                        predecessor = nodes[node, INSTRUCTION]
                        add_edge(instructions, edges, counters, i, predecessor, kind, role, flags & INHERITED)
                node = nodes[node, NEXT]
    return found


@njit(cache=True, **BARE)
def cut(nodes, heads, counters, way, cell, box, low, high):
    """Take from the nodes of a list what the part [low, high) of a written set covers."""
    b0, b1 = nodes[box, P0], nodes[box, P1]
    node = heads[way, cell]
    heads[way, cell] = -1
    while node >= 0:
        after = nodes[node, NEXT]
        p0, p1, left, right = nodes[node, P0], nodes[node, P1], nodes[node, LOW], nodes[node, HIGH]
        if left < high and low < right and p0 < b1 and b0 < p1 and fills(nodes, box, node):
            for part in range(4):
                q0, q1, begin, end = max(p0, b0), min(p1, b1), left, right
                if part == 0:
                    q0, q1 = p0, b0
                elif part == 1:
                    q0, q1 = b1, p1
                elif part == 2:
                    end = low
                else:
                    begin = high
                if q0 < q1 and begin < end:
                    instruction, flags = nodes[node, INSTRUCTION], nodes[node, FLAGS]
                    link(nodes, heads, counters, way, cell, node, begin, end, instruction, flags)
                    nodes[heads[way, cell], P0], nodes[heads[way, cell], P1] = q0, q1
            nodes[node, NEXT] = counters[FREE]
            counters[FREE] = node
        else:
            nodes[node, NEXT] = heads[way, cell]
            heads[way, cell] = node
        node = after


@njit(cache=True, **INLINE)
def mark_seen(nodes, heads, cell, low, high):
    """Mark the writes of its own group that a read without holes covers."""
    node = heads[WRITES, cell]
    while node >= 0:
        inside = low <= nodes[node, LOW] and nodes[node, HIGH] <= high
        inside = inside and nodes[BOX, P0] <= nodes[node, P0] and nodes[node, P1] <= nodes[BOX, P1]
        if inside and nodes[node, FLAGS] & INHERITED == 0 and fills(nodes, BOX, node):
            nodes[node, FLAGS] |= SEEN
        node = nodes[node, NEXT]


@njit(cache=True, **INLINE)
def keep(nodes, heads, counters, storages, group, i, role, first, last):
    """Enter an access of instruction i into the lists of its cells."""
    size = storages[group, G_CELL_BYTES]
    for cell in range(first, last):
        begin = storages[group, G_LOW] + (cell - storages[group, G_CELL]) * size
        low, high = max(nodes[BOX, LOW], begin), min(nodes[BOX, HIGH], begin + size)
        way = READS if role == READ else WRITES
        if nodes[BOX, FLAGS]:
            if role == READ:
                mark_seen(nodes, heads, cell, low, high)
            else:
                for list_ in range(2):
                    cut(nodes, heads, counters, list_, cell, BOX, low, high)
        link(nodes, heads, counters, way, cell, BOX, low, high, i, 0)


@njit(cache=True, **BARE)
def inherit(nodes, heads, counters, storages, storage, old):
    """Hand the accesses that a storage finds at its bytes over from the group of an old storage to its own."""
    low, high = storages[storage, S_LOW], storages[storage, S_HIGH]
    group, source = storages[storage, S_GROUP], storages[old, S_GROUP]
    begin, cells, size = storages[group, G_LOW], storages[group, G_CELL], storages[group, G_CELL_BYTES]
    from_cell = storages[source, G_CELL]
    for way in range(2):
        for cell in range(from_cell, from_cell + storages[source, G_CELLS]):
            node = heads[way, cell]
            while node >= 0:
                left, right = max(nodes[node, LOW], low), min(nodes[node, HIGH], high)
                while left < right:
                    target = (left - begin) // size
                    part = min(right, begin + (target + 1) * size)
                    flags = nodes[node, FLAGS] | INHERITED
                    link(nodes, heads, counters, way, cells + target, node, left, part, nodes[node, INSTRUCTION], flags)
                    left = part
                node = nodes[node, NEXT]
            cut(nodes, heads, counters, way, cell, EVERYTHING, low, high)


@njit(cache=True, **BARE)
def settle(nodes, heads, counters, storages, before, storage):
    """At the first access to a storage, take over what is left of those that lay at its bytes."""
    storages[storage, S_BORN] = 1
    if storages[storage, S_GROUP] < 0:
        return
    for b in range(storages[storage, S_BEFORE], storages[storage, S_BEFORE_END]):
        if storages[before[b], S_GROUP] != storages[storage, S_GROUP]:
            inherit(nodes, heads, counters, storages, storage, before[b])


@njit(cache=True, small=12000, **BARE)
def find(instructions, operands, roles, layouts, storages, before, heads, nodes, edges, counters):
    """Fill the edges of all instructions; 0, or what ran full."""
    for i in range(instructions.shape[1] - 1):
        instructions[EDGE, i] = counters[EDGES]
        operand, end = instructions[OPERAND, i], instructions[OPERAND, i + 1]
        for k in range(operand, end):
            if not storages[operands[k, 0], S_BORN]:
                settle(nodes, heads, counters, storages, before, operands[k, 0])
        for step in range(3):
            for k in range(operand, end):
                role, storage = roles[k] + 0, operands[k, 0]
                group = storages[storage, S_GROUP]
                if group < 0 or (step > 0 and (role == READ) != (step == 1)):
                    continue
                locate(operands, layouts, storages, nodes, k)
                low, size = storages[group, G_LOW], storages[group, G_CELL_BYTES]
                first = storages[group, G_CELL] + (nodes[BOX, LOW] - low) // size
                last = storages[group, G_CELL] + (nodes[BOX, HIGH] - 1 - low) // size + 1
                if step > 0:
                    keep(nodes, heads, counters, storages, group, i, role, first, last)
                    continue
                found = visit(instructions, heads, nodes, edges, counters, i, role, first, last)
                if role != WRITE and not found and not storages[storage, S_GIVEN] and instructions[UNWRITTEN, i] < 0:
                    instructions[UNWRITTEN, i] = storage
        if counters[FULL]:
            return counters[FULL]
    instructions[EDGE, instructions.shape[1] - 1] = counters[EDGES]
    return 0


@njit(cache=True, small=2000)
def occupants(low, high, order, start, before):
    """Fill, CSR, the intervals that lay last at the bytes of each interval; the number of entries, or -1 when full.

    low, high : int64[s], bytes; order: int64[o], the intervals by first access
    start     : int64[o + 1] by place in `order`; before: int64[room]
    """
    spans = np.empty((2 * len(order) + 2, 3), np.int64)
    count, filled = 0, 0
    for place in range(len(order)):
        start[place] = filled
        a, b = low[order[place]], high[order[place]]
        k = np.searchsorted(spans[:count, 1], a, side="right")
        j = k
        while j < count and spans[j, 0] < b:
            if filled == len(before):
                return -1
            before[filled] = spans[j, 2]
            filled += 1
            j += 1
        count = overlay(spans, count, k, j, a, b, order[place])
    start[len(order)] = filled
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
            move(spans, m, m + shift)
    elif shift < 0:
        for m in range(j, count):
            move(spans, m, m + shift)
    if left:
        spans[k, 0], spans[k, 1], spans[k, 2] = left_low, low, left_owner
        k += 1
    spans[k, 0], spans[k, 1], spans[k, 2] = low, high, owner
    if right:
        spans[k + 1, 0], spans[k + 1, 1], spans[k + 1, 2] = high, right_high, right_owner
    return count + shift


@njit(cache=True, **INLINE)
def move(spans, source, target):
    """Copy a row by its elements: assigning rows makes the compiler bring its text formatting along."""
    for column in range(spans.shape[1]):
        spans[target, column] = spans[source, column]
