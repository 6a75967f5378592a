"""The gradient of a convolution's weights: a product over pixels, for each tap.

dweight[o, c, i, j] sums over pixels (y, x): dout[o, y, x] times image[c, y + i, x + j]. What is contracted are pixels,
so TensorE turns both sides, 128 pixels at a time; the image is on chip once and turned for each tap from another place.
A tap's turned channels are used by all outputs, so that turning costs the less the more outputs there are. Bands of the
image follow one another, and their sums stay on chip in fp32.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .convolution import Grid, Image
from .filters import Pack
from .tiles import BANK, BANK_BYTES, ROWS, blocks, even, itemsize, leave_psum, length, product, share

KEPT = 65536  # bytes a partition of sums
BAND = 24576  # bytes a partition of one band of the image, all channels


@nki.jit
def conv2d_weight_gradient(dout, x, taps, stride=1, padding=0, dilation=1):
    """Of conv2d(x [N, C, H, W], weight [O, C, kh, kw]): dweight from dout [N, O, H', W'], for taps (kh, kw)."""
    outputs, channels = dout.shape[1], x.shape[1]
    out = nl.ndarray((outputs, channels, *taps), dtype=dout.dtype, buffer=nl.shared_hbm)
    grid = Grid(x.shape, taps, stride, padding, dilation, most=ROWS)
    size = 4 * taps[0] * taps[1]
    wide = min(channels, max(1, KEPT // (size * ROWS)) * ROWS)
    together = max(1, KEPT // (size * wide)) * ROWS
    mine = share(outputs, ROWS)
    for part in blocks(channels, even(channels, wide, ROWS)):
        for rows in blocks(length(mine), together, mine.start):
            gradient_block(out, dout, x, rows, part, grid)
    return out


def gradient_block(out, dout, x, outputs, channels, grid):
    """Some outputs and some channels, over all pixels."""
    count = grid.taps[0] * grid.taps[1]
    packs = [Pack(part, grid.taps, True) for part in blocks(length(channels), ROWS, channels.start)]
    given = [Pack(part, (1, 1), True) for part in blocks(length(outputs), ROWS, outputs.start)]
    plain = Grid(dout.shape, (1, 1), 1, 0, 1, most=ROWS)
    shape = (count, length(channels))
    sums = [nl.ndarray((length(one.channels), *shape), dtype=nl.float32, buffer=nl.sbuf) for one in given]
    for number, band in enumerate(grid.bands(BAND // (itemsize(x.dtype) * max(len(packs), len(given))), 1)):
        image, back = Image(x, [band], grid, 0), Image(dout, [band], plain, 0)
        seen = [image.get(band, pack) for pack in packs]
        came = [back.get(band, pack) for pack in given]
        pieces = pieces_of(band, grid)
        turned = [turn(came, given, slice(0, 1), piece, plain, at) for at, piece in enumerate(pieces)]
        for taps in blocks(count, max(1, BANK // length(channels))):
            moving = [turn(seen, packs, taps, piece, grid, at) for at, piece in enumerate(pieces)]
            for at, one in enumerate(given):
                rows = slice(one.channels.start - outputs.start, one.channels.stop - outputs.start)
                place = sums[at].flatten_dims(1, 2)[:, taps.start * length(channels) : taps.stop * length(channels)]
                for bank in blocks(length(channels) * length(taps), BANK):
                    total = product(length(rows), length(bank))
                    for still, move in zip(turned, moving):
                        nisa.nc_matmul(dst=total, stationary=still[:, rows], moving=move[:, bank])
                    add(place[:, bank], total, number == 0, at)
    for one, total in zip(given, sums):
        result = nl.ndarray((total.shape[0], length(channels), count), dtype=out.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total.permute((0, 2, 1)))
        nisa.dma_copy(dst=out[one.channels, channels].flatten_dims(2, 3), src=result)


def pieces_of(band, grid):
    """(images, rows, columns) of at most 128 pixels, counted from where the band begins."""
    images, rows, columns = band
    return [
        (some, height, width)
        for some in blocks(length(images), grid.piece[0])
        for height in blocks(length(rows), grid.piece[1])
        for width in blocks(length(columns), grid.piece[2])
    ]


def turn(bands, packs, taps, piece, grid, parity):
    """What some taps see of a piece, pixels on the partitions, [pixels, taps and channels of all packs]."""
    pixels = length(piece[0]) * length(piece[1]) * length(piece[2])
    width, dtype = sum([length(pack.channels) for pack in packs]), bands[0].dtype
    result = nl.ndarray((pixels, length(taps) * width), dtype=dtype, buffer=nl.sbuf)
    items = [(tap, at) for tap in range(taps.start, taps.stop) for at in range(len(packs))]
    first = packs[0].channels.start
    for number, group in enumerate(blocks(len(items), BANK_BYTES // (ROWS * itemsize(dtype)))):
        columns = [column(packs[at].channels, first, (tap - taps.start) * width) for tap, at in items[group]]
        start = columns[0].start
        in_psum = nl.ndarray((pixels, columns[-1].stop - start), dtype=dtype, buffer=nl.psum)
        for (tap, at), place in zip(items[group], columns):
            seen = packs[at].seen(bands[at], tap, piece, grid)
            target = in_psum[:, place.start - start : place.stop - start]
            nisa.nc_transpose(dst=target, data=seen, engine=nisa.engine.tensor)
        leave_psum(result[:, start : columns[-1].stop], in_psum, parity + number)
    return result


def column(channels, first, before):
    """Where channels lie behind some columns."""
    return slice(before + channels.start - first, before + channels.stop - first)


def add(sums, total, begins, turn_of):
    """sums += total, or = total."""
    if begins:
        leave_psum(sums, total, turn_of)
    else:
        nisa.tensor_tensor(dst=sums, data1=sums, data2=total, op=nl.add)
