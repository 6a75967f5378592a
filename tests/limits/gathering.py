"""Constraints of GpSimd's instructions, and of random numbers."""

from __future__ import annotations

import sim.nki.language as nl
from sim.nki import isa as nisa
from tests.limits.limit import Limit, Table, newer
from tests.limits.tiles import ADD, BIT, X4, G, S, V

INT32 = 2**31


def gathered(t, p=16, n=16, index="uint16", per=1, valid=None, source=16, to="float32", memory="sbuf"):
    return nisa.local_gather(t.s(p, n, dtype=to), t.at(memory, source, 64), t.s(p, 1, dtype=index), per, valid)


def masked(t, pattern=((1, 8),), op=nl.equal, memory="sbuf", on_false=0.0, **named):
    return nisa.affine_select(t.s(8, 8), pattern, 1, t.at(memory, 8, 8), on_false, op, **named)


def picked(t, of="uint32", to="float32", n=4, memory="sbuf", p=8):
    return nisa.nc_n_gather(t.s(8, 4, dtype=to), t.at(memory, p, 8), t.s(8, n, dtype=of))


def nonzero(t, width=9, of="float32", to="int32", p=16, memory="sbuf", **named):
    return nisa.nonzero_with_count(t.s(p, width, dtype=to), t.at(memory, 16, 8, dtype=of), **named)


def largest(t, n=16, k=8, width=8, p=16, values="bfloat16", places="uint32", of="bfloat16", idx=None):
    tiles = (t.s(p, k, dtype=values), t.s(p, idx or k, dtype=places), t.s(p, width, dtype=of))
    return nisa.topk(*tiles, n)


IOTA = [
    Limit("dst is in SBUF", lambda t, m: nisa.iota(t.at(m, 8, 8), [[1, 8]]), "psum", "sbuf",
              "dst | PSUM | must be in SBUF"),
    Limit("the pattern fills dst", lambda t, n: nisa.iota(t.s(8, 8), [[1, n]]), 7, 8,
              "pattern | 7 elements | dst has 8"),
    Limit("a pattern has at most 4 dimensions", lambda t, n: nisa.iota(t.s(8, 2**n), [[1, 2]] * n), 5, 4,
          "pattern | 5 dimensions | must be 1 to 4"),
    Limit("offset is an int32", lambda t, x: nisa.iota(t.s(8, 8), [[1, 8]], x), INT32, INT32 - 1,
          "offset | 2147483648 | int32"),
    Limit("channel_multiplier is an int32", lambda t, x: nisa.iota(t.s(8, 8), [[1, 8]], 0, x), -INT32 - 1, -INT32,
          "channel_multiplier | -2147483649 | int32"),
    Limit("offset is an integer", lambda t, x: nisa.iota(t.s(8, 8), [[1, 8]], x), 0.5, 0, "offset | 0.5 | no integer"),
    Limit("packed numbers are no results", lambda t, d: nisa.iota(t.s(8, 8, dtype=d), [[1, 8]]), X4, "bfloat16",
          "dst | float8_e5m2_x4 | nc_matmul_mx only"),
]  # fmt: skip

AFFINE_SELECT = [
    Limit("the tile is in SBUF", lambda t, m: masked(t, memory=m), "psum", "sbuf",
              "on_true_tile | PSUM | must be in SBUF"),
    Limit("the pattern fills dst", lambda t, n: masked(t, [[1, n]]), 7, 8, "pattern | 7 elements | dst has 8"),
    Limit("a pattern has at most 4 dimensions", lambda t, n: masked(t, [[1, 8], *[[1, 1]] * n]), 4, 3,
          "pattern | 5 dimensions | must be 1 to 4"),
    Limit("the operator compares", lambda t, op: masked(t, op=op), ADD, nl.not_equal,
              "cmp_op | add | must be one of equal"),
    Limit("offset is an int32", lambda t, x: masked(t, offset=x), INT32, INT32 - 1, "offset | 2147483648 | int32"),
    Limit("what is not chosen becomes a number", lambda t, x: masked(t, on_false=x), None, 0,
          "on_false_value | None | neither a number nor a tile"),
]  # fmt: skip

