"""What a kernel is once its Python has run: a list of instructions with their operands, before time.

Instructions of one kind (same call, shapes, dtypes, options) share a `Form`, which holds all that does not depend on
where the operands lie: engine, opcode, work and cost. An instruction itself is then a form, the places of its operands
and a source line. `ProgramBuilder` appends; `Program` is the finished struct of arrays that passes and the scheduler
work on.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from sim import dtypes
from sim.errors import InputError, TrnprofError, UnsupportedError
from sim.iterations import START, Iterations
from sim.memory import BUFFERS, Layout, Storage, View, contains, overlap
from sim.spec import Device
from sim.trace import NONE, Engine, Finding, Memory, QueueType, RegionKind, Strings

ASSIGNMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*(?::[^=]+)?=[^=]")
HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
ISA = os.path.join(HERE, "nki", "isa", "")
"""Modules whose functions are instructions."""
KERNELS = os.path.join(HERE, "ops", "kernels", "")
"""Kernels that come with the emulator: their lines are a user's."""


VALUES_LIMIT = 2 << 30
"""Bytes of on-chip tiles whose values a launch keeps until the kernel ends."""


class TooManyValues(TrnprofError):
    """The tiles of a launch exceed `VALUES_LIMIT`, and it is not known when each can be dropped."""


class Role(IntEnum):
    """What an instruction does to an operand."""

    READ = 0
    WRITE = 1
    ACCUMULATE = 2
    """Adds to what is there (PSUM accumulation): reads and writes, but keeps order only with other engines."""


@dataclass(frozen=True, slots=True)
class Cost:
    """How long a form takes, integer picoseconds (source and spread of every figure: `sim.spec`)."""

    occupancy_ps: int
    """Until the engine may start its next instruction; for a DMA, the trigger's time on the issuing engine."""
    latency_ps: int
    """From start until the result is visible; for a DMA, of the trigger alone."""
    table: int = NONE
    """Activation table set that must be loaded; -1 for any."""
    port: int = 0
    """Ports that it shares while it streams: bit 0 SBUF (Vector, GpSimd on v2), bit 1 PSUM (Vector, Scalar on v2)."""
    clocked: bool = False
    """Slows down while TensorE's clock window is cold."""
    weights_ps: int = 0
    """TensorE: from the start of loading the weights until they are in the array; 0 for weights that are there."""
    tail_ps: int = 0
    """TensorE: the end of the occupancy, during which weights for the next instruction may be loaded."""
    gap_ps: int = 0
    """TensorE: the part of the occupancy in which nothing streams, which a cold clock hides."""


@dataclass(frozen=True, slots=True)
class DmaCost:
    """The part of a DMA that runs on the 16 DMA engines."""

    dispatch_ps: int
    """End of the trigger to the first byte."""
    notify_ps: int
    """Last byte to the semaphore."""
    service_ps: int
    """Time on each of the engines in use, alone: bytes at the engine's rate plus descriptors."""
    hbm_ps: int
    """Time that its HBM bytes take of the core's HBM bandwidth."""
    engines: int
    """DMA engines in use, 1-16."""
    bytes: int
    descriptors: int
    queue: str
    queue_type: QueueType


@dataclass(frozen=True, slots=True)
class Form:
    """An instruction without its place."""

    call: str
    """`nki.isa.tensor_tensor`: what the user wrote."""
    engine: Engine
    """The engine that runs it; for a DMA, the engine that triggers it."""
    opcode: str
    roles: tuple[Role, ...]
    """One an operand."""
    layouts: tuple[Layout, ...]
    """One an operand."""
    cost: Cost
    dma: DmaCost | None = None
    function: str = ""
    kind: str = "REGULAR"
    """REGULAR or TRANSPOSE."""
    dtype: str = ""
    """dtype that decides the rate."""
    partitions: int = 0
    elements: int = 0
    """Per partition; for a matmul rows x columns x moving columns (MACs)."""
    flops: int = 0
    """2 x MACs, times 2 for the two passes of fp32, as the profiler counts."""
    adjusted_flops: int = 0
    passes: int = 1
    """TensorE instructions pairs (LDWEIGHTS + MATMUL) that one call becomes."""
    load_ps: int = 0
    """TensorE: duration of LDWEIGHTS."""
    kept: bool = False
    """TensorE: its weights are those of the matmul before, so that it has no LDWEIGHTS."""
    useful: bool = True
    """False for work that the algorithm did not ask for: transposes, reloads."""
    sparse: tuple[int, ...] = ()
    """Operands of which only a part is read, so that the rest need not have been written."""
    spill: str = ""
    """Of a DMA that the compiler added for lack of SBUF: `save` or `reload` of a value, `repeat` of a load."""


