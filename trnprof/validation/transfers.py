"""Packets of a profile's DMA engines and semaphores, beside our figures.

A packet is scored twice: its floor (the wire rate) against the fastest tenth of its size, and what a kernel is
charged against every packet. How far packets lie above their floor is contention, which no law of one packet tells.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim import spec
from sim.replay import packet
from sim.spec import Device
from sim.trace import NONE, Memory, QueueType, Trace, Wait
from trnprof.validation.score import Comparison

SEMAPHORE_BYTES = 4
"""Packets of this size only raise a semaphore."""

FEWEST = 8
"""Packets of one size that make a fastest tenth."""

PS = 1e3


def compare(trace: Trace, device: Device | None = None) -> Iterator[Comparison]:
    """Floors and charges of the packets by size and direction, then semaphore wake-ups."""
    device = device or spec.device(trace.meta.device)
    yield from _packets(trace, device)
    yield from _wakes(trace, device)


def _packets(trace: Trace, device: Device) -> Iterator[Comparison]:
    for size, stored, count, lengths in packet_groups(trace):
        timing = packet(device, size, count, stored)
        id = f"{device.name} {'store' if stored else 'load'} of {size} B in {count}"
        low, middle, high = np.percentile(lengths, (10, 50, 90)).tolist()
        floor, charge = timing.interval_ps / PS, timing.duration_ps / PS
        note = f"contention: median {middle / low:.2f} x floor, p90 {high / low:.2f} x"
        yield Comparison(id, "packet floor", "floor", low, floor, "ns", device.name, count=lengths.size)
        yield Comparison(id, "packet", "charge", middle, charge, "ns", device.name, count=lengths.size, note=note)


def packet_groups(trace: Trace) -> Iterator[tuple[int, bool, int, np.ndarray]]:
    """(bytes, whether to HBM, descriptors, durations in ns) of packets that are alike, where there are enough."""
    table = trace.packets
    kept = (table.bytes > SEMAPHORE_BYTES) & (table.transfer != NONE) & (table.queue_type != QueueType.INSTRUCTION)
    rows = np.flatnonzero(kept)
    stores = trace.transfers.dest_memory[table.transfer[rows]] == Memory.HBM
    length = (table.end_ps[rows] - table.start_ps[rows]) / PS
    keys = np.stack((table.bytes[rows], stores, _descriptors(trace, rows)), axis=1)
    found, group = np.unique(keys, axis=0, return_inverse=True)
    for number, (size, stored, count) in enumerate(found.tolist()):
        lengths = length[group.reshape(-1) == number]
        if lengths.size >= FEWEST:
            yield size, bool(stored), count, lengths


def _descriptors(trace: Trace, rows: np.ndarray) -> np.ndarray:
    """Descriptors of each packet: its own count, else its share of the transfer's."""
    table, transfer = trace.packets, trace.packets.transfer[rows]
    own, whole = table.descriptors[rows], trace.transfers.descriptors[transfer]
    share = np.rint(table.bytes[rows] * whole / np.maximum(1, trace.transfers.bytes[transfer]))
    return np.where(own > 0, own, np.maximum(1, share)).astype(np.int64)


def _wakes(trace: Trace, device: Device) -> Iterator[Comparison]:
    gaps = wakes(trace)
    if gaps.size:
        note = f"p10 {np.percentile(gaps, 10):.0f}, p90 {np.percentile(gaps, 90):.0f} ns"
        id, measured = f"{device.name} semaphore between engines", float(np.median(gaps))
        yield Comparison(
            id, "wake", "wake", measured, device["sem.wake"], "ns", device.name, count=gaps.size, note=note
        )


def wakes(trace: Trace) -> np.ndarray:
    """From the end of what an instruction waited for, on another engine, to its start, ns."""
    table = trace.instructions
    rows = np.flatnonzero((table.wait == Wait.OPERAND) & (table.wait_for != NONE) & ~table.control)
    before = table.wait_for[rows]
    other = (table.engine[rows] != table.engine[before]) & ~table.control[before]
    gaps = (table.start_ps[rows] - table.end_ps[before])[other] / PS
    return gaps[gaps >= 0]
