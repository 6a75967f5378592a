"""Loops run as Python or compiled, with one result; compiled code is kept apart for each state of its sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
import sim.jit
from sim import schedule as scheduling
from sim.record import record
from sim.trace import Trace
from tests.programs import random_program

ROOT = Path(__file__).resolve().parents[1]
PROBE = "import sim.jit; print(sim.jit._numba().config.CACHE_DIR)"


def cache_dir(where: Path, home: Path, **more: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment |= {"XDG_CACHE_HOME": str(home), "PYTHONPATH": str(where), **more}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, cwd=where, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def copied(target: Path) -> Path:
    for package in ("sim", "trnprof"):
        (target / package / "jit").mkdir(parents=True)
        for name in ("__init__.py", "jit"):
            source = ROOT / package / name
            if source.is_dir():
                shutil.copytree(source, target / package / name, dirs_exist_ok=True)
            else:
                (target / package / name).write_text("")
    return target


def test_a_change_in_any_compiled_file_begins_a_new_folder(tmp_path):
    tree, home = copied(tmp_path / "tree"), tmp_path / "home"
    before = cache_dir(tree, home)
    assert before == cache_dir(tree, home)
    assert before.startswith(str(home))
    with (tree / "sim" / "jit" / "numeric.py").open("a") as file:
        file.write("# changed\n")
    assert cache_dir(tree, home) != before


def test_earlier_folders_are_bounded(tmp_path):
    tree, home = copied(tmp_path / "tree"), tmp_path / "home"
    cache = home / "trnprof" / "numba"
    for number in range(20):
        (cache / str(number)).mkdir(parents=True)
        os.utime(cache / str(number), (number, number))
    own = Path(cache_dir(tree, home)).name
    assert {path.name for path in cache.iterdir()} == {own, *map(str, range(4, 20))}


def test_the_users_own_cache_folder_stays(tmp_path):
    assert cache_dir(ROOT, tmp_path / "home", NUMBA_CACHE_DIR=str(tmp_path / "own")) == str(tmp_path / "own")


def contents(trace: Trace) -> list[bytes]:
    """Every column of every table."""
    return [
        np.ascontiguousarray(table.column(column)).tobytes()
        for _, table in trace.tables()
        for column in table.present()
    ]


def in_mode(mode: str, make) -> Trace:
    before, sim.jit.mode = sim.jit.mode, mode
    try:
        return contents(make())
    finally:
        sim.jit.mode = before


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**9),
    length=st.integers(1, 80),
    device=st.sampled_from(("trn1", "trn2")),
    cores=st.integers(1, 2),
)
def test_a_program_has_one_trace_whether_loops_are_compiled_or_not(seed: int, length: int, device: str, cores: int):
    program = random_program(seed, length, device, cores)
    plain, compiled = (
        in_mode(mode, lambda: record(scheduling.schedule(program))) for mode in (sim.jit.PLAIN, sim.jit.COMPILED)
    )
    assert plain == compiled


@pytest.mark.parametrize("name", ["attention", "rmsnorm", "softmax"])
def test_a_kernel_has_one_trace_whether_loops_are_compiled_or_not(name: str):
    shapes = {
        "attention": ((128, 512), (128, 512), (512, 128)),
        "rmsnorm": ((256, 512), (1, 512)),
        "softmax": ((256, 512),),
    }
    kernel = sim.load(str(ROOT / "traces" / "kernels" / f"{name}.py") + f"::{name}")
    inputs = [sim.TensorSpec(shape, "bfloat16") for shape in shapes[name]]
    plain, compiled = (
        in_mode(mode, lambda: sim.run(kernel, *inputs, values=False).trace)
        for mode in (sim.jit.PLAIN, sim.jit.COMPILED)
    )
    assert plain == compiled


def test_a_small_kernel_is_through_before_anything_is_compiled():
    probe = f"""
import sim, sys
kernel = sim.load({str(ROOT / "traces" / "kernels" / "softmax.py")!r} + "::softmax")
run = sim.run(kernel, sim.TensorSpec((256, 512), "bfloat16"), values=False)
import trnprof
trnprof.classify(run.trace), trnprof.summarize(run.trace)
print("numba" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", probe], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_loop_is_compiled_when_there_is_much_to_do_and_from_then_on():
    @sim.jit.njit(small=4)
    def total(values):
        found = 0
        for i in range(len(values)):
            found += values[i]
        return found

    before, sim.jit.mode = sim.jit.mode, sim.jit.AUTO
    try:
        assert total(np.arange(4)) == 6 and "compiled" not in vars(total)
        assert total(np.arange(5)) == 10 and "compiled" in vars(total)
        assert total(np.arange(4)) == 6
    finally:
        sim.jit.mode = before


def test_a_loop_that_is_called_again_and_again_is_compiled(monkeypatch):
    @sim.jit.njit(small=4)
    def first(values):
        return values[0]

    monkeypatch.setattr(sim.jit, "mode", sim.jit.AUTO)
    for call in range(2 * sim.jit.PATIENCE + 1):
        assert "compiled" not in vars(first), call
        assert first(np.arange(3, 5)) == 3
    assert "compiled" in vars(first)