@dataclass(frozen=True, slots=True)
class Op:
    """One instruction of the ISA: how it is described and what it computes.

    describe(device, operands' layouts, *static) -> Form; raises InputError naming call, argument, value and limit
    compute(arrays, *static, **immediates)       -> None, writes into the arrays of its destinations
    """

    call: str
    describe: Callable[..., Form]
    compute: Callable[..., None] | None
    """None for an instruction that moves no data."""
    needed: Callable[..., dict[int, np.ndarray]] | None = None
    """(arrays, *static) -> place: bool[shape], of operands of which values decide what is read."""


class Issued(NamedTuple):
    """An instruction just appended, in the terms of the call that issued it."""

    index: int
    op: Op
    operands: tuple[View, ...]
    static: tuple


@dataclass(frozen=True, slots=True)
class Region:
    """A node of the tree kernel → loop; source lines hang below when the trace is made."""

    parent: int
    kind: RegionKind
    name: str
    source: int
    """Code of `path:line`."""


@dataclass(frozen=True, slots=True)
class Program:
    """A finished list of instructions, columns of equal length n.

    form, source, region : int32[n]; operand_start: int64[n + 1]; operands: int64[m, 3] (storage, offset, layout index)
    order                : int64[k, 3] (first, then, whether first need only have been issued) asked for by the kernel
    """

    device: Device
    forms: tuple[Form, ...]
    storages: tuple[Storage, ...]
    regions: tuple[Region, ...]
    strings: Strings
    form: np.ndarray
    source: np.ndarray
    region: np.ndarray
    operand_start: np.ndarray
    operands: np.ndarray
    core: np.ndarray
    names: dict[int, str] = field(default_factory=dict)
    order: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    findings: tuple[Finding, ...] = ()
    born: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """int64[storages]: instruction before which each storage was allocated."""
    immediate: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    """int32[n]: equal where the values that a form does not hold (constants of an ALU operation) are equal."""
    iteration: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    """int32[n]: row of `iterations` that the instruction is in, NONE outside loops."""
    iterations: np.ndarray = field(default_factory=lambda: np.zeros((0, 4), np.int32))
    """int32[k, 4]: columns of `sim.iterations`."""
    asked: tuple[tuple, ...] = ()
    """Options of the call, of each form that a call made: what the kernel asked for."""
    calls: tuple[str, ...] = ()
    """`Op.call` of each form that a call made."""
    kernel: str = ""

    def __len__(self) -> int:
        return len(self.form)

    def scratch_bytes(self) -> tuple[int, int]:
        """Bytes written to and read from HBM tensors that are neither arguments nor results."""
        kept = [held.memory is Memory.HBM and held.role == "INTERNAL" for held in self.storages]
        amounts = [0, 0]
        for row in np.flatnonzero(np.array(kept, bool)[self.operands[:, 0]]).tolist():
            index = int(np.searchsorted(self.operand_start, row, "right")) - 1
            role = self.forms[self.form[index]].roles[row - int(self.operand_start[index])]
            amounts[role is Role.READ] += Layout.by_index[int(self.operands[row, 2])].nbytes
        return amounts[0], amounts[1]

    def release(self) -> None:
        """Give up the values of the tensors, which time does not depend on."""
        for storage in self.storages:
            storage.bytes = storage.written = None


def is_ours(path: str) -> bool:
    """Whether a file belongs to the emulator, whose lines are not a user's."""
    return path.startswith(HERE) and not path.startswith(KERNELS)


class _Ours(dict[str, bool]):
    """`is_ours` of each path."""

    def __missing__(self, path: str) -> bool:
        inside = self[path] = is_ours(path)
        return inside


