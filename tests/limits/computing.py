"""Calls that break a limit: products, elementwise work and reductions; each with what the error says."""

from __future__ import annotations

import sim.nki.language as nl
from sim.nki import isa as nisa
from sim.nki.functions import AluOp
from tests.limits.tiles import flags, half

V, S, G = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd
DOUBLE = nisa.matmul_perf_mode.double_row
RESET_REDUCE, LOAD_REDUCE = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.load_reduce
BIT, ADD, MAX, EXP = nl.bitwise_and, nl.add, nl.maximum, nl.exp

CASES = {
    # Tensor Engine
    "nc_matmul": [
        (lambda t: nisa.nc_matmul(t.s(64, 64), t.s(64, 64), t.s(64, 64)), "dst: a tile in SBUF, must be in PSUM"),
        (
            lambda t: nisa.nc_matmul(t.p(64, 64), t.p(64, 64), t.s(64, 64)),
            "stationary: a tile in PSUM, must be in SBUF",
        ),
        (lambda t: nisa.nc_matmul(t.p(64, 64), t.s(64, 64), t.h(64, 64)), "moving: a tile in HBM, must be in SBUF"),
        (lambda t: nisa.nc_matmul(t.p(64, 64), t.s(32, 64), t.s(64, 64)), "moving: 64 partitions, stationary has 32"),
        (lambda t: nisa.nc_matmul(t.p(128, 64), t.s(64, 129), t.s(64, 64)), "stationary: free size 129 > 128"),
        (lambda t: nisa.nc_matmul(t.p(64, 513), t.s(64, 64), t.s(64, 513)), "moving: free size 513 > 512"),
        (
            lambda t: nisa.nc_matmul(t.p(32, 64), t.s(64, 64), t.s(64, 64)),
            "dst: 32 partitions, the stationary tile has 64",
        ),
        (
            lambda t: nisa.nc_matmul(t.p(64, 32), t.s(64, 64), t.s(64, 64)),
            "dst: 32 elements a partition, the moving tile",
        ),
        (
            lambda t: nisa.nc_matmul(t.p(64, 64), half(t, 64, 64), t.s(64, 64)),
            "moving: dtype float32 with stationary bfloat16",
        ),
        (lambda t: nisa.nc_matmul(t.p(8, 8), t.s(8, 8, dtype="int32"), t.s(8, 8)), "stationary: dtype int32, must be"),
        (
            lambda t: nisa.nc_matmul(t.p(8, 8, dtype="bfloat16"), t.s(8, 8), t.s(8, 8)),
            "dst: dtype bfloat16, must be float32",
        ),
        (
            lambda t: nisa.nc_matmul(t.p(8, 8), *(t.s(8, 2, 8, dtype="bfloat16") for _ in "ab"), perf_mode=DOUBLE),
            "stationary: dtype bfloat16, must be float8_e4m3",
        ),
        (
            lambda t: nisa.nc_matmul(t.p(8, 8), *(t.s(8, 8, dtype="float8_e4m3") for _ in "ab"), perf_mode=DOUBLE),
            r"stationary: shape \[8, 8\], double_row needs \[K, 2, free\]",
        ),
        (
            lambda t: nisa.nc_matmul(t.p(8, 8), t.s(8, 8), t.s(8, 8), tile_size=(32, 128)),
            "tile_position and tile_size must be given together",
        ),
        (
            lambda t: nisa.nc_matmul(t.p(8, 8), t.s(8, 8), t.s(8, 8), tile_position=(16, 0), tile_size=(32, 128)),
            "tile_position: start_row 16 is no multiple of row_size 32",
        ),
        (
            lambda t: nisa.nc_matmul(t.p(8, 8), t.s(64, 8), t.s(64, 8), tile_position=(0, 0), tile_size=(32, 128)),
            "stationary: partition 64 > row_size 32",
        ),
        (
            lambda t: nisa.nc_matmul(t.p(8, 8), t.s(8, 8), t.s(8, 8), tile_position=(0, 96), tile_size=(64, 64)),
            "tile_position: start_column 96 is no multiple of column_size 64",
        ),
        (
            lambda t: nisa.nc_matmul(t.p(8, 8), t.s(8, 8), t.s(8, 8), tile_position=(0, 128), tile_size=(64, 64)),
            "tile_position: start_column 128 is no multiple of column_size 64 below 128",
        ),
        (lambda t: nisa.nc_matmul(t.p(8, 8), t.s(8, 8), 3.0), "operand 2 is 3.0 of type float, must be a tensor"),
        (
            lambda t: nisa.nc_matmul(t.p(8, 8), t.s(8, 8), t.s(8, 8), perf_mode="triple_row"),
            "perf_mode: 'triple_row', must be one of matmul_perf_mode.none",
        ),
    ],
    "nc_transpose": [
        (lambda t: nisa.nc_transpose(t.p(128, 128), t.s(128, 256)), "data: free size 256 > 128"),
        (
            lambda t: nisa.nc_transpose(t.p(64, 64), t.s(64, 32)),
            r"dst: shape \[64, 64\], the transpose of data \[64, 32\]",
        ),
        (lambda t: nisa.nc_transpose(t.p(64, 64), half(t, 64, 64)), "dst: dtype float32, data has bfloat16"),
        (lambda t: nisa.nc_transpose(t.s(64, 16), t.s(16, 64)), "dst: a tile in SBUF, must be in PSUM"),
        (lambda t: nisa.nc_transpose(t.s(64, 64), t.s(64, 64), engine=V), "data: 64 x 64 > 32 x 32"),
        (lambda t: nisa.nc_transpose(t.s(64, 64), t.s(64, 64), engine=G), "engine: gpsimd, must be tensor or vector"),
    ],
    # elementwise
    "tensor_copy": [
        (lambda t: nisa.tensor_copy(t.h(8, 8), t.s(8, 8)), "dst: a tile in HBM, must be in SBUF or PSUM"),
        (lambda t: nisa.tensor_copy(t.s(8, 8), t.s(16, 8)), "dst: 8 partitions, src has 16"),
        (lambda t: nisa.tensor_copy(t.s(8, 8), t.s(8, 9)), "dst: 8 elements a partition, src has 9"),
        (
            lambda t: nisa.tensor_copy(t.s(8, 8), t.p(8, 8), engine=G),
            "src: a tile in PSUM, GpSimd reads and writes SBUF only",
        ),
        (
            lambda t: nisa.tensor_copy(t.s(8, 8), t.s(8, 8), engine=nisa.engine.tensor),
            "engine: tensor, must be vector or scalar",
        ),
        (
            lambda t: nisa.tensor_copy(t.s(8, 8), t.s(8, 8, dtype="float8_e4m3fn_x4")),
            "dst: dtype float32, src has float8_e4m3fn_x4",
        ),
        (
            lambda t: nisa.tensor_copy(t.s(8, 8, dtype="uint32"), t.s(8, 8, dtype="float8_e4m3fn_x4")),
            "dst: dtype uint32, src has float8_e4m3fn_x4",
        ),
    ],
    "memset": [
        (lambda t: nisa.memset(t.h(8, 8), 0), "dst: a tile in HBM"),
        (lambda t: nisa.memset(t.p(8, 8), 0, engine=G), "dst: a tile in PSUM, GpSimd"),
        (lambda t: nisa.memset(t.s(8, 8), 0, engine=S), "engine: scalar, must be vector or gpsimd"),
        (lambda t: nisa.memset(t.s(8, 8, dtype="float8_e5m2_x4"), 1), "value: only 0 can fill float8_e5m2_x4"),
        (lambda t: nisa.memset(t.s(8, 8), "one"), "value: 'one' is neither a number nor a tile"),
    ],
    "tensor_tensor": [
        (lambda t: nisa.tensor_tensor(t.s(8, 8), t.p(8, 8), t.p(8, 8), ADD), "data1 and data2: both in PSUM"),
        (
            lambda t: nisa.tensor_tensor(t.s(8, 8), t.s(8, 8), t.s(8, 4), ADD),
            "data2: 4 elements a partition, data1 has 8",
        ),
        (
            lambda t: nisa.tensor_tensor(t.s(8, 8), t.s(8, 8), t.s(8, 8), BIT),
            "dst: dtype float32, a bit-vector operator needs",
        ),
        (lambda t: nisa.tensor_tensor(t.s(8, 8), t.s(8, 8), t.s(8, 8), AluOp("abs")), "op: abs takes one operand"),
        (
            lambda t: nisa.tensor_tensor(t.s(8, 8), t.s(8, 8), t.s(8, 8), nl.copy),
            "op: copy takes one operand",
        ),
        (lambda t: nisa.tensor_tensor(t.s(8, 8), t.s(8, 8), t.p(8, 8), nl.power), "data2: a tile in PSUM, GpSimd"),
        (
            lambda t: nisa.tensor_tensor(t.s(8, 8), t.s(8, 8), t.s(8, 8), nl.power, engine=V),
            "power runs on gpsimd only",
        ),
        (lambda t: nisa.tensor_tensor(t.s(8, 8), t.s(8, 8), t.s(8, 8), "add"), "op: 'add' is no ALU operator"),
        (lambda t: nisa.tensor_tensor(t.s(8, 8), t.s(8, 8), t.s(8, 8), EXP), "op: exp is no ALU operator"),
    ],
    "tensor_scalar": [
        (
            lambda t: nisa.tensor_scalar(t.s(8, 8), t.s(8, 8), ADD, t.s(8, 2)),
            r"operand0: shape \[8, 2\], must be a number or",
        ),
        (lambda t: nisa.tensor_scalar(t.s(8, 8), t.s(8, 8), ADD, t.s(4, 1)), r"operand0: shape \[4, 1\]"),
        (
            lambda t: nisa.tensor_scalar(t.s(8, 8), t.s(8, 8), ADD, half(t, 8, 1)),
            "operand0: dtype bfloat16, must be float32",
        ),
        (lambda t: nisa.tensor_scalar(t.s(8, 8), t.s(8, 8), ADD, None), "operand0: missing for add"),
        (lambda t: nisa.tensor_scalar(t.s(8, 8), t.s(8, 8), ADD, 1.0, operand1=2.0), "operand1 is given without op1"),
        (
            lambda t: nisa.tensor_scalar(*(flags(t, 8, 8) for _ in "ab"), BIT, 1, op1=ADD, operand1=1),
            "op0 and op1: bitwise_and and add mix",
        ),
        (
            lambda t: nisa.tensor_scalar(*(flags(t, 8, 8) for _ in "ab"), BIT, 1, engine=G),
            "bit-vector operators run on vector",
        ),
        (
            lambda t: nisa.tensor_scalar(t.s(8, 8), t.s(8, 8), MAX, 1.0, engine=S),
            "op0, op1: maximum, bypass; the Scalar Engine",
        ),
    ],
    "scalar_tensor_tensor": [
        (
            lambda t: nisa.scalar_tensor_tensor(t.s(8, 8), t.p(8, 8), ADD, 1.0, ADD, t.p(8, 8)),
            "data and operand1: both in PSUM",
        ),
        (
            lambda t: nisa.scalar_tensor_tensor(*(flags(t, 8, 8) for _ in "ab"), BIT, 1, BIT, flags(t, 8, 8)),
            "arithmetic operators",
        ),
        (
            lambda t: nisa.scalar_tensor_tensor(t.s(8, 8), t.s(8, 8), ADD, 1.0, ADD, t.s(8, 1)),
            "operand1: 1 elements a partition",
        ),
        (
            lambda t: nisa.scalar_tensor_tensor(t.s(8, 8), t.s(8, 8), ADD, None, ADD, t.s(8, 8)),
            "operand0: None is neither",
        ),
    ],
    "reciprocal": [(lambda t: nisa.reciprocal(t.s(8, 8), t.s(8, 4)), "dst: 8 elements a partition, data has 4")],
    # reductions
    "tensor_reduce": [
        (lambda t: nisa.tensor_reduce(t.s(8, 1), ADD, t.s(8, 4, 4), 1), r"axis: \(1,\) of data \[8, 4, 4\]"),
        (lambda t: nisa.tensor_reduce(t.s(8, 1), ADD, t.s(8, 4), 0), r"axis: \(0,\)"),
        (
            lambda t: nisa.tensor_reduce(t.s(8, 2), ADD, t.s(8, 4), 1),
            r"dst: 2 elements a partition, reducing axis \(1,\)",
        ),
        (lambda t: nisa.tensor_reduce(t.s(8, 1), nl.less, t.s(8, 4), 1), "op: less is no legal reduction"),
        (
            lambda t: nisa.tensor_reduce(flags(t, 8, 1), BIT, flags(t, 8, 4), 1, negate=True),
            "negate: True with the bit-vector",
        ),
    ],
    "tensor_tensor_scan": [
        (
            lambda t: nisa.tensor_tensor_scan(t.s(8, 8), t.p(8, 8), t.p(8, 8), 0.0, ADD, ADD),
            "data0 and data1: both in PSUM",
        ),
        (lambda t: nisa.tensor_tensor_scan(t.s(8, 8), t.s(8, 8), t.s(8, 8), t.s(8, 2), ADD, ADD), "initial: shape"),
        (lambda t: nisa.tensor_tensor_scan(t.s(8, 8), t.s(8, 8), t.s(8, 8), 0.0, BIT, ADD), "bitwise_and and add mix"),
    ],
    "tensor_scalar_cumulative": [
        (
            lambda t: nisa.tensor_scalar_cumulative(t.s(8, 8), t.s(8, 8), ADD, nl.power, 1.0),
            "op1: power, must be one of add",
        ),
        (
            lambda t: nisa.tensor_scalar_cumulative(t.s(8, 8), t.s(8, 8, dtype="int32"), ADD, ADD, 1.0),
            "src: dtype int32, 32-bit integers are not supported",
        ),
        (
            lambda t: nisa.tensor_scalar_cumulative(t.s(8, 8), t.s(8, 8), ADD, ADD, 1.0, reduce_cmd=LOAD_REDUCE),
            "imm1: missing for load_reduce",
        ),
    ],
    "tensor_scalar_reduce": [
        (
            lambda t: nisa.tensor_scalar_reduce(t.s(8, 8), t.s(8, 8), ADD, 1.0, nl.less),
            "reduce_op: less, must be one of add",
        ),
        (
            lambda t: nisa.tensor_scalar_reduce(t.s(8, 8), t.s(8, 8), ADD, 1.0, ADD, reverse0=True),
            "reverse0: True is not",
        ),
        (
            lambda t: nisa.tensor_scalar_reduce(t.s(8, 8), t.s(8, 8), ADD, 1.0, ADD, reduce_init=1.0),
            "reduce_init: given with reset_reduce",
        ),
        (
            lambda t: nisa.tensor_scalar_reduce(t.s(8, 8), t.s(8, 8), ADD, 1.0, ADD, t.s(8, 2)),
            r"reduce_res: shape \[8, 2\]",
        ),
        (
            lambda t: nisa.tensor_scalar_reduce(*(flags(t, 8, 8) for _ in "ab"), BIT, 1, ADD),
            "op0: bitwise_and, must be an arith",
        ),
    ],
    "bn_stats": [
        (lambda t: nisa.bn_stats(t.s(8, 6), t.s(8, 513)), "data: 513 elements a partition > 512"),
        (lambda t: nisa.bn_stats(t.s(8, 5), t.s(8, 64)), "dst: 5 elements a partition < 6"),
    ],
    "bn_aggr": [(lambda t: nisa.bn_aggr(t.s(8, 2), t.s(8, 7)), "data: 7 elements a partition, no multiple of 3")],
}
