"""What-ifs, comparisons and the tabs of findings in the browser's half of the server."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from sim import stages
from sim.errors import InputError
from tests.synthetic import attention as captured
from tests.synthetic import model
from tests.test_web import texts, walk
from trnprof.view import Session
from trnprof.web import callbacks, create_app, pages
from trnprof.web.jobs import AT_ONCE, KEPT, Jobs
from trnprof.web.library import Library

TRACE = Path(__file__).resolve().parent.parent / "traces" / "attention"
HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J\u202e"


@pytest.fixture(scope="module")
def library() -> Library:
    return Library([TRACE])


@pytest.fixture
def client(library, monkeypatch):
    monkeypatch.setattr("trnprof.web.application.Library", lambda paths, **options: library)
    return create_app([]).server.test_client()


def until_over(client, number: str, seconds: float = 60) -> dict:
    end = time.monotonic() + seconds
    while True:
        state = client.get(f"/trace/attention/what-if/state?job={number}").get_json()
        if state["over"]:
            return state
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


# --- jobs -----------------------------------------------------------------------------------------------------------


def finished(jobs: Jobs, number: str, seconds: float = 10):
    end = time.monotonic() + seconds
    while not jobs.get(number).over:
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
    return jobs.get(number).state()


def test_a_job_tells_how_far_it_is_and_keeps_the_order_of_its_runs():
    jobs, gate = Jobs(), threading.Event()
    number = jobs.begin([lambda: "first", lambda: gate.wait(10) and "second"])
    while not jobs.get(number).found:
        time.sleep(0.005)
    state = jobs.get(number).state()
    assert (state["done"], state["total"], state["over"]) == (1, 2, False)
    gate.set()
    assert finished(jobs, number)["found"] == ["first", "second"]


def test_a_cancelled_job_begins_no_further_run_and_takes_no_late_answer():
    jobs, begun, gate, ran = Jobs(), threading.Event(), threading.Event(), []

    def slow() -> str:
        begun.set()
        gate.wait(10)
        return "late"

    number = jobs.begin([slow, lambda: ran.append(1)])
    begun.wait(10)
    jobs.cancel(number)
    jobs.cancel(number)
    gate.set()
    state = finished(jobs, number)
    assert (state["cancelled"], state["found"], ran) == (True, [], [])


def test_a_run_is_given_up_in_the_middle():
    jobs, begun = Jobs(), threading.Event()

    def endless() -> None:
        begun.set()
        while True:
            stages.pause()

    number = jobs.begin([endless, lambda: 1])
    begun.wait(10)
    jobs.cancel(number)
    state = finished(jobs, number)
    assert (state["cancelled"], state["found"], state["error"]) == (True, [], "")


def test_a_fault_of_a_run_is_a_sentence():
    def fail() -> None:
        raise InputError("no setting 'x'", remedy="trnprof what-if --list")

    jobs = Jobs()
    assert "no setting 'x'" in finished(jobs, jobs.begin([fail]))["error"]


def test_only_so_many_jobs_run_at_once_and_old_ones_are_forgotten():
    jobs, gate = Jobs(), threading.Event()
    running = [jobs.begin([lambda: gate.wait(10)]) for _ in range(AT_ONCE)]
    assert all(running) and jobs.begin([lambda: 1]) is None
    gate.set()
    for number in running:
        finished(jobs, number)
    for _ in range(KEPT):
        finished(jobs, jobs.begin([lambda: 1]))
    assert jobs.get(running[0]) is None


# --- what-ifs over the wire -----------------------------------------------------------------------------------------


def test_a_grid_of_what_ifs_is_answered_one_by_one(client, library):
    begun = client.post("/trace/attention/what-if?set=buffers=unlimited+hbm_bw=1x,2x").get_json()
    state = until_over(client, begun["job"])
    assert [card["name"] for card in state["found"]] == [
        "buffers=unlimited,hbm_bw=1x",
        "buffers=unlimited,hbm_bw=2x",
    ]
    session = library.session("attention")
    assert state["found"][0]["time_ps"] == session.what_if({"buffers": "unlimited", "hbm_bw": "1x"}).time_ps


@pytest.mark.parametrize(
    ("line", "says"),
    [("", "needs a setting"), ("hbm_bw", "NAME=VALUE"), ("hbm_bw=1x hbm_bw=2x", "given twice")],
)
def test_a_line_that_is_no_what_if_is_refused_in_words(client, line, says):
    reply = client.post("/trace/attention/what-if", query_string={"set": line})
    assert reply.status_code in (400, 404) and says in reply.get_json()["error"]


def test_an_unknown_setting_ends_the_job_with_its_remedy(client):
    begun = client.post("/trace/attention/what-if", query_string={"set": "hbm_bv=2x"}).get_json()
    assert "hbm_bw" in until_over(client, begun["job"])["error"]


def test_what_ifs_are_begun_by_post_only_and_unknown_jobs_are_said_to_be(client):
    assert b"job" not in client.get("/trace/attention/what-if?set=hbm_bw=2x").data
    assert client.post("/trace/attention/what-if/cancel?job=none").status_code == 404


def test_the_answer_of_a_what_if_can_be_looked_at_by_its_name(client, library):
    supposed = library.session("attention@buffers=unlimited")
    session = library.session("attention")
    assert supposed.window[1] - supposed.window[0] == session.what_if({"buffers": "unlimited"}).time_ps
    start = client.get("/trace/attention@buffers=unlimited/start").get_json()
    assert start["name"] == "attention@buffers=unlimited" and start["estimated"]
    with pytest.raises(InputError, match="no trace of that name"):
        library.session("other@buffers=unlimited")


def test_a_pair_is_the_same_instruction_in_both(client, library):
    row = int(library.session("attention@buffers=unlimited").compared_with(library.session("attention")).pairs[5][0])
    query = {"with": "attention@buffers=unlimited", "row": row, "side": "before"}
    found = client.get("/trace/attention/pair", query_string=query).get_json()
    assert found["before"]["row"] == row and found["after"]["title"] == found["before"]["title"]
    assert client.get("/trace/attention/pair", query_string={**query, "row": 10**6}).status_code == 400


# --- pages and tabs -------------------------------------------------------------------------------------------------


def page(library: Library, **ask):
    return callbacks.chart(library, {"trace": "attention", **ask})


def test_a_comparison_shows_both_timelines_and_what_changed(library):
    made = page(library, page="compare", other="attention@buffers=unlimited")
    ids = {getattr(part, "id", "") for part in walk(made)}
    assert {"tracks-before", "tracks-after", "gutter-before", "gutter-after", "compare"} <= ids
    text = texts(made)
    assert "By cause" in text and "By line" in text and "buffers=unlimited" in text and "what-if" in text


def test_a_long_table_of_what_is_in_view_comes_in_parts_that_follow_each_other():
    session = Session(model())
    count, shown = session.listing(*session.home, 0).count, []
    assert count > 2 * pages.LISTED
    for _ in range(3):
        made = pages.listing(session, session.home, len(shown))
        (body,) = (part for part in walk(made) if type(part).__name__ == "Tbody")
        after = [part for part in walk(made) if hasattr(part, "data-first")][-1]
        shown += [texts(row) for row in body.children]
        assert getattr(after, "data-first") == str(len(shown))
    assert len(shown) == 3 * pages.LISTED or len(shown) == count
    assert all(row.title in text for row, text in zip(session.listing(*session.home, 0).rows, shown))


def test_a_comparison_without_another_trace_says_how_to_get_one(library):
    assert "trnprof web A B" in texts(page(library, page="compare"))
    assert "no trace of that name" in texts(page(library, page="compare", other="gone"))


def test_the_form_names_every_setting_with_what_is_now(library):
    made = page(library, page="whatif", wish="hbm_bw=2x")
    rows = [part for part in walk(made) if getattr(part, "data-wish", "")]
    assert len(rows) == len(library.session("attention").settings())
    wish = next(part for part in walk(made) if getattr(part, "id", "") == "wish")
    assert getattr(wish, "data-value") == "hbm_bw=2x"


def test_advice_leads_to_its_instructions(library):
    made = callbacks.panel(library, {"trace": "attention", "tab": "advice"})
    cards = library.session("attention").advice()
    marked = [getattr(part, "data-rows") for part in walk(made) if hasattr(part, "data-rows")]
    assert marked == [",".join(map(str, card.rows)) for card in cards if card.rows]


def test_no_advice_says_so(monkeypatch, library):
    monkeypatch.setattr(Session, "advice", lambda self: ())
    assert "No rule has a complaint" in texts(callbacks.panel(library, {"trace": "attention", "tab": "advice"}))


def test_the_path_says_the_slack_of_the_selection(library):
    session = library.session("attention")
    on_path = int(session.critical().row[0])
    assert session.slack(on_path) in texts(
        callbacks.panel(library, {"trace": "attention", "tab": "path", "row": on_path})
    )


@pytest.mark.parametrize("tab", ["advice", "path", "memory", "source"])
def test_hostile_names_stay_text_in_every_tab(monkeypatch, tab):
    monkeypatch.setattr(Session, "open", lambda path: Session(captured(names={"MATMUL": HOSTILE, "ACTIVATE": HOSTILE})))
    library = Library(["hostile.json"])
    made = callbacks.panel(library, {"trace": "hostile", "tab": tab, "row": 3})
    assert "\x1b" not in texts(made) and "\u202e" not in texts(made)
    assert all(type(part).__name__ not in ("Iframe", "Script") for part in walk(made))
