"""What stands below or beside the tracks: cards, verdicts and tables as lines of inked text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from trnprof.tui import cells, ink
from trnprof.tui.canvas import Canvas, clipped, width_of
from trnprof.view import format as words
from trnprof.view.code import SourceFile
from trnprof.view.palette import BOUND_GLYPHS
from trnprof.view.records import (
    AreaCard,
    BoundShare,
    Card,
    EngineRow,
    Fact,
    GapCard,
    Link,
    RegionRow,
    SourceRow,
    TransferCard,
    VerdictCard,
)

Line = Sequence[tuple[str, int]]
NAME = 9
"""Cells for the name of a fact."""
GAUGE = 18
STRONG = ink.TEXT | ink.BOLD


def draw(canvas: Canvas, lines: Iterable[Line], x: int, y: int, width: int, height: int) -> None:
    """Write lines one under another; what does not fit is left out."""
    for row, line in zip(range(y, y + height), lines, strict=False):
        at = x
        for text, code in line:
            at = canvas.put(at, row, text, code, end=x + width)


def named(name: str, *parts: tuple[str, int]) -> Line:
    """A fact: its name, dim and in a column of its own, then what is known."""
    return [(f"{name:<{NAME}}", ink.DIM), *parts]


def card(found: Card, lines: int, width: int) -> list[Line]:
    """An instruction; where lines are few, the ones that say most come first."""
    facts = {fact.name: fact for fact in found.facts}
    place = facts["Engine"].note if "Engine" in facts else found.id
    head: Line = [("■ ", ink.ENGINE + found.colour), (found.title, STRONG), (f"  {place}", ink.DIM)]
    first = [head, _when(facts), *_peak(found), *_waited(found), *_links(found, width)]
    where = [fact for fact in (facts.get("Engine"), facts.get("Region")) if fact]
    place_line: Line = [
        part for fact in where for part in ((f"{fact.name.lower():<{NAME}}", ink.DIM), (f"{fact.words}   ", ink.TEXT))
    ]
    place_line += [(fact.note, ink.DIM) for fact in where if fact.name == "Region"]
    rest: list[Line] = [place_line] if where else []
    rest += [named(o.role, (f"{o.place:<16} {o.shape}", ink.TEXT)) for o in found.operands]
    rest += [named("source", (found.source.words, ink.TEXT))] if found.source else []
    rest += _facts(f for f in found.facts if f.name not in ("Engine", "Region", "Start", "Duration"))
    rest += [named("moved", (f"{f.name}  {f.words}  {f.note}", ink.TEXT)) for f in found.transfers]
    rest += [named("raw", (part, ink.DIM)) for part in textwrap.wrap(found.raw, max(width - NAME, 20))[:4]]
    if lines >= 8:
        return [head, *rest[:1], *first[1:], *rest[1:]]
    return [*first, *rest]


def _when(facts: dict[str, Fact]) -> Line:
    start, took = facts["Start"], facts["Duration"]
    mark = ink.MARK if took.words.startswith("~") else ink.TEXT
    return named(
        "time", (f"{start.words} {start.note.replace('to ', '→ ')}   ", ink.TEXT), (took.words, mark | ink.BOLD)
    )


def _peak(found: Card) -> list[Line]:
    if found.achieved is None:
        return []
    full, empty = cells.gauge(found.achieved.share, GAUGE)
    colour = ink.ENGINE + found.colour
    parts = ((full, colour), (empty, colour), (f" {found.achieved.words}", colour | ink.BOLD))
    return [named("peak", *parts, (f"  {found.achieved.sentence}", ink.DIM))]


def _waited(found: Card) -> list[Line]:
    if found.wait is None:
        return []
    return [named("waited", (f"{found.wait.words} ", ink.TEXT), (found.wait.note.removeprefix("idle "), ink.TEXT))]


def _links(found: Card, width: int) -> list[Line]:
    """Both sides' binding neighbour first, with the key that goes there, then the second ones."""
    lines: list[Line] = []
    for name, links, key in (("after", found.after, "["), ("before", found.before, "]")):
        for k, link in enumerate(links[: 2 if width < 60 else 3]):
            more = f"  {len(links) - 1} more" if k == 0 and len(links) > 1 else ""
            lines.append(_link(name if k == 0 else "", link, key if k == 0 else "", more))
    return sorted(lines, key=lambda line: not line[0][0].strip())


