"""Tiles of a matrix with the contracted dimension k on the partitions, which is how TensorE wants both operands.

A matrix [k, n] is loaded as it is; one [m, k] is transposed on the way. Step j of a contraction is one tile of at most
128 values of k. Which ones is free, as long as both operands agree: neighbours of HBM on one partition make long runs
of bytes for the DMA engines ("grouped"), neighbours across partitions are what a DMA transpose gives.
"""

import nki.isa as nisa
import nki.language as nl

from .tiles import BANK_BYTES, ROWS, blocks, itemsize, leave_psum, length, tile


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


class Strip(nl.NKIObject):
    """Columns of a matrix, k on the partitions, in tiles of `each` steps: [128, each, columns].

    across     : the columns, or rows of a matrix [m, k], that are meant
    transposed : whether the matrix is [m, k]
    """

    def __init__(self, tensor, across, cut, each, transposed):
        self.tensor, self.across, self.cut, self.each = tensor, across, cut, each
        self.transposed = transposed
        self.tiles = {}

    def load(self, steps):
        """Have the tile with these steps on chip."""
        name = str(steps.start)
        if name not in self.tiles:
            source = (self.tensor, self.across, self.cut, steps)
            self.tiles[name] = load_turned(*source) if self.transposed else load_straight(*source)
        return self.tiles[name]

    def at(self, step, columns, count=1):
        """One step of some columns, [k, columns]; two as [k, 2, columns]."""
        first = step // self.each * self.each
        loaded = self.load(slice(first, min(first + self.each, self.cut.steps)))
        if count == 1:
            return loaded[0 : self.cut.height(step), step - first, columns]
        return loaded[:, step - first : step - first + count, columns]

    def has(self, step, count):
        """Whether so many full steps from one on are in one tile."""
        return step % self.each + count <= self.each and step + count <= self.cut.full


class Held(nl.NKIObject):
    """A strip that is on chip already, as one tile [128, steps, columns]."""

    def __init__(self, tensor, cut):
        self.tensor, self.cut = tensor, cut

    def at(self, step, columns, count=1):
        if count == 1:
            return self.tensor[0 : self.cut.height(step), step, columns]
        return self.tensor[:, step : step + count, columns]

    def has(self, step, count):
        return step + count <= self.cut.full


def load_straight(tensor, across, cut, steps, loaded=None):
    """Columns `across` of a tensor [k, n]."""
    if loaded == None:
        loaded = nl.ndarray((ROWS, length(steps), length(across)), dtype=tensor.dtype, buffer=nl.sbuf)
    full = slice(steps.start, min(steps.stop, cut.full))
    if length(full) > 0:
        nisa.dma_copy(dst=loaded[:, 0 : length(full)], src=cut.view(tensor, full)[:, :, across])
    if steps.stop > cut.full:
        nisa.dma_copy(dst=loaded[0 : cut.rest, cut.full - steps.start], src=tensor[ROWS * cut.full :, across])
    return loaded


def load_turned(tensor, rows, cut, steps):
    """Rows of a tensor [m, k], transposed."""
    loaded = nl.ndarray((ROWS, length(steps), length(rows)), dtype=tensor.dtype, buffer=nl.sbuf)
    if turns_in_flight(tensor, cut):
        turn_in_flight(loaded, tensor, rows, cut, steps)
    else:
        turn_on_chip(loaded, tensor, rows, cut, steps)
    return loaded


def turns_in_flight(tensor, cut):
    """Whether DMA engines transpose: elements of two bytes, from NeuronCore-v3 on."""
    return itemsize(tensor.dtype) == 2 and not cut.grouped and nisa.get_nc_version() >= nisa.nc_version.gen3


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
    for part in blocks(length(rows), ROWS):
        at = slice(rows.start + part.start, rows.start + part.stop)
        taken = slice(0, tensor.shape[1])
        if not cut.grouped:
            taken = slice(steps.start * ROWS, min(tensor.shape[1], steps.stop * ROWS))
        source = tile(length(part), length(taken), tensor.dtype)
        nisa.dma_copy(dst=source, src=tensor[at, taken], engine=nisa.engine.scalar)
        turn_tile(loaded[:, :, part], source, taken.start, cut, steps)


def turn_tile(loaded, source, first, cut, steps):
    """A tile [m, k from `first` on] into [128, steps, m]."""
    height = source.shape[0]
    together = BANK_BYTES // (height * itemsize(source.dtype))
    for turn, group in enumerate(blocks(length(steps), together, steps.start)):
        in_psum = nl.ndarray((ROWS, length(group), height), dtype=source.dtype, buffer=nl.psum)
        for step in range(group.start, group.stop):
            columns = cut.columns(step)
            data = source[:, slice(columns.start - first, columns.stop - first, columns.step)]
            place = in_psum[0 : cut.height(step), step - group.start]
            nisa.nc_transpose(dst=place, data=data, engine=nisa.engine.tensor)
        full = slice(group.start - steps.start, min(group.stop, cut.full) - steps.start)
        if length(full) > 0:
            leave_psum(loaded[:, full], in_psum[:, 0 : length(full)], turn)
        if group.stop > cut.full:
            at = cut.full - steps.start
            leave_psum(loaded[0 : cut.rest, at], in_psum[0 : cut.rest, cut.full - group.start], turn)
