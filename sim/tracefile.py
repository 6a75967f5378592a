"""A trace as a directory: Neuron Explorer's Parquet tables with our columns beside them.

Instruction, DmaPacket, DmaPacketAggregated, Flow, SemaphoreUpdate and TensorInfo carry the columns of our tables after
Explorer's (`start_ps`, `wait_for`, …). Where Explorer uses a name otherwise, ours is `trnprof_<name>`; our text is a
code into TrnprofStrings. Tables that Explorer does not have are TrnprofCounters, TrnprofRegions, TrnprofAllocations,
TrnprofStrings and TrnprofProgram. `trnprof.json` has the meta and says which columns are present; a directory with it
is ours.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.errors import InputError
from sim.explorer import OWN_PLACES, explorer_tables, stored_name
from sim.explorer.columns import array, storable, strings
from sim.texts import PackedStrings
from sim.trace import TABLES, Finding, Meta, Strings, Table, Trace

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

FORMAT = 1
INDEX = "trnprof.json"
STRINGS = "TrnprofStrings"
PROGRAM = "TrnprofProgram"
"""What the trace can be timed anew from (`sim.programfile`); not there for captured profiles."""
ROW_GROUP = 1 << 20
PACKED_FROM = 50_000
"""Texts of a table that is not made into Python's strings at once."""


