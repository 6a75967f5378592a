"""Ordering: what a compiler does with straight-line code, loops that Python has unrolled.

There is no loop to rotate buffers in. The engines' instructions are ordered as a list scheduler would that sees a few
dozen of them at once and takes transfers for free; a load goes where it is over just before its first use. Addresses
are then given in that order, first fit (after the timing prototype, section 8.4).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from sim.compiler.columns import engines, instructions_of_operands, operand_roles, permuted
from sim.engines.laws import ns
from sim.program import Program, Role
from sim.trace import Memory, RegionKind

AHEAD = 64
"""Instructions that the list scheduler looks at together; measured kernels allow 32 to 128."""


def is_straight(program: Program) -> bool:
    """Whether source lines repeat although no instruction is in a loop of the device."""
    looping = np.array([region.kind is RegionKind.LOOP for region in program.regions] or [False], bool)
    if len(program.order) or looping[program.region[program.region >= 0]].any():
        return False
    return len(program) > 2 * np.unique(program.source).size


def order(program: Program) -> Program:
    """A straight-line program in the order in which its engines run it."""
    graph = _Graph(program)
    start = _listed(program, graph)
    for index in range(len(program) - 1, -1, -1):
        if graph.is_load[index] and graph.after[index]:
            moved = program.forms[program.form[index]].dma
            lead = moved.dispatch_ps + moved.service_ps + moved.notify_ps
            start[index] = min(start[then] for then in graph.after[index]) - lead
    return permuted(program, _topological(graph, start))


class _Graph:
    """Which instruction must come after which, storage by storage."""

    def __init__(self, program: Program):
        moves = [form.dma is not None for form in program.forms]
        onto = [form.layouts[0].memory is not Memory.HBM if form.layouts else False for form in program.forms]
        self.is_transfer = [moves[number] for number in program.form.tolist()]
        self.is_load = [moves[number] and onto[number] for number in program.form.tolist()]
        self.before: list[set[int]] = [set() for _ in range(len(program))]
        self.after: list[set[int]] = [set() for _ in range(len(program))]
        writers: dict[int, list[int]] = {}
        readers: dict[int, list[int]] = {}
        is_hbm = [storage.memory is Memory.HBM and storage.role != "INTERNAL" for storage in program.storages]
        instruction, roles = instructions_of_operands(program).tolist(), operand_roles(program).tolist()
        for index, storage, role in zip(instruction, program.operands[:, 0].tolist(), roles):
            if is_hbm[storage]:
                continue
            self._follow(index, writers.get(storage, ()))
            if role == Role.READ:
                readers.setdefault(storage, []).append(index)
            else:
                self._follow(index, readers.get(storage, ()))
                writers.setdefault(storage, []).append(index)

    def _follow(self, index: int, others: list[int] | tuple[()]) -> None:
        for other in others:
            if other != index:
                self.before[index].add(other)
                self.after[other].add(index)


def _listed(program: Program, graph: _Graph) -> list[int]:
    """When a list scheduler starts each instruction, ps."""
    wake = ns(program.device["sem.wake"])
    engine, form = engines(program).tolist(), program.form.tolist()
    missing = [len(before) for before in graph.before]
    ready, start, free = [0] * len(form), [-1] * len(form), dict.fromkeys(engine, 0)
    head, end = 0, min(AHEAD, len(form))
    seen = list(range(end))
    while seen:
        chosen, when = -1, 0
        for index in seen:
            if missing[index]:
                continue
            begin = ready[index] if graph.is_transfer[index] else max(ready[index], free[engine[index]])
            if chosen < 0 or begin < when:
                chosen, when = index, begin
        cost = program.forms[form[chosen]].cost
        start[chosen], done = when, when
        if not graph.is_transfer[chosen]:
            free[engine[chosen]], done = when + cost.occupancy_ps, when + cost.latency_ps
        for then in graph.after[chosen]:
            missing[then] -= 1
            ready[then] = max(ready[then], done + (0 if engine[then] == engine[chosen] else wake))
        seen.remove(chosen)
        while head < len(form) and start[head] >= 0:
            head += 1
        for new in range(end, min(head + AHEAD, len(form))):
            ready[new] = max(ready[new], when)
            seen.append(new)
            end = new + 1
    return start


def _topological(graph: _Graph, start: list[int]) -> np.ndarray:
    """By start as far as the graph allows it."""
    missing = [len(before) for before in graph.before]
    heap = [(start[index], index) for index, count in enumerate(missing) if not count]
    heapify(heap)
    order = []
    while heap:
        when, index = heappop(heap)
        order.append(index)
        for then in graph.after[index]:
            missing[then] -= 1
            if not missing[then]:
                heappush(heap, (max(start[then], when), then))
    return np.array(order, np.int64)
