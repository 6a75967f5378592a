"""The command line: one parser, one place where errors become exit codes.

0 fine · 1 the input is at fault, or a check failed · 2 usage · 3 not supported · 4 over capacity · 130 interrupted
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from textwrap import dedent
from types import ModuleType
from typing import NoReturn

from sim.errors import TrnprofError, UsageError
from trnprof import __doc__ as purpose
from trnprof import __version__
from trnprof.commands import COMMANDS
from trnprof.commands.streams import say

INTERRUPTED = 130
CLOSED_PIPE = 141
"""What a shell reports for a program that SIGPIPE ended: 128 + 13."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line, as every other error is said."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, remedy=f"see {self.prog} --help")


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="trnprof", description=purpose, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"trnprof {__version__}")
    declare_traceback(parser, default=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    for name, module in COMMANDS.items():
        _declare_command(commands, name, module)
    return parser


def _declare_command(commands: argparse._SubParsersAction, name: str, module: ModuleType) -> None:
    text = dedent("    " + module.execute.__doc__).strip()
    command = commands.add_parser(
        name,
        help=text.partition("\n")[0].rstrip("."),
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.declare(command)
    declare_traceback(command)
    command.set_defaults(execute=module.execute, command=name)


def declare_traceback(parser: argparse.ArgumentParser, default: bool | str = argparse.SUPPRESS) -> None:
    parser.add_argument("--traceback", action="store_true", default=default, help="show where an error comes from")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    argv = sys.argv[1:] if argv is None else list(argv)
    _open_streams()
    try:
        args = build_parser().parse_args(argv)
        code = args.execute(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit; that must not fail a second time.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if "--traceback" in argv or os.environ.get("TRNPROF_TRACEBACK", "0") not in ("", "0"):
            raise
        say(f"trnprof: {_one_line(error)}")
        return error.exit_code if isinstance(error, TrnprofError) else TrnprofError.exit_code
    return code or 0


def _open_streams() -> None:
    """Streams that were closed take words and lose them; a terminal that lacks µ gets a question mark, not an error."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        getattr(sys, name).reconfigure(errors="replace")


def _one_line(error: Exception) -> str:
    if isinstance(error, TrnprofError):
        text = str(error)
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif isinstance(error, MemoryError):
        text = "out of memory"
    else:
        text = f"{type(error).__name__}: {error} (a fault of trnprof's own; --traceback shows where)"
    from trnprof.words import plain

    return plain(" ".join(text.split()))
