"""Where every storage lies: real capacity, banks and live ranges.

A tile takes its bytes in all partitions from its first to its last access. Places rotate through the memory, so that a
buffer is used again as late as possible, as in a pool that gives back the oldest first; where that leaves no room the
whole memory is placed anew by first fit, then by best fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from sim import rings
from sim.compiler import Options
from sim.errors import CapacityError
from sim.memory import Storage
from sim.program import Program
from sim.trace import NONE, Memory

ALIGNMENT = 16
"""Bytes: the grid on which tiles lie in real profiles."""

GRAIN = 64
"""Bytes: the grid on which tiles are placed where memory has been free for longest."""

SHOWN = 6
"""Live allocations named when memory runs out."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Storages as arrays; versions of one storage share its record."""

    records: tuple[Storage, ...]
    """Each distinct record once."""
    record: np.ndarray
    """int64: place in `records` of each storage."""
    memory: np.ndarray
    """int8"""
    pitch: np.ndarray
    """int64: bytes a partition; 0 in HBM."""
    nbytes: np.ndarray
    """int64: bytes of all partitions."""
    partitions: np.ndarray
    """int64: 0 in HBM."""
    source: np.ndarray
    """int32: code of the line of its allocation."""

    @classmethod
    def of(cls, storages: tuple[Storage, ...]) -> Columns:
        numbers: dict[int, int] = {}
        record = np.array([numbers.setdefault(id(storage), len(numbers)) for storage in storages], np.int64)
        records = tuple({id(storage): storage for storage in storages}.values())

        def gathered(values: Iterable[int], kind: type) -> np.ndarray:
            return np.fromiter(values, kind, len(records))[record]

        return cls(
            records=records,
            record=record,
            memory=gathered((storage.memory for storage in records), np.int8),
            pitch=gathered((storage.pitch for storage in records), np.int64),
            nbytes=gathered((storage.nbytes for storage in records), np.int64),
            partitions=gathered((storage.partitions for storage in records), np.int64),
            source=gathered((storage.source for storage in records), np.int32),
        )


@dataclass(frozen=True, slots=True)
class Placement:
    """Per storage: where it lies and between which instructions; first and last are -1 when nothing accesses it."""

    columns: Columns
    core: np.ndarray
    """int16: core of the first access."""
    partition: np.ndarray
    """int32: first partition."""
    offset: np.ndarray
    """int64: byte offset in each partition; in HBM from the start of the core's share."""
    first: np.ndarray
    """int64: first instruction that accesses it."""
    last: np.ndarray
    """int64: last instruction that accesses it."""
    together: np.ndarray
    """int64[k, 2]: pairs of storages alive at the same time at the same bytes, of whatever partitions; the kernel chose
    both places."""
    strategies: Mapping[tuple[int, Memory], str] = field(default_factory=dict)
    """How each core's memory was filled: `rings`, `pools`, `as resident`, `longest free`, `rotate`, `first fit` or
    `best fit`."""


@dataclass(frozen=True, slots=True)
class Room:
    """One on-chip memory: what it can hold."""

    memory: Memory
    limit: int
    """Bytes a partition."""
    bank: int
    """Bytes of a bank, 0 for none."""
    attempts: tuple[tuple[str, int, int], ...]
    """(name, strategy, bytes that sizes are rounded up to) in the order in which they are tried."""
    buffers: int = 0
    """Slots an allocation site gets for each tile alive at once, before anything else is tried; 0 for none."""


def place(program: Program, options: Options, given: dict[int, int] | None = None) -> Placement:
    """Find a place for every storage that is accessed.

    given  : byte in each partition of every storage in SBUF, for when buffers cannot take turns
    raises: CapacityError naming the allocation and what is alive beside it; InputError for an address outside
    """
    columns = Columns.of(program.storages)
    core, first, last = _lives(program)
    partition = np.zeros(len(program.storages), np.int32)
    offset = np.zeros(len(program.storages), np.int64)
    strategies = {}
    memory = columns.memory
    _place_hbm(program, columns, first, offset)
    together = []
    for room in _rooms(program, options):
        for number in np.unique(core[(memory == room.memory) & (first >= 0)]).tolist():
            chosen = np.flatnonzero((memory == room.memory) & (core == number) & (first >= 0))
            scene = _Scene(program, columns, room, first, last, partition, offset, given)
            strategies[number, room.memory] = scene.fill(chosen)
            together += scene.together
    pairs = np.array(together, np.int64).reshape(-1, 2)
    return Placement(columns, core, partition, offset, first, last, pairs, strategies)


