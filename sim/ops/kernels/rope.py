"""Rotary position embedding: each head's two halves are turned by the angles of its position.

One position a partition, or, of few positions, some heads of one; the angles are the same for all heads, so cosines
and sines are read once a position and repeated along the free dimension by a stride of 0. Six passes over half of the
data are shared between VectorE, which is twice as fast in 16 bits, and GpSimd.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .norms import parts_of_a_row
from .tiles import ROWS, blocks, length, load, share


@nki.jit
def rope(x, cos, sin):
    """x [T, heads, D] with cos and sin [T, D / 2]: halves (a, b) of a head become (a cos - b sin, b cos + a sin)."""
    T, heads, D = x.shape
    out = nl.ndarray((T, heads, D), dtype=x.dtype, buffer=nl.shared_hbm)
    mine = share(T, 1)
    if not length(mine):
        return out
    split = parts_of_a_row(length(mine), heads)
    for block in blocks(length(mine), ROWS // split, mine.start):
        shape = (length(block) * split, heads // split, D)
        result = turned(load(x[block].reshape(shape)), angles(cos[block], split), angles(sin[block], split))
        nisa.dma_copy(dst=out[block].reshape(shape), src=result, engine=nisa.engine.scalar)
    return out


def angles(factors, split):
    """[positions, D / 2], each position on `split` partitions."""
    positions, half = factors.shape
    loaded = nl.ndarray((positions * split, half), dtype=factors.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=loaded, src=factors.expand_dim(1).broadcast(1, split), engine=nisa.engine.scalar)
    return loaded


def turned(data, cosines, sines):
    """One tile [positions, heads, D] with angles [positions, D / 2]."""
    _, heads, D = data.shape
    first, second = data[:, :, 0 : D // 2], data[:, :, D // 2 : D]
    cosines = cosines.expand_dim(1).broadcast(1, heads)
    sines = sines.expand_dim(1).broadcast(1, heads)
    result = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.sbuf)
    minuend, subtrahend = times(first, cosines, nisa.engine.vector), times(second, sines, nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=result[:, :, 0 : D // 2], data1=minuend, data2=subtrahend, op=nl.subtract)
    one, other = times(second, cosines, nisa.engine.vector), times(first, sines, nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=result[:, :, D // 2 : D], data1=one, data2=other, op=nl.add)
    return result


def times(half, factors, engine):
    result = nl.ndarray(half.shape, dtype=half.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=half, data2=factors, op=nl.multiply, engine=engine)
    return result
