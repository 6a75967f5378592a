"""A streaming elementwise operator: silu(gate) * up. Every byte is read once, used once and written once."""

import nki
import nki.isa as nisa
import nki.language as nl

ROWS = 128


@nki.jit
def silu_multiply(gate, up):
    """gate, up [rows, columns] -> silu(gate) * up; rows a multiple of 128."""
    rows, columns = gate.shape
    out = nl.ndarray((rows, columns), dtype=gate.dtype, buffer=nl.shared_hbm)

    for block in nl.affine_range(rows // ROWS):
        here = slice(block * ROWS, (block + 1) * ROWS)
        gate_tile = nl.ndarray((ROWS, columns), dtype=gate.dtype, buffer=nl.sbuf)
        up_tile = nl.ndarray((ROWS, columns), dtype=up.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=gate_tile, src=gate[here, :])
        nisa.dma_copy(dst=up_tile, src=up[here, :])

        activated = nl.ndarray((ROWS, columns), dtype=gate.dtype, buffer=nl.sbuf)
        nisa.activation(dst=activated, op=nl.silu, data=gate_tile)
        result = nl.ndarray((ROWS, columns), dtype=gate.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=result, data1=activated, data2=up_tile, op=nl.multiply)
        nisa.dma_copy(dst=out[here, :], src=result)

    return out
