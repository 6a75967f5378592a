"""Renaming: a tile that is overwritten as a whole becomes a new tile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim.compiler.columns import dense_bytes, operand_roles, used_layouts
from sim.memory import Layout
from sim.program import Program, Role
from sim.trace import Memory


def rename(program: Program) -> Program:
    """A write that covers a whole on-chip storage begins a new storage, so that reusing a buffer's name costs nothing.

    Versions of one storage are never alive together, so the need for memory does not grow; they share its record.
    Storages at an address that the kernel chose, and those in HBM, stay as they are.
    """
    storage = program.operands[:, 0]
    order = np.argsort(storage, kind="stable")
    begins = _begins(program, order)
    if not begins.any():
        return program
    number = len(program.storages) - 1 + np.cumsum(begins)
    latest = np.maximum.accumulate(np.where(begins, np.arange(begins.size), 0))
    same = begins[latest] & (storage[order[latest]] == storage[order])
    operands = program.operands.copy()
    operands[order, 0] = np.where(same, number[latest], storage[order])
    instruction = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    again = tuple(program.storages[index] for index in storage[order[begins]].tolist())
    born = np.concatenate((program.born, instruction[order[begins]]))
    return replace(program, storages=program.storages + again, operands=operands, born=born)


def _begins(program: Program, order: np.ndarray) -> np.ndarray:
    """For operands sorted by storage, then instruction: which ones begin a new version of their storage."""
    storage = program.operands[order, 0]
    instruction = np.repeat(np.arange(len(program)), np.diff(program.operand_start))[order]
    new = np.append(True, storage[1:] != storage[:-1]) if order.size else np.zeros(0, bool)
    pair = new | np.append(True, instruction[1:] != instruction[:-1]) if order.size else new
    starts = np.flatnonzero(pair)
    roles = operand_roles(program)[order]
    covers = (roles == Role.WRITE) & _covering(program)[order]
    if not covers.any():
        return covers
    begins = np.logical_or.reduceat(covers, starts) & ~np.logical_or.reduceat(roles != Role.WRITE, starts)
    begins &= ~new[starts]
    spread = np.zeros(order.size, bool)
    spread[starts[begins]] = True
    return spread


def _covering(program: Program) -> np.ndarray:
    """Per operand: whether it covers a storage that may be renamed."""
    storage, offset, layout = program.operands.T
    free = np.array([s.memory is not Memory.HBM and s.address is None for s in program.storages] or [False], bool)
    size = np.array([s.nbytes for s in program.storages] or [0], np.int64)
    covered = np.zeros(int(layout.max(initial=-1)) + 1, np.int64)
    for index in used_layouts(program):
        covered[index] = dense_bytes(Layout.by_index[index])
    return free[storage] & (offset == 0) & (covered[layout] == size[storage])
