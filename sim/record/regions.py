"""The tree kernel → loops → source lines, with the time that each takes."""

from __future__ import annotations

import numpy as np

from sim.schedule import Schedule
from sim.trace import NONE, RegionKind, Regions, Strings


def regions(timed: Schedule, strings: Strings, lead: int) -> tuple[Regions, np.ndarray]:
    """(table, innermost region of each instruction); a source line is a child of the region that it runs in."""
    program = timed.program
    parent = [region.parent for region in program.regions]
    kind = [int(region.kind) for region in program.regions]
    name = [strings.code(region.name) for region in program.regions]
    source = [region.source for region in program.regions]
    inside = program.region.astype(np.int64)
    if (inside < 0).any():
        inside = np.where(inside < 0, len(parent), inside)
        parent.append(NONE)
        kind.append(int(RegionKind.KERNEL))
        name.append(strings.code(program.kernel or "kernel"))
        source.append(NONE)
    line = program.source.astype(np.int64)
    stride = len(strings) + 1
    pairs, innermost = np.unique(np.where(line >= 0, inside * stride + line, -1 - inside), return_inverse=True)
    number = np.zeros(pairs.size, np.int64)
    for at, pair in enumerate(pairs.tolist()):
        if pair < 0:
            number[at] = -1 - pair
            continue
        number[at] = len(parent)
        parent.append(pair // stride)
        kind.append(int(RegionKind.LINE))
        code = pair % stride
        name.append(strings.code(_short(strings[code])))
        source.append(code)
    return _timed(timed, number[innermost], lead, parent=parent, kind=kind, name=name, source=source)


def _short(source: str | None) -> str:
    """`kernel.py:12` of a path and line."""
    return (source or "").replace("\\", "/").rpartition("/")[2]


def _timed(timed: Schedule, innermost: np.ndarray, lead: int, **columns: list) -> tuple[Regions, np.ndarray]:
    """First start and last completion inside; regions in which nothing runs have no time."""
    count = len(columns["parent"])
    start, end = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
    np.minimum.at(start, innermost, timed.start)
    np.maximum.at(end, innermost, np.maximum(timed.done, timed.freed))
    core = np.full(count, -2, np.int64)
    cores = timed.program.core.astype(np.int64)
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
    np.minimum.at(low, innermost, cores)
    np.maximum.at(high, innermost, cores)
    for row in range(count - 1, -1, -1):
        above = columns["parent"][row]
        if above >= 0 and end[row] >= 0:
            start[above], end[above] = min(start[above], start[row]), max(end[above], end[row])
            low[above], high[above] = min(low[above], low[row]), max(high[above], high[row])
    core = np.where((low == high) & (end >= 0), low, NONE)
    start, end = np.where(end >= 0, start, 0) + lead, np.where(end >= 0, end, 0) + lead
    return Regions(
        **{name: np.array(column) for name, column in columns.items()}, core=core, start_ps=start, end_ps=end
    ), innermost
