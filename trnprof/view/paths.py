"""The critical path, what-ifs and comparisons as a screen shows them: the same figures with their words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.spec import device
from sim.trace import Trace
from trnprof.circuits import Circuit
from trnprof.compare import Comparison, Part
from trnprof.critical import CAUSE_WORDS, CAUSES, CriticalPath, critical_path
from trnprof.view import format as words
from trnprof.view.records import Record
from trnprof.whatif import SETTINGS, Value, WhatIf
from trnprof.work import Index

MOST_PARTS = 200
"""Regions and lines of a comparison, those that changed most."""


@dataclass(frozen=True, slots=True)
class CauseRow(Record):
    """What one cause has of the critical path."""

    cause: str
    """A name in `trnprof.critical.CAUSES`."""
    name: str
    time_ps: int
    time_words: str
    share: float
    share_words: str
    note: str
    """Of the cause `engine`: which engines."""


@dataclass(frozen=True, slots=True)
class PathLine(Record):
    """What one source line has of the critical path."""

    place: str
    source: str
    time_ps: int
    time_words: str
    share_words: str
    mostly: str


@dataclass(frozen=True, slots=True)
class CircuitCard(Record):
    """A walk that the critical path repeats."""

    name: str
    headline: str
    """`3 rounds of ~7.06 µs, 59 % of the path`"""
    stations: tuple[tuple[str, str, str, int], ...]
    """Engine and opcode, source line, time in words, row."""
    t0_ps: int
    t1_ps: int


@dataclass(frozen=True, slots=True)
class PathCard(Record):
    """What the end of the trace hung on."""

    headline: str
    causes: tuple[CauseRow, ...]
    """The longest first; those of no time left out. They add up to the window."""
    lines: tuple[PathLine, ...]
    circuits: tuple[CircuitCard, ...]
    slack: str
    start_ps: np.ndarray
    """Of the pieces, which tile the window; int64."""
    end_ps: np.ndarray
    row: np.ndarray
    """Instruction of each piece, -1 for none."""
    transfer: np.ndarray
    cause: np.ndarray
    """Place in `CAUSES`."""


@dataclass(frozen=True, slots=True)
class SettingRow(Record):
    """A setting of a what-if."""

    name: str
    meaning: str
    value: str
    """What it is now; empty where it is a word."""
    word: str
    """The one value that it takes; empty where it takes numbers and factors."""


@dataclass(frozen=True, slots=True)
class ChangeRow(Record):
    """One figure before and after."""

    name: str
    kind: str
    before_ps: int | None
    after_ps: int | None
    before: str
    after: str
    change_ps: int
    change: str
    share_words: str
    """Of the whole time before, with its sign."""


@dataclass(frozen=True, slots=True)
class WhatIfCard(Record):
    """What a change would do."""

    settings: str
    headline: str
    before_ps: int
    time_ps: int
    time_words: str
    ratio: float | None
    change: str
    bound_before: str
    bound: str
    causes: tuple[ChangeRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompareCard(Record):
    """What changed from another trace to this one."""

    headline: str
    warnings: tuple[str, ...]
    causes: tuple[ChangeRow, ...]
    engines: tuple[ChangeRow, ...]
    regions: tuple[ChangeRow, ...]
    lines: tuple[ChangeRow, ...]
    """By their part of the critical path."""
    matched: str
    pairs: np.ndarray
    """int64[pairs, 2]: rows of the same instruction before and after, to lay one over the other."""


class Paths:
    """Writes the cards of one trace."""

    def __init__(self, trace: Trace, index: Index):
        self.trace = trace
        self.index = index

    @cached_property
    def path(self) -> CriticalPath:
        return critical_path(self.trace, self.index)

    @cached_property
    def card(self) -> PathCard:
        path, pieces = self.path, self.path.segments
        rows = words.plural(path.rows.size, "instruction")
        return PathCard(
            headline=f"{self._time(path.time_ps)} from first issue to last completion, through {rows}",
            causes=tuple(self._causes()),
            lines=tuple(self._line(line.source, line.time_ps, line.share, line.cause) for line in path.lines),
            circuits=tuple(self._circuit(circuit) for circuit in path.circuits),
            slack=self._slack(),
            start_ps=pieces.start_ps,
            end_ps=pieces.end_ps,
            row=pieces.row,
            transfer=pieces.transfer,
            cause=pieces.cause,
        )

    def slack(self, row: int) -> str:
        """How much later an instruction could end without moving the end of the trace."""
        left = int(self.path.slack_ps[row])
        return f"could end {self._time(left)} later" if left else "none: it holds up the end"

    def _causes(self) -> Iterable[CauseRow]:
        for name, ps in sorted(self.path.causes.items(), key=lambda item: -item[1]):
            if ps:
                parts = [f"{engine} {self._time(part)}" for engine, part in self.path.engines.items()]
                share = self.path.share(name)
                note = ", ".join(parts) if name == CAUSES[0] else ""
                yield CauseRow(name, CAUSE_WORDS[name], ps, self._time(ps), share, words.share(share), note)

    def _line(self, source: str, ps: int, share: float, cause: str) -> PathLine:
        place = words.place(source)
        return PathLine(place, words.plain(source, 200), ps, self._time(ps), words.share(share), CAUSE_WORDS[cause])

    def _circuit(self, circuit: Circuit) -> CircuitCard:
        rounds = words.plural(circuit.rounds, "round")
        total = "" if circuit.even else f" (median), {self._time(circuit.time_ps)} in all"
        return CircuitCard(
            name=words.plain(circuit.name, 120),
            headline=f"{rounds} of {self._time(circuit.period_ps)}{total}, {words.share(circuit.share)} of the path",
            stations=tuple(
                (f"{each.engine} {each.opcode}", words.place(each.source or ""), self._time(each.time_ps), each.row)
                for each in circuit.stations
            ),
            t0_ps=circuit.start_ps,
            t1_ps=circuit.end_ps,
        )

    def _slack(self) -> str:
        slack = self.path.slack_ps[~self.trace.instructions.control]
        none = int(np.count_nonzero(slack == 0))
        return f"{words.count(none)} of {words.plural(slack.size, 'instruction')} have no slack"

    def _time(self, ps: float) -> str:
        return words.estimate(words.time(ps), self.trace.meta.is_simulation and ps > 0)

    # --- what-ifs -------------------------------------------------------------------------------------------------

    def settings(self) -> tuple[SettingRow, ...]:
        """What a what-if can change on this trace's device, with the values that it has now."""
        table = device(self.trace.meta.device).replace(self.trace.meta.what_if)
        rows = []
        for name, setting in SETTINGS.items():
            now = [f"{words.digits(table[id])} {table.figure(id).unit}" for id in setting.figures if id in table]
            if now or setting.word:
                rows.append(SettingRow(name, setting.meaning, ", ".join(now), setting.word))
        return tuple(rows)

    def supposed(self, found: WhatIf) -> WhatIfCard:
        """The card of a what-if."""
        before, after = critical_path(found.was), critical_path(found.trace)
        pairs = {CAUSE_WORDS[name]: (before.causes[name], after.causes[name]) for name in CAUSES}
        marks = (found.was.meta.is_simulation, True)
        idle = [f"{name}: no time of this kernel depends on it." for name in found.idle]
        bound = words.bound(found.verdict.bound)
        change = "" if found.ratio is None else words.percent(found.ratio - 1)
        return WhatIfCard(
            settings=", ".join(f"{name}={value}" for name, value in found.settings.items()),
            headline=f"{words.estimate(words.time(found.time_ps))}, {change}; {bound}",
            before_ps=found.before_ps,
            time_ps=found.time_ps,
            time_words=words.estimate(words.time(found.time_ps)),
            ratio=found.ratio,
            change=change,
            bound_before=words.bound(found.before.bound),
            bound=bound,
            causes=tuple(_changes(pairs, marks, found.before_ps)),
            notes=(*idle, *found.notes),
        )


