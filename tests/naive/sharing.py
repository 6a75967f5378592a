"""Slow twin of `sim/jit/sharing.py`: what is held is derived from all that has been issued."""

from __future__ import annotations

from tests.naive.machine import NONE, PORT, TABLE, Done, Item, Machine


def advance_clock(machine: Machine, core: int, time: int) -> list[tuple[int, int]]:
    """(time, warm) at every change by a time, from the busy intervals so far."""
    figures, spans = machine.figures, machine.busy.get(core, [])
    changes, warm = [], 0
    low, high = -figures.phase % figures.window - figures.window, -figures.phase % figures.window
    if high == 0:
        low, high = 0, figures.window
    while high <= time:
        share = sum(max(0, min(end, high) - max(start, low)) for start, end in spans)
        now = int(share >= (figures.down if warm else figures.up))
        if now != warm:
            changes.append((high, now))
        warm, low, high = now, high, high + figures.window
    return changes


def work(machine: Machine, core: int, start: int, end: int) -> None:
    machine.busy.setdefault(core, []).append((start, end))


def find_pace(machine: Machine, item: Item, time: int) -> tuple[int, int, int, int]:
    """Occupancy, latency, weights and tail at the clock of a time."""
    changes = advance_clock(machine, item.core, time) if machine.figures.window else [(0, 1)]
    warm = changes and changes[-1][1]
    return (item.occupancy, item.latency, item.weights, item.tail) if warm else item.cold


def stream(machine: Machine, item: Item, pace: tuple[int, int, int, int], start: int, late: bool) -> int:
    """When a matmul streams: its weights are loaded once its operands are there and the last weights are at work."""
    occupancy, _, weights, tail = pace
    begin = start
    if weights:
        begin = max(start, (start if late else machine.tails.get(item.core, 0)) + weights)
    machine.tails[item.core] = begin + occupancy - tail
    if machine.figures.window:
        work(machine, item.core, begin, begin + occupancy)
    return begin


def load_tables(machine: Machine, i: int, begin: int, entry: Done) -> int:
    """When the tables of an instruction are there; notes the load."""
    item = machine.items[i]
    loaded = [machine.items[j].table for j in machine.order if machine.items[j].core == item.core]
    current = next((table for table in reversed(loaded) if table >= 0), -1)
    if item.table in (-1, current):
        return begin
    if current < 0:
        machine.loads.append((i, -1, 0, NONE, -1))
        return begin
    machine.loads.append((i, begin, entry.wait, entry.cause, entry.bind))
    entry.wait, entry.cause, entry.bind = 0, TABLE, -1
    return begin + machine.figures.table_load


def take_ports(machine: Machine, i: int, begin: int, entry: Done) -> int:
    """When the ports of an instruction are free of other queues; of two the later binds, of equals the first."""
    item, start = machine.items[i], begin
    for port in range(2):
        held = [hold for hold in machine.ports if hold[:2] == (item.core, port)]
        if item.ports >> port & 1 and held and held[-1][3] > start:
            start, entry.cause, entry.bind = held[-1][3], PORT, held[-1][2]
    entry.wait += start - begin
    return start


def serve(machine: Machine, i: int, time: int) -> list[tuple[int, int]]:
    """(start, end) of a transfer on each of its DMA engines."""
    dma, packets = machine.items[i].dma, []
    moved = [j for j in machine.moved if machine.items[j].core == machine.items[i].core]
    for engine in dma.engines:
        ends = [
            packet[1]
            for j in moved
            for other, packet in zip(machine.items[j].dma.engines, machine.moved[j].packets, strict=True)
            if other == engine
        ]
        start = max([time, *ends])
        packets.append((start, start + dma.service))
    return packets
