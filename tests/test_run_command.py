"""`trnprof run` and `trnprof demo`: kernels by name, scripts as python runs them, and what is kept of each launch."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sim
from sim.errors import InputError
from trnprof import cli, readers, words
from trnprof.arguments import parse
from trnprof.view import Session

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "traces" / "kernels"
SILU = f"{KERNELS / 'silu_multiply.py'}::silu_multiply"
TENSORS = ("gate=bf16[128,512]", "up=bf16[128,512]")
ARGS = ("--arg", TENSORS[0], "--arg", TENSORS[1])

SCRIPT = """
import sys
import numpy as np
from silu import silu_multiply

if __name__ == "__main__":
    columns = int(sys.argv[1])
    x = np.full((128, columns), 2.0, np.float32)
    out = silu_multiply(x, x)
    twice = silu_multiply(out, x)
    print("first", float(out[0, 0]), sys.argv[1:])
"""


def result(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> tuple[str, str]:
    found = cli.main(argv)
    out, err = capsys.readouterr()
    assert found == code, err
    return out, err


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script beside a kernel file, with two launches."""
    (tmp_path / "silu.py").write_text((KERNELS / "silu_multiply.py").read_text())
    (tmp_path / "main.py").write_text(SCRIPT)
    return tmp_path / "main.py"


def test_run_json_is_what_sim_run_gives(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out, err = result(capsys, "run", SILU, *ARGS, "--json", "-o", str(tmp_path / "kept"), "--seed", "5")
    found = json.loads(out)
    run = sim.run(sim.load(SILU), seed=5, **parse(list(TENSORS), seed=5, values=True))
    assert err == ""
    assert found["latency_ns"] == run.latency_ns
    assert found["total_ns"] == run.total_ns
    assert found["benchmark_ns"] == run.benchmark_ns
    assert (found["device"], found["is_simulation"], found["kernel"]) == ("trn2", True, "silu_multiply")
    (output,) = found["outputs"]
    assert output["shape"] == [128, 512]
    assert output["dtype"] == "bfloat16"
    assert output["sha256"] == hashlib.sha256(run.outputs[0].tobytes()).hexdigest()
    assert found["trace"] == str(tmp_path / "kept")
    kept = json.loads(result(capsys, "summary", found["trace"], "--json")[0])
    assert {key: found[key] for key in kept} == kept


def test_error_bars_are_printed_kept_and_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    kept = str(tmp_path / "kept")
    out, _ = result(capsys, "run", SILU, *ARGS, "--error-bars", "3", "--no-values", "-o", kept)
    trace = readers.open(kept)
    bar = trace.meta.error_bars["latency_ns"]
    span = words.interval(words.time(bar["low"] * 1000), words.time(bar["high"] * 1000))
    assert f"({span})" in out
    assert trace.meta.error_bars["verdict"]["sentence"].split()[0] in out
    out, _ = result(capsys, "summary", kept, "--json")
    assert json.loads(out)["error_bars"]["latency_ns"] == bar
    assert span in Session(trace).meta.window.words
    plain, _ = result(capsys, "run", SILU, *ARGS, "--no-values", "--json")
    assert json.loads(plain)["error_bars"] is None


def test_run_prints_the_verdict_and_where_the_trace_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out, err = result(capsys, "run", SILU, *ARGS, "-o", str(tmp_path / "kept"))
    assert err == ""
    assert "emulated" in out.splitlines()[0]
    assert "-bound" in out.splitlines()[1]
    assert str(tmp_path / "kept") in out
    assert readers.open(tmp_path / "kept").meta.is_simulation


def test_run_keeps_nothing_unasked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, err = result(capsys, "run", SILU, *ARGS)
    assert "-o DIR" in err
    assert list(tmp_path.iterdir()) == []


def test_options_may_stand_before_the_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    before = json.loads(result(capsys, "run", "--json", "--device", "trn1", *ARGS, SILU)[0])
    behind = json.loads(result(capsys, "run", SILU, *ARGS, "--device", "trn1", "--json")[0])
    assert before == behind
    assert before["device"] == "trn1"


def test_values_do_not_change_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    full = json.loads(result(capsys, "run", SILU, *ARGS, "--json")[0])
    timed = json.loads(result(capsys, "run", SILU, *ARGS, "--json", "--no-values")[0])
    assert timed["latency_ns"] == full["latency_ns"]
    assert timed["outputs"][0]["sha256"] is None


def test_without_values_a_tensor_may_be_larger_than_memory(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("--arg", "gate=bf16[128,8192]", "--arg", "up=bf16[128,8192]")
    assert json.loads(result(capsys, "run", SILU, *args, "--no-values", "--json")[0])["latency_ns"] > 0


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        ((f"{KERNELS}/nothing.py::k",), 1, "nothing.py: no such file"),
        ((f"{KERNELS}/silu_multiply.py::nothing",), 1, "no kernel `nothing`"),
        ((SILU,), 1, "missing a required argument: 'gate'"),
        ((SILU, *ARGS, "--arg", "spare=1"), 1, "spare"),
        (
            (SILU, "--arg", "gate=bf16[128,512", "--arg", "up=bf16[128,512]"),
            2,
            "gate: bf16[128,512 is not DTYPE[SHAPE]",
        ),
        ((SILU, "--arg", "gate=bf16[99999999999,512]", "--arg", "up=bf16[1,1]"), 1, "gate: [99999999999, 512] needs"),
        ((SILU, *ARGS, "--device", "tpu"), 1, "unknown device 'tpu'"),
        ((SILU, *ARGS, "--device", "inf1"), 3, "no timing model"),
        ((SILU, "--arg", "gate=bf16[128,512]", "--arg", "up=3"), 1, "silu_multiply.py"),
        ((SILU, "--arg", "gate=bf16[128,300000]", "--arg", "up=bf16[128,300000]", "--no-values"), 4, "SBUF"),
        ((SILU, *ARGS, "--fast"), 2, "--fast"),
        ((SILU, "stray", *ARGS), 2, "stray"),
        (("nothing.py",), 1, "nothing.py: no such file"),
    ],
    ids=lambda value: " ".join(map(str, value))[-40:] if isinstance(value, tuple) else None,
)
def test_what_cannot_run_says_why_in_one_line(
    argv: tuple[str, ...], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = result(capsys, "run", *argv, code=code)
    assert out == ""
    assert err.startswith("trnprof: ")
    assert err.count("\n") == 1
    assert says in err


def test_a_parameter_may_have_the_name_of_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        (KERNELS / "silu_multiply.py")
        .read_text()
        .replace("gate", "device")
        .replace("up,", "seed,")
        .replace("up)", "seed)")
    )
    text = text.replace("up[", "seed[").replace("up.dtype", "seed.dtype")
    path = tmp_path / "named.py"
    path.write_text(text)
    args = ("--arg", "device=bf16[128,512]", "--arg", "seed=bf16[128,512]")
    assert json.loads(result(capsys, "run", f"{path}::silu_multiply", *args, "--json")[0])["device"] == "trn2"


