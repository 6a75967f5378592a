"""The waist of the house: what a profile is, whether emulated or captured.

A trace is a set of tables. A table is a set of columns of equal length, stored as contiguous NumPy arrays;
text is a code into one interned string table. Nothing right of this module knows where a trace came from,
except to say so on screen (`meta.is_simulation`).

Time is int64 picoseconds since the start of the trace. Names and meanings follow the Neuron Explorer schema;
columns that it does not have are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

from sim import display
from sim.errors import InputError

NONE = -1
"""No string, no row, no region."""


class Engine(IntEnum):
    """A NeuronCore's instruction streams, then the tracks that are not engines."""

    TENSOR = 0
    VECTOR = 1
    SCALAR = 2
    GPSIMD = 3
    SYNC = 4
    DMA = 5
    COLLECTIVE = 6
    OTHER = 7
    """A slice of a general timeline (chrome trace, host event)."""


ENGINE_NAMES = ("Tensor", "Vector", "Scalar", "GpSimd", "Sync", "DMA", "CC", "Other")
"""Title case, as real profiles write `Instruction.engine`."""

COMPUTE_ENGINES = (Engine.TENSOR, Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD)


class Wait(IntEnum):
    """What an instruction or a transfer waited for last before it could start."""

    NONE = 0
    ENGINE = 1
    """The engine or queue was busy with the instruction before it; not idle time."""
    OPERAND = 2
    """A semaphore: an operand was still being produced by another instruction."""
    DMA = 3
    """A semaphore: an operand was still being transferred."""
    BUFFER = 4
    """The destination's memory was still being read or written by its previous occupant."""
    PORT = 5
    """Another engine held the SBUF or PSUM port."""
    TABLE = 6
    """ScalarE loaded an activation table."""
    QUEUE = 7
    """The DMA engine was busy with earlier descriptors."""
    BANDWIDTH = 8
    """HBM bandwidth was used up by other transfers."""
    ISSUE = 9
    """The DMA trigger's fixed cost on the engine that issues it."""
    COLLECTIVE = 10
    UNKNOWN = 11
    """A captured profile shows the gap but not its cause."""


class Memory(IntEnum):
    HBM = 0
    SBUF = 1
    PSUM = 2
    REGISTER = 3
    HOST = 4


class EdgeKind(IntEnum):
    """Why one instruction must wait for another."""

    FLOW = 0
    """Read after write."""
    ANTI = 1
    """Write after read: the buffer is reused."""
    OUTPUT = 2
    """Write after write."""
    ORDER = 3
    """Asked for by the kernel (`depends_on`, barrier), or unnamed in the profile."""


class QueueType(IntEnum):
    """Explorer's DmaQueueType: who makes the descriptors."""

    INSTRUCTION = 0
    INPUT = 1
    OUTPUT = 2
    DATA = 3
    SOFTWARE_DYNAMIC = 4
    HARDWARE_DYNAMIC = 5
    UNKNOWN = 6


class RegionKind(IntEnum):
    """Levels of the flame graph above the engines, outermost first."""

    MODEL = 0
    LAYER = 1
    OPERATOR = 2
    KERNEL = 3
    LOOP = 4
    LINE = 5


class Strings:
    """Interned text; code -1 is None."""

    __slots__ = ("_codes", "_texts")

    def __init__(self, texts: Iterable[str] = ()):
        self._texts: list[str] = list(texts)
        self._codes: dict[str, int] = {text: code for code, text in enumerate(self._texts)}

    def code(self, text: str | None) -> int:
        """The code of a text, which is added when it is new."""
        if text is None:
            return NONE
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self._texts)
            self._texts.append(text)
        return code

    def find(self, text: str) -> int:
        """The code of a text, -1 when no row can have it."""
        return self._codes.get(text, NONE)

    def codes(self, texts: Iterable[str | None]) -> np.ndarray:
        return np.fromiter((self.code(text) for text in texts), np.int32)

    def __getitem__(self, code: int) -> str | None:
        return None if code < 0 else self._texts[code]

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)


