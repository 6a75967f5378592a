"""Softmax along rows: each partition holds one row, so nothing crosses partitions."""

import nki
import nki.isa as nisa
import nki.language as nl

ROWS = 128


@nki.jit
def softmax(x):
    """x [rows, columns] -> exp(x - max) / sum along each row; rows a multiple of 128."""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)

    for block in nl.affine_range(rows // ROWS):
        tile = nl.ndarray((ROWS, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[block * ROWS : (block + 1) * ROWS, :])

        # exp(x - max) cannot overflow; the Scalar Engine adds the bias on the way in and the sum on the way out.
        minus_max = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=minus_max, op=nl.maximum, data=tile, axis=1, negate=True)
        powers = nl.ndarray((ROWS, columns), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=powers, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=total, bias=minus_max, scale=1.0
        )

        share = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=share, data=total)
        result = nl.ndarray((ROWS, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=powers, op0=nl.multiply, operand0=share)
        nisa.dma_copy(dst=out[block * ROWS : (block + 1) * ROWS, :], src=result)

    return out
