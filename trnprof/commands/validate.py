from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trnprof.commands.arguments import natural
from trnprof.commands.streams import columns, emit, emit_json, say, wrapped

if TYPE_CHECKING:
    from trnprof.validation import Report
    from trnprof.validation.coverage import Coverage
    from trnprof.validation.score import Comparison, Total

IDS_SHOWN = 4
SAMPLES = 20


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("folders", nargs="*", metavar="FOLDER", type=Path, help="checkouts of public repositories")
    parser.add_argument("--profiles", metavar="DIR", type=Path, help="captured profiles to replay row by row")
    parser.add_argument("--only", metavar="REGEX", default="", help="records whose id matches, and nothing else")
    parser.add_argument(
        "--error-bars",
        nargs="?",
        type=natural,
        const=SAMPLES,
        default=0,
        metavar="N",
        help=f"intervals from N ({SAMPLES}) machines",
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write all: .json, or .html with a plot")
    parser.add_argument("--accept", action="store_true", help="keep today's errors as those that tests allow")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> None:
    """Compare our estimates with published measurements, and say how far off they are.

    Without FOLDER only kernels of our own run; without --profiles the kept medians of captured instructions are used.
    """
    from trnprof.validation import golden, validate

    _check(args)
    report = validate(args.folders, args.profiles, args.only, args.error_bars, say)
    if args.accept:
        golden.accept(report)
    if args.output:
        _write(report, args.output)
    if args.json:
        emit_json(report.to_json())
    else:
        emit("\n\n".join(_parts(report)))


def _check(args: Namespace) -> None:
    from sim.errors import InputError, UsageError

    if args.output and args.output.suffix not in (".json", ".html"):
        raise UsageError(f"{args.output}: a report is written as .json or .html")
    if args.accept and (args.folders or args.profiles or args.only):
        raise UsageError("--accept keeps the errors of what every checkout has: give no FOLDER, --profiles or --only")
    for folder in (*args.folders, *([args.profiles] if args.profiles else [])):
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder")


def _write(report: Report, target: Path) -> None:
    import json

    from trnprof.report.charts import replace_file
    from trnprof.report.scatter import to_html

    if target.suffix == ".html":
        text = to_html(report)
    else:
        text = json.dumps(report.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    replace_file(target, text.encode())


def _parts(report: Report) -> Iterator[str]:
    from trnprof.validation import LEVELS

    for level in ("kernel", "our kernel"):
        rows = report.of(level)
        if rows:
            head = ("", "measured", "estimate", "error", "interval")
            yield f"{LEVELS[level]}\n" + columns([head, *map(_kernel, rows)], frozenset((1, 2, 3, 4)))
    if report.of("bound"):
        yield f"{LEVELS['bound']}\n" + _bounds(report.of("bound"))
    captured = [*report.of("instruction"), *report.of("interval")]
    if captured:
        yield "captured instructions\n" + _classes(captured)
    if report.of("packet"):
        yield "DMA packets, ns\n" + _packets(report)
    head = ("", "compared", "MAPE", "bias", "within 10 %", "worst", "", "in interval")
    lines = [_total(result) for _, result in report.totals()]
    yield "totals\n" + columns([head, *lines], frozenset((1, 2, 3, 4, 5, 7)))
    if report.coverage is not None:
        yield _coverage(report.coverage)
    pairs = report.agreement()
    if pairs.pairs:
        turned = "".join(f"\n{wrapped(text, '  · ')}" for text in pairs.disagreed)
        yield f"faster of two variants: right for {pairs.agreed} of {pairs.pairs} pairs that differ by 5 %{turned}"
    if report.skipped:
        yield _skipped(report)


def _kernel(row: Comparison) -> tuple[str, ...]:
    from trnprof import words

    inside = "" if row.low is None else f"{words.time(row.low * 1e3)}–{words.time(row.high * 1e3)}"
    return row.id, words.time(row.measured * 1e3), f"~{words.time(row.estimate * 1e3)}", _signed(row.error), inside


def _coverage(found: Coverage) -> str:
    """How often intervals hold, and what they are made from."""
    head = (
        f"intervals that claim {found.claimed:.0%}: {found.published:.0%} of {found.measurements} measurements are "
        f"inside as shown, {found.left_out:.0%} where each kernel's is made from the others alone"
    )
    outside = wrapped(f"outside then: {', '.join(found.outside)}", "  · ") if found.outside else ""
    spreads = [
        (f"model, {each.generation} API", f"{each.found:.1%}", f"{each.published:.1%}", f"{each.kernels}",
         f"{each.least:.1%} to {each.most:.1%} with one left out")
        for each in found.spreads
    ]  # fmt: skip
    odds = [
        (f"{each.decision} otherwise", f"{each.found:.0%}", "" if each.published is None else f"{each.published:.0%}",
         str(each.kernels), "")
        for each in found.odds
    ]  # fmt: skip
    table = columns([("", "found", "in use", "kernels", ""), *spreads, *odds], frozenset((1, 2, 3)))
    return "\n".join(part for part in (wrapped(head, ""), outside, table) if part)


def _bounds(rows: list[Comparison]) -> str:
    """What we claim and what was measured."""
    from trnprof.validation.kernels import MEASURED

    lines = [(row.id, *row.note.split(MEASURED), "" if row.estimate else "wrong") for row in rows]
    return columns([("", "ours", "measured", ""), *lines])


def _classes(rows: list[Comparison]) -> str:
    """A line for each device, opcode and level."""
    from trnprof.validation.score import total

    groups: dict[tuple[str, str, str], list[Comparison]] = {}
    for row in rows:
        groups.setdefault((row.device, row.quantity, row.level), []).append(row)
    lines = []
    for key, members in sorted(groups.items()):
        found = total("", members)
        errors = (f"{found.mape:.1%}", _signed(found.bias), _signed(found.worst_error))
        lines.append((*key, str(found.measurements), *errors))
    head = ("device", "opcode", "", "count", "MAPE", "bias", "worst")
    return columns([head, *lines], frozenset((3, 4, 5, 6)))


def _packets(report: Report) -> str:
    """Sizes that occur in several profiles on one line, weighed by their counts."""
    groups: dict[str, list[tuple[Comparison, Comparison]]] = {}
    for floor, charge in zip(report.of("packet floor"), report.of("packet"), strict=True):
        groups.setdefault(charge.id, []).append((floor, charge))
    lines = []
    for id, pairs in sorted(groups.items()):
        weight = sum(floor.count for floor, _ in pairs)
        fast, middle = (sum(row.count * row.measured for row in rows) / weight for rows in zip(*pairs))
        floor, charge = pairs[0]
        figures = (
            f"{fast:.0f}",
            f"{floor.estimate:.0f}",
            f"{middle:.0f}",
            f"{middle / fast:.2f}",
            f"{charge.estimate:.0f}",
        )
        lines.append((id, str(weight), *figures))
    head = ("", "count", "fastest tenth", "our floor", "median", "contention", "charged")
    return columns([head, *lines], frozenset(range(1, 7)))


def _total(result: Total) -> tuple[str, ...]:
    covered = "" if result.covered is None else f"{result.covered:.0%}"
    worst = (_signed(result.worst_error), result.worst) if result.worst_error else ("0", "")
    means = (f"{result.mape:.1%}", _signed(result.bias), f"{result.within_10:.0%}")
    return result.name, str(result.measurements), *means, *worst, covered


def _signed(error: float | None) -> str:
    return "n/a" if error is None else f"{error:+.1%}"


def _skipped(report: Report) -> str:
    reasons: dict[str, list[str]] = {}
    for each in report.skipped:
        reasons.setdefault(each.reason, []).append(each.id)
    lines = []
    for reason, ids in reasons.items():
        more = f" and {len(ids) - IDS_SHOWN} more" if len(ids) > IDS_SHOWN else ""
        lines.append(wrapped(f"{reason}: {', '.join(ids[:IDS_SHOWN])}{more}", "  · "))
    return f"not compared ({len(report.skipped)})\n" + "\n".join(lines)
