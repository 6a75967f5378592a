"""Sequencers: register moves, loads and stores, and barriers between cores."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.engines import checks, laws, values
from sim.engines.checks import fail
from sim.memory import Layout
from sim.program import Form, Op, Role
from sim.spec import Device
from sim.trace import Engine, Memory

REGISTER_BITS = 32


def describe_load(device: Device, layouts: tuple[Layout, ...], engine: Engine) -> Form:
    return _describe("register_load", "TENSOR_LOAD", "src", Role.READ, device, layouts, engine)


def describe_store(device: Device, layouts: tuple[Layout, ...], engine: Engine) -> Form:
    return _describe("register_store", "TENSOR_STORE", "dst", Role.WRITE, device, layouts, engine)


def _describe(
    call: str, opcode: str, name: str, role: Role, device: Device, layouts: tuple[Layout, ...], engine: Engine
) -> Form:
    (layout,) = layouts
    if layout.memory not in (Memory.HBM, Memory.SBUF):
        fail(f"{name}: a tensor in {layout.memory.name}, must be in HBM or SBUF")
    count = layout.nbytes // layout.itemsize
    if count != 1:
        fail(f"{name}: {count} elements, a register holds 1")
    checks.one_of(f"{name}: bits", layout.itemsize * 8, (8, 16, REGISTER_BITS))
    return laws.form(call, engine, opcode, (role,), layouts, laws.sequencer(device))


def compute_load(arrays: list[np.ndarray], engine: Engine) -> None:
    """The value goes to the register's holder, not to memory."""


def compute_store(arrays: list[np.ndarray], engine: Engine, value: Any) -> None:
    values.put(arrays[0], np.full(arrays[0].shape, values.integer(value, np.dtype(np.int32)), np.int32))


def describe_move(device: Device, layouts: tuple[Layout, ...], engine: Engine) -> Form:
    cost = laws.sequencer(device)
    return Form("nki.isa.register_move", engine, "WRITE", (), (), cost)


def describe_branch(device: Device, layouts: tuple[Layout, ...], engine: Engine) -> Form:
    return Form("nki.language.fori_loop", engine, "BRANCH", (), (), laws.sequencer(device))


def compute_move(arrays: list[np.ndarray], engine: Engine) -> None:
    """The value goes to the register's holder."""


LOAD = Op("nki.isa.register_load", describe_load, compute_load)
STORE = Op("nki.isa.register_store", describe_store, compute_store)
MOVE = Op("nki.isa.register_move", describe_move, compute_move)
BRANCH = Op("nki.language.fori_loop", describe_branch, None)
