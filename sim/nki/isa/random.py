"""`nki.isa` calls that draw random numbers, and those that set and read the generators' state."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sim.engines import random as generators
from sim.errors import InputError
from sim.nki.isa import enums
from sim.nki.isa.issuing import NkiInstruction, issue, member, number, split
from sim.nki.session import builder
from sim.nki.tensor import NkiTensor
from sim.program import ProgramBuilder
from sim.trace import Engine

Scalar = float | NkiTensor

_states: WeakKeyDictionary[ProgramBuilder, dict[tuple[int, Engine], np.ndarray]] = WeakKeyDictionary()


def _state(engine: Engine) -> np.ndarray:
    """The generators of an engine of the running core; they start from the launch's seed."""
    program = builder()
    held = _states.setdefault(program, {})
    key = (program.core, engine)
    if key not in held:
        held[key] = generators.seeded(engine, int(program.random.integers(1 << 32)))
    return held[key]


def _engine(asked: str, default: Engine) -> Engine:
    return {"vector": Engine.VECTOR, "gpsimd": Engine.GPSIMD}.get(asked, default)


def rng(dst: NkiTensor, engine: Any = enums.engine.vector, name: str | None = None) -> NkiInstruction:
    """dst = 32 random bits an element, cut to its integer dtype."""
    asked = member(engine, enums.engine, "rng", "engine")
    return issue(generators.RNG, (dst,), (asked,), name, state=_state(_engine(asked, Engine.VECTOR)))


def rand2(dst: NkiTensor, min: Scalar, max: Scalar, name: str | None = None) -> NkiInstruction:
    """dst = numbers distributed evenly over [min, max) (NeuronCore-v4)."""
    given = [split(side) for side in (min, max)]
    numbers = tuple(
        None if is_tile else number(value, "rand2", which)
        for (_, is_tile, value), which in zip(given, ("min", "max"), strict=True)
    )
    if None not in numbers and not numbers[0] < numbers[1]:
        fault = f"nki.isa.rand2: min: {numbers[0]}, must be less than max, {numbers[1]}"
        raise InputError(fault, source=builder().where())
    operands = (dst, *(view for views, _, _ in given for view in views))
    columns = tuple(is_tile for _, is_tile, _ in given)
    return issue(generators.RAND2, operands, (columns,), name, numbers=numbers, state=_state(Engine.VECTOR))


def dropout(dst: NkiTensor, data: NkiTensor, prob: Scalar, name: str | None = None) -> NkiInstruction:
    """dst = data with elements replaced by 0 with probability prob; the others are not rescaled."""
    views, column, value = split(prob)
    chance = None if column else number(value, "dropout", "prob")
    return issue(generators.DROPOUT, (dst, data, *views), (column,), name, prob=chance, state=_state(Engine.VECTOR))


def set_rng_seed(src_seeds: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Seed the Vector Engine's generators with the 32 bits of a [1, 1] tile."""
    return issue(generators.SEED, (src_seeds,), (), name, state=_state(Engine.VECTOR))


def rand_set_state(src_seeds: NkiTensor, engine: Any = enums.engine.gpsimd, name: str | None = None) -> NkiInstruction:
    """Set the generators of each partition: 6 words on GpSimd, 24 on Vector (v4)."""
    asked = member(engine, enums.engine, "rand_set_state", "engine")
    state = _state(_engine(asked, Engine.GPSIMD))
    return issue(generators.SET_STATE, (src_seeds,), (asked,), name, Engine.GPSIMD, state=state)


def rand_get_state(dst: NkiTensor, engine: Any = enums.engine.gpsimd, name: str | None = None) -> NkiInstruction:
    """dst = the state of the generators of each partition, in the order that rand_set_state takes."""
    asked = member(engine, enums.engine, "rand_get_state", "engine")
    state = _state(_engine(asked, Engine.GPSIMD))
    return issue(generators.GET_STATE, (dst,), (asked,), name, Engine.GPSIMD, state=state)
