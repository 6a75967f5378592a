"""Constraints of transfers, of what passes between cores, and of registers."""

from __future__ import annotations

import sim.nki.language as nl
from sim.nki import isa as nisa
from tests.limits.limit import Limit, Table, newer
from tests.limits.tiles import ADD, MAX, X4, G, S, V, half, row

HARDWARE, SOFTWARE, STATIC = nisa.dge_mode.hwdge, nisa.dge_mode.swdge, nisa.dge_mode.none
SKIP, ERROR = nisa.oob_mode.skip, nisa.oob_mode.error


def indices(t, *shape, dtype="uint32", memory="sbuf"):
    return t.at(memory, *shape, dtype=dtype)


def both_gather(t, scatters):
    index = indices(t, 16, 1)
    target = row(t, 16, 64, index=index) if scatters else half(t, 16, 64)
    return nisa.dma_copy(target, row(t, 16, 64, index=index))


def on_chip_rows(t, memory):
    index = indices(t, 16, 1)
    source = t.at(memory, 64, 64, dtype="bfloat16")
    return nisa.dma_copy(half(t, 16, 64), source.ap([[64, 16], [1, 64]], vector_offset=index))


def one_index(t, value):
    index = t.chip.tensor([[value]], "uint32")
    return nisa.dma_copy(half(t, 1, 64), row(t, 1, 64, index=index))


COPY = [
    Limit("PSUM is out of reach", lambda t, m: nisa.dma_copy(t.s(8, 8), t.at(m, 8, 8)), "psum", "hbm",
          "src | PSUM | HBM or SBUF"),
    Limit("both sides have as many elements", lambda t, n: nisa.dma_copy(t.s(8, 8), t.h(8, n)), 9, 8,
          "dst | 64 elements | src has 72"),
    Limit("priorities come with v4", lambda t, x: nisa.dma_copy(t.s(8, 8), t.h(8, 8), priority=x), 1, None,
          "priority | 1 | NeuronCore-v4"),
    Limit("a priority is 0 to 3", lambda t, x: nisa.dma_copy(t.s(8, 8), t.h(8, 8), priority=x), 4, 3,
          "priority | 4 | must be 0 to 3", "trn3"),
    Limit("hardware descriptors come with v3", lambda t, _: nisa.dma_copy(t.s(8, 8), t.h(8, 8), dge_mode=HARDWARE),
          None, None, "dge_mode | hwdge | NeuronCore-v3", "trn1", "trn2"),
    Limit("hardware descriptors keep the dtype", lambda t,
              d: nisa.dma_copy(t.s(8, 8, dtype=d), t.h(8, 8), dge_mode=HARDWARE),
          "bfloat16", "float32", "dst | bfloat16 | src has float32"),
    Limit("packed numbers are moved as they are", lambda t, d: nisa.dma_copy(t.s(8, 8, dtype=d), t.h(8, 8, dtype=X4)),
          "float32", X4, "dst | float32 | float8_e5m2_x4"),
    Limit("a gather needs software descriptors", lambda t,
              mode: nisa.dma_copy(half(t, 16, 64), row(t, 16, 64), dge_mode=mode),
          HARDWARE, SOFTWARE, "dge_mode | hwdge | swdge"),
    Limit("rows are found on one side only", both_gather, True, False, "dst and src | vector_offset | both"),
    Limit("rows are found in HBM", on_chip_rows, "sbuf", "hbm", "src | SBUF | must be in HBM"),
    Limit("indices are integers of 32 bits",
          lambda t, d: nisa.dma_copy(half(t, 16, 64), row(t, 16, 64, index=indices(t, 16, 1, dtype=d))),
          "float32", "int32", "src: vector_offset | float32 | uint32 or int32"),
    Limit("indices are in SBUF",
          lambda t, m: nisa.dma_copy(half(t, 16, 64), row(t, 16, 64, index=indices(t, 16, 1, memory=m))),
          "psum", "sbuf", "src: vector_offset | PSUM | must be in SBUF"),
    Limit("each row has an index", lambda t, p: nisa.dma_copy(half(t, 16, 64), row(t, 16, 64, index=indices(t, p, 1))),
          8, 16, "src: vector_offset | [8, 1] | 16 indices"),
    Limit("an index names a row of the tensor", one_index, 256, 255, "src | index 256 | outside the tensor"),
    Limit("a queue hangs on sync, scalar or gpsimd", lambda t, e: nisa.dma_copy(t.s(8, 8), t.h(8, 8), engine=e), V, S,
          "engine | vector | must be one of sync, scalar, gpsimd"),
    Limit("both sides are tensors", lambda t, x: nisa.dma_copy(t.s(8, 8), x or t.h(8, 8)), 3.0, None,
          "src | 3.0 of type float | must be a tensor"),
]  # fmt: skip


