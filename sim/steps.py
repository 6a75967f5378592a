"""Collectives message by message over a torus: each step's messages queue for the links that they cross.

It is what the closed forms of `sim.loads` are checked against, and shows what a single slow link does. Times are in the
unit of the topology.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sim.errors import InputError, UnsupportedError
from sim.topology import Kind, Link, Message, Topology, deliver


@dataclass(slots=True)
class Walk:
    """A collective under way."""

    topology: Topology
    shares: Mapping[Link, float] = field(default_factory=dict)
    """Of their rate that slow links have."""
    ready: list[float] = field(default_factory=list)
    """When each rank may send next."""
    free: dict[Link, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ready = list(self.ready) or [0.0] * self.topology.ranks
        if len(self.ready) != self.topology.ranks:
            raise InputError(f"{len(self.ready)} arrivals, the fabric has {self.topology.ranks} ranks")

    def step(self, messages: Sequence[Message]) -> None:
        """Each message is sent when both its ends are ready; a rank is ready again when all that it gets is there."""
        sent = [max(self.ready[each.source], self.ready[each.target]) for each in messages]
        over = deliver(self.topology, messages, sent=sent, shares=self.shares, free=self.free)
        for each, end in zip(messages, over):
            self.ready[each.target] = max(self.ready[each.target], end)


def gather(
    topology: Topology,
    size: float,
    algorithm: str,
    ready: Sequence[float] = (),
    shares: Mapping[Link, float] | None = None,
) -> list[float]:
    """When each rank has everyone's part.

    size   : bytes of the result
    ready  : when each rank comes
    shares : of their rate that slow links have
    raises : UnsupportedError for an algorithm that is not walked here
    """
    if algorithm == "ring":
        return _rings(topology, size, ready, shares or {})
    walk = Walk(topology, shares or {}, list(ready))
    part = size / topology.ranks
    if algorithm == "rdh":
        for bit in range(_bits(topology)):
            walk.step([Message(rank, other, part * 2**bit) for rank, other in _neighbours(topology, bit)])
    elif algorithm == "mesh":
        walk.step(list(_pairs(topology, part)))
    else:
        raise UnsupportedError(f"algorithm: {algorithm!r} is not walked step by step", remedy="ring, rdh or mesh")
    return walk.ready


def _pairs(topology: Topology, part: float) -> Iterator[Message]:
    """To the nearest first, as no sender would do otherwise."""
    ranks = range(topology.ranks)
    for ahead in ranks[1:]:
        for rank in ranks:
            yield Message(rank, (rank + ahead) % topology.ranks, part)


def _rings(topology: Topology, size: float, ready: Sequence[float], shares: Mapping[Link, float]) -> list[float]:
    """A share of every part goes round each directed ring; they have no link in common."""
    orders = [turn for order in rings(topology) for turn in (order, order[::-1])]
    piece = size / topology.ranks / len(orders)
    done = [0.0] * topology.ranks
    for order in orders:
        walk = Walk(topology, shares, list(ready))
        for _ in order[1:]:
            walk.step([Message(one, other, piece) for one, other in zip(order, order[1:] + order[:1])])
        done = [max(one, other) for one, other in zip(done, walk.ready)]
    return done


def rings(topology: Topology) -> list[list[int]]:
    """Hamiltonian cycles without a link in common: one of a ring, two of a square torus."""
    sides = [dimension.size for dimension in topology.dimensions]
    if any(dimension.kind is not Kind.RING or dimension.size < 3 for dimension in topology.dimensions):
        raise UnsupportedError(f"no rings are known over {' x '.join(map(str, sides))}")
    if len(sides) == 1:
        return [list(range(sides[0]))]
    if len(sides) != 2 or sides[0] != sides[1]:
        raise UnsupportedError(f"no rings are known over {' x '.join(map(str, sides))}", remedy="a square torus")
    side = sides[0]
    steps = [(row, (place - row) % side) for row in range(side) for place in range(side)]
    return [[x + side * y for y, x in steps], [y + side * x for y, x in steps]]


def _bits(topology: Topology) -> int:
    sides = [dimension.size for dimension in topology.dimensions]
    if any(side & (side - 1) for side in sides):
        raise UnsupportedError(f"recursive doubling over {' x '.join(map(str, sides))}: not powers of two")
    return sum(side.bit_length() - 1 for side in sides)


def _neighbours(topology: Topology, bit: int) -> list[tuple[int, int]]:
    """Pairs along one axis of the hypercube that the torus is; the places of a side of 4 are Gray codes."""
    found = []
    for rank in range(topology.ranks):
        base, rest, number = 1, rank, bit
        for dimension in topology.dimensions:
            rest, place = divmod(rest, dimension.size)
            width = dimension.size.bit_length() - 1
            if number < width:
                other = _from_gray(_gray(place) ^ (1 << number))
                found.append((rank, rank + (other - place) * base))
                break
            base, number = base * dimension.size, number - width
    return found


def _gray(number: int) -> int:
    return number ^ number >> 1


def _from_gray(code: int) -> int:
    number = 0
    while code:
        number, code = number ^ code, code >> 1
    return number