LOCAL_GATHER = [
    Limit("indices are uint16", lambda t, d: gathered(t, index=d), "int32", "uint16", "index | int32 | must be uint16"),
    Limit("partitions come in sixteens", lambda t, p: gathered(t, p, source=p), 8, 32,
          "src_buffer | partition 8 | multiple of 16"),
    Limit("index has src_buffer's partitions", lambda t, p: gathered(t, source=p), 32, 16,
          "index | 16 partitions | src_buffer has 32"),
    Limit("1, 2, 4 … 32 elements are taken at once", lambda t, n: gathered(t, n=16 * n, per=n), 3, 4,
          "num_elem_per_idx | 3 | must be one of 1, 2, 4, 8, 16, 32"),
    Limit("no more indices are valid than there are", lambda t, n: gathered(t, n=n, valid=n), 17, 16,
          "num_valid_indices | 17 | must be 1 to 16"),
    Limit("an index is valid", lambda t, n: gathered(t, n=max(n, 1), valid=n), 0, 1,
          "num_valid_indices | 0 | must be 1 to 16"),
    Limit("a core takes at most 4096 indices",
          lambda t, n: nisa.local_gather(t.s(16, 16 * n), t.s(16, 64), t.s(16, n, dtype="uint16")), 257, 256,
          "num_valid_indices | 4112 | must be 1 to 4096"),
    Limit("dst holds what is gathered", lambda t, n: gathered(t, n=n), 15, 16, "dst | 15 elements | 16"),
    Limit("a gather keeps the dtype", lambda t, d: gathered(t, to=d), "bfloat16", "float32",
          "dst | bfloat16 | src_buffer has float32"),
    Limit("src_buffer is in SBUF", lambda t, m: gathered(t, memory=m), "psum", "sbuf",
              "src_buffer | PSUM | must be in SBUF"),
]  # fmt: skip

N_GATHER = [
    Limit("indices are uint32", lambda t, d: picked(t, d), "int32", "uint32", "indices | int32 | must be uint32"),
    Limit("a gather keeps the dtype", lambda t, d: picked(t, to=d), "bfloat16", "float32",
          "dst | bfloat16 | data has float32"),
    Limit("dst has an element for each index", lambda t, n: picked(t, n=n), 5, 4, "dst | 4 elements | indices has 5"),
    Limit("data has dst's partitions", lambda t, p: picked(t, p=p), 16, 8, "dst | 8 partitions | data has 16"),
    Limit("data is in SBUF", lambda t, m: picked(t, memory=m), "psum", "sbuf", "data | PSUM | must be in SBUF"),
    Limit("an index stays in its row",
          lambda t, x: nisa.nc_n_gather(t.s(1, 1), t.s(1, 8), t.chip.tensor([[x]], "uint32")), 8, 7,
          "indices | 8 | >= 8 elements"),
]  # fmt: skip

NONZERO = [
    newer(lambda t: nonzero(t), "nonzero_with_count", "trn1", 3, "trn2"),
    Limit("dst has one element more than src", lambda t, n: nonzero(t, n), 8, 9, "dst | 8 elements | must be 9"),
    Limit("places are int32", lambda t, d: nonzero(t, to=d), "float32", "int32", "dst | float32 | must be int32"),
    Limit("src is fp32 or int32", lambda t, d: nonzero(t, of=d), "bfloat16", "int32",
              "src | bfloat16 | float32 or int32"),
    Limit("dst has src's partitions", lambda t, p: nonzero(t, p=p), 32, 16, "dst | 32 partitions | src has 16"),
    Limit("src is in SBUF", lambda t, m: nonzero(t, memory=m), "psum", "sbuf", "src | PSUM | must be in SBUF"),
    Limit("index_offset is an int32", lambda t, x: nonzero(t, index_offset=x), INT32, INT32 - 1,
          "index_offset | 2147483648 | int32"),
    Limit("padding_val is an int32", lambda t, x: nonzero(t, padding_val=x), INT32, -INT32,
          "padding_val | 2147483648 | int32"),
]  # fmt: skip

BOUNDS = [
    Limit("the ids lie in one partition", lambda t, p: nisa.sequence_bounds(t.s(p, 2, 8), t.s(p, 8)), 2, 1,
          "dst | partition 2 | must be 1"),
    Limit("dst holds start and end", lambda t, n: nisa.sequence_bounds(t.s(1, n, 8), t.s(1, 8)), 1, 2,
          "dst | 8 elements | must be 16"),
    Limit("ids are fp32 or int32", lambda t, d: nisa.sequence_bounds(t.s(1, 2, 8), t.s(1, 8, dtype=d)), "int16",
              "int32",
          "segment_ids | int16 | float32 or int32"),
    Limit("ids are not negative", lambda t, x: nisa.sequence_bounds(t.s(1, 2, 1), t.chip.tensor([[x]], "int32")), -1, 0,
          "segment_ids | -1 | must not be negative"),
]  # fmt: skip

