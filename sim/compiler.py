"""What a compiler does to a program before it runs, each step a pure function Program -> Program that can be left out.

Current NKI keeps the kernel's order; its compiler renames buffers and schedules each engine within a window. What the
optimising middle end of the legacy API adds belongs here too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from sim.errors import InputError
from sim.memory import Layout
from sim.program import Form, Program, Role
from sim.trace import Engine, Memory

UNBOUNDED = 1 << 30
"""A window that no queue outgrows."""

WINDOWS = {"current": (64, 64, 64, 64, UNBOUNDED), "legacy": (16, 16, 16, 16, UNBOUNDED)}
"""Per API generation and engine; source: facts of the timing prototype, table 8.1."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the compiler is taken to do."""

    generation: str = "current"
    """`current` (NKI 0.3 and later) or `legacy` (neuronxcc.nki)."""
    rename: bool = True
    """Give a tile that is overwritten as a whole a buffer of its own."""
    windows: tuple[int, ...] = WINDOWS["current"]
    """Per engine (Tensor, Vector, Scalar, GpSimd, Sync): instructions among which the oldest ready one goes first.
    1 is strictly in order. Sync only triggers DMAs, which the compiler orders freely."""
    spill: bool = False
    """Save and reload tiles where SBUF cannot hold all that are alive; else that is a CapacityError."""
    sbuf_figure: str = "sbuf.usable_partition_bytes"
    """Figure of the device that bounds SBUF, bytes a partition."""
    clock_phase_ps: int | None = None
    """Start of the kernel within a window of TensorE's clock; None for the device's figure."""

    def __post_init__(self) -> None:
        if len(self.windows) != len(WINDOWS["current"]) or min(self.windows) < 1:
            raise InputError(f"windows {self.windows}: five numbers of at least 1 are needed")

    @classmethod
    def for_generation(cls, generation: str) -> Options:
        """The defaults of an API generation."""
        if generation not in WINDOWS:
            raise InputError(f"API generation {generation!r}", remedy=f"known: {', '.join(WINDOWS)}")
        figure = "sbuf.usable_partition_bytes" + ("_legacy" if generation == "legacy" else "")
        spills = generation == "legacy"
        return cls(generation=generation, windows=WINDOWS[generation], spill=spills, sbuf_figure=figure)


def rewrite(program: Program, options: Options) -> Program:
    """The program as its compiler would hand it to the engines."""
    return rename(program) if options.rename else program


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
