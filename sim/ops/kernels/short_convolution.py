"""Depthwise convolutions with a result of a few columns, as a step of a decoder has them.

A channel is then a few bytes: neighbouring channels lie together on a partition, which makes runs for the DMA engines,
and VectorE multiplies the windows of all of them with their filters at once and adds up.
"""

import nki.isa as nisa
import nki.language as nl

from .tiles import ROWS, blocks, length, load, share

FEW_COLUMNS = 4  # of a result
ELEMENTS = 4096  # of a partition that are multiplied at once


def short_depthwise(out, x, weight, bias, how):
    """out [N, C, W'] of x [N, C, W] with weight [C, k] and bias [C]."""
    mine = share(x.shape[1], 1)
    full = length(mine) // ROWS
    parts = [(slice(mine.start, mine.start + full * ROWS), ROWS, full)] if full else []
    if length(mine) > full * ROWS:
        parts.append((slice(mine.start + full * ROWS, mine.stop), length(mine) - full * ROWS, 1))
    taps = weight.shape[1]
    for channels, height, deep in parts:
        filters = load(weight[channels].reshape((height, 1, deep, taps)))
        offset = load(bias[channels].reshape((height, 1, deep))) if bias != None else None
        most = max(1, ELEMENTS // (deep * max(taps, x.shape[2] + 2 * how[1])))
        for some in blocks(x.shape[0], most):
            seen = load_windows(x[some, channels], height, deep, how[1])
            result = convolved(seen, filters, offset, out.shape[2], how, out.dtype)
            place = out[some, channels].reshape_dim(1, (height, deep)).permute((1, 0, 2, 3))
            nisa.dma_copy(dst=place, src=result)


def load_windows(x, height, deep, padding):
    """[N, C, W] of HBM as [height, N, deep, W], with zeros around."""
    images, _, width = x.shape
    source = x.reshape_dim(1, (height, deep)).permute((1, 0, 2, 3))
    seen = load(source)
    if not padding:
        return seen
    wider = nl.ndarray((height, images, deep, width + 2 * padding), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=wider, value=0.0)
    nisa.tensor_copy(dst=wider[:, :, :, padding : padding + width], src=seen)
    return wider


def convolved(seen, filters, offset, columns, how, dtype):
    """[height, N, deep, columns]"""
    stride, _, dilation = how
    height, images, deep, _ = seen.shape
    taps = filters.shape[3]
    result = nl.ndarray((height, images, deep, columns), dtype=dtype, buffer=nl.sbuf)
    repeated = filters.broadcast(1, images)
    for column in range(columns):
        window = seen[:, :, :, slice(column * stride, column * stride + (taps - 1) * dilation + 1, dilation)]
        products = nl.ndarray((height, images, deep, taps), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((height, images, deep), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=products, data1=window, data2=repeated, op=nl.multiply)
        nisa.tensor_reduce(dst=total, op=nl.add, data=products, axis=3)
        if offset != None:
            nisa.tensor_tensor(dst=total, data1=total, data2=offset.broadcast(1, images), op=nl.add)
        nisa.tensor_copy(dst=result[:, :, :, column], src=total)
    return result
