"""Puts `nki` into `sys.modules`, so that a kernel file imports the emulator without being changed."""

from __future__ import annotations

import difflib
import importlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from sim import spec
from sim.errors import UnsupportedError
from sim.nki import environment, session
from sim.spec import Device


@dataclass(slots=True)
class Setting:
    """How kernels run that are called while the stand-ins are in place."""

    device: str
    values: bool = True
    seed: int = 0
    passes: Mapping[str, bool | int] = field(default_factory=dict)
    """Compiler passes that are switched."""
    launches: list[Any] = field(default_factory=list)
    """One `Run` a kernel launch, in order."""


class _Settings:
    """The settings in force, innermost last; one for all threads, as `sys.modules` is."""

    def __init__(self) -> None:
        self._open: list[Setting] = []

    def get(self) -> Setting | None:
        return self._open[-1] if self._open else None

    def enter(self, current: Setting) -> None:
        self._open.append(current)

    def leave(self) -> None:
        self._open.pop()


setting = _Settings()

MODULES = {
    "nki": "sim.nki.package",
    "nki.language": "sim.nki.language",
    "nki.isa": "sim.nki.isa",
    "nki.isa.constants": "sim.nki.isa.constants",
    "nki.typing": "sim.nki.typing",
    "nki.dtype": "sim.nki.dtype",
    "nki.collectives": "sim.nki.collectives",
    "nki.compiler": "sim.nki.compiler",
    "neuronxcc": "sim.nki.legacy",
    "neuronxcc.nki": "sim.nki.legacy.package",
    "neuronxcc.nki.language": "sim.nki.legacy.language",
    "neuronxcc.nki.isa": "sim.nki.legacy.isa",
    "neuronxcc.nki.isa.constants": "sim.nki.legacy.enums",
    "neuronxcc.nki.typing": "sim.nki.legacy.typing",
    "neuronxcc.nki.compiler": "sim.nki.legacy.compiler",
    "neuronxcc.starfish": "sim.nki.legacy.starfish",
    "neuronxcc.starfish.support": "sim.nki.legacy.starfish",
    "neuronxcc.starfish.support.util": "sim.nki.legacy.starfish",
    "neuronxcc.starfish.support.dtype": "sim.nki.legacy.starfish",
}
"""Public module -> the emulator's."""

ROOTS = ("nki", "neuronxcc")
OLDER = "neuronxcc."
REASONS = {
    f"{package}.{name}": f"an element of a tensor has 32 bits at most; use {name.replace('64', '32')}"
    for package in ("nki.language", "neuronxcc.nki.language")
    for name in ("int64", "uint64", "float64")
}
"""Why a name is missing, by name."""
ALIKE = 0.75
"""Similarity from which on a name is taken for another's misspelling."""


def device() -> Device:
    """The device of the running kernel, else of the stand-ins.

    raises: InputError outside of both
    """
    current = setting.get()
    if session.active() or current is None:
        return session.builder().device
    return spec.device(environment.target_device(current.device))


class MissingName(UnsupportedError, AttributeError):
    """A name of the API that the emulator lacks; `hasattr` and `try` see an AttributeError."""


class MissingModule(UnsupportedError, ModuleNotFoundError):
    """A module of the API that the emulator lacks; `try: import` sees an ImportError."""


def _missing(public: str) -> Callable[[str], Any]:
    def refuse(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {public} has no attribute {name}")
        message, remedy = _unknown(public, name)
        raise MissingName(message, source=session.builder().where() if session.active() else None, remedy=remedy)

    return refuse


def _unknown(public: str, name: str) -> tuple[str, str | None]:
    """What is said of a name that a module lacks: why, or where else it is, or one that is spelled alike."""
    message = f"{public}.{name} is not emulated"
    reason = REASONS.get(f"{public}.{name}")
    if reason:
        return f"{message}: {reason}", None
    other, age = (public[len(OLDER) :], "newer") if public.startswith(OLDER) else (OLDER + public, "older")
    if other in MODULES and hasattr(importlib.import_module(MODULES[other]), name):
        return message, f"it belongs to the {age} API, {other}"
    known = [word for word in vars(importlib.import_module(MODULES[public])) if not word.startswith("_")]
    alike = difflib.get_close_matches(name, known, 1, ALIKE)
    return message, f"did you mean {public}.{alike[0]}?" if alike else None


def _install(public: str, private: str) -> None:
    module = importlib.import_module(private)
    alias = types.ModuleType(public, module.__doc__)
    alias.__dict__.update({name: value for name, value in vars(module).items() if not name.startswith("__")})
    alias.__path__ = []  # type: ignore[attr-defined]
    alias.__getattr__ = _missing(public)  # type: ignore[method-assign]
    sys.modules[public] = alias
    parent, _, child = public.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, alias)


class _Refuser:
    """Import hook: a stand-in that does not exist is named, instead of a plain ModuleNotFoundError."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        public, _, last = name.rpartition(".")
        if public in MODULES:
            message, remedy = _unknown(public, last)
            raise MissingModule(message, remedy=remedy)
        if name.split(".")[0] in ROOTS:
            raise MissingModule(f"module {name} has no stand-in in the emulator")


@contextmanager
def stand_ins(device: str = "trn2", values: bool = True, seed: int = 0) -> Iterator[Setting]:
    """Within, `import nki` and its submodules resolve to the emulator; what was imported before is put back after."""
    saved = {name: module for name, module in sys.modules.items() if name.split(".")[0] in ROOTS}
    for name in saved:
        del sys.modules[name]
    refuser = _Refuser()
    current = Setting(device, values, seed)
    setting.enter(current)
    sys.meta_path.insert(0, refuser)
    try:
        for public, private in MODULES.items():
            _install(public, private)
        yield current
    finally:
        setting.leave()
        sys.meta_path.remove(refuser)
        for name in [name for name in sys.modules if name.split(".")[0] in ROOTS]:
            del sys.modules[name]
        sys.modules.update(saved)


def in_place(device: str) -> AbstractContextManager:
    """The stand-ins for kernels that import only when they run; those of an enclosing `with` stay."""
    return nullcontext() if setting.get() is not None else stand_ins(device)
