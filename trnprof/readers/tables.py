"""Tables that `trnprof export` wrote as CSV or JSON, made into a trace again.

A folder has a CSV file a table, and the meta in `meta.json`; a JSON file has `meta` and `tables`; a single CSV file has
the instructions alone. Text and enumerations are words, times ps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.errors import InputError
from sim.trace import NONE, TABLES, Instructions, Meta, Strings, Table, Trace, validate
from trnprof.readers.enumerations import WORDS
from trnprof.readers.receipt import Receipt, losses, total

if TYPE_CHECKING:
    import pyarrow as pa

META = "meta.json"
_JSON = re.compile(rb'\s*\{\s*"meta"\s*:\s*\{')


def is_json(head: bytes) -> bool:
    return _JSON.match(head) is not None


def is_header(names: list[str]) -> bool:
    """Whether a CSV file is one of ours with instructions."""
    return {"start_ps", "end_ps", "engine"} <= {*names} <= {*Instructions.columns}


def is_folder(path: Path) -> bool:
    return (path / "instructions.csv").is_file() and (path / META).is_file()


def read_json(data: bytes, path: str) -> Trace:
    """The trace of a JSON file of ours."""
    import msgspec

    try:
        document = msgspec.json.decode(data, type=_document())
        return _trace(document.tables, document.meta, path)
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise InputError(f"{path}: damaged: {type(fault).__name__} {fault}") from None


@cache
def _document() -> type:
    import msgspec

    # Columns stay text until their turn comes: all of them as Python's numbers would take many times the file.
    columns = dict[str, msgspec.Raw]
    return msgspec.defstruct("Document", [("meta", dict[str, Any]), ("tables", dict[str, columns])])


def read_folder(folder: Path) -> Trace:
    """The trace of a folder of CSV files of ours."""
    import msgspec

    found = {name: folder / f"{name}.csv" for name in TABLES}
    tables = {name: _csv(path.read_bytes(), name, str(path)) for name, path in found.items() if path.is_file()}
    try:
        meta = msgspec.json.decode((folder / META).read_bytes())
    except msgspec.DecodeError as fault:
        raise InputError(f"{folder / META}: damaged: {fault}") from None
    return _trace(tables, meta, str(folder))


def read_csv(data: bytes, path: str) -> Trace:
    """The trace of a CSV file with instructions; what refers to other tables is left out."""
    columns = _csv(data, "instructions", path)
    columns.pop("region", None)
    trace = _trace({"instructions": columns}, asdict(Meta(False, "unknown", path, tool="CSV")), path)
    table, receipt = trace.instructions, Receipt()
    length = total(table.end_ps - table.start_ps)
    receipt.read("instructions", len(table))
    receipt.show("instructions", len(table))
    receipt.read_time("instructions", length)
    receipt.show_time("instructions", length)
    window = (int(table.start_ps.min(initial=0)), int(table.end_ps.max(initial=0)))
    meta = replace(trace.meta, window=window, total_ps=window[1], notes=receipt.notes(), receipt=receipt.to_json())
    return replace(trace, meta=meta)


def _csv(data: bytes, name: str, path: str) -> dict[str, pa.ChunkedArray]:
    """The columns of a file, in the types that `export` wrote."""
    import pyarrow as pa
    from pyarrow import csv

    kinds = {column: _kind(name, column) for column in TABLES[name].columns}
    # Text that repeats is held once.
    kinds = {column: pa.dictionary(pa.int32(), kind) if pa.types.is_string(kind) else kind
             for column, kind in kinds.items()}  # fmt: skip
    try:
        found = csv.read_csv(
            pa.py_buffer(data),
            csv.ReadOptions(use_threads=False),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=kinds, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
    except pa.ArrowException as fault:
        raise InputError(f"{path}: damaged: {str(fault).splitlines()[0]}") from None
    return dict(zip(found.column_names, found.columns))


def _kind(table: str, column: str) -> Any:
    import pyarrow as pa

    spec = TABLES[table].columns[column]
    return pa.string() if spec.text or f"{table}.{column}" in WORDS else pa.from_numpy_dtype(spec.dtype)


def _trace(tables: Mapping[str, dict[str, Any]], meta: Mapping[str, Any], path: str) -> Trace:
    unknown = tables.keys() - TABLES.keys()
    if unknown:
        raise InputError(f"{path}: no table {_listing(unknown)} in a trace")
    strings = Strings()
    made = {name: _table(name, columns, strings, path) for name, columns in tables.items()}
    if "instructions" not in made:
        raise InputError(f"{path}: a trace without the table instructions")
    trace = Trace(_meta(meta, path), strings, **made)
    try:
        validate(trace)
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from None
    return trace


def _listing(names: Iterable[str]) -> str:
    """Names from a file, in one line."""
    return ", ".join(" ".join(name.split())[:80] for name in sorted(names)[:8])


def _meta(fields: Mapping[str, Any], path: str) -> Meta:
    import msgspec

    try:
        meta = msgspec.convert(dict(fields), Meta)
        losses(meta.receipt)
    except (msgspec.ValidationError, AttributeError, KeyError, TypeError, ValueError) as fault:
        raise InputError(f"{path}: the meta is damaged: {' '.join(str(fault).split())[:200]}") from None
    return meta


def _table(name: str, columns: dict[str, Any], strings: Strings, path: str) -> Table:
    kind = TABLES[name]
    unknown = columns.keys() - kind.columns.keys()
    if unknown:
        raise InputError(f"{path}: no column {_listing(unknown)} in {name}")
    # Each goes when it is made: two copies of all columns would be held else.
    made = {column: _column(name, column, columns.pop(column), strings, path) for column in list(columns)}
    rows = {len(values) for values in made.values()}
    if len(rows) > 1:
        raise InputError(f"{path}: the columns of {name} are of different lengths")
    return kind(next(iter(rows), 0), **made)


def _listed(values: Any) -> list[Any]:
    import msgspec

    return msgspec.json.decode(values, type=list)


def _column(table: str, column: str, values: Any, strings: Strings, path: str) -> np.ndarray:
    """A column in the trace's own type."""
    import msgspec
    import pyarrow as pa

    spec, words = TABLES[table].columns[column], WORDS.get(f"{table}.{column}")
    try:
        if isinstance(values, pa.ChunkedArray):
            found = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
        else:
            found = pa.array(_listed(values), _kind(table, column))
    except (pa.ArrowException, OverflowError, msgspec.DecodeError, RecursionError) as fault:
        raise InputError(f"{path}: {table}.{column}: {str(fault).splitlines()[0]}") from None
    if words is None and not spec.text:
        absent = np.nan if spec.dtype.kind == "f" else spec.dtype.type(spec.absent).item()
        return found.fill_null(absent).to_numpy(zero_copy_only=False)
    encoded = found if pa.types.is_dictionary(found.type) else found.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    if words is None:
        codes = [strings.code(text) for text in texts]
    else:
        strange = [text for text in texts if text not in words]
        if strange:
            raise InputError(f"{path}: {table}.{column} is {strange[0]!r}; it can be {', '.join(words)}")
        codes = [words.index(text) for text in texts]
    return np.array([*codes, NONE], spec.dtype)[encoded.indices.fill_null(len(codes)).to_numpy(zero_copy_only=False)]