def write(trace: Trace, path: str | os.PathLike[str], summary: Mapping[str, Any] | None = None) -> Path:
    """Write a trace directory, which appears whole or not at all; an older trace at that path is replaced.

    summary : the row of Explorer's Summary table (`trnprof.summarize`)
    errors  : InputError when something that is not a trace lies there, or it cannot be written
    """
    target = Path(os.path.realpath(path))
    _check_target(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            _fill(draft, trace, summary)
            _put_in_place(draft, target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    except OSError as fault:
        raise InputError(f"{target}: cannot be written: {fault.strerror or fault}") from None
    return target


def read(path: str | os.PathLike[str]) -> Trace:
    """The trace of a directory that `write` made; a column is loaded when it is first asked for.

    errors : InputError that names the file at fault
    """
    folder = Path(path)
    index = _index(folder)
    try:
        meta = stored_meta(index["meta"])
        strings = _strings(folder / f"{STRINGS}.parquet", index["strings"])
        tables = {name: _table(folder, name, index["tables"][name]) for name in TABLES}
    except (KeyError, TypeError, ValueError) as fault:
        raise InputError(f"{folder / INDEX}: damaged: {type(fault).__name__} {fault}") from None
    return Trace(meta, strings, **tables, recorded=recorded_in(folder, strings))


def _check_target(target: Path) -> None:
    """Raise InputError unless the path is free, an empty directory, or a trace of ours and nothing else."""
    if not target.exists():
        return
    if not target.is_dir():
        raise InputError(f"{target}: a file is in the way", remedy="name a directory")
    names = {entry.name for entry in target.iterdir()}
    if not names:
        return
    strange = sorted(name for name in names if name != INDEX and not name.endswith(".parquet"))
    if INDEX not in names or strange:
        what = strange[0] if strange else sorted(names)[0]
        raise InputError(f"{target}: not a trace directory of ours, it has {what}", remedy="name another directory")


def _fill(folder: Path, trace: Trace, summary: Mapping[str, Any] | None) -> None:
    """Write every file of a trace."""
    import pyarrow as pa

    own = {OWN_PLACES[name]: (name, table) for name, table in trace.tables() if len(table)}
    written = set()
    for file, theirs in explorer_tables(trace, summary):
        _write_table(folder / f"{file}.parquet", _beside(theirs, *own[file]) if file in own else theirs)
        written.add(file)
    for file in sorted(own.keys() - written):
        _write_table(folder / f"{file}.parquet", _beside(None, *own[file]))
    texts = [storable(text) for text in trace.strings]
    if texts:
        _write_table(folder / f"{STRINGS}.parquet", pa.table({"text": strings(texts)}))
    _write_program(folder / f"{PROGRAM}.parquet", trace)
    index = {
        "format": FORMAT,
        "meta": asdict(trace.meta),
        "strings": len(texts),
        "tables": {name: {"rows": len(table), "columns": list(table.present())} for name, table in trace.tables()},
    }
    with (folder / INDEX).open("w", encoding="utf-8") as file:
        json.dump(index, file, ensure_ascii=True, indent=1, default=plain)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(folder)


def _write_program(path: Path, trace: Trace) -> None:
    """Write what the trace can be timed anew from, where it knows."""
    recorded = trace.recorded() if trace.recorded is not None else None
    if recorded is None:
        return
    from sim import programfile

    if programfile.storable(recorded):
        _write_table(path, programfile.table(recorded))


def recorded_in(folder: Path, strings: Strings) -> Callable[[], Any] | None:
    """What loads that which a trace can be timed anew from."""
    path = folder / f"{PROGRAM}.parquet"
    if not path.exists():
        return None

    def load() -> Any:
        from sim import programfile

        return programfile.read(path, strings)

    return load


def _beside(theirs: pa.Table | None, name: str, table: Table) -> pa.Table:
    """Our columns after Explorer's."""
    import pyarrow as pa

    columns = {} if theirs is None else dict(zip(theirs.column_names, theirs.columns, strict=True))
    for column in table.present():
        columns[stored_name(name, column)] = array(table.column(column))
    if not columns:
        columns["row"] = array(np.arange(len(table)))
    return pa.table(columns)


def _write_table(path: Path, table: pa.Table) -> None:
    """Write one file; without pyarrow's own schema, so that dictionaries read as plain text everywhere."""
    import pyarrow.parquet as pq

    with path.open("wb") as file:
        pq.write_table(table, file, compression="zstd", store_schema=False, row_group_size=ROW_GROUP)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_in_place(draft: Path, target: Path) -> None:
    """Rename the draft to the target; an older trace is moved aside first and put back when that fails."""
    os.chmod(draft, 0o777 & ~_umask())
    if not target.exists():
        os.rename(draft, target)
        _sync_folder(target.parent)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.old.", dir=target.parent))
    os.rename(target, aside / "trace")
    try:
        os.rename(draft, target)
    except BaseException:
        os.rename(aside / "trace", target)
        aside.rmdir()
        raise
    _sync_folder(target.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def plain(value: Any) -> Any:
    """As JSON writes it; for what it cannot by itself."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be stored in a trace's meta")


def _index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    try:
        index = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{folder}: not a trace directory: it has no {INDEX}") from None
    except (ValueError, RecursionError) as fault:
        raise InputError(f"{path}: damaged: {fault}") from None
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        found = index.get("format") if isinstance(index, dict) else type(index).__name__
        raise InputError(f"{path}: format {found!r}, this version reads {FORMAT}", remedy="write the trace again")
    return index


def stored_meta(fields: dict[str, Any]) -> Meta:
    """The meta of a trace from its JSON."""
    fields = dict(fields)
    fields["window"] = tuple(fields["window"])
    fields["notes"] = tuple(fields["notes"])
    fields["findings"] = tuple(Finding(**finding) for finding in fields["findings"])
    fields["outputs"] = tuple(fields["outputs"])
    return Meta(**fields)


def _table(folder: Path, name: str, described: dict[str, Any]) -> Table:
    """A table whose columns are read when they are asked for; the file's own number of rows must agree."""
    rows, columns = described["rows"], described["columns"]
    path = folder / f"{OWN_PLACES[name]}.parquet"
    if rows and _rows(path) != rows:
        raise InputError(f"{path}: has {_rows(path)} rows, {INDEX} says {rows}", remedy="write the trace again")
    return TABLES[name](rows, **{column: _loader(path, name, column, rows) for column in columns})


def _strings(path: Path, count: int) -> Strings:
    """The string table; one of many texts stays as it lies in the file."""
    if not count:
        return Strings()
    texts = _load(path, "text")
    if count < PACKED_FROM:
        return Strings(texts.to_pylist())
    import pyarrow as pa

    block = texts.cast(pa.large_string()).combine_chunks()
    _, offsets, data = block.buffers()
    return PackedStrings(np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int64)[: count + 1])


def _loader(path: Path, name: str, column: str, rows: int) -> Callable[[], np.ndarray]:
    """What reads a column, one row group after the other: no second copy of it is in memory."""
    stored = stored_name(name, column)

    def load() -> np.ndarray:
        import pyarrow.parquet as pq

        values = np.empty(rows, TABLES[name].columns[column].dtype)
        if rows:
            file = _reading(path, lambda: pq.ParquetFile(path, memory_map=True))
            at = 0
            for group in range(file.num_row_groups):
                part = _reading(path, partial(_part, file, group, stored))
                if part.dtype != values.dtype and not np.can_cast(part.dtype, values.dtype, "same_kind"):
                    raise InputError(f"{path}: column {stored} holds {part.dtype}, not {values.dtype}")
                values[at : at + part.size] = part
                at += part.size
        return values

    return load


def _part(file: pq.ParquetFile, group: int, column: str) -> np.ndarray:
    return file.read_row_group(group, columns=[column]).column(column).to_numpy()


def _rows(path: Path) -> int:
    import pyarrow.parquet as pq

    return _reading(path, lambda: pq.read_metadata(path).num_rows)


def _load(path: Path, column: str) -> pa.ChunkedArray:
    import pyarrow.parquet as pq

    return _reading(path, lambda: pq.ParquetFile(path, memory_map=True).read(columns=[column]).column(column))


def _reading(path: Path, step: Callable[[], Any]) -> Any:
    """The result of a step of reading; what goes wrong becomes one line that names the file."""
    import pyarrow as pa

    try:
        return step()
    except FileNotFoundError:
        raise InputError(f"{path}: missing from the trace") from None
    except (pa.ArrowException, OSError, KeyError) as fault:
        reason = str(fault).splitlines()
        raise InputError(f"{path}: damaged: {reason[0] if reason else type(fault).__name__}") from None
