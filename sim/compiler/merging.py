"""Merging: neighbouring small instructions of one statement become one instruction over all their operands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim.engines import laws
from sim.program import Cost, DmaCost, Form, Program, Role
from sim.spec import Device
from sim.trace import Engine, Memory

TINY = 32
"""Elements a partition up to which an operation is merged."""

COLUMNS = 512
"""Elements a partition of a merged operation."""

ROW = 4096
"""Bytes a partition of a merged transfer."""

MERGED = frozenset(
    f"nki.isa.{call}" for call in ("tensor_reduce", "reciprocal", "activation", "tensor_scalar", "tensor_copy")
)


def merge_neighbours(program: Program, where: np.ndarray) -> Program:
    """Merge runs of equal small instructions of one source line.

    where : bool[n], which instructions may be merged
    """
    groups = _groups(program, where)
    if all(len(group) == 1 for group in groups):
        return program
    forms, made = list(program.forms), {}
    form, kept, operands, start = [], [], [], [0]
    bounds, flat = program.operand_start.tolist(), program.operands.tolist()
    for group in groups:
        number, count = int(program.form[group[0]]), len(group)
        if count > 1:
            runs = _runs(program, group)
            if (number, runs) not in made:
                made[number, runs] = len(forms)
                forms.append(merged(program.device, forms[number], count, runs))
            number = made[number, runs]
        form.append(number)
        kept.append(group[0])
        for index in group:
            operands += flat[bounds[index] : bounds[index + 1]]
        start.append(len(operands))
    return _finished(program, groups, np.array(kept), forms, (form, operands, start))


def _finished(
    program: Program, groups: list[list[int]], kept: np.ndarray, forms: list[Form], columns: tuple
) -> Program:
    form, operands, start = columns
    place = np.zeros(len(program), np.int64)
    for number, group in enumerate(groups):
        place[group] = number
    return replace(
        program,
        forms=tuple(forms),
        form=np.array(form, np.int32),
        source=program.source[kept],
        region=program.region[kept],
        core=program.core[kept],
        iteration=program.iteration[kept],
        immediate=program.immediate[kept] if program.immediate.size else program.immediate,
        operand_start=np.array(start, np.int64),
        operands=np.array(operands, np.int64).reshape(-1, 3),
        names={number: f"{len(group)} merged" for number, group in enumerate(groups) if len(group) > 1}
        | {int(place[index]): name for index, name in program.names.items()},
        born=place[np.clip(program.born, 0, len(place) - 1)],
        findings=tuple(
            replace(found, instruction=int(place[found.instruction])) if found.instruction >= 0 else found
            for found in program.findings
        ),
    )


def _groups(program: Program, where: np.ndarray) -> list[list[int]]:
    """Instructions that become one, in their order."""
    most = [most_merged(form) for form in program.forms]
    keys = list(zip(program.form.tolist(), program.source.tolist(), program.core.tolist(), where.tolist()))
    groups: list[list[int]] = []
    group = _Group()
    for index, key in enumerate(keys):
        if not key[3]:
            groups.append([index])
            continue
        reads, writes = _places(program, index)
        fits = groups and key == keys[groups[-1][0]] and len(groups[-1]) < most[key[0]]
        if fits and group.takes(reads, writes):
            groups[-1].append(index)
        else:
            groups.append([index])
            group = _Group()
        group.reads |= reads
        group.writes |= writes
    return groups


class _Group:
    """What a group of merged instructions accesses: (storage, offset) of each operand."""

    def __init__(self) -> None:
        self.reads: set[tuple[int, int]] = set()
        self.writes: set[tuple[int, int]] = set()

    def takes(self, reads: set[tuple[int, int]], writes: set[tuple[int, int]]) -> bool:
        """Whether an instruction depends on nothing in the group, and nothing in it on the instruction."""
        return not (
            writes & self.writes
            or _storages(reads) & _storages(self.writes)
            or _storages(writes) & _storages(self.reads)
        )


def _storages(places: set[tuple[int, int]]) -> set[int]:
    return {storage for storage, _ in places}


def _places(program: Program, index: int) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """(storage, offset) of what an instruction reads, and of what it writes."""
    rows = program.operands[program.operand_start[index] : program.operand_start[index + 1]].tolist()
    roles = program.forms[program.form[index]].roles
    reads = {(row[0], row[1]) for row, role in zip(rows, roles) if role is not Role.WRITE}
    return reads, {(row[0], row[1]) for row, role in zip(rows, roles) if role is not Role.READ}


def most_merged(form: Form) -> int:
    """How many instructions of a form one can stand for."""
    if form.dma is not None:
        if form.roles != (Role.WRITE, Role.READ):
            return 1
        rows = max(1, *(layout.partitions for layout in form.layouts))
        return max(1, ROW * rows // form.dma.bytes)
    single = form.call in MERGED and len(form.layouts) == 2 and form.engine in (Engine.VECTOR, Engine.SCALAR)
    return COLUMNS // form.elements if single and 0 < form.elements <= TINY else 1


def _runs(program: Program, group: list[int]) -> tuple[int, ...]:
    """How many of the instructions continue the rows that the first one moves, one run after the other."""
    form = program.forms[program.form[group[0]]]
    if form.dma is None:
        return (1,) * len(group)
    side = next((k for k, layout in enumerate(form.layouts) if layout.memory is Memory.HBM), 0)
    row = form.layouts[side].nbytes // form.dma.descriptors
    at = program.operands[program.operand_start[group] + side, 1]
    ends = np.flatnonzero(np.append(np.diff(at) != row, True)) + 1
    return tuple(np.diff(ends, prepend=0).tolist())


def merged(device: Device, form: Form, count: int, runs: tuple[int, ...] = ()) -> Form:
    """One instruction that does the work of several equal ones: what does not grow with the elements is paid once.

    runs : of a transfer, how many of them share their rows, one run after the other
    """
    return replace(
        form,
        roles=form.roles * count,
        layouts=form.layouts * count,
        elements=form.elements * count,
        flops=form.flops * count,
        adjusted_flops=form.adjusted_flops * count,
        cost=form.cost if form.dma is not None else _cost(device, form, count),
        dma=None if form.dma is None else _dma(device, form, count, len(runs) or count),
    )


def _cost(device: Device, form: Form, count: int) -> Cost:
    vector = form.engine is Engine.VECTOR
    fixed = laws.cycles(device, "clock_vector", device["dve.issue_ovh"]) if vector else laws.ns(device["act.issue_ovh"])
    more = (count - 1) * max(0, form.cost.occupancy_ps - fixed)
    return replace(form.cost, occupancy_ps=form.cost.occupancy_ps + more, latency_ps=form.cost.latency_ps + more)


def _dma(device: Device, form: Form, count: int, runs: int) -> DmaCost:
    moved = form.dma
    shared = laws.ns(device["dma.desc_ovh"]) * -(-moved.descriptors // moved.engines)
    return replace(
        moved,
        service_ps=moved.service_ps * count - shared * (count - runs),
        hbm_ps=moved.hbm_ps * count,
        bytes=moved.bytes * count,
        descriptors=moved.descriptors * runs,
    )
