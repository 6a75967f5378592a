from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from trnprof.commands.streams import emit, emit_json, wrapped

if TYPE_CHECKING:
    from sim.trace import Trace
    from trnprof.advice import Advice

IDS_SHOWN = 6


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> None:
    """Say what to change in a kernel so that it runs faster.

    Each piece of advice has its symptom, its evidence, the time that the change would save alone, and the fix in terms
    of NKI; the largest gain first. Nothing is said where nothing is wrong.
    """
    from trnprof.advice import advise
    from trnprof.commands.opening import open_trace

    trace = open_trace(args.trace)
    found = advise(trace)
    if args.json:
        emit_json([advice.to_json() for advice in found])
    else:
        emit(_text(trace, found))


def _text(trace: Trace, found: list[Advice]) -> str:
    from trnprof import words
    from trnprof.regions import window

    start, end = window(trace)
    took = words.estimate(words.time(end - start), trace.meta.is_simulation)
    title = f"{words.plain(trace.meta.kernel or trace.meta.source, 80)}, {took}"
    if not found:
        return f"{title}: no rule has a complaint"
    head = f"{title}; gains are estimates of one change alone and do not add up"
    return "\n\n".join([wrapped(head, ""), *(_one(number, advice) for number, advice in enumerate(found, start=1))])


def _one(number: int, advice: Advice) -> str:
    from trnprof.view import format as words

    gain = f"saves {words.estimate(words.time(advice.gain_ps), advice.estimated)}, {words.share(advice.share)}"
    source = f", {words.place(advice.source)}" if advice.source else ""
    shown = ", ".join(advice.names[:IDS_SHOWN])
    more = advice.count - min(advice.count, IDS_SHOWN)
    ids = f"{shown}{f' and {words.count(more)} more' if more else ''}"
    lines = [
        wrapped(f"{advice.title}: {gain}", f"{number}. "),
        wrapped(f"{advice.symptom}.", "   "),
        wrapped(f"{advice.how}." if advice.how else "", "   "),
        *(wrapped(sentence, "   · ") for sentence in advice.evidence),
        wrapped(f"instructions {ids}" if ids else "", "   · "),
        wrapped(f"Fix: {advice.fix}.", "   "),
        wrapped(f"Try: trnprof what-if TRACE {' '.join(f'--set {n}={v}' for n, v in advice.what_if)}", "   ")
        if advice.what_if
        else "",
        wrapped(f"({advice.rule}{source}{f'; {advice.reference}' if advice.reference else ''})", "   "),
    ]
    return "\n".join(line for line in lines if line.strip())
