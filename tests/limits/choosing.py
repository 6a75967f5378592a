"""Calls that break a limit: selection, activation, GpSimd, random numbers, transfers and registers."""

from __future__ import annotations

import numpy as np

import sim.nki.language as nl
from sim.nki import isa as nisa
from sim.nki.functions import AluOp
from tests.limits.tiles import flags, half, row

V, S, G = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd
DOUBLE = nisa.matmul_perf_mode.double_row
RESET_REDUCE, LOAD_REDUCE = nisa.reduce_cmd.reset_reduce, nisa.reduce_cmd.load_reduce
BIT, ADD, MAX, EXP = nl.bitwise_and, nl.add, nl.maximum, nl.exp

CASES = {
    # selection
    "tensor_copy_predicated": [
        (
            lambda t: nisa.tensor_copy_predicated(t.s(8, 8), t.p(8, 8), t.p(8, 8, dtype="uint8")),
            "src and predicate: both in PSUM",
        ),
        (
            lambda t: nisa.tensor_copy_predicated(t.s(8, 8), t.s(8, 8), t.s(8, 8)),
            "predicate: dtype float32, must be uint8",
        ),
        (
            lambda t: nisa.tensor_copy_predicated(t.s(8, 8), half(t, 8, 8), flags(t, 8, 8)),
            "dst: dtype float32, src has bfloat16",
        ),
    ],
    "select_reduce": [
        (lambda t: nisa.select_reduce(t.s(8, 8), t.s(8, 8), t.s(8, 8), 0.0), "predicate: dtype float32, must be int8"),
        (
            lambda t: nisa.select_reduce(t.s(8, 8), flags(t, 8, 8), t.s(8, 8, dtype="int32"), 0.0),
            "on_true: dtype int32",
        ),
        (
            lambda t: nisa.select_reduce(t.s(8, 8), flags(t, 8, 8), t.s(8, 8), 0.0, reduce_op=ADD),
            "reduce_op: add, must be one of",
        ),
        (
            lambda t: nisa.select_reduce(t.s(8, 8), flags(t, 8, 8), t.s(8, 8), 0.0, flags(t, 8, 1), RESET_REDUCE),
            "reduce_res: dtype uint8, must be a float",
        ),
    ],
    "range_select": [
        (
            lambda t: nisa.range_select(t.s(8, 8), t.s(8, 8), nl.less, nl.less, half(t, 8, 1), t.s(8, 1)),
            "bound0: dtype bfloat16, must be float32",
        ),
        (
            lambda t: nisa.range_select(t.s(8, 8), t.s(8, 8), nl.less, ADD, t.s(8, 1), t.s(8, 1)),
            "comp_op1: add, must be one of equal",
        ),
        (
            lambda t: nisa.range_select(
                t.s(8, 8), t.s(8, 8), nl.less, nl.less, t.s(8, 1), t.s(8, 1), on_false_value=0.0
            ),
            "on_false_value: 0.0, must be FP32_MIN",
        ),
        (
            lambda t: nisa.range_select(
                t.s(8, 8), t.s(8, 8), nl.less, nl.less, t.s(8, 1), t.s(8, 1), range_start=2**24
            ),
            "range_start: 16777216",
        ),
    ],
    "max8": [
        (lambda t: nisa.max8(t.s(8, 8), t.s(8, 7)), "src: 7 elements a partition < 8"),
        (lambda t: nisa.max8(t.s(8, 8), t.s(8, 16385)), "src: 16385 elements a partition > 16384"),
        (lambda t: nisa.max8(t.s(8, 9), t.s(8, 16)), "dst: 9 elements a partition > 8"),
    ],
    "nc_find_index8": [
        (
            lambda t: nisa.nc_find_index8(t.s(8, 8), t.s(8, 16), t.s(8, 8)),
            "dst: dtype float32, must be uint16 or uint32",
        ),
        (
            lambda t: nisa.nc_find_index8(t.s(8, 8, dtype="uint32"), t.s(8, 16), t.s(8, 4)),
            "vals: 4 elements a partition < 8",
        ),
    ],
    "nc_match_replace8": [
        (
            lambda t: nisa.nc_match_replace8(t.s(8, 8), t.s(8, 16), t.s(8, 8), 0.0),
            "dst: 8 elements a partition, data has 16",
        ),
        (lambda t: nisa.nc_match_replace8(t.s(8, 16), t.s(8, 16), t.s(8, 8), None), "imm: None is neither"),
    ],
    "nc_stream_shuffle": [
        (lambda t: nisa.nc_stream_shuffle(t.s(32, 8), t.s(32, 8), [0] * 31), "shuffle_mask: 31 entries, must be 32"),
        (
            lambda t: nisa.nc_stream_shuffle(t.s(32, 8), t.s(32, 8), [*[0] * 31, 32]),
            r"shuffle_mask\[31\]: 32, must be 0 to 31",
        ),
        (
            lambda t: nisa.nc_stream_shuffle(half(t, 32, 8), t.s(32, 8), [0] * 32),
            "dst: dtype bfloat16, src has float32",
        ),
        (
            lambda t: nisa.nc_stream_shuffle(t.s(128, 8)[16:48], t.s(32, 8), [0] * 32),
            "starts at partition 16, must start at 0, 32",
        ),
        (
            lambda t: nisa.nc_stream_shuffle(t.s(128, 8)[32:96], t.s(64, 8), [0] * 32),
            "starts at partition 32, must start at 0, 64",
        ),
    ],
    # Scalar Engine
    "activation": [
        (
            lambda t: nisa.activation(t.s(8, 8), EXP, t.s(8, 8), scale=half(t, 8, 1)),
            "scale: dtype bfloat16, must be float32",
        ),
        (
            lambda t: nisa.activation(t.s(8, 8), EXP, t.s(8, 8), bias=t.s(8, 8)),
            r"bias: shape \[8, 8\], must be a number or",
        ),
        (lambda t: nisa.activation(t.s(8, 8), ADD, t.s(8, 8)), "op: add is no activation function"),
        (
            lambda t: nisa.activation(t.s(8, 8), EXP, t.s(8, 8), reduce_op=MAX, reduce_cmd=RESET_REDUCE),
            "reduce_op: maximum, must be add",
        ),
        (
            lambda t: nisa.activation(t.s(8, 8), EXP, t.s(8, 8), reduce_res=t.s(8, 2)),
            "reduce_res: 2 elements a partition",
        ),
        (
            lambda t: nisa.activation(t.s(8, 8), EXP, t.s(8, 8), reduce_cmd=LOAD_REDUCE),
            "reduce_cmd: load_reduce, must be one of",
        ),
        (lambda t: nisa.activation(t.s(8, 8), AluOp("prelu"), t.s(8, 8)), "op prelu: needs NeuronCore-v4"),
    ],
    # GpSimd
    "iota": [
        (lambda t: nisa.iota(t.p(8, 8), [[1, 8]]), "dst: a tile in PSUM, must be in SBUF"),
        (lambda t: nisa.iota(t.s(8, 8), [[1, 7]]), "pattern: 7 elements, dst has 8"),
        (lambda t: nisa.iota(t.s(8, 8), [[1, 2]] * 5), "pattern: 5 dimensions, must be 1 to 4"),
    ],
    "affine_select": [
        (lambda t: nisa.affine_select(t.s(8, 8), [[1, 8]], 1, t.p(8, 8), 0.0), "on_true_tile: a tile in PSUM"),
        (
            lambda t: nisa.affine_select(t.s(8, 8), [[1, 8]], 1, t.s(8, 8), 0.0, cmp_op=ADD),
            "cmp_op: add, must be one of",
        ),
    ],
    "local_gather": [
        (lambda t: nisa.local_gather(t.s(16, 16), t.s(16, 64), t.s(16, 1)), "index: dtype float32, must be uint16"),
        (
            lambda t: nisa.local_gather(t.s(8, 16), t.s(8, 64), t.s(8, 1, dtype="uint16")),
            "src_buffer: partition 8 is no multiple of 16",
        ),
        (
            lambda t: nisa.local_gather(t.s(16, 48), t.s(16, 64), t.s(16, 1, dtype="uint16"), 3),
            "num_elem_per_idx: 3, must be one of 1, 2, 4",
        ),
        (
            lambda t: nisa.local_gather(t.s(16, 17), t.s(16, 64), t.s(16, 1, dtype="uint16"), 1, 17),
            "num_valid_indices: 17, must be 1 to 16",
        ),
        (
            lambda t: nisa.local_gather(t.s(16, 1), t.s(16, 64), t.s(16, 1, dtype="uint16"), 1, 0),
            "num_valid_indices: 0, must be 1 to 16",
        ),
        (
            lambda t: nisa.local_gather(t.s(16, 15), t.s(16, 64), t.s(16, 1, dtype="uint16")),
            "dst: 15 elements a partition",
        ),
    ],
    "nc_n_gather": [
        (
            lambda t: nisa.nc_n_gather(t.s(8, 4), t.s(8, 8), t.s(8, 4, dtype="int32")),
            "indices: dtype int32, must be uint32",
        ),
        (
            lambda t: nisa.nc_n_gather(half(t, 8, 4), t.s(8, 8), t.s(8, 4, dtype="uint32")),
            "dst: dtype bfloat16, data has",
        ),
    ],
    "nonzero_with_count": [
        (
            lambda t: nisa.nonzero_with_count(t.s(16, 8, dtype="int32"), t.s(16, 8)),
            "dst: 8 elements a partition, must be 9",
        ),
        (lambda t: nisa.nonzero_with_count(t.s(16, 9), t.s(16, 8)), "dst: dtype float32, must be int32"),
    ],
    "sequence_bounds": [
        (lambda t: nisa.sequence_bounds(t.s(2, 2, 8), t.s(2, 8)), "dst: partition 2, must be 1"),
        (lambda t: nisa.sequence_bounds(t.s(1, 8), t.s(1, 8)), "dst: 8 elements, must be 16"),
    ],
    "tensor_partition_reduce": [
        (lambda t: nisa.tensor_partition_reduce(t.s(2, 8), ADD, t.s(64, 8)), "dst: partition 2, must be 1"),
        (lambda t: nisa.tensor_partition_reduce(t.s(1, 8), nl.minimum, t.s(64, 8)), "op: minimum, must be one of add"),
    ],
    "topk": [
        (
            lambda t: nisa.topk(half(t, 16, 8), t.s(16, 8, dtype="uint32"), half(t, 16, 8), 7),
            "n: 7, must be 8 to 65535",
        ),
        (
            lambda t: nisa.topk(half(t, 16, 12), t.s(16, 12, dtype="uint32"), half(t, 16, 8), 10),
            "val_dst: 12 elements a partition > n = 10",
        ),
        (
            lambda t: nisa.topk(half(t, 16, 8), t.s(16, 8, dtype="uint32"), half(t, 16, 2), 40),
            "src: 2 elements a partition < 3",
        ),
    ],
    # random numbers
    "rng": [(lambda t: nisa.rng(t.s(8, 8)), "dst: dtype float32, must be int8")],
    "dropout": [
        (lambda t: nisa.dropout(half(t, 8, 8), t.s(8, 8), 0.5), "dst: dtype bfloat16, data has float32"),
        (lambda t: nisa.dropout(t.s(8, 8), t.s(8, 8), flags(t, 8, 1)), "prob: dtype uint8, must be a float"),
    ],
    "set_rng_seed": [(lambda t: nisa.set_rng_seed(t.s(1, 2)), r"src_seeds: shape \[1, 2\], must be \[1, 1\]")],
    "rand_set_state": [
        (lambda t: nisa.rand_set_state(t.s(8, 5, dtype="uint32")), "src_seeds: 5 elements a partition < 6"),
        (lambda t: nisa.rand_set_state(t.s(8, 24, dtype="uint32"), engine=V), "engine vector: needs NeuronCore-v4"),
    ],
    # transfers
    "dma_copy": [
        (lambda t: nisa.dma_copy(t.s(8, 8), t.p(8, 8)), "src: a tile in PSUM, must be in HBM or SBUF"),
        (lambda t: nisa.dma_copy(t.s(8, 8), t.h(8, 9)), "dst: 64 elements, src has 72"),
        (lambda t: nisa.dma_copy(t.s(8, 8), t.h(8, 8), priority=1), "priority: 1, needs NeuronCore-v4"),
        (
            lambda t: nisa.dma_copy(half(t, 8, 8), t.h(8, 8), dge_mode=nisa.dge_mode.hwdge),
            "dst: dtype bfloat16, src has float32",
        ),
        (
            lambda t: nisa.dma_copy(half(t, 16, 64), row(t, 16, 64), dge_mode=nisa.dge_mode.hwdge),
            "a vector_offset needs swdge",
        ),
        (lambda t: nisa.dma_copy(t.s(8, 8), t.h(8, 8), engine=V), "engine: vector, must be one of sync, scalar"),
        (lambda t: nisa.dma_copy(t.s(8, 8), np.zeros((8, 8))), "operand 1 is .* must be a tensor"),
    ],
    "dma_transpose": [
        (lambda t: nisa.dma_transpose(t.s(8, 8), t.h(8, 8), (0, 1)), r"axes: \(0, 1\) for a src of 2 dimensions"),
        (lambda t: nisa.dma_transpose(t.s(8, 8), t.h(8, 9)), r"dst: shape \[8, 8\], the transpose of src has \[9, 8\]"),
        (lambda t: nisa.dma_transpose(half(t, 8, 8), t.h(8, 8)), "dst: dtype bfloat16, src has float32"),
        (
            lambda t: nisa.dma_transpose(t.s(8, 16), t.h(16, 8), dge_mode=nisa.dge_mode.hwdge),
            "src: dtype float32, a generated transpose moves 2-byte elements",
        ),
        (
            lambda t: nisa.dma_transpose(
                half(t, 129, 16), t.h(16, 129, dtype="bfloat16"), dge_mode=nisa.dge_mode.hwdge
            ),
            "dst: partition 129 > 128",
        ),
        (lambda t: nisa.dma_transpose(half(t, 129, 16), row(t, 16, 129)), "dst: partition 129 > 128"),
        (
            lambda t: nisa.dma_transpose(t.h(129, 16, dtype="bfloat16"), row(t, 16, 129)),
            "src: last dimension 129 > 128",
        ),
        (lambda t: nisa.dma_transpose(half(t, 64, 24), row(t, 24, 64)), "src: first dimension 24 is no multiple of 16"),
        (
            lambda t: nisa.dma_transpose(half(t, 8, 8), t.h(8, 8, dtype="bfloat16"), dge_mode=nisa.dge_mode.hwdge),
            "src: first dimension 8, a hwdge transpose of 2 dimensions needs 16",
        ),
    ],
    "dma_compute": [
        (lambda t: nisa.dma_compute(t.s(8, 8), [t.h(8, 8)], MAX), "reduce_op: maximum, must be one of add"),
        (lambda t: nisa.dma_compute(t.s(8, 8), [t.h(8, 8)] * 17, ADD), "srcs: 17 tensors, must be 1 to 16"),
        (
            lambda t: nisa.dma_compute(t.s(8, 8), [t.h(8, 8)], ADD, scales=[2.0]),
            r"scales: \[2.0\], every scale must be 1.0",
        ),
        (lambda t: nisa.dma_compute(t.s(8, 8), [t.h(8, 7)], ADD), r"srcs\[0\]: 56 elements, dst has 64"),
        (
            lambda t: nisa.dma_compute(half(t, 16, 64), [row(t, 16, 64), *(half(t, 16, 64) for _ in "ab")], ADD),
            "srcs: 3 tensors with 1 vector_offset, must be 2 with 1",
        ),
        (lambda t: nisa.dma_compute(t.s(8, 8), [t.h(8, 8)], ADD, unique_indices=False), "unique_indices: False"),
    ],
    # registers
    "register_load": [
        (lambda t: nisa.register_load(nisa.register_alloc(), t.s(1, 2)), "src: 2 elements, a register holds 1"),
        (lambda t: nisa.register_load(3, t.s(1, 1)), "dst: 3 is no register"),
    ],
    "register_move": [(lambda t: nisa.register_move(nisa.register_alloc(), "x"), "src: 'x' is neither")],
}
