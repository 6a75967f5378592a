"""Normalisation of groups of channels: a group is one run of bytes in HBM, and lies on several partitions.

[N, C, H, W] with C in G groups is a matrix with N G rows. To fill the partitions each row is cut into parts, whole
channels or parts of one, so that weight and bias are a number or a few for each partition. VectorE counts means and
variances of parts, a product with ones adds up those of a group and gives each part the sum, and the elements are
scaled where they are. Some rows are on chip at a time; while they are scaled and stored, the next are counted.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .elementwise import size_of
from .matmul import FUNCTIONS
from .norms import same_row
from .tiles import ROWS, blocks, itemsize, length, product, share, tile

CHUNK = 8192  # bytes a partition of one load
HELD = 32768  # bytes a partition that stay on chip, of each block of rows
BLOCK = 1 << 19  # bytes of all rows of a block, at least, so that latencies do not count
BLOCKS = 8  # that a tensor is cut into, if they are so large
WIDE = 128  # elements of a channel from which on each channel is an instruction


@nki.jit
def group_norm(x, weight, bias, groups=32, eps=1e-5, activation=None):
    """(x [N, C, …] - mean) / sqrt(variance + eps) of each of the groups of C, times weight [C], plus bias [C].

    activation : of the result, which costs nothing here, as ScalarE scales and shifts on the way to it
    """
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, each, size = x.shape[0] * groups, x.shape[1] // groups, size_of(x.shape[2:])
    source, target = [one.reshape((rows, each * size)) for one in (x, out)]
    function = FUNCTIONS[activation] if activation else nl.copy
    mine = share(rows, 1)
    waiting = None
    for some in blocks(length(mine), rows_together(length(mine), each, size, itemsize(x.dtype)), mine.start):
        parts = Parts(some, groups, each, size)
        elements = Elements(source, parts)
        scale, shift = factors(elements, [parts.load_vector(one) for one in (weight, bias)], eps)
        # Engines work in order: the next rows are counted before those that have been are scaled.
        if waiting != None:
            waiting.normalise(target, function)
        waiting = Counted(elements, scale, shift)
    if waiting != None:
        waiting.normalise(target, function)
    return out


def rows_together(rows, each, size, bytes_each):
    """How many rows are on chip at a time: so many that they fill most partitions, each with little enough."""
    wanted = max(1, min(BLOCKS, rows * each * size * bytes_each // BLOCK))
    best, filled = 1, 0
    for count in range(1, min(ROWS, -(-rows // wanted)) + 1):
        parts = most_parts(ROWS // count, each, size)
        used = rows * parts / -(-rows // count)
        if used >= 0.85 * filled and each * size * bytes_each <= HELD * parts:
            best, filled = count, max(used, filled)
    return best


def most_parts(room, each, size):
    """The most parts of a row, at most `room`, that are whole channels or equal parts of one."""
    best = 1
    for count in range(2, room + 1):
        if each % count == 0 or (count % each == 0 and size % (count // each) == 0):
            best = count
    return best


class Parts(nl.NKIObject):
    """How some rows lie on the partitions.

    count    : parts of each row
    channels : of a part, and `size` elements of each of them
    height   : partitions
    """

    def __init__(self, rows, groups, each, size, count=None):
        self.rows, self.groups, self.each = rows, groups, each
        self.count = most_parts(ROWS // length(rows), each, size) if count == None else count
        self.channels = max(1, each // self.count)
        self.size = each * size // (self.count * self.channels)
        self.height = length(rows) * self.count

    def view(self, tensor):
        """[parts, channels, elements] of a tensor with all rows in HBM."""
        return tensor[self.rows].reshape((self.height, self.channels, self.size))

    def load_vector(self, vector):
        """[C] in HBM as fp32 [parts, channels]; the rows of an image begin again at channel 0."""
        repeated = max(1, self.count // self.each)
        loaded, wide = [tile(self.height, self.channels, kind) for kind in (vector.dtype, nl.float32)]
        first = self.rows.start
        while first < self.rows.stop:
            group = first % self.groups
            count = min(self.rows.stop - first, self.groups - group)
            given = vector[group * self.each : (group + count) * self.each]
            shape = (count * self.each // self.channels, 1, self.channels)
            here = (first - self.rows.start) * self.count
            place = loaded[here : here + count * self.count]
            nisa.dma_copy(dst=place, src=given.reshape(shape).broadcast(1, repeated))
            first += count
        nisa.tensor_copy(dst=wide, src=loaded)
        return wide

    def chunks(self, room):
        """(channels, elements of each) of the pieces of a part that are loaded together."""
        if self.size >= room:
            return [(slice(c, c + 1), part) for c in range(self.channels) for part in blocks(self.size, room)]
        whole = slice(0, self.size)
        return [(some, whole) for some in blocks(self.channels, room // self.size)]


class Elements(nl.NKIObject):
    """The elements of some rows, in chunks; what does not fit on chip is read again."""

    def __init__(self, tensor, parts):
        self.tensor, self.parts = parts.view(tensor), parts
        self.chunks = parts.chunks(CHUNK // itemsize(tensor.dtype))
        self.fits = parts.channels * parts.size * itemsize(tensor.dtype) <= HELD
        self.kept = {}

    def get(self, number):
        """[parts, channels, elements] of one chunk."""
        if str(number) in self.kept:
            return self.kept[str(number)]
        channels, part = self.chunks[number]
        shape = (self.parts.height, length(channels), length(part))
        loaded = nl.ndarray(shape, dtype=self.tensor.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=loaded, src=self.tensor[:, channels, part])
        if self.fits:
            self.kept[str(number)] = loaded
        return loaded


class Counted(nl.NKIObject):
    """Rows whose factors are known."""

    def __init__(self, elements, scale, shift):
        self.elements, self.scale, self.shift = elements, scale, shift

    def normalise(self, out, function):
        target = self.elements.parts.view(out)
        for number, (channels, part) in enumerate(self.elements.chunks):
            data = self.elements.get(number)
            result = nl.ndarray(data.shape, dtype=out.dtype, buffer=nl.sbuf)
            apply(result, data, self.scale[:, channels], self.shift[:, channels], function)
            nisa.dma_copy(dst=target[:, channels, part], src=result, engine=nisa.engine.gpsimd)


def factors(elements, vectors, eps):
    """What the elements of each channel are multiplied with, and what is added, fp32 [parts, channels].

    GpSimd has time for these few numbers, which wait for one another.
    """
    weight, bias = vectors
    parts, idle = elements.parts, nisa.engine.gpsimd
    negative, scale = spread(counted(elements), parts, eps)
    factor, shift = tile(parts.height, parts.channels), tile(parts.height, parts.channels)
    nisa.tensor_scalar(dst=factor, data=weight, op0=nl.multiply, operand0=scale, engine=idle)
    nisa.tensor_scalar(dst=shift, data=factor, op0=nl.multiply, operand0=negative, engine=idle)
    nisa.tensor_tensor(dst=shift, data1=bias, data2=shift, op=nl.add, engine=idle)
    return factor, shift


def counted(elements):
    """Mean and variance of each part, [parts, 2]."""
    height = elements.parts.height
    limit = nl.tile_size.bn_stats_fmax
    sizes = [length(channels) * length(part) for channels, part in elements.chunks]
    pieces = [(number, piece) for number, size in enumerate(sizes) for piece in blocks(size, limit)]
    found = nl.ndarray((height, len(pieces), 6), dtype=nl.float32, buffer=nl.sbuf)
    flat, held = None, -1
    for at, (number, piece) in enumerate(pieces):
        if number != held:
            flat, held = elements.get(number).reshape((height, sizes[number])), number
        nisa.bn_stats(dst=found[:, at], data=flat[:, piece])
    both = tile(height, 2)
    nisa.bn_aggr(dst=both, data=found.reshape((height, 6 * len(pieces))))
    return both


def spread(both, parts, eps):
    """-mean and 1 / sqrt(variance + eps) of the row that each part belongs to."""
    height, idle = parts.height, nisa.engine.gpsimd
    negative, scale = tile(height, 1), tile(height, 1)
    mean, variance = both[:, 0:1], both[:, 1:2]
    if parts.count == 1:
        nisa.tensor_scalar(dst=negative, data=mean, op0=nl.multiply, operand0=-1.0, engine=idle)
        nisa.tensor_scalar(dst=scale, data=variance, op0=nl.add, operand0=eps, op1=nl.power, operand1=-0.5)
        return negative, scale
    same = same_row(length(parts.rows), parts.count)
    total, squares, apart = product(height, 1), product(height, 1), tile(height, 1)
    nisa.nc_matmul(dst=total, stationary=same, moving=mean)
    nisa.activation(dst=negative, op=nl.copy, data=total, scale=-1.0 / parts.count)
    # The variance of a row is that of its parts and that of their means; a mean of squares would lose digits.
    nisa.tensor_tensor(dst=apart, data1=mean, data2=negative, op=nl.add, engine=idle)
    nisa.tensor_tensor(dst=apart, data1=apart, data2=apart, op=nl.multiply, engine=idle)
    nisa.tensor_tensor(dst=apart, data1=apart, data2=variance, op=nl.add, engine=idle)
    nisa.nc_matmul(dst=squares, stationary=same, moving=apart)
    # GpSimd takes the root: ScalarE would change its table for it, and back.
    nisa.activation(dst=apart, op=nl.copy, data=squares, scale=1.0 / parts.count)
    nisa.tensor_scalar(dst=scale, data=apart, op0=nl.add, operand0=eps, op1=nl.power, operand1=-0.5)
    return negative, scale


def apply(result, data, factor, shift, function):
    """function(data * factor + shift), of each channel."""
    _, channels, size = data.shape
    if size < WIDE and channels > 1:
        scaled = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
        wide = [one.expand_dim(2).broadcast(2, size) for one in (factor, shift)]
        nisa.tensor_tensor(dst=scaled, data1=data, data2=wide[0], op=nl.multiply)
        if function == nl.copy:
            nisa.tensor_tensor(dst=result, data1=scaled, data2=wide[1], op=nl.add, engine=nisa.engine.gpsimd)
        else:
            nisa.tensor_tensor(dst=scaled, data1=scaled, data2=wide[1], op=nl.add, engine=nisa.engine.gpsimd)
            nisa.activation(dst=result, op=function, data=scaled)
        return
    for c in range(channels):
        own = slice(c, c + 1)
        if c % 2 and function == nl.copy:
            numbers = {"operand0": factor[:, own], "operand1": shift[:, own]}
            nisa.tensor_scalar(dst=result[:, c], data=data[:, c], op0=nl.multiply, op1=nl.add, **numbers)
        else:
            nisa.activation(dst=result[:, c], op=function, data=data[:, c], scale=factor[:, own], bias=shift[:, own])
