"""A roofline chart as a file: the ending says the format."""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sim.errors import InputError, UsageError
from trnprof.report.html import to_html
from trnprof.report.layout import lay_out
from trnprof.report.pdf import to_pdf
from trnprof.report.png import to_png
from trnprof.report.svg import to_svg
from trnprof.view import format as words
from trnprof.view.palette import THEME_COLOURS

if TYPE_CHECKING:
    from trnprof.roofline import Chart

HATCH = "#000000"

FIELDS = (
    "row", "name", "kind", "index", "start_ns", "end_ns", "time_ns", "engine", "done", "unit", "hbm_bytes",
    "intensity", "achieved", "low", "high", "roof", "attainable", "share", "bound", "estimated", "baseline",
    "exceeds", "why_no_dot", "source",
)  # fmt: skip


def write(chart: Chart, path: str | os.PathLike[str], theme: str = "light") -> Path:
    """Write a chart as .svg, .png, .pdf, .html, .csv or .json; an existing file is replaced whole or not at all.

    theme  : light, dark or contrast, for the pictures; a page follows its reader unless the theme is not light
    raises : UsageError for another ending or theme, InputError when the file cannot be written
    """
    target = Path(path)
    render = _FORMATS.get(target.suffix.lower())
    if render is None:
        known = ", ".join(_FORMATS)
        raise UsageError(f"{target}: a chart cannot be written as {target.suffix or 'a file without ending'!r}",
                         remedy=f"one of {known}")  # fmt: skip
    if theme not in THEME_COLOURS:
        raise UsageError(f"unknown theme {theme!r}", remedy=f"one of {', '.join(THEME_COLOURS)}")
    replace_file(target, render(chart, theme))
    return target


def _svg(chart: Chart, theme: str) -> bytes:
    return to_svg(lay_out(chart), css_free(theme)).encode()


def _png(chart: Chart, theme: str) -> bytes:
    return to_png(lay_out(chart), css_free(theme))


def _pdf(chart: Chart, theme: str) -> bytes:
    return to_pdf(lay_out(chart), css_free(theme))


def _html(chart: Chart, theme: str) -> bytes:
    return to_html(chart, lay_out(chart, table=False), None if theme == "light" else theme).encode()


def _json(chart: Chart, theme: str) -> bytes:
    return (json.dumps(chart.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode(errors="replace")


def _csv(chart: Chart, theme: str) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    for row in _records(chart):
        writer.writerow({name: words.inert(value) for name, value in row.items()})
    return out.getvalue().encode(errors="replace")


_FORMATS: dict[str, Callable[[Chart, str], bytes]] = {
    ".html": _html,
    ".svg": _svg,
    ".png": _png,
    ".pdf": _pdf,
    ".csv": _csv,
    ".json": _json,
}

ENDINGS = tuple(_FORMATS)


def _records(chart: Chart) -> Iterator[dict[str, object]]:
    """Dots, regions without a dot, then ceilings; times in ns, rates per second."""
    for row, dots in (("dot", chart.dots), ("without", chart.without)):
        for dot in dots:
            shared = {name: getattr(dot, name) for name in FIELDS if hasattr(dot, name)}
            times = {
                name: getattr(dot, name.replace("_ns", "_ps")) / 1000 for name in ("start_ns", "end_ns", "time_ns")
            }
            yield {"row": row, **shared, **times, "why_no_dot": dot.missing}
    for c in (*chart.ceilings, *chart.rivals):
        yield {"row": "ceiling", "name": c.name, "kind": c.kind, "unit": c.unit, "attainable": c.value,
               "source": c.source}  # fmt: skip


def css_free(theme: str) -> Callable[[str], str]:
    """Tokens of the palette as hex colours, for pictures that stand alone."""
    return lambda token: HATCH if token == "hatch" else THEME_COLOURS[theme][token]


def replace_file(target: Path, data: bytes) -> None:
    """Write beside the target, then take its place."""
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}")
    try:
        with open(beside, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except OSError as fault:
        beside.unlink(missing_ok=True)
        remedy = "choose a file in a folder that can be written"
        raise InputError(f"{target}: {fault.strerror or fault}", remedy=remedy) from None
