"""Which values can be dropped when, for kernels whose tiles together are larger than this machine's memory.

Every tile keeps its values until the kernel ends, because its Python may still read them. Where that is too much, the
kernel is traced once for its shapes alone, which tells the last use of each tile, and then again with values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sim.errors import UnsupportedError
from sim.program import Program
from sim.trace import Memory


@dataclass(frozen=True, slots=True)
class Plan:
    """What a launch does, and which storages nothing uses after each instruction."""

    program: Program
    after: dict[int, list[int]]


def plan(program: Program, kept: Iterable[int]) -> Plan:
    """The plan of a program that was traced without values.

    kept : storages whose values are asked for after the kernel
    """
    instruction = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    last = np.full(len(program.storages), -1, np.int64)
    last[program.operands[:, 0]] = instruction
    keep = set(kept)
    after: dict[int, list[int]] = {}
    for storage in program.storages:
        if storage.memory is not Memory.HBM and storage.index not in keep and last[storage.index] >= 0:
            after.setdefault(int(last[storage.index]), []).append(storage.index)
    return Plan(program, after)


def check(made: Plan, program: Program) -> None:
    """raises: UnsupportedError when the kernel has done something else the second time, so that values may be lost"""
    first, done = made.program, len(program)
    operands = int(program.operand_start[-1])
    same = np.array_equal(first.form[:done], program.form)
    same &= np.array_equal(first.operands[:operands, :2], program.operands[:, :2])
    if not same:
        raise UnsupportedError(
            f"{program.kernel}: the kernel's tiles are larger than memory and what it does depends on their values",
            remedy="run it with smaller tensors, or values=False",
        )
