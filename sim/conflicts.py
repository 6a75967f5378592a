"""Accesses that no order keeps right: tiles that a kernel laid over one another, tensors that two cores share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim.allocation import Placement
from sim.dependences import Dependences
from sim.memory import Layout, View, box
from sim.program import Program, Role
from sim.trace import EdgeKind, Finding

MEETINGS = ("nki.isa.core_barrier", "nki.isa.sendrecv", "nki.collectives.")
"""How calls begin in which the cores of a logical core wait for each other."""


def find(program: Program, placement: Placement, found: Dependences) -> tuple[Finding, ...]:
    """What the kernel's own addresses and cores let collide."""
    return (*_overwritten(program, placement, found), *_races(program, found))


def _overwritten(program: Program, placement: Placement, found: Dependences) -> Iterator[Finding]:
    """Reads of a tile where the last write went through another tile at the same address."""
    if not len(placement.together):
        return
    record = placement.columns.record
    pairs = {pair for one, other in placement.together.tolist() for pair in ((one, other), (other, one))}
    pairs = {(one, other) for one, other in pairs if record[one] != record[other]}
    for first, then in _flows(program, found, np.unique(placement.together)):
        for written, role in _operands(program, first):
            for read, use in _operands(program, then):
                pair = (int(written[0]), int(read[0]))
                if role is Role.READ or use is Role.WRITE or pair not in pairs:
                    continue
                shared = _common(_span(program, placement, written), _span(program, placement, read))
                if shared and not _replaced(program, placement, found, (first, then), (pair[1], shared)):
                    pairs.discard(pair)
                    yield _overlap(program, first, then, *pair)


def _flows(program: Program, found: Dependences, storages: np.ndarray) -> Iterator[tuple[int, int]]:
    """(writer, reader) of the dependences between instructions that access these storages."""
    chosen = np.zeros(len(program.storages), bool)
    chosen[storages] = True
    instruction = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    touching = np.zeros(len(program), bool)
    touching[instruction[chosen[program.operands[:, 0]]]] = True
    waiter = found.waiters()
    edges = np.flatnonzero((found.kind == EdgeKind.FLOW) & touching[found.predecessor] & touching[waiter])
    yield from zip(found.predecessor[edges].tolist(), waiter[edges].tolist())


def _operands(program: Program, index: int) -> Iterator[tuple[np.ndarray, Role]]:
    first, last = program.operand_start[index : index + 2]
    return zip(program.operands[first:last], program.forms[program.form[index]].roles)


Span = tuple[int, int, int, int]
"""Partitions from and to, bytes of each from and to."""


def _span(program: Program, placement: Placement, operand: np.ndarray) -> Span:
    """Where an operand lies on chip."""
    storage, offset, layout = operand.tolist()
    p0, p1, low, high = box(View(program.storages[storage], Layout.by_index[layout], offset))
    partition, byte = int(placement.partition[storage]), int(placement.offset[storage])
    return p0 + partition, p1 + partition, low + byte, high + byte


def _common(a: Span, b: Span) -> Span | None:
    found = (max(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), min(a[3], b[3]))
    return found if found[0] < found[1] and found[2] < found[3] else None


def _replaced(
    program: Program, placement: Placement, found: Dependences, flow: tuple[int, int], read: tuple[int, Span]
) -> bool:
    """Whether what an instruction wrote has been written again, all of it, before another reads there."""
    first, then = flow
    storage, shared = read
    memory, edges = program.storages[storage].memory, slice(found.start[then], found.start[then + 1])
    between = found.predecessor[edges][(found.kind[edges] == EdgeKind.FLOW) & (found.predecessor[edges] > first)]
    return any(
        _common(_span(program, placement, operand), shared) == shared
        for index in between.tolist()
        for operand, role in _operands(program, index)
        if role is Role.WRITE and program.storages[operand[0]].memory is memory
    )


def _overlap(program: Program, first: int, then: int, over: int, under: int) -> Finding:
    above, below = program.storages[over], program.storages[under]
    return Finding(
        "overlap",
        f"{named(program, first)} writes `{above.name}` (allocated at {program.strings[above.source]}) over bytes of "
        f"`{below.name}` (allocated at {program.strings[below.source]}) in {below.memory.name}, which "
        f"{named(program, then)} then reads",
        then,
        program.strings[int(program.source[then])],
    )


def _races(program: Program, found: Dependences) -> Iterator[Finding]:
    """Reads and writes of a shared tensor by two cores that nothing orders; a barrier orders those of its tensor."""
    if not program.core.any():
        return
    meets = np.array([form.call.startswith(MEETINGS) for form in program.forms], bool)[program.form]
    first, then = found.predecessor, found.waiters()
    loose = (program.core[first] != program.core[then]) & ~meets[first] & ~meets[then]
    loose &= (found.kind == EdgeKind.FLOW) | (found.kind == EdgeKind.ANTI)
    seen: set[frozenset] = set()
    for edge in np.flatnonzero(loose).tolist():
        one, other = int(first[edge]), int(then[edge])
        lines = frozenset((program.source[one], program.source[other]))
        if lines not in seen and not _ordered(found, loose, one, other):
            seen.add(lines)
            yield _race(program, one, other, found.kind[edge] == EdgeKind.FLOW)


def _ordered(found: Dependences, loose: np.ndarray, one: int, other: int) -> bool:
    """Whether an instruction waits for an earlier one through others, whatever two cores leave open."""
    waiting, seen = [other], {other}
    while waiting:
        at = waiting.pop()
        edges = slice(found.start[at], found.start[at + 1])
        for before in found.predecessor[edges][~loose[edges]].tolist():
            if before == one:
                return True
            if before > one and before not in seen:
                seen.add(before)
                waiting.append(before)
    return False


def _race(program: Program, one: int, other: int, writes_first: bool) -> Finding:
    writer, reader = (one, other) if writes_first else (other, one)
    written = {int(operand[0]) for operand, role in _operands(program, writer) if role is not Role.READ}
    read = {int(operand[0]) for operand, role in _operands(program, reader) if role is not Role.WRITE}
    names = ", ".join(f"`{program.storages[index].name}`" for index in sorted(written & read)) or "memory"
    return Finding(
        "race",
        f"{named(program, writer)} on core {program.core[writer]} writes {names} and {named(program, reader)} on core "
        f"{program.core[reader]} reads it; nki.isa.core_barrier between them would order them",
        other,
        program.strings[int(program.source[other])],
    )


def named(program: Program, index: int) -> str:
    """An instruction with its number and source line."""
    call = program.forms[program.form[index]].call
    return f"{call} (instruction {index}, {program.strings[int(program.source[index])]})"
