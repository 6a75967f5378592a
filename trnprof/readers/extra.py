"""Columns of a captured profile that a trace has no column for: kept as JSON, and read only when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sim.trace import NONE, Instructions, Strings, Trace
from trnprof.readers.parquet import Source


def with_extra(trace: Trace, source: Source, table: str, rows: np.ndarray) -> Trace:
    """The trace with the column `extra`, where the file has columns that were not read.

    rows : row of the file of each instruction, -1 for one of another table
    """
    names = sorted({*source.names(table)} - source.used.get(table, set())) if table in source.tables else []
    if not names or not rows.size:
        return trace
    given = {name: trace.instructions.column(name) for name in trace.instructions.present()}
    load = _loader(source, table, names, rows, trace.strings)
    return replace(trace, instructions=Instructions(len(trace.instructions), **given, extra=load))


def _loader(
    source: Source, table: str, names: list[str], rows: np.ndarray, strings: Strings
) -> Callable[[], np.ndarray]:
    def load() -> np.ndarray:
        import msgspec

        found: list[dict[str, object]] = [{} for _ in range(rows.size)]
        mine = np.flatnonzero(rows >= 0)
        records = [found[at] for at in mine.tolist()]
        for name in names:
            values = source.column(table, (name,))
            for record, value in zip(records, values.take(rows[mine]).to_pylist() if values is not None else ()):
                if value not in (None, ""):
                    record[name] = value
        texts = [msgspec.json.encode(record, enc_hook=str).decode() if record else None for record in found]
        return np.array([NONE if text is None else strings.code(text) for text in texts], np.int32)

    return load