PARTITION_REDUCE = [
    Limit("the result is one partition", lambda t, p: nisa.tensor_partition_reduce(t.s(p, 8), ADD, t.s(64, 8)), 2, 1,
          "dst | partition 2 | must be 1"),
    Limit("the result has data's elements", lambda t, n: nisa.tensor_partition_reduce(t.s(1, n), ADD, t.s(64, 8)), 4, 8,
          "dst | 4 elements | data has 8"),
    Limit("the operator is one of five", lambda t, op: nisa.tensor_partition_reduce(t.s(1, 8), op, t.s(64, 8)),
          nl.minimum, nl.maximum, "op | minimum | must be one of add, average, maximum, bitwise_or, bitwise_and"),
    Limit("bits are folded in integers",
          lambda t, d: nisa.tensor_partition_reduce(t.s(1, 8, dtype="int32"), BIT, t.s(64, 8, dtype=d)),
          "float32", "int32", "data | float32 | integers"),
    Limit("data is in SBUF", lambda t, m: nisa.tensor_partition_reduce(t.s(1, 8), ADD, t.at(m, 64, 8)), "psum", "sbuf",
          "data | PSUM | must be in SBUF"),
]  # fmt: skip

TOPK = [
    Limit("a snake has at least 8 numbers", lambda t, n: largest(t, n, k=1), 7, 8, "n | 7 | must be 8 to 65535"),
    Limit("a snake has at most 65535 numbers", lambda t, n: largest(t, n, width=4096), 65536, 65535,
          "n | 65536 | must be 8 to 65535"),
    Limit("no more are asked for than there are", lambda t, k: largest(t, 10, k), 11, 10,
              "val_dst | 11 elements | n = 10"),
    Limit("src holds n numbers", lambda t, n: largest(t, n, width=2), 33, 32, "src | 2 elements | 3"),
    Limit("values are bf16", lambda t, d: largest(t, values=d), "float32", "bfloat16",
          "val_dst | float32 | must be bfloat16"),
    Limit("src is bf16", lambda t, d: largest(t, of=d), "float16", "bfloat16", "src | float16 | must be bfloat16"),
    Limit("places are uint32", lambda t, d: largest(t, places=d), "int32", "uint32",
              "idx_dst | int32 | must be uint32"),
    Limit("as many places as values", lambda t, k: largest(t, idx=k), 4, 8, "idx_dst | 4 elements | val_dst has 8"),
    Limit("partitions come in sixteens", lambda t, p: largest(t, p=p), 24, 32, "src | partition 24 | multiple of 16"),
]  # fmt: skip


def seeded(t, words=6, of="uint32", engine=G, memory="sbuf"):
    return nisa.rand_set_state(t.at(memory, 8, words, dtype=of), engine=engine)


def kept(t, words=6, of="uint32", engine=G, memory="sbuf"):
    return nisa.rand_get_state(t.at(memory, 8, words, dtype=of), engine=engine)


