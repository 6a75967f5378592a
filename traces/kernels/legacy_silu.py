"""x * sigmoid(x) in the older API, a block of columns at a time: exp, 1 + e, reciprocal, product."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

PARTITIONS, BLOCK, TILE = 128, 1024, 512


@nki.jit
def silu(x):
    """x [128, rows, columns] -> the same shape; columns in whole blocks of 1024."""
    _, rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    p, f = nl.arange(PARTITIONS)[:, None], nl.arange(TILE)[None, :]
    wide = nl.arange(BLOCK)[None, :]

    for row in nl.affine_range(rows):
        for block in nl.affine_range(columns // BLOCK):
            tile = nl.load(x[p, row, block * BLOCK + wide])
            result = nl.ndarray((nl.par_dim(PARTITIONS), BLOCK), dtype=x.dtype, buffer=nl.sbuf)
            for half in nl.affine_range(BLOCK // TILE):
                part = tile[p, half * TILE + f]
                power = nisa.activation(op=nl.exp, data=part, scale=-1.0)
                more = nisa.tensor_scalar(data=power, op0=nl.add, operand0=1.0)
                share = nisa.reciprocal(data=more)
                result[p, half * TILE + f] = nl.multiply(part, share)
            nl.store(out[p, row, block * BLOCK + wide], value=result)

    return out
