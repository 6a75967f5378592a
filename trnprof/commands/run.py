from __future__ import annotations

import re
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.errors import InputError, TrnprofError, UsageError
from sim.figures import SAMPLES
from sim.passes import PASSES, given
from trnprof.arguments import bind, find_kernel, parse
from trnprof.commands import arguments, result
from trnprof.commands.progress import shown
from trnprof.commands.streams import columns, emit, emit_json, say

if TYPE_CHECKING:
    from sim import Run

LAUNCHES_SHOWN = 20


def declare(parser: ArgumentParser) -> None:
    _declare_options(parser)
    parser.add_argument("target", metavar="FILE.py::KERNEL | SCRIPT.py", help="a kernel, or a script that calls some")
    parser.add_argument("rest", nargs=REMAINDER, metavar="ARGS", help="the script's own arguments")


def _declare_options(parser: ArgumentParser) -> None:
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=SPEC", help=arguments.HELP)
    help_ = "trn1, inf2, trn2 or trn3 (what NEURON_PLATFORM_TARGET_OVERRIDE says, else trn2)"
    parser.add_argument("--device", metavar="D", help=help_)
    parser.add_argument("--lnc", type=int, choices=(1, 2), default=1, help="physical cores of one logical core (1)")
    parser.add_argument("--no-values", action="store_true", help="shapes and times only; reads and computes no data")
    parser.add_argument(
        "--seed", type=arguments.natural, default=0, metavar="N", help="of generated tensors and of the RNG (0)"
    )
    parser.add_argument(
        "--error-bars",
        nargs="?",
        type=arguments.natural,
        const=SAMPLES,
        default=0,
        metavar="N",
        help=f"intervals from N machines drawn within the spreads of the figures ({SAMPLES})",
    )
    parser.add_argument(
        "--pass",
        dest="passes",
        action="append",
        default=[],
        metavar="NAME=on|off",
        help="switch a compiler pass: " + "; ".join(f"{name}: {what}" for name, what in PASSES.items()),
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="write the trace there; for a script, a folder a launch")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> int:
    """Emulate one kernel, or every kernel that a script launches, unmodified.

    trnprof run FILE.py::KERNEL --arg 'x=bf16[128,512]' --arg scale=0.5
    trnprof run SCRIPT.py ARGS…
    """
    if "::" in args.target:
        args = _reparsed(args)
    if args.device is None:
        import sim

        args.device = sim.target_device("trn2")
    with shown(args.json):
        return _run_kernel(args) if "::" in args.target else _run_script(args)


def _reparsed(args: Namespace) -> Namespace:
    """Read what follows a kernel as options of this command; behind a script it belongs to the script."""
    from trnprof.cli import Parser, declare_traceback

    options = Parser(prog="trnprof run", usage="trnprof run FILE.py::KERNEL [options]", allow_abbrev=False)
    _declare_options(options)
    declare_traceback(options)
    return options.parse_args(args.rest, args)


def _run_kernel(args: Namespace) -> int:
    """Exit code: 1 when the kernel is wrong, although it has run."""
    import sim

    values = not args.no_values
    named = parse(args.arg, args.seed, values)
    with redirect_stdout(sys.stderr) if args.json else nullcontext():
        kernel = find_kernel(args.target, args.device)
        inputs, scalars = bind(kernel, named)
        rest = {"values": values, "seed": args.seed, "passes": _passes(args)}
        run = sim.run(kernel, *inputs, device=args.device, lnc=args.lnc, **rest, **scalars)
    run = _with_error_bars(run, args.error_bars)
    if args.output:
        _keep(run, Path(args.output))
    if args.json:
        emit_json({**result.record(run.trace), "trace": args.output})
        return _judged(run)
    emit(result.text(run.trace, kept=args.output))
    if not args.output:
        say("the trace was not kept; -o DIR keeps it for trnprof web and tui")
    return _judged(run)


def _with_error_bars(run: Run, samples: int) -> Run:
    """The launch with the error bars of its trace, where any are asked for."""
    if not samples:
        return run
    from trnprof.spread import with_error_bars

    return replace(run, trace=with_error_bars(run.trace, samples))


def _passes(args: Namespace) -> dict[str, bool | int]:
    """raises: UsageError that lists the passes"""
    try:
        return dict(map(given, args.passes))
    except InputError as error:
        raise UsageError(error.message, remedy=error.remedy) from None


