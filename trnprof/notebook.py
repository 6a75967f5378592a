"""Results in a notebook: one self-contained piece of HTML, without scripts and without a network.

A trace or a run shows its verdict, its timeline and its place on the roofline; a verdict its evidence; a chart itself.
Names of a profile are text, whatever they hold.
"""

from __future__ import annotations

from html import escape
from typing import Any

from sim import Run
from sim.trace import Trace
from trnprof.bounds import Verdict, classify
from trnprof.report.charts import css_free
from trnprof.report.layout import lay_out
from trnprof.report.svg import to_svg
from trnprof.report.timeline import draw_timeline
from trnprof.roofline import Chart, chart
from trnprof.view import Session
from trnprof.view import format as words

THEME = "light"
HEIGHT = 320.0
"""Of the roofline below a timeline, px."""
OUTPUTS = 8
NAME = 120
"""Letters of a name that are shown."""

_STYLE = {
    "box": "font:13px/1.45 Helvetica,Arial,sans-serif;color:#1c2024;background:#fff;padding:10px 12px;"
    "border:1px solid #d7dbdf;border-radius:4px;max-width:1160px",
    "title": "font-size:15px;font-weight:600",
    "faint": "color:#60646c",
    "list": "margin:4px 0 0 18px;padding:0",
}


def html(value: Any) -> str:
    """A result as HTML; TypeError for what is none."""
    if isinstance(value, Run):
        return _box(_head(value.trace), _verdict(_whole(value.trace)), _outputs(value), *_pictures(value.trace))
    if isinstance(value, Trace):
        return _box(_head(value), _verdict(_whole(value)), *_pictures(value))
    if isinstance(value, Verdict):
        return _box(_part("title", value.region), _verdict(value))
    if isinstance(value, Chart):
        return _box(_picture(value))
    raise TypeError(f"{type(value).__name__} has no picture")


def _box(*parts: str) -> str:
    return f'<div style="{_STYLE["box"]}">{"".join(parts)}</div>'


def _part(style: str, text: str) -> str:
    return f'<div style="{_STYLE[style]}">{escape(words.plain(text, 4 * NAME))}</div>'


def _whole(trace: Trace) -> Verdict:
    return classify(trace)[0]


def _head(trace: Trace) -> str:
    meta = trace.meta
    low, high = meta.window
    took = words.estimate(words.time(high - low), meta.is_simulation)
    origin = "emulated: ~ marks an estimate" if meta.is_simulation else "captured"
    rows = words.plural(len(trace.instructions), "instruction")
    name = words.plain(meta.kernel or meta.source, NAME)
    return _part("title", f"{name}  {took}") + _part("faint", f"{words.plain(meta.device, 40)}, {rows}, {origin}")


def _verdict(verdict: Verdict) -> str:
    share = "" if verdict.share is None else f": {words.share(verdict.share)} of the time"
    items = "".join(f"<li>{escape(words.plain(item.sentence, 4 * NAME))}</li>" for item in verdict.evidence[:4])
    return f'{_part("title", words.bound(verdict.bound) + share)}<ul style="{_STYLE["list"]}">{items}</ul>'


def _outputs(run: Run) -> str:
    given = [f"{output['name']}: {output['dtype']}{list(output['shape'])}" for output in run.trace.meta.outputs]
    wrong = [finding.sentence for finding in run.findings]
    return "".join(_part("faint", line) for line in (", ".join(given[:OUTPUTS]), *wrong[:OUTPUTS]) if line)


def _pictures(trace: Trace) -> list[str]:
    """The timeline; the roofline where the device has roofs and something works under them."""
    from sim import spec

    if not len(trace.instructions):
        return []
    found = [to_svg(draw_timeline(Session(trace)), css_free(THEME), standalone=False)]
    if trace.meta.device in spec.NAMES:
        drawn = chart(trace)
        found += [_picture(drawn, alone=False)] if drawn.dots else []
    return found


def _picture(drawn: Chart, alone: bool = True) -> str:
    """A roofline; the words above it only where they are not said already."""
    scene = lay_out(drawn, table=False) if alone else lay_out(drawn, table=False, title=False, height=HEIGHT)
    return to_svg(scene, css_free(THEME), standalone=False)
