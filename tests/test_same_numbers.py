"""One selection, three mouths: the browser, the terminal and `--json` give the same numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sim.trace import ENGINE_NAMES
from tests.test_web import texts
from trnprof import cli
from trnprof.tui import actions, pages
from trnprof.tui.screen import Scene
from trnprof.view import Session
from trnprof.view import format as words
from trnprof.view.colours import COLOURS
from trnprof.view.keys import TABS
from trnprof.web import callbacks, create_app
from trnprof.web.library import Library

TRACE = Path(__file__).resolve().parent.parent / "traces" / "attention"


@pytest.fixture(scope="module")
def library() -> Library:
    return Library([TRACE])


@pytest.fixture(scope="module")
def session(library) -> Session:
    return library.session("attention")


def plain(text: str) -> str:
    """With ordinary spaces: a terminal has no narrow ones."""
    return text.replace(words.NARROW, " ").replace(words.THIN, " ")


def holds(shown: str, *figures: str) -> bool:
    return all(plain(figure) in plain(shown) for figure in figures)


def browser(library: Library, **ask: Any) -> str:
    return texts(callbacks.panel(library, {"trace": "attention", "row": -1, **ask}))


def terminal(session: Session, tab: str, **changes: Any) -> str:
    state = replace(actions.start(session, "engine"), tab=TABS.index(tab), **changes)
    return "\n".join(pages.page(Scene(session, state), 240, 90).canvas.lines())


def answer(capsys, *command: str) -> Any:
    assert cli.main([command[0], str(TRACE), *command[1:], "--json"]) in (0, None)
    return json.loads(capsys.readouterr().out)


def test_the_causes_of_the_critical_path(library, session, capsys):
    said = answer(capsys, "critical")["causes"]
    shown = (browser(library, tab="path"), terminal(session, "path"))
    for cause in session.critical().causes:
        assert said[cause.cause] == {"time_ps": cause.time_ps, "share": cause.share}
        assert cause.time_words == words.estimate(words.time(said[cause.cause]["time_ps"]))
        assert all(holds(text, cause.name, cause.time_words, cause.share_words) for text in shown)


def test_the_gains_of_advice(library, session, capsys):
    said = answer(capsys, "advise")
    said = said["advice"] if isinstance(said, dict) else said
    shown = (browser(library, tab="advice"), terminal(session, "advice"))
    assert [card.rule for card in session.advice()] == [each["rule"] for each in said]
    for card, each in zip(session.advice(), said, strict=True):
        assert card.share == pytest.approx(each["share"]), card.rule
        assert all(holds(text, card.title[:12], card.gain) for text in shown)


def test_the_answer_of_a_what_if(library, session, capsys):
    said = answer(capsys, "what-if", "--set", "buffers=unlimited")[0]
    card = session.what_if({"buffers": "unlimited"})
    assert (card.before_ps, card.time_ps, card.ratio) == (said["before_ps"], said["time_ps"], said["ratio"])
    page = callbacks.chart(library, {"trace": "attention", "page": "compare", "other": "attention@buffers=unlimited"})
    other = ("buffers=unlimited", session.supposed({"buffers": "unlimited"}))
    state = replace(actions.start(session, "engine"), screen="compare")
    screen = "\n".join(pages.page(Scene(session, state, other=other), 160, 48).canvas.lines())
    headline = other[1].compared_with(session).headline
    assert card.time_words in headline and card.change in headline
    assert holds(texts(page), headline) and holds(screen, headline)


def test_the_whole_trace(library, session, capsys):
    said = answer(capsys, "summary")
    t0, t1 = session.window
    assert t1 - t0 == pytest.approx(said["latency_ns"] * 1000, abs=1000)
    strip, _ = callbacks.verdict(library, {"name": "attention", "title": "attention"})
    for text in (texts(strip), terminal(session, "instruction")):
        assert holds(text, session.meta.window.words)
    shares = {verdict["bound"]: verdict["share"] for verdict in said["verdicts"][:1]}
    assert shares == {session.verdict.bound: pytest.approx(session.verdict.share)}


def test_a_selected_area(library, session):
    area = session.regions()[1]
    card = session.area(area.t0_ps, area.t1_ps)
    shown = (
        browser(library, area=[area.t0_ps, area.t1_ps]),
        terminal(session, "instruction", area=(area.t0_ps, area.t1_ps)),
    )
    figures = [fact.words for fact in card.facts if fact.value] + [row.share_words for row in card.engines]
    figures += [card.dot.intensity, card.dot.performance, card.dot.roof_share, *[w.time_words for w in card.waits[:4]]]
    for text in shown:
        assert [figure for figure in figures if not holds(text, figure)] == []


def test_the_working_time_of_engines_has_one_name_and_one_number(library, session, capsys):
    engines = answer(capsys, "summary")["engines"]
    assert cli.main(["compare", str(TRACE), str(TRACE), "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)["engines"]
    shown = (browser(library, tab="engines"), terminal(session, "engines"))
    for row in session.engine_rows():
        if row.engine < 5:
            assert engines[ENGINE_NAMES[row.engine]]["working_ns"] * 1000 == pytest.approx(row.active_ps, abs=2)
            assert compared[row.name]["before"] == pytest.approx(row.active_ps, abs=2)
        assert all(holds(text, row.active_words, row.share_words) for text in shown)
    assert any(use["active_ns"] != use.get("working_ns", 0) for use in engines.values()), "AWS counts another thing"
    for text in shown:
        assert "working" in text
        assert "active" not in text.replace("engine_active_time", "")


def test_what_a_search_finds(library, session, capsys):
    assert cli.main(["grep", "ACTIVATE exp", str(TRACE), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    hits = session.search("ACTIVATE exp")
    rows = said["rows"] if isinstance(said, dict) else said
    assert len(rows) == hits.count > 0
    client = create_app([TRACE]).server.test_client()
    found = client.get("/trace/attention/search?q=ACTIVATE exp").json
    assert (found["count"], found["rows"]) == (hits.count, hits.rows.tolist())
    state = replace(actions.start(session, "engine"), overlay="search", entry="ACTIVATE exp")
    screen = "\n".join(pages.page(Scene(session, state, hits=hits), 120, 36).canvas.lines())
    assert hits.words in plain(screen)


@pytest.mark.parametrize("colour", COLOURS)
def test_the_legend(library, session, colour):
    client = create_app([TRACE]).server.test_client()
    rows = client.get(f"/trace/attention/legend?colour={colour}").json
    assert [(row["name"], row["share_words"]) for row in rows] == [
        (row.name, row.share_words) for row in session.legend(colour)
    ]
    shown = terminal(session, "instruction", colour=colour, only=(session.legend(colour)[0].colour,))
    assert all(holds(shown, row.name, row.share_words) for row in session.legend(colour)[:6])


def test_what_is_in_view(library, session):
    view = session.home
    ask = {"trace": "attention", "page": "listing", "view": list(view)}
    page = texts(callbacks.chart(library, ask))
    state = replace(actions.start(session, "engine"), screen="listing", t0=view[0], t1=view[1], item=0)
    screen = "\n".join(pages.page(Scene(session, state), 240, 40).canvas.lines())
    for row in session.listing(*view, 0, 30).rows:
        assert all(holds(text, row.start, row.took, row.title, row.id, row.engine) for text in (page, screen))


def test_what_lies_in_memory(library, session):
    at = (session.window[0] + session.window[1]) // 2
    shown = (browser(library, tab="memory", at=at), terminal(session, "memory", cursor=at, row=-1))
    for found in session.memory(at).maps:
        for text in shown:
            assert holds(text, found.used_words)
            assert all(holds(text, tile.name, tile.size_words) for tile in found.tiles[:10])
