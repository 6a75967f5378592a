"""Sweeps: what a specification may say, what is kept, what is best, and that nothing is lost."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sim.errors import InputError
from trnprof.sweep import kept, read, running, sweep
from trnprof.sweep.fronts import best
from trnprof.sweep.record import SHARES, Outcome, Result
from trnprof.sweep.specification import points

ROOT = Path(__file__).resolve().parent.parent
NEEDS = {"dask": "distributed", "ray": "ray"}

KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def add(a, b, twice=False):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
    if twice:
        nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
    nisa.dma_copy(dst=out, src=left)
    return out
"""

SPECIFICATION = """
kernel = "add.py::add"
[arguments]
a = "{dtype}[128,{columns}]"
b = "{dtype}[128,{columns}]"
twice = "{twice}"
[set]
dtype = "bf16"
[grid]
columns = [64, 512, 2048]
twice = [false, true]
"""

MODEL = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "add.py").write_text(KERNEL)
    (tmp_path / "sweep.toml").write_text(SPECIFICATION)
    return tmp_path


def written(folder: Path, text: str) -> Path:
    path = folder / "other.toml"
    path.write_text(text)
    return path


def run(folder: Path, text: str | None = None, **more):
    path = folder / "sweep.toml" if text is None else written(folder, text)
    return sweep(read(path), jobs=1, folder=folder / "kept", **more)


def test_every_combination_is_a_point_and_parameters_go_into_arguments(folder):
    found = list(points(read(folder / "sweep.toml")))
    assert [(one.parameters["columns"], one.parameters["twice"]) for one in found] == [
        (64, False), (64, True), (512, False), (512, True), (2048, False), (2048, True)
    ]  # fmt: skip
    assert found[1].arguments == {"a": "bf16[128,64]", "b": "bf16[128,64]", "twice": "true"}


def test_what_changes_together_is_one_axis(folder):
    text = SPECIFICATION + '[[together]]\ndevice = ["trn1", "trn2"]\nlnc = [1, 2]\n'
    asked = read(written(folder, text))
    assert asked.size == 12
    assert {(one.parameters["device"], one.parameters["lnc"]) for one in points(asked)} == {("trn1", 1), ("trn2", 2)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("columns = [64, 512, 2048]", "columns = []"), "columns has no values, so the grid is empty"),
        (("columns = [64, 512, 2048]", "columns = 64"), "columns is no list"),
        (("columns = [64, 512, 2048]", "columns = [64, 64]"), "columns has a value twice"),
        (("columns = [64, 512, 2048]", "columns = [nan, 64]"), "is neither a number"),
        (("columns = [64, 512, 2048]", "colums = [64]"), "asks for {columns}, which nothing gives"),
        (("[grid]", "[grid]\ndevise = ['trn1']"), "no parameter 'devise' (nearest: device"),
        (("[grid]", "[grid]\ndevice = ['trn9']"), "unknown device 'trn9'"),
        (("[grid]", "[grid]\ndtype = ['bf16']"), "dtype: given twice"),
        (("[grid]", "[grid]\nwhat_if.hbm = ['2x']"), "no setting 'hbm'"),
        (("[grid]", "[grid]\nwhat_if.hbm_bw = ['fast']"), "hbm_bw"),
        (("[grid]", "[grid]\npass.hoisted = [true]"), "no pass 'hoisted'"),
        (("[grid]", "[page]\nx = 'tp'\n[grid]"), "x = 'tp' is not swept"),
        (("[grid]", "[page]\nx = 'twice'\ny = 'twice'\n[grid]"), "x and y are both twice"),
        (("[grid]", "[page]\nwork = 'columns'\n[grid]"), "a list of parameters"),
        (("[grid]", "[price_per_hour]\ntrn2 = -1\n[grid]"), "is no price"),
        (("[grid]", "[price_per_hour]\nh100 = 1\n[grid]"), "unknown device 'h100'"),
        (("[grid]", "[[together]]\ndevice = ['trn1', 'trn2']\nlnc = [1]\n[grid]"), "lengths: device 2, lnc 1"),
        (('kernel = "add.py::add"', ""), "neither model nor kernel"),
        (('kernel = "add.py::add"', 'kernel = "add.py::add"\nmodel = "x.json"'), "both model and kernel"),
        (("[set]", "[set"), "not TOML"),
        (("add.py::add", "add.py"), "names no kernel"),
        (("add.py::add", "sub.py::add"), "kernel 'sub.py': no such file"),
        (("[grid]", "[page]\nx = {a = 1}\n[grid]"), "is not swept"),
    ],
)  # fmt: skip
def test_a_specification_that_is_wrong_says_what_is(folder, change, words):
    with pytest.raises(InputError) as caught:
        read(written(folder, SPECIFICATION.replace(*change)))
    assert words in str(caught.value)


