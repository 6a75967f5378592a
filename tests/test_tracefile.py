"""Trace directories: nothing is lost, nothing is half written, and the documented scripts work on them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from sim import tracefile
from sim.errors import InputError
from sim.explorer import ESTIMATED, OWN_PLACES, stored_name
from sim.explorer.columns import Text, arrow_table, merge, rank, schema
from sim.trace import (
    NONE,
    TABLES,
    Allocations,
    Counters,
    Edges,
    Engine,
    Instructions,
    Memory,
    Meta,
    Packets,
    QueueType,
    RegionKind,
    Regions,
    SemaphoreUpdates,
    Strings,
    Tensors,
    Trace,
    Transfers,
)
from tests import traces
from trnprof.intervals import merge as merge_intervals
from trnprof.summary import summarize

MUST = (
    "Instruction",
    "ActiveTime",
    "DmaPacket",
    "DmaPacketAggregated",
    "Summary",
    "Metadata",
    "TensorInfo",
    "Flow",
    "OpcodeSummary",
    "SchemaFields",
    "Warning",
)


def kernel(simulated: bool = True) -> Trace:
    """Load, two matmuls that overlap, a copy on the Scalar Engine, a store; each line of the kernel in a region."""
    text = Strings()
    starts = np.array([1_000_400, 3_000_600, 3_100_500, 3_500_000, 4_000_000, 4_600_000], np.int64)
    ends = starts + np.array([60_200, 100_000, 500_000, 500_000, 400_499, 60_000])
    opcodes = ("DMA_DIRECT2D", "LDWEIGHTS", "MATMUL", "MATMUL", "ACTIVATE", "DMA_DIRECT2D")
    matmul = np.array([0, 0, 1, 1, 0, 0])
    instructions = Instructions(
        id=np.array([7, 8, 9, 10, 11, 12]),
        start_ps=starts,
        end_ps=ends,
        engine=np.array([Engine.SYNC, Engine.TENSOR, Engine.TENSOR, Engine.TENSOR, Engine.SCALAR, Engine.SYNC]),
        opcode=text.codes(opcodes),
        operands=text.codes((None, "w", "w x", "w x", "p", None)),
        track=text.codes((None, None, "TensorMatrix", None, "Activation", None)),
        kind=text.codes((None, "REGULAR", "REGULAR", "TRANSPOSE", None, None)),
        function=text.codes((None, None, None, None, "exp", None)),
        source=text.codes([f"kernel.py:{line}" for line in (3, 4, 4, 5, 6, 7)]),
        name=text.codes([f"inst.{line}" for line in (3, 4, 4, 5, 6, 7)]),
        group=text.codes((None, "g1", "g1", "g2", None, None)),
        region=np.array([0, 1, 1, 1, 1, 0]),
        wait_ps=np.array([0, 900_000, 0, 0, 4_000, 0]),
        elements=2_097_152 * matmul,
        flops=4_194_304 * matmul,
        adjusted_flops=16_777_216 * matmul,
        hbm_read_bytes=np.array([65_536, 0, 0, 0, 0, 0]),
        hbm_write_bytes=np.array([0, 0, 0, 0, 0, 32_768]),
        control=np.zeros(6, bool),
    )
    transfers = Transfers(
        id=np.array([70, 120]),
        start_ps=np.array([1_500_000, 5_000_000]),
        end_ps=np.array([2_500_000, 5_800_000]),
        done_ps=np.array([2_900_000, 6_000_000]),
        instruction=np.array([0, 5]),
        queue=text.codes(("qSyncDynamicHW", "qSyncDynamicHW")),
        queue_type=np.full(2, QueueType.HARDWARE_DYNAMIC),
        variable=text.codes(("x", "out")),
        source_memory=np.array([Memory.HBM, Memory.SBUF]),
        dest_memory=np.array([Memory.SBUF, Memory.HBM]),
        bytes=np.array([65_536, 32_768]),
        read_bytes=np.array([65_536, 32_768]),
        write_bytes=np.array([65_536, 32_768]),
    )
    packets = Packets(
        id=np.arange(6),
        start_ps=np.array([1_500_000, 1_500_000, 2_490_000, 5_000_000, 5_000_000, 5_790_000]),
        end_ps=np.array([2_400_000, 2_450_000, 2_500_000, 5_700_000, 5_750_000, 5_800_000]),
        transfer=np.array([0, 0, 0, 1, 1, 1]),
        dma_engine=np.array([64, 65, 64, 64, 65, 64]),
        queue=text.codes(["qSyncDynamicHW"] * 6),
        queue_type=np.full(6, QueueType.HARDWARE_DYNAMIC),
        variable=text.codes(("x", "x", "x", "out", "out", "out")),
        bytes=np.array([32_768, 32_768, 4, 16_384, 16_384, 4]),
        read_bytes=np.array([32_768, 32_768, 4, 16_384, 16_384, 4]),
        write_bytes=np.array([32_768, 32_768, 4, 16_384, 16_384, 4]),
    )
    return Trace(
        Meta(
            simulated,
            "trn2",
            "kernel.py",
            kernel="kernel",
            window=(1_000_400, 6_000_000),
            total_ps=20_000_000,
            tool="trnprof 0.1.0",
            notes=("DMA is a guess.",),
        ),
        text,
        instructions,
        transfers,
        packets,
        Edges(signaler=np.array([0, 1, 3]), waiter=np.array([1, 2, 4]), kind=np.array([0, 0, 1])),
        SemaphoreUpdates(time_ps=np.array([2_900_000]), semaphore=np.array([8]), value=np.array([16])),
        Counters(
            counter=text.codes(("sbuf", "sbuf", "tensor_clock", "tensor_clock", "dma_bytes_per_s", "dma_bytes_per_s")),
            time_ps=np.array([2_500_000, 5_000_000, 1_000_000, 3_000_000, 1_500_000, 2_500_000]),
            value=np.array([0.25, 0.5, 0.5, 1.0, 65.536e9, 0.0]),
        ),
        Regions(
            parent=np.array([NONE, 0]),
            kind=np.array([RegionKind.LAYER, RegionKind.OPERATOR]),
            name=text.codes(("block", "matmul")),
            start_ps=np.array([1_000_400, 3_000_600]),
            end_ps=np.array([6_000_000, 4_400_499]),
        ),
        Tensors(
            name=text.codes(("x", "out", "tile")),
            type=text.codes(("IN", "OUT", "INTERNAL")),
            bytes=np.array([65_536, 32_768, 512]),
            loads=np.array([2, 0, 0]),
            loaded_bytes=np.array([131_072, 0, 0]),
        ),
        Allocations(
            tensor=text.codes(("tile",)),
            memory=np.array([Memory.SBUF]),
            start_ps=np.array([1_500_000]),
            end_ps=np.array([5_800_000]),
            partition=np.array([32]),
            partitions=np.array([64]),
            offset=np.array([1024]),
            bytes=np.array([512]),
        ),
    )


@pytest.fixture
def written(tmp_path: Path) -> Path:
    trace = kernel()
    return tracefile.write(trace, tmp_path / "trace", summarize(trace))


@pytest.fixture
def table(written: Path):
    return lambda name: pd.read_parquet(written / f"{name}.parquet")


@settings(max_examples=60)
@given(trace=traces.traces())
def test_any_trace_is_read_back_identical(trace):
    with tempfile.TemporaryDirectory() as folder:
        tracefile.write(trace, Path(folder) / "trace")
        traces.assert_same(trace, tracefile.read(Path(folder) / "trace"))


def test_a_traces_meta_outputs_and_findings_come_back(written):
    traces.assert_same(kernel(), tracefile.read(written))


def test_the_same_trace_is_written_byte_for_byte(tmp_path):
    first, second = (tracefile.write(kernel(), tmp_path / name) for name in ("a", "b"))
    names = sorted(entry.name for entry in first.iterdir())
    assert names == sorted(entry.name for entry in second.iterdir())
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


def test_columns_are_loaded_when_they_are_asked_for(written):
    trace = tracefile.read(written)
    (written / "Instruction.parquet").unlink()
    assert len(trace.instructions) == 6
    assert trace.transfers.bytes.tolist() == [65_536, 32_768]
    with pytest.raises(InputError, match=r"Instruction\.parquet: missing from the trace"):
        trace.instructions.column("start_ps")


def test_a_trace_that_is_in_the_way_is_replaced(written):
    other = kernel(simulated=False)
    tracefile.write(other, written)
    traces.assert_same(other, tracefile.read(written))
    assert [entry.name for entry in written.parent.iterdir()] == ["trace"]


def test_a_link_to_a_trace_keeps_pointing_there(written, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(written)
    tracefile.write(kernel(simulated=False), link)
    assert link.is_symlink()
    assert not tracefile.read(written).meta.is_simulation


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("results.csv", "not a trace directory of ours, it has results"),
        ("Instruction.parquet", "it has Instruction"),
    ],
    ids=["work", "a capture"],
)
def test_what_is_not_a_trace_of_ours_is_left_alone(name, said, tmp_path):
    (tmp_path / name).write_text("precious")
    with pytest.raises(InputError, match=said):
        tracefile.write(kernel(), tmp_path)
    assert (tmp_path / name).read_text() == "precious"


def test_a_file_beside_the_tables_is_not_thrown_away(written):
    (written / "notes.md").write_text("precious")
    with pytest.raises(InputError, match=r"it has notes\.md"):
        tracefile.write(kernel(), written)
    assert (written / "notes.md").exists()


def test_a_file_in_the_way_is_left_alone(tmp_path):
    (tmp_path / "trace").write_text("precious")
    with pytest.raises(InputError, match="a file is in the way"):
        tracefile.write(kernel(), tmp_path / "trace")


def test_an_empty_directory_is_filled(tmp_path):
    assert tracefile.read(tracefile.write(kernel(), tmp_path)).meta.kernel == "kernel"


@pytest.mark.parametrize("step", ["_write_table", "_put_in_place"])
def test_a_failure_leaves_the_old_trace_and_nothing_else(step, written, monkeypatch):
    def fail(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tracefile, step, fail)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        tracefile.write(kernel(simulated=False), written)
    assert tracefile.read(written).meta.is_simulation
    assert [entry.name for entry in written.parent.iterdir()] == ["trace"]


def test_a_failing_swap_puts_the_old_trace_back(written, monkeypatch):
    rename = os.rename

    def fail_on_the_draft(source, target):
        if Path(target) == written and "old" not in str(source):
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail_on_the_draft)
    with pytest.raises(InputError, match="Input/output error"):
        tracefile.write(kernel(simulated=False), written)
    assert tracefile.read(written).meta.is_simulation
    assert [entry.name for entry in written.parent.iterdir()] == ["trace"]


def test_damage_names_the_file(written):
    path = written / "DmaPacket.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"DmaPacket\.parquet: damaged"):
        tracefile.read(written)


def test_tables_of_two_traces_are_not_mixed(written, tmp_path):
    (written / "Flow.parquet").unlink()
    shutil.copy(written / "DmaPacket.parquet", written / "Flow.parquet")
    with pytest.raises(InputError, match=r"Flow\.parquet: has 6 rows, trnprof\.json says 3"):
        tracefile.read(written)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ("{", r"trnprof\.json: damaged"),
        ("[]", "format 'list', this version reads 1"),
        ('{"format": 99}', "format 99, this version reads 1"),
        ('{"format": 1, "meta": {}}', r"trnprof\.json: damaged: KeyError"),
    ],
    ids=["cut off", "a list", "newer", "incomplete"],
)
def test_a_damaged_index_is_told(index, said, written):
    (written / "trnprof.json").write_text(index)
    with pytest.raises(InputError, match=said):
        tracefile.read(written)


def test_every_table_that_scripts_read_is_there(written):
    assert set(MUST) <= {path.stem for path in written.iterdir()}
    for path in written.glob("*.parquet"):
        if path.stem in schema():
            columns = pq.read_schema(path).names
            assert columns[: len(schema()[path.stem][1])] == [field.name for field in schema()[path.stem][1]]


def test_tables_without_rows_have_no_file(tmp_path):
    trace = Trace(Meta(False, "unknown", ""), Strings(), Instructions(0))
    names = {path.stem for path in tracefile.write(trace, tmp_path / "t").iterdir()}
    assert names == {"Metadata", "Summary", "SchemaFields", "ExecutionInfo", "trnprof"}


def test_own_columns_never_take_a_name_that_explorer_uses_otherwise():
    for name, kind in TABLES.items():
        theirs = {field.name: field.type for field in schema().get(OWN_PLACES[name], ("", ()))[1]}
        for column, spec in kind.columns.items():
            stored = stored_name(name, column)
            assert stored not in theirs or (theirs[stored] == "int64" and spec.dtype == np.int64 and not spec.text)


def test_ns_columns_round_the_end_points_not_the_length(table):
    instruction = table("Instruction")
    assert instruction.start_ts.tolist() == [1000, 3001, 3101, 3500, 4000, 4600]
    assert (instruction.duration_ns == instruction.end_ts - instruction.start_ts).all()
    assert instruction.duration_ns.tolist() == [61, 100, 500, 500, 400, 60]


def test_instruction_columns_have_the_words_that_scripts_expect(table):
    instruction = table("Instruction").set_index("id")
    assert instruction.engine.tolist() == ["Sync", "Tensor", "Tensor", "Tensor", "Scalar", "Sync"]
    assert instruction.timeline_track.tolist() == [
        "Sync",
        "Tensor",
        "TensorMatrix",
        "TensorMatrix",
        "Activation",
        "Sync",
    ]
    assert instruction.tensor_instruction_type.dropna().tolist() == ["REGULAR", "REGULAR", "TRANSPOSE"]
    assert instruction.bir_id.loc[[8, 9]].tolist() == ["g1", "g1"]
    assert instruction.layer.tolist() == ["block", *["block/matmul"] * 4, "block"]
    assert instruction.nki_source_location.tolist() == [f"kernel.py:{line}" for line in (3, 4, 4, 5, 6, 7)]
    assert instruction.flops_transpose.sum() == 4_194_304
    assert instruction.dma_trigger_start_ts.dropna().tolist() == [1500, 5000]
    assert instruction.dma_wait_time_ns.dropna().tolist() == [439, 340]
    assert instruction.pc.tolist() == [0, 0, 1, 2, 0, 1]


def test_dma_rows_point_at_their_transfer_and_trigger(table):
    packets, transfers = table("DmaPacket"), table("DmaPacketAggregated").set_index("id")
    assert packets.packet_aggregation_id.tolist() == [70, 70, 70, 120, 120, 120]
    assert packets.packet_idx.tolist() == [0, 1, 2, 0, 1, 2]
    assert set(packets.queue_type) == {"hardware_dynamic"}
    assert transfers.trigger.tolist() == [1000, 4600]
    assert transfers.completion.tolist() == [2900, 6000]
    assert (transfers.source.tolist(), transfers.dest.tolist()) == (["[INPUT]", "[SB]"], ["[SB]", "[OUTPUT]"])
    assert packets.throughput.iloc[0] == pytest.approx(32_768 / 900e-9)


def test_edges_tell_kind_and_gap(table):
    flow = table("Flow")
    assert flow[["in_id", "out_id", "dependency_type", "gap_time"]].values.tolist() == [
        [7, 8, "FLOW_DEPENDENCE", 3001 - 1061],
        [8, 9, "FLOW_DEPENDENCE", 3101 - 3101],
        [10, 11, "ANTI_DEPENDENCE", 0],
    ]


def test_active_time_is_merged_and_in_lower_case(table):
    active = table("ActiveTime").sort_values("start_ts")
    assert active[["engine", "start_ts", "end_ts"]].values.tolist() == [
        ["sync", 1000, 1061],
        ["tensor", 3001, 4000],
        ["scalar", 4000, 4400],
        ["sync", 4600, 4660],
    ]


def test_active_time_leaves_semaphore_waits_out(tmp_path):
    text = Strings()
    rows = Instructions(
        start_ps=np.array([0, 50_000]),
        end_ps=np.array([50_000, 60_000]),
        opcode=text.codes(("EVENT_SEMAPHORE", "DRAIN")),
    )
    tracefile.write(Trace(Meta(False, "trn2", ""), text, rows), tmp_path / "t")
    active = pd.read_parquet(tmp_path / "t" / "ActiveTime.parquet")
    assert active[["start_ts", "end_ts"]].values.tolist() == [[50, 60]]


def test_estimates_say_so(table):
    assert table("Metadata").is_simulation.tolist() == [True]
    assert table("Metadata").explorer_version.tolist() == ["trnprof 0.1.0"]
    warning = table("Warning")
    assert warning.message.tolist() == [ESTIMATED, "DMA is a guess."]


def test_captured_traces_are_not_called_estimates(tmp_path):
    tracefile.write(kernel(simulated=False), tmp_path / "t")
    assert pd.read_parquet(tmp_path / "t" / "Metadata.parquet").is_simulation.tolist() == [False]
    assert ESTIMATED not in pd.read_parquet(tmp_path / "t" / "Warning.parquet").message.tolist()


def test_sampled_tables_hold_values_between_steps(table):
    sbuf = table("SbufUsage")
    assert sbuf[["timestamp", "avg_util_percent"]].values.tolist() == [[2500, 0.25], [5000, 0.5]]
    throttle = table("Throttle")
    assert throttle[["timestamp", "duration", "k", "n", "type"]].values.tolist() == [
        [1000, 2000, 4, 8, "activity_1"],
        [3000, 3000, 8, 8, "activity_0"],
    ]
    usage = table("DmaUsage")
    assert usage.total_transfer_bytes.tolist() == [0, 65_536]


def test_allocations_are_shown_on_the_sampled_partitions(table):
    ranges = table("SbufAllocation")
    assert ranges[["partition", "start_address", "end_address", "tensor_name"]].values.tolist() == [
        [32, 1024, 1535, "tile"],
        [64, 1024, 1535, "tile"],
    ]


def test_kernel_instructions_have_file_and_line(table):
    made = table("KernelInstructions").sort_values("line_number")
    assert made.kernel_instruction_name.tolist() == [f"inst.{line}" for line in (3, 4, 5, 6, 7)]
    assert set(made.file_path) == {"kernel.py"}
    assert made.line_number.tolist() == [3, 4, 5, 6, 7]


def test_schema_fields_describe_our_columns_too(table):
    fields = table("SchemaFields").set_index(["table_name", "field_name"])
    assert fields.loc[("Instruction", "duration_ns")].field_unit == "nanoseconds"
    assert "waits" in fields.loc[("Flow", "waiter")].field_description
    for name, kind in TABLES.items():
        for column in kind.columns:
            assert (OWN_PLACES[name], stored_name(name, column)) in fields.index


def test_the_documented_grouping_by_engine_and_opcode_works(table):
    """The snippet of AWS's page on analysing profile output: time and count per engine and opcode."""
    instruction = table("Instruction")
    grouped = instruction.groupby(["engine", "opcode"])["duration_ns"].agg(["sum", "count"])
    assert grouped.loc[("Tensor", "MATMUL")].tolist() == [1000, 2]
    ours = table("OpcodeSummary").set_index(["engine", "opcode"])
    assert ours.instruction_time_ns.to_dict() == grouped["sum"].to_dict()
    assert ours.instruction_count.to_dict() == grouped["count"].to_dict()
    assert ours.loc[("Tensor", "MATMUL")].active_time_ns == 899


