"""Engines for the instructions whose engine the kernel leaves open, as compilers of the legacy API choose them.

On NeuronCore-v2 ScalarE copies and scales while VectorE computes; later, copies from PSUM alternate between the two. Of
transfers, those of arguments and results are started by GpSimd with software descriptors, those of other HBM tensors by
hardware descriptors: stores from ScalarE, loads from SyncE (facts of the timing prototype, section 8.1; NeuronCore-v2
has static descriptors only).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim.engines import dma, laws
from sim.engines.vector import SCALAR_COMBINATIONS, UNKNOWN
from sim.program import Form, Program, Role
from sim.spec import Device
from sim.trace import Engine, Memory


def assign(program: Program) -> Program:
    """Move instructions that may run elsewhere to the engines that legacy compilers choose."""
    forms, form = list(program.forms), program.form.copy()
    for number in np.unique(program.form).tolist():
        rows = np.flatnonzero(program.form == number)
        if _is_open_copy(program, number):
            _move_copies(program.device, forms, form, number, rows)
        elif _is_open_scaling(program, number) and program.device.generation <= laws.SHARING_GENERATION:
            form[rows] = _added(forms, on_scalar(program.device, forms[number]))
    if program.device.generation > laws.SHARING_GENERATION:
        _trigger(program, forms, form)
    return replace(program, forms=tuple(forms), form=form)


def _added(forms: list[Form], made: Form) -> int:
    forms.append(made)
    return len(forms) - 1


def _asked(program: Program, number: int) -> tuple:
    return program.asked[number] if number < len(program.asked) else ()


def _is_open_copy(program: Program, number: int) -> bool:
    return program.forms[number].call == "nki.isa.tensor_copy" and _asked(program, number)[:1] == (UNKNOWN,)


def _is_open_scaling(program: Program, number: int) -> bool:
    """A product or sum of a tile with a number or a column, for which ScalarE has scale and bias."""
    asked = _asked(program, number)
    is_scaling = program.forms[number].call == "nki.isa.tensor_scalar" and len(asked) == 5
    return is_scaling and asked[4] == UNKNOWN and asked[:2] in SCALAR_COMBINATIONS


def _move_copies(device: Device, forms: list[Form], form: np.ndarray, number: int, rows: np.ndarray) -> None:
    copy = forms[number]
    from_psum = copy.layouts[1].memory is Memory.PSUM
    if device.generation <= laws.SHARING_GENERATION:
        form[rows] = _added(forms, on_scalar(device, copy))
    elif from_psum:
        form[rows[::2]] = _added(forms, on_scalar(device, copy))


def on_scalar(device: Device, form: Form) -> Form:
    """The same work as an activation instruction."""
    columns = len(form.layouts) > 2
    cost = laws.scalar(device, form.layouts[:2], form.elements, copies=True, columns=columns)
    return replace(form, engine=Engine.SCALAR, opcode="ACTIVATE", function=form.function or "COPY", cost=cost)


def _trigger(program: Program, forms: list[Form], form: np.ndarray) -> None:
    """Choose who starts the transfers between HBM and SBUF."""
    made: dict[tuple[int, bool], int] = {}
    is_copy = np.array([_is_open_transfer(program, number) for number in range(len(program.forms))] or [False], bool)
    for index in np.flatnonzero(is_copy[program.form]).tolist():
        number = int(program.form[index])
        span = range(int(program.operand_start[index]), int(program.operand_start[index + 1]))
        in_hbm = [program.storages[int(program.operands[k, 0])] for k in span]
        outside = any(held.memory is Memory.HBM and held.role != "INTERNAL" for held in in_hbm)
        if (number, outside) not in made:
            made[number, outside] = _added(forms, triggered(program.device, forms[number], outside))
        form[index] = made[number, outside]


def _is_open_transfer(program: Program, number: int) -> bool:
    form = program.forms[number]
    open_ = _asked(program, number)[:3] == (dma.UNKNOWN, dma.UNKNOWN, None)
    return open_ and form.dma is not None and form.roles == (Role.WRITE, Role.READ)


def triggered(device: Device, form: Form, outside: bool) -> Form:
    """A transfer started as legacy compilers do.

    outside : it moves an argument or a result of the kernel
    """
    dst, src = form.layouts
    stores = dst.memory is Memory.HBM
    engine = Engine.GPSIMD if outside else Engine.SCALAR if stores else Engine.SYNC
    kind = "sw" if outside else "hw"
    cost, moved = laws.dma(device, dst, (src,), (kind, engine), form.dma.descriptors)
    if not outside:
        issue = laws.ns(device["dma.issue_hw_scratch"])
        cost = replace(cost, occupancy_ps=issue, latency_ps=issue)
    return replace(form, engine=engine, cost=cost, dma=moved)
