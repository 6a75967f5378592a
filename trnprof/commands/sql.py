from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from trnprof.commands import opening
from trnprof.commands.streams import columns, emit, emit_json, say

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 1000
WIDTH = 60


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("query", metavar="SELECT", help="one SELECT; without it the views and their columns",
                        nargs="?")  # fmt: skip
    parser.add_argument("--csv", action="store_true", help="print CSV, every row")
    parser.add_argument("--then", metavar="SELECT", help="one more SELECT, over `answer`, the rows of the first")
    opening.declare_strict(parser)
    opening.declare_many(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, every row")


def execute(args: Namespace) -> None:
    """Ask a trace in SQL (DuckDB, read-only).

    Views: instruction, dma, packet, dependency, region, counter, tensor, allocation, semaphore_update, engine_busy,
    by_source_line. Times are ns, text and enumerations are words:

      trnprof sql TRACE "select opcode, count(*), sum(duration_ns) from instruction group by all order by 3 desc"

    Traces of a folder may answer each by itself (--engine), and --then adds up:

      trnprof sql RANKS "select opcode, sum(duration_ns) as ns from instruction group by all" --engine dask \\
        --address tcp://host:8786 --then "select opcode, sum(ns), max(ns) / min(ns) from answer group by all"
    """
    answer = _answer(args)
    if args.json:
        emit_json([{name: _plain(value) for name, value in row.items()} for row in answer.to_pylist()])
    elif args.csv:
        emit(_csv(answer))
    else:
        _print(answer)


def _answer(args: Namespace) -> pa.Table:
    from trnprof import ranks, sql

    paths = opening.many(args)
    if paths:
        return ranks.query(paths, args.query or _DESCRIBE, args.then, opening.where(args))
    answer = sql.query(opening.open_trace(args.trace, args.strict, args.columns), args.query or _DESCRIBE)
    return sql.select({ranks.ANSWER: answer}, args.then) if args.then else answer


_DESCRIBE = """
select table_name as "view", string_agg(column_name, ', ' order by column_index) as "columns"
from duckdb_columns() where not internal group by table_name order by table_name
"""


def _csv(answer: pa.Table) -> str:
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(answer.column_names)
    writer.writerows(row.values() for row in answer.to_pylist())
    return out.getvalue().rstrip("\n")


def _print(answer: pa.Table) -> None:
    from trnprof import words

    shown = answer.slice(0, SHOWN).to_pylist()
    width = WIDTH if len(answer.column_names) > 2 else 2000
    rows = [tuple(answer.column_names), *(tuple(words.plain(_word(v), width) for v in row.values()) for row in shown)]
    right = frozenset(n for n, field in enumerate(answer.schema) if _numeric(str(field.type)))
    emit(columns(rows, right))
    if len(answer) > SHOWN:
        say(f"{SHOWN} of {len(answer)} rows; --csv and --json print all")


def _numeric(kind: str) -> bool:
    return kind.startswith(("int", "uint", "double", "float", "decimal"))


def _word(value: Any) -> str:
    if value is None:
        return "n/a"
    return f"{value:.6g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)


def _plain(value: Any) -> Any:
    """A JSON value; what JSON lacks as text, NaN and infinities as null."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    return value if value is None or isinstance(value, str | int | list | dict) else str(value)
