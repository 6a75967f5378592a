"""What a notebook shows: whole, offline, and inert whatever a profile calls its things."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import sim
import trnprof
from sim import display
from tests import legacy, synthetic, timelines
from trnprof.home import data_dir
from trnprof.notebook import html
from trnprof.readers.chrome import read as read_chrome
from trnprof.readers.legacy import read as read_legacy
from trnprof.roofline import chart

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x1b[31m\x00\u202e" + "x" * 5000


class Tags(HTMLParser):
    """The elements of a page, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, Any]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(text: str) -> Tags:
    """The tags of a piece of HTML that needs nothing from elsewhere and runs nothing."""
    page = Tags(text)
    assert page.open == []
    assert {tag for tag, _ in page.found} <= {
        "div", "ul", "li", "svg", "title", "g", "line", "polygon", "circle", "path", "text", "rect", "tspan",
    }  # fmt: skip
    for _, attributes in page.found:
        assert not any(name.startswith("on") or name in ("href", "src", "xlink:href") for name in attributes)
        assert "url(" not in (attributes.get("style") or "")
    assert set(re.findall(r"https?://[^\"' <]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert "\x00" not in text
    assert "\x1b" not in text
    return page


def pictures(text: str) -> int:
    return sum(tag == "svg" for tag, _ in checked(text).found)


def test_a_trace_shows_verdict_timeline_and_roofline() -> None:
    trace = synthetic.attention()
    shown = trace._repr_html_()
    assert pictures(shown) == 2
    verdict = trnprof.classify(trace)[0]
    assert all(item.sentence.split()[0] in shown for item in verdict.evidence[:1])
    assert trace.meta.kernel in shown


def test_a_run_shows_its_outputs_too() -> None:
    path = data_dir("traces") / "kernels" / "softmax.py"
    run = sim.run(sim.load(f"{path}::softmax"), np.ones((128, 64), np.float32))
    shown = run._repr_html_()
    assert pictures(shown) == 2
    assert "[128, 64]" in shown


def test_a_verdict_and_a_chart_show_themselves() -> None:
    trace = synthetic.attention()
    assert pictures(trnprof.classify(trace)[0]._repr_html_()) == 0
    assert pictures(chart(trace)._repr_html_()) == 1


def test_a_general_timeline_and_an_empty_trace_show_what_there_is() -> None:
    timeline = read_chrome(io.BytesIO(timelines.dumped(timelines.kineto())).read, "kineto.json")
    assert pictures(timeline._repr_html_()) == 1
    assert pictures(sim.Trace(timeline.meta, sim.trace.Strings(), sim.trace.Instructions(0))._repr_html_()) == 0


def test_hostile_names_stay_text() -> None:
    document = legacy.document()
    for row in document["instruction"]:
        row |= {
            "opcode": HOSTILE,
            "operands": HOSTILE,
            "label": HOSTILE,
            "layer": HOSTILE,
            "nki_source_location": HOSTILE,
        }
    document["neff_header"][0]["network_name"] = HOSTILE
    trace = read_legacy(json.dumps(document).encode(), HOSTILE)
    for value in (trace, *trnprof.classify(trace), chart(trace)):
        checked(html(value))


def test_what_is_no_result_has_no_picture() -> None:
    with pytest.raises(TypeError, match="int has no picture"):
        html(1)


def test_without_trnprof_results_are_text() -> None:
    trace = "t.Trace(t.Meta(True, 'trn2', 'x'), t.Strings(), t.Instructions(0))"
    code = f"import sim.trace as t; print({trace}._repr_html_())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "None\n"
    assert display.html(synthetic.attention()) is not None
