from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from sim.errors import UsageError
from trnprof.commands.streams import columns, emit, emit_json

if TYPE_CHECKING:
    from trnprof.costs import Cost, Rates


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE")
    for option, what, letter in (("--price-per-hour", "price of an hour", "X"), ("--watts", "power drawn", "W")):
        parser.add_argument(
            option, action="append", default=[], metavar=f"[MACHINE=]{letter}",
            help=f"{what}: of the cores that the trace ran on, or of a device or instance size (trn2, trn1.2xlarge)",
        )  # fmt: skip
    made = parser.add_mutually_exclusive_group()
    made.add_argument("--tokens", type=int, metavar="N", help="tokens that one run makes")
    made.add_argument("--samples", type=int, metavar="N", help="samples that one run makes")
    parser.add_argument("--cores", type=int, metavar="N", help="cores that the price without MACHINE pays for")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> None:
    """Say what a run costs and what energy it takes, and which machine does it cheapest.

    trnprof cost TRACE --price-per-hour 1.34 --tokens 128
    trnprof cost TRACE --price-per-hour trn1.2xlarge=1.34 --price-per-hour trn2.48xlarge=36.2

    A machine with more cores than a run uses runs copies side by side. The time on another device is scaled by the
    roofs of both, and marked.
    """
    from trnprof.commands.opening import open_trace
    from trnprof.costs import cost

    units = args.tokens if args.tokens is not None else args.samples
    if (units is not None and units < 1) or (args.cores is not None and args.cores < 1):
        raise UsageError("--tokens, --samples and --cores count from 1")
    rates = _rates(args.price_per_hour, args.watts)
    found = cost(open_trace(args.trace), rates, units, "sample" if args.samples else "token", args.cores)
    if args.json:
        emit_json([each.to_json() for each in found])
    else:
        emit(_table(found))


def _rates(prices: list[str], watts: list[str]) -> dict[str, Rates]:
    from trnprof.costs import Rates

    priced, drawn = _by_machine(prices, "--price-per-hour"), _by_machine(watts, "--watts")
    names = dict.fromkeys((*priced, *drawn))
    return {name: Rates(priced.get(name), drawn.get(name)) for name in names}


def _by_machine(texts: list[str], option: str) -> dict[str, float]:
    from math import isfinite

    found: dict[str, float] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not isfinite(value) or value < 0:
            raise UsageError(f"{option} {text}: expected a number, or MACHINE=NUMBER")
        if name in found:
            raise UsageError(f"{option} {text}: {name or 'the own machine'} is given twice")
        found[name] = value
    return found


def _table(found: list[Cost]) -> str:
    from trnprof import words

    unit = found[0].unit
    head = ["machine", "cores", "runs at once", "time", "price a run", "energy a run"]
    head += [f"price of 1M {unit}s", f"energy a {unit}", f"{unit}s/s"] if unit else []
    rows = [(*head, "")]
    for each in found:
        estimated = each.basis != "captured"
        row = [
            words.plain(each.name, 40), words.count(each.cores), words.count(each.copies),
            words.estimate(words.time(each.time_ps), estimated), _number(each.per_run, estimated),
            _number(each.joules_per_run, estimated, "J"),
        ]  # fmt: skip
        if unit:
            row += [_number(each.per_million, estimated), _number(each.joules_per_unit, estimated, "J")]
            row += [_number(each.units_per_second, estimated)]
        note = ("cheapest; " if each.cheapest else "" if each.feasible else "not feasible: ") + each.reason
        rows.append((*row, note))
    return columns(rows, frozenset(range(1, len(head))))


def _number(value: float | None, estimated: bool, unit: str = "") -> str:
    from trnprof import words

    if value is None:
        return words.NOT_AVAILABLE
    text = words.digits(value) if 1e-4 <= value < 1e6 or not value else f"{value:.2e}"
    return words.estimate(f"{text}{words.NARROW}{unit}" if unit else text, estimated)
