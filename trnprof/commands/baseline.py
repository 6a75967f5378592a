from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trnprof.commands.arguments import share
from trnprof.commands.streams import columns, emit, emit_json, say

if TYPE_CHECKING:
    from sim.trace import Trace
    from trnprof.baseline import Change


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("save", "check"))
    parser.add_argument("name", metavar="NAME", help="the file, .json where it has no ending")
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="a trace, or the folder of a script's launches")
    parser.add_argument("--tolerance", type=share, metavar="3%", help="change that is allowed (3%%, or the file's own)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> int:
    """Save what kernels cost in a file to commit, or check traces against it.

    trnprof baseline save perf TRACE…
    trnprof baseline check perf TRACE…

    Latency, bound, HBM bytes, spills and instructions of each kernel; check exits 1 on any change over the tolerance.
    """
    from trnprof import baseline

    traces = [trace for path in args.traces for trace in _opened(path)]
    if args.action == "save":
        tolerance = baseline.TOLERANCE if args.tolerance is None else args.tolerance
        written = str(baseline.save(args.name, traces, tolerance))
        emit_json({"written": written, "kernels": len(traces)}) if args.json else emit(written)
        return 0
    found = baseline.check(args.name, traces, args.tolerance)
    if args.json:
        emit_json({"changed": bool(found), "changes": [change.to_json() for change in found]})
    else:
        emit(_table(found) if found else f"{len(traces)} as in the baseline")
    if found:
        count = len({change.kernel for change in found})
        say(
            f"{count} kernel{'' if count == 1 else 's'} changed; baseline save accepts {'it' if count == 1 else 'them'}"
        )
    return int(bool(found))


def _opened(path: str) -> list[Trace]:
    """The trace at a path, or those of all launches in a folder."""
    from sim.tracefile import INDEX
    from trnprof.commands.opening import open_trace

    launches = sorted(found.parent for found in Path(path).glob(f"*/{INDEX}"))
    return [open_trace(launch) for launch in launches or [path]]


def _table(changes: list[Change]) -> str:
    from trnprof import words

    rows = [("kernel", "", "before", "after", "change")]
    for each in changes:
        change = "" if each.change is None else words.percent(each.change)
        values = zip((each.before, each.after), each.estimated, strict=True)
        shown = (_shown(each.field, value, estimated) for value, estimated in values)
        rows.append((words.plain(each.kernel, 60), each.field, *shown, change))
    return columns(rows, frozenset((2, 3, 4)))


def _shown(field: str, value: Any, estimated: bool) -> str:
    from trnprof import words

    if value is None:
        return "–"
    if field == "latency_ns":
        return words.estimate(words.time(value * 1000), estimated)
    return words.size(value) if field.endswith("_bytes") else str(value)
