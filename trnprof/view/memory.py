"""What lies in SBUF and PSUM at a moment: tiles by partition and address."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.trace import Memory, Trace
from trnprof.machine import Machine
from trnprof.view import format as words
from trnprof.view.records import Record

PARTITIONS = 128
PSUM_BANKS = 8
MOST_TILES = 2_000
"""Tiles of one memory that are drawn, the largest first; the others are counted."""

_FIGURES = {Memory.SBUF: "sbuf_partition_bytes", Memory.PSUM: "psum_partition_bytes"}


@dataclass(frozen=True, slots=True)
class Tile(Record):
    """A tensor, or a part of one, where it lies."""

    name: str
    partition: int
    partitions: int
    offset: int
    """Bytes from the start of each partition."""
    bytes: int
    """A partition."""
    size_words: str
    place: str
    """`partitions 0-127, bytes 2 048-4 095`"""
    t0_ps: int
    t1_ps: int
    lives: str
    """`15.890 µs to 47.892 µs`"""
    source: str


@dataclass(frozen=True, slots=True)
class MemoryMap(Record):
    """One memory: its size and what lies in it."""

    name: str
    """SBUF or PSUM."""
    partitions: int
    bytes: int
    """A partition; of a device that is not known, up to the last byte that the trace uses."""
    shown_bytes: int
    """What the map spans: the smallest power of two that holds all of the trace, a whole PSUM."""
    shown_words: str
    """`bytes 0 to 32 KiB of each partition`"""
    banks: int
    """Equal parts to draw; 1 for none."""
    used_bytes: int
    """Of the fullest partition."""
    used_words: str
    """`24.5 KiB of 192 KiB a partition, 13 %`"""
    tiles: tuple[Tile, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class MemoryCard(Record):
    """Both memories of a core at a moment."""

    at_ps: int
    moment: str
    core: int
    maps: tuple[MemoryMap, ...]
    missing: str
    """Why there is none, empty when there is."""


def memory_card(trace: Trace, roofs: Machine, at_ps: int, core: int) -> MemoryCard:
    """What lies where at a moment."""
    missing = "" if len(trace.allocations) else "The trace does not say what lies where: it names no allocations."
    kinds = () if missing else (Memory.SBUF, Memory.PSUM)
    maps = tuple(found for kind in kinds if (found := _map(trace, roofs, at_ps, core, kind)))
    return MemoryCard(at_ps, words.moment(at_ps), core, maps, missing)


def _map(trace: Trace, roofs: Machine, at_ps: int, core: int, kind: Memory) -> MemoryMap | None:
    table = trace.allocations
    mine = (table.memory == kind) & (table.core == core)
    if not mine.any():
        return None
    end = table.offset + table.bytes
    figure = roofs.figures.get(_FIGURES[kind]) if roofs.figures is not None else None
    size = max(int(figure or 0), int(end[mine].max()))
    rows = np.flatnonzero(mine & (table.start_ps <= at_ps) & (at_ps < table.end_ps))
    used = _fullest(table.partition[rows], table.partitions[rows], table.bytes[rows])
    largest = rows[np.argsort(-(table.bytes[rows] * np.maximum(1, table.partitions[rows])), kind="stable")]
    shown = size if kind == Memory.PSUM else min(size, 1 << (int(end[mine].max()) - 1).bit_length())
    share = f", {words.share(used / size)}" if size else ""
    return MemoryMap(
        name=kind.name,
        partitions=max(PARTITIONS, int((table.partition[mine] + table.partitions[mine]).max())),
        bytes=size,
        shown_bytes=shown,
        shown_words=f"bytes 0 to {words.size(shown)} of each partition",
        banks=PSUM_BANKS if kind == Memory.PSUM else 1,
        used_bytes=used,
        used_words=f"{words.size(used)} of {words.size(size)} a partition{share}",
        tiles=tuple(_tile(trace, int(row)) for row in largest[:MOST_TILES]),
        left_out=max(0, largest.size - MOST_TILES),
    )


def _fullest(first: np.ndarray, count: np.ndarray, size: np.ndarray) -> int:
    """Bytes in the partition that holds most."""
    if not first.size:
        return 0
    level = np.zeros(int((first + np.maximum(1, count)).max()) + 1, np.int64)
    np.add.at(level, first, size)
    np.add.at(level, first + np.maximum(1, count), -size)
    return int(np.cumsum(level).max())


def _tile(trace: Trace, row: int) -> Tile:
    table = trace.allocations
    start, end = int(table.start_ps[row]), int(table.end_ps[row])
    first, count = int(table.partition[row]), max(1, int(table.partitions[row]))
    offset, size = int(table.offset[row]), int(table.bytes[row])
    rows = f"partitions {first}-{first + count - 1}" if count > 1 else f"partition {first}"
    return Tile(
        name=words.plain(trace.text(table, "tensor", row) or "unnamed", 80),
        partition=first,
        partitions=count,
        offset=offset,
        bytes=size,
        size_words=words.size(size * count),
        place=f"{rows}, bytes {words.count(offset)}-{words.count(offset + size - 1)}",
        t0_ps=start,
        t1_ps=end,
        lives=f"{words.moment(start)} to {words.moment(end)}",
        source=words.place(trace.text(table, "source", row) or "") if table.has("source") else "",
    )
