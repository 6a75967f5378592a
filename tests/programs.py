"""Small programs from hand-made instructions, for the tests between Program and Trace."""

from __future__ import annotations

import random

import numpy as np

from sim import spec
from sim.memory import View, slice_layout
from sim.program import Cost, DmaCost, Form, Op, Program, ProgramBuilder, Role
from sim.trace import Engine, Memory, QueueType

F32 = np.dtype(np.float32)
R, W, A = Role.READ, Role.WRITE, Role.ACCUMULATE

ENGINES = (Engine.TENSOR, Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD, Engine.SYNC)


def cut(view: View, *index: object) -> View:
    """`view[index]`; slices are given as (start, stop, step) or int."""
    layout, offset = slice_layout(view.layout, tuple(index))
    return View(view.storage, layout, view.offset + offset)


class Builder:
    """A ProgramBuilder with one-line instructions."""

    def __init__(self, device: str = "trn2"):
        self.program = ProgramBuilder(spec.device(device), values=False)

    def tile(self, *shape: int, memory: Memory = Memory.SBUF, **more: object) -> View:
        storage = self.program.allocate(shape, F32, memory, **more)
        return View(storage, storage.layout, 0)

    def sbuf(self, free: int = 64, partitions: int = 128, **more: object) -> View:
        return self.tile(partitions, free, **more)

    def psum(self, free: int = 64, partitions: int = 128, **more: object) -> View:
        return self.tile(partitions, free, memory=Memory.PSUM, **more)

    def hbm(self, *shape: int, role: str = "IN", **more: object) -> View:
        return self.tile(*shape, memory=Memory.HBM, role=role, **more)

    def cut_partitions(self, view: View, first: int, count: int) -> View:
        return cut(view, (first, first + count, 1))

    def cut_columns(self, view: View, first: int, count: int) -> View:
        return cut(view, (None, None, None), (first, first + count, 1))

    def op(
        self,
        engine: Engine,
        *operands: tuple[Role, View],
        occupancy: int = 100,
        latency: int | None = None,
        **more: object,
    ) -> int:
        """One instruction on an engine, times in ps."""
        roles = tuple(role for role, _ in operands)
        named = ("table", "port", "clocked", "weights_ps", "tail_ps", "gap_ps")
        cost = {key: more.pop(key) for key in named if key in more}
        latency = occupancy + 50 if latency is None else latency
        static = (engine, roles, occupancy, latency, *sorted(cost.items()), *sorted(more.items()))
        fields = {
            "call": f"test.{engine.name.lower()}",
            "opcode": engine.name,
            "cost": Cost(occupancy, latency, **cost),
            **more,
        }

        def describe(device: spec.Device, layouts: tuple, *rest: object) -> Form:
            return Form(engine=engine, roles=roles, layouts=layouts, **fields)

        views = tuple(view for _, view in operands)
        return self.program.issue(Op(fields["call"], describe, lambda *_: None), views, static)

    def dma(
        self,
        target: View,
        source: View,
        engine: Engine = Engine.SYNC,
        occupancy: int = 200,
        engines: int = 16,
        **more: int,
    ) -> int:
        """One transfer."""
        times = {"dispatch_ps": 900, "notify_ps": 300, "service_ps": 1000, "hbm_ps": 700, **more}
        cost = DmaCost(
            engines=engines, bytes=64, descriptors=1, queue="q0", queue_type=QueueType.HARDWARE_DYNAMIC, **times
        )
        return self.op(
            engine, (W, target), (R, source), occupancy=occupancy, latency=60, dma=cost, opcode="DMA_DIRECT2D"
        )

    def finish(self) -> Program:
        return self.program.finish("test")


def random_program(seed: int, length: int = 60, device: str = "trn2", cores: int = 1, least: int = 0) -> Program:
    """Anything goes: all engines, ports, tables, clocks, transfers, accumulation, shared and strided tiles, orders."""
    pick = random.Random(seed)
    build = Builder(device)
    if "pe.clock_window" in build.program.device:
        build.program.device = build.program.device.replace({"pe.clock_window": 1.5, "pe.clock_phase": 0.4})
    given = [build.hbm(pick.choice((64, 128)), 256, role="IN") for _ in range(2)]
    result = build.hbm(128, 256, role="OUT")
    tiles = [build.sbuf(pick.choice((8, 64, 256))) for _ in range(pick.randint(2, 6))]
    banks = [build.psum(pick.choice((64, 512))) for _ in range(pick.randint(1, 3))]
    for _ in range(length):
        build.program.core = pick.randrange(cores)
        _random_instruction(pick, build, given, result, tiles, banks, least)
    count = len(build.program)
    for _ in range(pick.choice((0, 0, 3)) if count > 1 else 0):
        first, then = sorted(pick.sample(range(count), 2))
        build.program.order(first, then, at_issue=pick.random() < 0.5)
    return build.finish()


def _random_view(pick: random.Random, view: View) -> View:
    if pick.random() < 0.5:
        return view
    rows, columns = view.layout.shape
    low = pick.randrange(rows)
    left = pick.randrange(columns)
    span = (low, pick.randint(low + 1, rows), 1)
    return cut(view, span, (left, pick.randint(left + 1, columns), pick.choice((1, 1, 2))))


def _random_instruction(pick: random.Random, build: Builder, given, result, tiles, banks, least) -> None:
    times = {"occupancy": pick.choice((least, 10, 100, 700)), "latency": pick.choice((0, 40, 150, 900))}
    tile, other = (_random_view(pick, pick.choice(tiles)) for _ in range(2))
    bank = _random_view(pick, pick.choice(banks))
    kind = pick.random()
    if kind < 0.3:
        engine = pick.choice((Engine.SYNC, Engine.SCALAR, Engine.GPSIMD))
        source, target = pick.choice(((pick.choice(given), tile), (tile, _random_view(pick, result))))
        slow = {
            "service_ps": pick.choice((100, 5000)),
            "hbm_ps": pick.choice((0, 300, 9000)),
            "dispatch_ps": pick.choice((0, 800)),
        }
        build.dma(target, source, engine, pick.choice((least, 20, 500)), engines=pick.choice((1, 5, 16)), **slow)
    elif kind < 0.6:
        weights, busy = pick.choice((0, 30, 400)), times["occupancy"]
        loading = {"weights_ps": weights, "tail_ps": pick.randrange(busy + 1), "gap_ps": pick.randrange(busy // 2 + 1)}
        loading["clocked"] = pick.random() < 0.7
        build.op(Engine.TENSOR, (R, tile), (R, other), (pick.choice((W, A)), bank), **loading, **times)
    elif kind < 0.8:
        build.op(Engine.SCALAR, (R, bank), (W, tile), table=pick.choice((-1, 0, 1)), port=pick.choice((0, 2)), **times)
    else:
        engine = pick.choice((Engine.VECTOR, Engine.GPSIMD))
        build.op(engine, (R, pick.choice((tile, bank))), (W, other), port=pick.choice((0, 1, 2, 3)), **times)
