"""A matmul with everything that a reviewer would object to: what the analysis should find.

Tiles of a quarter of the array, operands loaded again for every product, one row a DMA, and each result waits in HBM
for its bias.
"""

import nki
import nki.isa as nisa
import nki.language as nl

TILE = 32  # a quarter of the array's rows and columns: fifteen sixteenths of it idle
COLUMNS = 128


@nki.jit
def wasteful_matmul(a_t, b, bias):
    """a_t [k, m], b [k, n], bias [m, n] -> a_t.T @ b + bias; k and m by 32, n by 128."""
    k_size, m_size = a_t.shape
    _, n_size = b.shape
    product_hbm = nl.ndarray((m_size, n_size), dtype=nl.float32, buffer=nl.shared_hbm)
    out = nl.ndarray((m_size, n_size), dtype=a_t.dtype, buffer=nl.shared_hbm)

    for m in nl.affine_range(m_size // TILE):
        for n in nl.affine_range(n_size // COLUMNS):
            product = nl.ndarray((TILE, COLUMNS), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(k_size // TILE):
                # The same tile of a_t is loaded again for every n, that of b for every m.
                a_tile = nl.ndarray((TILE, TILE), dtype=a_t.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=a_tile, src=a_t[k * TILE : (k + 1) * TILE, m * TILE : (m + 1) * TILE])
                b_tile = nl.ndarray((TILE, COLUMNS), dtype=b.dtype, buffer=nl.sbuf)
                for row in nl.affine_range(TILE):
                    nisa.dma_copy(
                        dst=b_tile[row : row + 1, :],
                        src=b[k * TILE + row : k * TILE + row + 1, n * COLUMNS : (n + 1) * COLUMNS],
                    )
                nisa.nc_matmul(dst=product, stationary=a_tile, moving=b_tile)

            kept = nl.ndarray((TILE, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=kept, src=product)
            here = product_hbm[m * TILE : (m + 1) * TILE, n * COLUMNS : (n + 1) * COLUMNS]
            nisa.dma_copy(dst=here, src=kept)

            again = nl.ndarray((TILE, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=again, src=here)
            bias_tile = nl.ndarray((TILE, COLUMNS), dtype=bias.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=bias_tile, src=bias[m * TILE : (m + 1) * TILE, n * COLUMNS : (n + 1) * COLUMNS])
            result = nl.ndarray((TILE, COLUMNS), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=result, data1=again, data2=bias_tile, op=nl.add)
            nisa.dma_copy(dst=out[m * TILE : (m + 1) * TILE, n * COLUMNS : (n + 1) * COLUMNS], src=result)

    return out
