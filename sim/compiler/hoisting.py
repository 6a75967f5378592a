"""Work that is done once: equal computed values share one tile, and what made the others goes.

Loads are left to `sim.compiler.residency`, which knows what is still resident. Computed values are shared here, for
each allocation site whose distinct repeated values fit into SBUF together (facts of the timing prototype, 8.2).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np

from sim.compiler.columns import dead, instructions_of_operands, keep, operand_roles
from sim.compiler.numbering import UNKNOWN, Values, number_values
from sim.program import Program, Role
from sim.trace import Memory


def hoist(program: Program, limit: int) -> Program:
    """Share computed values where those of an allocation site fit into `limit` bytes a partition; drop the rest."""
    shared = _shared(program, number_values(program), limit)
    if not shared:
        return program
    instead = np.arange(len(program.storages))
    instead[list(shared)] = list(shared.values())
    operands = program.operands.copy()
    aliased = instead[operands[:, 0]] != operands[:, 0]
    operands[:, 0] = instead[operands[:, 0]]
    writes = operand_roles(program) != Role.READ
    dropped = np.zeros(len(program), bool)
    instruction = instructions_of_operands(program)
    dropped[instruction[aliased & writes]] = True
    dropped[instruction[~aliased & writes]] = False
    program = replace(program, operands=operands, names=_named(program, shared, instruction, writes) | program.names)
    return keep(program, ~dead(program, dropped))


def _named(program: Program, shared: dict[int, int], instruction: np.ndarray, writes: np.ndarray) -> dict[int, str]:
    """Says of the instructions whose result is shared how many tiles it stands for."""
    count = Counter(shared.values())
    rows = np.flatnonzero(writes & np.isin(program.operands[:, 0], list(count)))
    return {int(instruction[row]): f"done once for {count[int(program.operands[row, 0])] + 1}" for row in rows.tolist()}


def _shared(program: Program, values: Values, limit: int) -> dict[int, int]:
    """Storage -> the first storage of its core with the same computed value."""
    core = np.zeros(len(program.storages), np.int64)
    core[program.operands[:, 0]] = program.core[instructions_of_operands(program)]
    first: dict[tuple[int, int], int] = {}
    again: dict[int, list[int]] = defaultdict(list)
    for storage in np.argsort(np.array(values.last_write), kind="stable").tolist():
        value = values.number[storage]
        if value == UNKNOWN or storage in values.loads or program.storages[storage].memory is not Memory.SBUF:
            continue
        kept = first.setdefault((value, int(core[storage])), storage)
        if kept != storage:
            again[kept].append(storage)
    room: dict[tuple[int, int], int] = defaultdict(int)
    for kept in again:
        room[_site(program, kept)] += program.storages[kept].pitch
    return {other: kept for kept, others in again.items() if room[_site(program, kept)] <= limit for other in others}


def _site(program: Program, storage: int) -> tuple[int, int]:
    """Where a storage is allocated: source line and region."""
    held = program.storages[storage]
    return held.source, held.region
