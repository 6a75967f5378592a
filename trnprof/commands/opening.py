"""Opening a trace for a command: with `--strict`, and with a word on what could not be read."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from trnprof.commands.arguments import natural
from trnprof.commands.streams import say

if TYPE_CHECKING:
    from pathlib import Path

    from sim.trace import Trace
    from trnprof.ranks import Where


def declare_strict(parser: ArgumentParser) -> None:
    parser.add_argument("--strict", action="store_true", help="refuse a file of which any row cannot be shown")
    parser.add_argument(
        "--columns",
        type=_columns,
        metavar="FIELD=COLUMN,…",
        help="of a CSV file, which column is what: name=Op,start_us=ts,duration_us=dur,track=stream",
    )


def _columns(text: str) -> dict[str, str]:
    from trnprof.readers.csvfile import parse_columns

    return parse_columns(text)


def declare_many(parser: ArgumentParser) -> None:
    parser.add_argument("--engine", choices=("local", "dask", "ray"),
                        help="ask the traces of a folder one by one: processes here, or a cluster")  # fmt: skip
    parser.add_argument("--address", help="of the cluster: tcp://host:8786, ray://host:10001")
    parser.add_argument("--workers", type=natural, metavar="N", help="processes of this machine (its processors)")


def many(args: Namespace) -> tuple[Path, ...]:
    """The traces that are asked each by itself: where an engine is named, or a folder has some that are not one."""
    from pathlib import Path

    asked = bool(args.engine or args.workers)
    if not (asked or Path(args.trace).is_dir()):
        return ()
    from trnprof.ranks import separate, traces

    return traces(args.trace) if asked else separate(args.trace)


def where(args: Namespace) -> Where:
    """Who does the work, with its progress on stderr."""
    import sys

    from trnprof.ranks import Where

    def tell(done: int, total: int | None) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done} of {total} traces" if done != total else "\r\x1b[K")
            sys.stderr.flush()

    return Where(args.engine or "local", args.address, args.workers, tell)


def open_trace(path: str | Path, strict: bool = False, columns: dict[str, str] | None = None) -> Trace:
    """The trace at a path; how far it is, and rows that were set aside, are told on stderr."""
    from trnprof import words
    from trnprof.commands import progress
    from trnprof.readers import open as read
    from trnprof.readers.receipt import losses

    with progress.shown(quiet=False):
        trace = read(path, strict=strict, columns=columns)
    for loss in losses(trace.receipt):
        say(f"trnprof: {words.plain(str(path), 80)}: {loss}; set aside")
    return trace


def prepare(paths: list[str]) -> None:
    """Make what large traces are opened from, where it is not there yet, so that it is told how far it is."""
    from sim.errors import TrnprofError
    from trnprof.commands import progress
    from trnprof.readers import prepare as make

    with progress.shown(quiet=False):
        for path in paths:
            try:
                make(path)
            except TrnprofError:
                continue  # whoever opens it says so
