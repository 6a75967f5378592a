"""The tabs beside the timeline, from records to components."""

from __future__ import annotations

from dash import html

from trnprof.view import Session
from trnprof.view import format as words
from trnprof.view.code import CodeLine, SourceFile
from trnprof.view.keys import TABS
from trnprof.view.palette import ENGINE_COLOURS
from trnprof.view.records import (
    AreaCard,
    Card,
    EngineRow,
    GapCard,
    Link,
    RegionRow,
    SourceRow,
    TransferCard,
    VerdictCard,
    Waiting,
)
from trnprof.web.parts import (
    Part,
    dim,
    facts,
    heading,
    jump,
    key,
    meter,
    mid,
    named,
    row,
    shares,
    stretch,
    swatch,
    table,
)

TAB_NAMES = {
    "instruction": "Instruction",
    "verdict": "Verdict",
    "engines": "Engines",
    "roofline": "Roofline",
    "regions": "Regions",
    "source": "Source",
    "advice": "Advice",
    "path": "Path",
    "memory": "Memory",
}

assert tuple(TAB_NAMES) == TABS

NOTHING = html.P(
    [
        "Nothing is selected. Click an instruction, a gap or a region, or press ",
        html.Kbd("."),
        " for the first in view.",
    ],
    className="mid",
)


def head(title: str, *buttons: Part, before: Part = None) -> html.Div:
    parts = [before] if before is not None else []
    return html.Div([*parts, html.H2(title, className="grow clip card-title"), *buttons], className="row card-head")


def copy_button() -> html.Button:
    return html.Button("Copy JSON", className="btn quiet", title="Copy the card as JSON (y)", **{"data-act": "copy"})


def clear_button() -> html.Button:
    return html.Button(["Clear ", html.Kbd("Esc")], className="btn quiet", **{"data-act": "clear"})


def instruction(card: Card) -> list[Part]:
    colour = ENGINE_COLOURS[card.colour]
    parts: list[Part] = [head(card.title, copy_button(), before=key(card.colour)), facts(card.facts)]
    if card.achieved:
        sentence = [html.B(card.achieved.words), f": {card.achieved.sentence}"]
        parts += [
            heading("Achieved against peak"),
            meter(card.achieved.share, colour),
            html.P(sentence, className="mid"),
        ]
    if card.wait:
        parts += [heading(card.wait.name), html.P([html.B(card.wait.words), mid(f" {card.wait.note}")])]
    if card.operands:
        rows = [row([dim(o.role), o.place, mid(o.shape)], (2,)) for o in card.operands]
        parts += [heading("Operands"), html.Table(html.Tbody(rows))]
    if card.source:
        source = html.Button(
            html.Code(card.source.words, className="clip", title=str(card.source.value)),
            className="jump",
            **{"data-tab": "source"},
        )
        parts += [heading("Source"), source]
    if card.transfers:
        rows = [row([f.name, f.words, mid(f.note)], (1, 2), **{"data-transfer": str(f.value)}) for f in card.transfers]
        parts += [heading("Transfers it triggered"), html.Table(html.Tbody(rows))]
    parts += _links("Waited on", card.after, card.after_count, "all earlier")
    parts += _links("Awaited by", card.before, card.before_count, "all later")
    if not card.after and not card.before:
        parts += [heading("Dependencies"), html.P("None recorded.", className="dim")]
    if card.raw:
        raw = html.P(card.raw, className="mono mid raw")
        parts.append(html.Details([html.Summary("Raw operands", className="dim"), raw]))
    return parts


def _links(title: str, links: tuple[Link, ...], count: int, rest: str) -> list[Part]:
    if not links:
        return []
    more = [html.P(f"{count - len(links)} more, {rest}", className="dim more")] if count > len(links) else []
    return [heading(f"{title} {count}"), *map(jump, links), *more]