def test_a_grid_without_axes_and_a_file_that_is_none_are_refused(folder):
    with pytest.raises(InputError, match="nothing is swept"):
        read(written(folder, 'model = "x.json"\n'))
    with pytest.raises(InputError, match="No such file"):
        read(folder / "nothing.toml")
    (folder / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UTF-8"):
        read(folder / "bytes.toml")


def test_more_work_takes_longer_and_every_point_has_a_bound(folder):
    found = run(folder)
    times = {(one.parameters["columns"], one.parameters["twice"]): one.outcome.latency_ps for one in found.results}
    assert times[64, False] < times[512, False] < times[2048, False] < times[2048, True]
    assert all(one.outcome.bound and one.outcome.unit == "launch" for one in found.results)
    shares = [sum(getattr(one.outcome, name) for name in SHARES) for one in found.results]
    assert shares == pytest.approx([1.0] * 6)


def test_points_are_compared_with_those_of_the_same_shapes(folder):
    found = run(folder)
    assert found.specification.work == ("columns",)
    assert [(one.parameters["columns"], one.parameters["twice"]) for one in found.front] == [
        (64, False), (512, False), (2048, False)
    ]  # fmt: skip


def test_a_what_if_moves_the_time_and_one_that_does_not_is_named(folder):
    text = SPECIFICATION.replace(
        "twice = [false, true]", "what_if.memory_bw = ['1x', '4x']\nwhat_if.link_bw = ['1x', '2x']"
    )
    found = run(folder, text.replace('twice = "{twice}"', ""))
    times = {tuple(one.parameters.values())[2:]: one.outcome.latency_ps for one in found.results}
    assert times[2048, "4x", "1x"] < times[2048, "1x", "1x"]
    assert found.idle == ("what_if.link_bw",)


def test_a_point_that_fails_is_recorded_and_the_others_go_on(folder):
    found = run(folder, SPECIFICATION.replace("[64, 512, 2048]", "[64, 100000000]"))
    assert [bool(one.outcome.error) for one in found.results] == [False, False, True, True]
    bad = found.results[2].outcome
    assert (bad.exit_code, bad.bound, bad.latency_ps) == (4, "memory_capacity", None)
    (folder / "add.py").write_text(KERNEL.replace("out = nl", "assert not twice\n    out = nl"))
    found = run(folder)
    assert [bool(one.outcome.error) for one in found.results] == [False, True] * 3


def test_what_is_kept_is_not_run_again_until_its_content_changes(folder, monkeypatch):
    first = run(folder)
    assert not any(one.kept for one in first.results)
    ran = []
    monkeypatch.setattr(running, "evaluate", lambda point: ran.append(point) or Outcome())
    second = run(folder)
    assert not ran
    assert all(one.kept for one in second.results)
    assert [one.outcome for one in second.results] == [one.outcome for one in first.results]
    (folder / "add.py").write_text(KERNEL + "\n# another\n")
    run(folder)
    assert len(ran) == 6


def test_what_a_kernel_imports_from_beside_it_is_its_content_too(folder):
    (folder / "beside.py").write_text("COLUMNS = 1\n")
    (folder / "add.py").write_text("import beside\n" + KERNEL)
    point = next(points(read(folder / "sweep.toml")))
    before = kept.Keys()(point)
    assert kept.Keys()(point) == before
    (folder / "further.py").write_text("COLUMNS = 2\n")
    (folder / "beside.py").write_text("from further import COLUMNS\n")
    after = kept.Keys()(point)
    assert after != before
    (folder / "further.py").write_text("COLUMNS = 3\n")
    assert kept.Keys()(point) not in (before, after)


def test_a_kept_file_that_is_damaged_is_run_again(folder):
    first = run(folder)
    damaged = sorted((folder / "kept").rglob("*.json"))[:2]
    damaged[0].write_text("{")
    damaged[1].write_text('{"latency_ps": 1, "stranger": 2}')
    again = run(folder)
    assert sum(not one.kept for one in again.results) == 2
    assert [one.outcome for one in again.results] == [one.outcome for one in first.results]


def test_a_sweep_that_is_stopped_goes_on_where_it_was(folder):
    def stop(done: int, total: int, kept: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, progress=stop)
    told = []
    found = run(folder, progress=lambda *now: told.append(now))
    assert told[0] == (3, 6, 3)
    assert told[-1] == (6, 6, 3)
    assert [one.kept for one in found.results] == [True] * 3 + [False] * 3


def result(number: int, latency: float, throughput: float, cost: float | None) -> Result:
    return Result(number, {}, Outcome(latency_ps=latency, throughput=throughput), False, cost, None)


def test_the_front_has_exactly_the_points_that_none_beats():
    import numpy as np

    rows = np.random.default_rng(0).integers(1, 8, (200, 3))
    found = best([result(n, *row) for n, row in enumerate(rows.tolist())], lambda one: one.chip_hours_per_million)
    signed = rows * (1, -1, 1)
    naive = {
        n for n, row in enumerate(signed)
        if not ((signed <= row).all(axis=1) & (signed < row).any(axis=1)).any()
    }  # fmt: skip
    assert found == naive
    assert 0 < len(found) < 200


def test_a_price_is_of_whole_machines_or_of_a_share_of_one():
    from trnprof.sweep.cost import chip_hours, price

    half = Outcome(throughput=1e6 / 3600, device="trn2", cores=8, chips=1.0)
    assert chip_hours(half) == pytest.approx(1)
    assert price(half, {"trn2": 3.0}) == pytest.approx(3)
    assert price(half, {"trn2.48xlarge": 16.0}) == pytest.approx(1)
    assert price(half, {"trn2": 3.0, "trn2.48xlarge": 16.0, "trn1": 0.1}) == pytest.approx(1)
    assert price(replace(half, cores=129), {"trn2.48xlarge": 16.0}) == pytest.approx(32)
    assert price(half, {"trn1": 1.0}) is None


@pytest.mark.parametrize("path", sorted((ROOT / "traces" / "sweeps").glob("*.toml")), ids=lambda path: path.stem)
def test_the_samples_can_be_swept(path):
    asked = read(path)
    assert 1 < asked.size == len(list(points(asked))) <= running.MOST


def test_what_the_documentation_shows_can_be_swept(tmp_path):
    blocks = (ROOT / "docs" / "sweeps.md").read_text().split("```toml\n")[1:]
    assert len(blocks) == 2
    for block in blocks:
        text = block.partition("```")[0].replace("../", f"{ROOT}/traces/")
        assert read(written(tmp_path, text)).size > 1


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "small.json").write_text(json.dumps(MODEL))
    path = tmp_path / "model.toml"
    path.write_text('model = "small.json"\nphase = "decode"\ncontext = 256\n[grid]\ntp = [1, 2, 3]\nbatch = [1, 8]\n')
    return path


