"""Where traces lie: below a folder, and those that were opened last, which one small file remembers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sim.errors import InputError
from trnprof.view import format as words
from trnprof.view import remembered
from trnprof.view.records import Record

MOST = 500
"""Traces that a folder lists."""
KEPT = 30
"""Traces that are remembered, the latest."""


@dataclass(frozen=True, slots=True)
class Place(Record):
    """A trace that can be opened."""

    path: str
    name: str
    """Below the folder that was asked for, else without its folders."""
    folder: str
    size: str
    when: str
    """Since its last change, or since it was opened."""


def below(folder: Path, found: Iterable[Path]) -> tuple[Place, ...]:
    """Traces that were found below a folder, in order of name."""
    paths = sorted(found)[:MOST]
    return tuple(_place(path, words.plain(str(path.relative_to(folder)), 200), _changed(path)) for path in paths)


def holds_several(path: Path) -> bool:
    """Whether a path is a folder of traces, of one or none yet too, and no trace itself."""
    return path.is_dir() and only_trace(path) != path


def only_trace(folder: Path) -> Path | None:
    """The one directory with tables, here or below; the folder where its ranks are one trace; else None."""
    from trnprof.readers.folders import trace_folder

    try:
        return trace_folder(folder)
    except InputError:
        return None


def _place(path: Path, name: str, since: float | None) -> Place:
    size = sum(_size(file) for file in path.iterdir()) if path.is_dir() else _size(path)
    return Place(str(path), name, words.plain(str(path.parent), 200), words.size(size), _ago(since))


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _changed(path: Path) -> float | None:
    with suppress(OSError):
        return path.stat().st_mtime
    return None


def _ago(since: float | None) -> str:
    if since is None:
        return ""
    seconds = max(0, time.time() - since)
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            return f"{words.plural(int(seconds // length), unit)} ago"
    return "just now"


def memory(environment: Mapping[str, str]) -> Path:
    """Where the file lies."""
    return remembered.place(environment, "recent.json")


def recent(file: Path) -> tuple[Place, ...]:
    """Traces that were opened last, the latest first, as far as they still are."""
    found = []
    for path, when in reversed(_read(file).items()):
        place = Path(path)
        with suppress(OSError):
            if place.exists():
                found.append(_place(place, words.plain(place.name, 120), when))
    return tuple(found)


def remember(file: Path, path: Path) -> None:
    """Note that a trace was opened; a folder that cannot be written to remembers nothing."""
    remembered.add(file, str(path.resolve()), time.time(), KEPT)


def _read(file: Path) -> dict[str, float]:
    found = remembered.read(file)
    return {path: when for path, when in found.items() if isinstance(when, (int, float)) and "\0" not in path}
