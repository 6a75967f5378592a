from __future__ import annotations

from argparse import ArgumentParser, Namespace

from trnprof.commands import opening


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("traces", nargs="*", metavar="TRACE", help="traces, or folders of some, which are followed")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8050, help="port to listen on (8050)")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def execute(args: Namespace) -> None:
    """Serve the timeline of one or more traces to a browser."""
    from pathlib import Path

    from sim.errors import InputError
    from trnprof.web import serve

    for trace in args.traces:
        if not Path(trace).exists():
            raise InputError(f"{trace}: no such trace")
    opening.prepare(args.traces)
    serve(args.traces, host=args.host, port=args.port, open_browser=args.open)
