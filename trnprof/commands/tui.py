from __future__ import annotations

from argparse import ArgumentParser, Namespace


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace, or a folder of some, which is listed and followed")
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    parser.add_argument("--ascii", action="store_true", help="draw with ASCII alone")
    parser.add_argument(
        "--colour",
        choices=("engine", "bound", "wait", "path", "opcode", "operator", "line", "dma"),
        default="engine",
        help="what colours mean",
    )
    parser.add_argument(
        "--depth", choices=("auto", "truecolor", "256", "16", "none"), default="auto", help="colours of the terminal"
    )


def execute(args: Namespace) -> int:
    """Open the timeline of a trace in the terminal."""
    from trnprof.tui import run

    return run(args.trace, mouse=not args.no_mouse, ascii=args.ascii, colour=args.colour, depth=args.depth)
