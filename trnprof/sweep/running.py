"""Runs what is not known yet of a sweep, over processes or a cluster, and keeps every outcome as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sim.errors import InputError
from trnprof import workers
from trnprof.home import cache_dir
from trnprof.sweep.cost import chip_hours, price
from trnprof.sweep.evaluation import KILLED, evaluate, killed
from trnprof.sweep.fronts import best, idle, turns
from trnprof.sweep.kept import Kept, Keys
from trnprof.sweep.record import Outcome, Point, Result, Specification, Swept
from trnprof.sweep.specification import points

MOST = 1_000
"""Points that run without being asked for by number."""

Progress = Callable[[int, int, int], None]
"""Told of (points that are known, of how many, those of them that an earlier run has kept)."""


def sweep(
    specification: Specification,
    engine: str = "local",
    address: str | None = None,
    *,
    jobs: int | None = None,
    folder: Path | None = None,
    anew: bool = False,
    most: int = MOST,
    progress: Progress | None = None,
) -> Swept:
    """Every point of a sweep; what was run before, with the same content, is not run again.

    engine, address : where points run, see `trnprof.workers`
    jobs            : processes of this machine, its processors when None
    folder          : where outcomes are kept; the user's cache when None
    anew            : run what is kept again
    raises          : InputError for more than `most` points; a point's own faults are in its outcome
    """
    if specification.size > most:
        what = f"{specification.source}: {specification.size} points, more than {most}"
        raise InputError(what, remedy=_sizes(specification))
    todo, store, keys = list(points(specification)), Kept(folder or cache_dir() / "sweeps"), Keys()
    named = [keys(point) for point in todo]
    found: dict[int, Outcome] = {} if anew else _found(store, named)
    kept, tell = {*found}, progress or (lambda *_: None)
    tell(len(found), len(todo), len(kept))
    for number, outcome in _run([n for n in range(len(todo)) if n not in found], todo, (engine, address, jobs)):
        if outcome.exit_code != KILLED:
            store.add(named[number], outcome)
        found[number] = outcome
        tell(len(found), len(todo), len(kept))
    return swept(specification, todo, [found[number] for number in range(len(todo))], kept)


def _sizes(specification: Specification) -> str:
    return " x ".join(f"{len(axis.values)} {axis.title}" for axis in specification.axes)


def _found(store: Kept, named: Sequence[str]) -> dict[int, Outcome]:
    looked = ((number, store.find(key)) for number, key in enumerate(named))
    return {number: outcome for number, outcome in looked if outcome is not None}


def _run(
    rest: list[int], todo: Sequence[Point], place: tuple[str, str | None, int | None]
) -> Iterator[tuple[int, Outcome]]:
    """Number and outcome of points as they come; one that loses every worker is set aside, and the others go on."""
    engine, address, jobs = place
    if engine == "local" and jobs is None:
        jobs = max(1, min(workers.processors(), len(rest)))
    while rest:
        done: set[int] = set()
        try:
            for index, outcome in workers.map(evaluate, [todo[n] for n in rest], engine, address, workers=jobs):
                done.add(rest[index])
                yield rest[index], outcome
        except workers.LostError as fault:
            number = rest[fault.item]
            done.add(number)
            yield number, killed(todo[number], f"{fault.message.partition(': ')[2]} ({fault.remedy})")
        rest = [number for number in rest if number not in done]


def swept(specification: Specification, todo: Sequence[Point], outcomes: Sequence[Outcome], kept: set[int]) -> Swept:
    """Outcomes with what they cost, which are best, and where the bound turns."""
    prices = specification.prices
    results = [
        Result(number, point.parameters, outcome, number in kept, chip_hours(outcome), price(outcome, prices))
        for number, (point, outcome) in enumerate(zip(todo, outcomes, strict=True))
    ]
    made = Swept(specification, tuple(results), turns(specification, results), idle(specification, results))
    works: dict[tuple, list[Result]] = {}
    for one in results:
        works.setdefault(made.work(one), []).append(one)
    chosen = {number for group in works.values() for number in best(group, made.cost)}
    return replace(made, results=tuple(replace(one, best=one.number in chosen) for one in results))
