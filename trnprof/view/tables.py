"""Verdicts, engines, regions, source lines and selections, in words."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np

from sim.trace import COMPUTE_ENGINES, Engine, Trace
from trnprof.bounds import Verdict, judge
from trnprof.machine import Machine
from trnprof.regions import Region, by_source_line, selection, whole
from trnprof.roofline import Known, Point, place
from trnprof.view import format as words
from trnprof.view.answers import answer
from trnprof.view.palette import BOUND_GLYPHS, BOUNDS, NEUTRAL, bound_colour
from trnprof.view.records import (
    AreaCard,
    BoundShare,
    Dot,
    EngineRow,
    EvidenceLine,
    Fact,
    RegionRow,
    SourceRow,
    VerdictCard,
    Waiting,
)
from trnprof.view.timeline import Timeline
from trnprof.view.tracks import Row
from trnprof.work import Index

VERDICT = "verdict"
"""Name of the answer on the whole trace."""

MOST_ROWS = 500
"""Regions and lines that are judged and listed, the longest; the rest are counted."""

_SHORTEST_GAP = 1 / 20_000
"""Of a selection: shorter gaps are not added up by cause."""


class Tables:
    """Writes the tables of one trace."""

    def __init__(self, trace: Trace, timeline: Timeline, machine: Machine):
        self.trace = trace
        self.timeline = timeline
        self.machine = machine

    @cached_property
    def index(self) -> Index:
        return Index(self.trace)

    @cached_property
    def known(self) -> Known:
        """What the roofline stands on too."""
        return Known(self.index, whole(self.trace, self.index))

    def forget(self) -> None:
        """Let go of what the answers that are kept were found from; it is some bytes for each row."""
        for name in ("index", "known", "lines", "_found"):
            vars(self).pop(name, None)

    # --- verdicts -------------------------------------------------------------------------------------------------

    @cached_property
    def verdict(self) -> VerdictCard:
        """On the whole trace."""
        return answer(self.trace, VERDICT, VerdictCard, lambda: self.judged(self.known.everything))

    @cached_property
    def verdicts(self) -> tuple[VerdictCard, ...]:
        """On the regions of the tree."""
        kind = tuple[VerdictCard, ...]
        return answer(self.trace, "verdicts", kind, lambda: tuple(map(self.judged, self.tree[:MOST_ROWS])))

    def judged(self, region: Region) -> VerdictCard:
        return self._card(self._verdict(region))

    def _verdict(self, region: Region) -> Verdict:
        """On the whole or a region of the tree, found once."""
        if region.index not in self._found:
            self._found[region.index] = judge(self.index, self.machine, region)
        return self._found[region.index]

    @cached_property
    def _found(self) -> dict[int, Verdict]:
        return {}

    def _card(self, verdict: Verdict) -> VerdictCard:
        ranked = BOUNDS if verdict.bound else ()
        scores = sorted(ranked, key=lambda name: (name != verdict.bound, -verdict.scores[name]))
        shares = [name for name in sorted(BOUNDS, key=lambda name: -verdict.shares[name]) if verdict.shares[name] > 0]
        return VerdictCard(
            region=words.plain(verdict.region, 120),
            kind=verdict.kind,
            bound=verdict.bound or "",
            colour=bound_colour(verdict.bound),
            title=words.bound(verdict.bound),
            engine=verdict.engine or "",
            share=verdict.share or 0.0,
            share_words=words.share(verdict.share),
            margin=_margin(verdict),
            headline=_sentence(verdict.evidence[0].sentence) if verdict.evidence else "",
            shares=tuple(self._share(name, verdict.shares[name], verdict.time_ps) for name in shares),
            scores=tuple(self._share(name, verdict.scores[name], verdict.time_ps) for name in scores),
            evidence=tuple(self._evidence(item) for item in verdict.evidence),
            t0_ps=verdict.start_ps,
            t1_ps=verdict.end_ps,
        )

    def _share(self, bound: str, share: float, whole_ps: int) -> BoundShare:
        colour = BOUNDS.index(bound)
        return BoundShare(
            bound=bound,
            colour=colour,
            name=words.BOUND_WORDS[bound],
            short=BOUND_GLYPHS[colour].short,
            share=share,
            share_words=words.share(share),
            time_words=self._estimate(words.time(share * whole_ps)),
        )

    def _evidence(self, item) -> EvidenceLine:
        reached = words.level(item.reached, item.unit)
        return EvidenceLine(
            bound=item.bound,
            ceiling=item.ceiling,
            reached=self._estimate(reached) if item.unit != "share" else reached,
            limit=words.level(item.limit, item.unit),
            share=item.share,
            share_words=words.share(item.share),
            sentence=_sentence(item.sentence),
        )

    # --- engines --------------------------------------------------------------------------------------------------

    def engines(self, t0_ps: int, t1_ps: int) -> tuple[EngineRow, ...]:
        """How long each engine worked in a window, and on how many instructions."""
        rows = [item for item in self.timeline.rows.values() if isinstance(item, Row) and not item.track.quiet]
        found = [self._engine(item, t0_ps, t1_ps) for item in rows if item.idle is not None]
        return (*found, *(self._dma(item, t0_ps, t1_ps) for item in rows if item.track.kind == "packets"))

    def _engine(self, item: Row, t0_ps: int, t1_ps: int) -> EngineRow:
        table, track = self.trace.instructions, item.track
        active = round(float(item.idle.coverage(t0_ps, t1_ps)[0]))
        rows = item.idle.rows
        low = int(np.searchsorted(table.start_ps[rows], t1_ps))
        begun = rows[:low]
        count = int(np.count_nonzero(~table.control[begun] & (table.end_ps[begun] > t0_ps)))
        return self._row(track.core, track.engine, words.ENGINE_WORDS[track.engine], active, t1_ps - t0_ps, count)

    def _dma(self, item: Row, t0_ps: int, t1_ps: int) -> EngineRow:
        """The DMA engines of a core together: their mean share."""
        active = round(sum(float(lane.coverage(t0_ps, t1_ps)[0]) for lane in item.lanes) / len(item.lanes))
        moved = self.trace.transfers
        inside = (moved.core == item.track.core) & (moved.start_ps < t1_ps) & (moved.end_ps > t0_ps)
        name = f"DMA, mean of {len(item.lanes)}"
        return self._row(item.track.core, int(Engine.DMA), name, active, t1_ps - t0_ps, int(inside.sum()))

    def _row(self, core: int, engine: int, name: str, active_ps: int, span_ps: int, count: int) -> EngineRow:
        share = active_ps / span_ps if span_ps > 0 else 0.0
        return EngineRow(
            engine=engine,
            core=core,
            name=f"{name}, core {core}" if self.timeline.several else name,
            code=words.ENGINE_CODES[engine],
            colour=engine,
            share=share,
            share_words=words.share(share),
            active_ps=active_ps,
            active_words=self._estimate(words.time(active_ps)),
            instructions=count,
            instructions_words=words.count(count),
        )

    # --- regions and lines ----------------------------------------------------------------------------------------

    @property
    def tree(self) -> tuple[Region, ...]:
        """The trace's own regions; parents before children."""
        return self.known.tree

    @cached_property
    def lines(self) -> tuple[Region, ...]:
        """Source lines, the longest first."""
        return by_source_line(self.trace, self.index)

    def region(self, row: int) -> Region | None:
        """The region with this row of `trace.regions`."""
        return next((region for region in self.tree if region.index == row), None)

    @cached_property
    def regions(self) -> tuple[RegionRow, ...]:
        """The tree as a table, in its order; of a large one the longest regions only."""
        return answer(self.trace, "regions", tuple[RegionRow, ...], self._regions)

    def _regions(self) -> tuple[RegionRow, ...]:
        longest = sorted(self.tree, key=lambda region: -region.work.time_ps)[:MOST_ROWS]
        kept = {id(region) for region in longest}
        return tuple(self._region(region) for region in self.tree if id(region) in kept)

    def _region(self, region: Region) -> RegionRow:
        verdict = self._verdict(region)
        share = self._of_window(region.work.time_ps)
        return RegionRow(
            row=region.index,
            name=words.plain(region.name, 120),
            kind=region.kind,
            depth=region.depth,
            t0_ps=region.start_ps,
            t1_ps=region.end_ps,
            start=words.moment(region.start_ps),
            took=self._estimate(words.time(region.work.time_ps)),
            share=share,
            share_words=words.share(share),
            bound=verdict.bound or "",
            bound_colour=bound_colour(verdict.bound),
            bound_words=words.bound_name(verdict.bound).lower(),
            source=words.plain(region.source or "", 160),
        )

    @cached_property
    def source_lines(self) -> tuple[SourceRow, ...]:
        """Source lines, the longest first."""
        kind = tuple[SourceRow, ...]
        return answer(self.trace, "lines", kind, lambda: tuple(map(self._line, self.lines[:MOST_ROWS])))

    def _line(self, region: Region) -> SourceRow:
        verdict = judge(self.index, self.machine, region)
        work = region.work
        engine = max(COMPUTE_ENGINES, key=lambda e: work.active_ps[e])
        busy = work.active_ps[engine] > 0
        file, _, line = (region.source or "").rpartition(":")
        share = self._of_window(work.time_ps)
        return SourceRow(
            source=words.plain(region.source or "", 200),
            place=words.place(region.source or ""),
            file=words.plain(file, 160),
            line=int(line) if line.isdecimal() else 0,
            time_ps=work.time_ps,
            time_words=self._estimate(words.time(work.time_ps)),
            share=share,
            share_words=words.share(share),
            instructions=sum(work.instructions),
            engine=int(engine) if busy else -1,
            colour=int(engine) if busy else int(Engine.DMA) if work.dma_bytes else NEUTRAL,
            engine_name=words.ENGINE_WORDS[engine] if busy else "DMA" if work.dma_bytes else "",
            bound=verdict.bound or "",
            bound_colour=bound_colour(verdict.bound),
            first_row=int(region.rows[0]) if region.rows.size else -1,
            t0_ps=region.start_ps,
            t1_ps=region.end_ps,
        )

    def _of_window(self, ps: int) -> float:
        t0, t1 = self.timeline.window
        return ps / (t1 - t0) if t1 > t0 else 0.0

    # --- a selection ----------------------------------------------------------------------------------------------

    def area(self, t0_ps: int, t1_ps: int, title: str = "") -> AreaCard:
        """What happened between two moments."""
        region = selection(self.trace, t0_ps, t1_ps, self.index)
        verdict = judge(self.index, self.machine, region)
        point = place(self.machine, region, verdict)
        t0, t1 = region.start_ps, region.end_ps
        took = self._estimate(words.time(t1 - t0))
        return AreaCard(
            t0_ps=t0,
            t1_ps=t1,
            title=f"{words.plain(title, 120)}, {took}" if title else f"Selection, {took}",
            verdict=self._card(verdict),
            facts=tuple(self._sums(region)),
            engines=self.engines(t0, t1),
            waits=self.waits(t0, t1),
            dot=self.dot(point) if point.missing is None else None,
        )

    def _sums(self, region: Region) -> list[Fact]:
        work, t0, t1 = region.work, region.start_ps, region.end_ps
        count = sum(work.instructions)
        found = [
            Fact("From", words.moment(t0), t0, f"to {words.moment(t1)}"),
            Fact("Instructions", words.count(count), count, "control left out"),
            Fact("DMA", words.size(work.dma_bytes), work.dma_bytes, self._rate(work.dma_bytes, t1 - t0)),
            Fact("HBM", words.size(work.hbm_bytes), work.hbm_bytes, self._rate(work.hbm_bytes, t1 - t0)),
        ]
        rate = work.flops / (t1 - t0) * 1e12 if t1 > t0 else None
        found.append(Fact("FLOPs", words.work(work.flops), work.flops, self._estimate(words.flops(rate))))
        intensity = work.flops / work.hbm_bytes if work.hbm_bytes else None
        found.append(Fact("Intensity", words.intensity(intensity), intensity, "" if intensity else "moves no HBM byte"))
        return found

    def _rate(self, size: int, span_ps: int) -> str:
        return self._estimate(words.rate(size / span_ps * 1e12)) if span_ps > 0 else ""

    def waits(self, t0_ps: int, t1_ps: int) -> tuple[Waiting, ...]:
        """Idle time inside a window by who waited for what, the longest first."""
        total: dict[tuple[str, int], int] = defaultdict(int)
        low, high = max(t0_ps, self.timeline.window[0]), min(t1_ps, self.timeline.window[1])
        shortest = max(1, int((high - low) * _SHORTEST_GAP))
        for item in self.timeline.rows.values():
            if not isinstance(item, Row) or item.idle is None or item.track.quiet or high <= low:
                continue
            gaps = item.idle.gaps(low, high, shortest, self.timeline.window[0])
            colour, label = self.timeline.causes(gaps[:, 2])
            inside = np.minimum(gaps[:, 1], high) - np.maximum(gaps[:, 0], low)
            name = words.ENGINE_WORDS[item.track.engine]
            for code in np.unique(label):
                where = label == code
                text = self.timeline.labels[int(code)][1]
                key = f"{name} for {text}" if text else f"{name}, cause not recorded"
                total[key, int(colour[where][0])] += int(inside[where].sum())
        ranked = sorted(total.items(), key=lambda entry: -entry[1])
        return tuple(Waiting(text, colour, ps, self._estimate(words.time(ps))) for (text, colour), ps in ranked)

    # --- the roofline ---------------------------------------------------------------------------------------------

    def dot(self, point: Point) -> Dot:
        """A point of the chart in words."""
        rate = words.quantity(point.achieved, point.unit)
        return Dot(
            name=words.plain(point.name, 120),
            kind=point.kind,
            region=point.index,
            intensity=words.digits(point.intensity),
            performance=self._estimate(rate),
            roof=point.roof or words.NOT_AVAILABLE,
            roof_share=self._estimate(words.share(point.share)),
            time=self._estimate(words.time(point.time_ps)),
            bound=point.bound or "",
            bound_colour=bound_colour(point.bound),
            bound_words=words.bound_name(point.bound).lower(),
            missing=point.missing or "",
            estimated=point.estimated,
            t0_ps=point.start_ps,
            t1_ps=point.end_ps,
        )

    def _estimate(self, text: str) -> str:
        return words.estimate(text, self.trace.meta.is_simulation)


def _margin(verdict: Verdict) -> str:
    if verdict.bound is None or verdict.runner_up is None:
        return ""
    points = words.points(verdict.scores[verdict.bound], verdict.scores[verdict.runner_up])
    return words.ahead(points, BOUND_GLYPHS[BOUNDS.index(verdict.runner_up)].short)


def _sentence(text: str) -> str:
    """With its full stop."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
