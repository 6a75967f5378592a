"""Fabrics between ranks: what a message takes alone, and what many take that queue for the same links.

A topology is a list of dimensions, the first one innermost; a message crosses them one after the other. Times come in
the unit of the latencies, rates in bytes for each unit of time.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from math import prod
from typing import NamedTuple

from sim.errors import InputError


class Kind(Enum):
    """How the ranks of one dimension are joined."""

    RING = "ring"
    """Neighbours, both ways round; a message goes the shorter way."""
    FULLY_CONNECTED = "fully connected"
    SWITCH = "switch"
    """Every rank with one switch: two links a message."""


class Link(NamedTuple):
    """One direction between two neighbours of a dimension; a switch is named by the group that it joins."""

    source: tuple
    target: tuple
    dimension: int


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of a fabric."""

    kind: Kind
    size: int
    rate: float
    """Bytes for each unit of time that one link carries."""
    latency: float
    """Of one link."""

    def steps(self, source: int, target: int) -> list[int | None]:
        """The places on the way, both ends included; None is the switch."""
        if source == target:
            return [source]
        if self.kind is Kind.FULLY_CONNECTED:
            return [source, target]
        if self.kind is Kind.SWITCH:
            return [source, None, target]
        ahead = (target - source) % self.size
        step, count = (1, ahead) if 2 * ahead <= self.size else (-1, self.size - ahead)
        return [(source + step * number) % self.size for number in range(count + 1)]


@dataclass(frozen=True, slots=True)
class Topology:
    """A fabric of one or more dimensions."""

    dimensions: tuple[Dimension, ...]

    @property
    def ranks(self) -> int:
        return prod(dimension.size for dimension in self.dimensions)

    def place(self, rank: int) -> tuple[int, ...]:
        """Coordinates of a rank, the innermost dimension first."""
        if not 0 <= rank < self.ranks:
            raise InputError(f"rank {rank}: the fabric has {self.ranks}")
        found = []
        for dimension in self.dimensions:
            rank, here = divmod(rank, dimension.size)
            found.append(here)
        return tuple(found)

    def route(self, source: int, target: int) -> list[Link]:
        """The links that a message crosses."""
        here, there, links = list(self.place(source)), self.place(target), []
        for number, dimension in enumerate(self.dimensions):
            steps = dimension.steps(here[number], there[number])
            places = [(*here[:number], step, *here[number + 1 :]) for step in steps]
            links += [Link(one, other, number) for one, other in pairwise(places)]
            here[number] = there[number]
        return links

    def alone(self, source: int, target: int, size: int) -> float:
        """Time of one message of `size` bytes: every latency once, and the bytes once at the slowest link."""
        links = self.route(source, target)
        if not links:
            return 0.0
        crossed = [self.dimensions[link.dimension] for link in links]
        return sum(dimension.latency for dimension in crossed) + size / min(dimension.rate for dimension in crossed)


@dataclass(frozen=True, slots=True)
class Message:
    """`size` bytes from one rank to another."""

    source: int
    target: int
    size: float


def deliver(
    topology: Topology,
    messages: Sequence[Message],
    whole: bool = False,
    sent: Sequence[float] = (),
    shares: Mapping[Link, float] | None = None,
    free: dict[Link, float] | None = None,
) -> list[float]:
    """When each message has arrived: every link stores a message, then forwards it, first come first.

    whole  : times of a link are cut to whole units, as ASTRA-sim does
    sent   : when each is sent; all at 0 where not given
    shares : of their rate that some links have
    free   : when each link is done with messages of before; is brought up to date
    """
    routes = [topology.route(message.source, message.target) for message in messages]
    arrived = [0.0] * len(messages)
    free, shares = {} if free is None else free, shares or {}
    waiting = [(sent[number] if sent else 0.0, number, number, 0) for number in range(len(messages))]
    heapq.heapify(waiting)
    sequence = len(messages)
    while waiting:
        now, _, number, hop = heapq.heappop(waiting)
        arrived[number] = now
        if hop == len(routes[number]):
            continue
        link = routes[number][hop]
        size = messages[number].size / shares.get(link, 1)
        busy, latency = _times(topology.dimensions[link.dimension], size, whole)
        start = max(now, free.get(link, 0.0))
        free[link] = start + busy
        heapq.heappush(waiting, (start + latency, sequence, number, hop + 1))
        sequence += 1
    return arrived


def _times(dimension: Dimension, size: float, whole: bool) -> tuple[float, float]:
    """How long a message holds a link, and when it is at the other end."""
    busy = size / dimension.rate
    total = dimension.latency + busy
    return (int(busy), int(total)) if whole else (busy, total)


def all_pairs(topology: Topology, size: int) -> Iterable[Message]:
    """An all-gather by direct sends: everyone's part to everyone else."""
    ranks = range(topology.ranks)
    return (Message(source, target, size) for source in ranks for target in ranks if source != target)
