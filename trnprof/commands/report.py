from __future__ import annotations

from argparse import ArgumentParser, Namespace

from trnprof.commands import opening
from trnprof.commands.streams import emit


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the report: .html or .md")
    parser.add_argument("--theme", choices=("light", "dark"), help="of the page; it follows the reader when not given")


def execute(args: Namespace) -> None:
    """Write a review of a trace: verdict, roofline, timeline, regions, critical path, advice, assumptions.

    FILE.html is one self-contained page that opens offline and prints; FILE.md has its pictures beside it.
    """
    from trnprof.report.reviews import write
    from trnprof.view import Session

    emit(str(write(Session(opening.open_trace(args.trace)), args.output, args.theme)))
