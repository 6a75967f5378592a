"""Puts `nki` into `sys.modules`, so that a kernel file imports the emulator without being changed."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from sim.errors import UnsupportedError


@dataclass(slots=True)
class Setting:
    """How kernels run that are called while the stand-ins are in place."""

    device: str
    values: bool = True
    seed: int = 0
    launches: list[Any] = field(default_factory=list)
    """One `Run` a kernel launch, in order."""


setting: ContextVar[Setting | None] = ContextVar("setting", default=None)

MODULES = {
    "nki": "sim.nki.package",
    "nki.language": "sim.nki.language",
    "nki.isa": "sim.nki.isa",
    "nki.isa.constants": "sim.nki.isa.constants",
    "nki.typing": "sim.nki.typing",
    "nki.collectives": "sim.nki.collectives",
}
"""Public module -> the emulator's; those that are not written yet raise when they are imported."""

ROOTS = ("nki", "neuronxcc")


def _install(public: str, private: str) -> None:
    module = importlib.import_module(private)
    alias = types.ModuleType(public, module.__doc__)
    alias.__dict__.update({name: value for name, value in vars(module).items() if not name.startswith("__")})
    alias.__path__ = []  # type: ignore[attr-defined]
    sys.modules[public] = alias
    parent, _, child = public.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, alias)


class _Refuser:
    """Import hook: a stand-in that does not exist is named, instead of a plain ModuleNotFoundError."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.split(".")[0] in ROOTS:
            raise UnsupportedError(f"module {name} has no stand-in in the emulator")
        return None


@contextmanager
def stand_ins(device: str = "trn2", values: bool = True, seed: int = 0) -> Iterator[Setting]:
    """Within, `import nki` and its submodules resolve to the emulator; what was imported before is put back after."""
    saved = {name: module for name, module in sys.modules.items() if name.split(".")[0] in ROOTS}
    for name in saved:
        del sys.modules[name]
    refuser = _Refuser()
    current = Setting(device, values, seed)
    token = setting.set(current)
    try:
        for public, private in MODULES.items():
            if importlib.util.find_spec(private) is not None:
                _install(public, private)
        sys.meta_path.insert(0, refuser)
        yield current
    finally:
        setting.reset(token)
        sys.meta_path.remove(refuser)
        for name in [name for name in sys.modules if name.split(".")[0] in ROOTS]:
            del sys.modules[name]
        sys.modules.update(saved)
