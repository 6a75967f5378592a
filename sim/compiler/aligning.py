"""Aligning: a result that begins at another partition than the two tiles it is made of is copied there.

VectorE's lanes go straight through where two tiles meet; legacy compilers leave the shift to a copy. The published
rotary embedding reads and writes two half tiles by copies where its code has one (sbuf_read_bytes and sbuf_write_bytes
beyond those of its transfers, NKIBench).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sim.compiler.columns import operand_roles
from sim.compiler.emission import Emission
from sim.engines import vector
from sim.memory import Layout
from sim.program import Program, Role
from sim.trace import Engine, Memory

OF_TWO = frozenset(f"nki.isa.{call}" for call in ("tensor_tensor", "scalar_tensor_tensor", "tensor_tensor_scan"))
"""Calls that combine two tiles lane by lane."""

OPEN = (vector.UNKNOWN, False)
"""A copy whose engine the compiler chooses."""


def align(program: Program) -> Program:
    """Let what shifts its result write beside its inputs, and a copy shift it."""
    shifted = dict(_shifted(program))
    if not shifted:
        return program
    out, bounds, flat = Emission(program), program.operand_start.tolist(), program.operands.tolist()
    for index, number in enumerate(program.form.tolist()):
        rows = flat[bounds[index] : bounds[index + 1]]
        if index not in shifted:
            out.emit(number, index, rows, old=True)
            continue
        wanted = Layout.by_index[rows[0][2]]
        whole = Layout.dense((shifted[index] + wanted.partitions, *wanted.free_shape), wanted.dtype, Memory.SBUF)
        beside = Layout(wanted.shape, whole.strides, wanted.dtype, Memory.SBUF, whole.pitch)
        tile = [out.new_storage(rows[0][0], whole), shifted[index] * whole.pitch, beside.index]
        out.emit(_written_to(out, number, beside), index, [tile, *rows[1:]], old=True)
        copy = out.own(vector.describe_copy(program.device, (wanted, beside), *OPEN), OPEN)
        out.emit(copy, index, [rows[0], tile], name="copied to its partitions")
    return out.finished()


def _written_to(out: Emission, number: int, layout: Layout) -> int:
    return out.derived(number, layout, lambda old: replace(old, layouts=(layout, *old.layouts[1:])))


def _shifted(program: Program) -> Iterator[tuple[int, int]]:
    """Instructions whose result begins at another partition than all they combine, and the partition of these."""
    combines = [form.call in OF_TWO and form.engine is Engine.VECTOR for form in program.forms]
    rows = np.flatnonzero(np.array(combines or [False])[program.form])
    roles, bounds = operand_roles(program).tolist(), program.operand_start.tolist()
    for index in rows.tolist():
        span = range(bounds[index], bounds[index + 1])
        inputs = {_partition(program, k) for k in span if roles[k] == Role.READ}
        into = program.storages[int(program.operands[bounds[index], 0])]
        if len(inputs) == 1 and into.memory is Memory.SBUF and _partition(program, bounds[index]) not in inputs:
            yield index, inputs.pop()


def _partition(program: Program, row: int) -> int:
    storage, offset, _ = program.operands[row].tolist()
    held = program.storages[storage]
    return offset // held.pitch + (held.address[0] if held.address else 0)
