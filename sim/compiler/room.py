"""The SBUF of one core while a program is walked: what is in it, and where.

Memory is cut into grains, and these into blocks; the tiles of a block have one size until it is empty, so that the room
of small tiles does not break up that of large ones. Of the places that are free, a tile takes the one that has been
free for longest, so that it waits for nothing that is still at work.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

GRAIN = 16
"""Bytes: the grid on which tiles lie."""

BLOCK_BYTES = 4096
"""Bytes a partition of a block."""

IN_USE = np.int64(1) << np.int64(62)
"""Last use of what is in use."""

UNPLACED = -1


@dataclass(slots=True)
class Tile:
    """One value, which several storages of the program may hold in turn; what is known of it while walking."""

    key: int
    size: int
    uses: list[int]
    """Instructions that access it, ascending."""
    number: int
    """Storage that holds it now."""
    used: int = 0
    """How many uses are past."""
    made: bool = False
    """Some storage has begun to hold it, and it has not been given up since."""
    complete: int = -1
    """Instruction that wrote its last part."""
    needed: int = -1
    """Last instruction that accesses a storage that holds it by now."""
    resident: bool = False
    loads: list[tuple[int, list[int]]] | None = field(default_factory=list)
    """(form, operands) of the loads that made it, None once it holds a computed value."""
    home: int = -1
    """HBM storage of its saved copy, -1 for none."""
    saved: bool = False
    """The saved copy holds what the tile holds."""
    place: int = UNPLACED
    """First grain, while it is resident."""
    touched: int = -1
    """Last instruction of the new program that accesses it."""


def grains(tile: Tile) -> int:
    """How many grains a tile takes."""
    return -(-tile.size // GRAIN)


class Room:
    """What is resident, what leaves next, and which grains are free since when."""

    def __init__(self, limit: int, placing: bool):
        self.limit = limit
        self.taken = 0
        self.furthest: list[tuple[int, int]] = []
        """Heap of (-next use, tile); entries of the past are skipped."""
        self.swept: dict[int, Tile] = {}
        """Resident tiles that can be loaded again, or come around in a long loop, least recently used first."""
        self.until = np.full(limit // GRAIN if placing else 0, -1, np.int64)
        """Last instruction of the new program that uses each grain."""
        self.kind = np.zeros(-(-self.until.size // (BLOCK_BYTES // GRAIN)), np.int64)
        """Grains of the tiles of each block."""

    def place(self, tile: Tile, now: int) -> bool:
        """Find room for a tile before instruction `now` of the new program; whether there is any."""
        from sim.jit import aging

        count = grains(tile)
        found = int(aging.oldest(self.until, self.kind, count, BLOCK_BYTES // GRAIN, now)) if self.until.size else 0
        if found < 0:
            return False
        tile.place = found
        self.until[found : found + count] = IN_USE
        return True

    def admit(self, tile: Tile) -> None:
        """Count a tile as resident."""
        tile.resident = True
        self.taken += grains(tile) * GRAIN

    def release(self, tile: Tile) -> None:
        """Let others have the place of a tile."""
        tile.resident = False
        self.taken -= grains(tile) * GRAIN
        self.swept.pop(tile.key, None)
        if tile.place != UNPLACED:
            self.until[tile.place : tile.place + grains(tile)] = tile.touched
            tile.place = UNPLACED
