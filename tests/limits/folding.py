"""Constraints of the instructions that fold, scan and search rows, and of activations."""

from __future__ import annotations

import sim.nki.language as nl
from sim.nki import isa as nisa
from sim.nki.functions import AluOp
from tests.limits.limit import Limit, Table, newer
from tests.limits.tiles import (
    ADD,
    BIT,
    EXP,
    IDLE,
    LOAD_REDUCE,
    MAX,
    MUL,
    REDUCE,
    RESET,
    RESET_REDUCE,
    X4,
    flags,
)  # fmt: skip


def folded(t, axis, shape=(8, 4, 4), kept=1, op=ADD, **named):
    return nisa.tensor_reduce(t.s(shape[0], kept), op, t.s(*shape), axis, **named)


def scanned(t, op0=ADD, op1=ADD, initial=0.0, n=8, first="sbuf"):
    return nisa.tensor_tensor_scan(t.s(8, 8), t.at(first, 8, 8), t.p(8, n), initial, op0, op1)


def cumulated(t, op0=ADD, op1=ADD, imm0=1.0, imm1=None, of="float32", command=RESET_REDUCE):
    return nisa.tensor_scalar_cumulative(t.s(8, 8), t.s(8, 8, dtype=of), op0, op1, imm0, imm1, command)


def reduced(t, op=ADD, operand=1.0, fold=ADD, res=None, to="float32", **named):
    tile = None if res is None else t.s(*res)
    return nisa.tensor_scalar_reduce(t.s(8, 8, dtype=to), t.s(8, 8), op, operand, fold, tile, **named)


REDUCTION = [
    Limit(
        "the last dimensions are folded",
        lambda t, axis: folded(t, axis, kept=4),
        1,
        2,
        "axis | (1,) of data [8, 4, 4] | last free dimensions",
    ),
    Limit(
        "partitions are not folded",
        lambda t, axis: folded(t, axis),
        (0, 1, 2),
        (1, 2),
        "axis | (0, 1, 2) | last free dimensions",
    ),
    Limit(
        "dst holds what is left",
        lambda t, n: folded(t, 2, kept=n),
        2,
        4,
        "dst | 2 elements | leaves 4",
    ),
    Limit(
        "dst has data's partitions",
        lambda t, p: nisa.tensor_reduce(t.s(p, 1), ADD, t.s(8, 8), 1),
        4,
        8,
        "dst | 4 partitions | data has 8",
    ),
    Limit(
        "the operator is a legal reduction",
        lambda t, op: folded(t, (1, 2), op=op),
        nl.less,
        nl.logical_or,
        "op | less | legal: add, subtract",
    ),
    Limit(
        "bits are not negated",
        lambda t, negate: nisa.tensor_reduce(flags(t, 8, 1), BIT, flags(t, 8, 4), 1, negate=negate),
        True,
        False,
        "negate | True | bitwise_and",
    ),
    Limit(
        "bit-vector operators work on integers",
        lambda t, d: nisa.tensor_reduce(flags(t, 8, 1), BIT, t.s(8, 4, dtype=d), 1),
        "float32",
        "int16",
        "data | float32 | integers",
    ),
    Limit(
        "packed numbers are no operands",
        lambda t, d: nisa.tensor_reduce(t.s(8, 1, dtype=d), ADD, t.s(8, 4), 1),
        X4,
        "uint8",
        "dst | float8_e5m2_x4 | nc_matmul_mx only",
    ),
]

