"""What the rules look at: a trace with its sums, and what a saving on one resource does for the whole time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType

import numpy as np

from sim.trace import COMPUTE_ENGINES, NONE, Engine, Trace
from trnprof import words
from trnprof.advice.record import Advice, Gain
from trnprof.demand import MEMORY, NETWORK, Demand, demand
from trnprof.intervals import Spans, gaps, merge, overlap, overlap_ps
from trnprof.machine import Machine, machine
from trnprof.regions import Region, whole
from trnprof.work import ENGINES, Index, collective_spans, dma_spans, length_ps, with_text

LEAST = 0.02
"""A change that saves less of the time is not worth a word."""

SHOWN = 12
"""Instructions that an advice names; the rest are counted."""

ALIKE = 8
"""Instructions of one kind from which their usual distance is told."""

LINES = 4
"""Source lines that the evidence names."""

RESOURCES = (*COMPUTE_ENGINES, Engine.SYNC, MEMORY, NETWORK)

NAMES = {**{engine: words.ENGINE_WORDS[engine] for engine in RESOURCES}, MEMORY: "memory", NETWORK: "the network"}


class Subject:
    """One trace as the rules see it: its kernel window, cut into what each engine did."""

    def __init__(self, trace: Trace):
        self.trace = trace
        self.index = Index(trace)
        self.region: Region = whole(trace, self.index)
        self.roofs: Machine = machine(trace)
        self.estimated = trace.meta.is_simulation

    @cached_property
    def needed(self) -> Demand:
        return demand(self.index, self.roofs, self.region)

    @property
    def time_ps(self) -> int:
        return self.region.work.time_ps

    @property
    def rows(self) -> np.ndarray:
        """Instructions that do work."""
        return self.region.rows

    @cached_property
    def transfers(self) -> np.ndarray:
        """Transfers that are no collective's."""
        return self.index.local(self.region.transfers, self.region.packets)[0]

    @cached_property
    def packets(self) -> np.ndarray:
        """Packets that are no collective's."""
        return self.index.local(self.region.transfers, self.region.packets)[1]

    @cached_property
    def duration_ps(self) -> np.ndarray:
        """Of every row of the trace; int64 [rows]."""
        return self.trace.instructions.end_ps - self.trace.instructions.start_ps

    @cached_property
    def pace_ps(self) -> np.ndarray:
        """From each row's start until its engine starts the next, at most until its end; int64 [rows]."""
        ins, pace = self.trace.instructions, self.duration_ps.copy()
        lane = ins.core[self.rows].astype(np.int64) * len(Engine) + ins.engine[self.rows]
        for key in np.unique(lane):
            rows = self.rows[lane == key]
            start = ins.start_ps[rows]
            pace[rows[:-1]] = np.minimum(pace[rows[:-1]], np.diff(start))
        return pace

    def total(self, rows: np.ndarray, values: np.ndarray) -> int:
        """Sum over some rows, on the core where it is largest: cores work side by side."""
        core = np.maximum(0, self.trace.instructions.core[rows])
        return round(float(np.bincount(core, weights=values).max(initial=0.0))) if rows.size else 0

    def figure(self, name: str) -> float | None:
        return self.roofs.figures.get(name) if self.roofs.figures is not None else None

    # --- rows -----------------------------------------------------------------------------------------------------

    def of(self, engine: Engine) -> np.ndarray:
        """Rows in which an engine computes."""
        rows = self.rows[self.trace.instructions.engine[self.rows] == engine]
        return rows[~(self.index.issue[rows] | self.index.table[rows])]

    def having(self, column: str, fits: Callable[[str], bool]) -> np.ndarray:
        """Which rows of the trace have a text that fits; bool [rows]."""
        return with_text(self.trace, column, fits)

    @cached_property
    def collectives(self) -> np.ndarray:
        """Rows that are collectives or trigger one."""
        named = self.opcode("COLLECTIVE") | (self.trace.instructions.engine == Engine.COLLECTIVE)
        return self.rows[named[self.rows]]

    def opcode(self, *names: str) -> np.ndarray:
        return self.having("opcode", lambda text: text in names)

    def spans(self, rows: np.ndarray) -> Spans:
        ins = self.trace.instructions
        return merge(ins.start_ps[rows], ins.end_ps[rows])

    @cached_property
    def memory_spans(self) -> Spans:
        return merge(*dma_spans(self.trace, self.transfers, self.packets))

    # --- savings --------------------------------------------------------------------------------------------------

    @cached_property
    def busy(self) -> dict[Engine, int]:
        """Time that each resource is at work, ps; DMA triggers count as work of the engine that issues them."""
        busy = {engine: self.region.work.active_ps[engine] for engine in RESOURCES if engine < ENGINES}
        return busy | {MEMORY: self.needed.ceiling_ps[MEMORY], NETWORK: self.needed.active_ps[NETWORK]}

    @cached_property
    def leader(self) -> Engine:
        """The resource that sets the pace."""
        return max(RESOURCES, key=lambda key: self.busy[key])

    @cached_property
    def leading_spans(self) -> Spans:
        """When the leader is at work."""
        return self.spans_of(self.leader)

    def idle(self, inside: bool = False) -> Spans:
        """When the leader does nothing; of TensorE, the latency of a product that nothing follows is no work.

        inside : between its first and its last work only
        """
        start, end = self._streaming if self.leader == Engine.TENSOR else self.leading_spans
        low, high = self.region.window
        if inside and start.size:
            low, high = int(start[0]), int(end[-1])
        return gaps(start, end, low, high)

    @cached_property
    def _streaming(self) -> Spans:
        """TensorE's instructions, each until its like would follow back to back."""
        ins = self.trace.instructions
        rows = self.of(Engine.TENSOR)
        length = self.duration_ps[rows].copy()
        kind = np.stack((ins.opcode[rows], ins.elements[rows]), axis=1)
        for group in np.unique(kind, axis=0):
            mine = np.flatnonzero((kind == group).all(axis=1))
            if mine.size > ALIKE:
                apart = int(np.median(np.diff(ins.start_ps[rows[mine]])))
                length[mine] = np.minimum(length[mine], apart)
        return merge(ins.start_ps[rows], ins.start_ps[rows] + length)

    def gain(self, saved: Mapping[Engine, int], spans: Spans | None = None) -> Gain:
        """What savings on some resources do for the whole.

        saved : ps by resource
        spans : when the faulty work goes on; of a resource that does not lead, only what the leader waits for counts
        """
        first = self.leader
        if saved.get(first):
            left = {key: self.busy[key] - saved.get(key, 0) + self._around(key) for key in RESOURCES}
            then = max(RESOURCES, key=lambda key: left[key])
            ps = max(0, min(saved[first], self.time_ps - left[then]))
            return Gain(ps, f"{NAMES[first]}, the busiest, needs {self.time(saved[first])} less"
                            f"{'' if then == first else f', then {NAMES[then]} leads'}")  # fmt: skip
        if not any(saved.values()):
            return Gain(0, "")
        other = MEMORY if saved.get(MEMORY) else max(saved, key=lambda key: saved[key])
        part = min(1.0, saved[other] / self.busy[other]) if self.busy[other] else 0.0
        waits = overlap_ps(self.idle(), spans) if spans is not None else self.time_ps - self.busy[first]
        ps = min(saved[other], round(part * waits))
        how = (
            f"{NAMES[other]} needs {self.time(saved[other])} less of {self.time(self.busy[other])}, and "
            f"{NAMES[first]} idles for {self.time(waits)} while it works"
        )
        return Gain(max(0, ps), how)

    def spans_of(self, resource: Engine) -> Spans:
        """When a resource is at work."""
        if resource == MEMORY:
            return self.memory_spans
        if resource == NETWORK:
            return merge(*collective_spans(self.index, self.rows, self.region.transfers))
        return self.spans(self.rows[self.trace.instructions.engine[self.rows] == resource])

    def _around(self, resource: Engine) -> int:
        """Time before the leader's first and after its last work in which a resource does nothing: that stays."""
        start, end = self.leading_spans
        low, high = self.region.window
        if not start.size:
            return 0
        outside = np.array([low, int(end[-1])], np.int64), np.array([int(start[0]), high], np.int64)
        return self.time_ps - int(end[-1] - start[0]) - overlap_ps(outside, self.spans_of(resource))

    def meanwhile(self, spans: Spans, engine: Engine) -> Spans:
        """The part of some spans in which no byte moves and no engine but this one computes."""
        others = [self.spans(self.of(each)) for each in COMPUTE_ENGINES if each != engine]
        for each in (self.memory_spans, *others):
            spans = overlap(spans, gaps(*each, *self.region.window))
        return spans

    # --- words ----------------------------------------------------------------------------------------------------

    def time(self, ps: float) -> str:
        return words.estimate(words.time(ps), self.estimated)

    def text(self, column: str, row: int) -> str:
        return words.plain(self.trace.text(self.trace.instructions, column, row) or "", 120)

    def place(self, row: int) -> str | None:
        """`path:line` of an instruction."""
        return self.trace.text(self.trace.instructions, "source", row)

    def lines(self, rows: np.ndarray, what: str = "") -> tuple[str, ...]:
        """The source lines of some rows with counts and times, those that take longest first."""
        ins = self.trace.instructions
        found = []
        for code in np.unique(ins.source[rows]):
            mine = rows[ins.source[rows] == code]
            name = short_place(self.trace.strings[int(code)])
            found.append((length_ps(self.spans(mine)), mine.size, name, what or self.opcodes(mine)))
        found.sort(key=lambda item: (-item[0], item[2]))
        return tuple(self._line(*item) for item in found[:LINES])

    def _line(self, ps: int, count: int, place: str, kind: str) -> str:
        took = f", {self.time(ps)} in all" if ps else ""
        return f"{place}: {words.count(count)} {kind}{took}" if place else f"{words.count(count)} {kind}{took}"

    def name(self, row: int) -> str:
        """What the profile calls an instruction: its name, else its number."""
        return self.text("name", row) or f"#{int(self.trace.instructions.id[row])}"

    def opcodes(self, rows: np.ndarray) -> str:
        """Opcodes of some rows, the most frequent two."""
        codes, counts = np.unique(self.trace.instructions.opcode[rows], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:2]
        return " and ".join(words.plain(self.trace.strings[int(codes[k])] or "instruction", 40) for k in order)

    def tell(
        self,
        rule: str,
        title: str,
        symptom: str,
        rows: np.ndarray,
        gain: Gain,
        fix: str,
        reference: str = "",
        evidence: Iterable[str] = (),
        what_if: Mapping[str, str] = MappingProxyType({}),
    ) -> Advice:
        """The advice on some rows."""
        rows = np.asarray(rows, np.int64)
        longest = rows[np.argsort(-self.duration_ps[rows], kind="stable")][:SHOWN]
        index, name = self.region_of(rows)
        return Advice(
            rule=rule,
            title=title,
            gain_ps=gain.ps,
            share=gain.ps / self.time_ps if self.time_ps else 0.0,
            how=_sentence(gain.how),
            what_if=tuple(what_if.items()),
            retimed=False,
            symptom=_sentence(symptom),
            evidence=(*evidence, *self.lines(rows)),
            instructions=tuple(int(id) for id in self.trace.instructions.id[longest]),
            rows=tuple(longest.tolist()),
            names=tuple(self.name(row) for row in longest.tolist()),
            count=int(rows.size),
            region=name,
            index=index,
            source=self._source(rows),
            fix=fix,
            reference=reference,
            estimated=self.estimated,
        )

    def _source(self, rows: np.ndarray) -> str | None:
        source = self.trace.instructions.source[rows]
        known = source >= 0
        if not known.any():
            return None
        total = np.bincount(source[known], weights=self.duration_ps[rows][known])
        return self.trace.strings[int(np.argmax(total))]

    def region_of(self, rows: np.ndarray) -> tuple[int, str]:
        """The innermost region that holds all of some rows: its row of `trace.regions` and its name."""
        whole_name = words.plain(self.region.name, 80)
        inner = np.unique(self.trace.instructions.region[rows])
        if not inner.size or inner[0] == NONE:
            return NONE, whole_name
        chains = [self._ancestors(int(row)) for row in inner]
        shared = set(chains[0]).intersection(*chains[1:])
        if not shared:
            return NONE, whole_name
        index = max(shared)
        return index, words.plain(self.trace.text(self.trace.regions, "name", index) or whole_name, 80)

    def _ancestors(self, row: int) -> list[int]:
        chain = []
        while row != NONE:
            chain.append(row)
            row = int(self.trace.regions.parent[row])
        return chain


def short_place(source: str | None) -> str:
    """`matmul.py:35`"""
    return words.plain((source or "").replace("\\", "/").rpartition("/")[2], 80)


def plural(n: int, noun: str) -> str:
    return f"{words.count(n)} {noun}{'' if n == 1 else 's'}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
