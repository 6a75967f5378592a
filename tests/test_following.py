"""Folders that both views follow: a profile that is written in pieces appears once it is whole."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import legacy
from tests.test_tui import until
from trnprof import cli
from trnprof.tui.app import TerminalApp
from trnprof.view import arrivals
from trnprof.view.arrivals import Arrivals
from trnprof.web import create_app

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PROFILE = json.dumps(legacy.document()).encode()
HALF = len(PROFILE) // 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets two seconds pass, for files too."""
    now = [time.monotonic()]
    real = time.time
    monkeypatch.setattr(Arrivals.__init__, "__defaults__", (lambda: now[0],))
    monkeypatch.setattr("trnprof.watch.time.time", lambda: real() + now[0] - began)
    began = now[0]

    def pass_by() -> None:
        now[0] += 2.0

    return pass_by


@contextmanager
def served(folder: Path) -> Iterator[str]:
    from waitress.server import create_server

    server = create_server(create_app([folder]).server, host="127.0.0.1", port=0, threads=4)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.effective_port}/"
    server.close()


def test_a_folder_is_looked_at_once_a_second_and_a_large_one_less(folder: Path) -> None:
    now = [0.0]
    seen = Arrivals(folder, lambda: now[0])
    looks: list[float] = []

    def poll() -> list[Path]:
        looks.append(now[0])
        now[0] += 0.5
        return []

    seen._watch.poll = poll  # type: ignore[method-assign]
    for _ in range(200):
        seen.look()
        now[0] += 0.1
    took = [later - before for before, later in itertools.pairwise(looks)]
    assert took
    assert all(0 <= each - 0.5 * (1 + arrivals.SPARED) < 0.2 for each in took), took


def test_what_is_written_in_pieces_is_served_when_it_is_whole(folder: Path, second: Callable[[], None]) -> None:
    client = create_app([folder]).server.test_client()
    assert client.get("/arrivals").json == {"names": [], "arrived": [], "count": 0, "waiting": 0, "follows": True}
    (folder / "new.json").write_bytes(PROFILE[:HALF])
    for _ in range(3):
        second()
        said = client.get("/arrivals").json
        assert (said["names"], said["waiting"]) == ([], 1)
    assert client.get("/trace/new/start").status_code == 404
    (folder / "new.json").write_bytes(PROFILE)
    second()
    client.get("/arrivals")
    second()
    assert client.get("/arrivals").json["arrived"] == ["new"]
    assert client.get("/trace/new/start").json["tracks"]


def test_a_profile_written_anew_keeps_its_address_and_is_read_again(folder: Path, second: Callable[[], None]) -> None:
    (folder / "a.json").write_bytes(PROFILE)
    client = create_app([folder]).server.test_client()
    second()
    second()
    assert client.get("/arrivals").json["names"] == ["a"]
    before = client.get("/trace/a/start").json
    document = legacy.document()
    del document["instruction"][len(document["instruction"]) // 2 :]
    (folder / "a.json").write_bytes(json.dumps(document).encode())
    for _ in range(3):
        second()
        said = client.get("/arrivals").json
    assert (said["names"], said["arrived"]) == (["a"], ["a", "a"])
    assert client.get("/trace/a/start").json["window"] != before["window"]


def test_a_folder_that_goes_away_and_comes_back_is_followed_on(folder: Path, second: Callable[[], None]) -> None:
    client = create_app([folder]).server.test_client()
    folder.rmdir()
    second()
    assert client.get("/arrivals").json["names"] == []
    folder.mkdir()
    (folder / "a.json").write_bytes(PROFILE)
    for _ in range(3):
        second()
        said = client.get("/arrivals").json
    assert said["names"] == ["a"]


def test_a_trace_alone_is_not_followed(folder: Path) -> None:
    (folder / "a.json").write_bytes(PROFILE)
    said = create_app([folder / "a.json"]).server.test_client().get("/arrivals").json
    assert (said["names"], said["follows"]) == (["a"], False)


def test_old_files_are_there_at_once_without_being_read(folder: Path) -> None:
    (folder / "cut.json").write_bytes(PROFILE[:HALF])
    hour = time.time() - 3600
    os.utime(folder / "cut.json", (hour, hour))
    seen = Arrivals(folder)
    assert seen.look() == [folder / "cut.json"]


def test_the_terminal_lists_what_comes_and_keeps_the_cursor(folder: Path) -> None:
    app = TerminalApp(folder)

    def shown() -> str:
        return "\n".join(app.canvas.lines(False))

    async def go() -> None:
        async with app.run_test(size=(100, 20)) as pilot:
            await until(pilot, lambda: app.shelf is not None)
            assert "waiting for the first one" in shown()
            (folder / "m.json").write_bytes(PROFILE[:HALF])
            await until(pilot, lambda: "1 being written" in shown())
            assert "m.json" not in shown()
            (folder / "m.json").write_bytes(PROFILE)
            await until(pilot, lambda: "m.json" in shown())
            (folder / "a.json").write_bytes(PROFILE)
            await until(pilot, lambda: "a.json" in shown())
            assert app.shelf.chosen == str(folder / "m.json")
            await pilot.press("enter")
            await until(pilot, lambda: app.scene is not None)
            (folder / "z.json").write_bytes(PROFILE)
            await until(pilot, lambda: "new trace z.json" in app.scene.state.note)
            await pilot.press("O")
            assert [place.name for place in app.shelf.places] == ["a.json", "m.json", "z.json"]

    asyncio.run(go())


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine")
def test_the_browser_shows_the_first_profile_and_tells_of_the_next(folder: Path) -> None:
    from playwright.sync_api import sync_playwright

    with served(folder) as address, sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = chromium.new_page()
        page.goto(address)
        page.get_by_text("Waiting for the first profile").wait_for()
        (folder / "first.json").write_bytes(PROFILE[:HALF])
        page.get_by_text("1 being written.").wait_for()
        (folder / "first.json").write_bytes(PROFILE)
        page.locator("#tracks").wait_for()
        (folder / "next.json").write_bytes(PROFILE)
        line = page.locator("#arrival")
        line.wait_for()
        assert "New trace: next" in line.inner_text()
        page.locator("details.traces summary").first.click()
        assert page.locator(".traces .menu:not(.right) a").all_inner_texts() == ["first", "next"]
        page.keyboard.press("Escape")
        line.get_by_role("link").click()
        page.wait_for_url("**trace=next")
        page.locator("#tracks").wait_for()
        chromium.close()


def test_help_says_that_folders_are_followed(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("web", "tui"):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        assert "followed" in capsys.readouterr().out
