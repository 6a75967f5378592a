from __future__ import annotations

from argparse import ArgumentParser, Namespace
from itertools import groupby
from typing import TYPE_CHECKING

from sim.errors import UnsupportedError
from trnprof.commands.streams import columns, emit, emit_json

if TYPE_CHECKING:
    from sim.trace import Trace
    from trnprof.circuits import Circuit, Station
    from trnprof.critical import CriticalPath

LINES_SHOWN = 8
STATIONS_SHOWN = 12


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("--json", action="store_true", help="print JSON, with every segment and every slack")


def execute(args: Namespace) -> None:
    """Say what the end of a trace hung on: the critical path by cause, by source line, and round its loops.

    The causes add up to the kernel window: engines at work, issue, semaphores, DMA latency and bandwidth, reuse of
    buffers, loads of activation tables, collectives; unknown is what a captured profile does not tell.
    """
    from trnprof.commands.opening import open_trace
    from trnprof.critical import critical_path

    trace = open_trace(args.trace)
    if trace.condensed:
        raise UnsupportedError(
            f"{args.trace}: rows stand for several instructions, which leaves no chain of causes from one to the next",
            remedy="keep all instructions (trnprof model … --full -o DIR), or ask of one operator's kernel",
        )
    path = critical_path(trace)
    if args.json:
        emit_json({**path.to_json(), "slack_ps": path.slack_ps.tolist()})
    else:
        emit(_text(trace, path))


def _text(trace: Trace, path: CriticalPath) -> str:
    from trnprof import words

    name = words.plain(path.kernel or trace.meta.source, 80)
    if not path.time_ps:
        return f"{name}: the trace has no kernel window, so nothing can be said of a critical path"
    rows, every = path.rows.size, len(trace.instructions)
    head = (
        f"{name}  {words.plain(trace.meta.device, 40)}, {'emulated' if path.estimated else 'captured'}\n"
        f"{_time(path, path.time_ps)} from the first issue to the last completion, through {words.count(rows)} of "
        f"{words.count(every)} instructions"
    )
    loops = [_circuit(path, circuit) for circuit in path.circuits]
    paragraphs = [head, _causes(path), _lines(path), *loops, _slack(trace, path)]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _time(path: CriticalPath, ps: float) -> str:
    from trnprof import words

    return words.estimate(words.time(ps), path.estimated and ps > 0)


def _causes(path: CriticalPath) -> str:
    from trnprof import words
    from trnprof.critical import CAUSE_WORDS

    rows = [("critical path", "time", "share", "")]
    for name, ps in sorted(path.causes.items(), key=lambda item: -item[1]):
        if ps:
            parts = [f"{engine} {_time(path, part)}" for engine, part in path.engines.items()]
            note = ", ".join(parts) if name == "engine" else ""
            rows.append((CAUSE_WORDS[name], _time(path, ps), words.share(path.share(name)), note))
    return columns(rows, frozenset((1, 2)))


def _lines(path: CriticalPath) -> str:
    from trnprof import words
    from trnprof.critical import CAUSE_WORDS

    if not path.lines:
        return ""
    rows = [("source line", "time", "share", "mostly")]
    rows += [
        (_place(line.source), _time(path, line.time_ps), words.share(line.share), CAUSE_WORDS[line.cause])
        for line in path.lines[:LINES_SHOWN]
    ]
    return columns(rows, frozenset((1, 2)))


def _circuit(path: CriticalPath, circuit: Circuit) -> str:
    """The circuit's period and stations, neighbours of one kind together."""
    from trnprof import words

    moved = f", each {words.digits(circuit.iterations)} iterations on" if circuit.iterations not in (None, 1) else ""
    total = "" if circuit.even else f" (median), {_time(path, circuit.time_ps)} in all"
    head = (
        f"circuit in {words.plain(circuit.name, 80)}: {words.count(circuit.rounds)} rounds of "
        f"{_time(path, circuit.period_ps)}{moved}{total}, {words.share(circuit.share)} of the path"
    )
    groups = [list(group) for _, group in groupby(circuit.stations, _kind)]
    rows = [
        (
            stations[0].engine,
            stations[0].opcode + (f" ×{len(stations)}" if len(stations) > 1 else ""),
            _place(stations[0].source or ""),
            _time(path, sum(station.time_ps for station in stations)),
        )
        for stations in groups[:STATIONS_SHOWN]
    ]
    more = f"\n  {len(groups) - STATIONS_SHOWN} more in --json" if len(groups) > STATIONS_SHOWN else ""
    return f"{head}\n{columns(rows, frozenset((3,)), indent='  ')}{more}"


def _kind(station: Station) -> tuple[str, str, str | None]:
    return station.engine, station.opcode, station.source


def _place(source: str) -> str:
    from trnprof import words

    return words.plain(source.replace("\\", "/").rpartition("/")[2], 60)


def _slack(trace: Trace, path: CriticalPath) -> str:
    import numpy as np

    from trnprof import words

    slack = path.slack_ps[~trace.instructions.control]
    none = int(np.count_nonzero(slack == 0))
    rest = slack[slack > 0]
    if not rest.size:
        return f"slack: none of {words.count(slack.size)} instructions has any"
    return (
        f"slack: none for {words.count(none)} of {words.count(slack.size)} instructions; half of the others could "
        f"end {_time(path, float(np.median(rest)))} later or more"
    )