def turned(t, shape=(16, 64), mode=HARDWARE, of="bfloat16", axes=None, to=None, **named):
    source = t.h(*shape, dtype=of)
    order = axes or {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}[len(shape)]
    target = to or tuple(shape[axis] for axis in order)
    return nisa.dma_transpose(t.s(*target, dtype=of), source, axes, dge_mode=mode, **named)


def gathered(t, rows=16, width=64, of="bfloat16", index=None, mode=SOFTWARE, memory="hbm"):
    index = indices(t, rows, 1) if index is None else index
    source = t.at(memory, *((256, width) if memory == "hbm" else (128, width)), dtype=of)
    view = source.ap([[width, rows], [1, width]], vector_offset=index)
    return nisa.dma_transpose(t.s(width, rows, dtype=of), view, dge_mode=mode)


def gathered4(t, d1, d2):
    view = t.h(64, d1, d2, 32, dtype="bfloat16").ap(
        [[d1 * d2 * 32, 16], [d2 * 32, d1], [32, d2], [1, 32]], vector_offset=indices(t, 16, 1)
    )
    return nisa.dma_transpose(t.s(32, d1, d2, 16, dtype="bfloat16"), view)


TRANSPOSE = [
    Limit("dimensions are turned around", lambda t, axes: turned(t, mode=nisa.dge_mode.unknown, axes=axes, to=(64, 16)),
          (0, 1), (1, 0), "axes | (0, 1) | (1, 0), (2, 1, 0), (3, 1, 2, 0)"),
    Limit("dst has the shape of the transpose", lambda t, to: turned(t, to=to), (16, 64), (64, 16),
          "dst | [16, 64] | [64, 16]"),
    Limit("a transpose keeps the dtype", lambda t, d: nisa.dma_transpose(t.s(8, 16, dtype=d), t.h(16, 8)),
          "bfloat16", "float32", "dst | bfloat16 | src has float32"),
    Limit("descriptors are the hardware's or the compiler's", lambda t, mode: turned(t, mode=mode), SOFTWARE, HARDWARE,
          "dge_mode | swdge | must be one of unknown, hwdge, none"),
    Limit("the hardware turns 2-byte elements", lambda t, d: turned(t, of=d), "float32", "float16",
          "src | float32 | 2-byte"),
    Limit("the hardware turns rows of at most 128", lambda t,
              n: turned(t, (1, 16, n), to=(128, 16, 1) if n > 128 else None),
          129, 128, "src | last dimension 129 | 128") ._replace(
              call=lambda t, n: turned(t, (1, 16, n)) if n == 128 else nisa.dma_transpose(
                  t.h(n, 16, 1, dtype="bfloat16"), t.h(1, 16, n, dtype="bfloat16"), dge_mode=HARDWARE)),
    Limit("the hardware turns 16 rows of 2 dimensions", lambda t, n: turned(t, (n, 64)), 8, 16,
          "src | first dimension 8 | 16"),
    Limit("the hardware turns 1, 2, 4, 8 or 16 planes", lambda t, n: turned(t, (n, 16, 8)), 3, 2,
          "src: first dimension | 3 | must be one of 1, 2, 4, 8, 16"),
    Limit("planes times rows come in sixteens", lambda t, n: turned(t, (2, n, 8)), 4, 8,
          "src | [2, 4, 8] | multiple of 16"),
    Limit("a plain transpose has nothing to skip", lambda t, mode: turned(t, oob_mode=mode), SKIP, ERROR,
          "oob_mode | skip | must be error"),
    Limit("priorities come with v4", lambda t, x: turned(t, priority=x), 0, None, "priority | 0 | NeuronCore-v4"),
    Limit("a priority is 0 to 3", lambda t, x: turned(t, priority=x), -1, 0, "priority | -1 | must be 0 to 3", "trn3"),
    newer(lambda t: gathered(t), "vector_offset", "trn1", 3, "trn2"),
    Limit("a gather's descriptors are software's", lambda t, mode: gathered(t, mode=mode), HARDWARE, SOFTWARE,
          "dge_mode | hwdge | must be one of unknown, swdge"),
    Limit("a gather turns 2-byte elements", lambda t, d: gathered(t, of=d), "float32", "float16",
              "src | float32 | 2-byte"),
    Limit("a gather turns rows of at most 128", lambda t, n: nisa.dma_transpose(
              t.h(n, 16, dtype="bfloat16"), row(t, 16, n)), 129, 128, "src | last dimension 129 | 128"),
    Limit("gathered rows come in sixteens", lambda t, n: gathered(t, n, index=indices(t, 32, 1)), 24, 32,
          "src | first dimension 24 | multiple of 16"),
    Limit("rows are found in HBM", lambda t, m: gathered(t, memory=m), "sbuf", "hbm", "src | SBUF | must be in HBM"),
    Limit("indices are uint32", lambda t, d: gathered(t, index=indices(t, 16, 1, dtype=d)), "int32", "uint32",
          "src: vector_offset | int32 | must be uint32"),
    Limit("each row has an index", lambda t, p: gathered(t, 32, index=indices(t, p, 1)), 16, 32,
          "src: vector_offset | [16, 1] | 32 indices"),
    Limit("partitions of indices come in sixteens", lambda t, p: gathered(t, index=indices(t, p, 1)), 24, 32,
          "src: vector_offset | 24 partitions | multiple of 16"),
    Limit("several columns of indices fill all partitions", lambda t, p: gathered(t, 128, index=indices(t, p, 2)), 64,
              128,
          "src: vector_offset | [64, 2] | 128 partitions"),
    Limit("indices have 2 dimensions", lambda t, s: gathered(t, index=indices(t, *s)), (16, 1, 1), (16, 1),
          "src: vector_offset | [16, 1, 1] | 2 dimensions"),
    Limit("of 4 dimensions one in the middle is 1", lambda t, n: gathered4(t, n, 2), 2, 1,
          "src | [16, 2, 2, 32] | dimension 1 or 2 must be 1"),
]  # fmt: skip