def _link(name: str, link: Link, key: str, more: str = "") -> Line:
    return [
        (f"{name:<{NAME - 2}}", ink.DIM),
        (f"{key:<2}", ink.ACCENT),
        ("■ ", ink.ENGINE + link.colour),
        (f"{link.title} {link.id}  ", ink.TEXT),
        (link.words, STRONG if link.binding else ink.TEXT),
        (more, ink.DIM),
    ]


def _facts(facts: Iterable[Fact]) -> list[Line]:
    return [
        [(f"{fact.name.lower()}  ".ljust(NAME), ink.DIM), (fact.words, ink.TEXT), (f"  {fact.note}", ink.DIM)]
        for fact in facts
    ]


def transfer(found: TransferCard) -> list[Line]:
    head: Line = [("■ ", ink.ENGINE + found.colour), (found.title, STRONG), (f"  {found.id}", ink.DIM)]
    facts = {fact.name: fact for fact in found.facts}
    rest = _facts(fact for fact in found.facts if fact.name not in ("Start", "Duration"))
    after = [_link("after", found.trigger, "[")] if found.trigger else []
    return [head, _when(facts), *after, *rest]


def gap(found: GapCard) -> list[Line]:
    head: Line = [("╌ ", ink.ENGINE + found.colour), (found.title, STRONG)]
    lines: list[Line] = [head, *_facts(found.facts)]
    lines += [_link("for", found.waited_for, "[")] if found.waited_for else []
    lines += [_link("then", found.then, "]")] if found.then else []
    return lines


def verdicts(found: Sequence[VerdictCard], width: int) -> list[Line]:
    """Every verdict: title, margin, the parts of the time, then its evidence."""
    lines: list[Line] = []
    for verdict in found:
        glyph = BOUND_GLYPHS[verdict.colour].glyph
        region = f"  {verdict.region}" if verdict.region else ""
        lines.append([(f"{glyph} ", ink.BOUND + verdict.colour), (verdict.title, STRONG), (region, ink.MID)])
        room = max(8, min(28, width - width_of(verdict.margin) - 2))
        lines.append([*bar(verdict.shares, room), (f"  {verdict.margin}", ink.MID)])
        for evidence in verdict.evidence:
            lines += wrapped(evidence.sentence, width, f"{evidence.share_words:>5} ")
        lines.append([])
    return lines[:-1]


def notes(sentences: Sequence[str], width: int) -> list[Line]:
    """What the trace does not tell."""
    lines = [line for sentence in sentences for line in wrapped(sentence, width, "  · ")]
    return [[], [("Not told by this trace", STRONG)], *lines] if lines else []


def bar(shares: Sequence[BoundShare], width: int) -> list[tuple[str, int]]:
    """The parts of a window as one bar, largest first, in the glyphs of the bounds."""
    parts = sorted((s for s in shares if s.share), key=lambda s: -(s.share or 0))
    drawn, left = [], width
    for part in parts:
        length = min(left, round((part.share or 0) * width))
        drawn.append((BOUND_GLYPHS[part.colour].glyph * length, ink.BOUND + part.colour))
        left -= length
    return drawn


def wrapped(text: str, width: int, lead: str) -> list[Line]:
    parts = textwrap.wrap(text, max(20, width - width_of(lead))) or [""]
    return [[(lead if k == 0 else " " * width_of(lead), ink.DIM), (part, ink.TEXT)] for k, part in enumerate(parts)]


