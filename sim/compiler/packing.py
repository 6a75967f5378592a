"""Packing: transposes that follow each other share a PSUM bank, and one copy takes all of them to SBUF.

Measured kernels spend the time of one copy of 512 columns on four transposes of 128 (facts of the timing prototype,
section 2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sim.compiler.columns import instructions_of_operands, operand_roles, repitched
from sim.compiler.emission import Emission
from sim.compiler.merging import merged
from sim.memory import Layout
from sim.program import Program, Role
from sim.trace import Memory

ALONE = (Role.WRITE, Role.READ)


@dataclass(frozen=True, slots=True)
class Pair:
    """A transpose and the copy that is all that reads its result."""

    transpose: int
    copy: int
    tile: int
    """The PSUM storage between them."""


@dataclass(slots=True)
class Group:
    """Pairs that share a bank, and where their copy can stand."""

    pairs: list[Pair]
    sinks: bool = True
    """At the last copy's place: nothing in between accesses what the others write."""
    rises: bool = True
    """At the first copy's place, all transposes before it: nothing in between writes what they read."""


def pack(program: Program) -> Program:
    """Let runs of transposes of one source line write one PSUM tile, which one copy reads."""
    if len(program.order):
        return program
    groups = [group for group in _groups(program) if len(group.pairs) > 1]
    return _packed(program, groups) if groups else program


def _pairs(program: Program) -> Iterator[Pair]:
    """In the order of the copies."""
    instruction, roles = instructions_of_operands(program), operand_roles(program)
    storage = program.operands[:, 0]
    count = np.bincount(storage, minlength=len(program.storages))
    rows = np.flatnonzero(count[storage] == 2)
    by_storage = rows[np.argsort(storage[rows], kind="stable")].reshape(-1, 2)
    made, read = by_storage[roles[by_storage[:, 0]] == Role.WRITE].T
    order = np.argsort(instruction[read], kind="stable")
    for write, use in zip(made[order].tolist(), read[order].tolist()):
        pair = Pair(int(instruction[write]), int(instruction[use]), int(storage[use]))
        if roles[use] == Role.READ and _fits(program, pair, use):
            yield pair


def _fits(program: Program, pair: Pair, read: int) -> bool:
    """Whether a copy moves all of a transposed tile from PSUM to SBUF."""
    tile = program.storages[pair.tile]
    if tile.memory is not Memory.PSUM or tile.address is not None:
        return False
    turned, copy = program.forms[program.form[pair.transpose]], program.forms[program.form[pair.copy]]
    return (
        turned.kind == "TRANSPOSE"
        and copy.call == "nki.isa.tensor_copy"
        and copy.roles == turned.roles[:2] == ALONE
        and copy.layouts[0].memory is Memory.SBUF
        and Layout.by_index[int(program.operands[read, 2])].nbytes == tile.nbytes
    )


def _groups(program: Program) -> list[Group]:
    """Pairs that can share a bank and a copy: same forms, line and loop, and nothing in between stands in the way."""
    bank = int(program.device["psum_bank_bytes"])
    history = _History(program)
    groups: list[Group] = []
    for pair in _pairs(program):
        history.advance(pair.copy)
        room = bank // program.storages[pair.tile].pitch
        if not groups or len(groups[-1].pairs) >= room or not _joins(program, history, groups[-1], pair):
            groups.append(Group([]))
            history.joined = set()
        groups[-1].pairs.append(pair)
        history.joined.add(pair.copy)
    return groups


def _joins(program: Program, history: _History, group: Group, pair: Pair) -> bool:
    """Whether a pair can join a group; notes where the copy can stand then."""
    first = group.pairs[0]
    if not _alike(program, first, pair):
        return False
    sinks = group.sinks and all(history.untouched(first.copy, member.copy) for member in (*group.pairs, pair))
    rises = group.rises and history.untouched(first.copy, pair.copy) and history.steady(first.copy, pair.transpose)
    if sinks or rises:
        group.sinks, group.rises = sinks, rises
    return sinks or rises


def _alike(program: Program, one: Pair, other: Pair) -> bool:
    columns = (program.form, program.source, program.region, program.core)
    return all(
        column[getattr(one, part)] == column[getattr(other, part)]
        for column in columns
        for part in ("transpose", "copy")
    )


