"""Convolutions as products: channels lie on the partitions, and each tap of the filter is one product.

out[o, y, x] sums over taps (i, j) and channels c: weight[o, c, i, j] times x[c, y + i, x + j]. So a tap's weights
[128 channels, 128 outputs] are stationary, and the moving side is the same tile of the image for every tap, read from
another place: nothing is copied, and all taps and channels add up in PSUM. Weights come as they lie in HBM, outputs on
the partitions, and are turned once on TensorE for each 128 outputs; images are read once for each 128 outputs.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiles import BANK, ROWS, blocks, length, product


@nki.jit
def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """x [N, C, H, W] with weight [O, C / groups, kh, kw] and bias [O] -> [N, O, H', W']."""
    N, _, H, W = x.shape
    outputs, each, kh, kw = weight.shape
    plan = Plan((H, W), (kh, kw), stride, padding, dilation)
    out = nl.ndarray((N, outputs, *plan.size), dtype=x.dtype, buffer=nl.shared_hbm)
    for group in range(groups):
        channels = slice(group * each, (group + 1) * each)
        for part in blocks(outputs // groups, ROWS, group * (outputs // groups)):
            if not dealt(part):
                continue
            turned = turn_weights(weight[part], (kh, kw))
            offset = load_bias(bias, part)
            for n in range(N):
                convolve(out[n, part], x[n, channels], turned, offset, plan)
    return out


@nki.jit
def conv1d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """x [N, C, W] with weight [O, C / groups, k] and bias [O] -> [N, O, W']."""
    N, _, W = x.shape
    outputs, each, k = weight.shape
    plan = Plan((1, W), (1, k), (1, stride), (0, padding), (1, dilation))
    out = nl.ndarray((N, outputs, plan.size[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    for group in range(groups):
        channels = slice(group * each, (group + 1) * each)
        for part in blocks(outputs // groups, ROWS, group * (outputs // groups)):
            if not dealt(part):
                continue
            turned = turn_weights(weight[part], (1, k))
            offset = load_bias(bias, part)
            for n in range(N):
                image = x[n, channels].reshape((each, 1, W))
                result = out[n, part].reshape((length(part), 1, plan.size[1]))
                convolve(result, image, turned, offset, plan)
    return out


def dealt(part):
    """Whether a block of outputs is this program's: the programs of a launch take blocks in turn."""
    return (part.start // ROWS) % nl.num_programs(0) == nl.program_id(0)


class Plan(nl.NKIObject):
    """Where the taps lie, and how many rows of the result are made at once."""

    def __init__(self, image, taps, stride, padding, dilation):
        self.image, self.taps = image, taps
        self.stride, self.padding, self.dilation = pair(stride), pair(padding), pair(dilation)
        self.reach = [self.dilation[at] * (taps[at] - 1) + 1 for at in range(2)]
        self.size = [(image[at] + 2 * self.padding[at] - self.reach[at]) // self.stride[at] + 1 for at in range(2)]
        self.width = min(BANK, self.size[1])
        self.rows = max(1, min(self.size[0], BANK // self.width))

    def needed(self, axis, piece):
        """The rows or columns of the image that a piece of the result needs; they may lie outside of it."""
        first = piece.start * self.stride[axis] - self.padding[axis]
        return slice(first, first + (length(piece) - 1) * self.stride[axis] + self.reach[axis])

    def tap(self, axis, number, count):
        """Where one tap reads for `count` results."""
        first = number * self.dilation[axis]
        return slice(first, first + (count - 1) * self.stride[axis] + 1, self.stride[axis])


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def turn_weights(weight, taps):
    """[outputs, channels, taps] -> for each 128 channels and tap a tile [channels, outputs]."""
    outputs, channels = weight.shape[0], weight.shape[1]
    count = taps[0] * taps[1]
    lying = nl.ndarray((outputs, channels, count), dtype=weight.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=lying, src=weight.reshape((outputs, channels, count)))
    turned = []
    for part in blocks(channels, ROWS):
        standing = nl.ndarray((length(part), count, outputs), dtype=weight.dtype, buffer=nl.sbuf)
        for tap in range(count):
            in_psum = nl.ndarray((length(part), outputs), dtype=weight.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=in_psum, data=lying[:, part, tap], engine=nisa.engine.tensor)
            nisa.tensor_copy(dst=standing[:, tap], src=in_psum)
        turned.append(standing)
    return turned


def load_bias(bias, part):
    """[outputs, 1] fp32, None without a bias."""
    if bias == None:
        return None
    given = nl.ndarray((length(part), 1), dtype=bias.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=given, src=bias[part].reshape((length(part), 1)))
    wide = nl.ndarray((length(part), 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=wide, src=given)
    return wide


def convolve(out, x, turned, offset, plan):
    """One image [channels, H, W] to [outputs, H', W'], in pieces of one bank of PSUM."""
    outputs = out.shape[0]
    for rows in blocks(plan.size[0], plan.rows):
        for columns in blocks(plan.size[1], plan.width):
            height, width = length(rows), length(columns)
            sums = product(outputs, height * width)
            for number, part in enumerate(blocks(x.shape[0], ROWS)):
                tile = window(x[part], plan, rows, columns)
                add_taps(sums, tile, turned[number], plan, height, width)
            result = nl.ndarray((outputs, height, width), dtype=out.dtype, buffer=nl.sbuf)
            flat = result.reshape((outputs, height * width))
            if offset == None:
                nisa.tensor_copy(dst=flat, src=sums)
            else:
                nisa.tensor_scalar(dst=flat, data=sums, op0=nl.add, operand0=offset)
            nisa.dma_copy(dst=out[:, rows, columns], src=result, engine=nisa.engine.gpsimd)


def add_taps(sums, tile, weights, plan, height, width):
    """Every tap of some channels, one product each."""
    for i in range(plan.taps[0]):
        for j in range(plan.taps[1]):
            moving = tile[:, plan.tap(0, i, height), plan.tap(1, j, width)]
            nisa.nc_matmul(dst=sums, stationary=weights[:, i * plan.taps[1] + j], moving=moving)


def window(x, plan, rows, columns):
    """The part of an image that a piece of the result needs, zeros where it lies outside."""
    wanted = [plan.needed(0, rows), plan.needed(1, columns)]
    inside = [slice(max(0, each.start), min(plan.image[at], each.stop)) for at, each in enumerate(wanted)]
    tile = nl.ndarray((x.shape[0], length(wanted[0]), length(wanted[1])), dtype=x.dtype, buffer=nl.sbuf)
    if any([length(wanted[at]) != length(inside[at]) for at in range(2)]):
        nisa.memset(dst=tile, value=0.0)
    places = [slice(inside[at].start - wanted[at].start, inside[at].stop - wanted[at].start) for at in range(2)]
    if all([length(each) > 0 for each in inside]):
        nisa.dma_copy(dst=tile[:, places[0], places[1]], src=x[:, inside[0], inside[1]])
    return tile
