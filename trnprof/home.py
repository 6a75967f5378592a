"""Where the files that are not Python lie."""

from __future__ import annotations

import os
from pathlib import Path

from sim.errors import InputError


def data_dir(name: str) -> Path:
    """The folder of `assets` or `traces`: inside the installed package, at the root of a checkout.

    raises : InputError when neither holds it
    """
    package = Path(__file__).resolve().parent
    for parent in (package, package.parent):
        if (parent / name).is_dir():
            return parent / name
    raise InputError(f"{name}: not found beside {package}", remedy="install trnprof again")


def cache_dir() -> Path:
    """The folder for what can be made again; not created here."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "trnprof"
