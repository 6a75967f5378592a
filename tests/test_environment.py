"""The environment variables of NKI, and its ways to launch a kernel, in scripts run by `trnprof run SCRIPT.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sim.errors import InputError
from sim.nki import environment
from trnprof import cli

HEAD = """
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(out, nl.add(tile, tile))
    return out


x = np.arange(128 * 4, dtype=np.float32).reshape(128, 4)
"""


def ran(script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[str], str]:
    """Exit code, what the script printed line by line, and what was said on stderr."""
    path = tmp_path / "script.py"
    path.write_text(HEAD + script)
    code = cli.main(["run", *options, str(path)])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


CALLS = {
    "plain call": "double(x)",
    "simulate": "nki.simulate(double)(x)",
    "simulate a plain function": "nki.simulate(double.function)(x)",
    "baremetal": "nki.baremetal(double)(x)",
    "profile": "nki.profile(working_directory='there')(double)(x)",
    "benchmark": "nki.benchmark(warmup=1, iters=2)(double)(x)",
}


@pytest.mark.parametrize("simulator", [None, "0", "1"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_way_to_launch_a_kernel_gives_its_values(call, simulator, tmp_path, capsys, monkeypatch):
    if simulator is not None:
        monkeypatch.setenv("NKI_SIMULATOR", simulator)
    code, lines, _ = ran(f"got = {call}\nprint(type(got).__name__, (got == 2 * x).all())", tmp_path, capsys)
    assert (code, lines[0]) == (0, "ndarray True")
    assert any(line.startswith("double") for line in lines), "the launch is listed"


def test_a_benchmark_in_a_script_gives_our_estimate_and_says_so(tmp_path, capsys):
    script = """
timed = nki.benchmark(double)
timed(x)
result = timed.benchmark_result
print(result.is_estimate, result.nc_latency.is_estimate)
print(*{result.nc_latency.get_latency_percentile(p) for p in (0, 50, 90, 99, 100)})
"""
    code, lines, _ = ran(script, tmp_path, capsys)
    assert (code, lines[0]) == (0, "True True")
    assert 2 < float(lines[1]) < 1000, "microseconds, of which every percentile is the same"


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (None, "3 3"),
        ("trn1", "2 2"),
        ("inf2", "2 2"),
        ("gen2", "2 2"),
        ("gen3", "3 3"),
        ("TRN3", "4 4"),
        ("gen4", "4 4"),
    ],
)
def test_the_platform_is_seen_by_the_script_and_by_its_kernels(value, printed, tmp_path, capsys, monkeypatch):
    script = """
@nki.jit
def tells(x):
    print(int(nisa.get_nc_version()), before)
    return double(x)


before = int(nisa.get_nc_version())
tells(x)
"""
    if value is not None:
        monkeypatch.setenv(environment.PLATFORM, value)
    code, lines, _ = ran(script, tmp_path, capsys)
    assert (code, lines[0]) == (0, printed)


def test_a_platform_that_the_script_sets_itself_holds_from_then_on(tmp_path, capsys):
    script = """
import os
print(int(nisa.get_nc_version()))
os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = "trn1"
print(int(nisa.get_nc_version()))
del os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"]
"""
    assert ran(script, tmp_path, capsys)[1][:2] == ["3", "2"]


def test_an_unknown_platform_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(environment.PLATFORM, "trn9")
    code, _, said = ran("double(x)", tmp_path, capsys)
    assert code == 1
    assert "NEURON_PLATFORM_TARGET_OVERRIDE=trn9: known are trn1, inf2, gen2" in said


def test_the_device_of_a_kernel_by_name_is_the_options_else_the_environments(tmp_path, capsys, monkeypatch):
    path = tmp_path / "kernel.py"
    path.write_text(HEAD)
    monkeypatch.setenv(environment.PLATFORM, "gen2")
    for options, device in (([], "trn1"), (["--device", "trn3"], "trn3")):
        assert cli.main(["run", f"{path}::double", "--arg", "x=fp32[128,4]", *options]) == 0
        assert f"double  {device}" in capsys.readouterr().out


@pytest.mark.parametrize(("value", "rounded"), [(None, True), ("1", True), ("0", False)])
def test_low_precision_is_rounded_unless_told_otherwise(value, rounded, tmp_path, capsys, monkeypatch):
    if value is not None:
        monkeypatch.setenv(environment.PRECISION, value)
    script = """
