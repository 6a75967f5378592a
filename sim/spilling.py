"""Spilling: what a compiler does when more tiles are alive than SBUF holds.

The pass walks the program in order and keeps a set of resident tiles. A tile that must make room is dropped when it can
be loaded again from an input (rematerialisation), else saved to HBM once and reloaded before its next use. Loads leave
least recently used first, as repeated sweeps over a matrix do on measured kernels; computed values leave furthest next
use first. Both rules and the room kept free come from the timing prototype (facts, section 8.2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from sim.compiler import Options, operand_roles
from sim.memory import Layout, Storage
from sim.program import Form, Program, Role
from sim.trace import Memory

AHEAD_BYTES = 8192
"""Room that is kept free, bytes a partition: compilers spill ahead of need."""

FILL = (1.0, 0.95, 0.9, 0.8, 0.7)
"""Shares of SBUF that are tried as the limit until every tile finds a contiguous place."""


@dataclass(slots=True)
class Tile:
    """What is known of one storage while the program is walked."""

    size: int
    uses: list[int]
    """Instructions that access it, ascending."""
    used: int = 0
    """How many of them are past."""
    number: int = -1
    """Storage that holds it now."""
    loads: list[tuple[int, list[int]]] | None = field(default_factory=list)
    """(form, operands) of the loads that made it, None once it holds a computed value."""
    home: int = -1
    """HBM storage of its saved copy, -1 for none."""
    saved: bool = False
    """The saved copy holds what the tile holds."""

    @property
    def next_use(self) -> int:
        return self.uses[self.used]


def needs_spilling(program: Program, limit: int) -> bool:
    """Whether more bytes a partition are alive at once than the limit, on any core."""
    sizes, first, last = _lives(program)
    change = np.zeros((int(program.core.max(initial=0)) + 1, len(program) + 1), np.int64)
    used = np.flatnonzero(first >= 0)
    cores = program.core[first[used]]
    np.add.at(change, (cores, first[used]), sizes[used])
    np.add.at(change, (cores, last[used] + 1), -sizes[used])
    return bool((np.cumsum(change, axis=1) > limit).any())


def _lives(program: Program) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per storage: bytes a partition in SBUF (0 elsewhere), first and last accessing instruction."""
    sizes = np.array([s.pitch if s.memory is Memory.SBUF else 0 for s in program.storages], np.int64)
    instruction = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
    first, last = np.full(sizes.size, -1, np.int64), np.full(sizes.size, -1, np.int64)
    last[program.operands[:, 0]] = instruction
    first[program.operands[::-1, 0]] = instruction[::-1]
    first[sizes == 0] = -1
    return sizes, first, last


def spill(program: Program, limit: int) -> Program:
    """The program with saves, reloads and repeated loads, so that at most `limit` bytes a partition are resident."""
    return _Walk(program, limit).run()


