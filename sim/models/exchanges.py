"""Where the groups of a sharding lie in a fabric, and what their collectives take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sim.arrivals import Slow
from sim.collectives import Exchange, exchange
from sim.errors import InputError
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
    slow_link: float = 1.0
    """Share of its rate that the links of one chip have; the exchanges that it takes part in are told."""

    def group(self, name: str, ranks: int) -> Group:
        """The ranks of one group; all others of its kind exchange at the same time."""
        stride = 1
        for inner in INNERMOST[: INNERMOST.index(name)]:
            stride *= getattr(self.sharding, inner)
        return Group(ranks, stride, alone=False)

    def exchange(self, scalars: Mapping[str, Any]) -> Exchange:
        """One collective of a graph."""
        group = self.group(scalars["group"], scalars["ranks"])
        slow = () if self.slow_link == 1 else (Slow(0, self.slow_link),)
        return exchange(scalars["kind"], scalars["size_bytes"], self.fabric, group, slow=slow)

    def __call__(self, scalars: Mapping[str, Any]) -> tuple[int, int, str]:
        """(duration in ps, bytes that a core sends in it, algorithm); of one that work hides, what is exposed."""
        found = self.exchange(scalars)
        exposed = scalars.get("exposed_ps")
        if exposed is None:
            return found.duration_ps, found.bytes_on_wire, found.algorithm
        share = Fraction(exposed, found.duration_ps) if found.duration_ps else 0
        return exposed, round(found.bytes_on_wire * share), found.algorithm


def network(sharding: Sharding, device: Device | str, lnc: int, slow_link: float = 1.0) -> Network | None:
    """The smallest fabric of whole nodes that has all cores; None for one core alone.

    device    : a device or the name of a fabric
    slow_link : share of their rate that the links of one chip have
    raises    : InputError for a share outside of 0 to 1
    """
    if not 0 < slow_link <= 1:
        raise InputError(f"slow_link={slow_link!r}: a share of the rate, above 0 and at most 1")
    if sharding.ranks == 1:
        return None
    node = fabric(device, lnc=lnc)
    chips = -(-sharding.ranks // node.ranks_per_chip)
    if chips > node.chips:
        chips = -(-chips // node.chips) * node.chips
    return Network(fabric(device, chips, lnc), sharding, slow_link)
