"""What waits for what: against byte sets, and case by case."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sim import allocation, compiler, dependences
from sim.compiler import Options
from sim.dependences import QUEUES, Dependences
from sim.errors import CapacityError
from sim.jit import dependences as jit
from sim.memory import Layout, View
from sim.program import Program, Role
from sim.trace import EdgeKind, Engine, Memory
from tests.naive import dependences as naive
from tests.programs import ENGINES, Builder, cut

R, W, A = Role.READ, Role.WRITE, Role.ACCUMULATE
COMPLETION, SAME, ISSUE = range(3)


def placed(program: Program, rename: bool = True) -> tuple[Program, allocation.Placement, Dependences]:
    options = Options(rename=rename)
    program = compiler.rewrite(program, options)
    placement = allocation.place(program, options)
    return program, placement, dependences.find(program, placement)


def edges(found: Dependences) -> dict[tuple[int, int], tuple[EdgeKind, int, bool]]:
    """(predecessor, waiter) -> (kind, gate, reuse)"""
    columns = (found.predecessor, found.waiters(), found.kind, found.gate, found.reuse)
    return {(p, w): (EdgeKind(k), g, r) for p, w, k, g, r in zip(*(c.tolist() for c in columns), strict=True)}


def between(build: Builder, rename: bool = False) -> dict[tuple[int, int], tuple[EdgeKind, int, bool]]:
    return edges(placed(build.finish(), rename)[2])


# -- against byte sets -------------------------------------------------------------------------------


def small_program(seed: int, steps: bool) -> Program:
    """A few bytes of memory, so that everything is reused and cut in every way; with steps or without."""
    pick = random.Random(seed)
    build = Builder()
    build.program.device = build.program.device.replace(
        {"sbuf.usable_partition_bytes": pick.choice((96, 160, 400)), "psum_bank_bytes": 32, "psum_partition_bytes": 64}
    )
    tensors = [build.hbm(3, 8, role=role) for role in ("IN", "OUT", "INTERNAL")]
    for round_ in range(pick.randint(1, 4)):
        build.program.core = pick.choice((0, 0, 1)) if round_ else 0
        fixed = pick.random() < 0.3
        tiles = [_tile(pick, build, fixed) for _ in range(pick.randint(1, 3))]
        banks = [build.psum(pick.choice((2, 8)), 3) for _ in range(pick.randint(0, 1))]
        for _ in range(pick.randint(1, 12)):
            _instruction(pick, build, tiles + banks, tensors, steps)
    return build.finish()


def _tile(pick: random.Random, build: Builder, fixed: bool):
    shape = pick.choice(((3, 4), (2, 2, 3), (3, 1), (1, 8)))
    address = (pick.randint(0, 2), pick.choice((0, 16, 20))) if fixed else None
    return build.tile(*shape, address=address)


def _part(pick: random.Random, view: View, steps: bool) -> View:
    index = []
    for size in view.layout.shape:
        low = pick.randrange(size)
        index.append(
            pick.choice(
                ((None, None, None), (low, pick.randint(low + 1, size), pick.choice((1, 1, 2) if steps else (1,))))
            )
        )
    return cut(view, *index)


def _instruction(pick: random.Random, build: Builder, tiles: list[View], tensors: list[View], steps: bool) -> None:
    def some() -> View:
        return _part(pick, pick.choice(tiles), steps)

    if pick.random() < 0.35:
        tensor = _part(pick, pick.choice(tensors), steps)
        source, target = pick.choice(((tensor, some()), (some(), tensor)))
        build.dma(target, source, pick.choice((Engine.SYNC, Engine.VECTOR)))
        return
    engine = pick.choice(ENGINES[:4])
    roles = [pick.choice((R, R, W, A)) for _ in range(pick.randint(1, 3))]
    build.op(engine, *((role, some()) for role in roles))


def scene(program: Program, placement: allocation.Placement) -> naive.Scene:
    """The same program for the twin; nobody need wait for what nothing writes."""
    group = dependences._merged(len(program.storages), placement.together)
    places = []
    for index, storage in enumerate(program.storages):
        chip = storage.memory is not Memory.HBM
        space = (int(storage.memory), int(placement.core[index])) if chip else ("hbm", index)
        low = int(placement.offset[index]) if chip else 0
        high = low + storage.pitch if chip else storage.nbytes
        given_ = storage.role == "IN"
        partition = int(placement.partition[index])
        places.append(naive.Place(space, int(group[index]), storage.pitch, partition, low, high, given_))
    roles = compiler.operand_roles(program)
    written = set(group[program.operands[roles != Role.READ, 0]].tolist())
    instructions = []
    for i, number in enumerate(program.form.tolist()):
        low, high = program.operand_start[i : i + 2].tolist()
        operands = []
        for row, role in zip(program.operands[low:high].tolist(), program.forms[number].roles, strict=True):
            layout = Layout.by_index[row[2]]
            if int(group[row[0]]) in written:
                operands.append(naive.Operand(row[0], row[1], layout.shape, layout.strides, layout.itemsize, int(role)))
        instructions.append(operands)
    table = dependences._instruction_table(program)
    return naive.Scene(instructions, table[jit.SLOT].tolist(), table[jit.TENSOR].tolist(), places)


def reach(pairs: list[tuple[int, int]], count: int) -> list[set[int]]:
    """All that each instruction waits for, directly or not."""
    before: list[set[int]] = [set() for _ in range(count)]
    for predecessor, waiter in sorted(pairs, key=lambda pair: pair[1]):
        before[waiter] |= {predecessor} | before[predecessor]
    return before


@settings(max_examples=300)
@given(seed=st.integers(0, 10**9), rename=st.booleans(), crowded=st.booleans(), steps=st.booleans())
def test_dependences_order_what_byte_sets_order(seed: int, rename: bool, crowded: bool, steps: bool):
    """Exactly so without steps; with steps a set of bytes may be taken for a larger one, and more is ordered."""
    cell = dependences.BUSY_CELL
    try:
        dependences.BUSY_CELL = 1 if crowded else cell
        program, placement, found = placed(small_program(seed, steps), rename)
    except CapacityError:
        assume(False)
    finally:
        dependences.BUSY_CELL = cell
    slow = scene(program, placement)
    naive.find(slow)
    fast = edges(found)
    plain = {(p, i): edge for i, known in enumerate(slow.edges) for p, edge in known.items()}
    ordered, wanted = reach(list(fast), len(program)), reach(list(plain), len(program))
    assert all(more >= needed for more, needed in zip(ordered, wanted, strict=True))
    named = {finding.sentence.split("`")[1] for finding in found.findings}
    missed = {program.storages[index].name for index in slow.unwritten.values()}
    if not steps:
        assert ordered == wanted
        assert all(fast[pair][0] <= plain[pair][0] for pair in fast.keys() & plain.keys())
        assert named >= missed
