"""What waits for what: against byte sets, and case by case."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sim import allocation, compiler, dependences
from sim.compiler import Options
from sim.dependences import Dependences
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
        for pair in fast.keys() & plain.keys():
            assert fast[pair][0] <= plain[pair][0]
            assert fast[pair][0] != plain[pair][0] or fast[pair][1:] == plain[pair][1:]
        assert named >= missed


# -- case by case ------------------------------------------------------------------------------------


def test_a_read_depends_on_the_last_write_only():
    build = Builder()
    tile = build.sbuf()
    for engine in (Engine.VECTOR, Engine.SCALAR):
        build.op(engine, (W, tile))
    build.op(Engine.GPSIMD, (R, tile), (W, build.sbuf()))
    assert between(build) == {(0, 1): (EdgeKind.OUTPUT, COMPLETION, False), (1, 2): (EdgeKind.FLOW, COMPLETION, False)}


def test_a_write_need_not_wait_for_a_write_that_a_reader_waited_for():
    build = Builder()
    tile = build.sbuf()
    build.op(Engine.VECTOR, (W, tile))
    build.op(Engine.SCALAR, (R, tile), (W, build.sbuf()))
    build.op(Engine.GPSIMD, (W, tile))
    assert between(build) == {(0, 1): (EdgeKind.FLOW, COMPLETION, False), (1, 2): (EdgeKind.ANTI, COMPLETION, False)}


def test_a_partial_read_leaves_the_write_to_be_waited_for():
    build = Builder()
    tile = build.sbuf()
    build.op(Engine.VECTOR, (W, tile))
    build.op(Engine.SCALAR, (R, build.cut_columns(tile, 0, 8)), (W, build.sbuf()))
    build.op(Engine.GPSIMD, (W, tile))
    assert (0, 2) in between(build)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        (((0, 64, 1),), ((64, 128, 1),), False),
        (((0, 65, 1),), ((64, 128, 1),), True),
        (((0, 128, 1), (0, 32, 1)), ((0, 128, 1), (32, 64, 1)), False),
        (((0, 128, 1), (0, 33, 1)), ((0, 128, 1), (32, 64, 1)), True),
        (((0, 128, 1), (0, 64, 2)), ((0, 128, 1), (1, 64, 2)), False),
        (((0, 128, 1), (0, 64, 2)), ((0, 128, 1), (2, 64, 2)), True),
        (((0, 128, 1), (0, 64, 2)), ((0, 128, 1), (3, 4, 1)), False),
    ],
    ids=["partitions", "one shared", "columns", "a shared column", "even and odd", "even twice", "even and one odd"],
)
def test_views_that_do_not_meet_do_not_wait(one: tuple, other: tuple, meet: bool):
    build = Builder()
    tile = build.sbuf(64)
    build.op(Engine.VECTOR, (W, cut(tile, *one)))
    build.op(Engine.SCALAR, (W, cut(tile, *other)))
    assert ((0, 1) in between(build)) == meet


def test_a_write_with_holes_leaves_what_lies_in_them():
    build = Builder()
    tile = build.tile(128, 2, 4)
    whole = (None, None, None)
    build.op(Engine.VECTOR, (W, cut(tile, whole, whole, 1)))
    build.op(Engine.VECTOR, (W, cut(tile, whole, whole, (0, 4, 2))))
    build.op(Engine.SCALAR, (R, cut(tile, whole, 0, 1)), (W, build.sbuf()))
    assert between(build)[0, 2][0] is EdgeKind.FLOW


def test_an_update_in_place_is_a_write_for_what_follows():
    build = Builder()
    tile = build.sbuf()
    build.op(Engine.VECTOR, (W, tile))
    build.op(Engine.VECTOR, (R, tile), (W, tile))
    build.op(Engine.SCALAR, (W, tile))
    assert between(build)[1, 2] == (EdgeKind.OUTPUT, COMPLETION, False)


def test_column_blocks_of_a_tensor_in_hbm_do_not_meet():
    build = Builder()
    result, tile = build.hbm(128, 256, role="OUT"), build.sbuf()
    build.op(Engine.VECTOR, (W, tile))
    for block in range(4):
        build.dma(build.cut_columns(result, 64 * block, 64), tile)
    assert set(between(build)) == {(0, k) for k in range(1, 5)}


def test_tensor_engine_accumulates_in_its_own_order():
    build = Builder()
    left, bank = build.sbuf(), build.psum()
    build.op(Engine.VECTOR, (W, left))
    for role in (W, A, A):
        build.op(Engine.TENSOR, (role, bank), (R, left))
    build.op(Engine.VECTOR, (A, bank))
    found = between(build)
    assert found[1, 2] == found[2, 3] == (EdgeKind.ORDER, ISSUE, False)
    assert found[3, 4] == (EdgeKind.FLOW, COMPLETION, False)
    assert (1, 4) not in found


@pytest.mark.parametrize(
    ("first", "then", "gate"),
    [(Engine.VECTOR, Engine.VECTOR, ISSUE), (Engine.VECTOR, Engine.SCALAR, COMPLETION)],
    ids=["same engine", "other engine"],
)
def test_an_overwrite_waits_for_issue_on_the_same_engine_only(first: Engine, then: Engine, gate: int):
    build = Builder()
    tile = build.sbuf()
    build.op(Engine.GPSIMD, (W, tile))
    build.op(first, (R, tile), (W, build.sbuf()))
    build.op(then, (W, tile))
    assert between(build)[1, 2] == (EdgeKind.ANTI, gate, False)


def test_a_transfer_is_always_waited_for_to_its_end():
    build = Builder()
    tile = build.sbuf()
    build.dma(tile, build.hbm(128, 64), Engine.SCALAR)
    build.op(Engine.SCALAR, (R, tile), (W, build.sbuf()))
    assert between(build)[0, 1] == (EdgeKind.FLOW, COMPLETION, False)


def test_a_tile_at_the_bytes_of_a_dead_one_waits_for_its_last_access():
    build = Builder()
    build.program.device = build.program.device.replace({"sbuf.usable_partition_bytes": 640})
    old, kept, new = build.sbuf(), build.sbuf(), build.sbuf()
    build.op(Engine.VECTOR, (W, old))
    build.op(Engine.SCALAR, (R, old), (W, kept))
    build.op(Engine.GPSIMD, (W, new))
    build.op(Engine.GPSIMD, (R, kept), (R, new), (W, build.sbuf(32)))
    assert between(build)[1, 2] == (EdgeKind.ANTI, COMPLETION, True)


def test_renaming_frees_a_reused_name_from_waiting():
    def build() -> Builder:
        build = Builder()
        tile = build.sbuf()
        for _ in range(2):
            build.op(Engine.VECTOR, (W, tile))
            build.op(Engine.SCALAR, (R, tile), (W, build.sbuf()))
        return build

    assert (1, 2) in between(build(), rename=False)
    assert (1, 2) not in between(build(), rename=True)


def test_renaming_leaves_partial_writes_and_in_place_updates_alone():
    build = Builder()
    tile = build.sbuf()
    build.op(Engine.VECTOR, (W, tile))
    build.op(Engine.VECTOR, (R, tile), (W, tile))
    build.op(Engine.VECTOR, (W, build.cut_columns(tile, 0, 63)))
    program = build.finish()
    assert compiler.rename(program) is program


def test_reading_what_nothing_wrote_is_found_without_values():
    build = Builder()
    tile = build.sbuf(name="cold")
    build.op(Engine.VECTOR, (W, build.cut_columns(tile, 0, 32)))
    build.op(Engine.SCALAR, (R, build.cut_columns(tile, 32, 32)), (W, build.sbuf()))
    _, _, found = placed(build.finish())
    assert [(finding.kind, finding.instruction) for finding in found.findings] == [("uninitialised_read", 1)]
    assert "`cold`" in found.findings[0].sentence
    assert "programs.py:" in found.findings[0].source


def test_inputs_are_given_and_never_waited_for():
    build = Builder()
    source = build.hbm(128, 64)
    for engine in (Engine.SYNC, Engine.SCALAR):
        build.dma(build.sbuf(), source, engine)
    _, _, found = placed(build.finish())
    assert found.predecessor.size == 0
    assert found.findings == ()


def test_tiles_laid_over_one_another_by_the_kernel_wait_for_one_another():
    build = Builder()
    one, other = build.sbuf(address=(0, 0)), build.sbuf(address=(0, 128))
    build.op(Engine.VECTOR, (W, one))
    build.op(Engine.SCALAR, (W, other))
    build.op(Engine.GPSIMD, (R, one), (W, build.sbuf()))
    found = between(build)
    assert found[0, 1][0] is EdgeKind.OUTPUT
    assert found[1, 2][0] is EdgeKind.FLOW


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="measures compiled code")
def test_a_tensor_written_in_thirty_thousand_tiles_is_no_slower_a_tile_than_in_a_hundred():
    def seconds(rows: int, columns: int) -> float:
        build = Builder()
        result, tile = build.hbm(8 * rows, 8 * columns, role="OUT"), build.sbuf(8, 8)
        build.op(Engine.VECTOR, (W, tile))
        number = build.program._form[build.dma(cut(result, (0, 8, 1), (0, 8, 1)), tile)]
        for row in range(rows):
            for column in range(columns):
                view = cut(result, (8 * row, 8 * row + 8, 1), (8 * column, 8 * column + 8, 1))
                build.program.append(number, (view, tile))
        program = build.finish()
        placement = allocation.place(program, Options())
        start = time.process_time()
        found = dependences.find(program, placement)
        spent = time.process_time() - start
        assert np.array_equal(np.unique(found.predecessor), [0, 1])
        return spent / (rows * columns)

    seconds(2, 2)
    assert seconds(300, 100) < 20 * seconds(10, 10)


@settings(max_examples=100)
@given(spans=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), min_size=1, max_size=20))
def test_the_last_occupants_of_bytes_are_known(spans: list[tuple[int, int]]):
    low = np.array([low for low, _ in spans], np.int64)
    high = low + np.array([size for _, size in spans], np.int64)
    start, before = dependences._occupants(low, high, np.arange(low.size))
    found = [before[a:b].tolist() for a, b in pairwise(start.tolist())]
    assert found == naive.occupants(low.tolist(), high.tolist(), list(range(low.size)))