def _judged(run: Run) -> int:
    """1, with a word on stderr, when something in the kernel is wrong; warnings are not."""
    wrong = [finding for finding in run.findings if not finding.is_warning]
    if wrong:
        from trnprof import words

        kinds = ", ".join(dict.fromkeys(finding.kind for finding in wrong))
        say(f"{words.plain(run.trace.meta.kernel, 40)}: {len(wrong)} found wrong: {kinds}")
    return int(bool(wrong))


def _keep(run: Run, path: Path) -> None:
    from sim import tracefile
    from trnprof.summary import summarize

    tracefile.write(run.trace, path, summary=summarize(run.trace))


class Launches(list):
    """What a script launched: each is written and judged as soon as it has run, and its values are let go."""

    def __init__(self, folder: str | None, samples: int):
        super().__init__()
        self.folder = folder and Path(folder)
        self.samples = samples
        self.code = 0
        """1 once a launch has shown something wrong."""

    def append(self, run: Run) -> None:
        run = _with_error_bars(run, self.samples)
        kernel = run.trace.meta.kernel
        if self.folder and not self:
            _forget(self.folder)
        path = self.folder and self.folder / f"{len(self):04d}-{re.sub(r'[^0-9A-Za-z_.-]', '_', kernel)}"
        if path:
            _keep(run, path)
        self.code |= _judged(run)
        super().append({**result.record(run.trace), "trace": path and str(path)})


def _forget(folder: Path) -> None:
    """Remove the launches that an earlier run of a script left, and nothing else."""
    import shutil

    for old in folder.glob("[0-9][0-9][0-9][0-9]-*"):
        if (old / "trnprof.json").is_file():
            shutil.rmtree(old)


def _run_script(args: Namespace) -> int:
    import sim

    script = Path(args.target)
    if args.arg:
        raise UsageError("--arg needs FILE.py::KERNEL", remedy="a script's own arguments follow its name")
    if args.lnc != 1:
        raise UsageError("--lnc needs FILE.py::KERNEL", remedy="a script says kernel[2]")
    if not script.is_file():
        raise InputError(f"{script}: no such file")
    launches = Launches(args.output, args.error_bars)
    with (
        sim.stand_ins(args.device, values=not args.no_values, seed=args.seed) as setting,
        redirect_stdout(sys.stderr) if args.json else nullcontext(),
        _as_main(script, args.rest),
    ):
        setting.launches, setting.passes = launches, _passes(args)
        code = _exit_code(script, launches)
    if args.json:
        emit_json({"script": str(script), "exit_code": code, "launches": launches})
    else:
        emit(_listing(launches))
    return code or launches.code


@contextmanager
def _as_main(script: Path, rest: list[str]) -> Iterator[None]:
    """`sys.argv` and `sys.path` as `python SCRIPT ARGS…` sets them."""
    argv, path = sys.argv, sys.path
    sys.argv, sys.path = [str(script), *rest], [str(script.resolve().parent), *path]
    try:
        yield
    finally:
        sys.argv, sys.path = argv, path


def _exit_code(script: Path, launches: Launches) -> int:
    """Run the script to its end.

    raises : InputError with the script's line for an exception that it does not catch
    """
    import runpy

    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as stop:
        if isinstance(stop.code, str):
            say(stop.code)
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except TrnprofError:
        say(f"the script stopped after {len(launches)} kernel launches")
        raise
    except Exception as error:
        say(f"the script stopped after {len(launches)} kernel launches")
        raise InputError(f"{type(error).__name__}: {error}", source=_line(error, script)) from error
    return 0


def _line(error: BaseException, script: Path) -> str:
    """`path:line` of the innermost frame in the script's folder."""
    import traceback

    folder = str(script.resolve().parent)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(folder)]
    frames += [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(script)]
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}" if error.filename else str(script)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(script)


def _listing(launches: Launches) -> str:
    """One line a launch, the first of many only."""
    if not launches:
        return "no kernel was launched (FILE.py::KERNEL runs one by name)"
    lines = [_words(launch) for launch in launches[:LAUNCHES_SHOWN]]
    text = columns([("kernel", "latency", "bound by", "trace"), *lines], frozenset((1,)))
    hidden = len(launches) - LAUNCHES_SHOWN
    return f"{text}\n{hidden} more launches: --json lists all" if hidden > 0 else text


def _words(launch: dict[str, Any]) -> tuple[str, str, str, str]:
    from trnprof import words

    verdict = launch["verdicts"][0]
    latency = words.estimate(words.time(launch["latency_ns"] * 1000))
    bound = (
        f"{words.bound(verdict['bound'])}, {words.share(verdict['share'])}" if verdict["bound"] else words.bound(None)
    )
    return words.plain(launch["kernel"], 40), latency, bound, launch["trace"] or "not kept"
