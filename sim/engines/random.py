"""Random numbers of the Vector and GpSimd engines: XORWOW generators, one or more in each lane."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim import dtypes
from sim.engines import checks, laws, values
from sim.engines.checks import fail
from sim.engines.vector import chosen, reachable
from sim.memory import PARTITIONS, Layout
from sim.program import Cost, Form, Op, Role
from sim.spec import Device
from sim.trace import Engine

STATE_WORDS = 6
"""Five words of xorshift and a counter (Marsaglia 2003)."""
GENERATORS = {Engine.GPSIMD: 1, Engine.VECTOR: 4}
"""In each lane; with their state words 6 and 24, as nki.isa.rand_set_state documents."""
WEYL = np.uint32(362437)
"""Step of the counter (Marsaglia 2003)."""
UNIFORM_DTYPES = tuple(
    dtype
    for dtype in dtypes.DTYPES
    if dtype not in dtypes.PACKED | {dtypes.bool_, dtypes.float8_e8m0fnu, dtypes.float8_e4m3fn}
)
"""What rand2 may write."""
RANDOM_INTEGERS = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.uint8, dtypes.uint16, dtypes.uint32)


def seeded(engine: Engine, seed: int) -> np.ndarray:
    """uint32[128, generators, 6]; how the hardware spreads one seed over its lanes is not documented."""
    source = np.random.default_rng(seed)
    return source.integers(1, 1 << 32, (PARTITIONS, GENERATORS[engine], STATE_WORDS), np.uint32)


def draw(state: np.ndarray, partitions: int, count: int) -> np.ndarray:
    """uint32[partitions, count] from the lanes' generators in turn; the state moves on."""
    lanes = state[:partitions]
    generators = lanes.shape[1]
    steps = -(-count // generators)
    out = np.empty((partitions, steps, generators), np.uint32)
    with np.errstate(over="ignore"):
        for step in range(steps):
            x, v = lanes[:, :, 0], lanes[:, :, 4]
            t = x ^ (x >> np.uint32(2))
            new = (v ^ (v << np.uint32(4))) ^ (t ^ (t << np.uint32(1)))
            lanes[:, :, :4] = lanes[:, :, 1:5].copy()
            lanes[:, :, 4] = new
            lanes[:, :, 5] += WEYL
            out[:, step] = new + lanes[:, :, 5]
    return out.reshape(partitions, -1)[:, :count]


def uniform(bits: np.ndarray) -> np.ndarray:
    """fp32 in [0, 1) from the upper 24 bits."""
    return (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def _cost(device: Device, engine: Engine, layouts: tuple[Layout, ...], elements: int, per_element: Any = 1) -> Cost:
    if engine is Engine.GPSIMD:
        return laws.gpsimd(device, layouts, elements)
    return laws.vector(device, layouts, elements, per_element)


def describe_rng(device: Device, layouts: tuple[Layout, ...], engine: str) -> Form:
    (dst,) = layouts
    checks.tile("dst", dst)
    checks.dtype_in("dst", dst, RANDOM_INTEGERS)
    runs_on = chosen(engine, (Engine.VECTOR, Engine.GPSIMD))
    if runs_on is Engine.GPSIMD:
        checks.generation(device, 3, "engine gpsimd")
    reachable(runs_on, dst=dst)
    return laws.form("rng", runs_on, "RNG", (Role.WRITE,), layouts, _cost(device, runs_on, layouts, dst.elements))


def compute_rng(arrays: list[np.ndarray], engine: str, state: np.ndarray) -> None:
    dst = arrays[0]
    bits = draw(state, dst.shape[0], dst.size // dst.shape[0])
    unsigned = np.dtype(f"u{dst.dtype.itemsize}")
    values.put(dst, bits.astype(unsigned).view(dst.dtype))


def describe_rand2(device: Device, layouts: tuple[Layout, ...], columns: tuple[bool, bool]) -> Form:
    dst, *vectors = layouts
    checks.generation(device, 4, "rand2")
    checks.tile("dst", dst)
    checks.dtype_in("dst", dst, UNIFORM_DTYPES)
    for name, layout in zip([n for n, c in zip(("min", "max"), columns, strict=True) if c], vectors, strict=False):
        checks.column(name, layout, dst)
        checks.dtype_in(name, layout, (dtypes.float32,))
    cost = laws.vector(device, layouts[:1], dst.elements, laws.CYCLES["rand2"])
    roles = (Role.WRITE,) + (Role.READ,) * len(vectors)
    return laws.form("rand2", Engine.VECTOR, "RAND2", roles, layouts, cost, elements=dst.elements)


@values.quiet
def compute_rand2(
    arrays: list[np.ndarray], columns: tuple[bool, bool], numbers: tuple[Any, Any], state: np.ndarray
) -> None:
    dst, *vectors = arrays
    low, high = (values.operand(None if c else n, vectors) for c, n in zip(columns, numbers, strict=True))
    share = uniform(draw(state, dst.shape[0], dst.size // dst.shape[0]))
    values.put(dst, low + (high - low) * share)


def describe_dropout(device: Device, layouts: tuple[Layout, ...], column: bool) -> Form:
    dst, data, *vectors = layouts
    checks.tile("dst", dst)
    checks.tile("data", data)
    checks.same_size("data", data, "dst", dst)
    checks.same_dtype("data", data, "dst", dst)
    if vectors:
        checks.column("prob", vectors[0], data)
        if data.dtype in dtypes.INTEGERS:
            checks.dtype_in("prob", vectors[0], (dtypes.float32,))
        elif not dtypes.is_float(vectors[0].dtype):
            fail(f"prob: dtype {checks.dtype_name(vectors[0].dtype)}, must be a float")
    cost = laws.vector(device, (dst, data), data.elements)
    roles = (Role.WRITE,) + (Role.READ,) * (len(layouts) - 1)
    return laws.form("dropout", Engine.VECTOR, "DROPOUT", roles, layouts, cost)


def compute_dropout(arrays: list[np.ndarray], column: bool, prob: Any, state: np.ndarray) -> None:
    dst, data, *vectors = arrays
    source = values.raw(data)
    dropped = uniform(draw(state, *source.shape)) < values.operand(None if column else prob, vectors)
    values.put(dst, np.where(dropped, np.zeros((), source.dtype), source))


def describe_seed(device: Device, layouts: tuple[Layout, ...]) -> Form:
    (seeds,) = layouts
    checks.tile("src_seeds", seeds)
    if seeds.partitions != 1 or seeds.elements != 1:
        fail(f"src_seeds: shape {list(seeds.shape)}, must be [1, 1]")
    if seeds.itemsize != dtypes.uint32.itemsize:
        fail(f"src_seeds: dtype {checks.dtype_name(seeds.dtype)}, must be a 32-bit number")
    cost = laws.vector(device, layouts, seeds.elements)
    return laws.form("set_rng_seed", Engine.VECTOR, "SET_RNG_SEED", (Role.READ,), layouts, cost)


def compute_seed(arrays: list[np.ndarray], state: np.ndarray) -> None:
    state[...] = seeded(Engine.VECTOR, int(np.ascontiguousarray(arrays[0]).view(np.uint32).reshape(-1)[0]))


def _describe_state(call: str, role: Role, name: str, device: Device, layouts: tuple[Layout, ...], engine: str) -> Form:
    (layout,) = layouts
    checks.generation(device, 3, call)
    runs_on = chosen(engine, (Engine.GPSIMD, Engine.VECTOR))
    if runs_on is Engine.VECTOR:
        checks.generation(device, 4, "engine vector")
    checks.tile(name, layout, checks.ON_CHIP if role is Role.WRITE and device.generation > 3 else checks.SBUF)
    reachable(runs_on, **{name: layout})
    checks.dtype_in(name, layout, (dtypes.uint32,))
    words = STATE_WORDS * GENERATORS[runs_on]
    checks.free_size(name, layout, words, words)
    return laws.form(call, runs_on, call.upper(), (role,), layouts, _cost(device, runs_on, layouts, words))


def describe_set_state(device: Device, layouts: tuple[Layout, ...], engine: str) -> Form:
    return _describe_state("rand_set_state", Role.READ, "src_seeds", device, layouts, engine)


def describe_get_state(device: Device, layouts: tuple[Layout, ...], engine: str) -> Form:
    return _describe_state("rand_get_state", Role.WRITE, "dst", device, layouts, engine)


def compute_set_state(arrays: list[np.ndarray], engine: str, state: np.ndarray) -> None:
    seeds = arrays[0]
    state[: seeds.shape[0]] = seeds.reshape(seeds.shape[0], -1, STATE_WORDS)


def compute_get_state(arrays: list[np.ndarray], engine: str, state: np.ndarray) -> None:
    values.put(arrays[0], state[: arrays[0].shape[0]].reshape(arrays[0].shape[0], -1))


RNG = Op("nki.isa.rng", describe_rng, compute_rng)
RAND2 = Op("nki.isa.rand2", describe_rand2, compute_rand2)
DROPOUT = Op("nki.isa.dropout", describe_dropout, compute_dropout)
SEED = Op("nki.isa.set_rng_seed", describe_seed, compute_seed)
SET_STATE = Op("nki.isa.rand_set_state", describe_set_state, compute_set_state)
GET_STATE = Op("nki.isa.rand_get_state", describe_get_state, compute_get_state)
