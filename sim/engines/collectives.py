"""Collectives between ranks: what each costs, and what each moves.

Time is a start, a number of hops and the bytes on the wire (alpha-beta), by the algorithm that the runtime takes at
that size; contention between ranks is not modelled, and the figures `cc.*` are guesses or rough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from sim import dtypes
from sim.engines import laws
from sim.errors import InputError
from sim.memory import Layout
from sim.program import Cost, DmaCost, Form, Op, Role
from sim.spec import Device
from sim.trace import Engine, Memory, QueueType

US = 1000
"""ns in a microsecond."""
MEGA = 1e6
"""Bytes in a megabyte."""
QUEUE = "qCollective"
MESH_STEPS = 2
"""Hops of the mesh inside an instance: between chips, inside a chip (intranode-collective-comm)."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """How a collective loads the wire.

    passes : times that the data goes around; an all-reduce is a reduce-scatter and an all-gather
    wire   : bytes that a rank sends, from (bytes of its source, ranks)
    """

    passes: int
    wire: Callable[[int, int], float]


PATTERNS = {
    "all_reduce": Pattern(2, lambda nbytes, ranks: 2 * nbytes * (ranks - 1) / ranks),
    "all_gather": Pattern(1, lambda nbytes, ranks: nbytes * (ranks - 1)),
    "all_gather_v": Pattern(1, lambda nbytes, ranks: nbytes * (ranks - 1)),
    "reduce_scatter": Pattern(1, lambda nbytes, ranks: nbytes * (ranks - 1) / ranks),
    "all_to_all": Pattern(1, lambda nbytes, ranks: nbytes * (ranks - 1) / ranks),
    "all_to_all_v": Pattern(1, lambda nbytes, ranks: nbytes * (ranks - 1) / ranks),
    "collective_permute": Pattern(1, lambda nbytes, ranks: nbytes),
    "collective_permute_implicit": Pattern(1, lambda nbytes, ranks: nbytes),
    "collective_permute_implicit_reduce": Pattern(1, lambda nbytes, ranks: nbytes),
}


def describe(device: Device, layouts: tuple[Layout, ...], kind: str, outputs: int, ranks: int) -> Form:
    """outputs : how many of the operands, the first ones, are written"""
    srcs = layouts[outputs:]
    nbytes = sum(layout.nbytes for layout in srcs)
    pattern = PATTERNS[kind]
    wire = pattern.wire(nbytes, ranks)
    hops = pattern.passes * steps(device, kind, wire, ranks)
    in_hbm = sum(layout.nbytes for layout in layouts if layout.memory is Memory.HBM)
    issue = laws.ns(device["dma.issue_static"])
    transfer = DmaCost(
        dispatch_ps=laws.ns(US * (device["cc.base"] + hops * device["cc.alpha_ring"])),
        notify_ps=laws.ns(device["dma.notify_load"]),
        service_ps=laws.ns(wire / link_rate(device)),
        hbm_ps=laws.ns(in_hbm / device["hbm_nc"]),
        engines=int(device["dma_engines_nc"]),
        bytes=int(wire),
        descriptors=max(1, ceil(wire / device["dma.cc_packet"])),
        queue=QUEUE,
        queue_type=QueueType.UNKNOWN,
    )
    roles = (Role.WRITE,) * outputs + (Role.READ,) * len(srcs)
    return Form(
        call=f"nki.collectives.{kind}",
        engine=Engine.SYNC,
        opcode="COLLECTIVE",
        roles=roles,
        layouts=layouts,
        cost=Cost(issue, issue),
        dma=transfer,
        function=kind.upper(),
        dtype=dtypes.short(srcs[0].dtype),
        partitions=srcs[0].partitions,
        elements=srcs[0].elements,
    )


def link_rate(device: Device) -> float:
    """GB/s that one core has of its chip's links."""
    return device["neuronlink_bw"] / device["cores"]


def steps(device: Device, kind: str, wire: float, ranks: int) -> int:
    """Hops: one to a neighbour; else mesh, recursive doubling or ring by size (intranode-collective-comm)."""
    if kind.startswith("collective_permute"):
        return 1
    if wire < device["cc.mesh_rdh_switch"] * MEGA:
        return MESH_STEPS
    if wire < device["cc.rdh_kanga_switch"] * MEGA:
        return ceil(log2(ranks)) if ranks > 1 else 1
    return max(1, ranks // 2)


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
    arrays: list[np.ndarray], kind: str, outputs: int, ranks: int, results: Sequence[np.ndarray | Patch | None]
) -> None:
    """results : what the ranks agreed that this one receives, None for what stays as it is"""
    for array, result in zip(arrays[:outputs], results, strict=True):
        if isinstance(result, Patch):
            np.copyto(array, result.values.reshape(array.shape), where=result.written.reshape(array.shape))
        elif result is not None:
            dtypes.store(array, result.reshape(array.shape))


OPS = {kind: Op(f"nki.collectives.{kind}", describe, compute) for kind in PATTERNS}
