"""A grid of characters and inks: what a screen is before any terminal sees it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import numpy as np
from rich.cells import get_character_cell_size

from trnprof.tui.ink import GROUNDED

SECOND_HALF = 0
"""Stands in the cell that the right half of a wide character covers."""

LIKENESS = (
    ("█▉▊▋▇■", "#"),
    ("▌▍▎▏▐▕│┤├┆", "|"),
    ("─╌╶╴═−–▃", "-"),
    ("┌┐└┘┬┴┼▅", "+"),
    ("▁▂·…", "."),
    ("▄▆▒░▓▞▽▼", "=*%:@/vv"),
    ("→←↑↓▸●○◆◇", "><^v>Ooxo"),
    ("µμ×ᵀ’‘“”≥≤", "uuxT''\"\"><"),
)
DOTS_IN_ASCII = " .:-=+*##"
"""By the number of dots of a braille cell."""


class _Ascii(dict[int, str]):
    """Translates what a poor terminal cannot show; what has no likeness becomes a question mark."""

    def __missing__(self, code: int) -> str:
        if code < 0x80:
            return chr(code)
        if 0x2800 <= code < 0x2900:
            return DOTS_IN_ASCII[(code - 0x2800).bit_count()]
        return "?"


_ASCII = _Ascii((ord(char), plain[k % len(plain)]) for chars, plain in LIKENESS for k, char in enumerate(chars))
_ASCII[SECOND_HALF] = "?"


@lru_cache(8192)
def safe(text: str) -> str:
    """The text with nothing left that moves a cursor, turns the writing direction or takes no cell.

    Control characters become their pictures, other invisible ones a replacement mark, every space a plain one.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible, unicodedata.normalize("NFC", text)))


def _visible(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return " " if char == "\t" else chr(0x2400 + code)
    kind = unicodedata.category(char)
    if kind == "Zs":
        return " "
    if kind in ("Mn", "Me"):
        return ""
    return char if char.isprintable() and get_character_cell_size(char) else "\N{REPLACEMENT CHARACTER}"


@lru_cache(8192)
def encode(text: str) -> np.ndarray:
    """The code points of a text by cell, uint32[cells]; a wide character is followed by `SECOND_HALF`."""
    text = safe(text)
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    if text.isascii():
        return codes
    wide = np.fromiter((get_character_cell_size(char) > 1 for char in text), bool, len(text))
    return np.insert(codes, np.flatnonzero(wide) + 1, SECOND_HALF) if wide.any() else codes


def width_of(text: str) -> int:
    """How many cells a text takes."""
    return len(encode(text))


def clipped(text: str, cells: int) -> str:
    """The text, or its head and tail around an ellipsis when it is wider than `cells`."""
    if cells < 1:
        return ""
    if len(text) > 4 * cells + 8:
        text = text[: 2 * cells + 4] + text[-2 * cells - 4 :]
    text = safe(text)
    if width_of(text) <= cells:
        return text
    head, tail = (cells - 1) - (cells - 1) // 3, (cells - 1) // 3
    kept = text[:head] + "…" + (text[-tail:] if tail else "")
    while width_of(kept) > cells:
        kept = kept[:-1]
    return kept


class Canvas:
    """Characters (uint32) and inks (uint16) of shape [height, width], and the ways to draw on them."""

    __slots__ = ("chars", "height", "inks", "width")

    def __init__(self, width: int, height: int, ink: int = 0):
        self.width, self.height = width, height
        self.chars = np.full((height, width), ord(" "), np.uint32)
        self.inks = np.full((height, width), ink, np.uint16)

    def put(self, x: int, y: int, text: str, ink: int = 0, end: int | None = None) -> int:
        """Write a text up to column `end` and return the column after it; what falls outside is left out."""
        codes = encode(text)
        stop = min(self.width, self.width if end is None else end)
        if not 0 <= y < self.height or x >= stop:
            return x
        codes = codes[max(0, -x) : stop - x]
        x = max(0, x)
        if codes.size:
            self._write(x, y, codes, ink)
        return x + codes.size

    def put_right(self, x: int, y: int, text: str, ink: int = 0) -> int:
        """Write a text that ends before column `x`; returns the column it starts in."""
        start = x - width_of(text)
        self.put(start, y, text, ink)
        return start

    def fill(self, x: int, y: int, width: int, height: int, char: str = " ", ink: int = 0) -> None:
        for row in range(max(0, y), min(self.height, y + height)):
            self.put(x, row, char * width, ink)

    def overlay(self, x: int, y: int, chars: np.ndarray, inks: np.ndarray | int) -> None:
        """Write cells from column `x`; a zero character leaves what is there."""
        if not 0 <= y < self.height:
            return
        chars = chars[: max(0, self.width - x)]
        drawn = chars != 0
        self.chars[y, x : x + chars.size][drawn] = chars[drawn]
        self.inks[y, x : x + chars.size][drawn] = np.broadcast_to(inks, chars.shape)[drawn] if np.ndim(inks) else inks

    def _write(self, x: int, y: int, codes: np.ndarray, ink: int) -> None:
        row, stop = self.chars[y], x + codes.size
        if row[x] == SECOND_HALF and x:
            row[x - 1] = ord(" ")
        if stop < self.width and row[stop] == SECOND_HALF:
            row[stop] = ord(" ")
        row[x:stop] = codes
        if codes[0] == SECOND_HALF:
            row[x] = ord(" ")
        if stop == self.width and get_character_cell_size(chr(row[stop - 1] or 32)) > 1:
            row[stop - 1] = ord(" ")
        self.inks[y, x:stop] = ink

    def line(self, y: int, ascii_only: bool = False) -> str:
        return _decode(self.chars[y], ascii_only)

    def lines(self, ascii_only: bool = False) -> list[str]:
        return [self.line(y, ascii_only) for y in range(self.height)]

    def runs(
        self, y: int, ascii_only: bool = False, left: int = 0, right: int | None = None
    ) -> Iterator[tuple[str, int]]:
        """The columns from `left` up to `right` as stretches of one ink."""
        codes, inks = self.chars[y, left:right], _merged(self.chars[y, left:right], self.inks[y, left:right])
        cuts = [0, *(np.flatnonzero(np.diff(inks)) + 1).tolist(), inks.size]
        for start, stop in pairwise(cuts):
            if stop > start:
                yield _decode(codes[start:stop], ascii_only), int(inks[start])


def _merged(codes: np.ndarray, inks: np.ndarray) -> np.ndarray:
    """Inks in which a blank cell, whose ink nobody sees, has that of its left neighbour: fewer and longer stretches."""
    blank = (codes == ord(" ")) & (inks & GROUNDED == 0)
    before = np.maximum.accumulate(np.where(blank, 0, np.arange(codes.size)))
    filled = inks[before]
    return np.where(blank & (filled & GROUNDED == 0), filled, inks)


def _decode(codes: np.ndarray, ascii_only: bool) -> str:
    text = codes.tobytes().decode("utf-32-le")
    return text.translate(_ASCII) if ascii_only else text.replace("\0", "")