def summed(t, op=ADD, count=1, scales=None, n=8, **named):
    return nisa.dma_compute(t.s(8, 8), [t.h(8, n) for _ in range(count)], op, scales, **named)


def gather_sum(t, plain=1, memory="sbuf"):
    dst = half(t, 16, 64)
    others = [dst if memory == "sbuf" else t.h(16, 64, dtype="bfloat16") for _ in range(plain)]
    return nisa.dma_compute(dst, [row(t, 16, 64), *others], ADD)


COMPUTE = [
    Limit("only sums are formed", lambda t, op: summed(t, op), MAX, ADD, "reduce_op | maximum | must be one of add"),
    Limit("up to 16 tensors are summed", lambda t, n: summed(t, count=n), 17, 16,
              "srcs | 17 tensors | must be 1 to 16"),
    Limit("a tensor is summed", lambda t, n: summed(t, count=n), 0, 1, "srcs | 0 tensors | must be 1 to 16"),
    Limit("scales are 1", lambda t, x: summed(t, scales=[x]), 2.0, 1.0, "scales | [2.0] | must be 1.0"),
    Limit("each source has a scale", lambda t, n: summed(t, scales=[1.0] * n), 2, 1, "scales | 2 numbers | must be 1"),
    Limit("sources have dst's elements", lambda t, n: summed(t, n=n), 7, 8, "srcs[0] | 56 elements | dst has 64"),
    Limit("indexed rows have one partner", lambda t, n: gather_sum(t, n), 2, 1,
          "srcs | 3 tensors with 1 vector_offset | must be 2 with 1"),
    Limit("the partner is in SBUF", lambda t, m: gather_sum(t, memory=m), "hbm", "sbuf",
              "srcs | HBM | must be in SBUF"),
    Limit("indices occur once", lambda t, x: summed(t, unique_indices=x), False, True,
          "unique_indices | False | not supported yet"),
    Limit("PSUM is out of reach", lambda t, m: nisa.dma_compute(t.s(8, 8), [t.at(m, 8, 8)], ADD), "psum", "sbuf",
          "srcs[0] | PSUM | HBM or SBUF"),
]  # fmt: skip


def sent(t, to=None, pipe=0, memory="sbuf", of="float32", n=8, back=None, **named):
    """Two cores exchange a tile; `to` and `back` replace the ranks."""

    def body():
        other = 1 - nl.program_id(0)
        src = nl.ndarray((8, 8), nl.float32, nl.sbuf)
        nisa.memset(src, 0.0)
        dst = nl.ndarray((8, n), of, nl.sbuf if memory == "sbuf" else nl.psum)
        nisa.sendrecv(src, dst, other if to is None else to, other if back is None else back, pipe, **named)

    return t.launch(body, lnc=2)


def wide(t, width, of):
    def body():
        other = 1 - nl.program_id(0)
        src, dst = (nl.ndarray((8, width), of, nl.sbuf) for _ in "ab")
        nisa.memset(src, 0)
        nisa.sendrecv(src, dst, other, other, 0, nisa.dma_engine.gpsimd_dma)

    return t.launch(body, lnc=2)


def barrier(t, cores=(0, 1), engine=G, memory=nl.shared_hbm, lnc=2):
    def body():
        data = nl.ndarray((8, 8), nl.float32, memory)
        nisa.core_barrier(data, cores, engine)

    return t.launch(body, lnc=lnc)