def supposition(settings: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
    """Settings as a key to keep an answer by."""
    return tuple(sorted((name, str(value).strip().lower()) for name, value in settings.items()))


def compared(found: Comparison) -> CompareCard:
    """The card of a comparison."""
    marks = tuple(trace.meta.is_simulation for trace in found.traces)
    whole, laid = found.time_ps[0], found.matching
    took = [words.estimate(words.time(ps), mark and ps > 0) for ps, mark in zip(found.time_ps, marks)]
    change = "" if found.change is None else f", {words.percent(found.change)}"
    shares = f"{words.share(laid.share_before)} of those before, {words.share(laid.share_after)} of those after"
    return CompareCard(
        headline=f"{took[0]} → {took[1]}{change}",
        warnings=tuple(words.plain(warning, 300) for warning in found.warnings),
        causes=tuple(_changes({CAUSE_WORDS[name]: pair for name, pair in found.causes.items()}, marks, whole)),
        engines=tuple(_changes(found.engines, marks, whole)),
        regions=tuple(_parts(found.regions, marks, whole, by_path=False)),
        lines=tuple(_parts(found.lines, marks, whole, by_path=True)),
        matched=f"{words.plural(len(laid.before), 'instruction')} matched: {shares}",
        pairs=np.column_stack((laid.before, laid.after)),
    )


def _changes(values: Mapping[str, tuple[int, int]], marks: tuple[bool, ...], whole: int) -> Iterable[ChangeRow]:
    """Figures that there are on either side, the largest change first."""
    for name, pair in sorted(values.items(), key=lambda item: -abs(item[1][1] - item[1][0])):
        if any(pair):
            yield _change(name, "", pair, marks, whole)


def _parts(parts: Iterable[Part], marks: tuple[bool, ...], whole: int, by_path: bool) -> Iterable[ChangeRow]:
    def size(part: Part) -> int:
        return abs(part.path_change_ps if by_path else part.change_ps)

    for part in sorted(parts, key=size, reverse=True)[:MOST_PARTS]:
        sides = (part.before, part.after)
        pair = tuple(None if side is None else side.path_ps if by_path else side.time_ps for side in sides)
        yield _change(words.plain(part.name, 120), part.kind, pair, marks, whole)


def _change(
    name: str, kind: str, pair: tuple[int | None, int | None], marks: tuple[bool, ...], whole: int
) -> ChangeRow:
    shown = ["" if ps is None else words.estimate(words.time(ps), mark and ps > 0) for ps, mark in zip(pair, marks)]
    change = (pair[1] or 0) - (pair[0] or 0)
    share = words.percent(change / whole) if whole else ""
    return ChangeRow(name, kind, *pair, *shown, change, words.delta(change), share)


def cause_index(cause: str) -> int:
    """Place in `PathCard.cause` of a cause's name."""
    return CAUSES.index(cause)
