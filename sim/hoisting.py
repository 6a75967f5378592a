"""Work that is done once: equal values of a program share one tile, and what made the others goes.

Value numbering in program order. A tile has a value when all its writes come before its first read; two tiles have the
same value when the same instructions made them from the same inputs. Loads are left to `sim.spilling`, which knows
what is still resident; computed values are shared here, for each allocation site whose distinct repeated values fit
into SBUF together (facts of the timing prototype, section 8.2).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

import numpy as np

from sim.compiler import operand_roles
from sim.program import Program, Role
from sim.trace import Memory

UNKNOWN = -1


@dataclass(slots=True)
class Numbering:
    """The value of each storage, UNKNOWN for one that has none of its own."""

    value: list[int]
    last_write: list[int]
    loads: set[int] = field(default_factory=set)
    """Storages whose value is one plain load of an input."""


def number_values(program: Program) -> Numbering:
    """Give equal values equal numbers."""
    roles, bounds = operand_roles(program).tolist(), program.operand_start.tolist()
    flat, forms = program.operands.tolist(), program.form.tolist()
    immediates = program.immediate.tolist() or [UNKNOWN] * len(program)
    steady = _steady(program, np.array(roles))
    numbering = Numbering([UNKNOWN] * len(program.storages), _last_writes(program, np.array(roles)))
    made: dict[int, list[tuple]] = defaultdict(list)
    known: dict[tuple, int] = {}
    for index, form in enumerate(forms):
        span = range(bounds[index], bounds[index + 1])
        inputs = _inputs(program, [flat[k] for k in span if roles[k] == Role.READ], numbering.value)
        for k in span:
            storage = flat[k][0]
            if roles[k] == Role.READ or not steady[storage]:
                continue
            if inputs is None:
                steady[storage] = False
                continue
            made[storage].append((form, immediates[index], k - span.start, roles[k], *flat[k][1:], inputs))
            if index == numbering.last_write[storage]:
                value = tuple(made.pop(storage))
                numbering.value[storage] = known.setdefault(value, len(known))
                if len(value) == 1 and program.forms[form].dma is not None:
                    numbering.loads.add(storage)
    return numbering


def _inputs(program: Program, reads: list[list[int]], values: list[int]) -> tuple | None:
    """What an instruction reads, as numbers that are equal where the contents are; None where that is not known."""
    found = []
    for storage, offset, layout in reads:
        held = program.storages[storage]
        if held.memory is Memory.HBM:
            if held.role not in ("IN", "WEIGHT"):
                return None
            found.append((True, storage, offset, layout))
        elif values[storage] == UNKNOWN:
            return None
        else:
            found.append((False, values[storage], offset, layout))
    return tuple(found)


def _last_writes(program: Program, roles: np.ndarray) -> list[int]:
    instruction = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    last = np.full(len(program.storages), -1, np.int64)
    writes = roles != Role.READ
    last[program.operands[writes, 0]] = instruction[writes]
    return last.tolist()


def _steady(program: Program, roles: np.ndarray) -> list[bool]:
    """Per storage: on chip, and written only before it is read; inputs that a kernel writes are no inputs."""
    instruction = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    storage, writes = program.operands[:, 0], roles != Role.READ
    last = np.full(len(program.storages), -1, np.int64)
    last[storage[writes]] = instruction[writes]
    first = np.full(len(program.storages), len(program), np.int64)
    first[storage[~writes][::-1]] = instruction[~writes][::-1]
    on_chip = np.array([s.memory is not Memory.HBM and s.address is None for s in program.storages], bool)
    return (on_chip & (last < first)).tolist()


def hoist(program: Program, limit: int) -> Program:
    """Share computed values where those of an allocation site fit into `limit` bytes a partition; drop the rest."""
    numbering = number_values(program)
    shared = _shared(program, numbering, limit)
    if not shared:
        return program
    operands = program.operands.copy()
    instead = np.arange(len(program.storages))
    for other, kept in shared.items():
        instead[other] = kept
    roles = operand_roles(program)
    instruction = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    dropped = np.zeros(len(program), bool)
    aliased = instead[operands[:, 0]] != operands[:, 0]
    dropped[instruction[aliased & (roles != Role.READ)]] = True
    operands[:, 0] = instead[operands[:, 0]]
    return keep(replace(program, operands=operands), ~_dead(program, operands, roles, dropped))


def _shared(program: Program, numbering: Numbering, limit: int) -> dict[int, int]:
    """Storage -> the first storage with the same computed value."""
    first: dict[int, int] = {}
    again: dict[int, list[int]] = defaultdict(list)
    order = np.argsort(np.array(numbering.last_write), kind="stable").tolist()
    for storage in order:
        value = numbering.value[storage]
        if value == UNKNOWN or storage in numbering.loads or program.storages[storage].memory is not Memory.SBUF:
            continue
        kept = first.setdefault(value, storage)
        if kept != storage:
            again[kept].append(storage)
    room: dict[tuple[int, int], int] = defaultdict(int)
    for kept in again:
        held = program.storages[kept]
        room[held.source, held.pitch] += held.pitch
    return {
        other: kept
        for kept, others in again.items()
        if room[program.storages[kept].source, program.storages[kept].pitch] <= limit
        for other in others
    }


def _dead(program: Program, operands: np.ndarray, roles: np.ndarray, dropped: np.ndarray) -> np.ndarray:
    """Instructions that go: those dropped, and those that only wrote on-chip tiles that nothing reads any more."""
    bounds, flat, role = program.operand_start.tolist(), operands[:, 0].tolist(), roles.tolist()
    on_chip = [storage.memory is not Memory.HBM for storage in program.storages]
    gone, wanted = dropped.tolist(), set()
    for index in range(len(gone) - 1, -1, -1):
        span = range(bounds[index], bounds[index + 1])
        writes = [flat[k] for k in span if role[k] != Role.READ]
        if not gone[index] and writes and all(on_chip[s] and s not in wanted for s in writes):
            gone[index] = True
        if not gone[index]:
            wanted.update(flat[k] for k in span if role[k] != Role.WRITE)
    return np.array(gone, bool)


def keep(program: Program, kept: np.ndarray) -> Program:
    """The program with only the instructions that a mask keeps."""
    counts = np.diff(program.operand_start)
    place = np.cumsum(kept) - 1
    order = program.order[kept[program.order[:, 0]] & kept[program.order[:, 1]]].copy()
    order[:, :2] = place[order[:, :2]]
    return replace(
        program,
        form=program.form[kept],
        source=program.source[kept],
        region=program.region[kept],
        core=program.core[kept],
        immediate=program.immediate[kept] if program.immediate.size else program.immediate,
        operand_start=np.concatenate(([0], np.cumsum(counts[kept]))),
        operands=program.operands[np.repeat(kept, counts)],
        names={int(place[index]): name for index, name in program.names.items() if kept[index]},
        order=order,
        findings=tuple(
            replace(found, instruction=int(place[found.instruction])) if found.instruction >= 0 else found
            for found in program.findings
            if found.instruction < 0 or kept[found.instruction]
        ),
    )
