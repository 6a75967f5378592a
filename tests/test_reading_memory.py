"""How much memory files that are read whole take, beside what the reader's libraries take in any case."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.at_scale import model
from trnprof.export import export

ROWS = 16_000
FLOOR = 16 << 20
"""Bytes that do not grow with the file."""

TIMES = {"csv": 5, "json": 4, "perfetto": 6}
"""Of the file, at most."""

PEAK = """
import sys, threading, time
from trnprof import readers

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

readers.open(sys.argv[1])
before = most = resident()
done = threading.Event()

def look():
    global most
    while not done.wait(0.002):
        most = max(most, resident())

thread = threading.Thread(target=look)
thread.start()
trace = readers.open(sys.argv[2])
done.set(), thread.join()
print(max(most, resident()) - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell what is resident")
@pytest.mark.parametrize("to", TIMES)
def test_a_file_of_a_few_megabytes_takes_so_many_times_its_size(to: str, tmp_path: Path) -> None:
    export(model(64), to, tmp_path / f"small.{to}")
    export(model(ROWS), to, tmp_path / f"large.{to}")
    size = (tmp_path / f"large.{to}").stat().st_size
    assert size > 3_000_000
    told = subprocess.run(
        [sys.executable, "-c", PEAK, tmp_path / f"small.{to}", tmp_path / f"large.{to}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(told.stdout) < TIMES[to] * size + FLOOR
