"""The two cores of LNC 2: turns, exchanges, barriers, and what goes wrong between them."""

import numpy as np
import pytest

import sim
from sim.errors import InputError
from sim.nki import language as nl
from sim.nki import lockstep
from sim.nki.isa import core_barrier, dma_copy, dma_engine, sendrecv, tensor_scalar
from sim.nki.kernel import jit
from sim.nki.lockstep import Crew, Place
from tests.chip import normal


@jit
def exchange(x):
    """Each core multiplies its half by ten, after it has sent what it was."""
    core, count = nl.program_id(0), nl.num_programs(0)
    assert (count, nl.program_ndim()) == (2, 1)
    mine, theirs = nl.ndarray(x.shape[1:], x.dtype), nl.ndarray(x.shape[1:], x.dtype)
    dma_copy(mine, x[core])
    sendrecv(mine, theirs, 1 - core, 1 - core, pipe_id=0)
    tensor_scalar(mine, mine, nl.multiply, 10.0)
    shared = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    dma_copy(shared[core], nl.add(mine, theirs))
    core_barrier(shared, (0, 1))
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    dma_copy(out[core], nl.load(shared[1 - core]))
    return out


def test_cores_exchange_tiles_and_meet_at_a_barrier():
    x = normal(2, 128, 64)
    run = sim.run(exchange[2], x)
    np.testing.assert_allclose(run.outputs[0], 10 * x[::-1] + x, rtol=1e-6)
    assert run.findings == ()
    assert set(run.program.core) == {0, 1}


def test_cores_meet_at_a_barrier_of_their_own_tiles():
    @jit
    def kernel(x):
        core = nl.program_id(0)
        tile = nl.load(x[core])
        core_barrier(tile, (0, 1))
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        dma_copy(out[core], tile)
        return out

    x = normal(2, 128, 64)
    np.testing.assert_array_equal(sim.run(kernel[2], x).outputs[0], x)


def test_time_is_the_same_without_values():
    x = normal(2, 128, 64)
    assert sim.run(exchange[2], x).latency_ns == sim.run(exchange[2], x, values=False).latency_ns


def test_what_reads_after_the_barrier_waits_for_it():
    run = sim.run(exchange[2], normal(2, 8, 8))
    rows = run.trace.instructions
    opcodes = [run.trace.strings[code] for code in rows.opcode.tolist()]
    barriers = [end for opcode, end in zip(opcodes, rows.end_ps.tolist(), strict=True) if opcode == "EVENT_SEMAPHORE"]
    assert len(barriers) == 4
    last = max(start for opcode, start in zip(opcodes, rows.start_ps.tolist(), strict=True) if "DMA" in opcode)
    assert last >= max(barriers)
    assert run.latency_ns > run.program.device["cc.core_barrier"]
    cores = run.program.core
    assert {(cores[first], cores[then]) for first, then, _ in run.program.order} >= {(0, 1), (1, 0)}


def test_gpsimd_exchanges_small_tiles_itself():
    @jit
    def swap(x, columns):
        core = nl.program_id(0)
        mine, theirs = (nl.ndarray((128, columns), x.dtype) for _ in range(2))
        dma_copy(mine, x[core, :, :columns])
        sendrecv(mine, theirs, 1 - core, 1 - core, 0, dma_engine.gpsimd_dma)
        out = nl.ndarray((2, 128, columns), x.dtype, nl.shared_hbm)
        dma_copy(out[core], theirs)
        return out

    x = normal(2, 128, 300)
    np.testing.assert_array_equal(sim.run(swap[2], x, 256).outputs[0], x[::-1, :, :256])
    with pytest.raises(InputError, match="sendrecv: src: 1028 bytes a partition > 1024"):
        sim.run(swap[2], x, 257)


def refused(body, device="trn2", lnc=2):
    kernel = jit(body)[lnc] if lnc > 1 else jit(body)
    with pytest.raises(InputError) as fault:
        sim.run(kernel, normal(2, 8, 8), device=device)
    assert fault.value.source is None or __file__ in fault.value.source
    return str(fault.value)


def tiles(x):
    mine, theirs = (nl.ndarray(x.shape[1:], x.dtype) for _ in range(2))
    dma_copy(mine, x[nl.program_id(0)])
    return mine, theirs


def test_a_core_that_waits_alone_is_a_deadlock():
    def lonely(x):
        mine, theirs = tiles(x)
        if nl.program_id(0) == 0:
            sendrecv(mine, theirs, 1, 1, 0)
        return x

    said = refused(lonely)
    assert "deadlock: core 0 of rank 0 waits at nki.isa.sendrecv" in said
    assert "core 1 of rank 0 has finished" in said


