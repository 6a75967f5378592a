"""Slow twin of `sim/jit/schedule.py`: at every step all queues are asked anew what they could issue and when.

Nothing is carried from step to step but what has been issued; ready times, clock windows, ports and DMA engines are
derived from it each time.
"""

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


def push(heap: list, base: int, count: int, key: int, value: int) -> None:
    """A sorted list is a heap."""
    heap[base : base + count + 1] = sorted([*heap[base : base + count], (key, value)])


def pop(heap: list, base: int, count: int) -> None:
    heap[base : base + count - 1] = sorted(heap[base : base + count])[1:]


def release(machine: Machine, predecessor: int, gate: int) -> int | None:
    """When a predecessor lets go of one that waits for it, None while that is not known."""
    known = machine.issued.get(predecessor)
    if known is None:
        return None
    if gate == ISSUE:
        return known.freed
    if known.done is None:
        return None
    return known.done + (machine.figures.same if gate == SAME else machine.figures.wake)


def ready(machine: Machine, i: int) -> tuple[int, int, int, int] | None:
    """(time, predecessor, kind, gate) of the last release, None while one is not known; of equals the first one."""
    times = [(release(machine, p, gate), p, kind, gate) for p, kind, gate in machine.items[i].waits]
    if any(found[0] is None for found in times):
        return None
    latest = max((found[0] for found in times), default=0)
    bound = [found[1:] for found in times if found[0] == latest]
    return (latest, *min(bound)) if latest > 0 else (0, -1, -1, -1)


def slide(machine: Machine, queue: int) -> list[int]:
    """The instructions in a queue's window that have not issued."""
    places = [i for i, item in enumerate(machine.items) if item.queue == queue]
    head = next((place for place, i in enumerate(places) if i not in machine.issued), len(places))
    return [i for i in places[head : head + machine.windows[queue]] if i not in machine.issued]


def before(machine: Machine, queue: int) -> int:
    """The instruction that a queue issued last, -1 for none."""
    return next((i for i in reversed(machine.order) if machine.items[i].queue == queue), -1)


def enter(machine: Machine, queue: int) -> list[tuple[int, int]]:
    """(ready time, instruction) of all that compete for a queue."""
    found = [(ready(machine, i), i) for i in slide(machine, queue)]
    return [(known[0], i) for known, i in found if known is not None]


def choose(machine: Machine, queue: int) -> tuple[int, int] | None:
    """(time, instruction) that a queue would issue next."""
    known = enter(machine, queue)
    if not known:
        return None
    last = before(machine, queue)
    free = machine.issued[last].freed if last >= 0 else 0
    time = max(free, min(when for when, _ in known))
    return time, min(i for when, i in known if when <= time)


def explain(machine: Machine, i: int, time: int) -> tuple[int, int, int]:
    """(wait, cause, what bound it), apart from tables and ports."""
    last = before(machine, machine.items[i].queue)
    when, bind, kind, gate = ready(machine, i)
    free = machine.issued[last].freed if last >= 0 else 0
    idle = machine.issued[last].idle if last >= 0 else 0
    if when > free:
        flows = kind in (FLOW, ORDER)
        cause = (DMA if machine.items[bind].dma and gate != ISSUE else OPERAND) if flows else BUFFER
    elif last < 0:
        cause, bind = NONE, -1
    else:
        cause, bind = (TRIGGER if machine.items[last].dma else ENGINE), last
    return max(0, time - idle), cause, bind


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


def issue(machine: Machine, i: int, time: int) -> None:
    item = machine.items[i]
    entry = Done(0, 0, None, 0, ready(machine, i)[0], *explain(machine, i, time))
    start = load_tables(machine, i, time, entry)
    start = take_ports(machine, i, start, entry)
    pace = find_pace(machine, item, start) if item.clocked else (item.occupancy, item.latency)
    occupancy, latency = pace[:2]
    if item.clocked:
        last = before(machine, item.queue)
        late = entry.ready > (machine.issued[last].freed if last >= 0 else 0)
        loading = stream(machine, item, pace, start, late) - start
        occupancy, latency = occupancy + loading, latency + loading
    machine.ports += [(item.core, p, i, start + occupancy) for p in range(2) if item.ports >> p & 1]
    entry.start, entry.freed, entry.idle = start, start + occupancy, start + occupancy
    entry.done = start + latency
    if item.dma:
        entry.idle = min(entry.freed, entry.done)
        entry.done = None
    machine.issued[i] = entry
    machine.order.append(i)


def arrive(machine: Machine, i: int, time: int) -> None:
    """First come, first served on each DMA engine; HBM serves one transfer after the other."""
    item = machine.items[i]
    dma, same = item.dma, [j for j in machine.moved if machine.items[j].core == item.core]
    packets = []
    for engine in dma.engines:
        ends = [
            packet[1]
            for j in same
            for other, packet in zip(machine.items[j].dma.engines, machine.moved[j].packets, strict=True)
            if other == engine
        ]
        start = max([time, *ends])
        packets.append((start, start + dma.service))
    end = served = max(time, *(packet[1] for packet in packets))
    if dma.hbm:
        taken = 0
        for j in same:
            other = machine.items[j].dma
            taken = max(taken, machine.moved[j].arrival) + other.hbm if other.hbm else taken
        end = max(served, max(taken, time) + dma.hbm)
    wait = end - time - max(dma.service, dma.hbm)
    cause = NONE if wait <= 0 else BANDWIDTH if end > served else QUEUE
    machine.moved[i] = Moved(time, min(packet[0] for packet in packets), end, wait, cause, packets)
    machine.issued[i].done = end + dma.notify


def run(machine: Machine) -> int:
    """Issue all that can be; how many that were."""
    while True:
        asked = [(choose(machine, queue), queue) for queue in range(len(machine.windows))]
        next_issue = min(((due[0], queue, due[1]) for due, queue in asked if due), default=None)
        under_way = [
            (machine.issued[i].freed + machine.items[i].dma.dispatch, i)
            for i in machine.order
            if machine.items[i].dma and i not in machine.moved
        ]
        arrival = min(under_way, default=None)
        if arrival and (next_issue is None or arrival[0] <= next_issue[0]):
            arrive(machine, arrival[1], arrival[0])
        elif next_issue:
            issue(machine, next_issue[2], next_issue[0])
        else:
            return len(machine.order)
