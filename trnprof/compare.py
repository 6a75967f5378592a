"""Two traces side by side: what became faster or slower, where, and by which cause.

Parts are aligned, not only counted: kernels, loops and operators by their path in the tree of regions, source lines by
what they do and in which order, so that a line that was pushed down by an edit is still the same line. What differs in
the circumstances (device, shapes, cores, emulated or captured) is said first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from functools import cached_property

import numpy as np

from sim.figures import catalogue
from sim.trace import NONE, Trace
from trnprof.bounds import Verdict, judge
from trnprof.critical import CAUSES, CriticalPath, critical_path
from trnprof.machine import machine, working_cores
from trnprof.matching import Matching, match
from trnprof.regions import Region, by_region, by_source_line, whole
from trnprof.words import ENGINE_WORDS
from trnprof.work import ENGINES, Index

MOST_LINES = 2000
"""Source lines of a trace that are aligned by what they do; beyond that, by number alone."""


@dataclass(frozen=True, slots=True)
class Side:
    """A part of one of the traces."""

    time_ps: int
    path_ps: int
    """What the critical path spends in it."""
    instructions: int
    hbm_bytes: int
    source: str | None


@dataclass(frozen=True, slots=True)
class Part:
    """A region or source line in both traces; None where one of them lacks it."""

    kind: str
    name: str
    before: Side | None
    after: Side | None

    @property
    def change_ps(self) -> int:
        """Of the time."""
        return (self.after.time_ps if self.after else 0) - (self.before.time_ps if self.before else 0)

    @property
    def path_change_ps(self) -> int:
        """Of the critical path: over all lines, what the window changes by."""
        return (self.after.path_ps if self.after else 0) - (self.before.path_ps if self.before else 0)

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "change_ps": self.change_ps, "path_change_ps": self.path_change_ps}


@dataclass(frozen=True, eq=False)
class Comparison:
    """What changed from one trace to the other; times of a cause, engine or part as (before, after), ps."""

    traces: tuple[Trace, Trace]
    time_ps: tuple[int, int]
    """Kernel windows."""
    verdicts: tuple[Verdict, Verdict]
    causes: dict[str, tuple[int, int]]
    """Of the critical paths, by cause; their sums are the windows."""
    engines: dict[str, tuple[int, int]]
    """Active time, DMA included."""
    hbm_bytes: tuple[int, int]
    regions: tuple[Part, ...]
    """Kernels, operators, loops; in the order of the second trace."""
    lines: tuple[Part, ...]
    """The largest change of the critical path first."""
    warnings: tuple[str, ...]
    """What makes the traces hard to compare, one sentence each."""

    @property
    def change(self) -> float | None:
        """New time against old, 0 for none, 0.03 for 3 % slower; None without an old time."""
        before, after = self.time_ps
        return after / before - 1 if before else None

    @cached_property
    def matching(self) -> Matching:
        """Which instruction of one is which of the other."""
        return match(*self.traces)

    def to_json(self, instructions: bool = True) -> dict[str, object]:
        """instructions : with what the matching of instructions says"""
        found = {
            "time_ps": {"before": self.time_ps[0], "after": self.time_ps[1]},
            "change": self.change,
            "bound": {"before": self.verdicts[0].bound, "after": self.verdicts[1].bound},
            "causes": _both(self.causes),
            "engines": _both(self.engines),
            "hbm_bytes": {"before": self.hbm_bytes[0], "after": self.hbm_bytes[1]},
            "regions": [part.to_json() for part in self.regions],
            "lines": [part.to_json() for part in self.lines],
            "warnings": list(self.warnings),
        }
        return {**found, "instructions": self.matching.to_json()} if instructions else found


def _both(values: dict[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    return {name: {"before": before, "after": after} for name, (before, after) in values.items()}


def compare(before: Trace, after: Trace) -> Comparison:
    """What changed from one trace to the other."""
    one, other = _Half(before), _Half(after)
    return Comparison(
        traces=(before, after),
        time_ps=(one.whole.work.time_ps, other.whole.work.time_ps),
        verdicts=(one.verdict, other.verdict),
        causes={name: (one.path.causes[name], other.path.causes[name]) for name in CAUSES},
        engines={name: (one.active[name], other.active[name]) for name in one.active},
        hbm_bytes=(one.whole.work.hbm_bytes, other.whole.work.hbm_bytes),
        regions=tuple(_regions(one, other)),
        lines=tuple(sorted(_lines(one, other), key=lambda part: (-abs(part.path_change_ps), -abs(part.change_ps)))),
        warnings=tuple(warnings(before, after)),
    )


class _Half:
    """One of the two traces, measured."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.index = Index(trace)
        self.whole = whole(trace, self.index)
        self.path: CriticalPath = critical_path(trace, self.index)
        self.verdict = judge(self.index, machine(trace), self.whole)
        work = self.whole.work
        self.active = {ENGINE_WORDS[engine]: work.active_ps[engine] for engine in range(ENGINES)}
        self.active |= {"DMA": work.dma_active_ps, "Collectives": work.collective_ps}

    @cached_property
    def _path_by_row(self) -> np.ndarray:
        """What the critical path spends at each instruction; int64 [rows]."""
        found = np.zeros(len(self.trace.instructions), np.int64)
        pieces = self.path.segments
        known = pieces.row >= 0
        np.add.at(found, pieces.row[known], (pieces.end_ps - pieces.start_ps)[known])
        return found

    def side(self, region: Region) -> Side:
        work = region.work
        return Side(
            time_ps=work.time_ps,
            path_ps=int(self._path_by_row[region.rows].sum()),
            instructions=sum(work.instructions),
            hbm_bytes=work.hbm_bytes,
            source=region.source,
        )

    @cached_property
    def tree(self) -> dict[tuple, Region]:
        """Kernels, operators and loops by where they stand: (kind, name without its line, number), outermost first.

        A single root has no name: it is the same kernel whatever it is called.
        """
        paths: dict[int, tuple] = {}
        found: dict[tuple, Region] = {}
        seen: dict[tuple, int] = defaultdict(int)
        alone = np.count_nonzero(self.trace.regions.parent == NONE) == 1
        for region in by_region(self.trace, self.index):
            above = paths.get(region.parent, ())
            if region.kind == "line":
                continue
            name = "" if not above and alone else region.name.partition(" at line ")[0]
            here = (*above, (region.kind, name))
            path = (*here[:-1], (*here[-1], seen[here]))
            seen[here] += 1
            paths[region.index] = path
            found[path] = region
        return found

    @cached_property
    def lines(self) -> list[Region]:
        """Source lines in the order of file and number."""
        return sorted(by_source_line(self.trace, self.index), key=lambda region: _place(region.source))

    def does(self, line: Region) -> tuple:
        """What a line does: the file, and the opcodes of its instructions."""
        ins = self.trace.instructions
        opcodes = sorted({(int(ins.engine[row]), self.trace.strings[int(ins.opcode[row])] or "") for row in line.rows})
        return _place(line.source)[0], tuple(opcodes)