class _History:
    """Who accessed each storage last, up to an instruction."""

    def __init__(self, program: Program):
        self.bounds = program.operand_start.tolist()
        self.storage = program.operands[:, 0].tolist()
        self.roles = operand_roles(program).tolist()
        self.at = 0
        self.written: dict[int, int] = {}
        self.accessed: dict[int, int] = {}
        self.joined: set[int] = set()
        """Copies of the group that is growing."""

    def advance(self, index: int) -> None:
        """Look at all instructions before one."""
        for number in range(self.at, index):
            for k in range(self.bounds[number], self.bounds[number + 1]):
                if self.roles[k]:
                    self.written[self.storage[k]] = number
                if number not in self.joined:
                    self.accessed[self.storage[k]] = number
        self.at = max(self.at, index)

    def untouched(self, since: int, copy: int) -> bool:
        """Whether only the group has accessed the target of a copy since an instruction."""
        return self.accessed.get(self.storage[self.bounds[copy]], -1) < since

    def steady(self, since: int, transpose: int) -> bool:
        """Whether what a transpose reads was written before an instruction."""
        inputs = self.storage[self.bounds[transpose] + 1 : self.bounds[transpose + 1]]
        return all(self.written.get(storage, -1) < since for storage in inputs)


def _packed(program: Program, groups: list[Group]) -> Program:
    packing = _Packing(program)
    own = {pair.transpose: (group, place) for group in groups for place, pair in enumerate(group.pairs)}
    ends = {group.pairs[-1 if group.sinks else 0].copy: group for group in groups}
    copies = {pair.copy for group in groups for pair in group.pairs}
    for index, number in enumerate(program.form.tolist()):
        if index in own:
            group, place = own[index]
            if group.sinks or not place:
                packing.turn(group.pairs, place)
        elif index in ends:
            group = ends[index]
            for place in range(1, 0 if group.sinks else len(group.pairs)):
                packing.turn(group.pairs, place)
            packing.copy(group.pairs, index)
        elif index in copies:
            packing.out.skip(index)
        else:
            packing.out.emit(number, index, packing.rows(index), old=True)
    return packing.out.finished()


class _Packing:
    """The program while it is written anew."""

    def __init__(self, program: Program):
        self.program = program
        self.out = Emission(program)
        self.bounds = program.operand_start.tolist()
        self.operands = program.operands.tolist()
        self.bank: dict[int, int] = {}
        """Of each group, by its first copy: the storage that all its results share."""

    def rows(self, index: int) -> list[list[int]]:
        return self.operands[self.bounds[index] : self.bounds[index + 1]]

    def turn(self, group: list[Pair], place: int) -> None:
        """The transpose of one of a group, into its part of the bank."""
        pair, first = group[place], group[0]
        tile = self.program.storages[first.tile]
        if place == 0:
            shape = (tile.partitions, len(group) * tile.layout.elements)
            layout = Layout.dense(shape, tile.layout.dtype, tile.memory)
            self.bank[first.copy] = self.out.new_storage(first.tile, layout)
        dst, *rest = self.rows(pair.transpose)
        bank = self.bank[first.copy]
        layout = repitched(Layout.by_index[dst[2]], self.out.storages[bank].pitch)
        form = self.out.derived(
            int(self.program.form[pair.transpose]),
            layout,
            lambda old: replace(old, layouts=(layout, *old.layouts[1:])),
        )
        self.out.emit(form, pair.transpose, [[bank, place * tile.pitch, layout.index], *rest], old=True)

    def copy(self, group: list[Pair], index: int) -> None:
        """The one copy of a group, in the place of one of them."""
        bank, pitch, count = self.bank[group[0].copy], self.program.storages[group[0].tile].pitch, len(group)
        source = repitched(Layout.by_index[self.rows(group[0].copy)[1][2]], self.out.storages[bank].pitch)
        operands = []
        for place, pair in enumerate(group):
            operands += [self.rows(pair.copy)[0], [bank, place * pitch, source.index]]
        form = self.out.derived(
            int(self.program.form[group[0].copy]),
            (count, source),
            lambda old: replace(merged(self.program.device, old, count), layouts=(old.layouts[0], source) * count),
        )
        self.out.emit(form, index, operands, old=True, name=f"{count} copies packed")
