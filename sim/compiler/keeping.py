"""Weights that TensorE still has from the matmul before are not loaded again.

Captured 16-bit kernels have as many LDWEIGHTS as the stationary tile changes. The two passes of an fp32 matmul have
weights of their own, so that nothing is kept from one instruction to the next.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim.compiler.columns import instructions_of_operands, operand_roles
from sim.program import Form, Program, Role

STATIONARY = 1
"""Place of the stationary tile among the operands of a matmul."""


def keep_weights(program: Program) -> Program:
    """The program in which a matmul with the weights of the one before has none to load."""
    again = _again(program)
    if not again.size:
        return program
    number = program.form.copy()
    reused = np.unique(number[again])
    place = np.zeros(len(program.forms), number.dtype)
    place[reused] = len(program.forms) + np.arange(reused.size)
    number[again] = place[number[again]]
    forms = (*program.forms, *(_loaded(program.forms[each]) for each in reused.tolist()))
    return replace(program, forms=forms, form=number)


def _loaded(form: Form) -> Form:
    return replace(form, kept=True, load_ps=0, cost=replace(form.cost, weights_ps=0))


def _again(program: Program) -> np.ndarray:
    """Matmuls of one pass whose stationary tile is that of the matmul before, unwritten since."""
    loads = np.array([form.load_ps > 0 for form in program.forms] or [0], bool)[program.form]
    single = np.array([form.passes == 1 for form in program.forms] or [0], bool)[program.form]
    own = np.flatnonzero(loads)
    own = own[np.argsort(program.core[own], kind="stable")]
    tile = program.operands[program.operand_start[own] + STATIONARY] if own.size else np.zeros((0, 3), np.int64)
    before, after = own[:-1], own[1:]
    same = (tile[1:] == tile[:-1]).all(axis=1) & (program.core[before] == program.core[after])
    alike = np.array([form.kind == "TRANSPOSE" for form in program.forms] or [0], bool)[program.form]
    same &= single[before] & single[after] & (alike[before] == alike[after])
    before, after, storage = before[same], after[same], tile[1:, 0][same]
    return after[~_written(program, storage, before, after)]


def _written(program: Program, storage: np.ndarray, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Whether an instruction between two writes into a storage, bool[pairs]."""
    writes = operand_roles(program) != Role.READ
    n = len(program)
    keys = np.sort(program.operands[writes, 0] * n + instructions_of_operands(program)[writes])
    following = np.searchsorted(keys, storage * n + before)
    return np.append(keys, np.iinfo(np.int64).max)[following] < storage * n + after
