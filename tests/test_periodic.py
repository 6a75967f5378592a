"""Loops timed from a few iterations: the same as the whole loop, to the picosecond."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import compiler, periodic
from sim import schedule as scheduling
from sim.dependences import QUEUES
from sim.errors import InputError, UnsupportedError
from sim.program import Program, Role
from sim.trace import Engine
from tests.programs import Builder

R, W, A = Role.READ, Role.WRITE, Role.ACCUMULATE
OPTIONS = compiler.Options(rename=False)
ENGINES = (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD, Engine.TENSOR)


def loop(seed: int, trips: int, device: str = "trn2", clocked: bool = False) -> Program:
    """A body of instructions and transfers over a few tiles, drawn once and repeated."""
    pick = random.Random(seed)
    body = []
    for _ in range(pick.randrange(2, 9)):
        if pick.random() < 0.3:
            body.append(("dma", pick.randrange(4), pick.randrange(100, 900) * 1000, pick.randrange(20, 200) * 1000))
        else:
            tiles = pick.sample(range(4), 2)
            table, port = pick.choice((-1, -1, 0, 1)), pick.choice((0, 0, 1, 2))
            body.append((pick.randrange(4), *tiles, pick.randrange(50, 700) * 1000, table, port))
    build = Builder(device)
    given_, tiles = build.hbm(128, 64), [build.sbuf() for _ in range(4)]
    known: list[int] = []
    for trip in range(trips):
        for place, (kind, *rest) in enumerate(body):
            operands = (tiles[rest[0]], given_) if kind == "dma" else (tiles[rest[0]], tiles[rest[1]])
            if trip:
                build.program.append(known[place], operands)
            elif kind == "dma":
                build.dma(*operands, occupancy=60_000, dispatch_ps=rest[1], service_ps=rest[2])
                known.append(build.program._form[-1])
            else:
                engine, (_, _, cost, table, port) = ENGINES[kind], rest
                build.op(
                    engine,
                    (W, operands[0]),
                    (R, operands[1]),
                    occupancy=cost,
                    latency=cost + 60_000,
                    table=table if engine is Engine.SCALAR else -1,
                    port=port,
                    clocked=clocked and engine is Engine.TENSOR,
                    weights_ps=cost // 2 * (engine is Engine.TENSOR),
                    tail_ps=cost // 3,
                )
                known.append(build.program._form[-1])
    return build.finish()


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**9),
    trips=st.integers(60, 240),
    device=st.sampled_from(("trn1", "trn2")),
    window=st.sampled_from((1, 2, 16)),
)
def test_every_instruction_has_the_time_that_it_has_in_the_whole_loop(seed: int, trips: int, device: str, window: int):
    options = compiler.Options(rename=False, windows=(window,) * QUEUES)
    found = periodic.repeat(lambda count: loop(seed, count, device), trips, options)
    whole = scheduling.schedule(loop(seed, trips, device), options)
    assert found.end_ps == whole.end_ps
    assert found.instructions == len(whole.program)
    every = range(len(whole.program))
    assert [found.start_ps(i) for i in every] == whole.start.tolist()
    assert [found.done_ps(i) for i in every] == whole.done.tolist()


@settings(max_examples=30)
@given(seed=st.integers(0, 10**9), trips=st.integers(60, 400))
def test_a_clock_that_changes_is_never_left_out(seed: int, trips: int):
    found = periodic.repeat(lambda count: loop(seed, count, clocked=True), trips, OPTIONS)
    assert found.end_ps == scheduling.schedule(loop(seed, trips, clocked=True), OPTIONS).end_ps


def matmuls(trips: int, cost: int) -> Program:
    """TensorE at work all the time."""
    build = Builder()
    left, bank = build.sbuf(), build.psum()
    build.op(Engine.VECTOR, (W, left), occupancy=100)
    build.op(Engine.TENSOR, (W, bank), (R, left), occupancy=cost, latency=2 * cost, clocked=True)
    for _ in range(trips):
        build.op(Engine.TENSOR, (A, bank), (R, left), occupancy=cost, latency=2 * cost, clocked=True)
    return build.finish()


@pytest.mark.parametrize("cost", [21_600, 216_000, 1_000_000])
def test_a_clock_that_gets_warm_after_iterations_that_look_alike_is_seen(cost: int):
    found = periodic.repeat(lambda count: matmuls(count, cost), 3000, OPTIONS)
    whole = scheduling.schedule(matmuls(3000, cost), OPTIONS)
    assert len(whole.clocks) and found.period is not None
    assert found.end_ps == whole.end_ps
    assert found.start_ps(2345) == whole.start[2345]


def test_a_loop_of_a_thousand_million_instructions_is_timed_from_a_few_hundred():
    found = periodic.repeat(lambda count: loop(3, count), 400_000_000, OPTIONS)
    assert found.instructions >= 1_000_000_000
    assert len(found.timed.program) < 10_000
    one_more = periodic.repeat(lambda count: loop(3, count), 400_000_000 + found.period.iterations, OPTIONS)
    assert one_more.end_ps - found.end_ps == found.period.ps


def test_the_trace_says_what_it_leaves_out():
    found = periodic.repeat(lambda count: loop(3, count), 1_000_000, OPTIONS)
    note = found.trace().meta.notes[-1]
    assert f"{found.scheduled} of 1000000 iterations are shown" in note
    assert f"{found.latency_ns:.3f} ns" in note
    short = periodic.repeat(lambda count: loop(3, count), 5, OPTIONS)
    assert short.period is None and short.copies == 0
    assert not any("iterations are shown" in note for note in short.trace().meta.notes)


def test_what_has_no_period_is_refused_not_guessed(monkeypatch):
    monkeypatch.setattr(periodic, "MOST", 600)
    costs = np.random.default_rng(0).integers(100_000, 900_000, 2000)

    def ragged(count: int) -> Program:
        build = Builder()
        tiles = [build.sbuf() for _ in range(2)]
        for trip in range(count):
            build.op(Engine.VECTOR, (W, tiles[0]), (R, tiles[1]), occupancy=int(costs[trip]))
            build.op(Engine.SCALAR, (W, tiles[1]), (R, tiles[0]), occupancy=200_000)
        return build.finish()

    with pytest.raises(UnsupportedError, match="no period"):
        periodic.repeat(ragged, 1_000_000, OPTIONS)
    with pytest.raises(InputError, match="trips=0"):
        periodic.repeat(ragged, 0, OPTIONS)


def test_the_busy_time_of_windows_is_that_of_counting_every_picosecond():
    build = Builder()
    tiles = [build.sbuf() for _ in range(2)]
    for _ in range(3):
        build.op(Engine.TENSOR, (W, tiles[0]), (R, tiles[1]), occupancy=30, latency=40)
    timed = scheduling.schedule(build.finish(), OPTIONS)
    rows, ps, window = np.arange(3), 200, 170
    line = np.zeros(5 * ps, bool)
    for k in range(5):
        for start, end in zip(timed.start, timed.freed):
            line[k * ps + start : k * ps + end] = True
    counted = [int(line[at : at + window].sum()) for at in range(ps, 2 * ps)]
    assert periodic._busy(timed, rows, ps, window) == (min(counted), max(counted))
