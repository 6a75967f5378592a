"""Loop distribution: in an outermost affine loop, each statement runs for all iterations before the next one starts.

Compilers of the legacy API do this where the tiles of all iterations fit into half of SBUF. Small operations and small
transfers of neighbouring iterations then become one instruction (facts of the timing prototype, sections 7 and 8.5).
Where only the inputs fit, these are loaded first, and stores merge. Either way an input is loaded once, its tiles in
the order in which they lie in HBM, so that those that merge continue each other's rows: the events that public profiles
of products count (trainium-kernel-fusion, mlp_profile_summaries) leave room for no other number of transfers. Where not
even the inputs fit, loads of neighbouring iterations of an inner loop merge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby, pairwise

import numpy as np

from sim.compiler.columns import instructions_of_operands, operand_roles, permuted
from sim.compiler.hoisting import share
from sim.compiler.merging import merge_neighbours, most_merged
from sim.compiler.numbering import constant_storages, cores, is_plain_load, is_transfer_of_pairs, number_values
from sim.compiler.residency import needs_spilling
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
    loop, merging = np.full(len(program), NONE), np.zeros(len(program), bool)
    is_transfer = np.array([form.dma is not None for form in program.forms] or [False])[program.form]
    scene = Scene(program, needs_spilling(program, limit))
    for number, (begin, end) in enumerate(_loops(program)):
        found, whole = scene.reordered(begin, end, limit)
        if found and scene.may_reorder(found):
            order[begin:end] = found
            loop[begin:end] = number
            merging[begin:end] = whole or is_transfer[found]
        elif not scene.spills:
            found = scene.loads_together(begin, end)
            order[begin:end] = found
            merging[begin:end] = [scene.is_load[index] for index in found]
    program = permuted(program, order) if merging.any() else program
    if (loop != NONE).any():
        program, kept = _loaded_once(program, loop)
        merging = merging[kept]
    return _in_order_of_use(merge_neighbours(program, merging) if merging.any() else program)


def _in_order_of_use(program: Program) -> Program:
    """Of loads in a row, those of a statement are started first whose result is read first."""
    use, source = _uses_of_loads(program), program.source.tolist()
    storage, bounds = program.operands[:, 0].tolist(), program.operand_start.tolist()
    order, begin = list(range(len(program))), 0
    for is_load, rows in groupby(use, key=lambda position: position != NONE):
        end = begin + sum(1 for _ in rows)
        if is_load:
            wanted: dict[int, int] = {}
            writer: dict[int, int] = {}
            for index in range(begin, end):
                wanted[source[index]] = min(wanted.get(source[index], use[index]), use[index])
                for number in storage[bounds[index] : bounds[index + 1] : 2]:
                    writer[number] = source[index] if writer.get(number, source[index]) == source[index] else NONE
            if NONE not in writer.values():
                order[begin:end] = sorted(range(begin, end), key=lambda index: wanted[source[index]])
        begin = end
    return program if all(a < b for a, b in pairwise(order)) else permuted(program, np.array(order))


def _uses_of_loads(program: Program) -> list[int]:
    """Per instruction: where what it loads of inputs is read first, NONE for one that loads nothing."""
    roles, moves = operand_roles(program), is_transfer_of_pairs(program)
    constant, first = constant_storages(program, roles), _first_reads(program, roles)
    storage, bounds = program.operands[:, 0].tolist(), program.operand_start.tolist()
    found = []
    for form, start, end in zip(program.form.tolist(), bounds, bounds[1:]):
        loads = moves[form] and all(constant[number] for number in storage[start + 1 : end : 2])
        found.append(min(first[number] for number in storage[start:end:2]) if loads else NONE)
    return found


def _first_reads(program: Program, roles: np.ndarray) -> list[int]:
    """The first instruction that reads each storage, the number of instructions for none."""
    reads = roles != Role.WRITE
    first = np.full(len(program.storages), len(program))
    np.minimum.at(first, program.operands[reads, 0], instructions_of_operands(program)[reads])
    return first.tolist()


def _loaded_once(program: Program, loop: np.ndarray) -> tuple[Program, np.ndarray]:
    """Loads that a loop repeats are left out: its tiles are all resident; and which instructions are left, bool[n]."""
    values, core = number_values(program), cores(program)
    first: dict[tuple[int, int, int], int] = {}
    again: dict[int, int] = {}
    for storage in sorted(values.loads, key=values.last_write.__getitem__):
        number = int(loop[values.last_write[storage]])
        kept = first.setdefault((number, core[storage], values.number[storage]), storage)
        if number != NONE and kept != storage:
            again[storage] = kept
    return share(program, again)


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

    def __init__(self, program: Program, spills: bool = False):
        self.program = program
        self.spills = spills
        """Tiles must leave SBUF for others: what loads them may have to be repeated one by one."""
        self.bounds = program.operand_start.tolist()
        self.operands = program.operands.tolist()
        roles = operand_roles(program)
        self.roles = roles.tolist()
        self.source = program.source.tolist()
        self.form = program.form.tolist()
        self.most = [most_merged(form) for form in program.forms]
        plain, constant = is_plain_load(program), constant_storages(program, roles)
        in_hbm = [storage.memory is Memory.HBM for storage in program.storages]
        moved = [self.operands[at : at + 2] if plain[form] else None for form, at in zip(self.form, self.bounds)]
        self.is_load = [sides is not None and constant[sides[1][0]] for sides in moved]
        """Of an input that the kernel does not write."""
        self.is_store = [sides is not None and in_hbm[sides[0][0]] for sides in moved]
        self.on_chip = [storage.memory is not Memory.HBM for storage in program.storages]

    def accesses(self, index: int):
        """(storage, low, high, whether it writes) of each operand."""
        for k in range(self.bounds[index], self.bounds[index + 1]):
            storage, offset, layout = self.operands[k]
            pitch = self.program.storages[storage].pitch
            low = offset % pitch if pitch else offset
            yield storage, low, low + Layout.by_index[layout].span, self.roles[k] != Role.READ

    def reordered(self, begin: int, end: int, limit: int) -> tuple[list[int], bool]:
        """The loop's instructions in their new order, none where too little fits; whether statement by statement."""
        if self.footprint(self.written(range(begin, end))) * FOOTPRINT <= limit:
            return self.by_statement(begin, end), True
        if not self.spills and self.loaded(begin, end) * FOOTPRINT <= limit:
            return self.loads_first(begin, end), False
        return [], False

    def loads_first(self, begin: int, end: int) -> list[int]:
        """All loads of inputs, then the loop's other instructions; stores that merge stand where their last did."""
        loads = [index for index in range(begin, end) if self.is_load[index]]
        first: dict[int, int] = {}
        for index in loads:
            first.setdefault(self.source[index], index)
        loads.sort(key=lambda index: (first[self.source[index]], self.address(index), index))
        return loads + self._stores_together(begin, end)

    def loads_together(self, begin: int, end: int) -> list[int]:
        """The loop's instructions; loads of a statement that merge, in one run of a loop, stand where the first did."""
        region = self.program.region.tolist()
        waiting: dict[tuple[int, int], tuple[int, int]] = {}
        place = list(range(begin, end))
        for index in range(begin, end):
            if index > begin and region[index] != region[index - 1]:
                waiting.clear()
            if self.is_load[index]:
                statement = self.source[index], self.form[index]
                first, count = waiting.get(statement, (index, 0))
                place[index - begin] = first
                waiting[statement] = first, count + 1
                if count + 1 == self.most[self.form[index]]:
                    del waiting[statement]
        return sorted(range(begin, end), key=lambda index: (place[index - begin], index))

    def _stores_together(self, begin: int, end: int) -> list[int]:
        waiting: dict[tuple[int, int], list[int]] = defaultdict(list)
        last = list(range(begin, end))
        for index in range(begin, end):
            if self.is_store[index]:
                group = waiting[self.source[index], self.form[index]]
                group.append(index)
                for member in group:
                    last[member - begin] = index
                if len(group) == self.most[self.form[index]]:
                    group.clear()
        others = [index for index in range(begin, end) if not self.is_load[index]]
        return sorted(others, key=lambda index: (last[index - begin], index))

    def address(self, index: int) -> int:
        """Where a load begins in its tensor; 0 for any other instruction."""
        return self.operands[self.bounds[index] + 1][1] if self.is_load[index] else 0

    def loaded(self, begin: int, end: int) -> int:
        """Bytes a partition of the inputs that the loop loads."""
        found = {}
        for index in range(begin, end):
            if self.is_load[index]:
                tile, source = self.operands[self.bounds[index]], self.operands[self.bounds[index] + 1]
                found[self.form[index], *source] = self.program.storages[tile[0]].pitch
        return sum(found.values())

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
        return sorted(
            range(begin, end), key=lambda index: (first[leader[self.source[index]]], self.address(index), index)
        )

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
