"""Neuron Explorer directories of other schema versions, of several cores and executions, and of whole systems."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim import tracefile
from sim.errors import InputError
from sim.explorer.columns import schema
from sim.trace import Engine, Trace, validate
from tests import legacy
from trnprof import readers, sql
from trnprof.bounds import classify
from trnprof.export import export
from trnprof.readers import cache
from trnprof.readers.legacy import read as read_legacy
from trnprof.readers.versions import Versions
from trnprof.summary import summarize

ID, START, END, LENGTH = "id", "start_ts", "end_ts", "duration_ns"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The hand-made profile in schema 7.4.0, without anything of ours."""
    made = tmp_path / "profile"
    trace = read_legacy(json.dumps(legacy.document()).encode(), "small.json")
    tracefile.write(trace, made, summarize(trace))
    for path in made.iterdir():
        if path.name.startswith(("Trnprof", "trnprof")):
            path.unlink()
            continue
        theirs = [field.name for field in schema()[path.stem][1]]
        pq.write_table(pq.read_table(path).select(theirs), path)
    return made


def change(folder: Path, table: str, alter: Callable[[pa.Table], pa.Table]) -> None:
    path = folder / f"{table}.parquet"
    pq.write_table(alter(pq.read_table(path)), path)


def rename(folder: Path, table: str, **names: str) -> None:
    change(folder, table, lambda found: found.rename_columns([names.get(n, n) for n in found.column_names]))


def describe(folder: Path, table: str, field: str, unit: str | None, description: str = "") -> None:
    def add(found: pa.Table) -> pa.Table:
        row: dict[str, Any] = dict.fromkeys(found.column_names)
        row |= {"table_name": table, "field_name": field, "field_unit": unit, "field_description": description}
        row |= {"table_description": "", "field_type": "integer", "field_required": True}
        return pa.concat_tables([found, pa.Table.from_pylist([row], found.schema)])

    change(folder, "SchemaFields", add)


def times(trace: Trace) -> list[tuple[int, int, int]]:
    table = trace.instructions
    return sorted(zip(table.id.tolist(), table.start_ps.tolist(), table.end_ps.tolist()))


