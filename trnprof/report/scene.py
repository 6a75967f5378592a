"""A picture as a list of marks, in pixels from the top left; painters turn it into SVG, PDF or HTML.

Colours are names of the palette's tokens, so that one scene serves every theme.
"""

from __future__ import annotations

from dataclasses import dataclass

from trnprof.report.fonts import measure


@dataclass(frozen=True, slots=True)
class Line:
    x0: float
    y0: float
    x1: float
    y1: float
    ink: str
    width: float = 1.0
    dash: tuple[float, ...] = ()
    opacity: float = 1.0
    round: bool = False


@dataclass(frozen=True, slots=True)
class Polygon:
    points: tuple[tuple[float, float], ...]
    fill: str | None
    stroke: str | None = None
    width: float = 1.0
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Circle:
    x: float
    y: float
    r: float
    fill: str | None
    stroke: str | None = None
    width: float = 1.0
    dash: tuple[float, ...] = ()
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Curve:
    """A quadratic curve with an arrow head at its end."""

    x0: float
    y0: float
    cx: float
    cy: float
    x1: float
    y1: float
    ink: str
    width: float = 1.2


@dataclass(frozen=True, slots=True)
class Text:
    x: float
    y: float
    """Of the base line."""
    text: str
    size: float = 11.0
    ink: str = "text"
    anchor: str = "start"
    """start, middle or end."""
    bold: bool = False
    angle: float = 0.0
    """Degrees, counter-clockwise."""
    halo: bool = False

    @property
    def width(self) -> float:
        return measure(self.text, self.size, self.bold)


@dataclass(frozen=True, slots=True)
class Group:
    """Marks that belong to one dot, with what a pointer over them says."""

    marks: tuple[Mark, ...]
    title: str
    key: int
    """Number of the dot."""


Mark = Line | Polygon | Circle | Curve | Text | Group


@dataclass(frozen=True, slots=True)
class Scene:
    width: float
    height: float
    label: str
    """What the picture shows, for those who cannot see it."""
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """Room that something takes."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def inside(self, other: Box) -> bool:
        return (
            self.left >= other.left
            and self.right <= other.right
            and self.top >= other.top
            and self.bottom <= other.bottom
        )


def box_of(text: Text) -> Box:
    """The room of a horizontal line of text."""
    left = text.x - {"start": 0.0, "middle": text.width / 2, "end": text.width}[text.anchor]
    return Box(left, text.y - 0.78 * text.size, left + text.width, text.y + 0.24 * text.size)


def wrap(text: str, width: float, size: float, bold: bool = False) -> list[str]:
    """Lines of text no wider than `width`; a word that is wider by itself is broken."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if measure(longer, size, bold) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        while len(word) > 1 and measure(word, size, bold) > width:
            fit = max(1, _fitting(word, width, size, bold))
            lines.append(word[:fit])
            word = word[fit:]
        line = word
    return [*lines, line] if line else lines


def shorten(text: str, width: float, size: float, bold: bool = False) -> str:
    """Text that fits, its middle left out where it must be."""
    if measure(text, size, bold) <= width:
        return text
    room = width - measure("…", size, bold)
    head = _fitting(text, room / 2, size, bold)
    tail = _fitting(text[::-1], room - measure(text[:head], size, bold), size, bold)
    return f"{text[:head]}…{text[len(text) - tail :]}"


def _fitting(text: str, width: float, size: float, bold: bool) -> int:
    """How many characters of the text fit."""
    taken = 0.0
    for count, character in enumerate(text):
        taken += measure(character, size, bold)
        if taken > width:
            return count
    return len(text)
