"""stdout holds the result alone; everything else that is said goes to stderr."""

from __future__ import annotations

import sys
from typing import Any


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


def wrapped(text: str, bullet: str, width: int = 110) -> str:
    """A sentence in lines of at most `width`, those after the first set under its beginning."""
    from textwrap import fill

    return fill(text, width, initial_indent=bullet, subsequent_indent=" " * len(bullet), break_on_hyphens=False)
