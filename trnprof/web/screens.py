"""The page around the timeline: header, verdict strip, stage, panel, status bar, and the screens that replace it."""

from __future__ import annotations

from dash import dcc, html

from trnprof.view import Session
from trnprof.view import format as words
from trnprof.view.colours import COLOUR_WORDS, COLOURS
from trnprof.view.keys import TABS, grouped
from trnprof.view.records import Facts
from trnprof.web.library import Library
from trnprof.web.pages import MOST_NAMES, ways
from trnprof.web.panels import TAB_NAMES, dots
from trnprof.web.parts import Part, dim, link_to, mid, row, shares, swatch

_STATUS_KEYS = (
    ("W S", "zoom"),
    ("A D", "pan"),
    (". ,", "next"),
    ("] [", "follow"),
    ("f", "fit"),
    ("0", "all"),
    ("/", "search"),
    ("?", "keys"),
)

_THUMBS = (
    ("−", "zoom_out"),
    ("+", "zoom_in"),
    ("‹", "pan_left"),
    ("›", "pan_right"),
    ("fit", "home"),
    ("◂", "previous"),
    ("▸", "next"),
    ("⋯", "commands"),
)

LABEL = (
    "Timeline. Keys: W S zoom, A D pan, full stop next instruction, question mark all keys. "
    "The tabs beside it hold the same numbers as tables."
)


def brand() -> html.A:
    bars = [html.I(className=f"bar {name}") for name in ("tensor", "vector", "scalar")]
    return html.A(
        [html.Span(bars, className="logo"), html.Span("trnprof", className="hide-s")], className="brand", href="/"
    )


def mark(meta: Facts) -> html.Span:
    """Captured or emulated, never alike."""
    hint = "Times are the emulator's estimates" if meta.estimated else "Measured on hardware"
    return html.Span(
        f"{meta.mark}, {meta.device}", className=f"mark {'estimate' if meta.estimated else ''}", title=hint
    )


def header(library: Library, name: str, meta: Facts | None) -> html.Header:
    parts: list[Part] = [brand()]
    if meta is not None:
        parts += [_traces(library, name, meta), mark(meta)]
    parts.append(html.Span(className="grow"))
    if meta is not None:
        parts.append(_search())
    if meta is not None:
        parts += [
            html.Button("Compare", className="btn quiet hide-m", title="Compare (=)", **{"data-act": "compare"}),
            html.Button("What-if", className="btn quiet hide-m", title="What-if (i)", **{"data-act": "what_if"}),
        ]
    parts += [
        html.Button(
            "Theme", className="btn quiet", title="Theme: dark, light, high contrast (T)", **{"data-act": "theme"}
        ),
        *([_save()] if meta is not None else []),
        html.Button("?", className="btn quiet hide-s", title="Keys", **{"data-act": "help", "aria-label": "Keys"}),
    ]
    return html.Header(parts)


def _save() -> html.Details:
    """What can be taken along."""
    rows = (("Picture, PNG", "export"), ("Picture, SVG", "export_svg"), ("Rows in view, CSV", "export_csv"),
            ("Rows in view as a table", "listing"), ("Link to this view", "link"))  # fmt: skip
    buttons = [html.Button(text, **{"data-act": act}) for text, act in rows]
    return html.Details(
        [html.Summary("Save", className="btn quiet"), html.Div(buttons, className="menu right")],
        className="traces hide-m",
    )


def _traces(library: Library, name: str, meta: Facts) -> Part:
    title = html.Span(meta.title, className="clip trace-name")
    links: list[Part] = [
        html.A(other, href=link_to(other), className="clip", **{"aria-current": "page" if other == name else "false"})
        for other in library.names[:MOST_NAMES]
    ]
    links.append(html.Button(["Open another ", html.Kbd("O")], **{"data-act": "open"}))
    return html.Details(
        [html.Summary([title, dim("▾")], className="btn", title=meta.source), html.Div(links, className="menu")],
        className="traces",
    )


def _search() -> html.Label:
    field = dcc.Input(
        id="q", type="text", placeholder="Search, regex", debounce=False, autoComplete="off", maxLength=200
    )
    return html.Label(
        [html.Span("⌕", **{"aria-hidden": "true"}), field, html.Span(id="hits", className="dim"), html.Kbd("/")],
        className="search",
    )


def legend() -> html.Div:
    """What colours say, and what each means; assets/legend.js fills in the rows, which filter."""
    ways = [html.Option(COLOUR_WORDS[name], value=name) for name in COLOURS]
    choice = html.Label([dim("Colour by"), html.Select(ways, id="colour")])
    rows = html.Div(id="legend", className="legend-rows", role="group", **{"aria-label": "Show one colour alone"})
    return html.Div([choice, rows], className="legend")


def strip(session: Session) -> list[Part]:
    """The verdict in one line: bound, shares, evidence, margin."""
    found = session.verdict
    engine = dim(f" {found.engine}") if found.engine else ""
    return [
        html.Span([swatch(found.bound), html.Span([found.title, engine])], className="bound"),
        html.Div(shares(found.shares), className="meterbox"),
        html.P(found.headline, className="evidence", title=found.headline),
        html.Span(
            [html.B(session.meta.window.words), html.Br(), dim(found.margin)],
            className="mid margin",
            title="Kernel window, with its error bars where the trace has some; distance of the bound to the runner-up",
        ),
    ]


