"""Tables in and out: CSV with a column map, CSV and JSON of ours, summaries, databases."""

from __future__ import annotations

import json
import math
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv

from sim import tracefile
from sim.errors import InputError, UsageError
from sim.explorer.columns import schema
from sim.trace import Counters, Engine, Instructions, Meta, RegionKind, Regions, Strings, Trace, Wait
from tests import legacy, synthetic
from trnprof import cli, readers, sql
from trnprof.export import database, export
from trnprof.readers import csvfile
from trnprof.readers.legacy import read as read_legacy
from trnprof.summary import summarize

TRACES = {
    "emulated": synthetic.attention,
    "captured": lambda: read_legacy(json.dumps(legacy.document()).encode(), "small.json"),
}
PLACES = {"csv": "out", "json": "out.json"}


def content(trace: Trace) -> dict[str, Any]:
    """Every table with text as text."""
    return {
        name: {
            column: [trace.strings[code] for code in table.column(column).tolist()]
            if table.columns[column].text
            else table.column(column).tolist()
            for column in table.present()
        }
        for name, table in trace.tables()
        if len(table)
    }


@pytest.mark.parametrize("to", PLACES)
@pytest.mark.parametrize("name", TRACES)
def test_a_trace_comes_back_whole_from_csv_and_json(to: str, name: str, tmp_path: Path) -> None:
    trace = TRACES[name]()
    export(trace, to, tmp_path / PLACES[to])
    again = readers.open(tmp_path / PLACES[to])
    assert content(again) == content(trace)
    assert again.meta == trace.meta
    assert summarize(again) == summarize(trace)


TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
WHOLE = st.integers(-(2**62), 2**62)


@st.composite
def traces(draw: Any) -> Trace:
    strings = Strings(("root",))
    count = draw(st.integers(1, 5))

    def column(values: Any) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    start = sorted(column(st.integers(-(2**61), 2**61)))
    numbers = {
        "id": column(WHOLE), "start_ps": start, "end_ps": [time + draw(st.integers(0, 2**40)) for time in start],
        "engine": column(st.sampled_from(Engine)), "wait": column(st.sampled_from(Wait)),
        "region": column(st.integers(-1, 0)), "wait_for": column(st.integers(-1, count - 1)),
        "control": column(st.booleans()),
    }  # fmt: skip
    named = {name: strings.codes(column(TEXTS)) for name in ("name", "operands", "source")}
    kinds = Instructions.columns
    rows = Instructions(count, **{name: np.array(v, kinds[name].dtype) for name, v in (numbers | named).items()})
    values = np.array(column(st.floats(allow_nan=False, allow_infinity=False)))
    counters = Counters(count, counter=np.zeros(count, np.int32), time_ps=np.array(start), value=values)
    root = Regions(1, kind=np.array([RegionKind.KERNEL], np.int8), name=np.zeros(1, np.int32),
                   start_ps=np.array([start[0]]), end_ps=np.array([start[0]]))  # fmt: skip
    return Trace(Meta(False, "trn2", "made", notes=("n",)), strings, rows, counters=counters, regions=root)


@pytest.mark.parametrize("to", PLACES)
@settings(max_examples=100, deadline=None)
@given(traces())
def test_any_trace_comes_back_whole_from_csv_and_json(
    to: str, tmp_path_factory: pytest.TempPathFactory, trace: Trace
) -> None:
    path = tmp_path_factory.mktemp("trip") / PLACES[to]
    export(trace, to, path)
    again = readers.open(path)
    assert content(again) == content(trace)
    assert again.meta == trace.meta


def test_instructions_alone_come_back_from_one_csv_file(tmp_path: Path) -> None:
    trace = synthetic.attention()
    export(trace, "csv", tmp_path / "i.csv")
    again = readers.open(tmp_path / "i.csv")
    kept = {name: values for name, values in content(trace)["instructions"].items() if name != "region"}
    assert content(again) == {"instructions": kept}
    assert again.receipt["tables"]["instructions"]["balanced"]


