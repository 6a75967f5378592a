"""The event loop: what it means, and that the compiled one agrees with its plain twin to the picosecond."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import compiler
from sim import schedule as scheduling
from sim.compiler import Options
from sim.dependences import QUEUES
from sim.errors import CapacityError, InputError
from sim.jit import columns, competing, lineup
from sim.packets import packets
from sim.program import Program, Role
from sim.schedule import Schedule, picoseconds
from sim.trace import Engine, Wait
from tests.naive import competing as plain_competing
from tests.naive import lineup as plain
from tests.naive import machine as twin
from tests.naive import schedule as naive
from tests.naive import sharing
from tests.programs import Builder, random_program

R, W, A = Role.READ, Role.WRITE, Role.ACCUMULATE
WAKE, SAME, LOAD = 35_000, 5_000, 1_283_000
"""trn2, ps."""

STRICT = Options(windows=(1,) * QUEUES)


def machine(timed: Schedule) -> twin.Machine:
    """The same program for the twin."""
    program, found = timed.program, timed.dependences
    forms = scheduling._form_table(program)
    engines = int(program.device["dma_engines_nc"])
    first = dict(zip(timed.transfers.instruction.tolist(), timed.transfers.first_engine.tolist(), strict=True))
    items = []
    for i, number in enumerate(program.form.tolist()):
        form, row = program.forms[number], forms[number].tolist()
        low, high = found.start[i : i + 2].tolist()
        waits = list(zip(*(c[low:high].tolist() for c in (found.predecessor, found.kind, found.gate)), strict=True))
        dma = None
        if form.dma:
            used = [(first[i] + k) % engines for k in range(form.dma.engines)]
            dma = twin.Transfer(form.dma.dispatch_ps, form.dma.notify_ps, form.dma.service_ps, form.dma.hbm_ps, used)
        core = int(program.core[i])
        warm, cold = row[:4], tuple(row[4:8])
        items.append(twin.Item(core * QUEUES + form.engine, core, *warm, cold, *row[8:10], bool(row[10]), waits, dma))
    device = program.device
    window = device.get("pe.clock_window") or 0
    figures = twin.Figures(
        wake=picoseconds(device["sem.wake"]),
        same=picoseconds(device["sem.same"]),
        table_load=picoseconds(device["act.table_load"]),
        window=picoseconds(window),
        up=picoseconds(window * (device.get("pe.clock_up") or 0)),
        down=picoseconds(window * (device.get("pe.clock_down") or 0)),
        phase=picoseconds(device.get("pe.clock_phase") or 0),
    )
    cores = int(program.core.max(initial=0)) + 1
    return twin.Machine(items, list(timed.options.windows) * cores, figures)


def assert_same(timed: Schedule) -> None:
    """The twin gives the same times, causes, transfers, packets, table loads and clock changes."""
    slow = machine(timed)
    assert naive.run(slow) == len(timed.program)
    entries = [slow.issued[i] for i in range(len(timed.program))]
    for column, name in (
        (timed.start, "start"),
        (timed.freed, "freed"),
        (timed.done, "done"),
        (timed.ready, "ready"),
        (timed.wait_ps, "wait"),
        (timed.wait, "cause"),
        (timed.bind, "bind"),
    ):
        assert column.tolist() == [getattr(entry, name) for entry in entries], name
    moved = [slow.moved[i] for i in timed.transfers.instruction.tolist()]
    for column, name in (
        (timed.transfers.arrival, "arrival"),
        (timed.transfers.start, "start"),
        (timed.transfers.end, "end"),
        (timed.transfers.wait_ps, "wait"),
        (timed.transfers.wait, "cause"),
    ):
        assert column.tolist() == [getattr(entry, name) for entry in moved], name
    assert packets(timed).tolist() == [list(packet) for entry in moved for packet in entry.packets]
    loads = timed.table_loads
    columns = (loads.instruction, loads.start, loads.wait_ps, loads.wait, loads.bind)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == slow.loads
    for core, spans in slow.busy.items():
        changes = sharing.advance_clock(slow, core, max(end for _, end in spans))
        found = timed.clocks[timed.clocks[:, 1] == core]
        assert found[:, [0, 2]].tolist() == [list(change) for change in changes]


@settings(max_examples=150)
@given(
    seed=st.integers(0, 10**9),
    length=st.integers(1, 50),
    device=st.sampled_from(("trn1", "trn2")),
    cores=st.integers(1, 2),
    windows=st.lists(st.sampled_from((1, 2, 5, 64, compiler.UNBOUNDED)), min_size=QUEUES, max_size=QUEUES),
)
def test_the_compiled_loop_agrees_with_its_twin(seed: int, length: int, device: str, cores: int, windows: list[int]):
    program = random_program(seed, length, device, cores)
    assert_same(scheduling.schedule(program, Options(windows=tuple(windows), rename=seed % 2 == 0)))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=40), st.integers(0, 3))
def test_a_heap_gives_back_what_was_put_in_smallest_first(rows: list[tuple[int, int]], base: int):
    heap, plain = np.zeros(base + 2 * len(rows) + 2, np.int64), []
    for count, (key, value) in enumerate(rows):
        competing.push(heap, base, count, key, value)
        plain_competing.push(plain, 0, count, key, value)
    given_back = []
    for count in range(len(rows), 0, -1):
        assert tuple(heap[base : base + 2]) == plain[0]
        given_back.append(tuple(heap[base : base + 2]))
        competing.pop(heap, base, count)
        plain_competing.pop(plain, 0, count)
    assert given_back == sorted(rows)


@given(st.sets(st.integers(0, 5000), min_size=1, max_size=60), st.integers(0, 3), st.data())
def test_a_set_of_places_gives_back_the_smallest(places: set[int], words: int, data: st.DataObject):
    summary = words + 5000 // 32 + 1
    marks, plain = np.zeros(summary + 5, np.int64), []
    for place in data.draw(st.permutations(sorted(places))):
        competing.mark(marks, words, summary, place)
        plain_competing.mark(plain, place)
    low = 0
    for _ in places:
        place = competing.take(marks, words, summary, low)
        assert place == plain_competing.take(plain)
        low = int(place) >> 10
    assert not marks.any()


def state(timed: Schedule) -> scheduling.State:
    return scheduling._state(timed.program, timed.placement, timed.dependences, timed.options)


def waiting(times: list[int], i: int) -> Iterator[int]:
    """Who waits for an instruction, the last that came first."""
    next_ = ~times[i * columns.TIMES + columns.DONE] & columns.LOWER
    while next_:
        yield next_ - 1
        next_ = times[(next_ - 1) * columns.TIMES + columns.WAIT] & columns.LOWER


@given(seed=st.integers(0, 10**9), length=st.integers(1, 60), window=st.sampled_from((1, 4, compiler.UNBOUNDED)))
def test_what_stands_in_a_window_waits_for_its_last_predecessor(seed: int, length: int, window: int):
    timed = scheduling.schedule(random_program(seed, length), Options(windows=(window,) * QUEUES))
    found, expected, heads = timed.dependences, {}, [0] * QUEUES
    for i, engine in enumerate(compiler.engines(timed.program).tolist()):
        heads[engine] += 1
        if heads[engine] <= window and found.start[i] < found.start[i + 1]:
            naive.join(expected, i, int(found.predecessor[found.start[i + 1] - 1]))
    times = state(timed).times.tolist()
    assert {i: list(waiting(times, i)) for i in range(len(timed.program))} == {
        i: expected.get(i, []) for i in range(len(timed.program))
    }


@given(seed=st.integers(0, 10**9), length=st.integers(1, 60), cores=st.integers(1, 2))
def test_instructions_stand_in_their_queues_and_transfers_on_their_engines(seed: int, length: int, cores: int):
    timed = scheduling.schedule(random_program(seed, length, cores=cores))
    program, placement = timed.program, timed.placement
    lined = state(timed)
    queue = (program.core.astype(np.int64) * QUEUES + compiler.engines(program)).tolist()
    queues = lined.queues.reshape(-1, columns.Q_COLUMNS).tolist()
    bounds = [(row[columns.Q_BASE], row[columns.Q_BASE] + row[columns.Q_LENGTH]) for row in queues]
    assert [lined.places[a:b].tolist() for a, b in bounds] == plain.line_up(queue, len(queues))
    rows = lined.times.reshape(-1, columns.TIMES)
    assert (~rows[:, columns.START] >> columns.UPPER).tolist() == queue
    assert [
        int(lined.places[bounds[q][0] + place])
        for q, place in zip(queue, (~rows[:, columns.DONE] >> columns.UPPER).tolist())
    ] == list(range(len(program)))
    forms = [program.forms[number] for number in program.form.tolist()]
    moves = [i for i, form in enumerate(forms) if form.dma]
    assert timed.transfers.instruction.tolist() == moves
    row_of = {i: 2 * row + 1 for row, i in enumerate(moves)}
    assert (rows[:, columns.WAIT] >> columns.UPPER).tolist() == [
        row_of.get(i, 2 * number) for i, number in enumerate(program.form.tolist())
    ]
    sides, used = [], []
    for i in moves:
        side = scheduling._chip_operand(forms[i])
        storage, offset, _ = program.operands[program.operand_start[i] + side].tolist()
        place = int(placement.partition[storage]), offset, int(placement.columns.pitch[storage])
        sides.append(None if side < 0 else place)
        used.append(forms[i].dma.engines)
    engines = int(program.device["dma_engines_nc"])
    assert timed.transfers.first_engine.tolist() == plain.spread(sides, used, 128 // engines, engines)


def test_more_dependences_than_the_loop_can_number_are_over_capacity(monkeypatch):
    monkeypatch.setattr(columns, "LOWER", 1)
    with pytest.raises(CapacityError, match="dependences"):
        scheduling.schedule(random_program(3, 40))


def test_instructions_are_counted_by_core_and_form():
    program = random_program(5, 60, cores=2)
    used = np.zeros((2, len(program.forms)), np.int64)
    lineup.count(program.form.view(np.uint32), program.core.view(np.uint16), used)
    assert used.tolist() == plain.count(program.core.tolist(), program.form.tolist(), 2, len(program.forms))


# -- what the times mean -----------------------------------------------------------------------------


def timed(build: Builder, options: Options = STRICT) -> Schedule:
    return scheduling.schedule(build.finish(), options)


def chain(*engines: Engine) -> Schedule:
    """Each instruction reads what the one before wrote."""
    build = Builder()
    tiles = [build.sbuf() for _ in range(len(engines) + 1)]
    build.op(Engine.GPSIMD, (W, tiles[0]), occupancy=100, latency=150)
    for engine, source, target in zip(engines, tiles, tiles[1:]):
        build.op(engine, (R, source), (W, target), occupancy=100, latency=150)
    return timed(build)


def test_a_reader_on_another_engine_waits_for_completion_and_the_semaphore():
    assert chain(Engine.VECTOR).start.tolist() == [0, 150 + WAKE]


def test_a_reader_on_the_same_engine_waits_for_completion():
    assert chain(Engine.GPSIMD).start.tolist() == [0, 150 + SAME]
    assert chain(Engine.GPSIMD).wait.tolist() == [Wait.NONE, Wait.OPERAND]
    assert chain(Engine.GPSIMD).wait_ps.tolist() == [0, 50 + SAME]


def test_independent_instructions_follow_at_the_end_of_the_occupancy():
    build = Builder()
    for _ in range(3):
        build.op(Engine.VECTOR, (W, build.sbuf()), occupancy=100, latency=900)
    found = timed(build)
    assert found.start.tolist() == [0, 100, 200]
    assert found.wait.tolist() == [Wait.NONE, Wait.ENGINE, Wait.ENGINE]
    assert found.bind.tolist() == [-1, 0, 1]


def test_accumulation_goes_on_at_the_end_of_the_occupancy():
    build = Builder()
    left, bank = build.sbuf(), build.psum()
    build.op(Engine.GPSIMD, (W, left))
    for role in (W, A, A):
        build.op(Engine.TENSOR, (role, bank), (R, left), occupancy=100, latency=500)
    build.op(Engine.VECTOR, (R, bank), (W, build.sbuf()))
    found = timed(build)
    first = found.start[1]
    assert found.start[1:4].tolist() == [first, first + 100, first + 200]
    assert found.start[4] == first + 200 + 500 + WAKE


def test_a_buffer_is_overwritten_after_its_reader_on_another_engine():
    build = Builder()
    tile, out = build.sbuf(), build.sbuf()
    build.op(Engine.VECTOR, (W, tile), occupancy=100, latency=100)
    build.op(Engine.SCALAR, (R, tile), (W, out), occupancy=1000, latency=2000)
    build.op(Engine.VECTOR, (W, tile), occupancy=100, latency=100)
    found = timed(build, Options(windows=(1,) * QUEUES, rename=False))
    assert found.start[2] == found.done[1] + WAKE
    assert (found.wait[2], found.bind[2]) == (Wait.BUFFER, 1)
    assert timed(build).start[2] == 100


def test_the_window_lets_a_ready_instruction_pass_a_waiting_one():
    def build() -> Builder:
        build = Builder()
        slow, fast = build.sbuf(), build.sbuf()
        build.op(Engine.GPSIMD, (W, slow), occupancy=5000)
        build.op(Engine.VECTOR, (R, slow), (W, build.sbuf()))
        build.op(Engine.VECTOR, (W, fast))
        return build

    assert timed(build()).start[2] > timed(build()).start[1] > 5000
    assert timed(build(), Options(windows=(2,) * QUEUES)).start[2] == 0


def test_a_transfer_triggers_then_moves_then_notifies():
    build = Builder()
    tile = build.sbuf()
    build.dma(tile, build.hbm(128, 64), occupancy=200, dispatch_ps=900, service_ps=1000, hbm_ps=700, notify_ps=300)
    build.op(Engine.VECTOR, (R, tile), (W, build.sbuf()))
    found = timed(build)
    assert (found.transfers.start[0], found.transfers.end[0], found.done[0]) == (1100, 2100, 2400)
    assert found.start[1] == 2400 + WAKE
    assert (found.wait[1], found.bind[1]) == (Wait.DMA, 0)


def test_transfers_of_one_engine_go_first_come_first_served():
    build = Builder()
    source = build.hbm(128, 64)
    build.dma(build.sbuf(), source, Engine.SYNC, 10, dispatch_ps=1000, service_ps=800, hbm_ps=0)
    build.dma(build.sbuf(), source, Engine.SCALAR, 10, dispatch_ps=400, service_ps=700, hbm_ps=0)
    found = timed(build)
    assert found.transfers.start.tolist() == [1110, 410]
    assert found.transfers.wait.tolist() == [Wait.QUEUE, Wait.NONE]
    assert found.transfers.wait_ps.tolist() == [100, 0]


def test_transfers_of_other_partitions_use_other_engines():
    build = Builder()
    source, tile = build.hbm(8, 64), build.sbuf()
    for first in (0, 8, 16):
        view = build.cut_partitions(tile, first, 8)
        build.dma(view, source, Engine.SYNC, 10, engines=1, dispatch_ps=0, service_ps=5000, hbm_ps=0)
    found = timed(build)
    assert found.transfers.first_engine.tolist() == [0, 1, 2]
    assert found.transfers.start.tolist() == [10, 20, 30]


def test_hbm_bandwidth_is_shared():
    build = Builder()
    source, tile = build.hbm(8, 64), build.sbuf()
    for first in (0, 8):
        view = build.cut_partitions(tile, first, 8)
        build.dma(view, source, Engine.SYNC, 10, engines=1, dispatch_ps=0, service_ps=1000, hbm_ps=900)
    found = timed(build)
    assert found.transfers.end.tolist() == [1010, 10 + 900 + 900]
    assert found.transfers.wait.tolist() == [Wait.NONE, Wait.BANDWIDTH]


def test_a_trigger_holds_its_engine():
    build = Builder()
    build.dma(build.sbuf(), build.hbm(128, 64), Engine.SCALAR, 700)
    build.op(Engine.SCALAR, (W, build.sbuf()))
    found = timed(build)
    assert found.start[1] == 700
    assert (found.wait[1], found.bind[1], found.wait_ps[1]) == (Wait.ISSUE, 0, 640)


def test_the_first_tables_are_there_and_others_are_loaded():
    build = Builder()
    for table in (1, 1, -1, 2, 1):
        build.op(Engine.SCALAR, (W, build.sbuf()), occupancy=100, latency=100, table=table)
    found = timed(build)
    assert found.start.tolist() == [0, 100, 200, 300 + LOAD, 400 + 2 * LOAD]
    assert found.table_loads.instruction.tolist() == [0, 3, 4]
    assert found.table_loads.start.tolist() == [-1, 300, 400 + LOAD]
    assert found.wait.tolist()[3:] == [Wait.TABLE, Wait.TABLE]


def test_shared_ports_are_exclusive_while_streaming():
    build = Builder("trn1")
    for engine, port in ((Engine.VECTOR, 1), (Engine.GPSIMD, 1), (Engine.SCALAR, 2)):
        build.op(engine, (W, build.sbuf()), occupancy=1000, port=port)
    found = timed(build)
    assert found.start.tolist() == [0, 1000, 0]
    assert (found.wait[1], found.bind[1], found.wait_ps[1]) == (Wait.PORT, 0, 1000)


@pytest.mark.parametrize(
    ("gap", "states"),
    [(0, [(1, 1)]), (700_000, [])],
    ids=["busy for a whole window", "three quarters busy"],
)
def test_a_busy_window_makes_the_tensor_clock_warm(gap: int, states: list[tuple[int, int]]):
    window = 3_413_300
    build = Builder()
    left, bank = build.sbuf(), build.psum()
    build.op(Engine.GPSIMD, (W, left), occupancy=0, latency=0)
    for _ in range(6):
        build.op(Engine.TENSOR, (W, bank), (R, left), occupancy=500_000, latency=600_000, clocked=True)
        if gap:
            build.op(Engine.TENSOR, (W, bank), (R, left), occupancy=gap, latency=gap)
    found = timed(build, Options(windows=(1,) * QUEUES, clock_phase_ps=0))
    assert [(time // window, warm) for time, _, warm in found.clocks.tolist()] == states
    cold = 1_000_000
    lengths = (found.freed - found.start)[1 :: 2 if gap else 1].tolist()
    assert (found.done - found.freed)[1] == 100_000, "what does not stream takes as long at any clock"
    assert lengths == [500_000 if states and start >= window else cold for start in found.start[1 :: 2 if gap else 1]]


def matmuls(*costs: tuple[int, int], late: int = 0) -> Schedule:
    """Matmuls of (streaming, weights), the second's operand ready so late; the clock is always full."""
    build = Builder("trn1")
    banks, tiles = [build.psum() for _ in costs], [build.sbuf() for _ in costs]
    for place, (streaming, weights) in enumerate(costs):
        if late and place == 1:
            build.op(Engine.VECTOR, (W, tiles[1]), occupancy=late, latency=late)
        cost = {"occupancy": streaming, "latency": streaming + 150, "weights_ps": weights, "tail_ps": streaming}
        build.op(Engine.TENSOR, (W, banks[place]), (R, tiles[place]), clocked=True, **cost)
    return timed(build)


