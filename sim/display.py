"""How results look in a notebook: drawn by what is registered here; without it they are text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_painters: list[Callable[[Any], str]] = []


def register(painter: Callable[[Any], str]) -> None:
    """Draw results with this from now on: a value to HTML."""
    _painters[:] = [painter]


def html(value: Any) -> str | None:
    """What a notebook shows of a value; None leaves it at its text."""
    return _painters[0](value) if _painters else None
