"""Small pieces of the page: swatches, meters, facts, links. Names and numbers go in as text, never as markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from trnprof.view.palette import ENGINE_COLOURS
from trnprof.view.records import BoundShare, Fact, Link

Part = Any
"""A Dash component, text, or a list of these."""


def key(colour: int) -> html.Span:
    """The square of an engine."""
    return html.Span(className="swatch small", style={"--c": f"var(--{ENGINE_COLOURS[colour]})"})


def swatch(bound: str, small: bool = False) -> html.Span:
    """The square of a bound, with its hatch."""
    return html.Span(className=f"swatch {'small ' if small else ''}{bound}")


def dim(*parts: Part) -> html.Span:
    return html.Span(list(parts), className="dim")


def mid(*parts: Part) -> html.Span:
    return html.Span(list(parts), className="mid")


def heading(text: str, note: str = "") -> html.H3:
    return html.H3([text, html.Span(f"  {note}", className="plain")] if note else text)


def meter(share: float, colour: str) -> html.Div:
    """A bar of a share, 0-1; `colour` is a token of the palette."""
    width = f"{min(1.0, max(0.0, share)) * 100:.1f}%"
    return html.Div(html.I(style={"width": width}), className="meter", style={"--c": f"var(--{colour})"})


def facts(rows: Sequence[Fact]) -> html.Dl:
    parts: list[Part] = []
    for fact in rows:
        value: list[Part] = [fact.words]
        if fact.note:
            value.append(dim(f" {fact.note}"))
        parts += [html.Dt(fact.name), html.Dd(value)]
    return html.Dl(parts, className="kv")


def jump(link: Link) -> html.Button:
    """A way to another instruction."""
    note = html.B(link.words) if link.binding else link.words
    name = html.Span([link.title, dim(f" {link.id}")], className="grow clip")
    return html.Button([key(link.colour), name, mid(note)], className="jump", **{"data-go": str(link.row)})


def table(head: Sequence[str], rows: Sequence[Part], numbers: Sequence[int] = ()) -> html.Table:
    """Rows of `html.Tr`; `numbers` are the columns set flush right."""
    cells = [html.Th(text, className="num" if k in numbers else "") for k, text in enumerate(head)]
    return html.Table([html.Thead(html.Tr(cells)), html.Tbody(list(rows))])


def row(cells: Sequence[Part], numbers: Sequence[int] = (), **attributes: str) -> html.Tr:
    parts = [html.Td(cell, className="num" if k in numbers else "") for k, cell in enumerate(cells)]
    return html.Tr(parts, className="go" if attributes else "", **attributes)


def stretch(t0_ps: int, t1_ps: int, name: str) -> dict[str, str]:
    """What makes a row lead to a stretch of the timeline."""
    return {"data-t0": str(t0_ps), "data-t1": str(t1_ps), "data-name": name}


def named(colour: Part, text: Part) -> html.Span:
    return html.Span([colour, html.Span(text, className="clip")], className="row")


def shares(parts: Sequence[BoundShare]) -> list[Part]:
    """The bar of bounds and its key."""
    spoken = ", ".join(f"{part.name} {part.share_words}" for part in parts)
    bar = [html.I(className=part.bound, style={"width": f"{part.share * 100:.2f}%"}) for part in parts]
    names = [html.Span(f"{part.short} {part.share_words}") for part in parts[:3]]
    return [
        html.Div(bar, className="shares", role="img", **{"aria-label": spoken}),
        html.Div(names, className="shares-key"),
    ]


def link_to(name: str, state: str = "") -> str:
    """The address of a trace."""
    return f"?trace={name}{f'#{state}' if state else ''}"