def test_the_weights_of_a_first_matmul_are_loaded_before_it_streams():
    found = matmuls((500, 200))
    assert found.freed.tolist() == [200 + 500]
    assert found.done.tolist() == [200 + 500 + 150]
    assert scheduling.streaming(found)[0].tolist() == [200]
    assert (found.start.tolist(), found.wait_ps.tolist()) == ([0], [0]), "TensorE loads weights, it does not wait"


@pytest.mark.parametrize(("weights", "streams"), [(100, 700), (500, 700), (800, 1000)])
def test_weights_are_loaded_behind_the_matmul_before_and_what_is_longer_shows(weights: int, streams: int):
    found = matmuls((500, 200), (500, weights))
    assert scheduling.streaming(found)[0].tolist() == [200, streams]
    assert found.start.tolist() == [0, 700], "what shows is TensorE's work"


def test_one_set_of_weights_is_loaded_ahead_and_no_more():
    found = matmuls((500, 200), (50, 300), (50, 300), (50, 300))
    assert scheduling.streaming(found)[0].tolist() == [200, 700, 1000, 1300]


def test_a_matmul_whose_operand_comes_late_loads_its_weights_then():
    found = matmuls((500, 200), (500, 200), late=2_000_000)
    wake = picoseconds(found.program.device["sem.wake"])
    assert found.start.tolist()[2] == 2_000_000 + wake
    assert found.freed.tolist()[2] == 2_000_000 + wake + 200 + 500


