"""Tensors in HBM, and what lies where on chip for how long."""

from __future__ import annotations

import numpy as np

from sim import dtypes
from sim.compiler import operand_roles
from sim.memory import Layout
from sim.program import Program, Role
from sim.schedule import Schedule
from sim.trace import Allocations, Memory, Strings, Tensors

ORDER = {"IN": 0, "WEIGHT": 1, "OUT": 2}


def tensors(program: Program, strings: Strings) -> Tensors:
    """HBM tensors, inputs and outputs first, with how often they were loaded."""
    held = [storage for storage in program.storages if storage.memory is Memory.HBM]
    held.sort(key=lambda storage: (ORDER.get(storage.role, len(ORDER)), storage.index))
    loads, loaded = _loads(program)
    index = [storage.index for storage in held]
    return Tensors(
        len(held),
        name=strings.codes(storage.name for storage in held),
        type=strings.codes(storage.role for storage in held),
        dtype=strings.codes(dtypes.short(storage.layout.dtype) for storage in held),
        shape=strings.codes(f"[{' '.join(map(str, storage.layout.shape))}]" for storage in held),
        memory=np.full(len(held), Memory.HBM),
        bytes=np.array([storage.nbytes for storage in held], np.int64),
        loads=loads[index],
        loaded_bytes=loaded[index],
        source=np.array([storage.source for storage in held], np.int32),
    )


def _loads(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """Per storage: DMAs that read it into on-chip memory, and their bytes."""
    to_chip = [
        form.dma is not None
        and any(layout.pitch for role, layout in zip(form.roles, form.layouts) if role is not Role.READ)
        for form in program.forms
    ]
    owner = np.repeat(program.form, np.diff(program.operand_start))
    chosen = np.array(to_chip or [False], bool)[owner] & (operand_roles(program) == Role.READ)
    storage, layout = program.operands[chosen, 0], program.operands[chosen, 2]
    sizes = np.zeros(int(layout.max(initial=0)) + 1, np.int64)
    for index in np.flatnonzero(np.bincount(layout)).tolist():
        sizes[index] = Layout.by_index[index].nbytes
    count = len(program.storages)
    loaded = np.zeros(count, np.int64)
    np.add.at(loaded, storage, sizes[layout])
    return np.bincount(storage, minlength=count), loaded


def lives(timed: Schedule) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(on-chip storages in use, start of the first access, end of the last), ordered by start.

    An access ends when its engine is free, a transfer's when its semaphore is visible: then the bytes can be reused.
    """
    program = timed.program
    instruction = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    storage = program.operands[:, 0]
    start = np.full(len(program.storages), np.iinfo(np.int64).max)
    end = np.zeros(len(program.storages), np.int64)
    np.minimum.at(start, storage, timed.start[instruction])
    over = timed.freed.copy()
    over[timed.transfers.instruction] = timed.done[timed.transfers.instruction]
    np.maximum.at(end, storage, over[instruction])
    chip = timed.placement.columns.memory != Memory.HBM
    used = np.flatnonzero(chip & (timed.placement.first >= 0))
    order = np.argsort(start[used], kind="stable")
    return used[order], start[used][order], end[used][order]


def allocations(timed: Schedule, strings: Strings, lead: int) -> Allocations:
    """Every on-chip tile that is used, by start."""
    placement, columns = timed.placement, timed.placement.columns
    used, start, end = lives(timed)
    return Allocations(
        len(used),
        tensor=record_codes(timed, strings)[columns.record[used]],
        memory=columns.memory[used],
        core=placement.core[used],
        start_ps=start + lead,
        end_ps=end + lead,
        partition=placement.partition[used],
        partitions=columns.partitions[used],
        offset=placement.offset[used],
        bytes=columns.pitch[used],
        source=columns.source[used],
    )


def record_codes(timed: Schedule, strings: Strings) -> np.ndarray:
    """Code of the name of each distinct storage."""
    return strings.codes(record.name for record in timed.placement.columns.records)
