"""The trace cut into kernels, loops, source lines, or whatever somebody selects.

A region of the kernel's tree or a selection is a window of time; a source line is the time in which its own
instructions work or keep their engine waiting. Sums are over the instructions that belong to the region.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.trace import NONE, RegionKind, Table, Trace
from trnprof.intervals import Spans, merge
from trnprof.work import Index, Work, ascending, length_ps, measure


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A part of the trace."""

    index: int
    """Row of `trace.regions`, -1 when it is none."""
    kind: str
    """whole, model, layer, operator, kernel, loop, line or selection."""
    name: str
    source: str | None
    """`path:line`"""
    depth: int
    parent: int
    """Row of the enclosing region, -1 for none."""
    start_ps: int
    end_ps: int
    rows: np.ndarray
    """Instructions that belong to it, control excluded; int64, ascending."""
    transfers: np.ndarray
    """Transfers that these triggered; int64, ascending."""
    packets: np.ndarray
    """Packets of these transfers that carry payload; int64, ascending."""
    spans: Spans
    """Its own time, sorted and apart: all of the window, or a line's work and waits."""
    work: Work

    @property
    def window(self) -> tuple[int, int]:
        return self.start_ps, self.end_ps


def whole(trace: Trace, index: Index | None = None) -> Region:
    """The kernel window, or all activity of a trace that names none."""
    index = index or Index(trace)
    start, end = window(trace)
    parts = _inside(index, start, end, begun=True)
    spans = _window(start, end)
    work = measure(index, *parts, end - start, (start, end))
    return Region(NONE, "whole", trace.meta.kernel or "whole trace", None, 0, NONE, start, end, *parts, spans, work)


def window(trace: Trace) -> tuple[int, int]:
    """Where the verdict holds: the kernel window, else first start to last end of all work."""
    if trace.meta.window[1] > trace.meta.window[0]:
        return trace.meta.window
    worked = ~trace.instructions.control
    starts = [trace.instructions.start_ps[worked], trace.transfers.start_ps]
    ends = [trace.instructions.end_ps[worked], trace.transfers.end_ps]
    if not any(part.size for part in starts):
        return 0, 0
    return min(int(part.min()) for part in starts if part.size), max(int(part.max()) for part in ends if part.size)


def selection(trace: Trace, t0: int, t1: int, index: Index | None = None) -> Region:
    """Everything between two moments; what reaches over an edge counts by its part inside."""
    index = index or Index(trace)
    low, high = min(t0, t1), max(t0, t1)
    parts = _inside(index, low, high)
    spans = _window(low, high)
    work = measure(index, *parts, high - low, (low, high), prorate=True)
    return Region(NONE, "selection", "selection", None, 0, NONE, low, high, *parts, spans, work)


def by_region(trace: Trace, index: Index | None = None) -> tuple[Region, ...]:
    """Every region of the trace's own tree in its order, parents before children; empty when it has none."""
    table = trace.regions
    if not len(table):
        return ()
    index = index or Index(trace)
    first, last = _preorder(table.parent)
    place = np.where(trace.instructions.region[index.worked] >= 0, first[trace.instructions.region[index.worked]], NONE)
    order = np.argsort(place, kind="stable")
    sorted_place = place[order]
    depth = _depths(table.parent)
    out = []
    for row in np.argsort(first, kind="stable"):
        low, high = np.searchsorted(sorted_place, (first[row], last[row]))
        rows = ascending(index.worked[order[low:high]])
        out.append(_of_tree(index, int(row), int(depth[row]), rows))
    return tuple(out)


def by_source_line(trace: Trace, index: Index | None = None) -> tuple[Region, ...]:
    """One region a source line that has instructions, the longest first; empty when the trace names no lines."""
    if not trace.instructions.has("source"):
        return ()
    index = index or Index(trace)
    if not index.worked.size:
        return ()
    source = trace.instructions.source[index.worked]
    order = np.argsort(source, kind="stable")
    codes, starts = np.unique(source[order], return_index=True)
    parts = np.split(order, starts[1:])
    lines = [
        _of_line(index, int(code), ascending(index.worked[part]))
        for code, part in zip(codes, parts, strict=True)
        if code >= 0
    ]
    return tuple(sorted(lines, key=lambda region: (-region.work.time_ps, region.start_ps)))


def _inside(index: Index, low: int, high: int, begun: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Instructions, transfers and packets that overlap a window, or that begin in it."""

    def inside(table: Table, rows: np.ndarray) -> np.ndarray:
        start = table.start_ps[rows]
        return rows[(start < high) & ((start >= low) if begun else (table.end_ps[rows] > low))]

    trace = index.trace
    transfers = np.arange(len(trace.transfers), dtype=np.int64)
    return (
        inside(trace.instructions, index.worked),
        inside(trace.transfers, transfers),
        inside(trace.packets, index.payload),
    )


def _of_tree(index: Index, row: int, depth: int, rows: np.ndarray) -> Region:
    table, text = index.trace.regions, index.trace.text
    start, end = int(table.start_ps[row]), int(table.end_ps[row])
    transfers = index.transfers_of(rows)
    parts = rows, transfers, index.packets_of(transfers)
    kind = RegionKind(int(table.kind[row])).name.lower()
    line = kind == "line"
    spans = _own_time(index, rows, transfers) if line else _window(start, end)
    work = measure(index, *parts, length_ps(spans), None if line else (start, end))
    name, source = text(table, "name", row) or kind, text(table, "source", row)
    return Region(row, kind, name, source, depth, int(table.parent[row]), start, end, *parts, spans, work)


def _of_line(index: Index, code: int, rows: np.ndarray) -> Region:
    ins, moved = index.trace.instructions, index.trace.transfers
    transfers = index.transfers_of(rows)
    parts = rows, transfers, index.packets_of(transfers)
    source = index.trace.strings[code] or ""
    name = source.rpartition("/")[2]
    end = max(int(ins.end_ps[rows].max()), int(moved.end_ps[transfers].max(initial=0)))
    spans = _own_time(index, rows, transfers)
    work = measure(index, *parts, length_ps(spans))
    return Region(NONE, "line", name, source, 0, NONE, int(ins.start_ps[rows].min()), end, *parts, spans, work)


def _own_time(index: Index, rows: np.ndarray, transfers: np.ndarray) -> Spans:
    """Union of work, of the waits before it, and of the transfers that it triggered."""
    ins, moved = index.trace.instructions, index.trace.transfers
    start = np.concatenate((ins.start_ps[rows] - index.idle_ps[rows], moved.start_ps[transfers]))
    return merge(start, np.concatenate((ins.end_ps[rows], moved.end_ps[transfers])))


def _window(start: int, end: int) -> Spans:
    return np.array([start], np.int64), np.array([end], np.int64)


def _preorder(parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Place of each region in a walk of the tree, and the place after its last descendant."""
    n = len(parent)
    size = np.ones(n, np.int64)
    for row in range(n - 1, -1, -1):
        if parent[row] >= 0:
            size[parent[row]] += size[row]
    first, free, roots = np.zeros(n, np.int64), np.zeros(n, np.int64), 0
    for row in range(n):
        if parent[row] < 0:
            first[row], roots = roots, roots + size[row]
        else:
            first[row] = free[parent[row]]
            free[parent[row]] += size[row]
        free[row] = first[row] + 1
    return first, first + size


def _depths(parent: np.ndarray) -> np.ndarray:
    depth = np.zeros(len(parent), np.int64)
    for row in range(len(parent)):
        if parent[row] >= 0:
            depth[row] = depth[parent[row]] + 1
    return depth