def test_awss_performance_bounds_come_out(table):
    """The bounds that AWS's own scripts compute, formula by formula, from six tables."""
    summary, metadata = table("Summary").iloc[0], table("Metadata").iloc[0]
    packets, active, tensors = table("DmaPacket"), table("ActiveTime"), table("TensorInfo")
    assert summary.total_time == pytest.approx(20e-6)
    assert summary.dma_active_time == pytest.approx((950 + 10 + 750 + 10) * 1e-9)
    moved = packets[(packets.queue_type != "instruction") & (packets.transfer_bytes > 4)].transfer_bytes.sum()
    assert moved / metadata.dma_ddr_bandwidth == pytest.approx(98_304 / 435e9)
    necessary = tensors[tensors.type.isin(["IN", "OUT", "WEIGHT"])]["size"].sum()
    assert necessary / metadata.dma_ddr_bandwidth == pytest.approx(98_304 / 435e9)
    rows, columns, clock = (metadata[f"tensor_engine_{name}"] for name in ("num_rows", "num_cols", "clock_freq"))
    peak = rows * columns * 2 * clock * 1e9 * metadata.num_physical_cores
    useful = summary.adjusted_hardware_flops - summary.adjusted_transpose_flops
    assert useful / peak == pytest.approx(16_777_216 / 78.6432e12)
    by_engine = active.groupby("engine").duration_ns.sum()
    assert by_engine["tensor"] == round(summary.tensor_engine_active_time * 1e9) == 999
    pipeline = max(by_engine["tensor"], by_engine["scalar"], round(summary.dma_active_time * 1e9))
    assert pipeline == 1720
    assert tensors.set_index("variable_name").load_to_sbuf_repeat_factor["x"] == 2


