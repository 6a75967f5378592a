from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from trnprof.commands.streams import columns, emit, emit_json, wrapped

if TYPE_CHECKING:
    from trnprof.roofline import Chart, Point


def declare(parser: ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the chart: .html .svg .png .pdf .csv .json")
    parser.add_argument("--device", metavar="D", help="draw the roofs of another device")
    parser.add_argument("--baseline", metavar="TRACE", help="join the dot of an earlier trace to this one's")
    parser.add_argument(
        "--compare", metavar="GPU", action="append", default=[], help="draw the roofs of a GPU too: v100, a100, h100, …"
    )
    parser.add_argument("--level", choices=("kernels", "regions", "lines"), default="regions", help="what gets a dot")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(args: Namespace) -> None:
    """Place a trace and its regions under the roofs of its device.

    Prints a table, or writes the chart in the format that the ending of FILE names.
    """
    from trnprof.commands.opening import open_trace
    from trnprof.roofline import chart

    baseline = open_trace(args.baseline) if args.baseline else None
    trace = open_trace(args.trace)
    drawn = chart(trace, args.device, baseline, args.level, compare=args.compare)
    if args.output:
        from trnprof.report.charts import write

        write(drawn, args.output, theme=args.theme)
    if args.json:
        emit_json(drawn.to_json())
    else:
        emit(args.output or _table(drawn))


def _table(chart: Chart) -> str:
    from trnprof import words

    roofs = [
        (ceiling.name, words.quantity(ceiling.value, ceiling.unit), ceiling.note)
        for ceiling in (*chart.ceilings, *chart.rivals)
    ]
    roofs += [(ridge.name, words.intensity(ridge.intensity), "ridge") for ridge in chart.ridges]
    head = ("region", "", "intensity", "performance", "attainable", "share", "bound by")
    dots = columns([head, *(_dot(point) for point in (*chart.dots, *chart.without))], frozenset((2, 3, 4, 5)))
    limits = columns([("roof", "limit", ""), *roofs], frozenset((1,)))
    return f"{chart.title}\n{wrapped(chart.subtitle, '')}\n\n{dots}\n\n{limits}"


def _dot(point: Point) -> tuple[str, ...]:
    from trnprof import words

    return (
        words.plain(point.name, 40) + (" (baseline)" if point.baseline else ""),
        point.kind,
        words.quantity(point.intensity, "FLOP/B" if point.unit == "FLOP/s" else "elem/B"),
        words.estimate(words.quantity(point.achieved, point.unit), point.estimated),
        words.quantity(point.attainable, point.unit),
        words.share(point.share),
        words.bound_name(point.bound),
    )
