"""A trace in other formats.

csv  : the columns that the trace has, text and enumerations as words, times in ps; one file a table and the meta as
       JSON, or only the instructions where the path ends in .csv
json : one object, `meta` and `tables`; a table is an object of equally long lists
perfetto, chrome : tracks of slices with counters and flows, for general viewers
sqlite, duckdb : one database file with the tables and views that `trnprof.sql` answers from
parquet : Neuron Explorer's tables with ours beside them (`sim.tracefile`)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from sim.errors import InputError, UnsupportedError
from sim.texts import PackedStrings
from sim.trace import Strings, Table, Trace
from trnprof.readers.enumerations import WORDS
from trnprof.readers.tables import META

if TYPE_CHECKING:
    import pyarrow as pa


def export(trace: Trace, to: str, path: str | Path) -> list[Path]:
    """Write a trace in another format; returns the files and folders made.

    raises : UnsupportedError for a format that is not written
    """
    write = WRITERS.get(to)
    if write is None:
        raise UnsupportedError(f"export to {to} is not written", remedy=f"it can be {', '.join(WRITERS)}")
    return write(trace, Path(path))


def _write_parquet(trace: Trace, path: Path) -> list[Path]:
    from sim import tracefile
    from trnprof.summary import summarize

    tracefile.write(trace, path, summary=summarize(trace))
    return [path]


def _write_csv(trace: Trace, path: Path) -> list[Path]:
    if path.suffix.lower() == ".csv":
        return [_csv_file(trace, "instructions", path)]
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file", remedy="name a folder, or a .csv file for the instructions alone")
    path.mkdir(parents=True, exist_ok=True)
    made = [_csv_file(trace, name, path / f"{name}.csv") for name, table in trace.tables() if len(table)]
    with _replacing(path / META) as file:
        file.write(_encoded(asdict(trace.meta)))
    return [*made, path / META]


def _csv_file(trace: Trace, name: str, path: Path) -> Path:
    from pyarrow import csv

    with _replacing(path) as file:
        csv.write_csv(arrow(trace, name, getattr(trace, name)), file)
    return path


def _write_json(trace: Trace, path: Path) -> list[Path]:
    document = {
        "meta": asdict(trace.meta),
        "tables": {name: arrow(trace, name, table).to_pydict() for name, table in trace.tables()},
    }
    with _replacing(path) as file:
        file.write(_encoded(document))
    return [path]


def _encoded(value: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(value, enc_hook=_plain)


def _write_perfetto(trace: Trace, path: Path) -> list[Path]:
    from trnprof.export import perfetto

    with _replacing(path) as file:
        perfetto.write(trace, file)
    return [path]


def _write_chrome(trace: Trace, path: Path) -> list[Path]:
    from trnprof.export import chrome

    with _replacing(path) as file:
        chrome.write(trace, file)
    return [path]


def _write_sqlite(trace: Trace, path: Path) -> list[Path]:
    from trnprof.export import database

    with _replacing(path) as file:
        database.write_sqlite(trace, Path(file.name))
    return [path]


def _write_duckdb(trace: Trace, path: Path) -> list[Path]:
    from trnprof.export import database

    with _replacing(path) as file:
        # DuckDB takes no file that is there already, even an empty one.
        os.unlink(file.name)
        database.write_duckdb(trace, Path(file.name))
    return [path]


WRITERS: dict[str, Callable[[Trace, Path], list[Path]]] = {
    "perfetto": _write_perfetto,
    "chrome": _write_chrome,
    "parquet": _write_parquet,
    "csv": _write_csv,
    "json": _write_json,
    "sqlite": _write_sqlite,
    "duckdb": _write_duckdb,
}


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def arrow(trace: Trace, name: str, table: Table, without: Collection[str] = ()) -> pa.Table:
    """The columns that the table has, with words in place of codes."""
    import pyarrow as pa

    # A column may bring its texts when it is first read.
    columns = {column: table.column(column) for column in table.present() if column not in without}
    texts = _texts(trace.strings)
    made = {}
    for column, codes in columns.items():
        words = texts if table.columns[column].text else WORDS.get(f"{name}.{column}")
        if words is None:
            made[column] = pa.array(codes)
        else:
            lexicon = words if isinstance(words, pa.Array) else pa.array(words, pa.string())
            made[column] = lexicon.take(pa.array(codes, mask=codes < 0))
    return pa.table(made)


def _texts(strings: Strings) -> pa.Array:
    """A string table; a packed one as it lies in memory."""
    import pyarrow as pa

    if not isinstance(strings, PackedStrings) or len(strings) >= strings.offsets.size or strings.offsets[-1] >= 1 << 31:
        return pa.array(list(strings), pa.string())
    offsets = pa.py_buffer(strings.offsets.astype(np.int32))
    return pa.StringArray.from_buffers(len(strings), offsets, pa.py_buffer(strings.data))


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the path's place when it is whole, and leaves nothing behind when it is not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
