"""What a compiler does to a program before it runs, each step a pure function Program -> Program that can be left out.

Current NKI keeps the kernel's order; its compiler renames buffers and schedules each engine within a window. What the
optimising middle end of the legacy API adds belongs here too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from sim.errors import InputError
from sim.memory import Layout, Storage
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
        return cls(generation=generation, windows=WINDOWS[generation], sbuf_figure=figure)


def rewrite(program: Program, options: Options) -> Program:
    """The program as its compiler would hand it to the engines."""
    return rename(program) if options.rename else program


def rename(program: Program) -> Program:
    """A write that covers a whole on-chip storage begins a new storage, so that reusing a buffer's name costs nothing.

    Versions of one storage are never alive together, so the need for memory does not grow.
    Storages at an address that the kernel chose, and those in HBM, stay as they are.
    """
    storage, instruction, begins = _full_writes(program)
    if not begins.any():
        return program
    order = np.argsort(storage, kind="stable")
    version = _versions(storage[order], instruction[order], begins[order])
    fresh = np.flatnonzero(version[1:] > version[:-1]) + 1
    fresh = fresh[storage[order][fresh] == storage[order][fresh - 1]]
    return _with_versions(program, order, version, fresh)


def _full_writes(program: Program) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per operand: its storage, its instruction, and whether it overwrites a renameable storage without reading it."""
    storage, offset, layout = program.operands.T
    counts = np.diff(program.operand_start)
    instruction = np.repeat(np.arange(len(program)), counts)
    roles = operand_roles(program)
    free = np.array([s.memory is not Memory.HBM and s.address is None for s in program.storages], bool)
    size = np.array([s.nbytes for s in program.storages], np.int64)
    covered = np.zeros(int(layout.max(initial=-1)) + 1, np.int64)
    for index in np.unique(layout).tolist():
        covered[index] = dense_bytes(Layout.by_index[index])
    full = (roles == Role.WRITE) & free[storage] & (offset == 0) & (covered[layout] == size[storage])
    touched = storage * np.int64(len(program)) + instruction
    full &= ~np.isin(touched, touched[roles != Role.WRITE])
    return storage, instruction, full


def _versions(storage: np.ndarray, instruction: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """A number that grows with each new version, for operands sorted by storage, then by instruction."""
    pair = np.concatenate(([True], (storage[1:] != storage[:-1]) | (instruction[1:] != instruction[:-1])))
    group = np.cumsum(pair) - 1
    starts = np.logical_or.reduceat(begins, np.flatnonzero(pair))
    first = np.concatenate(([True], storage[1:] != storage[:-1]))[pair]
    return np.cumsum(starts | first)[group]


def _with_versions(program: Program, order: np.ndarray, version: np.ndarray, fresh: np.ndarray) -> Program:
    """The program with a storage of its own for each version that begins at an operand in `fresh`."""
    operands = program.operands.copy()
    instruction = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    storages, born = list(program.storages), [program.born]
    index = operands[order, 0]
    numbers = np.full(int(version[-1]) + 1, -1, np.int64)
    numbers[version[fresh]] = len(storages) + np.arange(fresh.size)
    for old in index[fresh].tolist():
        storages.append(_another(program.storages[old], len(storages)))
    born.append(instruction[order[fresh]])
    renamed = numbers[version]
    operands[order, 0] = np.where(renamed < 0, index, renamed)
    return replace(program, storages=tuple(storages), operands=operands, born=np.concatenate(born))


def _another(storage: Storage, index: int) -> Storage:
    """A storage of the same shape and name for a later value; values have been computed by now."""
    return Storage(index, storage.name, storage.layout, storage.role, storage.source, storage.region, values=False)


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
