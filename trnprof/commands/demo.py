from __future__ import annotations

from argparse import ArgumentParser, Namespace


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("--no-web", action="store_true", help="end after printing")


def execute(args: Namespace) -> None:
    """Emulate the sample kernel, print the verdict, and show its timeline in the browser."""
