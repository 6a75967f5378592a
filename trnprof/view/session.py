"""`Session(trace)`: every question that a screen may ask of a trace, answered at the screen's resolution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sim.errors import UsageError
from sim.trace import NONE, Arrays, Engine, Trace
from trnprof import __version__
from trnprof.compare import compare
from trnprof.machine import Machine, machine
from trnprof.missing import missing
from trnprof.regions import window as kernel_window
from trnprof.roofline import Chart, chart
from trnprof.view import format as words
from trnprof.view import listing, search
from trnprof.view.answers import answer, known
from trnprof.view.cards import Cards
from trnprof.view.code import SourceFile, source_files
from trnprof.view.findings import AdviceCard, Assumption, advice_cards, assumptions
from trnprof.view.legend import legend
from trnprof.view.links import Links
from trnprof.view.memory import MemoryCard, memory_card
from trnprof.view.paths import CompareCard, PathCard, Paths, SettingRow, WhatIfCard, compared, supposition
from trnprof.view.records import (
    AreaCard,
    Card,
    Dot,
    EngineRow,
    Fact,
    Facts,
    Frame,
    GapCard,
    Hits,
    LegendRow,
    Listing,
    Overview,
    RegionRow,
    SourceRow,
    Target,
    Track,
    TransferCard,
    VerdictCard,
    Viewport,
    Waiting,
)
from trnprof.view.tables import Tables
from trnprof.view.timeline import Timeline
from trnprof.view.tracks import Row
from trnprof.view.twins import Twin, twin
from trnprof.whatif import Value, WhatIf, choices, grid, what_if

HOME_MARGIN = 0.015

PROMPT = 200_000
"""Instructions that are judged before anybody waits for it."""

JUDGED = "judged"

PREPARED = 1000
"""Columns of a picture that nobody looks at."""

FEW = 1 << 16
"""Instructions that are looked at together."""

KEPT_WHAT_IFS = 4
"""Answers that are kept, each with its trace."""

LONGEST_WISH = 400
"""Characters of a what-if."""


class Session:
    """One trace and what has been found out about it; may be asked by several threads."""

    def __init__(self, trace: Trace, settings: str = ""):
        """settings : what a what-if changed, where the trace is its answer"""
        self.trace = trace
        self.supposed_settings = settings
        self.reads_code = True
        """Whether source files that the trace names are read on this machine."""
        self._charts: dict[str, Chart] = {}
        self._told: dict[bool, tuple[AdviceCard, ...]] = {}
        self._legends: dict[str, tuple[LegendRow, ...]] = {}
        self._last_hits: Hits | None = None
        self._judged = False
        self._what_ifs: dict[tuple, WhatIf] = {}
        self._compared: tuple[Session, CompareCard] | None = None

    @classmethod
    def open(cls, path: str | Path) -> Session:
        """raises : InputError for what cannot be read"""
        from trnprof import readers

        return cls(readers.open(path))

    # --- the whole ------------------------------------------------------------------------------------------------

    @cached_property
    def machine(self) -> Machine:
        return machine(self.trace)

    @cached_property
    def window(self) -> tuple[int, int]:
        """The kernel window, ps: where the verdict holds."""
        return kernel_window(self.trace)

    @cached_property
    def extent(self) -> tuple[int, int]:
        """First and last moment of the trace, ps."""

        def find() -> Arrays:
            tables = [t for t in (self.trace.instructions, self.trace.transfers, self.trace.packets) if len(t)]
            starts, ends = [int(table.start_ps[0]) for table in tables], [int(table.end_ps.max()) for table in tables]
            return {"extent": np.array([min(starts, default=0), max(ends, default=0)], np.int64)}

        first, last = self.trace.derive("extent", find)["extent"].tolist()
        return min(0, first), max(last, self.trace.meta.total_ps, self.window[1], 1)

    @cached_property
    def home(self) -> tuple[int, int]:
        """Where a screen starts: the kernel window with a little air."""
        t0, t1 = self.window if self.window[1] > self.window[0] else self.extent
        air = round((t1 - t0) * HOME_MARGIN)
        return t0 - air, t1 + air

    @cached_property
    def meta(self) -> Facts:
        meta = self.trace.meta
        cores = self.machine.cores
        span = self.window[1] - self.window[0]
        return Facts(
            title=words.plain(meta.kernel or Path(meta.source).stem or "trace", 120),
            source=words.plain(meta.source, 300),
            device=f"{words.plain(meta.device, 40)}, {words.plural(cores, 'core')}",
            estimated=meta.is_simulation or self.supposition,
            mark="what-if" if self.supposition else "emulated" if meta.is_simulation else "captured",
            window=Fact("Kernel window", self._within(self.estimate(words.time(span)), "latency_ns"), span),
            total=Fact(
                "Whole trace",
                self.estimate(words.time(self.extent[1] - self.extent[0])),
                self.extent[1] - self.extent[0],
            ),
            counted=self._counted(),
            notes=tuple(words.plain(note, 400) for note in (*meta.notes, *self._sure())),
            findings=tuple(words.plain(finding.sentence, 400) for finding in meta.findings),
            missing=missing(self.trace),
        )

    @cached_property
    def caption(self) -> str:
        """What a picture that leaves the screen says of itself."""
        meta = self.meta
        source = Path(self.trace.meta.source).name
        parts = (f"{meta.title}, {meta.mark} on {meta.device}", meta.counted, words.plain(source, 80))
        return "; ".join((*filter(None, parts), f"trnprof {__version__}"))

    @property
    def supposition(self) -> bool:
        """Whether the trace is of a machine that there is not."""
        return bool(self.supposed_settings or self.trace.meta.what_if)

    def _counted(self) -> str:
        parts = [words.plural(len(self.trace.instructions), "instruction")]
        if len(self.trace.transfers):
            parts.append(words.plural(len(self.trace.transfers), "transfer"))
        if len(self.trace.packets):
            parts.append(words.plural(len(self.trace.packets), "packet"))
        aside = self.trace.meta.quarantined
        return ", ".join([*parts, f"{words.plural(aside, 'row')} set aside" if aside else "0 dropped"])

    def _sure(self) -> Iterator[str]:
        """What the error bars are made of and how sure the verdict is, where the trace has some."""
        bars = self.trace.meta.error_bars
        if bars:
            yield from filter(None, (bars.get("sentence"), bars["verdict"]["sentence"]))

    def _within(self, time: str, name: str) -> str:
        """A time of the whole trace with its error bars, where there are some."""
        bar = self.trace.meta.error_bars.get(name)
        return words.within(time, bar["low"] * 1000, bar["high"] * 1000) if bar else time

    def estimate(self, text: str) -> str:
        """The text with the mark of an estimate where the trace is emulated."""
        return words.estimate(text, self.trace.meta.is_simulation)

    # --- the picture ----------------------------------------------------------------------------------------------

    @cached_property
    def timeline(self) -> Timeline:
        return Timeline(self.trace, self.window, self.machine)

    def tracks(self) -> tuple[Track, ...]:
        """All rows of the timeline, in the order of the screen."""
        return self.timeline.tracks

    def frame(
        self,
        viewport: Viewport,
        tracks: Sequence[str] | None = None,
        colour: str = "engine",
        only: Sequence[int] = (),
    ) -> Frame:
        """What to draw of the tracks in the viewport; bounded by its columns, however many rows there are.

        colour : one of `colours.COLOURS`
        only   : colours of its legend that alone are drawn as work, all when none is named
        """
        return self.timeline.frame(viewport, tracks, colour, only)

    def legend(self, colour: str) -> tuple[LegendRow, ...]:
        """What the colours of the picture mean, and how much of the trace each has."""
        if colour not in self._legends:
            self._legends[colour] = legend(self, colour)
        return self._legends[colour]

    def prepare(self) -> None:
        """Load what the next picture needs and the first one of a kept trace did without."""
        if self.trace.store is not None:
            t0, t1 = self.home
            self.timeline.frame(Viewport(t0, t0 + (t1 - t0) // 8, PREPARED))
            self.timeline.prepare()

    def overview(self, columns: int) -> Overview:
        """How busy each engine is over the whole trace."""
        return self.timeline.overview(self.extent, columns)

    # --- the answer -----------------------------------------------------------------------------------------------

    @cached_property
    def tables(self) -> Tables:
        return Tables(self.trace, self.timeline, self.machine)

    @property
    def verdict(self) -> VerdictCard:
        """What bounds the whole trace, why, and by how far."""
        return self.tables.verdict

    @cached_property
    def _verdicts(self) -> tuple[VerdictCard, ...]:
        return (self.verdict, *self.tables.verdicts)

    @property
    def judged(self) -> bool:
        """Whether verdicts, regions and the roofline are there, or come before anybody waits for them."""
        return len(self.trace.instructions) < PROMPT or self._judged or known(self.trace, JUDGED)

    def judge(self) -> None:
        """Find all that `judged` tells of."""
        answer(self.trace, JUDGED, int, lambda: len(self.verdicts()) + len(self.regions()) + len(self.dots()))
        self._judged = True
        if self.trace.store is not None:
            self.tables.forget()

    def verdicts(self) -> tuple[VerdictCard, ...]:
        """On the whole trace, then on each region of its tree."""
        return self._verdicts

    def engine_rows(self, t0_ps: int | None = None, t1_ps: int | None = None) -> tuple[EngineRow, ...]:
        """How long each engine worked; in the kernel window when none is given."""
        low, high = self.window
        if t0_ps is None and t1_ps is None:
            kind = tuple[EngineRow, ...]
            return answer(self.trace, f"engines.{low}.{high}", kind, lambda: self.tables.engines(low, high))
        return self.tables.engines(low if t0_ps is None else t0_ps, high if t1_ps is None else t1_ps)

    def waits(self, t0_ps: int | None = None, t1_ps: int | None = None) -> tuple[Waiting, ...]:
        """Idle time by who waited for what; in the kernel window when none is given."""
        low, high = self.window
        return self.tables.waits(low if t0_ps is None else t0_ps, high if t1_ps is None else t1_ps)

    def regions(self) -> tuple[RegionRow, ...]:
        """The tree of what the work is."""
        return self.tables.regions

    def source_lines(self) -> tuple[SourceRow, ...]:
        """Time of each source line, the longest first; empty when the trace names none."""
        return self.tables.source_lines

    @cached_property
    def source_files(self) -> tuple[SourceFile, ...]:
        """The source with the time of its lines, as far as it is on this machine."""
        return source_files(self.source_lines(), Path.cwd()) if self.reads_code else ()

    def area(self, t0_ps: int, t1_ps: int, title: str = "") -> AreaCard:
        """What happened between two moments."""
        return self.tables.area(t0_ps, t1_ps, title)

    def roofline(self, level: str = "regions") -> Chart:
        """The roofline as data. level : kernels, regions or lines"""
        if level not in self._charts:
            find = lambda: chart(self.trace, level=level, known=self.tables.known)  # noqa: E731
            self._charts[level] = answer(self.trace, f"roofline.{level}", Chart, find)
        return self._charts[level]

    def dots(self, level: str = "regions") -> tuple[Dot, ...]:
        """The dots of the roofline in words, the whole first; those that have no place on it last."""
        found = self.roofline(level)
        return tuple(self.tables.dot(point) for point in (*found.dots, *found.without))

    # --- the way to the end, and other ways ------------------------------------------------------------------------

    @cached_property
    def paths(self) -> Paths:
        return Paths(self.trace, self.tables.index)

    def critical(self) -> PathCard:
        """What the end of the trace hung on: causes, lines, loops, and the pieces to draw."""
        return self.paths.card

    def slack(self, row: int) -> str:
        """How much later an instruction could end without moving the end, in words."""
        self._check(row, len(self.trace.instructions))
        return self.paths.slack(row)

    def settings(self) -> tuple[SettingRow, ...]:
        """What a what-if may change. raises : InputError for a trace of an unknown device"""
        return self.paths.settings()

    def what_if(self, settings: Mapping[str, Value]) -> WhatIfCard:
        """What a change of settings would do. raises : as `trnprof.what_if`"""
        return self.paths.supposed(self._supposed(settings))

    def suppositions(self, text: str) -> list[dict[str, Value]]:
        """Every combination of settings that a line such as `hbm_bw=1x,2x clock=1.2x` asks for.

        raises : UsageError for what is no setting with its values, InputError for too many
        """
        asked = choices(text[:LONGEST_WISH].split())
        if not asked:
            raise UsageError("a what-if needs a setting and its value", remedy="hbm_bw=2x")
        return grid(asked)

    def supposed(self, settings: Mapping[str, Value]) -> Session:
        """The trace as it would be, to look at beside this one."""
        asked = ", ".join(f"{name}={value}" for name, value in settings.items())
        return Session(self._supposed(settings).trace, asked)

    def _supposed(self, settings: Mapping[str, Value]) -> WhatIf:
        key = supposition(settings)
        if key not in self._what_ifs:
            while len(self._what_ifs) >= KEPT_WHAT_IFS:
                self._what_ifs.pop(next(iter(self._what_ifs)))
            self._what_ifs[key] = what_if(self.trace, settings)
        return self._what_ifs[key]

    def compared_with(self, before: Session) -> CompareCard:
        """What changed from another trace to this one."""
        known = self._compared
        if known is None or known[0] is not before:
            known = self._compared = (before, compared(compare(before.trace, self.trace)))
        return known[1]

    def twin(self, before: Session, row: int, after: bool) -> Twin:
        """The same instruction before and after: of a row of this trace with `after`, else of the other."""
        return twin((before.trace, self.trace), self.compared_with(before).pairs, row, after)

    # --- what to do about it --------------------------------------------------------------------------------------

    def advice(self, retime: bool = True) -> tuple[AdviceCard, ...]:
        """What would make the kernel faster, the largest gain first; empty when no rule has a complaint.

        retime : emulate the kernel anew where that gives a gain; a screen that must answer at once does without
        """
        if retime not in self._told:
            self._told[retime] = advice_cards(self.trace, retime)
        return self._told[retime]

    def assumptions(self) -> tuple[Assumption, ...]:
        """The roofs and the guessed figures that all of it rests on, with their sources."""
        return assumptions(self.trace, self.machine)

    # --- what lies where ------------------------------------------------------------------------------------------

    def memory(self, at_ps: int, core: int | None = None) -> MemoryCard:
        """What lies in SBUF and PSUM at a moment, of the first core that works when none is named."""
        return memory_card(self.trace, self.machine, at_ps, self.timeline.first_core if core is None else core)

    # --- one thing ------------------------------------------------------------------------------------------------

    @cached_property
    def links(self) -> Links:
        return Links(self.trace)

    @cached_property
    def cards(self) -> Cards:
        return Cards(self.timeline, self.links)

    def card(self, row: int) -> Card:
        """Everything known of an instruction; IndexError for a row that there is none of."""
        self._check(row, len(self.trace.instructions))
        return self.cards.instruction(row)

    def transfer_card(self, row: int) -> TransferCard:
        """Everything known of a transfer."""
        self._check(row, len(self.trace.transfers))
        return self.cards.transfer(row)

    def _check(self, row: int, rows: int) -> None:
        if not 0 <= row < rows:
            raise IndexError(f"row {row} of {rows}")

    def gap(self, track: str, t_ps: int) -> GapCard | None:
        """The idle time of a track's engine at a moment, None when it is at work or outside the kernel window."""
        item = self.timeline.rows.get(track)
        if not isinstance(item, Row) or item.track.kind != "instructions":
            return None
        idle = item.idle or self._idle_of(item.track)
        if idle is None or not self.window[0] <= t_ps < self.window[1]:
            return None
        found = idle.gaps(t_ps, t_ps + 1, 1, self.window[0])
        if not len(found):
            return None
        start, end, row = (int(x) for x in found[0])
        return self.cards.gap(track, item.track.engine, (start, end), row)

    def _idle_of(self, track: Track):
        rows = (item for item in self.timeline.rows.values() if isinstance(item, Row))
        return next(
            (r.idle for r in rows if r.idle and (r.track.core, r.track.engine) == (track.core, track.engine)), None
        )

    # --- from one to the next -------------------------------------------------------------------------------------

    def step(self, row: int, by: int, kind: str = "instructions") -> int:
        """The neighbour of a row on its track, -1 past either end."""
        for item in self.timeline.rows.values():
            if not isinstance(item, Row) or item.track.kind != kind:
                continue
            for lane in item.lanes:
                at = lane.position(row)
                if at >= 0:
                    return int(lane.rows[at + by]) if 0 <= at + by < len(lane) else NONE
        return NONE

    def follow(self, row: int, by: int) -> int:
        """Along the binding dependency: what it waited for (-1) or what waited for it (+1); -1 at the end."""
        self._check(row, len(self.trace.instructions))
        return self.links.follow(row, by)

    def first_in(self, t0_ps: int, t1_ps: int) -> int:
        """The first instruction of the kernel's work that starts in a window, else the first at all, -1 without one."""
        table = self.trace.instructions
        low, high = np.searchsorted(table.start_ps, (t0_ps, t1_ps))
        for at in range(int(low), int(high), FEW):
            part = slice(at, min(at + FEW, int(high)))
            worked = np.flatnonzero(~table.control[part] & (table.engine[part] != Engine.SYNC))
            if worked.size:
                return at + int(worked[0])
        return int(low) if high > low else NONE

    def nearest(self, track: str, t_ps: int) -> int:
        """The instruction of a track that runs at a moment, else the one that starts closest to it; -1 without one."""
        item = self.timeline.rows.get(track)
        if not isinstance(item, Row) or item.track.kind != "instructions":
            return NONE
        lane = max(item.lanes, key=len)
        if not len(lane):
            return NONE
        start = lane.columns.start[lane.rows]
        at = int(np.searchsorted(start, t_ps, "right"))
        near = [k for k in (at - 1, at) if 0 <= k < len(lane)]
        return int(lane.rows[min(near, key=lambda k: (not self._runs(lane, k, t_ps), abs(int(start[k]) - t_ps)))])

    def _runs(self, lane: Any, k: int, t_ps: int) -> bool:
        row = lane.rows[k]
        return bool(lane.columns.start[row] <= t_ps < lane.columns.end[row])

    def listing(self, t0_ps: int, t1_ps: int, first: int = 0, most: int = listing.MOST) -> Listing:
        """What lies in a stretch of time, as a page of a table."""
        return listing.listing(self, t0_ps, t1_ps, first, most)

    def place(self, t0_ps: int, t1_ps: int, at_ps: int) -> int:
        """How many rows of that table start before a moment."""
        return listing.place(self, t0_ps, t1_ps, at_ps)

    def written(self, t0_ps: int, t1_ps: int) -> Iterator[str]:
        """All of it as CSV, piece by piece."""
        return listing.written(self, t0_ps, t1_ps)

    # --- finding --------------------------------------------------------------------------------------------------

    def search(self, pattern: str) -> Hits:
        """Instructions that a regular expression finds; a broken one finds nothing and says why."""
        if self._last_hits is None or self._last_hits.pattern != pattern:
            self._last_hits = search.search(self.trace, pattern)
        return self._last_hits

    def hit(self, pattern: str, row: int, by: int) -> tuple[int, int]:
        """The next (or, for a negative step, previous) instruction found, from a row on and around the end: its number
        among the hits from 1 and its row; (0, -1) when there is none."""
        rows = self.search(pattern).rows
        if not len(rows):
            return 0, NONE
        at = np.searchsorted(rows, row, "right") if by > 0 else np.searchsorted(rows, row) - 1
        k = int(at) % len(rows)
        return k + 1, int(rows[k])

    def goto(self, text: str) -> Target | None:
        """Where a moment, id, name or source line lies; None when nowhere."""
        return search.goto(self.trace, text)