class Column:
    """A column of a table: its type, what an absent one reads as, and one sentence of meaning."""

    __slots__ = ("absent", "dtype", "meaning", "name", "text")

    def __init__(self, dtype: Any, meaning: str, absent: int | float = 0, text: bool = False):
        self.dtype = np.dtype(dtype)
        self.meaning = meaning
        self.absent = absent
        self.text = text
        """The values are codes into `Trace.strings`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, table: Table | None, owner: type) -> Any:
        return self if table is None else table.column(self.name)


def text_column(meaning: str) -> Column:
    return Column(np.int32, meaning, absent=NONE, text=True)


class Table:
    """Columns of equal length.

    A column may be given as an array or as a function that loads it when it is first read, so that opening a large
    trace costs what the first screen needs. One that is not given reads as its `absent` value everywhere; `has` tells
    the two apart.
    """

    columns: dict[str, Column] = {}

    def __init_subclass__(cls) -> None:
        cls.columns = {name: item for name, item in vars(cls).items() if isinstance(item, Column)}

    def __init__(self, rows: int | None = None, **columns: np.ndarray | Callable[[], np.ndarray]):
        unknown = set(columns) - set(self.columns)
        if unknown:
            raise InputError(f"{type(self).__name__} has no column {', '.join(sorted(unknown))}")
        self._data: dict[str, np.ndarray | Callable[[], np.ndarray]] = dict(columns)
        if rows is None:
            first = next((c for c in columns.values() if not callable(c)), ())
            rows = len(first)
        self._rows = rows
        for name in columns:
            if not callable(columns[name]):
                self.column(name)

    def column(self, name: str) -> np.ndarray:
        """The column as a contiguous array of its declared type, shape [rows]."""
        array = self.read(name)
        if name in self._data:
            self._data[name] = array
        return array

    def read(self, name: str) -> np.ndarray:
        """As `column`, but what had to be loaded for it is not kept."""
        spec = self.columns[name]
        value = self._data.get(name)
        if value is None:
            return np.broadcast_to(spec.dtype.type(spec.absent), (self._rows,))
        array = value() if callable(value) else value
        if value is not array or array.dtype != spec.dtype or not array.flags.c_contiguous:
            array = np.ascontiguousarray(array, spec.dtype)
        if array.shape != (self._rows,):
            raise InputError(f"{type(self).__name__}.{name}: shape {array.shape} in a table of {self._rows} rows")
        return array

    def loader(self, name: str) -> Callable[[], np.ndarray] | None:
        """What loads a column that was not asked for yet."""
        value = self._data.get(name)
        return value if callable(value) else None

    def has(self, name: str) -> bool:
        """Whether the profile has this column at all."""
        return name in self._data

    def present(self) -> tuple[str, ...]:
        return tuple(self._data)

    def take(self, rows: np.ndarray) -> Table:
        """The same table with the given rows (indices or a mask)."""
        kept = {name: self.column(name)[rows] for name in self._data}
        size = int(np.count_nonzero(rows)) if np.asarray(rows).dtype == bool else len(rows)
        return type(self)(size, **kept)

    def __len__(self) -> int:
        return self._rows


class Instructions(Table):
    """One row an instruction on an engine, sorted by `start_ps`, ties by `id`."""

    id = Column(np.int64, "the profile's own number of the instruction; unique within the trace")
    start_ps = Column(np.int64, "start of execution, after the wait")
    end_ps = Column(np.int64, "completion: the result is visible; intervals of one engine may overlap")
    engine = Column(np.int8, "Engine")
    core = Column(np.int16, "physical NeuronCore (Explorer's pcore_idx)")
    track = text_column("Explorer's timeline_track where it is finer than the engine: TensorMatrix, a chrome thread")
    opcode = text_column("AWS's opcode: MATMUL, LDWEIGHTS, ACTIVATE, TENSOR_TENSOR, DMA_DIRECT2D, …")
    name = text_column("the compiler's or the kernel's name of this instruction")
    operands = text_column("operands as the profile prints them")
    function = text_column("activation function or ALU operator")
    kind = text_column("Explorer's tensor_instruction_type: REGULAR or TRANSPOSE")
    dtype = text_column("dtype that decides the rate")
    source = text_column("`path:line` in the kernel")
    group = text_column("Explorer's bir_id: shared by the rows that one kernel call became")
    region = Column(np.int32, "innermost region, a row of `regions`", absent=NONE)
    wait_ps = Column(np.int64, "idle time of the engine before this instruction (Explorer's evt_wait_time)")
    wait = Column(np.int8, "Wait: what bound the start", absent=Wait.UNKNOWN)
    wait_for = Column(np.int64, "row that bound the start; -1 when unknown or none", absent=NONE)
    partitions = Column(np.int32, "partitions in use, 0 when unknown")
    elements = Column(np.int64, "elements a partition; for MATMUL rows x columns x moving columns (MACs)")
    flops = Column(np.int64, "raw FLOPs (Explorer's raw_flops); Tensor Engine only, as AWS counts")
    adjusted_flops = Column(np.int64, "FLOPs in BF16 equivalents (Explorer's adjusted_flops)")
    hbm_read_bytes = Column(np.int64, "bytes read from HBM")
    hbm_write_bytes = Column(np.int64, "bytes written to HBM")
    sbuf_read_bytes = Column(np.int64, "bytes a partition read from SBUF")
    sbuf_write_bytes = Column(np.int64, "bytes a partition written to SBUF")
    psum_read_bytes = Column(np.int64, "bytes a partition read from PSUM")
    psum_write_bytes = Column(np.int64, "bytes a partition written to PSUM")
    spill_save_bytes = Column(np.int64, "bytes saved to HBM for lack of SBUF")
    spill_reload_bytes = Column(np.int64, "bytes reloaded after a spill")
    control = Column(np.bool_, "no work of the kernel: semaphore, drain, branch, preamble")
    count = Column(
        np.int64, "instructions that the row stands for; more than 1 in models whose layers repeat", absent=1
    )
    extra = text_column("what else a captured profile says of this row, a JSON object")


class Transfers(Table):
    """One row a DMA that an instruction triggered (Explorer's DmaPacketAggregated), sorted by `start_ps`."""

    id = Column(np.int64, "the profile's own number")
    start_ps = Column(np.int64, "first byte moves")
    end_ps = Column(np.int64, "last byte has moved; the semaphore follows")
    done_ps = Column(np.int64, "semaphore visible to the waiters; equals end_ps when unknown", absent=NONE)
    instruction = Column(np.int64, "row of the instruction that triggered it; -1 unknown", absent=NONE)
    core = Column(np.int16, "physical NeuronCore")
    queue = text_column("queue name")
    queue_type = Column(np.int8, "QueueType", absent=QueueType.UNKNOWN)
    variable = text_column("tensor moved")
    source_memory = Column(np.int8, "Memory, -1 unknown", absent=NONE)
    dest_memory = Column(np.int8, "Memory, -1 unknown", absent=NONE)
    bytes = Column(np.int64, "payload")
    read_bytes = Column(np.int64, "bytes read at the source")
    write_bytes = Column(np.int64, "bytes written at the destination")
    descriptors = Column(np.int64, "descriptors (elements of contiguous bytes); 0 unknown")
    arrival_ps = Column(np.int64, "when it reaches the DMA engines; -1 unknown", absent=NONE)
    wait_ps = Column(np.int64, "time between dispatch and first byte; emulated: what it would have ended earlier alone")
    wait = Column(np.int8, "Wait: what delayed it", absent=Wait.UNKNOWN)
    wait_for = Column(np.int64, "row of the transfer that it waited for last; -1 unknown or none", absent=NONE)


class Packets(Table):
    """One row a piece of a transfer on one DMA engine (Explorer's DmaPacket), sorted by `start_ps`."""

    id = Column(np.int64, "the profile's own number")
    start_ps = Column(np.int64, "first byte moves")
    end_ps = Column(np.int64, "last byte has moved")
    transfer = Column(np.int64, "row of `transfers`; -1 unknown", absent=NONE)
    core = Column(np.int16, "physical NeuronCore")
    dma_engine = Column(np.int16, "DMA engine, as numbered by the profile")
    ring = Column(np.int16, "ring (hardware queue) on that engine")
    queue = text_column("queue name")
    queue_type = Column(np.int8, "QueueType", absent=QueueType.UNKNOWN)
    variable = text_column("tensor moved")
    bytes = Column(np.int64, "payload; 4-byte packets are semaphore writes")
    read_bytes = Column(np.int64, "bytes read at the source")
    write_bytes = Column(np.int64, "bytes written at the destination")
    descriptors = Column(np.int64, "descriptors in this piece; 0 unknown")


class Edges(Table):
    """Dependencies: `waiter` could not start before `signaler`; both are rows of `instructions`."""

    signaler = Column(np.int64, "row that must come first; for a DMA, the row of its trigger")
    waiter = Column(np.int64, "row that waits")
    kind = Column(np.int8, "EdgeKind", absent=EdgeKind.ORDER)
    ready_ps = Column(np.int64, "when the signaler had let the waiter go; -1 unknown", absent=NONE)


class SemaphoreUpdates(Table):
    time_ps = Column(np.int64, "moment of the update")
    core = Column(np.int16, "physical NeuronCore")
    semaphore = Column(np.int32, "semaphore number")
    value = Column(np.int64, "value after the update")


class Counters(Table):
    """Step functions: the value holds until the next row of the same counter. Sorted by counter, then time."""

    counter = text_column("name: sbuf, psum_bank_0, hbm, pending_dma, tensor_clock, dma_bytes_per_s, …")
    core = Column(np.int16, "physical NeuronCore")
    time_ps = Column(np.int64, "moment of the change")
    value = Column(np.float64, "value from then on; shares are 0-1, rates per second")


class Regions(Table):
    """The tree of what the work is: model, layer, operator, kernel, loop, source line. Parents come before children."""

    parent = Column(np.int32, "row of the enclosing region", absent=NONE)
    kind = Column(np.int8, "RegionKind")
    name = text_column("what people call it")
    source = text_column("`path:line`, `path:first-last` for a loop")
    core = Column(np.int16, "physical NeuronCore, -1 for all", absent=NONE)
    start_ps = Column(np.int64, "first start inside")
    end_ps = Column(np.int64, "last completion inside")


class Tensors(Table):
    """What the kernel works on (Explorer's TensorInfo), inputs and outputs first."""

    name = text_column("variable name")
    type = text_column("IN, OUT, WEIGHT or INTERNAL")
    dtype = text_column("dtype")
    shape = text_column("[a b c]")
    memory = Column(np.int8, "Memory", absent=Memory.HBM)
    bytes = Column(np.int64, "size")
    loads = Column(np.int64, "DMAs that loaded it to SBUF")
    loaded_bytes = Column(np.int64, "bytes loaded to SBUF, repetitions counted")
    source = text_column("`path:line` of its allocation")


class Allocations(Table):
    """What lies where in SBUF and PSUM, and for how long."""

    tensor = text_column("variable name")
    memory = Column(np.int8, "Memory")
    core = Column(np.int16, "physical NeuronCore")
    start_ps = Column(np.int64, "first write starts")
    end_ps = Column(np.int64, "last access completes")
    partition = Column(np.int32, "first partition")
    partitions = Column(np.int32, "partitions")
    offset = Column(np.int64, "byte offset in each partition")
    bytes = Column(np.int64, "bytes a partition")
    source = text_column("`path:line` of the allocation")


TABLES: dict[str, type[Table]] = {
    "instructions": Instructions,
    "transfers": Transfers,
    "packets": Packets,
    "edges": Edges,
    "semaphore_updates": SemaphoreUpdates,
    "counters": Counters,
    "regions": Regions,
    "tensors": Tensors,
    "allocations": Allocations,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong in the user's kernel that the hardware would not report."""

    kind: str
    """race, uninitialised_read, unwritten_output, capacity, deadlock, overlap; no_output, undefined_accumulation and
    unsupported_python are warnings.
    """
    sentence: str
    """Names both instructions and their source lines."""
    instruction: int = NONE
    """Row of `instructions`, -1 when there is none."""
    source: str | None = None
    """`path:line`"""

    @property
    def is_warning(self) -> bool:
        """Whether the kernel runs right all the same."""
        return self.kind in ("unsupported_python", "undefined_accumulation", "no_output")


@dataclass(frozen=True, slots=True)
class Meta:
    """What is known of a trace beside its rows."""

    is_simulation: bool
    device: str
    """Name in `sim.spec`: trn1, trn2, trn3, inf1, inf2; "unknown" when the profile does not tell."""
    source: str
    """The path opened, or the kernel run."""
    kernel: str = ""
    window: tuple[int, int] = (0, 0)
    """First kernel instruction issued, last completion, ps: where the verdict holds."""
    total_ps: int = 0
    """What a profile calls total_time; longer than the window by start-up and tail."""
    benchmark_ps: int | None = None
    """What nki.benchmark's p50 reports; None for captured profiles."""
    cores: int = 1
    lnc: int = 1
    tool: str = ""
    """Program and version that wrote the trace."""
    schema_version: str = ""
    quarantined: int = 0
    """Instructions, transfers and packets that a reader set aside as unusable; `notes` says which and why."""
    notes: tuple[str, ...] = ()
    """What is estimated, not modelled, derived or missing: one sentence each."""
    receipt: Mapping[str, Any] = field(default_factory=dict)
    """Of an imported file: by table, rows read = shown + quarantined with reasons; empty when emulated."""
    findings: tuple[Finding, ...] = ()
    machine: Mapping[str, float] = field(default_factory=dict)
    """Figures that the profile itself gives and that override the device table: Explorer's Metadata names
    (tensor_engine_clock_freq in GHz, hbm_ddr_bandwidth and dma_ddr_bandwidth in bytes/s, …)."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """The profile's own Summary row, unchanged; empty when emulated."""
    outputs: tuple[Mapping[str, Any], ...] = ()
    """Emulated runs: name, shape, dtype and sha256 of each output."""
    what_if: Mapping[str, float] = field(default_factory=dict)
    """Figures that this emulation was given in place of the device's own."""
    error_bars: Mapping[str, Any] = field(default_factory=dict)
    """Where they were asked for: what `trnprof.spread.Bars.to_json` gives."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Of a whole model: what `trnprof.run_model` was asked for, by name."""


Arrays = dict[str, np.ndarray]


class Store(Protocol):
    """What `Trace.derive` keeps its answers in."""

    def holds(self, trace: Trace) -> bool:
        """Whether it is of these very tables: a changed copy of a trace must not read what was derived from another."""

    def derive(self, name: str, make: Callable[[], Arrays]) -> Arrays: ...

    def knows(self, name: str) -> bool:
        """Whether `derive` need not make it any more."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One profile, emulated or captured."""

    meta: Meta
    strings: Strings
    instructions: Instructions
    transfers: Transfers = field(default_factory=lambda: Transfers(0))
    packets: Packets = field(default_factory=lambda: Packets(0))
    edges: Edges = field(default_factory=lambda: Edges(0))
    semaphore_updates: SemaphoreUpdates = field(default_factory=lambda: SemaphoreUpdates(0))
    counters: Counters = field(default_factory=lambda: Counters(0))
    regions: Regions = field(default_factory=lambda: Regions(0))
    tensors: Tensors = field(default_factory=lambda: Tensors(0))
    allocations: Allocations = field(default_factory=lambda: Allocations(0))
    recorded: Callable[[], Any] | None = field(default=None, repr=False, compare=False)
    """Loads what the trace can be timed anew from, a `sim.retiming.Recording`; None where there is nothing."""
    store: Store | None = field(default=None, repr=False, compare=False)
    """Keeps what follows from the tables from one opening to the next; None where nothing does."""

    @property
    def condensed(self) -> bool:
        """Whether rows stand for several instructions, as in models whose layers repeat."""
        return self.instructions.has("count") and bool((self.instructions.count > 1).any())

    @property
    def receipt(self) -> Mapping[str, Any]:
        """What became of every row of the file; empty when emulated."""
        return self.meta.receipt

    def _repr_html_(self) -> str | None:
        return display.html(self)

    def tables(self) -> Iterator[tuple[str, Table]]:
        """Every table with its field name, in the order of `TABLES`."""
        for name in TABLES:
            yield name, getattr(self, name)

    def derive(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """Arrays that follow from the tables and from what their name tells; made once where there is a store."""
        if self.store is None or not self.store.holds(self):
            return make()
        return self.store.derive(name, make)

    def text(self, table: Table, column: str, row: int) -> str | None:
        """The text behind a code."""
        return self.strings[int(table.column(column)[row])]


def validate(trace: Trace) -> None:
    """Raise InputError at the first broken promise of a table: order, ends before starts, dangling references."""
    for name, table in trace.tables():
        for column, spec in table.columns.items():
            if spec.text and table.has(column):
                _check_range(f"{name}.{column}", table.column(column), len(trace.strings))
        if "start_ps" in table.columns:
            _check_times(name, table)
    rows = len(trace.instructions)
    _check_range("instructions.wait_for", trace.instructions.wait_for, rows)
    _check_range("instructions.region", trace.instructions.region, len(trace.regions))
    _check_range("transfers.instruction", trace.transfers.instruction, rows)
    _check_range("transfers.wait_for", trace.transfers.wait_for, len(trace.transfers))
    _check_range("packets.transfer", trace.packets.transfer, len(trace.transfers))
    _check_range("edges.signaler", trace.edges.signaler, rows)
    _check_range("edges.waiter", trace.edges.waiter, rows)
    if len(trace.regions) and np.any(trace.regions.parent >= np.arange(len(trace.regions))):
        raise InputError("regions.parent: a parent must come before its children")


def _check_range(what: str, codes: np.ndarray, limit: int) -> None:
    if codes.size and (codes.min() < NONE or codes.max() >= limit):
        raise InputError(f"{what}: a value lies outside -1…{limit - 1}")


def _check_times(name: str, table: Table) -> None:
    start, end = table.column("start_ps"), table.column("end_ps")
    bad = np.flatnonzero(end < start)
    if bad.size:
        raise InputError(f"{name} row {bad[0]}: ends before it starts ({end[bad[0]]} < {start[bad[0]]} ps)")
    if name in ("instructions", "transfers", "packets") and np.any(np.diff(start) < 0):
        raise InputError(f"{name}: rows are not sorted by start_ps")