def transfer(card: TransferCard) -> list[Part]:
    parts = [head(card.title, copy_button(), before=key(card.colour)), facts(card.facts)]
    if card.trigger:
        parts += [heading("Triggered by"), jump(card.trigger)]
    return parts


def gap(card: GapCard) -> list[Part]:
    parts = [head(card.title, clear_button(), before=key(card.colour)), facts(card.facts)]
    if card.waited_for:
        parts += [heading("Waited for"), jump(card.waited_for)]
    if card.then:
        parts += [heading("Then"), jump(card.then)]
    return parts


def area(card: AreaCard) -> list[Part]:
    verdict = card.verdict
    parts: list[Part] = [
        head(card.title, clear_button()),
        html.P([swatch(verdict.bound), html.B(verdict.title), mid(verdict.margin)], className="row"),
        html.Div(shares(verdict.shares), className="meterbox"),
        html.P(verdict.headline, className="mid spaced"),
        facts(card.facts),
        heading("Busy"),
        *map(_busy, card.engines),
    ]
    parts += [heading("Waits inside"), waits(card.waits[:8])] if card.waits else []
    if card.dot:
        sums = [row([card.dot.intensity, card.dot.performance, card.dot.roof_share], (0, 1, 2))]
        parts += [heading("Under the roof", card.dot.roof), table(("FLOP/B", "reached", "of roof"), sums, (0, 1, 2))]
    return parts


def _busy(engine: EngineRow) -> html.Div:
    name = html.Span(engine.name, className="mid busy-name clip")
    bar = html.Div(meter(engine.share, ENGINE_COLOURS[engine.colour]), className="grow")
    return html.Div([name, bar, html.Span(engine.share_words, className="num share")], className="row")


def waits(rows: tuple[Waiting, ...]) -> html.Table:
    return html.Table(html.Tbody([row([named(key(w.colour), w.words), w.time_words], (1,)) for w in rows]))


def verdict(session: Session) -> list[Part]:
    found = session.verdict
    parts: list[Part] = [] if found.bound else [html.P(html.B(found.title)), html.P(found.headline, className="mid")]
    for score in found.scores:
        evidence = [line for line in found.evidence if line.bound == score.bound]
        known = any(line.share is not None for line in evidence) or score.share > 0
        figures = [score.share_words, dim(f" {score.time_words}")] if known else [dim("n/a")]
        title = html.Div([swatch(score.bound), html.B(score.name, className="grow"), *figures], className="row")
        sentences = [html.P(line.sentence, className="mid") for line in evidence] or [
            html.P("Nothing speaks for it.", className="mid")
        ]
        parts.append(html.Div([title, meter(score.share, score.bound), *sentences], className="score"))
    parts += [heading("Reached against limits"), _limits(found)]
    if session.waits():
        parts += [heading("Where engines wait"), waits(session.waits()[:8])]
    parts += [heading("About this trace"), *_about(session)]
    return parts


def _limits(found: VerdictCard) -> html.Table:
    rows = [
        row([line.ceiling, line.reached, line.limit, line.share_words], (1, 2, 3))
        for line in found.evidence
        if line.share is not None
    ]
    return table(("", "reached", "limit", "share"), rows, (1, 2, 3))


def _about(session: Session) -> list[Part]:
    meta = session.meta
    parts: list[Part] = [html.P([meta.source, dim(f" {meta.counted}")], className="mid wrap")]
    parts += [html.P(finding, className="bad") for finding in meta.findings]
    parts += [html.P(sentence, className="mid") for sentence in meta.missing]
    return [*parts, html.Ul([html.Li(note) for note in meta.notes], className="notes dim")]


