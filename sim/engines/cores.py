"""What the two physical cores of a logical core say to each other: exchanges of tiles, and barriers."""

from __future__ import annotations

import numpy as np

from sim.engines import checks, dma, laws
from sim.engines.checks import fail
from sim.memory import Layout
from sim.program import Cost, Form, Op, Role
from sim.spec import Device
from sim.trace import Engine, Memory

CORES = (0, 1)
LEAST_GENERATION = 3
GPSIMD_BYTES = {4: 1024, 2: 512, 1: 256}
"""Bytes a partition that GpSimd's own DMA exchanges at most, by the size of an element (nki.isa.sendrecv)."""


def describe_exchange(device: Device, layouts: tuple[Layout, ...], by_gpsimd: bool) -> Form:
    """The receiving side: dst on this core, src on the other."""
    dst, src = layouts
    checks.generation(device, LEAST_GENERATION, "sendrecv")
    for name, layout in (("dst", dst), ("src", src)):
        checks.tile(name, layout, checks.SBUF)
    checks.same_dtype("src", src, "dst", dst)
    checks.same_size("src", src, "dst", dst)
    if by_gpsimd:
        return _by_gpsimd(device, dst, src)
    cost, transfer = laws.dma(device, dst, (src,), dma.trigger(device, "unknown", "unknown", False), _pieces(dst, src))
    return laws.form("sendrecv", Engine.SYNC, "DMA_DIRECT2D", (Role.WRITE, Role.READ), layouts, cost, dma=transfer)


def _pieces(dst: Layout, src: Layout) -> int:
    return laws.descriptors(dst, src)


def _by_gpsimd(device: Device, dst: Layout, src: Layout) -> Form:
    wide, limit = dst.elements * dst.itemsize, GPSIMD_BYTES[dst.itemsize]
    if wide > limit:
        fail(f"src: {wide} bytes a partition > {limit}, the most that dma_engine.gpsimd_dma takes of this dtype")
    busy = laws.ns(dst.nbytes / device["gpsimd_dma"]) + laws.cycles(device, "clock_gpsimd", device["gp.start"])
    latency = busy + laws.ns(device["gp.lat"])
    return laws.form("sendrecv", Engine.GPSIMD, "SB2SB", (Role.WRITE, Role.READ), (dst, src), Cost(busy, latency))


def compute_exchange(arrays: list[np.ndarray], by_gpsimd: bool) -> None:
    dst, src = arrays
    dst[...] = src.reshape(dst.shape)


def describe_signal(device: Device, layouts: tuple[Layout, ...], engine: Engine) -> Form:
    """Tell the others that this core has come so far; the data must be complete by then."""
    return _barrier(device, layouts, engine, Role.READ, device["seq.event_sem"])


def describe_wait(device: Device, layouts: tuple[Layout, ...], engine: Engine) -> Form:
    """Go on when all have come: what reads the data afterwards waits for this, as if it were written here."""
    return _barrier(device, layouts, engine, Role.WRITE, device["cc.core_barrier"])


def _barrier(device: Device, layouts: tuple[Layout, ...], engine: Engine, role: Role, took: float) -> Form:
    (data,) = layouts
    checks.generation(device, LEAST_GENERATION, "core_barrier")
    # The reference asks for shared HBM; public kernels give tiles in SBUF, on which a barrier waits as well.
    if data.memory is Memory.PSUM:
        fail("data: a tile in PSUM, must be in shared HBM")
    cost = Cost(laws.ns(device["seq.event_sem"]), laws.ns(took))
    return laws.form("core_barrier", engine, "EVENT_SEMAPHORE", (role,), layouts, cost)


EXCHANGE = Op("nki.isa.sendrecv", describe_exchange, compute_exchange)
SIGNAL = Op("nki.isa.core_barrier", describe_signal, None)
WAIT = Op("nki.isa.core_barrier:wait", describe_wait, None)
