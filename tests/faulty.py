"""Kernels with one fault each, and their repaired twins, which do the same work in less time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sim
from sim.compiler import Options
from sim.nki import collectives as ncc
from sim.nki import isa
from sim.nki import language as nl
from sim.nki.kernel import jit

BF16, FP32 = "bfloat16", "float32"
SUM = ncc.ReplicaGroup([[0, 1]])


@dataclass(frozen=True, eq=False)
class Pair:
    rule: str
    fault: Callable
    twin: Callable
    shapes: tuple[tuple[tuple[int, ...], str], ...]
    options: dict[str, Any] | None = None

    def run(self, kernel: Callable) -> sim.Run:
        inputs = [sim.TensorSpec(shape, dtype) for shape, dtype in self.shapes]
        return sim.run(jit(kernel), *inputs, values=False, **(self.options or {}))

    def __str__(self) -> str:
        return self.fault.__name__


def sbuf(*shape, dtype=BF16):
    return nl.ndarray(shape, dtype, nl.sbuf)


def psum(*shape, dtype=FP32):
    return nl.ndarray(shape, dtype, nl.psum)


def hbm(*shape, dtype=BF16):
    return nl.ndarray(shape, dtype, nl.shared_hbm)


# --- traffic ------------------------------------------------------------------------------------------------------


def scale_rows(x, weight, hoisted):
    """Every block of x times the same weights."""
    out = hbm(*x.shape)
    if hoisted:
        weights = sbuf(*weight.shape)
        isa.dma_copy(weights, weight)
    for block in range(x.shape[0]):
        if not hoisted:
            weights = sbuf(*weight.shape)
            isa.dma_copy(weights, weight)
        tile, result = sbuf(*x.shape[1:]), sbuf(*x.shape[1:])
        isa.dma_copy(tile, x[block])
        isa.tensor_tensor(result, tile, weights, nl.multiply)
        isa.dma_copy(out[block], result)
    return out


def reloading(x, weight):
    return scale_rows(x, weight, False)


def loading_once(x, weight):
    return scale_rows(x, weight, True)


def two_passes(x, fused):
    """exp(x) + x; without fusion the first result goes through HBM."""
    out = hbm(*x.shape)
    if not fused:
        kept = hbm(*x.shape)
        for block in range(x.shape[0]):
            tile, power = sbuf(*x.shape[1:]), sbuf(*x.shape[1:])
            isa.dma_copy(tile, x[block])
            isa.activation(power, nl.exp, tile)
            isa.dma_copy(kept[block], power)
    for block in range(x.shape[0]):
        tile, power, result = (sbuf(*x.shape[1:]) for _ in range(3))
        isa.dma_copy(tile, x[block])
        if fused:
            isa.activation(power, nl.exp, tile)
        else:
            isa.dma_copy(power, kept[block])
        isa.tensor_tensor(result, power, tile, nl.add)
        isa.dma_copy(out[block], result)
    return out


def through_hbm(x):
    return two_passes(x, False)


def in_sbuf(x):
    return two_passes(x, True)


def held_tiles(x, at_once):
    """Computed tiles, of which `at_once` are alive before they are stored."""
    out = hbm(*x.shape)
    for first in range(0, x.shape[0], at_once):
        tiles = []
        for block in range(first, first + at_once):
            tile, kept = sbuf(*x.shape[1:]), sbuf(*x.shape[1:])
            isa.dma_copy(tile, x[block])
            isa.tensor_scalar(kept, tile, nl.add, 1.0)
            tiles.append(kept)
        for block, kept in enumerate(tiles, start=first):
            isa.dma_copy(out[block], kept)
    return out


def spilling(x):
    return held_tiles(x, x.shape[0])


def fitting(x):
    return held_tiles(x, 4)


# --- DMAs ---------------------------------------------------------------------------------------------------------


def stream(x, width, engines=(isa.engine.sync,)):
    """x + 1, `width` columns at a time."""
    rows, columns = x.shape
    out = hbm(*x.shape)
    for k, first in enumerate(range(0, columns, width)):
        tile, result = sbuf(rows, width), sbuf(rows, width)
        engine = engines[k % len(engines)]
        isa.dma_copy(tile, x[:, first : first + width], engine=engine)
        isa.tensor_scalar(result, tile, nl.add, 1.0)
        isa.dma_copy(out[:, first : first + width], result, engine=engine)
    return out


def short_rows(x):
    """As `long_rows`, but each tile is gathered from pieces of 32 columns that lie far apart."""
    rows, columns = x.shape
    pieces, strips = 4096 // 32, columns // 4096
    out = hbm(*x.shape)
    source, target = x.reshape((rows, pieces, strips, 32)), out.reshape((rows, pieces, strips, 32))
    for strip in range(strips):
        tile, result = sbuf(rows, pieces, 32), sbuf(rows, pieces, 32)
        engine = (isa.engine.sync, isa.engine.scalar)[strip % 2]
        isa.dma_copy(tile, source[:, :, strip, :], engine=engine)
        isa.tensor_scalar(result, tile, nl.add, 1.0)
        isa.dma_copy(target[:, :, strip, :], result, engine=engine)
    return out


def long_rows(x):
    return stream(x, 4096, (isa.engine.sync, isa.engine.scalar))


def small_triggers(x):
    return stream(x, 512)


def large_triggers(x):
    return stream(x, 8192)


def transposed(x, by_dma):
    """x.T in blocks of 128 x 128, plus one."""
    rows, columns = x.shape
    out = hbm(columns, rows)
    for first in range(0, columns, 128):
        turned, result = sbuf(128, rows), sbuf(128, rows)
        if by_dma:
            isa.dma_copy(turned, x[:, first : first + 128].permute((1, 0)))
        else:
            tile, product = sbuf(rows, 128), psum(128, rows, dtype=BF16)
            isa.dma_copy(tile, x[:, first : first + 128])
            isa.nc_transpose(product, tile)
            isa.tensor_copy(turned, product)
        isa.tensor_scalar(result, turned, nl.add, 1.0)
        isa.dma_copy(out[first : first + 128, :], result)
    return out


def dma_transposes(x):
    return transposed(x, True)


def tensor_turns(x):
    return transposed(x, False)


# --- overlap ------------------------------------------------------------------------------------------------------


def loaded_blocks(x, buffers):
    """ScalarE's passes over every block; `buffers` SBUF tiles serve all blocks in turn."""
    out = hbm(*x.shape)
    half = x.shape[2] // 2
    shared = [sbuf(*x.shape[1:]) for _ in range(buffers)]
    for block in range(x.shape[0]):
        tile = shared[block % buffers]
        for first in (0, half):
            isa.dma_copy(tile[:, first : first + half], x[block][:, first : first + half])
        result = sbuf(*x.shape[1:])
        isa.activation(result, nl.exp, tile)
        isa.dma_copy(out[block], result, engine=isa.engine.gpsimd)
    return out


