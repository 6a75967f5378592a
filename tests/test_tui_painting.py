"""What the terminal view paints, without a terminal: cells, layout, hostile names, and whole screens as text."""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from sim.trace import Engine, Instructions, Meta, Strings, Trace
from tests.handmade import ins, make, move, vector
from tests.synthetic import attention
from trnprof.tui import actions, cells, ink, layout, pages
from trnprof.tui.canvas import Canvas, clipped, safe, width_of
from trnprof.tui.screen import Scene, clause
from trnprof.tui.svg import svg
from trnprof.view import Session
from trnprof.view.keys import keys_of

GOLDEN = Path(__file__).parent / "golden"
UPDATE = os.environ.get("TRNPROF_UPDATE_GOLDEN") == "1"

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202eevil\u202c\u200b\x00\x9b31m\r\n<script>\ud800日本éa\u0336\u20dd" + "x" * 10_000


@cache
def small(simulated: bool = False) -> Session:
    return Session(attention(simulated=simulated))


def after(session: Session, *done: str, colour: str = "engine") -> Scene:
    """The scene after some actions; `@5` selects row 5."""
    scene = Scene(session, actions.start(session, colour))
    for action in done:
        state = scene.state
        if action.startswith("@"):
            state = actions.select(session, state, int(action[1:]))
        else:
            state = actions.act(action, scene, 60)
        scene = replace(scene, state=state)
    return scene


def lines(scene: Scene, width: int, height: int, ascii_only: bool = False) -> list[str]:
    return pages.page(scene, width, height).canvas.lines(ascii_only)


# --- cells --------------------------------------------------------------------------------------------------------


def bars(*spans: tuple[float, float], width: int = 8, busy: float = 1.0, count: int = 1) -> str:
    start, end = (np.array([span[k] for span in spans], float) for k in (0, 1))
    drawn = cells.bars(start, end, np.full(len(spans), busy), np.full(len(spans), count), width)
    return "".join(chr(c) if c else " " for c in drawn.chars)


@pytest.mark.parametrize(
    ("spans", "picture"),
    [
        ([(1, 4)], " ███    "),
        ([(1, 4.5)], " ███▌   "),
        ([(1.5, 4)], " ▐██    "),
        ([(1.9, 4)], " ▕██    "),
        ([(2.25, 2.75)], "  ▄     "),
        ([(2.0, 2.001)], "  ▏     "),
        ([(2.1, 2.2), (2.5, 2.6)], "  ▂     "),
        ([(1, 2.5), (2.5, 4)], " █▉█    "),
        ([(-5, 20)], "████████"),
        ([(8, 9)], "        "),
    ],
)
def test_one_edge_in_a_cell_is_exact_to_an_eighth_and_several_spans_show_their_share(spans, picture):
    assert bars(*spans) == picture


def test_a_cluster_is_as_high_as_its_busy_share():
    assert bars((2, 3), busy=0.5, count=40) == "  ▄     "
    assert bars((2, 3), busy=0.001, count=2) == "  ▁     "


@given(st.lists(st.tuples(st.floats(0, 39.9), st.floats(0, 3)), max_size=30))
def test_no_cell_that_holds_a_span_is_blank(spans):
    spans = sorted(spans)
    start = np.array([a for a, _ in spans])
    end = start + np.array([d for _, d in spans])
    drawn = cells.bars(start, end, np.ones(len(spans)), np.ones(len(spans), int), 40)
    for a in start:
        assert drawn.chars[int(a)] not in (0, ord(" "))
    touched = {
        c for a, b in zip(start, end, strict=True) for c in range(int(a), min(40, int(np.ceil(max(b, a + 1e-9)))))
    }
    assert set(np.flatnonzero(drawn.chars)) <= touched


def test_an_area_fills_from_below_and_ends_at_the_top_of_its_scale():
    picture = cells.area(np.array([0.125, 0, 0.25, 0.5, 1, 0.75, 0, 0]), 2)
    text = ["".join(chr(c) if c else " " for c in row) for row in picture]
    assert text == ["  ⣧ ", "⡀⣼⣿ "]


