"""The source that a trace names, where it lies on this machine, with the time of each line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from trnprof.view import format as words
from trnprof.view.records import Record, SourceRow

SUFFIX = ".py"
"""A trace may name any file; no other kind is read."""
LARGEST = 2_000_000
"""Bytes of a file."""
AROUND = 2
"""Lines that are shown before and after one that has time."""
LONGEST = 160
"""Characters of a line."""


@dataclass(frozen=True, slots=True)
class CodeLine(Record):
    """A line of a source file."""

    number: int
    text: str
    row: SourceRow | None
    """Its time; None where no instruction comes from it."""
    apart: bool
    """Lines above it are left out."""


@dataclass(frozen=True, slots=True)
class SourceFile(Record):
    """A file that instructions come from."""

    name: str
    path: str
    """Where it was read; empty when it is not on this machine."""
    missing: str
    """Why there is no code, empty when there is."""
    lines: tuple[CodeLine, ...]


def source_files(rows: Sequence[SourceRow], folder: Path) -> tuple[SourceFile, ...]:
    """The files of some lines, the one with most time first.

    folder : where a file is looked for by the end of its path when it does not lie where the trace says
    """
    files: dict[str, list[SourceRow]] = {}
    for row in rows:
        if row.file and row.line:
            files.setdefault(row.file, []).append(row)
    return tuple(_file(name, found, folder) for name, found in files.items())


def _file(name: str, rows: list[SourceRow], folder: Path) -> SourceFile:
    path = _find(name, folder)
    short = words.place(name)
    if path is None:
        return SourceFile(short, "", f"{short} is not on this machine", ())
    try:
        text = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as fault:
        return SourceFile(short, "", f"{short} cannot be read: {fault.strerror or fault}", ())
    last = max(row.line for row in rows)
    if last > len(text):
        return SourceFile(short, "", f"{path} has no line {last}: it is another version of {short}", ())
    return SourceFile(short, words.plain(str(path), 300), "", tuple(_lines(rows, text)))


def _find(name: str, folder: Path) -> Path | None:
    """The file where the trace says, else by the longest end of its path below the folder."""
    named = Path(name)
    parts = named.parts[1:] if named.is_absolute() else named.parts
    if ".." in parts or named.suffix != SUFFIX:
        return None
    ends = (folder.joinpath(*parts[k:]) for k in range(len(parts)))
    return next((path for path in (named, *ends) if _readable(path)), None)


def _readable(path: Path) -> bool:
    try:
        return path.is_absolute() and path.is_file() and path.stat().st_size <= LARGEST
    except OSError:
        return False


def _lines(rows: Iterable[SourceRow], text: Sequence[str]) -> Iterable[CodeLine]:
    """Lines with time and a few around them."""
    by_line = {row.line: row for row in rows}
    shown = sorted({k for at in by_line for k in range(at - AROUND, at + AROUND + 1) if 1 <= k <= len(text)})
    for before, number in pairwise((0, *shown)):
        code = words.plain(text[number - 1].expandtabs(4), LONGEST).rstrip()
        yield CodeLine(number, code, by_line.get(number), number > before + 1 and before > 0)