def one_buffer(x):
    return loaded_blocks(x, 1)


def three_buffers(x):
    return loaded_blocks(x, 3)


def whole_or_tiles(x, width):
    """Exponentials of a tensor that is loaded and stored `width` columns at a time."""
    rows, columns = x.shape
    out = hbm(*x.shape)
    for first in range(0, columns, width):
        here = slice(first, first + width)
        tile, result = sbuf(rows, width), sbuf(rows, width)
        isa.dma_copy(tile, x[:, here])
        for part in range(0, width, 1024):
            isa.activation(result[:, part : part + 1024], nl.exp, tile[:, part : part + 1024])
        isa.dma_copy(out[:, here], result)
    return out


def whole_tensor(x):
    return whole_or_tiles(x, 16384)


def tile_by_tile(x):
    return whole_or_tiles(x, 2048)


def two_engines(x, tiles):
    """Exponentials on ScalarE, then products on VectorE, over the whole block or tile by tile."""
    rows, columns = x.shape
    out = hbm(rows, columns)
    tile = sbuf(rows, columns)
    isa.dma_copy(tile, x)
    width = columns // tiles
    for first in range(0, columns, width):
        here = slice(first, first + width)
        power, result = sbuf(rows, width, dtype=FP32), sbuf(rows, width, dtype=FP32)
        for _ in range(3):
            isa.activation(power, nl.exp, tile[:, here])
        for _ in range(3):
            isa.tensor_tensor(result, power, tile[:, here], nl.multiply)
        short = sbuf(rows, width)
        isa.tensor_tensor(short, result, power, nl.multiply)
        isa.dma_copy(out[:, here], short)
    return out


