"""Loops that Python has unrolled run in the order of a list scheduler, and no other code does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sim
from sim.compiler import Options, adapted, is_straight, order
from sim.nki import isa, language
from sim.nki.kernel import Kernel
from sim.schedule import schedule
from sim.trace import Memory
from tests.naive.meaning import written

COUNT = 40
LEGACY = Options.for_generation("legacy")


def scaled(loop):
    """Each row is loaded, worked on by Vector and Scalar, and stored."""

    def kernel(x):
        out = language.ndarray(x.shape, x.dtype, language.shared_hbm)
        for number in loop(COUNT):
            tile, more = language.load(x[number]), language.ndarray(x[number].shape, x.dtype)
            isa.activation(more, language.exp, tile)
            isa.tensor_tensor(more, more, tile, language.multiply)
            isa.tensor_tensor(tile, more, tile, language.add)
            language.store(out[number], tile)
        return out

    return kernel


def run(loop, **passes):
    spec = sim.TensorSpec((COUNT, 128, 512), "float32")
    return sim.run(Kernel(scaled(loop)), spec, device="trn1", values=False, options=LEGACY, passes=passes)


@pytest.fixture(scope="module")
def unrolled():
    return run(range).program


def test_loops_of_python_are_straight_and_those_of_the_device_are_not(unrolled):
    assert is_straight(unrolled)
    assert not is_straight(run(language.affine_range).program)
    assert not is_straight(run(language.sequential_range).program)


def test_what_is_written_stays_as_it_was(unrolled):
    ordered = order(unrolled)
    assert len(ordered) == len(unrolled)
    assert written(ordered) == written(unrolled)


def test_addresses_are_given_in_the_order_without_slots(unrolled):
    effective = adapted(unrolled, LEGACY)
    assert (effective.buffers, effective.rotate) == (0, False)
    assert adapted(unrolled, replace(LEGACY, straight=False)) == replace(LEGACY, straight=False)


def test_a_load_is_asked_for_one_latency_before_its_first_use(unrolled):
    """No earlier: between a load and its first use lies less work than hides twice the latency."""
    ordered = order(unrolled)
    moves = np.array([form.dma is not None for form in ordered.forms])[ordered.form]
    storage, start = ordered.operands[:, 0], ordered.operand_start
    latency = ordered.device["dma.dispatch_load"] + ordered.device["dma.notify_load"]
    busy = np.array([form.cost.occupancy_ps for form in ordered.forms])[ordered.form] / 1e3
    for index in np.flatnonzero(moves)[COUNT // 2 : COUNT].tolist():
        target = storage[start[index]]
        later = [i for i in range(index + 1, len(ordered)) if target in storage[start[i] : start[i + 1]]]
        if later and not moves[later[0]]:
            assert busy[index : later[0]][~moves[index : later[0]]].sum() < 4 * latency


def test_the_new_order_is_placed_by_first_fit(unrolled):
    straight, usual = (schedule(unrolled, replace(LEGACY, straight=on)) for on in (True, False))
    assert straight.placement.strategies[0, Memory.SBUF] == "first fit"
    assert usual.placement.strategies[0, Memory.SBUF] == "rings"
    assert (straight.program.form != usual.program.form).any()
