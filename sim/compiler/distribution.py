"""Loop distribution: in an outermost affine loop, each statement runs for all iterations before the next one starts.

Compilers of the legacy API do this where the tiles of all iterations fit into half of SBUF. Small operations and small
transfers of neighbouring iterations then become one instruction (facts of the timing prototype, sections 7 and 8.5).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby, pairwise

import numpy as np

from sim.compiler.columns import operand_roles, permuted
from sim.compiler.merging import merge_neighbours
from sim.iterations import Nests
from sim.memory import Layout
from sim.program import Program, Role
from sim.trace import NONE, Memory, RegionKind

FOOTPRINT = 2
"""A loop is distributed when its tiles take at most 1/2 of SBUF."""

PSUM_TILES = 4
"""Statements that exchange more PSUM tiles than this stay together: PSUM cannot hold those of all iterations."""

COMPARED = 512
"""Accesses to one storage up to which it is checked that they may change their order."""


def distribute(program: Program, limit: int) -> Program:
    """Statement by statement where that changes no result; small neighbours merged."""
    if len(program.order):
        return program
    order = np.arange(len(program))
    changed = np.zeros(len(program), bool)
    scene = Scene(program)
    for begin, end in _loops(program):
        if scene.footprint(scene.written(range(begin, end))) * FOOTPRINT <= limit:
            found = scene.by_statement(begin, end)
            if scene.may_reorder(found):
                order[begin:end] = found
                changed[begin:end] = True
    return merge_neighbours(permuted(program, order), changed) if changed.any() else program


def _loops(program: Program) -> list[tuple[int, int]]:
    """[begin, end) of each outermost affine loop; those that run together are one."""
    outermost = []
    for number, region in enumerate(program.regions):
        above = region.parent
        inside = above >= 0 and program.regions[above].kind is RegionKind.LOOP
        outermost.append(outermost[above] if inside else number if region.kind is RegionKind.LOOP else -1)
    region = program.region.copy()
    looping = program.iteration != NONE
    region[looping] = Nests(program.iterations).outermost()[program.iteration[looping]]
    loop = np.array([*outermost, -1], np.int64)[region]
    spans, at = [], 0
    for number, rows in groupby(loop.tolist()):
        end = at + sum(1 for _ in rows)
        if number >= 0 and program.regions[number].name.startswith("affine_range"):
            spans.append((at, end))
        at = end
    return spans


class Scene:
    """The accesses of a program, by instruction."""

    def __init__(self, program: Program):
        self.program = program
        self.bounds = program.operand_start.tolist()
        self.operands = program.operands.tolist()
        self.roles = operand_roles(program).tolist()
        self.source = program.source.tolist()
        self.on_chip = [storage.memory is not Memory.HBM for storage in program.storages]

    def accesses(self, index: int):
        """(storage, low, high, whether it writes) of each operand."""
        for k in range(self.bounds[index], self.bounds[index + 1]):
            storage, offset, layout = self.operands[k]
            pitch = self.program.storages[storage].pitch
            low = offset % pitch if pitch else offset
            yield storage, low, low + Layout.by_index[layout].span, self.roles[k] != Role.READ

    def footprint(self, storages: Iterable[int]) -> int:
        """Bytes a partition of SBUF that storages take."""
        tiles = [self.program.storages[storage] for storage in storages]
        return sum(tile.pitch for tile in tiles if tile.memory is Memory.SBUF)

    def written(self, members: Iterable[int]) -> frozenset[int]:
        """On-chip storages that instructions write."""
        return self._touched(members, writes=True)

    def read(self, members: Iterable[int]) -> frozenset[int]:
        """On-chip storages that instructions read."""
        return self._touched(members, writes=False)

    def _touched(self, members: Iterable[int], writes: bool) -> frozenset[int]:
        bounds, operands, roles, on_chip = self.bounds, self.operands, self.roles, self.on_chip
        return frozenset(
            operands[k][0]
            for index in members
            for k in range(bounds[index], bounds[index + 1])
            if on_chip[operands[k][0]] and (roles[k] != Role.READ) == writes
        )

    def by_statement(self, begin: int, end: int) -> list[int]:
        """The loop's instructions: statements in the order of their first one, each over all iterations."""
        leader = self._together(begin, end)
        first: dict[int, int] = {}
        for index in range(begin, end):
            first.setdefault(leader[self.source[index]], index)
        return sorted(range(begin, end), key=lambda index: (first[leader[self.source[index]]], index))

    def _together(self, begin: int, end: int) -> dict[int, int]:
        """Statement -> the statement that stands for those that must stay with it."""
        made: dict[int, int] = {}
        tiles: dict[int, set[int]] = defaultdict(set)
        leader = {self.source[index]: self.source[index] for index in range(begin, end)}

        def find(statement: int) -> int:
            while leader[statement] != statement:
                statement = leader[statement]
            return statement

        users: list[tuple[int, int]] = []
        for index in range(begin, end):
            for storage, _, _, writes in self.accesses(index):
                if self.program.storages[storage].memory is Memory.PSUM:
                    if writes:
                        made[storage] = self.source[index]
                        tiles[self.source[index]].add(storage)
                    elif storage in made:
                        users.append((self.source[index], made[storage]))
        for reader, writer in users:
            if len(tiles[writer]) > PSUM_TILES:
                leader[find(reader)] = find(writer)
        return {statement: find(statement) for statement in leader}

    def may_reorder(self, order: list[int]) -> bool:
        """Whether every two accesses to the same bytes, one of them a write, keep their order."""
        seen: dict[int, list[tuple[int, int, int, bool]]] = defaultdict(list)
        for index in order:
            for storage, low, high, writes in self.accesses(index):
                seen[storage].append((index, low, high, writes))
        return all(_keeps_order(rows) for rows in seen.values())


def _keeps_order(rows: list[tuple[int, int, int, bool]]) -> bool:
    """Whether accesses to one storage, in their new order, conflict nowhere with the old one."""
    if not any(writes for *_, writes in rows) or all(a[0] <= b[0] for a, b in pairwise(rows)):
        return True
    if len(rows) > COMPARED:
        return False
    return not any(
        later[0] < earlier[0] and (later[3] or earlier[3]) and later[1] < earlier[2] and earlier[1] < later[2]
        for place, later in enumerate(rows)
        for earlier in rows[:place]
    )