def test_text_columns_are_plain_for_every_reader(written):
    for path in written.glob("*.parquet"):
        assert not [field for field in pq.read_schema(path) if str(field.type).startswith("dictionary")], path.name


def test_equal_words_are_one_word_of_a_text_column():
    column = arrow_table("Warning", {"message": Text(np.array([0, 1, 2, NONE]), ("a", "b", "a"), "b")}, 4)["message"]
    assert column.to_pylist() == ["a", "b", "a", "b"]
    assert column.chunk(0).dictionary.to_pylist() == ["a", "b"]


def test_hostile_and_unstorable_text_is_written(tmp_path):
    trace = kernel()
    hostile = "\x1b[31m\x00<b>‮" + "x" * 10_000
    trace.strings.code(hostile)
    trace.strings.code("\ud800lone")
    texts = list(tracefile.read(tracefile.write(trace, tmp_path / "t")).strings)
    assert texts[-2:] == [hostile, "?lone"]


def test_numpy_numbers_in_the_meta_are_stored(tmp_path):
    meta = Meta(True, "trn2", "k", window=(np.int64(1), np.int64(2)), machine={"clock": np.float64(2.4)})
    tracefile.write(Trace(meta, Strings(), Instructions(0)), tmp_path / "t")
    again = tracefile.read(tmp_path / "t").meta
    assert (again.window, again.machine) == ((1, 2), {"clock": 2.4})
    assert isinstance(json.loads((tmp_path / "t" / "trnprof.json").read_text())["meta"]["window"][0], int)


def test_unions_agree_with_the_intervals_of_the_analysis():
    rng = np.random.default_rng(0)
    start = rng.integers(0, 300, 80)
    end = start + rng.integers(-2, 9, 80)
    for ours, theirs in zip(merge(start, end), merge_intervals(start, end), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_rank_counts_within_groups():
    assert rank(np.array([5, 2, 5, 5, 2])).tolist() == [0, 0, 1, 2, 1]
    assert rank(np.empty(0, np.int64)).size == 0
