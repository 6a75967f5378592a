"""Profiles of others: every row accounted for, causes and transfers recovered, damage told in one line."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import tracefile
from sim.errors import InputError
from sim.explorer.columns import schema
from sim.trace import NONE, EdgeKind, Engine, Memory, QueueType, RegionKind, Trace, Wait, validate
from tests import legacy
from trnprof import readers
from trnprof.readers.captures import is_neff, is_ntff
from trnprof.readers.legacy import read as read_legacy
from trnprof.readers.operands import parse_operands
from trnprof.summary import summarize

ROUNDING_PS = 1_000
"""Profiles round starts and lengths to ns, each for itself."""

REAL = (
    *(f"inf2_matmul/profile_128x128x{n}.json" for n in (384, 512, 1024)),
    "inf2_matmul/profile_bucketed_128x128x2048.json",
    *(f"trn2_attention/{name}.json" for name in ("baseline_bf16_s512", "baseline_fp32_s512", "baseline_fp32_s1024")),
    "trn2_attention/fused_fp32_s512.json",
)


def small(change: Callable[[dict[str, Any]], Any] = lambda document: None) -> Trace:
    """The hand-made profile, changed."""
    document = legacy.document()
    change(document)
    return read_legacy(json.dumps(document).encode(), "small.json")


def row(trace: Trace, id: int) -> int:
    return int(np.flatnonzero(trace.instructions.id == id)[0])


def note(trace: Trace, part: str) -> str:
    return next(note for note in trace.meta.notes if part in note)


@pytest.fixture(params=REAL)
def real(request: pytest.FixtureRequest, profiles: Path) -> tuple[Trace, dict[str, Any]]:
    path = profiles / request.param
    return readers.open(path), json.loads(path.read_text())


def test_real_profiles_show_every_row(real):
    trace, document = real
    instructions = trace.instructions
    assert len(instructions) == len(document["instruction"])
    assert Counter(instructions.id.tolist()) == Counter(row["id"] for row in document["instruction"])
    own = [row for row in document["dma"] if row["aggregated"] == "yes"]
    assert len(trace.packets) == len(document["dma"]) - len(own)
    assert len(trace.semaphore_updates) == len(document["semaphore_update"])
    assert len(trace.edges) == sum(len(row.get("predecessors", ())) for row in document["instruction"])
    lengths = sum(row["duration"] for row in document["instruction"])
    assert int((instructions.end_ps - instructions.start_ps).sum()) == lengths * 1000
    waits = sum(row["evt_wait_time"] for row in document["instruction"])
    assert int(instructions.wait_ps.sum()) == waits * 1000
    validate(trace)


def test_real_profiles_rows_keep_their_columns(real):
    trace, document = real
    instructions = trace.instructions
    place = {id: at for at, id in enumerate(instructions.id.tolist())}
    for theirs in document["instruction"]:
        at = place[theirs["id"]]
        assert instructions.start_ps[at] == theirs["timestamp"] * 1000
        assert trace.text(instructions, "opcode", at) == theirs["opcode"]
        assert trace.text(instructions, "track", at) == theirs["label"]
        assert (trace.text(instructions, "operands", at) or "") == theirs["operands"].strip()
        assert instructions.core[at] == int(theirs["fully_qualified_subgraph"][3:5])
        assert instructions.flops[at] == 2 * theirs.get("elements", 0)
        assert instructions.hbm_read_bytes[at] == theirs.get("hbm_read_bytes", 0)


def test_real_profiles_windows_are_the_kernel_layer_or_its_active_end(real):
    trace, document = real
    layer = next(row for row in document["layer_summary"] if row["name"] != row["fully_qualified_subgraph"])
    low, high = (time // 1000 for time in trace.meta.window)
    assert abs(high - layer["end"]) <= 1
    if trace.meta.device == "trn2":
        assert low == layer["start"]
    else:
        assert layer["start"] + 1_800_000 < low < high
        assert high - low < 10_000
        assert "without kernel work" in note(trace, "The window begins")


def test_real_profiles_transfers_match_their_triggers(real):
    trace, _ = real
    instructions, transfers = trace.instructions, trace.transfers
    names = list(trace.strings)
    triggers = [at for at in range(len(instructions)) if names[instructions.opcode[at]] == "DMA_DIRECT2D"]
    assert set(triggers) <= set(transfers.instruction.tolist())
    for at in np.flatnonzero(transfers.instruction != NONE):
        trigger = transfers.instruction[at]
        moved = {int(instructions.column(f"{side}_bytes")[trigger]) for side in ("hbm_read", "hbm_write", "sbuf_read")}
        assert int(transfers.bytes[at]) in moved
        assert transfers.start_ps[at] >= instructions.start_ps[trigger]
        assert {int(transfers.source_memory[at]), int(transfers.dest_memory[at])} == {Memory.HBM, Memory.SBUF}
        assert 150_000 < transfers.done_ps[at] - transfers.end_ps[at] < 500_000
    linked = trace.packets.transfer
    assert (linked != NONE).all()
    assert (trace.packets.start_ps >= transfers.start_ps[linked]).all()
    assert (trace.packets.end_ps <= transfers.end_ps[linked] + ROUNDING_PS).all()


def test_real_profiles_dma_waits_end_when_the_semaphore_is_seen(real):
    trace, _ = real
    instructions, transfers = trace.instructions, trace.transfers
    done = {int(row): int(time) for row, time in zip(transfers.instruction, transfers.done_ps, strict=True)}
    work = np.flatnonzero((instructions.wait == Wait.DMA) & ~instructions.control)
    assert work.size
    for at in work:
        waited_for = int(instructions.wait_for[at])
        assert waited_for in done
        assert 0 <= instructions.start_ps[at] - done[waited_for] < 200_000


def test_real_profiles_say_what_machine_they_ran_on(real):
    trace, document = real
    meta = trace.meta
    assert meta.device in ("inf2", "trn2")
    assert not meta.is_simulation
    assert meta.machine["hbm_ddr_bandwidth"] == document["metadata"][0]["hbm_ddr_bandwidth"]
    assert meta.summary == document["summary"][0]
    whole = note(trace, "every row is shown")
    assert all(f"{table} ({len(document[table])})" in whole for table in ("instruction", "dma", "semaphore_update"))


def test_times_are_ps_and_rows_are_sorted():
    trace = small()
    assert trace.instructions.start_ps.tolist() == sorted(trace.instructions.start_ps.tolist())
    assert trace.meta.window == (11_000_000, 17_060_000)
    assert trace.meta.total_ps == 20_000_000
    assert trace.meta.kernel == "small"


def test_columns_are_read_from_rows_and_operands():
    trace = small()
    at, instructions = row(trace, 13), trace.instructions
    assert instructions.engine[at] == Engine.TENSOR
    assert trace.text(instructions, "dtype", at) == "bf16"
    assert (instructions.flops[at], instructions.adjusted_flops[at]) == (4_194_304, 4_194_304)
    assert (instructions.partitions[at], instructions.elements[at]) == (128, 2_097_152)
    at = row(trace, 14)
    assert trace.text(instructions, "function", at) == "EXP"
    assert instructions.elements[at] == 128


@pytest.mark.parametrize(("dtype", "factor"), [("fp32", 2), ("bf16", 1), ("fp8e4", 0.5), ("uint8", 0.5)])
def test_adjusted_flops_count_in_bf16_equivalents(dtype, factor):
    def retype(document):
        document["instruction"][4]["operands"] = f"src={dtype}@0x20[1,0][128,1] 128*128"

    trace = small(retype)
    assert trace.instructions.adjusted_flops[row(trace, 13)] == 4_194_304 * factor


def test_fp8_counts_once_on_neuroncore_v2():
    def inferentia(document):
        document["summary"][0]["instance_type"] = "inf2.xlarge"
        document["instruction"][4]["operands"] = "src=fp8e4@0x20[1,0][128,1] 128*128"

    trace = small(inferentia)
    assert trace.instructions.adjusted_flops[row(trace, 13)] == 4_194_304


def test_set_up_rows_are_control_and_the_kernels_are_not():
    trace = small()
    control = {int(id): bool(flag) for id, flag in zip(trace.instructions.id, trace.instructions.control, strict=True)}
    assert control == dict.fromkeys((1, 2, 16, 17), True) | dict.fromkeys((11, 12, 13, 14, 15), False)


def test_a_compiled_doorbell_is_work():
    def compile_write(document):
        document["instruction"][0] |= {"bir_id": "sg0000:1", "compiler_opcode": "PSEUDO_DMA_TRIGGER"}

    trace = small(compile_write)
    assert not trace.instructions.control[row(trace, 1)]


def test_transfers_are_derived_between_semaphore_packets():
    trace = small()
    transfers = trace.transfers
    dma = transfers.queue_type != QueueType.INSTRUCTION
    assert transfers.bytes[dma].tolist() == [4 * 4096, 4 * 2048]
    assert transfers.instruction[dma].tolist() == [row(trace, 11), row(trace, 15)]
    assert transfers.start_ps[dma].tolist() == [12_000_000, 15_500_000]
    assert transfers.done_ps[dma].tolist() == [12_730_000, 16_230_000]
    assert transfers.descriptors[dma].tolist() == [32, 16]
    assert transfers.wait_ps[dma].tolist() == [500_000, 100_000]
    assert [trace.strings[int(code)] for code in transfers.queue[dma]] == ["qSyncDynamicHW"] * 2
    assert (transfers.source_memory[dma].tolist(), transfers.dest_memory[dma].tolist()) == (
        [Memory.HBM, Memory.SBUF],
        [Memory.SBUF, Memory.HBM],
    )


def test_transfers_whose_bytes_do_not_match_stay_unlinked():
    def halve(document):
        document["instruction"][2] |= {"hbm_read_bytes": 77, "sbuf_write_bytes": 77}

    trace = small(halve)
    dma = trace.transfers.queue_type != QueueType.INSTRUCTION
    assert trace.transfers.bytes[dma].tolist() == [4 * 4096, 4 * 2048]
    assert trace.transfers.instruction[dma].tolist() == [NONE, NONE]
    assert note(trace, "what triggered them is not known")


def test_packets_that_engines_count_differently_become_bursts():
    trace = small(lambda document: document["dma"].pop(2))
    dma = trace.transfers.queue_type != QueueType.INSTRUCTION
    assert (trace.transfers.instruction[dma] == NONE).all()
    assert (trace.packets.transfer != NONE).all()
    assert int(trace.transfers.bytes[dma].sum()) == 4 * 4096 + 4 * 2048


def test_the_profiles_own_transfers_are_kept_and_linked_by_their_trigger_time():
    def own(document):
        document["instruction"][0] |= {"timestamp": 11_900, "compiler_opcode": "PSEUDO_DMA_TRIGGER"}
        document["dma"] = legacy.packets(legacy.LOAD_NS, 1, 4096, 100)
        whole = {"aggregated": "yes", "id": 5, "duration": 600, "trigger": 11_900, "transfer_size": 16_384}
        names = {
            "subgroup": "qSyncIO0",
            "source": [["WEIGHT"]],
            "dest": ["SB"],
            "variable": "w",
            "semaphore_id": "S[8] (q)",
        }
        document["dma"].append(legacy.packet(12_000, 0, 1, 0, 5) | whole | names)

    trace = small(own)
    transfers = trace.transfers
    assert transfers.id.tolist() == [5]
    assert transfers.instruction.tolist() == [row(trace, 1)]
    assert trace.text(transfers, "variable", 0) == "w"
    assert (transfers.source_memory[0], transfers.dest_memory[0]) == (Memory.HBM, Memory.SBUF)
    assert transfers.done_ps.tolist() == [12_730_000]
    assert (trace.packets.transfer == 0).all()


def test_waits_name_the_dependency_that_finished_last():
    trace = small()
    wait = {int(id): (Wait(int(kind)), int(row)) for id, kind, row in _waits(trace)}
    assert wait[12] == (Wait.DMA, row(trace, 11))
    assert wait[13] == (Wait.ENGINE, row(trace, 12))
    assert wait[14] == (Wait.OPERAND, row(trace, 13))
    assert wait[11] == (Wait.ENGINE, row(trace, 2))
    assert wait[1] == (Wait.NONE, NONE)


def _waits(trace: Trace) -> zip:
    return zip(trace.instructions.id, trace.instructions.wait, trace.instructions.wait_for, strict=True)


def test_a_reused_buffer_is_named_as_the_cause():
    def reuse(document):
        document["instruction"][5]["predecessors"][0]["type"] = "ANTI_DEPENDENCE"

    trace = small(reuse)
    assert trace.instructions.wait[row(trace, 14)] == Wait.BUFFER
    assert EdgeKind.ANTI in trace.edges.kind


def test_a_row_behind_a_semaphore_wait_has_the_cause_of_that_wait():
    def semaphore(document):
        wait = legacy.instruction(
            20, 12_000, 790, "Tensor", "EVENT_SEMAPHORE", bir_id="s", after={11: "FLOW_DEPENDENCE"}
        )
        document["instruction"].append(wait | {"timestamp": 12_740, "duration": 50})
        document["instruction"][3].pop("predecessors")

    trace = small(semaphore)
    at = row(trace, 12)
    assert (trace.instructions.wait[at], trace.instructions.wait_for[at]) == (Wait.DMA, row(trace, 11))


def test_what_was_still_running_cannot_have_been_waited_for():
    trace = small(lambda document: document["instruction"][5].update(timestamp=13_000))
    at = row(trace, 14)
    assert (trace.instructions.wait[at], trace.instructions.wait_for[at]) == (Wait.NONE, NONE)


def test_a_gap_that_nothing_explains_is_unknown():
    def lonely(document):
        document["instruction"][5].pop("predecessors")
        document["instruction"].append(legacy.instruction(21, 12_000, 50, "Scalar", "ACTIVATE"))

    trace = small(lonely)
    at = row(trace, 14)
    assert (trace.instructions.wait[at], trace.instructions.wait_for[at]) == (Wait.UNKNOWN, NONE)


def test_the_window_skips_tables_that_were_loaded_long_before():
    def early(document):
        document["instruction"].append(legacy.instruction(30, 5, 368, "Scalar", "ACT_TABLE_LOAD", bir_id="sg0000:30"))
        for table in ("instruction", "dma", "semaphore_update"):
            for entry in document[table]:
                entry["timestamp"] += 1_000_000 * (entry["timestamp"] > 10_000)
        document["summary"][0]["total_time"] = 1.1e-3

    trace = small(early)
    assert trace.meta.window == (1_011_000_000, 1_017_060_000)
    assert note(trace, "without kernel work")


def test_regions_follow_layers_and_source_lines():
    def sourced(document):
        for entry in document["instruction"][2:7]:
            entry |= {"layer": "block/attention", "nki_source_location": "kernel.py:7"}

    trace = small(sourced)
    regions = trace.regions
    names = [trace.text(regions, "name", at) for at in range(len(regions))]
    assert names == ["small", "block", "attention", "kernel.py:7"]
    assert regions.kind.tolist() == [RegionKind.MODEL, RegionKind.LAYER, RegionKind.OPERATOR, RegionKind.LINE]
    assert regions.parent.tolist() == [NONE, 0, 1, 2]
    assert trace.text(regions, "source", 3) == "kernel.py:7"
    assert trace.instructions.region[row(trace, 13)] == 3
    assert (regions.start_ps[0], regions.end_ps[0]) == (11_000_000, 16_230_000)


def test_a_kernel_without_layers_is_one_region():
    regions = small().regions
    assert regions.kind.tolist() == [RegionKind.KERNEL]


def test_counters_carry_clock_rates_depth_and_fullness():
    trace = small()
    counters = trace.counters
    found = {name: counters.value[counters.counter == trace.strings.find(name)].tolist() for name in trace.strings}
    assert found["tensor_clock"] == [0.5, 1.0]
    assert found["throttle_activity_1"] == [0.5, 0.0]
    assert found["pending_dma"] == [1, 0]
    assert found["dma_bytes_per_s"] == [5000]
    assert (found["sbuf"], found["sbuf_partition_32"]) == ([0.25], [0.5])


def test_the_receipt_names_what_is_left_in_the_file():
    assert "nc_mem_usage (1)" in note(small(), "tables left")


FAULTS = {
    "negative": ({"duration": -3}, "last less than nothing"),
    "not a number": ({"timestamp": float("nan")}, "have a time that is not a number"),
    "infinite": ({"duration": float("inf")}, "have a time that is not a number"),
    "no time": ({"timestamp": None}, "have no time"),
    "a text": ({"timestamp": "soon"}, "have a wrong timestamp"),
    "an object": ({"subgroup": {}}, "have a wrong subgroup"),
    "too far": ({"timestamp": 1 << 62}, "lie beyond 64-bit picoseconds"),
}


@pytest.mark.parametrize(("fault", "reason"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("table", ["instruction", "dma"])
def test_a_bad_row_is_set_aside_alone_and_counted(table, fault, reason):
    trace = small(lambda document: document[table][-1].update(fault))
    whole = legacy.document()
    rows = len(whole[table])
    told = note(trace, f"receipt, {table}:")
    assert f"{rows} rows in = {rows - 1} shown + 1 quarantined (1 {reason})" in told
    assert len(trace.instructions) + len(trace.packets) == len(whole["instruction"]) + len(whole["dma"]) - 1
    validate(trace)


def test_rows_that_are_not_objects_are_counted():
    trace = small(lambda document: document["instruction"].append(5))
    assert "(1 are not records)" in note(trace, "receipt, instruction:")


def test_repeated_ids_are_renumbered():
    trace = small(lambda document: document["instruction"].append(legacy.instruction(13, 19_000, 1, "Tensor", "NOP")))
    assert len(set(trace.instructions.id.tolist())) == len(trace.instructions)
    assert note(trace, "renumbered")
    assert trace.instructions.id[trace.edges.signaler].tolist().count(13) == 1


def test_predecessors_that_are_not_in_the_file_are_counted():
    trace = small(lambda document: document["instruction"][5]["predecessors"].append({"id": 999, "type": "ORDERED"}))
    assert "(1 name a row that is not in the file)" in note(trace, "receipt, predecessors:")


def test_fractions_of_a_ns_survive():
    trace = small(lambda document: document["instruction"][4].update(timestamp=12_830.25, duration=300.5))
    at = row(trace, 13)
    assert (trace.instructions.start_ps[at], trace.instructions.end_ps[at]) == (12_830_250, 13_130_750)


def test_picosecond_profiles_are_known_by_their_total_time():
    def in_ps(document):
        for table in ("instruction", "dma", "semaphore_update"):
            for entry in document[table]:
                entry["timestamp"] *= 1000
                entry["duration"] = entry.get("duration", 0) * 1000

    trace = small(in_ps)
    assert trace.meta.window == small().meta.window
    assert note(trace, "picoseconds")


def test_wall_clock_times_are_moved_to_the_start():
    epoch = 1_900_000_000_000_000_000

    def dated(document):
        for table in (
            "instruction",
            "dma",
            "semaphore_update",
            "pending_dma",
            "dma_throughput",
            "ham",
            "instruction_usage",
        ):
            for entry in document[table]:
                entry["timestamp"] += epoch
        document["summary"][0].pop("total_time")

    trace = small(dated)
    assert trace.instructions.start_ps[0] == 0
    assert trace.meta.window[1] - trace.meta.window[0] == 6_060_000


def test_a_profile_with_a_single_instruction_opens():
    def alone(document):
        document |= {name: [] for name in ("dma", "semaphore_update", "ham", "pending_dma", "neff_node")}
        document["instruction"] = document["instruction"][4:5]

    trace = small(alone)
    assert trace.meta.window == (12_830_000, 13_130_000)
    assert len(trace.transfers) == 0


def test_a_profile_with_dma_rows_alone_opens():
    trace = small(lambda document: document.update(instruction=[]))
    assert len(trace.instructions) == 0
    assert len(trace.packets) == 25


HOSTILE = "<script>alert(1)</script>\x1b[31m\x00‮" + "x" * 10_000


def test_hostile_names_are_kept_as_text():
    trace = small(lambda document: document["instruction"][4].update(opcode=HOSTILE, operands="\ud800 src=" + HOSTILE))
    assert trace.text(trace.instructions, "opcode", row(trace, 13)) == HOSTILE
    assert all(text.encode() for text in trace.strings)


def test_plain_gzipped_and_marked_json_open_alike(tmp_path):
    data = json.dumps(legacy.document()).encode()
    (tmp_path / "a.json").write_bytes(data)
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(data))
    (tmp_path / "c.json").write_bytes(b"\xef\xbb\xbf" + data)
    windows = {readers.open(path).meta.window for path in tmp_path.iterdir()}
    assert windows == {(11_000_000, 17_060_000)}


BAD_FILES = {
    "empty": (b"", "an empty file"),
    "text": (b"hello\n", "not a profile"),
    "cut off": (json.dumps(legacy.document()).encode()[:5000], "the JSON is cut off at byte"),
    "broken": (b'{"instruction": [}', "the JSON is not valid at byte 17"),
    "list": (b"[1, 2]", "a timeline without slices and counters"),
    "chrome": (b'{"traceEvents": []}', "a timeline without slices and counters"),
    "other": (b'{"name": "x"}', "JSON without instruction and DMA rows; it has name"),
    "no rows": (b'{"instruction": [], "dma": []}', "JSON without instruction and DMA rows"),
    "wrong table": (b'{"instruction": {"id": 1}}', "table `instruction` is a dict"),
    "nested": (b"[" * 200_000, "a timeline without slices and counters"),
    "gzip cut off": (gzip.compress(json.dumps(legacy.document()).encode())[:300], "the gzip data is damaged"),
    "parquet file": (b"PAR1" + b"\0" * 20, "one table of a profile"),
    "zip": (b"PK\x03\x04....", "the archive is damaged"),
    "wrong encoding": ('{"a": 1}'.encode("utf-16"), "not a profile"),
}


@pytest.mark.parametrize(("data", "said"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_told_in_one_line(data, said, tmp_path):
    path = tmp_path / "profile.json"
    path.write_bytes(data)
    with pytest.raises(InputError) as fault:
        readers.open(path)
    assert str(fault.value).startswith(f"{path}: ")
    assert said in str(fault.value)
    assert "\n" not in str(fault.value)


def test_what_is_not_there_is_told_in_one_line(tmp_path):
    with pytest.raises(InputError, match=r"nope: no such trace$"):
        readers.open(tmp_path / "nope")
    with pytest.raises(InputError, match="a directory without profile tables; it is empty"):
        readers.open(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"a directory without profile tables; it has notes\.txt"):
        readers.open(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file_is_told_in_one_line(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text("{}")
    path.chmod(0)
    with pytest.raises(InputError, match="no permission to read it"):
        readers.open(path)


def test_permission_errors_name_the_file(tmp_path, monkeypatch):
    path = tmp_path / "profile.json"
    path.write_text("{}")

    def refuse(*_args, **_named):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"profile.json: no permission to read it"):
        readers.open(path)


def ntff() -> bytes:
    """A capture's header in the layout of real files, and one record."""
    name, uuid, instance = b"build/small/graph.neff", bytes(range(16)) + b"tail", b"trn2.3xlarge"
    block = b"\x0a%c%b\x12%c%b\x4a%c%b" % (len(name), name, len(uuid), uuid, len(instance), instance)
    return bytes([6]) + len(block).to_bytes(7, "little") + bytes(120) + block + bytes(16)


