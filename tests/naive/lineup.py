"""Slow twin of `sim/jit/lineup.py`."""

from __future__ import annotations


def count(core: list[int], form: list[int], cores: int, forms: int) -> list[list[int]]:
    """How many instructions there are of each core and form."""
    pairs = list(zip(core, form, strict=True))
    return [[pairs.count((c, f)) for f in range(forms)] for c in range(cores)]


def line_up(queue: list[int], queues: int) -> list[list[int]]:
    """The instructions of each queue, in program order."""
    return [[i for i, own in enumerate(queue) if own == q] for q in range(queues)]


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
