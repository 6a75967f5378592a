"""The kernel's window and the tree of what the work is, from the rows of a captured profile."""

from __future__ import annotations

import numpy as np

from sim.trace import NONE, RegionKind, Strings
from trnprof.intervals import merge
from trnprof.readers.draft import SETUP_OPCODES, WORK_IF_COMPILED, Columns, Draft, column, members
from trnprof.readers.waits import completions

QUIET_SHARE = 10
"""A pause of this many times the kernel's whole work is the runtime's start-up, not the kernel's."""


def add_control(draft: Draft) -> None:
    """Add `control`: rows of the runtime's start-up and tail, semaphore waits, drains and branches."""
    opcodes = draft.instructions["opcode"]
    compiled = column(draft.instructions, "group", NONE) != NONE
    setup = members(draft.strings, opcodes, SETUP_OPCODES)
    working = members(draft.strings, opcodes, WORK_IF_COMPILED) & compiled
    draft.instructions["control"] = setup & ~working


def kernel_window(draft: Draft, transfers: Columns) -> tuple[int, int]:
    """First start and last completion of the kernel's own work, start-up left out, ps.

    The kernel's rows are those with a compiler's id; profiles without ids count every row that is not set-up.
    """
    instructions = draft.instructions
    compiled = column(instructions, "group", NONE) != NONE
    work = ~instructions["control"] & (compiled if compiled.any() else True)
    if not work.any():
        work = compiled if compiled.any() else np.ones(work.size, bool)
    if not work.any():
        return 0, 0
    done, _ = completions(instructions, transfers)
    start, end = merge(instructions["start_ps"][work], np.maximum(done, instructions["start_ps"] + 1)[work])
    start, end = _without_start_up(draft, start, end)
    ours = compiled & (instructions["start_ps"] >= start[0])
    return int(start[0]), int(max(end[-1], instructions["end_ps"][ours].max(initial=0)))


def _without_start_up(draft: Draft, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The stretches of work after a pause that dwarfs all of the work."""
    pauses = start[1:] - end[:-1]
    worked = int((end - start).sum())
    if not pauses.size or pauses.max() <= QUIET_SHARE * worked:
        return start, end
    cut = int(pauses.argmax()) + 1
    draft.receipt.remark(
        f"The window begins after {int(pauses.max()) / 1e6:.1f} us without kernel work; "
        "tables and constants were loaded before."
    )
    if (end[:cut] - start[:cut]).sum() > (end[cut:] - start[cut:]).sum():
        return start[:cut], end[:cut]
    return start[cut:], end[cut:]


def build_regions(draft: Draft, transfers: Columns, kernel: str, window: tuple[int, int]) -> Columns:
    """Add `region` to the instructions; returns the regions, parents first.

    Levels: the kernel, or the model where the compiler kept the framework's layers; the layers' path; the source line.
    """
    instructions, strings = draft.instructions, draft.strings
    done, _ = completions(instructions, transfers)
    work = (instructions["start_ps"] >= window[0]) & (done <= window[1]) & ~instructions["control"]
    instructions["region"] = np.full(work.size, NONE, np.int32)
    if not work.any():
        return {}
    keys = np.stack((column(instructions, "_layer", NONE)[work], column(instructions, "source", NONE)[work]), axis=1)
    distinct, row = np.unique(keys, axis=0, return_inverse=True)
    layered = any(_path(strings[int(layer)]) for layer, _ in distinct)
    tree = _Tree(strings, kernel, RegionKind.MODEL if layered else RegionKind.KERNEL)
    leaves = np.array([tree.leaf(strings[int(layer)], int(line)) for layer, line in distinct], np.int32)
    instructions["region"][work] = leaves[row.ravel()]
    return tree.columns(instructions["region"][work], instructions["start_ps"][work], done[work])


def _path(layer: str | None) -> list[str]:
    """The parts of a framework's layer path; none where the compiler did not know it."""
    return [part for part in (layer or "").split("/") if part and part != "Unknown"]


class _Tree:
    """Regions by parent and name, numbered as they are met."""

    def __init__(self, strings: Strings, name: str, kind: RegionKind):
        self._strings = strings
        self._rows: list[tuple[int, int, int, int]] = []
        self._known: dict[tuple[int, int, int], int] = {}
        self._root = self._enter(NONE, kind, strings.code(name or kind.name.lower()))

    def leaf(self, layer: str | None, line: int) -> int:
        """Row of the innermost region of a layer path and a source line (a code)."""
        row = self._root
        parts = _path(layer)
        for depth, part in enumerate(parts, 1):
            kind = RegionKind.OPERATOR if depth == len(parts) else RegionKind.LAYER
            row = self._enter(row, kind, self._strings.code(part))
        return row if line == NONE else self._enter(row, RegionKind.LINE, line)

    def _enter(self, parent: int, kind: RegionKind, name: int) -> int:
        key = (parent, int(kind), name)
        if key not in self._known:
            self._known[key] = len(self._rows)
            self._rows.append((parent, int(kind), name, name if kind == RegionKind.LINE else NONE))
        return self._known[key]

    def columns(self, region: np.ndarray, start: np.ndarray, end: np.ndarray) -> Columns:
        """The table, each region as long as what lies inside it."""
        parent, kind, name, source = (np.array(values, np.int64) for values in zip(*self._rows, strict=True))
        low, high = np.full(parent.size, np.iinfo(np.int64).max), np.full(parent.size, np.iinfo(np.int64).min)
        np.minimum.at(low, region, start)
        np.maximum.at(high, region, end)
        for row in range(parent.size - 1, 0, -1):
            low[parent[row]] = min(low[parent[row]], low[row])
            high[parent[row]] = max(high[parent[row]], high[row])
        return {"parent": parent, "kind": kind, "name": name, "source": source, "start_ps": low, "end_ps": high}
