"""What a million tokens, samples or launches take of machines, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from sim import spec
from trnprof.sweep.record import Outcome

SECONDS_AN_HOUR = 3600
MILLION = 1e6


def chip_hours(outcome: Outcome) -> float | None:
    """Hours of chips, of which only the cores in use count, for a million units."""
    if outcome.throughput is None or outcome.chips is None:
        return None
    return outcome.chips * MILLION / outcome.throughput / SECONDS_AN_HOUR


def price(outcome: Outcome, prices: Mapping[str, float]) -> float | None:
    """Price of a million units on the cheapest machine of the device that has one.

    A machine with more cores than are used works on several copies; of a smaller one there are as many as it takes.
    """
    if outcome.throughput is None or outcome.cores is None:
        return None
    offers = [_hourly(name, each, outcome) for name, each in prices.items()]
    found = [offer for offer in offers if offer is not None]
    return min(found) * MILLION / outcome.throughput / SECONDS_AN_HOUR if found else None


def _hourly(name: str, each: float, outcome: Outcome) -> float | None:
    """What an hour of the point's cores costs on machines of that name; None for those of another device."""
    size = next((one for one in spec.instances() if one.name.lower() == name.lower()), None)
    device = spec.device(size.device if size else name)
    if device.name != outcome.device:
        return None
    paid = size.neuroncores if size else int(device["cores"])
    copies = paid // outcome.cores
    return each / copies if copies else each * ceil(outcome.cores / paid)
