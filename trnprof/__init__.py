"""Reads profiles of AWS Trainium and Inferentia, emulated or captured, and says where the time goes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sim import display

if TYPE_CHECKING:
    from sim import run as run
    from sim.errors import TrnprofError as TrnprofError
    from sim.trace import Trace as Trace
    from trnprof.advice import advise as advise
    from trnprof.baseline import check as check_baseline
    from trnprof.baseline import save as save_baseline
    from trnprof.bounds import classify as classify
    from trnprof.compare import compare as compare
    from trnprof.costs import cost as cost
    from trnprof.critical import critical_path as critical_path
    from trnprof.export import export as write
    from trnprof.models import run_model as run_model
    from trnprof.ranking import rank as rank
    from trnprof.ranking import shifts as shifts
    from trnprof.readers import open as open
    from trnprof.roofline import chart as chart
    from trnprof.spread import error_bars as error_bars
    from trnprof.sql import query as query
    from trnprof.summary import summarize as summarize
    from trnprof.validation import validate as validate
    from trnprof.view import Session as Session
    from trnprof.watch import Watch as Watch
    from trnprof.whatif import what_if as what_if
    from trnprof.whatif import what_ifs as what_ifs

__version__ = "0.1.0"

_HOMES = {
    "Session": ("trnprof.view", "Session"),
    "Trace": ("sim.trace", "Trace"),
    "TrnprofError": ("sim.errors", "TrnprofError"),
    "Watch": ("trnprof.watch", "Watch"),
    "advise": ("trnprof.advice", "advise"),
    "chart": ("trnprof.roofline", "chart"),
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
    "shifts": ("trnprof.ranking", "shifts"),
    "summarize": ("trnprof.summary", "summarize"),
    "validate": ("trnprof.validation", "validate"),
    "what_if": ("trnprof.whatif", "what_if"),
    "what_ifs": ("trnprof.whatif", "what_ifs"),
    "write": ("trnprof.export", "export"),
}

__all__ = [*_HOMES, "__version__"]


def _html(value: Any) -> str:
    """What a notebook shows of a result."""
    return import_module("trnprof.notebook").html(value)


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
