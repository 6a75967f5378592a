"""Constraints of the instructions that copy, fill and combine tiles elementwise."""

from __future__ import annotations

import sim.nki.language as nl
from sim.nki import isa as nisa
from sim.nki.functions import AluOp
from tests.limits.limit import Limit, Table, newer
from tests.limits.tiles import ADD, BIT, EXP, MAX, MUL, X4, G, S, T, V, flags

ABS, RSQRT = AluOp("abs"), nl.rsqrt


def scaled(t, op=ADD, operand=1.0, **named):
    return nisa.tensor_scalar(t.s(8, 8), t.s(8, 8), op, operand, **named)


def fused(t, data="sbuf", operand0=1.0, op0=ADD, op1=ADD, shape=(8, 8), second="psum"):
    return nisa.scalar_tensor_tensor(t.s(8, 8), t.at(data, 8, 8), op0, operand0, op1, t.at(second, *shape))


COPY = [
    Limit(
        "a pattern has four free dimensions",
        lambda t, order: nisa.tensor_copy(t.s(8, 32), t.s(8, 2, 2, 2, 2, 2).permute(order)),
        (0, 5, 4, 3, 2, 1),
        (0, 1, 2, 5, 4, 3),
        "src | 5 free dimensions | at most 4",
    ),
    Limit(
        "an access starts at a quadrant, where the kernel chose the place",
        lambda t, first: nisa.tensor_copy(t.s(8, 8), nl.ndarray((8, 8), nl.float32, address=(first, 0))),
        8,
        64,
        "src | at partition 8 | must start at 0, 32, 64, 96",
    ),
    Limit(
        "both tiles are on chip",
        lambda t, m: nisa.tensor_copy(t.at(m, 8, 8), t.s(8, 8)),
        "hbm",
        "psum",
        "dst | HBM | must be in SBUF or PSUM",
    ),
    Limit(
        "both tiles have as many partitions",
        lambda t, p: nisa.tensor_copy(t.s(8, 8), t.s(p, 8)),
        16,
        8,
        "dst | 8 partitions | src has 16",
    ),
    Limit(
        "both tiles have as many elements a partition",
        lambda t, n: nisa.tensor_copy(t.s(8, 8), t.s(8, n)),
        9,
        8,
        "dst | 8 elements | src has 9",
    ),
    Limit(
        "GpSimd does not reach PSUM",
        lambda t, m: nisa.tensor_copy(t.s(8, 8), t.at(m, 8, 8), engine=G),
        "psum",
        "sbuf",
        "src | PSUM | SBUF only",
    ),
    Limit(
        "the Tensor Engine does not copy",
        lambda t, e: nisa.tensor_copy(t.s(8, 8), t.s(8, 8), engine=e),
        T,
        S,
        "engine | tensor | vector or scalar or gpsimd",
    ),
    newer(lambda t: nisa.tensor_copy(t.s(8, 8), t.s(8, 8), engine=S), "engine scalar", "trn1", 3, "trn2"),
    Limit(
        "packed numbers are copied as they are",
        lambda t, d: nisa.tensor_copy(t.s(8, 8, dtype=d), t.s(8, 8, dtype=X4)),
        "uint32",
        X4,
        "dst | uint32 | float8_e5m2_x4",
    ),
    Limit(
        "an access of up to 32 partitions starts at a quadrant",
        lambda t, start: nisa.tensor_copy(t.s(8, 8), t.s(128, 8)[start : start + 8]),
        16,
        32,
        "src | partition 16 | must start at 0, 32, 64, 96",
    ),
    Limit(
        "an access of more than 64 partitions starts at 0",
        lambda t, start: nisa.tensor_copy(t.s(96, 8), t.s(128, 8)[start : start + 96]),
        32,
        0,
        "src | partition 32 | must start at 0",
    ),
    Limit(
        "an operand holds something",
        lambda t, n: nisa.tensor_copy(t.s(8, 1), t.s(8, 8)[:, :n]),
        0,
        1,
        "storage | [8, 0] | at least 1",
    ),
]

