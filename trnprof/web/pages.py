"""Whole pages beside the timeline: a comparison of two traces, and what-ifs."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html

from trnprof.view import Session
from trnprof.view import format as words
from trnprof.view.paths import ChangeRow, CompareCard, SettingRow
from trnprof.view.records import ListingRow
from trnprof.web.library import Library
from trnprof.web.parts import Part, dim, heading, key, link_to, mid, named, row, table
from trnprof.web.routes import upload_limit

MOST_CHANGES = 40
MOST_NAMES = 200
LISTED = 50
"""Rows of the table of what is in view: the page draws each cell as a component of its own, some ms each."""


def back() -> html.Button:
    return html.Button(["← Timeline ", html.Kbd("Esc")], className="btn quiet", **{"data-act": "back"})


def compare(library: Library, name: str, other: str) -> list[Part]:
    """Two timelines aligned, and what changed from the first to the second; a choice where none is named."""
    if not other:
        return [_choice(library, name)]
    before, after = library.session(name), library.session(other)
    card = after.compared_with(before)
    halves = [_half("before", name, before), _half("after", other, after)]
    top = html.Div(
        [back(), html.H1(card.headline, className="grow"), html.Span(id="pair-said", className="mid", role="status")],
        className="row compare-head",
    )
    warnings = [html.P(warning, className="notice-line") for warning in card.warnings]
    left = html.Section([top, *warnings, *halves], className="grow compare", id="compare", **{"data-other": other})
    return [left, html.Aside(html.Div(_tables(card), className="tab-body"), className="panel roofs")]


def _choice(library: Library, name: str) -> html.Section:
    others = [html.Button(other, className="btn", **{"data-with": other}) for other in library.names if other != name]
    text = (
        "Compare with another trace that is open:" if others else "No other trace is open: trnprof web A B opens two."
    )
    what_if = html.P(["Or change the machine: ", html.Button("What-if", className="btn", **{"data-act": "what_if"})])
    body = [html.H1("Compare"), html.P(text, className="mid spaced"), html.P(others, className="row chips"), what_if]
    return html.Section([html.Div(back(), className="row"), html.Div(body, className="box")], className="grow chart")


def _half(side: str, name: str, session: Session) -> html.Div:
    """One timeline of the pair; assets/compare.js draws it."""
    meta = session.meta
    mark = html.Span(f"{meta.mark}, {meta.device}", className=f"mark {'estimate' if meta.estimated else ''}")
    wished = [html.Code(session.supposed_settings)] if session.supposed_settings else []
    title = [html.B(side.capitalize()), html.Span(meta.title, className="clip"), *wished, mark, mid(meta.window.words)]
    label = f"Timeline {side} the change. W S zoom, A D pan, 0 fits both; a click shows the same instruction in both."
    canvas = html.Canvas(id=f"tracks-{side}", tabIndex="0", role="application", **{"aria-label": label})
    ruler = [html.Div(className="side"), html.Canvas(id=f"ruler-{side}", **{"aria-hidden": "true"})]
    return html.Div(
        [
            html.Div(title, className="row half-head"),
            html.Div(ruler, className="strip ruler"),
            html.Div(
                [html.Div(id=f"gutter-{side}", className="gutter"), html.Div(canvas, className="canvas")],
                className="scroll",
            ),
        ],
        className="half",
        **{"data-name": name},
    )


def _tables(card: CompareCard) -> list[Part]:
    parts: list[Part] = []
    groups = (
        ("By cause", "of the critical path", card.causes),
        ("By engine", "busy time", card.engines),
        ("By region", "", card.regions),
        ("By line", "of the critical path", card.lines),
    )
    for title, note, rows in groups:
        if rows:
            parts += [heading(title, note), changes(rows[:MOST_CHANGES])]
    return [*parts, html.P(card.matched, className="dim spaced")]


def changes(rows: Sequence[ChangeRow]) -> html.Table:
    """Before, after and the difference, which is good news when it is less."""
    body = [
        row(
            [
                html.Span(each.name, title=each.name, className="change-name"),
                each.before or dim("n/a"),
                each.after or dim("n/a"),
                html.Span(each.change, className=_sign(each.change_ps)),
            ],
            (1, 2, 3),
        )
        for each in rows
    ]
    return table(("", "before", "after", "Δ"), body, (1, 2, 3))


def _sign(change_ps: int) -> str:
    return "good" if change_ps < 0 else "bad" if change_ps > 0 else "dim"


def opening(library: Library) -> list[Part]:
    """Other traces: those that are open, those of before, and ways to bring one."""
    return [html.Section([html.Div(back(), className="row"), html.Div(ways(library), className="box")],
                         className="grow chart", id="open")]  # fmt: skip


def ways(library: Library, title: str = "Open a trace") -> list[Part]:
    """What can be opened, as a list; assets/open.js acts on it."""
    parts: list[Part] = [html.H1(title)]
    if library.names:
        links = [html.A(name, href=link_to(name), className="link") for name in library.names[:MOST_NAMES]]
        parts += [html.H3("Open here"), html.P(links, className="chips", id="open-here")]
    if library.followed:
        folders = ", ".join(words.plain(str(folder), 120) for folder in library.followed) if library.local else ""
        said = f"What is written into {folders or 'the folder of this server'} appears here once it is whole."
        parts.append(html.P([said, " ", html.Span(id="waiting")], className="mid", role="status"))
    most = dim(f"a JSON, a Perfetto trace, or a zip or tar of a directory; up to {words.size(upload_limit())}")
    drop = html.Div([html.B("Drop a profile here"), html.Span(id="chosen-file"), most], className="drop", id="drop")
    parts += [html.H3("Send one"), drop, html.P(id="sending", role="status", className="mid")]
    if library.local:
        parts += [html.H3("By its path on this machine"), html.Div(id="by-path", className="wish")]
    rows = [
        row([html.Button(place.name, className="link", **{"data-open": place.path}), mid(place.folder),
             place.size, dim(place.when)], (2,))
        for place in library.recent()
    ]  # fmt: skip
    if rows:
        parts += [html.H3("Recent"), html.Table(html.Tbody(rows), className="recent")]
    return parts


def listing(session: Session, view: tuple[int, int], first: int) -> list[Part]:
    """What is in view as an ordinary table, for who cannot see the timeline: same order, same words."""
    found = session.listing(*view, first, LISTED)
    title = f"In view, {words.moment(view[0])} to {words.moment(view[1])}"
    step = len(found.rows)
    turn = [
        html.Button("← Before", className="btn", disabled=not first, **{"data-first": str(max(0, first - LISTED))}),
        html.Button(
            "After →", className="btn", disabled=first + step >= found.count, **{"data-first": str(first + step)}
        ),
        html.Button("CSV", className="btn", title="Save all of it as CSV (E)", **{"data-act": "export_csv"}),
    ]
    top = html.Div([back(), html.H1(title), html.Span(found.words, className="mid grow", role="status"), *turn],
                   className="row compare-head")  # fmt: skip
    body = [html.Tr([html.Td(cell, className=style) for cell, style in _cells(row)]) for row in found.rows]
    heads = [
        html.Th(text, scope="col", className="num" if text in ("start", "took", "bytes") else "") for text in _COLUMNS
    ]
    rows = html.Table(
        [html.Caption(title, className="sr"), html.Thead(html.Tr(heads)), html.Tbody(body)], className="listing-rows"
    )
    empty = [] if found.rows else [html.P("Nothing starts or runs here: 0 of the trace lies in view.", className="mid")]
    return [html.Section([top, html.Div([rows, *empty], className="page")], className="grow compare", id="listing")]


_COLUMNS = ("start", "took", "what", "id", "engine or queue", "region", "line", "bytes")


def _cells(row: ListingRow) -> list[tuple[Part, str]]:
    """Cells of a row with their styles; the name leads to it in the timeline."""
    where = {"data-go": str(row.row)} if row.kind == "instruction" else {"data-transfer": str(row.row)}
    name = html.Button(row.title, className="link", **where)
    engine = named(key(row.colour), row.engine)
    size = words.size(row.bytes) if row.bytes is not None else ""
    line = words.place(row.source) if row.source else ""
    return [(row.start, "num"), (row.took, "num"), (name, ""), (row.id, "mid"), (engine, ""), (row.region, "mid"),
            (line, "mid"), (size, "num")]  # fmt: skip


def what_if(session: Session, wish: str) -> list[Part]:
    """The form: a line of settings, what runs, what it found; assets/suppose.js fills in the answers."""
    run = html.Button(
        ["Run ", html.Kbd("Enter")], className="btn primary", id="wish-run", **{"data-act": "run_what_if"}
    )
    stop = html.Button("Cancel", className="btn", id="wish-cancel", hidden=True, **{"data-act": "cancel_what_if"})
    line = html.Div(id="wish", className="wish grow", **{"data-value": wish})
    hint = "Spaces part settings, commas their values; every combination runs: hbm_bw=1x,2x,4x tensor_clock=1.2x"
    how = (
        "The kernel is emulated anew with the changed machine."
        if session.trace.meta.is_simulation
        else "From a captured profile: measured times, scaled, not emulated anew."
    )
    left = html.Section(
        [
            html.Div(back(), className="row"),
            html.H1(["What if", dim(f"  {session.meta.title}, {session.meta.window.words}")]),
            html.Div([line, run, stop], className="row wish-row"),
            html.P(hint, className="dim"),
            html.P(how, className="mid"),
            html.P(id="wish-progress", className="mid", role="status"),
            html.Div(id="wish-found"),
        ],
        className="grow chart",
    )
    rows = [_setting(each) for each in session.settings()]
    right = html.Div([heading("Settings", "click to add"), html.Table(html.Tbody(rows))], className="tab-body")
    return [left, html.Aside(right, className="panel roofs")]


def _setting(each: SettingRow) -> Part:
    now = f"now {each.value}" if each.value else f"only {each.name}={each.word}"
    name = html.Div([html.Code(each.name), html.Div(each.meaning), html.Div(now, className="dim")])
    return row([name], **{"data-wish": f"{each.name}={each.word or '2x'}"})
