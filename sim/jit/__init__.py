"""Loops that are compiled where that pays, and run as the Python that they are where it does not.

Compiling takes seconds, loading what was compiled before half of one; a kernel of some hundred instructions is through
before that. The first call with much to do imports numba, and from then on everything is compiled.

Machine code is kept in a folder that is named after the source of all loops: numba looks only at the file of a function
to tell whether its code is stale; a function that calls into another file would keep the old code of that file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

KEPT = 16
"""Folders of other versions that stay: several checkouts may be at work at once, and compiling takes a minute."""

AUTO, COMPILED, PLAIN = "auto", "compiled", "plain"
mode = AUTO
"""COMPILED compiles everything, PLAIN nothing that can run as Python: for tests that compare the two."""


PATIENCE = 20
"""A loop is compiled once it has seen so many times the elements of its largest small call."""


class Loop:
    """A function that numba can compile."""

    def __init__(self, function: FunctionType, small: int, options: dict[str, Any]):
        self.function = function
        self.small = small
        self.options = options
        self.seen = 0
        """Elements of all calls so far."""
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        first = arguments[0]
        if self._stays_plain(first[0] if hasattr(first, "_fields") else first):
            return self.plain(*map(_indexed, arguments))
        return self.compiled(*arguments)

    def _stays_plain(self, first: Any) -> bool:
        if mode != AUTO:
            return mode == PLAIN and self.small > 0
        if "compiled" in vars(self) or np.size(first) > self.small:
            return False
        self.seen += np.size(first)
        return self.seen <= PATIENCE * self.small

    @cached_property
    def plain(self) -> FunctionType:
        """The function as Python, with the others that it calls as Python too."""
        return self._with(lambda loop: loop.plain)

    @cached_property
    def compiled(self) -> Callable:
        """The function as numba compiles it; with NUMBA_DISABLE_JIT it stays as it is.

        NumPy's narrow integers would overflow there where compiled code, and Python's own, do not.
        """
        if self.small and _numba().config.DISABLE_JIT:
            return lambda *arguments: self.plain(*map(_indexed, arguments))
        return _numba().njit(**self.options)(self._with(lambda loop: loop.compiled))

    def _with(self, form: Callable[[Loop], Callable]) -> FunctionType:
        """The function with loops in one of their forms where it names them."""
        known, named = self.function.__globals__, self.function.__code__.co_names
        # An attribute may have a loop's name: `math.erf` in `erf`.
        others = {name: known[name] for name in named if type(known.get(name)) is Loop and known[name] is not self}
        names = {name: form(loop) for name, loop in others.items()}
        made = FunctionType(self.function.__code__, {**known, **names}, self.function.__name__)
        made.__module__, made.__doc__ = self.function.__module__, self.function.__doc__
        return made


def njit(small: int = 0, **options: Any) -> Callable[[FunctionType], Loop]:
    """Make a function a loop.

    small   : elements of the first argument, or of its first array if it is a named tuple, up to which it runs as
              Python, until it is compiled for another call
    options : numba's
    """
    return lambda function: Loop(function, small, options)


def _indexed(argument: Any) -> Any:
    """An array, or each of a named tuple, as what Python reads one element of in the least time."""
    if hasattr(argument, "_fields"):
        return argument._make(map(_indexed, argument))
    if isinstance(argument, np.ndarray) and argument.ndim and argument.size and argument.dtype.kind in "iu":
        return memoryview(argument)
    return argument


def _sources() -> list[Path]:
    root = Path(__file__).resolve().parents[2]
    return [path for package in ("sim", "trnprof") for path in sorted((root / package / "jit").glob("*.py"))]


def _folder(numba: ModuleType) -> Path:
    digest = hashlib.sha256(f"{numba.__version__} {numba.config.BOUNDSCHECK}".encode())
    for path in _sources():
        digest.update(path.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "trnprof" / "numba" / digest.hexdigest()[:16]


@lru_cache(maxsize=1)
def _numba() -> ModuleType:
    """numba, where compiled code is kept apart."""
    import numba

    if not numba.config.CACHE_DIR:
        _keep_apart(numba)
    return numba


def _keep_apart(numba: ModuleType) -> None:
    """Point numba at the folder of this source; where none can be made, numba finds a place of its own."""
    try:
        folder = _folder(numba)
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
        earlier = sorted((f for f in folder.parent.iterdir() if f != folder), key=lambda f: f.stat().st_mtime)
    except (OSError, RuntimeError):
        return
    if writable:
        numba.config.CACHE_DIR = str(folder)
        for old in earlier[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)
