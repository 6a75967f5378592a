"""What Dash asks the server: a page for an address, and the panel for a selection."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import parse_qs

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html

from sim.errors import TrnprofError
from trnprof.view import Session
from trnprof.view.palette import THEMES
from trnprof.web import figures, findings, pages, panels, screens
from trnprof.web.library import Library
from trnprof.web.parts import Part
from trnprof.web.start import start_of

log = logging.getLogger("trnprof.web")

GRAPH = {"displayModeBar": False, "responsive": False}


def add_callbacks(app: Dash, library: Library) -> None:
    """Register every callback; each is a plain function of this module."""
    app.callback(Output("page", "children"), Output("trace", "data"), Input("address", "search"))(
        lambda search: page(library, search)
    )
    app.callback(Output("verdict", "children"), Output("judged", "data"), Input("trace", "data"))(
        lambda start: verdict(library, start)
    )
    app.callback(Output("tab", "children"), Input("ask", "data"), prevent_initial_call=True)(
        lambda ask: panel(library, ask)
    )
    app.callback(Output("roofline", "children"), Input("chart", "data"), prevent_initial_call=True)(
        lambda ask: chart(library, ask)
    )
    app.clientside_callback(
        ClientsideFunction("trnprof", "begin"),
        Output("begun", "data"),
        Input("trace", "data"),
        State("page", "children"),
    )
    app.clientside_callback(
        ClientsideFunction("trnprof", "name"),
        Output("begun", "data", allow_duplicate=True),
        Input("judged", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("trnprof", "paged"),
        Output("begun", "data", allow_duplicate=True),
        Input("roofline", "children"),
        State("chart", "data"),
        prevent_initial_call=True,
    )
    for graph in ("graph-tab", "graph-page"):
        app.clientside_callback(
            ClientsideFunction("trnprof", "dot"),
            Output("begun", "data", allow_duplicate=True),
            Input(graph, "clickData"),
            prevent_initial_call=True,
        )


def page(library: Library, search: str | None) -> tuple[list[Part], dict[str, Any] | None]:
    """The screen of an address, and what the timeline starts from."""
    names = parse_qs((search or "").removeprefix("?")).get("trace", [])
    name = names[0] if names else next(iter(library.names), "")
    if not name:
        return screens.empty(library), None
    try:
        session = library.session(name)
        return screens.main(library, name, session), start_of(name, session)
    except (TrnprofError, OSError) as fault:
        return screens.failure(library, name, str(fault)), None
    except Exception as fault:
        log.exception("%s: the page cannot be made", name)
        return screens.failure(library, name, f"{type(fault).__name__}: {fault}"), None


def verdict(library: Library, start: dict[str, Any] | None) -> tuple[list[Part], str]:
    """The strip above the timeline, which comes when the picture is already there, and the title of the page."""
    if not start:
        return [], "trnprof"
    try:
        session = library.session(start["name"])
        return screens.strip(session), f"{start['title']}, {session.verdict.title.lower()} · trnprof"
    except (TrnprofError, OSError) as fault:
        return [html.P(str(fault), className="bad", role="alert")], "trnprof"
    except Exception as fault:
        log.exception("%s: no verdict can be found", start["name"])
        return [html.P(f"{type(fault).__name__}: {fault}", className="bad", role="alert")], "trnprof"


def panel(library: Library, ask: dict[str, Any] | None) -> list[Part]:
    """The tab that is asked for, of what is selected."""
    if not ask:
        return [panels.NOTHING]
    try:
        return _tab(library.session(str(ask.get("trace"))), ask)
    except (TrnprofError, OSError, IndexError) as fault:
        return [html.P(str(fault), className="bad", role="alert")]
    except Exception as fault:
        log.exception("%s: the panel cannot be made", ask.get("trace"))
        return [html.P(f"{type(fault).__name__}: {fault}", className="bad", role="alert")]


def _tab(session: Session, ask: dict[str, Any]) -> list[Part]:
    area = tuple(int(t) for t in ask["area"]) if ask.get("area") else None
    tab = ask.get("tab", "instruction")
    if tab == "verdict":
        return panels.verdict(session)
    if tab == "engines":
        return panels.engines(session, area)
    if tab == "regions":
        return panels.regions(session)
    if tab == "source":
        return panels.source(session, _line_of(session, _chosen(ask)))
    if tab == "advice":
        return findings.advice(session)
    if tab == "path":
        return findings.path(session, _chosen(ask))
    if tab == "memory":
        return findings.memory(session, int(ask.get("at") or session.home[0]))
    if tab == "roofline":
        return [*_small_roofline(session, ask, area)]
    return _selected(session, ask, area)


def _chosen(ask: dict[str, Any]) -> int | None:
    """The selected instruction."""
    row = ask.get("row")
    return int(row) if isinstance(row, int) and row >= 0 else None


def _line_of(session: Session, row: int | None) -> str:
    card = session.card(row) if row is not None else None
    return str(card.source.value) if card and card.source else ""


def _selected(session: Session, ask: dict[str, Any], area: tuple[int, ...] | None) -> list[Part]:
    if area:
        return panels.area(session.area(*area, title=str(ask.get("title") or "")))
    if ask.get("gap"):
        track, moment = ask["gap"]
        found = session.gap(str(track), int(moment))
        return panels.gap(found) if found else [panels.NOTHING]
    if ask.get("transfer") is not None:
        return panels.transfer(session.transfer_card(int(ask["transfer"])))
    row = ask.get("row")
    return [panels.NOTHING] if row is None or int(row) < 0 else panels.instruction(session.card(int(row)))


def _small_roofline(session: Session, ask: dict[str, Any], area: tuple[int, ...] | None) -> list[Part]:
    width = min(700, max(260, int(ask.get("width") or 340)))
    figure = _figure(session, ask, (width, 300), area)
    more = html.Button(["Open full page ", html.Kbd("o")], className="btn", **{"data-act": "roofline"})
    return [
        dcc.Graph(id="graph-tab", figure=figure, config=GRAPH),
        panels.dots(session),
        html.P(more, className="spaced"),
    ]


def _figure(session: Session, ask: dict[str, Any], size: tuple[int, int], area: tuple[int, ...] | None):
    theme = ask.get("theme") if ask.get("theme") in THEMES else THEMES[0]
    chosen = session.area(*area).dot if area else None
    return figures.roofline(session.roofline(), session.dots(), theme, size, chosen)


def chart(library: Library, ask: dict[str, Any] | None) -> list[Part]:
    """What takes the place of the timeline: the roofline, a comparison, what-ifs."""
    if not ask:
        return []
    try:
        session = library.session(str(ask.get("trace")))
        if ask.get("page") == "compare":
            return pages.compare(library, str(ask.get("trace")), str(ask.get("other") or ""))
        if ask.get("page") == "whatif":
            return pages.what_if(session, str(ask.get("wish") or ""))
        if ask.get("page") == "open":
            return pages.opening(library)
        if ask.get("page") == "listing":
            return pages.listing(session, (int(ask["view"][0]), int(ask["view"][1])), int(ask.get("first") or 0))
        return _roofline(session, ask)
    except (TrnprofError, OSError) as fault:
        return [html.Section([pages.back(), html.P(str(fault), className="bad", role="alert")], className="chart")]


def _roofline(session: Session, ask: dict[str, Any]) -> list[Part]:
    size = (min(4000, max(260, int(ask.get("width") or 900))), min(3000, max(260, int(ask.get("height") or 560))))
    area = tuple(int(t) for t in ask["area"]) if ask.get("area") else None
    return screens.roofline_page(
        session, dcc.Graph(id="graph-page", figure=_figure(session, ask, size, area), config=GRAPH)
    )
