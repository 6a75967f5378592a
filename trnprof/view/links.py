"""What waits for what: dependencies of instructions, and the one that binds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.trace import NONE, Arrays, Trace


@dataclass(frozen=True, slots=True)
class _Groups:
    """Rows of a table by the instruction that they name."""

    order: np.ndarray
    """int32 or int64 [rows that name one], those of the first instruction first, ascending within each"""
    first: np.ndarray
    """int64 [instructions + 1], where in `order` those of each instruction begin"""

    def of(self, row: int) -> np.ndarray:
        return self.order[self.first[row] : self.first[row + 1]]


class Links:
    """Predecessors, successors and triggered transfers of every instruction."""

    def __init__(self, trace: Trace):
        self.trace = trace

    @cached_property
    def _by_waiter(self) -> _Groups:
        return self._grouped("waiter", lambda: self.trace.edges.waiter)

    @cached_property
    def _by_signaler(self) -> _Groups:
        return self._grouped("signaler", lambda: self.trace.edges.signaler)

    @cached_property
    def _by_trigger(self) -> _Groups:
        return self._grouped("trigger", lambda: self.trace.transfers.instruction)

    @cached_property
    def _by_wait(self) -> _Groups:
        return self._grouped("wait", lambda: self.trace.instructions.wait_for)

    def _grouped(self, name: str, values: Callable[[], np.ndarray]) -> _Groups:
        """Found once for a trace that is kept: sorting ten million rows takes half a second."""
        count = len(self.trace.instructions)
        return _Groups(**self.trace.derive(f"links.{name}", lambda: _grouped(values(), count)))

    def transfers(self, row: int) -> np.ndarray:
        """Transfers that an instruction triggered, in order of start."""
        return self._by_trigger.of(row)

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
        edges = self._by_waiter.of(row)
        found = {int(r) for r in self.trace.edges.signaler[edges]} - {row}
        bound = int(self.trace.instructions.wait_for[row])
        if bound != NONE:
            found.add(bound)
        return sorted(found, key=lambda r: (r != bound, -self.finish_ps(r), r))

    def binding(self, row: int) -> int:
        """The predecessor that finished last, -1 without one."""
        found = self.predecessors(row)
        return found[0] if found else NONE

    def successors(self, row: int) -> list[int]:
        """What waited for an instruction, the earliest to start first."""
        edges = self._by_signaler.of(row)
        found = {int(r) for r in self.trace.edges.waiter[edges]}
        found |= {int(r) for r in self._by_wait.of(row)}
        start = self.trace.instructions.start_ps
        return sorted(found - {row}, key=lambda r: (int(start[r]), r))

    def follow(self, row: int, step: int) -> int:
        """The next instruction along the binding dependency: back for a negative step; -1 at the end."""
        if step < 0:
            return self.binding(row)
        after = self.successors(row)
        bound = [r for r in after if self.binding(r) == row]
        return (bound or after or [NONE])[0]


def _grouped(values: np.ndarray, count: int) -> Arrays:
    """Rows in order of their value, of those that have one, and where each of `count` values begins."""
    width = np.int32 if values.size < 1 << 31 else np.int64
    named = values[values >= 0]
    first = np.concatenate(([0], np.cumsum(np.bincount(named, minlength=count)[:count])))
    return {"order": np.argsort(values, kind="stable")[values.size - named.size :].astype(width), "first": first}
