"""What a screen gets: frozen records, each number beside its words, and nothing for a screen to compute."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from trnprof.view import format as words


class Record:
    """A record that can be handed on as JSON."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        return {item.name: _plain(getattr(self, item.name)) for item in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class Fact(Record):
    """One line of a card or a cell of a table."""

    name: str
    words: str
    value: float | int | str | None = None
    """In base units (ps, bytes, FLOP, per second, share 0-1); None when it cannot be known."""
    note: str = ""
    """Why it is absent, or what the figure rests on."""


@dataclass(frozen=True, slots=True)
class Facts(Record):
    """What is known of the trace as a whole."""

    title: str
    """The kernel, or the file."""
    source: str
    device: str
    """`trn2, 1 core`"""
    estimated: bool
    """Times are the emulator's, not measured."""
    mark: str
    """`captured` or `emulated`"""
    window: Fact
    total: Fact
    counted: str
    """`442 instructions, 481 packets, 0 dropped`"""
    notes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """What the trace does not tell, and what cannot be judged for that."""


@dataclass(frozen=True, slots=True)
class Track(Record):
    """One row of the timeline."""

    id: str
    """Stable within a trace; goes into addresses."""
    group: str
    group_name: str
    name: str
    code: str
    """Two to four letters, for narrow screens."""
    kind: str
    """instructions, transfers, packets, regions, bound, path, counter or banks; what `row` of a frame counts.

    The path is shown where colour tells it; its rows are instructions.
    """
    colour: int
    """Index of `palette.ENGINE_COLOURS`."""
    core: int = 0
    engine: int = -1
    lanes: int = 1
    height: int = 26
    """CSS px before growth."""
    lane_height: int = 0
    """CSS px of each lane where there are several."""
    busy: float | None = None
    """Share of the kernel window, 0-1."""
    words: str = ""
    """At the right of the gutter: `57 %`, `1.00 MiB`, `of 224 KiB`."""
    minor: bool = False
    """Drawn fainter: belongs to the track above."""
    top: float = 1.0
    """Counters: value at full height."""
    top_words: str = ""
    cap: float = 1.0
    """Counters: what shares are told of: the memory's size, the roof, else the peak; in the counter's unit."""
    cap_words: str = ""
    roof: float | None = None
    """Counters: a limit of the machine to be drawn, in the counter's unit."""
    step: bool = False
    """Counters: levels, not samples of something that flows."""
    quiet: bool = False
    """The group starts folded: nothing of its core worked for the kernel, or it is of interest to few."""


