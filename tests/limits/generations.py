"""Calls that break a limit of one device: (device, call, what breaks it, what the error says)."""

from __future__ import annotations

import sim.nki.language as nl
from sim.nki import isa as nisa
from tests.limits.tiles import flags, half

V, S, G = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd
DOUBLE = nisa.matmul_perf_mode.double_row
RESET_REDUCE, LOAD_REDUCE = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.load_reduce
BIT, ADD, MAX, EXP = nl.bitwise_and, nl.add, nl.maximum, nl.exp

CASES = [
    (
        "trn1",
        "nc_matmul",
        lambda t: nisa.nc_matmul(t.p(8, 8), *(t.s(8, 2, 8, dtype="float8_e4m3") for _ in "ab"), perf_mode=DOUBLE),
        "perf_mode double_row: needs NeuronCore-v3 or newer, trn1 has NeuronCore-v2",
    ),
    (
        "trn1",
        "nc_matmul",
        lambda t: nisa.nc_matmul(t.p(8, 8), t.s(8, 8), t.s(8, 8), tile_position=(0, 0), tile_size=(32, 128)),
        "tile_size: row_size: 32, must be one of 64, 128",
    ),
    (
        "trn1",
        "tensor_copy",
        lambda t: nisa.tensor_copy(t.s(8, 8), t.s(8, 8), engine=S),
        "engine scalar: needs NeuronCore-v3",
    ),
    (
        "trn1",
        "tensor_scalar",
        lambda t: nisa.tensor_scalar(t.s(8, 8), t.s(8, 8), ADD, 1.0, engine=S),
        "engine scalar: needs",
    ),
    (
        "trn1",
        "activation",
        lambda t: nisa.activation(t.s(8, 8), EXP, t.s(8, 8), bias=1.0),
        "bias: a number, NeuronCore-v2 takes",
    ),
    (
        "trn1",
        "range_select",
        lambda t: nisa.range_select(t.s(8, 8), t.s(8, 8), nl.less, nl.less, t.s(8, 1), t.s(8, 1)),
        "range_select: needs NeuronCore-v3",
    ),
    (
        "trn1",
        "nonzero_with_count",
        lambda t: nisa.nonzero_with_count(t.s(16, 9, dtype="int32"), t.s(16, 8)),
        "needs NeuronCore-v3",
    ),
    ("trn1", "rng", lambda t: nisa.rng(t.s(8, 8, dtype="int32"), engine=G), "engine gpsimd: needs NeuronCore-v3"),
    (
        "trn1",
        "dma_copy",
        lambda t: nisa.dma_copy(t.s(8, 8), t.h(8, 8), dge_mode=nisa.dge_mode.hwdge),
        "dge_mode: hwdge needs",
    ),
    (
        "trn2",
        "nc_matmul_mx",
        lambda t: nisa.nc_matmul_mx(
            t.p(32, 32), *(t.s(32, 32, dtype="float8_e5m2_x4") for _ in "ab"), *(flags(t, 32, 32) for _ in "ab")
        ),
        "nc_matmul_mx: needs NeuronCore-v4",
    ),
    (
        "trn2",
        "quantize_mx",
        lambda t: nisa.quantize_mx(t.s(32, 8, dtype="float8_e5m2_x4"), half(t, 32, 32), flags(t, 32, 8)),
        "quantize_mx: needs NeuronCore-v4",
    ),
    ("trn2", "exponential", lambda t: nisa.exponential(t.s(8, 8), t.s(8, 8)), "exponential: needs NeuronCore-v4"),
    (
        "trn2",
        "activate2",
        lambda t: nisa.activate2(t.s(8, 8), EXP, t.s(8, 8), 1.0, 1.0, nl.multiply, ADD),
        "activate2: needs",
    ),
    ("trn2", "rand2", lambda t: nisa.rand2(t.s(8, 8), 0.0, 1.0), "rand2: needs NeuronCore-v4"),
    (
        "trn3",
        "nc_matmul",
        lambda t: nisa.nc_matmul(t.p(8, 8), t.s(8, 8, dtype="float8_e4m3"), t.s(8, 8, dtype="float8_e4m3fn")),
        "float8_e4m3 and float8_e4m3fn cannot meet",
    ),
    (
        "trn3",
        "nc_matmul",
        lambda t: nisa.nc_matmul(t.p(8, 4097), t.s(8, 8), t.s(8, 4097)),
        "moving: free size 4097 > 4096",
    ),
    (
        "trn3",
        "nc_matmul_mx",
        lambda t: nisa.nc_matmul_mx(
            t.p(31, 32),
            t.s(32, 31, dtype="float8_e5m2_x4"),
            t.s(32, 32, dtype="float8_e5m2_x4"),
            flags(t, 32, 31),
            flags(t, 32, 32),
        ),
        "stationary: free size 31 is odd",
    ),
    (
        "trn3",
        "nc_matmul_mx",
        lambda t: nisa.nc_matmul_mx(
            t.p(32, 32), *(t.s(128, 32, dtype="float8_e5m2_x4") for _ in "ab"), flags(t, 96, 32), flags(t, 128, 32)
        ),
        "stationary_scale: partition 96 < 100",
    ),
    (
        "trn3",
        "quantize_mx",
        lambda t: nisa.quantize_mx(t.s(32, 8, dtype="float8_e5m2_x4"), t.s(32, 32), flags(t, 32, 8)),
        "src: dtype float32, must be float16 or bfloat16",
    ),
    (
        "trn3",
        "activate2",
        lambda t: nisa.activate2(t.s(8, 8), EXP, t.s(8, 8), 1.0, 1.0, ADD, nl.multiply),
        "op0, op1: add, multiply",
    ),
    ("trn3", "dma_copy", lambda t: nisa.dma_copy(t.s(8, 8), t.h(8, 8), priority=4), "priority: 4, must be 0 to 3"),
    (
        "trn3",
        "activate2",
        lambda t: nisa.activate2(t.s(8, 8), EXP, t.s(8, 8), 1.0, 1.0, nl.multiply, None, reverse1=True),
        "reverse1: True without op1",
    ),
    (
        "trn3",
        "activate2",
        lambda t: nisa.activate2(t.s(8, 8), EXP, t.s(8, 8), 1.0, 1.0, None, None, reverse0=True),
        "reverse0: True without op0",
    ),
]