def _place(source: str | None) -> tuple[str, int]:
    """(file without folders, line) of `path:line`."""
    path, _, line = (source or "").replace("\\", "/").rpartition(":")
    return path.rpartition("/")[2], int(line) if line.isdecimal() else 0


def _regions(one: _Half, other: _Half) -> Iterator[Part]:
    """Regions of the kinds that both traces have."""
    kinds = {region.kind for region in one.tree.values()} & {region.kind for region in other.tree.values()}
    for path, region in other.tree.items():
        twin = one.tree.get(path)
        if region.kind in kinds:
            yield Part(region.kind, region.name, one.side(twin) if twin else None, other.side(region))
    for path, region in one.tree.items():
        if path not in other.tree and region.kind in kinds:
            yield Part(region.kind, region.name, one.side(region), None)


def _lines(one: _Half, other: _Half) -> Iterator[Part]:
    """Source lines; none where one of the traces names none."""
    if not (one.lines and other.lines):
        return
    pairs = dict(_line_pairs(one, other))
    for number, line in enumerate(one.lines):
        twin = pairs.get(number)
        after = None if twin is None else other.side(other.lines[twin])
        yield Part("line", (line if twin is None else other.lines[twin]).name, one.side(line), after)
    for number in sorted(set(range(len(other.lines))) - set(pairs.values())):
        yield Part("line", other.lines[number].name, None, other.side(other.lines[number]))


