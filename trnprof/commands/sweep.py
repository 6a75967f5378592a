from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sim.errors import CapacityError, InputError, UsageError
from trnprof.commands import arguments
from trnprof.commands.streams import columns, emit, emit_json, say

if TYPE_CHECKING:
    from trnprof.sweep import Specification, Swept

SHOWN, BRIEF = 16, 8
"""Lines of the front, and of other lists."""


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("specification", metavar="SPEC.toml", help="what is swept; see docs/sweeps.md")
    help_ = "where points run: processes of this machine (local), or a Dask or Ray cluster"
    parser.add_argument("--engine", choices=("local", "ray", "dask"), default="local", help=help_)
    parser.add_argument("--address", metavar="URL", help="of the cluster: tcp://HOST:8786 (Dask), ray://HOST:10001")
    help_ = "processes of this machine (its processors)"
    parser.add_argument("--jobs", type=arguments.natural, metavar="N", help=help_)
    parser.add_argument("-o", "--output", metavar="DIR", help="for results.parquet and index.html (SPEC-sweep)")
    parser.add_argument("--keep", metavar="DIR", help="where outcomes of points are kept (the user's cache)")
    parser.add_argument("--anew", action="store_true", help="run points again that are kept from an earlier run")
    parser.add_argument("--yes", action="store_true", help="run however many points there are")
    parser.add_argument("--dry-run", action="store_true", help="say how many points there are, and run none")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> int:
    """Run a model or a kernel at every point of a grid: Pareto front, and what bounds it where.

    trnprof sweep SPEC.toml -o results
    trnprof sweep SPEC.toml --engine dask --address tcp://scheduler:8786

    Every point is kept as soon as it has run: a sweep that was stopped goes on where it was. A point that fails is
    recorded with its error. Exit code 1 when all fail.
    """
    from trnprof.sweep import read, sweep

    if args.address and args.engine == "local":
        raise UsageError("--address needs a cluster", remedy="--engine dask or --engine ray")
    asked = read(args.specification)
    if args.dry_run:
        return _told(asked, args)
    _check_size(asked.size, args)
    target = Path(args.output) if args.output else Path(f"{Path(args.specification).stem}-sweep")
    with _progress(args.json) as tell:
        found = sweep(
            asked, args.engine, args.address, jobs=args.jobs or None, anew=args.anew, most=asked.size, progress=tell,
            folder=Path(args.keep) if args.keep else None,
        )  # fmt: skip
    files = _write(found, target)
    if args.json:
        emit_json({**found.to_json(), "files": [str(file) for file in files]})
    else:
        emit(_text(found, files))
    return int(not any(one.fits for one in found.results))


def _check_size(size: int, args: Namespace) -> None:
    from trnprof.sweep.running import MOST
    from trnprof.view import format as words

    if size > MOST and not args.yes:
        text = f"{args.specification}: {words.count(size)} points, more than {words.count(MOST)}"
        raise UsageError(text, remedy="--yes runs them all")


def _told(asked: Specification, args: Namespace) -> int:
    """Only how many there are."""
    from trnprof.view import format as words

    if args.json:
        emit_json({"points": asked.size, "axes": {axis.title: len(axis.values) for axis in asked.axes}})
    else:
        axes = " x ".join(f"{words.count(len(axis.values))} {words.plain(axis.title, 40)}" for axis in asked.axes)
        emit(f"{words.plural(asked.size, 'point')}: {axes}")
    return 0


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int, int, int], None] | None]:
    """A bar on a terminal; elsewhere a line at every tenth."""
    from trnprof.commands.progress import ERASE, drawn

    if quiet:
        yield None
        return
    terminal, tenths = sys.stderr.isatty(), [-1]

    def tell(done: int, total: int, kept: int) -> None:
        from trnprof.view import format as words

        said = f"{words.count(done)} of {words.count(total)} points"
        said += f", {words.count(kept)} of them from an earlier run" if kept else ""
        if terminal:
            sys.stderr.write(f"{ERASE}{drawn(done, total)}  {said}")
            sys.stderr.flush()
        elif 10 * done // total > tenths[0]:
            tenths[0] = 10 * done // total
            say(said)

    try:
        yield tell
    except KeyboardInterrupt:
        say("\nstopped; the same command goes on from here")
        raise
    finally:
        if terminal:
            sys.stderr.write(ERASE)
            sys.stderr.flush()


def _write(found: Swept, folder: Path) -> list[Path]:
    """raises : InputError where the folder cannot be written"""
    from trnprof.report.charts import replace_file
    from trnprof.report.sweeps import to_html
    from trnprof.sweep import table

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise InputError(f"{folder}: {fault.strerror}", remedy="-o DIR names a folder") from None
    page = folder / "index.html"
    replace_file(page, to_html(found).encode(errors="replace"))
    return [table.write(found, folder / "results.parquet"), page]


def _text(found: Swept, files: list[Path]) -> str:
    from trnprof.view import format as words
    from trnprof.view.sweeps import turn_words

    head = f"{words.plain(found.specification.source, 60)}  {words.plural(len(found.results), 'point')}"
    head += f", {words.count(len(found.failed))} without a time" if found.failed else ""
    parts = [head, _front(found)]
    if found.turns:
        lines = [f"  {words.plain(turn_words(turn, found), 160)}" for turn in found.turns[:BRIEF]]
        hidden = len(found.turns) - BRIEF
        parts.append("\n".join(["the bound turns", *lines, *([f"  {hidden} more on the page"] if hidden > 0 else [])]))
    parts += [f"{words.plain(name, 60)} changes no time" for name in found.idle]
    if found.failed:
        parts.append(_failed(found))
    return "\n\n".join([*(part for part in parts if part), "\n".join(map(str, files))])


def _front(found: Swept) -> str:
    """The points that no other beats."""
    from trnprof.view.sweeps import cost_title, row_of

    front = found.front
    if not front:
        return ""
    rows = [("point", "latency", "throughput", cost_title(found), "bound by", "")]
    rows += [row_of(found, one) for one in front[:SHOWN]]
    text = "no other point is as good\n" + columns(rows, frozenset((1, 2, 3)))
    return text + (f"\n{len(front) - SHOWN} more on the page" if len(front) > SHOWN else "")


def _failed(found: Swept) -> str:
    """Every reason once, with how many points it has, the most frequent first; too little HBM is one."""
    from collections import Counter

    from trnprof.view import format as words

    errors = [one.outcome.error for one in found.failed if one.outcome.exit_code != CapacityError.exit_code]
    tight = [one.outcome.error for one in found.failed if one.outcome.exit_code == CapacityError.exit_code]
    counted = Counter(errors).most_common()
    lines = [f"  {words.count(len(tight))} do not fit, such as: {words.plain(tight[0], 200)}"] if tight else []
    lines += [f"  {count} x {words.plain(error, 200)}" for error, count in counted[:BRIEF]]
    hidden = len(counted) - BRIEF
    return "\n".join(["without a time", *lines, *([f"  {hidden} more reasons on the page"] if hidden > 0 else [])])