@dataclass(frozen=True, slots=True)
class Viewport(Record):
    """A stretch of time and how finely the screen can show it."""

    t0_ps: int
    t1_ps: int
    columns: int
    """What the screen can tell apart: pixels in a browser, twice the cells or more in a terminal."""

    @property
    def bucket_ps(self) -> int:
        """Time of a column, rounded up to a power of two so that neighbouring views share frames."""
        span = max(1, self.t1_ps - self.t0_ps)
        return 1 << max(0, (span - 1) // max(1, self.columns)).bit_length()


WORK, WASTE, ESTIMATE, KERNEL = 1, 2, 4, 8
"""Bits of `Frame.flags`. Without WORK a mark is control, to be drawn thin; WASTE is work that the algorithm did not ask
for; KERNEL lies inside the kernel window."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame(Record):
    """Everything to draw of some tracks in a window, at the resolution of a screen; columns of equal length.

    Bars and clusters (`track` to `label`), idle gaps (`gap_*`), and counters (one row a track of `counter_tracks`).
    """

    t0_ps: int
    t1_ps: int
    bucket_ps: int
    tracks: tuple[str, ...]
    """Ids; the columns `track`, `gap_track` and `counter_tracks` are indices into it."""
    colour_by: str
    track: np.ndarray
    lane: np.ndarray
    start_ps: np.ndarray
    end_ps: np.ndarray
    body_ps: np.ndarray
    """End of the part that no later bar covers; from there to `end_ps` is a tail."""
    row: np.ndarray
    """Row of the track's table, -1 for a cluster."""
    longest: np.ndarray
    """The row that stands for a cluster."""
    count: np.ndarray
    busy: np.ndarray
    """Share of the mark's span, 0-1."""
    colour: np.ndarray
    """Index of `ENGINE_COLOURS`; of `BOUNDS` where the frame is coloured by bound and on the bound track; of hues, -1
    without one, in the ways of `colours.HUED`."""
    flags: np.ndarray
    label: np.ndarray
    """Key of `labels`."""
    gap_track: np.ndarray
    gap_start_ps: np.ndarray
    gap_end_ps: np.ndarray
    gap_row: np.ndarray
    """The instruction that ends the gap."""
    gap_colour: np.ndarray
    """The engine that it waited for, `neutral` when unknown."""
    gap_label: np.ndarray
    counter_tracks: np.ndarray
    values: np.ndarray
    """float32 [counters, columns]: the mean of each bucket, NaN before the first sample."""
    labels: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Full and short text."""

    def __len__(self) -> int:
        return self.start_ps.size


@dataclass(frozen=True, slots=True)
class LegendRow(Record):
    """What one colour of the picture means, over the whole trace."""

    colour: int
    """As in `Frame.colour`; what a filter names."""
    name: str
    time_ps: int
    """Summed over engines."""
    time_words: str
    share: float
    """Of the time of all rows of the legend, 0-1."""
    share_words: str
    count: int
    """Instructions, transfers or stretches of time."""


@dataclass(frozen=True, slots=True)
class Overview(Record):
    """The whole trace, one line an engine."""

    t0_ps: int
    t1_ps: int
    names: tuple[str, ...]
    colours: tuple[int, ...]
    busy: np.ndarray
    """float32 [lines, columns], share 0-1"""


@dataclass(frozen=True, slots=True)
class Link(Record):
    """A way from one instruction to another."""

    row: int
    title: str
    id: str
    engine: int
    colour: int
    words: str
    """Slack of a predecessor (`+34 ns`), moment of a successor."""
    track: str
    """Where an arrow to it ends: the track of its transfer, when that is waited for."""
    t0_ps: int
    t1_ps: int
    """When those that wait for it may go on."""
    slack_ps: int | None = None
    binding: bool = False
    """The predecessor that finished last."""
    transfer: int = -1
    """Row of the transfer that it triggered, when that is what is waited for."""


@dataclass(frozen=True, slots=True)
class Achieved(Record):
    """What an instruction reached of what its engine could do."""

    share: float
    sentence: str
    words: str


@dataclass(frozen=True, slots=True)
class Operand(Record):
    role: str
    place: str
    shape: str


@dataclass(frozen=True, slots=True)
class Card(Record):
    """All that is known of one instruction."""

    row: int
    title: str
    id: str
    track: str
    colour: int
    t0_ps: int
    t1_ps: int
    estimated: bool
    spoken: str
    """One sentence for a screen reader."""
    facts: tuple[Fact, ...]
    achieved: Achieved | None
    wait: Fact | None
    operands: tuple[Operand, ...]
    source: Fact | None
    after: tuple[Link, ...]
    """What it waited for, latest first; of `after_count` those that finished last."""
    after_count: int
    before: tuple[Link, ...]
    """What waited for it; of `before_count` those that start first."""
    before_count: int
    transfers: tuple[Fact, ...]
    """The transfers that it triggered; `value` is the row."""
    raw: str


@dataclass(frozen=True, slots=True)
class TransferCard(Record):
    """All that is known of one transfer."""

    row: int
    title: str
    id: str
    track: str
    colour: int
    t0_ps: int
    t1_ps: int
    estimated: bool
    spoken: str
    facts: tuple[Fact, ...]
    trigger: Link | None
    packets: int


@dataclass(frozen=True, slots=True)
class GapCard(Record):
    """Idle time of an engine and what it waited for."""

    track: str
    engine: int
    colour: int
    t0_ps: int
    t1_ps: int
    title: str
    spoken: str
    facts: tuple[Fact, ...]
    waited_for: Link | None
    then: Link | None


@dataclass(frozen=True, slots=True)
class Hits(Record):
    """What a search found."""

    pattern: str
    rows: np.ndarray
    """Ascending instruction rows."""
    count: int
    searched: int
    words: str
    """`12 of 442 match`"""
    error: str = ""
    """Why the pattern cannot be read."""
    start_ps: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    """Of each row."""


@dataclass(frozen=True, slots=True)
class Target(Record):
    """Where `goto` leads."""

    row: int
    """Instruction, -1 for a mere moment."""
    t0_ps: int
    t1_ps: int
    words: str


@dataclass(frozen=True, slots=True)
class EngineRow(Record):
    """One engine's line of the engine table; of a window."""

    engine: int
    core: int
    name: str
    code: str
    colour: int
    share: float
    share_words: str
    active_ps: int
    active_words: str
    instructions: int
    instructions_words: str


@dataclass(frozen=True, slots=True)
class Waiting(Record):
    """Idle time by who waited for what."""

    words: str
    """`ScalarE for VectorE`"""
    colour: int
    time_ps: int
    time_words: str


@dataclass(frozen=True, slots=True)
class BoundShare(Record):
    """One bound's part of a window."""

    bound: str
    colour: int
    """Index of `palette.BOUNDS`."""
    name: str
    short: str
    share: float
    share_words: str
    time_words: str


@dataclass(frozen=True, slots=True)
class EvidenceLine(Record):
    """One sentence of a verdict with its numbers."""

    bound: str
    ceiling: str
    reached: str
    limit: str
    share: float | None
    share_words: str
    sentence: str


@dataclass(frozen=True, slots=True)
class VerdictCard(Record):
    """What bounds a region, why, and by how far."""

    region: str
    kind: str
    """whole, model, layer, operator, kernel, loop, line or selection."""
    bound: str
    """Empty without a verdict; then there are no scores either."""
    colour: int
    title: str
    """`Compute-bound`, `No verdict`"""
    engine: str
    """The engine that a compute bound names, else empty."""
    share: float
    share_words: str
    margin: str
    """`59 points ahead of latency`"""
    headline: str
    """The one sentence for the strip."""
    shares: tuple[BoundShare, ...]
    """Every moment charged once, so that they add up; largest first, none of zero."""
    scores: tuple[BoundShare, ...]
    """Of every bound, the winner first; bounds overlap in time, so they may add up to more than the whole."""
    evidence: tuple[EvidenceLine, ...]
    t0_ps: int
    t1_ps: int


@dataclass(frozen=True, slots=True)
class RegionRow(Record):
    """A kernel, loop, operator or source line in the table of regions."""

    row: int
    """Of `trace.regions`; -1 for a line that is no region."""
    name: str
    kind: str
    depth: int
    t0_ps: int
    t1_ps: int
    start: str
    took: str
    share: float
    """Of the kernel window, 0-1."""
    share_words: str
    bound: str
    bound_colour: int
    bound_words: str
    source: str


@dataclass(frozen=True, slots=True)
class SourceRow(Record):
    """Engine time of one source line."""

    source: str
    """`path:line` as the trace has it."""
    place: str
    """Without the folders."""
    file: str
    line: int
    time_ps: int
    time_words: str
    share: float
    share_words: str
    instructions: int
    engine: int
    """The engine that works longest for the line, -1 when it only moves data."""
    colour: int
    engine_name: str
    bound: str
    bound_colour: int
    first_row: int
    t0_ps: int
    t1_ps: int


@dataclass(frozen=True, slots=True)
class Dot(Record):
    """A point of the roofline as a table row."""

    name: str
    kind: str
    """whole, model, layer, operator, kernel, loop, line or selection."""
    region: int
    """Row of `trace.regions`, -1 for none."""
    intensity: str
    performance: str
    roof: str
    roof_share: str
    time: str
    bound: str
    bound_colour: int
    bound_words: str
    missing: str
    """Why it cannot be drawn, empty when it can."""
    estimated: bool
    t0_ps: int
    t1_ps: int


@dataclass(frozen=True, slots=True)
class ListingRow(Record):
    """An instruction or a transfer as a row of a table."""

    kind: str
    """instruction or transfer"""
    row: int
    """Of the table of its kind."""
    id: str
    title: str
    engine: str
    """Of a transfer its queue."""
    colour: int
    core: int
    start_ps: int
    end_ps: int
    start: str
    took: str
    region: str
    source: str
    bytes: int | None
    """Of a transfer."""
    operands: str


@dataclass(frozen=True, slots=True)
class Listing(Record):
    """A page of what lies in a stretch of time, in order of start."""

    rows: tuple[ListingRow, ...]
    first: int
    """Number of the first row, from 0."""
    count: int
    """Of all pages."""
    words: str


@dataclass(frozen=True, slots=True)
class AreaCard(Record):
    """A stretch of time that was selected."""

    t0_ps: int
    t1_ps: int
    title: str
    verdict: VerdictCard
    facts: tuple[Fact, ...]
    engines: tuple[EngineRow, ...]
    waits: tuple[Waiting, ...]
    dot: Dot | None
    """None without FLOPs or HBM bytes."""


def absent(name: str, why: str) -> Fact:
    """A figure that cannot be computed."""
    return Fact(name, words.NOT_AVAILABLE, None, why)
