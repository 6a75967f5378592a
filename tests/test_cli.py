"""What the command line promises: streams, exit codes, one line an error, and the contract's JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import CapacityError, InputError, UnsupportedError, UsageError
from trnprof import cli
from trnprof.commands import COMMANDS, arguments, devices

ROOT = Path(__file__).resolve().parent.parent


def trnprof(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trnprof", *argv]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, env={**os.environ, **env}, check=False)


def fails(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    """Exit code and the one line of a command that must fail."""
    code = cli.main(argv)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("trnprof: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return code, err


# --- the frame ----------------------------------------------------------------------------------------------------


def test_help_names_every_command_with_its_docstring() -> None:
    text = " ".join(cli.build_parser().format_help().split())
    for name, module in COMMANDS.items():
        assert f"{name} {module.execute.__doc__.partition(chr(10))[0].rstrip('.')}" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    out, err = capsys.readouterr()
    assert (stop.value.code, err) == (0, "")
    assert f"usage: trnprof {command}" in out


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "COMMAND"),
        (["nonsense"], "invalid choice: 'nonsense'"),
        (["run"], "required"),
        (["summary"], "TRACE"),
        (["devices", "--frobnicate"], "--frobnicate"),
        (["run", "k.py::k", "--arg"], "expected one argument"),
        (["run", "k.py::k", "--seed", "-1"], "--seed"),
        (["run", "k.py::k", "--lnc", "3"], "--lnc"),
        (["export", "t", "--to", "gif", "-o", "x"], "gif"),
        (["run", "--arg", "x=1", "script.py"], "--arg needs FILE.py::KERNEL"),
        (["run", "--lnc", "2", "script.py"], "--lnc needs FILE.py::KERNEL"),
    ],
)
def test_a_bad_command_line_exits_with_2(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, err = fails(capsys, *argv)
    assert code == 2
    assert says in err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (InputError("bad shape", source="k.py:7", remedy="use 128"), 1, "k.py:7: bad shape (use 128)"),
        (UsageError("what?"), 2, "what?"),
        (UnsupportedError("no such\ncall"), 3, "no such call"),
        (CapacityError("SBUF is full"), 4, "SBUF is full"),
        (FileNotFoundError(2, "No such file or directory", "x.npy"), 1, "x.npy: No such file or directory"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (MemoryError(), 1, "out of memory"),
        (KeyError("gone"), 1, "KeyError: 'gone' (a fault of trnprof's own; --traceback shows where)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_an_error_is_one_line_and_its_exit_code(
    error: Exception, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(args: object) -> None:
        """Fail."""
        raise error

    monkeypatch.delenv("TRNPROF_TRACEBACK", raising=False)
    monkeypatch.setattr(devices, "execute", execute)
    assert fails(capsys, "devices") == (code, f"trnprof: {line}\n")


@pytest.mark.parametrize(
    ("argv", "env"),
    [(["--traceback", "devices", "x"], {}), (["devices", "x", "--traceback"], {}), (["devices", "x"], {"X": "1"})],
    ids=["before", "behind", "environment"],
)
def test_a_traceback_is_shown_when_asked_for(
    argv: list[str], env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRNPROF_TRACEBACK", env.get("X", "0"))
    with pytest.raises(InputError, match="unknown device"):
        cli.main(argv)


def test_an_interrupt_exits_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def execute(args: object) -> None:
        """Wait."""
        raise KeyboardInterrupt

    monkeypatch.setattr(devices, "execute", execute)
    assert cli.main(["devices"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_closed_pipe_ends_quietly() -> None:
    writer = subprocess.Popen(
        [sys.executable, "-m", "trnprof", "devices", "trn2", "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    writer.stdout.close()
    assert writer.stderr.read() == b""
    writer.stderr.close()
    assert writer.wait() == 141


def test_words_that_the_terminal_lacks_do_not_stop_a_result() -> None:
    done = trnprof("devices", "trn2", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")


# --- --arg --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("7", 7),
        ("-7", -7),
        ("1e-5", 1e-5),
        ("true", True),
        ("False", False),
        ("none", None),
        ("gelu", "gelu"),
        ("'7'", "7"),
        ('"true"', "true"),
        ("", ""),
        ("a=b", "a=b"),
    ],
)
def test_a_scalar_is_what_it_looks_like(spec: str, value: object) -> None:
    found = arguments.parse([f"x={spec}"], seed=0, values=True)["x"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("spec", "dtype"),
    [
        ("bf16", ml_dtypes.bfloat16),
        ("bfloat16", ml_dtypes.bfloat16),
        ("fp16", np.float16),
        ("fp32", np.float32),
        ("fp8e4", ml_dtypes.float8_e4m3),
        ("fp8e5", ml_dtypes.float8_e5m2),
        ("int32", np.int32),
        ("uint8", np.uint8),
        ("int8", np.int8),
        ("bool", np.bool_),
    ],
)
def test_a_tensor_has_the_dtype_and_shape_asked_for(spec: str, dtype: type) -> None:
    tensor = arguments.parse([f"x={spec}[40, 3,5]"], seed=0, values=True)["x"]
    assert tensor.dtype == dtype
    assert tensor.shape == (40, 3, 5)
    assert len(np.unique(tensor.astype(np.float32))) > 1


def test_floats_are_normal_and_integers_are_small() -> None:
    made = arguments.parse(["x=fp32[100,100]", "i=int32[100,100]"], seed=0, values=True)
    assert abs(made["x"].mean()) < 0.05
    assert abs(made["x"].std() - 1) < 0.05
    assert (made["i"].min(), made["i"].max()) == (0, 127)


def test_a_tensor_depends_on_its_name_and_the_seed_alone() -> None:
    alone = arguments.parse(["x=fp32[8]"], seed=3, values=True)["x"]
    beside = arguments.parse(["w=fp32[9]", "x=fp32[8]"], seed=3, values=True)
    np.testing.assert_array_equal(alone, beside["x"])
    assert not np.array_equal(alone, beside["w"][:8])
    assert not np.array_equal(alone, arguments.parse(["x=fp32[8]"], seed=4, values=True)["x"])


def test_a_tensor_without_values_takes_no_memory() -> None:
    spec = arguments.parse(["x=bf16[1000000,1000000]"], seed=0, values=False)["x"]
    assert spec.shape == (10**6, 10**6)
    assert spec.dtype == ml_dtypes.bfloat16


def test_a_file_gives_its_array(tmp_path: Path) -> None:
    plain, raw = tmp_path / "plain.npy", tmp_path / "raw.npy"
    wanted = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(plain, wanted)
    np.save(raw, wanted.astype(ml_dtypes.bfloat16))
    specs = [f"a=@{plain}", f"b=bf16@{plain}", f"c=bf16@{raw}"]
    found = arguments.parse(specs, seed=0, values=True)
    assert [found[name].dtype for name in "abc"] == [np.float32, ml_dtypes.bfloat16, ml_dtypes.bfloat16]
    for array in found.values():
        np.testing.assert_array_equal(array.astype(np.float32), wanted)


@pytest.mark.parametrize(
    ("spec", "error", "says"),
    [
        ("x", UsageError, "NAME=SPEC"),
        ("=3", UsageError, "NAME=SPEC"),
        ("a b=3", UsageError, "NAME=SPEC"),
        ("x=bf17[3]", UsageError, "unknown dtype bf17"),
        ("x=bf16[3,y]", UsageError, "not a shape"),
        ("x=bf16[]", UsageError, "not a shape"),
        ("x=bf16[0]", UsageError, "below 1"),
        ("x=mxfp4[8]", UsageError, "no values can be made up"),
        ("x=@none.npy", FileNotFoundError, "none.npy"),
        ("x=@text.npy", InputError, "not a .npy file"),
        ("x=@objects.npy", InputError, "not a .npy file"),
        ("x=@raw.npy", InputError, "x=bf16@raw.npy"),
    ],
)
def test_a_bad_spec_is_named(
    spec: str, error: type, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.npy").write_text("1 2 3")
    np.save("objects.npy", np.array([{}]))
    np.save("raw.npy", np.ones(2, ml_dtypes.bfloat16))
    with pytest.raises(error, match=None) as raised:
        arguments.parse([spec], seed=0, values=True)
    assert says in str(raised.value)


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="given twice"):
        arguments.parse(["x=1", "x=2"], seed=0, values=True)


@given(st.text(max_size=40))
def test_any_spec_gives_a_value_or_says_why_not(text: str) -> None:
    with suppress(InputError, UsageError, OSError):
        assert arguments.parse([f"x={text}"], seed=0, values=False).keys() == {"x"}


# --- devices ------------------------------------------------------------------------------------------------------


def test_devices_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["devices"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for name in ("inf1", "trn1", "inf2", "trn2", "trn3"):
        assert f"\n{name} " in out
    assert cli.main(["devices", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {item["name"]: item["validated"] for item in listed}["trn3"] is False


def test_every_number_of_a_device_is_printed_with_kind_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    from sim.spec import device

    cli.main(["devices", "trn2.48xlarge", "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["name"] == "trn2"
    figures = {figure["id"]: figure for figure in printed["figures"]}
    assert figures.keys() == device("trn2").figures.keys()
    assert all(figure["kind"] and figure["source"] and figure["group"] for figure in figures.values())
    cli.main(["devices", "trn2"])
    lines = capsys.readouterr().out.splitlines()
    for id, figure in figures.items():
        row = next(line for line in lines if line.startswith(f"  {id} "))
        assert figure["kind"] in row
        number = row.split("[")[1].split("]")[0]
        assert f"  [{number}] {figure['source']}" in lines
