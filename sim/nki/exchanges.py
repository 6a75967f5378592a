"""What each rank of a group receives, from what all of them bring.

An exchange takes, for each rank in the order of the group, its source arrays, and gives for each rank its results, None
for a destination that stays as it is. Folds are in fp32 and rounded once, by whoever stores them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sim import dtypes
from sim.engines.collectives import Patch

Sources = Sequence[Sequence[np.ndarray]]
Results = list[list[np.ndarray | Patch | None]]
Exchange = Callable[[Sources], Results]
Fold = Callable[[np.ndarray, np.ndarray], np.ndarray]

SEND_COUNTS, SEND_DISPLACEMENTS, RECEIVE_COUNTS, RECEIVE_DISPLACEMENTS = range(4)
"""Rows of the metadata of a collective of variable length."""


def _folded(arrays: Sequence[np.ndarray], fold: Fold) -> np.ndarray:
    total = _computable(arrays[0])
    for array in arrays[1:]:
        total = fold(total, _computable(array))
    return total


def _computable(array: np.ndarray) -> np.ndarray:
    return array if array.dtype in dtypes.WIDE_INTEGERS else dtypes.to_fp32(array)


def reduced(fold: Fold) -> Exchange:
    """All ranks receive the fold."""

    def exchange(sources: Sources) -> Results:
        totals = [_folded(arrays, fold) for arrays in zip(*sources)]
        return [totals for _ in sources]

    return exchange


def scattered(fold: Fold) -> Exchange:
    """Each rank receives its part of the fold along dimension 0."""

    def exchange(sources: Sources) -> Results:
        parts = [np.split(_folded(arrays, fold), len(sources)) for arrays in zip(*sources)]
        return [[part[rank] for part in parts] for rank in range(len(sources))]

    return exchange


def gathered(dim: int) -> Exchange:
    """All ranks receive everything, side by side along a dimension."""

    def exchange(sources: Sources) -> Results:
        joined = [np.concatenate(arrays, axis=dim) for arrays in zip(*sources)]
        return [joined for _ in sources]

    return exchange


def swapped(sources: Sources) -> Results:
    """Part i of each rank goes to rank i."""
    ranks = len(sources)
    parts = [[np.split(array, ranks) for array in arrays] for arrays in sources]
    return [
        [np.concatenate([parts[other][k][rank] for other in range(ranks)]) for k in range(len(sources[rank]))]
        for rank in range(ranks)
    ]


def permuted(source_of: Mapping[int, int]) -> Exchange:
    """Each rank receives from the one that is named for it, or nothing."""

    def exchange(sources: Sources) -> Results:
        return [
            [array.copy() for array in sources[source_of[rank]]] if rank in source_of else [None] * len(sources[rank])
            for rank in range(len(sources))
        ]

    return exchange


def ring(sources: Sources) -> Results:
    """Each rank receives from the one before it."""
    return [[array.copy() for array in sources[rank - 1]] for rank in range(len(sources))]


def ring_reduced(fold: Fold) -> Exchange:
    """Each rank folds its two arrays and sends the result to the one after it."""

    def exchange(sources: Sources) -> Results:
        own = [_folded(arrays, fold) for arrays in sources]
        return [[own[rank - 1]] for rank in range(len(sources))]

    return exchange


Chunk = Callable[[int, int, np.ndarray], tuple[int, int]]


def gathered_chunks(sender: int, receiver: int, metadata: np.ndarray) -> tuple[int, int]:
    """(first element, elements) that a rank sends: the same to all, from column 0."""
    return int(metadata[SEND_DISPLACEMENTS, 0]), int(metadata[SEND_COUNTS, 0])


def swapped_chunks(sender: int, receiver: int, metadata: np.ndarray) -> tuple[int, int]:
    """(first element, elements) that a rank sends to another."""
    return int(metadata[SEND_DISPLACEMENTS, receiver]), int(metadata[SEND_COUNTS, receiver])


def by_metadata(chunk: Chunk, room: int, known: bool, placed: bool) -> Exchange:
    """A collective of variable length; each rank brings its data and its metadata.

    room   : elements of a destination, cut into one slot a rank unless placed
    known  : whether the counts that arrive need not be written back
    placed : whether the metadata tells where chunks land
    """

    def exchange(sources: Sources) -> Results:
        ranks = len(sources)
        tables = [np.array(table).reshape(-1, ranks) for _, table in sources]
        return [_received(rank, sources, tables, chunk, room, known, placed) for rank in range(ranks)]

    return exchange


def _received(
    rank: int, sources: Sources, tables: list[np.ndarray], chunk: Chunk, room: int, known: bool, placed: bool
) -> list[np.ndarray | Patch | None]:
    """(the elements that change with their places, the metadata)."""
    ranks, table = len(sources), tables[rank].copy()
    out = Patch(room, sources[rank][0].dtype)
    for sender in range(ranks):
        start, count = chunk(sender, rank, tables[sender])
        at = int(table[RECEIVE_DISPLACEMENTS, sender]) if placed else room // ranks * sender
        out.put(at, np.ravel(sources[sender][0])[start : start + count])
        table[RECEIVE_COUNTS, sender] = count
    return [out, None if known else table]