@pytest.mark.parametrize(("old", "new", "said"), [
    (b"MATMUL", b"MATMUL", ""),
    (b'"Tensor"', b'"Tenser"', "instructions.engine is 'Tenser'"),
    (b"start_ps", b"strt", "not known"),
    (b"\n", b"\n1,2\n", "damaged"),
])  # fmt: skip
def test_a_damaged_csv_file_of_ours_is_told_in_one_line(old: bytes, new: bytes, said: str, tmp_path: Path) -> None:
    export(synthetic.attention(), "csv", tmp_path / "i.csv")
    data = (tmp_path / "i.csv").read_bytes()
    (tmp_path / "i.csv").write_bytes(data.replace(old, new, 1))
    if not said:
        readers.open(tmp_path / "i.csv")
        return
    with pytest.raises(InputError) as fault:
        readers.open(tmp_path / "i.csv")
    assert said in str(fault.value)
    assert "\n" not in str(fault.value)


TABLE = """Op,ts,dur,stream,note
gemm,10.5,3.25,0,a
"re,lu",14.000001,1,0,"two
lines"
copy,1900000000000000.25,2,1,
back,11,-2,1,
never,,1,1,
short,1
odd,NaN,1,1,
"""
COLUMNS = {"name": "Op", "start_us": "ts", "duration_us": "dur", "track": "stream"}


