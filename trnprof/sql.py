"""Questions to a trace in SQL: DuckDB over its tables, read-only, without access to files or the network.

Times are ns (`start_ns`, `end_ns`, `duration_ns`; `*_ps` are exact), bytes and FLOPs are whole numbers, text and
enumerations are words. `row` counts from 0; `waiter`, `signaler`, `wait_for`, `region`, `parent`, `transfer` and
`instruction` refer to it.

instruction    one row an instruction, or a slice of a general timeline, with its `track`
dma            one row a transfer
packet         one row a piece of a transfer on one DMA engine
dependency     signaler -> waiter, rows of instruction
region         the tree of model, layer, operator, kernel, loop, line
counter        the value of a counter from `time_ns` on
tensor, allocation, semaphore_update
`extra` of an instruction is what else a captured profile says of it: `extra->>'hlo_name'`.

engine_busy    by core and engine: instructions, busy_ns (the union of their intervals, semaphore waits left out)
by_source_line by `source`: instructions, total_ns, flops, HBM bytes
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from sim.errors import InputError, UnsupportedError
from sim.trace import Trace
from trnprof.export import WORDS, arrow
from trnprof.summary import SEMAPHORE_WAIT

if TYPE_CHECKING:
    import duckdb
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

ENGINE_BUSY = f"""
create view engine_busy as
with worked as (
    select core, engine, start_ps, end_ps, max(end_ps) over (
        partition by core, engine order by start_ps, end_ps rows between unbounded preceding and 1 preceding
    ) as reach
    from instruction where opcode is distinct from '{SEMAPHORE_WAIT}'
)
select core, engine, count(*) as instructions,
    sum(greatest(0, end_ps - greatest(start_ps, coalesce(reach, start_ps)))) / 1000.0 as busy_ns
from worked group by core, engine order by core, busy_ns desc
"""
BY_SOURCE_LINE = """
create view by_source_line as
select source, count(*) as instructions, sum(duration_ns) as total_ns, sum(flops) as flops,
    sum(hbm_read_bytes) as hbm_read_bytes, sum(hbm_write_bytes) as hbm_write_bytes
from instruction where source is not null group by source order by total_ns desc
"""
MEMORY = "4GB"
EXTRA = "extra"
"""A column that is costly to read; it is filled where a query names it."""


def query(trace: Trace, text: str) -> pa.Table:
    """The answer to one SELECT, as an Arrow table (`.to_pandas()` makes a data frame).

    raises : InputError for SQL that is wrong, or anything but one SELECT; UnsupportedError without DuckDB
    """
    try:
        import duckdb
    except ImportError:
        raise UnsupportedError("SQL needs DuckDB", remedy="pip install 'trnprof[sql]'") from None

    with duckdb.connect() as database:
        _fill(database, trace, () if EXTRA in text.lower() else (EXTRA,))
        try:
            statements = database.extract_statements(text)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise InputError("SQL: one SELECT is answered", remedy="the trace itself cannot be changed")
            return database.sql(text).to_arrow_table()
        except duckdb.Error as fault:
            raise InputError(f"SQL: {' '.join(str(fault).split())}", remedy=f"views: {', '.join(names())}") from None


def names() -> tuple[str, ...]:
    """What a query may select from."""
    return (*VIEWS, "engine_busy", "by_source_line")


def _fill(database: duckdb.DuckDBPyConnection, trace: Trace, without: Collection[str]) -> None:
    """Make the views, then shut the door to everything outside."""
    for view, name in VIEWS.items():
        database.register(view, _table(trace, name, without))
    database.execute(ENGINE_BUSY)
    database.execute(BY_SOURCE_LINE)
    database.execute(f"set memory_limit = '{MEMORY}'; set temp_directory = ''")
    database.execute("set enable_external_access = false; set python_enable_replacements = false")
    database.execute("set lock_configuration = true")


def _table(trace: Trace, name: str, without: Collection[str] = ()) -> pa.Table:
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
