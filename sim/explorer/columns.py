"""Building blocks of Explorer's tables: its schema, its time, its text, its unions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.trace import Strings

if TYPE_CHECKING:
    import pyarrow as pa

Fields = dict[str, Any]
"""Values by field name: an array (NumPy's, or Arrow's with nulls), a `Text`, a list, or one value for every row.

A field left out is null.
"""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of Explorer's schema."""

    name: str
    type: str
    unit: str | None
    required: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class Text:
    """Text by code: `words[code]`, null for a negative code."""

    codes: np.ndarray
    words: tuple[str, ...] | Strings
    absent: str | None = None
    """What a negative code reads as."""


@cache
def schema() -> dict[str, tuple[str, tuple[Field, ...]]]:
    """Meaning and fields of each table that we write, schema 7.4.0."""
    document = json.loads(resources.files(__package__).joinpath("schema.json").read_text("utf-8"))
    return {
        name: (table["meaning"], tuple(Field(*field) for field in table["fields"]))
        for name, table in document["tables"].items()
    }


@cache
def version() -> str:
    return json.loads(resources.files(__package__).joinpath("schema.json").read_text("utf-8"))["version"]


def ns(time_ps: np.ndarray) -> np.ndarray:
    """The nearest ns of each point; lengths are differences of rounded points."""
    return (time_ps + 500) // 1000


def span(start_ps: np.ndarray, end_ps: np.ndarray) -> Fields:
    """start_ts, end_ts, duration_ns."""
    start, end = ns(start_ps), ns(end_ps)
    return {"start_ts": start, "end_ts": end, "duration_ns": end - start}


def rate(amount: np.ndarray, time_ps: np.ndarray) -> np.ndarray:
    """Amount per second; 0 where no time passed."""
    return np.where(time_ps > 0, amount * 1e12 / np.maximum(time_ps, 1), 0.0)


def rank(group: np.ndarray) -> np.ndarray:
    """Number of each row within its group, in the order of the rows."""
    order = np.argsort(group, kind="stable")
    grouped = group[order]
    first = np.flatnonzero(np.append(True, grouped[1:] != grouped[:-1])[: grouped.size])
    numbers = np.empty(group.size, np.int64)
    numbers[order] = np.arange(group.size) - np.repeat(first, np.diff(np.append(first, group.size)))
    return numbers


def merge(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The union of intervals as sorted intervals that neither overlap nor touch."""
    lasting = end > start
    order = np.argsort(start[lasting], kind="stable")
    start, end = start[lasting][order], end[lasting][order]
    if not start.size:
        return start, end
    reach = np.maximum.accumulate(end)
    first = np.flatnonzero(np.append(True, start[1:] > reach[:-1]))
    return start[first], reach[np.append(first[1:] - 1, start.size - 1)]


def arrow_table(name: str, fields: Fields, rows: int) -> pa.Table:
    """Fields in the schema's order and types; raises KeyError for a field that the schema does not have."""
    import pyarrow as pa

    known = {field.name: field for field in schema()[name][1]}
    strange = set(fields) - set(known)
    if strange:
        raise KeyError(f"{name} has no field {', '.join(sorted(strange))}")
    arrays = [_arrow(fields.get(field.name), field, rows) for field in known.values()]
    return pa.table(arrays, names=list(known))


def _arrow(value: Any, field: Field, rows: int) -> pa.Array:
    import pyarrow as pa

    kind = {"int64": pa.int64(), "int32": pa.int32(), "float": pa.float64(), "boolean": pa.bool_()}.get(
        field.type, pa.string()
    )
    if value is None:
        return pa.nulls(rows, kind)
    if isinstance(value, Text):
        return _words(value)
    if isinstance(value, pa.Array):
        return value
    if isinstance(value, np.ndarray):
        if field.type == "int32":
            value = np.clip(value, np.iinfo(np.int32).min, np.iinfo(np.int32).max)
        return array(value.astype(kind.to_pandas_dtype(), copy=False)) if kind != pa.string() else pa.array(value, kind)
    values = value if isinstance(value, list) else [value] * rows
    if kind == pa.string():
        return strings(values)
    absent = np.array([each is None for each in values], bool)
    return array(np.array([each or 0 for each in values], kind.to_pandas_dtype()), absent)


def _words(text: Text) -> pa.DictionaryArray:
    """Only the words in use and each once, so that a column does not carry the whole string table."""
    import pyarrow as pa

    codes = np.asarray(text.codes, np.int64)
    used = np.zeros(len(text.words) + 1, bool)
    used[codes] = True
    used[-1] = False
    words: dict[str, int] = {}
    place = np.full(used.size, -1, np.int32)
    for code in np.flatnonzero(used).tolist():
        place[code] = words.setdefault(storable(text.words[code]), len(words))
    if text.absent is not None:
        place[-1] = words.setdefault(text.absent, len(words))
    indices = place[np.where(codes < 0, -1, codes)]
    return pa.DictionaryArray.from_arrays(array(indices, indices < 0), strings(list(words)))


def array(values: np.ndarray, absent: np.ndarray | None = None) -> pa.Array:
    """Numbers or truths as they lie in memory, but for those that are absent; `pyarrow.array` would import pandas."""
    import pyarrow as pa

    kind = pa.from_numpy_dtype(values.dtype)
    held = np.packbits(values, bitorder="little") if values.dtype == bool else np.ascontiguousarray(values)
    valid = None if absent is None else pa.py_buffer(np.packbits(~absent, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(held)])


def strings(texts: list[str | None]) -> pa.Array:
    """Texts as Arrow has them."""
    import pyarrow as pa

    coded = [(text or "").encode() for text in texts]
    offsets = pa.py_buffer(np.cumsum([0, *map(len, coded)], dtype=np.int32))
    valid = pa.py_buffer(np.packbits(np.array([text is not None for text in texts], bool), bitorder="little"))
    return pa.StringArray.from_buffers(len(texts), offsets, pa.py_buffer(b"".join(coded)), valid)


def storable(text: str | None) -> str:
    """The text without lone surrogates, which UTF-8 cannot hold."""
    if text is None or text.isascii():
        return text or ""
    return text.encode("utf-8", "replace").decode()
