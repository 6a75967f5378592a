"""Questions to a trace: SQL, top, grep, inspect."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim import tracefile
from sim.errors import InputError
from sim.trace import ENGINE_NAMES, Edges, Instructions, Trace, Transfers
from tests import synthetic, timelines
from trnprof import cli, query, rank
from trnprof.commands.top import KEYS as SHOWN_KEYS
from trnprof.ranking import KEYS, shifts
from trnprof.readers import plain_parts
from trnprof.summary import engines

pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def trace() -> Trace:
    return synthetic.attention()


@pytest.fixture(scope="module")
def kept(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("kept") / "trace"
    tracefile.write(trace, folder)
    return str(folder)


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert cli.main(argv) == 0
    return capsys.readouterr().out


def test_every_row_of_every_table_is_in_its_view(trace: Trace) -> None:
    for view, name in (("instruction", "instructions"), ("dma", "transfers"), ("dependency", "edges")):
        assert query(trace, f"select count(*) n from {view}").to_pylist() == [{"n": len(getattr(trace, name))}]


def test_engine_busy_is_the_union_that_summary_shows(trace: Trace) -> None:
    whole = replace(trace, meta=replace(trace.meta, window=(-(2**40), 2**60)))
    expected = {
        ENGINE_NAMES[use.engine]: use.active_ps / 1000
        for use in engines(whole)
        if use.instructions and ENGINE_NAMES[use.engine] != "DMA"
    }
    found = query(trace, "select engine, sum(busy_ns) busy from engine_busy group by engine").to_pylist()
    assert {row["engine"]: row["busy"] for row in found} == expected


def test_time_by_source_line_adds_up_to_all_instructions_with_one(trace: Trace) -> None:
    (found,) = query(trace, "select sum(total_ns) t, sum(instructions) n from by_source_line").to_pylist()
    table = trace.instructions
    has = table.source >= 0
    assert int(found["n"]) == int(has.sum()) > 0
    assert float(found["t"]) == pytest.approx(int((table.end_ps - table.start_ps)[has].sum()) / 1000)


@pytest.mark.parametrize(
    "text",
    [
        "create table x as select 1",
        "copy instruction to 'out.csv'",
        "select * from read_csv('/etc/hostname')",
        "select * from '/etc/hostname'",
        "select * from glob('/*')",
        "attach '/tmp/x.db'",
        "select * from read_text('/etc/hostname')",
        "select * from read_blob('/etc/hostname')",
        "select * from read_parquet('/etc/hostname')",
        "select * from read_json_auto('/etc/hostname')",
        "select * from sniff_csv('/etc/hostname')",
        "select * from sqlite_scan('/etc/hostname', 't')",
        "select * from 'http://localhost/x.parquet'",
        "select * from query('copy instruction to ''x.csv''')",
        "select getenv('HOME')",
        "export database '/tmp/x'",
        "load json",
        "pragma database_list",
        "explain analyze select 1",
        "install httpfs",
        "set enable_external_access = true",
        "select 1; select 2",
        "select nothing from instruction",
        "select * from trace",
        "",
    ],
)
def test_sql_reads_the_views_and_nothing_else(text: str, trace: Trace) -> None:
    with pytest.raises(InputError, match=r"^SQL: "):
        query(trace, text)


def test_sql_on_the_command_line(kept: str, trace: Trace, capsys: pytest.CaptureFixture[str]) -> None:
    count = f"{len(trace.instructions)}"
    assert said(capsys, "sql", kept, "select count(*) as n from instruction").split() == ["n", count]
    assert json.loads(said(capsys, "sql", kept, "select count(*) n from instruction", "--json")) == [{"n": int(count)}]
    assert said(capsys, "sql", kept, "select 1 as a, 'x,y' as b", "--csv") == 'a,b\n1,"x,y"\n'
    assert "by_source_line" in said(capsys, "sql", kept)


def test_top_counts_every_instruction_once(trace: Trace) -> None:
    table = trace.instructions
    for by in ("opcode", "engine", "source"):
        groups = rank(trace, by, limit=None)
        assert sum(group.count for group in groups) == len(table)
        assert sum(group.total_ps for group in groups) == int((table.end_ps - table.start_ps).sum())
        assert [group.total_ps for group in groups] == sorted((group.total_ps for group in groups), reverse=True)
        assert all(group.longest_ps <= group.busy_ps <= group.total_ps for group in groups)


def test_top_on_the_command_line(kept: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(SHOWN_KEYS) == set(KEYS)
    assert said(capsys, "top", kept, "--by", "engine", "-n", "1").splitlines()[0].split()[0] == "engine"
    found = json.loads(said(capsys, "top", kept, "--json", "-n", "2"))
    assert (found["by"], len(found["groups"])) == ("opcode", 2)


def test_grep_finds_what_the_views_find(kept: str, trace: Trace, capsys: pytest.CaptureFixture[str]) -> None:
    matmul = trace.strings.find("MATMUL")
    found = json.loads(said(capsys, "grep", "^matmul$", kept, "--json"))
    assert found["matches"] == int((trace.instructions.opcode == matmul).sum()) > 0
    assert {row["opcode"] for row in found["rows"]} == {"MATMUL"}
    assert cli.main(["grep", "nothing-like-it", kept]) == 1
    assert cli.main(["grep", "(", kept]) == 1
    assert "not a regular expression" in capsys.readouterr().err


def neff(folder: Path, members: dict[str, bytes]) -> Path:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in members.items():
            found = tarfile.TarInfo(name)
            found.size = len(data)
            archive.addfile(found, io.BytesIO(data))
    head = bytearray(1024)
    head[8:16] = (1024).to_bytes(8, "little")
    head[100:109] = b"graph.nef"
    path = folder / "graph.neff"
    path.write_bytes(bytes(head) + gzip.compress(out.getvalue()))
    return path


def test_the_plain_parts_of_a_neff_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = neff(tmp_path, {"info.json": b'{"a": 1}', "sg00/pe.bin": bytes(range(64)), "../../escape": b"x"})
    found = json.loads(said(capsys, "inspect", str(path), "--json"))
    assert found["kind"] == "NEFF, a compiled program"
    assert [(part["name"], part["bytes"]) for part in found["parts"]] == [
        ("info.json", 8), ("sg00/pe.bin", 64), ("../../escape", 1)]  # fmt: skip
    assert "neuron-explorer capture" in found["command"]
    assert said(capsys, "inspect", str(path), "--member", "info.json") == '{"a": 1}\n'
    assert said(capsys, "inspect", str(path), "--member", "sg00/pe.bin").startswith("00000000  00 01 02")
    assert [entry.name for entry in tmp_path.iterdir()] == ["graph.neff"]


def test_a_neff_that_unpacks_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = neff(tmp_path, {"large": bytes(1 << 20), "after": b"x"})
    monkeypatch.setattr(plain_parts, "UNPACKED_LIMIT", 1 << 16)
    assert "unpacks to more than" in plain_parts.inspect(path).facts["archive"]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (timelines.sdk(), "a Perfetto trace"),
        (timelines.dumped(timelines.kineto()), "a Chrome trace"),
        (gzip.compress(timelines.sdk()), "gzip of a Perfetto trace"),
        (b"PAR1\0", "a Parquet table"),
        (b"{}", "JSON"),
        (b'{"n_0": {"total_time": 1}}', "a profile's summary as JSON"),
        (b"total_time 1\nhbm_read_bytes 2\nhbm_write_bytes 3\n", "a profile's summary as text"),
        (b"name,ts\na,1\n", "CSV with 2 columns: name, ts"),
        (b"\0\1\2", "not a format known here"),
    ],
)
def test_a_file_is_recognised_by_its_content(data: bytes, kind: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(data)
    assert plain_parts.inspect(tmp_path / "f").kind == kind


def test_the_receipt_is_shown_by_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = timelines.kineto()
    document["traceEvents"].append({"ph": "X", "name": "bad", "ts": 1, "dur": -1})
    path = tmp_path / "t.json"
    path.write_bytes(timelines.dumped(document))
    assert cli.main(["summary", str(path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert "1 of 5 slices end before they start" in err
    assert json.loads(out)["receipt"]["tables"]["slices"]["quarantined"] == 1
    assert cli.main(["summary", str(path), "--strict"]) == 1


def test_diff_names_what_changed_and_leaves_out_what_did_not(
    trace: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = trace.instructions
    given = {name: table.column(name).copy() for name in table.present()}
    row = len(table) - 1
    given["end_ps"][row] += 5000
    changed = replace(trace, instructions=Instructions(len(table), **given))
    opcode = trace.text(table, "opcode", row)
    assert [(each.value, each.change_ps, each.count_after - each.count_before) for each in shifts(trace, changed)] == [
        (opcode, 5000, 0)]  # fmt: skip
    assert shifts(trace, trace) == []
    fewer = replace(trace, instructions=table.take(np.arange(row)), edges=Edges(0), transfers=Transfers(0))
    found = next(each for each in shifts(trace, fewer) if each.value == opcode)
    assert (found.count_before - found.count_after, found.change_ps) == (
        1,
        int(table.start_ps[row] - table.end_ps[row]),
    )
    for each, name in ((trace, "a"), (changed, "b")):
        tracefile.write(each, tmp_path / name)
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert json.loads(said(capsys, "diff", *paths, "--json"))["groups"][0]["change_ps"] == 5000
    assert said(capsys, "diff", *paths).splitlines()[1].split()[-2:] == ["+5.00", "ns"]
    assert said(capsys, "diff", paths[0], paths[0]) == "no difference by opcode\n"