def test_lanes_put_four_tracks_into_one_line():
    start, end = np.zeros(4), np.array([0.5, 1.0, 1.5, 2.0])
    assert "".join(map(chr, cells.lanes(np.arange(4), start, end, 2))) == "⣷⣄"


def test_a_gauge_shows_its_share_in_eighths():
    assert cells.gauge(0.53, 10) == ("█████▎", "░░░░")
    assert cells.gauge(7, 4) == ("████", "")


# --- text ---------------------------------------------------------------------------------------------------------


def test_hostile_text_loses_what_moves_a_cursor_or_turns_the_writing_direction():
    shown = safe(HOSTILE)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Mn")]
    assert "<script>" in shown
    assert shown.startswith("␛[2J")


@given(st.text(max_size=60), st.integers(-3, 40))
def test_clipped_text_never_takes_more_cells_than_it_may(text: str, room: int):
    assert width_of(clipped(text, room)) <= max(room, 0)
    assert cell_len(safe(clipped(text, room))) == width_of(clipped(text, room))


@given(st.lists(st.tuples(st.integers(-5, 25), st.integers(0, 2), st.text(max_size=12)), max_size=12))
def test_a_line_is_as_wide_as_the_canvas_whatever_is_written_over_what(writings):
    canvas = Canvas(20, 3)
    for x, y, text in writings:
        canvas.put(x, y, text)
    assert [cell_len(line) for line in canvas.lines()] == [20, 20, 20]
    assert all(line.isascii() and len(line) == 20 for line in canvas.lines(ascii_only=True))


def test_a_sentence_is_cut_at_a_clause_or_not_shown():
    text = "TensorE works 13.1 of 23.1 µs, 3.51 µs of it on transposes, beside it VectorE 33 %."
    assert clause(text, 60) == "TensorE works 13.1 of 23.1 µs, 3.51 µs of it on transposes"
    assert clause(text, 10) == ""
    assert clause("Memory, the busiest, is idle 3 of 5 µs", 12) == ""


# --- screens ------------------------------------------------------------------------------------------------------

SCREENS = {
    "tui_80x24": (80, 24, False, ("@6",)),
    "tui_120x36": (120, 36, False, ("@6",)),
    "tui_200x50": (200, 50, False, ("@6", "colour", "colour")),
    "tui_ascii_80x24": (80, 24, True, ("@6",)),
    "tui_roofline_120x36": (120, 36, False, ("roofline",)),
    "tui_help_80x24": (80, 24, False, ("help",)),
    "tui_area_120x36": (120, 36, False, ("@3", "area", "next", "area")),
}


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_the_same_character_by_character(name: str):
    width, height, ascii_only, done = SCREENS[name]
    compare(name, lines(after(small(), *done), width, height, ascii_only))


def compare(name: str, shown: list[str]) -> None:
    """With the screen as it was agreed on; `TRNPROF_UPDATE_GOLDEN=1 pytest tests/test_tui_painting.py` agrees anew."""
    text = "\n".join(line.rstrip() for line in shown) + "\n"
    path = GOLDEN / f"{name}.txt"
    if UPDATE:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{name}: another screen than tests/golden/{name}.txt"


def test_the_screen_of_a_real_profile_is_the_same_character_by_character(profiles: Path):
    session = Session.open(profiles / "trn2_attention" / "fused_fp32_s512.json")
    compare("tui_fused_120x36", lines(after(session, "@277"), 120, 36))


@settings(max_examples=60)
@given(
    width=st.integers(1, 240),
    height=st.integers(1, 70),
    done=st.lists(st.sampled_from([key.action for key in keys_of("terminal")]), max_size=8),
)
def test_any_keys_at_any_size_paint_a_full_screen(width: int, height: int, done: list[str]):
    scene = after(small(simulated=True), *done)
    for line in lines(scene, width, height):
        assert cell_len(line) == width


@pytest.mark.parametrize(("width", "height"), [(39, 24), (80, 9)])
def test_a_terminal_that_is_too_small_is_told_so(width: int, height: int):
    assert any("too small" in line for line in lines(after(small()), width, height))


def test_below_60_columns_the_card_gives_way_to_the_tracks():
    text = "\n".join(lines(after(small(), "@6"), 55, 15))
    assert "I-6-0" not in text
    assert "TensorE" in text