class ProgramBuilder:
    """Collects instructions while a kernel's Python runs, and computes their values on the way.

    values: with False only shapes and time are traced, at full size
    """

    def __init__(self, device: Device, values: bool = True, seed: int = 0):
        self.device = device
        self.values = values
        self.random = np.random.default_rng(seed)
        self.strings = Strings()
        self.storages: list[Storage] = []
        self.regions: list[Region] = []
        self.region = NONE
        self.iterations = Iterations()
        self.core = 0
        self.grid: tuple[int, ...] = ()
        """Launch grid; empty without one."""
        self.pause: Callable[[], None] | None = None
        """Called before each instruction, when several programs add to this one by turns."""
        self.line: int | None = None
        """What `here` says while one call of a front end makes several steps; None to look."""
        self.program: tuple[int, ...] = ()
        """This program's place in the grid."""
        self.constants: dict[Hashable, View] = {}
        """Tiles that a front end writes once and reads again: ones, identities."""
        self.findings: list[Finding] = []
        self._unwritten: set[tuple[str | None, int]] = set()
        """(line, where a tensor was allocated) of reads of unwritten memory that have been found."""
        self._forms: dict[Hashable, int] = {}
        self.forms: list[Form] = []
        self._asked: list[tuple] = []
        self._calls: list[str] = []
        self._form: list[int] = []
        self._immediate: list[int] = []
        self._immediates: dict[Hashable, int] = {}
        self._source: list[int] = []
        self._region: list[int] = []
        self._core: list[int] = []
        self._iteration: list[int] = []
        self._operand_start: list[int] = [0]
        self._operands: list[int] = []
        self._born: list[int] = []
        self._names: dict[int, str] = {}
        self._variables: dict[int, str | None] = {}
        self._ours = _Ours()
        self._shared: list[Storage] = []
        self._shared_next = 0
        self._order: list[tuple[int, int, bool]] = []
        self._lines: dict[tuple[int, int], int] = {}
        """Code of `path:line` by identity of a code object and place in it: to ask a frame for its line is slow."""
        self._codes: list[CodeType] = []
        """Keeps those objects alive, so that an identity stays theirs."""
        self._loops: dict[tuple[int, int], int] = {}
        self._accumulated: dict[int, list[View]] = {}
        self._recent: deque[tuple] = deque(maxlen=2)
        """The fields of `Issued` of the newest two instructions; a call may be two."""
        self._spare: list[int] = []
        """Numbers of storages that were given up; the next allocations take them."""
        self.dropping: Mapping[int, Iterable[int]] = {}
        """Storages whose values are dropped after an instruction, by its number (`sim.recycling`)."""
        self._held = 0
        """Bytes of on-chip tiles with values."""

    def __len__(self) -> int:
        return len(self._form)

    # -- where in the user's code ------------------------------------------------------------------

    def here(self) -> int:
        """Code of `path:line` of the nearest caller outside the emulator."""
        if self.line is not None:
            return self.line
        frame, ours = sys._getframe(2), self._ours
        while ours[frame.f_code.co_filename]:
            frame = frame.f_back
            if frame is None:
                return NONE
        key = (id(frame.f_code), frame.f_lasti)
        known = self._lines.get(key)
        if known is None:
            known = self._lines[key] = self.strings.code(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            self._codes.append(frame.f_code)
        return known

    def where(self) -> str | None:
        """`path:line` of the nearest caller outside the emulator."""
        return self.strings[self.here()]

    @contextmanager
    def inside(self, kind: RegionKind, name: str, source: int = NONE) -> Iterator[int]:
        """Instructions appended within belong to this region."""
        outer = self.region
        key = (outer, kind, name, source)
        region = self._loops.get(key)
        if region is None:
            region = self._loops[key] = len(self.regions)
            self.regions.append(Region(outer, kind, name, source))
        self.region = region
        place = self.iterations.place()
        self.iterations.enter(region)
        try:
            yield region
        finally:
            self.region = outer
            self.iterations.back(place)

    # -- memory ------------------------------------------------------------------------------------

    def allocate(
        self,
        shape: tuple[int, ...],
        dtype: Any,
        memory: Memory,
        name: str | None = None,
        role: str = "INTERNAL",
        address: tuple[int, int] | None = None,
        buffer: str | None = None,
    ) -> Storage:
        """A new storage; `sim.allocation` finds its place on chip.

        Shared HBM is one tensor for all programs of a launch grid: the n-th allocation of each program is the same.
        """
        source = self.here() if role == "INTERNAL" else NONE
        shared = self._shared_again(shape, dtype) if buffer == "shared_hbm" and self.grid else None
        if shared is not None:
            return shared
        layout = Layout.dense(shape, dtype, memory)
        index = self._spare.pop() if self._spare else len(self.storages)
        storage = Storage(
            index,
            name or self.assigned(source) or f"{BUFFERS[memory]}_{index}",
            layout,
            role,
            source,
            self.region,
            self.values,
        )
        storage.address = address
        if buffer is not None:
            storage.buffer = buffer
        if self.values and memory is not Memory.HBM:
            self._held += storage.nbytes
            if self._held > VALUES_LIMIT and not self.dropping:
                raise TooManyValues(f"the tiles hold more than {VALUES_LIMIT} bytes", source=self.where())
        if index < len(self.storages):
            self.storages[index], self._born[index] = storage, len(self._form)
        else:
            self.storages.append(storage)
            self._born.append(len(self._form))
        if storage.buffer == "shared_hbm" and self.grid:
            self._shared.append(storage)
            self._shared_next = len(self._shared)
        return storage

    def assigned(self, source: int) -> str | None:
        """The variable that a source line assigns to: what people call a tensor without a name of its own."""
        if source not in self._variables:
            path, _, line = (self.strings[source] or "").rpartition(":")
            found = ASSIGNMENT.match(linecache.getline(path, int(line))) if path else None
            self._variables[source] = found[1] if found else None
        return self._variables[source]

    def _shared_again(self, shape: tuple[int, ...], dtype: Any) -> Storage | None:
        """The shared tensor that an earlier program of the grid allocated at this point, None for a new one."""
        if self._shared_next >= len(self._shared):
            return None
        storage = self._shared[self._shared_next]
        if storage.layout.shape != tuple(shape) or storage.layout.dtype != dtype:
            raise InputError(
                f"program {self.program} allocates shared {list(shape)} where another allocated {storage.layout}",
                source=self.where(),
            )
        self._shared_next += 1
        return storage

    def leave(self) -> tuple:
        """Where this program of the launch grid stands, before another one goes on."""
        return self.core, self.program, self.region, self._shared_next, self.iterations.place()

    def resume(self, place: tuple) -> None:
        """Go on with a program of the launch grid that left."""
        self.core, self.program, self.region, self._shared_next, iteration = place
        self.iterations.back(iteration)
        self._recent.clear()

    def begin(self, core: int, place: tuple[int, ...]) -> None:
        """Begin a program of the launch grid."""
        self.resume((core, place, NONE, 0, START))

    def written_storages(self) -> set[int]:
        """Storages that some instruction writes."""
        roles = [form.roles for form in self.forms]
        written = set()
        for index, number in enumerate(self._form):
            first = self._operand_start[index]
            for operand, role in enumerate(roles[number], first):
                if role is not Role.READ:
                    written.add(self._operands[3 * operand])
        return written

    # -- instructions ------------------------------------------------------------------------------

    def issue(
        self, op: Op, operands: tuple[View, ...], static: tuple = (), name: str | None = None, **immediates: Any
    ) -> int:
        """Append one instruction and, with values, compute it. Returns its number.

        static     : hashable options that shape the form
        immediates : values that only the result depends on
        """
        if self.pause is not None:
            self.pause()
        number = self._form_of(op, operands, static)
        index = self.append(number, operands, name, self._immediate_of(immediates) if immediates else NONE)
        if self.values and op.compute is not None:
            self._compute(op, number, operands, static, immediates)
        self._recent.append((index, op, operands, static))
        if self.dropping:
            self._drop_values()
        return index

    def _drop_values(self) -> None:
        """Forget the values that no later call needs."""
        for number in self.dropping.get(self._recent[0][0] - 1, ()):
            self.storages[number].bytes = self.storages[number].written = None

    def issue_idle(self, op: Op, operands: tuple[View, ...], static: tuple = (), name: str | None = None) -> int:
        """Append one instruction that, as it turns out when it runs, changes nothing."""
        return self.append(self._form_of(op, operands, static), operands, name)

    def maker(self, storage: Storage) -> Issued | None:
        """The one instruction that has touched a storage, if it is among the newest; it wrote there."""
        if not self._recent or self._born[storage.index] < self._recent[0][0]:
            return None
        touching = None
        for made in self._recent:
            for view in made[2]:
                if view.storage is storage:
                    if touching is not None:
                        return None
                    touching = made
        return None if touching is None else Issued(*touching)

    def redirect(self, made: Issued, storage: Storage, target: View, static: tuple | None = None) -> bool:
        """Let an instruction write `target` instead of the storage that only it has touched, which is given up.

        static  : other options of the instruction; the values that it has computed stay, cast to the target's dtype
        returns : False, with nothing changed, when the instruction cannot write there
        """
        index, op, views, options = made
        place = 0
        while views[place].storage is not storage:
            place += 1
        if self._recent[-1][0] != index:
            for view in self._recent[-1][2]:
                if view.storage is target.storage and overlap(target, view):
                    return False
        for view in views:
            same = view.offset == target.offset and view.layout is target.layout
            if view.storage is target.storage and not same and overlap(target, view):
                return False
        operands = (*views[:place], target, *views[place + 1 :])
        options = options if static is None else static
        try:
            number = self._form_of(op, operands, options)
        except InputError:
            return False
        self._form[index] = number
        first = 3 * (self._operand_start[index] + place)
        self._operands[first : first + 3] = (target.storage.index, target.offset, target.layout.index)
        if self.values:
            self._move(views[place], target, self.forms[number].roles[place])
        self._recent[0 if self._recent[0][0] == index else 1] = (index, op, operands, options)
        storage.bytes = storage.written = None
        self._held -= storage.nbytes
        self._spare.append(storage.index)
        return True

    def _move(self, source: View, target: View, role: Role) -> None:
        values, out = source.array(), target.array()
        if values.shape != out.shape:
            values = values.reshape(out.shape)
        dtypes.store(out, dtypes.to_fp32(out) + values if role is Role.ACCUMULATE else values)
        target.mark_written()

    def append(self, number: int, operands: tuple[View, ...], name: str | None = None, immediate: int = NONE) -> int:
        """Append an instruction of a known form at the current source line."""
        index = len(self._form)
        self._form.append(number)
        self._immediate.append(immediate)
        self._source.append(self.here())
        self._region.append(self.region)
        self._core.append(self.core)
        self._iteration.append(self.iterations.now)
        places = self._operands
        for view in operands:
            places += (view.storage.index, view.offset, view.layout.index)
        self._operand_start.append(len(places) // 3)
        if name is not None:
            self._names[index] = name
        return index

    def order(self, first: int, then: int, at_issue: bool = False) -> None:
        """Ask that one instruction completes, or with at_issue has only been issued, before another starts."""
        self._order.append((first, then, at_issue))

    def keep_order(self, first: int) -> None:
        """Ask that each engine issues its instructions from `first` on in program order."""
        newest: dict[tuple[int, Engine], int] = {}
        for index in range(first, len(self._form)):
            queue = (self._core[index], self.forms[self._form[index]].engine)
            if queue in newest:
                self.order(newest[queue], index, at_issue=True)
            newest[queue] = index

    def accumulates(self, view: View, asked: bool = True) -> bool:
        """Whether a matmul into this PSUM region adds to an earlier one; remembers the region.

        raises: UnsupportedError when only a part of the region holds an earlier result, if the kernel has `asked`
        """
        earlier = self._accumulated.get(view.storage.index)
        if not earlier:
            self._accumulated[view.storage.index] = [view]
            return False
        for known in earlier:
            if known.offset == view.offset and known.layout is view.layout:
                return True
        overlapping = [known for known in earlier if overlap(known, view)]
        if any(not contains(known, view) for known in overlapping):
            if not asked:
                return False
            raise UnsupportedError(
                "nki.isa.nc_matmul: dst covers PSUM that an earlier matmul wrote only in part",
                source=self.where(),
                remedy="pass accumulate=True or accumulate=False",
            )
        earlier.append(view)
        return bool(overlapping)

    def forget(self, storage: Storage) -> None:
        """No matmul accumulates into this storage any more."""
        self._accumulated.pop(storage.index, None)

    def _form_of(self, op: Op, operands: tuple[View, ...], static: tuple) -> int:
        if len(operands) == 2:
            one, other = operands
            key = (op.call, static, one.layout.index, other.layout.index)
        else:
            key = (op.call, static, *[view.layout.index for view in operands])
        number = self._forms.get(key)
        if number is None:
            number = self._forms[key] = self._describe(op, operands, static)
        return number

    def _immediate_of(self, immediates: dict[str, Any]) -> int:
        """A number that instructions share when their immediates are equal; what cannot be compared has its own."""
        key = tuple([value for name, value in immediates.items() if name != "registers"])
        try:
            return self._immediates.setdefault(key, len(self._immediates))
        except TypeError:
            return self._immediates.setdefault(object(), len(self._immediates))

    def _describe(self, op: Op, operands: tuple[View, ...], static: tuple) -> int:
        layouts = tuple(view.layout for view in operands)
        try:
            for view, layout in zip(operands, layouts):
                if 0 in layout.shape:
                    empty = f"`{view.storage.name}`: a slice of shape {list(layout.shape)} is empty"
                    raise InputError(f"{empty}, every dimension must be at least 1")
            form = op.describe(self.device, layouts, *static)
        except InputError as error:
            raise self._placed(op, error) from None
        self.forms.append(form)
        self._asked.append(static)
        self._calls.append(op.call)
        return len(self.forms) - 1

    def _placed(self, op: Op, error: InputError) -> InputError:
        """The error with the call that it came from and its line, if it names none yet."""
        if error.source is not None:
            return error
        return type(error)(f"{self._called(op)}: {error.message}", source=self.where(), remedy=error.remedy)

    def _called(self, op: Op) -> str:
        """The call that the user wrote, which may be another than the instruction's own."""
        frame = called = sys._getframe(1)
        while frame is not None and self._ours[frame.f_code.co_filename]:
            called, frame = frame, frame.f_back
        if ISA in called.f_code.co_filename:
            return f"nki.isa.{called.f_code.co_name}"
        return ".".join(op.call.partition(":")[0].split(".")[:3])

    def _compute(self, op: Op, number: int, operands: tuple[View, ...], static: tuple, immediates: dict) -> None:
        roles, sparse = self.forms[number].roles, self.forms[number].sparse
        for place, (view, role) in enumerate(zip(operands, roles)):
            if role is Role.READ and view.storage.written is not None and place not in sparse:
                self._check_written(op, view, view.written_array())
        if op.needed is not None and any(operands[place].storage.written is not None for place in sparse):
            for place, mask in op.needed([view.array() for view in operands], *static).items():
                written = operands[place].written_array()
                if written is not None:
                    self._check_written(op, operands[place], written | ~mask)
        try:
            op.compute([view.array() for view in operands], *static, **immediates)
        except InputError as error:
            raise self._placed(op, error) from None
        for view, role in zip(operands, roles):
            if role is not Role.READ and view.storage.written is not None:
                view.mark_written()

    def _check_written(self, op: Op, view: View, mask: np.ndarray) -> None:
        """A finding, once for a line and what it reads, when some elements are neither written nor left alone."""
        if mask.all():
            return
        missing = mask.size - int(np.count_nonzero(mask))
        storage, where = view.storage, self.where()
        if (where, storage.source) in self._unwritten:
            return
        self._unwritten.add((where, storage.source))
        self.findings.append(
            Finding(
                "uninitialised_read",
                f"{op.call} ({where}) reads {missing} of {mask.size} elements of `{storage.name}` "
                f"(allocated at {self.strings[storage.source]}) that nothing has written",
                len(self._form) - 1,
                where,
            )
        )

    def finish(self, kernel: str = "") -> Program:
        """The program as arrays."""
        return Program(
            device=self.device,
            forms=tuple(self.forms),
            asked=tuple(self._asked),
            calls=tuple(self._calls),
            storages=tuple(self.storages),
            regions=tuple(self.regions),
            strings=self.strings,
            form=np.array(self._form, np.int32),
            immediate=np.array(self._immediate, np.int32),
            source=np.array(self._source, np.int32),
            region=np.array(self._region, np.int32),
            core=np.array(self._core, np.int16),
            iteration=np.array(self._iteration, np.int32),
            iterations=np.array(self.iterations.rows, np.int32).reshape(-1, 4),
            operand_start=np.array(self._operand_start, np.int64),
            operands=np.array(self._operands, np.int64).reshape(-1, 3),
            names=self._names,
            order=np.array(self._order, np.int64).reshape(-1, 3),
            findings=tuple(self.findings),
            born=np.array(self._born, np.int64),
            kernel=kernel,
        )
