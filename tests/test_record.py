"""A schedule as a profile: nothing lost, nothing invented, the same bytes on every run."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import schedule as scheduling
from sim.compiler import Options
from sim.dependences import QUEUES
from sim.program import Role
from sim.record import record
from sim.schedule import Schedule
from sim.trace import EdgeKind, Engine, Memory, RegionKind, Table, Trace, Wait, validate
from tests.programs import Builder, random_program

R, W, A = Role.READ, Role.WRITE, Role.ACCUMULATE
LEAD = 15_300_000
"""trn2: all that total_time has beside the window, ps."""
LOAD = 1_283_000

STRICT = Options(windows=(1,) * QUEUES)

seeds = st.integers(0, 10**9)


def timed(seed: int, **more: object) -> Schedule:
    return scheduling.schedule(random_program(seed, 60, **more))


def traced(build: Builder, options: Options = STRICT) -> Trace:
    trace = record(scheduling.schedule(build.finish(), options))
    validate(trace)
    return trace


def rows(trace: Trace, *columns: str, table: str = "instructions") -> list[tuple]:
    """Columns of a table as tuples, text decoded."""
    found: Table = getattr(trace, table)
    decoded = []
    for name in columns:
        values = found.column(name).tolist()
        decoded.append([trace.strings[code] for code in values] if found.columns[name].text else values)
    return list(zip(*decoded, strict=True))


def matmul(build: Builder, passes: int = 1, **more: object) -> tuple:
    """Both operands written, then a matrix multiplication."""
    left, right, bank = build.sbuf(name="left"), build.sbuf(name="right"), build.psum(name="bank")
    for tile in (left, right):
        build.op(Engine.GPSIMD, (W, tile), occupancy=10, latency=10)
    fields = {"occupancy": 400_000, "latency": 500_000, "opcode": "MATMUL", "load_ps": 90_000, "passes": passes, **more}
    build.op(Engine.TENSOR, (W, bank), (R, left), (R, right), partitions=128, **fields)
    return left, right, bank


# -- any program -------------------------------------------------------------------------------------


@given(seed=seeds, device=st.sampled_from(("trn1", "trn2")), cores=st.integers(1, 2))
def test_every_trace_is_valid_and_has_a_row_for_every_instruction(seed: int, device: str, cores: int):
    found = timed(seed, device=device, cores=cores)
    trace = record(found)
    validate(trace)
    assert len(trace.instructions) == len(found.program) + len(found.table_loads.instruction)
    work = np.array([text != "ACT_TABLE_LOAD" for (text,) in rows(trace, "opcode")])
    assert sorted((trace.instructions.start_ps[work] - trace.meta.window[0]).tolist()) == sorted(found.start.tolist())
    assert (trace.meta.window[1] - trace.meta.window[0]) == found.end_ps


@given(seed=seeds, windows=st.sampled_from((1, 64)))
def test_waits_and_work_fill_the_time_of_every_engine(seed: int, windows: int):
    found = scheduling.schedule(random_program(seed, 60, least=10), Options(windows=(windows,) * QUEUES))
    table = record(found).instructions
    for engine in range(QUEUES):
        shown = (table.engine == engine) & ~table.control
        forms = np.array([form.dma is not None for form in found.program.forms])[found.program.form]
        queue = np.array([form.engine for form in found.program.forms])[found.program.form] == engine
        spans = [
            (int(s), int(min(f, s + 60) if d else f))
            for s, f, d in zip(found.start[queue], found.freed[queue], forms[queue])
        ]
        loads = found.table_loads.start[found.table_loads.start >= 0] if engine == Engine.SCALAR else []
        spans += [(int(start), int(start) + LOAD) for start in loads]
        idle, waits = 0, []
        for start, end in sorted(spans):
            waits.append(start - idle)
            idle = end
        assert table.wait_ps[shown].tolist() == waits


@given(seed=seeds)
def test_what_bound_a_start_was_over_by_then(seed: int):
    found = timed(seed)
    table = record(found).instructions
    bound = np.flatnonzero(table.wait_for >= 0)
    before = table.wait_for[bound]
    assert (table.start_ps[before] <= table.start_ps[bound]).all()
    tables = table.wait[bound] == Wait.TABLE
    assert (table.end_ps[before[tables]] == table.start_ps[bound[tables]]).all()
    assert (table.wait_ps[table.wait_for < 0] == 0).all()


@given(seed=seeds)
def test_flow_edges_run_from_an_end_to_a_start(seed: int):
    found = timed(seed)
    trace = record(found)
    edges, table = trace.edges, trace.instructions
    assert len(edges) == found.dependences.predecessor.size
    done = table.end_ps.copy()
    transfer = trace.transfers
    done[transfer.instruction] = transfer.done_ps
    flow = edges.kind == EdgeKind.FLOW
    assert (done[edges.signaler[flow]] <= table.start_ps[edges.waiter[flow]]).all()


@given(seed=seeds)
def test_packets_are_the_transfers_dealt_to_the_engines(seed: int):
    trace = record(timed(seed))
    transfers, packets = trace.transfers, trace.packets
    for name in ("bytes", "read_bytes", "write_bytes", "descriptors"):
        dealt = np.bincount(packets.transfer, packets.column(name), minlength=len(transfers))
        assert dealt.astype(int).tolist() == transfers.column(name).tolist()
    if len(packets):
        first = np.full(len(transfers), np.iinfo(np.int64).max)
        np.minimum.at(first, packets.transfer, packets.start_ps)
        assert first.tolist() == transfers.start_ps.tolist()
        assert (packets.end_ps <= transfers.end_ps[packets.transfer]).all()
        assert (np.unique(packets.dma_engine) < 16).all()
    for engine in range(16):
        mine = packets.dma_engine == engine
        assert (packets.end_ps[mine][:-1] <= packets.start_ps[mine][1:]).all()


@given(seed=seeds, cores=st.integers(1, 2))
def test_counters_are_what_the_tables_say(seed: int, cores: int):
    found = timed(seed, cores=cores)
    trace = record(found)
    table = trace.counters
    for name in {text for (text,) in rows(trace, "counter", table="counters")}:
        for core in range(cores):
            mine = (table.counter == trace.strings.find(name)) & (table.core == core)
            time, value = table.time_ps[mine], table.value[mine]
            assert (np.diff(time) > 0).all()
            if name == "sbuf" or name.startswith("psum"):
                assert ((value >= 0) & (value <= 1)).all()
            if name != "tensor_clock" and time.size:
                assert value[-1] == 0
            moved = trace.transfers.core == core
            if name == "dma_bytes_per_s" and (trace.transfers.end_ps > trace.transfers.start_ps)[moved].all():
                carried = (np.diff(time) * value[:-1]).sum() / 1e12
                assert carried == pytest.approx(trace.transfers.bytes[moved].sum())


@given(seed=seeds)
def test_a_region_covers_what_runs_in_it(seed: int):
    trace = record(timed(seed))
    table, regions = trace.instructions, trace.regions
    region = table.region
    assert (region >= 0).all()
    assert (regions.kind[region] == RegionKind.LINE).all()
    ordinary = ~table.control
    assert (regions.start_ps[region] <= table.start_ps)[ordinary].all()
    inside = regions.parent >= 0
    above = regions.parent[inside]
    assert (regions.start_ps[above] <= regions.start_ps[inside]).all()
    assert (regions.end_ps[above] >= regions.end_ps[inside]).all()
    assert trace.regions.end_ps.max() == trace.meta.window[1]


@given(seed=seeds)
def test_semaphores_count_what_others_wait_for(seed: int):
    found = timed(seed)
    updates = record(found).semaphore_updates
    for engine in range(QUEUES):
        mine = updates.semaphore == engine
        assert updates.value[mine].tolist() == list(range(1, np.count_nonzero(mine) + 1))
    assert (np.diff(updates.time_ps) >= 0).all()


# -- rows of a matrix multiplication -----------------------------------------------------------------


def test_a_matmul_becomes_pairs_that_share_a_group():
    build = Builder()
    matmul(build, passes=2, flops=4000, adjusted_flops=1000, elements=1000)
    trace = traced(build)
    found = [row for row in rows(trace, "opcode", "track", "group", "flops", "adjusted_flops", "elements") if row[2]]
    assert found == [
        ("LDWEIGHTS", "Tensor", "I-2", 0, 0, 0),
        ("MATMUL", "TensorMatrix", "I-2", 2000, 500, 1000),
        ("LDWEIGHTS", "Tensor", "I-2", 0, 0, 0),
        ("MATMUL", "TensorMatrix", "I-2", 2000, 500, 1000),
    ]


def test_passes_share_the_occupancy_and_the_last_one_ends_it():
    build = Builder()
    matmul(build, passes=2)
    table = traced(build).instructions
    start = table.start_ps[2]
    spans = [(int(a - start), int(b - start)) for a, b in zip(table.start_ps[2:], table.end_ps[2:], strict=True)]
    assert spans == [(0, 90_000), (0, 300_000), (110_000, 200_000), (200_000, 500_000)]
    assert table.wait_for[2:].tolist() == [1, 2, 3, 3]


def test_weights_are_loaded_behind_the_matmul_before():
    build = Builder()
    left, right, _ = matmul(build)
    fields = {"occupancy": 400_000, "latency": 500_000, "opcode": "MATMUL", "load_ps": 90_000, "partitions": 128}
    build.op(Engine.TENSOR, (W, build.psum()), (R, right), (R, left), **fields)
    found = rows(traced(build), "opcode", "start_ps", "wait", "wait_for")[2:]
    start = found[0][1]
    assert [(opcode, time - start) for opcode, time, *_ in found] == [
        ("LDWEIGHTS", 0),
        ("MATMUL", 0),
        ("LDWEIGHTS", 310_000),
        ("MATMUL", 400_000),
    ]
    assert [(wait, row) for *_, wait, row in found] == [
        (Wait.OPERAND, 1),
        (Wait.ENGINE, 2),
        (Wait.ENGINE, 3),
        (Wait.ENGINE, 3),
    ]


def test_bytes_are_those_of_the_rows_that_move_them():
    build = Builder()
    left, _, bank = matmul(build)
    build.op(Engine.VECTOR, (R, bank), (W, build.sbuf(64)))
    build.dma(build.hbm(128, 64, role="OUT"), left)
    names = [f"{memory}_{way}_bytes" for memory in ("sbuf", "psum", "hbm") for way in ("read", "write")]
    found = {row[0]: row[1:] for row in rows(traced(build), "opcode", *names)}
    assert found["LDWEIGHTS"] == (256, 0, 0, 0, 0, 0)
    assert found["MATMUL"] == (256, 0, 0, 256, 0, 0)
    assert found["VECTOR"] == (0, 256, 256, 0, 0, 0)
    assert found["DMA_DIRECT2D"] == (64, 0, 0, 0, 0, 64)


# -- what rows say -----------------------------------------------------------------------------------


def test_operands_are_written_as_profiles_write_them():
    build = Builder()
    source, tile = build.hbm(128, 64, name="x"), build.sbuf(64, name="tile")
    build.dma(build.cut_columns(tile, 16, 32), build.cut_columns(source, 0, 32))
    build.op(
        Engine.SCALAR, (R, build.cut_partitions(tile, 32, 32)), (W, build.sbuf(64, 32, name="out")), function="exp"
    )
    matmul(build)
    found = dict(rows(traced(build), "opcode", "operands"))
    assert found["DMA_DIRECT2D"] == "src=fp32@x+0[1,64,1][32,128,1] dst=fp32@0x40[1,1,1][32,1,1] tensors=x->tile"
    assert found["SCALAR"] == "op=EXP src=fp32@0x0[1,1,1][64,1,1]+p32 dst=fp32@0x100[1,1,1][64,1,1] tensors=tile->out"
    assert re.fullmatch(r"src=fp32@0x\w+\[1,1,1\]\[64,1,1\] 128\*64 tensors=left", found["LDWEIGHTS"])
    assert re.fullmatch(r"src=fp32@0x\w+\S+ dst=fp32@0x2000000\S+ 128\*64 tensors=right->bank", found["MATMUL"])


def test_exchanged_operands_are_not_the_same_operands():
    build = Builder()
    one, other = build.sbuf(name="one"), build.sbuf(name="other")
    for source, target in ((one, other), (other, one)):
        build.op(Engine.VECTOR, (R, source), (W, target))
    texts = [text.rpartition("=")[2] for (text,) in rows(traced(build, Options(rename=False)), "operands")]
    assert texts == ["one->other", "other->one"]


def test_names_with_braces_are_only_names():
    build = Builder()
    build.op(Engine.VECTOR, (W, build.sbuf(name="{0} {x}")), function="a{b}")
    assert rows(traced(build), "operands")[0][0].endswith("tensors={0} {x}")


def test_an_activation_table_load_is_a_row_of_its_own():
    build = Builder()
    for table in (1, 2):
        build.op(Engine.SCALAR, (W, build.sbuf()), occupancy=100, latency=100, table=table)
    found = rows(traced(build), "opcode", "start_ps", "end_ps", "control", "wait", "wait_for")
    assert found == [
        ("ACT_TABLE_LOAD", LEAD - LOAD, LEAD, True, Wait.NONE, -1),
        ("SCALAR", LEAD, LEAD + 100, False, Wait.NONE, -1),
        ("ACT_TABLE_LOAD", LEAD + 100, LEAD + 100 + LOAD, False, Wait.ENGINE, 1),
        ("SCALAR", LEAD + 100 + LOAD, LEAD + 200 + LOAD, False, Wait.TABLE, 2),
    ]


def test_a_transfer_says_what_it_moved_and_what_triggered_it():
    build = Builder()
    tile, source = build.sbuf(name="tile"), build.hbm(128, 64, name="x")
    build.op(Engine.VECTOR, (W, build.sbuf()))
    build.dma(tile, source, dispatch_ps=900, service_ps=1000, notify_ps=300, occupancy=200)
    trace = traced(build)
    row = dict(
        zip(
            (
                names := (
                    "instruction",
                    "variable",
                    "source_memory",
                    "dest_memory",
                    "queue",
                    "start_ps",
                    "end_ps",
                    "done_ps",
                )
            ),
            rows(trace, *names, table="transfers")[0],
            strict=True,
        )
    )
    assert row["instruction"] == [opcode for (opcode,) in rows(trace, "opcode")].index("DMA_DIRECT2D")
    assert (row["variable"], row["source_memory"], row["dest_memory"], row["queue"]) == (
        "x",
        Memory.HBM,
        Memory.SBUF,
        "q0",
    )
    assert [row[name] - LEAD for name in ("start_ps", "end_ps", "done_ps")] == [1100, 2100, 2400]


def test_tensors_count_their_loads():
    build = Builder()
    used, unused, out = (
        build.hbm(128, 64, name="x"),
        build.hbm(4, 4, name="y"),
        build.hbm(128, 64, role="OUT", name="o"),
    )
    for _ in range(2):
        build.dma(build.sbuf(), build.cut_columns(used, 0, 32))
    build.dma(out, build.sbuf())
    found = rows(traced(build), "name", "type", "shape", "dtype", "bytes", "loads", "loaded_bytes", table="tensors")
    assert found == [
        ("x", "IN", "[128 64]", "fp32", 32768, 2, 32768),
        ("y", "IN", "[4 4]", "fp32", 64, 0, 0),
        ("o", "OUT", "[128 64]", "fp32", 32768, 0, 0),
    ]
    assert unused.storage.role == "IN"


def test_allocations_last_from_the_first_start_to_the_end_of_the_last_access():
    build = Builder()
    tile = build.sbuf(name="tile")
    build.op(Engine.VECTOR, (W, tile), occupancy=100, latency=200)
    build.op(Engine.VECTOR, (R, tile), (W, build.sbuf(name="next")), occupancy=100, latency=300)
    found = rows(traced(build), "tensor", "offset", "bytes", "start_ps", "end_ps", table="allocations")
    assert found == [("tile", 0, 256, LEAD, LEAD + 5300), ("next", 256, 256, LEAD + 5200, LEAD + 5300)]


def test_a_transfer_holds_a_tile_until_its_semaphore():
    build = Builder()
    tile, out = build.sbuf(), build.hbm(128, 64, role="OUT")
    build.op(Engine.VECTOR, (W, tile), occupancy=100, latency=200)
    build.dma(out, tile)
    trace = traced(build)
    assert trace.allocations.end_ps[0] == trace.transfers.done_ps[0] == trace.meta.window[1]


def test_semaphores_of_engines_do_not_count_transfers():
    build = Builder()
    tile = build.sbuf()
    build.dma(tile, build.hbm(128, 64))
    build.op(Engine.VECTOR, (R, tile), (W, build.sbuf(name="next")))
    assert len(traced(build).semaphore_updates) == 0


def test_loops_and_lines_are_regions():
    build = Builder()
    line = build.program.strings.code("kernel.py:7-9")
    with build.program.inside(RegionKind.KERNEL, "attention"):
        build.op(Engine.VECTOR, (W, build.sbuf()))
        with build.program.inside(RegionKind.LOOP, "i", line):
            for _ in range(3):
                build.op(Engine.VECTOR, (W, build.sbuf()))
    found = rows(traced(build), "name", "kind", "parent", "source", table="regions")
    assert [row[:3] for row in found[:2]] == [("attention", RegionKind.KERNEL, -1), ("i", RegionKind.LOOP, 0)]
    assert found[1][3] == "kernel.py:7-9"
    assert [(kind, parent) for _, kind, parent, _ in found[2:]] == [(RegionKind.LINE, 0), (RegionKind.LINE, 1)]
    assert re.fullmatch(r"programs\.py:\d+", found[2][0])


def test_findings_point_at_rows():
    build = Builder()
    matmul(build)
    build.op(Engine.VECTOR, (R, build.sbuf()), (W, build.sbuf()))
    trace = traced(build)
    (finding,) = trace.meta.findings
    assert trace.text(trace.instructions, "opcode", finding.instruction) == "VECTOR"


def test_the_window_is_the_kernel_and_the_rest_is_a_constant():
    build = Builder()
    build.op(Engine.VECTOR, (W, build.sbuf()), occupancy=100, latency=500)
    meta = traced(build).meta
    assert meta.is_simulation
    assert meta.window == (LEAD, LEAD + 500)
    assert meta.total_ps == LEAD + 500
    assert meta.benchmark_ps == 8_200_000 + 500
    assert any("estimates" in note for note in meta.notes)


def test_an_empty_program_is_an_empty_trace():
    trace = traced(Builder())
    assert len(trace.instructions) == len(trace.transfers) == len(trace.packets) == 0
    assert trace.meta.window == (LEAD, LEAD)


# -- the same bytes ----------------------------------------------------------------------------------


def digest(trace: Trace) -> str:
    """A hash of all that a trace holds."""
    found = hashlib.sha256(repr(trace.meta).encode())
    for name, table in trace.tables():
        for column in table.columns:
            found.update(f"{name}.{column}".encode() + table.column(column).tobytes())
    found.update("\0".join(trace.strings).encode())
    return found.hexdigest()


def test_the_same_program_gives_the_same_trace_in_any_process():
    probe = (
        "from tests.test_record import digest, record, scheduling, random_program\n"
        "print(digest(record(scheduling.schedule(random_program(11, 80)))))"
    )
    root = Path(__file__).resolve().parent.parent
    found = {
        subprocess.run(
            [sys.executable, "-c", probe],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "12345")
    }
    assert len(found) == 1
    assert found == {digest(record(timed_again())) + "\n"}


def timed_again() -> Schedule:
    return scheduling.schedule(random_program(11, 80))


def test_another_program_gives_another_trace():
    assert len({digest(record(timed(seed))) for seed in range(5)}) == 5


def test_accumulation_is_shown_as_order():
    build = Builder()
    left, right, bank = matmul(build)
    build.op(Engine.TENSOR, (A, bank), (R, left), (R, right))
    trace = traced(build)
    kinds = [EdgeKind(kind) for kind in trace.edges.kind.tolist()]
    assert kinds.count(EdgeKind.ORDER) == 1
    assert all(a <= b for a, b in pairwise(trace.instructions.start_ps.tolist()))
