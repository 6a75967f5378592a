"""Normalisation of rows: a row lies on one partition, so that nothing crosses partitions, and is read once.

A tile of 128 rows is a megabyte or so; ScalarE squares and adds up while VectorE scales the tile before, and both
stay below the time that the tile's bytes take in HBM. The weights, the same for every row, are on chip once.
Few rows would leave most lanes idle: a row is then spread over all 128 partitions, and a matmul with ones adds up
across them and gives every partition the sum.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiles import ROWS, blocks, column, length, load, load_repeated, product, share, tile

FEW = 16  # rows that are better spread over the partitions


@nki.jit
def rmsnorm(x, weight, eps=1e-6):
    """x [T, H] / sqrt(mean(x²) + eps) * weight [H]"""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    mine = share(rows, 1)
    if rows <= FEW and columns % ROWS == 0:
        if length(mine):
            rmsnorm_spread(out, x, weight, eps, mine)
        return out
    weights = load_repeated(weight, min(ROWS, rows))
    epsilon = column(eps)
    for block in blocks(length(mine), ROWS, mine.start):
        result = scaled(load(x[block]), weights, epsilon)
        nisa.dma_copy(dst=out[block], src=result, engine=nisa.engine.gpsimd)
    return out


def scaled(data, weights, epsilon):
    """One tile of rows, normalised."""
    height, columns = data.shape
    result = tile(height, columns, data.dtype)
    total = tile(height, 1)
    nisa.activation_reduce(dst=result, op=nl.square, data=data, reduce_op=nl.add, reduce_res=total)
    scale = tile(height, 1)
    nisa.activation(dst=scale, op=nl.rsqrt, data=total, scale=1.0 / columns, bias=epsilon[0:height])
    # (x * scale) * weight in one pass of VectorE.
    nisa.scalar_tensor_tensor(
        dst=result, data=data, op0=nl.multiply, operand0=scale, op1=nl.multiply, operand1=weights[0:height]
    )
    return result


def rmsnorm_spread(out, x, weight, eps, rows):
    """Few rows: [128, rows, columns / 128] on chip."""
    count, columns = length(rows), x.shape[1]
    deep = columns // ROWS
    data = load(spread(x[rows]))
    weights = load(weight.reshape((ROWS, deep)))
    squares = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=squares, data1=data, data2=data, op=nl.multiply)
    partial = tile(ROWS, count)
    nisa.tensor_reduce(dst=partial, op=nl.add, data=squares, axis=2)
    total = product(ROWS, count)
    nisa.nc_matmul(dst=total, stationary=column(1.0, ROWS), moving=partial)
    scale = tile(ROWS, count)
    nisa.activation(dst=scale, op=nl.rsqrt, data=total, scale=1.0 / columns, bias=column(eps))
    nisa.tensor_tensor(dst=squares, data1=data, data2=scale.expand_dim(2).broadcast(2, deep), op=nl.multiply)
    result = nl.ndarray(data.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=squares, data2=weights.expand_dim(1).broadcast(1, count), op=nl.multiply)
    nisa.dma_copy(dst=spread(out[rows]), src=result)


def spread(rows):
    """[rows, columns] of HBM with each row on all partitions: [128, rows, columns / 128]."""
    return rows.reshape_dim(1, (ROWS, rows.shape[1] // ROWS)).permute((1, 0, 2))