SCAN = [
    Limit(
        "one tile at most is in PSUM",
        lambda t, m: scanned(t, first=m),
        "psum",
        "sbuf",
        "data0 and data1 | both in PSUM | at most one",
    ),
    Limit("both tiles have as many elements", lambda t, n: scanned(t, n=n), 4, 8, "data1 | 4 elements | data0 has 8"),
    Limit(
        "initial is a number or a column",
        lambda t, n: scanned(t, initial=t.s(8, n)),
        2,
        1,
        "initial | [8, 2] | [8, 1]",
    ),
    Limit(
        "bit-vector and arithmetic operators do not mix",
        lambda t, op: scanned(t, op0=op),
        BIT,
        MUL,
        "op0 and op1 | bitwise_and and add | mix",
    ),
    Limit(
        "the operators are arithmetic",
        lambda t, op: scanned(t, op, op, 1),
        BIT,
        MUL,
        "op0, op1 | bitwise_and, bitwise_and | binary arithmetic",
    ),
    Limit(
        "the operators are binary",
        lambda t, op: scanned(t, op),
        AluOp("abs"),
        nl.subtract,
        "op0, op1 | abs, add | binary arithmetic",
    ),
]

CUMULATION = [
    Limit(
        "the cumulation is one of five",
        lambda t, op: cumulated(t, op1=op),
        nl.power,
        nl.subtract,
        "op1 | power | must be one of add, subtract",
    ),
    Limit("the first operator is arithmetic", lambda t, op: cumulated(t, op), BIT, MAX,
              "op0 | bitwise_and | arithmetic"),
    Limit("the first operator is there", lambda t, op: cumulated(t, op), None, ADD, "op0 | None | arithmetic operator"),
    Limit(
        "32-bit integers are not taken",
        lambda t, d: cumulated(t, of=d),
        "int32",
        "int16",
        "src | int32 | int8 or int16 or uint8",
    ),
    Limit(
        "imm0 is fp32",
        lambda t, d: cumulated(t, imm0=t.s(8, 1, dtype=d)),
        "bfloat16",
        "float32",
        "imm0 | bfloat16 | must be float32",
    ),
    Limit("load_reduce has its value", lambda t, x: cumulated(t, imm1=x, command=LOAD_REDUCE), None, 1.0,
          "imm1 | missing | load_reduce"),
    Limit(
        "the registers take part",
        lambda t, c: cumulated(t, command=c),
        IDLE,
        REDUCE,
        "reduce_cmd | idle | must be one of reset_reduce, reduce, load_reduce",
    ),
]  # fmt: skip

SCALAR_REDUCTION = [
    Limit("the fold is one of four", lambda t, op: reduced(t, fold=op), nl.less, nl.minimum,
          "reduce_op | less | must be one of add, multiply, maximum, minimum"),
    Limit("the operator is arithmetic", lambda t, op: reduced(t, op, 1), BIT, MUL, "op0 | bitwise_and | arithmetic"),
    Limit("the operator is there", lambda t, op: reduced(t, op), None, MUL, "op0 | None | arithmetic operator"),
    Limit("operands are not reversed yet", lambda t, r: reduced(t, reverse0=r), True, False,
          "reverse0 | True | not supported by the hardware yet"),
    Limit("an initial value is for load_reduce", lambda t, c: reduced(t, reduce_cmd=c, reduce_init=1.0),
          RESET_REDUCE, LOAD_REDUCE, "reduce_init | given with reset_reduce | load_reduce"),
    Limit("load_reduce has its value", lambda t, x: reduced(t, reduce_cmd=LOAD_REDUCE, reduce_init=x), None, 1.0,
          "reduce_init | missing | load_reduce"),
    Limit("the fold is a column", lambda t, n: reduced(t, res=(8, n)), 2, 1, "reduce_res | [8, 2] | [8, 1]"),
    Limit("the registers take part", lambda t, c: reduced(t, reduce_cmd=c), IDLE, REDUCE,
          "reduce_cmd | idle | must be one of reset_reduce, reduce, load_reduce"),
    Limit("a unary operator has no operand", lambda t, x: reduced(t, AluOp("abs"), x), 1.0, None,
          "operand0 | 1.0 | None or 0"),
    Limit("the operand is fp32", lambda t, d: reduced(t, operand=t.s(8, 1, dtype=d)), "bfloat16", "float32",
          "operand0 | bfloat16 | must be float32"),
    Limit("packed numbers are no operands", lambda t, d: reduced(t, to=d), X4, "int8",
          "dst | float8_e5m2_x4 | nc_matmul_mx only"),
]  # fmt: skip

