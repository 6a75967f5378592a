"""Estimates against measurements as one self-contained page: a log-log plot with a band, and every number in tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from trnprof import words
from trnprof.report.frame import Plot
from trnprof.report.html import page, row, table
from trnprof.report.scene import Circle, Group, Line, Mark, Polygon, Scene, Text
from trnprof.report.svg import to_svg

if TYPE_CHECKING:
    from trnprof.validation import Report
    from trnprof.validation.score import Comparison

WIDTH, HEIGHT = 1120.0, 640.0
PLOT = (76.0, 64.0, 860.0, 584.0)
BAND = 0.1
"""Half-width of the band, as a share of the measurement."""
SERIES = (
    ("kernel", "published kernels", "compute", 5.0),
    ("our kernel", "our kernels of the same algorithm", "network", 5.0),
    ("instruction", "captured instructions", "memory_bandwidth", 2.5),
    ("interval", "their start-to-start intervals", "latency", 2.5),
)
"""Level, name, ink, radius of its dots."""


@dataclass(frozen=True, slots=True)
class Range:
    """A logarithmic axis, ns."""

    low: float
    high: float


def to_html(report: Report) -> str:
    """The page as text."""
    picture = to_svg(draw(report), lambda token: f"var(--{token})", standalone=False)
    kernels = _named(report)
    return page("Estimates against measurements", picture, _tables(report, kernels), len(kernels))


def _named(report: Report) -> list[Comparison]:
    """Rows of the plot that have a row in a table."""
    return [*report.of("kernel"), *report.of("our kernel")]


def draw(report: Report) -> Scene:
    """The plot; equal dots of instructions are drawn once."""
    plot = Plot(*PLOT, *_axes(report))
    marks: list[Mark] = [Text(28, 36, "Estimates against measurements", 18, bold=True)]
    marks += _frame(plot)
    keys = {id(each): key for key, each in enumerate(_named(report), start=1)}
    seen: set[tuple[str, int, int]] = set()
    for level, _, ink, radius in reversed(SERIES):
        for each in report.of(level):
            place = (level, round(4 * plot.across(each.measured)), round(4 * plot.up(each.estimate)))
            if place not in seen:
                seen.add(place)
                marks.append(_dot(plot, each, ink, radius, keys.get(id(each), 0)))
    marks += _legend(report)
    return Scene(WIDTH, HEIGHT, "Estimated against measured times, both logarithmic", tuple(marks))


def _axes(report: Report) -> tuple[Range, Range]:
    values = [value for level, *_ in SERIES for each in report.of(level) for value in (each.measured, each.estimate)]
    low, high = min(values, default=1.0), max(values, default=10.0)
    span = Range(10 ** (math.floor(math.log10(low) * 4 - 0.2) / 4), 10 ** (math.ceil(math.log10(high) * 4 + 0.2) / 4))
    return span, span


def _frame(plot: Plot) -> Iterator[Mark]:
    """Grid, ticks, the band and the line of perfect estimates."""
    low, high = plot.x.low, plot.x.high
    for exponent in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1):
        x, y, name = plot.across(10.0**exponent), plot.up(10.0**exponent), _tick(exponent)
        yield Line(x, plot.top, x, plot.bottom, "line")
        yield Line(plot.left, y, plot.right, y, "line")
        yield Text(x, plot.bottom + 16, name, 11, "text-3", "middle")
        yield Text(plot.left - 7, y + 4, name, 11, "text-3", "end")
    corners = [
        (plot.across(low), plot.up(low * (1 + BAND))),
        (plot.across(high / (1 + BAND)), plot.up(high)),
        (plot.across(high), plot.up(high)),
        (plot.across(high), plot.up(high * (1 - BAND))),
        (plot.across(low / (1 - BAND)), plot.up(low)),
        (plot.across(low), plot.up(low)),
    ]
    yield Polygon(tuple(corners), "text", opacity=0.08)
    yield Line(plot.left, plot.bottom, plot.right, plot.top, "text-3", 1, (4.0, 3.0))
    yield Text((plot.left + plot.right) / 2, plot.bottom + 38, "measured", 11, "text-3", "middle")
    yield Text(plot.left - 60, (plot.top + plot.bottom) / 2, "estimated", 11, "text-3", "middle", angle=90)


def _tick(exponent: int) -> str:
    """A power of ten of nanoseconds: `10 µs`."""
    units = (("s", 9), ("ms", 6), ("µs", 3), ("ns", 0))
    unit, power = next((pair for pair in units if exponent >= pair[1]), units[-1])
    return f"{10 ** (exponent - power)}{words.NARROW}{unit}"


def _dot(plot: Plot, each: Comparison, ink: str, radius: float, key: int) -> Group:
    x, y = plot.across(each.measured), plot.up(each.estimate)
    marks: list[Mark] = []
    if each.low is not None and each.high is not None:
        marks.append(Line(x, plot.up(each.low), x, plot.up(each.high), ink, 1.2))
    marks.append(Circle(x, y, radius, ink, "bg", 0.8, opacity=0.85))
    times = f"{words.time(each.measured * 1e3)} measured, {words.time(each.estimate * 1e3)} estimated"
    return Group(tuple(marks), f"{each.id}\n{times}, {signed(each.error)}", key)


def _legend(report: Report) -> Iterator[Mark]:
    left, y = PLOT[2] + 24, PLOT[1] + 12
    for level, name, ink, radius in SERIES:
        found = dict(report.totals()).get(level)
        if found is None:
            continue
        yield Circle(left, y - 4, radius, ink)
        yield Text(left + 12, y, name, 12)
        sentence = f"{found.measurements}, mean error {words.share(found.mape)}, bias {signed(found.bias)}"
        yield Text(left + 12, y + 16, sentence, 11, "text-3")
        y += 46
    yield Text(left + 12, y, f"band: ±{words.share(BAND)}", 11, "text-3")


def signed(error: float | None) -> str:
    """An error in percent with its sign."""
    return words.NOT_AVAILABLE if error is None else f"{error:+.1%}".replace("-", words.MINUS)


def _tables(report: Report, kernels: list[Comparison]) -> str:
    names = ("", "kernel", "device", "compared", "measured", "estimate", "error", "interval")
    head = row(names, "th", numbers={4, 5, 6})
    body = [_kernel(key, each) for key, each in enumerate(kernels, start=1)]
    totals = row(("", "compared", "mean error", "bias", "worst", ""), "th", numbers={1, 2, 3, 4})
    lines = [
        row(
            (
                t.name,
                str(t.measurements),
                f"{t.mape:.1%}",
                signed(t.bias),
                signed(t.worst_error),
                t.worst if t.worst_error else "",
            ),
            "td",
            numbers={1, 2, 3, 4},
        )
        for level, t in report.totals()
    ]
    missing = [row((each.id, each.reason), "td", classes={1: "wide"}) for each in report.skipped]
    parts = ["<h2>Totals</h2>", table(totals, lines), "<h2>Kernels</h2>", table(head, body), _pairs(report)]
    if missing:
        parts += ["<h2>Not compared</h2>", table(row(("record", "why"), "th"), missing)]
    return "\n".join(parts)


def _kernel(key: int, each: Comparison) -> str:
    inside = "" if each.low is None else words.interval(words.time(each.low * 1e3), words.time(each.high * 1e3))
    times = (words.time(each.measured * 1e3), words.estimate(words.time(each.estimate * 1e3)), signed(each.error))
    compared = each.quantity.removesuffix("_ns")
    fields = (str(key), each.id, each.device, compared, *times, inside)
    return row(fields, "td", f"row-{key}", {4, 5, 6}, {1: "name"})


def _pairs(report: Report) -> str:
    found = report.agreement()
    if not found.pairs:
        return ""
    text = f"Which of two variants is faster comes out right for {found.agreed} of {found.pairs} pairs"
    turned = f"; turned round: {'; '.join(found.disagreed)}" if found.disagreed else ""
    return f"<p>{escape(text + turned)}.</p>"
