"""A sweep as one self-contained page: front, maps of the bound, where it turns, and what failed."""

from __future__ import annotations

from collections import Counter
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from trnprof.report import front, heat
from trnprof.report.html import page, row, table
from trnprof.report.scene import Scene
from trnprof.report.svg import to_svg
from trnprof.view import format as words
from trnprof.view import sweeps as said

if TYPE_CHECKING:
    from trnprof.sweep.record import Swept

ROWS = 200
"""Of a table; results.parquet has all."""


def to_html(swept: Swept) -> str:
    """The page as text."""
    best = swept.front
    keys = {one.number: key for key, one in enumerate(best, start=1)}
    title = f"{Path(swept.specification.source).stem}: sweep"
    maps = said.maps(swept)
    parts = [_head(swept)]
    if best:
        parts += [_heading("Latency, throughput and cost"), _picture(front.draw(swept, keys)), _note(swept)]
    parts += [_heading(_question(maps)), _picture(heat.draw(swept, maps, keys))]
    body = [_front(swept), _turns(swept), _idle(swept), _failed(swept)]
    return page(escape(words.plain(title)), "\n".join(parts), "\n".join(filter(None, body)), min(len(best), ROWS))


def _picture(scene: Scene) -> str:
    return to_svg(scene, lambda token: "#000" if token == "hatch" else f"var(--{token})", standalone=False)


def _heading(text: str) -> str:
    return f"<h2>{escape(words.plain(text))}</h2>"


def _question(maps: said.Maps) -> str:
    over = f" and {maps.up.title}" if maps.up else ""
    return f"What bounds it, by {maps.across.title}{over}"


def _head(swept: Swept) -> str:
    found = swept.specification
    same = said.constant(swept)
    fixed = ", ".join(f"{name} {value}" for name, value in same.items() if name != found.subject)
    subject = same.get(found.subject)
    lines = [words.plural(len(swept.results), "point")]
    lines += [f"{words.count(len(swept.failed))} without a time"] if swept.failed else []
    lines += [f"{found.subject} {Path(str(subject)).name}"] if subject is not None else []
    lines += [fixed] if fixed else []
    lines += [f"{name} = {text}" for name, text in found.arguments.items()]
    text = escape(words.plain("; ".join(lines)))
    title = escape(words.plain(Path(found.source).stem))
    return f'<h1>{title}</h1>\n<p class="under">{text}. ~ marks an estimate.</p>'


def _note(swept: Swept) -> str:
    works = [name for name in swept.specification.work if name not in said.constant(swept)]
    of = f" of the same {words.listing(works)}" if works else ""
    text = f"A ring and a number: no other point{of} is as good in latency, throughput and cost at once."
    devices = {one.outcome.device for one in swept.results if one.fits}
    if not swept.priced and len(devices) > 1:
        text += " Without prices an hour of one device's chip counts as much as of another's."
    if len(swept.front) > front.NUMBERED:
        text += f" The first {front.NUMBERED} are numbered."
    return f"<p>{escape(text)}</p>"


def _front(swept: Swept) -> str:
    best = swept.front
    if not best:
        return ""
    names = ["", "point", "latency", "throughput", said.cost_title(swept), "MFU", "MBU", "bound by"]
    names += ["HBM of a core"] if any(one.outcome.held_bytes for one in best) else []
    body = []
    for key, one in enumerate(best[:ROWS], start=1):
        point, time, rate, cost, bound, room = said.row_of(swept, one)
        use = (words.share(one.outcome.mfu), words.share(one.outcome.mbu))
        fields = (str(key), point, time, rate, cost, *use, bound, room)
        body.append(row(fields[: len(names)], "td", f"row-{key}", {2, 3, 4, 5, 6}, {1: "name"}))
    found = table(row(tuple(names), "th", numbers={2, 3, 4, 5, 6}), body)
    return f"<h2>The front</h2>\n{found}{_more(len(best))}"


def _more(count: int) -> str:
    return f"<p>{words.count(count - ROWS)} more in results.parquet.</p>" if count > ROWS else ""


def _turns(swept: Swept) -> str:
    if not swept.turns:
        return ""
    names = ("along", "from", "to", "bound before", "bound after", "at")
    body = [
        row(
            (each.axis, each.before, each.after, words.bound_name(each.bound_before),
             words.bound_name(each.bound_after), said.varying(swept, each.parameters)),
            "td", numbers={1, 2}, classes={5: "name"},
        )
        for each in swept.turns[:ROWS]
    ]  # fmt: skip
    found = table(row(names, "th", numbers={1, 2}), body)
    return f"<h2>Where the bound turns</h2>\n{found}{_more(len(swept.turns))}"


def _idle(swept: Swept) -> str:
    return "".join(f"<p>{escape(words.plain(name))} changes no time.</p>" for name in swept.idle)


def _failed(swept: Swept) -> str:
    if not swept.failed:
        return ""
    first = {}
    for one in swept.failed:
        first.setdefault(one.outcome.error, one)
    counted = Counter(one.outcome.error for one in swept.failed).most_common(ROWS)
    body = [
        row((words.count(count), said.varying(swept, first[error].parameters), error), "td", numbers={0},
            classes={1: "name", 2: "wide"})
        for error, count in counted
    ]  # fmt: skip
    found = table(row(("points", "the first of them", "why there is no time"), "th", numbers={0}), body)
    return f"<h2>Without a time</h2>\n{found}{_more(len(first))}"
