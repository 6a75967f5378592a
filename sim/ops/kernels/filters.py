"""The weights of a convolution as TensorE wants them: contracted channels on the partitions, outputs along them.

Channels are cut into packs of at most 128. A pack with so few channels that several taps fit on the partitions does
them at once. Of a convolution in groups some groups share a product, whose weights are 0 between different groups.
"""

import nki.isa as nisa
import nki.language as nl

from .tiles import BANK_BYTES, ROWS, blocks, even, itemsize, leave_psum, length


class Filters(nl.NKIObject):
    """The weights in HBM, and how they are cut.

    layout  : OIHW, HWIO, or IOHW, whose taps are taken in reverse, as the gradient of a convolution needs them
    taps    : (kh, kw); outputs : all outputs
    joined  : groups that share a product
    packs   : of the channels of such groups
    """

    def __init__(self, weight, groups, layout):
        assert layout == "OIHW" or groups == 1, "weights in groups as OIHW"
        self.weight, self.groups, self.turned = weight, groups, layout == "OIHW"
        if layout == "IOHW":
            self.each, self.outputs, self.taps = weight.shape[0], weight.shape[1], tuple(weight.shape[2:])
        elif self.turned:
            self.outputs, self.each, self.taps = weight.shape[0], weight.shape[1], tuple(weight.shape[2:])
        else:
            self.outputs, self.each, self.taps = weight.shape[3], weight.shape[2], tuple(weight.shape[:2])
        self.mirrored = layout == "IOHW"
        self.own = self.outputs // groups
        self.joined = max(1, min(groups, ROWS // self.each, ROWS // self.own)) if groups > 1 else 1
        self.packs = self.cut(slice(0, self.each * self.joined))
        self.tiles_at_once = len(self.packs)

    def cut(self, channels):
        """Packs of at most 128 channels."""
        return [
            Pack(part, self.taps, self.joined > 1 or self.mirrored)
            for part in blocks(length(channels), ROWS, channels.start)
        ]

    def bytes_a_partition(self, outputs):
        steps = sum([len(pack.steps) for pack in self.packs])
        return steps * outputs * itemsize(self.weight.dtype)

    def units(self, room):
        """What is done at a time: outputs whose weights take at most `room` bytes a partition, of one set of groups."""
        if self.groups > 1:
            sets = blocks(self.groups, self.joined)
            return [part for some in sets for part in self.of_groups(some, room)]
        return self.of_groups(slice(0, 1), room)

    def of_groups(self, some, room):
        outputs = slice(some.start * self.own, some.stop * self.own)
        most = max(1, room // max(1, self.bytes_a_partition(1) * ROWS)) * ROWS
        packs = self.packs
        if self.groups > 1:
            packs = self.cut(slice(some.start * self.each, some.stop * self.each))
        return [
            Unit(part, blocks(length(part), even(length(part), ROWS, 1), part.start), packs)
            for part in blocks(length(outputs), even(length(outputs), most, ROWS), outputs.start)
        ]

    def load(self, unit):
        """The packs of a unit with their weights on chip."""
        if self.mirrored:
            return [Standing(pack, self.mirror(pack, unit.outputs), unit) for pack in unit.packs]
        return [self.turn(unit, pack) if self.turned else self.straight(unit, pack) for pack in unit.packs]

    def straight(self, unit, pack):
        """[kh, kw, C, O]: runs of outputs."""
        return Standing(pack, self.some_steps(pack, slice(0, len(pack.steps)), unit.outputs), unit)

    def some_steps(self, pack, steps, outputs):
        """[partitions, steps, outputs] of a weight [kh, kw, C, O]."""
        shape = (length(pack.channels) * pack.copies, length(steps), length(outputs))
        standing = nl.ndarray(shape, dtype=self.weight.dtype, buffer=nl.sbuf)
        given = self.weight.flatten_dims(0, 1)[:, pack.channels, outputs]
        if pack.copies == 1:
            nisa.dma_copy(dst=standing, src=given[steps].permute((1, 0, 2)))
            return standing
        for at in range(steps.start, steps.stop):
            first, wide = pack.steps[at], pack.width(pack.steps[at])
            place = standing[0 : wide * length(pack.channels), at - steps.start]
            nisa.dma_copy(dst=place, src=given[first : first + wide])
        return standing

    def mirror(self, pack, outputs):
        """[channels, taps, outputs] of a weight [I, O, kh, kw], as it lies, with the last tap first."""
        taps = self.taps[0] * self.taps[1]
        lying = nl.ndarray((length(pack.channels), length(outputs), taps), dtype=self.weight.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=lying, src=self.weight[pack.channels, outputs].flatten_dims(2, 3))
        standing = nl.ndarray((length(pack.channels), taps, length(outputs)), dtype=self.weight.dtype, buffer=nl.sbuf)
        for tap in range(taps):
            leave_psum(standing[:, tap], lying[:, :, taps - 1 - tap], tap)
        return standing

    def turn(self, unit, pack):
        """[O, C, kh, kw]: outputs come on the partitions and TensorE turns them, several steps to a bank of PSUM."""
        dtype = self.weight.dtype
        count, taps = length(pack.channels), self.taps[0] * self.taps[1]
        standing = nl.ndarray((count * pack.copies, len(pack.steps), length(unit.outputs)), dtype=dtype, buffer=nl.sbuf)
        turn = 0
        for outputs in unit.tiles:
            lying = self.lying(outputs, pack, taps)
            inside = slice(outputs.start - unit.outputs.start, outputs.stop - unit.outputs.start)
            together = max(1, BANK_BYTES // (length(outputs) * itemsize(dtype)))
            for group in blocks(len(pack.steps), together):
                in_psum = nl.ndarray((count * pack.copies, length(group), length(outputs)), dtype=dtype, buffer=nl.psum)
                full = []
                for at in range(group.start, group.stop):
                    first, wide = pack.steps[at], pack.width(pack.steps[at])
                    data = lying[:, first : first + wide]
                    place = in_psum[0 : wide * count, at - group.start]
                    nisa.nc_transpose(dst=place, data=data, engine=nisa.engine.tensor)
                    full.append(wide == pack.copies)
                for run, height in runs(full, count * pack.copies, pack, group, count):
                    turn += 1
                    source = in_psum[0:height, slice(run.start - group.start, run.stop - group.start)]
                    leave_psum(standing[0:height, run, inside], source, turn)
        return Standing(pack, standing, unit)

    def lying(self, outputs, pack, taps):
        """[outputs, taps, channels] of a pack, with zeros between groups."""
        count = length(pack.channels)
        given = nl.ndarray((length(outputs), min(count, self.each), taps), dtype=self.weight.dtype, buffer=nl.sbuf)
        channels = slice(0, self.each)
        if self.joined == 1:
            first = pack.channels.start % self.each
            channels = slice(first, first + count)
        nisa.dma_copy(dst=given, src=self.weight[outputs, channels].flatten_dims(2, 3))
        if self.joined == 1 and pack.copies == 1:
            return given.permute((0, 2, 1))
        lying = nl.ndarray((length(outputs), taps, count), dtype=self.weight.dtype, buffer=nl.sbuf)
        if self.joined == 1:
            nisa.tensor_copy(dst=lying, src=given.permute((0, 2, 1)))
            return lying
        groups = count // self.each
        own = self.own_group(length(outputs), groups)
        spread = lying.reshape((length(outputs), taps, groups, self.each))
        for tap in range(taps):
            values = given[:, :, tap].expand_dim(1).broadcast(1, groups)
            nisa.tensor_tensor(dst=spread[:, tap], data1=own, data2=values, op=nl.multiply)
        return lying

    def own_group(self, outputs, groups):
        """[outputs, groups, channels of each]: 1 where the output is of the group."""
        ones = nl.ndarray((outputs, groups, self.each), dtype=self.weight.dtype, buffer=nl.sbuf)
        nisa.memset(dst=ones, value=1.0)
        for step, first, sign in ((-self.own, 0, 1), (self.own, self.own - 1, -1)):
            nisa.affine_select(
                dst=ones,
                pattern=[[step, groups], [0, self.each]],
                offset=first,
                channel_multiplier=sign,
                on_true_tile=ones,
                on_false_value=0.0,
                cmp_op=nl.greater_equal,
            )
        return ones


def runs(full, height, pack, group, count):
    """Neighbouring steps of a group with as many partitions: (steps, partitions)."""
    found, first = [], group.start
    for at in range(group.start, group.stop):
        here = full[at - group.start]
        if at + 1 == group.stop or full[at + 1 - group.start] != here:
            partitions = height if here else pack.width(pack.steps[at]) * count
            found.append((slice(first, at + 1), partitions))
            first = at + 1
    return found


class Unit(nl.NKIObject):
    """Outputs that are done at a time, in tiles of at most 128, and the packs of their channels."""

    def __init__(self, outputs, tiles, packs):
        self.outputs, self.tiles, self.packs = outputs, tiles, packs


class Pack(nl.NKIObject):
    """Some channels, and how many taps are done at once: neighbours in a row of the filter, or whole rows.

    copies : of the channels on the partitions; steps : the first tap of each product
    """

    def __init__(self, channels, taps, joined):
        count = length(channels)
        self.channels, self.taps = channels, taps
        tall, wide = taps
        fits = 1 if joined else ROWS // count
        if fits >= wide:
            self.rows, self.across = min(tall, fits // wide), wide
        else:
            self.rows, self.across = 1, max(1, fits)
        self.copies = self.rows * self.across
        self.steps = [i * wide + j for i in range(0, tall, self.rows) for j in range(0, wide, self.across)]

    def width(self, first):
        """Taps that are done at once from one on."""
        i, j = first // self.taps[1], first % self.taps[1]
        return min(self.rows, self.taps[0] - i) * min(self.across, self.taps[1] - j)

    def repeat(self, band, grid):
        """Copies of the channels in the first partitions, each moved to where its tap reads."""
        if self.copies == 1:
            return
        count = length(self.channels)
        size, row = band.shape[1] * band.shape[2] * band.shape[3], band.shape[3]
        flat = band.reshape((band.shape[0], size))
        for at in range(1, self.copies):
            moved = at // self.across * grid.dilation[0] * row + at % self.across * grid.dilation[1]
            here = flat[at * count : (at + 1) * count, 0 : size - moved]
            nisa.dma_copy(dst=here, src=flat[0:count, moved:], engine=nisa.engine.scalar)

    def seen(self, band, at, piece, grid):
        """What one step sees of a band for a piece of the result, [partitions, images, rows, columns]."""
        images, height, width = piece
        first = self.steps[at]
        rows, columns = grid.tap(0, first // self.taps[1], height), grid.tap(1, first % self.taps[1], width)
        return band[0 : self.width(first) * length(self.channels), images, rows, columns]


class Standing(nl.NKIObject):
    """A pack with its weights on chip, [channels and taps, steps, outputs]."""

    def __init__(self, pack, weights, unit):
        self.pack, self.weights, self.unit = pack, weights, unit

    def add(self, sums, band, number, piece, grid):
        """Every tap of some outputs and one piece of the result."""
        outputs, first = self.unit.tiles[number], self.unit.outputs.start
        inside = slice(outputs.start - first, outputs.stop - first)
        for at in range(len(self.pack.steps)):
            moving = self.pack.seen(band, at, piece, grid)
            nisa.nc_matmul(dst=sums, stationary=self.weights[0 : moving.shape[0], at, inside], moving=moving)
