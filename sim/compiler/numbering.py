"""Value numbering: which tiles hold the same, so that work need be done only once.

A tile has a value when all its writes come before its first read; two tiles have the same value when the same
instructions made them from the same inputs.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from sim.compiler.columns import instructions_of_operands, operand_roles
from sim.engines import tensor
from sim.program import Program, Role
from sim.trace import Engine, Memory

UNKNOWN = -1

DRAWING = frozenset(f"nki.isa.{call}" for call in ("rng", "rand2", "dropout", "rand_get_state", "rand_set_state"))
"""Calls whose result is another one each time."""

LATE = frozenset({tensor.EXPANDED})
"""What compilers add after they have looked for equal values: the transposes within a product of the language, which
measured kernels repeat for every product (measured.json: matmul_add_rmsnorm, add_rmsnorm_matmul)."""


@dataclass(frozen=True, slots=True)
class Values:
    """What is known of the contents of each storage."""

    number: list[int]
    """Equal for equal contents, UNKNOWN for a storage that has no value of its own."""
    last_write: list[int]
    loads: set[int]
    """Storages that are made by loads of inputs alone."""


def constant_storages(program: Program, roles: np.ndarray) -> list[bool]:
    """Per storage: an HBM tensor that is given and never written."""
    written = np.zeros(len(program.storages), bool)
    written[program.operands[roles != Role.READ, 0]] = True
    given = [storage.memory is Memory.HBM and storage.role in ("IN", "WEIGHT") for storage in program.storages]
    return (np.array(given, bool) & ~written).tolist()


def is_plain_load(program: Program) -> list[bool]:
    """Per form: a transfer of one source to one destination."""
    return [form.dma is not None and form.roles == (Role.WRITE, Role.READ) for form in program.forms]


def is_transfer_of_pairs(program: Program) -> list[bool]:
    """Per form: a plain transfer, or one that stands for several."""
    pair = (Role.WRITE, Role.READ)
    return [form.dma is not None and form.roles == pair * (len(form.roles) // 2) for form in program.forms]


def loads_of(program: Program) -> list[int]:
    """Per form: the form of each of the transfers that it stands for, its own for a plain one; UNKNOWN for others."""
    known = {
        (form.call, form.engine, form.layouts): number
        for number, (form, plain) in enumerate(zip(program.forms, is_plain_load(program)))
        if plain
    }
    return [
        known.get((form.call, form.engine, form.layouts[:2]), UNKNOWN) if paired else UNKNOWN
        for form, paired in zip(program.forms, is_transfer_of_pairs(program))
    ]


def number_values(program: Program) -> Values:
    """Give equal contents equal numbers."""
    array = operand_roles(program)
    roles, flat, bounds = array.tolist(), program.operands.tolist(), program.operand_start.tolist()
    immediates = program.immediate.tolist() or [UNKNOWN] * len(program)
    constant, plain = constant_storages(program, array), is_plain_load(program)
    steady, last_write = _steady(program, array)
    repeats = _repeatable(program)
    number, loads = [UNKNOWN] * len(program.storages), set()
    made: dict[int, list[tuple]] = defaultdict(list)
    known: dict[tuple, int] = {}
    for index, form in enumerate(program.form.tolist()):
        first, end = bounds[index], bounds[index + 1]
        written = [k for k in range(first, end) if roles[k] and steady[flat[k][0]]]
        if not written:
            continue
        inputs = repeats[index] and _inputs([flat[k] for k in range(first, end) if not roles[k]], constant, number)
        for k in written:
            storage = flat[k][0]
            if inputs is False:
                steady[storage] = False
                continue
            made[storage].append((form, immediates[index], k - first, *flat[k][1:], inputs))
            if index == last_write[storage]:
                parts = made.pop(storage)
                number[storage] = known.setdefault((program.storages[storage].pitch, *parts), len(known))
                if all(plain[part[0]] and part[-1][0][0] < 0 for part in parts):
                    loads.add(storage)
    return Values(number, last_write, loads)


def in_a_row(program: Program, values: Values) -> dict[int, int]:
    """Storage in SBUF -> the first of those before it that hold its value in a row, made in the same place of the code.

    Such a value does not change from one iteration of the innermost loop to the next.
    """
    core = cores(program)
    before: dict[tuple[int, ...], int] = {}
    first: dict[int, int] = {}
    for storage in np.argsort(np.array(values.last_write), kind="stable").tolist():
        held = program.storages[storage]
        if held.memory is not Memory.SBUF or values.last_write[storage] < 0:
            continue
        write = values.last_write[storage]
        site = (held.source, held.region, core[storage], int(program.source[write]), int(program.form[write]))
        last = before.get(site)
        before[site] = storage
        if last is not None and values.number[storage] == values.number[last] != UNKNOWN:
            first[storage] = first.get(last, last)
    return first


def of_one_input(program: Program) -> list[bool]:
    """Per storage: it is made of one tensor in HBM, and constants: an input that was cast, transposed, broadcast."""
    flat, roles, bounds = (
        program.operands[:, 0].tolist(),
        operand_roles(program).tolist(),
        program.operand_start.tolist(),
    )
    given: list[frozenset[int]] = [
        frozenset((number,)) if held.memory is Memory.HBM and held.role != "WEIGHT" else frozenset()
        for number, held in enumerate(program.storages)
    ]
    in_hbm = [held.memory is Memory.HBM for held in program.storages]
    for index in range(len(program)):
        span = range(bounds[index], bounds[index + 1])
        read = frozenset().union(*(given[flat[k]] for k in span if roles[k] == Role.READ))
        for k in span:
            if roles[k] != Role.READ and not in_hbm[flat[k]]:
                given[flat[k]] |= read
    return [len(inputs) <= 1 for inputs in given]


def broadcast(program: Program) -> set[int]:
    """Tiles that hold one row in every partition, by way of TensorE."""
    spreads = [
        form.engine is Engine.TENSOR and all(tile.partitions == 1 for tile in form.layouts[1:])
        for form in program.forms
    ]
    storage, start = program.operands[:, 0], program.operand_start[:-1]
    spread = np.zeros(len(program.storages), bool)
    spread[storage[start[np.array(spreads or [False])[program.form]]]] = True
    reads = (operand_roles(program) == Role.READ) & spread[storage]
    return set(storage[start[instructions_of_operands(program)[reads]]].tolist())


def cores(program: Program) -> list[int]:
    """The core that accesses each storage last, 0 for none."""
    core = np.zeros(len(program.storages), np.int64)
    core[program.operands[:, 0]] = program.core[instructions_of_operands(program)]
    return core.tolist()


def _inputs(reads: list[list[int]], constant: list[bool], number: list[int]) -> tuple | bool:
    """What an instruction reads, as numbers that are equal where the contents are; False where that is not known."""
    found = []
    for storage, offset, layout in reads:
        if constant[storage]:
            found.append((-1, storage, offset, layout))
        elif number[storage] == UNKNOWN:
            return False
        else:
            found.append((number[storage], 0, offset, layout))
    return tuple(found)


def _steady(program: Program, roles: np.ndarray) -> tuple[list[bool], list[int]]:
    """Per storage: on chip and written only before it is read; and its last write."""
    instruction, storage, writes = instructions_of_operands(program), program.operands[:, 0], roles != Role.READ
    last = np.full(len(program.storages), -1, np.int64)
    last[storage[writes]] = instruction[writes]
    first = np.full(len(program.storages), len(program), np.int64)
    first[storage[~writes][::-1]] = instruction[~writes][::-1]
    free = np.array([s.memory is not Memory.HBM and s.address is None for s in program.storages], bool)
    return (free & (last < first)).tolist(), last.tolist()


def _repeatable(program: Program) -> list[bool]:
    """Per instruction: it depends on nothing but its operands, no hidden register, no generator's state."""
    alone = np.array([form.call in DRAWING | LATE for form in program.forms] or [False], bool)
    repeats = ~alone[program.form]
    repeats[program.order[:, :2].ravel()] = False
    return repeats.tolist()
