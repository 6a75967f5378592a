"""Columns of a program that several passes need."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import numpy as np

from sim.memory import Layout
from sim.program import Form, Program, Role
from sim.trace import Engine, Memory


def used_layouts(program: Program) -> list[int]:
    """Indices of the layouts of all operands, ascending."""
    return np.flatnonzero(np.bincount(program.operands[:, 2])).tolist()


def dense_bytes(layout: Layout) -> int:
    """Bytes of a view that fills all bytes between its first and its last, in any order of dimensions; else 0."""
    expected = layout.itemsize
    dims = sorted((abs(stride), size, stride) for size, stride in zip(layout.shape, layout.strides) if size > 1)
    for stride, size, signed in dims:
        if signed != expected:
            return 0
        expected = stride * size
    return layout.nbytes


def repitched(layout: Layout, pitch: int) -> Layout:
    """The same elements in a storage of another number of bytes a partition."""
    first = layout.strides[0] // layout.pitch * pitch
    return Layout(layout.shape, (first, *layout.strides[1:]), layout.dtype, layout.memory, pitch)


def instructions_of_operands(program: Program) -> np.ndarray:
    """The instruction that each operand belongs to, int64[operands]."""
    return np.repeat(np.arange(len(program)), np.diff(program.operand_start))


def operand_roles(program: Program) -> np.ndarray:
    """Role of each operand, int8[operands]."""
    starts, flat = _flat_roles(program.forms)
    counts = np.diff(program.operand_start)
    shift = np.repeat(starts[program.form] - program.operand_start[:-1], counts)
    return flat[shift + np.arange(shift.size)]


def _flat_roles(forms: tuple[Form, ...]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.array([0, *accumulate(len(form.roles) for form in forms)], np.int64)
    return starts[:-1], np.array([role for form in forms for role in form.roles], np.int8)


def engines(program: Program) -> np.ndarray:
    """Engine that runs or triggers each instruction, int8[n]."""
    return np.array([form.engine for form in program.forms] or [Engine.SYNC], np.int8)[program.form]


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
        iteration=program.iteration[kept],
        immediate=program.immediate[kept] if program.immediate.size else program.immediate,
        operand_start=np.concatenate(([0], np.cumsum(counts[kept]))),
        operands=program.operands[np.repeat(kept, counts)],
        names={int(place[index]): name for index, name in program.names.items() if kept[index]},
        order=order,
        born=place[np.clip(program.born, 0, len(place) - 1)] if len(place) else program.born,
        findings=tuple(
            replace(found, instruction=int(place[found.instruction])) if found.instruction >= 0 else found
            for found in program.findings
            if found.instruction < 0 or kept[found.instruction]
        ),
    )


def dead(program: Program, dropped: np.ndarray) -> np.ndarray:
    """Instructions that go: those dropped, and those that only wrote on-chip tiles that nothing reads any more."""
    bounds, flat, role = (
        program.operand_start.tolist(),
        program.operands[:, 0].tolist(),
        operand_roles(program).tolist(),
    )
    on_chip = [storage.memory is not Memory.HBM for storage in program.storages]
    gone, wanted = dropped.tolist(), set()
    for index in range(len(gone) - 1, -1, -1):
        span = range(bounds[index], bounds[index + 1])
        writes = [flat[k] for k in span if role[k]]
        if not gone[index] and writes and all(on_chip[s] and s not in wanted for s in writes):
            gone[index] = True
        if not gone[index]:
            wanted.update(flat[k] for k in span if role[k] != Role.WRITE)
    return np.array(gone, bool)


def permuted(program: Program, order: np.ndarray) -> Program:
    """The program with its instructions in another order."""
    counts = np.diff(program.operand_start)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    instruction = instructions_of_operands(program)
    rows = np.argsort(place[instruction], kind="stable")
    return replace(
        program,
        form=program.form[order],
        source=program.source[order],
        region=program.region[order],
        core=program.core[order],
        iteration=program.iteration[order],
        immediate=program.immediate[order] if program.immediate.size else program.immediate,
        operand_start=np.concatenate(([0], np.cumsum(counts[order]))),
        operands=program.operands[rows],
        names={int(place[index]): name for index, name in program.names.items()},
        born=place[np.clip(program.born, 0, len(order) - 1)],
        findings=tuple(
            replace(found, instruction=int(place[found.instruction])) if found.instruction >= 0 else found
            for found in program.findings
        ),
    )
