from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from sim.errors import UsageError
from trnprof.commands.streams import columns, emit, emit_json, say, wrapped

if TYPE_CHECKING:
    from sim.trace import Trace
    from trnprof.whatif import WhatIf


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", nargs="?", metavar="TRACE")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting or any figure of the device: a number, a factor (2x), or several with commas for a grid",
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="write the trace of a single what-if there")
    parser.add_argument("--list", action="store_true", help="name the settings; with TRACE also their values")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> None:
    """Emulate the kernel of a trace on a machine with other figures.

    trnprof what-if TRACE --set hbm_bw=2x --set tensor_clock=1.2x
    trnprof what-if TRACE --set hbm_bw=1x,2x,4x --set buffers=unlimited

    Gives the predicted time and the bound that takes over. Captured profiles are timed anew from their rows: coarser.
    """
    from trnprof.commands.opening import open_trace

    trace = open_trace(args.trace) if args.trace else None
    if args.list:
        _list(trace, args.json)
        return
    if trace is None or not args.set:
        raise UsageError("what-if needs TRACE and --set NAME=VALUE", remedy="--list names the settings")
    _run(trace, args)


def _run(trace: Trace, args: Namespace) -> None:
    from trnprof.whatif import choices, grid, what_ifs

    asked = grid(choices(args.set))
    if args.output and len(asked) > 1:
        raise UsageError(f"-o writes one trace, the grid has {len(asked)}", remedy="give each setting one value")
    found = what_ifs(trace, asked)
    if args.output:
        from sim import tracefile
        from trnprof.summary import summarize

        tracefile.write(found[0].trace, args.output, summary=summarize(found[0].trace))
    if args.json:
        emit_json([{**each.to_json(), "trace": args.output} for each in found])
        return
    emit(_one(trace, found[0]) if len(found) == 1 else _table(trace, found))
    if args.output:
        say(f"the trace is in {args.output}: trnprof web {args.trace} {args.output}")


def _list(trace: Trace | None, as_json: bool) -> None:
    from sim.spec import device
    from trnprof.whatif import SETTINGS

    table = device(trace.meta.device).replace(trace.meta.what_if) if trace is not None else None
    values = {
        name: {id: table[id] for id in setting.figures if id in table} if table is not None else {}
        for name, setting in SETTINGS.items()
    }
    if as_json:
        emit_json(
            {
                name: {
                    "figures": list(each.figures),
                    "word": each.word,
                    "meaning": each.meaning,
                    "values": values[name],
                }
                for name, each in SETTINGS.items()
            }
        )
        return
    rows = [("setting", "value", "meaning", "figures" if table is None else "now")]
    for name, each in SETTINGS.items():
        now = ", ".join(f"{value:g} {table.figure(id).unit}" for id, value in values[name].items()) if table else ""
        rows.append((name, each.word or "2x, …", each.meaning, now or ", ".join(each.figures)))
    emit(columns(rows))
    say("any other figure can be set too: trnprof devices NAME --json has their ids")


def _table(trace: Trace, found: list[WhatIf]) -> str:
    from trnprof import words

    names = list(found[0].settings)
    rows = [(*names, "time", "of now", "bound by", "")]
    for each in found:
        took = words.estimate(words.time(each.time_ps))
        by = each.verdict.engine or words.bound_name(each.verdict.bound)
        idle = f"{', '.join(each.idle)}: nothing depends on it" if each.idle else ""
        rows.append((*each.settings.values(), took, _ratio(each), by, idle))
    body = columns(rows, frozenset(range(len(names) + 2)))
    notes = dict.fromkeys(note for each in found for note in each.notes)
    return "\n".join([_head(trace, found[0]), body, *(wrapped(note, "") for note in notes)])


def _ratio(found: WhatIf) -> str:
    from trnprof import words

    return words.share(found.ratio).removesuffix(f"{words.NARROW}!")


def _head(trace: Trace, found: WhatIf) -> str:
    from trnprof import words

    now = words.estimate(words.time(found.before_ps), trace.meta.is_simulation)
    name = words.plain(trace.meta.kernel or trace.meta.source, 80)
    return f"{name}  {words.plain(trace.meta.device, 40)}, now {now}, {words.bound(found.before.bound).lower()}"


def _one(trace: Trace, found: WhatIf) -> str:
    from trnprof import words

    asked = ", ".join(f"{name}={value}" for name, value in found.settings.items())
    verdict, took = found.verdict, words.estimate(words.time(found.time_ps))
    same = "still" if verdict.bound == found.before.bound else "then"
    lead = f"{asked}: {took}, {_ratio(found)} of now; {same} {words.bound(verdict.bound).lower()}"
    if verdict.bound and verdict.runner_up:
        points = words.points(verdict.scores[verdict.bound], verdict.scores[verdict.runner_up])
        by = f" on {verdict.engine}" if verdict.engine else ""
        lead += f"{by}, {words.ahead(points, words.bound(verdict.runner_up).lower())}"
    idle = [wrapped(f"{name}: no time of this kernel depends on it", "  · ") for name in found.idle]
    evidence = [wrapped(item.sentence, "  · ") for item in verdict.evidence if item.bound == verdict.bound]
    notes = [wrapped(note, "  · ") for note in found.notes]
    return "\n".join([_head(trace, found), wrapped(lead, ""), *idle, *evidence, *notes, "", _paths(found)])


def _paths(found: WhatIf) -> str:
    """The critical path's causes before and after."""
    from trnprof import words
    from trnprof.critical import CAUSE_WORDS, critical_path

    before, after = critical_path(found.was), critical_path(found.trace)
    estimated = found.was.meta.is_simulation
    rows = [("critical path", "now", "then", "change")]
    for name, text in CAUSE_WORDS.items():
        was, now = before.causes[name], after.causes[name]
        if was or now:
            rows.append(
                (
                    text,
                    words.estimate(words.time(was), estimated and was > 0),
                    words.estimate(words.time(now), now > 0),
                    words.delta(now - was),
                )
            )
    return columns(rows, frozenset((1, 2, 3)))
