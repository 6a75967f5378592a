"""What the command line promises: streams, exit codes, one line an error, and the contract's JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import tracefile
from sim.errors import CapacityError, InputError, UnsupportedError, UsageError
from sim.trace import ENGINE_NAMES
from tests import synthetic
from trnprof import arguments, cli, readers, words
from trnprof.commands import COMMANDS, devices, streams
from trnprof.export import export
from trnprof.summary import summarize

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


def test_prose_keeps_within_a_narrow_terminal_and_ignores_it_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "one two three " * 20
    monkeypatch.setenv("COLUMNS", "60")
    assert 100 < max(map(len, streams.wrapped(text, "  · ").split("\n"))) <= 110
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert 50 < max(map(len, streams.wrapped(text, "  · ").split("\n"))) <= 60


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


def test_a_closed_stdout_is_no_fault() -> None:
    command = f"{sys.executable} -m trnprof devices >&-"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


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


# --- results of a trace -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A written trace of a small emulated kernel."""
    return str(tracefile.write(synthetic.attention(simulated=True), tmp_path_factory.mktemp("traces") / "attention"))


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The result of a command that must succeed and has nothing to say besides."""
    code = cli.main(argv)
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def test_summary_json_is_the_contract(kept: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "summary", kept, "--json"))
    trace = readers.open(kept)
    start, end = trace.meta.window
    assert (found["device"], found["is_simulation"], found["kernel"]) == ("trn2", True, trace.meta.kernel)
    assert found["latency_ns"] * 1000 == end - start
    assert found["total_ns"] * 1000 == trace.meta.total_ps
    assert found["summary"] == json.loads(json.dumps(summarize(trace)))
    assert {"Tensor", "Vector", "Scalar", "GpSimd", "Sync", "DMA"} >= found["engines"].keys()
    assert all(use.keys() >= {"active_ns", "instructions"} for use in found["engines"].values())
    verdict = found["verdicts"][0]
    assert verdict["kind"] == "whole"
    assert {"region", "bound", "share", "evidence", "margin"} <= verdict.keys()
    assert verdict["bound"] in ("compute", "memory_bandwidth", "memory_capacity", "network", "latency")
    for evidence in verdict["evidence"]:
        assert {"ceiling", "reached", "limit", "unit", "share", "sentence"} <= evidence.keys()
    assert found["findings"] == []
    assert found["outputs"] == []


def test_summary_says_in_words_what_its_json_says(kept: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "summary", kept, "--json"))
    text = printed(capsys, "summary", kept)
    verdict = found["verdicts"][0]
    first, second = text.splitlines()[:2]
    assert found["kernel"] in first
    assert "emulated" in first
    assert second.startswith(words.bound(verdict["bound"]))
    assert words.share(verdict["share"]) in second
    assert "~" + words.time(found["latency_ns"] * 1000) in second
    assert " ".join(verdict["evidence"][0]["sentence"].split()) in " ".join(text.split())
    rows = {line.split()[0]: line.split() for line in text.split("\n\nengine ")[1].split("\n\n")[0].splitlines()[1:]}
    assert len(rows) == sum(use["instructions"] > 0 for use in found["engines"].values())
    for engine, use in found["engines"].items():
        if not use["instructions"]:
            continue
        assert rows[words.ENGINE_WORDS[ENGINE_NAMES.index(engine)]][-1] == str(use["instructions"])


def test_a_captured_profile_carries_no_mark_of_an_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tracefile.write(synthetic.attention(simulated=False), tmp_path / "captured"))
    text = printed(capsys, "summary", path)
    assert "captured on hardware" in text
    assert "~" not in text


def test_hostile_names_print_as_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = synthetic.attention(simulated=True)
    meta = replace(trace.meta, kernel="a\x1b[2Jb\u202ec\n" + "d" * 10_000)
    path = str(tracefile.write(replace(trace, meta=meta), tmp_path / "hostile"))
    text = printed(capsys, "summary", path)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(map(len, text.splitlines())) < 300


def test_words_that_the_terminal_lacks_do_not_stop_a_result(kept: str) -> None:
    done = trnprof("summary", kept, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "bound" in done.stdout


@pytest.mark.parametrize("command", ["summary", "roofline", "web"])
def test_a_missing_trace_is_one_line_on_stderr(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert fails(capsys, command, "nope") == (1, "trnprof: nope: no such trace\n")


def test_roofline_prints_dots_under_roofs(kept: str, capsys: pytest.CaptureFixture[str]) -> None:
    chart = json.loads(printed(capsys, "roofline", kept, "--json"))
    text = printed(capsys, "roofline", kept)
    for ceiling in chart["ceilings"]:
        assert f"\n{ceiling['name']} " in text
    for dot in (*chart["dots"], *chart["without"]):
        assert words.intensity(dot["intensity"]) in text


def test_roofline_draws_the_roofs_of_another_device(kept: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, "roofline", kept, "--device", "trn1", "--json"))["device"] == "trn1"
    assert "on trn2, under the roofs of trn1, one core\n" in printed(capsys, "roofline", kept, "--device", "trn1")
    assert fails(capsys, "roofline", kept, "--device", "tpu")[0] == 1


def test_roofline_writes_a_chart_and_says_where(kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "chart.svg"
    assert printed(capsys, "roofline", kept, "-o", str(path)) == f"{path}\n"
    assert "<svg" in path.read_text()
    assert fails(capsys, "roofline", kept, "-o", str(tmp_path / "chart.bmp"))[0] == 2


# --- export -------------------------------------------------------------------------------------------------------


def test_an_exported_trace_directory_is_the_same_trace(
    kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = str(tmp_path / "copy")
    assert printed(capsys, "export", kept, "--to", "parquet", "-o", copy) == f"{copy}\n"
    assert printed(capsys, "summary", copy, "--json") == printed(capsys, "summary", kept, "--json")


def test_csv_and_json_hold_every_row_in_words(kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed(capsys, "export", kept, "--to", "csv", "-o", str(tmp_path / "tables"))
    printed(capsys, "export", kept, "--to", "json", "-o", str(tmp_path / "trace.json"))
    trace, document = readers.open(kept), json.loads((tmp_path / "trace.json").read_text())
    assert document["meta"]["kernel"] == trace.meta.kernel
    for name, table in trace.tables():
        columns = document["tables"][name]
        assert columns.keys() == set(table.present())
        assert all(len(column) == len(table) for column in columns.values())
        assert (tmp_path / "tables" / f"{name}.csv").exists() == (len(table) > 0)
        if len(table):
            frame = pandas.read_csv(tmp_path / "tables" / f"{name}.csv", keep_default_na=False)
            assert len(frame) == len(table)
    rows = document["tables"]["instructions"]
    assert rows["start_ps"] == trace.instructions.start_ps.tolist()
    assert rows["engine"] == [ENGINE_NAMES[code] for code in trace.instructions.engine]
    assert rows["opcode"] == [trace.strings[code] for code in trace.instructions.opcode]


def test_one_csv_file_holds_the_instructions(kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    printed(capsys, "export", kept, "--to", "csv", "-o", str(path))
    assert len(pandas.read_csv(path)) == len(readers.open(kept).instructions)


def test_a_failed_export_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.json"
    path.write_text("old")
    monkeypatch.setattr("msgspec.json.encode", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export(synthetic.attention(), "json", path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.json"]
    assert path.read_text() == "old"


def test_a_format_that_is_not_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="export to gif is not written"):
        export(synthetic.attention(), "gif", tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_csv_does_not_take_the_place_of_a_file(kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    code, err = fails(capsys, "export", kept, "--to", "csv", "-o", str(path))
    assert (code, "notes.txt is a file" in err) == (1, True)
    assert path.read_text() == "mine"


def test_a_real_profile_is_summarised(profiles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = profiles / "trn2_attention" / "fused_fp32_s512.json"
    found = json.loads(printed(capsys, "summary", str(path), "--json"))
    theirs = json.loads(path.read_text())["summary"][0]
    assert found["summary"]["hardware_flops"] == theirs["hardware_flops"]
    assert found["is_simulation"] is False
    assert "captured on hardware" in printed(capsys, "summary", str(path))
