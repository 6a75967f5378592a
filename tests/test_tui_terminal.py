"""The terminal view in a real (pseudo) terminal: what it sends, and how it leaves the terminal."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TRACE = ROOT / "traces" / "attention"
PATIENCE = 120.0
SHOWN = b"LATENCY"
"""Of the verdict: the picture is there."""
ESCAPES = re.compile(rb"\x1b(\[[0-9;?=>$]*[A-Za-z]|\][^\x07\x1b]*(\x07|\x1b\\)|P[^\x1b]*\x1b\\|[()][A-Z0-9]|[=>78cM])")

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="pseudo terminals are POSIX"),
    # The child becomes another program at once; a framework that other tests imported warns of its threads.
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*use of forkpty.*:DeprecationWarning"),
]


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, program: str, *, lines: int = 30, columns: int = 100, **environment: str):
        settings = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(ROOT)}
        settings |= environment
        self.pid, self.end = os.forkpty()
        if self.pid == 0:
            os.chdir(ROOT)
            os.execve(sys.executable, [sys.executable, "-c", program], settings)
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(self.end)
        self.seen = b""

    def until(self, text: bytes, since: int = 0) -> None:
        """Read until the program has written a text."""
        end = time.monotonic() + PATIENCE
        while text not in self.seen[since:]:
            assert time.monotonic() < end, self.seen[-2000:]
            self._read(0.2)

    def _read(self, seconds: float) -> bool:
        if not select.select([self.end], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.end, 65_536)
        except OSError:
            return False
        self.seen += data
        return bool(data)

    def press(self, keys: bytes) -> None:
        os.write(self.end, keys)

    def state(self) -> int | None:
        """Wait status once the program has ended or stopped."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self._read(0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid:
                while self._read(0.2):
                    pass
                return status
        raise AssertionError(self.seen[-2000:])

    def leaves_it_whole(self, since: int = 0) -> None:
        """The screen of before, its cursor, its keys, no mouse; line settings as they were."""
        said = self.seen[since:]
        assert b"\x1b[?1049l" in said
        assert said.rindex(b"\x1b[?25h") >= 0
        for mode in (b"1000", b"1003", b"1006"):
            if b"\x1b[?" + mode + b"h" in self.seen:
                assert self.seen.rindex(b"\x1b[?" + mode + b"l") > self.seen.rindex(b"\x1b[?" + mode + b"h")
        assert termios.tcgetattr(self.end)[3] == self.before[3]


def tui(*arguments: str, first: str = "") -> str:
    return f"{first}\nimport sys; from trnprof.cli import main; sys.exit(main(['tui', {str(TRACE)!r}, *{arguments!r}]))"


@pytest.fixture
def terminal(tmp_path) -> Iterator:
    made: list[Terminal] = []

    def make(program: str, **options) -> Terminal:
        made.append(Terminal(program, XDG_STATE_HOME=str(tmp_path), **options))
        made[-1].until(SHOWN)
        return made[-1]

    yield make
    for each in made:
        try:
            os.kill(each.pid, signal.SIGKILL)
            os.waitpid(each.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(each.end)


def test_a_termination_restores_the_terminal(terminal):
    screen = terminal(tui())
    os.kill(screen.pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(screen.state()) == 128 + signal.SIGTERM
    screen.leaves_it_whole()


def test_a_crash_restores_the_terminal_and_is_told(terminal):
    first = "from trnprof.tui import actions\nactions.ACTIONS['fit'] = lambda scene, cells: 1 / 0"
    screen = terminal(tui(first=first))
    screen.press(b"f")
    assert os.waitstatus_to_exitcode(screen.state()) not in (0, -signal.SIGTERM)
    screen.leaves_it_whole()
    assert b"ZeroDivisionError" in screen.seen[screen.seen.rindex(b"\x1b[?1049l") :]


def test_it_is_suspended_and_comes_back(terminal):
    screen = terminal(tui())
    screen.press(b"\x1a")
    assert os.WIFSTOPPED(screen.state())
    screen.leaves_it_whole()
    before = len(screen.seen)
    os.kill(screen.pid, signal.SIGCONT)
    screen.until(SHOWN, before)
    assert b"\x1b[?1049h" in screen.seen[before:]
    screen.press(b"q")
    assert os.waitstatus_to_exitcode(screen.state()) == 0
    screen.leaves_it_whole(before)


def test_a_poor_terminal_gets_ascii_without_colour_and_keeps_its_mouse(terminal):
    screen = terminal(tui("--ascii", "--depth", "none", "--no-mouse"), lines=24, columns=80)
    before = len(screen.seen)
    screen.press(b"c")
    screen.until(b"bound", before)
    screen.press(b"q")
    assert os.waitstatus_to_exitcode(screen.state()) == 0
    assert b"\x1b[?1000h" not in screen.seen
    assert not re.search(rb"\x1b\[[0-9;]*(3[0-7]|4[0-7]|9[0-7]|38|48)[0-9;]*m", screen.seen)
    text = ESCAPES.sub(b"", screen.seen)
    assert not [byte for byte in text if byte > 0x7E], "only ASCII is sent"


def test_sixteen_colours_stay_within_sixteen(terminal):
    screen = terminal(tui("--depth", "16"))
    screen.press(b"q")
    screen.state()
    assert not re.search(rb"\x1b\[[0-9;]*[34]8;[25];", screen.seen)
    assert re.search(rb"\x1b\[[0-9;]*(3[0-7]|9[0-7])[0-9;]*m", screen.seen)


def test_a_key_costs_few_bytes_over_a_slow_link(terminal):
    screen = terminal(tui(), lines=60, columns=240)
    time.sleep(1.5)
    while screen._read(0.3):
        pass
    before = len(screen.seen)
    screen.press(b".")
    time.sleep(1.0)
    while screen._read(0.3):
        pass
    assert 0 < len(screen.seen) - before < 12_000, "a step repaints the card, not the screen of 14 400 cells"
    screen.press(b"q")
    screen.state()
