"""Work that is done once: equal computed values share one tile, and what made the others goes.

Loads are left to `sim.compiler.residency`, which knows what is still resident. Of computed values, those that do not
change from one iteration to the next move out of the loop. Those that change, and come again in another loop, are kept
where they are one input, cast, transposed or broadcast, and all of these fit into SBUF together (facts of the timing
prototype, 8.2; published.json: docs' mamba, whose `deltaU` is computed once in one order of the loops alone).

A program that must spill in any case keeps every value that comes again, and spills it if need be: NKIBench's lora
transposes its input once although that takes 640 KiB a partition, its mamba reads `u` once for all states, and its
matmul, which fits, transposes again. A row that is broadcast is broadcast again rather than kept then (psum_write_bytes
of that mamba).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from sim.compiler.columns import dead, instructions_of_operands, keep, operand_roles
from sim.compiler.numbering import UNKNOWN, Values, broadcast, cores, in_a_row, number_values, of_one_input
from sim.compiler.residency import needs_spilling
from sim.program import Program, Role
from sim.trace import Memory


def hoist(program: Program, limit: int) -> Program:
    """Compute once what does not change, and prepare inputs once.

    limit : bytes a partition, for the inputs that are kept
    """
    return share(program, _shared(program, number_values(program), limit))[0]


def share(program: Program, shared: dict[int, int]) -> tuple[Program, np.ndarray]:
    """The program in which storages give way to others that hold the same, and which instructions are left, bool[n].

    shared : storage -> the one that stands for it
    """
    if not shared:
        return program, np.ones(len(program), bool)
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
    kept = ~dead(program, dropped)
    return keep(program, kept), kept


def _named(program: Program, shared: dict[int, int], instruction: np.ndarray, writes: np.ndarray) -> dict[int, str]:
    """Says of the instructions whose result is shared how many tiles it stands for."""
    count = Counter(shared.values())
    rows = np.flatnonzero(writes & np.isin(program.operands[:, 0], list(count)))
    return {int(instruction[row]): f"done once for {count[int(program.operands[row, 0])] + 1}" for row in rows.tolist()}


def _shared(program: Program, values: Values, limit: int) -> dict[int, int]:
    """Storage -> the storage before it that holds its computed value for it too."""
    core, spills = cores(program), needs_spilling(program, limit)
    prepared = [True] * len(core) if spills else of_one_input(program)
    computed = [
        value != UNKNOWN and storage not in values.loads and program.storages[storage].memory is Memory.SBUF
        for storage, value in enumerate(values.number)
    ]
    for storage in broadcast(program) if spills else ():
        computed[storage] = False
    first: dict[tuple[int, int], int] = {}
    again: dict[int, int] = {}
    for storage in np.argsort(np.array(values.last_write), kind="stable").tolist():
        if computed[storage] and prepared[storage]:
            kept = first.setdefault((values.number[storage], core[storage]), storage)
            if kept != storage:
                again[storage] = kept
    if not spills and sum(program.storages[kept].pitch for kept in set(again.values())) > limit:
        again = {}
    invariant = {storage: kept for storage, kept in in_a_row(program, values).items() if computed[storage]}
    return invariant | again
