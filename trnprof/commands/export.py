from __future__ import annotations

from argparse import ArgumentParser, Namespace

from trnprof.commands import opening
from trnprof.commands.streams import emit, emit_json

FORMATS = ("parquet", "csv", "json", "perfetto", "chrome", "sqlite", "duckdb")


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("--to", choices=FORMATS, required=True)
    parser.add_argument("-o", "--output", metavar="PATH", required=True, help="file or folder to write")
    opening.declare_strict(parser)
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def execute(args: Namespace) -> None:
    """Write a trace in another format: Perfetto, Chrome, parquet, csv, json, sqlite or duckdb.

    perfetto and chrome are for general viewers, one file, with counters and dependencies as flows;
    parquet is a trace directory with Neuron Explorer's tables; csv makes one file a table, or only the instructions
    where PATH ends in .csv; json is one file; sqlite and duckdb are database files with the views of `trnprof sql`.
    """
    from trnprof.export import export

    written = [
        str(path) for path in export(opening.open_trace(args.trace, args.strict, args.columns), args.to, args.output)
    ]
    if args.json:
        emit_json({"written": written})
    else:
        emit("\n".join(written))
