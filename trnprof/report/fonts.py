"""Widths of Helvetica, so that text can be measured without a browser, and the bytes that PDF writes it in.

Source: Adobe's font metrics of the 14 standard fonts, which every PDF reader has; Arial and Liberation Sans match them.
"""

from __future__ import annotations

import unicodedata

UNITS = 1000
"""A width is given in thousandths of the font size."""

WIDE = 1000
"""Of a character without a known width: an em, so that text is never measured too short."""


def _widths(text: str) -> dict[str, int]:
    """Widths of the printable ASCII characters, then of Latin-1 from the no-break space on."""
    characters = [chr(code) for code in (*range(32, 127), *range(160, 256))]
    return dict(zip(characters, map(int, text.split()), strict=True))


REGULAR = _widths(
    """
    278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 278 278
    584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 667 778 722 667 611 722 667 944
    667 667 611 278 278 278 469 556 333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 556 556 333 500
    278 556 500 722 500 500 500 334 260 334 584 278 333 556 556 556 556 260 556 333 737 370 556 584 333 737 333 400
    584 333 333 333 556 537 278 333 333 365 556 834 834 834 611 667 667 667 667 667 667 1000 722 667 667 667 667 278
    278 278 278 722 722 778 778 778 778 778 584 778 722 722 722 722 667 667 611 556 556 556 556 556 556 889 500 556
    556 556 556 278 278 278 278 556 556 556 556 556 556 556 584 611 556 556 556 556 500 556 500
    """
)

BOLD = _widths(
    """
    278 333 474 556 556 889 722 238 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556 556 556 333 333
    584 584 584 611 975 722 722 722 722 667 611 778 722 278 556 722 611 833 722 778 667 778 722 667 611 722 667 944
    667 667 611 333 278 333 584 556 333 556 611 556 611 556 333 611 611 278 278 556 278 889 611 611 611 611 389 556
    333 611 556 778 556 556 500 389 280 389 584 278 333 556 556 556 556 280 556 333 737 370 556 584 333 737 333 400
    584 333 333 333 611 556 278 333 333 365 556 834 834 834 611 722 722 722 722 722 722 1000 722 667 667 667 667 278
    278 278 278 722 722 778 778 778 778 778 584 778 722 722 722 722 667 667 611 556 556 556 556 556 556 889 556 556
    556 556 556 278 278 278 278 611 611 611 611 611 611 611 584 611 611 611 611 611 556 611 556
    """
)

_ALIKE = {
    "\u202f": " ",
    "\u2009": " ",
    "\u2212": "\u2013",
    "\u2192": "->",
    "\u25cf": "\u2022",
    "\u25c6": "\u2022",
    "\u2260": "!=",
    "\u2264": "<=",
    "\u2265": ">=",
}
"""What stands in for a character that the standard fonts lack."""

_WINDOWS = {
    "\u2013": 556,
    "\u2014": 1000,
    "\u2018": 222,
    "\u2019": 222,
    "\u201c": 333,
    "\u201d": 333,
    "\u2022": 350,
    "\u2026": 1000,
}


def measure(text: str, size: float, bold: bool = False) -> float:
    """Width of a line of text, in the unit of the size."""
    table = BOLD if bold else REGULAR
    total = sum(table.get(c) or _WINDOWS.get(c) or table.get(_ALIKE.get(c, ""), WIDE) for c in text)
    return total * size / UNITS


def encode(text: str) -> bytes:
    """Text in the encoding of the standard fonts (Windows-1252).

    A character outside of it becomes one that looks alike, its plain form (`\u1d40` is T), or a question mark.
    """
    return b"".join(_encoded(character) for character in text)


def _encoded(character: str) -> bytes:
    for form in (character, _ALIKE.get(character, character), unicodedata.normalize("NFKD", character)):
        try:
            return form.encode("cp1252")
        except UnicodeEncodeError:
            continue
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore")
    return plain or b"?"
