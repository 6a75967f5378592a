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

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sim.errors import InputError, UnsupportedError
from sim.trace import Trace
from trnprof.export.database import DERIVED, VIEWS, relation

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MEMORY = "4GB"
EXTRA = "extra"
"""A column that is costly to read; it is filled where a query names it."""


def query(trace: Trace, text: str) -> pa.Table:
    """The answer to one SELECT, as an Arrow table (`.to_pandas()` makes a data frame).

    raises : InputError for SQL that is wrong, or anything but one SELECT; UnsupportedError without DuckDB
    """
    without = () if EXTRA in text.lower() else (EXTRA,)
    tables = {view: relation(trace, name, without) for view, name in VIEWS.items()}
    return select(tables, text, tuple(DERIVED.values()))


def select(tables: Mapping[str, pa.Table], text: str, views: Sequence[str] = ()) -> pa.Table:
    """The answer to one SELECT over tables, and over views that are made of them first. raises : as `query`"""
    try:
        import duckdb
    except ImportError:
        raise UnsupportedError("SQL needs DuckDB", remedy="pip install 'trnprof[sql]'") from None

    with duckdb.connect() as database:
        for name, table in tables.items():
            database.register(name, table)
        for view in views:
            database.execute(view)
        _shut(database)
        try:
            statements = database.extract_statements(text)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise InputError("SQL: one SELECT is answered", remedy="the trace itself cannot be changed")
            return database.sql(text).to_arrow_table()
        except duckdb.Error as fault:
            known = names() if views else tables
            raise InputError(f"SQL: {' '.join(str(fault).split())}", remedy=f"views: {', '.join(known)}") from None


def names() -> tuple[str, ...]:
    """What a query may select from."""
    return (*VIEWS, *DERIVED)


def _shut(database: duckdb.DuckDBPyConnection) -> None:
    """The door to everything outside."""
    database.execute(f"set memory_limit = '{MEMORY}'; set temp_directory = ''")
    database.execute("set enable_external_access = false; set python_enable_replacements = false")
    database.execute("set lock_configuration = true")
