"""Inks: what a cell means, and how each kind of terminal shows it.

An ink is a number: an index into `INKS` plus flags. Painters use inks; only this module knows colours.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from rich.color import Color
from rich.style import Style

from trnprof.view import palette
from trnprof.view.colours import inks

Depth = Literal["truecolor", "256", "16", "none"]
DEPTHS: tuple[Depth, ...] = ("truecolor", "256", "16", "none")

FRAME = ("text", "mid", "dim", "accent", "good", "bad", "mark", "region")
TEXT, MID, DIM, ACCENT, GOOD, BAD, MARK, REGION = range(len(FRAME))
ENGINE = len(FRAME)
"""Ink of the first engine colour; add the palette's index."""
BOUND = ENGINE + len(palette.ENGINE_COLOURS)
"""Ink of the first bound; add the palette's index."""
NEUTRAL = palette.NEUTRAL
HUE = BOUND + len(palette.BOUNDS)
"""Ink of the first hue; add the index of a legend."""
INKS = (*FRAME, *palette.ENGINE_COLOURS, *palette.BOUNDS, *palette.HUE_COLOURS)
ALT, SELECTED, LABEL, BOLD, REVERSE, UNDERLINE = (1 << bit for bit in range(8, 14))
GROUNDED = SELECTED | LABEL | REVERSE | UNDERLINE
"""Flags under which even a blank cell is seen."""
INDEX = 0xFF
TOKENS = {"mid": "text-2", "dim": "text-3"}

PLAIN = {  # 256-colour code on dark, on light; the terminal's own colour with 16
    "text": (255, 233, "default"),
    "mid": (250, 238, "default"),
    "dim": (246, 242, "bright_black"),
    "accent": (111, 26, "bright_cyan"),
    "good": (115, 29, "green"),
    "bad": (209, 124, "red"),
    "mark": (221, 94, "yellow"),
    "region": (238, 250, "bright_black"),
    "tensor": (69, 62, "bright_blue"),
    "vector": (115, 29, "green"),
    "scalar": (221, 136, "yellow"),
    "gpsimd": (175, 90, "magenta"),
    "sync": (244, 240, "bright_black"),
    "dma": (166, 130, "red"),
    "cc": (195, 74, "bright_white"),
    "other": (109, 60, "cyan"),
    "neutral": (240, 250, "bright_black"),
    "compute": (69, 62, "bright_blue"),
    "memory_bandwidth": (208, 166, "yellow"),
    "memory_capacity": (183, 54, "bright_magenta"),
    "network": (120, 23, "bright_green"),
    "latency": (244, 245, "bright_black"),
    "hue-1": (111, 25, "bright_blue"),
    "hue-2": (178, 130, "yellow"),
    "hue-3": (204, 100, "bright_red"),
    "hue-4": (155, 96, "bright_green"),
    "hue-5": (63, 69, "blue"),
    "hue-6": (132, 132, "magenta"),
    "hue-7": (100, 53, "green"),
    "hue-8": (51, 52, "bright_cyan"),
}
TINT = 0.22
"""How far every second bar steps towards the ground, so that neighbours are told apart."""


def of_way(colour: str, index: int) -> int:
    """Ink of a colour of a frame or legend, for a way of colouring."""
    if inks(colour) == "hue":
        return HUE + index if index >= 0 else MID
    return (BOUND if inks(colour) == "bound" else ENGINE) + index


class Inkwell:
    """Turns inks into styles for one theme and one depth of colour."""

    def __init__(self, theme: str, depth: Depth):
        colours = palette.THEME_COLOURS[theme]
        self.theme, self.depth = theme, depth
        self.light = theme not in palette.DARK_THEMES
        self.back = colours["bg"]
        self.selected = colours["select"]
        self.fronts = tuple(colours[TOKENS.get(name, name)] for name in INKS)
        self._styles: dict[int, Style] = {}

    def style(self, code: int) -> Style:
        style = self._styles.get(code)
        if style is None:
            draw = self._plain if self.depth in ("16", "none") else self._coloured
            style = self._styles[code] = draw(code)
        return style

    def _plain(self, code: int) -> Style:
        """16 colours or none: the terminal's own palette, reverse instead of grounds, never `dim`."""
        raising = REVERSE | SELECTED | (LABEL if self.depth == "16" else 0)
        return Style(
            color=None if self.depth == "none" else PLAIN[INKS[code & INDEX]][2],
            reverse=bool(code & raising) or None,
            bold=bool(code & BOLD) or None,
            underline=bool(code & UNDERLINE) or None,
        )

    def _coloured(self, code: int) -> Style:
        front, back, name = self.fronts[code & INDEX], self.back, INKS[code & INDEX]
        if code & ALT:
            front, name = blend(front, self.back, TINT), ""
        if code & SELECTED:
            front, name = self.selected, ""
        raised = bool(code & (LABEL | REVERSE))
        if raised:
            front, back = palette.ink_on(front), front
        return Style(
            color=self._colour(front, "" if raised else name),
            bgcolor=self._colour(back, name if raised else ""),
            bold=bool(code & (BOLD | SELECTED)) or None,
            underline=bool(code & UNDERLINE) or None,
        )

    def _colour(self, hexa: str, name: str) -> Color:
        if self.depth == "truecolor":
            return Color.parse(hexa)
        return Color.from_ansi(PLAIN[name][self.light]) if name else nearest(hexa)


def blend(front: str, back: str, share: float) -> str:
    """A colour that is `share` of the way from one to another; #rrggbb each."""
    pairs = ((int(front[i : i + 2], 16), int(back[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a * (1 - share) + b * share):02x}" for a, b in pairs)


def nearest(hexa: str) -> Color:
    """The nearest of the 240 fixed colours of a 256-colour terminal: its cube or its greys."""
    want = [int(hexa[i : i + 2], 16) for i in (1, 3, 5)]
    steps = (0, 95, 135, 175, 215, 255)
    cube = [min(range(6), key=lambda k, c=c: abs(steps[k] - c)) for c in want]
    grey = min(range(24), key=lambda k: sum(abs(8 + 10 * k - c) for c in want))
    off_cube = sum(abs(steps[k] - c) for k, c in zip(cube, want, strict=True))
    off_grey = sum(abs(8 + 10 * grey - c) for c in want)
    return Color.from_ansi(232 + grey if off_grey < off_cube else 16 + 36 * cube[0] + 6 * cube[1] + cube[2])


def detect(environ: Mapping[str, str] = os.environ) -> Depth:
    """The depth of colour that the terminal says it has."""
    term = environ.get("TERM", "")
    if environ.get("NO_COLOR") or term in ("dumb", ""):
        return "none"
    if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or term.endswith("-direct"):
        return "truecolor"
    return "256" if "256color" in term or "kitty" in term else "16"


def speaks_utf8(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the locale can write more than ASCII; one that says nothing is taken to."""
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "UTF-8"
    return "utf8" in locale.lower().replace("-", "")
