from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from trnprof.commands import opening
from trnprof.commands.arguments import natural
from trnprof.commands.streams import columns, emit, emit_json, say

if TYPE_CHECKING:
    from sim.trace import Trace

_TEXTS = ("track", "opcode", "name", "function", "operands", "source")


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("pattern", metavar="PATTERN", help="a regular expression; the case does not matter")
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("-n", "--limit", type=natural, default=100, metavar="N", help="rows to print (100)")
    opening.declare_strict(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> int:
    """Print the instructions of which a name, opcode, operand, source, region or engine matches; exit 1 when none does.

    The search is that of the interactive views.
    """
    from sim.errors import InputError
    from trnprof.view.search import search

    trace = opening.open_trace(args.trace, args.strict, args.columns)
    hits = search(trace, args.pattern)
    if hits.error:
        raise InputError(f"{args.pattern}: not a regular expression: {hits.error}")
    rows = hits.rows[: args.limit].tolist()
    if args.json:
        emit_json({"pattern": args.pattern, "matches": hits.count, "rows": [_record(trace, row) for row in rows]})
    elif rows:
        emit(_text(trace, rows))
    if hits.count > len(rows):
        say(f"{len(rows)} of {hits.count} matches; -n shows more")
    return 0 if hits.count else 1


def _record(trace: Trace, row: int) -> dict[str, Any]:
    from sim.trace import ENGINE_NAMES

    table = trace.instructions
    start, end = int(table.start_ps[row]), int(table.end_ps[row])
    return {
        "id": int(table.id[row]),
        "start_ns": start / 1000,
        "duration_ns": (end - start) / 1000,
        "engine": ENGINE_NAMES[int(table.engine[row])],
        **{name: trace.text(table, name, row) for name in _TEXTS},
    }


def _text(trace: Trace, rows: list[int]) -> str:
    from trnprof import words
    from trnprof.view.labels import title

    lines = [("id", "start", "takes", "engine", "instruction", "source")]
    for record, row in zip((_record(trace, row) for row in rows), rows, strict=True):
        start, took = (words.time(round(record[name] * 1000)) for name in ("start_ns", "duration_ns"))
        source = words.plain(record["source"] or "", 60)
        shown = title(trace, trace.instructions, row)
        lines.append(
            (str(record["id"]), start, took, words.plain(record["track"] or record["engine"], 40), shown, source)
        )
    return columns(lines, frozenset((0, 1, 2)))
