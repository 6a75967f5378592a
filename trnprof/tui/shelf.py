"""Traces to choose from: those of a folder, or those that were opened last; typing narrows them or names another."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trnprof.tui import ink
from trnprof.tui.canvas import Canvas, clipped, width_of
from trnprof.view.places import Place

STRONG = ink.TEXT | ink.BOLD
LONGEST = 400
AROUND = 6
"""Lines that are no traces."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """What there is to choose from, and how far the choice is."""

    title: str
    places: tuple[Place, ...]
    at: int = 0
    typed: str = ""
    note: str = ""

    @property
    def found(self) -> tuple[Place, ...]:
        """Those whose name holds what is typed."""
        wanted = self.typed.lower().split()
        return tuple(p for p in self.places if all(word in f"{p.name} {p.folder}".lower() for word in wanted))

    @property
    def chosen(self) -> str:
        """The path under the cursor, else what is typed where it looks like one; empty for none."""
        if self.typed[:1] in ("/", "~", "."):
            return self.typed
        found = self.found
        return found[min(self.at, len(found) - 1)].path if found else ""


def press(shelf: Shelf, key: str, character: str | None) -> Shelf:
    """Another trace under the cursor, or another character typed."""
    count = max(len(shelf.found), 1)
    by = {"down": 1, "tab": 1, "up": -1, "shift+tab": -1, "pagedown": 10, "pageup": -10}.get(key)
    if by is not None:
        return replace(shelf, at=max(0, min(shelf.at + by, count - 1)), note="")
    if key in ("backspace", "ctrl+h"):
        return replace(shelf, typed=shelf.typed[:-1], at=0, note="")
    if key == "ctrl+u":
        return replace(shelf, typed="", at=0, note="")
    if character is not None and character.isprintable():
        return replace(shelf, typed=(shelf.typed + character)[:LONGEST], at=0, note="")
    return shelf


def page(width: int, height: int, shelf: Shelf) -> Canvas:
    """The list around the cursor, with what is typed above and the keys below."""
    canvas = Canvas(width, height)
    found = shelf.found
    canvas.put(1, 0, clipped(shelf.title, max(8, width - 20)), STRONG)
    canvas.put_right(width - 1, 0, f"{len(found)} of {len(shelf.places)}", ink.MID)
    x = canvas.put(1, 2, "/", ink.ACCENT)
    x = canvas.put(x + 1, 2, clipped(shelf.typed, width - 8), STRONG)
    canvas.put(x, 2, "▏", ink.ACCENT)
    if not shelf.typed:
        canvas.put(x + 2, 2, "type to narrow, or a path", ink.DIM)
    room = max(1, height - AROUND)
    first = max(0, min(shelf.at - room // 2, len(found) - room))
    for line, k in enumerate(range(first, min(first + room, len(found))), 4):
        _line(canvas, line, found[k], k == min(shelf.at, len(found) - 1))
    if not found:
        canvas.put(3, 4, "none of that name" if shelf.places else "no trace yet: type the path of one", ink.MID)
    x = 1
    for key, what in (("↑ ↓", "next"), ("Enter", "open"), ("Esc", "back")):
        x = canvas.put(x, height - 1, key, ink.ACCENT)
        x = canvas.put(x + 1, height - 1, what, ink.DIM) + 2
    canvas.put(x, height - 1, shelf.note, ink.MARK)
    return canvas


def _line(canvas: Canvas, y: int, place: Place, on: bool) -> None:
    code = (ink.ACCENT | ink.REVERSE) if on else ink.TEXT
    right = canvas.width - 2
    tail = f"{place.size:>10}  {place.when:>15}"
    tail = tail if width_of(tail) + 24 < right else ""
    name = clipped(place.name, right - width_of(tail) - 3)
    text = f" {name}"
    left = right - width_of(text) - width_of(tail) - 2
    folder = f"  {place.folder}" if place.folder and left > 12 else ""
    text += clipped(folder, left)
    canvas.put(1, y, text + " " * (right - width_of(text) - width_of(tail)) + tail, code, end=right + 1)
