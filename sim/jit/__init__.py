"""Compiled loops. Their machine code is kept in a folder that is named after the source of all of them.

numba looks only at the file of a function to tell whether its code is stale; a function that calls into another file
would keep the old code of that file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import numba

KEPT = 16
"""Folders of other versions that stay: several checkouts may be at work at once, and compiling takes a minute."""


def _sources() -> list[Path]:
    root = Path(__file__).resolve().parents[2]
    return [path for package in ("sim", "trnprof") for path in sorted((root / package / "jit").glob("*.py"))]


def _folder() -> Path:
    digest = hashlib.sha256(f"{numba.__version__} {numba.config.BOUNDSCHECK}".encode())
    for path in _sources():
        digest.update(path.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "trnprof" / "numba" / digest.hexdigest()[:16]


def _keep_apart() -> None:
    """Point numba at the folder of this source; where none can be made, numba finds a place of its own."""
    try:
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
        earlier = sorted((f for f in folder.parent.iterdir() if f != folder), key=lambda f: f.stat().st_mtime)
    except (OSError, RuntimeError):
        return
    if writable:
        numba.config.CACHE_DIR = str(folder)
        for old in earlier[:-KEPT]:
            shutil.rmtree(old, ignore_errors=True)


if not numba.config.CACHE_DIR:
    _keep_apart()
