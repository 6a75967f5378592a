"""Small files that remember something between runs, in the user's state folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def place(environment: Mapping[str, str], name: str) -> Path:
    """Where a file lies: `$XDG_STATE_HOME/trnprof`, else `~/.local/state/trnprof`."""
    home = environment.get("XDG_STATE_HOME") or Path(environment.get("HOME") or Path.home()) / ".local" / "state"
    return Path(home) / "trnprof" / name


def read(file: Path) -> dict[str, Any]:
    """What it remembers, the latest last; nothing where it cannot be read."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def add(file: Path, name: str, value: object, most: int) -> None:
    """Remember a value as the latest of at most so many; a folder that cannot be written to remembers nothing."""
    known = read(file)
    known.pop(name, None)
    known[name] = value
    part = file.with_suffix(f".{os.getpid()}.part")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(dict(list(known.items())[-most:]), ensure_ascii=True), encoding="utf-8")
        os.replace(part, file)
