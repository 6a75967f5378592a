"""The words behind the codes of a column, as files of ours and queries write them."""

from __future__ import annotations

from sim.trace import ENGINE_NAMES, EdgeKind, Memory, QueueType, RegionKind, Wait

WORDS: dict[str, tuple[str, ...]] = {
    "instructions.engine": ENGINE_NAMES,
    **{
        column: tuple(member.name for member in kind)
        for column, kind in {
            "instructions.wait": Wait,
            "transfers.wait": Wait,
            "transfers.queue_type": QueueType,
            "transfers.source_memory": Memory,
            "transfers.dest_memory": Memory,
            "packets.queue_type": QueueType,
            "edges.kind": EdgeKind,
            "regions.kind": RegionKind,
            "tensors.memory": Memory,
            "allocations.memory": Memory,
        }.items()
    },
}
