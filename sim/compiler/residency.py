"""Residency: which tiles are in SBUF when, as an optimising compiler decides it.

The pass walks the program in order and keeps a set of resident tiles. An input that is loaded, cast, transposed or
broadcast again while its tile is still resident is not made again. A tile that must make room is dropped when it can be
loaded again from an input (rematerialisation), else saved to HBM once and reloaded before its next use. Computed values
leave furthest next use first. Loads, and values that come again only in another iteration of a long loop, leave least
recently used first, as repeated sweeps over a matrix do on measured kernels: NKIBench's lora saves and reloads all its
partial sums in each quarter of the sum, its swiglu all of the transposed input in each third of the output, although
most would fit. The rules and the room kept free come from the timing prototype (facts, section 8.2).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from sim.compiler.columns import dead, instructions_of_operands, keep, operand_roles
from sim.compiler.emission import Emission
from sim.compiler.numbering import UNKNOWN, broadcast, constant_storages, loads_of, number_values, of_one_input
from sim.compiler.options import Options
from sim.compiler.room import GRAIN, Room, Tile
from sim.iterations import Nests
from sim.program import Program, Role
from sim.trace import Memory

NO_LIMIT = 1 << 60

AHEAD = 400
"""Instructions within which a compiler is taken to tell which of two uses of values comes first, across the iterations
of a loop too: NKIBench's mamba, whose loop has 130, spills one tile of its four, its lora (714) all; 256 to 640 do."""

SMALLEST = 256
"""Bytes a partition of a tile that is worth its transfer; shorter rows reach a small fraction of the DMA engines' rate
(guide to DMA bandwidth)."""


@dataclass(frozen=True, slots=True)
class Resident:
    """A program whose tiles come and go."""

    program: Program
    offset: dict[int, int] | None
    """Byte in each partition of every storage in SBUF; None when the walk has found no place for all."""


def needs_spilling(program: Program, limit: int) -> bool:
    """Whether more bytes a partition are alive at once than the limit, on any core."""
    sizes = _sizes(program)
    first, last = _lives(program)
    used = np.flatnonzero((first >= 0) & (sizes > 0))
    change = np.zeros((int(program.core.max(initial=0)) + 1, len(program) + 1), np.int64)
    cores = program.core[first[used]]
    np.add.at(change, (cores, first[used]), sizes[used])
    np.add.at(change, (cores, last[used] + 1), -sizes[used])
    return bool((np.cumsum(change, axis=1) > limit).any())


def _sizes(program: Program) -> np.ndarray:
    """Bytes a partition of each storage in SBUF, 0 elsewhere."""
    return np.array([s.pitch if s.memory is Memory.SBUF else 0 for s in program.storages], np.int64)


