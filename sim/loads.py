"""What each algorithm of a collective asks of links and memory, as the runtime's documents describe them.

`n` is the whole buffer: of an all-gather the result, of a reduce-scatter the source, else what a rank brings.
Sources: intranode-collective-comm (steps, reads and writes), internode-collective-comm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2

from sim.fabrics import Level
from sim.topology import Kind

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "broadcast")


@dataclass(frozen=True, slots=True)
class Load:
    """What one stage asks."""

    steps: int
    """Hops that follow each other."""
    link: float = 0.0
    """Bytes over the busiest link of a chip."""
    moved: float = 0.0
    """Bytes that a rank reads and writes."""
    reduced: float = 0.0
    """Bytes of those that it folds."""

    def __add__(self, other: Load) -> Load:
        return Load(
            self.steps + other.steps,
            self.link + other.link,
            self.moved + other.moved,
            self.reduced + other.reduced,
        )


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a node: `local` ranks in each of `chips` chips that a level joins."""

    local: int
    chips: int
    level: Level | None

    @property
    def ranks(self) -> int:
        return self.local * self.chips

    @property
    def hops(self) -> int:
        """Steps of a mesh: between chips, inside a chip."""
        return max(1, (self.chips > 1) + (self.local > 1))

    @property
    def spread(self) -> float:
        """Times that a byte crosses a link when it is routed, for each of a chip's links."""
        return 0.0 if self.level is None else self.level.distance(self.chips) / self.level.degree(self.chips)

    @property
    def flows(self) -> float:
        """Messages of a mesh that are routed over one link at once; a switch has room for all."""
        crowded = self.level is not None and self.level.kind is Kind.RING
        return (self.chips - 1) * self.spread if crowded else 0.0

    @property
    def cycles(self) -> int:
        return 1 if self.level is None else self.level.cycles(self.chips)


def _others(units: int) -> float:
    return (units - 1) / units


def _ring(part: Part, n: float, reads: float, steps: int) -> Load:
    """reads : touches of a byte a hop, from the documents"""
    sent = n * _others(part.ranks)
    link = sent / part.cycles if part.chips > 1 else 0.0
    return Load(steps, link, reads * sent)


def ring_gather(part: Part, n: float) -> Load:
    """A read and a write a hop."""
    return _ring(part, n, 2, part.ranks - 1)


def ring_scatter(part: Part, n: float) -> Load:
    """Two reads and a write a hop."""
    return _folding(_ring(part, n, 3, part.ranks - 1))


def kangaring_gather(part: Part, n: float) -> Load:
    """One read and two writes for two ranks."""
    return _ring(part, n, 3 / 2, part.ranks // 2)


def kangaring_scatter(part: Part, n: float) -> Load:
    """Three reads and one write for two ranks."""
    return _folding(_ring(part, n, 4 / 2, part.ranks // 2))


def _folding(load: Load) -> Load:
    return Load(load.steps, load.link, load.moved, load.moved)


def mesh_gather(part: Part, n: float) -> Load:
    """A chip's parts go to all other chips, shared out among its ranks; then inside each chip."""
    sent = n * (part.chips - 1) / part.ranks
    moved = 2 * sent + 2 * n * _others(part.local)
    return Load(part.hops, n * _others(part.chips) * part.spread, moved)


def mesh_scatter(part: Part, n: float) -> Load:
    """A chip's parts for each rank elsewhere are folded and sent; each rank folds what came."""
    piece = n / part.ranks
    sent = (part.chips - 1) * (part.local + 1) * piece
    kept = (part.chips + part.local) * piece
    return _folding(Load(part.hops, n * _others(part.chips) * part.spread, sent + kept))


def rdh_gather(part: Part, n: float) -> Load:
    """Recursive doubling between equal places of the chips; then inside each chip."""
    between = 2 * n * _others(part.chips) / part.local
    return Load(_doublings(part), _along_axes(part, n), between + 2 * n * _others(part.local))


def rdh_scatter(part: Part, n: float) -> Load:
    """Folding inside each chip; then recursive halving between the chips."""
    between = 3 * n * _others(part.chips) / part.local
    inside = n * (1 + 1 / part.local) if part.local > 1 else 0.0
    return _folding(Load(_doublings(part), _along_axes(part, n), between + inside))


def _along_axes(part: Part, n: float) -> float:
    """Each of a chip's ranks starts along another axis; a rank that is alone has one link at a time."""
    links = 1 if part.level is None else min(part.local, part.level.degree(part.chips))
    return n * _others(part.chips) / links


def _doublings(part: Part) -> int:
    return max(1, ceil(log2(part.chips)) + (part.local > 1))


def one_step(part: Part, n: float) -> Load:
    """An all-reduce in which everyone sends everything to everyone, and folds what it gets."""
    whole = mesh_gather(part, n * part.ranks)
    return Load(whole.steps, whole.link, whole.moved + n * (part.ranks + 1), n * (part.ranks + 1))


def direct(part: Part, n: float) -> Load:
    """All-to-all: each part straight to its rank."""
    away = n * part.local * _others(part.chips)
    return Load(part.hops, away * part.spread, 2 * n * _others(part.ranks))


def neighbour(part: Part, n: float) -> Load:
    """A permutation: one send and one receive."""
    return Load(1, n if part.chips > 1 else 0.0, 2 * n)


def fan_out(part: Part, n: float) -> Load:
    """A broadcast: the root's chip sends to all others, which hand it on inside."""
    link = n * (part.chips - 1) * part.spread if part.chips > 1 else 0.0
    return Load(part.hops, link, 2 * n)


def pipeline(part: Part, n: float) -> Load:
    """A broadcast along the rings, piece after piece."""
    return Load(part.ranks - 1, n / part.cycles if part.chips > 1 else 0.0, 2 * n)


LOADS: dict[str, dict[str, Callable[[Part, float], Load]]] = {
    "mesh": {
        "all_gather": mesh_gather,
        "reduce_scatter": mesh_scatter,
        "broadcast": fan_out,
    },
    "one-step mesh": {"all_reduce": one_step},
    "rdh": {"all_gather": rdh_gather, "reduce_scatter": rdh_scatter},
    "kangaring": {"all_gather": kangaring_gather, "reduce_scatter": kangaring_scatter, "broadcast": pipeline},
    "ring": {
        "all_gather": ring_gather,
        "reduce_scatter": ring_scatter,
        "broadcast": pipeline,
    },
    "direct": {"all_to_all": direct, "permute": neighbour},
}
"""By algorithm and kind; an all-reduce is a reduce-scatter and an all-gather where it has no entry of its own."""


def load(kind: str, algorithm: str, part: Part, n: float) -> Load:
    """What an algorithm asks; `serves` tells whether there is one."""
    table = LOADS[algorithm]
    if kind == "all_reduce" and kind not in table:
        return table["reduce_scatter"](part, n) + table["all_gather"](part, n)
    return table[kind](part, n)


def serves(kind: str, algorithm: str, part: Part) -> bool:
    """Whether an algorithm does that kind over that part."""
    table = LOADS[algorithm]
    if kind not in table and not (kind == "all_reduce" and "all_gather" in table):
        return False
    if algorithm == "rdh":
        return part.chips & (part.chips - 1) == 0
    return algorithm != "kangaring" or part.local % 2 == 0