MEMSET = [
    Limit("the tile is on chip", lambda t, m: nisa.memset(t.at(m, 8, 8), 0), "hbm", "psum", "dst | HBM | must be in"),
    Limit(
        "GpSimd does not reach PSUM",
        lambda t, m: nisa.memset(t.at(m, 8, 8), 0, engine=G),
        "psum",
        "sbuf",
        "dst | PSUM | SBUF only",
    ),
    Limit(
        "Vector or GpSimd fills",
        lambda t, e: nisa.memset(t.s(8, 8), 0, engine=e),
        S,
        G,
        "engine | scalar | vector or gpsimd",
    ),
    Limit(
        "only 0 fills packed numbers",
        lambda t, x: nisa.memset(t.s(8, 8, dtype=X4), x),
        1,
        0,
        "value | float8_e5m2_x4 | only 0",
    ),
    Limit(
        "the value is a number",
        lambda t, x: nisa.memset(t.s(8, 8), x),
        "one",
        1,
        "value | 'one' | neither a number nor a tile",
    ),
]

TENSOR_TENSOR = [
    Limit(
        "one operand at most is in PSUM",
        lambda t, m: nisa.tensor_tensor(t.s(8, 8), t.p(8, 8), t.at(m, 8, 8), ADD),
        "psum",
        "sbuf",
        "data1 and data2 | both in PSUM | at most one",
    ),
    Limit(
        "both tiles have as many elements",
        lambda t, n: nisa.tensor_tensor(t.s(8, 8), t.s(8, 8), t.s(8, n), ADD),
        4,
        8,
        "data2 | 4 elements | data1 has 8",
    ),
    Limit(
        "both tiles have as many partitions",
        lambda t, p: nisa.tensor_tensor(t.s(8, 8), t.s(8, 8), t.s(p, 8), ADD),
        4,
        8,
        "data2 | 4 partitions | data1 has 8",
    ),
    Limit(
        "bit-vector operators work on integers",
        lambda t, d: nisa.tensor_tensor(t.s(8, 8, dtype=d), *t.two(8, 8, dtype="int32"), BIT),
        "float32",
        "int32",
        "dst | float32 | integers",
    ),
    Limit(
        "the operator takes two operands",
        lambda t, op: nisa.tensor_tensor(t.s(8, 8), *t.two(8, 8), op),
        ABS,
        MAX,
        "op | abs | binary operator",
    ),
    Limit(
        "the operator is one of the ALU",
        lambda t, op: nisa.tensor_tensor(t.s(8, 8), *t.two(8, 8), op),
        EXP,
        MUL,
        "op | exp | ALU operator",
    ),
    Limit(
        "the operator is no word",
        lambda t, op: nisa.tensor_tensor(t.s(8, 8), *t.two(8, 8), op),
        "add",
        ADD,
        "op | 'add' | known: add, subtract",
    ),
    Limit(
        "power, on GpSimd, reads SBUF",
        lambda t, m: nisa.tensor_tensor(t.s(8, 8), t.s(8, 8), t.at(m, 8, 8), nl.power),
        "psum",
        "sbuf",
        "data2 | PSUM | SBUF only",
    ),
    Limit(
        "power runs on GpSimd",
        lambda t, e: nisa.tensor_tensor(t.s(8, 8), *t.two(8, 8), nl.power, engine=e),
        V,
        G,
        "engine | vector | gpsimd only",
    ),
    Limit(
        "Vector or GpSimd combines",
        lambda t, e: nisa.tensor_tensor(t.s(8, 8), *t.two(8, 8), ADD, engine=e),
        S,
        V,
        "engine | scalar | vector or gpsimd",
    ),
    Limit(
        "packed numbers are no operands",
        lambda t, d: nisa.tensor_tensor(t.s(8, 8), t.s(8, 8), t.s(8, 8, dtype=d), ADD),
        X4,
        "uint32",
        "data2 | float8_e5m2_x4 | nc_matmul_mx only",
    ),
    Limit(
        "abs_max comes with v4",
        lambda t, _: nisa.tensor_tensor(t.s(8, 8), *t.two(8, 8), nl.abs_max),
        None,
        None,
        "op | abs_max | NeuronCore-v4",
        "trn2",
        "trn3",
    ),
]

