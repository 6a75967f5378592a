"""Convolutions as products: channels lie on the partitions, and each tap of the filter is one product.

out[o, y, x] sums over taps (i, j) and channels c: weight[o, c, i, j] times x[c, y + i, x + j]. So a tap's weights
[128 channels, 128 outputs] are stationary, and the moving side is the same band of the image for every tap, read from
another place: nothing is copied, and all taps and channels add up in PSUM. Where few channels would leave partitions
idle, copies of the band, each moved by a tap, lie below one another, and one product does several taps (`Pack`).
Weights that fit on chip are read once, and the image once, band after band; else the outputs are done block by block.
As frameworks keep them, [O, C, kh, kw], weights must be turned on TensorE; as [kh, kw, C, O] they are read as needed,
and where the result has few pixels these are stationary, and the weights stream past them at the rate of HBM.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .filters import Filters
from .short_convolution import FEW_COLUMNS, short_depthwise
from .tiles import BANK, ROWS, blocks, even, itemsize, length, load, pair, product, share, tile

WEIGHTS = 65536  # bytes a partition of the weights that stay on chip
IMAGE = 49152  # and of the image
BAND = 24576  # bytes a partition of one band of the image, all channels
BANDS = 4  # that even a small image is cut into
COLUMNS = 4096  # of the result in one band
STREAM = 16384  # bytes a partition of the weights in one load, where they stream
OPEN = 4  # banks of PSUM that few pixels take at once


@nki.jit
def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, weight_layout="OIHW"):
    """x [N, C, H, W] with weight [O, C / groups, kh, kw] and bias [O] -> [N, O, H', W'].

    weight_layout : OIHW, or HWIO for a weight [kh, kw, C, O]
    """
    filters = Filters(weight, groups, weight_layout)
    grid = Grid(x.shape, filters.taps, stride, padding, dilation)
    out = nl.ndarray((x.shape[0], filters.outputs, *grid.size), dtype=x.dtype, buffer=nl.shared_hbm)
    convolve(out, x, filters, bias, grid)
    return out


@nki.jit
def conv1d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, weight_layout="OIW"):
    """x [N, C, W] with weight [O, C / groups, k] and bias [O] -> [N, O, W'].

    weight_layout : OIW, or WIO for a weight [k, C, O]
    """
    N, C, W = x.shape
    flat = weight_layout == "OIW"
    deep = weight.expand_dim(2) if flat else weight.expand_dim(0)
    filters = Filters(deep, groups, "OIHW" if flat else "HWIO")
    grid = Grid((N, C, 1, W), filters.taps, (1, stride), (0, padding), (1, dilation))
    out = nl.ndarray((N, filters.outputs, grid.size[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    convolve(out.expand_dim(2), x.expand_dim(2), filters, bias, grid)
    return out


@nki.jit
def depthwise_conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1):
    """x [N, C, H, W], each channel with its own filter of weight [C, kh, kw], and bias [C] -> [N, C, H', W']."""
    filters = Filters(weight.expand_dim(1), x.shape[1], "OIHW")
    grid = Grid(x.shape, filters.taps, stride, padding, dilation)
    out = nl.ndarray((x.shape[0], x.shape[1], *grid.size), dtype=x.dtype, buffer=nl.shared_hbm)
    convolve(out, x, filters, bias, grid)
    return out


@nki.jit
def depthwise_conv1d(x, weight, bias=None, stride=1, padding=0, dilation=1):
    """x [N, C, W], each channel with its own filter of weight [C, k], and bias [C] -> [N, C, W']."""
    N, C, W = x.shape
    filters = Filters(weight.expand_dim(1).expand_dim(1), C, "OIHW")
    grid = Grid((N, C, 1, W), filters.taps, (1, stride), (0, padding), (1, dilation))
    out = nl.ndarray((N, C, grid.size[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    if grid.size[1] <= FEW_COLUMNS:
        short_depthwise(out, x, weight, bias, (stride, padding, dilation))
        return out
    convolve(out.expand_dim(2), x.expand_dim(2), filters, bias, grid)
    return out


@nki.jit
def conv2d_input_gradient(dout, weight, size, stride=1, padding=0, dilation=1):
    """Of conv2d(x [N, C, H, W], weight [O, C, kh, kw]): dx from dout [N, O, H', W'], for images of size (H, W).

    It is a convolution itself: of dout, with zeros between its pixels where the stride is more than 1, and of the
    weights as they lie, which have what is contracted now on the partitions, the last tap first.
    """
    filters = Filters(weight, 1, "IOHW")
    gaps, pads = pair(dilation), pair(padding)
    around = [gaps[at] * (filters.taps[at] - 1) - pads[at] for at in range(2)]
    grid = Grid(dout.shape, filters.taps, 1, tuple(around), dilation, stride, size)
    dx = nl.ndarray((dout.shape[0], weight.shape[1], *size), dtype=dout.dtype, buffer=nl.shared_hbm)
    convolve(dx, dout, filters, None, grid)
    return dx


class Grid(nl.NKIObject):
    """Where the taps lie in the image, and the pieces that the result is made in.

    apart : how far apart the pixels of the image are taken to be, with zeros between them
    size  : of the result; piece : images, rows and columns of it, `most` pixels, that are made at once
    """

    def __init__(self, shape, taps, stride, padding, dilation, apart=1, size=None, most=BANK):
        self.images, self.taps, self.apart = shape[0], taps, pair(apart)
        self.image = [(shape[2 + at] - 1) * self.apart[at] + 1 for at in range(2)]
        self.stride, self.padding, self.dilation = pair(stride), pair(padding), pair(dilation)
        self.size = size or [
            (self.image[at] + 2 * self.padding[at] - self.dilation[at] * (taps[at] - 1) - 1) // self.stride[at] + 1
            for at in range(2)
        ]
        rows, columns = self.size
        width = even(columns, most, 1)
        height = even(rows, max(1, most // width), 1) if width == columns else 1
        together = max(1, min(self.images, most // (height * width))) if height == rows else 1
        self.piece = (together, height, width)

    def needed(self, axis, piece):
        """The rows or columns of the image that a piece of the result needs; they may lie outside of it."""
        first = piece.start * self.stride[axis] - self.padding[axis]
        return slice(first, first + self.reach(axis, length(piece)))

    def reach(self, axis, count):
        return (count - 1) * self.stride[axis] + self.dilation[axis] * (self.taps[axis] - 1) + 1

    def tap(self, axis, number, piece):
        """Where one tap reads, in a band that begins where the results do, for some of them."""
        first = piece.start * self.stride[axis] + number * self.dilation[axis]
        return slice(first, first + (length(piece) - 1) * self.stride[axis] + 1, self.stride[axis])

    def held(self, axis, piece):
        """Which pixels lie in a piece of the image."""
        step = self.apart[axis]
        return slice(-(-piece.start // step), max(-(-piece.start // step), (piece.stop - 1) // step + 1))

    def places(self, axis, held, wanted):
        """Where pixels go in a band that begins with what is wanted."""
        step = self.apart[axis]
        first = held.start * step - wanted.start
        return slice(first, first + (length(held) - 1) * step + 1, step)

    def bands(self, room, count=BANDS):
        """(images, rows, columns) of the result whose part of the image is on chip at once: at most `room` elements.

        count : of bands at least, if there are as many pieces
        """
        together, height, width = self.piece
        columns = self.size[1] if width == self.size[1] else max(1, COLUMNS // width) * width
        row = self.reach(1, columns)
        if height < self.size[0] or together < self.images:
            pieces = -(-self.size[0] // height) * -(-self.images // together)
            wanted = -(-pieces // count)
        else:
            wanted = 1
        if height < self.size[0]:
            fits = (room // row - self.reach(0, 1)) // self.stride[0] // height
            height *= max(1, min(wanted, fits))
        else:
            together *= max(1, min(wanted, room // (row * self.reach(0, height) * together)))
        return [
            (images, rows, part)
            for images in blocks(self.images, together)
            for rows in blocks(self.size[0], height)
            for part in blocks(self.size[1], columns)
        ]


def convolve(out, x, filters, bias, grid):
    """Blocks of outputs, and for each of them all bands of the image."""
    size = itemsize(x.dtype)
    packs = filters.packs
    if few_pixels(filters, grid, size):
        stream_weights(out, x, filters, bias, grid)
        return
    resident = filters.bytes_a_partition(filters.outputs) <= WEIGHTS
    bands = grid.bands(BAND // (size * filters.tiles_at_once))
    image = Image(x, bands, grid, len(packs) * size)
    # Two cores share the bands where each has room for all weights, else the outputs.
    mine = bands[share(len(bands), 1)] if resident and len(bands) > 1 else bands
    units = filters.units(WEIGHTS // 2)
    if not (resident and len(bands) > 1):
        units = units[share(len(units), 1)]
    for unit in units:
        weights = filters.load(unit)
        offset = load_bias(bias, unit.tiles)
        for band in mine:
            loaded = [image.get(band, pack) for pack in unit.packs]
            for number, outputs in enumerate(unit.tiles):
                convolve_band(out, loaded, weights, number, outputs, offset, band, grid)


def load_bias(bias, tiles):
    """[outputs, 1] fp32 for each tile of outputs, None without a bias."""
    if bias == None:
        return None
    found = []
    for outputs in tiles:
        wide = tile(length(outputs), 1)
        nisa.tensor_copy(dst=wide, src=load(bias[outputs].reshape((length(outputs), 1))))
        found.append(wide)
    return found


def convolve_band(out, loaded, weights, number, outputs, offset, band, grid):
    """One tile of outputs of one band, piece by piece; one store."""
    images, rows, columns = band
    shape = (length(outputs), length(images), length(rows), length(columns))
    result = nl.ndarray(shape, dtype=out.dtype, buffer=nl.sbuf)
    turn = 0
    for some in blocks(shape[1], grid.piece[0]):
        for height in blocks(shape[2], grid.piece[1]):
            for width in blocks(shape[3], grid.piece[2]):
                piece = (some, height, width)
                sums = product(shape[0], length(some) * length(height) * length(width))
                for each, pack in enumerate(weights):
                    pack.add(sums, loaded[each], number, piece, grid)
                turn += 1
                place = result[:, some, height, width]
                finish(place, sums.reshape(place.shape), offset[number] if offset != None else None, turn)
    target = out[images, outputs, rows, columns].permute((1, 0, 2, 3))
    nisa.dma_copy(dst=target, src=result, engine=nisa.engine.gpsimd)


def finish(dst, sums, offset, turn):
    """Out of PSUM, with the bias: ScalarE and VectorE by turns."""
    if turn % 2:
        if offset == None:
            nisa.activation(dst=dst, op=nl.copy, data=sums)
        else:
            nisa.tensor_scalar(dst=dst, data=sums, op0=nl.add, operand0=offset)
    elif offset == None:
        nisa.tensor_copy(dst=dst, src=sums)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=sums, bias=offset)


def few_pixels(filters, grid, size):
    """Whether all pixels of the result fit into one stationary tile, with long runs of weights to stream past it."""
    pixels = grid.images * grid.size[0] * grid.size[1]
    seen = grid.images * grid.reach(0, grid.size[0]) * grid.reach(1, grid.size[1])
    straight = not filters.turned and not filters.mirrored and filters.outputs > ROWS
    return straight and pixels <= ROWS and seen * size * len(filters.packs) <= IMAGE


def stream_weights(out, x, filters, bias, grid):
    """Few pixels are stationary; every weight is read once."""
    band = (slice(0, grid.images), slice(0, grid.size[0]), slice(0, grid.size[1]))
    image = Image(x, [band], grid, 0)
    mine = share(filters.outputs, ROWS)
    for outputs in blocks(length(mine), even(max(1, length(mine)), OPEN * BANK, ROWS), mine.start):
        banks = blocks(length(outputs), BANK)
        sums = [product(grid.images * grid.size[0] * grid.size[1], length(bank)) for bank in banks]
        for pack in filters.packs:
            seen = image.get(band, pack)
            for steps in blocks(len(pack.steps), max(1, STREAM // (length(outputs) * itemsize(x.dtype)))):
                weights = filters.some_steps(pack, steps, outputs)
                for at in range(steps.start, steps.stop):
                    still = pack.seen(seen, at, band, grid)
                    for total, bank in zip(sums, banks):
                        moving = weights[0 : still.shape[0], at - steps.start, bank]
                        nisa.nc_matmul(dst=total, stationary=still, moving=moving)
        for total, bank in zip(sums, banks):
            leave_turned(out, total, outputs.start + bank.start, bias)


def leave_turned(out, sums, first, bias):
    """[pixels, outputs] to the outputs from one on, with the bias."""
    pixels, count = sums.shape
    straight = tile(pixels, count)
    nisa.tensor_copy(dst=straight, src=sums)
    for number, part in enumerate(blocks(count, ROWS)):
        outputs = slice(first + part.start, first + part.stop)
        turned = product(length(part), pixels)
        nisa.nc_transpose(dst=turned, data=straight[:, part], engine=nisa.engine.tensor)
        shape = (length(part), out.shape[0], out.shape[2], out.shape[3])
        result = nl.ndarray(shape, dtype=out.dtype, buffer=nl.sbuf)
        offset = load_bias(bias, [outputs])
        finish(result, turned.reshape(shape), offset[0] if offset != None else None, number)
        nisa.dma_copy(dst=out[:, outputs].permute((1, 0, 2, 3)), src=result, engine=nisa.engine.gpsimd)


class Image(nl.NKIObject):
    """Bands of the image: kept, or read again for each block of outputs."""

    def __init__(self, x, bands, grid, bytes_each):
        self.x, self.grid = x, grid
        area = sum([length(band[0]) * self.height(band) * self.width(band) for band in bands])
        self.fits = area * bytes_each <= IMAGE
        self.kept = {}

    def height(self, band):
        return self.grid.reach(0, length(band[1]))

    def width(self, band):
        return self.grid.reach(1, length(band[2]))

    def get(self, band, pack):
        """[partitions, images, rows, columns], where the result's first piece needs it, zeros outside of the image."""
        images, rows, columns = band
        name = f"{images.start} {rows.start} {columns.start} {pack.channels.start}"
        if name in self.kept:
            return self.kept[name]
        found = self.load(band, pack)
        if self.fits:
            self.kept[name] = found
        return found

    def load(self, band, pack):
        images, rows, columns = band
        wanted = [self.grid.needed(0, rows), self.grid.needed(1, columns)]
        inside = [
            slice(max(0, each.start), max(0, min(self.grid.image[at], each.stop))) for at, each in enumerate(wanted)
        ]
        count = length(pack.channels)
        shape = (count * pack.copies, length(images), length(wanted[0]), length(wanted[1]))
        band_tile = nl.ndarray(shape, dtype=self.x.dtype, buffer=nl.sbuf)
        held = [self.grid.held(at, inside[at]) for at in range(2)]
        source = self.x[images, pack.channels, held[0], held[1]].permute((1, 0, 2, 3))
        if all([held[at].stop - held[at].start == length(wanted[at]) for at in range(2)]):
            nisa.dma_copy(dst=band_tile[0:count], src=source)
        else:
            # Rows come as one run, and are set apart on chip: rows of a padded band would be a descriptor each.
            surround(band_tile[0:count], wanted, inside, self.grid.apart)
            if all([length(each) > 0 for each in held]):
                run = nl.ndarray(source.shape, dtype=self.x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=run, src=source)
                rows, columns = [self.grid.places(at, held[at], wanted[at]) for at in range(2)]
                nisa.tensor_copy(dst=band_tile[0:count, :, rows, columns], src=run)
        pack.repeat(band_tile, self.grid)
        return band_tile


def surround(band, wanted, inside, apart):
    """Zeros where a band lies outside of the image, or between its pixels."""
    if apart != (1, 1):
        nisa.memset(dst=band, value=0.0)
        return
    before = [inside[at].start - wanted[at].start for at in range(2)]
    behind = [inside[at].stop - wanted[at].start for at in range(2)]
    outside = [
        band[:, :, 0 : before[0]] if before[0] > 0 else None,
        band[:, :, behind[0] :] if behind[0] < length(wanted[0]) else None,
        band[:, :, :, 0 : before[1]] if before[1] > 0 else None,
        band[:, :, :, behind[1] :] if behind[1] < length(wanted[1]) else None,
    ]
    for part in outside:
        if part != None:
            nisa.memset(dst=part, value=0.0, engine=nisa.engine.gpsimd)
