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


@nki.jit
def layernorm(x, weight, bias, eps=1e-5):
    """(x [T, H] - mean) / sqrt(variance + eps) * weight [H] + bias [H]"""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    weights, biases = load_repeated(weight, min(ROWS, rows)), load_repeated(bias, min(ROWS, rows))
    epsilon = column(eps)
    mine = share(rows, 1)
    for block in blocks(length(mine), ROWS, mine.start):
        data = load(x[block])
        height = length(block)
        scale, shift = moments(data, epsilon)
        # VectorE has counted, ScalarE normalises, GpSimd has time for weight and bias.
        normal, result = tile(height, columns), tile(height, columns, x.dtype)
        nisa.activation(dst=normal, op=nl.copy, data=data, scale=scale, bias=shift)
        idle = nisa.engine.gpsimd
        nisa.tensor_tensor(dst=normal, data1=normal, data2=weights[0:height], op=nl.multiply, engine=idle)
        nisa.tensor_tensor(dst=result, data1=normal, data2=biases[0:height], op=nl.add, engine=idle)
        nisa.dma_copy(dst=out[block], src=result, engine=nisa.engine.scalar)
    return out


def moments(data, epsilon):
    """1 / sqrt(variance + eps) and -mean times that, of each row."""
    height, columns = data.shape
    parts = blocks(columns, nl.tile_size.bn_stats_fmax)
    counted = nl.ndarray((height, len(parts), 6), dtype=nl.float32, buffer=nl.sbuf)
    for at, part in enumerate(parts):
        nisa.bn_stats(dst=counted[:, at], data=data[:, part])
    both = tile(height, 2)
    nisa.bn_aggr(dst=both, data=counted.reshape((height, 6 * len(parts))))
    scale, shift = tile(height, 1), tile(height, 1)
    nisa.activation(dst=scale, op=nl.rsqrt, data=both[:, 1:2], bias=epsilon[0:height])
    nisa.tensor_scalar(dst=shift, data=both[:, 0:1], op0=nl.multiply, operand0=scale, op1=nl.multiply, operand1=-1.0)
    return scale, shift


@nki.jit
def softmax(x):
    """exp(x - max) / sum along each row of x [T, N]"""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    mine = share(rows, 1)
    for block in blocks(length(mine), ROWS, mine.start):
        data, height = load(x[block]), length(block)
        largest, negative = tile(height, 1, x.dtype), tile(height, 1)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=data, axis=1)
        nisa.tensor_scalar(dst=negative, data=largest, op0=nl.multiply, operand0=-1.0)
        powers, total, factor = tile(height, columns), tile(height, 1), tile(height, 1)
        nisa.activation_reduce(
            dst=powers, op=nl.exp, data=data, reduce_op=nl.add, reduce_res=total, bias=negative, scale=1.0
        )
        nisa.reciprocal(dst=factor, data=total)
        result = tile(height, columns, x.dtype)
        nisa.tensor_scalar(dst=result, data=powers, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=out[block], src=result, engine=nisa.engine.gpsimd)
    return out


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