TENSOR_SCALAR = [
    Limit(
        "an operand is a number or a column",
        lambda t, n: scaled(t, operand=t.s(8, n)),
        2,
        1,
        "operand0 | [8, 2] | [8, 1]",
    ),
    Limit(
        "a column has data's partitions",
        lambda t, p: scaled(t, operand=t.s(p, 1)),
        4,
        8,
        "operand0 | [4, 1] | [8, 1]",
    ),
    Limit(
        "a column is fp32",
        lambda t, d: scaled(t, operand=t.s(8, 1, dtype=d)),
        "bfloat16",
        "float32",
        "operand0 | bfloat16 | must be float32",
    ),
    Limit(
        "the second column is fp32",
        lambda t, d: scaled(t, op1=MUL, operand1=t.s(8, 1, dtype=d)),
        "bfloat16",
        "float32",
        "operand1 | bfloat16 | must be float32",
    ),
    Limit(
        "a binary operator has its operand",
        lambda t, x: scaled(t, operand=x),
        None,
        1.0,
        "operand0 | missing | for add",
    ),
    Limit(
        "a second operand has its operator",
        lambda t, op: scaled(t, op1=op, operand1=2.0),
        None,
        MUL,
        "operand1 | is given | without op1",
    ),
    Limit(
        "a unary operator has no operand",
        lambda t, x: scaled(t, RSQRT, x),
        2.0,
        0.0,
        "operand0 | 2.0 | None or 0",
    ),
    Limit(
        "a unary operator has no column either",
        lambda t, tile: scaled(t, ABS, t.s(8, 1) if tile else None),
        True,
        False,
        "operand0 | a tile | None or 0",
    ),
    Limit(
        "bit-vector and arithmetic operators do not mix",
        lambda t, op: nisa.tensor_scalar(flags(t, 8, 8), flags(t, 8, 8), BIT, 1, op1=op, operand1=1),
        ADD,
        nl.left_shift,
        "op0 and op1 | bitwise_and and add | mix",
    ),
    Limit(
        "bit-vector operators run on Vector",
        lambda t, e: nisa.tensor_scalar(flags(t, 8, 8), flags(t, 8, 8), BIT, 1, engine=e),
        G,
        V,
        "engine | gpsimd | vector only",
    ),
    Limit(
        "bit-vector operators work on integers",
        lambda t, d: nisa.tensor_scalar(t.s(8, 8, dtype=d), flags(t, 8, 8), BIT, 1),
        "float32",
        "uint8",
        "dst | float32 | integers",
    ),
    Limit(
        "the Scalar Engine multiplies and adds",
        lambda t, op: scaled(t, op, engine=S),
        MAX,
        MUL,
        "op0 | maximum | multiply, add, and multiply then add",
    ),
    Limit(
        "GpSimd has few operators",
        lambda t, op: scaled(t, op, 0.0, engine=G),
        MAX,
        RSQRT,
        "op0 on gpsimd | maximum | rsqrt",
    ),
    newer(lambda t: scaled(t, engine=S), "engine scalar", "trn1", 3, "trn2"),
    Limit(
        "GpSimd does not reach PSUM",
        lambda t, m: nisa.tensor_scalar(t.s(8, 8), t.at(m, 8, 8), RSQRT, None, engine=G),
        "psum",
        "sbuf",
        "data | PSUM | SBUF only",
    ),
    Limit(
        "packed numbers are no operands",
        lambda t, d: nisa.tensor_scalar(t.s(8, 8, dtype=d), t.s(8, 8), ADD, 1.0),
        X4,
        "uint32",
        "dst | float8_e5m2_x4 | nc_matmul_mx only",
    ),
    Limit(
        "an operand is no word",
        lambda t, x: scaled(t, operand=x),
        "one",
        1,
        "operand0 | 'one' | neither a number nor a tile",
    ),
]

