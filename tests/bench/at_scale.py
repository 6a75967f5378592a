"""Opening and using a trace of ten million instructions: `python tests/bench/at_scale.py [FOLDER] [--rows 1e7]`.

Writes the trace (once) and opens it (once) in FOLDER, then measures, and prints as JSON: the first picture of `trnprof
web` in a real Chromium and of `trnprof tui` in a pseudo-terminal, from the command on; frames of the server at six
zooms; fresh detail and pans in the browser; keys of the terminal at 240 x 60; searches; memory. Times are wall clock
in ms unless a name says cpu; the median of several, and the largest.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sim import tracefile
from tests.at_scale import model
from trnprof import readers
from trnprof.view import Session, Viewport
from trnprof.view.search import search

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ZOOMS = (1, 0.3, 0.03, 1e-3, 1e-4, 1e-6)
PATTERNS = ("MATMUL", "I-12345", "I-.*99-3$", "exp|gelu", "9{5}", r"\bI-77", "attention.py:17")
HEIGHT, WIDTH = 60, 240
DRAWN = """(key) => new Promise(done => {
    const tl = trnprof.timeline, before = tl.ondraw, begun = performance.now();
    const fresh = () => tl.frame && tl.frame.bucket === tl.frames.bucket(tl.view, Math.max(1, tl.w))
        && tl.frame.t0 <= tl.view[0] && tl.frame.t1 >= tl.view[1];
    tl.ondraw = () => {
        before?.();
        if (fresh()) { tl.ondraw = before; done(performance.now() - begun); }
    };
    tl.canvas.focus();
    tl.canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
})"""
REDRAW = """() => { const tl = trnprof.timeline, t = performance.now();
    for (let k = 0; k < 20; k++) tl.draw();
    return (performance.now() - t) / 20; }"""


def spread(values: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 1), "largest": round(max(values), 1)}


def timed(step: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    begun = clock()
    step()
    return (clock() - begun) * 1e3


def written(folder: Path, rows: int) -> tuple[Path, dict[str, object]]:
    path = folder / f"model_{rows}"
    if path.exists():
        return path, {}
    trace = model(rows)
    took = timed(lambda: tracefile.write(trace, path), time.process_time)
    return path, {"write_cpu": round(took)}


def frames(session: Session) -> dict[str, object]:
    """Frames that no one asked for before, as the browser asks: three screens wide."""
    t0, t1 = session.extent
    found = {}
    for zoom in ZOOMS:
        span = max(1000, int((t1 - t0) * zoom))
        took = []
        for k in range(7):
            at = t0 + (t1 - t0 - span) * k // 7
            session.timeline.forget()
            view = Viewport(at - span, at + 2 * span, 3 * 1600)
            took.append(timed(lambda view=view: session.frame(view), time.process_time))
        found[f"frame_cpu_{zoom:g}"] = spread(took[1:])
    return found


def searches(session: Session) -> dict[str, object]:
    search(session.trace, "warm")
    took = [timed(lambda p=pattern: search(session.trace, p), time.process_time) for pattern in PATTERNS]
    return {"search_cpu": spread(took)}


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": str(WIDTH),
        "LINES": str(HEIGHT),
        "TERM": "xterm-256color",
    }


@contextmanager
def server(path: Path, port: int) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-m", "trnprof", "web", str(path), "--port", str(port)]
    running = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def browser(path: Path) -> dict[str, object]:
    """Command to picture, keys to fresh detail, pans over what is there, and the server's memory after it all."""
    from playwright.sync_api import sync_playwright

    found: dict[str, object] = {}
    port = free_port()
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1600, "height": 900})
        begun = time.perf_counter()
        with server(path, port) as running:
            while not listening(port):
                time.sleep(0.005)
            found["web_listening"] = round((time.perf_counter() - begun) * 1e3)
            page.goto(f"http://127.0.0.1:{port}/", wait_until="commit")
            while not page.evaluate("!!(window.trnprof?.timeline?.frame?.bucket > 0)"):
                time.sleep(0.005)
            found["web_first_picture"] = round((time.perf_counter() - begun) * 1e3)
            time.sleep(4)
            keys = "wwwwwwwwddddwwwwwwwwaaasssdddwww"
            took = [page.evaluate(DRAWN, key) for key in keys]
            found["web_fresh_detail"] = spread(took[2:])
            found["web_redraw"] = spread([page.evaluate(REDRAW) for _ in range(5)])
            found["server_memory_mb"] = memory(running.pid)
        chromium.close()
    return found


def memory(pid: int) -> dict[str, int]:
    """MB resident, and of these what is the process's own and no file's."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    kb = {name: int(value.split()[0]) for name, value in fields.items()}
    return {"resident": kb["Rss"] // 1024, "own": kb["Anonymous"] // 1024}


def terminal(path: Path) -> dict[str, object]:
    """Command to picture, and from a key to the last byte of what it changed."""
    child, handle = pty.fork()
    begun = time.perf_counter()
    if child == 0:
        os.chdir(ROOT)
        os.execvpe(sys.executable, [sys.executable, "-m", "trnprof", "tui", str(path)], environment())
    fcntl.ioctl(handle, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    seen = b""
    while b"in view" not in seen:
        seen = seen[-4096:] + read(handle, 30)
    found: dict[str, object] = {"tui_first_picture": round((time.perf_counter() - begun) * 1e3)}
    drain(handle, 4)
    took = []
    for key in b"wwdwwdwwdaswwdd":
        pressed = time.perf_counter()
        os.write(handle, bytes([key]))
        last = settled(handle)
        took.append((last - pressed) * 1e3)
    found["tui_key_to_paint"] = spread(took[2:])
    found["tui_memory_mb"] = memory(child)
    os.write(handle, b"q")
    drain(handle, 1)
    os.waitpid(child, 0)
    return found


def read(handle: int, patience: float) -> bytes:
    ready, _, _ = select.select([handle], [], [], patience)
    if not ready:
        raise TimeoutError("the terminal says nothing")
    return os.read(handle, 1 << 16)


def drain(handle: int, seconds: float) -> None:
    until = time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0:
        if select.select([handle], [], [], left)[0]:
            try:
                os.read(handle, 1 << 16)
            except OSError:
                return


def settled(handle: int, quiet: float = 0.15) -> float:
    """When the last byte of an answer came."""
    os.read(handle, 1 << 16) if select.select([handle], [], [], 5)[0] else b""
    last = time.perf_counter()
    while select.select([handle], [], [], quiet)[0]:
        os.read(handle, 1 << 16)
        last = time.perf_counter()
    return last


def columns_in_use(session: Session) -> float:
    """MB of the columns of the trace that have been read."""
    loaded = (
        array.nbytes for _, table in session.trace.tables() for array in table._data.values() if not callable(array)
    )
    return round(sum(loaded) / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="/tmp/trnprof-at-scale", type=Path)
    parser.add_argument("--rows", default=10_000_000, type=lambda text: int(float(text)))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    path, found = written(args.folder, args.rows)
    found["open"] = round(timed(lambda: readers.open(path)))
    session = Session(readers.open(path))
    session.frame(Viewport(*session.home, 1500))
    found["judge_cpu"] = round(timed(session.judge, time.process_time))
    found |= frames(session) | searches(session)
    found["columns_in_use_mb"] = columns_in_use(session)
    if CHROMIUM:
        browser(path)  # the first time leaves what the next opening finds
        found |= browser(path)
    terminal(path)
    found |= terminal(path)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