def _line_pairs(one: _Half, other: _Half) -> Iterator[tuple[int, int]]:
    """Which line of one is which of the other: in order, by what they do; by number where there are very many."""
    if max(len(one.lines), len(other.lines)) > MOST_LINES:
        numbers = {_place(line.source): number for number, line in enumerate(other.lines)}
        found = ((number, numbers.get(_place(line.source))) for number, line in enumerate(one.lines))
        yield from ((number, twin) for number, twin in found if twin is not None)
        return
    keys = [[half.does(line) for line in half.lines] for half in (one, other)]
    left: list[list[int]] = [[], []]
    for tag, a, b, c, d in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from zip(range(a, b), range(c, d))
        else:
            left[0] += range(a, b)
            left[1] += range(c, d)
    yield from _same_place(one, other, *left)


def _same_place(one: _Half, other: _Half, first: Iterable[int], then: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Of the lines that do something else now, those that still stand where they stood."""
    numbers = {_place(other.lines[number].source): number for number in then}
    for number in first:
        twin = numbers.get(_place(one.lines[number].source))
        if twin is not None:
            yield number, twin


def warnings(before: Trace, after: Trace) -> Iterator[str]:
    """What differs in the circumstances, one sentence each."""
    one, other = before.meta, after.meta
    for what, was, now in (
        ("kernel", one.kernel, other.kernel),
        ("device", one.device, other.device),
        ("number of working cores", working_cores(before), working_cores(after)),
        ("logical core size (lnc)", one.lnc, other.lnc),
        ("tool", one.tool, other.tool),
    ):
        if was != now and was and now:
            yield f"The {what} differs: {was} before, {now} after."
    if one.is_simulation != other.is_simulation:
        first, then = ("emulated", "captured") if one.is_simulation else ("captured", "emulated")
        yield f"The first is {first}, the second {then}: a part of any change is the emulator's error."
    if one.what_if != other.what_if:
        changed = {id for id in {*one.what_if, *other.what_if} if one.what_if.get(id) != other.what_if.get(id)}
        ids = sorted(id for id in changed if not _roots(id) & changed)
        yield f"Figures of the device were set: {', '.join(ids[:6])}{' and more' if len(ids) > 6 else ''}."
    yield from _shapes(before, after)
    yield from _values(before, after)
    for name, trace in (("first", before), ("second", after)):
        if trace.meta.quarantined:
            yield f"The {name} trace lacks {trace.meta.quarantined} rows that could not be read."


def _roots(id: str) -> set[str]:
    """Figures that a figure moves with."""
    entry = catalogue().get(id)
    return {root.removeprefix("/") for root in entry.follows} if entry else set()


def _shapes(before: Trace, after: Trace) -> Iterator[str]:
    sides = [_tensors(trace) for trace in (before, after)]
    for name in sorted(sides[0].keys() & sides[1].keys()):
        (was, shape), (now, other) = sides[0][name], sides[1][name]
        if shape != other or (was != now and was and now):
            yield f"The tensor {name} differs: {was}{shape} before, {now}{other} after."
    if all(sides):
        for name in sorted(sides[0].keys() ^ sides[1].keys()):
            yield f"Only the {'first' if name in sides[0] else 'second'} trace has a tensor {name}."


def _tensors(trace: Trace) -> dict[str, tuple[str, str]]:
    """Inputs and outputs: name -> dtype, empty when unknown, and shape."""
    table, text = trace.tensors, trace.text
    return {
        text(table, "name", row) or "": (text(table, "dtype", row) or "", text(table, "shape", row) or "")
        for row in range(len(table))
        if text(table, "type", row) in ("IN", "OUT", "WEIGHT") and table.name[row] != NONE
    }


def _values(before: Trace, after: Trace) -> Iterator[str]:
    """Whether emulated runs computed the same."""
    digests = [
        {output["name"]: output.get("sha256") for output in trace.meta.outputs if output.get("sha256")}
        for trace in (before, after)
    ]
    changed = sorted(name for name in digests[0].keys() & digests[1].keys() if digests[0][name] != digests[1][name])
    if changed:
        yield f"The values of {', '.join(changed)} differ."