def test_weights_that_are_there_are_not_waited_for():
    assert scheduling.streaming(matmuls((500, 200), (50, 0), (50, 300)))[0].tolist() == [200, 700, 1000]


def test_the_clock_stays_warm_at_half_load_and_cools_when_idle():
    build = Builder()
    left, bank = build.sbuf(), build.psum()
    build.op(Engine.GPSIMD, (W, left), occupancy=0, latency=0)

    def matmul(times: int, rest: int) -> None:
        for _ in range(times):
            build.op(Engine.TENSOR, (W, bank), (R, left), occupancy=100_000, latency=100_000, clocked=True)
            if rest:
                build.op(Engine.TENSOR, (W, bank), (R, left), occupancy=rest, latency=rest)

    matmul(80, 0)
    matmul(40, 100_000)
    matmul(20, 900_000)
    changes = timed(build).clocks
    assert changes[:, 2].tolist() == [1, 0]
    assert timed(build).start[0] == 0
    assert changes[1, 0] > timed(build).freed[1 + 80 + 80]


def test_a_circle_of_orders_is_an_error_that_names_both():
    build = Builder()
    build.op(Engine.VECTOR, (W, build.sbuf()))
    build.op(Engine.VECTOR, (W, build.sbuf()))
    build.program.order(1, 0)
    with pytest.raises(InputError, match=r"deadlock: .*instruction 0, .*programs\.py:\d+.* wait for each other"):
        timed(build)
    assert timed(build, Options()).start.tolist() == [100 + 50 + SAME, 0]


