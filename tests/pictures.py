"""Make the README's pictures: `python tests/pictures.py` (needs Chromium)."""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import sync_playwright

from trnprof.cli import main as trnprof
from trnprof.tui import actions, pages
from trnprof.tui.ink import Inkwell
from trnprof.tui.screen import Scene
from trnprof.tui.svg import svg
from trnprof.view import Session
from trnprof.web import create_app

CHROMIUM = "/usr/bin/chromium"
SIZE = {"width": 1440, "height": 900}
CELLS = (120, 40)
"""Of the terminal's picture."""


def serve(path: Path) -> str:
    """Serve a trace from a thread of this process; its address."""
    from werkzeug.serving import make_server

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = make_server("127.0.0.1", port, create_app([str(path)]).server, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{port}/"


def take(address: str, target: Path) -> None:
    """The page as it opens, with one instruction selected."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=SIZE, color_scheme="dark")
        page.goto(address)
        page.wait_for_selector("canvas")
        page.wait_for_timeout(3000)
        for _ in range(3):
            page.keyboard.press(".")
            page.wait_for_timeout(400)
        page.wait_for_timeout(1500)
        page.screenshot(path=str(target))
        browser.close()


def draw(path: Path, target: Path) -> None:
    """The terminal's screen of the same trace, with the same instruction selected, as SVG."""
    session = Session.open(path)
    scene = Scene(session, actions.start(session, "engine"))
    for _ in range(2):
        scene = replace(scene, state=actions.act("next", scene, CELLS[0]))
    canvas = pages.page(scene, *CELLS).canvas
    target.write_text(svg(canvas, Inkwell("dark", "truecolor"), session.meta.title, session.caption), encoding="utf-8")


def main() -> int:
    assets = Path(__file__).resolve().parents[1] / "assets"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "attention"
        trnprof(["demo", "--no-web", "-o", str(path)])
        draw(path, assets / "terminal.svg")
        take(serve(path), assets / "readme.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
