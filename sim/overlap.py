"""Work and exchanges at the same time: what each slows of the other, and what of an exchange no work hides.

An exchange takes HBM bandwidth, DMA engines (`Exchange.memory_share`, `dma_share`) and links. Where work and exchanges
want more of one than there is, all that want it are slowed alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim.collectives import Exchange
from sim.errors import InputError

MEMORY, DMA = "memory", "DMA engines"


@dataclass(frozen=True, slots=True)
class Overlap:
    """Work beside an exchange, both begun at once."""

    total_ps: int
    """Until both are over."""
    work_ps: int
    """Until the work is over."""
    exchange_ps: int
    """Until the exchange is over."""

    @property
    def exposed_ps(self) -> int:
        """Of the exchange, after the work is over."""
        return max(0, self.exchange_ps - self.work_ps)


def beside(work_ps: int, memory_share: float, exchange: Exchange, dma_share: float = 0.0) -> Overlap:
    """Work of a core beside an exchange.

    work_ps      : of the work alone
    memory_share : of the HBM bandwidth of its rank that the work takes alone, 0 to 1
    dma_share    : of its DMA engines, likewise
    """
    if work_ps < 0 or not 0 <= memory_share <= 1 or not 0 <= dma_share <= 1:
        raise InputError(f"work of {work_ps} ps, {memory_share} of memory's bandwidth, {dma_share} of DMA engines")
    work, wire = together((Demand(work_ps, {MEMORY: memory_share, DMA: dma_share}), demand(exchange)))
    return Overlap(max(work, wire), work, wire)


@dataclass(frozen=True, slots=True)
class Demand:
    """What runs, how long alone, and the share of each resource that it takes meanwhile."""

    duration_ps: int
    shares: Mapping[str, float]


def demand(exchange: Exchange) -> Demand:
    """An exchange by the links of each level, its rank's memory and DMA engines."""
    shares = {f"links of {use.level}": use.share for use in exchange.links}
    return Demand(exchange.duration_ps, shares | {MEMORY: exchange.memory_share, DMA: exchange.dma_share})


def together(demands: Sequence[Demand]) -> list[int]:
    """When each is over, all begun at once: ps.

    Until the next one ends, each runs as fast as its most wanted resource allows.
    """
    left = [float(each.duration_ps) for each in demands]
    over, now = [0] * len(demands), 0.0
    running = [number for number, rest in enumerate(left) if rest > 0]
    while running:
        speeds = {number: _speed(demands, running, number) for number in running}
        step = min(left[number] / speeds[number] for number in running)
        now += step
        for number in running:
            left[number] -= step * speeds[number]
        ended = [number for number in running if left[number] <= 1e-6 * demands[number].duration_ps]
        for number in ended:
            over[number] = round(now)
        running = [number for number in running if number not in ended]
    return over


def behind(works: Sequence[Demand], exchanges: Sequence[Demand]) -> tuple[int, int]:
    """Pieces of work in a row, each followed by an exchange, exchanges in a row too: when work and exchanges are over.

    All that runs at one moment is slowed as in `together`; ps.
    """
    every, count = [*works, *exchanges], len(works)
    left = [float(each.duration_ps) for each in every]
    piece = sent = 0
    over = now = 0.0
    while sent < count:
        running = [piece] if piece < count else []
        running += [count + sent] if sent < piece else []
        speeds = {number: _speed(every, running, number) for number in running}
        step = min(left[number] / speeds[number] for number in running)
        now, over = now + step, over + step if piece < count else over
        for number in running:
            left[number] -= step * speeds[number]
            ended = left[number] <= 1e-6 * every[number].duration_ps
            piece, sent = piece + (ended and number < count), sent + (ended and number >= count)
    return round(over), round(now)


def _speed(demands: Sequence[Demand], running: Sequence[int], number: int) -> float:
    wanted = [
        sum(demands[other].shares.get(name, 0.0) for other in running)
        for name, share in demands[number].shares.items()
        if share > 0
    ]
    return 1 / max([1.0, *wanted])


@dataclass(frozen=True, slots=True)
class Traffic:
    """One kind of exchange in a step: how often it comes, and the work that each has beside it."""

    name: str
    exchange: Exchange
    count: int = 1
    work_ps: int = 0
    """That runs beside one of them; 0 where work waits for it."""
    memory_share: float = 0.0
    """Of that work."""
    dma_share: float = 0.0
    """Likewise."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """What one kind of exchange adds to a step."""

    name: str
    total_ps: int
    """Of all of them, were they alone."""
    exposed_ps: int
    """After the work beside them."""
    slowed_ps: int
    """That the work beside them takes longer for them."""
    bytes_on_wire: int
    """That a rank sends."""

    @property
    def added_ps(self) -> int:
        return self.exposed_ps + self.slowed_ps


def exposed(traffic: Sequence[Traffic]) -> list[Exposure]:
    """What each kind of exchange adds to a step; kinds follow each other."""
    found = []
    for each in traffic:
        if each.count < 0:
            raise InputError(f"{each.name}: {each.count} times")
        pair = beside(each.work_ps, each.memory_share, each.exchange, each.dma_share)
        found.append(
            Exposure(
                name=each.name,
                total_ps=each.count * each.exchange.duration_ps,
                exposed_ps=each.count * pair.exposed_ps,
                slowed_ps=each.count * (pair.work_ps - each.work_ps),
                bytes_on_wire=each.count * each.exchange.bytes_on_wire,
            )
        )
    return found
