"""The terminal view, driven by keys and pointer through Textual's pilot."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from sim.errors import InputError, UsageError
from sim.trace import Trace
from tests.handmade import make, vector
from tests.synthetic import attention
from trnprof.tui import actions, ink, run
from trnprof.tui.app import KEYS, OWN, TerminalApp
from trnprof.tui.shelf import Shelf, page
from trnprof.view import Session
from trnprof.view.colours import COLOURS
from trnprof.view.keys import commands_of, keys_of
from trnprof.view.places import Place

US = 1_000_000
SAMPLE = Path(__file__).resolve().parent.parent / "traces" / "attention"
Script = Callable[[TerminalApp, Pilot], Awaitable[None]]


@cache
def small() -> Session:
    """One session for all tests that only look."""
    return Session(attention())


def drive(script: Script, trace: Trace | None = None, size: tuple[int, int] = (120, 36), **options) -> TerminalApp:
    """Open a trace, wait for its picture, run the script and leave."""
    app = TerminalApp("attention.json", opener=lambda: Session(trace) if trace else small(), **options)

    async def go() -> None:
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.scene is not None or app.fault is not None)
            await script(app, pilot)

    asyncio.run(go())
    return app


async def until(pilot: Pilot, met: Callable[[], bool], seconds: float = 120) -> None:
    """Wait for what a thread beside the screen brings; the first time it may compile."""
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, "waited in vain"
        await pilot.pause(0.01)


def press(*keys: str, **options) -> TerminalApp:
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        await pilot.press(*keys)

    return drive(script, **options)


def screen(app: TerminalApp) -> str:
    return "\n".join(app.picture.canvas.lines(app.ascii_only))


def state(app: TerminalApp):
    return app.scene.state


def typed(text: str) -> list[str]:
    names = {
        " ": "space",
        ".": "full_stop",
        "(": "left_parenthesis",
        "|": "vertical_line",
        ":": "colon",
        "*": "asterisk",
    }
    return [names.get(char, char) for char in text]


# --- opening ------------------------------------------------------------------------------------------------------


def test_it_opens_fitted_to_the_kernel_with_the_first_instruction_of_the_work_selected():
    app = press()
    session = app.scene.session
    assert (state(app).t0, state(app).t1) == session.home
    assert state(app).row == session.first_in(*session.home) >= 0
    assert session.card(state(app).row).title in screen(app)


def test_it_shows_at_once_what_it_reads_and_for_how_long():
    seen = []

    looked = threading.Event()

    def slow() -> Session:
        looked.wait(60)
        return Session(attention())

    app = TerminalApp("kernel.json", opener=slow)

    async def go() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause(0.1)
            seen.append("\n".join(app.canvas.lines()))
            looked.set()
            await until(pilot, lambda: app.scene is not None)

    asyncio.run(go())
    assert "kernel.json  reading" in seen[0]
    assert re.search(r"\d\.\d s", seen[0])
    assert "COMPUTE-BOUND" not in seen[0]


def test_a_file_that_cannot_be_read_is_named_with_its_fault_and_ends_with_exit_code_1():
    def broken() -> Session:
        raise InputError("profile.json stops in the middle of an instruction")

    app = TerminalApp("profile.json", opener=broken)

    async def go() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.fault is not None)
            await pilot.pause()
            text = "\n".join(app.canvas.lines())
            assert "not opened" in text
            assert "stops in the middle of an instruction" in text
            await pilot.press("q")

    asyncio.run(go())
    assert app.return_value == 1


def test_without_a_terminal_it_says_what_to_use_instead(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(UsageError, match="summary"):
        run("attention.json")


def test_q_leaves_with_exit_code_0_and_control_c_as_an_interrupt():
    assert press("q").return_value == 0
    assert press("ctrl+c").return_value == 130


def test_captured_and_estimated_data_are_told_apart_in_words():
    captured, emulated = screen(press()), screen(press(trace=attention(simulated=True)))
    assert "captured" in captured.splitlines()[0]
    assert "~" not in captured.splitlines()[0]
    assert "~emulated" in emulated.splitlines()[0]
    assert re.search(r"time .*~\d", emulated)


# --- keys ---------------------------------------------------------------------------------------------------------


def test_every_command_of_the_table_does_something_here():
    for key in commands_of("terminal"):
        own = key.action.startswith("theme_") or key.action in OWN
        assert key.action in actions.ACTIONS or own, key.action
        assert all(KEYS[name] == key.action for name in key.terminal)


def test_zooming_holds_the_cursor_in_its_column_and_stops_at_the_floor_and_the_ceiling():
    app = press("w", "w")
    session, seen = app.scene.session, state(app)
    share = (seen.cursor - seen.t0) / seen.span
    before = press()
    assert share == pytest.approx((state(before).cursor - state(before).t0) / state(before).span, abs=0.01)
    assert seen.span == pytest.approx(0.49 * state(before).span, rel=0.01)
    assert state(press(*["w"] * 60)).span == 5_000
    low, high = session.extent
    assert state(press(*["s"] * 20)).span == pytest.approx(1.1 * (high - low), rel=0.01)


def test_panning_moves_by_whole_cells():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        cell = state(app).span / app.picture.shape.cells
        before = state(app).t0
        await pilot.press("w", "d")
        after_zoom = state(app)
        cell = after_zoom.span / app.picture.shape.cells
        await pilot.press("d")
        moved = (state(app).t0 - after_zoom.t0) / cell
        assert moved == pytest.approx(round(moved), abs=0.01)
        assert 0.1 < moved / app.picture.shape.cells < 0.2
        await pilot.press("a", "a", "left", "right")
        assert before <= state(app).t0 < after_zoom.t0

    drive(script)


def test_0_shows_the_kernel_window_and_again_the_whole_trace():
    app = press("w", "0")
    assert (state(app).t0, state(app).t1) == app.scene.session.home
    low, high = app.scene.session.extent
    whole = state(press("0"))
    assert whole.t0 <= low
    assert whole.t1 >= high


def test_full_stop_and_comma_walk_the_track_and_say_where_it_ends():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        await pilot.press("g", *typed("I-3-0"), "enter", "full_stop")
        assert state(app).row == 4
        await pilot.press("comma")
        assert state(app).row == 3
        await pilot.press("full_stop", "full_stop", "full_stop")
        assert state(app).row == 7
        assert "last on this track" in screen(app)

    drive(script)


def test_brackets_walk_the_binding_dependency():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        session = app.scene.session
        await pilot.press("g", *typed("I-6-0"), "enter")
        assert state(app).row == 6
        await pilot.press("left_square_bracket")
        assert state(app).row == session.follow(6, -1) == 5
        await pilot.press("right_square_bracket")
        assert state(app).row == session.follow(5, 1) == 6

    drive(script)


def test_up_and_down_go_through_the_tracks_and_keep_the_time():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        await pilot.press("g", *typed("16.6"), "enter")
        tracks = [track.id for track in app.scene.session.tracks()]
        await pilot.press("down")
        first = state(app).track
        await pilot.press("down")
        assert tracks.index(state(app).track) == tracks.index(first) + 1
        assert abs(state(app).cursor - 16.6 * US) < 1 * US
        await pilot.press("up")
        assert state(app).track == first

    drive(script)


def test_idle_time_answers_what_it_waits_for():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        vector = next(t for t in app.scene.session.tracks() if t.name == "VectorE")
        app.become(actions.at(app.scene.session, state(app), vector, 15 * US))
        assert state(app).gap
        assert "Idle" in screen(app)
        assert "TensorE" in screen(app)
        await pilot.press("full_stop")
        assert state(app).row == 5

    drive(script)


def test_v_twice_makes_an_area_with_its_verdict_and_engines():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        await pilot.press("g", *typed("I-3-0"), "enter", "v", "full_stop", "v")
        card = app.scene.session.area(*state(app).area)
        assert state(app).area == (15 * US, 19 * US)
        assert card.title.split(",")[0] in screen(app)
        assert card.verdict.title in screen(app)
        await pilot.press("escape")
        assert state(app).area is None

    drive(script)


def test_f_fits_the_selection_and_says_when_there_is_none():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        await pilot.press("g", *typed("I-4-0"), "enter", "f")
        assert state(app).t0 <= 16.5 * US < 19 * US <= state(app).t1
        assert state(app).span < 4 * US
        await pilot.press("escape", "f")
        assert "nothing selected" in screen(app)

    drive(script)


def test_marks_are_set_and_cleared():
    marked = press("m", "d", "m")
    assert len(state(marked).marks) == 2
    assert "◆" in screen(marked).splitlines()[3]
    assert state(press("m", "M")).marks == ()


def test_c_goes_round_the_meanings_of_colour_and_the_picture_follows():
    inks = []
    for count in range(len(COLOURS) + 1):
        app = press(*["c"] * count)
        assert state(app).colour == (*COLOURS, COLOURS[0])[count]
        inks.append(app.picture.canvas.inks.copy())
    assert (inks[0] == inks[-1]).all()
    assert (inks[0] != inks[1]).any()
    assert (inks[1] != inks[2]).any()


def test_a_legend_says_what_colours_mean_and_shows_one_alone():
    shown = press(*["c"] * 4)
    assert "opcode  ■ MATMUL 54" in screen(shown)
    alone = press(*["c"] * 4, "C", "C")
    second = small().legend("opcode")[1]
    assert state(alone).only == (second.colour,)
    assert f"only {second.name}" in screen(alone)
    everything = [row.colour for row in small().legend("opcode")]
    assert state(press(*["c"] * 4, *["C"] * (len(everything) + 1))).only == ()
    assert state(press(*["c"] * 4, "C", "escape")).only == ()


def test_colon_lists_every_command_and_runs_the_chosen_one():
    listed = press("colon")
    assert f"{len(commands_of('terminal'))} of {len(commands_of('terminal'))}" in screen(listed)
    ran = press("colon", *typed("source line"), "enter")
    assert (state(ran).colour, state(ran).overlay) == ("line", "")
    moved = press("colon", *typed("colour by"), "down", "down", "enter")
    assert state(moved).colour == "wait"
    assert press("colon", *typed("contrast"), "enter").inkwell.theme == "contrast"
    assert press("colon", *typed("quit"), "enter").return_code == 0
    none = press("colon", *typed("no such thing"))
    assert "no command says that" in screen(none)
    assert state(press("colon", *typed("opcode"), "escape")).colour == "engine"


def test_what_is_in_view_is_listed_and_leads_back():
    listed = press("L")
    assert state(listed).screen == "listing"
    assert "In view," in screen(listed)
    assert "LDWEIGHTS" in screen(listed)
    rows = small().listing(state(listed).t0, state(listed).t1).rows
    moved = press("L", "up", "up", "up", "up", "down", "down")
    assert state(moved).item == 2
    chosen = press("L", *["up"] * 20, "down", "down", "enter")
    kind = "row" if rows[2].kind == "instruction" else "transfer"
    assert (state(chosen).screen, getattr(state(chosen), kind)) == ("timeline", rows[2].row)
    assert state(press("L", "escape")).screen == "timeline"


def test_rows_in_view_are_saved_as_csv(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def script(app: TerminalApp, pilot: Pilot) -> None:
        await pilot.press("E")
        await until(pilot, lambda: "saved" in state(app).note)

    app = drive(script)
    saved = (tmp_path / "trnprof-attention.csv").read_text(encoding="utf-8")
    assert saved == "".join(small().written(state(app).t0, state(app).t1)).replace("\r\n", "\n")


def test_a_folder_of_several_traces_is_listed_and_one_is_opened(tmp_path: Path):
    for name in ("first", "second"):
        shutil.copytree(SAMPLE, tmp_path / "runs" / name)
    memory = tmp_path / "recent.json"
    app = TerminalApp(tmp_path / "runs", memory=memory)

    async def go() -> None:
        async with app.run_test(size=(100, 20)) as pilot:
            await until(pilot, lambda: app.shelf is not None)
            shown = "\n".join(app.canvas.lines(False))
            assert "first" in shown
            assert "second" in shown
            assert "2 of 2" in shown
            await pilot.press(*typed("sec"), "enter")
            await until(pilot, lambda: app.scene is not None)
            assert app.path == tmp_path / "runs" / "second"
            await pilot.press("O")
            assert [place.name for place in app.shelf.places] == ["first", "second"]
            await pilot.press("escape")
            assert app.shelf is None
            assert app.scene is not None
            await pilot.press("O", *typed(str(tmp_path / "nowhere").replace("/", "/")), "enter")
            await until(pilot, lambda: app.fault is not None)
            assert "no such trace" in " ".join(" ".join(app.canvas.lines(False)).split())
            await pilot.press("O", "enter")
            await until(pilot, lambda: app.scene is not None)
            assert app.path == tmp_path / "runs" / "first"

    asyncio.run(go())


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50), (40, 10)])
def test_the_list_of_traces_fits_every_size_and_shows_hostile_names_as_text(size):
    places = tuple(
        Place(f"/{k}", f"\x1b[31m\u202e{'x' * 300}{k}", "/a\nb" * 50, "1 MiB", "just now") for k in range(60)
    )
    canvas = page(*size, Shelf("\x1b]0;evil\x07", places, at=59, typed="x"))
    lines = canvas.lines(False)
    assert len(lines) == size[1]
    assert not re.search(r"[\x00-\x1f\u202e]", "".join(lines))
    assert any(line.rstrip() for line in lines)


def test_number_keys_open_the_tabs_and_backslash_takes_the_panel_away():
    for key, word in zip("12345", ("time", "-bound", "busy", "FLOP", "region"), strict=True):
        assert word in "\n".join(screen(press(key)).splitlines()[-10:]), key
    assert not state(press("backslash")).panel
    assert "I-1-0" not in screen(press("backslash"))


def test_the_time_of_source_lines_is_added_up_beside_the_screen():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        assert "source" not in app.scene.known
        await pilot.press("6")
        await until(pilot, lambda: "source" in app.scene.known)
        assert "attention.py:18" in screen(app)

    drive(script)


def test_tracks_are_pinned_hidden_folded_and_moved():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        names = [row[2].id for row in app.picture.rows]
        await pilot.press("p")
        pinned = state(app).track
        assert app.picture.rows[0][2].id == pinned
        await pilot.press("p", "K")
        assert [row[2].id for row in app.picture.rows].index(pinned) == names.index(pinned) - 1
        await pilot.press("x")
        assert pinned not in [row[2].id for row in app.picture.rows]
        await pilot.press("x")
        assert state(app).hidden == ()
        await pilot.press("down", "space")
        assert len(app.picture.rows) < len(names)

    drive(script)


# --- finding ------------------------------------------------------------------------------------------------------


def test_search_counts_while_typing_and_n_steps_through_the_hits():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        await pilot.press("slash", *typed("matmul"))
        await until(pilot, lambda: app.scene.hits is not None and app.scene.hits.pattern == "matmul")
        assert app.scene.hits.count == 3
        assert "3 of 10 match" in screen(app)
        await pilot.press("enter")
        assert state(app).overlay == ""
        rows = [state(app).row]
        for _ in range(3):
            await pilot.press("n")
            rows.append(state(app).row)
        assert rows == [3, 4, 7, 3]
        await pilot.press("N")
        assert state(app).row == 7
        assert "3 of 3" in screen(app)

    drive(script)


def test_a_broken_pattern_shows_its_fault_and_keeps_the_last_hits():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        await pilot.press("slash", *typed("matmul"))
        await until(pilot, lambda: app.scene.hits is not None and app.scene.hits.pattern == "matmul")
        await pilot.press(*typed("("))
        await until(pilot, lambda: bool(app.scene.hits.error))
        assert app.scene.hits.count == 3
        assert "Search: " in screen(app)
        assert "I-4-0" in screen(app)

    drive(script)


def test_escape_returns_to_where_the_search_began():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        before = state(app)
        await pilot.press("slash", *typed("exp"))
        await until(pilot, lambda: app.scene.hits is not None and app.scene.hits.pattern == "exp")
        await pilot.press("down")
        assert state(app).row == 6
        await pilot.press("escape")
        assert (state(app).row, state(app).t0, state(app).overlay) == (before.row, before.t0, "")

    drive(script)


@pytest.mark.parametrize(("text", "row"), [("I-5-0", 5), (":16", 6), ("#104", 4)])
def test_g_goes_to_an_id_or_a_line(text: str, row: int):
    assert state(press("g", *typed(text), "enter")).row == row


def test_g_goes_to_a_moment_and_stays_open_where_there_is_none():
    assert abs(state(press("w", "g", *typed("21.5"), "enter")).cursor - 21.5 * US) < 1000
    lost = press("g", *typed("nowhere"), "enter")
    assert state(lost).overlay == "goto"
    assert "nothing is called nowhere" in screen(lost)


def test_t_finds_a_track_by_its_name():
    app = press("t", *typed("scal"), "enter")
    assert next(t.name for t in app.scene.session.tracks() if t.id == state(app).track) == "ScalarE"


# --- pages --------------------------------------------------------------------------------------------------------


def test_help_lists_every_key_of_the_table():
    text = screen(press("question_mark"))
    for key in keys_of("terminal"):
        if not key.action.startswith("tab_"):
            assert key.shown[0] in text, key.action
    assert state(press("question_mark", "question_mark")).overlay == ""


def test_help_that_is_longer_than_the_screen_scrolls_to_its_last_line():
    size = (60, 20)
    assert "more line" in screen(press("question_mark", size=size))
    assert "quit" in screen(press("question_mark", *["down"] * 60, size=size))


def test_a_dot_of_the_roofline_leads_to_its_time_in_the_timeline():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        await pilot.press("o")
        dots = app.scene.session.dots()
        for dot in dots[:3]:
            assert dot.name in screen(app)
        await pilot.press("tab", "enter")
        assert state(app).screen == "timeline"
        assert state(app).area == (dots[1].t0_ps, dots[1].t1_ps)
        await pilot.press("o", "escape")
        assert state(app).screen == "timeline"

    drive(script)


def test_e_saves_the_screen_as_svg_that_asks_nobody_and_never_overwrites(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = press("e", "e")
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["trnprof-attention-2.svg", "trnprof-attention.svg"]
    assert "saved trnprof-attention-2.svg" in screen(app)
    text = files[1].read_text(encoding="utf-8")
    root = ET.fromstring(text)
    words = "".join(root.itertext())
    assert "TensorE" in words
    assert "captured on trn2" in words
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}


def test_a_folder_that_cannot_be_written_is_told_on_the_status_line(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        Path, "touch", lambda self, exist_ok=True: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
    )
    assert "not saved: Permission denied" in screen(press("e"))


def test_y_copies_the_card_as_json():
    app = press("y")
    card = json.loads(app.clipboard)
    assert card["row"] == state(app).row
    assert card["title"] in screen(app)


# --- pointer ------------------------------------------------------------------------------------------------------


def column(app: TerminalApp, at: float) -> int:
    seen = state(app)
    return app.picture.shape.gutter + int((at * US - seen.t0) / seen.span * app.picture.shape.cells)


def line(app: TerminalApp, name: str) -> int:
    return next(first for first, _, track in app.picture.rows if track.name == name)


def test_a_click_selects_a_bar_idle_time_or_a_region():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        await pilot.click(offset=(column(app, 20.5), line(app, "ScalarE")))
        assert state(app).row == 6
        await pilot.click(offset=(column(app, 16), line(app, "ScalarE")))
        assert state(app).gap
        regions = next(first for first, _, track in app.picture.rows if track.kind == "regions")
        await pilot.click(offset=(column(app, 12), regions))
        assert state(app).area == (10 * US, 25 * US)

    drive(script)


def test_a_click_on_a_cluster_zooms_to_it():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        await pilot.press("0")
        before = state(app).span
        frame = app.picture.frame
        vector = frame.tracks.index("c0.vector")
        cluster = next(k for k in range(len(frame)) if frame.track[k] == vector and frame.row[k] < 0)
        await pilot.click(offset=(column(app, float(frame.start_ps[cluster]) / US), line(app, "VectorE")))
        assert state(app).span < before

    drive(script, trace=crowded())


def crowded() -> Trace:
    """Instructions of 10 ns, twenty a microsecond: no cell shows one alone."""
    return make([vector(1000 * k / 20, 10, 64) for k in range(2000)])


def test_the_wheel_zooms_at_the_pointer():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        x = column(app, 20)
        before = state(app)

        def scroll(kind, shift=False):
            return kind(app.panes[1], x, line(app, "VectorE"), 0, 0, 0, shift, False, False, x, line(app, "VectorE"))

        app.on_mouse_scroll_up(scroll(events.MouseScrollUp))
        assert state(app).span < before.span
        assert abs(column(app, 20) - x) <= 1
        app.on_mouse_scroll_down(scroll(events.MouseScrollDown, shift=True))
        assert state(app).t0 > before.t0

    drive(script)


# --- terminals ----------------------------------------------------------------------------------------------------


def test_only_lines_that_changed_are_painted_again(monkeypatch):
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        regions = []
        for pane in app.panes:
            monkeypatch.setattr(pane, "refresh", lambda *where, **_: regions.extend(where))
        await pilot.press("m")
        assert 0 < len(regions) <= 4
        assert all(region.height == 1 for region in regions)

    drive(script)


def test_no_colour_leaves_none_and_still_shows_the_selection():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        styles = [segment.style for pane in app.panes for y in range(36) for segment in pane.render_line(y)]
        assert all(style.color is None and style.bgcolor is None for style in styles)
        assert any(style.reverse for style in styles)
        assert "▸" in screen(app)

    drive(script, depth="none")


def test_sixteen_colours_are_the_terminals_own():
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        styles = [segment.style for pane in app.panes for y in range(36) for segment in pane.render_line(y)]
        assert all(style.color.number is None or style.color.number < 16 for style in styles if style.color)
        assert all(style.bgcolor is None for style in styles)
        assert app.native_ansi_color
        await pilot.press("T")
        assert "own colours" in screen(app)

    drive(script, depth="16")


@pytest.mark.parametrize(
    ("environ", "depth"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "tmux-256color"}, "256"),
        ({"TERM": "linux"}, "16"),
        ({"TERM": "dumb"}, "none"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "256"),
    ],
)
def test_the_depth_of_colour_is_what_the_terminal_says(environ: dict[str, str], depth: str):
    assert ink.detect(environ) == depth


@pytest.mark.parametrize(
    ("environ", "can"),
    [
        ({}, True),
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"LANG": "C"}, False),
    ],
)
def test_a_locale_without_utf_8_gets_ascii(environ: dict[str, str], can: bool):
    assert ink.speaks_utf8(environ) == can


def test_the_theme_key_goes_round_dark_light_and_contrast():
    assert [press(*["T"] * count).inkwell.theme for count in range(4)] == ["dark", "light", "contrast", "dark"]


def test_a_trace_that_goes_away_while_open_is_told_and_nothing_breaks(monkeypatch):
    async def script(app: TerminalApp, pilot: Pilot) -> None:
        def gone(*_: object) -> None:
            raise FileNotFoundError(2, "No such file or directory", "trace/Instruction.parquet")

        monkeypatch.setattr(app.scene.session, "frame", gone)
        await pilot.press("w")
        assert app.scene is None
        assert "Instruction.parquet" in "\n".join(app.canvas.lines())

    drive(script)
