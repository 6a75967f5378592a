"""Advice, critical path, memory, what-ifs, comparisons and the remembered view in the terminal."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from sim import stages
from tests.synthetic import attention as captured
from tests.test_tui import drive, screen, state, typed, until
from tests.test_tui_painting import HOSTILE, after, compare, lines
from trnprof.tui import actions, choices, findings, kept, pages, pairs, wishes
from trnprof.tui.canvas import width_of
from trnprof.tui.screen import Scene
from trnprof.view import Session
from trnprof.view.keys import TABS

TRACE = Path(__file__).resolve().parent.parent / "traces" / "attention"
SIZES = [(80, 24), (120, 36), (240, 60)]


@cache
def sample() -> Session:
    return Session.open(TRACE)


def scene(tab: str, **changes) -> Scene:
    start = actions.start(sample(), "engine")
    return Scene(sample(), replace(start, tab=TABS.index(tab), **changes))


def text(found: Scene, size: tuple[int, int] = (120, 36)) -> str:
    return "\n".join(lines(found, *size))


# --- tabs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tab", ["advice", "path", "memory"])
def test_every_size_shows_the_head_of_what_the_tab_is_about(tab, size):
    shown = text(scene(tab), size)
    says = {"advice": "Give the acc", "path": "from first issue to last", "memory": "SBUF at 19.394"}
    assert says[tab] in shown
    assert all(len(line) == size[0] for line in shown.splitlines())


def test_tab_steps_through_advice_and_enter_through_its_instructions():
    found = scene("advice")
    card = sample().advice()[1]
    second = replace(found, state=choices.press(found, "tab"))
    assert f"▸ 2 {card.title}" in text(second)
    rows = []
    for _ in range(len(card.rows) + 1):
        second = replace(second, state=choices.press(second, "enter"))
        rows.append(second.state.row)
    assert rows == [*card.rows, card.rows[0]]
    assert TABS[second.state.tab] == "advice", "the list stays open"
    around = replace(found, state=choices.press(found, "shift+tab"))
    assert around.state.item == len(sample().advice()) - 1


def test_the_chosen_entry_is_in_sight_however_few_lines_there_are():
    cards = sample().advice()
    for chosen, card in enumerate(cards):
        shown = findings.advice(cards, chosen, 6, 78)[:6]
        assert any(card.title[:10] in part for line in shown for part, _ in line)


def test_enter_on_a_cause_shows_its_longest_piece_and_on_a_loop_its_time():
    card, found = sample().critical(), scene("path")
    first = choices.press(found, "enter")
    pieces = (card.cause == 0) & (card.row >= 0)
    longest = (card.end_ps - card.start_ps)[pieces].max()
    chosen = (card.row == first.row) & pieces
    assert (card.end_ps - card.start_ps)[chosen].max() == longest
    loop = next(k for k, (key, _) in enumerate(findings.path_entries(card, 0, 80)) if key[0] == "circuit")
    area = choices.press(replace(found, state=replace(found.state, item=loop)), "enter").area
    assert area == (card.circuits[0].t0_ps, card.circuits[0].t1_ps)


def test_the_memory_map_follows_the_cursor():
    empty, full = (text(scene("memory", cursor=at)) for at in (sample().window[0] - 1, 30_000_000))
    assert "0 B of 224 KiB" in empty and "k_tile" not in empty
    assert "0 B of 224 KiB" not in full and "k_tile" in full


def test_the_path_colour_has_a_track_of_its_own():
    plain = replace(scene("instruction"), state=replace(scene("instruction").state, colour="engine"))
    assert "critical path" not in text(plain)
    assert "critical" in text(scene("instruction", colour="path"))


def test_slow_tabs_say_what_they_are_at_until_they_know():
    waiting = replace(scene("advice"), known=frozenset())
    assert "looking for advice" in text(waiting)
    assert not choices.offered(waiting, "tab") and choices.offered(scene("advice"), "tab")


def test_hostile_names_are_text_in_every_tab():
    session = Session(captured(names={"MATMUL": HOSTILE, "ACTIVATE": HOSTILE}))
    for tab in range(len(TABS)):
        shown = "\n".join(lines(Scene(session, replace(actions.start(session, "path"), tab=tab)), 120, 36))
        assert "\x1b" not in shown and "\u202e" not in shown and "\x00" not in shown


# --- what-ifs and comparisons ---------------------------------------------------------------------------------------


def answered(line: str) -> wishes.Wish:
    asked = tuple(sample().suppositions(line))
    return wishes.Wish(line, asked, tuple(sample().what_if(each) for each in asked), over=True)


def test_a_what_if_is_typed_runs_beside_and_leads_to_a_comparison():
    async def script(app, pilot) -> None:
        await pilot.press("i", *typed("buffers"), "equals_sign", *typed("unlimited"))
        assert "no instruction waits for a buffer" in screen(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.scene.wish is not None and app.scene.wish.over)
        assert state(app).screen == "what_if"
        assert app.scene.wish.found[0].time_words in screen(app).replace(" µs", "\u202fµs")
        await pilot.press("enter")
        await until(pilot, lambda: state(app).screen == "compare")
        assert "before emulated" in screen(app) and "after what-if" in screen(app)
        await pilot.press("escape")
        assert state(app).screen == "timeline"

    drive(script, trace=sample().trace)


def test_a_what_if_that_cannot_be_read_says_why():
    async def script(app, pilot) -> None:
        await pilot.press("i", *typed("nonsense"), "enter")
        await until(pilot, lambda: app.scene.wish is not None)
        assert "NAME=VALUE" in screen(app)

    drive(script, trace=sample().trace)


def test_leaving_cancels_what_still_runs():
    begun = wishes.Wish("x=1", ({"x": "1"}, {"x": "2"}))
    from trnprof.tui import errands

    assert (
        errands.cancel(begun).over
        and begun.control.cancelled
        and "cancelled after 0 of 2" in errands.cancel(begun).progress
    )
    assert errands.cancel(None) is None


def test_escape_gives_up_a_what_if_in_the_middle(monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def endless(session: Session, settings: dict) -> None:
        begun.set()
        try:
            while True:
                stages.pause()
        finally:
            ended.set()

    monkeypatch.setattr(Session, "what_if", endless)

    async def script(app, pilot) -> None:
        await pilot.press("i", *typed("buffers"), "equals_sign", *typed("unlimited"), "enter")
        await until(pilot, begun.is_set)
        await pilot.press("escape")
        await until(pilot, ended.is_set, 10)
        assert state(app).screen == "timeline"

    drive(script, trace=sample().trace)


def test_another_trace_is_compared_by_its_path():
    async def script(app, pilot) -> None:
        app.become(replace(state(app), overlay="compare", entry=str(TRACE)))
        await pilot.press("enter")
        await until(pilot, lambda: state(app).screen == "compare")
        app.become(replace(state(app), screen="timeline", overlay="compare", entry="/nowhere/at/all"))
        await pilot.press("enter")
        await until(pilot, lambda: "nowhere" in state(app).note and "comparing" not in state(app).note)

    drive(script, trace=sample().trace)


def test_a_click_shows_the_same_instruction_in_both_halves_of_a_comparison():
    scene = replace(compared(), state=replace(compared().state, row=-1))
    before, after = scene.session, scene.other[1]
    picture = pages.page(scene, 160, 60)
    row = before.first_in(*before.home)
    found = after.twin(before, row, after=False)
    for side, mine in enumerate((found.before, found.after)):
        half, state = picture.halves[side]
        session = (before, after)[side]
        card = session.card(mine)
        first = next(first for first, _, track in half.rows if track.id == card.track)
        middle = (card.t0_ps + card.t1_ps) // 2
        x = half.shape.gutter + (middle - state.t0) * half.shape.cells // state.span
        chosen = pairs.click(picture, scene, x, first)
        if chosen.row == -1:  # a cluster, to which a click zooms
            near = replace(scene, state=chosen)
            half, state = pages.page(near, 160, 60).halves[side]
            x = half.shape.gutter + (middle - state.t0) * half.shape.cells // state.span
            chosen = pairs.click(pages.page(near, 160, 60), near, x, first)
        assert chosen.row == row
        shown = "\n".join(pages.page(replace(scene, state=chosen), 200, 60).canvas.lines())
        assert found.words.replace("\u202f", " ").replace("\u2009", " ") in shown


def test_keys_step_through_the_instructions_of_a_comparison():
    scene = compared()
    after = actions.act("next", scene, 100)
    assert (after.screen, after.row) == ("compare", scene.session.step(scene.state.row, 1))
    assert "→" in "\n".join(pages.page(replace(scene, state=after), 200, 60).canvas.lines()[-1:])


JOURNEY = {
    "open": ((), ("LATENCY-BOUND", "TensorE", "attention")),
    "zoom": (("w", "w"), ("in view",)),
    "search": (("slash", *"MATMUL"), ("Search", "of 211 match")),
    "card": (("full_stop",), ("time ", "#")),
    "follow": (("right_square_bracket", "left_square_bracket"), ("DMA_DIRECT2D  #3",)),
    "area": (("v", "d", "d", "d", "v"), ("Selection,",)),
    "roofline": (("o",), ("Roofline", "FLOP/s", "bf16")),
    "listing": (("L",), ("In view,", "start", "what")),
    "colour": (("c", "c", "c", "c"), ("opcode", "MATMUL")),
    "commands": (("colon", *"zoom"), ("Commands", "zoom in")),
    "memory": (("9",), ("SBUF",)),
    "wait": (("c", "c"), ("wait", "VectorE")),
}
"""What a visitor does, and what every screen then shows, whatever its size."""


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
def test_a_whole_visit_at_three_sizes(size):
    seen = {}

    async def script(app, pilot) -> None:
        await until(pilot, lambda: app.scene.judged)
        for name, (keys, expected) in JOURNEY.items():
            app.become(actions.start(app.scene.session, "engine"))
            await pilot.press(*keys)
            with suppress(AssertionError):
                await until(pilot, lambda e=expected: all(text in screen(app) for text in e), 20)
            assert [text for text in expected if text not in screen(app)] == [], name
            seen[name] = screen(app).split("\n")

    drive(script, trace=sample().trace, size=size)
    for name, shown in seen.items():
        assert len(shown) == size[1], name
        assert {width_of(line) for line in shown} == {size[0]}, name
    assert len({"\n".join(shown) for shown in seen.values()}) == len(JOURNEY), "every step shows another screen"


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
def test_a_comparison_and_what_ifs_at_three_sizes(size):
    for scene, expected in (
        (compared(), ("before", "after", "cause")),
        (wished("buffers=unlimited"), ("What if", "bound")),
    ):
        shown = pages.page(scene, *size).canvas.lines()
        assert len(shown) == size[1]
        assert {width_of(line) for line in shown} == {size[0]}
        assert all(text in "\n".join(shown) for text in expected)


def wished(line: str) -> Scene:
    return replace(scene("instruction", screen="what_if"), wish=answered(line))


def compared() -> Scene:
    other = ("buffers=unlimited", sample().supposed({"buffers": "unlimited"}))
    return replace(scene("instruction", screen="compare"), other=other)


@pytest.mark.parametrize("size", SIZES)
def test_the_answers_and_the_comparison_fit_every_size(size):
    table, pair = text(wished("buffers=unlimited hbm_bw=1x,2x"), size), text(compared(), size)
    assert table.count("buffers=unlimited, hbm_bw=") == 2
    assert "before" in pair and "after" in pair and "Δ" in pair
    assert all(len(line) == size[0] for line in (*table.splitlines(), *pair.splitlines()))


# --- the view as it was left ----------------------------------------------------------------------------------------


def test_a_trace_opens_as_it_was_left(tmp_path):
    file = tmp_path / "deep" / "views.json"

    async def leave(app, pilot) -> None:
        await pilot.press("w", "c", "p", "8", "q")

    async def look(app, pilot) -> None:
        assert "as you left it" in state(app).note

    first = drive(leave, kept=file)
    again = drive(look, kept=file)
    names = ("t0", "t1", "row", "colour", "pinned", "tab", "track")
    assert {n: getattr(state(first), n) for n in names} == {n: getattr(state(again), n) for n in names}


@pytest.mark.parametrize(
    "broken",
    ["", "[]", "{", '{"t0": 1}', "null"],
)
def test_a_file_that_is_damaged_is_passed_over(tmp_path, broken):
    file = tmp_path / "views.json"
    start = actions.start(sample(), "engine")
    file.write_text(broken)
    assert kept.restore(file, TRACE, sample(), start) == start
    kept.keep(file, TRACE, sample(), start)
    assert kept.restore(file, TRACE, sample(), start).note


def test_what_the_trace_no_longer_has_is_left_out(tmp_path):
    file, start = tmp_path / "views.json", actions.start(sample(), "engine")
    kept.keep(file, TRACE, sample(), replace(start, pinned=("gone", start.track), folded=("gone",), tab=99, row=10**7))
    found = kept.restore(file, TRACE, sample(), start)
    assert (found.pinned, found.folded, found.tab, found.row) == ((start.track,), (), 0, -1)
    views = json.loads(file.read_text())
    next(iter(views.values()))["instructions"] = 1
    file.write_text(json.dumps(views))
    assert kept.restore(file, TRACE, sample(), start) == start, "another trace by now"


def test_only_the_latest_traces_are_remembered_and_a_folder_of_no_use_keeps_nothing(tmp_path):
    file, start = tmp_path / "views.json", actions.start(sample(), "engine")
    for number in range(kept.MOST + 3):
        kept.keep(file, tmp_path / str(number), sample(), start)
    views = json.loads(file.read_text())
    assert len(views) == kept.MOST and str(tmp_path / "0") not in views
    blocked = tmp_path / "file"
    blocked.write_text("")
    kept.keep(blocked / "views.json", TRACE, sample(), start)
    assert kept.place({"XDG_STATE_HOME": "/state"}) == Path("/state/trnprof/views.json")
    assert kept.place({"HOME": "/home/me"}) == Path("/home/me/.local/state/trnprof/views.json")


# --- whole screens --------------------------------------------------------------------------------------------------

SCREENS = {
    "tui_advice_120x36": (120, 36, ("tab_7",)),
    "tui_path_80x24": (80, 24, ("tab_8", "colour", "colour", "colour")),
}


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_of_findings_is_the_same_character_by_character(name):
    width, height, done = SCREENS[name]
    compare(name, lines(after(Session(captured()), *done), width, height))


def test_a_page_without_its_answers_is_no_page():
    assert pages.page(scene("instruction", screen="compare"), 80, 24).canvas.width == 80
