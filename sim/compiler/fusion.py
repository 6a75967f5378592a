"""Loop fusion: neighbouring affine loops of as many iterations become one, iteration by iteration.

Compilers of the legacy API do this where the second loop uses what the first one makes, iteration by iteration. What
passes between them is then used soon, and what both load and prepare is prepared once (facts of the timing prototype,
2.1: swiglu). Loops whose tiles fit into half of SBUF gain nothing: they run statement by statement
(`sim.compiler.distribution`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import add

import numpy as np

from sim.compiler.columns import permuted
from sim.compiler.distribution import FOOTPRINT, Scene
from sim.iterations import OUTER, Nests
from sim.program import Program
from sim.trace import NONE


@dataclass(frozen=True, slots=True)
class Part:
    """A run of a loop, or instructions between loops."""

    numbers: list[int]
    """Its iterations, NONE for no loop."""
    bodies: list[list[int]]
    """The instructions of each."""
    written: frozenset[int]
    """On-chip storages that a loop of several iterations writes; no others can run together."""
    read: frozenset[int]
    """On-chip storages that it reads."""


def _members(parts: Iterable[Part]) -> list[int]:
    return [index for part in parts for body in part.bodies for index in body]


def fuse(program: Program, limit: int) -> Program:
    """Run loops together where that changes no result."""
    if len(program.order) or not len(program.iterations):
        return program
    found = _Fusion(program, limit)
    order = found.body(range(len(program)), 1)
    return permuted(found.renamed(), np.array(order)) if found.same else program


class _Fusion:
    """The loops of a program while they are put together."""

    def __init__(self, program: Program, limit: int):
        self.program = program
        self.limit = limit
        self.scene = Scene(program)
        self.nests = Nests(program.iterations)
        self.iteration = program.iteration.tolist()
        self.same: dict[int, int] = {}
        """Iteration of a loop that has joined another one -> the iteration of that one."""

    def body(self, members: Sequence[int], depth: int) -> list[int]:
        """Instructions of one iteration, or of the kernel, in their new order.

        depth : of the loops in it, 1 for the outermost
        """
        parts: list[Part] = []
        for part in self._parts(members, depth):
            if not self._joins(parts, part, depth):
                parts.append(part)
        return _members(parts)

    def _parts(self, members: Sequence[int], depth: int) -> Iterator[Part]:
        """The loops of a body, and what is between them."""
        above = (self.nests.ancestor(self.iteration[index], depth) for index in members)
        for _, rows in groupby(zip(above, members), key=lambda row: self.nests.first(row[0])):
            passes = [(number, [index for _, index in each]) for number, each in groupby(rows, key=lambda row: row[0])]
            yield self._part([number for number, _ in passes], [each for _, each in passes])

    def _part(self, numbers: list[int], bodies: list[list[int]]) -> Part:
        loop = len(numbers) > 1 and self.program.regions[self.nests.region(numbers[0])].name.startswith("affine_range")
        members = [index for body in bodies for index in body] if loop else []
        return Part(numbers, bodies, self.scene.written(members), self.scene.read(members))

    def _joins(self, parts: list[Part], new: Part, depth: int) -> bool:
        """Let a part run together with the last one that it can run with; whether there is any."""
        for place in range(len(parts) - 1, -1, -1):
            old = parts[place]
            if not self._alike(old, new):
                continue
            between = _members(parts[place + 1 :])
            together = [index for body in map(add, old.bodies, new.bodies) for index in body]
            late = self.scene.may_reorder(between + together)
            if late or self.scene.may_reorder(together + between):
                self.same |= zip(new.numbers, old.numbers)
                bodies = [self.body(one + other, depth + 1) for one, other in zip(old.bodies, new.bodies)]
                del parts[place]
                joined = Part(old.numbers, bodies, old.written | new.written, old.read | new.read)
                parts.insert(len(parts) if late else place, joined)
                return True
        return False

    def _alike(self, old: Part, new: Part) -> bool:
        """Whether two parts are loops that could run together, and that it would help."""
        if len(old.numbers) != len(new.numbers) or old.written.isdisjoint(new.read):
            return False
        return self.scene.footprint(old.written | new.written) * FOOTPRINT > self.limit

    def renamed(self) -> Program:
        """The program with the iterations of loops that have joined others as iterations of those."""
        number = np.arange(len(self.program.iterations) + 1)
        number[-1] = NONE
        number[list(self.same)] = list(self.same.values())
        iterations = self.program.iterations.copy()
        iterations[:, OUTER] = number[iterations[:, OUTER]]
        return replace(self.program, iteration=number[self.program.iteration].astype(np.int32), iterations=iterations)
