"""A tiled matrix multiplication: the weights of the stationary side stay, the moving side streams.

c[m, n] = sum over k of a_t[k, m] * b[k, n], all sizes whole multiples of a tile.
"""

import nki
import nki.isa as nisa
import nki.language as nl

TILE_M = 128  # stationary columns become partitions of the result
TILE_K = 128  # the contraction lies on the partitions of both operands
TILE_N = 512  # one PSUM bank of fp32


@nki.jit
def matmul(a_t, b):
    """a_t [k, m], b [k, n] -> c [m, n] in a_t's dtype."""
    k_size, m_size = a_t.shape
    _, n_size = b.shape
    c = nl.ndarray((m_size, n_size), dtype=a_t.dtype, buffer=nl.shared_hbm)

    for n in nl.affine_range(n_size // TILE_N):
        # One column block of b is loaded once and used by every row block of c.
        b_tiles = []
        for k in nl.affine_range(k_size // TILE_K):
            b_tile = nl.ndarray((TILE_K, TILE_N), dtype=b.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=b_tile, src=b[k * TILE_K : (k + 1) * TILE_K, n * TILE_N : (n + 1) * TILE_N])
            b_tiles.append(b_tile)

        for m in nl.affine_range(m_size // TILE_M):
            product = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(k_size // TILE_K):
                a_tile = nl.ndarray((TILE_K, TILE_M), dtype=a_t.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=a_tile, src=a_t[k * TILE_K : (k + 1) * TILE_K, m * TILE_M : (m + 1) * TILE_M])
                nisa.nc_matmul(dst=product, stationary=a_tile, moving=b_tiles[k])

            result = nl.ndarray((TILE_M, TILE_N), dtype=c.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=product)
            nisa.dma_copy(dst=c[m * TILE_M : (m + 1) * TILE_M, n * TILE_N : (n + 1) * TILE_N], src=result)

    return c