BN_STATS = [
    Limit("a partition has at most 512 elements", lambda t, n: nisa.bn_stats(t.s(8, 6), t.s(8, n)), 513, 512,
          "data | 513 elements | 512"),
    Limit("the statistics are six numbers", lambda t, n: nisa.bn_stats(t.s(8, n), t.s(8, 64)), 5, 6,
          "dst | 5 elements | 6"),
    Limit("dst has data's partitions", lambda t, p: nisa.bn_stats(t.s(p, 6), t.s(8, 64)), 4, 8,
          "dst | 4 partitions | data has 8"),
]  # fmt: skip

BN_AGGR = [
    Limit("statistics come in threes", lambda t, n: nisa.bn_aggr(t.s(8, 2), t.s(8, n)), 7, 6,
          "data | 7 elements | multiple of 3"),
    Limit("the result is mean and variance", lambda t, n: nisa.bn_aggr(t.s(8, n), t.s(8, 6)), 3, 2,
          "dst | 3 elements | 2"),
]  # fmt: skip


def selected(t, predicate="uint8", of="float32", first="sbuf", n=8, other=0.0, res=None, **named):
    tile = None if res is None else t.s(*res[0], dtype=res[1])
    flag = t.p(8, 8, dtype=predicate)
    return nisa.select_reduce(t.s(8, 8), flag, t.at(first, 8, n, dtype=of), other, tile, **named)


def ranged(t, op0=nl.less, op1=nl.less, low="float32", of="float32", width=1, start=0, res=None, **named):
    tile = None if res is None else t.s(8, 1, dtype=res)
    bounds = (t.s(8, width, dtype=low), t.s(8, 1))
    return nisa.range_select(
        t.s(8, 8), t.s(8, 8, dtype=of), op0, op1, *bounds, reduce_res=tile, range_start=start, **named
    )


SELECT = [
    Limit("a predicate is an integer of 8 or 16 bits", lambda t, d: selected(t, d), "float32", "int16",
          "predicate | float32 | int8 or uint8 or int16 or uint16"),
    Limit("on_true is no 32-bit integer", lambda t, d: selected(t, of=d), "int32", "int16",
          "on_true | int32 | must not be tfloat32, int32 or uint32"),
    Limit("one tile at most is in PSUM", lambda t, m: selected(t, first=m), "psum", "sbuf",
          "on_true and predicate | both in PSUM | at most one"),
    Limit("tiles have as many elements", lambda t, n: selected(t, n=n), 4, 8, "on_true | 4 elements | predicate has 8"),
    Limit("on_false is a number or a column", lambda t, n: selected(t, other=t.s(8, n)), 2, 1,
          "on_false | [8, 2] | [8, 1]"),
    Limit("only the maximum is kept", lambda t, op: selected(t, reduce_op=op), ADD, MAX,
          "reduce_op | add | must be one of maximum"),
    Limit("the maximum is a float", lambda t, d: selected(t, res=((8, 1), d)), "uint8", "bfloat16",
          "reduce_res | uint8 | must be a float"),
    Limit("the maximum is a column", lambda t, n: selected(t, res=((8, n), "float32")), 2, 1,
          "reduce_res | [8, 2] | [8, 1]"),
    Limit("the registers are not loaded", lambda t, c: selected(t, reduce_cmd=c), LOAD_REDUCE, REDUCE,
          "reduce_cmd | load_reduce | must be one of idle, reset_reduce, reduce"),
]  # fmt: skip

