"""Published times of collectives beside ours.

The page prints neither instance nor release; `collectives.json` says what each listing is taken to be, by its ranks,
its floor and how it prints numbers. Listings with a `value` of their own were not used for any constant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from sim.collectives import Exchange, exchange
from sim.fabrics import Fabric, between, fabric
from trnprof.validation import published
from trnprof.validation.score import Comparison

FILE = Path(__file__).with_name("collectives.json")
LARGE = 1 << 20
"""Bytes from which a collective is a large one."""
SMALL_LEVEL, LARGE_LEVEL, APART_LEVEL = "collective", "large collective", "collective apart"


@dataclass(frozen=True, slots=True)
class Listing:
    """One published table of sizes and times, and what it was run on."""

    id: str
    how: Mapping[str, Any]
    points: tuple[tuple[int, float], ...]
    """Bytes, µs."""
    fitted: bool
    """Constants were fitted on it."""

    def fabric(self) -> Fabric:
        how = self.how
        return fabric(how["fabric"], how["chips"], how.get("lnc"), how["runtime"])

    def exchange(self, size: int, made: Fabric) -> Exchange:
        how = self.how
        return exchange(
            how["kind"],
            how.get("payload_bytes", size),
            made,
            how.get("group"),
            element_bytes=how["element_bytes"],
            variable=how.get("variable", False),
        )


@cache
def listings() -> tuple[Listing, ...]:
    """In the order of the file."""
    known = {record.id: record for record in published.records()}
    found = []
    for how in json.loads(FILE.read_text(encoding="utf-8")):
        points = how.get("value") or known[how["id"]].value
        found.append(Listing(how["id"], how, tuple((size, time) for size, time in points), "value" not in how))
    return tuple(found)


def compare(only: str = "") -> Iterator[Comparison]:
    """Every published size and time beside ours.

    only : a regular expression; listings whose id does not match are left out
    """
    for listing in listings():
        if not re.search(only, listing.id):
            continue
        made = listing.fabric()
        for size, time in listing.points:
            level = LARGE_LEVEL if size >= LARGE else SMALL_LEVEL
            low, high = between(partial(_estimate, listing, size), made)
            yield Comparison(
                id=f"{listing.id}: {size} B",
                level=level if listing.fitted else APART_LEVEL,
                quantity="time",
                measured=time * 1e3,
                estimate=_estimate(listing, size, made),
                low=low,
                high=high,
                unit="ns",
                device=made.device.name,
                note=listing.how.get("note", ""),
            )


def _estimate(listing: Listing, size: int, made: Fabric) -> float:
    """ns"""
    return listing.exchange(size, made).duration_ps / 1e3