def test_an_order_across_engines_waits_for_completion():
    build = Builder()
    build.op(Engine.VECTOR, (W, build.sbuf()), occupancy=10, latency=500)
    build.op(Engine.SCALAR, (W, build.sbuf()))
    build.program.order(0, 1)
    found = timed(build)
    assert found.start[1] == 500 + WAKE
    assert found.wait[1] == Wait.OPERAND


def test_an_order_at_issue_waits_for_the_trigger_of_a_transfer_only():
    build = Builder()
    build.dma(build.sbuf(), build.hbm(128, 64), occupancy=200)
    build.op(Engine.VECTOR, (W, build.sbuf()))
    build.program.order(0, 1, at_issue=True)
    found = timed(build)
    assert found.start[1] == 200
    assert found.wait[1] == Wait.OPERAND


def test_transfers_between_hbm_tensors_take_the_engines_in_turn():
    build = Builder()
    for engines in (5, 8, 7):
        build.dma(build.hbm(8, 64, role="OUT"), build.hbm(8, 64), engines=engines)
    assert timed(build).transfers.first_engine.tolist() == [0, 5, 13]


def test_an_order_outside_the_program_is_refused():
    build = Builder()
    build.op(Engine.VECTOR, (W, build.sbuf()))
    build.program.order(0, 7)
    with pytest.raises(InputError, match="order"):
        timed(build)


def test_an_empty_program_takes_no_time():
    found = timed(Builder())
    assert found.end_ps == 0
    assert len(found.start) == 0


def test_two_cores_share_nothing_but_dependences():
    def both(cores: int) -> Schedule:
        build = Builder()
        for core in range(cores):
            build.program.core = core
            build.dma(build.sbuf(), build.hbm(128, 64), Engine.SYNC, 10)
            build.op(Engine.VECTOR, (W, build.sbuf()), occupancy=1000)
        return timed(build)

    assert both(2).start.tolist() == both(1).start.tolist() * 2
    assert both(2).transfers.end.tolist() == both(1).transfers.end.tolist() * 2


def test_the_same_program_gives_the_same_times():
    program: Program = random_program(random.Random(7).randrange(100), 80)
    one, two = scheduling.schedule(program), scheduling.schedule(program)
    assert one.start.tobytes() == two.start.tobytes()
    assert packets(one).tobytes() == packets(two).tobytes()