@nki.jit
def third(x):
    out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
    tile = nl.multiply(nl.load(x), 1 / 3, dtype=nl.bfloat16)
    nl.store(out, nl.copy(tile, dtype=nl.float32))
    return out


print(abs(third(np.ones((128, 4), np.float32))[0, 0] * 3 - 1) > 1e-4)
"""
    assert ran(script, tmp_path, capsys)[1][0] == str(rounded)


@pytest.mark.parametrize(("value", "programs"), [(None, 1), ("1", 1), ("2", 2)])
def test_a_logical_core_has_as_many_cores_as_the_environment_says(value, programs, tmp_path, capsys, monkeypatch):
    if value is not None:
        monkeypatch.setenv(environment.CORES, value)
    script = """
@nki.jit
def tells(x):
    print(nl.num_programs(0))
    return double(x)


tells(x)
"""
    code, lines, _ = ran(script, tmp_path, capsys)
    assert (code, lines[:programs]) == (0, [str(programs)] * programs)


def test_a_launch_grid_that_contradicts_the_environment_is_an_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(environment.CORES, "1")
    code, _, said = ran("double[2](x)", tmp_path, capsys)
    assert code == 1
    assert "double[2]: NEURON_LOGICAL_NC_CONFIG is 1, the two must be the same" in said
    monkeypatch.setenv(environment.CORES, "3")
    with pytest.raises(InputError, match="NEURON_LOGICAL_NC_CONFIG=3: known are 1 and 2"):
        environment.logical_cores((), "double")


LOOPS = """
@nki.jit
def loops(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    held = nl.zeros(x.shape, x.dtype)
    {loop}
        nisa.tensor_scalar(held, held, nl.add, 1.0)
        {then}
    nl.store(out, held)
    return out


print(loops(x)[0, 0])
"""
RANGE = LOOPS.format(loop="for _ in nl.dynamic_range(nisa.register_alloc(3)):", then="pass")
WHILE = LOOPS.format(
    loop="left = nisa.register_alloc(3)\n    while left:", then="nisa.register_move(left, int(left) - 1)"
)


@pytest.mark.parametrize(("script", "what"), [(RANGE, "nl.dynamic_range"), (WHILE, "a register as a condition")])
@pytest.mark.parametrize("frontend", [None, "custom"])
def test_loops_that_only_the_parser_takes_are_a_warning_unless_it_is_asked_for(
    script, what, frontend, tmp_path, capsys, monkeypatch
):
    if frontend is not None:
        monkeypatch.setenv(environment.FRONTEND, frontend)
    path = tmp_path / "kernel.py"
    path.write_text(HEAD + script)
    code = cli.main(["run", "--json", f"{path}::loops", "--arg", "x=fp32[128,4]"])
    out, said = capsys.readouterr()
    assert code == 0, "a warning is no failure"
    assert "3.0" in said, "what the file prints"
    assert (what in out and "refuses it from release 0.7 on" in out) is (frontend is None)


def test_the_parser_has_no_scalars(tmp_path, capsys, monkeypatch):
    script = """
@nki.jit
def loads(x):
    nisa.scalar_load(nl.zeros((1, 1), nl.int32))
    return double(x)


print(loads(x).sum())
"""
    assert ran(script, tmp_path, capsys)[0] == 0
    monkeypatch.setenv(environment.FRONTEND, "custom")
    code, _, said = ran(script, tmp_path, capsys)
    assert code == 1
    assert "nki.isa.scalar_load: the parser, which NKI_COMPILER_FRONTEND=custom asks for, has no scalars" in said


def test_a_script_runs_in_a_process_of_its_own(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(HEAD + "import sys\nprint(np.allclose(double(x), 2 * x), sys.argv[1:])")
    done = subprocess.run(
        [sys.executable, "-m", "trnprof", "run", str(path), "one", "--two"],
        env={**os.environ, "NKI_SIMULATOR": "1", environment.PLATFORM: "trn3"},
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    assert done.stdout.splitlines()[0] == "True ['one', '--two']"
    assert np.char.startswith(done.stdout.splitlines()[2], "double")
