"""Collectives between ranks: what each costs a core, and what each moves. Their time is `sim.collectives`'."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from sim import dtypes
from sim.collectives import Exchange, exchange
from sim.engines import laws
from sim.errors import InputError
from sim.fabrics import holding
from sim.memory import Layout
from sim.program import Cost, DmaCost, Form, Op, Role
from sim.spec import Device
from sim.trace import Engine, Memory, QueueType

QUEUE = "qCollective"
KINDS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "all_gather_v": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "all_to_all",
    "all_to_all_v": "all_to_all",
    "collective_permute": "permute",
    "collective_permute_implicit": "permute",
    "collective_permute_implicit_reduce": "permute",
}
"""NKI's names -> those of `sim.collectives`."""


def describe(
    device: Device, layouts: tuple[Layout, ...], kind: str, outputs: int, group: int | tuple[int, ...], lnc: int = 1
) -> Form:
    """outputs : how many of the operands, the first ones, are written
    group   : ranks that take part, or how many, side by side
    lnc     : cores of a rank
    """
    srcs = layouts[outputs:]
    ranks = tuple(range(group)) if isinstance(group, int) else group
    found = timed(device, kind, sum(layout.nbytes for layout in srcs), ranks, lnc, srcs[0].dtype.itemsize)
    issue = laws.ns(device["dma.issue_static"])
    roles = (Role.WRITE,) * outputs + (Role.READ,) * len(srcs)
    return Form(
        call=f"nki.collectives.{kind}",
        engine=Engine.SYNC,
        opcode="COLLECTIVE",
        roles=roles,
        layouts=layouts,
        cost=Cost(issue, issue),
        dma=_transfer(device, layouts, found, lnc),
        function=kind.upper(),
        dtype=dtypes.short(srcs[0].dtype),
        partitions=srcs[0].partitions,
        elements=srcs[0].elements,
    )


def timed(device: Device, kind: str, nbytes: int, ranks: Sequence[int], lnc: int, element: int) -> Exchange:
    """The exchange of a call.

    nbytes : of the call's sources
    ranks  : that take part, of a launch that fills chips from rank 0 on
    """
    # A rank that is alone in a trace of shapes still talks to others.
    together = tuple(ranks) if len(ranks) > 1 else (0, 1)
    whole = nbytes * len(together) if kind.startswith("all_gather") else nbytes
    fabric = holding(device, max(together) + 1, lnc)
    return exchange(KINDS[kind], whole, fabric, together, element_bytes=element, variable=kind.endswith("_v"))


def _transfer(device: Device, layouts: tuple[Layout, ...], found: Exchange, lnc: int) -> DmaCost:
    service = sum(stage.transfer_ps for stage in found.stages)
    in_hbm = sum(layout.nbytes for layout in layouts if layout.memory is Memory.HBM)
    return DmaCost(
        dispatch_ps=found.duration_ps - service,
        notify_ps=laws.ns(device["dma.notify_load"]),
        service_ps=service,
        hbm_ps=laws.ns(max(in_hbm, found.memory_bytes if in_hbm else 0) / (device["hbm_nc"] * lnc)),
        engines=_engines(device, found, service),
        bytes=found.bytes_on_wire,
        descriptors=max(1, ceil(found.bytes_on_wire / device["dma.cc_packet"])),
        queue=QUEUE,
        queue_type=QueueType.UNKNOWN,
    )


def _engines(device: Device, found: Exchange, service_ps: int) -> int:
    """DMA engines that it keeps busy."""
    have = int(device["dma_engines_nc"])
    needed = found.dma_share * found.duration_ps
    return min(have, max(1, ceil(have * needed / service_ps))) if service_ps else 1


class Patch:
    """Elements of a flat destination that a collective writes; the others stay."""

    def __init__(self, room: int, dtype: np.dtype):
        self.values = np.zeros(room, dtype)
        self.written = np.zeros(room, bool)

    def put(self, at: int, values: np.ndarray) -> None:
        """raises: InputError for elements beyond the destination"""
        if at + values.size > self.values.size:
            raise InputError(f"dsts: elements {at} to {at + values.size} of {self.values.size}")
        self.values[at : at + values.size] = values
        self.written[at : at + values.size] = True


def compute(
    arrays: list[np.ndarray],
    kind: str,
    outputs: int,
    group: int | tuple[int, ...],
    lnc: int = 1,
    *,
    results: Sequence[np.ndarray | Patch | None],
) -> None:
    """results : what the ranks agreed that this one receives, None for what stays as it is"""
    for array, result in zip(arrays[:outputs], results, strict=True):
        if isinstance(result, Patch):
            np.copyto(array, result.values.reshape(array.shape), where=result.written.reshape(array.shape))
        elif result is not None:
            dtypes.store(array, result.reshape(array.shape))


OPS = {kind: Op(f"nki.collectives.{kind}", describe, compute) for kind in KINDS}
