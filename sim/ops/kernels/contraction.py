"""Tiles of a matrix with the contracted dimension k on the partitions, which is how TensorE wants both operands.

A matrix [k, n] is loaded as it is; one [m, k] is transposed on the way. Step j of a contraction is one tile of at most
128 values of k. Which ones is free, as long as both operands agree: neighbours of HBM on one partition make long runs
of bytes for the DMA engines ("grouped"), neighbours across partitions are what a DMA transpose gives.
"""

import nki.isa as nisa
import nki.language as nl

from .tiles import ROWS, blocks, leave_psum, length, tile

PSUM_BANK_BYTES = 2048


class Cut(nl.NKIObject):
    """How k lies on the partitions: step j has 128 of its values, the last step what is left.

    grouped : partition p holds k = p * full + j, neighbours in HBM; else k = j * 128 + p
    """

    def __init__(self, K, grouped):
        self.full, self.rest = K // ROWS, K % ROWS
        self.steps = self.full + (1 if self.rest else 0)
        self.grouped = grouped

    def height(self, step):
        return ROWS if step < self.full else self.rest

    def view(self, rows, steps):
        """[128, steps, …] of a tensor whose first dimension is k, for full steps."""
        whole = rows[0 : ROWS * self.full]
        if self.grouped:
            return whole.reshape_dim(0, (ROWS, self.full))[:, steps]
        return whole.reshape_dim(0, (self.full, ROWS))[steps].permute((1, 0, 2))

    def columns(self, step):
        """Where step j has its values of k in a row of x."""
        if step == self.full:
            return slice(ROWS * self.full, ROWS * self.full + self.rest)
        return slice(step, ROWS * self.full, self.full) if self.grouped else slice(step * ROWS, (step + 1) * ROWS)


def dtype_bytes(dtype):
    return 4 if dtype == nl.float32 else 1 if "float8" in str(dtype) else 2


def load_contraction(tensor, across, cut, steps):
    """Columns `across` of a tensor [k, n] with k on the partitions: [128, steps, n]."""
    loaded = nl.ndarray((ROWS, length(steps), length(across)), dtype=tensor.dtype, buffer=nl.sbuf)
    full = slice(steps.start, min(steps.stop, cut.full))
    if length(full) > 0:
        nisa.dma_copy(dst=loaded[:, 0 : length(full)], src=cut.view(tensor, full)[:, :, across])
    if steps.stop > cut.full:
        nisa.dma_copy(dst=loaded[0 : cut.rest, cut.full - steps.start], src=tensor[ROWS * cut.full :, across])
    return loaded


def load_turned(tensor, rows, cut, steps):
    """Rows of a tensor [m, k], transposed: [128, steps, m] with k on the partitions."""
    loaded = nl.ndarray((ROWS, length(steps), length(rows)), dtype=tensor.dtype, buffer=nl.sbuf)
    if dtype_bytes(tensor.dtype) == 2 and not cut.grouped and nisa.get_nc_version() >= nisa.nc_version.gen3:
        turn_in_flight(loaded, tensor, rows, cut, steps)
    else:
        turn_on_chip(loaded, tensor, rows, cut, steps)
    return loaded


def turn_in_flight(loaded, tensor, rows, cut, steps):
    """DMA engines transpose elements of two bytes on their way, near their full rate."""
    full = slice(steps.start, min(steps.stop, cut.full))
    if length(full) > 0:
        source = tensor[rows, full.start * ROWS : full.stop * ROWS].reshape_dim(1, (length(full), ROWS))
        nisa.dma_transpose(dst=loaded[:, 0 : length(full)], src=source, axes=(2, 1, 0))
    if steps.stop > cut.full:
        source = tensor[rows, ROWS * cut.full :]
        nisa.dma_transpose(dst=loaded[0 : cut.rest, cut.full - steps.start], src=source, axes=(1, 0))


def turn_on_chip(loaded, tensor, rows, cut, steps):
    """TensorE transposes 128 x 128 at a time, by multiplying with the identity; several share one copy out of PSUM."""
    together = PSUM_BANK_BYTES // (ROWS * dtype_bytes(tensor.dtype))
    for turn, part in enumerate(blocks(length(rows), ROWS)):
        height = length(part)
        at = slice(rows.start + part.start, rows.start + part.stop)
        first, last = (0, tensor.shape[1]) if cut.grouped else (steps.start * ROWS, min(tensor.shape[1], steps.stop * ROWS))
        source = tile(height, last - first, tensor.dtype)
        nisa.dma_copy(dst=source, src=tensor[at, first:last])
        for group in blocks(length(steps), together, steps.start):
            turned_group = nl.ndarray((ROWS, length(group), height), dtype=tensor.dtype, buffer=nl.psum)
            for step in range(group.start, group.stop):
                columns = cut.columns(step)
                moved = slice(columns.start - first, columns.stop - first, columns.step)
                nisa.nc_transpose(
                    dst=turned_group[0 : cut.height(step), step - group.start],
                    data=source[:, moved],
                    engine=nisa.engine.tensor,
                )
            full = slice(group.start, min(group.stop, cut.full))
            if length(full) > 0:
                place = loaded[:, full.start - steps.start : full.stop - steps.start, part]
                leave_psum(place, turned_group[:, 0 : length(full)], turn)
            if group.stop > cut.full:
                place = loaded[0 : cut.rest, cut.full - steps.start, part]
                leave_psum(place, turned_group[0 : cut.rest, cut.full - group.start], turn)
