"""Sums, means and extremes along some neighbouring axes.

Along the last axes each partition folds its own rows, a megabyte at a time. Along other axes the elements to fold lie
on partitions: TensorE sums them by multiplying with ones, 512 columns at a time, and PSUM keeps the total; extremes are
folded tile by tile by VectorE and once across partitions, after a transpose. Every element is read once.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .elementwise import RUN, pieces, size_of
from .tiles import BANK, ROWS, blocks, itemsize, length, load, product, share, tile

OPERATORS = {"sum": nl.add, "mean": nl.add, "max": nl.maximum, "min": nl.minimum}


@nki.jit
def reduce(x, kind="sum", axis=-1):
    """x folded along an axis, or a tuple of neighbouring ones: sum, mean, max or min."""
    axes = sorted([one % len(x.shape) for one in (axis if isinstance(axis, tuple) else (axis,))])
    assert axes == list(range(axes[0], axes[-1] + 1)), "axes that are neighbours"
    outer, folded = size_of(x.shape[: axes[0]]), size_of(x.shape[axes[0] : axes[-1] + 1])
    inner = size_of(x.shape[axes[-1] + 1 :])
    shape = tuple(x.shape[: axes[0]]) + tuple(x.shape[axes[-1] + 1 :])
    out = nl.ndarray(shape or (1,), dtype=x.dtype, buffer=nl.shared_hbm)
    factor = 1.0 / folded if kind == "mean" else 1.0
    if inner == 1:
        fold_rows(out.reshape((outer, 1)), x.reshape((outer, folded)), OPERATORS[kind], factor)
        return out
    mine = share(outer, 1)
    for at in range(mine.start, mine.stop):
        source, target = x.reshape((outer, folded, inner))[at], out.reshape((outer, inner))[at]
        if kind in ("sum", "mean"):
            sum_columns(target, source, factor)
        else:
            fold_columns(target, source, OPERATORS[kind])
    return out


def fold_rows(out, x, op, factor):
    """[rows, n] -> [rows, 1], each partition a run of rows, or parts of long ones."""
    rows, columns = x.shape
    width = min(columns, RUN // itemsize(x.dtype))
    parts, turn = blocks(columns, width), 0
    for first, height, deep in pieces(share(rows, 1), width * itemsize(x.dtype)):
        here = slice(first, first + height * deep)
        # An extreme is exact in any format, and VectorE is twice as fast when all are 16 bits wide.
        kept = nl.float32 if op == nl.add else x.dtype
        folded = nl.ndarray((height, deep, len(parts)), dtype=kept, buffer=nl.sbuf)
        for at, part in enumerate(parts):
            data = load(x[here, part].reshape_dim(0, (height, deep)))
            turn += 1
            if op == nl.add and deep == 1 and turn % 2:
                nisa.activation_reduce(
                    dst=data, op=nl.copy, data=data, reduce_op=nl.add, reduce_res=folded[:, 0, at : at + 1]
                )
            else:
                nisa.tensor_reduce(dst=folded[:, :, at], op=op, data=data, axis=2)
        if len(parts) > 1:
            whole = tile(height, deep, kept)
            nisa.tensor_reduce(dst=whole, op=op, data=folded, axis=2)
        else:
            whole = folded.reshape((height, deep))
        result = tile(height, deep, out.dtype)
        nisa.tensor_scalar(dst=result, data=whole, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=out[here].reshape((height, deep)), src=result, engine=nisa.engine.gpsimd)


def sum_columns(out, x, factor):
    """[n, columns] -> [columns], by a product with ones."""
    rows, columns = x.shape
    ones = tile(ROWS, 1, x.dtype)
    nisa.memset(dst=ones, value=1.0)
    for part in blocks(columns, 8 * BANK):
        banks = blocks(length(part), BANK)
        totals = [product(1, length(bank)) for bank in banks]
        for block in blocks(rows, ROWS):
            data = load(x[block, part])
            for bank, total in zip(banks, totals):
                nisa.nc_matmul(dst=total, stationary=ones[0 : length(block)], moving=data[:, bank])
        result = tile(1, length(part), out.dtype)
        for bank, total in zip(banks, totals):
            nisa.tensor_scalar(dst=result[:, bank], data=total, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=out[part].reshape((1, length(part))), src=result)


def fold_columns(out, x, op):
    """[n, columns] -> [columns], tiles on one another and then across the partitions."""
    rows, columns = x.shape
    for part in blocks(columns, RUN // itemsize(x.dtype)):
        height = min(rows, ROWS)
        whole = load(x[0:height, part])
        for block in blocks(rows - height, ROWS, height):
            data = load(x[block, part])
            here = whole[0 : length(block)]
            nisa.tensor_tensor(dst=here, data1=here, data2=data, op=op)
        for chunk in blocks(length(part), ROWS):
            turned = nl.ndarray((length(chunk), height), dtype=x.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=whole[:, chunk], engine=nisa.engine.tensor)
            result = tile(length(chunk), 1, out.dtype)
            nisa.tensor_reduce(dst=result, op=op, data=turned, axis=1)
            place = out[part.start + chunk.start : part.start + chunk.stop].reshape((length(chunk), 1))
            nisa.dma_copy(dst=place, src=result)
