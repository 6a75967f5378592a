"""Opening a trace for a command: with `--strict`, and with a word on what could not be read."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING

from trnprof.commands.streams import say

if TYPE_CHECKING:
    from sim.trace import Trace


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


def open_trace(path: str, strict: bool, columns: dict[str, str] | None = None) -> Trace:
    """The trace at a path; rows that were set aside are named on stderr."""
    from trnprof import words
    from trnprof.readers import open as read
    from trnprof.readers.receipt import losses

    trace = read(path, strict=strict, columns=columns)
    for loss in losses(trace.receipt):
        say(f"trnprof: {words.plain(path, 80)}: {loss}; set aside")
    return trace
