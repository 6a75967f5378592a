"""The timeline at the resolution of a screen: tracks, frames and the overview."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock

import numpy as np

from sim.trace import NONE, Arrays, Engine, Trace
from trnprof.machine import Machine, short
from trnprof.view import format as words
from trnprof.view import route, tracks
from trnprof.view.causes import cause, waiting
from trnprof.view.colours import HUED, OTHERS, Schemes
from trnprof.view.counters import Counter, counters, level
from trnprof.view.gauges import arithmetic, gauges, semaphores
from trnprof.view.labels import Labels
from trnprof.view.lanes import Columns, Lane
from trnprof.view.palette import NEUTRAL
from trnprof.view.records import ESTIMATE, KERNEL, WASTE, WORK, Frame, Overview, Track, Viewport
from trnprof.view.ribbon import Ribbon, ribbon
from trnprof.view.shapes import Window, shapes
from trnprof.view.tracks import Row

QUANTUM = 256
"""Frames begin and end at multiples of so many buckets, so that neighbouring views share them."""

KEPT_FRAMES = 48

GIGA = 10**9

MOST_SEMAPHORES = 32
"""Of a core, that have a track: those that change most often."""

_KEPT_OVERVIEWS = 8

_BARS = ("instructions", "transfers", "packets")

_FILTERED = {"wait": (), "bound": (*_BARS, "bound"), "path": (*_BARS, "path")}
"""Kinds of tracks whose marks a legend can leave out; bars without an entry. Waits are told by gaps."""

_WRITTEN = ("instructions", "transfers", "regions", "path")
"""Kinds of tracks that write on their bars."""


@dataclass(frozen=True, slots=True)
class _Marks:
    """What one lane adds to a frame."""

    position: int
    lane: int
    kind: str
    marks: np.ndarray
    colour: np.ndarray


class Timeline:
    """All tracks of a trace, and frames of them."""

    def __init__(self, trace: Trace, window: tuple[int, int], machine: Machine):
        self.trace = trace
        self.window = window
        self.machine = machine
        self.labels = Labels(trace)
        self.route = route.Route(trace, self.labels)
        self.schemes = Schemes(trace)
        self.columns = tracks.instruction_columns(trace)
        self._frames: OrderedDict[tuple[object, ...], Frame] = OrderedDict()
        self._overviews: OrderedDict[int, Overview] = OrderedDict()
        self._lock = Lock()

    @cached_property
    def cores(self) -> tuple[int, ...]:
        def find() -> Arrays:
            tables = [table for _, table in self.trace.tables() if "core" in table.columns and len(table)]
            seen = [np.unique(table.column("core")) for table in tables]
            return {"cores": np.unique(np.concatenate(seen)) if seen else np.zeros(1, np.int16)}

        return tuple(int(core) for core in self.trace.derive("cores", find)["cores"] if core >= 0)

    @cached_property
    def rows(self) -> dict[str, Row | Counter]:
        """Everything that can be drawn, by id, in the order of the screen."""
        found: dict[str, Row | Counter] = {}
        for core in self.cores:
            for row in self._rows_of(core):
                found[row.track.id] = self._named(row)
        return found

    def _rows_of(self, core: int) -> list[Row | Counter]:
        stretches = Columns(self.ribbon(core).start_ps, self.ribbon(core).end_ps, self._all_work(core))
        ribbon_lane = Lane(stretches, None, self.trace, f"c{core}.bound.{self.window[0]}.{self.window[1]}")
        bound = Track(f"c{core}.bound", f"c{core}.regions", "", "bound", "bnd", "bound", NEUTRAL, core, height=13)
        found: list[Row | Counter] = [Row(bound, (ribbon_lane,))]
        found += [Row(route.track(core))] if core == self.first_core else []
        region = tracks.region_row(self.trace, core)
        found += [region] if region else []
        engines = [self._busy(row) for row in tracks.engine_rows(self.trace, self.columns, core)]
        dma = tracks.dma_rows(self.trace, core, tracks.transfer_columns(self.trace), tracks.packet_columns(self.trace))
        found += [row for row in engines if row.track.engine != Engine.COLLECTIVE]
        found += dma
        found += [row for row in engines if row.track.engine == Engine.COLLECTIVE]
        derived = gauges(self.trace, core, [*engines, *dma], self.window)
        signals = semaphores(self.trace, core, MOST_SEMAPHORES)
        found += [level(core, name, steps) for name, steps in signals.items()]
        return [*found, *counters(self.trace, core, self._roofs(), derived)]

    @property
    def first_core(self) -> int:
        """The first core that works."""
        return next((core for core in self.cores if core not in self._quiet_cores), self.cores[0])

    def _all_work(self, core: int) -> np.ndarray:
        return np.full(self.ribbon(core).start_ps.size, WORK, np.uint8)

    def _named(self, row: Row | Counter) -> Row | Counter:
        """The group's title; it names the core where several work. A core without work is one folded group."""
        core, _, group = row.track.group.partition(".")
        if row.track.core in self._quiet_cores:
            name = f"Core {core[1:]}, no work of the kernel"
            return replace(row, track=replace(row.track, group=f"{core}.idle", group_name=name, quiet=True))
        title = tracks.GROUPS[group] + (f", core {core[1:]}" if self.several else "")
        return replace(row, track=replace(row.track, group_name=title))

    @property
    def several(self) -> bool:
        """Whether more than one core works, so that names must tell them apart."""
        return len(self.cores) - len(self._quiet_cores) > 1

    @cached_property
    def _quiet_cores(self) -> frozenset[int]:
        """Cores on which nothing worked, where others did."""
        table = self.trace.instructions
        found = self.trace.derive("busy_cores", lambda: {"cores": np.unique(table.core[~table.control])})
        busy = {int(core) for core in found["cores"]}
        return frozenset(self.cores) - busy if busy else frozenset()

    def _busy(self, row: Row) -> Row:
        t0, t1 = self.window
        if t1 <= t0:
            return row
        share = sum(float(lane.coverage(t0, t1)[0]) for lane in row.lanes[:1]) / (t1 - t0)
        return replace(row, track=replace(row.track, busy=share, words=words.share(share)))

    def _roofs(self) -> dict[str, float]:
        """Limits for the counters, one core's share."""
        figures = {c.id: c.value / self.machine.cores for c in self.machine.ceilings}
        roofs = {"dma_bytes_per_s": figures.get("dma"), "hbm_bytes_per_s": figures.get("hbm")}
        if self.machine.wire:
            roofs["dma_bytes_per_s"] = self.machine.wire / self.machine.cores
        kind = short(arithmetic(self.trace) or "bfloat16")
        roofs["flops_per_s"] = figures.get(f"tensor.{kind.lower()}")
        table = self.machine.figures
        if table is not None:
            clock = table.get("clock_tensor")
            roofs["sbuf"] = table.get("sbuf_partition_bytes")
            roofs["tensor_clock"] = clock * GIGA if clock else None
        return {name: value for name, value in roofs.items() if value}

    @cached_property
    def _ribbons(self) -> dict[int, Ribbon]:
        return {core: ribbon(self.trace, self.window, core) for core in self.cores}

    def ribbon(self, core: int | None = None) -> Ribbon:
        """Which bound holds when; of all cores together without one."""
        if core is None and len(self.cores) == 1:
            core = self.cores[0]
        return self._whole_ribbon if core is None else self._ribbons[core]

    @cached_property
    def _whole_ribbon(self) -> Ribbon:
        return ribbon(self.trace, self.window)

    @property
    def tracks(self) -> tuple[Track, ...]:
        return tuple(row.track for row in self.rows.values())

    def track_of(self, row: int, kind: str = "instructions") -> str:
        """The id of the track that shows a row, empty when none does."""
        for name, item in self.rows.items():
            if (
                isinstance(item, Row)
                and item.track.kind == kind
                and any(lane.position(row) >= 0 for lane in item.lanes)
            ):
                return name
        return ""

    # --- frames ---------------------------------------------------------------------------------------------------

    def frame(
        self, viewport: Viewport, ids: Sequence[str] | None = None, colour: str = "engine", only: Sequence[int] = ()
    ) -> Frame:
        """What to draw of the tracks (all without ids) in the viewport, which is widened to whole quanta.

        only : colours of the legend that alone are drawn as work; all when none is named
        """
        bucket = viewport.bucket_ps
        quantum = bucket * QUANTUM
        t0 = viewport.t0_ps // quantum * quantum
        t1 = max(t0 + quantum, -(-viewport.t1_ps // quantum) * quantum)
        # The path is found when it is asked for: on a large trace it takes longer than a picture may.
        asked = [name for name in self.rows if name != route.ID or colour == "path"] if ids is None else ids
        chosen = tuple(name for name in dict.fromkeys(asked) if name in self.rows)
        wanted = tuple(sorted(set(only)))
        key = (chosen, colour, wanted, bucket, t0, t1)
        with self._lock:
            if key in self._frames:
                self._frames.move_to_end(key)
                return self._frames[key]
        frame = self._draw(chosen, colour, wanted, bucket, (t0, t1))
        with self._lock:
            self._frames[key] = frame
            while len(self._frames) > KEPT_FRAMES:
                self._frames.popitem(last=False)
        return frame

    def prepare(self) -> None:
        """Find out what lanes of many rows come to at every zoom, so that a frame at a new one need not."""
        for row in list(self.rows.values()):
            for lane in row.lanes if isinstance(row, Row) else ():
                lane.prepare()

    def forget(self) -> None:
        """Let go of all frames and overviews that are kept."""
        with self._lock:
            self._frames.clear()
            self._overviews.clear()

    def _draw(
        self, ids: tuple[str, ...], colour: str, only: tuple[int, ...], bucket: int, span: tuple[int, int]
    ) -> Frame:
        t0, t1 = span
        parts: list[_Marks] = []
        idle: list[tuple[int, np.ndarray]] = []
        levels: list[tuple[int, np.ndarray]] = []
        rows = [self._drawn(name) for name in ids]
        found = shapes(self.trace, rows, Window(bucket, t0, t1, self.window))
        every, gaps, means = iter(found.marks), iter(found.gaps), iter(found.levels)
        for position, row in enumerate(rows):
            if isinstance(row, Counter):
                levels += [(position, next(means)) for _ in row.steps]
                continue
            for number, lane in enumerate(row.lanes):
                marks = next(every)
                if marks.size:
                    shown = self._colour(row.track, lane, marks, colour)
                    if only and row.track.kind in _FILTERED.get(colour, _BARS):
                        self._leave_out(row.track.kind, lane, marks, shown, (colour, only))
                    parts.append(_Marks(position, number, row.track.kind, marks, shown))
            if row.idle is not None:
                idle.append((position, next(gaps)))
        return self._assemble(ids, (colour, only), bucket, span, parts, idle, levels)

    def _drawn(self, name: str) -> Row | Counter:
        """A row with its lanes; the path has one once it is found."""
        row = self.rows[name]
        return replace(row, lanes=(self.route.lane,)) if name == route.ID else row

    def _colour(self, track: Track, lane: Lane, marks: np.ndarray, colour: str) -> np.ndarray:
        """Colour index of each mark of one lane."""
        start, body, longest, flags = (marks[:, k] for k in (0, 2, 6, 7))
        if track.kind == "bound":
            return self.ribbon(track.core).bound[longest]
        if track.kind == "regions":
            return self.trace.regions.kind[longest]
        if track.kind == "path":
            return self.route.colour(longest)
        if colour == "bound":
            return self.ribbon(track.core).at((start + body) // 2)
        if colour in HUED:
            return np.where(flags & WORK > 0, self.schemes.colours(colour, track.kind, longest), OTHERS).astype(np.int8)
        shown = flags & WORK > 0 if colour == "engine" else np.zeros(len(marks), bool)
        if colour == "path":
            shown = self.route.through(track.kind, lane, marks)
        return np.where(shown, track.colour, NEUTRAL).astype(np.int8)

    def _leave_out(
        self, kind: str, lane: Lane, marks: np.ndarray, shown: np.ndarray, wish: tuple[str, tuple[int, ...]]
    ) -> None:
        """Draw thin what a filter leaves out; a cluster that holds a row of a wanted colour takes that colour."""
        colour, only = wish
        kept = np.isin(shown, only)
        if colour in HUED and (marks[:, 4] > 1).any():
            for hue in only:
                found = self.schemes.holds(colour, kind, lane, marks, hue) & ~kept & (marks[:, 4] > 1)
                shown[found] = hue
                kept |= found
        marks[~kept, 7] &= ~(WORK | WASTE)

    def _labels(self, parts: Sequence[_Marks]) -> np.ndarray:
        """Label codes of all marks, NONE where a track writes nothing."""
        label = np.full(sum(len(p.marks) for p in parts), NONE, np.int32)
        if not parts:
            return label
        kind = np.concatenate(
            [np.full(len(p.marks), _WRITTEN.index(p.kind) if p.kind in _WRITTEN else NONE, np.int8) for p in parts]
        )
        longest = np.concatenate([p.marks[:, 6] for p in parts])
        writers = (self.labels.instructions, self.labels.transfers, self.labels.regions, self.route.labels)
        for number, write in enumerate(writers):
            where = kind == number
            if where.any():
                label[where] = write(longest[where])
        return label

    def _assemble(self, ids, wish, bucket, span, parts, idle, levels) -> Frame:
        def column(values: list[np.ndarray], dtype: type) -> np.ndarray:
            return np.concatenate(values).astype(dtype) if values else np.empty(0, dtype)

        marks = np.concatenate([p.marks for p in parts]) if parts else np.empty((0, 8), np.int64)
        gaps = np.concatenate([g for _, g in idle]) if idle else np.empty((0, 3), np.int64)
        label = self._labels(parts)
        row, longest = marks[:, 3].copy(), marks[:, 6].copy()
        self._name_rows(parts, row, longest)
        gap_colour, gap_label = self.causes(gaps[:, 2])
        if wish[0] == "wait" and wish[1]:
            left_out = ~np.isin(gap_colour, wish[1])
            gap_label[left_out], gap_colour[left_out] = NONE, NEUTRAL
        length = np.maximum(1, marks[:, 1] - marks[:, 0])
        return Frame(
            t0_ps=span[0],
            t1_ps=span[1],
            bucket_ps=bucket,
            tracks=ids,
            colour_by=wish[0],
            track=column([np.full(len(p.marks), p.position) for p in parts], np.int16),
            lane=column([np.full(len(p.marks), p.lane) for p in parts], np.int16),
            start_ps=marks[:, 0].copy(),
            end_ps=marks[:, 1].copy(),
            body_ps=marks[:, 2].copy(),
            row=row,
            longest=longest,
            count=marks[:, 4].astype(np.int32),
            busy=np.minimum(1.0, marks[:, 5] / length).astype(np.float32),
            colour=column([p.colour for p in parts], np.int8),
            flags=self._flags(marks),
            label=label,
            gap_track=column([np.full(len(g), position) for position, g in idle], np.int16),
            gap_start_ps=gaps[:, 0].copy(),
            gap_end_ps=gaps[:, 1].copy(),
            gap_row=gaps[:, 2].copy(),
            gap_colour=gap_colour,
            gap_label=gap_label,
            counter_tracks=np.array([position for position, _ in levels], np.int16),
            values=np.stack([mean for _, mean in levels]) if levels else np.empty((0, 0), np.float32),
            labels=self.labels.pick(np.concatenate((label, gap_label))),
        )

    def _name_rows(self, parts: Sequence[_Marks], *columns: np.ndarray) -> None:
        """Where marks are pieces of the critical path, put the rows of their instructions in place."""
        at = 0
        for part in parts:
            here = slice(at, at + len(part.marks))
            at = here.stop
            if part.kind == "path":
                for column in columns:
                    column[here] = self.route.rows(column[here])

    def _flags(self, marks: np.ndarray) -> np.ndarray:
        flags = marks[:, 7].copy()
        flags |= ESTIMATE if self.trace.meta.is_simulation else 0
        flags[(marks[:, 0] >= self.window[0]) & (marks[:, 0] < self.window[1])] |= KERNEL
        return flags.astype(np.uint8)

    def causes(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each instruction that an engine idled before: the culprit's colour and the label of the gap."""
        table = self.trace.instructions
        wait, other = table.wait[rows], table.wait_for[rows]
        engine = np.where(other >= 0, table.engine[np.maximum(other, 0)], NONE) if len(table) else other
        label = np.full(len(rows), NONE, np.int32)
        colour = np.full(len(rows), NEUTRAL, np.int8)
        for kind, culprit in np.unique(np.stack((wait, engine)), axis=1).T.tolist() if len(rows) else []:
            where = (wait == kind) & (engine == culprit)
            index, text = cause(kind, culprit)
            colour[where] = index
            label[where] = self.labels.intern((waiting(text), text))
        return colour, label

    # --- overview -------------------------------------------------------------------------------------------------

    def overview(self, extent: tuple[int, int], columns: int) -> Overview:
        """The whole trace: how busy each engine is in each column."""
        with self._lock:
            if columns in self._overviews:
                return self._overviews[columns]
        lines = [(row.track, row.lanes) for row in self.rows.values() if isinstance(row, Row) and _in_overview(row)]
        busy = np.zeros((len(lines), columns), np.float32)
        width = max(1, extent[1] - extent[0]) / columns
        for k, (_, lanes) in enumerate(lines):
            covered = sum(lane.coverage(*extent, columns) for lane in lanes)
            busy[k] = np.minimum(1.0, covered / width / len(lanes))
        found = Overview(*extent, tuple(t.name for t, _ in lines), tuple(t.colour for t, _ in lines), busy)
        with self._lock:
            self._overviews[columns] = found
            while len(self._overviews) > _KEPT_OVERVIEWS:
                self._overviews.popitem(last=False)
        return found


def _in_overview(row: Row) -> bool:
    """Engines and the DMA engines as one line, of cores that work; SyncE only issues."""
    if row.track.quiet:
        return False
    if row.track.kind == "packets":
        return True
    return row.track.kind == "instructions" and not row.track.minor and row.track.engine != Engine.SYNC
