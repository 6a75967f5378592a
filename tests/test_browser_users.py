"""The web view as several people and odd traces use it, in a real Chromium."""

from __future__ import annotations

import pytest

from tests.synthetic import US
from tests.test_browser import NAMES, address, browser, screen  # noqa: F401
from trnprof.view import Session

pytestmark = pytest.mark.browser


def test_two_users_look_at_two_traces_at_once_without_mixing(screen):  # noqa: F811
    one, two = screen("?trace=kernel"), screen("?trace=sample#colour=opcode")
    for _ in range(4):
        one.press(".")
        two.press(".")
        two.press("w")
        one.press("d")
        one.page.wait_for_timeout(60)
        two.page.wait_for_timeout(60)
    one.until("trnprof.timeline.chosen && !trnprof.timeline.frames.busy")
    two.until("trnprof.timeline.chosen && !trnprof.timeline.frames.busy")
    assert one.value("trnprof.timeline.start.title") == two.value("trnprof.timeline.start.title") == "attention"
    assert (one.value("trnprof.timeline.start.estimated"), two.value("trnprof.timeline.start.estimated")) == (
        False,
        True,
    )
    assert one.value("trnprof.timeline.chosen.id").startswith("I-")
    assert two.value("trnprof.timeline.chosen.id").startswith("#")
    assert (one.value("trnprof.timeline.colour"), two.value("trnprof.timeline.colour")) == ("engine", "opcode")
    one.press("/")
    one.page.keyboard.type("MATMUL")
    two.press("/")
    two.page.keyboard.type("COPY")
    one.page.wait_for_selector("#hits:has-text('3 of 10')")
    two.page.wait_for_selector("#hits:has-text('of 211')")
    one.panel("ACTIVATE" if "ACTIVATE" in one.value("trnprof.timeline.chosen.title") else "Start")


def test_a_trace_that_is_deleted_while_open_is_said_to_be_gone_and_the_picture_stays(screen, monkeypatch):  # noqa: F811
    tab = screen()
    tab.click("c0.scalar", 20.5 * US)
    tab.chosen(6)
    bucket = tab.value("trnprof.timeline.frame.bucket")

    def gone(*args, **options):
        raise FileNotFoundError(2, "No such file or directory", "kernel.json")

    monkeypatch.setattr(Session, "frame", gone)
    monkeypatch.setattr(Session, "card", gone)
    tab.press(*["w"] * 6)
    tab.page.wait_for_selector("#notice:not([hidden]):has-text('No such file')")
    assert tab.value("trnprof.timeline.frame.bucket") == bucket, "the stretched old picture"
    tab.press(".")
    tab.page.wait_for_timeout(300)
    monkeypatch.undo()
    tab.faults.clear()  # the refusals are answers of 404, which Chromium notes as errors of the console
    tab.press("s")
    tab.until("trnprof.timeline.frame.bucket !== " + str(bucket) + " && !trnprof.timeline.frames.busy")


@pytest.mark.parametrize("name", ["empty", "one"])
def test_a_trace_of_next_to_nothing_is_shown_on_every_tab_and_page(screen, name):  # noqa: F811
    tab = screen(f"?trace={name}", width=1000)
    for key in "123456789":
        tab.press(key)
        tab.page.wait_for_timeout(80)
    tab.press("w", "s", "0", ".", ",", "]", "[", "f", "c", "c", "c", "c", "C", "m", "M")
    for key in ("o", "L", "i", "O"):
        tab.press(key)
        tab.page.wait_for_timeout(250)
        tab.value("document.activeElement.blur()")
        tab.press("Escape")
    tab.page.wait_for_timeout(300)
    assert tab.page.is_visible("main")
    expected = f"{'no' if name == 'x' else {'empty': 0, 'one': 1}[name]} instruction"
    assert expected in tab.page.inner_text("footer.status")


def test_hostile_names_are_text_in_legend_table_palette_and_trace_list(screen):  # noqa: F811
    tab = screen("?trace=hostile#colour=opcode")
    tab.page.wait_for_selector("#legend button")
    tab.press("L")
    tab.page.wait_for_selector("#listing tbody tr")
    assert tab.page.locator("#listing img").count() == 0
    text = tab.page.inner_text("#listing")
    assert NAMES["MATMUL"][:20] in text
    assert not set("\x00\x07\x1b\u202e") & set(text + tab.page.inner_text("#legend"))
    assert max(map(len, text.splitlines())) < 400
    assert tab.value("window.hacked") is None


def test_a_model_on_several_cores_shows_its_levels_and_finds_them(screen):  # noqa: F811
    tab = screen("?trace=model#colour=operator")
    tab.page.wait_for_selector("#legend button:has-text('mlp')")
    rows = tab.value("trnprof.timeline.rows.filter(r => r.kind === 'group').map(r => r.name)")
    assert {"Regions, core 0", "Engines, core 1", "Collectives, core 0"} <= set(rows)
    words = tab.value("Object.values(trnprof.timeline.frame.labels).map(pair => pair[1])")
    assert {"llama-tiny", "layer 0", "mlp"} <= set(words)
    tab.press("/")
    tab.page.keyboard.type("layer 1$")
    tab.page.wait_for_selector("#hits:has-text('96 of 288')")
    tab.page.keyboard.press("Enter")
    tab.until("trnprof.timeline.chosen?.t0_ps >= 100 * 1e6")
    tab.panel("layer 1")


def test_a_whole_visit_by_keyboard_alone(screen):  # noqa: F811
    tab = screen("?trace=sample")
    tab.page.focus("#tracks")
    tab.press(".", "f")
    tab.until("trnprof.timeline.chosen && !trnprof.timeline.atHome()")
    first = tab.value("trnprof.timeline.chosen.row")
    tab.press("[")
    tab.until(f"trnprof.timeline.chosen.row !== {first}")
    tab.press("0", "v", "d", "d", "v")
    tab.until("trnprof.timeline.area")
    tab.press("/")
    tab.page.keyboard.type("TENSOR_REDUCE")
    tab.page.wait_for_selector("#hits:has-text('4 of 211')")
    tab.press("Enter", "Escape")
    tab.until("trnprof.timeline.chosen?.title.startsWith('TENSOR_REDUCE')")
    tab.press("o")
    tab.page.wait_for_selector("#graph-page .scatterlayer .point", timeout=15_000)
    tab.press("Escape", "i")
    tab.page.wait_for_selector("#wish input:focus")
    tab.page.keyboard.type("buffers=unlimited")
    tab.press("Enter")
    tab.page.wait_for_selector("#wish-found tbody tr button", timeout=60_000)
    tab.page.focus("#wish-found tbody tr button")
    tab.press("Enter")
    tab.page.wait_for_selector("#compare h1", timeout=60_000)
    tab.page.focus("#tracks-before")
    tab.press("w", "Escape")
    tab.until("!document.querySelector('main').hidden")
