from __future__ import annotations

from argparse import ArgumentParser, Namespace

from trnprof.commands import result
from trnprof.commands.streams import emit, emit_json


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("--json", action="store_true", help="print JSON, with every field of AWS's Summary")


def execute(args: Namespace) -> None:
    """Print where the time of a trace went: verdict, engines, AWS's Summary fields.

    TRACE is a trace directory, Neuron Explorer Parquet, or a profile JSON.
    """
    from trnprof.readers import open as open_trace

    trace = open_trace(args.trace)
    if args.json:
        emit_json(result.record(trace))
    else:
        emit(result.text(trace))
