"""The gradient of group norm: two sums over each channel decide everything.

With s = sum(dout) and t = sum(dout * normalised x) of a channel, its bias gets s and its weight t from each image, and
dx is a factor times dout, plus a factor times x, plus a number, which follow from the sums of weight * s and
weight * t over the group. Rows and parts lie as in the forward pass; x and dout are read once while they fit on chip.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .elementwise import size_of
from .group_norm import WIDE, Elements, Parts, counted, most_parts, rows_together, spread
from .norms import same_row
from .tiles import ROWS, blocks, itemsize, length, product, share, tile


@nki.jit
def group_norm_backward(x, weight, dout, groups=32, eps=1e-5):
    """Of group_norm(x [N, C, …], weight [C], bias [C]): dx, dweight [C], dbias [C] from dout."""
    dx = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, each, size = x.shape[0] * groups, x.shape[1] // groups, size_of(x.shape[2:])
    source, gradient, target = [one.reshape((rows, each * size)) for one in (x, dout, dx)]
    mine = share(rows, 1)
    together = rows_together(length(mine), each, size, 2 * itemsize(x.dtype)) if length(mine) else 1
    count = most_parts(ROWS // together, each, size)
    partial = [nl.ndarray((rows, max(each, count)), dtype=nl.float32, buffer=nl.shared_hbm) for _ in range(2)]
    for some in blocks(length(mine), together, mine.start):
        parts = Parts(some, groups, each, size, count)
        data, back = Elements(source, parts), Elements(gradient, parts)
        weights = parts.load_vector(weight)
        negative, scale = spread(counted(data), parts, eps)
        sums = channel_sums(data, back, negative, scale)
        for kept, one in zip(partial, sums):
            nisa.dma_copy(dst=kept[some].reshape((parts.height, parts.channels)), src=one)
        store_gradient(target, data, back, factors(parts, weights, sums, negative, scale))
    if nl.num_programs(0) > 1:
        for kept in partial:
            nisa.core_barrier(data=kept, cores=(0, 1))
    copies = max(each, count) // each
    found = [sum_over_images(kept.reshape((x.shape[0], x.shape[1], copies)), weight.dtype) for kept in partial]
    return dx, found[1], found[0]


def channel_sums(data, back, negative, scale):
    """sum(dout) and sum(dout * normalised x) of each channel of a part, fp32 [parts, channels]."""
    parts = data.parts
    plain, crossed, along = [tile(parts.height, parts.channels) for _ in range(3)]
    nisa.memset(dst=plain, value=0.0)
    nisa.memset(dst=crossed, value=0.0)
    for number, (channels, _) in enumerate(data.chunks):
        x, gradient = data.get(number), back.get(number)
        products = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=products, data1=x, data2=gradient, op=nl.multiply, engine=nisa.engine.gpsimd)
        for total, values, idle in ((plain, gradient, True), (crossed, products, False)):
            added, here = tile(parts.height, length(channels)), total[:, channels]
            add_up(added, values, idle)
            nisa.tensor_tensor(dst=here, data1=here, data2=added, op=nl.add, engine=nisa.engine.gpsimd)
    nisa.scalar_tensor_tensor(dst=along, data=plain, op0=nl.multiply, operand0=negative, op1=nl.add, operand1=crossed)
    nisa.tensor_scalar(dst=along, data=along, op0=nl.multiply, operand0=scale)
    return plain, along


def add_up(sums, values, idle):
    """Sums of each channel, on VectorE, or on ScalarE if it is idle and the channels are long."""
    height, channels, size = values.shape
    if not idle or size < WIDE:
        nisa.tensor_reduce(dst=sums, op=nl.add, data=values, axis=2)
        return
    copied = nl.ndarray((height, size), dtype=values.dtype, buffer=nl.sbuf)
    for c in range(channels):
        own = sums[:, c : c + 1]
        nisa.activation_reduce(dst=copied, op=nl.copy, data=values[:, c], reduce_op=nl.add, reduce_res=own)


def factors(parts, weights, sums, negative, scale):
    """Of dout, [parts, channels], of x, and the number that is added, [parts, 1]."""
    height = parts.height
    both, weighted = tile(height, 2), tile(height, parts.channels)
    for at, one in enumerate(sums):
        nisa.tensor_tensor(dst=weighted, data1=one, data2=weights, op=nl.multiply)
        nisa.tensor_reduce(dst=both[:, at : at + 1], op=nl.add, data=weighted, axis=1)
    means = tile(height, 2)
    size = parts.count * parts.channels * parts.size
    if parts.count > 1:
        total = product(height, 2)
        nisa.nc_matmul(dst=total, stationary=same_row(length(parts.rows), parts.count), moving=both)
        both = total
    # -scale * mean(weight dout), -scale² * mean(weight dout normalised x)
    nisa.tensor_scalar(dst=means, data=both, op0=nl.multiply, operand0=scale, op1=nl.multiply, operand1=-1.0 / size)
    of_x, added, of_gradient = tile(height, 1), tile(height, 1), tile(height, parts.channels)
    nisa.tensor_tensor(dst=of_x, data1=means[:, 1:2], data2=scale, op=nl.multiply)
    nisa.scalar_tensor_tensor(
        dst=added, data=of_x, op0=nl.multiply, operand0=negative, op1=nl.add, operand1=means[:, 0:1]
    )
    nisa.tensor_scalar(dst=of_gradient, data=weights, op0=nl.multiply, operand0=scale)
    return of_gradient, of_x, added


def store_gradient(out, data, back, numbers):
    """dx = of_gradient * dout + of_x * x + added"""
    of_gradient, of_x, added = numbers
    target = data.parts.view(out)
    for number, (channels, part) in enumerate(data.chunks):
        x, gradient = data.get(number), back.get(number)
        moved = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=moved, op=nl.copy, data=x, scale=of_x, bias=added)
        result = nl.ndarray(x.shape, dtype=out.dtype, buffer=nl.sbuf)
        scaled = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        if x.shape[2] < WIDE:
            wide = of_gradient[:, channels].expand_dim(2).broadcast(2, x.shape[2])
            nisa.tensor_tensor(dst=scaled, data1=gradient, data2=wide, op=nl.multiply)
        else:
            for c in range(length(channels)):
                own = of_gradient[:, channels.start + c : channels.start + c + 1]
                nisa.tensor_scalar(dst=scaled[:, c], data=gradient[:, c], op0=nl.multiply, operand0=own)
        nisa.tensor_tensor(dst=result, data1=scaled, data2=moved, op=nl.add, engine=nisa.engine.gpsimd)
        nisa.dma_copy(dst=target[:, channels, part], src=result, engine=nisa.engine.gpsimd)


def sum_over_images(partial, dtype):
    """[N, C, parts] in HBM -> [C]"""
    images, channels, copies = partial.shape
    out = nl.ndarray((channels,), dtype=dtype, buffer=nl.shared_hbm)
    mine = share(channels, ROWS)
    for block in blocks(length(mine), ROWS, mine.start):
        seen = nl.ndarray((length(block), images, copies), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=seen, src=partial[:, block].permute((1, 0, 2)))
        total, result = tile(length(block), 1), tile(length(block), 1, dtype)
        nisa.tensor_reduce(dst=total, op=nl.add, data=seen.reshape((length(block), images * copies)), axis=1)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out[block].reshape((length(block), 1)), src=result)
    return out
