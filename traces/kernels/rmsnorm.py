"""RMS normalisation: x / sqrt(mean(x²) + eps) * weight, one row a partition."""

import nki
import nki.isa as nisa
import nki.language as nl

ROWS = 128
EPSILON = 1e-6


@nki.jit
def rmsnorm(x, weight):
    """x [rows, columns], weight [1, columns] -> x normalised along each row; rows a multiple of 128."""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)

    # Engines cannot read one partition from all others: a matmul with ones repeats the weights on 128 partitions.
    weight_row = nl.load(weight)
    weights = nl.broadcast_to(weight_row, (ROWS, columns))

    for block in nl.affine_range(rows // ROWS):
        tile = nl.ndarray((ROWS, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[block * ROWS : (block + 1) * ROWS, :])

        squares = nl.ndarray((ROWS, columns), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(dst=squares, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total)

        mean = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=mean, data=total, op0=nl.multiply, operand0=1.0 / columns, op1=nl.add, operand1=EPSILON)
        scale = nl.ndarray((ROWS, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=scale, op=nl.rsqrt, data=mean)

        # (x * scale) * weight in one pass of the Vector Engine.
        result = nl.ndarray((ROWS, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            dst=result, data=tile, op0=nl.multiply, operand0=scale, op1=nl.multiply, operand1=weights
        )
        nisa.dma_copy(dst=out[block * ROWS : (block + 1) * ROWS, :], src=result)

    return out
