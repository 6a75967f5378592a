"""Any supported profile -> `Trace`: sniff a path by its content, pick the reader."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

from sim.errors import InputError
from sim.trace import Trace
from sim.tracefile import INDEX
from trnprof.readers.parquet import TABLE_FILE
from trnprof.readers.receipt import losses

HEAD_BYTES = 65_536
GZIP_LIMIT = 8 << 30
"""Bytes that a compressed profile may unpack to."""

SUPPORTED = (
    "a trace directory, a Neuron Explorer Parquet directory, "
    "a neuron-profile JSON, a Chrome or Perfetto trace (files also .gz)"
)

_ARCHIVES = {b"PK\x03\x04": "a zip archive", b"7z\xbc\xaf": "a 7z archive", b"\x28\xb5\x2f\xfd": "zstd-compressed"}
_DEPTH = 5


def open(path: str | os.PathLike[str], *, strict: bool = False) -> Trace:
    """The trace at a path; `receipt` of it says what became of every row of the file.

    strict : refuse a file of which any row cannot be shown
    errors : InputError, one line that names the file, what it is, where it is damaged, and what to do
    """
    place = Path(path)
    try:
        trace = _open_directory(place) if place.is_dir() else _open_file(place)
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

    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise InputError(f"{path}: an empty file")
    captures.refuse_capture(head, path)
    if head.startswith(b"PAR1"):
        raise InputError(f"{path}: one table of a profile", remedy=f"open the directory: {path.parent}")
    for magic, name in _ARCHIVES.items():
        if head.startswith(magic):
            raise InputError(f"{path}: {name}", remedy="unpack it first")
    data = _gunzip(path) if head.startswith(captures.GZIP) else path.read_bytes()
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    if perfetto.is_perfetto(data[:HEAD_BYTES]):
        return perfetto.read(data, str(path))
    if data[:HEAD_BYTES].lstrip()[:1] not in (b"{", b"["):
        raise InputError(f"{path}: not a profile", remedy=f"what opens: {SUPPORTED}")
    return chrome.read(data, str(path)) if is_chrome(data) else legacy.read(data, str(path))


def _gunzip(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            data = file.read(GZIP_LIMIT + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise InputError(f"{path}: the gzip data is damaged or cut off: {fault}") from None
    if len(data) > GZIP_LIMIT:
        raise InputError(f"{path}: unpacks to more than {GZIP_LIMIT >> 30} GiB", remedy="convert it to Parquet")
    return data


def _open_directory(path: Path) -> Trace:
    found = _trace_directories(path)
    if not found:
        has = sorted(entry.name for entry in path.iterdir())
        inside = f"it has {', '.join(has[:5])}{'…' if len(has) > 5 else ''}" if has else "it is empty"
        raise InputError(f"{path}: a directory without profile tables; {inside}", remedy=f"what opens: {SUPPORTED}")
    if len(found) > 1:
        names = ", ".join(str(place) for place in found[:8])
        raise InputError(f"{path}: holds {len(found)} traces", remedy=f"open one of: {names}")
    if (found[0] / INDEX).exists():
        from sim import tracefile

        return tracefile.read(found[0])
    from trnprof.readers import explorer

    return explorer.read(found[0])


def _trace_directories(path: Path, depth: int = 0) -> list[Path]:
    """Directories with tables: this one, else those below it (`profiles/global/<name>@latest`)."""
    entries = sorted(path.iterdir())
    if any(entry.name == INDEX or TABLE_FILE.match(entry.name) for entry in entries):
        return [path]
    if depth == _DEPTH:
        return []
    below = (entry for entry in entries if entry.is_dir() and not entry.is_symlink() and entry.name[0] != ".")
    return [found for entry in below for found in _trace_directories(entry, depth + 1)]
