"""The critical path tiles the window, and what it says of causes, slack and loops can be checked by hand."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trnprof
from sim import schedule as scheduling
from sim import tracefile
from sim.compiler import Options
from sim.dependences import QUEUES
from sim.program import Program, Role
from sim.record import record
from sim.trace import EdgeKind, Edges, Engine, Instructions, Meta, Strings, Trace, Transfers, Wait
from tests.naive import critical as naive
from tests.programs import Builder, random_program
from tests.traces import traces
from trnprof import cli
from trnprof.chain import Cause, Chain, walk
from trnprof.critical import CAUSES, CriticalPath, critical_path, slack
from trnprof.jit import critical as compiled

R, W = Role.READ, Role.WRITE
WAKE = 35_000
"""trn2: from a completion until another engine starts, ps; read from the device in the test of it."""

STRICT = Options(windows=(1,) * QUEUES)

seeds = st.integers(0, 10**9)


def path_of(build: Builder, options: Options = STRICT) -> CriticalPath:
    return critical_path(record(scheduling.schedule(build.finish(), options)))


def check_tiling(path: CriticalPath) -> None:
    found = path.segments
    assert sum(path.causes.values()) == path.time_ps
    if not len(found):
        assert not path.time_ps
        return
    assert (found.end_ps > found.start_ps).all()
    assert found.start_ps[0] == path.start_ps and found.end_ps[-1] == path.end_ps
    assert all(end == start for end, start in zip(found.end_ps[:-1], found.start_ps[1:], strict=True))


def spent(path: CriticalPath) -> dict[str, int]:
    return {name: ps for name, ps in path.causes.items() if ps}


# -- any trace -------------------------------------------------------------------------------------


@given(seed=seeds, device=st.sampled_from(("trn1", "trn2")), cores=st.integers(1, 2), window=st.sampled_from((1, 8)))
def test_the_path_of_any_program_tiles_its_window_and_knows_every_cause(seed, device, cores, window):
    program = random_program(seed, 80, device=device, cores=cores)
    trace = record(scheduling.schedule(program, Options(windows=(window,) * QUEUES)))
    path = critical_path(trace)
    check_tiling(path)
    assert path.causes["unknown"] == 0


@given(seed=seeds, cores=st.integers(1, 2))
def test_what_is_on_the_path_has_no_slack_by_the_recorded_constraints_alone(seed, cores):
    trace = record(scheduling.schedule(random_program(seed, 80, cores=cores, least=10), STRICT))
    path = critical_path(trace)
    found = slack(path.chain, np.zeros(0, np.int64))
    tail = path.end_ps - int(path.chain.complete.max())  # an engine may be busy beyond the last completion
    assert (found >= 0).all()
    assert (found[path.rows] <= tail).all()


@given(traces())
def test_whatever_the_tables_hold_the_window_is_tiled(trace: Trace):
    path = critical_path(trace)
    check_tiling(path)
    assert path.slack_ps.size == len(trace.instructions)
    json.dumps(path.to_json(), allow_nan=False)


def test_the_path_of_the_sample_tiles_its_window():
    path = critical_path(trnprof.open(Path(__file__).parent.parent / "traces" / "attention"))
    check_tiling(path)
    assert path.causes["unknown"] == 0 and path.causes["engine"] > path.time_ps / 2


def test_the_paths_of_real_profiles_tile_their_windows_and_know_most_causes(profiles: Path):
    files = sorted(profiles.glob("*/*.json"))
    assert len(files) >= 8
    for file in files:
        path = critical_path(trnprof.open(file))
        check_tiling(path)
        assert path.share("unknown") < 0.1, file


# -- causes ----------------------------------------------------------------------------------------


def test_two_engines_in_turn_are_work_and_a_semaphore():
    build = Builder()
    tile, copy, last = build.sbuf(), build.sbuf(), build.sbuf()
    build.op(Engine.GPSIMD, (W, tile), occupancy=1000, latency=1000)
    build.op(Engine.VECTOR, (R, tile), (W, copy), occupancy=2000, latency=2000)
    build.op(Engine.SCALAR, (R, tile), (W, last), occupancy=10, latency=10)
    wake = round(build.program.device["sem.wake"] * 1000)
    path = path_of(build)
    assert spent(path) == {"engine": 3000, "semaphore": wake}
    assert path.engines == {"VectorE": 2000, "GpSimdE": 1000}
    assert path.slack_ps.tolist() == [0, 0, 1990]


def test_a_load_is_issue_latency_bandwidth_latency_semaphore():
    build = Builder()
    given_, tile, out = build.hbm(128, 64), build.sbuf(), build.sbuf()
    build.dma(tile, given_, occupancy=200, dispatch_ps=900, service_ps=5000, hbm_ps=700, notify_ps=300)
    build.op(Engine.VECTOR, (R, tile), (W, out), occupancy=100, latency=100)
    wake = round(build.program.device["sem.wake"] * 1000)
    path = path_of(build)
    # The trigger itself is visible for 60 ps of the 200 for which it holds its engine.
    assert spent(path) == {
        "engine": 100,
        "issue": 60,
        "semaphore": wake,
        "dma_latency": 140 + 900 + 300,
        "dma_bandwidth": 5000,
    }


def test_a_transfer_that_waits_for_others_leads_to_the_one_that_was_first():
    build = Builder()
    tiles = [build.sbuf() for _ in range(4)]
    for tile in tiles:
        build.dma(tile, build.hbm(128, 64), occupancy=10, dispatch_ps=100, service_ps=100, hbm_ps=50_000, notify_ps=0)
    path = path_of(build)
    assert path.causes["dma_bandwidth"] == 200_000
    assert len(set(path.segments.transfer[path.segments.cause == Cause.DMA_BANDWIDTH].tolist())) == 4


def buffered(ready_ps: int | None) -> Trace:
    """A writer that waits until the reader of its buffer is through, although its input is there at 200."""
    text = Strings()
    rows = Instructions(
        id=np.arange(3),
        start_ps=np.array([0, 100, 1000]),
        end_ps=np.array([100, 900, 1500]),
        engine=np.array([Engine.GPSIMD, Engine.SCALAR, Engine.VECTOR]),
        opcode=text.codes(["IOTA", "ACTIVATE", "TENSOR_COPY"]),
        wait=np.array([Wait.NONE, Wait.OPERAND, Wait.BUFFER]),
        wait_for=np.array([-1, 0, 1]),
        wait_ps=np.array([0, 100, 1000]),
    )
    columns = {
        "signaler": np.array([0, 1]),
        "waiter": np.array([2, 2]),
        "kind": np.array([EdgeKind.FLOW, EdgeKind.ANTI]),
    }
    if ready_ps is not None:
        columns["ready_ps"] = np.array([ready_ps, 1000])
    meta = Meta(True, "trn2", "made", window=(0, 1500))
    return Trace(meta, text, rows, edges=Edges(**columns))


@pytest.mark.parametrize(("ready_ps", "lost"), [(200, 800), (990, 10), (None, 900)])
def test_a_wait_for_a_buffer_takes_the_time_that_a_second_buffer_would_save(ready_ps, lost):
    path = critical_path(buffered(ready_ps))
    check_tiling(path)
    assert path.causes["buffer"] == lost
    assert path.causes["engine"] + path.causes["semaphore"] == 1500 - lost


def test_a_start_that_nothing_explains_is_unknown():
    trace = buffered(200)
    ins = trace.instructions
    columns = {name: ins.column(name) for name in ins.present()}
    columns |= {"wait": np.full(3, Wait.UNKNOWN), "engine": np.full(3, Engine.VECTOR)}
    path = critical_path(replace(trace, instructions=Instructions(**columns)))
    assert spent(path) == {"engine": 100 + 800 + 500, "unknown": 100}


@pytest.mark.parametrize(("gap", "follows"), [(100_000, True), (400_000, False)])
def test_a_captured_transfer_was_held_up_by_its_queue_where_it_started_at_once(gap, follows):
    text = Strings()
    rows = Instructions(
        id=np.arange(2),
        start_ps=np.array([0, 100_000]),
        end_ps=np.array([50_000, 150_000]),
        engine=np.full(2, Engine.SYNC),
        opcode=text.codes(["DMA_DIRECT2D"] * 2),
    )
    transfers = Transfers(
        id=np.arange(2),
        start_ps=np.array([200_000, 900_000 + gap]),
        end_ps=np.array([900_000, 2_000_000]),
        instruction=np.array([0, 1]),
        queue=text.codes(["q"] * 2),
    )
    path = critical_path(Trace(Meta(False, "trn2", "made", window=(0, 2_000_000)), text, rows, transfers))
    check_tiling(path)
    assert path.causes["dma_bandwidth"] == (700_000 if follows else 0) + 1_100_000 - gap
    assert (0 in path.segments.transfer) == follows


def test_before_a_transfer_that_nobody_is_known_to_have_started_comes_the_last_work():
    moved = Transfers(id=np.arange(1), start_ps=np.array([1700]), end_ps=np.array([2000]))
    trace = replace(buffered(200), transfers=moved, meta=Meta(False, "trn2", "made", window=(0, 2000)))
    path = critical_path(trace)
    check_tiling(path)
    assert path.causes["unknown"] == 1700 - 1500 and path.causes["dma_bandwidth"] == 300
    assert path.rows.tolist() == [0, 1, 2]


def test_rows_without_an_opcode_are_work_and_no_semaphore():
    trace = buffered(200)
    ins = trace.instructions
    columns = {name: ins.column(name) for name in ins.present() if name != "opcode"}
    path = critical_path(replace(trace, instructions=Instructions(**columns)))
    assert path.causes == critical_path(trace).causes and path.causes["engine"] > 0


def test_references_that_lead_round_in_a_circle_end():
    trace = buffered(200)
    ins = trace.instructions
    columns = {name: ins.column(name) for name in ins.present()}
    columns |= {"wait": np.full(3, Wait.OPERAND), "wait_for": np.array([2, 2, 1])}
    path = critical_path(replace(trace, instructions=Instructions(**columns)))
    check_tiling(path)


def test_a_trace_without_rows_is_unknown_as_a_whole():
    path = critical_path(Trace(Meta(False, "unknown", "nothing", window=(5, 25)), Strings(), Instructions(0)))
    assert spent(path) == {"unknown": 20}
    nothing = critical_path(Trace(Meta(False, "unknown", "nothing"), Strings(), Instructions(0)))
    assert nothing.time_ps == 0 and not len(nothing.segments) and nothing.share("engine") == 0


# -- slack -----------------------------------------------------------------------------------------


def slower(program: Program, index: int, by: int) -> Program:
    """The program with one instruction whose result comes later."""
    form = program.forms[program.form[index]]
    cost = replace(form.cost, latency_ps=form.cost.latency_ps + by)
    changed = program.form.copy()
    changed[index] = len(program.forms)
    return replace(program, forms=(*program.forms, replace(form, cost=cost)), form=changed)


def engines_only(seed: int) -> Program:
    rng = np.random.default_rng(seed)
    build = Builder()
    tiles = [build.sbuf() for _ in range(4)]
    for _ in range(40):
        engine = (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD)[rng.integers(3)]
        one, other = rng.choice(4, 2, replace=False)
        times = {"occupancy": int(rng.choice((50, 400))) * 1000, "latency": int(rng.choice((60, 900))) * 1000}
        build.op(engine, (R, tiles[one]), (W, tiles[other]), **times)
    return build.finish()


@given(seed=seeds, index=st.integers(0, 39))
def test_an_instruction_that_uses_up_its_slack_does_not_move_the_end(seed, index):
    options = replace(STRICT, rename=False)
    program = engines_only(seed)
    timed = scheduling.schedule(program, options)
    trace = record(timed)
    engine = program.forms[program.form[index]].engine
    start = trace.instructions.start_ps - trace.meta.window[0]
    row = int(np.flatnonzero((start == timed.start[index]) & (trace.instructions.engine == engine))[0])
    room = int(critical_path(trace).slack_ps[row])
    later = max(0, int(timed.done[index] - timed.start[index]) - program.forms[program.form[index]].cost.latency_ps)
    assert scheduling.schedule(slower(program, index, room + later), options).end_ps == timed.end_ps
    assert scheduling.schedule(slower(program, index, room + later + 10**9), options).end_ps > timed.end_ps


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 50)), max_size=20))
def test_compiled_and_plain_slack_agree(found):
    first, then, gap = (np.array([item[k] for item in found], np.int64) for k in range(3))
    one, other = np.full(7, 100, np.int64), np.full(7, 100, np.int64)
    assert bool(compiled.tighten(first, then, gap, one)) == naive.tighten(first, then, gap, other)
    assert one.tolist() == other.tolist()


# -- loops -----------------------------------------------------------------------------------------


def test_the_circuit_of_a_loop_is_its_recurrence_and_its_period_the_sum_round_it():
    build = Builder()
    one, other = build.sbuf(), build.sbuf()
    for _ in range(12):
        build.op(Engine.VECTOR, (R, other), (W, one), occupancy=3000, latency=3000)
        build.op(Engine.SCALAR, (R, one), (W, other), occupancy=2000, latency=2000)
        build.op(Engine.GPSIMD, (W, build.sbuf()), occupancy=4000, latency=4000)
    wake = round(build.program.device["sem.wake"] * 1000)
    path = path_of(build, replace(STRICT, rename=False))
    (circuit,) = path.circuits
    assert [station.engine for station in circuit.stations] in (["VectorE", "ScalarE"], ["ScalarE", "VectorE"])
    assert circuit.period_ps == 5000 + 2 * wake
    assert circuit.iterations == 1 and circuit.even
    assert circuit.share > 0.8


def test_the_shown_round_of_an_uneven_circuit_is_the_median_one_and_its_stations_add_up_to_it(capsys, tmp_path):
    build = Builder()
    one, other = build.sbuf(), build.sbuf()
    for number in range(12):
        long = 30_000 if number % 3 == 2 else 3000
        build.op(Engine.VECTOR, (R, other), (W, one), occupancy=long, latency=long)
        build.op(Engine.SCALAR, (R, one), (W, other), occupancy=2000, latency=2000)
    trace = record(scheduling.schedule(build.finish(), replace(STRICT, rename=False)))
    (circuit,) = critical_path(trace).circuits
    wake = round(build.program.device["sem.wake"] * 1000)
    assert circuit.period_ps == sum(station.time_ps for station in circuit.stations) == 5000 + 2 * wake
    assert not circuit.even and circuit.time_ps > circuit.rounds * circuit.period_ps
    cli.main(["critical", str(tracefile.write(trace, tmp_path / "uneven"))])
    assert re.search(r"rounds of ~[\d.]+\sns \(median\), ~\d+\sns in all, \d+\s% of the path", capsys.readouterr().out)


def test_of_two_recurrences_the_slower_one_is_the_circuit():
    build = Builder()
    tiles = [build.sbuf() for _ in range(4)]
    for _ in range(12):
        build.op(Engine.VECTOR, (R, tiles[1]), (W, tiles[0]), occupancy=3000, latency=3000)
        build.op(Engine.SCALAR, (R, tiles[0]), (W, tiles[1]), occupancy=2000, latency=2000)
        build.op(Engine.GPSIMD, (W, tiles[2]), occupancy=90_000, latency=90_000, elements=9)
        build.op(Engine.GPSIMD, (W, tiles[3]), occupancy=30_000, latency=30_000)
    (circuit,) = path_of(build, replace(STRICT, rename=False)).circuits
    assert {station.engine for station in circuit.stations} == {"GpSimdE"}
    assert circuit.period_ps == 120_000


def test_straight_code_has_no_circuit():
    build = Builder()
    tile = build.sbuf()
    for engine in (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD):
        build.op(engine, (W, tile), occupancy=1000, latency=1000)
    assert path_of(build).circuits == ()


def test_the_names_of_causes_are_those_of_the_walk():
    assert len(CAUSES) == len(Cause) and CAUSES[Cause.DMA_BANDWIDTH] == "dma_bandwidth"
    pieces = walk(Chain(buffered(200)))
    assert all(one[1] == other[0] for one, other in pairwise(pieces))
