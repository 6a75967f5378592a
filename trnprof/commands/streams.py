"""stdout holds the result alone; everything else that is said goes to stderr."""

from __future__ import annotations

import sys
from shutil import get_terminal_size
from typing import Any

WIDEST, NARROWEST = 110, 40
"""Columns of a line of prose."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def emit(text: str) -> None:
    print(text, flush=True)


def emit_json(value: Any) -> None:
    """One JSON document; raises ValueError for NaN and infinities, which no result may hold."""
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=_plain), flush=True)


def _plain(value: Any) -> Any:
    """The Python number behind a NumPy one."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def columns(rows: list[tuple[str, ...]], right: frozenset[int] = frozenset(), indent: str = "") -> str:
    """Rows of words set in columns two spaces apart; those whose number is in `right` are set to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            word.rjust(width) if number in right else word.ljust(width)
            for number, (word, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(indent + line.rstrip() for line in lines)


def line_width() -> int:
    """Columns of a line of prose: 110, or those of a terminal that is narrower."""
    if not sys.stdout.isatty():
        return WIDEST
    return min(WIDEST, max(NARROWEST, get_terminal_size().columns))


def wrapped(text: str, bullet: str, width: int | None = None) -> str:
    """A sentence in lines of at most `width`, the terminal's if not given, the later ones set under its beginning."""
    from textwrap import fill

    return fill(
        text, width or line_width(), initial_indent=bullet, subsequent_indent=" " * len(bullet), break_on_hyphens=False
    )
