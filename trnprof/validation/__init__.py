"""Our estimates against what others measured: published kernels, captured instructions, peers' closed forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sim.errors import InputError
from trnprof.validation import collectives, instructions, kernels, peers, published, transfers
from trnprof.validation.coverage import Coverage, coverage
from trnprof.validation.score import Agreement, Comparison, Skipped, Total, agreement, total

LEVELS = {
    "kernel": "time of published kernels",
    "our kernel": "time of our own kernels of the same algorithms",
    "bytes": "HBM bytes",
    "spill": "spill bytes",
    "count": "matmuls and FLOPs",
    "share": "engine-active shares, points",
    "share with preamble": "the same where the profile counts preamble",
    "bound": "bound class",
    "instruction": "durations of captured instructions",
    "interval": "start-to-start intervals of captured instructions",
    "packet floor": "fastest DMA packets against the wire rate",
    "packet": "DMA packets against what kernels are charged",
    "wake": "semaphore wake-ups",
    "collective": "collectives below 1 MiB",
    "large collective": "collectives from 1 MiB",
    "collective apart": "collectives that no constant was fitted on",
    "peer": "peers' goldens in peer mode",
}
"""What is averaged together, and what it is called."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was compared and everything that was not."""

    rows: tuple[Comparison, ...]
    skipped: tuple[Skipped, ...]
    coverage: Coverage | None = None
    """Where intervals of several kernels were asked for."""

    def of(self, level: str) -> list[Comparison]:
        return [row for row in self.rows if row.level == level]

    def totals(self) -> list[tuple[str, Total]]:
        """By level, in the order of `LEVELS`."""
        found = [(level, total(name, self.of(level))) for level, name in LEVELS.items()]
        return [(level, result) for level, result in found if result is not None]

    def agreement(self) -> Agreement:
        """Which of two variants of a published kernel is faster."""
        return agreement(self.of("kernel"))

    def to_json(self) -> dict[str, Any]:
        return {
            "totals": [asdict(result) for _, result in self.totals()],
            "agreement": asdict(self.agreement()),
            "coverage": self.coverage and asdict(self.coverage),
            "rows": [row.to_json() for row in self.rows],
            "skipped": [asdict(each) for each in self.skipped],
        }


def validate(
    folders: Sequence[Path] = (),
    profiles: Path | None = None,
    only: str = "",
    samples: int = 0,
    done: Callable[[str], None] = lambda name: None,
) -> Report:
    """Compare all that can be compared.

    folders  : checkouts of the public repositories whose kernels were measured; our own kernels run always
    profiles : a folder of captured profiles; the kept medians of captured instructions are compared always
    only     : a regular expression; records whose id does not match are left out
    samples  : machines on which each kernel is timed for its interval, fewer where it is long; 0 for none
    done     : is told of each record and profile when it has been compared
    raises   : InputError where `only` is no regular expression or no record's id matches
    """
    outcomes: list[Comparison | Skipped] = []
    bench = kernels.Bench(folders, samples)
    exchanged = {listing.id for listing in collectives.listings()}
    for record in _wanted(only):
        outcomes += bench.compare(record) if record.id not in exchanged else ()
        outcomes += instructions.published(record)
        done(record.id)
    outcomes += collectives.compare(only)
    if not only:
        outcomes += _details(folders, profiles, done)
    rows = tuple(each for each in outcomes if isinstance(each, Comparison))
    return Report(rows, tuple(each for each in outcomes if isinstance(each, Skipped)), coverage(bench.cases))


def _wanted(only: str) -> list[published.Record]:
    try:
        found = [record for record in published.records() if re.search(only, record.id)]
    except re.error as fault:
        raise InputError(f"{only}: not a regular expression: {fault}") from None
    if not found:
        raise InputError(f"{only}: no record has such an id", remedy="trnprof validate --json names them all")
    return found


def _details(
    folders: Sequence[Path], profiles: Path | None, done: Callable[[str], None]
) -> Iterator[Comparison | Skipped]:
    captured = sorted(profiles.rglob("*.json")) if profiles is not None else []
    if not captured:
        yield from instructions.reference()
    for file in captured:
        yield from _profile(file)
        done(file.name)
    yield from peers.compare(folders)


def _profile(file: Path) -> Iterator[Comparison | Skipped]:
    from sim.errors import TrnprofError
    from trnprof.readers import open as open_trace

    try:
        trace = open_trace(str(file))
        yield from instructions.compare(trace)
        yield from transfers.compare(trace)
    except TrnprofError as error:
        yield Skipped(file.name, str(error))
