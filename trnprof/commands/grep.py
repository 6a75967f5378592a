from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trnprof.commands import opening
from trnprof.commands.arguments import natural
from trnprof.commands.streams import columns, emit, emit_json, say

if TYPE_CHECKING:
    from pathlib import Path

    from sim.trace import Trace


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("pattern", metavar="PATTERN", help="a regular expression; the case does not matter")
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("-n", "--limit", type=natural, default=100, metavar="N", help="rows to print (100)")
    opening.declare_strict(parser)
    opening.declare_many(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> int:
    """Print the instructions of which a name, opcode, operand, source, region or engine matches; exit 1 when none does.

    The search is that of the interactive views. Traces of a folder may be searched each by itself (--engine).
    """
    from trnprof.ranks import look, record

    paths = opening.many(args)
    if paths:
        return _of_many(args, paths)
    trace = opening.open_trace(args.trace, args.strict, args.columns)
    hits = look(trace, args.pattern)
    rows = hits.rows[: args.limit].tolist()
    if args.json:
        emit_json({"pattern": args.pattern, "matches": hits.count, "rows": [record(trace, row) for row in rows]})
    elif rows:
        emit(_text(trace, rows))
    if hits.count > len(rows):
        say(f"{len(rows)} of {hits.count} matches; -n shows more")
    return 0 if hits.count else 1


def _of_many(args: Namespace, paths: Sequence[Path]) -> int:
    from trnprof.ranks import search

    found = search(paths, args.pattern, args.limit, opening.where(args))
    count = sum(part.count for part in found)
    records = [{"trace": part.trace, **each} for part in found for each in part.records][: args.limit]
    if args.json:
        traces = {part.trace: part.count for part in found}
        emit_json({"pattern": args.pattern, "matches": count, "traces": traces, "rows": records})
    elif records:
        emit(_lines(records))
    if count > len(records):
        say(f"{len(records)} of {count} matches; -n shows more")
    return 0 if count else 1


def _lines(records: Sequence[Mapping[str, Any]]) -> str:
    from trnprof import words

    lines = [("trace", "id", "start", "takes", "engine", "instruction", "source")]
    for each in records:
        start, took = (words.time(round(each[name] * 1000)) for name in ("start_ns", "duration_ns"))
        texts = (each["track"] or each["engine"], each["opcode"] or each["name"] or "", each["source"] or "")
        shown = (words.plain(text, 40) for text in texts)
        lines.append((words.plain(each["trace"], 40), str(each["id"]), start, took, *shown))
    return columns(lines, frozenset((1, 2, 3)))


def _text(trace: Trace, rows: list[int]) -> str:
    from trnprof import words
    from trnprof.ranks import record as recorded
    from trnprof.view.labels import title

    lines = [("id", "start", "takes", "engine", "instruction", "source")]
    for record, row in zip((recorded(trace, row) for row in rows), rows, strict=True):
        start, took = (words.time(round(record[name] * 1000)) for name in ("start_ns", "duration_ns"))
        source = words.plain(record["source"] or "", 60)
        shown = title(trace, trace.instructions, row)
        lines.append(
            (str(record["id"]), start, took, words.plain(record["track"] or record["engine"], 40), shown, source)
        )
    return columns(lines, frozenset((0, 1, 2)))
