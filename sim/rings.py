"""Buffers that take turns: the places of tiles when each allocation site has a few of its own.

Optimising compilers give a tile that a loop allocates two buffers, so that one is filled while the other is used. A site
needs as many slots as tiles of it are alive at once, and gets a multiple of that as far as memory allows.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np


def place(
    site: np.ndarray, size: np.ndarray, first: np.ndarray, last: np.ndarray, copies: int, limit: int, align: int
) -> np.ndarray | None:
    """Byte offset of each tile, None when even single slots do not fit.

    site, size, first, last : int64[n], sorted by `first`: allocation site, bytes, first and last instruction
    copies                  : slots for each tile of a site that is alive at the same time
    """
    if not site.size:
        return np.zeros(0, np.int64)
    kinds, group = np.unique(site, return_inverse=True)
    width = np.zeros(kinds.size, np.int64)
    np.maximum.at(width, group, -(-size // align) * align)
    alive = _most_alive(group, first, last, kinds.size)
    slots = np.minimum(np.bincount(group), copies * alive)
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
