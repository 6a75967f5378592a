"""Slow twin of `sim/jit/lineup.py`."""

from __future__ import annotations


def line_up(queue: list[int], queues: int) -> list[list[int]]:
    """The instructions of each queue, in program order."""
    return [[i for i, own in enumerate(queue) if own == q] for q in range(queues)]


def turn(
    start: list[int], predecessor: list[int], kind: list[int], gate: list[int]
) -> list[list[tuple[int, int, int]]]:
    """(waiter, kind, gate) of all successors of each instruction."""
    found: list[list[tuple[int, int, int]]] = [[] for _ in start[1:]]
    for waiter in range(len(start) - 1):
        for e in range(start[waiter], start[waiter + 1]):
            found[predecessor[e]].append((waiter, kind[e], gate[e]))
    return found


def spread(sides: list[tuple[int, int, int] | None], used: list[int], share: int, available: int) -> list[int]:
    """First DMA engine of each transfer.

    sides : (first partition of the storage, offset in it, bytes a partition) of what lies on chip, None for HBM to HBM
    """
    found, turn_ = [], 0
    for side, engines in zip(sides, used, strict=True):
        if side is None:
            found.append(turn_ % available)
            turn_ += engines
        else:
            partition, offset, pitch = side
            found.append((partition + offset // pitch) // share % available)
    return found
