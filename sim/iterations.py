"""Which iteration of which loops an instruction is in, as a tree: the iterations of an inner loop hang below one of the
loop around it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim.trace import NONE

OUTER, FIRST, ORDINAL, REGION = range(4)
"""Columns of `Program.iterations`: the iteration around it, NONE for none; the first iteration of the same run of the
loop; which one of this run it is, from 0; the loop's region."""


class Run(NamedTuple):
    """A loop while it runs."""

    outer: int
    first: int
    count: int
    region: int


START = (NONE, Run(NONE, NONE, 0, NONE))
"""Outside all loops."""


class Iterations:
    """Collects the iterations of a kernel's loops while its Python runs."""

    def __init__(self) -> None:
        self.now, self._run = START
        self.rows: list[tuple[int, int, int, int]] = []

    def place(self) -> tuple[int, Run]:
        """Where the kernel stands, for `back`."""
        return self.now, self._run

    def back(self, place: tuple[int, Run]) -> None:
        """Go on where the kernel stood."""
        self.now, self._run = place

    def enter(self, region: int) -> None:
        """A loop starts, or another region in which loops may be."""
        self._run = Run(self.now, NONE, 0, region)

    def begin(self) -> None:
        """The innermost loop begins its next iteration."""
        run = self._run
        self.now = len(self.rows)
        first = self.now if run.first == NONE else run.first
        self.rows.append((run.outer, first, run.count, run.region))
        self._run = Run(run.outer, first, run.count + 1, run.region)


class Nests:
    """Answers how two places in a program lie to one another in the loops around them."""

    def __init__(self, iterations: np.ndarray):
        self._outer = iterations[:, OUTER].tolist()
        self._first = iterations[:, FIRST].tolist()
        self._region = iterations[:, REGION].tolist()
        self._depth: list[int] = []
        for outer in self._outer:
            self._depth.append(1 if outer == NONE else self._depth[outer] + 1)

    def first(self, one: int) -> int:
        """What the run of a loop is known by; NONE outside loops."""
        return NONE if one == NONE else self._first[one]

    def region(self, one: int) -> int:
        """The loop that an iteration is of."""
        return self._region[one]

    def outermost(self) -> np.ndarray:
        """Of each iteration, the region of the outermost loop that it is in."""
        found: list[int] = []
        for outer, region in zip(self._outer, self._region):
            found.append(region if outer == NONE else found[outer])
        return np.array(found, np.int32)

    def ancestor(self, one: int, depth: int) -> int:
        """The iteration of the loop at a depth, 1 for the outermost, that one is in; NONE for one outside."""
        if one == NONE or self._depth[one] < depth:
            return NONE
        while self._depth[one] > depth:
            one = self._outer[one]
        return one

    def carried(self, one: int, other: int) -> bool:
        """Whether one is in another iteration of the innermost run of a loop that both are in."""
        outer, first, depth = self._outer, self._first, self._depth
        if one == NONE or other == NONE:
            return False
        while depth[one] > depth[other]:
            one = outer[one]
        while depth[other] > depth[one]:
            other = outer[other]
        while one != NONE and first[one] != first[other]:
            one, other = outer[one], outer[other]
        return one != other
