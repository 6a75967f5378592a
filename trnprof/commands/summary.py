from __future__ import annotations

from argparse import ArgumentParser, Namespace

from trnprof.commands import opening, result
from trnprof.commands.streams import emit, emit_json


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE")
    opening.declare_strict(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, with every field of AWS's Summary")


def execute(args: Namespace) -> None:
    """Print where the time of a trace went: verdict, engines, AWS's Summary fields.

    TRACE is a trace directory, Neuron Explorer Parquet, a profile JSON, a Chrome or a Perfetto trace. What could not
    be read of it is said on stderr.
    """
    trace = opening.open_trace(args.trace, args.strict, args.columns)
    if args.json:
        emit_json(result.record(trace))
    else:
        emit(result.text(trace))
