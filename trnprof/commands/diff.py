from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from trnprof.commands import opening
from trnprof.commands.arguments import natural
from trnprof.commands.streams import columns, emit, emit_json
from trnprof.commands.top import KEYS

if TYPE_CHECKING:
    from sim.trace import Trace
    from trnprof.ranking import Shift


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("before", metavar="A")
    parser.add_argument("after", metavar="B")
    parser.add_argument("--by", choices=KEYS, help="opcode; name for a general timeline")
    parser.add_argument("-n", "--limit", type=natural, default=20, metavar="N", help="groups to print (20)")
    opening.declare_strict(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> None:
    """Print how the rows of two traces differ: by opcode, name, engine, source line, DMA queue or variable.

    count and total are those of A and B, the largest change of the total first; what is the same is left out. Why the
    time changed, `trnprof compare` says.
    """
    from dataclasses import asdict

    from trnprof.ranking import default_key, shifts

    before, after = (opening.open_trace(path, args.strict, args.columns) for path in (args.before, args.after))
    by = args.by or default_key(after)
    found = shifts(before, after, by)
    if args.json:
        emit_json({"by": by, "groups": [{**asdict(shift), "change_ps": shift.change_ps} for shift in found]})
        return
    emit(_text(found[: args.limit], by, before, after) if found else f"no difference by {by}")
    if len(found) > args.limit:
        from trnprof.commands.streams import say

        say(f"{args.limit} of {len(found)} groups differ; -n shows more")


def _text(found: list[Shift], by: str, before: Trace, after: Trace) -> str:
    from trnprof.view import format as words

    rows = [(by, "count", "then", "total", "then", "change")]
    for shift in found:
        was, now = (words.estimate(words.time(ps), trace.meta.is_simulation and ps > 0)
                    for ps, trace in ((shift.total_before_ps, before), (shift.total_after_ps, after)))  # fmt: skip
        name = words.plain(shift.value or "(none)", 60)
        counts = words.count(shift.count_before), words.count(shift.count_after)
        rows.append((name, *counts, was, now, words.delta(shift.change_ps)))
    return columns(rows, frozenset(range(1, 6)))
