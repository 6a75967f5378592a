"""Columns of large traces as files that are mapped into memory, kept from one opening to the next.

A trace is known by a sample of its files' content, their sizes and times, and by the code that reads it, so that
nothing stale is ever served. A folder appears whole or not at all; the one not opened longest goes when all together
are larger than `TRNPROF_CACHE_BYTES`. `TRNPROF_CACHE_BYTES=0` keeps nothing.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import cache, lru_cache, partial
from hashlib import blake2b
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from sim import stages, tracefile
from sim.stages import Stage
from sim.texts import PackedStrings, packed
from sim.trace import TABLES, Arrays, Trace
from trnprof.home import cache_dir
from trnprof.readers.extra import Extra

LEAST_BYTES = 8 << 20
"""Files that together are smaller open fast enough as they are."""
MUCH = 64 << 20
"""Files that together are larger take so long to open that it is told."""
LEAST_ROWS = 500_000
ROOM = 32 << 30
"""Bytes of all kept traces together, where TRNPROF_CACHE_BYTES does not say otherwise."""
FREE = 2 << 30
"""Bytes that a disk keeps free."""
ABANDONED = 86_400
"""Seconds after which a folder that was never finished is taken away."""

INDEX = "index.json"
_EDGE, _BLOCKS, _BLOCK = 1 << 16, 16, 1 << 12
_HEAD = 1 << 12
"""Bytes of a file that are read at once; a file that is not larger is not mapped."""


class ColumnStore:
    """One kept trace: its columns, and what was derived from them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._tables: tuple[object, ...] = ()

    def bind(self, trace: Trace) -> Trace:
        """The trace with this store; only its very tables may ask for what was derived from them."""
        self._tables = tuple(table for _, table in trace.tables())
        return replace(trace, store=self)

    def holds(self, trace: Trace) -> bool:
        return all(mine is table for mine, (_, table) in zip(self._tables, trace.tables(), strict=True))

    def knows(self, name: str) -> bool:
        return self._place(name).is_dir()

    def _place(self, name: str) -> Path:
        return self.folder / "derived" / derived_version() / name

    def derive(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """As `make` gives them, mapped from files from the second time on."""
        place = self._place(name)
        if not place.is_dir():
            arrays = make()
            try:
                _appear(place, partial(_save, arrays=arrays))
            except OSError:  # a full disk, or the folder was taken away: the answer is there all the same
                return arrays
        return {name.removesuffix(".npy"): _mapped(place / name) for name in sorted(os.listdir(place))}


def kept(path: Path) -> Trace | None:
    """The trace at a path as it was kept, None when it was not."""
    folder = _folder(path)
    if folder is None or not (folder / INDEX).exists():
        return None
    try:
        index = json.loads((folder / INDEX).read_text("utf-8"))
        os.utime(folder / INDEX)
        return _load(folder, index, path)
    except (OSError, ValueError, KeyError, TypeError):
        shutil.rmtree(folder, ignore_errors=True)
        return None


def wanted(path: Path) -> bool:
    """Whether a trace is large, may be kept, and is not."""
    folder = _folder(path, MUCH)
    return folder is not None and not (folder / INDEX).exists()


def keep(path: Path, trace: Trace) -> Trace:
    """The trace with columns mapped from files, where it is large and they have room; else as it was."""
    rows = sum(len(table) for _, table in trace.tables())
    folder = _folder(path) if rows >= LEAST_ROWS else None
    if folder is None:
        return trace
    size = sum(_width(trace, path).values())
    if size > room() or not _make_room(folder.parent, size):
        return trace
    try:
        _appear(folder, partial(_fill, trace=trace, path=path, size=size))
    except OSError:
        return trace
    finally:
        stages.enter(None)
    return kept(path) or trace


def room() -> int:
    """Bytes that all kept traces may take together."""
    given = os.environ.get("TRNPROF_CACHE_BYTES", "")
    return int(given) if given.isdecimal() else ROOM


def _folder(path: Path, least: int = 0) -> Path | None:
    """Where a path's columns are kept; None for what is small, or cannot be kept."""
    if not room():
        return None
    files = _tables(path) if path.is_dir() else [path]
    if sum(file.stat().st_size for file in files) < max(least, LEAST_BYTES):
        return None
    digest = blake2b(reader_version().encode(), digest_size=16)
    for file in files:
        _sample(file, digest)
    return cache_dir() / "columns" / digest.hexdigest()


def _tables(path: Path) -> list[Path]:
    """Files of a directory with tables, or of the ranks below it."""
    found = [path / tracefile.INDEX] if (path / tracefile.INDEX).exists() else []
    tables = sorted(path.glob("*.parquet")) or sorted((*path.rglob("*.parquet"), *path.rglob(tracefile.INDEX)))
    return found + tables


def _sample(file: Path, digest: Any) -> None:
    """Name, size, time, both ends (Parquet's has the statistics of every column) and blocks between."""
    found = file.stat()
    digest.update(f"{file.name}\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
    with file.open("rb") as stream:
        digest.update(stream.read(_EDGE))
        for k in range(1, _BLOCKS):
            stream.seek(found.st_size * k // _BLOCKS)
            digest.update(stream.read(_BLOCK))
        stream.seek(max(0, found.st_size - _EDGE))
        digest.update(stream.read(_EDGE))


@cache
def reader_version() -> str:
    """Changes with the code that makes columns."""
    ground, readers = Path(tracefile.__file__).parent, Path(__file__).parent
    return _version([*ground.glob("*.py"), *(ground / "explorer").glob("*.py"), *readers.rglob("*.py")])


@cache
def derived_version() -> str:
    """Changes with the code that derives."""
    ground, home = Path(tracefile.__file__).parent, Path(__file__).resolve().parents[1]
    code = [file for folder in (ground, home, home / "view", home / "jit") for file in folder.glob("*.py")]
    return _version([*code, *(ground / "devices").glob("*.json")])


def _version(files: Iterable[Path]) -> str:
    digest = blake2b(digest_size=8)
    for file in sorted(files):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def _late(trace: Trace, path: Path) -> Extra | None:
    """What a captured profile says beside, which stays in its own files and is read there when it is asked for."""
    found = trace.instructions.loader("extra")
    return found if isinstance(found, Extra) and found.folder == path else None


def _width(trace: Trace, path: Path) -> dict[tuple[str, str], int]:
    """Bytes of each column that is kept."""
    late = ("instructions", "extra") if _late(trace, path) else None
    return {
        (name, column): len(table) * table.columns[column].dtype.itemsize
        for name, table in trace.tables()
        for column in table.present()
        if (name, column) != late
    }


def _fill(folder: Path, trace: Trace, path: Path, size: int) -> None:
    """Write all columns, one at a time; none of them stays in memory for it."""
    done, rows = 0, len(trace.instructions)
    stages.enter(Stage(path.name, "indexing", lambda: rows * done // max(1, size), rows))
    kept = _width(trace, path)
    for (name, column), width in kept.items():
        _write(folder / f"{name}.{column}.npy", getattr(trace, name).read(column))
        done += width
    data, offsets = packed(trace.strings)
    _write(folder / "strings.data.npy", data)
    _write(folder / "strings.offsets.npy", offsets)
    index = {
        "path": str(path),
        "meta": asdict(trace.meta),
        "tables": {
            name: {"rows": len(table), "columns": [column for of, column in kept if of == name]}
            for name, table in trace.tables()
        },
    }
    late = _late(trace, path)
    if late is not None:
        _write(folder / "extra.rows.npy", late.rows)
        index["extra"] = {"table": late.table, "names": late.names}
    (folder / INDEX).write_text(json.dumps(index, default=tracefile.plain), "utf-8")


def _load(folder: Path, index: dict[str, Any], path: Path) -> Trace:
    meta = tracefile.stored_meta(index["meta"])
    if meta.source == index["path"]:
        meta = replace(meta, source=str(path))
    strings = PackedStrings(_mapped(folder / "strings.data.npy"), _mapped(folder / "strings.offsets.npy"))
    loaders: dict[str, dict[str, Callable[[], np.ndarray]]] = {
        name: {column: partial(_mapped, folder / f"{name}.{column}.npy") for column in described["columns"]}
        for name, described in index["tables"].items()
    }
    if "extra" in index:
        rows, late = _mapped(folder / "extra.rows.npy"), index["extra"]
        loaders["instructions"]["extra"] = Extra(path, late["table"], tuple(late["names"]), rows, strings)
    tables = {name: TABLES[name](index["tables"][name]["rows"], **columns) for name, columns in loaders.items()}
    recorded = tracefile.recorded_in(path, strings) if path.is_dir() else None
    return ColumnStore(folder).bind(Trace(meta, strings, **tables, recorded=recorded))


def _write(file: Path, array: np.ndarray) -> None:
    with file.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
        array.tofile(stream)


def _save(folder: Path, arrays: Arrays) -> None:
    for name, array in arrays.items():
        _write(folder / f"{name}.npy", np.ascontiguousarray(array))


def _mapped(file: Path) -> np.ndarray:
    """As `numpy.load` maps a file, at a tenth of the time, for hundreds of them lie behind a picture."""
    with file.open("rb") as stream:
        head = stream.read(_HEAD)
        dtype, shape, at = _described(head[: 10 + int.from_bytes(head[8:10], "little")])
        if len(head) < _HEAD:
            return np.frombuffer(head, dtype, offset=at).reshape(shape).copy()
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(data, dtype, prod(shape), at).reshape(shape)


@lru_cache(1024)
def _described(header: bytes) -> tuple[np.dtype, tuple[int, ...], int]:
    """Type and shape of the array of a file of NumPy's, and where it begins."""
    stream = BytesIO(header)
    np.lib.format.read_magic(stream)
    shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    return dtype, shape, len(header)


def _appear(place: Path, fill: Callable[[Path], None]) -> None:
    """A folder that is filled beside its place and then moved there; one that is there already stays."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".", dir=place.parent))
    try:
        fill(draft)
        os.rename(draft, place)
    except OSError:
        if not place.is_dir():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _make_room(columns: Path, size: int) -> bool:
    """Take away what was not opened longest until so many bytes fit; False where the disk is too full."""
    columns.mkdir(parents=True, exist_ok=True)
    _clear_drafts(columns)
    held = sorted((_opened(folder), _size(folder), folder) for folder in columns.iterdir())
    total = sum(entry[1] for entry in held)
    for _, bytes_, folder in held:
        if total + size <= room() and shutil.disk_usage(columns).free >= size + FREE:
            break
        shutil.rmtree(folder, ignore_errors=True)
        total -= bytes_
    return total + size <= room() and shutil.disk_usage(columns).free >= size + FREE


def _clear_drafts(columns: Path) -> None:
    for folder in columns.glob(".*"):
        if time.time() - folder.stat().st_mtime > ABANDONED:
            shutil.rmtree(folder, ignore_errors=True)


def _opened(folder: Path) -> float:
    """When it was opened last; a draft is being made now."""
    try:
        return (folder / INDEX).stat().st_mtime
    except OSError:
        return time.time()


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file())
