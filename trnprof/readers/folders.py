"""Which directories are traces, by what lies in them."""

from __future__ import annotations

from pathlib import Path

from sim.errors import InputError
from sim.tracefile import INDEX
from trnprof.readers.parquet import TABLE_FILE
from trnprof.readers.ranks import ranks_of

SUPPORTED = (
    "a trace directory, Neuron Explorer Parquet or CSV, a neuron-profile JSON or summary, a Chrome or Perfetto trace, "
    "CSV with --columns; compressed (gzip, zstd, lz4, bzip2, xz) or in a zip or tar archive"
)

_DEPTH = 5


def trace_folder(path: Path) -> Path:
    """The one directory with tables, here or below; or one with a profile a rank below it.

    errors : InputError where there is none, or there are several
    """
    found = trace_folders(path)
    if not found:
        # Other readers than the one that is wanted take long to load.
        from trnprof.readers import explorer_csv, tables

        if tables.is_folder(path) or explorer_csv.tables(path):
            return path
        has = sorted(entry.name for entry in path.iterdir())
        inside = f"it has {', '.join(has[:5])}{'…' if len(has) > 5 else ''}" if has else "it is empty"
        raise InputError(f"{path}: a directory without profile tables; {inside}", remedy=f"what opens: {SUPPORTED}")
    if ranks_of(path, found):
        return path
    if len(found) > 1:
        names = ", ".join(str(place) for place in found[:8])
        raise InputError(f"{path}: holds {len(found)} traces", remedy=f"open one of: {names}")
    return found[0]


def is_table(name: str) -> bool:
    """Whether a file of this name makes its folder a trace."""
    return name == INDEX or TABLE_FILE.match(name) is not None


def trace_folders(path: Path, depth: int = 0) -> list[Path]:
    """Directories with tables: this one, else those below it (`profiles/global/<name>@latest`)."""
    entries = sorted(path.iterdir())
    if any(is_table(entry.name) for entry in entries):
        return [path]
    if depth == _DEPTH:
        return []
    below = (entry for entry in entries if entry.is_dir() and not entry.is_symlink() and entry.name[0] != ".")
    return [found for entry in below for found in trace_folders(entry, depth + 1)]
