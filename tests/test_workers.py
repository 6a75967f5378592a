"""One function over many items, by processes of this machine, Dask or Ray."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from sim.errors import InputError, TrnprofError, UnsupportedError, UsageError
from trnprof import workers

ROOT = Path(__file__).resolve().parent.parent
NEEDS = {"dask": "distributed", "ray": "ray"}


def square(number: int) -> int:
    return number * number


def refuse(number: int) -> int:
    if number == 3:
        raise InputError(f"{number}: not this one", remedy="take another")
    return number


def end_once(task: tuple[str, int]) -> int:
    """Kill the worker that comes first."""
    folder, number = task
    mark = Path(folder) / "killed"
    if number == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def end(number: int) -> int:
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def slow_first(number: int) -> int:
    time.sleep(1.0 if number == 0 else 0)
    return number


def test_alone_items_are_worked_on_in_order_and_none_before_it_is_asked_for():
    taken: list[int] = []
    items = (taken.append(n) or n for n in range(5))
    found = workers.map(square, items, workers=1)
    assert next(found) == (0, 0)
    assert taken == [0]
    assert list(found) == [(n, n * n) for n in range(1, 5)]


def test_results_come_as_they_are_ready_each_with_its_index():
    found = list(workers.map(slow_first, range(4), workers=2))
    assert sorted(found) == [(n, n) for n in range(4)]
    assert found[0][0] != 0


def test_progress_counts_to_the_total():
    told: list[tuple[int, int | None]] = []
    list(workers.map(square, [1, 2, 3], workers=2, progress=lambda *now: told.append(now)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_what_the_function_raises_comes_back_whole():
    with pytest.raises(InputError, match="3: not this one") as caught:
        list(workers.map(refuse, range(5), workers=2))
    assert caught.value.remedy == "take another"


def test_an_item_whose_worker_was_killed_is_tried_again(tmp_path):
    found = workers.map(end_once, [(str(tmp_path), n) for n in range(6)], workers=2)
    assert sorted(found) == [(n, n) for n in range(6)]
    assert (tmp_path / "killed").exists()


def test_an_item_that_keeps_killing_its_worker_is_named():
    with pytest.raises(TrnprofError, match="item 1: its worker was lost 2 times"):
        list(workers.map(end, range(4), workers=2, retries=1))


def test_a_script_needs_no_guard_around_its_main_part(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from trnprof import workers\nprint(sorted(workers.map(abs, [-1, -2, -3], workers=2)))\n")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("[(0, 1), (1, 2), (2, 3)]\n", "")


def test_two_pools_stand_beside_each_other():
    first = workers.map(square, range(4), workers=2)
    second = workers.map(square, range(4), workers=2)
    found = [next(first), next(second)]
    assert sorted([found[1], *second]) == [(n, n * n) for n in range(4)]
    assert sorted([found[0], *first]) == [(n, n * n) for n in range(4)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"engine": "slurm"}, "slurm"), ({"address": "tcp://here:1"}, "local engine"), ({"workers": 0}, "at least one")],
)
def test_a_wish_that_makes_no_sense_is_refused_at_once(arguments, words):
    with pytest.raises(UsageError, match=words):
        workers.map(square, [1], **arguments)


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_an_engine_that_is_not_installed_names_its_extra(engine, monkeypatch):
    monkeypatch.setitem(sys.modules, NEEDS[engine], None)
    with pytest.raises(UnsupportedError, match=rf"trnprof\[{engine}\]"):
        workers.map(square, [1], engine=engine)


ON_A_CLUSTER = """
import sys
from sim.errors import InputError
from tests.test_workers import end_once, refuse, square
from trnprof import workers

if __name__ == "__main__":
    engine, folder = sys.argv[1:]
    squares = workers.map(square, range(10), engine=engine, workers=2)
    assert sorted(squares) == [(n, n * n) for n in range(10)]
    ended = workers.map(end_once, [(folder, n) for n in range(4)], engine=engine, workers=2)
    assert sorted(ended) == [(n, n) for n in range(4)]
    try:
        list(workers.map(refuse, range(5), engine=engine, workers=2))
    except InputError as fault:
        assert fault.remedy == "take another", fault.remedy
        print("whole")
    if engine == "dask":
        from distributed import LocalCluster

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            found = workers.map(square, range(4), engine=engine, address=cluster.scheduler_address)
            assert sorted(found) == [(n, n * n) for n in range(4)]
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_two_workers_of_a_cluster_do_the_same(engine, tmp_path):
    """In a process of its own: what a cluster's library leaves behind in one is not ours."""
    if importlib.util.find_spec(NEEDS[engine]) is None:
        pytest.skip(f"{engine} is not installed: pip install 'trnprof[{engine}]'")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(ON_A_CLUSTER))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, str(script), engine, str(tmp_path)],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert done.stdout == "whole\n", done.stderr[-2000:]
    assert (tmp_path / "killed").exists()