SCALAR_TENSOR_TENSOR = [
    Limit(
        "one tile at most is in PSUM",
        lambda t, m: fused(t, m),
        "psum",
        "sbuf",
        "data and operand1 | both in PSUM | at most one",
    ),
    Limit(
        "the operators are arithmetic",
        lambda t, op: fused(t, op0=op, op1=op, operand0=1),
        BIT,
        MUL,
        "op0, op1 | bitwise_and | arithmetic operators only",
    ),
    Limit(
        "operand1 has data's shape",
        lambda t, n: fused(t, shape=(8, n)),
        1,
        8,
        "operand1 | 1 elements | data has 8",
    ),
    Limit(
        "operand0 is a number or a column",
        lambda t, n: fused(t, operand0=t.s(8, n)),
        2,
        1,
        "operand0 | [8, 2] | [8, 1]",
    ),
    Limit(
        "operand0 is there",
        lambda t, x: fused(t, operand0=x),
        None,
        0,
        "operand0 | None | neither a number nor a tile",
    ),
]

RECIPROCAL = [
    Limit(
        "both tiles have as many elements",
        lambda t, n: nisa.reciprocal(t.s(8, 8), t.s(8, n)),
        4,
        8,
        "dst | 8 elements | data has 4",
    ),
    Limit(
        "data is on chip",
        lambda t, m: nisa.reciprocal(t.s(8, 8), t.at(m, 8, 8)),
        "hbm",
        "psum",
        "data | HBM | must be in SBUF or PSUM",
    ),
    Limit(
        "packed numbers are no operands",
        lambda t, d: nisa.reciprocal(t.s(8, 8), t.s(8, 8, dtype=d)),
        X4,
        "int8",
        "data | float8_e5m2_x4 | nc_matmul_mx only",
    ),
]

PREDICATED = [
    Limit(
        "src and predicate are not both in PSUM",
        lambda t, m: nisa.tensor_copy_predicated(t.s(8, 8), t.p(8, 8), t.at(m, 8, 8, dtype="uint8")),
        "psum",
        "sbuf",
        "src and predicate | both in PSUM | at most one",
    ),
    Limit(
        "a predicate is an unsigned integer",
        lambda t, d: nisa.tensor_copy_predicated(t.s(8, 8), t.s(8, 8), t.s(8, 8, dtype=d)),
        "int8",
        "uint32",
        "predicate | int8 | uint8 or uint16 or uint32",
    ),
    Limit(
        "src has dst's dtype",
        lambda t, d: nisa.tensor_copy_predicated(t.s(8, 8), t.s(8, 8, dtype=d), flags(t, 8, 8)),
        "bfloat16",
        "float32",
        "dst | float32 | src has bfloat16",
    ),
    Limit(
        "all tiles have as many elements",
        lambda t, n: nisa.tensor_copy_predicated(t.s(8, 8), 1.0, flags(t, 8, n)),
        4,
        8,
        "dst | 8 elements | predicate has 4",
    ),
    Limit(
        "src is a number or a tile",
        lambda t, x: nisa.tensor_copy_predicated(t.s(8, 8), x, flags(t, 8, 8)),
        None,
        0.0,
        "src | None | neither a number nor a tile",
    ),
]

