"""How fast a program becomes a schedule: `pytest -n 0 tests/bench/bench_schedule.py`; no timed assertions.

The GEMM stream is bf16, blocks of 4 x 4 tiles and 8 tiles deep: a load for two matrix multiplications, a copy and a
store for each tile; the random stream has all engines, ports, tables and dependences at all distances.
"""

from __future__ import annotations

import random
from time import process_time

import numpy as np
import pytest

from sim import allocation, compiler, dependences, periodic
from sim import schedule as scheduling
from sim.memory import View
from sim.program import Program, Role
from sim.record import record
from sim.trace import Engine
from tests.programs import Builder

R, W, A = Role.READ, Role.WRITE, Role.ACCUMULATE
INSTRUCTIONS = 1_000_000
BLOCK, DEPTH = 4, 8
MATMUL = {"occupancy": 216_000, "latency": 379_000, "clocked": True, "weights_ps": 13_000, "tail_ps": 213_000}


class Stream(Builder):
    """A builder that repeats known forms cheaply."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[object, int] = {}
        self.forms = {
            "load a": lambda a, b: self.dma(a, b, occupancy=60_000, dispatch_ps=900_000, service_ps=400_000),
            "load b": lambda a, b: self.dma(a, b, occupancy=60_000, dispatch_ps=900_000, service_ps=400_000),
            "store": lambda a, b: self.dma(a, b, occupancy=60_000, dispatch_ps=1_400_000, service_ps=400_000),
            "first": lambda c, a, b: self.op(Engine.TENSOR, (W, c), (R, a), (R, b), opcode="MATMUL", **MATMUL),
            "add": lambda c, a, b: self.op(Engine.TENSOR, (A, c), (R, a), (R, b), opcode="MATMUL", **MATMUL),
            "copy": lambda a, b: self.op(Engine.VECTOR, (W, a), (R, b), occupancy=600_000, latency=690_000),
        }

    def again(self, key: object, *operands: View) -> None:
        number = self.known.get(key)
        if number is None:
            self.forms[key](*operands)
            self.known[key] = self.program._form[-1]
        else:
            self.program.append(number, tuple(operands))


def gemm(instructions: int = INSTRUCTIONS, reuse: int = 1) -> Program:
    """Blocks until there are so many instructions; each block is multiplied `reuse` times."""
    build = Stream()
    left, right = build.hbm(128, 128 * DEPTH), build.hbm(128, 512 * DEPTH)
    result = build.hbm(128, 512, role="OUT")
    a, b = ([build.sbuf(size) for _ in range(BLOCK * DEPTH)] for size in (128, 512))
    c, d = [build.psum(512) for _ in range(4)], [build.sbuf(512) for _ in range(4)]
    lefts = [build.cut_columns(left, 128 * k, 128) for k in range(DEPTH)]
    rights = [build.cut_columns(right, 512 * k, 512) for k in range(DEPTH)]
    while len(build.program) < instructions:
        for slot in range(BLOCK * DEPTH):
            build.again("load a", a[slot], lefts[slot % DEPTH])
            build.again("load b", b[slot], rights[slot % DEPTH])
        for tile in range(reuse * BLOCK * BLOCK):
            row, column = divmod(tile % (BLOCK * BLOCK), BLOCK)
            for k in range(DEPTH):
                operands = c[tile % 4], a[row * DEPTH + k], b[column * DEPTH + k]
                build.again("add" if k else "first", *operands)
            build.again("copy", d[tile % 4], c[tile % 4])
            build.again("store", result, d[tile % 4])
    return build.finish()


def anything(instructions: int = INSTRUCTIONS) -> Program:
    pick = random.Random(0)
    build = Stream()
    tiles = [build.sbuf(64) for _ in range(400)]
    given = build.hbm(128, 64)
    engines = (Engine.TENSOR, Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD)
    build.forms["load"] = lambda a, b: build.dma(a, b, occupancy=60_000, service_ps=200_000)
    for number in range(64):
        engine, cost = engines[number % 4], pick.randrange(50_000, 500_000)
        table, port = (number // 4 % 3 - 1, 0) if engine is Engine.SCALAR else (-1, number // 8 % 2)
        build.forms[number] = lambda a, b, c, e=engine, o=cost, t=table, p=port: build.op(
            e, (W, a), (R, b), (R, c), occupancy=o, table=t, port=p, clocked=e is Engine.TENSOR
        )
    while len(build.program) < instructions:
        if pick.random() < 0.1:
            build.again("load", pick.choice(tiles), given)
        else:
            one, two, three = pick.sample(tiles, 3)
            build.again(pick.randrange(64), one, two, three)
    return build.finish()


@pytest.fixture(scope="module", params=["gemm", "random"])
def program(request: pytest.FixtureRequest) -> Program:
    return gemm() if request.param == "gemm" else anything()


OPTIONS = compiler.Options()


def test_rename(program: Program, benchmark) -> None:
    benchmark.pedantic(compiler.rename, (program,), rounds=3, warmup_rounds=1)


def test_place(program: Program, benchmark) -> None:
    benchmark.pedantic(allocation.place, (compiler.rename(program), OPTIONS), rounds=3, warmup_rounds=1)


def test_find_dependences(program: Program, benchmark) -> None:
    renamed = compiler.rename(program)
    placed = allocation.place(renamed, OPTIONS)
    benchmark.pedantic(dependences.find, (renamed, placed), rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(timer=process_time)
def test_time(program: Program, benchmark) -> None:
    """The event loop with its set-up, in CPU time: the figure that the goal of instructions/s means."""
    renamed = compiler.rename(program)
    placed = allocation.place(renamed, OPTIONS)
    found = dependences.find(renamed, placed)
    timed = benchmark.pedantic(scheduling.time, (renamed, placed, found, OPTIONS), rounds=15, warmup_rounds=1)
    assert len(timed.start) == len(program)
    benchmark.extra_info["instructions_per_s"] = round(len(program) / benchmark.stats.stats.min)
    state = scheduling._state(renamed, placed, found, OPTIONS)
    kept = state.times, state.places, state.marks, state.queues, state.forms, state.cores, state.shared
    benchmark.extra_info["bytes_per_instruction"] = round(sum(table.nbytes for table in kept) / len(program), 2)
    benchmark.extra_info["bytes_per_dma"] = state.transfers.nbytes // (len(timed.transfers.turn) + 1)


def test_record(program: Program, benchmark) -> None:
    timed = scheduling.schedule(program, OPTIONS)
    trace = benchmark.pedantic(record, (timed,), rounds=2, warmup_rounds=1)
    assert len(trace.instructions) >= len(program)
    assert int(np.count_nonzero(trace.instructions.wait_ps)) > 0


def test_a_loop_of_a_thousand_million_instructions(benchmark) -> None:
    """The body is traced, scheduled and found to repeat, from nothing."""
    body = 2 * BLOCK * DEPTH + 4 * BLOCK * BLOCK * (DEPTH + 2)
    options = compiler.Options(rename=False)
    found = benchmark.pedantic(
        periodic.repeat, (lambda trips: gemm(trips * body, reuse=4), 10**9 // body, options), rounds=2, warmup_rounds=1
    )
    assert found.instructions > 0.99e9
    assert found.period is not None
