"""The tabs that answer what to do about it: advice, the critical path, what lies in memory."""

from __future__ import annotations

from dash import html

from trnprof.view import Session
from trnprof.view import format as words
from trnprof.view.findings import AdviceCard
from trnprof.view.memory import MemoryMap
from trnprof.view.paths import CauseRow, CircuitCard, PathLine
from trnprof.web.parts import Part, dim, heading, meter, mid, row, stretch, table

MOST_TILES = 40
"""Rows of the table below the map."""


def advice(session: Session) -> list[Part]:
    """What would make the kernel faster, each with the way to its instructions."""
    found = session.advice()
    if not found:
        return [html.P("No rule has a complaint.", className="mid"), *_looked_for()]
    whole = session.meta.window.words
    note = html.P(f"Gains of {whole}; each alone, they do not add up.", className="mid spaced")
    return [note, _tries(), *map(_advice, found)]


def _tries() -> html.P:
    """Where a change can be tried."""
    names = (("what_if", "What-if"), ("compare", "Compare"))
    buttons = [html.Button(name, className="btn", **{"data-act": act}) for act, name in names]
    return html.P([mid("Try a change: "), *buttons], className="row spaced")


def _looked_for() -> list[Part]:
    text = (
        "Looked for: reloads, spills, small or serial transfers, idle partitions, engines that take turns, cold clocks."
    )
    return [html.P(text, className="dim spaced")]


def _advice(card: AdviceCard) -> html.Section:
    title = html.Div(
        [html.B([dim(f"{card.number} "), card.title], className="grow"), html.Span(card.gain, className="num gain")],
        className="row top",
    )
    where = " · ".join(filter(None, (card.region if card.region != card.place else "", card.place)))
    more = [html.P(sentence, className="mid") for sentence in card.evidence]
    reference = [html.P(card.reference, className="dim")] if card.reference else []
    return html.Section(
        [
            title,
            meter(card.share, "accent"),
            html.P(card.symptom, className="mid"),
            html.P([html.B("Do: "), card.fix], className="wrap"),
            *_ways(card, where),
            html.Details([html.Summary("Evidence, and how the gain was found", className="dim"), *more, *[
                html.P(card.how, className="mid"), *reference]]),
        ],
        className="score",
    )  # fmt: skip


def _ways(card: AdviceCard, where: str) -> list[Part]:
    """Buttons that lead to the instructions which show it."""
    if not card.rows:
        return [html.P(where, className="dim")] if where else []
    rows = ",".join(map(str, card.rows))
    first = html.Button(
        f"Show {card.count} in the timeline" if card.count > 1 else "Show in the timeline",
        className="btn",
        **{"data-rows": rows, "data-go": str(card.rows[0])},
    )
    chips = [
        html.Button(name, className="chip", **{"data-go": str(number), "data-keep": "1"})
        for name, number in zip(card.names, card.rows, strict=False)
    ]
    more = [dim(f"and {card.count - len(chips)} more")] if card.count > len(chips) else []
    return [html.P([first, dim(where)], className="row spaced"), html.Div([*chips, *more], className="chips")]


def path(session: Session, chosen: int | None) -> list[Part]:
    """What the end hung on: causes, loops, lines; and how much slack the selection has."""
    found = session.critical()
    if not found.causes:
        return [html.P("Nothing ran, so nothing held up the end.", className="mid")]
    colour = html.Button("Colour the timeline by it", className="btn", **{"data-colour": "path"})
    slack = [html.P([dim("Slack of the selection: "), session.slack(chosen)])] if chosen is not None else []
    parts: list[Part] = [
        html.P(found.headline, className="mid"),
        html.P(colour, className="spaced"),
        *slack,
        heading("What it was spent on", "adds up to the window"),
        html.Table(html.Tbody([_cause(cause) for cause in found.causes])),
    ]
    if found.circuits:
        parts += [heading("What holds up the loops"), *map(_circuit, found.circuits)]
    if found.lines:
        head = ("line", "mostly", "time", "share")
        parts += [heading("Lines on the path"), table(head, [_line(line) for line in found.lines[:40]], (2, 3))]
    return [*parts, html.P(found.slack, className="dim spaced")]


def _cause(cause: CauseRow) -> html.Tr:
    name = html.Div([cause.name, html.Div(dim(cause.note))] if cause.note else cause.name)
    bar = html.Div(meter(cause.share, "accent"), className="inline")
    return row([name, bar, cause.time_words, cause.share_words], (2, 3))


def _circuit(card: CircuitCard) -> html.Section:
    stations = [
        row([name, dim(place), took], (2,), **{"data-go": str(number), "data-keep": "1"})
        for name, place, took, number in card.stations
    ]
    go = html.Button("Select", className="btn quiet", **stretch(card.t0_ps, card.t1_ps, card.name))
    steps = html.Details(
        [
            html.Summary(f"{words.plural(len(card.stations), 'step')} a round", className="dim"),
            html.Table(html.Tbody(stations)),
        ]
    )
    title = html.Div([html.B(card.name, className="grow clip", title=card.name), go], className="row")
    return html.Section([title, html.P(card.headline, className="mid"), steps], className="score")


def _line(line: PathLine) -> html.Tr:
    place = html.Code(line.place, title=line.source)
    return row([place, mid(line.mostly), line.time_words, line.share_words], (2, 3), **{"data-goto": line.source})


def memory(session: Session, at_ps: int) -> list[Part]:
    """SBUF and PSUM at a moment: the map, drawn by assets/memory.js, and the same as a table."""
    found = session.memory(at_ps)
    if found.missing:
        return [html.P(found.missing, className="mid")]
    parts: list[Part] = [
        html.P([html.B(["At ", html.Span(found.moment, id="memory-at")]), dim(" follows pointer and selection")])
    ]
    for each in found.maps:
        parts += [
            html.Div(
                [html.H3(each.name), html.Span(each.used_words, id=f"used-{each.name}", className="grow num dim")],
                className="row base",
            ),
            html.Canvas(
                className="memory-map",
                role="img",
                **{"data-memory": each.name, "aria-label": f"{each.name}: {each.used_words}; the table below has all"},
            ),
            html.P(f"across: {each.shown_words}", className="dim axis"),
        ]
    axes = "Down: the partitions. A click on a tile selects its time."
    tables = [part for each in found.maps for part in _tiles(each, found.moment)]
    return [*parts, html.P(axes, className="dim"), *tables]


def _tiles(found: MemoryMap, moment: str) -> list[Part]:
    rows = [
        row([html.Span(t.name, title=f"{t.place} {t.source}"), dim(t.lives), t.size_words], (2,),
            **stretch(t.t0_ps, t.t1_ps, t.name))
        for t in found.tiles[:MOST_TILES]
    ]  # fmt: skip
    rest = len(found.tiles) + found.left_out - len(rows)
    more = [html.P(f"{rest} more, smaller", className="dim")] if rest > 0 else []
    if not rows:
        return [heading(f"In {found.name}", f"at {moment}"), html.P("Nothing.", className="mid")]
    return [heading(f"In {found.name}", f"at {moment}"), table(("tensor", "lives", "size"), rows, (2,)), *more]
