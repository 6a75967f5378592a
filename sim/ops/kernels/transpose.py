"""Transposes: any order of the axes.

While the last axis stays last, the DMA engines move its runs from HBM to HBM and nothing else works. When it does not,
tiles are turned on the way in (by the DMA engines in 16 bits, else by TensorE), so that both sides move long runs.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .contraction import Cut, load_turned
from .elementwise import size_of
from .tiles import ROWS, blocks, itemsize, length, share

COPY = 2097152  # bytes of one copy from HBM to HBM
RUN = 8192  # bytes of a run that is stored


@nki.jit
def transpose(x, axes=(1, 0)):
    """The dimensions of x in another order, as numpy.transpose has it."""
    shape = tuple([x.shape[axis] for axis in axes])
    out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)
    # Axes of `x` and where each is in `out`; those that stay neighbours are one.
    kept, order = merged(x.shape, axes)
    source, target = x.reshape(kept), out.reshape(tuple([kept[axis] for axis in order]))
    if order[-1] == len(kept) - 1:
        copy_runs(target, source, order)
    else:
        turn_all(target, source, order)
    return out


def merged(shape, axes):
    """Sizes of the groups of axes that stay together, in the order of the source, and their new order."""
    groups = []
    for axis in axes:
        if groups and groups[-1][-1] == axis - 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    ordered = sorted(groups)
    sizes = [size_of([shape[axis] for axis in group]) for group in ordered]
    return sizes, [ordered.index(group) for group in groups]


def copy_runs(target, source, order):
    """The last axis stays: one copy moves as many of the rest as make two megabytes."""
    source = source.permute(tuple(order))
    if len(order) == 1:
        nisa.dma_copy(dst=target, src=source)
        return
    rest = size_of(target.shape[1:]) * itemsize(target.dtype)
    mine = share(target.shape[0], 1)
    for part in blocks(length(mine), max(1, COPY // rest), mine.start):
        nisa.dma_copy(dst=target[part], src=source[part])


def turn_all(target, source, order):
    """The matrix of the source's last axis and the axis that becomes the last, for each place along the others."""
    last, rows = len(order) - 1, order[-1]
    others = [axis for axis in range(last) if axis != rows]
    count = size_of([source.shape[axis] for axis in others])
    mine = share(count, 1)
    for number in range(mine.start, mine.stop):
        at = places([source.shape[axis] for axis in others], number)
        chosen = [slice(0, source.shape[axis]) for axis in range(last + 1)]
        for axis, place in zip(others, at):
            chosen[axis] = place
        turn_matrix(target[tuple([chosen[axis] for axis in order])], source[tuple(chosen)])


def places(sizes, number):
    """The index that counts to `number`, the last axis fastest."""
    found = []
    for size in sizes[::-1]:
        found.insert(0, number % size)
        number //= size
    return found


def turn_matrix(target, source):
    """[rows, columns] -> [columns, rows]"""
    rows, columns = source.shape
    cut = Cut(columns, False)
    most = 65536 // itemsize(source.dtype)
    for block in blocks(rows, RUN // itemsize(source.dtype)):
        for steps in blocks(cut.steps, max(1, most // length(block))):
            turned = load_turned(source, block, cut, steps)
            full = slice(steps.start, min(steps.stop, cut.full))
            if length(full) > 0:
                place = target[full.start * ROWS : full.stop * ROWS, block].reshape_dim(0, (length(full), ROWS))
                nisa.dma_copy(dst=place.permute((1, 0, 2)), src=turned[:, 0 : length(full)])
            if steps.stop > cut.full:
                place = target[cut.full * ROWS :, block]
                nisa.dma_copy(dst=place, src=turned[0 : cut.rest, cut.full - steps.start])