def _lives(program: Program) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per storage: core of its first access, first and last instruction."""
    count = len(program.storages)
    instruction = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    storage = program.operands[:, 0]
    first, last = np.full(count, NONE, np.int64), np.full(count, NONE, np.int64)
    last[storage] = instruction
    first[storage[::-1]] = instruction[::-1]
    core = np.zeros(count, np.int16)
    used = first >= 0
    core[used] = program.core[first[used]]
    return core, first, last


def _rooms(program: Program, options: Options) -> tuple[Room, Room]:
    from sim.jit.allocation import BEST, FIRST, ROTATE

    device = program.device
    bank = int(device["psum_bank_bytes"])
    fallback = (("first fit", FIRST, 1), ("best fit", BEST, 1))
    packing = (("rotate", ROTATE, 1), *fallback) if options.rotate else fallback
    return (
        Room(Memory.SBUF, int(device[options.sbuf_figure]), 0, packing, options.buffers),
        Room(Memory.PSUM, int(device["psum_partition_bytes"]), bank, (("rotate", ROTATE, bank), *fallback)),
    )


class _Scene:
    """One memory of one core while it is filled."""

    def __init__(self, program: Program, columns: Columns, room: Room, first, last, partition, offset, given):
        self.program = program
        self.pitch = columns.pitch
        self.fixed = np.array([record.address is not None for record in columns.records] or [False], bool)[
            columns.record
        ]
        self.room = room
        self.given = given if room.memory is Memory.SBUF else None
        self.first = first
        self.last = last
        self.partition = partition
        self.offset = offset
        self.together: list[tuple[int, int]] = []

    def fill(self, chosen: np.ndarray) -> str:
        """Place these storages; the name of the strategy that succeeded."""
        given = self.fixed[chosen]
        boxes = self._fix(chosen[given])
        tiles = chosen[~given]
        order = np.argsort(self.first[tiles], kind="stable")
        return self._place(tiles[order], boxes, chosen[given])

    def _fix(self, chosen: np.ndarray) -> np.ndarray:
        """Take the kernel's own addresses; int64[f, 4] (low, high, first, last)."""
        boxes = np.zeros((chosen.size, 4), np.int64)
        for row, index in enumerate(chosen.tolist()):
            storage = self.program.storages[index]
            partition, low = storage.address
            self.partition[index], self.offset[index] = partition, low
            boxes[row] = low, low + storage.pitch, self.first[index], self.last[index]
            if low < 0 or low + storage.pitch > self.room.limit:
                raise CapacityError(
                    f"`{storage.name}` {_shape(storage)} at byte {low} ends at {low + storage.pitch}: "
                    f"{self.room.memory.name} has {self.room.limit} bytes a partition",
                    source=self.program.strings[storage.source],
                )
        self.together += _together(chosen, boxes)
        return boxes

    def _place(self, tiles: np.ndarray, boxes: np.ndarray, fixed: np.ndarray) -> str:
        from sim.jit import allocation

        if not tiles.size:
            return "fixed"
        pitches = self.pitch[tiles]
        first, last = self.first[tiles], self.last[tiles]
        by_last = np.argsort(last, kind="stable")
        if self.room.buffers and not fixed.size and (name := self._take_turns(tiles, pitches, first, last)):
            return name
        offset = np.zeros(tiles.size, np.int64)
        placed = tiles.size - 1
        for name, strategy, unit in self.room.attempts:
            size = -(-pitches // unit) * unit
            rules = (strategy, self.room.limit, self.room.bank, ALIGNMENT)
            placed = allocation.place(size, first, last, by_last, rules, boxes, offset)
            if placed == tiles.size:
                self.offset[tiles] = offset
                return name
        raise self._full(tiles[placed], np.concatenate((tiles[:placed], fixed)))

    def _take_turns(self, tiles: np.ndarray, size: np.ndarray, first: np.ndarray, last: np.ndarray) -> str:
        """Give each allocation site, else each size of tile, its own slots; the name of what fits, "" for nothing.

        Where sites cannot have slots to spare, a size has as many as are needed: pools of two for each made published
        Mamba kernels of 1024 columns and more 10 % too fast, and attention over 4096 tokens.
        """
        storages = [self.program.storages[index] for index in tiles.tolist()]
        sites: dict[tuple[int, int], int] = {}
        site = np.array([sites.setdefault((s.source, s.region), len(sites)) for s in storages], np.int64)
        for name, kind, copies in (("rings", site, self.room.buffers), ("pools", size, 1)):
            found = rings.place(kind, size, first, last, copies, self.room.limit, ALIGNMENT, shrink=False)
            if found is not None:
                self.offset[tiles] = found
                return name
        if self.given is not None:
            self.offset[tiles] = [self.given[index] for index in tiles.tolist()]
            return "as resident"
        for crowded in (False, True):
            found = rings.place_oldest(size, first, last, self.room.buffers, self.room.limit, GRAIN, crowded)
            if found is not None:
                self.offset[tiles] = found
                return "longest free"
        return ""

    def _full(self, wanted: int, others: np.ndarray) -> CapacityError:
        """The error of a storage that found no room."""
        storages, now = self.program.storages, self.first[wanted]
        alive = others[(self.first[others] <= now) & (self.last[others] >= now)]
        taken = sum(storages[index].pitch for index in alive.tolist())
        largest = sorted(alive.tolist(), key=lambda index: (-storages[index].pitch, index))
        storage, name = storages[wanted], self.room.memory.name
        left = "in pieces that are too small" if taken + storage.pitch <= self.room.limit else ""
        return CapacityError(
            f"{name} is full: `{storage.name}` {_shape(storage)} wants {storage.pitch} bytes a partition; "
            f"{taken} of {self.room.limit} are taken{', the rest is ' + left if left else ''} by "
            f"{_listed(self.program, largest)}",
            source=self.program.strings[storage.source],
            remedy="use smaller tiles, or let fewer be alive at once",
        )


def _listed(program: Program, largest: list[int]) -> str:
    """The largest live allocations with size and line, those of one line and shape together."""
    storages = [program.storages[index] for index in largest]
    lines = [f"`{s.name}` {_shape(s)} {s.pitch} bytes ({program.strings[s.source]})" for s in storages]
    alike = list(Counter(lines).items())
    texts = [f"{count} × {text}" if count > 1 else text for text, count in alike[:SHOWN]]
    more = sum(count for _, count in alike[SHOWN:])
    return ", ".join(texts) + (f" and {more} more" if more else "") if texts else "nothing"


def _shape(storage: Storage) -> str:
    return f"{storage.layout.dtype}{list(storage.layout.shape)}"


def _together(chosen: np.ndarray, boxes: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of storages whose bytes meet while both are alive."""
    found, alive = [], []
    for row in np.argsort(boxes[:, 2], kind="stable").tolist():
        low, high, first, _ = boxes[row].tolist()
        alive = [other for other in alive if boxes[other, 3] >= first]
        for other in alive:
            if boxes[other, 0] < high and low < boxes[other, 1]:
                found.append((int(chosen[other]), int(chosen[row])))
        alive.append(row)
    return found


def _place_hbm(program: Program, columns: Columns, first: np.ndarray, offset: np.ndarray) -> None:
    """One tensor after the other, against the share of device memory that the cores in use have."""
    device = program.device
    tensors = np.flatnonzero(columns.memory == Memory.HBM).tolist()
    held = [index for index in tensors if program.storages[index].role != "INTERNAL" or first[index] >= 0]
    at = 0
    for index in held:
        storage = program.storages[index]
        offset[index] = at
        at += -(-storage.nbytes // ALIGNMENT) * ALIGNMENT
    cores = int(program.core.max(initial=0)) + 1
    share = (int(device["hbm_bytes"]) << 30) // int(device["cores"]) * cores
    if at > share:
        largest = sorted(held, key=lambda index: (-program.storages[index].nbytes, index))
        raise CapacityError(
            f"HBM is full: the kernel's tensors take {at} bytes, {cores} of {device['cores']} cores have {share}; "
            f"the largest are {_tensors(program, largest)}",
            source=program.strings[program.storages[largest[0]].source],
            remedy="shard the tensors over more cores",
        )


def _tensors(program: Program, largest: Iterable[int]) -> str:
    shown = [program.storages[index] for index in list(largest)[:SHOWN]]
    places = [program.strings[storage.source] for storage in shown]
    return ", ".join(
        f"`{storage.name}` {_shape(storage)} {storage.nbytes} bytes" + (f" ({place})" if place else "")
        for storage, place in zip(shown, places)
    )