EXPONENTIAL = [
    newer(lambda t: nisa.exponential(t.s(8, 8), t.s(8, 8)), "exponential", "trn2", 4, "trn3"),
    Limit(
        "the result is no uint32",
        lambda t, d: nisa.exponential(t.s(8, 8, dtype=d), t.s(8, 8)),
        "uint32",
        "tfloat32",
        "dst | uint32 | must be float32",
        "trn3",
    ),
    Limit(
        "src is no tfloat32",
        lambda t, d: nisa.exponential(t.s(8, 8), t.s(8, 8, dtype=d)),
        "tfloat32",
        "uint32",
        "src | tfloat32 | must be float32",
        "trn3",
    ),
    Limit(
        "both tiles have as many elements",
        lambda t, n: nisa.exponential(t.s(8, 8), t.s(8, n)),
        4,
        8,
        "dst | 8 elements | src has 4",
        "trn3",
    ),
    Limit(
        "tiles have at most 4 dimensions",
        lambda t, shape: nisa.exponential(t.s(8, 8), t.s(*shape)),
        (8, 1, 2, 2, 2),
        (8, 2, 2, 2),
        "src | 5 dimensions | at most 4",
        "trn3",
    ),
    Limit(
        "max_value is fp32",
        lambda t, d: nisa.exponential(t.s(8, 8), t.s(8, 8), t.s(8, 1, dtype=d)),
        "bfloat16",
        "float32",
        "max_value | bfloat16 | must be float32",
        "trn3",
    ),
    Limit(
        "the sum is a column",
        lambda t, n: nisa.exponential(t.s(8, 8), t.s(8, 8), 0.0, t.s(8, n), nisa.reduce_cmd.reset_reduce),
        2,
        1,
        "reduce_res | [8, 2] | [8, 1]",
        "trn3",
    ),
    Limit(
        "the sum is a float",
        lambda t, d: nisa.exponential(t.s(8, 8), t.s(8, 8), 0.0, t.s(8, 1, dtype=d)),
        "int32",
        "bfloat16",
        "reduce_res | int32 | must be float32",
        "trn3",
    ),
    Limit(
        "the registers are not reset alone",
        lambda t, c: nisa.exponential(t.s(8, 8), t.s(8, 8), reduce_cmd=c),
        nisa.reduce_cmd.reset,
        nisa.reduce_cmd.reduce,
        "reduce_cmd | reset | must be one of idle, reset_reduce, reduce, load_reduce",
        "trn3",
    ),
    Limit(
        "only load_reduce takes an initial value",
        lambda t, c: nisa.exponential(t.s(8, 8), t.s(8, 8), reduce_cmd=c, reduce_init=1.0),
        nisa.reduce_cmd.reset_reduce,
        nisa.reduce_cmd.load_reduce,
        "reduce_init | 1.0 with reset_reduce | must be 0.0",
        "trn3",
    ),
]


def quantized(t, p=32, n=32, of="bfloat16", to=X4, width=None, scale="uint8", memory="sbuf"):
    width = n // 4 if width is None else width
    return nisa.quantize_mx(t.s(p, width, dtype=to), t.at(memory, p, n, dtype=of), t.s(p, width, dtype=scale))


QUANTIZE = [
    newer(lambda t: quantized(t), "quantize_mx", "trn2", 4, "trn3"),
    Limit(
        "src is a 16-bit float",
        lambda t, d: quantized(t, of=d),
        "float32",
        "float16",
        "src | float32 | float16 or bfloat16",
        "trn3",
    ),
    Limit(
        "dst is packed fp8",
        lambda t, d: quantized(t, to=d),
        "float4_e2m1fn_x4",
        "float8_e4m3fn_x4",
        "dst | float4_e2m1fn_x4 | float8_e4m3fn_x4 or float8_e5m2_x4",
        "trn3",
    ),
    Limit(
        "scales are powers of two or their bytes",
        lambda t, d: quantized(t, scale=d),
        "int8",
        "float8_e8m0fnu",
        "dst_scale | int8 | float8_e8m0fnu or uint8",
        "trn3",
    ),
    Limit(
        "partitions come in quadrants of 32",
        lambda t, p: quantized(t, p),
        48,
        64,
        "src | partition 48 | multiple of 32",
        "trn3",
    ),
    Limit(
        "elements come in fours",
        lambda t, n: quantized(t, n=n),
        30,
        28,
        "src | free size 30 | multiple of 4",
        "trn3",
    ),
    Limit(
        "dst is a quarter as wide as src",
        lambda t, n: quantized(t, width=n),
        16,
        8,
        "dst | 16 elements | must be 8",
        "trn3",
    ),
    Limit(
        "src is in SBUF",
        lambda t, m: quantized(t, memory=m),
        "psum",
        "sbuf",
        "src | PSUM | must be in SBUF",
        "trn3",
    ),
]

LIMITS: Table = {
    "nki.isa.tensor_copy": COPY,
    "nki.isa.memset": MEMSET,
    "nki.isa.tensor_tensor": TENSOR_TENSOR,
    "nki.isa.tensor_scalar": TENSOR_SCALAR,
    "nki.isa.scalar_tensor_tensor": SCALAR_TENSOR_TENSOR,
    "nki.isa.reciprocal": RECIPROCAL,
    "nki.isa.tensor_copy_predicated": PREDICATED,
    "nki.isa.exponential": EXPONENTIAL,
    "nki.isa.quantize_mx": QUANTIZE,
}