def test_hostile_names_are_shown_as_text_on_every_page():
    session = Session(attention(names={"MATMUL": HOSTILE, "ACTIVATE": HOSTILE}))
    pages_ = [("@3",), ("@6", "fit"), ("roofline",), ("@3", "tab_6"), ("@3", "area", "next", "area"), ("help",)]
    for done in pages_:
        for width, height in ((80, 24), (200, 50)):
            for line in lines(after(session, *done), width, height):
                assert cell_len(line) == width
                assert not [c for c in line if unicodedata.category(c) in ("Cc", "Cf", "Cs")]


def test_traces_with_next_to_nothing_are_shown():
    one = Instructions(id=np.array([1]), start_ps=np.array([5]), end_ps=np.array([5]), engine=np.array([0]))
    for instructions in (Instructions(0), one):
        session = Session(Trace(Meta(False, "unknown", "nothing"), Strings(), instructions))
        for done in ((), ("next", "zoom_in", "roofline"), ("track_down", "area", "home", "home", "tab_3")):
            assert len(lines(after(session, *done), 120, 36)) == 36


def test_a_selected_bar_shows_however_short_it_is():
    session = Session(make([vector(50 * k, 10, 64) for k in range(2000)]))
    picture = pages.page(after(session, "@1000", "home", "home"), 80, 24)
    first, last, _ = next(row for row in picture.rows if row[2].name == "VectorE")
    chosen = picture.canvas.inks[first:last, picture.shape.gutter :] & ink.SELECTED
    assert (chosen > 0).sum() == last - first


def test_hits_of_a_search_are_underlined_until_it_is_cleared():
    scene = after(small(), "@5")
    hits = small().search("matmul")
    shown = actions.act("next_hit", replace(scene, hits=hits), 80)
    for state, expected in ((shown, True), (actions.act("clear", replace(scene, state=shown), 80), False)):
        inks = pages.page(Scene(small(), state, hits), 120, 36).canvas.inks
        assert bool((inks & ink.UNDERLINE).any()) == expected


def test_idle_time_names_its_cause_when_colour_means_wait():
    text = "\n".join(lines(after(small(), colour="wait"), 120, 36))
    assert "╌ VectorE ╌" in text
    assert "╌ VectorE ╌" not in "\n".join(lines(after(small()), 120, 36))


def test_a_region_never_shows_half_a_name():
    for width in range(60, 200, 7):
        picture = pages.page(after(small(), "@6"), width, 40)
        first, last, _ = next(row for row in picture.rows if row[2].kind == "regions")
        gutter, cells_ = picture.shape.gutter, picture.shape.cells
        for y in range(first, last):
            for name in re.findall(r"[^─├┤│ ][^─├┤│]*", picture.canvas.line(y)[gutter : gutter + cells_]):
                assert re.fullmatch(r"(attention|load|Q·Kᵀ|row max|exp|store)( [\d.]+ [µn]s)?", name.strip()), name


# --- layout -------------------------------------------------------------------------------------------------------


def test_what_is_worth_most_is_shown_where_lines_are_few():
    state = actions.start(small(), "engine")
    tracks = layout.visible(small().tracks(), state)
    kinds = [row.track.kind for row in layout.plan(tracks, 6, state)]
    assert kinds[:2] == ["bound", "regions"]
    assert "instructions" in kinds
    shown = {row.track.id for height in range(1, 60) for row in layout.plan(tracks, height, state)}
    assert shown == {track.id for track in tracks}


@given(st.integers(1, 80))
def test_the_plan_fills_no_more_lines_than_there_are(height: int):
    rows = layout.plan(small().tracks(), height, actions.start(small(), "engine"))
    assert sum(row.lines + row.air for row in rows) <= height


def test_the_selected_track_is_on_the_screen_however_small_it_is():
    for track in small().tracks():
        state = replace(actions.start(small(), "engine"), track=track.id)
        assert track.id in [row.track.id for row in layout.plan(small().tracks(), 4, state)]


