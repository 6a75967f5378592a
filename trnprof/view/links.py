"""What waits for what: dependencies of instructions, and the one that binds."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sim.trace import NONE, Trace


class Links:
    """Predecessors, successors and triggered transfers of every instruction."""

    def __init__(self, trace: Trace):
        self.trace = trace

    @cached_property
    def _by_waiter(self) -> tuple[np.ndarray, np.ndarray]:
        return _grouped(self.trace.edges.waiter)

    @cached_property
    def _by_signaler(self) -> tuple[np.ndarray, np.ndarray]:
        return _grouped(self.trace.edges.signaler)

    @cached_property
    def _by_trigger(self) -> tuple[np.ndarray, np.ndarray]:
        return _grouped(self.trace.transfers.instruction)

    def transfers(self, row: int) -> np.ndarray:
        """Transfers that an instruction triggered, in order of start."""
        return np.sort(_members(self._by_trigger, row))

    def finish_ps(self, row: int) -> int:
        """When those that wait for an instruction may go on: its end, or that of the last transfer it triggered."""
        moved = self.transfers(row)
        end = int(self.trace.instructions.end_ps[row])
        if not moved.size:
            return end
        table = self.trace.transfers
        return max(end, int(np.maximum(table.end_ps[moved], table.done_ps[moved]).max()))

    def predecessors(self, row: int) -> list[int]:
        """What an instruction waited for, the latest to finish first; the recorded binding one leads."""
        edges = _members(self._by_waiter, row)
        found = {int(r) for r in self.trace.edges.signaler[edges]} - {row}
        bound = int(self.trace.instructions.wait_for[row])
        if bound != NONE:
            found.add(bound)
        return sorted(found, key=lambda r: (r != bound, -self.finish_ps(r), r))

    def binding(self, row: int) -> int:
        """The predecessor that finished last, -1 without one."""
        found = self.predecessors(row)
        return found[0] if found else NONE

    @cached_property
    def _by_wait(self) -> tuple[np.ndarray, np.ndarray]:
        return _grouped(self.trace.instructions.wait_for)

    def successors(self, row: int) -> list[int]:
        """What waited for an instruction, the earliest to start first."""
        edges = _members(self._by_signaler, row)
        found = {int(r) for r in self.trace.edges.waiter[edges]}
        found |= {int(r) for r in _members(self._by_wait, row)}
        start = self.trace.instructions.start_ps
        return sorted(found - {row}, key=lambda r: (int(start[r]), r))

    def follow(self, row: int, step: int) -> int:
        """The next instruction along the binding dependency: back for a negative step; -1 at the end."""
        if step < 0:
            return self.binding(row)
        after = self.successors(row)
        bound = [r for r in after if self.binding(r) == row]
        return (bound or after or [NONE])[0]


def _grouped(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows in order of their value, and the values in that order."""
    order = np.argsort(values, kind="stable")
    return order, values[order]


def _members(group: tuple[np.ndarray, np.ndarray], value: int) -> np.ndarray:
    order, values = group
    low, high = np.searchsorted(values, (value, value + 1))
    return order[low:high]