def engines(session: Session, area: tuple[int, int] | None) -> list[Part]:
    rows = session.engine_rows(*(area or (None, None)))
    body = [
        row(
            [
                named(key(e.colour), e.name),
                html.Div(meter(e.share, ENGINE_COLOURS[e.colour]), className="inline"),
                e.share_words,
                e.active_words,
                e.instructions_words,
            ],
            (2, 3, 4),
        )
        for e in rows
    ]
    note = "in the selection" if area else "in the kernel window"
    return [
        heading("Engines", note),
        table(("", "", "share", words.WORKING, "count"), body, (2, 3, 4)),
        html.P(words.WORKING_NOTE, className="dim spaced"),
        heading("Idle for", note),
        waits(session.waits(*(area or (None, None)))),
    ]


def regions(session: Session) -> list[Part]:
    found = session.regions()
    if not found:
        return [html.P("The trace names no regions.", className="mid")]
    body = [
        row([_region_name(r), r.took, r.share_words, dim(r.start)], (1, 2, 3), **stretch(r.t0_ps, r.t1_ps, r.name))
        for r in found
    ]
    return [
        html.P("Click a region to select its time; its square is its bound.", className="mid spaced"),
        table(("region", "took", "share", "start"), body, (1, 2, 3)),
    ]


def _region_name(region: RegionRow) -> Part:
    indent = {"paddingLeft": f"{region.depth * 10}px"}
    return named(swatch(region.bound, True), html.Span(region.name, style=indent, title=region.name))


def dots(session: Session) -> html.Table:
    """The roofline as a table."""
    body = [
        row(
            [named(swatch(d.bound, True), d.name), d.intensity, d.performance, d.roof_share],
            (1, 2, 3),
            **stretch(d.t0_ps, d.t1_ps, d.name),
        )
        for d in session.dots()
        if not d.missing
    ]
    return table(("region", "FLOP/B", "reached", "of roof"), body, (1, 2, 3))


def source(session: Session, chosen: str) -> list[Part]:
    found = session.source_lines()
    if not found:
        why = "The trace names no source lines: it was captured or compiled without them."
        return [html.P(why, className="mid")]
    most = found[0].time_ps
    listings = [part for each in session.source_files for part in _listing(each, most, chosen)]
    body = [_line(s, s.time_ps / most if most else 0, chosen) for s in found]
    note = "time in which a line's instructions work or keep their engine waiting; lines overlap"
    lines = table(("line", "", "time", "share"), body, (2, 3))
    return [html.P(note, className="mid spaced"), *listings, heading("Lines by time"), lines]


def _listing(file: SourceFile, most: int, chosen: str) -> list[Part]:
    """The code with the time of each line at its left."""
    if file.missing:
        return [html.P(file.missing, className="dim")]
    rows = [_code(line, most, chosen) for line in file.lines]
    return [
        heading(file.name, file.path),
        html.Div(html.Table(html.Tbody(rows), className="code"), className="listing"),
    ]


def _code(line: CodeLine, most: int, chosen: str) -> html.Tr:
    number = html.Span(str(line.number), className="dim")
    apart = " apart" if line.apart else ""
    if line.row is None:
        cells = [html.Td(number, className="num"), html.Td(), html.Td(html.Code(line.text, className="mid"))]
        return html.Tr(cells, className=apart.strip())
    row = line.row
    bar = meter(row.time_ps / most if most else 0, ENGINE_COLOURS[row.colour])
    time = html.Td([html.Div(row.time_words), bar], className="num code-time")
    code = html.Td(html.Code(line.text), title=f"{row.share_words} of the window, {row.engine_name}")
    attributes = {"data-go": str(row.first_row), "data-on": "true" if row.source == chosen else "false"}
    return html.Tr([html.Td(number, className="num"), time, code], className=f"go{apart}", **attributes)


def _line(line: SourceRow, length: float, chosen: str) -> html.Tr:
    bar = html.Div(meter(length, ENGINE_COLOURS[line.colour]), className="inline")
    attributes = {"data-go": str(line.first_row), "data-on": "true" if line.source == chosen else "false"}
    return row(
        [named(key(line.colour), html.Code(line.place, title=line.source)), bar, line.time_words, line.share_words],
        (2, 3),
        **attributes,
    )
