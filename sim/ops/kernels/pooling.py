"""Pooling and upsampling: images change their size, and every byte of them is read once.

[N, C, H, W] is N C images of one channel; an image, or a band of its rows, lies on a partition, as one run of bytes.
VectorE folds a window's rows, and GpSimd what is left of its columns, so that a window of 3 x 3 takes four passes and
not eight; the rows and columns around the image are filled with what changes nothing, on chip. Upsampling repeats
columns on chip and rows too, so that what is stored is one run.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiles import ROWS, blocks, itemsize, length, pair, share

LEAST = -3.0e38
BAND = 16384  # bytes a partition of the larger image
FEW_IMAGES = 16  # of which each is spread over the partitions
TILES = 8  # that even a small tensor is cut into, so that load, computation and store overlap


@nki.jit
def max_pool2d(x, window=2, stride=None, padding=0):
    """x [N, C, H, W]: the largest value in each window -> [N, C, H', W']."""
    return pooled(x, Windows(x.shape, window, stride, padding), nl.maximum, LEAST)


@nki.jit
def avg_pool2d(x, window=2, stride=None, padding=0):
    """x [N, C, H, W]: the mean of each window, zeros around the image counted -> [N, C, H', W']."""
    return pooled(x, Windows(x.shape, window, stride, padding), nl.add, 0.0)


class Windows(nl.NKIObject):
    """Where the windows lie."""

    def __init__(self, shape, window, stride, padding):
        self.images, self.image = shape[0] * shape[1], shape[2:]
        self.taps, self.padding = pair(window), pair(padding)
        self.stride = pair(window if stride == None else stride)
        self.size = [(self.image[at] + 2 * self.padding[at] - self.taps[at]) // self.stride[at] + 1 for at in range(2)]

    def reach(self, axis, count):
        """Rows or columns that so many windows cover."""
        return (count - 1) * self.stride[axis] + self.taps[axis]


def pooled(x, windows, op, around):
    shape = (windows.images, windows.size[0], windows.size[1])
    out = nl.ndarray((x.shape[0], x.shape[1], shape[1], shape[2]), dtype=x.dtype, buffer=nl.shared_hbm)
    source, target = x.reshape((windows.images, x.shape[2], x.shape[3])), out.reshape(shape)
    row = windows.reach(1, windows.size[1]) * itemsize(x.dtype)
    mine = share(windows.images, 1)
    spread_rows = windows.reach(0, -(-shape[1] // ROWS))
    if length(mine) <= FEW_IMAGES and spread_rows * x.shape[3] * itemsize(x.dtype) <= BAND:
        for image in range(mine.start, mine.stop):
            Spread(source[image], windows).pool(target[image], op, around)
        return out
    for images in blocks(length(mine), ROWS, mine.start):
        for rows in blocks(shape[1], rows_together(shape[1], row * windows.stride[0], length(mine))):
            band = load_band(source[images], windows, rows, around)
            result = folded(band, windows, length(rows), op, around, out.dtype)
            nisa.dma_copy(dst=target[images, rows], src=result, engine=nisa.engine.gpsimd)
    return out


class Spread(nl.NKIObject):
    """One image on all partitions, a band of rows on each; neighbouring bands see some rows both.

    each  : rows of the result on a partition, as few as fill the partitions
    inner : the partitions whose band lies inside of the image
    """

    def __init__(self, image, windows):
        self.image, self.windows = image, windows
        self.each = -(-windows.size[0] // ROWS)
        self.count = -(-windows.size[0] // self.each)
        self.height, self.step = windows.reach(0, self.each), self.each * windows.stride[0]
        inside = [at for at in range(self.count) if 0 <= self.first(at) <= windows.image[0] - self.height]
        self.inner = slice(inside[0], inside[-1] + 1) if inside else slice(0, 0)

    def first(self, at):
        """The first row of the image that a band sees."""
        return at * self.step - self.windows.padding[0]

    def load(self, around):
        """[partitions, rows, W]"""
        rows, width = self.windows.image
        band = nl.ndarray((self.count, self.height, width), dtype=self.image.dtype, buffer=nl.sbuf)
        if length(self.inner) < self.count:
            nisa.memset(dst=band, value=around)
        if length(self.inner) > 0:
            pattern = [[self.step * width, length(self.inner)], [width, self.height], [1, width]]
            source = self.image.ap(pattern=pattern, offset=self.first(self.inner.start) * width)
            nisa.dma_copy(dst=band[self.inner], src=source)
        for at in range(self.count):
            first = self.first(at)
            seen = slice(max(0, first), min(rows, first + self.height))
            if (at < self.inner.start or at >= self.inner.stop) and length(seen) > 0:
                nisa.dma_copy(dst=band[at : at + 1, seen.start - first : seen.stop - first], src=self.image[seen])
        return band

    def pool(self, out, op, around):
        result = folded(self.load(around), self.windows, self.each, op, around, out.dtype)
        full = self.windows.size[0] // self.each
        whole = out[0 : full * self.each].reshape_dim(0, (full, self.each))
        nisa.dma_copy(dst=whole, src=result[0:full], engine=nisa.engine.gpsimd)
        if full < self.count:
            rest = out[full * self.each :]
            nisa.dma_copy(dst=rest, src=result[full:, 0 : rest.shape[0]], engine=nisa.engine.gpsimd)


def rows_together(rows, row_bytes, images):
    """Rows of the smaller image, of which each takes so many bytes of the larger one, that are made at once."""
    wanted = max(1, TILES // -(-images // ROWS))
    return max(1, min(BAND // row_bytes, -(-rows // wanted)))


def load_band(x, windows, rows, around):
    """The rows of the images that some rows of windows cover, [images, rows, W]."""
    first = rows.start * windows.stride[0] - windows.padding[0]
    height = windows.reach(0, length(rows))
    inside = slice(max(0, first), min(windows.image[0], first + height))
    band = nl.ndarray((x.shape[0], height, windows.image[1]), dtype=x.dtype, buffer=nl.sbuf)
    before, behind = inside.start - first, first + height - inside.stop
    for outside in (slice(0, before), slice(height - behind, height)):
        if length(outside) > 0:
            nisa.memset(dst=band[:, outside], value=around)
    nisa.dma_copy(dst=band[:, before : height - behind], src=x[:, inside])
    return band


def folded(band, windows, rows, op, around, dtype):
    """Each window's fold, [images, rows, columns]."""
    images = band.shape[0]
    (down, across), (tall, wide), width = windows.stride, windows.taps, windows.size[1]
    kept = dtype if op == nl.maximum else nl.float32
    lines = [band[:, slice(i, i + (rows - 1) * down + 1, down)] for i in range(tall)]
    whole = fold_taps(lines, op, kept, nisa.engine.vector)
    if wide > 1 or windows.padding[1] or across > 1:
        whole = padded(whole, windows, around)
        places = [whole[:, :, slice(j, j + (width - 1) * across + 1, across)] for j in range(wide)]
        whole = fold_taps(places, op, kept, nisa.engine.gpsimd)
    result = nl.ndarray((images, rows, width), dtype=dtype, buffer=nl.sbuf)
    factor = 1.0 / (tall * wide) if op == nl.add else 1.0
    nisa.activation(dst=result, op=nl.copy, data=whole, scale=factor)
    return result


