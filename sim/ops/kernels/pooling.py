"""Pooling and upsampling: images change their size, and every byte of them is read once.

[N, C, H, W] is N C images of one channel; an image, or a band of its rows, lies on a partition. VectorE folds a
window's rows, which are runs, and GpSimd what is left of its columns, so that a window of 3 x 3 takes four passes and
not eight; the rows and columns around the image are filled with what changes nothing. Upsampling repeats columns on chip and rows
too, so that what is stored is one run.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiles import ROWS, blocks, itemsize, length, share

LEAST = -3.0e38
BAND = 16384  # bytes a partition of the larger image
TILES = 8  # that even a small tensor is cut into, so that load, computation and store overlap


@nki.jit
def max_pool2d(x, window=2, stride=None, padding=0):
    """x [N, C, H, W]: the largest value in each window -> [N, C, H', W']."""
    return pooled(x, Windows(x.shape, window, stride, padding), nl.maximum, LEAST)


@nki.jit
def avg_pool2d(x, window=2, stride=None, padding=0):
    """x [N, C, H, W]: the mean of each window, zeros around the image counted -> [N, C, H', W']."""
    return pooled(x, Windows(x.shape, window, stride, padding), nl.add, 0.0)


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


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
    factor = 1.0 / (windows.taps[0] * windows.taps[1]) if op == nl.add else None
    row = windows.reach(1, windows.size[1]) * itemsize(x.dtype)
    mine = share(windows.images, 1)
    for images in blocks(length(mine), ROWS, mine.start):
        for rows in blocks(shape[1], rows_together(shape[1], row * windows.stride[0], length(mine))):
            band = load_band(source[images], windows, rows, around)
            result = folded(band, windows, length(rows), op, factor, out.dtype)
            nisa.dma_copy(dst=target[images, rows], src=result, engine=nisa.engine.gpsimd)
    return out


def rows_together(rows, row_bytes, images):
    """Rows of the smaller image, of which each takes so many bytes of the larger one, that are made at once."""
    wanted = max(1, TILES // -(-images // ROWS))
    return max(1, min(BAND // row_bytes, -(-rows // wanted)))


def load_band(x, windows, rows, around):
    """The rows of the images that some rows of windows cover, and all columns, [images, rows, columns]."""
    first = rows.start * windows.stride[0] - windows.padding[0]
    height, width = windows.reach(0, length(rows)), windows.reach(1, windows.size[1])
    inside = slice(max(0, first), min(windows.image[0], first + height))
    left = windows.padding[1]
    columns = slice(0, min(windows.image[1], width - left))
    band = nl.ndarray((x.shape[0], height, width), dtype=x.dtype, buffer=nl.sbuf)
    if length(inside) < height or length(columns) < width:
        nisa.memset(dst=band, value=around)
    if length(inside) > 0 and length(columns) > 0:
        place = band[:, inside.start - first : inside.stop - first, left : left + length(columns)]
        nisa.dma_copy(dst=place, src=x[:, inside, columns])
    return band


def folded(band, windows, rows, op, factor, dtype):
    """Each window's fold, [images, rows, columns]."""
    images = band.shape[0]
    (down, across), (tall, wide), width = windows.stride, windows.taps, windows.size[1]
    kept = dtype if factor == None else nl.float32
    downwards = [band[:, slice(i, i + (rows - 1) * down + 1, down)] for i in range(tall)]
    folded_down = fold_taps(downwards, op, kept, nisa.engine.vector)
    sideways = [folded_down[:, :, slice(j, j + (width - 1) * across + 1, across)] for j in range(wide)]
    whole = fold_taps(sideways, op, kept, nisa.engine.gpsimd)
    if factor == None and tall * wide > 1:
        return whole
    result = nl.ndarray((images, rows, width), dtype=dtype, buffer=nl.sbuf)
    nisa.activation(dst=result, op=nl.copy, data=whole, scale=factor or 1.0)
    return result


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
