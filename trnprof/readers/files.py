"""What lies at a path, by its content, and the reader for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sim import tracefile
from sim.errors import InputError
from sim.trace import Trace
from sim.tracefile import INDEX
from trnprof.readers import (
    captures,
    chrome,
    csvfile,
    explorer,
    explorer_csv,
    legacy,
    perfetto,
    ranks,
    summaries,
    tables,
    unpack,
)
from trnprof.readers.chrome_events import is_chrome
from trnprof.readers.folders import SUPPORTED, trace_folder, trace_folders
from trnprof.readers.parquet import TABLE_FILE

_MARK = b"\xef\xbb\xbf"
_KEY_BYTES = 256
"""More than the name of the list of events and the spaces behind it take."""


def read_file(path: Path, columns: Mapping[str, str] | None = None) -> Trace:
    """The trace of a file, by its content."""
    with unpack.opened(path) as source:
        head = source.head
        _refuse(head, path)
        if unpack.is_archive(head):
            return _open_archive(path, unpack.unpacked(path, source))
        if head.startswith(_MARK):
            head = source.read(len(_MARK)) and head[len(_MARK) :]
        if columns is None and perfetto.is_perfetto(head):
            return perfetto.read(source.rest(), str(path))
        if columns is not None or head.lstrip()[:1] not in (b"{", b"["):
            return _read_text(path, source, head, columns)
        if is_chrome(head):
            return chrome.read(source.read, str(path))
        for module in (tables, summaries):
            if module.is_json(head):
                return module.read_json(source.rest(), str(path))
        try:
            return legacy.read(source, str(path))
        except InputError:
            if not _lists_events(path):
                raise
    with unpack.opened(path) as source:
        return chrome.read(source.read, str(path))


def _refuse(head: bytes, path: Path) -> None:
    if not head:
        raise InputError(f"{path}: an empty file")
    captures.refuse_capture(head, path)
    unpack.refuse(head, path)
    if head.startswith(b"PAR1"):
        raise InputError(f"{path}: one table of a profile", remedy=f"open the directory: {path.parent}")


def _read_text(path: Path, source: unpack.Source, head: bytes, columns: Mapping[str, str] | None) -> Trace:
    """CSV of ours, of Explorer's, or of anybody's; or a summary as text."""
    names = csvfile.header(head)
    if columns is None and tables.is_header(names):
        return tables.read_csv(source.rest(), str(path))
    if columns is None and {"start_ts", "engine", "opcode"} <= {*names}:
        return explorer_csv.read({"Instruction": path}, str(path))
    if columns is None and not names and summaries.is_text(head):
        return summaries.read_text(source.rest(), str(path))
    if columns is None and not names:
        raise InputError(f"{path}: not a profile", remedy=f"what opens: {SUPPORTED}")
    found = columns or csvfile.guess(names)
    if found is None:
        remedy = f"say which column is what: --columns name=…,start_us=…,duration_us=… of {', '.join(names[:20])}"
        raise InputError(f"{path}: a table whose columns are not known", remedy=remedy)
    return csvfile.read(unpack.Stream(source), str(path), names, found)


def _lists_events(path: Path) -> bool:
    """Whether a list of events comes later in a file than its head."""
    kept = b"{"
    with unpack.opened(path) as source:
        while data := source.read():
            if is_chrome(kept + data):
                return True
            kept = b"{" + data[-_KEY_BYTES:]
    return False


def _open_archive(path: Path, folder: Path) -> Trace:
    """The trace in an unpacked archive: its tables, or its only file."""
    files = [entry for entry in sorted(folder.rglob("*")) if entry.is_file()]
    if len(files) == 1 and not trace_folders(folder):
        trace = read_file(files[0])
    elif files:
        trace = read_folder(trace_folder(folder))
    else:
        raise InputError(f"{path}: an archive without files")
    return replace(trace, meta=replace(trace.meta, source=str(path)))


def read_folder(path: Path) -> Trace:
    """The trace of a directory with tables, or of the ranks below it."""
    below = trace_folders(path)
    numbers = ranks.ranks_of(path, below)
    if numbers:
        return ranks.join([read_folder(folder) for folder in below], numbers, str(path))
    if (path / INDEX).exists():
        return tracefile.read(path)
    if tables.is_folder(path):
        return tables.read_folder(path)
    spread = {} if any(TABLE_FILE.match(entry.name) for entry in path.iterdir()) else explorer_csv.tables(path)
    return explorer_csv.read(spread, str(path)) if spread else explorer.read(path)