def _lives(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """First and last instruction that accesses each storage, -1 for none."""
    instruction = instructions_of_operands(program)
    first = np.full(len(program.storages), -1, np.int64)
    last = first.copy()
    last[program.operands[:, 0]] = instruction
    first[program.operands[::-1, 0]] = instruction[::-1]
    return first, last


def spill(program: Program, limit: int, share: bool = False, room: int = 0) -> Program:
    """The program with saves, reloads and repeated loads, so that at most `limit` bytes a partition are resident.

    share : values that are still resident are not made again
    room  : bytes a partition that are kept free where something can leave
    """
    return Contents(program, share, needs_spilling(program, limit)).spilled(limit, room).program


class Contents:
    """What the tiles of a program hold and when they are used."""

    def __init__(self, program: Program, share: bool, crowded: bool):
        """crowded : the program must spill; it has no room for rows, which fill one partition and bar the others"""
        roles = operand_roles(program)
        self.program = program
        self.share = share
        self.crowded = crowded
        self.roles = roles.tolist()
        self.bounds = program.operand_start.tolist()
        self.operands = program.operands.tolist()
        self.constant = constant_storages(program, roles)
        self.load = loads_of(program)
        self.last = _lives(program)[1].tolist()
        self.last_write = _last_writes(program, roles)
        self.size = _sizes(program).tolist()
        self.uses = self._uses()
        self.value = self._values()
        """Key of the value that each storage in SBUF holds."""
        self.value_uses: dict[tuple[int, int], list[int]] = {}
        for storage, seen in self.uses.items():
            known = self.value_uses.get(self.value[storage])
            self.value_uses[self.value[storage]] = seen if known is None else sorted({*known, *seen})

    def _uses(self) -> dict[int, list[int]]:
        """Instructions that access each storage in SBUF, ascending."""
        uses: dict[int, list[int]] = defaultdict(list)
        instruction = instructions_of_operands(self.program).tolist()
        for (storage, _, _), index in zip(self.operands, instruction):
            if self.size[storage]:
                seen = uses[storage]
                if not seen or seen[-1] != index:
                    seen.append(index)
        return uses

    def _values(self) -> dict[int, tuple[int, int]]:
        number = [UNKNOWN] * len(self.size)
        if self.share:
            found, shared = number_values(self.program).number, self._shared()
            number = [value if shared[storage] else UNKNOWN for storage, value in enumerate(found)]
        core = self.program.core.tolist()
        return {
            storage: (-1, storage) if number[storage] == UNKNOWN else (core[seen[0]], number[storage])
            for storage, seen in self.uses.items()
        }

    def _shared(self) -> list[bool]:
        """Per storage: its value is not made again while it is resident."""
        shared = of_one_input(self.program)
        if self.crowded:
            wide = broadcast(self.program)
            held = self.program.storages
            shared = [one and held[k].partitions > 1 and k not in wide for k, one in enumerate(shared)]
        return shared

    def spilled(self, limit: int, room: int = 0) -> Resident:
        """The program with at most `limit` bytes a partition resident, `room` of them kept free if it can be."""
        walk = _Walk(self, limit, room)
        made = walk.run()
        return Resident(keep(made, ~dead(made, np.zeros(len(made), bool))) if self.share else made, walk.offset)


class _Walk:
    """One pass over the program."""

    def __init__(self, contents: Contents, limit: int, free: int):
        self.contents = contents
        self.free = free
        self.out = Emission(contents.program)
        self.begun: set[int] = set()
        self.dropped: set[int] = set()
        """Storages whose value was resident already: what makes them goes."""
        self.by_key: list[Tile] = []
        self.tiles = self._tiles()
        self.nests = Nests(contents.program.iterations)
        self.iteration = contents.program.iteration.tolist()
        cores = int(contents.program.core.max(initial=0)) + 1
        self.rooms = [Room(limit, limit < NO_LIMIT) for _ in range(cores)]
        self.offset: dict[int, int] | None = {} if limit < NO_LIMIT else None
        """Byte of each storage in SBUF; None once a tile has found no place."""

    def _tiles(self) -> dict[int, Tile]:
        """The tile of each storage in SBUF; storages with equal values share it."""
        contents = self.contents
        made: dict[tuple[int, int], Tile] = {}
        for storage, value in contents.value.items():
            if value not in made:
                made[value] = self._new_tile(storage, contents.value_uses[value])
        return {storage: made[value] for storage, value in contents.value.items()}

    def _new_tile(self, storage: int, uses: list[int]) -> Tile:
        tile = Tile(len(self.by_key), self.contents.size[storage], uses, storage)
        self.by_key.append(tile)
        return tile

    def run(self) -> Program:
        contents, tiles, out = self.contents, self.tiles, self.out
        program, bounds, flat, roles = contents.program, contents.bounds, contents.operands, contents.roles
        for index, (number, core) in enumerate(zip(program.form.tolist(), program.core.tolist())):
            span = range(bounds[index], bounds[index + 1])
            room = self.rooms[core]
            needed = {}
            for k in span:
                if flat[k][0] in tiles:
                    self._begin(flat[k][0], index)
                    tile = tiles[flat[k][0]]
                    needed[tile.key] = tile
            if self._is_dropped([flat[k][0] for k in span if roles[k]]):
                out.skip(index)
            else:
                for tile in needed.values():
                    self._enter(room, tile, index, needed)
                row = [self._mapped(flat[k]) for k in span]
                out.emit(number, index, row, old=True)
                for tile in needed.values():
                    tile.touched = out.last
                self._note_writes(number, [(flat[k], roles[k]) for k in span], row)
            for tile in needed.values():
                self._leave(room, tile, index)
        return out.finished()

    def _mapped(self, operand: list[int]) -> list[int]:
        tile = self.tiles.get(operand[0])
        return operand if tile is None else [tile.number, operand[1], operand[2]]

    def _begin(self, storage: int, index: int) -> None:
        """The first access to a storage: it takes over a tile that holds its value already, or makes it."""
        if storage in self.begun:
            return
        self.begun.add(storage)
        tile = self.tiles[storage]
        if tile.made:
            if tile.resident and index > tile.complete:
                self.dropped.add(storage)
                tile.needed = max(tile.needed, self.contents.last[storage])
                return
            if tile.resident or tile.needed > index:
                tile = self.tiles[storage] = self._new_tile(storage, self.contents.uses[storage])
        tile.made, tile.complete, tile.number, tile.loads, tile.saved = (
            True,
            self.contents.last_write[storage],
            storage,
            [],
            False,
        )
        tile.needed = max(tile.needed, self.contents.last[storage])

    def _is_dropped(self, writes: list[int]) -> bool:
        return bool(writes) and all(storage in self.dropped for storage in writes)

    def _enter(self, room: Room, tile: Tile, index: int, pinned: dict[int, Tile]) -> None:
        """Make a tile resident before an instruction."""
        if tile.resident:
            return
        while room.taken + 2 * tile.size > room.limit and self._evict(room, index, pinned, spilling=False):
            pass
        while room.taken + tile.size + self.free > room.limit and self._evict(room, index, pinned):
            pass
        room.admit(tile)
        while not (placed := room.place(tile, self.out.last + 1)) and self._evict(room, index, pinned):
            pass
        storage = tile.number
        remade = tile.complete < 0 or self._has_content(tile)
        if remade:
            tile.number = self.out.new_storage(storage)
        if not placed:
            self.offset = None
        if self.offset is not None:
            self.offset[tile.number] = tile.place * GRAIN
        if not remade:
            return
        if tile.loads is not None:
            for form, operands in tile.loads:
                again = [[tile.number, *operands[1:3]], *(operands[k : k + 3] for k in range(3, len(operands), 3))]
                name = f"repeat of load {self.out.storages[storage].name}"
                self.out.emit(self.out.variant(form, "repeat"), index, again, name=name)
        else:
            self.out.move(tile.number, tile.home, "reload", index)

    @staticmethod
    def _has_content(tile: Tile) -> bool:
        return tile.saved or bool(tile.loads)

    def _evict(self, room: Room, index: int, pinned: dict[int, Tile], spilling: bool = True) -> bool:
        """Let one tile go before an instruction; whether there was one to let go.

        spilling : also one that must be saved and reloaded
        """
        tile = self._victim(room, pinned, SMALLEST) or self._victim(room, pinned, 0)
        if tile is None:
            return False
        kept = tile.needed >= index and tile.loads is None
        if kept and not spilling:
            heappush(room.furthest, (-tile.uses[tile.used], tile.key))
            return False
        if tile.needed < index:
            tile.made = False
        if kept and not tile.saved:
            self._save(tile, index)
        room.release(tile)
        return True

    def _victim(self, room: Room, pinned: dict[int, Tile], smallest: int) -> Tile | None:
        """Furthest next use; where that is swept over, the one of these that was used longest ago.

        smallest : bytes a partition
        """
        aside, found = [], None
        while room.furthest and found is None:
            entry = heappop(room.furthest)
            tile = self.by_key[entry[1]]
            if not tile.resident or tile.uses[tile.used] != -entry[0]:
                continue
            if tile.key in pinned or tile.size < smallest:
                aside.append(entry)
                continue
            found = tile
            if tile.key in room.swept:
                others = (other for other in room.swept.values() if other.key not in pinned and other.size >= smallest)
                oldest = next(others, tile)
                if oldest is not tile:
                    aside.append(entry)
                    found = oldest
        for entry in aside:
            heappush(room.furthest, entry)
        return found

    def _save(self, tile: Tile, index: int) -> None:
        if tile.home < 0:
            tile.home = self.out.new_home(tile.number)
        self.out.move(tile.home, tile.number, "save", index)
        tile.saved = True
        tile.touched = self.out.last

    def _note_writes(self, number: int, operands: list[tuple[list[int], int]], row: list[list[int]]) -> None:
        """Remember whether a tile is still what loads of an input made it."""
        load, constant = self.contents.load[number], self.contents.constant
        for place, ((storage, _, _), role) in enumerate(operands):
            tile = self.tiles.get(storage)
            if tile is None or role == Role.READ:
                continue
            tile.saved = False
            if load != UNKNOWN and constant[operands[place + 1][0][0]] and tile.loads is not None:
                tile.loads.append((load, [*row[place], *row[place + 1]]))
            else:
                tile.loads = None

    def _leave(self, room: Room, tile: Tile, index: int) -> None:
        """An instruction is past: the tile is used later, or gives up its place."""
        uses, used = tile.uses, tile.used
        while used < len(uses) and uses[used] <= index:
            used += 1
        tile.used = used
        if not tile.resident:
            return
        if used == len(uses):
            room.release(tile)
            return
        room.swept.pop(tile.key, None)
        if tile.loads is not None or self._comes_around(tile, index, uses[used]):
            room.swept[tile.key] = tile
        heappush(room.furthest, (-uses[used], tile.key))
        if len(room.furthest) > 4 * len(self.by_key) + 64:
            self._tidy(room)

    def _comes_around(self, tile: Tile, index: int, then: int) -> bool:
        """Whether what a tile holds is used next in another iteration, which is too far away to tell when."""
        far = tile.needed > index and then - index > AHEAD
        return far and self.nests.carried(self.iteration[index], self.iteration[then])

    def _tidy(self, room: Room) -> None:
        """Drop the entries of the past."""
        valid = {
            (-tile.uses[tile.used], tile.key) for tile in self.by_key if tile.resident and tile.used < len(tile.uses)
        }
        room.furthest = [entry for entry in set(room.furthest) if entry in valid]
        heapify(room.furthest)


def _last_writes(program: Program, roles: np.ndarray) -> list[int]:
    last = np.full(len(program.storages), -1, np.int64)
    writes = roles != Role.READ
    last[program.operands[writes, 0]] = instructions_of_operands(program)[writes]
    return last.tolist()


def reside(program: Program, options: Options) -> Resident:
    """The program with what must leave SBUF saved and brought back, as far as the options allow."""
    limit = int(program.device[options.sbuf_figure])
    crowded = options.spill and needs_spilling(program, limit)
    if not crowded and not options.share:
        return Resident(program, None)
    contents = Contents(program, options.share, crowded)
    return contents.spilled(limit if options.spill else NO_LIMIT, 1024 * options.room)
