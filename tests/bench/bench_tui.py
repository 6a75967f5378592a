"""How long a key of the terminal view takes at 240 x 60: `pytest -n 0 tests/bench/bench_tui.py`; no timed assertions.

A million instructions on five engines. `painting` is the canvas and its lines; `key to screen` goes through Textual:
the key is pressed, the state changes, the canvas is painted and the changed cells are rendered.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from tests.synthetic import large
from trnprof.tui import actions, pages
from trnprof.tui.app import TerminalApp
from trnprof.tui.screen import Scene
from trnprof.view import Session

WIDTH, HEIGHT = 240, 60
KEYS = ("w", "w", "d", "full_stop", "comma", "c", "down", "s", "0")


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(large(1_000_000))


@pytest.mark.parametrize("zooms", [0, 6, 14])
def test_painting(benchmark, session: Session, zooms: int):
    scene = Scene(session, actions.start(session, "engine"))
    for _ in range(zooms):
        scene = replace(scene, state=actions.act("zoom_in", scene, WIDTH))
    moves = iter(range(10**9))

    def paint() -> None:
        action = "pan_right" if next(moves) % 2 else "pan_left"
        canvas = pages.page(replace(scene, state=actions.act(action, scene, WIDTH)), WIDTH, HEIGHT).canvas
        for y in range(HEIGHT):
            list(canvas.runs(y))

    benchmark(paint)


def test_key_to_screen(session: Session, record_property):
    """CPU time: the pilot itself waits about 90 ms a key."""
    took: list[float] = []

    async def go() -> None:
        app = TerminalApp("large", opener=lambda: session)
        async with app.run_test(size=(WIDTH, HEIGHT)) as pilot:
            while app.scene is None:
                await pilot.pause(0.05)
            await pilot.press(*KEYS)
            for key in KEYS * 3:
                begun = time.process_time()
                await pilot.press(key)
                took.append(time.process_time() - begun)

    asyncio.run(go())
    took.sort()
    record_property("median_ms", took[len(took) // 2] * 1e3)
    print(f"key to screen, CPU: median {took[len(took) // 2] * 1e3:.0f} ms, slowest {took[-1] * 1e3:.0f} ms")
