"""A roofline as one self-contained page: the picture, what a pointer over it says, and every number as tables.

No script and nothing from elsewhere; colours follow the reader's light or dark setting, print is light.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from trnprof import words
from trnprof.report.layout import cells, without_sentence
from trnprof.report.scene import Scene
from trnprof.report.svg import FONT, to_svg
from trnprof.view.palette import THEME_COLOURS

if TYPE_CHECKING:
    from trnprof.roofline import Chart

TOKENS = (
    "bg", "surface", "hover", "line", "line-2", "text", "text-2", "text-3", "accent", "compute", "memory_bandwidth",
    "memory_capacity", "network", "latency", "bad", "mark",
)  # fmt: skip

STYLE = """
body { margin: 0; background: var(--bg); color: var(--text); font: 13px/18px FONT; }
main { max-width: 1176px; margin: 0 auto; padding: 0 0 40px; }
svg { display: block; width: 100%; height: auto; }
h1 { font-size: 18px; margin: 28px 28px 0; }
h2 { font-size: 14px; margin: 24px 28px 6px; }
.scroll { overflow-x: auto; margin: 0 28px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 400; color: var(--text-3); font-size: 11px; }
th, td { padding: 4px 10px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; white-space: nowrap; }
.num { text-align: right; padding-right: 18px; }
td.wide { white-space: normal; color: var(--text-2); }
td.name { white-space: normal; overflow-wrap: anywhere; min-width: 12ch; }
tr:hover td { background: var(--hover); }
p { margin: 12px 28px; color: var(--text-2); max-width: 75ch; }
p.under { margin-top: 4px; max-width: none; }
.dot { cursor: default; }
.dot:hover, .dot.on { stroke: var(--text); stroke-width: 2px; }
@page { size: A4 landscape; margin: 12mm; }
@media print {
  .scroll { overflow: visible; }
  tr, svg { break-inside: avoid; }
  table { font-size: 8pt; line-height: 11pt; }
  th, td { padding: 3px 6px 3px 0; }
  h2 { break-after: avoid; }
}
"""


def to_html(chart: Chart, scene: Scene, theme: str | None = None) -> str:
    """The page as text.

    theme : light, dark or contrast for a fixed one; None follows the reader
    """
    picture = to_svg(scene, lambda token: "#000" if token == "hatch" else f"var(--{token})", standalone=False)
    title = escape(words.plain(chart.title))
    body = f"<h2>Dots</h2>\n{_dots(chart)}\n{_without(chart)}\n<h2>Roofs</h2>\n{_roofs(chart)}"
    return page(f"{title}: roofline", picture, body, len(chart.dots), theme)


def page(title: str, picture: str, body: str, dots: int, theme: str | None = None) -> str:
    """A self-contained page: a picture whose dots and the rows `row-<number>` light up together, and tables."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{colours(theme)}{STYLE.replace("FONT", FONT)}{_links(dots)}</style>
</head>
<body>
<main>
{picture}
{body}
</main>
</body>
</html>
"""


def colours(theme: str | None, more: Sequence[str] = ()) -> str:
    """The palette as CSS variables.

    theme : None follows the reader on screen
    more  : tokens beside those that a chart needs
    """

    def block(name: str) -> str:
        tokens = dict.fromkeys((*TOKENS, *more))
        return ":root { " + " ".join(f"--{token}: {THEME_COLOURS[name][token]};" for token in tokens) + " }"

    if theme is not None:
        return block(theme)
    return f"{block('light')}\n@media screen and (prefers-color-scheme: dark) {{ {block('dark')} }}\n"


def _links(dots: int) -> str:
    """A row and its dot light up together."""
    rules = []
    for key in range(1, dots + 1):
        rules.append(f".page:has(.row-{key}:hover) .dot-{key}")
    both = ", ".join(rule.replace(".page", "main") for rule in rules)
    rows = ", ".join(f"main:has(.dot-{key}:hover) .row-{key} td" for key in range(1, dots + 1))
    if not dots:
        return ""
    return f"{both} {{ stroke: var(--text); stroke-width: 2px; }}\n{rows} {{ background: var(--hover); }}\n"


def _dots(chart: Chart) -> str:
    head = row(
        ("", "dot", "kind", "intensity", "reached", "roof", "attainable", "of it", "HBM bytes", "time", "bound"),
        "th",
        numbers={3, 4, 6, 7, 8, 9},
    )
    body = []
    for key, dot in enumerate(chart.dots, start=1):
        name, intensity, reached, share, moved, time, bound = cells(dot)
        attainable = words.quantity(dot.attainable, dot.unit)
        fields = (str(key), name, dot.kind, intensity, reached, dot.roof or "", attainable, share, moved, time, bound)
        body.append(row(fields, "td", f"row-{key}", {3, 4, 6, 7, 8, 9}, {1: "name"}))
    return table(head, body)


def _without(chart: Chart) -> str:
    sentence = without_sentence(chart)
    return f"<p>{escape(sentence)}</p>" if sentence else ""


def _roofs(chart: Chart) -> str:
    head = row(("roof", "limit", "kind", "basis", "source", "note"), "th", numbers={1})
    body = [
        row((c.name, words.quantity(c.value, c.unit), c.kind, c.basis, c.source, c.note), "td",
             numbers={1}, classes={4: "wide", 5: "wide"})
        for c in (*chart.ceilings, *chart.rivals)
    ]  # fmt: skip
    ridges = [
        row((f"ridge {ridge.name}", words.intensity(ridge.intensity), "", "derived", "", ""), "td", numbers={1})
        for ridge in chart.ridges
    ]
    return table(head, body + ridges)


def table(head: str, body: list[str]) -> str:
    rows = "\n".join(body)
    return f'<div class="scroll"><table>\n<thead>{head}</thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'


def row(
    values: tuple[str, ...],
    tag: str,
    name: str = "",
    numbers: frozenset[int] | set[int] = frozenset(),
    classes: dict[int, str] | None = None,
) -> str:
    parts = []
    for place, value in enumerate(values):
        style = "num" if place in numbers else (classes or {}).get(place, "")
        parts.append(
            f"<{tag}{f' class={chr(34)}{style}{chr(34)}' if style else ''}>{escape(words.plain(value))}</{tag}>"
        )
    return f"<tr{f' class={chr(34)}{name}{chr(34)}' if name else ''}>{''.join(parts)}</tr>"