def test_a_kernel_that_raises_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import nki\n\n\n@nki.jit\ndef broken(x):\n    return x.shape[7]\n")
    _, err = result(capsys, "run", f"{path}::broken", "--arg", "x=fp32[128,8]", code=1)
    assert err.startswith(f"trnprof: {path}:6: IndexError")


ODD = """
import sys
import nki, nki.isa as nisa, nki.language as nl


@nki.jit
def copied(x, rows=0, name="out", back=False):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name=name)
    if rows:
        tile = nl.ndarray((rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:rows])
        nisa.dma_copy(dst=out[:rows], src=tile)
    return x if back else out


@nki.jit
def ends(x):
    sys.exit(0)


@nki.jit
def colours(x):
    raise RuntimeError("\\x1b[31mred")
"""


@pytest.fixture
def odd(tmp_path: Path) -> str:
    (tmp_path / "odd.py").write_text(ODD)
    return str(tmp_path / "odd.py")


@pytest.mark.parametrize(
    ("args", "missing"),
    [
        (("rows=128",), None),
        (("rows=64",), 512),
        (("rows=0",), 1024),
        (("rows=0", "back=true"), None),
        (("rows=0", "--no-values"), 1024),
        (("rows=0", "back=true", "--no-values"), None),
        (("rows=128", "--no-values"), None),
    ],
)
def test_an_output_that_is_not_written_is_found(
    args: tuple[str, ...], missing: int | None, odd: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word for arg in args for word in ((arg,) if arg.startswith("--") else ("--arg", arg))]
    code = int(missing is not None)
    out, _ = result(capsys, "run", f"{odd}::copied", "--arg", "x=fp32[128,8]", *given, "--json", code=code)
    found = json.loads(out)["findings"]
    assert [finding["kind"] for finding in found] == ([] if missing is None else ["unwritten_output"])
    assert missing is None or found[0]["sentence"].startswith(f"{missing} of 1024 elements of the output `out`")
    assert missing is None or found[0]["source"] == f"{odd}:8"


