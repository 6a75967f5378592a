"""Whole pages beside the timeline: a comparison of two traces, and what-ifs."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html

from trnprof.view import Session
from trnprof.view.paths import ChangeRow, CompareCard, SettingRow
from trnprof.web.library import Library
from trnprof.web.parts import Part, dim, heading, mid, row, table

MOST_CHANGES = 40


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
