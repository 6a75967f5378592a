"""A review as one self-contained page: no script, nothing from elsewhere; light or dark as the reader has it, print
is light on A4."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from trnprof.report.html import STYLE, colours
from trnprof.report.review import Block, Grid, Paragraph, Picture, Points, Review, Section, Shares, Step
from trnprof.report.svg import FONT, to_svg
from trnprof.view import format as words
from trnprof.view.palette import ENGINE_COLOURS

_STYLE = """
main { padding: 28px 28px 40px; }
h1 { font-size: 24px; line-height: 30px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 32px 0 8px; padding-top: 10px; border-top: 1px solid var(--line); }
h3 { font-size: 13px; margin: 18px 0 4px; }
h3 span { font-weight: 400; color: var(--text-2); padding-left: 10px; }
p { margin: 6px 0; color: var(--text); max-width: 100ch; }
p.faint { color: var(--text-3); }
p.lead { font-size: 16px; line-height: 22px; font-weight: 600; }
ul { margin: 6px 0; padding-left: 18px; max-width: 100ch; }
li { margin: 2px 0; overflow-wrap: anywhere; }
.scroll { margin: 8px 0 14px; }
td.name { max-width: 46ch; min-width: 0; }
.shares { display: flex; height: 14px; margin: 10px 0 4px; max-width: 760px; border-radius: 2px; overflow: hidden; }
.shares i { display: block; height: 100%; }
.key { margin: 0 0 10px; color: var(--text-2); }
.key b { display: inline-block; width: 10px; height: 10px; margin: 0 5px 0 12px; border-radius: 2px; }
.key b:first-child { margin-left: 0; }
footer { margin-top: 32px; padding-top: 8px; border-top: 1px solid var(--line); color: var(--text-3);
  overflow-wrap: anywhere; }
@page { size: A4; margin: 14mm 12mm; }
@media print {
  body { font-size: 9.5pt; line-height: 13pt; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  main { padding: 0; max-width: none; }
  p, ul { max-width: none; }
  h2 { margin-top: 18px; }
  h2, h3 { break-after: avoid; }
  figure, .step, .shares, .key { break-inside: avoid; }
  table { font-size: 8pt; line-height: 11pt; }
  th, td { white-space: normal; padding: 3px 6px 3px 0; overflow-wrap: anywhere; }
  .num, .short { white-space: nowrap; padding-right: 8px; }
  th { font-size: 7.5pt; }
  thead { display: table-header-group; }
}
figure { margin: 8px 0; }
"""

SHORT = 18
"""Words of a table cell up to this long stay in one line."""

_BOUND_PATTERNS = {
    "memory_bandwidth": "repeating-linear-gradient(0deg, #0003 0 1px, transparent 1px 4px)",
    "memory_capacity": "repeating-linear-gradient(0deg, #0003 0 1px, transparent 1px 4px)",
    "latency": "repeating-linear-gradient(45deg, #0003 0 1px, transparent 1px 4px)",
    "network": "radial-gradient(#0004 1px, transparent 1.5px) 0 0 / 4px 4px",
}
"""What tells the bounds apart where there is no colour."""


def to_html(review: Review, theme: str | None = None) -> str:
    """The page as text.

    theme : light, dark or contrast for a fixed one; None follows the reader
    """
    title = escape(words.plain(review.title))
    style = colours(theme, ENGINE_COLOURS) + STYLE.replace("FONT", FONT) + _STYLE
    sections = "\n".join(_section(section) for section in review.sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}: review</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p>{escape(words.plain(review.subtitle))}</p>
{sections}
<footer>{escape(words.plain(review.footer))}</footer>
</main>
</body>
</html>
"""


def _section(section: Section) -> str:
    blocks = "\n".join(_block(block, number == 0 and section.title == "Verdict") for number, block in
                       enumerate(section.blocks))  # fmt: skip
    return f"<section>\n<h2>{escape(section.title)}</h2>\n{blocks}\n</section>"


def _block(block: Block, lead: bool = False) -> str:
    match block:
        case Paragraph():
            style = " class=lead" if lead else " class=faint" if block.faint else ""
            return f"<p{style}>{_prose(block.text)}</p>"
        case Points():
            return f"<ul>{''.join(f'<li>{_prose(item)}</li>' for item in block.items)}</ul>"
        case Grid():
            return _grid(block)
        case Picture():
            return f"<figure>{to_svg(block.scene, _css, standalone=False)}</figure>"
        case Shares():
            return _shares(block)
        case Step():
            inner = "\n".join(_block(each) for each in block.blocks)
            head = f"{escape(words.plain(block.title))}<span>{escape(block.gain)}</span>"
            return f'<div class="step">\n<h3>{head}</h3>\n{inner}\n</div>'


def _css(token: str) -> str:
    return "#000" if token == "hatch" else f"var(--{token})"


def _grid(grid: Grid) -> str:
    def row(values: tuple[str, ...], tag: str) -> Iterator[str]:
        for place, value in enumerate(values):
            style = "num" if place in grid.right else "name" if len(value) > SHORT else "short"
            yield f"<{tag} class={style}>{escape(words.plain(value))}</{tag}>"

    head = f"<tr>{''.join(row(grid.head, 'th'))}</tr>"
    body = "\n".join(f"<tr>{''.join(row(values, 'td'))}</tr>" for values in grid.rows)
    return f'<div class="scroll"><table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _shares(shares: Shares) -> str:
    bar = "".join(f'<i style="width: {share:.2%}; background: {_fill(bound)}"></i>' for bound, share, _ in shares.parts)
    key = "".join(f'<b style="background: {_fill(bound)}"></b>{escape(text)}' for bound, _, text in shares.parts)
    spoken = escape(", ".join(text for _, _, text in shares.parts))
    return f'<div class="shares" role="img" aria-label="{spoken}">{bar}</div>\n<p class="key">{key}</p>'


def _fill(bound: str) -> str:
    pattern = _BOUND_PATTERNS.get(bound)
    return f"{pattern}, var(--{bound})" if pattern else f"var(--{bound})"


def _prose(text: str) -> str:
    """Text of which no line ends within a number: thin spaces may break, narrow ones may not."""
    return escape(words.plain(text)).replace(words.THIN, words.NARROW)
