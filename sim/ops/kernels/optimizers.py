"""Optimizer steps: everything comes once and goes once, so that HBM is the limit: 28 bytes a weight for AdamW in fp32.

A partition takes one long run of each tensor. VectorE, which passes over a tile five times for AdamW, and ScalarE,
which does the squares and the root, keep ahead of the DMA engines.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .elementwise import pieces, size_of
from .tiles import itemsize, share

BUFFERED = 4096  # bytes of a partition's run: four tensors come and three go at once


@nki.jit
def adamw(p, g, m, v, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, step=1):
    """(p, m, v) after one step with gradient g; both moments are corrected for having begun at zero."""
    results = [nl.ndarray(each.shape, dtype=each.dtype, buffer=nl.shared_hbm) for each in (p, m, v)]
    first, second = 1 - beta1**step, 1 - beta2**step
    for run in runs(p):
        weights, gradient, mean, spread = [run.load(each) for each in (p, g, m, v)]
        scaled, square = run.tile(), run.tile()
        nisa.activation(dst=scaled, op=nl.copy, data=gradient, scale=1 - beta1)
        nisa.activation(dst=square, op=nl.square, data=gradient, scale=(1 - beta2) ** 0.5)
        new_mean, new_spread = run.tile(), run.tile()
        nisa.scalar_tensor_tensor(dst=new_mean, data=mean, op0=nl.multiply, operand0=beta1, op1=nl.add, operand1=scaled)
        nisa.scalar_tensor_tensor(
            dst=new_spread, data=spread, op0=nl.multiply, operand0=beta2, op1=nl.add, operand1=square
        )
        root, change, new_weights = run.tile(), run.tile(), run.tile()
        nisa.activation(dst=root, op=nl.sqrt, data=new_spread, scale=1 / second)
        nisa.tensor_scalar(dst=root, data=root, op0=nl.add, operand0=eps, op1=nl.power, operand1=-1.0)
        nisa.scalar_tensor_tensor(
            dst=change, data=new_mean, op0=nl.multiply, operand0=-lr / first, op1=nl.multiply, operand1=root
        )
        nisa.scalar_tensor_tensor(
            dst=new_weights, data=weights, op0=nl.multiply, operand0=1 - lr * weight_decay, op1=nl.add, operand1=change
        )
        for result, tile in zip(results, (new_weights, new_mean, new_spread)):
            run.store(result, tile)
    return tuple(results)


@nki.jit
def sgd(p, g, m, lr=1e-2, momentum=0.9, weight_decay=0.0):
    """(p, m) after one step with gradient g and momentum."""
    results = [nl.ndarray(each.shape, dtype=each.dtype, buffer=nl.shared_hbm) for each in (p, m)]
    for run in runs(p):
        weights, gradient, mean = [run.load(each) for each in (p, g, m)]
        decayed, new_mean, new_weights = run.tile(), run.tile(), run.tile()
        nisa.scalar_tensor_tensor(
            dst=decayed, data=weights, op0=nl.multiply, operand0=weight_decay, op1=nl.add, operand1=gradient
        )
        nisa.scalar_tensor_tensor(
            dst=new_mean, data=mean, op0=nl.multiply, operand0=momentum, op1=nl.add, operand1=decayed
        )
        nisa.scalar_tensor_tensor(
            dst=new_weights, data=new_mean, op0=nl.multiply, operand0=-lr, op1=nl.add, operand1=weights
        )
        for result, tile in zip(results, (new_weights, new_mean)):
            run.store(result, tile)
    return tuple(results)


def runs(tensor):
    """The runs of neighbouring elements that this program takes, a partition at a time."""
    size = size_of(tensor.shape)
    return [Run(size, first, height, deep) for first, height, deep in pieces(share(size, 1), 8192 // (BUFFERED // 4))]


class Run(nl.NKIObject):
    """Some elements of every tensor of a step: `height` partitions of `deep` each."""

    def __init__(self, size, first, height, deep):
        self.size, self.first, self.height, self.deep = size, first, height, deep

    def tile(self):
        return nl.ndarray((self.height, self.deep), dtype=nl.float32, buffer=nl.sbuf)

    def place(self, tensor):
        flat = tensor.reshape((self.size,))[self.first : self.first + self.height * self.deep]
        return flat.reshape((self.height, self.deep))

    def load(self, tensor):
        source = self.place(tensor)
        loaded = nl.ndarray(source.shape, dtype=tensor.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=loaded, src=source)
        return loaded

    def store(self, tensor, tile):
        if itemsize(tensor.dtype) < 4:
            narrow = nl.ndarray(tile.shape, dtype=tensor.dtype, buffer=nl.sbuf)
            nisa.activation(dst=narrow, op=nl.copy, data=tile)
            tile = narrow
        nisa.dma_copy(dst=self.place(tensor), src=tile, engine=nisa.engine.gpsimd)
