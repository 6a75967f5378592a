"""Any supported profile -> `Trace`: sniff a path by its content, pick the reader."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from sim.errors import InputError
from sim.trace import Trace
from trnprof.readers import cache
from trnprof.readers.folders import trace_folder
from trnprof.readers.receipt import losses


def open(path: str | os.PathLike[str], *, strict: bool = False, columns: Mapping[str, str] | None = None) -> Trace:
    """The trace at a path; `receipt` of it says what became of every row of the file.

    strict  : refuse a file of which any row cannot be shown
    columns : of a CSV file, which column is what: `{"name": "Op", "start_us": "ts", "duration_us": "dur"}`
    errors  : InputError, one line that names the file, what it is, where it is damaged, and what to do
    """
    place = Path(path)
    try:
        found = trace_folder(place) if place.is_dir() else place
        trace = cache.kept(found) if columns is None else None
        if trace is None:
            trace = _read(found, columns)
            trace = cache.keep(found, trace) if columns is None else trace
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


def _read(path: Path, columns: Mapping[str, str] | None) -> Trace:
    """The trace at a path, by a reader; loading all of them takes longer than a kept trace takes to open."""
    from trnprof.readers.files import read_file, read_folder

    return read_folder(path) if path.is_dir() else read_file(path, columns)


def prepare(path: str | os.PathLike[str]) -> None:
    """Keep the columns of a large trace, so that it opens at once from now on. raises : as `open`"""
    place = Path(path)
    try:
        wanted = cache.wanted(trace_folder(place) if place.is_dir() else place)
    except OSError as fault:
        raise InputError(f"{place}: cannot be read: {fault.strerror or fault}") from None
    if wanted:
        open(place)