def test_a_kernel_that_does_nothing_is_not_given_a_bound(odd: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = result(capsys, "run", f"{odd}::copied", "--arg", "x=fp32[128,8]", code=1)
    assert "Nothing works here" in out
    assert "bound" not in out.replace("bound by", "")


def test_a_run_is_shown_in_one_line(odd: str) -> None:
    run = sim.run(sim.load(f"{odd}::copied"), np.ones((128, 8), np.float32), rows=128)
    assert repr(run) == f"Run(copied on trn2, latency_ns={run.latency_ns:.1f}, outputs=(float32[128, 8]))"


@pytest.mark.parametrize("lnc", [0, 3, -1])
def test_a_logical_core_has_one_or_two_cores(lnc: int, odd: str) -> None:
    with pytest.raises(InputError, match="lnc="):
        sim.run(sim.load(f"{odd}::copied"), np.ones((128, 8), np.float32), lnc=lnc)


def test_a_kernel_that_ends_the_process_is_an_error(odd: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, err = result(capsys, "run", f"{odd}::ends", "--arg", "x=fp32[128,8]", code=1)
    assert err.startswith(f"trnprof: {odd}:18: SystemExit")


def test_names_and_messages_of_a_kernel_cannot_steer_the_terminal(odd: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = result(capsys, "run", f"{odd}::copied", "--arg", "x=fp32[128,8]", "--arg", "name='a\x1b[31mb'", code=1)
    _, err = result(capsys, "run", f"{odd}::colours", "--arg", "x=fp32[128,8]", code=1)
    assert "\x1b" not in out + err


def test_a_kernel_of_a_package_imports_its_neighbours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pack" / "deep").mkdir(parents=True)
    for name in ("pack/__init__.py", "pack/deep/__init__.py"):
        (tmp_path / name).touch()
    path = tmp_path / "pack" / "deep" / "kernels.py"
    path.write_text("from ..settings import ROWS\n" + ODD.replace("rows=0", "rows=ROWS"))
    for rows, missing in ((128, 0), (64, 1)):
        other = tmp_path / str(rows)
        shutil.copytree(tmp_path / "pack", other / "pack")
        (other / "pack" / "settings.py").write_text(f"ROWS = {rows}\n")
        target = f"{other}/pack/deep/kernels.py::copied"
        out, _ = result(capsys, "run", target, "--arg", "x=fp32[128,8]", "--json", code=missing)
        assert len(json.loads(out)["findings"]) == missing


def test_a_file_that_does_not_parse_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "torn.py"
    path.write_text("x = 1\ndef f(:\n")
    for target in (f"{path}::f", str(path)):
        _, err = result(capsys, "run", target, code=1)
        assert f"trnprof: {path}:2: SyntaxError" in err
    path.write_text("x = '\0'\n")
    for target in (f"{path}::f", str(path)):
        _, err = result(capsys, "run", target, code=1)
        assert f"trnprof: {path}" in err and "None" not in err


def test_a_number_format_that_the_device_lacks_is_named_with_its_argument(
    odd: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "wide.npy", np.ones((128, 8)))
    _, err = result(capsys, "run", f"{odd}::copied", "--arg", f"x=@{tmp_path}/wide.npy", code=1)
    assert err.startswith("trnprof: copied: argument x: dtype")


def test_every_launch_of_a_script_is_recorded(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = result(capsys, "run", "--json", "-o", str(tmp_path / "kept"), str(script), "256", "--device", "mine")
    found = json.loads(out)
    assert "first" in err
    assert "['256', '--device', 'mine']" in err
    assert (found["script"], found["exit_code"]) == (str(script), 0)
    assert [launch["kernel"] for launch in found["launches"]] == ["silu_multiply"] * 2
    assert len({launch["trace"] for launch in found["launches"]}) == 2
    for launch in found["launches"]:
        assert Path(launch["trace"]).parent == tmp_path / "kept"
        window = readers.open(launch["trace"]).meta.window
        assert (window[1] - window[0]) / 1000 == launch["latency_ns"]


def test_launches_of_an_earlier_run_do_not_mix_with_those_of_this_one(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    stale, mine = kept / "0007-other", kept / "0008-mine"
    result(capsys, "run", "-o", str(stale), SILU, *ARGS)
    mine.mkdir()
    (mine / "notes.txt").touch()
    result(capsys, "run", "-o", str(kept), str(script), "256")
    assert sorted(path.name for path in kept.iterdir()) == ["0000-silu_multiply", "0001-silu_multiply", "0008-mine"]


def test_a_script_prints_where_it_always_does(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = result(capsys, "run", str(script), "256")
    assert err == ""
    assert out.startswith("first 3.5")
    assert out.count("\nsilu_multiply ") == 2
    assert "~" in out


def test_a_script_leaves_the_process_as_it_was(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv, path, modules = list(sys.argv), list(sys.path), set(sys.modules)
    result(capsys, "run", str(script), "256")
    assert (sys.argv, sys.path) == (argv, path)
    assert "nki" not in sys.modules or "nki" in modules


@pytest.mark.parametrize(
    ("ending", "code", "says"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('enough')", 1, "enough\n"),
        ("raise ValueError('no good')", 1, "main.py:13: ValueError: no good\n"),
        ("open('none.txt')", 1, "main.py:13: FileNotFoundError: "),
    ],
)
def test_a_script_ends_as_it_does_under_python(
    ending: str, code: int, says: str, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text(f"{SCRIPT}\n{ending}\n")
    _, err = result(capsys, "run", str(script), "256", code=code)
    assert says in err
    assert "Traceback" not in err


def test_launches_before_a_fault_stay_recorded(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text(f"{SCRIPT}\nraise ValueError('no good')\n")
    _, err = result(capsys, "run", "-o", str(tmp_path / "kept"), str(script), "256", code=1)
    assert "after 2 kernel launches" in err
    assert len(list((tmp_path / "kept").iterdir())) == 2


def test_a_script_without_kernels_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plain.py"
    path.write_text("print('hello')\n")
    assert result(capsys, "run", str(path)) == (
        "hello\nno kernel was launched (FILE.py::KERNEL runs one by name)\n",
        "",
    )


def test_the_demo_runs_away_from_the_checkout(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "trnprof", "demo", "--no-web", "-o", "kept", "--json"]
    done = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["kernel"] == "attention"
    assert found["error"] < 0.01
    assert found["findings"] == []
    assert readers.open(tmp_path / "kept").meta.kernel == "attention"


def test_the_demo_prints_its_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = result(capsys, "demo", "--no-web", "-o", str(tmp_path / "kept"))
    assert err == ""
    assert words.NARROW in out.splitlines()[1]
    assert "-bound" in out.splitlines()[1]


def test_an_input_from_a_file_gives_the_values_of_that_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.linspace(-4, 4, 128 * 64, dtype=np.float32).reshape(128, 64)
    np.save(tmp_path / "x.npy", x)
    args = ("--arg", f"gate=@{tmp_path}/x.npy", "--arg", f"up=@{tmp_path}/x.npy")
    found = json.loads(result(capsys, "run", SILU, *args, "--json")[0])
    run = sim.run(sim.load(SILU), x, x)
    np.testing.assert_allclose(run.outputs[0], x * x / (1 + np.exp(-x)), rtol=1e-2, atol=1e-3)
    assert found["outputs"][0]["sha256"] == hashlib.sha256(run.outputs[0].tobytes()).hexdigest()


ROWS = """
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

@nki.jit
def rows(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for row in range(8):
        tile = nl.ndarray((128, 512), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[row])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out[row], src=tile)
    return out

if __name__ == "__main__":
    rows(np.zeros((8, 128, 512), np.float32))
"""
"""Tiles that wait for one another when memory is used again at once."""


def test_passes_are_switched_for_kernels_and_scripts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "rows.py"
    file.write_text(ROWS)
    usual, packed = (
        json.loads(result(capsys, "run", f"{file}::rows", "--arg", "x=fp32[8,128,512]", "--json", *more)[0])
        for more in ((), ("--pass", "rotate=off"))
    )
    assert packed["latency_ns"] > usual["latency_ns"]
    run = sim.run(sim.load(f"{file}::rows"), np.zeros((8, 128, 512), np.float32), passes={"rotate": False})
    assert run.latency_ns == packed["latency_ns"]
    (launch,) = json.loads(result(capsys, "run", "--pass", "rotate=off", "--json", str(file))[0])["launches"]
    assert launch["latency_ns"] == packed["latency_ns"]


def test_an_unknown_pass_is_an_error_of_usage_that_lists_the_passes(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = result(capsys, "run", SILU, *ARGS, "--pass", "interchange=on", code=2)
    assert "interchange=on" in err
    assert "distribute" in err