def area(found: AreaCard, width: int) -> list[Line]:
    """A stretch of time: its bound, what each engine did, what was waited for."""
    verdict = found.verdict
    head = [("▞ ", ink.ACCENT), (found.title, STRONG), (f"  {verdict.title}", ink.TEXT)]
    shares = [(f"{share.short} {share.share_words}  ", ink.MID) for share in verdict.shares if share.share]
    lines: list[Line] = [head, [*bar(verdict.shares, 20), ("  ", ink.TEXT), *shares]]
    lines += _flowed(
        [[(f"{fact.name.lower()} ", ink.DIM), (f"{fact.words}   ", ink.TEXT)] for fact in found.facts], width
    )
    if found.dot:
        dot = found.dot
        reached = f"{dot.performance} at {dot.intensity} FLOP/B, {dot.roof_share} of its roof"
        lines.append([("● ", ink.BOUND + dot.bound_colour), (dot.missing or reached, ink.TEXT)])
    lines += [_engine(row) for row in found.engines]
    lines += [[("╌ ", ink.ENGINE + w.colour), (f"{w.words}  ", ink.TEXT), (w.time_words, STRONG)] for w in found.waits]
    return lines


def _flowed(parts: Iterable[Line], width: int) -> list[Line]:
    """Short pieces one after another, none of them broken."""
    lines: list[list[tuple[str, int]]] = [[]]
    left = width
    for part in parts:
        length = sum(width_of(text) for text, _ in part)
        if length > left and lines[-1]:
            lines.append([])
            left = width
        lines[-1] += part
        left -= length
    return lines


def engines(rows: Sequence[EngineRow]) -> list[Line]:
    head: Line = [(f"{'engine':<20}{'busy':>19}{words.WORKING:>12}{'instructions':>14}", ink.DIM)]
    return [head, *(_engine(row) for row in rows)]


def _engine(row: EngineRow) -> Line:
    full, empty = cells.gauge(row.share, 12)
    colour = ink.ENGINE + row.colour
    name = clipped(row.name, 17)
    return [
        ("■ ", colour),
        (f"{name:<18}", ink.TEXT),
        (full, colour),
        (empty, ink.DIM),
        (f"{row.share_words:>7}", STRONG),
        (f"{row.active_words:>12}{row.instructions_words:>14}", ink.TEXT),
    ]


def regions(rows: Sequence[RegionRow], width: int) -> list[Line]:
    """Regions as a table, the outer ones first, with bars of their share."""
    name = max(16, min(30, width - 50))
    head: Line = [(f"{'region':<{name}}{'start':>12}{'took':>11}{'share':>7}  {'bound':<18}{'source':<16}", ink.DIM)]
    lines = [head]
    for row in rows:
        title = clipped("  " * min(row.depth, 4) + row.name, name - 1)
        source = clipped(row.source.rpartition("/")[2], 16)
        text = f"{title:<{name}}{row.start:>12}{row.took:>11}{row.share_words:>7}  {row.bound_words:<18}{source:<16}"
        full, _ = cells.gauge(row.share, max(0, width - width_of(text) - 2))
        lines.append([(text, ink.TEXT), (f"  {full}", ink.REGION)])
    return lines


def sources(rows: Sequence[SourceRow], files: Sequence[SourceFile], width: int) -> list[Line]:
    """Source lines, the longest first, with their code where there is room for it."""
    code = {line.row.source: line.text.strip() for file in files for line in file.lines if line.row}
    head: Line = [(f"{'line':<28}{'time':>11}{'share':>8}{'':2}{'engine':<10}", ink.DIM)]
    lines = [head]
    for row in rows:
        place = clipped(f"{row.file.rpartition('/')[2]}:{row.line}", 27)
        text = f"{place:<28}{row.time_words:>11}{row.share_words:>8}  {row.engine_name:<10}"
        room = width - width_of(text) - 2
        said = code.get(row.source, "") if room > 30 else ""
        length = 12 if said else max(0, room)
        full, _ = cells.gauge(row.share, length)
        line: list[tuple[str, int]] = [(text, ink.TEXT), (full, ink.ENGINE + row.colour)]
        if said:
            line.append((f"{' ' * (length - width_of(full))}  {clipped(said, room - length - 2)}", ink.MID))
        lines.append(line)
    return lines
