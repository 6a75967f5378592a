"""A screen as an SVG that needs no font, no network and no terminal: words stay text, blocks and dots are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape

from rich.color import Color

from trnprof.tui.canvas import Canvas, width_of
from trnprof.tui.cells import LANE_BITS, LEFT, RIGHT_EDGE, RIGHT_HALF, UP
from trnprof.tui.ink import DIM, Inkwell

CELL_W, CELL_H, FONT = 8.4, 17.0, 14
MARGIN = 12
SHADES = {"░": 0.3, "▒": 0.55, "▓": 0.8}
FAMILY = "ui-monospace, 'SF Mono', 'Cascadia Mono', 'JetBrains Mono', 'DejaVu Sans Mono', monospace"


def svg(canvas: Canvas, inkwell: Inkwell, title: str, caption: str) -> str:
    """The canvas as SVG text, with a title for screen readers and a caption line below.

    inkwell : must be of depth `truecolor`
    """
    width = canvas.width * CELL_W + 2 * MARGIN
    height = (canvas.height + 2) * CELL_H + 2 * MARGIN
    ground = inkwell.back
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.1f} {height:.1f}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="100%" height="100%" fill="{ground}"/>',
        f'<g font-family="{FAMILY}" font-size="{FONT}" xml:space="preserve" transform="translate({MARGIN} {MARGIN})">',
    ]
    for y in range(canvas.height):
        parts += _line(canvas, y, inkwell, ground)
    foot = _hex(inkwell.style(DIM).color, "#616b79")
    parts.append(f'<text x="0" y="{(canvas.height + 1.6) * CELL_H:.1f}" fill="{foot}">{escape(caption)}</text>')
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _line(canvas: Canvas, y: int, inkwell: Inkwell, ground: str) -> Iterator[str]:
    x = 0
    for text, code in canvas.runs(y):
        style = inkwell.style(code)
        front, back = _hex(style.color, "#000000"), _hex(style.bgcolor, ground)
        cells = width_of(text)
        if back != ground:
            yield _rect(x * CELL_W, y * CELL_H, cells * CELL_W, CELL_H, back)
        yield from _shapes(text, x, y, front)
        yield from _words(text, x, y, front, " font-weight='600'" if style.bold else "")
        x += cells


def _words(text: str, x: int, y: int, colour: str, weight: str) -> Iterator[str]:
    """The letters of a run, word by word so that no font's advance width moves the next one."""
    column = x
    for word in text.split(" "):
        letters = "".join(" " if _drawn(char) else char for char in word)
        offset = len(letters) - len(letters.lstrip())
        if letters.strip():
            shown = letters.strip()
            yield (
                f'<text x="{(column + offset) * CELL_W:.1f}" y="{(y + 0.76) * CELL_H:.1f}" fill="{colour}"{weight} '
                f'textLength="{width_of(shown) * CELL_W:.1f}" lengthAdjust="spacingAndGlyphs">{escape(shown)}</text>'
            )
        column += width_of(word) + 1


def _shapes(text: str, x: int, y: int, colour: str) -> Iterator[str]:
    left, dots = x, []
    for char in text:
        if 0x2800 < ord(char) < 0x2900:
            dots += _dots(ord(char) - 0x2800, left, y)
        elif _drawn(char):
            yield _block(char, left, y, colour)
        left += 1 if ord(char) < 0x1100 else width_of(char)
    if dots:
        yield f'<path d="{"".join(dots)}" fill="{colour}"/>'


def _drawn(char: str) -> bool:
    return 0x2580 <= ord(char) < 0x25A0 or 0x2800 <= ord(char) < 0x2900


def _block(char: str, column: int, row: int, colour: str) -> str:
    x, y, code = column * CELL_W, row * CELL_H, ord(char)
    if char in SHADES:
        return _rect(x, y, CELL_W, CELL_H, colour, SHADES[char])
    if char == "▞":
        half_w, half_h = CELL_W / 2, CELL_H / 2
        return _rect(x + half_w, y, half_w, half_h, colour) + _rect(x, y + half_h, half_w, half_h, colour)
    if code in (RIGHT_HALF, RIGHT_EDGE):
        share = 0.5 if code == RIGHT_HALF else 0.125
        return _rect(x + CELL_W * (1 - share), y, CELL_W * share, CELL_H, colour)
    if code in LEFT:
        return _rect(x, y, CELL_W * int((code == LEFT).argmax()) / 8, CELL_H, colour)
    high = CELL_H * int((code == UP).argmax()) / 8
    return _rect(x, y + CELL_H - high, CELL_W, high, colour)


def _dots(bits: int, column: int, row: int) -> Iterator[str]:
    for down in range(4):
        for across in range(2):
            if bits & int(LANE_BITS[down, across]):
                x, y = (column + 0.15 + across * 0.45) * CELL_W, (row + 0.05 + down * 0.25) * CELL_H
                yield f"M{x:.1f} {y:.1f}h2.4v2.6h-2.4z"


def _rect(x: float, y: float, width: float, height: float, colour: str, opacity: float = 1.0) -> str:
    faint = "" if opacity == 1 else f' fill-opacity="{opacity}"'
    return f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{colour}"{faint}/>'


def _hex(colour: Color | None, default: str) -> str:
    return default if colour is None or colour.triplet is None else colour.triplet.hex