RANGE = [
    newer(lambda t: ranged(t), "range_select", "trn1", 3, "trn2"),
    Limit("bounds are fp32", lambda t, d: ranged(t, low=d), "bfloat16", "float32",
              "bound0 | bfloat16 | must be float32"),
    Limit("bounds are columns", lambda t, n: ranged(t, width=n), 2, 1, "bound0 | [8, 2] | [8, 1]"),
    Limit("the tile holds floats", lambda t, d: ranged(t, of=d), "int16", "float16",
          "on_true_tile | int16 | must be a float"),
    Limit("indices are compared with five operators", lambda t, op: ranged(t, op1=op), nl.not_equal, nl.equal,
          "comp_op1 | not_equal | must be one of equal"),
    Limit("what is not chosen becomes FP32_MIN", lambda t, x: ranged(t, on_false_value=x), 0.0, -3.4028235e38,
          "on_false_value | 0.0 | must be FP32_MIN"),
    Limit("indices are exact in fp32", lambda t, n: ranged(t, start=n), 2**24, 2**24 - 8,
          "range_start | 16777216 | 2^24"),
    Limit("the maximum is a float", lambda t, d: ranged(t, res=d), "int16", "float32",
          "reduce_res | int16 | must be a float"),
    Limit("only the maximum is kept", lambda t, op: ranged(t, reduce_op=op), ADD, MAX,
          "reduce_op | add | must be one of maximum"),
]  # fmt: skip


def searched(t, n=16, vals=8, to="uint32", width=8, shape=None):
    return nisa.nc_find_index8(t.s(8, width, dtype=to), t.s(*(shape or (8, n))), t.s(8, vals))


EIGHT = {
    "nki.isa.max8": [
        Limit("a partition has at least 8 elements", lambda t, n: nisa.max8(t.s(8, 8), t.s(8, n)), 7, 8,
              "src | 7 elements | 8"),
        Limit("a partition has at most 16384 elements", lambda t, n: nisa.max8(t.s(8, 8), t.s(8, n)), 16385, 16384,
              "src | 16385 elements | 16384"),
        Limit("the result is eight values", lambda t, n: nisa.max8(t.s(8, n), t.s(8, 16)), 9, 8,
              "dst | 9 elements | 8"),
        Limit("src has at most 3 dimensions", lambda t, s: nisa.max8(t.s(8, 8), t.s(*s)), (8, 2, 2, 4), (8, 4, 4),
              "src | 4 dimensions | at most 3"),
        Limit("the result has 2 dimensions", lambda t, s: nisa.max8(t.s(*s), t.s(8, 16)), (8, 2, 4), (8, 8),
              "dst | 3 dimensions | at most 2"),
    ],
    "nki.isa.nc_find_index8": [
        Limit("places are unsigned integers", lambda t, d: searched(t, to=d), "int32", "uint16",
              "dst | int32 | uint16 or uint32"),
        Limit("eight values are sought", lambda t, n: searched(t, vals=n), 4, 8, "vals | 4 elements | 8"),
        Limit("a partition has at least 8 elements", lambda t, n: searched(t, n), 7, 8, "data | 7 elements | 8"),
        Limit("a partition has at most 16384 elements", lambda t, n: searched(t, n), 16385, 16384,
              "data | 16385 elements | 16384"),
        Limit("eight places are found", lambda t, n: searched(t, width=n), 4, 8, "dst | 4 elements | 8"),
        Limit("data has at most 3 dimensions", lambda t, s: searched(t, shape=s), (8, 2, 2, 4), (8, 4, 4),
              "data | 4 dimensions | at most 3"),
    ],
    "nki.isa.nc_match_replace8": [
        Limit("dst has data's shape", lambda t, n: nisa.nc_match_replace8(t.s(8, n), t.s(8, 16), t.s(8, 8), 0.0), 8, 16,
              "dst | 8 elements | data has 16"),
        Limit("the replacement is a number",
              lambda t, x: nisa.nc_match_replace8(t.s(8, 16), t.s(8, 16), t.s(8, 8), x), None, 0.0,
              "imm | None | neither a number nor a tile"),
        Limit("places are unsigned integers",
              lambda t, d: nisa.nc_match_replace8(t.s(8, 16), t.s(8, 16), t.s(8, 8), 0.0, t.s(8, 8, dtype=d)),
              "int32", "uint32", "dst_idx | int32 | uint16 or uint32"),
        Limit("eight values are sought",
              lambda t, n: nisa.nc_match_replace8(t.s(8, 16), t.s(8, 16), t.s(8, n), 0.0), 4, 8,
              "vals | 4 elements | 8"),
    ],
    "nki.isa.nc_stream_shuffle": [
        Limit("the mask has 32 entries", lambda t, n: nisa.nc_stream_shuffle(*t.two(32, 8), [0] * n), 31, 32,
              "shuffle_mask | 31 entries | must be 32"),
        Limit("an entry is a partition of the quadrant, or 255",
              lambda t, x: nisa.nc_stream_shuffle(*t.two(32, 8), [*[0] * 31, x]), 32, 255,
              "shuffle_mask[31] | 32 | 0 to 31"),
        Limit("a shuffle keeps the dtype",
              lambda t, d: nisa.nc_stream_shuffle(t.s(32, 8, dtype=d), t.s(32, 8), [0] * 32), "bfloat16", "float32",
              "dst | bfloat16 | src has float32"),
        Limit("a shuffle keeps the elements", lambda t, n: nisa.nc_stream_shuffle(t.s(32, n), t.s(32, 8), [0] * 32),
              4, 8, "dst | 4 elements | src has 8"),
        Limit("up to 32 partitions start at a quadrant",
              lambda t, p: nisa.nc_stream_shuffle(t.s(128, 8)[p : p + 32], t.s(32, 8), [0] * 32), 16, 96,
              "dst | partition 16 | must start at 0, 32, 64, 96"),
        Limit("up to 64 partitions start at 0 or 64",
              lambda t, p: nisa.nc_stream_shuffle(t.s(128, 8)[p : p + 64], t.s(64, 8), [0] * 32), 32, 64,
              "dst | partition 32 | must start at 0, 64"),
    ],
}  # fmt: skip


