"""Splitting: a tile whose parts are never accessed together becomes one tile for each part.

Kernels declare arrays of tiles as one tensor; compilers give each part a place and a life of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sim.compiler.columns import instructions_of_operands, repitched
from sim.memory import Layout, Storage
from sim.program import Form, Program
from sim.trace import Memory

SMALLEST = 2048
"""Bytes of a part: shorter rows are below what the documents recommend for transfers, should it be spilled."""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes [low, high) of each partition of a storage, as a storage of its own."""

    low: int
    high: int
    storage: Storage


def split(program: Program) -> Program:
    """Give the parts of each tile in SBUF that no instruction accesses together a storage each."""
    parts = _parts(program)
    if not parts:
        return program
    storages, forms, made = list(program.storages), list(program.forms), {}
    operands, form = program.operands.copy(), program.form.copy()
    instruction, start = instructions_of_operands(program), program.operand_start
    changed = np.isin(operands[:, 0], list(parts))
    for row in np.flatnonzero(changed).tolist():
        storage, offset, layout_index = operands[row].tolist()
        layout = Layout.by_index[layout_index]
        partition, byte = divmod(offset, program.storages[storage].pitch)
        part = next(part for part in parts[storage] if part.low <= byte < part.high)
        if part.storage.index < 0:
            part.storage.index = len(storages)
            storages.append(part.storage)
        narrow = repitched(layout, part.storage.pitch)
        operands[row] = part.storage.index, partition * part.storage.pitch + byte - part.low, narrow.index
        index = int(instruction[row])
        key = (int(form[index]), row - int(start[index]), narrow.index)
        if key not in made:
            made[key] = len(forms)
            forms.append(_with_layout(forms[key[0]], key[1], narrow))
        form[index] = made[key]
    born = np.concatenate((program.born, np.zeros(len(storages) - len(program.storages), np.int64)))
    return replace(program, forms=tuple(forms), storages=tuple(storages), operands=operands, form=form, born=born)


def _with_layout(form: Form, place: int, layout: Layout) -> Form:
    return replace(form, layouts=(*form.layouts[:place], layout, *form.layouts[place + 1 :]))


def _parts(program: Program) -> dict[int, list[Part]]:
    """The parts of each storage that has more than one."""
    seen: dict[int, set[tuple[int, int]]] = {}
    distinct = np.unique(_of_several_views(program), axis=0).tolist() if len(program) else []
    for storage, offset, layout_index in distinct:
        held = program.storages[storage]
        if held.memory is Memory.SBUF and held.address is None:
            layout, byte = Layout.by_index[layout_index], offset % held.pitch
            whole = layout.strides[0] % layout.pitch or min(layout.strides[1:], default=0) < 0
            span = (0, held.pitch) if whole else (byte, byte + layout.span)
            seen.setdefault(storage, set()).add(span)
    found = {}
    for storage, spans in seen.items():
        groups = _groups(spans)
        if len(groups) > 1 and min(high - low for low, high in groups) >= SMALLEST:
            found[storage] = [_part(program.storages[storage], low, high) for low, high in groups]
    return found


def _of_several_views(program: Program) -> np.ndarray:
    """The operands of those storages that are not always accessed by the same view."""
    operands, storage = program.operands, program.operands[:, 0]
    some = np.zeros((len(program.storages), 2), np.int64)
    some[storage] = operands[:, 1:]
    several = np.zeros(len(program.storages), bool)
    several[storage[(operands[:, 1:] != some[storage]).any(axis=1)]] = True
    return operands[several[storage]]


def _groups(spans: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Unions of overlapping spans, ascending."""
    groups: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if groups and low < groups[-1][1]:
            groups[-1] = (groups[-1][0], max(high, groups[-1][1]))
        else:
            groups.append((low, high))
    return groups


def _part(whole: Storage, low: int, high: int) -> Part:
    dtype = whole.layout.dtype
    layout = Layout.dense((whole.partitions, (high - low) // dtype.itemsize), dtype, whole.memory)
    storage = Storage(-1, whole.name, layout, whole.role, whole.source, whole.region, values=False)
    return Part(low, high, storage)
