"""Reads profiles of AWS Trainium and Inferentia, emulated or captured, and says where the time goes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sim import display

__version__ = "0.1.0"

_HOMES = {
    "Session": ("trnprof.view", "Session"),
    "Trace": ("sim.trace", "Trace"),
    "TrnprofError": ("sim.errors", "TrnprofError"),
    "advise": ("trnprof.advice", "advise"),
    "check_baseline": ("trnprof.baseline", "check"),
    "classify": ("trnprof.bounds", "classify"),
    "compare": ("trnprof.compare", "compare"),
    "cost": ("trnprof.costs", "cost"),
    "critical_path": ("trnprof.critical", "critical_path"),
    "error_bars": ("trnprof.spread", "error_bars"),
    "open": ("trnprof.readers", "open"),
    "query": ("trnprof.sql", "query"),
    "rank": ("trnprof.ranking", "rank"),
    "run": ("sim", "run"),
    "run_model": ("trnprof.models", "run_model"),
    "save_baseline": ("trnprof.baseline", "save"),
    "summarize": ("trnprof.summary", "summarize"),
    "validate": ("trnprof.validation", "validate"),
    "what_if": ("trnprof.whatif", "what_if"),
    "what_ifs": ("trnprof.whatif", "what_ifs"),
}

__all__ = [*_HOMES, "__version__"]


def _html(value: Any) -> str:
    """What a notebook shows of a result."""
    from trnprof.notebook import html

    return html(value)


display.register(_html)


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first asked for, so that `import trnprof` costs next to nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'trnprof' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = globals()[name] = getattr(import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
