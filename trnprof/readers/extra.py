"""Columns of a captured profile that a trace has no column for: kept as JSON, and read only when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sim.errors import InputError
from sim.trace import NONE, Instructions, Strings, Trace
from trnprof.readers.parquet import Source


@dataclass(frozen=True, slots=True, eq=False)
class Extra:
    """Reads the column when it is called.

    names : columns of the file's table that a trace has no column for
    rows  : row of the file of each instruction, -1 for one of another table
    """

    folder: Path
    table: str
    names: tuple[str, ...]
    rows: np.ndarray
    strings: Strings

    def __call__(self) -> np.ndarray:
        import msgspec

        found: list[dict[str, object]] = [{} for _ in range(self.rows.size)]
        mine = np.flatnonzero(self.rows >= 0)
        records = [found[at] for at in mine.tolist()]
        source = self._source()
        for name in self.names:
            values = source.column(self.table, (name,))
            for record, value in zip(records, values.take(self.rows[mine]).to_pylist() if values is not None else ()):
                if value not in (None, ""):
                    record[name] = value
        texts = [msgspec.json.encode(record, enc_hook=str).decode() if record else None for record in found]
        return np.array([NONE if text is None else self.strings.code(text) for text in texts], np.int32)

    def _source(self) -> Source:
        try:
            return Source(self.folder)
        except OSError as fault:
            raise InputError(f"{self.folder}: cannot be read any more: {fault.strerror or fault}") from None


def with_extra(trace: Trace, source: Source, table: str, rows: np.ndarray) -> Trace:
    """The trace with the column `extra`, where the file has columns that were not read.

    rows : row of the file of each instruction, -1 for one of another table
    """
    names = sorted({*source.names(table)} - source.used.get(table, set())) if table in source.tables else []
    if not names or not rows.size:
        return trace
    given = {name: trace.instructions.column(name) for name in trace.instructions.present()}
    extra = Extra(source.folder, table, tuple(names), rows, trace.strings)
    return replace(trace, instructions=Instructions(len(trace.instructions), **given, extra=extra))