def test_cores_that_wait_for_different_calls_are_a_deadlock():
    def crossed(x):
        mine, theirs = tiles(x)
        if nl.program_id(0) == 0:
            core_barrier(x, (0, 1))
        sendrecv(mine, theirs, 1 - nl.program_id(0), 1 - nl.program_id(0), 0)
        return x

    said = refused(crossed)
    assert "waits at nki.isa.core_barrier" in said
    assert "waits at nki.isa.sendrecv" in said


LIMITS = {
    "one core": (
        lambda m, t, x: sendrecv(m, t, 1, 1, 0),
        {"lnc": 1},
        r"no core 1 of rank 0.* \(launch it as kernel\[2\]\)",
    ),
    "a rank that is none": (lambda m, t, x: sendrecv(m, t, 2, 1, 0), {}, "sendrecv: send_to_rank: 2, must be 0 or 1"),
    "nobody sends": (lambda m, t, x: sendrecv(m, t, 0, 0, 0), {}, "recv_from_rank: 0 sends to another core"),
    "another shape": (
        lambda m, t, x: sendrecv(m, nl.ndarray((8, 4), x.dtype), *2 * [1 - nl.program_id(0)], 0),
        {},
        "sendrecv: dst: 4 elements a partition, src has 8",
    ),
    "another dtype": (
        lambda m, t, x: sendrecv(m, nl.ndarray((8, 8), nl.float16), *2 * [1 - nl.program_id(0)], 0),
        {},
        "dst: dtype float16, src has float32",
    ),
    "HBM": (
        lambda m, t, x: sendrecv(x[0], t, *2 * [1 - nl.program_id(0)], 0),
        {},
        "src: a tile in HBM, must be in SBUF",
    ),
    "v2": (
        lambda m, t, x: core_barrier(x, (0, 1)),
        {"device": "trn1"},
        r"kernel\[2\]: a kernel runs on 1 physical core of trn1 .LNC 2 comes with NeuronCore-v3",
    ),
    "three cores": (
        lambda m, t, x: core_barrier(x, (0, 1, 2)),
        {},
        r"core_barrier: cores: \(0, 1, 2\), must be \(0, 1\)",
    ),
    "an engine that is none": (lambda m, t, x: core_barrier(x, (0, 1), "cpu"), {}, "core_barrier: engine: 'cpu'"),
}


@pytest.mark.parametrize(("call", "launch", "message"), LIMITS.values(), ids=LIMITS)
def test_a_broken_limit_is_named(call, launch, message):
    import re

    def kernel(x):
        call(*tiles(x), x)
        return x

    assert re.search(message, refused(kernel, **launch))


def test_programs_take_turns_and_hand_over_when_they_wait():
    said = []

    def body(name, meets):
        def run():
            said.append(f"{name} begins")
            if meets:
                said.append(lockstep._here.get()[0].meet(place(), "key", PLACES, name, joined, "here"))
            said.append(f"{name} ends")
            return name

        def place():
            return lockstep.place()

        return run

    def joined(offers):
        return dict.fromkeys(offers, "+".join(offers.values()))

    bodies = {PLACES[0]: body("a", True), PLACES[1]: body("b", True)}
    assert Crew(bodies, 1).run() == {PLACES[0]: "a", PLACES[1]: "b"}
    assert said == ["a begins", "b begins", "a+b", "b ends", "a+b", "a ends"]


PLACES = [Place(0, 0), Place(0, 1)]


def test_an_error_in_one_program_ends_all():
    def fails():
        raise ValueError("no")

    def waits():
        return lockstep._here.get()[0].meet(lockstep.place(), "key", PLACES, None, dict.fromkeys, "here")

    with pytest.raises(ValueError, match="no"):
        Crew({PLACES[0]: waits, PLACES[1]: fails}, 1).run()


def test_cores_write_into_shared_memory_by_turns():
    """Both clear a tensor before each writes its half; without turns the second would clear the first one's half."""

    @jit
    def clears(x):
        core = nl.program_id(0)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        dma_copy(out, nl.zeros(x.shape, x.dtype))
        for _ in range(lockstep.TURN):
            tile = nl.load(x[core * 64 : core * 64 + 64])
        dma_copy(out[core * 64 : core * 64 + 64], tile)
        return out

    x = normal(128, 16)
    np.testing.assert_array_equal(sim.run(clears[2], x).outputs[0], x)


@pytest.mark.parametrize(
    ("grid", "device", "message"),
    [
        ((4,), "trn2", r"exchange\[4\]: a kernel runs on 1 or 2 physical cores of trn2"),
        ((2, 2), "trn3", r"exchange\[2, 2\]: a kernel runs on 1 or 2 physical cores of trn3"),
        ((2,), "inf2", r"exchange\[2\]: a kernel runs on 1 physical core of inf2 \(LNC 2 comes with NeuronCore-v3\)"),
    ],
)
def test_a_grid_that_is_no_logical_core_of_the_device_is_refused(grid, device, message):
    with pytest.raises(InputError, match=message):
        sim.run(exchange[grid], normal(2, 8, 8), device=device)
