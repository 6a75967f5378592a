"""The packets of transfers: what each DMA engine moves of them and when."""

from __future__ import annotations

import numpy as np

from sim.schedule import Schedule


def first_packets(timed: Schedule) -> np.ndarray:
    """Number of the first packet of each transfer, int64[t + 1]."""
    engines = np.array([form.dma.engines if form.dma else 0 for form in timed.program.forms] or [0], np.int64)
    used = engines[timed.program.form[timed.transfers.instruction]]
    return np.concatenate(([0], np.cumsum(used)))


def lanes(timed: Schedule) -> tuple[np.ndarray, np.ndarray]:
    """(transfer, lane) of every packet, transfer after transfer; a lane is one DMA engine of a core."""
    moved, engines = timed.transfers, int(timed.program.device["dma_engines_nc"])
    first = first_packets(timed)
    owner = np.repeat(np.arange(moved.turn.size), np.diff(first))
    engine = (moved.first_engine[owner] + np.arange(owner.size) - first[owner]) % engines
    return owner, moved.core[owner] * engines + engine


def packets(timed: Schedule) -> np.ndarray:
    """Start and end of every packet, transfer after transfer, int64[p, 2] ps.

    An engine serves in the order of arrival, so that an end is the latest of all (arrival + service from there on).
    """
    moved, (owner, lane) = timed.transfers, lanes(timed)
    order = np.lexsort((moved.turn[owner], lane))
    queue = lane[order]
    forms = np.array([form.dma.service_ps if form.dma else 0 for form in timed.program.forms] or [0], np.int64)
    service = forms[timed.program.form[moved.instruction]][owner][order]
    arrival = moved.arrival[owner][order]
    found = np.empty((owner.size, 2), np.int64)
    begins = np.flatnonzero(np.diff(queue, prepend=-1))
    for low, high in zip(begins, np.append(begins[1:], queue.size)):
        total = np.cumsum(service[low:high])
        end = total + np.maximum.accumulate(arrival[low:high] - total + service[low:high])
        found[order[low:high], 0], found[order[low:high], 1] = end - service[low:high], end
    return found
