"""Buffers that take turns: the places of tiles when each allocation site has a few of its own.

Optimising compilers give a tile that a loop allocates two buffers, so that one is filled while the other is used. A
site needs as many slots as tiles of it are alive at once, and gets a multiple of that as far as memory allows.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

ALIGNMENT = 16
"""Bytes: the grid on which small tiles lie."""

SMALL, ZONE = 256, 8
"""Tiles of up to 1/256 of a partition are small, and take up to 1/8 of it."""


def place(
    site: np.ndarray,
    size: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    copies: int,
    limit: int,
    align: int,
    shrink: bool,
) -> np.ndarray | None:
    """Byte offset of each tile, None when the slots do not fit.

    site, size, first, last : int64[n], sorted by `first`: allocation site, bytes, first and last instruction
    copies                  : slots for each tile of a site that is alive at the same time
    shrink                  : give sites fewer of them if need be, but one
    """
    if not site.size:
        return np.zeros(0, np.int64)
    kinds, group = np.unique(site, return_inverse=True)
    width = np.zeros(kinds.size, np.int64)
    np.maximum.at(width, group, -(-size // align) * align)
    alive = _most_alive(group, first, last, kinds.size)
    slots = np.minimum(np.bincount(group), copies * alive)
    if shrink:
        _shrink(slots, alive, width, limit)
    if (slots * width).sum() > limit:
        return None
    base = np.cumsum(slots * width) - slots * width
    return base[group] + _turns(group, first, last, slots) * width[group]


def _most_alive(group: np.ndarray, first: np.ndarray, last: np.ndarray, count: int) -> np.ndarray:
    """Per group: the most tiles alive at once, int64[count]."""
    ends: list[list[int]] = [[] for _ in range(count)]
    most = [0] * count
    for kind, begin, end in zip(group.tolist(), first.tolist(), last.tolist()):
        heap = ends[kind]
        while heap and heap[0] < begin:
            heappop(heap)
        heappush(heap, end)
        most[kind] = max(most[kind], len(heap))
    return np.array(most, np.int64)


def _shrink(slots: np.ndarray, alive: np.ndarray, width: np.ndarray, limit: int) -> None:
    """Take slots beyond those that are needed away until all fit, where they free the most bytes first."""
    for kind in np.argsort(-(slots - alive) * width, kind="stable").tolist():
        over = int((slots * width).sum()) - limit
        if over <= 0:
            return
        slots[kind] -= min(int(slots[kind] - alive[kind]), -(-over // int(width[kind])))


def _turns(group: np.ndarray, first: np.ndarray, last: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """The slot of each tile: one that was never used, else the one that has been free for longest."""
    free: list[list[tuple[int, int]]] = [[] for _ in slots]
    taken = [0] * slots.size
    turn = np.zeros(group.size, np.int64)
    room = slots.tolist()
    for tile, (kind, end) in enumerate(zip(group.tolist(), last.tolist())):
        if taken[kind] < room[kind]:
            slot = taken[kind]
            taken[kind] += 1
        else:
            slot = heappop(free[kind])[1]
        heappush(free[kind], (end, slot))
        turn[tile] = slot
    return turn


def place_oldest(
    size: np.ndarray, first: np.ndarray, last: np.ndarray, copies: int, limit: int, grain: int, crowded: bool
) -> np.ndarray | None:
    """Byte offset of each tile where memory has been free for longest, None when the tiles do not fit.

    Small tiles take turns in a part of their own, so that they do not break up the room of the large ones.
    crowded : only the smallest do, and others fill blocks that are in use in part
    """
    if not crowded:
        return _place_oldest(size <= limit // SMALL, (size, first, last), (copies, limit, grain), 0)
    largest = -(-int(size.max(initial=0)) // grain)
    return _place_oldest(size <= grain, (size, first, last), (1, limit, grain), largest)


def _place_oldest(small: np.ndarray, tiles: tuple, rules: tuple[int, int, int], block: int) -> np.ndarray | None:
    """`place_oldest` for one choice of small tiles."""
    from sim.jit import aging

    size, first, last = tiles
    copies, limit, grain = rules
    offset, zone = np.zeros(size.size, np.int64), 0
    if small.any():
        turns = place(size[small], size[small], first[small], last[small], copies, limit // ZONE, ALIGNMENT, True)
        if turns is None:
            return None
        offset[small] = turns
        zone = int(-(-(turns + size[small]).max() // grain) * grain)
    large = np.flatnonzero(~small)
    found = np.zeros(large.size, np.int64)
    until = np.full((limit - zone) // grain, -1, np.int64)
    if aging.place(-(-size[large] // grain), first[large], last[large], until, block, found) < large.size:
        return None
    offset[large] = zone + found * grain
    return offset
