"""The critical path of a trace: what its end hung on, moment by moment, and how much slack the rest had.

The segments tile the kernel window: their lengths add up to it exactly. In emulated traces they follow the recorded
causes; in captured profiles what the profile shows of them, and gaps that it does not explain are `unknown`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from functools import cached_property

import numpy as np

from sim.trace import NONE, Engine, Trace
from trnprof.chain import Cause, Chain, walk
from trnprof.circuits import Circuit, circuits
from trnprof.words import ENGINE_WORDS
from trnprof.work import Index

CAUSES = tuple(cause.name.lower() for cause in Cause)

CAUSE_WORDS = {
    "engine": "engine busy",
    "issue": "issue",
    "semaphore": "semaphore",
    "dma_latency": "DMA latency",
    "dma_bandwidth": "DMA bandwidth",
    "buffer": "buffer reuse",
    "table": "table load",
    "collective": "collective",
    "unknown": "unknown",
}


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Pieces of the path, the earliest first; arrays of equal length, times in ps."""

    start_ps: np.ndarray
    end_ps: np.ndarray
    row: np.ndarray
    """The instruction at work or waited for, -1 when none is known."""
    transfer: np.ndarray
    """The transfer under way, -1 for none."""
    cause: np.ndarray
    """trnprof.chain.Cause; `CAUSES` has the names."""

    def __len__(self) -> int:
        return len(self.start_ps)


@dataclass(frozen=True, slots=True)
class LineShare:
    """What one source line has of the path."""

    source: str
    time_ps: int
    share: float
    cause: str
    """The cause that has most of it."""


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """What a trace's end hung on."""

    chain: Chain = field(repr=False)
    kernel: str
    start_ps: int
    end_ps: int
    segments: Segments
    causes: dict[str, int]
    """ps of every cause in `CAUSES`; adds up to the window."""
    engines: dict[str, int]
    """ps of the cause `engine`, by engine; the longest first."""
    lines: tuple[LineShare, ...]
    """The longest first; empty when the trace names no lines."""
    circuits: tuple[Circuit, ...]
    """What loops are held up by, the longest first."""
    estimated: bool

    @property
    def time_ps(self) -> int:
        return self.end_ps - self.start_ps

    @property
    def rows(self) -> np.ndarray:
        """Instructions that the path runs through, ascending; int64."""
        return np.unique(self.segments.row[self.segments.row >= 0])

    @cached_property
    def slack_ps(self) -> np.ndarray:
        """How much later each instruction could have completed without moving the end; 0 on the path; int64 [rows]."""
        return slack(self.chain, self.rows)

    def share(self, cause: str) -> float:
        """The cause's part of the window, 0-1."""
        return self.causes[cause] / self.time_ps if self.time_ps else 0.0

    def to_json(self, segments: bool = True) -> dict[str, object]:
        """segments : with every piece of the path"""
        found = {
            "kernel": self.kernel,
            "is_simulation": self.estimated,
            "time_ps": self.time_ps,
            "start_ps": self.start_ps,
            "end_ps": self.end_ps,
            "causes": {name: {"time_ps": ps, "share": self.share(name)} for name, ps in self.causes.items()},
            "engines": dict(self.engines),
            "lines": [asdict(line) for line in self.lines],
            "circuits": [circuit.to_json() for circuit in self.circuits],
            "instructions": int(self.rows.size),
        }
        return {**found, "segments": _pieces(self.segments)} if segments else found


def critical_path(trace: Trace, index: Index | None = None) -> CriticalPath:
    """The critical path of a trace; all of its window is unknown without instructions, or where rows stand for several
    instructions."""
    chain = Chain(trace, index)
    segments = _columns(walk(chain))
    return CriticalPath(
        chain=chain,
        kernel=trace.meta.kernel,
        start_ps=chain.begin,
        end_ps=chain.end,
        segments=segments,
        causes=_causes(segments),
        engines=_engines(trace, segments),
        lines=_lines(trace, segments, chain.end - chain.begin),
        circuits=circuits(trace, segments.row, segments.start_ps, segments.end_ps),
        estimated=trace.meta.is_simulation,
    )