RANDOM = {
    "nki.isa.rng": [
        Limit("random bits are integers", lambda t, d: nisa.rng(t.s(8, 8, dtype=d)), "float32", "int8",
              "dst | float32 | must be int8"),
        newer(lambda t: nisa.rng(t.s(8, 8, dtype="int32"), engine=G), "engine gpsimd", "trn1", 3, "trn2"),
        Limit("Vector or GpSimd draws", lambda t, e: nisa.rng(t.s(8, 8, dtype="int32"), engine=e), S, G,
              "engine | scalar | vector or gpsimd"),
        Limit("GpSimd does not reach PSUM", lambda t, m: nisa.rng(t.at(m, 8, 8, dtype="int32"), engine=G),
              "psum", "sbuf", "dst | PSUM | SBUF only"),
    ],
    "nki.isa.rand2": [
        newer(lambda t: nisa.rand2(t.s(8, 8), 0.0, 1.0), "rand2", "trn2", 4, "trn3"),
        Limit("min is less than max", lambda t, x: nisa.rand2(t.s(8, 8), x, 1.0), 1.0, 0.5,
              "min | 1.0 | less than max", "trn3"),
        Limit("dst is no OCP fp8", lambda t, d: nisa.rand2(t.s(8, 8, dtype=d), 0.0, 1.0), "float8_e4m3fn",
              "float8_e4m3",
              "dst | float8_e4m3fn | must be float32", "trn3"),
        Limit("bounds are fp32", lambda t, d: nisa.rand2(t.s(8, 8), t.s(8, 1, dtype=d), 1.0), "bfloat16", "float32",
              "min | bfloat16 | must be float32", "trn3"),
        Limit("bounds are numbers or columns", lambda t, n: nisa.rand2(t.s(8, 8), 0.0, t.s(8, n)), 2, 1,
              "max | [8, 2] | [8, 1]", "trn3"),
    ],
    "nki.isa.dropout": [
        Limit("dropout keeps the dtype", lambda t, d: nisa.dropout(t.s(8, 8, dtype=d), t.s(8, 8), 0.5),
              "bfloat16", "float32", "dst | bfloat16 | data has float32"),
        Limit("the probability of floats is a float",
              lambda t, d: nisa.dropout(*t.two(8, 8), t.s(8, 1, dtype=d)), "uint8", "bfloat16",
              "prob | uint8 | must be a float"),
        Limit("the probability of integers is fp32",
              lambda t, d: nisa.dropout(*t.two(8, 8, dtype="int16"), t.s(8, 1, dtype=d)), "bfloat16", "float32",
              "prob | bfloat16 | must be float32"),
        Limit("the probability is a number or a column", lambda t, n: nisa.dropout(*t.two(8, 8), t.s(8, n)), 2, 1,
              "prob | [8, 2] | [8, 1]"),
    ],
    "nki.isa.set_rng_seed": [
        Limit("the seed is one number", lambda t, n: nisa.set_rng_seed(t.s(1, n, dtype="uint32")), 2, 1,
              "src_seeds | [1, 2] | must be [1, 1]"),
        Limit("the seed has 32 bits", lambda t, d: nisa.set_rng_seed(t.s(1, 1, dtype=d)), "uint16", "float32",
              "src_seeds | uint16 | 32-bit"),
        Limit("the seed is on chip", lambda t, m: nisa.set_rng_seed(t.at(m, 1, 1)), "hbm", "psum",
              "src_seeds | HBM | must be in SBUF or PSUM"),
    ],
    "nki.isa.rand_set_state": [
        newer(lambda t: seeded(t), "rand_set_state", "trn1", 3, "trn2"),
        newer(lambda t: seeded(t, 24, engine=V), "engine vector", "trn2", 4, "trn3"),
        Limit("GpSimd has 6 words of state", lambda t, n: seeded(t, n), 5, 6, "src_seeds | 5 elements | 6"),
        Limit("Vector has 24 words of state", lambda t, n: seeded(t, n, engine=V), 6, 24, "src_seeds | 6 elements | 24",
              "trn3"),
        Limit("words are uint32", lambda t, d: seeded(t, of=d), "int32", "uint32",
              "src_seeds | int32 | must be uint32"),
        Limit("words come from SBUF", lambda t, m: seeded(t, memory=m), "psum", "sbuf",
              "src_seeds | PSUM | must be in SBUF"),
    ],
    "nki.isa.rand_get_state": [
        newer(lambda t: kept(t), "rand_get_state", "trn1", 3, "trn2"),
        newer(lambda t: kept(t, 24, engine=V), "engine vector", "trn2", 4, "trn3"),
        Limit("GpSimd has 6 words of state", lambda t, n: kept(t, n), 7, 6, "dst | 7 elements | 6"),
        Limit("words are uint32", lambda t, d: kept(t, of=d), "int32", "uint32", "dst | int32 | must be uint32"),
        Limit("words go to SBUF on v3", lambda t, m: kept(t, memory=m), "psum", "sbuf", "dst | PSUM | must be in SBUF"),
        Limit("GpSimd does not reach PSUM", lambda t, m: kept(t, memory=m), "psum", "sbuf", "dst | PSUM | SBUF only",
              "trn3"),
        Limit("GpSimd or Vector keeps", lambda t, e: kept(t, engine=e), S, G, "engine | scalar | gpsimd or vector"),
    ],
}  # fmt: skip

LIMITS: Table = {
    "nki.isa.iota": IOTA,
    "nki.isa.affine_select": AFFINE_SELECT,
    "nki.isa.local_gather": LOCAL_GATHER,
    "nki.isa.nc_n_gather": N_GATHER,
    "nki.isa.nonzero_with_count": NONZERO,
    "nki.isa.sequence_bounds": BOUNDS,
    "nki.isa.tensor_partition_reduce": PARTITION_REDUCE,
    "nki.isa.topk": TOPK,
    **RANDOM,
}
