"""Slow twin of `sim/jit/schedule.py`: at every step all queues are asked anew what they could issue and when.

Nothing is carried from step to step but what has been issued; ready times, clock windows, ports and DMA engines are
derived from it each time.
"""

from __future__ import annotations

from tests.naive.machine import (
    BANDWIDTH,
    BUFFER,
    DMA,
    ENGINE,
    FLOW,
    ISSUE,
    NONE,
    OPERAND,
    ORDER,
    QUEUE,
    SAME,
    TRIGGER,
    Done,
    Machine,
    Moved,
)
from tests.naive.sharing import find_pace, load_tables, serve, stream, take_ports


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


def join(waiting: dict[int, list[int]], i: int, p: int) -> None:
    """Who waits for whom, the last that came first."""
    waiting.setdefault(p, []).insert(0, i)


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
    packets = serve(machine, i, time)
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