def in_turn(x):
    return two_engines(x, 1)


def side_by_side(x):
    return two_engines(x, 16)


def summed_up(x, chunks):
    """x + 1 summed over two ranks, then its exponential; in chunks, the sum of one goes on while the next is made."""
    rows, columns = x.shape
    out = hbm(*x.shape)
    width = columns // chunks
    for first in range(0, columns, width):
        here = slice(first, first + width)
        tile, more = sbuf(rows, width), sbuf(rows, width)
        isa.dma_copy(tile, x[:, here])
        for _ in range(6):
            isa.activation(more, nl.exp, tile)
        mine, total = hbm(rows, width), hbm(rows, width)
        isa.dma_copy(mine, more)
        ncc.all_reduce(srcs=[mine], dsts=[total], op=nl.add, replica_group=SUM)
        back = sbuf(rows, width)
        isa.dma_copy(back, total)
        isa.dma_copy(out[:, here], back)
    return out


def sum_at_the_end(x):
    return summed_up(x, 1)


def sum_in_chunks(x):
    return summed_up(x, 8)


# --- shapes -------------------------------------------------------------------------------------------------------


def folded(x, lanes):
    """Repeated exponentials of all elements, `lanes` partitions at a time."""
    count = x.shape[0] * x.shape[1] // lanes
    flat = x.reshape((lanes, count))
    out = hbm(*x.shape)
    tile = sbuf(lanes, count)
    isa.dma_copy(tile, flat)
    step = max(512, count // 16)
    for _ in range(3):
        for first in range(0, count, step):
            isa.activation(tile[:, first : first + step], nl.exp, tile[:, first : first + step])
    isa.dma_copy(out.reshape((lanes, count)), tile)
    return out


def few_lanes(x):
    return folded(x, 32)


def all_lanes(x):
    return folded(x, 128)


def columnwise(x, width):
    """Exponentials, `width` columns at a time."""
    rows, columns = x.shape
    out = hbm(*x.shape)
    tile, result = sbuf(rows, columns), sbuf(rows, columns)
    isa.dma_copy(tile, x)
    for first in range(0, columns, width):
        isa.activation(result[:, first : first + width], nl.exp, tile[:, first : first + width])
    isa.dma_copy(out, result)
    return out


def short_tiles(x):
    return columnwise(x, 8)


def long_tiles(x):
    return columnwise(x, 512)


# --- placement ----------------------------------------------------------------------------------------------------


def chained(x, passes):
    """exp(2 x + 1) over a tile in SBUF, several times; in one pass or three."""
    rows, columns = x.shape
    out = hbm(*x.shape, dtype=FP32)
    tile, result = sbuf(rows, columns, dtype=FP32), sbuf(rows, columns, dtype=FP32)
    isa.dma_copy(tile, x)
    for _ in range(4):
        for first in range(0, columns, 1024):
            here = slice(first, first + 1024)
            if passes == 3:
                scaled, moved = sbuf(rows, 1024, dtype=FP32), sbuf(rows, 1024, dtype=FP32)
                isa.tensor_scalar(scaled, tile[:, here], nl.multiply, 2.0)
                isa.tensor_scalar(moved, scaled, nl.add, 1.0)
                isa.activation(result[:, here], nl.exp, moved)
            else:
                isa.activation(result[:, here], nl.exp, tile[:, here], bias=1.0, scale=2.0)
    isa.dma_copy(out, result)
    return out


def three_passes(x):
    return chained(x, 3)


def one_pass(x):
    return chained(x, 1)


def contracted(a, b, in_psum):
    """a.T @ b over the contraction tiles of two operands in SBUF, added up in PSUM or in SBUF; four times."""
    depth, rows = a.shape[0] // 128, a.shape[1]
    columns = b.shape[1]
    out = hbm(rows, columns, dtype=FP32)
    left, right = sbuf(128, depth, rows), sbuf(128, depth, columns)
    isa.dma_copy(left, a.reshape((depth, 128, rows)).permute((1, 0, 2)))
    isa.dma_copy(right, b.reshape((depth, 128, columns)).permute((1, 0, 2)), engine=isa.engine.scalar)
    for _ in range(4):
        total = sbuf(rows, columns, dtype=FP32)
        if not in_psum:
            isa.memset(total, 0.0)
        product = psum(rows, columns)
        for k in range(depth):
            if not in_psum:
                product = psum(rows, columns)
            isa.nc_matmul(product, left[:, k, :], right[:, k, :])
            if not in_psum:
                isa.tensor_tensor(total, product, total, nl.add)
        if in_psum:
            isa.tensor_copy(total, product)
    isa.dma_copy(out, total)
    return out


def sums_in_sbuf(a, b):
    return contracted(a, b, False)


def sums_in_psum(a, b):
    return contracted(a, b, True)


def two_functions(x, grouped):
    """Two activation functions of different tables over many tiles, tile by tile or one after the other."""
    rows, columns = x.shape
    out = hbm(*x.shape)
    tile, result = sbuf(rows, columns), sbuf(rows, columns)
    isa.dma_copy(tile, x)
    tiles = [slice(first, first + 256) for first in range(0, columns, 256)]
    steps = [(nl.exp, here) for here in tiles] + [(nl.sin, here) for here in tiles]
    if not grouped:
        steps = [(op, here) for here in tiles for op in (nl.exp, nl.sin)]
    for op, here in steps:
        source = tile if op is nl.exp else result
        isa.activation(result[:, here], op, source[:, here])
    isa.dma_copy(out, result)
    return out


def tables_in_turn(x):
    return two_functions(x, False)


def tables_once(x):
    return two_functions(x, True)


def added(x, y, engine):
    """x + y in pieces of 256 columns."""
    rows, columns = x.shape
    out = hbm(*x.shape)
    left, right, total = (sbuf(rows, columns) for _ in range(3))
    isa.dma_copy(left, x)
    isa.dma_copy(right, y)
    for first in range(0, columns, 256):
        here = slice(first, first + 256)
        isa.tensor_tensor(total[:, here], left[:, here], right[:, here], nl.add, engine=engine)
    isa.dma_copy(out, total)
    return out


def on_gpsimd(x, y):
    return added(x, y, isa.engine.gpsimd)


def on_vector(x, y):
    return added(x, y, isa.engine.vector)


def evacuated(a, b, engines, joined=1):
    """Products of one contraction tile, copied out by some engines in turn, `joined` products at a time; four times."""
    columns = b.shape[1]
    out = hbm(128, columns)
    left, right, result = sbuf(128, 128), sbuf(128, columns), sbuf(128, columns)
    isa.dma_copy(left, a)
    isa.dma_copy(right, b)
    for k, first in enumerate([*range(0, columns, 128 * joined)] * 4):
        product = psum(128, 128 * joined)
        for part in range(joined):
            here = slice(part * 128, (part + 1) * 128)
            isa.nc_matmul(product[:, here], left, right[:, first + part * 128 : first + (part + 1) * 128])
        isa.tensor_copy(result[:, first : first + 128 * joined], product, engine=engines[k % len(engines)])
    isa.dma_copy(out, result)
    return out


def small_copies(a, b):
    return evacuated(a, b, (isa.engine.vector,))


def bank_copies(a, b):
    return evacuated(a, b, (isa.engine.vector,), 4)


def copies_on_vector(a, b):
    return evacuated(a, b, (isa.engine.vector,), 4)


def copies_on_both(a, b):
    return evacuated(a, b, (isa.engine.vector, isa.engine.scalar), 4)


def accumulators(a, b, banks):
    """Products that fill `banks` accumulators in turn, which VectorE empties."""
    columns = b.shape[1]
    out = hbm(128, columns)
    left, right, result = sbuf(128, 128), sbuf(128, columns), sbuf(128, columns)
    isa.dma_copy(left, a)
    isa.dma_copy(right, b)
    held = psum(128, banks, 512)
    for k, first in enumerate(range(0, columns, 512)):
        here = slice(first, first + 512)
        for part in (0, 256):
            for again in range(3):
                isa.nc_matmul(held[:, k % banks, part : part + 256], left,
                              right[:, first + part : first + part + 256], accumulate=again > 0)  # fmt: skip
        isa.tensor_copy(result[:, here], held[:, k % banks, :])
    isa.dma_copy(out, result)
    return out


def one_bank(a, b):
    return accumulators(a, b, 1)


def four_banks(a, b):
    return accumulators(a, b, 4)


# --- TensorE ------------------------------------------------------------------------------------------------------


def multiplied(a, b, width=512, rows=128, dtype=BF16):
    """a.T @ b from SBUF: products of `rows` contraction rows and `width` moving columns."""
    depth, m, n = a.shape[0] // 128, a.shape[1], b.shape[1]
    out = hbm(m, n)
    left, right = sbuf(128, depth, m, dtype=dtype), sbuf(128, depth, n, dtype=dtype)
    isa.dma_copy(left, a.reshape((depth, 128, m)).permute((1, 0, 2)))
    isa.dma_copy(right, b.reshape((depth, 128, n)).permute((1, 0, 2)), engine=isa.engine.scalar)
    for i in range(0, m, 128):
        result = sbuf(128, n)
        for j in range(0, n, 512):
            product = psum(128, 512)
            for first in range(0, 512, width):
                for k in range(depth):
                    for r in range(0, 128, rows):
                        moving = right[r : r + rows, k, j + first : j + first + width]
                        isa.nc_matmul(product[:, first : first + width], left[r : r + rows, k, i : i + 128], moving)
            isa.tensor_copy(result[:, j : j + 512], product)
        isa.dma_copy(out[i : i + 128, :], result)
    return out


def narrow_products(a, b):
    return multiplied(a, b, width=16)


def wide_products(a, b):
    return multiplied(a, b)


def small_array(a, b):
    return multiplied(a, b, rows=32)


def whole_array(a, b):
    return multiplied(a, b)


def fp32_products(a, b):
    return multiplied(a, b, dtype=FP32)


def bf16_products(a, b):
    return multiplied(a, b)


def one_row(x, weight, moving):
    """x.T @ weight for a few columns of x, which either move past the weights or the weights past them."""
    depth, few, n = x.shape[0] // 128, x.shape[1], weight.shape[1]
    out = hbm(n, few) if moving else hbm(few, n)
    left, right = sbuf(128, depth, few), sbuf(128, depth, n)
    isa.dma_copy(left, x.reshape((depth, 128, few)).permute((1, 0, 2)))
    isa.dma_copy(right, weight.reshape((depth, 128, n)).permute((1, 0, 2)), engine=isa.engine.scalar)
    step = 128 if moving else 512
    for _ in range(4):
        for j in range(0, n, step):
            product = psum(step, few) if moving else psum(few, step)
            for k in range(depth):
                tile = right[:, k, j : j + step]
                isa.nc_matmul(product, *((tile, left[:, k, :]) if moving else (left[:, k, :], tile)))
            result = sbuf(*product.shape)
            isa.tensor_copy(result, product)
    isa.dma_copy(out[0:step, :] if moving else out[:, 0:step], result)
    return out


def short_moving(x, weight):
    return one_row(x, weight, True)


def short_stationary(x, weight):
    return one_row(x, weight, False)


def turned_operand(a, b, given):
    """a.T @ b, where a comes with its contraction on the free axis unless it is `given` as needed; four times."""
    depth, columns = b.shape[0] // 128, b.shape[1]
    out = hbm(128, columns)
    right = sbuf(128, depth, columns)
    isa.dma_copy(right, b.reshape((depth, 128, columns)).permute((1, 0, 2)))
    held = sbuf(128, depth * 128)
    isa.dma_copy(held, a, engine=isa.engine.scalar)
    for _ in range(4):
        product = psum(128, columns)
        for k in range(depth):
            left = held[:, k * 128 : (k + 1) * 128]
            if not given:
                turned, left = psum(128, 128, dtype=BF16), sbuf(128, 128)
                isa.nc_transpose(turned, held[:, k * 128 : (k + 1) * 128])
                isa.tensor_copy(left, turned)
            isa.nc_matmul(product, left, right[:, k, :])
        result = sbuf(128, columns)
        isa.tensor_copy(result, product)
    isa.dma_copy(out, result)
    return out


def turning(a, b):
    return turned_operand(a, b, False)


def in_layout(a, b):
    return turned_operand(a, b, True)


def with_pauses(a, b, spread):
    """Products that wait for ScalarE one by one, or all at the end."""
    out = hbm(128, 512)
    left, right = sbuf(128, 128), sbuf(128, 512)
    isa.dma_copy(left, a)
    isa.dma_copy(right, b)
    product = psum(128, 512)
    for _ in range(64):
        isa.activation(right, nl.tanh, right)
        if spread:
            isa.nc_matmul(product, left, right)
    for _ in range(0 if spread else 64):
        isa.nc_matmul(product, left, right)
    result = sbuf(128, 512)
    isa.tensor_copy(result, product)
    isa.dma_copy(out, result)
    return out


def cold(a, b):
    return with_pauses(a, b, True)


def warm(a, b):
    return with_pauses(a, b, False)


BLOCKS = ((16, 128, 4096), BF16)
PAIRS = (
    Pair("reloads", reloading, loading_once, (((16, 128, 2048), BF16), ((128, 2048), BF16))),
    Pair("intermediates", through_hbm, in_sbuf, (((8, 128, 4096), BF16),)),
    Pair("spills", spilling, fitting, (((40, 128, 4096), BF16),), options={"options": Options(spill=True)}),
    Pair("small_descriptors", short_rows, long_rows, (((128, 65536), BF16),)),
    Pair("many_dmas", small_triggers, large_triggers, (((128, 65536), BF16),)),
    Pair("transposing_dma", dma_transposes, tensor_turns, (((128, 4096), BF16),)),
    Pair("single_buffer", one_buffer, three_buffers, (BLOCKS,)),
    Pair("exposed_loads", whole_tensor, tile_by_tile, (((128, 16384), BF16),)),
    Pair("engines_in_turn", in_turn, side_by_side, (((128, 8192), BF16),)),
    Pair("serial_collectives", sum_at_the_end, sum_in_chunks, (((128, 32768), BF16),), options={"ranks": 2}),
    Pair("low_partitions", few_lanes, all_lanes, (((128, 8192), BF16),)),
    Pair("short_instructions", short_tiles, long_tiles, (((128, 8192), BF16),)),
    Pair("combine", three_passes, one_pass, (((128, 4096), FP32),)),
    Pair("psum_copies", sums_in_sbuf, sums_in_psum, (((2048, 128), BF16), ((2048, 512), BF16))),
    Pair("table_thrash", tables_in_turn, tables_once, (((128, 4096), BF16),)),
    Pair("wrong_engine", on_gpsimd, on_vector, (((128, 8192), BF16), ((128, 8192), BF16))),
    Pair("wrong_engine", copies_on_vector, copies_on_both, (((128, 128), BF16), ((128, 4096), BF16))),
    Pair("psum_copies", small_copies, bank_copies, (((128, 128), BF16), ((128, 4096), BF16))),
    Pair("single_buffer", one_bank, four_banks, (((128, 128), BF16), ((128, 16384), BF16))),
    Pair("small_products", small_array, whole_array, (((1024, 512), BF16), ((1024, 1024), BF16))),
    Pair("stationary_reloads", narrow_products, wide_products, (((512, 512), BF16), ((512, 512), BF16))),
    Pair("matmul_mapping", short_stationary, short_moving, (((1024, 1), BF16), ((1024, 4096), BF16))),
    Pair("tensor_transposes", turning, in_layout, (((128, 2048), BF16), ((2048, 512), BF16))),
    Pair("cold_clock", cold, warm, (((128, 128), BF16), ((128, 512), BF16))),
    Pair("wide_dtype", fp32_products, bf16_products, (((1024, 512), FP32), ((1024, 1024), FP32))),
)
