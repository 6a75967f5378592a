"""How well the constants of collectives follow from the published listings, one point or one listing left out.

    python -m tests.collective_constants

Every constant that `sim/devices` says is from nccom-test is fitted anew, without what is left out, and the time of that
is estimated. A constant that only one listing tells of stays what the documents say without it, or is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from sim.fabrics import Fabric, fabric
from trnprof.validation.collectives import LARGE, Listing, listings

FLOOR = 1e-6
SWEEPS = 3
STEPS = 24
RATIO = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True)
class Constant:
    """A figure that is fitted, where it applies, and what it would be without any listing."""

    id: str
    where: str
    """The runtimes whose listings tell of it."""
    low: float
    high: float
    prior: float
    """Without any listing: documented, or no effect."""


CONSTANTS = (
    Constant("cc.base", "current", 1, 30, 6),
    Constant("cc.base_variable", "current", FLOOR, 30, FLOOR),
    Constant("cc.mesh_crowding", "current", FLOOR, 10, FLOOR),
    Constant("cc.base", "2023", 10, 200, 6),
    Constant("cc.alpha_ring", "2023", 1, 10, 1.5),
    Constant("cc.base_inter", "2023", FLOOR, 2000, FLOOR),
    Constant("cc.hbm_share", "2023", 0.1, 1, 0.66),
    Constant("cc.hidden", "2023", FLOOR, 1, FLOOR),
    Constant("cc.byte_reduction", "2023", 1, 4, 1),
    Constant("cc.base", "slow-steps", 1, 200, 6),
    Constant("cc.alpha_ring", "slow-steps", 1, 300, 1.5),
    Constant("cc.hbm_share", "slow-steps", 0.1, 1, 1.0),
    Constant("cc.rdh_share", "current, slow-steps", 0.05, 1, 1),
)
"""`cc.hbm_share` without a listing: what the DMA engines can do of HBM's bandwidth."""

Point = tuple[Listing, int, float]
Values = dict[tuple[str, str], float]


def points() -> list[Point]:
    return [(one, size, time) for one in listings() if one.fitted for size, time in one.points]


class Model:
    """Times of the listings with other constants."""

    def __init__(self) -> None:
        self._fabrics = {one.id: one.fabric() for one in listings()}

    def time(self, point: Point, values: Mapping[tuple[str, str], float]) -> float:
        """µs"""
        listing, size, _ = point
        made = self._fabrics[listing.id]
        given = {id: value for (id, where), value in values.items() if listing.how["runtime"] in where.split(", ")}
        return listing.exchange(size, _with(made, given)).duration_ps / 1e6

    def error(self, kept: Sequence[Point], values: Mapping[tuple[str, str], float]) -> float:
        return sum(abs(log(self.time(point, values) / point[2])) for point in kept)

    def fit(self, kept: Sequence[Point], start: Values) -> Values:
        """The constants that the points tell of, by turns, each within its bounds."""
        values = dict(start)
        for _ in range(SWEEPS):
            for each in CONSTANTS:
                key = (each.id, each.where)
                told = [point for point in kept if point[0].how["runtime"] in each.where.split(", ")]
                values[key] = self._best(each, told, values) if told else each.prior
        return values

    def _best(self, each: Constant, kept: Sequence[Point], values: Values) -> float:
        key = (each.id, each.where)

        def miss(at: float) -> float:
            return self.error(kept, {**values, key: at})

        if miss(each.low) == miss(each.high) == miss(values[key]):
            return each.prior
        # The constants of a power apart: a golden section of the logarithm.
        low, high = log(max(each.low, FLOOR)), log(each.high)
        for _ in range(STEPS):
            one, other = high - RATIO * (high - low), low + RATIO * (high - low)
            low, high = (low, other) if miss(2.718281828459045**one) < miss(2.718281828459045**other) else (one, high)
        found = 2.718281828459045 ** ((low + high) / 2)
        return min((found, values[key]), key=miss)


def _with(made: Fabric, given: Mapping[str, float]) -> Fabric:
    figures = {id: replace(made.device.figure(id), value=value) for id, value in given.items()}
    return replace(made, device=made.device.with_figures(figures))


def shipped() -> Values:
    """What `sim/devices` has."""
    devices = {"current": fabric("trn2"), "2023": fabric("trn1", 1, None, "2023")}
    devices["slow-steps"] = fabric("trn2", 2, 1, "slow-steps")
    return {(each.id, each.where): devices[each.where.split(", ")[-1]].device[each.id] for each in CONSTANTS}


def left_out(model: Model, start: Values, by_listing: bool) -> Iterator[tuple[Point, float]]:
    """Each point with its signed error, fitted without it, or without its listing."""
    everything = points()
    known: dict[str, Values] = {}
    for point in everything:
        if by_listing and point[0].id not in known:
            known[point[0].id] = model.fit([each for each in everything if each[0].id != point[0].id], start)
        kept = [each for each in everything if each is not point]
        values = known[point[0].id] if by_listing else model.fit(kept, start)
        yield point, model.time(point, values) / point[2] - 1


def summary(name: str, rows: Sequence[tuple[Point, float]]) -> str:
    def mape(errors: Sequence[float]) -> str:
        return f"{sum(map(abs, errors)) / len(errors):.1%}"

    large = [error for (_, size, _), error in rows if size >= LARGE]
    worst = max(rows, key=lambda row: abs(row[1]))
    return (
        f"{name:22} all {mape([error for _, error in rows]):>6}   from 1 MiB {mape(large):>6}   "
        f"worst {worst[1]:+.0%} {worst[0][0].id} {worst[0][1]} B"
    )


def main() -> None:
    model, start = Model(), shipped()
    print(summary("as shipped", [(point, model.time(point, start) / point[2] - 1) for point in points()]))
    fitted = model.fit(points(), start)
    print(summary("fitted on all", [(point, model.time(point, fitted) / point[2] - 1) for point in points()]))
    for each in CONSTANTS:
        key = (each.id, each.where)
        print(f"  {each.id:18} {each.where:19} shipped {start[key]:8.4g}  fitted {fitted[key]:8.4g}")
    for name, by_listing in (("one point left out", False), ("one listing left out", True)):
        rows = list(left_out(model, start, by_listing))
        print(summary(name, rows))
        for point, error in rows:
            if abs(error) > 0.15:
                print(f"  {point[0].id:22} {point[1]:>12} B {error:+7.0%}")


if __name__ == "__main__":
    main()