def activated(t, op=EXP, scale=1.0, bias=None, data="sbuf", to="float32", n=8, **named):
    return nisa.activation(t.s(8, 8, dtype=to), op, t.at(data, 8, n), bias, scale, **named)


def activated2(t, op0=MUL, op1=ADD, imm0=1.0, imm1=1.0, n=8, **named):
    return nisa.activate2(t.s(8, 8), EXP, t.s(8, n), imm0, imm1, op0, op1, **named)


ACTIVATION = [
    Limit("scale is fp32", lambda t, d: activated(t, scale=t.s(8, 1, dtype=d)), "bfloat16", "float32",
          "scale | bfloat16 | must be float32"),
    Limit("scale is a number or a column", lambda t, n: activated(t, scale=t.s(8, n)), 8, 1, "scale | [8, 8] | [8, 1]"),
    Limit("bias is a number or a column", lambda t, p: activated(t, bias=t.s(p, 1)), 4, 8, "bias | [4, 1] | [8, 1]"),
    Limit("bias is no tfloat32", lambda t, d: activated(t, bias=t.s(8, 1, dtype=d)), "tfloat32", "float16",
          "bias | tfloat32 | any other"),
    Limit("bias is a column on v2", lambda t, _: activated(t, bias=1.0), None, None,
          "bias | a number | [8, 1]", "trn1", "trn2"),
    Limit("the function is one of the Scalar Engine", lambda t, op: activated(t, op), ADD, nl.gelu,
          "op | add | no activation function"),
    newer(lambda t: activated(t, AluOp("prelu")), "op prelu", "trn2", 4, "trn3"),
    Limit("only sums are kept", lambda t, op: activated(t, reduce_op=op, reduce_cmd=RESET_REDUCE), MAX, ADD,
          "reduce_op | maximum | must be one of add"),
    Limit("the sum is a column", lambda t, n: activated(t, reduce_res=t.s(8, n)), 2, 1, "reduce_res | [8, 2] | [8, 1]"),
    Limit("the sum has data's partitions", lambda t, p: activated(t, reduce_res=t.s(p, 1)), 16, 8,
          "reduce_res | [16, 1] | [8, 1]"),
    Limit("the registers are not loaded", lambda t, c: activated(t, reduce_cmd=c), LOAD_REDUCE, RESET,
          "reduce_cmd | load_reduce | must be one of idle, reset, reduce, reset_reduce"),
    Limit("data is on chip", lambda t, m: activated(t, data=m), "hbm", "psum", "data | HBM | must be in SBUF or PSUM"),
    Limit("both tiles have as many elements", lambda t, n: activated(t, n=n), 4, 8, "dst | 8 elements | data has 4"),
    Limit("packed numbers are no results", lambda t, d: activated(t, to=d), X4, "int8",
          "dst | float8_e5m2_x4 | nc_matmul_mx only"),
]  # fmt: skip

