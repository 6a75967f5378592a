"""Any supported profile -> `Trace`: sniff a path by its content, pick the reader."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from sim.errors import InputError
from sim.trace import Trace
from sim.tracefile import INDEX
from trnprof.readers import unpack
from trnprof.readers.parquet import TABLE_FILE
from trnprof.readers.receipt import losses

SUPPORTED = (
    "a trace directory, a Neuron Explorer Parquet directory, "
    "a neuron-profile JSON, a Chrome or Perfetto trace; compressed (gzip, zstd, lz4, bzip2) or in a zip or tar archive"
)

_DEPTH = 5
_MARK = b"\xef\xbb\xbf"
_KEY_BYTES = 256
"""More than the name of the list of events and the spaces behind it take."""


def open(path: str | os.PathLike[str], *, strict: bool = False) -> Trace:
    """The trace at a path; `receipt` of it says what became of every row of the file.

    strict : refuse a file of which any row cannot be shown
    errors : InputError, one line that names the file, what it is, where it is damaged, and what to do
    """
    from trnprof.readers import cache

    place = Path(path)
    try:
        found = _trace_directory(place) if place.is_dir() else place
        trace = cache.kept(found)
        if trace is None:
            trace = cache.keep(found, _open_directory(found) if found.is_dir() else _open_file(found))
    except FileNotFoundError:
        raise InputError(f"{place}: no such trace") from None
    except PermissionError:
        raise InputError(f"{place}: no permission to read it") from None
    except OSError as fault:
        raise InputError(f"{place}: cannot be read: {fault.strerror or fault}") from None
    except MemoryError:
        raise InputError(f"{place}: does not fit in memory", remedy="convert it to Parquet") from None
    lost = losses(trace.receipt)
    if strict and lost:
        raise InputError(f"{place}: {'; '.join(lost[:4])}", remedy="without --strict the rest opens")
    return trace


def _open_file(path: Path) -> Trace:
    from trnprof.readers import captures, chrome, legacy, perfetto
    from trnprof.readers.chrome_events import is_chrome

    with unpack.opened(path) as source:
        head = source.head
        if not head:
            raise InputError(f"{path}: an empty file")
        captures.refuse_capture(head, path)
        unpack.refuse(head, path)
        if unpack.is_archive(head):
            return _open_archive(path, unpack.unpacked(path, source))
        if head.startswith(b"PAR1"):
            raise InputError(f"{path}: one table of a profile", remedy=f"open the directory: {path.parent}")
        if head.startswith(_MARK):
            head = source.read(len(_MARK)) and head[len(_MARK) :]
        if perfetto.is_perfetto(head):
            return perfetto.read(source.rest(), str(path))
        if head.lstrip()[:1] not in (b"{", b"["):
            raise InputError(f"{path}: not a profile", remedy=f"what opens: {SUPPORTED}")
        if is_chrome(head):
            return chrome.read(source.rest(), str(path))
        try:
            return legacy.read(source, str(path))
        except InputError:
            if not _lists_events(path):
                raise
    with unpack.opened(path) as source:
        return chrome.read(source.rest(), str(path))


def _lists_events(path: Path) -> bool:
    """Whether a list of events comes later in a file than its head."""
    from trnprof.readers.chrome_events import is_chrome

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
    if len(files) == 1 and not _trace_directories(folder):
        trace = _open_file(files[0])
    elif files:
        trace = _open_directory(folder)
    else:
        raise InputError(f"{path}: an archive without files")
    return replace(trace, meta=replace(trace.meta, source=str(path)))


def _trace_directory(path: Path) -> Path:
    """The one directory with tables, here or below."""
    found = _trace_directories(path)
    if not found:
        has = sorted(entry.name for entry in path.iterdir())
        inside = f"it has {', '.join(has[:5])}{'…' if len(has) > 5 else ''}" if has else "it is empty"
        raise InputError(f"{path}: a directory without profile tables; {inside}", remedy=f"what opens: {SUPPORTED}")
    if len(found) > 1:
        names = ", ".join(str(place) for place in found[:8])
        raise InputError(f"{path}: holds {len(found)} traces", remedy=f"open one of: {names}")
    return found[0]


def _open_directory(path: Path) -> Trace:
    if (path / INDEX).exists():
        from sim import tracefile

        return tracefile.read(path)
    from trnprof.readers import explorer

    return explorer.read(path)


def _trace_directories(path: Path, depth: int = 0) -> list[Path]:
    """Directories with tables: this one, else those below it (`profiles/global/<name>@latest`)."""
    entries = sorted(path.iterdir())
    if any(entry.name == INDEX or TABLE_FILE.match(entry.name) for entry in entries):
        return [path]
    if depth == _DEPTH:
        return []
    below = (entry for entry in entries if entry.is_dir() and not entry.is_symlink() and entry.name[0] != ".")
    return [found for entry in below for found in _trace_directories(entry, depth + 1)]