def scaled(names: tuple[str, ...], factor: float, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    def alter(found: pa.Table) -> pa.Table:
        for name in names:
            values = [None if v is None else v * factor for v in found.column(name).to_pylist()]
            found = found.set_column(found.column_names.index(name), name, pa.array(values, kind))
        return found

    return alter


@pytest.mark.parametrize("names", [
    {START: "startTs", END: "endTs", LENGTH: "durationNs", "opcode": "Opcode"},
    {START: "start_time", END: "end_time", "evt_wait_time_ns": "evt_wait_time"},
    {START: "start_ts_ns", END: "end_ts_ns"},
])  # fmt: skip
def test_columns_written_otherwise_are_found(folder: Path, names: dict[str, str]) -> None:
    before = readers.open(folder)
    rename(folder, "Instruction", **names)
    after = readers.open(folder)
    assert times(after) == times(before)
    assert after.instructions.wait_ps.tolist() == before.instructions.wait_ps.tolist()
    assert any("read under other names" in note for note in after.meta.notes)
    assert after.receipt["tables"]["Instruction"]["balanced"]


def test_a_description_that_mentions_the_old_name_is_followed(folder: Path) -> None:
    before = readers.open(folder)
    rename(folder, "Instruction", opcode="isa_mnemonic", operands="arguments")
    describe(folder, "Instruction", "isa_mnemonic", None, "Mnemonic of the instruction (formerly opcode)")
    after = readers.open(folder)
    assert [after.strings[int(code)] for code in after.instructions.opcode] == [
        before.strings[int(code)] for code in before.instructions.opcode]  # fmt: skip
    assert "Columns of Instruction read under other names: isa_mnemonic as opcode." in after.meta.notes
    assert any("Instruction has no column" in note and "operands" in note for note in after.meta.notes)


@pytest.mark.parametrize(("unit", "factor", "kind"), [
    ("microseconds", 1e-3, pa.float64()), ("picoseconds", 1000, pa.int64()), ("nanoseconds", 1, pa.int64()),
])  # fmt: skip
def test_times_are_read_in_the_unit_that_the_schema_gives(
    folder: Path, unit: str, factor: float, kind: pa.DataType
) -> None:
    before = readers.open(folder)
    for table in ("Instruction", "DmaPacket", "DmaPacketAggregated"):
        if (folder / f"{table}.parquet").exists():
            change(folder, table, scaled((START, END, LENGTH), factor, kind))
            for name in (START, END, LENGTH):
                change(folder, "SchemaFields", without(table, name))
                describe(folder, table, name, unit)
    after = readers.open(folder)
    assert times(after) == times(before)
    assert after.packets.start_ps.tolist() == before.packets.start_ps.tolist()
    assert after.semaphore_updates.time_ps.tolist() == before.semaphore_updates.time_ps.tolist()
    assert after.meta.window == before.meta.window


def without(table: str, name: str) -> Callable[[pa.Table], pa.Table]:
    def alter(found: pa.Table) -> pa.Table:
        rows = zip(found.column("table_name").to_pylist(), found.column("field_name").to_pylist())
        return found.filter(pa.array([row != (table, name) for row in rows]))

    return alter


def test_picoseconds_keep_what_ns_would_round(folder: Path) -> None:
    def alter(found: pa.Table) -> pa.Table:
        found = scaled((START, END, LENGTH), 1000, pa.int64())(found)
        starts = [value + 7 for value in found.column(START).to_pylist()]
        return found.set_column(found.column_names.index(START), "start_ps", pa.array(starts))

    change(folder, "Instruction", alter)
    rename(folder, "Instruction", end_ts="end_ps")
    starts = {start % 1000 for _, start, _ in times(readers.open(folder))}
    assert starts == {7}


def test_a_column_of_7_4_is_never_taken_for_another() -> None:
    found = Versions({("Instruction", "pc"): ("", "opcode index, see opcode")})
    assert found.find("Instruction", ("opcode",), ["pc", "id"]) is None
    assert found.find("Instruction", ("opcode",), ["opcode", "Opcode"]) == "opcode"


def test_unknown_columns_are_kept_and_can_be_asked_for(folder: Path, tmp_path: Path) -> None:
    def add(found: pa.Table) -> pa.Table:
        return found.append_column("stall_reason", pa.array([f"r{n}" for n in range(len(found))]))

    change(folder, "Instruction", add)
    trace = readers.open(folder)
    validate(trace)
    kept = [json.loads(trace.strings[int(code)]) for code in trace.instructions.extra]
    whole = pq.read_table(folder / "Instruction.parquet").to_pylist()
    by_id = {row["id"]: row for row in whole}
    for id, record in zip(trace.instructions.id.tolist(), kept):
        assert record["stall_reason"] == by_id[id]["stall_reason"]
        assert record["pc"] == by_id[id]["pc"]
        assert "opcode" not in record
    answer = sql.query(readers.open(folder), "select extra->>'stall_reason' as why from instruction order by why")
    assert answer.column("why").to_pylist() == sorted(f"r{n}" for n in range(len(kept)))
    export(readers.open(folder), "parquet", tmp_path / "again")
    again = readers.open(tmp_path / "again")
    assert [json.loads(again.strings[int(code)]) for code in again.instructions.extra] == kept


def test_what_a_profile_says_beside_is_there_when_its_columns_are_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = readers.open(folder)
    expected = [plain.strings[code] for code in plain.instructions.extra.tolist()]
    assert any(expected)
    monkeypatch.setattr(cache, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(cache, "LEAST_BYTES", 1)
    monkeypatch.setattr(cache, "LEAST_ROWS", 1)
    monkeypatch.setenv("TRNPROF_CACHE_BYTES", str(1 << 40))
    for _ in range(2):
        found = readers.open(folder)
        assert found.store is not None
        assert found.instructions.present() == plain.instructions.present()
        assert found.instructions.loader("extra") is not None, "read before it was asked for"
        assert [found.strings[code] for code in found.instructions.extra.tolist()] == expected
    gone = readers.open(folder)
    shutil.rmtree(folder)
    with pytest.raises(InputError, match="cannot be read any more"):
        gone.instructions.column("extra")


def test_unknown_columns_are_not_read_before_they_are_asked_for(folder: Path) -> None:
    trace = readers.open(folder)
    path = folder / "Instruction.parquet"
    path.rename(folder / "moved")
    assert len(sql.query(trace, "select opcode from instruction")) == 9
    assert trace.instructions.has("extra")


def test_cores_of_one_profile_stay_apart(folder: Path) -> None:
    def two(found: pa.Table) -> pa.Table:
        at = found.column_names.index("pcore_idx")
        other = found.set_column(at, "pcore_idx", pa.array([1] * len(found), found.schema.field(at).type))
        ids = found.column_names.index("id")
        other = other.set_column(ids, "id", pa.array([id + 1000 for id in found.column("id").to_pylist()]))
        return pa.concat_tables([found, other])

    one = readers.open(folder)
    change(folder, "Instruction", two)
    both = readers.open(folder)
    assert both.instructions.core.tolist().count(1) == both.instructions.core.tolist().count(0) == len(one.instructions)
    assert both.receipt["tables"]["Instruction"]["balanced"]
    validate(both)


def test_several_executions_are_told(folder: Path) -> None:
    change(folder, "ExecutionInfo", lambda found: pa.concat_tables([found, found, found]))
    assert "3 executions follow one another in this profile." in readers.open(folder).meta.notes


def system(folder: Path, **tables: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    for name, rows in tables.items():
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    return folder


def event(id: int, name: str, start: int | None, end: int | None, **more: Any) -> dict[str, Any]:
    return {
        "id": id, "name": name, "start_ts": start, "end_ts": end,
        "duration_ns": None if start is None or end is None else end - start,
        "trace_event_source": "neuron_rt", "instance_id": "i-1", "process_id": 7, "thread_id": 8, "nc_idx": None,
        "flow_id": [], "extra_attributes_json": None, **more,
    }  # fmt: skip


def test_a_system_profile_opens_as_a_timeline(tmp_path: Path) -> None:
    folder = system(
        tmp_path / "system",
        SystemProfileEvents=[
            event(1, "nrt_execute", 1000, 9000, flow_id=["5"], extra_attributes_json='{"model": "m"}'),
            event(2, "nc_exec_running", 2000, 8000, nc_idx=3, trace_event_source="neuron_hw", flow_id=["5"]),
            event(3, "backwards", 500, 400),
            event(4, "never", None, None),
        ],
        SystemProfileHbmUsage=[
            {
                "timestamp": 1000,
                "total_bytes": 10,
                "weights_bytes": 4,
                "device_idx": 0,
                "hbm_idx": 1,
                "instance_id": "i-1",
            }
        ],
        CpuUsage=[{"timestamp": 1500, "util_percent": 12.5, "cpu_id": "average", "instance_id": "i-1"}],
        Warning=[{"message": "x"}],
    )
    trace = readers.open(folder)
    table = trace.instructions
    assert [trace.text(table, "name", row) for row in range(len(table))] == ["nrt_execute", "nc_exec_running"]
    assert table.engine.tolist() == [Engine.OTHER] * 2
    assert [trace.text(table, "track", row) for row in range(2)] == [
        "i-1 process 7 / thread 8", "i-1 NeuronCore 3 / thread 8"]  # fmt: skip
    assert json.loads(trace.text(table, "operands", 0)) == {"model": "m"}
    assert list(zip(trace.edges.signaler.tolist(), trace.edges.waiter.tolist())) == [(0, 1)]
    names = {trace.strings[int(code)] for code in trace.counters.counter}
    assert names == {"HBM i-1 0 1 total_bytes", "HBM i-1 0 1 weights_bytes", "CPU i-1 average util_percent"}
    account = trace.receipt["tables"]["slices"]
    assert account["balanced"]
    assert account["reasons"] == {"end before they start": 1, "have no time": 1}
    assert trace.receipt["left"] == {"Warning": 1}
    validate(trace)


@pytest.fixture
def tree(folder: Path, tmp_path: Path) -> Path:
    """Three ranks of one execution, the last with a core more and another kernel's start."""
    root = tmp_path / "tree"
    for rank in (10, 2, 0):
        shutil.copytree(folder, root / f"rank_{rank}" / "small@latest")
    return root


def test_ranks_below_a_folder_open_as_one_trace(folder: Path, tree: Path) -> None:
    one, all_ = readers.open(folder), readers.open(tree)
    validate(all_)
    assert all_.meta.cores == 3
    assert len(all_.instructions) == 3 * len(one.instructions)
    regions = all_.regions
    roots = [all_.text(regions, "name", row) for row in range(len(regions)) if regions.parent[row] < 0]
    assert roots == ["rank 0", "rank 2", "rank 10"]
    for core in range(3):
        rows = np.flatnonzero(all_.instructions.core == core)
        place = dict(zip(rows.tolist(), range(len(rows))))
        for name in ("start_ps", "end_ps", "engine", "wait", "flops"):
            assert all_.instructions.column(name)[rows].tolist() == one.instructions.column(name).tolist(), name
        for name in ("opcode", "operands", "source"):
            assert [all_.text(all_.instructions, name, row) for row in rows] == [
                one.text(one.instructions, name, row) for row in range(len(rows))]  # fmt: skip
        waits = all_.instructions.wait_for[rows].tolist()
        assert [place.get(row, -1) for row in waits] == one.instructions.wait_for.tolist()
        mine = np.flatnonzero(np.isin(all_.edges.waiter, rows))
        edges = zip(all_.edges.signaler[mine].tolist(), all_.edges.waiter[mine].tolist())
        own = zip(one.edges.signaler.tolist(), one.edges.waiter.tolist())
        assert sorted((place[a], place[b]) for a, b in edges) == sorted(own)
        moved = np.flatnonzero(all_.transfers.core == core)
        assert [place.get(row, -1) for row in all_.transfers.instruction[moved].tolist()] == (
            one.transfers.instruction.tolist())  # fmt: skip
    assert all(all_.packets.core == all_.transfers.core[all_.packets.transfer])
    account, single = (trace.receipt["tables"]["Instruction"] for trace in (all_, one))
    assert account["balanced"]
    assert (account["rows"], account["shown_ps"]) == (3 * single["rows"], 3 * single["shown_ps"])
    assert any("3 ranks (0, 2, 10)" in note for note in all_.meta.notes)
    assert summarize(all_)["hbm_read_bytes"] == 3 * summarize(one)["hbm_read_bytes"]


def test_a_damaged_row_of_one_rank_is_counted_in_the_whole(tree: Path) -> None:
    def spoil(found: pa.Table) -> pa.Table:
        ends = [0, *found.column(END).to_pylist()[1:]]
        return found.set_column(found.column_names.index(END), END, pa.array(ends, pa.int64()))

    change(tree / "rank_2" / "small@latest", "Instruction", spoil)
    account = readers.open(tree).receipt["tables"]["Instruction"]
    assert (account["rows"], account["shown"], account["quarantined"], account["balanced"]) == (27, 26, 1, True)


def test_several_executions_of_a_rank_ask_which(folder: Path, tmp_path: Path) -> None:
    for name in ("rank_0_exec_1", "rank_0_exec_2", "rank_1_exec_1"):
        shutil.copytree(folder, tmp_path / "tree" / name)
    with pytest.raises(InputError, match=r"holds 3 traces \(open one of: .*rank_0_exec_1, .*rank_0_exec_2"):
        readers.open(tmp_path / "tree")
    assert len(readers.open(tmp_path / "tree" / "rank_0_exec_2").instructions) == 9


def test_collectives_of_a_device_profile_are_rows_of_their_own_engine(folder: Path) -> None:
    before = readers.open(folder)
    rows = [
        {"start_ts": 13_500, "end_ts": 17_500, "duration_ns": 4000, "operation": "AllGather", "algorithm": "Ring",
         "dtype": "bf16", "num_elements": 1024, "op_id": 3, "stream_id": 1, "input_size": 2048, "output_size": 4096,
         "trigger_engine": "Sync", "replica_group": "[[0, 1]]"},
        {"start_ts": 14_000, "end_ts": 13_000, "duration_ns": -1000, "operation": "AllReduce", "op_id": 4,
         "stream_id": 1},
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), folder / "CcOp.parquet")
    after = readers.open(folder)
    validate(after)
    table = after.instructions
    at = int(np.flatnonzero(table.engine == Engine.COLLECTIVE)[0])
    assert len(table) == len(before.instructions) + 1
    assert (table.start_ps[at], table.end_ps[at]) == (13_500_000, 17_500_000)
    assert (after.text(table, "opcode", at), after.text(table, "name", at)) == ("AllGather", "Ring")
    assert "num_elements=1024" in after.text(table, "operands", at)
    assert after.meta.window == (before.meta.window[0], 17_500_000)
    accounts = after.receipt["tables"]
    assert accounts["Instruction"] == before.receipt["tables"]["Instruction"]
    assert (accounts["CcOp"]["shown"], accounts["CcOp"]["quarantined"], accounts["CcOp"]["balanced"]) == (1, 1, True)
    ours = np.delete(np.arange(len(table)), at)
    assert [after.strings[code] for code in table.extra[ours].tolist()] == [
        before.strings[code] for code in before.instructions.extra.tolist()]  # fmt: skip
    assert table.extra[at] == -1
    assert classify(after)[0].scores["network"] > classify(before)[0].scores["network"] == 0


def test_a_profile_kept_for_the_next_opening_leaves_unknown_columns_in_the_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TRNPROF_CACHE_BYTES", raising=False)
    plain = readers.open(folder)
    monkeypatch.setattr(cache, "LEAST_BYTES", 1)
    monkeypatch.setattr(cache, "LEAST_ROWS", 1)
    for _ in range(2):
        kept = readers.open(folder)
        assert times(kept) == times(plain)
        assert kept.instructions.loader("extra") is not None
    assert list((tmp_path / "cache").rglob("instructions.start_ps.npy"))
    assert not list((tmp_path / "cache").rglob("instructions.extra.npy"))
