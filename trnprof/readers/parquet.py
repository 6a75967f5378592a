"""Columns of a directory of Parquet tables, which may each be split over several files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.errors import InputError
from sim.trace import NONE, Strings
from trnprof.readers.clock import PS_PER_NS
from trnprof.readers.versions import Versions

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_FILE = re.compile(r"^([A-Za-z]+?)(?:_([0-9]+))?\.parquet$")
"""Table and part; `DmaPacket_0` is a part of DmaPacket, DmaPacketAggregated another table."""


class Source:
    """The tables of a directory; columns are read one at a time."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._metas: dict[Path, Any] = {}
        self._columns: dict[Path, list[str]] = {}
        found: dict[str, list[tuple[int, Path]]] = {}
        for entry in folder.iterdir():
            match = TABLE_FILE.match(entry.name)
            if match:
                found.setdefault(match[1], []).append((int(match[2] or 0), entry))
        self.tables = {name: [path for _, path in sorted(parts)] for name, parts in found.items()}
        self.versions = Versions(self._described())
        self.time_unit_ps = PS_PER_NS
        self.used: dict[str, set[str]] = {}
        """Columns read, by table."""
        self.absent: dict[str, set[str]] = {}
        """Columns asked for that the file does not have."""

    def rows(self, table: str) -> int:
        """Rows of a table, 0 when it has no file."""
        return sum(self._meta(path).num_rows for path in self.tables.get(table, ()))

    def column(self, table: str, names: tuple[str, ...]) -> pa.ChunkedArray | None:
        """The first of the named columns that the table has, None when it has none of them."""
        import pyarrow as pa

        paths = self.tables.get(table, ())
        name = self.named(table, names)
        if name is None:
            return None
        parts = [self._part(path, name) for path in paths]
        kinds = {part.type for part in parts}
        if len(kinds) > 1:
            parts = [part.cast(pa.string()) for part in parts]
        return pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)

    def named(self, table: str, names: tuple[str, ...]) -> str | None:
        """What the table calls a column that may have several names."""
        if table not in self.tables:
            return None
        name = self.versions.find(table, names, self.names(table))
        found = self.used if name is not None else self.absent
        found.setdefault(table, set()).add(name or names[0])
        return name

    def names(self, table: str) -> list[str]:
        """All columns of a table, of whichever part."""
        return list(dict.fromkeys(name for path in self.tables[table] for name in self._names(path)))

    def times(self, table: str, names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """A column of times or lengths, in the profile's unit, and which rows have one."""
        name = self.named(table, names)
        scale = self.versions.unit_ps(table, name) // self.time_unit_ps if name else 1
        return numbers(self.column(table, names), self.rows(table), scale)

    def take_unit(self, columns: Iterable[tuple[str, tuple[str, ...]]]) -> int:
        """Count from now on in the finest unit that these columns have, ns or ps; returns its ps."""
        named = [(table, self.named(table, names)) for table, names in columns]
        units = (self.versions.unit_ps(table, name) for table, name in named if name)
        self.time_unit_ps = min([PS_PER_NS, *units])
        return self.time_unit_ps

    def _described(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Unit and description of every column that SchemaFields tells of."""
        wanted = ("table_name", "field_name", "field_unit", "field_description")
        found: dict[tuple[str, str], tuple[str, str]] = {}
        for path in self.tables.get("SchemaFields", ()):
            names = self._names(path)
            if not {"table_name", "field_name"} <= {*names}:
                continue
            columns = [self._part(path, name).to_pylist() for name in wanted]
            found |= {(str(row[0]), str(row[1])): (str(row[2] or ""), str(row[3] or "")) for row in zip(*columns)}
        return found

    def first(self, table: str) -> dict[str, Any]:
        """The first row of a table, empty when it has none; numbers that are not finite are None."""
        if not self.rows(table):
            return {}
        path = self.tables[table][0]
        names = self._names(path)
        row = {name: self._part(path, name).slice(0, 1).to_pylist() for name in names}
        return {name: value[0] if value and _finite(value[0]) else None for name, value in row.items()}

    def _meta(self, path: Path) -> Any:
        import pyarrow.parquet as pq

        if path not in self._metas:
            found = _reading(path, lambda: pq.read_metadata(path))
            self._columns[path] = _reading(path, lambda: found.schema.to_arrow_schema().names)
            self._metas[path] = found
        return self._metas[path]

    def _names(self, path: Path) -> list[str]:
        """Columns of a file; a list is one."""
        self._meta(path)
        return self._columns[path]

    def _part(self, path: Path, name: str) -> pa.ChunkedArray:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if name not in self._names(path):
            return pa.chunked_array([pa.nulls(self._meta(path).num_rows)])
        return _reading(path, lambda: _sound(pq.ParquetFile(path, memory_map=True).read(columns=[name]).column(name)))


def _sound(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column, once its texts are known to be UTF-8; raises ArrowInvalid where they are not."""
    values.validate(full=True)
    return values


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _reading(path: Path, step: Callable[[], Any]) -> Any:
    """The result of a step of reading; what goes wrong becomes one line that names the file."""
    import pyarrow as pa

    try:
        return step()
    except (pa.ArrowException, KeyError, UnicodeDecodeError) as fault:
        reason = str(fault).splitlines()
        raise InputError(f"{path}: damaged: {reason[0] if reason else type(fault).__name__}") from None
    except PermissionError:
        raise
    except OSError as fault:
        reason = str(fault).splitlines()
        raise InputError(f"{path}: damaged or cut off: {reason[0] if reason else fault}") from None


def numbers(values: pa.ChunkedArray | None, rows: int, scale: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """A column as int64, times `scale`, and which rows have a value; text that is no number, NaN and null have none."""
    import pyarrow as pa

    if values is None:
        return np.zeros(rows, np.int64), np.zeros(rows, bool)
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        has = values.is_valid().to_numpy()
        whole = values.cast(pa.int64(), safe=False) if not pa.types.is_uint64(kind) else values
        filled = whole.fill_null(0).to_numpy()
        kept = np.minimum(filled, np.iinfo(np.int64).max).astype(np.int64)
        if scale == 1:
            return kept, has.astype(bool)
        fits = np.abs(kept.astype(np.float64)) < 2.0**63 / scale
        return np.where(fits, kept, 0) * scale, has.astype(bool) & fits
    if pa.types.is_floating(kind):
        floats = values.cast(pa.float64()).to_numpy()
    else:
        floats = np.array([_number(text) for text in values.cast(pa.string()).to_pylist()], np.float64)
    has = np.isfinite(floats) & (np.abs(floats) < 2.0**63 / scale)
    return np.rint(np.where(has, floats, 0) * scale).astype(np.int64), has


def _number(text: str | None) -> float:
    try:
        return float(text) if text else math.nan
    except ValueError:
        return math.nan


def codes(values: pa.ChunkedArray | None, rows: int, strings: Strings) -> np.ndarray:
    """A column as codes; null and blank are none. Each distinct text is interned once."""
    import pyarrow as pa

    if values is None or not rows:
        return np.full(rows, NONE, np.int32)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        values = pa.chunked_array([pa.array([None if v is None else str(v) for v in values.to_pylist()], pa.string())])
    encoded = values.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    words = [strings.code((text or "").strip() or None) for text in encoded.dictionary.to_pylist()]
    indices = encoded.indices.fill_null(len(words)).to_numpy()
    return np.array([*words, NONE], np.int32)[indices]
