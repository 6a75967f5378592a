"""What each instruction must wait for: reads after writes, writes after reads, buffers that are used again.

Found from the bytes that operands touch where the allocator placed them, as the compiler does before it inserts
semaphores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.allocation import Placement
from sim.compiler import engines, operand_roles, used_layouts
from sim.errors import InputError
from sim.memory import Layout
from sim.program import Program, Role
from sim.trace import NONE, EdgeKind, Engine, Finding, Memory

QUEUES = 5
"""Instruction streams of a core."""

GIVEN = ("IN", "WEIGHT")
"""Roles of storages that hold data before the kernel starts."""

BUSY_CELL = 8
"""Accesses to a storage for which it gets one more cell."""


@dataclass(frozen=True, slots=True)
class Dependences:
    """Predecessors of each instruction, CSR, in the order in which they were found.

    start : int64[n + 1]; predecessor: int32[e]
    kind  : int8[e], EdgeKind; ORDER for an accumulation that TensorE does in its own order
    gate  : int8[e], what must be over: 0 completion seen by another engine, 1 completion on the same engine, 2 issue
    reuse : bool[e], whether it comes from another storage at the same address
    """

    start: np.ndarray
    predecessor: np.ndarray
    kind: np.ndarray
    gate: np.ndarray
    reuse: np.ndarray
    findings: tuple[Finding, ...] = ()

    def waiters(self) -> np.ndarray:
        """The instruction that waits, for each edge; int32[e]."""
        return np.repeat(np.arange(self.start.size - 1, dtype=np.int32), np.diff(self.start))


def find(program: Program, placement: Placement) -> Dependences:
    """The dependences of a placed program."""
    from sim.jit import dependences as jit

    roles = operand_roles(program)
    storages, before = _storage_table(program, placement, roles)
    instructions, edges = _run(program, roles, storages, before)
    code = (edges & 63).astype(np.int8)
    found = Dependences(
        start=instructions[jit.EDGE],
        predecessor=(edges >> 6).astype(np.int32),
        kind=code & 3,
        gate=(code >> 2) & 3,
        reuse=code >= 16,
        findings=_unwritten(program, placement, instructions[jit.UNWRITTEN, :-1], roles),
    )
    return _with_order(program, found) if len(program.order) else found


def _run(
    program: Program, roles: np.ndarray, storages: np.ndarray, before: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(instruction table, edges) of the kernel, which gets more room each time that it runs full."""
    from sim.jit import dependences as jit

    layouts, operands = layout_table(program), np.ascontiguousarray(program.operands)
    given = _instruction_table(program)
    cells = int(storages[:, jit.G_CELLS].sum())
    room = {jit.FULL_NODES: len(operands) // 4 + 1024, jit.FULL_EDGES: 3 * len(program) + 1024}
    while True:
        instructions, table = given.copy(), storages.copy()
        heads = np.full((2, cells), NONE, np.int64)
        nodes = np.zeros((room[jit.FULL_NODES], jit.COLUMNS), np.int64)
        nodes[jit.EVERYTHING, [jit.P1, jit.PERIOD, jit.WIDTH]] = np.iinfo(np.int32).max, 1, 1
        edges = np.zeros(room[jit.FULL_EDGES], np.int64)
        counters = np.array([NONE, jit.RESERVED, 0, 0], np.int64)
        full = jit.find(instructions, operands, roles, layouts, table, before, heads, nodes, edges, counters)
        if not full:
            return instructions, edges[: counters[jit.EDGES]]
        room[full] *= 4


def _instruction_table(program: Program) -> np.ndarray:
    from sim.jit import dependences as jit

    engine = engines(program)
    dma = np.array([form.dma is not None for form in program.forms] or [False], bool)[program.form]
    slot = program.core.astype(np.int64) * QUEUES + engine
    table = np.full((jit.ROWS, len(program) + 1), NONE, np.int64)
    table[jit.OPERAND] = program.operand_start
    table[jit.SLOT, :-1] = np.where(dma, ~slot, slot)
    table[jit.TENSOR, :-1] = engine == Engine.TENSOR
    return table


def layout_table(program: Program) -> np.ndarray:
    """Footprint of every layout in use, int64[layouts, columns] by `Layout.index`."""
    from sim.jit import dependences as jit

    used = used_layouts(program)
    table = np.zeros((max(used, default=0) + 1, jit.L_COLUMNS), np.int64)
    for index in used:
        layout = Layout.by_index[index]
        table[index] = _footprint(layout)
    return table


def _footprint(layout: Layout) -> tuple[int, ...]:
    """Columns of the layout table, in their order."""
    below_p, extent, step = 0, 1, 1
    if layout.pitch:
        step = layout.strides[0] // layout.pitch if layout.shape[0] > 1 else 1
        extent = (layout.shape[0] - 1) * abs(step) + 1
        below_p = max(0, -step) * (layout.shape[0] - 1)
    free = zip(layout.shape[1:], layout.strides[1:]) if layout.pitch else zip(layout.shape, layout.strides)
    below = sum((size - 1) * -stride for size, stride in free if stride < 0)
    windows = (layout.span - layout.width) // layout.period + 1
    solid = abs(step) == 1 and windows * layout.width == layout.elements * layout.itemsize
    return below_p, extent, below, layout.span, layout.period, layout.width, solid


def _storage_table(program: Program, placement: Placement, roles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(storage table, who lay at the bytes of each storage last)."""
    from sim.jit import dependences as jit

    storages = program.storages
    table = np.zeros((len(storages), jit.S_COLUMNS), np.int64)
    group = _merged(len(storages), placement.together)
    written = np.zeros(len(storages), bool)
    written[group[program.operands[roles != Role.READ, 0]]] = True
    columns = placement.columns
    pitch, size = columns.pitch, np.where(columns.pitch > 0, columns.pitch, columns.nbytes)
    given = np.array([storage.role in GIVEN for storage in columns.records], bool)
    table[:, jit.S_PITCH] = pitch
    table[:, jit.S_PARTITION] = placement.partition
    table[:, jit.S_LOW] = np.where(pitch > 0, placement.offset, 0)
    table[:, jit.S_HIGH] = table[:, jit.S_LOW] + size
    table[:, jit.S_GIVEN] = given[columns.record]
    table[:, jit.S_GROUP] = np.where(written[group], group, NONE)
    _fill_groups(program, table)
    counts, before = _before(program, placement, table)
    table[:, jit.S_BEFORE_END] = np.cumsum(counts)
    table[:, jit.S_BEFORE] = table[:, jit.S_BEFORE_END] - counts
    return table, before


def _merged(count: int, pairs: np.ndarray) -> np.ndarray:
    """A number for each storage, the same for storages that share bytes while both are alive."""
    root = np.arange(count)
    for one, other in pairs.tolist():
        a, b = root[one], root[other]
        if a != b:
            root[root == b] = a
    return root


def _fill_groups(program: Program, storages: np.ndarray) -> None:
    """Bytes and cells of each group, in the row of the storage that has the group's number."""
    from sim.jit import dependences as jit

    count = len(storages)
    group = storages[:, jit.S_GROUP]
    member = group >= 0
    low, high = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(low, group[member], storages[member, jit.S_LOW])
    np.maximum.at(high, group[member], storages[member, jit.S_HIGH])
    layouts = layout_table(program)
    touched = group[program.operands[:, 0]]
    inside = touched >= 0
    accesses = np.bincount(touched[inside], minlength=count)
    span = np.bincount(touched[inside], layouts[program.operands[inside, 2], jit.L_SPAN], minlength=count)
    used = accesses > 0
    size = np.where(used, high - low, 1)
    wanted = np.ones(count, np.int64)
    wanted[used] = np.minimum(accesses[used] // BUSY_CELL, size[used] * accesses[used] // span[used].astype(np.int64))
    wanted = np.maximum(wanted, 1)
    storages[:, jit.G_LOW] = np.where(used, low, 0)
    storages[:, jit.G_CELL_BYTES] = -(-size // wanted)
    storages[:, jit.G_CELLS] = np.where(used, -(-size // storages[:, jit.G_CELL_BYTES]), 0)
    storages[:, jit.G_CELL] = np.cumsum(storages[:, jit.G_CELLS]) - storages[:, jit.G_CELLS]


def _before(program: Program, placement: Placement, storages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(how many lay at the bytes of each storage last, which), memory by memory and core by core."""
    from sim.jit import dependences as jit

    memory = placement.columns.memory
    counts, parts = np.zeros(len(storages), np.int64), []
    for kind in (Memory.SBUF, Memory.PSUM):
        chosen = (memory == kind) & (storages[:, jit.S_GROUP] >= 0)
        for core in np.unique(placement.core[chosen]).tolist():
            index = np.flatnonzero(chosen & (placement.core == core))
            order = index[np.argsort(placement.first[index], kind="stable")]
            start, before = _occupants(storages[:, jit.S_LOW], storages[:, jit.S_HIGH], order)
            counts[order] = np.diff(start)
            parts.append((np.repeat(order, np.diff(start)), before))
    owner = np.concatenate([np.zeros(0, np.int64), *[part[0] for part in parts]])
    before = np.concatenate([np.zeros(0, np.int64), *[part[1] for part in parts]])
    return counts, before[np.argsort(owner, kind="stable")]


def _occupants(low: np.ndarray, high: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from sim.jit import dependences as jit

    room = 4 * order.size + 64
    start = np.zeros(order.size + 1, np.int64)
    while True:
        before = np.zeros(room, np.int64)
        filled = jit.occupants(np.ascontiguousarray(low), np.ascontiguousarray(high), order, start, before)
        if filled >= 0:
            return start, before[:filled]
        room *= 4


def _unwritten(program: Program, placement: Placement, unwritten: np.ndarray, roles: np.ndarray) -> tuple[Finding, ...]:
    """Reads of what nothing has written, one for a line and what it reads; inputs are given."""
    known = {finding.source for finding in program.findings if finding.kind == "uninitialised_read"}
    rows = np.flatnonzero(unwritten >= 0)
    storage, first = np.unique(unwritten[rows], return_index=True)
    found = {int(s): int(rows[f]) for s, f in zip(storage, first)}
    written = np.zeros(len(program.storages), bool)
    written[program.operands[roles != Role.READ, 0]] = True
    never = np.flatnonzero(~written & (placement.first >= 0)).tolist()
    found |= {index: int(placement.first[index]) for index in never if program.storages[index].role not in GIVEN}
    readings = {
        (int(program.source[at]), program.storages[index].source): (index, at)
        for index, at in sorted(found.items(), key=lambda item: -item[1])
        if program.strings[int(program.source[at])] not in known and not _reads_in_part(program, index, at)
    }
    return tuple(_unwritten_read(program, *reading) for reading in reversed(readings.values()))


def _reads_in_part(program: Program, storage: int, at: int) -> bool:
    """Whether an instruction needs some partitions of a storage only, whatever its operand spans."""
    form = program.forms[program.form[at]]
    first = program.operand_start[at]
    places = [k for k, role in enumerate(form.roles) if program.operands[first + k, 0] == storage and role == Role.READ]
    return bool(places) and set(places) <= set(form.sparse)


def _unwritten_read(program: Program, index: int, at: int) -> Finding:
    storage = program.storages[index]
    call, where = program.forms[program.form[at]].call, program.strings[int(program.source[at])]
    return Finding(
        "uninitialised_read",
        f"{call} ({where}) reads `{storage.name}` (allocated at {program.strings[storage.source]}) "
        "where nothing has written it",
        at,
        where,
    )


def _with_order(program: Program, found: Dependences) -> Dependences:
    """The dependences with those that the kernel asked for."""
    from sim.jit import dependences as jit

    first, then, at_issue = program.order.T
    n = len(program)
    outside = (first < 0) | (first >= n) | (then < 0) | (then >= n) | (first == then)
    if outside.any():
        pair = program.order[np.argmax(outside), :2].tolist()
        raise InputError(f"an instruction order {pair} in a program of {n} instructions")
    engine = program.core.astype(np.int32) * QUEUES + engines(program)
    dma = np.array([form.dma is not None for form in program.forms], bool)[program.form]
    gate = np.where(
        at_issue, jit.ISSUE, np.where((engine[first] == engine[then]) & ~dma[first], jit.SAME, jit.COMPLETION)
    )
    waiter = np.concatenate((found.waiters(), then))
    order = np.argsort(waiter, kind="stable")
    kind = np.full(len(first), EdgeKind.ORDER, np.int8)
    start = np.concatenate(([0], np.cumsum(np.bincount(waiter, minlength=n))))
    return Dependences(
        start,
        np.concatenate((found.predecessor, first.astype(np.int32)))[order],
        np.concatenate((found.kind, kind))[order],
        np.concatenate((found.gate, gate.astype(np.int8)))[order],
        np.concatenate((found.reuse, np.zeros(len(first), bool)))[order],
        found.findings,
    )
