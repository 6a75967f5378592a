"""Cross entropy over a vocabulary, and its gradient.

A row of logits may be longer than SBUF (a vocabulary of 128 k is 256 KB): it passes through in chunks, once, with a
running maximum and a sum that is rescaled when the maximum grows. The logit of the label is not looked for: the DMA
engines fetch it by its address. ScalarE takes one exponential a lane and cycle, which is just slower than HBM.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .gathers import load_numbers
from .tiles import ROWS, blocks, length, load, share, tile

CHUNK = 8192  # logits of a row on chip at a time


@nki.jit
def cross_entropy(logits, labels, lse=False):
    """log(sum(exp(logits [T, V]))) - logits[t, labels[t]] -> fp32 [T]; with lse the first term too"""
    T = logits.shape[0]
    loss = nl.ndarray((T,), dtype=nl.float32, buffer=nl.shared_hbm)
    sums = nl.ndarray((T,), dtype=nl.float32, buffer=nl.shared_hbm) if lse else None
    mine = share(T, 1)
    for block in blocks(length(mine), ROWS, mine.start):
        whole = logarithm_of_sums(logits[block])
        chosen = at_labels(logits, labels, block)
        result = tile(length(block), 1)
        nisa.tensor_tensor(dst=result, data1=whole, data2=chosen, op=nl.subtract)
        nisa.dma_copy(dst=loss[block].reshape((length(block), 1)), src=result)
        if lse:
            nisa.dma_copy(dst=sums[block].reshape((length(block), 1)), src=whole)
    return (loss, sums) if lse else loss


def logarithm_of_sums(logits):
    """log(sum(exp(row))) of up to 128 rows."""
    height, V = logits.shape
    bias = total = None
    for part in blocks(V, CHUNK):
        data = load(logits[:, part])
        largest, negative = tile(height, 1, data.dtype), tile(height, 1)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=data, axis=1)
        if bias == None:
            nisa.tensor_scalar(dst=negative, data=largest, op0=nl.multiply, operand0=-1.0)
        else:
            nisa.tensor_scalar(
                dst=negative, data=largest, op0=nl.multiply, operand0=-1.0, op1=nl.minimum, operand1=bias
            )
        powers, added = tile(height, length(part), data.dtype), tile(height, 1)
        nisa.activation_reduce(
            dst=powers, op=nl.exp, data=data, reduce_op=nl.add, reduce_res=added, bias=negative, scale=1.0
        )
        total = added if bias == None else rescaled(total, bias, negative, added)
        bias = negative
    result = tile(height, 1)
    nisa.activation(dst=result, op=nl.log, data=total)
    nisa.tensor_tensor(dst=result, data1=result, data2=bias, op=nl.subtract)
    return result


def rescaled(total, before, bias, added):
    """total * exp(bias - before) + added"""
    factor, result = tile(total.shape[0], 1), tile(total.shape[0], 1)
    nisa.activation(dst=factor, op=nl.exp, data=before, scale=-1.0, bias=bias)
    nisa.scalar_tensor_tensor(dst=result, data=total, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=added)
    return result


def label_places(labels, block, V):
    """Where the labels of some rows lie among all logits, one a partition."""
    numbers, height = load_numbers(labels[block]), length(block)
    first, places = tile(height, 1, nl.int32), tile(height, 1, nl.int32)
    nisa.iota(dst=first, pattern=[[0, 1]], offset=block.start * V, channel_multiplier=V)
    nisa.tensor_tensor(dst=places, data1=first, data2=numbers, op=nl.add)
    return places


def one_each(tensor, places):
    """The single elements of a tensor [T, V] at some places, one a partition."""
    flat = tensor.reshape((tensor.shape[0] * tensor.shape[1], 1))
    return flat.ap(pattern=[[1, places.shape[0]], [1, 1]], vector_offset=places, indirect_dim=0)


def at_labels(logits, labels, block):
    """logits[t, labels[t]] of some rows."""
    chosen = tile(length(block), 1, logits.dtype)
    nisa.dma_copy(dst=chosen, src=one_each(logits, label_places(labels, block, logits.shape[1])))
    return chosen


@nki.jit
def cross_entropy_backward(logits, labels, lse, dloss):
    """(exp(logits [T, V] - lse [T]) - onehot(labels [T])) * dloss [T] -> [T, V]"""
    T, V = logits.shape
    out = nl.ndarray((T, V), dtype=logits.dtype, buffer=nl.shared_hbm)
    mine = share(T, 1)
    for block in blocks(length(mine), ROWS, mine.start):
        height = length(block)
        negative, factor = load(lse[block].reshape((height, 1))), load(dloss[block].reshape((height, 1)))
        nisa.tensor_scalar(dst=negative, data=negative, op0=nl.multiply, operand0=-1.0)
        for part in blocks(V, CHUNK):
            result = share_of_loss(load(logits[block, part]), negative, factor)
            nisa.dma_copy(dst=out[block, part], src=result, engine=nisa.engine.gpsimd)
        # The label's own element is written again, less the one that the loss subtracts.
        own = share_of_loss(at_labels(logits, labels, block), negative, factor, less=1.0)
        nisa.dma_copy(dst=one_each(out, label_places(labels, block, V)), src=own)
    return out


def share_of_loss(data, negative, factor, less=0.0):
    """(exp(data + negative) - less) * factor"""
    powers = tile(data.shape[0], data.shape[1])
    nisa.activation(dst=powers, op=nl.exp, data=data, bias=negative)
    result = tile(data.shape[0], data.shape[1], data.dtype)
    nisa.tensor_scalar(dst=result, data=powers, op0=nl.subtract, operand0=less, op1=nl.multiply, operand1=factor)
    return result