def test_a_capture_is_answered_with_the_command_that_converts_it(tmp_path):
    path = tmp_path / "profile.ntff"
    path.write_bytes(ntff())
    with pytest.raises(InputError) as fault:
        readers.open(path)
    told = str(fault.value)
    assert "NTFF version 6, NEFF 'build/small/graph.neff', NEFF UUID 000102" in told
    assert "captured on trn2.3xlarge" in told
    assert (
        f"neuron-explorer view -n FILE.neff -s {path} --output-format parquet --output-file {tmp_path / 'profile'}"
        in told
    )


def test_a_hex_dump_of_a_capture_is_seen_through(tmp_path):
    path = tmp_path / "profile.ntff"
    data = ntff()
    lines = [f"{at:08x}: {data[at : at + 16].hex(' ', 2):<39}  ....\n" for at in range(0, len(data), 16)]
    path.write_text("".join(lines))
    with pytest.raises(InputError, match=r"a hex dump, in text, of a capture: NTFF version 6.*xxd -r"):
        readers.open(path)


def test_a_compiled_program_is_answered_with_the_commands_that_capture_it(tmp_path):
    path = tmp_path / "graph.neff"
    path.write_bytes((2).to_bytes(8, "little") + (1024).to_bytes(8, "little") + bytes(1008) + gzip.compress(b"tar"))
    with pytest.raises(InputError, match=r"a compiled program \(NEFF.*neuron-explorer capture -n"):
        readers.open(path)


