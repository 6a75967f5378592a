from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, Any

from trnprof.commands import opening
from trnprof.commands.arguments import natural
from trnprof.commands.streams import emit, say

if TYPE_CHECKING:
    from pathlib import Path

    from sim.trace import Trace


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("-n", "--count", type=natural, default=0, metavar="N", help="end after N profiles")
    parser.add_argument("--settle", type=_seconds, default=1.0, metavar="S",
                        help="seconds that a profile must not have changed for (1)")  # fmt: skip
    opening.declare_strict(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")


def execute(args: Namespace) -> None:
    """Say of every profile that is written below a folder what it is and what bounds it, once it is whole.

    Those that are there already come first. Ctrl+C ends.
    `trnprof web DIR` and `trnprof tui DIR` show them as they come.
    """
    import json
    import time

    from sim.errors import InputError
    from trnprof.watch import Watch

    watch, told = Watch(args.folder, args.settle), 0
    while True:
        for path in watch.poll():
            try:
                trace = opening.open_trace(str(path), args.strict)
            except InputError as fault:
                say(f"trnprof: {fault}")
                continue
            record = _record(path, trace)
            emit(json.dumps(record, ensure_ascii=False) if args.json else _text(record))
            told += 1
            if told == args.count:
                return
        time.sleep(min(0.5, max(args.settle / 4, 0.01)))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 3600:
        raise ArgumentTypeError(f"{text} is not a number of seconds")
    return value


def _record(path: Path, trace: Trace) -> dict[str, Any]:
    from trnprof.bounds import classify

    meta, whole = trace.meta, classify(trace)[0]
    return {
        "path": str(path),
        "kernel": meta.kernel,
        "device": meta.device,
        "is_simulation": meta.is_simulation,
        "instructions": len(trace.instructions),
        "time_ns": (meta.window[1] - meta.window[0]) / 1000,
        "bound": whole.bound,
        "quarantined": meta.quarantined,
    }


def _text(record: dict[str, Any]) -> str:
    from trnprof.view import format as words

    took = words.estimate(words.time(round(record["time_ns"] * 1000)), record["is_simulation"])
    name = words.plain(record["kernel"], 40)
    bound = words.bound(record["bound"])
    return "  ".join(part for part in (words.plain(record["path"], 200), name, took, bound) if part)
