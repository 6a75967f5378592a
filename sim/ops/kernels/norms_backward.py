"""Gradients of the row normalisations.

The gradient of a row needs two of its sums, so a row is on one partition as in the forward pass, and is read once. The
gradient of the weights sums over rows, which lie on partitions: TensorE adds them up. 128 columns of a tile are
stationary, a column of ones moves, and the sums of all tiles gather in one bank of PSUM, [128, H / 128].
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .norms import moments
from .tiles import ROWS, blocks, column, length, load, load_repeated, tile


@nki.jit
def rmsnorm_backward(x, weight, dout, eps=1e-6):
    """Of rmsnorm(x [T, H], weight [H]): dx [T, H], dweight [H] from dout [T, H]."""
    rows, columns = x.shape
    dx = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    dweight = nl.ndarray((columns,), dtype=weight.dtype, buffer=nl.shared_hbm)
    weights, epsilon, sums = load_repeated(weight, min(ROWS, rows)), column(eps), ColumnSums(columns)
    for block in blocks(rows, ROWS):
        data, gradient, height = load(x[block]), load(dout[block]), length(block)
        squares, scale, total = tile(height, columns, x.dtype), tile(height, 1), tile(height, 1)
        nisa.activation_reduce(dst=squares, op=nl.square, data=data, reduce_op=nl.add, reduce_res=total)
        nisa.activation(dst=scale, op=nl.rsqrt, data=total, scale=1.0 / columns, bias=epsilon[0:height])
        crossed = times(data, gradient)
        sums.add(crossed, scale)
        along = mean(times(crossed, weights[0:height]))
        nisa.tensor_scalar(dst=along, data=along, op0=nl.multiply, operand0=scale, op1=nl.multiply, operand1=scale)
        weighted = times(gradient, weights[0:height], engine=nisa.engine.gpsimd)
        result = project(data, weighted, along)
        nisa.tensor_scalar(dst=result, data=result, op0=nl.multiply, operand0=scale, engine=nisa.engine.gpsimd)
        nisa.dma_copy(dst=dx[block], src=result, engine=nisa.engine.gpsimd)
    sums.store(dweight)
    return dx, dweight


@nki.jit
def layernorm_backward(x, weight, dout, eps=1e-5):
    """Of layernorm(x [T, H], weight [H], bias [H]): dx [T, H], dweight [H], dbias [H] from dout [T, H]."""
    rows, columns = x.shape
    dx = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    dweight = nl.ndarray((columns,), dtype=weight.dtype, buffer=nl.shared_hbm)
    dbias = nl.ndarray((columns,), dtype=weight.dtype, buffer=nl.shared_hbm)
    weights, epsilon = load_repeated(weight, min(ROWS, rows)), column(eps)
    sums, plain, ones = ColumnSums(columns), ColumnSums(columns), column(1.0)
    for block in blocks(rows, ROWS):
        data, gradient, height = load(x[block]), load(dout[block]), length(block)
        scale, shift = moments(data, epsilon)
        normal = tile(height, columns, x.dtype)
        nisa.activation(dst=normal, op=nl.copy, data=data, scale=scale, bias=shift)
        crossed = times(normal, gradient)
        sums.add(crossed, ones[0:height])
        plain.add(gradient, ones[0:height])
        weighted = times(gradient, weights[0:height], engine=nisa.engine.gpsimd)
        result = project(normal, weighted, mean(times(crossed, weights[0:height])))
        recentre(result, mean(weighted), scale)
        nisa.dma_copy(dst=dx[block], src=result, engine=nisa.engine.gpsimd)
    sums.store(dweight)
    plain.store(dbias)
    return dx, dweight, dbias


@nki.jit
def softmax_backward(y, dout):
    """Of y = softmax(x) [T, N]: dx = y * (dout - sum(y * dout))"""
    rows, columns = y.shape
    dx = nl.ndarray((rows, columns), dtype=y.dtype, buffer=nl.shared_hbm)
    for block in blocks(rows, ROWS):
        data, gradient, height = load(y[block]), load(dout[block]), length(block)
        total = tile(height, 1)
        copied = tile(height, columns)
        crossed = times(data, gradient, nl.float32)
        nisa.activation_reduce(dst=copied, op=nl.copy, data=crossed, reduce_op=nl.add, reduce_res=total)
        result = tile(height, columns, y.dtype)
        nisa.scalar_tensor_tensor(
            dst=result, data=gradient, op0=nl.subtract, operand0=total, op1=nl.multiply, operand1=data
        )
        nisa.dma_copy(dst=dx[block], src=result, engine=nisa.engine.gpsimd)
    return dx


def times(one, other, dtype=None, engine=nisa.engine.vector):
    """one * other, in their format: VectorE is twice as fast in 16 bits."""
    result = tile(one.shape[0], one.shape[1], dtype or one.dtype)
    nisa.tensor_tensor(dst=result, data1=one, data2=other, op=nl.multiply, engine=engine)
    return result


def mean(data):
    """-mean(data) of each row; ScalarE adds up along the way of a copy."""
    copied, total = tile(data.shape[0], data.shape[1], data.dtype), tile(data.shape[0], 1)
    nisa.activation_reduce(dst=copied, op=nl.copy, data=data, reduce_op=nl.add, reduce_res=total)
    nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=-1.0 / data.shape[1])
    return total


def project(data, weighted, along):
    """weighted + data * along"""
    result = tile(data.shape[0], data.shape[1], data.dtype)
    nisa.scalar_tensor_tensor(dst=result, data=data, op0=nl.multiply, operand0=along, op1=nl.add, operand1=weighted)
    return result


def recentre(result, shift, scale):
    """(result + shift) * scale, in place."""
    nisa.tensor_tensor(dst=shift, data1=shift, data2=scale, op=nl.multiply)
    nisa.tensor_scalar(
        dst=result,
        data=result,
        op0=nl.multiply,
        operand0=scale,
        op1=nl.add,
        operand1=shift,
        engine=nisa.engine.gpsimd,
    )


class ColumnSums(nl.NKIObject):
    """Sums over the rows of many tiles, each row with a factor."""

    def __init__(self, columns):
        self.parts = blocks(columns, ROWS)
        self.total = nl.ndarray((ROWS, len(self.parts)), dtype=nl.float32, buffer=nl.psum)

    def add(self, data, factor):
        moving = tile(data.shape[0], 1, data.dtype)
        nisa.tensor_copy(dst=moving, src=factor)
        for at, part in enumerate(self.parts):
            place = self.total[0 : length(part), at : at + 1]
            nisa.nc_matmul(dst=place, stationary=data[:, part], moving=moving)

    def store(self, out):
        """[128, columns / 128] to [columns]."""
        result = tile(ROWS, len(self.parts), out.dtype)
        for at, part in enumerate(self.parts):
            nisa.tensor_copy(dst=result[0 : length(part), at : at + 1], src=self.total[0 : length(part), at : at + 1])
            place = out[part].reshape((length(part), 1))
            nisa.dma_copy(dst=place, src=result[0 : length(part), at : at + 1])
