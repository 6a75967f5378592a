from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from trnprof.commands import opening, result
from trnprof.commands.streams import columns, emit, emit_json

if TYPE_CHECKING:
    from pathlib import Path


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE")
    opening.declare_strict(parser)
    opening.declare_many(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, with every field of AWS's Summary")


def execute(args: Namespace) -> None:
    """Print where the time of a trace went: verdict, engines, AWS's Summary fields.

    TRACE is a trace directory, Neuron Explorer Parquet, a profile JSON, a Chrome or a Perfetto trace. What could not
    be read of it is said on stderr. Of traces that are asked each by itself (--engine), their fields are printed and
    the sums of those that add up.
    """
    paths = opening.many(args)
    if paths:
        _print_many(args, paths)
        return
    trace = opening.open_trace(args.trace, args.strict, args.columns)
    if args.json:
        emit_json(result.record(trace))
    else:
        emit(result.text(trace))


def _print_many(args: Namespace, paths: Sequence[Path]) -> None:
    from trnprof.ranks import summaries, sums

    found = summaries(paths, opening.where(args))
    total = sums(found)
    if args.json:
        emit_json({"traces": found, "sums": total})
        return
    rows = [("field", "sum", "least", "most")]
    for name, value in total.items():
        each = [row[name] for row in found.values()]
        rows.append((name, f"{value:.6g}", f"{min(each):.6g}", f"{max(each):.6g}"))
    emit(columns(rows, frozenset((1, 2, 3))))