CORES = {
    "nki.isa.sendrecv": [
        Limit("data goes to core 0 or 1", lambda t, x: sent(t, to=x), 2, None, "send_to_rank | 2 | must be 0 or 1"),
        Limit("data comes from core 0 or 1", lambda t, x: sent(t, back=x), -1, None,
              "recv_from_rank | -1 | must be 0 or 1"),
        Limit("both tiles are in SBUF", lambda t, m: sent(t, memory=m), "psum", "sbuf", "dst | PSUM | must be in SBUF"),
        Limit("an exchange keeps the dtype", lambda t, d: sent(t, of=d), "bfloat16", "float32",
              "dst | bfloat16 | src has float32"),
        Limit("both tiles have as many elements", lambda t, n: sent(t, n=n), 4, 8, "dst | 4 elements | src has 8"),
        Limit("GpSimd exchanges 1024 bytes of 32-bit numbers", lambda t, n: wide(t, n, "float32"), 257, 256,
              "src | 1028 bytes | 1024"),
        Limit("GpSimd exchanges 512 bytes of 16-bit numbers", lambda t, n: wide(t, n, "bfloat16"), 257, 256,
              "src | 514 bytes | 512"),
        Limit("GpSimd exchanges 256 bytes of 8-bit numbers", lambda t, n: wide(t, n, "uint8"), 257, 256,
              "src | 257 bytes | 256"),
    ],
    "nki.isa.core_barrier": [
        Limit("both cores meet", lambda t, c: barrier(t, c), (0, 2), (0, 1), "cores | (0, 2) | must be (0, 1)"),
        Limit("an engine waits", lambda t, e: barrier(t, engine=e), nisa.engine.dma, V,
              "engine | dma | compute engine or sync"),
        Limit("the data is in shared HBM", lambda t, m: barrier(t, memory=m), nl.psum, nl.shared_hbm,
              "data | PSUM | must be in shared HBM"),
        Limit("the launch has two cores", lambda t, n: barrier(t, lnc=n), 1, 2, "launch | no core 1 | kernel[2]"),
    ],
}  # fmt: skip


REGISTERS = {
    "nki.isa.register_alloc": [
        Limit("a register starts from an integer", lambda t, x: nisa.register_alloc(x), 1.5, 1,
              "x | 1.5 | neither an integer nor a register"),
    ],
    "nki.isa.register_move": [
        Limit("an integer or a register is moved", lambda t, x: nisa.register_move(nisa.register_alloc(), x), "x", 3,
              "src | 'x' | neither an integer nor a register"),
        Limit("dst is a register", lambda t, x: nisa.register_move(x or nisa.register_alloc(), 1), 3, None,
              "dst | 3 | no register"),
    ],
    "nki.isa.register_load": [
        Limit("a register holds one number",
              lambda t, n: nisa.register_load(nisa.register_alloc(), t.s(1, n, dtype="int32")), 2, 1,
              "src | 2 elements | a register holds 1"),
        Limit("PSUM is out of reach",
              lambda t, m: nisa.register_load(nisa.register_alloc(), t.at(m, 1, 1, dtype="int32")), "psum", "hbm",
              "src | PSUM | HBM or SBUF"),
        Limit("dst is a register", lambda t, x: nisa.register_load(x or nisa.register_alloc(), t.s(1, 1)), 3, None,
              "dst | 3 | no register"),
    ],
    "nki.isa.register_store": [
        Limit("a register is stored", lambda t,
              x: nisa.register_store(t.s(1, 1, dtype="int32"), x or nisa.register_alloc(0)),
              3, None, "src | 3 | no register"),
        Limit("it goes to one number", lambda t,
              n: nisa.register_store(t.s(1, n, dtype="int32"), nisa.register_alloc(0)),
              2, 1, "dst | 2 elements | a register holds 1"),
        Limit("PSUM is out of reach",
              lambda t, m: nisa.register_store(t.at(m, 1, 1, dtype="int32"), nisa.register_alloc(0)), "psum", "sbuf",
              "dst | PSUM | HBM or SBUF"),
    ],
    "nki.isa.scalar_load": [
        Limit("a scalar is an int32", lambda t, d: nisa.scalar_load(t.s(1, 1, dtype=d)), "float32", "int32",
              "src | fp32 | must be int32"),
        Limit("a scalar is one number", lambda t, n: nisa.scalar_load(t.s(1, n, dtype="int32")), 2, 1,
              "src | 2 elements | holds 1"),
    ],
    "nki.isa.scalar_store": [
        Limit("a scalar is stored", lambda t, x: nisa.scalar_store(t.s(1, 1, dtype="int32"), x or nisa.NkiScalar(3)),
              3, None,
              "value | 3 | no NkiScalar"),
    ],
}  # fmt: skip

LIMITS: Table = {
    "nki.isa.dma_copy": COPY,
    "nki.isa.dma_transpose": TRANSPOSE,
    "nki.isa.dma_compute": COMPUTE,
    **CORES,
    **REGISTERS,
}