def padded(data, windows, around):
    """[images, rows, W] with what the windows see beside the image."""
    images, rows, width = data.shape
    left, reach = windows.padding[1], windows.reach(1, windows.size[1])
    if not left and reach <= width:
        return data
    wider = nl.ndarray((images, rows, max(reach, left + width)), dtype=data.dtype, buffer=nl.sbuf)
    for outside in (slice(0, left), slice(left + width, wider.shape[2])):
        if length(outside) > 0:
            nisa.memset(dst=wider[:, :, outside], value=around)
    nisa.activation(dst=wider[:, :, left : left + width], op=nl.copy, data=data)
    return wider


def fold_taps(views, op, dtype, engine):
    """Views of the same shape, folded one after the other."""
    total = views[0]
    for view in views[1:]:
        here = nl.ndarray(view.shape, dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=here, data1=total, data2=view, op=op, engine=engine)
        total = here
    return total


@nki.jit
def upsample(x, scale=2):
    """x [N, C, H, W]: every element `scale` x `scale` times -> [N, C, H scale, W scale]."""
    N, C, H, W = x.shape
    down, across = pair(scale)
    out = nl.ndarray((N, C, H * down, W * across), dtype=x.dtype, buffer=nl.shared_hbm)
    source, target = x.reshape((N * C * H, W)), out.reshape((N * C * H, down, W * across))
    mine = share(N * C * H, 1)
    row = W * across * down * itemsize(x.dtype)
    left, first = length(mine), mine.start
    while left > 0:
        deep = max(1, min(BAND // row, -(-length(mine) // (ROWS * TILES)), -(-left // ROWS)))
        height = min(ROWS, left // deep)
        here = slice(first, first + height * deep)
        data = nl.ndarray((height, deep, W), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=data, src=source[here].reshape_dim(0, (height, deep)))
        result = repeated(data, down, across)
        nisa.dma_copy(dst=target[here].reshape_dim(0, (height, deep)), src=result, engine=nisa.engine.gpsimd)
        first, left = here.stop, left - height * deep
    return out


def repeated(data, down, across):
    """[rows, deep, W] -> [rows, deep, down, W across]; VectorE and ScalarE write rows by turns."""
    height, deep, width = data.shape
    result = nl.ndarray((height, deep, down, width, across), dtype=data.dtype, buffer=nl.sbuf)
    spread = data.expand_dim(3).broadcast(3, across)
    for r in range(down):
        if r % 2:
            nisa.activation(dst=result[:, :, r], op=nl.copy, data=spread)
        else:
            nisa.tensor_copy(dst=result[:, :, r], src=spread)
    return result.reshape((height, deep, down, width * across))
