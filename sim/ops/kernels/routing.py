"""Which experts each token takes: the k largest of its scores, and how much of each.

A token lies on one partition. VectorE finds the eight largest values of 128 tokens in one instruction and their places
in another, so k may be at most 8; ScalarE makes weights of them.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiles import ROWS, blocks, length, load, share, tile

FOUND = 8  # values that VectorE finds at once
LEAST = -3.0e38


@nki.jit
def topk_routing(logits, k=2, normalize=True):
    """(experts uint32 [T, k], weights fp32 [T, k]) of logits [T, E], the largest first.

    normalize : the k weights add up to 1; else they are what a softmax over all experts gives
    """
    T, E = logits.shape
    assert 1 <= k <= FOUND <= E, "k of 1 to 8, and at least 8 experts"
    experts = nl.ndarray((T, k), dtype=nl.uint32, buffer=nl.shared_hbm)
    weights = nl.ndarray((T, k), dtype=nl.float32, buffer=nl.shared_hbm)
    mine = share(T, 1)
    for block in blocks(length(mine), ROWS, mine.start):
        height = length(block)
        scores, rest, largest = load(logits[block], nl.float32), tile(height, E), tile(height, FOUND)
        places = tile(height, FOUND, nl.uint32)
        nisa.max8(dst=largest, src=scores)
        nisa.nc_match_replace8(dst=rest, data=scores, vals=largest, imm=LEAST, dst_idx=places)
        result = shares(largest[:, 0:k], largest[:, 0:k] if normalize else scores, largest[:, 0:1])
        nisa.dma_copy(dst=experts[block], src=places[:, 0:k])
        nisa.dma_copy(dst=weights[block], src=result, engine=nisa.engine.gpsimd)
    return experts, weights


def shares(chosen, among, largest):
    """exp(chosen - largest) over the sum of exp(among - largest), in each row."""
    height, k = chosen.shape
    negative, total, factor = tile(height, 1), tile(height, 1), tile(height, 1)
    powers, own, result = tile(height, among.shape[1]), tile(height, k), tile(height, k)
    nisa.tensor_scalar(dst=negative, data=largest, op0=nl.multiply, operand0=-1.0)
    nisa.activation_reduce(dst=powers, op=nl.exp, data=among, reduce_op=nl.add, reduce_res=total, bias=negative)
    nisa.activation(dst=own, op=nl.exp, data=chosen, bias=negative)
    nisa.reciprocal(dst=factor, data=total)
    nisa.tensor_scalar(dst=result, data=own, op0=nl.multiply, operand0=factor)
    return result
