"""What was moved of each tensor between HBM and the chip, and how little would have done."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.trace import NONE, Memory, Trace
from trnprof import words

GIVEN = ("IN", "WEIGHT")
"""Types of tensors that the kernel is given."""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """What was moved of one tensor."""

    name: str
    type: str
    """IN, OUT, WEIGHT or INTERNAL; empty when unknown."""
    size: int
    loaded: int
    stored: int
    loads: np.ndarray
    """Transfers; int64."""
    stores: np.ndarray

    @property
    def kept(self) -> bool:
        """Whether it is an intermediate result: what is written is read back, and nobody outside sees it."""
        return self.type not in (*GIVEN, "OUT") and bool(self.loaded and self.stored)


def traffic(trace: Trace, transfers: np.ndarray) -> tuple[Traffic, ...]:
    """What transfers load and store of each HBM tensor that they touch; empty when they do not say what they move."""
    table, moved = trace.tensors, trace.transfers
    order = np.argsort(moved.variable[transfers], kind="stable")
    mine = transfers[order]
    names = moved.variable[mine]
    if not names.size or names[-1] < 0:
        return ()
    rows = _named(trace)
    first, end = (np.searchsorted(names, table.name[rows], side) for side in ("left", "right"))
    load, store = moved.source_memory[mine] == Memory.HBM, moved.dest_memory[mine] == Memory.HBM
    touched = np.flatnonzero(first < end)
    return tuple([
        _moved(trace, int(rows[k]), mine[part][load[part]], mine[part][store[part]])
        for k, part in zip(touched.tolist(), map(slice, first[touched].tolist(), end[touched].tolist()))
    ])  # fmt: skip


def _named(trace: Trace) -> np.ndarray:
    """Rows of the tensors in HBM that have a name."""
    return np.flatnonzero((trace.tensors.name != NONE) & (trace.tensors.memory == Memory.HBM))


def _moved(trace: Trace, row: int, loads: np.ndarray, stores: np.ndarray) -> Traffic:
    moved = trace.transfers.bytes
    return Traffic(
        name=words.plain(trace.text(trace.tensors, "name", row) or "", 60),
        type=trace.text(trace.tensors, "type", row) or "",
        size=int(trace.tensors.bytes[row]),
        loaded=int(moved[loads].sum()),
        stored=int(moved[stores].sum()),
        loads=loads,
        stores=stores,
    )


def sizes(trace: Trace) -> dict[str, int]:
    """Bytes of all tensors by type; empty when the trace has no tensors."""
    table, found = trace.tensors, {}
    for row in range(len(table)):
        kind = trace.text(table, "type", row) or ""
        found[kind] = found.get(kind, 0) + int(table.bytes[row])
    return found


def necessary_bytes(trace: Trace, transfers: np.ndarray, whole: bool) -> int | None:
    """HBM bytes that a region would need without reloads, spills and intermediate results; None when unknown.

    whole : all of the kernel, which needs at least its inputs and outputs
    """
    rows = _named(trace)
    if rows.size and (trace.transfers.variable[transfers] != NONE).any():
        return int(_least(trace, rows, transfers).sum()) or None
    given = sizes(trace)
    return sum(given.get(kind, 0) for kind in (*GIVEN, "OUT")) or None if whole else None


def _least(trace: Trace, rows: np.ndarray, transfers: np.ndarray) -> np.ndarray:
    """Bytes of some tensors that move when nothing moves twice and intermediate results stay on the chip, int64."""
    table, moved = trace.tensors, trace.transfers
    names, memories = moved.variable[transfers], (moved.source_memory, moved.dest_memory)
    loaded, stored = np.zeros((2, len(trace.strings)), np.int64)
    for sums, memory in zip((loaded, stored), memories):
        mine = (names != NONE) & (memory[transfers] == Memory.HBM)
        np.add.at(sums, names[mine], moved.bytes[transfers[mine]])
    loaded, stored, size = loaded[table.name[rows]], stored[table.name[rows]], table.bytes[rows]
    given, out = (np.isin(table.type[rows], _codes(trace, kinds)) for kinds in (GIVEN, ("OUT",)))
    kept = ~given & ~out & (loaded > 0) & (stored > 0)
    return np.where(kept, 0, np.minimum(loaded, size) * ~out + np.minimum(stored, size))


def _codes(trace: Trace, texts: tuple[str, ...]) -> list[int]:
    return [code for code in map(trace.strings.find, texts) if code != NONE]
