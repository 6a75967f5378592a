"""A scene as SVG: text stays text, nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from trnprof.report.scene import Circle, Curve, Group, Line, Mark, Polygon, Scene, Text

FONT = "Helvetica, Arial, 'Liberation Sans', 'Nimbus Sans', sans-serif"


def to_svg(scene: Scene, colours: Callable[[str], str], standalone: bool = True) -> str:
    """The picture as text.

    colours    : token of the palette to a CSS colour
    standalone : a file of its own, with its ground; else to stand inside a page
    """
    size = f'viewBox="0 0 {_n(scene.width)} {_n(scene.height)}"'
    head = '<?xml version="1.0" encoding="UTF-8"?>\n' if standalone else ""
    fixed = f' width="{_n(scene.width)}" height="{_n(scene.height)}"' if standalone else ""
    label = f'role="img" aria-label="{_text(scene.label)}" font-family="{FONT}"'
    parts = [
        f'{head}<svg xmlns="http://www.w3.org/2000/svg"{fixed} {size} {label}>',
        f"<title>{_text(scene.label)}</title>",
    ]
    if standalone:
        parts.append(f'<rect width="100%" height="100%" fill="{colours("bg")}"/>')
    parts += [_mark(mark, colours) for mark in scene.marks]
    return "\n".join([*parts, "</svg>\n"])


def _mark(mark: Mark, colours: Callable[[str], str]) -> str:
    match mark:
        case Group():
            inner = "".join(_mark(each, colours) for each in mark.marks)
            return f'<g class="dot dot-{mark.key}"><title>{_text(mark.title)}</title>{inner}</g>'
        case Line():
            ends = f'x1="{_n(mark.x0)}" y1="{_n(mark.y0)}" x2="{_n(mark.x1)}" y2="{_n(mark.y1)}"'
            return f"<line {ends} {_stroke(mark.ink, mark.width, colours, mark.dash)}{_opacity(mark.opacity)}/>"
        case Polygon():
            points = " ".join(f"{_n(x)},{_n(y)}" for x, y in mark.points)
            return f'<polygon points="{points}" {_fill(mark, colours)}{_opacity(mark.opacity)}/>'
        case Circle():
            place = f'cx="{_n(mark.x)}" cy="{_n(mark.y)}" r="{_n(mark.r)}"'
            return f"<circle {place} {_fill(mark, colours, mark.dash)}{_opacity(mark.opacity)}/>"
        case Curve():
            return _curve(mark, colours)
        case Text():
            return _words(mark, colours)


def _curve(mark: Curve, colours: Callable[[str], str]) -> str:
    path = f"M{_n(mark.x0)} {_n(mark.y0)}Q{_n(mark.cx)} {_n(mark.cy)} {_n(mark.x1)} {_n(mark.y1)}"
    head = " ".join(f"{_n(x)},{_n(y)}" for x, y in arrow_head(mark))
    ink = colours(mark.ink)
    line = f'<path d="{path}" fill="none" stroke="{ink}" stroke-width="{_n(mark.width)}"/>'
    return f'{line}<polygon points="{head}" fill="{ink}"/>'


def arrow_head(mark: Curve) -> tuple[tuple[float, float], ...]:
    """The triangle at the end of a curve."""
    dx, dy = mark.x1 - mark.cx, mark.y1 - mark.cy
    length = max(1e-9, (dx * dx + dy * dy) ** 0.5)
    ux, uy = dx / length, dy / length
    return (
        (mark.x1 + 3 * ux, mark.y1 + 3 * uy),
        (mark.x1 - 5 * ux - 3.5 * uy, mark.y1 - 5 * uy + 3.5 * ux),
        (mark.x1 - 5 * ux + 3.5 * uy, mark.y1 - 5 * uy - 3.5 * ux),
    )


def _words(mark: Text, colours: Callable[[str], str]) -> str:
    turn = f' transform="rotate({_n(-mark.angle)} {_n(mark.x)} {_n(mark.y)})"' if mark.angle else ""
    anchor = f' text-anchor="{mark.anchor}"' if mark.anchor != "start" else ""
    bold = ' font-weight="600"' if mark.bold else ""
    halo = (
        f' stroke="{colours("bg")}" stroke-width="4" stroke-linejoin="round" paint-order="stroke"' if mark.halo else ""
    )
    return (
        f'<text x="{_n(mark.x)}" y="{_n(mark.y)}" font-size="{_n(mark.size)}" fill="{colours(mark.ink)}"'
        f'{anchor}{bold}{halo}{turn} xml:space="preserve">{_text(mark.text)}</text>'
    )


def _stroke(ink: str | None, width: float, colours: Callable[[str], str], dash: tuple[float, ...] = ()) -> str:
    if ink is None:
        return ""
    dashes = f' stroke-dasharray="{" ".join(map(_n, dash))}"' if dash else ""
    return f'stroke="{colours(ink)}" stroke-width="{_n(width)}"{dashes}'


def _fill(mark: Polygon | Circle, colours: Callable[[str], str], dash: tuple[float, ...] = ()) -> str:
    inside = colours(mark.fill) if mark.fill else "none"
    return f'fill="{inside}" {_stroke(mark.stroke, mark.width, colours, dash)}'.strip()


def _opacity(value: float) -> str:
    return "" if value == 1 else f' opacity="{_n(value)}"'


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _text(text: str) -> str:
    """Escaped, and without what XML forbids."""
    return escape("".join(c if _allowed(c) else "\ufffd" for c in text))


def _allowed(character: str) -> bool:
    return character in "\t\n" or (
        character >= " " and character not in "\x7f\ufffe\uffff" and not "\ud800" <= character <= "\udfff"
    )
