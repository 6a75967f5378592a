from __future__ import annotations

from argparse import ArgumentParser, Namespace

from trnprof.commands import opening
from trnprof.commands.arguments import natural
from trnprof.commands.streams import columns, emit, emit_json, say

KEYS = ("name", "opcode", "engine", "track", "source", "function", "group", "queue", "variable")


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("--by", choices=KEYS, help="opcode; name for a general timeline")
    parser.add_argument("-n", "--limit", type=natural, default=20, metavar="N", help="groups to print (20)")
    opening.declare_strict(parser)
    opening.declare_many(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> None:
    """Print what takes the most time: by opcode, name, engine, source line, DMA queue or variable.

    total is the sum of durations, busy the time in which at least one of them runs, share that of the kernel's time.
    Of traces that are asked each by itself (--engine), times are sums, and share is of all their time.
    """
    from dataclasses import asdict

    from trnprof import words
    from trnprof.ranking import default_key, rank

    paths = opening.many(args)
    if paths:
        from trnprof.ranks import top

        (by, ranks), estimated = top(paths, args.by, args.limit, opening.where(args)), False
    else:
        trace = opening.open_trace(args.trace, args.strict, args.columns)
        by = args.by or default_key(trace)
        ranks, estimated = rank(trace, by, args.limit), trace.meta.is_simulation
        if trace.condensed:
            say("some rows stand for several instructions: of those, total is the time in which any of them runs")
    if args.json:
        emit_json({"by": by, "groups": [asdict(group) for group in ranks]})
        return
    rows = [(by, "count", "total", "busy", "share", "longest")]
    for group in ranks:
        times = (words.estimate(words.time(ps), estimated) for ps in (group.total_ps, group.busy_ps, group.longest_ps))
        total, busy, longest = times
        name = words.plain(group.value or "(none)", 60)
        rows.append((name, words.count(group.count), total, busy, words.share(group.share), longest))
    emit(columns(rows, frozenset(range(1, 6))))
