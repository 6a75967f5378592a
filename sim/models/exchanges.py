"""Where the groups of a sharding lie in a fabric, and what their collectives take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim.collectives import Exchange, exchange
from sim.fabrics import Fabric, Group, fabric
from sim.models.workload import Sharding
from sim.spec import Device

INNERMOST = ("tp", "cp", "dp", "pp")
"""Neighbours share what is exchanged most often."""


@dataclass(frozen=True, slots=True)
class Network:
    """The cores of a sharding in their fabric."""

    fabric: Fabric
    sharding: Sharding

    def group(self, name: str, ranks: int) -> Group:
        """The ranks of one group; all others of its kind exchange at the same time."""
        stride = 1
        for inner in INNERMOST[: INNERMOST.index(name)]:
            stride *= getattr(self.sharding, inner)
        return Group(ranks, stride, alone=False)

    def exchange(self, scalars: Mapping[str, Any]) -> Exchange:
        """One collective of a graph."""
        group = self.group(scalars["group"], scalars["ranks"])
        return exchange(scalars["kind"], scalars["size_bytes"], self.fabric, group)

    def __call__(self, scalars: Mapping[str, Any]) -> tuple[int, int, str]:
        """(duration in ps, bytes that a core sends, algorithm)"""
        found = self.exchange(scalars)
        exposed = scalars.get("exposed_ps")
        return found.duration_ps if exposed is None else exposed, found.bytes_on_wire, found.algorithm


def network(sharding: Sharding, device: Device | str, lnc: int) -> Network | None:
    """The smallest fabric of whole nodes that has all cores; None for one core alone.

    device : a device or the name of a fabric
    """
    if sharding.ranks == 1:
        return None
    node = fabric(device, lnc=lnc)
    chips = -(-sharding.ranks // node.ranks_per_chip)
    if chips > node.chips:
        chips = -(-chips // node.chips) * node.chips
    return Network(fabric(device, chips, lnc), sharding)