def stage(meta: Facts) -> html.Div:
    """Overview, ruler and tracks; the canvases are drawn by assets/timeline.js."""
    whole = html.Div(html.Span(["whole trace", html.Br(), meta.total.words], className="hide-s"), className="side")
    span = html.Div(html.Span(id="span", className="hide-s"), className="side clip")
    canvas = html.Canvas(id="tracks", tabIndex="0", role="application", **{"aria-label": LABEL})
    return html.Div(
        [
            html.Div([whole, html.Canvas(id="overview", **{"aria-hidden": "true"})], className="strip overview"),
            html.Div([span, html.Canvas(id="ruler", **{"aria-hidden": "true"})], className="strip ruler"),
            html.Div(
                [html.Div(id="gutter", className="gutter"), html.Div(canvas, className="canvas")],
                className="scroll",
                id="scroll",
            ),
            html.Div(id="hover", className="card", hidden=True),
            html.Div(id="notice", className="notice", hidden=True, role="alert"),
        ],
        className="stage",
    )


def panel() -> html.Aside:
    tabs = [
        html.Button(
            name,
            role="tab",
            id=f"tab-{tab}",
            **{"data-tab": tab, "aria-selected": "true" if tab == TABS[0] else "false"},
        )
        for tab, name in TAB_NAMES.items()
    ]
    return html.Aside(
        [
            html.Div(tabs, className="tabs", role="tablist"),
            html.Div(id="tab", className="tab-body", role="tabpanel", tabIndex="0"),
        ],
        className="panel",
        **{"aria-label": "Details"},
    )


def status(meta: Facts) -> html.Footer:
    keys = [html.Span([html.Kbd(k), words], className="hide-m") for k, words in _STATUS_KEYS]
    return html.Footer([html.Span(id="at"), html.Span(className="grow"), *keys, dim(meta.counted)], className="status")


def thumbs() -> html.Nav:
    buttons = [html.Button(sign, **{"data-act": act, "aria-label": act.replace("_", " ")}) for sign, act in _THUMBS]
    return html.Nav(buttons, className="thumbs", **{"aria-label": "Timeline"})


def main(library: Library, name: str, session: Session) -> list[Part]:
    """The timeline's screen."""
    meta = session.meta
    return [
        header(library, name, meta),
        html.Section(mid("Judging what bounds it"), id="verdict", className="verdict", **{"aria-label": "Verdict"}),
        legend(),
        html.Main([stage(meta), panel()]),
        html.Div(id="roofline", hidden=True, className="roofline-page"),
        thumbs(),
        status(meta),
    ]


def roofline_page(session: Session, graph: Part) -> list[Part]:
    """The chart on the whole page, its dots as a table, its roofs with their sources."""
    chart = session.roofline()
    back = html.Button(["← Timeline ", html.Kbd("Esc")], className="btn quiet", **{"data-act": "back"})
    left = html.Section(
        [
            html.Div([back], className="row"),
            html.H1(chart.title),
            html.P(chart.subtitle, className="mid"),
            graph,
            html.P(". ".join(chart.caption) + ".", className="dim caption"),
        ],
        className="grow chart",
    )
    parts: list[Part] = [dots(session)]
    without = [d for d in session.dots() if d.missing]
    if without:
        parts += [html.H3("Without a dot"), *[html.P([d.name, dim(f" {d.missing}")], className="mid") for d in without]]
    roofs = [row([c.name, words.quantity(c.value, c.unit), dim(c.basis)], (1,)) for c in chart.ceilings]
    parts += [html.H3("Roofs"), html.Table(html.Tbody(roofs))]
    return [left, html.Aside(html.Div(parts, className="tab-body"), className="panel roofs")]


MOUSE = (
    "Mouse: wheel zooms at the pointer, drag and Shift+wheel pan, Shift+drag selects an area, click selects, double "
    "click fits. Touch: one finger pans, two zoom."
)


def help_page() -> html.Div:
    """All keys, from the one table."""
    groups = [
        html.Section(
            [html.H3(group), *[html.P([html.Span(k.words), html.Span([html.Kbd(s) for s in k.shown])]) for k in keys]]
        )
        for group, keys in grouped("web")
    ]
    head = html.Div(
        [html.H2("Keys, the same in the browser and the terminal", className="grow"), html.Kbd("Esc")], className="row"
    )
    mouse = html.P(MOUSE, className="mid")
    return html.Div(
        html.Div(
            [head, html.Div(groups, className="keys"), mouse],
            className="dialog",
            role="dialog",
            **{"aria-label": "Keys"},
        ),
        className="veil",
        id="help",
        hidden=True,
        **{"data-act": "close_help"},
    )


def empty(library: Library) -> list[Part]:
    """What is missing, and the ways on."""
    box = [
        *ways(library, "Waiting for the first profile" if library.followed else "No trace is open"),
        html.H3("Or make one, without hardware"),
        html.Div([html.Code("trnprof demo"), dim("a sample kernel")], className="cmd"),
    ]
    return [html.Header([brand()]), html.Div(html.Div(box, className="box"), className="center")]


def failure(library: Library, name: str, message: str) -> list[Part]:
    """What is wrong with the trace, and the others that are open."""
    others = [html.A(other, href=link_to(other), className="link") for other in library.names if other != name]
    box: list[Part] = [html.H1("This trace cannot be shown"), html.P(message, className="mid wrap", role="alert")]
    if others:
        box += [html.H3("Also open"), html.P([part for other in others for part in (other, " ")])]
    return [html.Header([brand()]), html.Div(html.Div(box, className="box"), className="center")]


def loading(name: str) -> list[Part]:
    box = [html.H1("Reading the trace"), html.P(mid(name), id="reading")]
    return [html.Header([brand()]), html.Div(html.Div(box, className="box"), className="center")]
