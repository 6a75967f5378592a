"""The view-model: what every screen shows, with the words already set."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {"Frame": "records", "Session": "session", "Track": "records", "Viewport": "records"}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """A name, loaded when it is first asked for: who only wants words does not pay for the rest."""
    if name not in _HOMES:
        raise AttributeError(f"module 'trnprof.view' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"trnprof.view.{_HOMES[name]}"), name)
    return value
