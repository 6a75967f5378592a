from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from trnprof.commands.arguments import share
from trnprof.commands.streams import columns, emit, emit_json, say, wrapped

if TYPE_CHECKING:
    from trnprof.compare import Comparison, Part

SHOWN = 8


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("before", metavar="A")
    parser.add_argument("after", metavar="B")
    parser.add_argument("--fail-over", type=share, metavar="3%", help="exit 1 when B takes longer than A by more")
    parser.add_argument("--instructions", action="store_true", help="match every instruction and say how they differ")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> int:
    """Say what changed from trace A to trace B: by cause, engine, region and source line.

    Of a captured profile and an emulation of the same kernel, or with --instructions, instructions are matched too:
    how many, and how their durations, intervals and waits differ.
    """
    from trnprof.commands.opening import open_trace
    from trnprof.compare import compare

    found = compare(open_trace(args.before), open_trace(args.after))
    if args.json:
        emit_json({**found.to_json(), "fail_over": args.fail_over, "failed": _failed(found, args.fail_over)})
    else:
        emit(_text(found, args.instructions))
    if not _failed(found, args.fail_over):
        return 0
    say(f"{args.after} takes {found.change:.1%} longer than {args.before}; {args.fail_over:.1%} is allowed")
    return 1


def _failed(found: Comparison, limit: float | None) -> bool:
    return limit is not None and found.change is not None and found.change > limit


def _text(found: Comparison, instructions: bool) -> str:
    from trnprof.words import WORKING

    one, other = (trace.meta for trace in found.traces)
    laid = instructions or one.is_simulation != other.is_simulation
    paragraphs = [
        _head(found),
        "\n".join(wrapped(warning, "  ! ") for warning in found.warnings),
        _pairs(found, "critical path", _named_causes(found)),
        _pairs(found, f"engine {WORKING}", found.engines),
        _parts(found, "region", list(found.regions), by_path=False),
        _parts(found, "source line", list(found.lines), by_path=True),
        _instructions(found) if laid else "",
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _head(found: Comparison) -> str:
    from trnprof import words

    (one, other), (was, now) = found.traces, found.verdicts
    took = [words.estimate(words.time(ps), trace.meta.is_simulation) for ps, trace in zip(found.time_ps, found.traces)]
    change = "" if found.change is None else f", {words.percent(found.change)}"
    bound = f"{words.bound(was.bound)}, as before" if was.bound == now.bound else (
        f"{words.bound(was.bound)} before, {words.bound(now.bound).lower()} now"
    )  # fmt: skip
    name = words.plain(other.meta.kernel or one.meta.kernel or other.meta.source, 80)
    moved = [words.size(count) for count in found.hbm_bytes]
    memory = f"{moved[0]}, as before" if moved[0] == moved[1] else f"{moved[0]} before, {moved[1]} now"
    return f"{name}  {took[0]} → {took[1]}{change}\n{bound}; HBM moves {memory}"


def _named_causes(found: Comparison) -> dict[str, tuple[int, int]]:
    from trnprof.critical import CAUSE_WORDS

    return {CAUSE_WORDS[name]: pair for name, pair in found.causes.items()}


def _pairs(found: Comparison, title: str, values: dict[str, tuple[int, int]]) -> str:
    from trnprof import words

    rows = [(title, "before", "after", "change")]
    for name, pair in sorted(values.items(), key=lambda item: -abs(item[1][1] - item[1][0])):
        if any(pair):
            rows.append((name, *_times(found, pair), words.delta(pair[1] - pair[0])))
    return columns(rows, frozenset((1, 2, 3))) if len(rows) > 1 else ""


def _times(found: Comparison, pair: tuple[int | None, int | None]) -> list[str]:
    from trnprof import words

    return [
        "–" if ps is None else words.estimate(words.time(ps), trace.meta.is_simulation and ps > 0)
        for ps, trace in zip(pair, found.traces)
    ]


def _parts(found: Comparison, title: str, parts: list[Part], by_path: bool) -> str:
    """Parts with the largest changes; of source lines, of the critical path."""
    from trnprof import words

    def change(part: Part) -> int:
        return part.path_change_ps if by_path else part.change_ps

    changed = sorted((part for part in parts if change(part)), key=lambda part: -abs(change(part)))
    if not changed:
        return ""
    rows = [(title, "", "before", "after", "change", "of all")]
    for part in changed[:SHOWN]:
        sides = (part.before, part.after)
        pair = tuple(None if side is None else side.path_ps if by_path else side.time_ps for side in sides)
        share = change(part) / found.time_ps[0] if found.time_ps[0] else 0.0
        kind = "" if by_path else part.kind
        rows.append(
            (words.plain(part.name, 60), kind, *_times(found, pair), words.delta(change(part)), words.percent(share))
        )
    more = f"\n{words.count(len(changed) - SHOWN)} more changed" if len(changed) > SHOWN else ""
    return columns(rows, frozenset((2, 3, 4, 5))) + more


def _instructions(found: Comparison) -> str:
    from trnprof import words

    laid = found.matching
    head = (
        f"{words.count(len(laid.before))} instructions matched: {words.share(laid.share_before)} of those before, "
        f"{words.share(laid.share_after)} of those after"
    )
    rows = [("instruction", "", "matched", "lasts", "then", "error", "interval", "waits", "then")]
    for each in laid.classes:
        rows.append(
            (
                each.engine,
                words.plain(each.opcode, 40),
                f"{each.matched} of {each.before}/{each.after}",
                words.time(each.duration_before_ps) if each.matched else "",
                words.time(each.duration_after_ps) if each.matched else "",
                words.share(each.duration_error) if each.duration_error is not None else "",
                words.share(each.interval_error) if each.interval_error is not None else "",
                words.time(each.wait_before_ps) if each.matched else "",
                words.time(each.wait_after_ps) if each.matched else "",
            )
        )
    table = columns(rows, frozenset(range(2, 9)))
    return "\n".join([head, table, *(["", _drifts(found)] if laid.drifts else [])])


def _drifts(found: Comparison) -> str:
    from trnprof import words

    rows = [("drifts apart at", "", "change", "instruction", "is")]
    for each in found.matching.drifts[:SHOWN]:
        source = (each.source or "").replace("\\", "/").rpartition("/")[2]
        numbers = str(each.row_before), str(each.row_after)
        rows.append(
            (
                f"{each.engine} {words.plain(each.opcode, 40)}",
                words.plain(source, 50),
                words.delta(each.drift_ps),
                *numbers,
            )
        )
    return columns(rows, frozenset((2, 3, 4)))