class _Walk:
    """One pass over the program."""

    def __init__(self, program: Program, limit: int):
        self.program = program
        self.limit = limit
        self.storages = list(program.storages)
        self.forms = list(program.forms)
        self.made: dict[tuple, int] = {}
        self.rows: list[tuple[int, int]] = []
        """(form, instruction of the old program whose source, region and core it has)."""
        self.operands: list[list[int]] = []
        self.place = np.zeros(len(program), np.int64)
        """New number of each old instruction."""
        self.tiles = self._tiles()
        self.resident: dict[int, None] = {}
        """Tiles in SBUF, least recently used first."""
        self.taken = 0

    def _tiles(self) -> dict[int, Tile]:
        program = self.program
        instruction = np.repeat(np.arange(len(program)), np.diff(program.operand_start))
        uses: dict[int, list[int]] = defaultdict(list)
        for storage, index in zip(program.operands[:, 0].tolist(), instruction.tolist(), strict=True):
            seen = uses[storage]
            if not seen or seen[-1] != index:
                seen.append(index)
        return {
            storage: Tile(self.storages[storage].pitch, seen, number=storage)
            for storage, seen in uses.items()
            if self.storages[storage].memory is Memory.SBUF
        }

    def run(self) -> Program:
        program, roles = self.program, operand_roles(self.program).tolist()
        bounds, flat = program.operand_start.tolist(), program.operands.tolist()
        for index, number in enumerate(program.form.tolist()):
            span = range(bounds[index], bounds[index + 1])
            needed = {flat[k][0] for k in span if flat[k][0] in self.tiles}
            for storage in needed:
                self._enter(storage, index, needed)
            self.place[index] = len(self.rows)
            row = [self._mapped(flat[k]) for k in span]
            self._emit(number, index, row)
            self._note_writes(number, [(flat[k], roles[k]) for k in span], row)
            self._leave(needed)
        return self._finished()

    def _mapped(self, operand: list[int]) -> list[int]:
        tile = self.tiles.get(operand[0])
        return operand if tile is None else [tile.number, operand[1], operand[2]]

    def _emit(self, form: int, index: int, operands: list[list[int]]) -> None:
        self.rows.append((form, index))
        self.operands.append([value for operand in operands for value in operand])

    def _enter(self, storage: int, index: int, pinned: set[int]) -> None:
        """Make a tile resident before an instruction."""
        tile = self.tiles[storage]
        if storage in self.resident:
            del self.resident[storage]
            self.resident[storage] = None
            return
        self._make_room(tile.size, index, pinned)
        self.resident[storage] = None
        self.taken += tile.size
        if tile.used == 0:
            return
        tile.number = self._new_storage(self.storages[storage], storage)
        if tile.loads is not None:
            for form, operands in tile.loads:
                again = [[tile.number, *operands[1:3]], *(operands[k : k + 3] for k in range(3, len(operands), 3))]
                self._emit(self._variant(form, "reload"), index, again)
        else:
            self._move(tile.number, tile.home, "reload", index)

    def _make_room(self, size: int, index: int, pinned: set[int]) -> None:
        while self.taken + size + AHEAD_BYTES > self.limit:
            victim = self._victim(pinned)
            if victim is None:
                return
            tile = self.tiles[victim]
            if tile.loads is None and not tile.saved:
                self._save(victim, tile, index)
            del self.resident[victim]
            self.taken -= tile.size

    def _victim(self, pinned: set[int]) -> int | None:
        """Furthest next use; where that is a plain load, the load that was used longest ago."""
        free = [storage for storage in self.resident if storage not in pinned]
        if not free:
            return None
        furthest = max(free, key=lambda storage: self.tiles[storage].next_use)
        if self.tiles[furthest].loads is None:
            return furthest
        return next(storage for storage in free if self.tiles[storage].loads is not None)

    def _save(self, storage: int, tile: Tile, index: int) -> None:
        if tile.home < 0:
            original = self.storages[storage]
            layout = Layout.dense(original.layout.shape, original.layout.dtype, Memory.HBM)
            tile.home = self._new_storage(original, storage, layout)
        self._move(tile.home, tile.number, "save", index)
        tile.saved = True

    def _new_storage(self, like: Storage, number: int, layout: Layout | None = None) -> int:
        fresh = Storage(
            len(self.storages), like.name, layout or like.layout, like.role, like.source, like.region, values=False
        )
        self.storages.append(fresh)
        return fresh.index

    def _move(self, target: int, source: int, spilled: str, index: int) -> None:
        dst, src = self.storages[target], self.storages[source]
        self._emit(
            self._transfer(dst.layout, src.layout, spilled),
            index,
            [[target, 0, dst.layout.index], [source, 0, src.layout.index]],
        )

    def _transfer(self, dst: Layout, src: Layout, spilled: str) -> int:
        from sim.engines import dma

        key = (dst, src, spilled)
        if key not in self.made:
            form = dma.describe_copy(self.program.device, (dst, src), "unknown", "unknown", None)
            self.made[key] = self._add(replace(form, spill=spilled, useful=False))
        return self.made[key]

    def _variant(self, form: int, spilled: str) -> int:
        """The same load, marked as one that the kernel did not ask for."""
        if (form, spilled) not in self.made:
            self.made[form, spilled] = self._add(replace(self.forms[form], spill=spilled, useful=False))
        return self.made[form, spilled]

    def _add(self, form: Form) -> int:
        self.forms.append(form)
        return len(self.forms) - 1

    def _note_writes(self, number: int, operands: list[tuple[list[int], int]], row: list[list[int]]) -> None:
        """Remember whether a tile is still what loads of an input made it."""
        repeatable = self._is_plain_load(number, operands)
        for (storage, _, _), role in operands:
            tile = self.tiles.get(storage)
            if tile is None or role == Role.READ:
                continue
            tile.saved = False
            if repeatable and tile.loads is not None:
                tile.loads.append((number, [value for operand in row for value in operand]))
            else:
                tile.loads = None

    def _is_plain_load(self, number: int, operands: list[tuple[list[int], int]]) -> bool:
        sources = [operand[0] for operand, role in operands if role == Role.READ]
        return (
            self.forms[number].dma is not None
            and len(operands) == 2
            and all(self.storages[storage].role in ("IN", "WEIGHT") for storage in sources)
        )

    def _leave(self, needed: set[int]) -> None:
        for storage in needed:
            tile = self.tiles[storage]
            tile.used += 1
            if tile.used == len(tile.uses):
                del self.resident[storage]
                self.taken -= tile.size

    def _finished(self) -> Program:
        program = self.program
        form, old = (np.array(column, np.int64) for column in zip(*self.rows, strict=True))
        counts = np.array([len(row) // 3 for row in self.operands], np.int64)
        order = program.order.copy()
        order[:, :2] = self.place[order[:, :2]]
        return replace(
            program,
            forms=tuple(self.forms),
            storages=tuple(self.storages),
            form=form.astype(np.int32),
            source=program.source[old],
            region=program.region[old],
            core=program.core[old],
            immediate=program.immediate[old] if program.immediate.size else program.immediate,
            operand_start=np.concatenate(([0], np.cumsum(counts))),
            operands=np.array([value for row in self.operands for value in row], np.int64).reshape(-1, 3),
            names={int(self.place[index]): name for index, name in program.names.items()},
            order=order,
            born=np.zeros(len(self.storages), np.int64),
            findings=tuple(
                replace(found, instruction=int(self.place[found.instruction])) if found.instruction >= 0 else found
                for found in program.findings
            ),
        )


def candidates(program: Program, options: Options) -> Iterator[Program]:
    """From the least to the most spilled; the first that finds a place for every tile is the one to run."""
    limit = int(program.device[options.sbuf_figure])
    if not options.spill or not needs_spilling(program, limit):
        yield program
        return
    for share in FILL:
        yield spill(program, int(limit * share))