ACTIVATION_REDUCE = [
    Limit("only sums are kept",
          lambda t, op: nisa.activation_reduce(t.s(8, 8), EXP, t.s(8, 8), op, t.s(8, 1)), MAX, ADD,
          "reduce_op | maximum | must be one of add"),
    Limit("the sum is a column",
          lambda t, n: nisa.activation_reduce(t.s(8, 8), EXP, t.s(8, 8), ADD, t.s(8, n)), 2, 1,
          "reduce_res | [8, 2] | [8, 1]"),
]  # fmt: skip

ACTIVATE2 = [
    newer(lambda t: activated2(t), "activate2", "trn2", 4, "trn3"),
    Limit("two operators come in six pairs", lambda t, op: activated2(t, op), ADD, MUL,
          "op0, op1 | add, add | multiply/add", "trn3"),
    Limit("op1 needs op0", lambda t, op: activated2(t, op), None, MUL, "op0, op1 | bypass, add | multiply/add", "trn3"),
    Limit("reverse0 needs op0", lambda t, op: activated2(t, op, None, reverse0=True), None, MUL,
          "reverse0 | True | without op0", "trn3"),
    Limit("reverse1 needs op1", lambda t, op: activated2(t, MUL, op, reverse1=True), None, ADD,
          "reverse1 | True | without op1", "trn3"),
    Limit("two columns have one dtype", lambda t, d: activated2(t, imm0=t.s(8, 1), imm1=t.s(8, 1, dtype=d)),
          "bfloat16", "float32", "imm1 | bfloat16 | imm0 has float32", "trn3"),
    Limit("imm0 is a number or a column", lambda t, n: activated2(t, imm0=t.s(8, n)), 2, 1,
          "imm0 | [8, 2] | [8, 1]", "trn3"),
    Limit("the fold is one of five", lambda t, op: activated2(t, reduce_op=op, reduce_cmd=RESET_REDUCE), MUL,
              nl.abs_max,
          "reduce_op | multiply | must be one of add, maximum, minimum", "trn3"),
    Limit("the fold is a column of data's partitions", lambda t, p: activated2(t, reduce_res=t.s(p, 1)), 4, 8,
          "reduce_res | [4, 1] | [8, 1]", "trn3"),
    Limit("both tiles have as many elements", lambda t, n: activated2(t, n=n), 4, 8,
          "dst | 8 elements | data has 4", "trn3"),
    Limit("the registers are not loaded", lambda t, c: activated2(t, reduce_cmd=c), LOAD_REDUCE, REDUCE,
          "reduce_cmd | load_reduce | must be one of idle", "trn3"),
]  # fmt: skip

LIMITS: Table = {
    "nki.isa.tensor_reduce": REDUCTION,
    "nki.isa.tensor_tensor_scan": SCAN,
    "nki.isa.tensor_scalar_cumulative": CUMULATION,
    "nki.isa.tensor_scalar_reduce": SCALAR_REDUCTION,
    "nki.isa.bn_stats": BN_STATS,
    "nki.isa.bn_aggr": BN_AGGR,
    "nki.isa.select_reduce": SELECT,
    "nki.isa.range_select": RANGE,
    **EIGHT,
    "nki.isa.activation": ACTIVATION,
    "nki.isa.activation_reduce": ACTIVATION_REDUCE,
    "nki.isa.activate2": ACTIVATE2,
}