def test_the_regions_unfold_to_all_their_levels_when_they_are_selected():
    state = actions.start(small(), "engine")
    track = next(track for track in small().tracks() if track.kind == "regions")
    lines_of = {}
    for chosen in ("", track.id):
        plan = layout.plan(small().tracks(), 9, replace(state, track=chosen))
        lines_of[chosen] = next(row.lines for row in plan if row.track.id == track.id)
    assert lines_of[""] < lines_of[track.id] == track.lanes


# --- inks and pictures --------------------------------------------------------------------------------------------


def test_every_ink_has_a_style_at_every_depth_and_theme():
    for depth in ink.DEPTHS:
        for theme in ("dark", "light", "contrast"):
            well = ink.Inkwell(theme, depth)
            for code in range(len(ink.INKS)):
                for flags in (0, ink.ALT, ink.SELECTED, ink.LABEL | ink.ALT, ink.REVERSE, ink.BOLD | ink.UNDERLINE):
                    style = well.style(code | flags)
                    assert (style.color is None) == (depth == "none")


def test_neighbours_differ_in_tint_only_where_they_touch():
    well = ink.Inkwell("dark", "truecolor")
    assert well.style(ink.ENGINE).color != well.style(ink.ENGINE | ink.ALT).color
    assert ink.Inkwell("dark", "16").style(ink.ENGINE) == ink.Inkwell("dark", "16").style(ink.ENGINE | ink.ALT)


def test_the_svg_draws_blocks_as_shapes_and_escapes_names():
    canvas = Canvas(12, 1)
    canvas.put(0, 0, "<b>&█▌⣿", ink.TEXT)
    text = svg(canvas, ink.Inkwell("light", "truecolor"), "<t>", "&c")
    assert "&lt;b&gt;&amp;" in text
    assert "█" not in text
    assert text.count("<rect") == 3
    assert text.count("M") >= 8


# --- real profiles ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["trn2_attention/fused_fp32_s512.json", "inf2_matmul/profile_128x128x512.json"]
)  # fmt: skip
def test_a_real_profile_fills_the_screen_and_every_instruction_can_be_reached(profiles: Path, name: str):
    session = Session.open(profiles / name)
    scene = after(session)
    text = "\n".join(lines(scene, 120, 36))
    assert "-BOUND" in text.splitlines()[1]
    for engine in ("TensorE", "ScalarE", "GpSimdE"):
        assert engine in text
    assert any(0x2800 < ord(char) < 0x2900 for char in text)
    row, seen = scene.state.row, 0
    while row != -1 and seen < 50:
        scene = replace(scene, state=actions.select(session, scene.state, row))
        assert session.card(row).title[:20] in "\n".join(lines(scene, 120, 36))
        row, seen = session.step(row, 1), seen + 1
    assert seen > 10


@pytest.mark.parametrize("device", ["trn1", "trn2", "trn3"])
def test_the_roofline_of_work_without_matmuls_fits_every_screen(device: str):
    rows = [vector(0, 2000, 262_144), ins(Engine.SCALAR, 0, 1000, elements=131_072)]
    trace = make(rows, [move(0, 2000, 700_000)], device=device, is_simulation=True)
    scene = after(Session(trace), "roofline")
    for width, height in [(w, h) for w in (40, 60, 80, 81, 100, 140, 240) for h in (10, 24, 36, 60)]:
        shown = lines(scene, width, height)
        assert len(shown) == height
        assert all(cell_len(line) <= width for line in shown)


def test_the_advice_tab_says_what_to_change_or_that_nothing_is_wrong():
    from trnprof.tui import findings

    loads = [vector(2000 * k, 300, 64, source="k.py:1") for k in range(20)]
    quiet = findings.advice(Session(make(loads[:1])).advice(retime=False), 0, 30, 80)
    assert "".join(text for line in quiet for text, _ in line) == "No rule has a complaint."
    cards = Session(make([vector(160 * k, 150, 4) for k in range(50)])).advice(retime=False)
    told = findings.advice(cards, 0, 8, 60)
    shown = ["".join(text for text, _ in line) for line in told]
    assert shown[0].startswith("▸ 1 Give VectorE longer tiles")
    assert any(line.strip().startswith("Do: join them") for line in shown)
    assert max(map(len, shown[1:])) <= 60