def test_real_captures_are_recognised(profiles):
    for path in (profiles / "ntff").iterdir():
        with pytest.raises(InputError, match="NTFF version"):
            readers.open(path)


@given(st.binary(max_size=300))
def test_sniffing_never_fails(data):
    assert is_ntff(data) in (True, False)
    assert is_neff(data) in (True, False)


@given(st.text(max_size=200))
def test_operand_text_never_fails(text):
    assert parse_operands(text).elements >= 0


def test_operand_text_of_a_dma():
    facts = parse_operands("S[6] (Vector)>=16 semaphore=27 sem_increment=16 src_elem_size=512 dst_elem_size=2048")
    assert (facts.semaphore, facts.element_bytes, facts.waits, facts.elements) == (27, 512, True, 0)


@given(st.data())
def test_mangled_profiles_open_or_are_refused(data):
    """Flip, cut and insert bytes: either a sound trace or one InputError."""
    text = bytearray(json.dumps(legacy.document()).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        match data.draw(st.sampled_from(("flip", "cut", "insert"))):
            case "flip":
                text[at] = data.draw(st.integers(0, 255))
            case "cut":
                del text[at : at + data.draw(st.integers(1, 40))]
            case "insert":
                text[at:at] = data.draw(
                    st.sampled_from((b"NaN", b"-", b"null", b'"', b"[]", b"1e99", b"{", b"\\ud800"))
                )
    try:
        trace = read_legacy(bytes(text), "mangled.json")
    except InputError:
        return
    validate(trace)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@given(st.data())
def test_any_value_in_any_field_leaves_a_balanced_receipt(data):
    document = legacy.document()
    table = data.draw(st.sampled_from(sorted(document)))
    entry = data.draw(st.sampled_from(document[table]))
    entry[data.draw(st.sampled_from(sorted(entry)))] = data.draw(JSON_VALUES)
    trace = read_legacy(json.dumps(document).encode(), "odd.json")
    validate(trace)
    for line in (line for line in trace.meta.notes if "rows in" in line):
        numbers = [int(word) for word in line.replace("(", " ").split() if word.isdecimal()]
        assert numbers[0] == numbers[1] + numbers[2], line


@pytest.fixture
def explorer(tmp_path: Path) -> Path:
    """The hand-made profile as a Neuron Explorer directory: without anything of ours."""
    folder = tmp_path / "profiles" / "global" / "small@latest"
    trace = small()
    tracefile.write(trace, folder, summarize(trace))
    for path in folder.iterdir():
        if path.name.startswith(("Trnprof", "trnprof")):
            path.unlink()
            continue
        theirs = [field.name for field in schema()[path.stem][1]]
        pq.write_table(pq.read_table(path).select(theirs), path)
    return folder


def change(folder: Path, table: str, alter: Callable[[pa.Table], pa.Table]) -> None:
    path = folder / f"{table}.parquet"
    pq.write_table(alter(pq.read_table(path)), path)


def same(ours: Trace, theirs: Trace, table: str, columns: str) -> None:
    a, b = getattr(ours, table), getattr(theirs, table)
    for name in columns.split():
        if a.columns[name].text:
            first, second = ([t.strings[int(code)] for code in x.column(name)] for t, x in ((ours, a), (theirs, b)))
            assert first == second, name
        else:
            np.testing.assert_array_equal(a.column(name), b.column(name), err_msg=name)


def test_an_explorer_directory_gives_the_same_trace(explorer):
    trace, again = small(), readers.open(explorer)
    assert again.meta.window == trace.meta.window
    assert again.meta.total_ps == trace.meta.total_ps
    assert again.meta.device == "trn2"
    assert again.meta.schema_version == "7.4.0"
    same(
        trace,
        again,
        "instructions",
        "id start_ps end_ps engine core track opcode operands group dtype function wait wait_for wait_ps flops "
        "adjusted_flops hbm_read_bytes sbuf_write_bytes control elements partitions region",
    )
    same(trace, again, "transfers", "id start_ps end_ps instruction queue queue_type bytes source_memory dest_memory")
    same(trace, again, "packets", "id start_ps end_ps transfer dma_engine ring queue bytes")
    same(trace, again, "edges", "signaler waiter kind")
    same(trace, again, "semaphore_updates", "time_ps semaphore value")
    same(trace, again, "tensors", "name type shape bytes")
    ours, theirs = summarize(trace), summarize(again)
    assert theirs == pytest.approx(ours)


def test_a_profile_folder_is_found_below_the_one_given(explorer):
    assert readers.open(explorer.parents[2]).meta.kernel == "small"


def test_a_folder_with_two_profiles_asks_which(explorer):
    shutil.copytree(explorer, explorer.parent / "other@latest")
    with pytest.raises(InputError, match=r"holds 2 traces \(open one of: .*other@latest, .*small@latest\)"):
        readers.open(explorer.parent)


def test_split_tables_are_joined(explorer):
    path = explorer / "Instruction.parquet"
    table = pq.read_table(path)
    for part, start in enumerate(range(0, len(table), 4)):
        pq.write_table(table.slice(start, 4), explorer / f"Instruction_{part}.parquet")
    path.unlink()
    same(small(), readers.open(explorer), "instructions", "id start_ps opcode wait_for")


def test_a_table_whose_name_begins_like_another_is_not_taken_for_it(explorer):
    (explorer / "DmaPacketAggregated.parquet").unlink()
    trace = readers.open(explorer)
    assert len(trace.packets) == 25
    assert (trace.transfers.instruction != NONE).sum() == 2


def test_renamed_missing_and_unknown_columns_do_not_matter(explorer):
    def reshape(table: pa.Table) -> pa.Table:
        table = table.drop_columns(["operands", "layer", "pcore_idx", "end_ts", "raw_flops"])
        names = {"start_ts": "timestamp", "duration_ns": "duration"}
        table = table.rename_columns([names.get(name, name) for name in table.column_names])
        return table.append_column("new_in_12", pa.array(range(len(table))))

    change(explorer, "Instruction", reshape)
    change(explorer, "Metadata", lambda table: table.set_column(0, "profile_schema_version", pa.array(["12.0.1"])))
    trace = readers.open(explorer)
    same(small(), trace, "instructions", "id start_ps end_ps engine opcode flops")
    assert note(trace, "Schema 12.0.1")


def test_engine_names_of_any_case_and_dictionary_text_are_read(explorer):
    def recase(table: pa.Table) -> pa.Table:
        at = table.column_names.index("engine")
        lower = pa.array([name.lower() for name in table.column("engine").to_pylist()]).dictionary_encode()
        return table.set_column(at, "engine", lower)

    change(explorer, "Instruction", recase)
    same(small(), readers.open(explorer), "instructions", "id engine")


def test_bad_parquet_rows_are_set_aside_and_counted(explorer):
    def spoil(table: pa.Table) -> pa.Table:
        ends = table.column("end_ts").to_pylist()
        ends[1], ends[2] = 0, None
        table = table.set_column(table.column_names.index("end_ts"), "end_ts", pa.array(ends, pa.int64()))
        lengths = table.column("duration_ns").to_pylist()
        lengths[2] = None
        return table.set_column(table.column_names.index("duration_ns"), "duration_ns", pa.array(lengths, pa.int64()))

    change(explorer, "Instruction", spoil)
    trace = readers.open(explorer)
    assert "9 rows in = 7 shown + 2 quarantined (2 have no time, or end before they start)" in note(
        trace, "Instruction:"
    )


def test_times_as_floats_with_nan_are_read(explorer):
    def floats(table: pa.Table) -> pa.Table:
        starts = table.column("start_ts").to_pandas().astype(float)
        starts[0] = np.nan
        return table.set_column(table.column_names.index("start_ts"), "start_ts", pa.array(starts, from_pandas=False))

    change(explorer, "Instruction", floats)
    assert "8 shown + 1 quarantined" in note(readers.open(explorer), "Instruction:")


def test_a_damaged_table_is_named(explorer):
    path = explorer / "DmaPacket.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"DmaPacket\.parquet: damaged"):
        readers.open(explorer)


def test_a_directory_without_the_main_tables_is_named(explorer):
    for name in ("Instruction", "DmaPacket"):
        (explorer / f"{name}.parquet").unlink()
    with pytest.raises(InputError, match="neither Instruction nor DmaPacket table; it has ActiveTime"):
        readers.open(explorer)


def test_a_table_without_times_is_named(explorer):
    change(explorer, "Instruction", lambda table: table.drop_columns(["start_ts"]))
    with pytest.raises(InputError, match="table Instruction has no column start_ts"):
        readers.open(explorer)


def test_a_directory_of_ours_opens_with_our_reader(tmp_path):
    trace = small()
    tracefile.write(trace, tmp_path / "t")
    assert readers.open(tmp_path / "t").meta == trace.meta