def test_a_model_is_swept_over_its_parallelism(model):
    found = sweep(read(model), jobs=1, folder=model.parent / "kept")
    good = [one for one in found.results if one.fits]
    assert [one.parameters["tp"] for one in good] == [1, 1, 2, 2]
    assert all("tp=3 does not divide" in one.outcome.error for one in found.failed)
    assert [one.outcome.cores for one in good] == [1, 1, 2, 2]
    assert all(one.outcome.network_ps for one in good[2:])
    again = sweep(replace(read(model)), jobs=1, folder=model.parent / "kept")
    assert all(one.kept for one in again.results)
    (model.parent / "small.json").write_text(json.dumps({**MODEL, "intermediate_size": 1024}))
    assert not any(one.kept for one in sweep(read(model), jobs=1, folder=model.parent / "kept").results)


KILLING = """
import os, pathlib, signal
import multiprocessing

def die():
    mark = pathlib.Path({mark!r})
    if {here} and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def killing(folder: Path, columns: int) -> Path:
    """A kernel that kills the first process that runs it for so many columns; the mark it leaves."""
    mark = folder / "killed"
    text = KERNEL.replace("    out = nl", f"    if a.shape[1] == {columns}:\n        die()\n    out = nl", 1)
    (folder / "add.py").write_text(KILLING.format(mark=str(mark), here=True) + text)
    return mark


def test_a_worker_that_is_killed_in_the_middle_loses_nothing(folder):
    whole = run(folder)
    mark = killing(folder, 512)
    found = sweep(read(folder / "sweep.toml"), jobs=2, folder=folder / "kept")
    assert mark.exists()
    assert [one.outcome for one in found.results] == [one.outcome for one in whole.results]


def test_a_point_that_kills_every_worker_is_set_aside(folder):
    mark = killing(folder, 512)
    text = (folder / "add.py").read_text().replace("mark.touch()", "pass")
    (folder / "add.py").write_text(text)
    found = sweep(read(folder / "sweep.toml"), jobs=2, folder=folder / "kept")
    assert not mark.exists()
    assert [one.outcome.exit_code for one in found.results] == [0, 0, 137, 137, 0, 0]
    assert "worker was lost 3 times" in found.results[2].outcome.error
    (folder / "add.py").write_text(text.replace("os.kill(", "(lambda *_: 0)("))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_cluster_of_two_workers_gives_the_same_though_one_is_killed(engine, folder):
    if importlib.util.find_spec(NEEDS[engine]) is None:
        pytest.skip(f"{engine} is not installed: pip install 'trnprof[{engine}]'")
    whole = run(folder)
    mark = killing(folder, 512)
    command = [sys.executable, "-m", "trnprof", "sweep", str(folder / "sweep.toml"), "--engine", engine, "--jobs", "2"]
    command += ["-o", str(folder / "out"), "--keep", str(folder / "kept"), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert mark.exists()
    found = json.loads(done.stdout)["results"]
    assert [one["latency_ps"] for one in found] == [one.outcome.latency_ps for one in whole.results]
    assert not any(one["kept"] for one in found)


@pytest.mark.slow
def test_a_sweep_whose_process_is_killed_goes_on_where_it_was(folder):
    text = SPECIFICATION.replace("[64, 512, 2048]", str(list(range(64, 2048, 16))))
    path = written(folder, text)
    command = [sys.executable, "-m", "trnprof", "sweep", str(path), "--jobs", "1", "--keep", str(folder / "kept")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    begun = subprocess.Popen(
        [*command, "-o", str(folder / "out")], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 120
    while len(list((folder / "kept").rglob("*.json"))) < 5 and begun.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    begun.send_signal(signal.SIGKILL)
    assert begun.wait() == -signal.SIGKILL
    there = len(list((folder / "kept").rglob("*.json")))
    assert 5 <= there < 248
    told = []
    found = sweep(read(path), jobs=1, folder=folder / "kept", progress=lambda *now: told.append(now))
    assert told[0] == (there, 248, there)
    assert all(one.fits for one in found.results)
