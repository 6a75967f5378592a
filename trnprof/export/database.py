"""A trace as the tables that SQL asks: every column of each, ns beside ps, and views of what they add up to."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.errors import UnsupportedError
from sim.trace import Trace
from trnprof.export import arrow
from trnprof.readers.enumerations import WORDS
from trnprof.summary import SEMAPHORE_WAIT

if TYPE_CHECKING:
    import pyarrow as pa

VIEWS = {
    "instruction": "instructions",
    "dma": "transfers",
    "packet": "packets",
    "dependency": "edges",
    "region": "regions",
    "counter": "counters",
    "tensor": "tensors",
    "allocation": "allocations",
    "semaphore_update": "semaphore_updates",
}
"""Tables of the trace by what they are called in a query."""

_ENGINE_BUSY = f"""
create view engine_busy as
with worked as (
    select core, engine, start_ps, end_ps, max(end_ps) over (
        partition by core, engine order by start_ps, end_ps rows between unbounded preceding and 1 preceding
    ) as reach
    from instruction where opcode is null or opcode <> '{SEMAPHORE_WAIT}'
)
select core, engine, count(*) as instructions,
    sum(greatest(0, end_ps - greatest(start_ps, coalesce(reach, start_ps)))) / 1000.0 as busy_ns
from worked group by core, engine order by core, busy_ns desc
"""
_BY_SOURCE_LINE = """
create view by_source_line as
select source, count(*) as instructions, sum(duration_ns) as total_ns, sum(flops) as flops,
    sum(hbm_read_bytes) as hbm_read_bytes, sum(hbm_write_bytes) as hbm_write_bytes
from instruction where source is not null group by source order by total_ns desc
"""
DERIVED = {"engine_busy": _ENGINE_BUSY, "by_source_line": _BY_SOURCE_LINE}
"""Views over the tables."""


def relation(trace: Trace, name: str, without: Collection[str] = ()) -> pa.Table:
    """All columns of a table, those that the trace lacks or that are not wanted as null, and ns beside ps."""
    import pyarrow as pa

    rows = getattr(trace, name)
    table = arrow(trace, name, rows, without)
    for column, spec in rows.columns.items():
        if column not in table.column_names:
            worded = spec.text or f"{name}.{column}" in WORDS
            kind = pa.string() if worded else pa.from_numpy_dtype(spec.dtype)
            table = table.append_column(column, pa.nulls(len(rows), kind))
    made = {"row": pa.array(np.arange(len(rows)))}
    for column in table.column_names:
        if column.endswith("_ps"):
            made[f"{column.removesuffix('_ps')}_ns"] = _thousandth(table[column])
    if "end_ps" in rows.columns:
        made["duration_ns"] = pa.array((rows.column("end_ps") - rows.column("start_ps")) / 1000.0)
    for column, values in made.items():
        table = table.append_column(column, values)
    return table


def _thousandth(values: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    from pyarrow import compute

    return compute.divide(values.cast(pa.float64(), safe=False), 1000.0)


def write_duckdb(trace: Trace, path: Path) -> None:
    """Write a DuckDB file; UnsupportedError without DuckDB."""
    try:
        import duckdb
    except ImportError:
        raise UnsupportedError("a DuckDB file needs DuckDB", remedy="pip install 'trnprof[sql]'") from None
    with duckdb.connect(str(path)) as database:
        for view, name in VIEWS.items():
            database.register("given", relation(trace, name))
            database.execute(f"create table {view} as select * from given")
            database.unregister("given")
        for made in DERIVED.values():
            database.execute(made)
        database.execute("create table meta (name varchar, value json)")
        database.executemany("insert into meta values (?, ?)", list(_meta(trace)))


def write_sqlite(trace: Trace, path: Path) -> None:
    """Write an SQLite file."""
    with closing(sqlite3.connect(path)) as database, database:
        for view, name in VIEWS.items():
            table = relation(trace, name)
            columns = ", ".join(f'"{field.name}" {_affinity(str(field.type))}' for field in table.schema)
            database.execute(f"create table {view} ({columns})")
            places = ", ".join("?" * table.num_columns)
            for batch in table.to_batches(_BATCH):
                rows = zip(*(column.to_pylist() for column in batch.columns))
                database.executemany(f"insert into {view} values ({places})", rows)
        for made in DERIVED.values():
            database.execute(made.replace("greatest(", "max("))
        database.execute("create table meta (name text, value text)")
        database.executemany("insert into meta values (?, ?)", _meta(trace))


_BATCH = 1 << 16


def _affinity(kind: str) -> str:
    if kind in ("string", "large_string"):
        return "text"
    return "real" if kind in ("double", "float") else "integer"


def _meta(trace: Trace) -> Iterator[tuple[str, str]]:
    """What is known beside the rows, as JSON by name."""
    for name, value in asdict(trace.meta).items():
        yield name, json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else dict(value)