def _columns(pieces: list[tuple[int, int, int, int, int]]) -> Segments:
    table = np.array(pieces, np.int64).reshape(-1, 5)
    return Segments(*(np.ascontiguousarray(column) for column in table.T))


def _causes(segments: Segments) -> dict[str, int]:
    length = segments.end_ps - segments.start_ps
    return {name: int(length[segments.cause == code].sum()) for code, name in enumerate(CAUSES)}


def _engines(trace: Trace, segments: Segments) -> dict[str, int]:
    works = (segments.cause == Cause.ENGINE) & (segments.row >= 0)
    engine = trace.instructions.engine[segments.row[works]]
    length = (segments.end_ps - segments.start_ps)[works]
    total = {ENGINE_WORDS[each]: int(length[engine == each].sum()) for each in Engine if (engine == each).any()}
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def _lines(trace: Trace, segments: Segments, whole: int) -> tuple[LineShare, ...]:
    ins = trace.instructions
    if not ins.has("source"):
        return ()
    totals: dict[int, Counter[int]] = {}
    known = segments.row >= 0
    length = (segments.end_ps - segments.start_ps)[known].tolist()
    source, cause = ins.source[segments.row[known]].tolist(), segments.cause[known].tolist()
    for code, why, took in zip(source, cause, length):
        if code != NONE:
            totals.setdefault(code, Counter())[why] += took
    found = [
        LineShare(trace.strings[code] or "", took.total(), took.total() / whole, CAUSES[took.most_common(1)[0][0]])
        for code, took in totals.items()
    ]
    return tuple(sorted(found, key=lambda line: (-line.time_ps, line.source)))


def _pieces(segments: Segments) -> list[dict[str, object]]:
    columns = (segments.start_ps, segments.end_ps, segments.row, segments.transfer, segments.cause)
    return [
        {
            "start_ps": start,
            "end_ps": end,
            "instruction": row if row >= 0 else None,
            "transfer": transfer if transfer >= 0 else None,
            "cause": CAUSES[cause],
        }
        for start, end, row, transfer, cause in zip(*(column.tolist() for column in columns))
    ]


def slack(chain: Chain, path: np.ndarray) -> np.ndarray:
    """How much later each instruction could have completed without moving the end of the window, ps; int64 [rows].

    Kept: recorded dependences, the order of each engine, and whom each transfer waited for.
    path : instructions that have none, whatever the profile shows
    """
    from trnprof.jit.critical import tighten

    found = np.maximum(0, chain.end - chain.complete)
    found[path] = 0
    signaler, waiter, gap = _constraints(chain)
    order = np.argsort(-waiter, kind="stable")
    signaler, waiter, gap = signaler[order], waiter[order], gap[order]
    while tighten(signaler, waiter, gap, found):
        pass
    return found


def _constraints(chain: Chain) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(signaler, waiter, gap) of all that keeps an instruction from being late; int64."""
    ins, moved, edges = chain.trace.instructions, chain.moved, chain.trace.edges
    linked = np.flatnonzero((edges.signaler >= 0) & (edges.waiter >= 0))
    after = np.flatnonzero(chain.before >= 0)
    bound = np.flatnonzero(ins.wait_for >= 0)
    ahead = np.flatnonzero((moved.wait_for >= 0) & (moved.instruction >= 0))
    ahead = ahead[moved.instruction[moved.wait_for[ahead]] >= 0]
    first = (edges.signaler[linked], chain.before[after], ins.wait_for[bound], moved.instruction[moved.wait_for[ahead]])
    then = (edges.waiter[linked], after, bound, moved.instruction[ahead])
    gaps = (
        np.maximum(0, chain.start[edges.waiter[linked]] - chain.released[linked]),
        np.maximum(0, ins.wait_ps[after]),
        np.zeros(bound.size, np.int64),
        np.zeros(ahead.size, np.int64),
    )
    signaler, waiter, gap = (np.ascontiguousarray(np.concatenate(parts), np.int64) for parts in (first, then, gaps))
    kept = signaler != waiter
    return signaler[kept], waiter[kept], gap[kept]
