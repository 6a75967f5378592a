"""What the slow twins of the event loop work on: what instructions cost, and what has been issued so far."""

from __future__ import annotations

from dataclasses import dataclass, field

FLOW, ANTI, OUTPUT, ORDER = range(4)
COMPLETION, SAME, ISSUE = range(3)
NONE, ENGINE, OPERAND, DMA, BUFFER, PORT, TABLE, QUEUE, BANDWIDTH, TRIGGER = range(10)


@dataclass
class Transfer:
    dispatch: int
    notify: int
    service: int
    hbm: int
    engines: list[int]


@dataclass
class Item:
    """An instruction: what it costs, and (predecessor, kind, gate) of all that it waits for."""

    queue: int
    core: int
    occupancy: int
    latency: int
    weights: int
    tail: int
    cold: tuple[int, int, int, int]
    """Occupancy, latency, weights and tail at a cold clock."""
    table: int
    ports: int
    clocked: bool
    waits: list[tuple[int, int, int]]
    dma: Transfer | None = None


@dataclass
class Figures:
    wake: int
    same: int
    table_load: int
    window: int
    up: int
    down: int
    phase: int


@dataclass
class Done:
    """What is known of an instruction that has issued."""

    start: int
    freed: int
    done: int | None
    idle: int
    ready: int
    wait: int = 0
    cause: int = NONE
    bind: int = -1


@dataclass
class Moved:
    arrival: int
    start: int
    end: int
    wait: int
    cause: int
    packets: list[tuple[int, int]]


@dataclass
class Machine:
    items: list[Item]
    windows: list[int]
    figures: Figures
    issued: dict[int, Done] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    moved: dict[int, Moved] = field(default_factory=dict)
    busy: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    tails: dict[int, int] = field(default_factory=dict)
    """core -> since when TensorE can load the next weights"""
    ports: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(core, port, instruction, until)"""
    loads: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """(instruction, start, wait, cause, bind)"""
