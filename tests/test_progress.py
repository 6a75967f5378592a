"""A launch that takes long says on a terminal how far it is, and on nothing else."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import numpy as np
import pytest

import sim
from sim import stages
from sim.launch import TensorSpec
from sim.nki import isa as nisa
from sim.nki import language as nl
from sim.nki.kernel import Kernel
from trnprof import cli
from trnprof.commands import progress
from trnprof.commands.progress import ERASE, Line, text


class Terminal(io.StringIO):
    """Keeps what is written, and says when a line was."""

    def __init__(self) -> None:
        super().__init__()
        self.said = threading.Event()

    def isatty(self) -> bool:
        return True

    def reconfigure(self, **options: str) -> None:
        pass

    def write(self, words: str) -> int:
        self.said.set()
        return super().write(words)


def test_a_stage_of_known_length_has_a_bar() -> None:
    half = text(stages.Stage("matmul", "computing", lambda: 48_000, 96_000), 3.7)
    assert half == "matmul  computing  [############------------]  48\u2009000 of 96\u2009000 instructions  3 s"
    assert text(stages.Stage("matmul", "tracing", lambda: 12), 2) == "matmul  tracing  12 instructions  2 s"
    assert len(text(stages.Stage("k" * 200, "tracing", lambda: 1), 2)) <= progress.WIDEST


def test_a_line_is_written_and_taken_away_again() -> None:
    terminal = Terminal()
    line = Line(terminal, 0.0, 0.001)
    line.watch(stages.Stage("matmul", "tracing", lambda: 5))
    assert terminal.said.wait(5)
    line.watch(None)
    assert terminal.getvalue().startswith(f"{ERASE}matmul  tracing  5 instructions")
    assert terminal.getvalue().endswith(ERASE)
    assert threading.active_count() == 1 or line._thread is None


def test_a_launch_that_is_quick_enough_says_nothing() -> None:
    terminal = Terminal()
    line = Line(terminal, 3600.0, 0.001)
    line.watch(stages.Stage("matmul", "tracing", lambda: 5))
    line.watch(None)
    assert terminal.getvalue() == ""


def adds(x):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.dma_copy(tile, x)
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize(("values", "first"), [(True, "computing"), (False, "tracing")])
def test_a_launch_tells_its_stages_and_its_end(values: bool, first: str) -> None:
    seen = []
    x = np.ones((128, 64), np.float32) if values else TensorSpec((128, 64), "float32")
    with stages.watched(lambda stage: seen.append(stage and (stage.kernel, stage.name, stage.done()))):
        sim.run(Kernel(adds), x, values=values)
    assert seen == [("adds", first, 0), ("adds", "scheduling", 2), None]


def fails(x):
    raise ValueError("no")


def test_a_launch_that_fails_has_ended() -> None:
    seen = []
    with stages.watched(seen.append), pytest.raises(sim.errors.InputError):
        sim.run(Kernel(fails), np.ones((128, 64), np.float32))
    assert seen[-1] is None


KERNEL = """
import nki
import nki.language as nl
from threading import Event

@nki.jit
def slow(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    Event().wait(0.2)
    return out
"""


@pytest.mark.parametrize(
    ("options", "terminal", "shown"), [([], True, True), (["--json"], True, False), ([], False, False)]
)
def test_run_shows_a_long_launch_on_a_terminal_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], terminal: bool, shown: bool
) -> None:
    (tmp_path / "slow.py").write_text(KERNEL)
    stream = Terminal()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    assert cli.main(["run", f"{tmp_path / 'slow.py'}::slow", "--arg", "x=fp32[128,64]", *options]) == 0
    assert ("slow  computing  2 instructions" in stream.getvalue()) is shown
