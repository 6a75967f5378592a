"""A review of one trace as sections: verdict, roofline, timeline, regions, critical path, advice, assumptions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnprof.report.layout import cells, lay_out
from trnprof.report.scene import Scene
from trnprof.report.timeline import draw_timeline
from trnprof.view import format as words

if TYPE_CHECKING:
    from trnprof.view.session import Session

PLOT = 400.0
"""Height of the roofline, px: on A4 it fits below the verdict."""

KEY = (
    "Colour is the engine; the strip on top tells which bound holds when. Faint are transposes and what lies outside "
    "of the kernel window; stretches that are partly idle are lighter."
)

REGIONS = 12
LINES = 12
NAMES = 6
"""Rows of a table, and instructions that a piece of advice names; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Points:
    """A list of short sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table; columns in `right` hold numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    """`roofline`, `timeline`: of the file beside a Markdown report."""
    scene: Scene


@dataclass(frozen=True, slots=True)
class Shares:
    """The parts of the time by bound: name, share and words of each, largest first."""

    parts: tuple[tuple[str, float, str], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One piece of advice."""

    title: str
    gain: str
    blocks: tuple[Block, ...]


Block = Paragraph | Points | Grid | Picture | Shares | Step


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Review:
    title: str
    subtitle: str
    sections: tuple[Section, ...]
    footer: str


def review(session: Session) -> Review:
    """All that a reviewer is shown of a trace."""
    from trnprof import __version__

    meta = session.meta
    parts = (
        ("Verdict", _verdict), ("Roofline", _roofline), ("Timeline", _timeline), ("Where the time goes", _regions),
        ("Critical path", _path), ("Advice", _advice), ("Assumptions", _assumptions),
    )  # fmt: skip
    sections = (Section(title, tuple(make(session))) for title, make in parts)
    kind = "emulated: times are the emulator's estimates, marked ~" if meta.estimated else "captured on hardware"
    return Review(
        title=meta.title,
        subtitle=f"{meta.device}, {kind}. Kernel window {meta.window.words}, trace {meta.total.words}.",
        sections=tuple(section for section in sections if section.blocks),
        footer=f"trnprof {__version__}. {meta.source}: {meta.counted}.",
    )


def _verdict(session: Session) -> Iterator[Block]:
    found = session.verdict
    engine = f" on {found.engine}" if found.engine else ""
    lead = f"{found.title}{engine}" + (f": {found.share_words} of the time, {found.margin}." if found.bound else ".")
    yield Paragraph(lead)
    if found.shares:
        yield Shares(tuple((part.bound, part.share, f"{part.name} {part.share_words}") for part in found.shares))
    yield Points(tuple(line.sentence for line in found.evidence))
    engines = session.engine_rows()
    if engines:
        head = ("engine", words.WORKING, "of the window", "instructions")
        rows = tuple((row.name, row.active_words, row.share_words, row.instructions_words) for row in engines)
        yield Grid(head, rows, frozenset((1, 2, 3)))


def _roofline(session: Session) -> Iterator[Block]:
    chart = session.roofline()
    yield Picture("roofline", lay_out(chart, table=False, title=False, height=PLOT))
    head = ("", "dot", "intensity", "reached", "of attainable", "HBM bytes", "time", "bound by")
    rows = tuple((str(number), *cells(dot)) for number, dot in enumerate(chart.dots, start=1))
    if rows:
        yield Grid(head, rows, frozenset((0, 2, 3, 4, 5, 6)))


def _timeline(session: Session) -> Iterator[Block]:
    if len(session.trace.instructions) or len(session.trace.transfers):
        yield Picture("timeline", draw_timeline(session))
        yield Paragraph(KEY, faint=True)


def _regions(session: Session) -> Iterator[Block]:
    regions = [row for row in session.regions() if row.kind != "line"]
    regions = sorted(regions, key=lambda row: -(row.t1_ps - row.t0_ps))[:REGIONS]
    if regions:
        rows = tuple(
            (row.name, row.kind, row.took, row.share_words, row.bound_words, words.place(row.source)) for row in regions
        )
        yield Grid(("region", "", "time", "of the window", "bound by", "source"), rows, frozenset((2, 3)))
    lines = session.source_lines()[:LINES]
    if lines:
        rows = tuple(
            (line.place, line.engine_name, line.time_words, line.share_words, words.count(line.instructions))
            for line in lines
        )
        yield Grid(("source line", "mostly", "time", "of the window", "instructions"), rows, frozenset((2, 3, 4)))


def _path(session: Session) -> Iterator[Block]:
    card = session.critical()
    if not card.causes:
        return
    yield Paragraph(card.headline)
    rows = tuple((row.name, row.time_words, row.share_words, row.note) for row in card.causes)
    yield Grid(("cause", "time", "share", ""), rows, frozenset((1, 2)))
    lines = card.lines[:LINES]
    if lines:
        rows = tuple((line.place, line.time_words, line.share_words, line.mostly) for line in lines)
        yield Grid(("source line", "time", "share", "mostly"), rows, frozenset((1, 2)))
    if card.circuits:
        yield Points(tuple(f"{circuit.name}: {circuit.headline}" for circuit in card.circuits))


def _advice(session: Session) -> Iterator[Block]:
    found = session.advice()
    if not found:
        yield Paragraph("No rule has a complaint.")
        return
    yield Paragraph("Gains are estimates of one change alone: they do not add up.", faint=True)
    for card in found:
        more = card.count - min(card.count, NAMES)
        shown = ", ".join(card.names[:NAMES]) + (f" and {words.count(more)} more" if more else "")
        evidence = (*card.evidence, f"Instructions {shown}") if shown else card.evidence
        where = ", ".join(part for part in (card.rule, card.place, card.reference) if part)
        yield Step(f"{card.number}. {card.title}", f"saves {card.gain}", (
            Paragraph(f"{card.symptom} {card.how}"), Points(evidence), Paragraph(f"Fix: {card.fix}"),
            Paragraph(where, faint=True),
        ))  # fmt: skip


def _assumptions(session: Session) -> Iterator[Block]:
    meta = session.meta
    said = (*meta.findings, *meta.missing, *meta.notes)
    if said:
        yield Points(said)
    rows = tuple((a.name, a.value, a.basis, a.source, a.note) for a in session.assumptions())
    if rows:
        yield Grid(("figure", "value", "basis", "source", "note"), rows, frozenset((1,)))
