"""Two ways to multiply large matrices, as the kernel-optimization tutorial of the Neuron documents describes them.

c[m, n] = sum over k of a_t[k, m] * b[k, n]. `tile_by_tile` loads both operands for every product and is bound by its
DMAs; `blocked` keeps blocks of all three matrices in SBUF and leaves TensorE as the limit.
"""

import nki
import nki.isa as nisa
import nki.language as nl

TILE_M, TILE_K, TILE_N = 128, 128, 512


@nki.jit
def tile_by_tile(a_t, b):
    """a_t [k, m], b [k, n] -> c [m, n]; whole multiples of a tile."""
    k_size, m_size = a_t.shape
    _, n_size = b.shape
    assert (m_size % TILE_M, k_size % TILE_K, n_size % TILE_N) == (0, 0, 0), "whole multiples of a tile"
    c = nl.ndarray((m_size, n_size), dtype=a_t.dtype, buffer=nl.shared_hbm)

    for m in nl.affine_range(m_size // TILE_M):
        for n in nl.affine_range(n_size // TILE_N):
            product = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(k_size // TILE_K):
                rows = slice(k * TILE_K, (k + 1) * TILE_K)
                a_tile = nl.ndarray((TILE_K, TILE_M), dtype=a_t.dtype, buffer=nl.sbuf)
                b_tile = nl.ndarray((TILE_K, TILE_N), dtype=b.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=a_tile, src=a_t[rows, m * TILE_M : (m + 1) * TILE_M])
                nisa.dma_copy(dst=b_tile, src=b[rows, n * TILE_N : (n + 1) * TILE_N])
                nisa.nc_matmul(dst=product, stationary=a_tile, moving=b_tile)
            result = nl.ndarray((TILE_M, TILE_N), dtype=c.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=product)
            nisa.dma_copy(dst=c[m * TILE_M : (m + 1) * TILE_M, n * TILE_N : (n + 1) * TILE_N], src=result)

    return c


@nki.jit
def blocked(a_t, b, m_tiles=16, n_tiles=2, k_tiles=8):
    """a_t [k, m], b [k, n] -> c [m, n]; whole multiples of a block of m_tiles, n_tiles, k_tiles."""
    k_size, m_size = a_t.shape
    _, n_size = b.shape
    block_m, block_n = m_tiles * TILE_M, n_tiles * TILE_N
    assert (m_size % block_m, n_size % block_n, k_size % (k_tiles * TILE_K)) == (0, 0, 0), "whole multiples of a block"
    c = nl.ndarray((m_size, n_size), dtype=a_t.dtype, buffer=nl.shared_hbm)

    for n in nl.affine_range(n_size // block_n):
        sums = [[_zeros(c.dtype) for _ in range(n_tiles)] for _ in range(m_size // TILE_M)]
        for k in nl.sequential_range(k_size // (k_tiles * TILE_K)):
            b_tiles = [_loaded(b, k * k_tiles + i, n * block_n, block_n) for i in range(k_tiles)]
            for m in nl.affine_range(m_size // block_m):
                a_tiles = [_loaded(a_t, k * k_tiles + i, m * block_m, block_m) for i in range(k_tiles)]
                for j in nl.affine_range(n_tiles):
                    for i in nl.affine_range(m_tiles):
                        product = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
                        for a_tile, b_tile in zip(a_tiles, b_tiles):
                            stationary = a_tile[:, i * TILE_M : (i + 1) * TILE_M]
                            moving = b_tile[:, j * TILE_N : (j + 1) * TILE_N]
                            nisa.nc_matmul(dst=product, stationary=stationary, moving=moving)
                        total = sums[m * m_tiles + i][j]
                        nisa.tensor_tensor(dst=total, data1=total, data2=product, op=nl.add)
        for m in nl.affine_range(m_size // TILE_M):
            # Neighbouring results leave in one transfer of longer rows.
            row = nl.ndarray((TILE_M, block_n), dtype=c.dtype, buffer=nl.sbuf)
            for j in nl.affine_range(n_tiles):
                nisa.tensor_copy(dst=row[:, j * TILE_N : (j + 1) * TILE_N], src=sums[m][j])
            nisa.dma_copy(dst=c[m * TILE_M : (m + 1) * TILE_M, n * block_n : (n + 1) * block_n], src=row)

    return c


def _zeros(dtype):
    tile = nl.ndarray((TILE_M, TILE_N), dtype=dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    return tile


def _loaded(matrix, tile, first, columns):
    """Rows of one tile of the contraction, `columns` of them from the first."""
    loaded = nl.ndarray((TILE_K, columns), dtype=matrix.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=loaded, src=matrix[tile * TILE_K : (tile + 1) * TILE_K, first : first + columns])
    return loaded
