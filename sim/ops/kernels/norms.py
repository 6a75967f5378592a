"""Normalisation of rows: a row lies on one partition, so that nothing crosses partitions, and is read once.

A tile of 128 rows is a megabyte or so; ScalarE squares and adds up while VectorE scales the tile before, and both
stay below the time that the tile's bytes take in HBM. The weights, the same for every row, are on chip once.
Few rows would leave most lanes idle: a row is then cut into parts on several partitions, and a matmul with ones adds up
across them and gives each of them the sum.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiles import ROWS, blocks, column, length, load, load_repeated, product, share, tile


@nki.jit
def rmsnorm(x, weight, eps=1e-6):
    """x [T, H] / sqrt(mean(x²) + eps) * weight [H]"""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    mine = share(rows, 1)
    parts = parts_of_a_row(length(mine), columns) if length(mine) else 1
    if parts > 1:
        rmsnorm_in_parts(out, x, weight, eps, mine, parts)
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


def rmsnorm_in_parts(out, x, weight, eps, rows, parts):
    """Few rows, each in so many parts: [rows * parts, columns / parts] on chip."""
    count, width = length(rows) * parts, x.shape[1] // parts
    data = load(x[rows].reshape((count, width)))
    repeated = weight.reshape((1, parts, width)).broadcast(0, length(rows))
    weights = tile(count, width, weight.dtype)
    nisa.dma_copy(dst=weights, src=repeated, engine=nisa.engine.scalar)
    result, partial = tile(count, width, x.dtype), tile(count, 1)
    nisa.activation_reduce(dst=result, op=nl.square, data=data, reduce_op=nl.add, reduce_res=partial)
    total = product(count, 1)
    nisa.nc_matmul(dst=total, stationary=same_row(length(rows), parts), moving=partial)
    scale = tile(count, 1)
    epsilon = column(eps)[0:count]
    nisa.activation(dst=scale, op=nl.rsqrt, data=total, scale=1.0 / x.shape[1], bias=epsilon)
    nisa.scalar_tensor_tensor(dst=result, data=data, op0=nl.multiply, operand0=scale, op1=nl.multiply, operand1=weights)
    nisa.dma_copy(dst=out[rows].reshape((count, width)), src=result)


def parts_of_a_row(rows, columns):
    """Into how many parts a row is cut so that few rows fill the partitions."""
    parts = 1
    while 2 * parts * rows <= ROWS and columns % (2 * parts) == 0:
        parts *= 2
    return parts


def same_row(rows, parts):
    """[rows * parts, rows * parts]: 1 where two partitions hold parts of the same row, else 0."""
    count = rows * parts
    ones = nl.ndarray((count, rows, parts), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    for step, first in ((-parts, 0), (parts, parts - 1)):
        nisa.affine_select(
            dst=ones,
            pattern=[[step, rows], [0, parts]],
            offset=first,
            channel_multiplier=1 if step < 0 else -1,
            on_true_tile=ones,
            on_false_value=0.0,
            cmp_op=nl.greater_equal,
        )
    return ones.reshape((count, count))
