"""Attention of one head, a block of 128 queries at a time: softmax(q k^T / sqrt(d)) v.

Scores of a block fit in SBUF, so they never visit HBM; the division by the row sum waits until the end, where the
rows are short.
"""

import nki
import nki.isa as nisa
import nki.language as nl

QUERIES = 128
KEYS = 512  # scores of one PSUM bank
VALUES = 128  # keys a transposed tile


@nki.jit
def attention(q_t, k_t, v):
    """q_t [d, queries], k_t [d, keys], v [keys, d], d <= 128 -> [queries, d]; queries by 128, keys by 512."""
    d, queries = q_t.shape
    _, keys = k_t.shape
    out = nl.ndarray((queries, d), dtype=q_t.dtype, buffer=nl.shared_hbm)

    k_tile = nl.ndarray((d, keys), dtype=k_t.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=k_tile, src=k_t)
    v_tiles = nl.ndarray((VALUES, keys // VALUES, d), dtype=v.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=v_tiles, src=v.reshape((keys // VALUES, VALUES, d)).permute((1, 0, 2)))

    for block in nl.affine_range(queries // QUERIES):
        q_tile = nl.ndarray((d, QUERIES), dtype=q_t.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=q_tile, src=q_t[:, block * QUERIES : (block + 1) * QUERIES])

        scores = nl.ndarray((QUERIES, keys), dtype=nl.float32, buffer=nl.sbuf)
        for j in nl.affine_range(keys // KEYS):
            product = nl.ndarray((QUERIES, KEYS), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=product, stationary=q_tile, moving=k_tile[:, j * KEYS : (j + 1) * KEYS])
            nisa.tensor_scalar(
                dst=scores[:, j * KEYS : (j + 1) * KEYS], data=product, op0=nl.multiply, operand0=d**-0.5
            )

        minus_max = nl.ndarray((QUERIES, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=minus_max, op=nl.maximum, data=scores, axis=1, negate=True)
        powers = nl.ndarray((QUERIES, keys), dtype=v.dtype, buffer=nl.sbuf)
        total = nl.ndarray((QUERIES, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=powers, op=nl.exp, data=scores, reduce_op=nl.add, reduce_res=total, bias=minus_max, scale=1.0
        )

        # The contraction of the second product runs over keys, which must lie on partitions: transpose the weights.
        weighted = nl.ndarray((QUERIES, d), dtype=nl.float32, buffer=nl.psum)
        for j in nl.affine_range(keys // VALUES):
            turned = nl.ndarray((VALUES, QUERIES), dtype=v.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=powers[:, j * VALUES : (j + 1) * VALUES])
            powers_t = nl.ndarray((VALUES, QUERIES), dtype=v.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=powers_t, src=turned)
            nisa.nc_matmul(dst=weighted, stationary=powers_t, moving=v_tiles[:, j, :])

        share = nl.ndarray((QUERIES, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=share, data=total)
        result = nl.ndarray((QUERIES, d), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=weighted, op0=nl.multiply, operand0=share)
        nisa.dma_copy(dst=out[block * QUERIES : (block + 1) * QUERIES, :], src=result)

    return out