def test_a_csv_file_opens_with_a_column_map(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(TABLE)
    trace = readers.open(tmp_path / "x.csv", columns=COLUMNS)
    table = trace.instructions
    names = [trace.text(table, "name", row) for row in range(len(table))]
    account = trace.receipt["tables"]["slices"]
    assert account["rows"] == 7
    assert account["balanced"]
    assert account["reasons"] == {
        "end before they start": 1, "have no time": 2, "have too few columns": 1,
        "lie beyond 64-bit picoseconds of the others": 1,
    }  # fmt: skip
    assert names == ["gemm", "re,lu"]
    assert (table.start_ps[1] - table.start_ps[0], table.end_ps[0] - table.start_ps[0]) == (3_500_001, 3_250_000)
    assert json.loads(trace.text(table, "operands", 1)) == {"note": "two\nlines"}
    assert trace.text(table, "track", 0) == "0"


@pytest.mark.parametrize(("header", "guessed"), [
    ("Name,Start (ns),Duration (ns),Stream", {"name": "Name", "start_ns": "Start (ns)", "duration_ns": "Duration (ns)",
                                             "track": "Stream"}),
    ("kernel;ts_us;end_us", {"name": "kernel", "start_us": "ts_us", "end_us": "end_us"}),
    ("kernel,ts,dur", None),
    ("a,b", None),
])  # fmt: skip
def test_a_header_with_units_needs_no_column_map(header: str, guessed: dict[str, str] | None) -> None:
    assert csvfile.guess(csvfile.header(header.encode() + b"\n")) == guessed


def test_a_table_that_tells_no_units_asks_for_them(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(TABLE)
    with pytest.raises(InputError, match=r"--columns name=…,start_us=….* of Op, ts, dur, stream, note"):
        readers.open(tmp_path / "x.csv")
    with pytest.raises(InputError, match=r"no column 'when'.*it has Op, ts"):
        readers.open(tmp_path / "x.csv", columns={"start_us": "when", "end_us": "ts"})


@pytest.mark.parametrize(("text", "said"), [
    ("name", "expected FIELD=COLUMN"), ("name=a", "a start and an end"), ("begin=a", "no field begin"),
    ("start_us=a,start_us=b", "given twice"), ("start_us=", "expected FIELD=COLUMN"),
])  # fmt: skip
def test_a_wrong_column_map_is_a_usage_error(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        csvfile.parse_columns(text)


def test_csv_opens_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.csv").write_text(TABLE)
    where = ["--columns", "name=Op,start_us=ts,duration_us=dur,track=stream"]
    assert cli.main(["top", str(tmp_path / "x.csv"), *where, "--json"]) == 0
    out, err = capsys.readouterr()
    assert [group["value"] for group in json.loads(out)["groups"]] == ["gemm", "re,lu"]
    assert "2 of 7 slices have no time; set aside" in err
    assert cli.main(["top", str(tmp_path / "x.csv"), "--columns", "x"]) == 2
    assert cli.main(["top", str(tmp_path / "x.csv"), *where, "--strict"]) == 1


@given(st.decimals(allow_nan=False, allow_infinity=False, places=12, min_value=-(10**9), max_value=10**9))
def test_times_are_read_digit_by_digit(value: Any) -> None:
    assert csvfile.picoseconds(str(value), 12) == int(value.scaleb(12))


SUMMARY = {
    "total_time": 3.2e-5,
    "hbm_read_bytes": 4194304,
    "mfu_estimated_percent": 0.42,
    "instance_type": "trn2.48xlarge",
}


@pytest.mark.parametrize("text", [
    json.dumps({"n_0123ab": SUMMARY}),
    "\n".join(f"{name:<30} {value}" for name, value in SUMMARY.items()),
    "\n".join(f"| {name} | {value} |" for name, value in SUMMARY.items()),
], ids=["json", "text", "table"])  # fmt: skip
def test_a_summary_alone_shows_its_metrics(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s").write_text(text)
    trace = readers.open(tmp_path / "s")
    assert summarize(trace) == SUMMARY
    assert (trace.meta.device, trace.meta.total_ps) == ("trn2", 32_000_000)
    assert trace.receipt["tables"]["metrics"] == {
        "rows": 4, "shown": 4, "quarantined": 0, "reasons": {}, "balanced": True}  # fmt: skip
    assert cli.main(["summary", str(tmp_path / "s"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["summary"] == SUMMARY
    assert said["engines"] == {}


def test_a_metric_that_is_not_finite_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "s").write_text(json.dumps({"n_0": {**SUMMARY, "odd": math.nan}, "n_1": SUMMARY}))
    trace = readers.open(tmp_path / "s")
    assert trace.receipt["tables"]["metrics"]["reasons"] == {"are not finite": 1}
    assert trace.receipt["left"] == {"summaries of other programs": 1}


@pytest.fixture
def explorer_csv(tmp_path: Path) -> Path:
    """Explorer's CSV export of the hand-made profile."""
    made = tmp_path / "csv"
    made.mkdir()
    tracefile.write(TRACES["captured"](), tmp_path / "parquet", summarize(TRACES["captured"]()))
    for path in (tmp_path / "parquet").iterdir():
        if path.stem in schema() and path.suffix == ".parquet":
            theirs = [field.name for field in schema()[path.stem][1]]
            arrow_csv.write_csv(pq.read_table(path).select(theirs), made / f"{path.stem}.csv")
    return made


def test_a_folder_of_explorers_csv_tables_opens(explorer_csv: Path) -> None:
    trace, plain = readers.open(explorer_csv), TRACES["captured"]()
    assert trace.instructions.start_ps.tolist() == plain.instructions.start_ps.tolist()
    assert len(trace.packets) == len(plain.packets)
    assert trace.meta.window == plain.meta.window
    assert trace.meta.source == str(explorer_csv)
    assert trace.receipt["tables"]["Instruction"]["balanced"]
    assert len(readers.open(explorer_csv / "Instruction.csv").instructions) == len(plain.instructions)


def rows_of(path: Path, to: str, query: str) -> list[tuple[Any, ...]]:
    if to == "sqlite":
        with sqlite3.connect(path) as found:
            return found.execute(query).fetchall()
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(path), read_only=True) as found:
        return found.execute(query).fetchall()


@pytest.mark.parametrize("to", ["sqlite", "duckdb"])
def test_a_database_file_answers_as_sql_does(to: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    trace = TRACES["captured"]()
    export(trace, to, tmp_path / "out.db")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.db"]
    queries = [f"select count(*) from {view}" for view in (*database.VIEWS, *database.DERIVED)]
    queries += [
        'select id, start_ps, end_ps, engine, opcode, operands, "group", flops, control from instruction order by row',
        "select * from engine_busy order by core, engine",
        "select counter, time_ps, value from counter order by counter, time_ps, value",
    ]
    for query in queries:
        assert rows_of(tmp_path / "out.db", to, query) == [
            tuple(row.values()) for row in sql.query(trace, query).to_pylist()]  # fmt: skip
    found = dict(rows_of(tmp_path / "out.db", to, "select name, value from meta"))
    assert json.loads(found["device"]) == "trn2"


def test_a_database_takes_the_place_of_an_older_file(tmp_path: Path) -> None:
    for _ in range(2):
        export(TRACES["captured"](), "sqlite", tmp_path / "out.db")
    assert rows_of(tmp_path / "out.db", "sqlite", "select count(*) from instruction") == [(9,)]
